"""The embedded broker and the producer, against the real thing."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.cli.main import build
from lakehouse.demo.kafka_broker import Broker, free_port, start_broker
from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from lakehouse.sources.kafka_produce import produce

Read = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def read_topic(bootstrap: str, topic: str) -> dict[int, list[Read]]:
    """Everything in a topic, partition by partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.partition.eof": False}
    )
    found: dict[int, list[Read]] = {}
    try:
        for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            place = TopicPartition(topic, number, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=20)
            consumer.assign([place])
            messages = consumer.consume(end, timeout=20) if end else []
            found[number] = [
                (message.key(), message.value(), message.headers() or []) for message in messages
            ]
    finally:
        consumer.close()
    return found


# librdkafka takes header names as C strings: a NUL would end them
header_names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5)
bytes_or_none = st.none() | st.binary(max_size=20)
MESSAGES = st.lists(
    st.builds(
        Message,
        topic=st.just("recorded"),
        partition=st.integers(0, 2),
        offset=st.integers(0, 2**40),
        key=bytes_or_none,
        value=bytes_or_none,
        headers=st.lists(st.tuples(header_names, bytes_or_none), max_size=2).map(tuple),
        timestamp=st.none() | st.integers(1, 2**41),
    ),
    unique_by=lambda message: message.offset,
    min_size=1,
    max_size=30,
)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=MESSAGES)
def test_a_topic_holds_what_was_produced_partition_by_partition_in_the_order_of_offsets(
    broker: Broker, messages: list[Message]
) -> None:
    topic = uuid.uuid4().hex
    expected: dict[int, list[Read]] = {0: [], 1: [], 2: []}
    for message in sorted(messages, key=lambda message: message.offset):
        expected[message.partition].append((message.key, message.value, list(message.headers)))

    produced = produce(messages, broker.bootstrap, topic, partitions=3)

    assert read_topic(broker.bootstrap, topic) == expected
    assert produced["messages"] == len(messages)
    assert produced["partitions"] == [
        {"topic": topic, "partition": number, "messages": len(found)}
        for number, found in expected.items()
        if found
    ]


def test_a_recording_is_produced_from_the_command_line(
    broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coded = [base64.b64encode(data).decode() for data in (b"k", b"v0", b"v1")]
    lines = [
        {"partition": 1, "offset": offset, "key_b64": coded[0], "value_b64": coded[1 + offset]}
        for offset in (0, 1)
    ]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [
        "produce",
        str(tmp_path / "dump.jsonl"),
        "--topic",
        topic,
        "--bootstrap-servers",
        broker.bootstrap,
    ]

    build()([*words, "--option", "kafka.client.id=dump"], standalone_mode=False)

    assert read_topic(broker.bootstrap, topic) == {0: [], 1: [(b"k", b"v0", []), (b"k", b"v1", [])]}
    assert capsys.readouterr().out.splitlines()[0] == "messages: 2"


def test_a_message_keeps_the_time_that_was_recorded(broker: Broker, topic: str) -> None:
    produce([Message(topic, 0, 0, b"k", b"v", timestamp=1_700_000_000_000)], broker.bootstrap)

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, timeout=20)
    consumer.close()
    assert message.timestamp()[1] == 1_700_000_000_000


def test_messages_of_years_ago_are_kept(broker: Broker, topic: str) -> None:
    produce([Message(topic, 0, 0, b"k", b"v", timestamp=1)], broker.bootstrap)

    time.sleep(3)  # the broker looks every second for what is too old

    assert [value for _, value, _ in read_topic(broker.bootstrap, topic)[0]] == [b"v"]


def test_a_topic_grows_to_the_partitions_that_a_later_recording_needs(broker: Broker, topic: str) -> None:
    produce([Message(topic, 0, 0, b"k", b"v")], broker.bootstrap)

    produce([Message(topic, 3, 0, b"k", b"w")], broker.bootstrap)

    assert read_topic(broker.bootstrap, topic) == {0: [(b"k", b"v", [])], 1: [], 2: [], 3: [(b"k", b"w", [])]}


def test_a_topic_of_more_partitions_than_a_request_may_have_is_made_in_steps(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker refuses 10,000 at once: "Unable to perform excessively large batch operation"."""
    monkeypatch.setattr("lakehouse.sources.kafka_produce._PARTITIONS_AT_ONCE", 2)

    produce([Message(topic, 0, 0, None, b"one")], broker.bootstrap, partitions=5)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5


def test_a_topic_name_that_kafka_does_not_allow_is_one_sentence(broker: Broker) -> None:
    with pytest.raises(
        EnvironmentError_,
        match=rf"^{broker.bootstrap}: expected a Kafka broker that takes messages, got: .*invalid",
    ):
        produce([Message("no spaces", 0, 0, None, b"v")], broker.bootstrap)


def test_messages_outlive_an_orderly_restart_and_a_killed_broker(tmp_path: Path) -> None:
    with start_broker(tmp_path / "kafka") as broker:
        bootstrap = broker.bootstrap
        produce([Message("t", 0, 0, b"a", b"1")], bootstrap)
        broker.restart()
        produce([Message("t", 0, 0, b"b", b"2")], bootstrap)
        broker.stop(grace=0)
        broker.start()

        assert broker.bootstrap == bootstrap
        assert read_topic(bootstrap, "t") == {0: [(b"a", b"1", []), (b"b", b"2", [])]}


def test_a_second_broker_on_the_same_folder_is_refused_and_the_first_goes_on(broker: Broker) -> None:
    with (
        pytest.raises(
            EnvironmentError_,
            match=f"^{broker.folder}: expected no other broker on this folder, got a running one; end it or",
        ),
        start_broker(broker.folder),
    ):
        pass

    produce([Message(uuid.uuid4().hex, 0, 0, None, b"v")], broker.bootstrap)


def test_a_broker_ends_with_the_process_that_started_it_even_when_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from lakehouse.demo.kafka_broker import start_broker\n"
        "with start_broker(Path(sys.argv[1])) as broker: print(broker.port, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)

    deadline = time.monotonic() + 20
    while _answers(port) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert not _answers(port)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_that_is_chosen_is_none_of_outgoing_connections(broker: Broker) -> None:
    """An attempt to connect to one of those may be connected to itself, which keeps the broker from it."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert max(free_port() for _ in range(20)) < lowest
    assert broker.port < lowest


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(EnvironmentError_) as refused, start_broker(tmp_path, port):
            pass

    assert str(refused.value) == (
        f"127.0.0.1:{port}: expected a free port, got: Address already in use; choose another one, "
        "or 0 for any"
    )


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kafka"

    with pytest.raises(EnvironmentError_) as refused, start_broker(folder):
        pass

    assert (
        str(refused.value)
        == f"{folder}: expected a folder that can be written, got: Not a directory; choose another folder"
    )


def test_a_broker_that_does_not_start_says_why_and_where_its_log_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=2\n")

    with pytest.raises(EnvironmentError_) as refused, start_broker(tmp_path):
        pass

    text = str(refused.value)
    assert text.startswith(f"{tmp_path}: expected a Kafka broker to start, got: ")
    assert "Stored node id 2 doesn't match" in text
    assert text.endswith(f"; see {tmp_path / 'broker.log'}")


def test_producing_to_nobody_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.sources.kafka_produce.TIMEOUT", 1.0)

    with pytest.raises(
        EnvironmentError_, match=r"^127\.0\.0\.1:9: expected a Kafka broker that takes messages, got: "
    ):
        produce([Message("t", 0, 0, None, b"v")], "127.0.0.1:9")
