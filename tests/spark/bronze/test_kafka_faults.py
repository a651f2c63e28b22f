"""What a broker and a topic can do to a run, with the real ones: garbage, retention, new partitions, a topic
created anew, a restart.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from lakehouse.config.load import Config
from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.demo.kafka_broker import Broker, start_broker
from lakehouse.demo.run import RECORDING
from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.sources.kafka_admin import list_topics
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.recording import read_recording
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters, list_dead_letters
from lakehouse.spark.operations.epochs import retire_partition
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.status import status
from tests.spark.pipeline.test_layers import garbage
from tests.support.engine import Memory
from tests.support.lakes import in_order, shown
from tests.support.paths import DATA

TOLD = list(read_recording(RECORDING))
LAYERS = ("bronze", "silver", "gold")


class Shop:
    """A topic, a lake, and what is done with them."""

    def __init__(self, spark: Any, broker: Broker, topic: str, root: Path) -> None:
        self.spark, self.broker, self.topic, self.root, self.said = spark, broker, topic, root, list[str]()
        kafka = KafkaInput(bootstrap_servers=broker.bootstrap, topics=[topic])
        source = SourceConfig(format="ticdc-open", kafka=kafka, time_zone="UTC", tables="auto")
        self.config = Config(sources={"shop": source}, tables={}, documents={})
        self.partitions = 3
        self.lake, self.admin = str(root / "lake"), AdminClient({"bootstrap.servers": broker.bootstrap})

    def produce(self, messages: Iterable[Message]) -> None:
        produce(list(messages), self.broker.bootstrap, self.topic, partitions=self.partitions)

    def run(self, *layers: str) -> dict[str, Any]:
        return run(self.config, layers or LAYERS, True, (), self.lake, self.said.append)[0]

    def states(self) -> dict[str, tuple[str, str | None]]:
        return {
            table["table"]: (table["state"], table["why"])
            for table in status(self.config, self.lake)[0]["tables"]
        }

    def landed(self) -> dict[tuple[str, int], list[int]]:
        """Offsets in bronze by incarnation and partition, every copy of them."""
        found: dict[tuple[str, int], list[int]] = {}
        for row in Lake(self.lake).read(self.spark, "bronze", "shop").orderBy("offset").collect():
            found.setdefault((row.incarnation, row.partition), []).append(row.offset)
        return found

    def offsets(self) -> dict[int, tuple[int, int]]:
        return self.listed().offsets

    def listed(self) -> Any:
        return list_topics(self.broker.bootstrap, {}, [self.topic], None)[0]

    def tables(self) -> Any:
        return shown(Path(self.lake), self.root / "shown")

    def wait(self, futures: Any) -> None:
        for future in futures.values():
            future.result(30)


def engine(messages: Iterable[Message]) -> Any:
    silver = Memory("ticdc-open", {"time_zone": "UTC"}).add(messages)
    return in_order(silver.tables(silver.watermark))


@pytest.fixture
def shop(spark: Any, broker: Broker, topic: str, tmp_path: Path) -> Shop:
    return Shop(spark, broker, topic, tmp_path)


def test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is(
    shop: Shop,
) -> None:
    bad = [Message(shop.topic, 0, 1000 + number, key, value) for number, (key, value) in enumerate(garbage())]
    shop.produce([*TOLD, *bad])
    shop.run()
    assert shop.tables() == engine(TOLD)
    noise = f"{len(bad)} dead letters of unknown tables in the source"
    assert shop.states() == {"shop.clients": ("incomplete", noise), "shop.orders": ("incomplete", noise)}
    assert dismiss_dead_letters(shop.lake, "shop", None, "noise of a test")["dismissed"] == len(bad)

    # a partition more, and retention that is quicker than the next run
    before = shop.offsets()[0][1]
    shop.wait(shop.admin.create_partitions([NewPartitions(shop.topic, 4)]))
    shop.produce([message for message in TOLD if message.partition == 0][:7])
    shop.wait(shop.admin.delete_records([TopicPartition(shop.topic, 0, before + 5)]))
    shop.run()
    told = status(shop.config, shop.lake)[0]
    lost = f"5 offsets of {shop.topic}/0 from {before} on were deleted before they were read"
    assert (told["held_by"], told["no_watermark_seen"], told["gaps"]) == (
        f"{shop.topic}/3",
        [f"{shop.topic}/3"],
        [lost],
    )
    assert {table["why"] for table in told["tables"]} == {lost}
    assert [(letter["code"], letter["open"]) for letter in list_dead_letters(shop.lake, "shop", "lost")] == [
        ("lost", True)
    ]
    retire_partition(shop.lake, "shop", shop.topic, 3, "the changefeed does not write to it")
    dismiss_dead_letters(shop.lake, "shop", "lost", "sent again")
    shop.run("gold")
    assert shop.states() == {"shop.clients": ("exact", None), "shop.orders": ("exact", None)}

    # the same name, another topic; and a checkpoint that is gone
    old = shop.listed().id
    shop.wait(shop.admin.delete_topics([shop.topic]))
    created_anew(shop)
    shutil.rmtree(Path(shop.lake) / "_checkpoints")
    outcome = shop.run()
    assert (outcome["new_messages"], shop.listed().id != old) == (len(TOLD), True)
    assert shop.landed()[shop.listed().id, 1] == list(range(shop.offsets()[1][1]))
    assert shop.tables() == engine(TOLD)
    anew = f"topic {shop.topic} was created anew: what its former life held unread is not known"
    assert shop.states() == {"shop.clients": ("incomplete", anew), "shop.orders": ("incomplete", anew)}

    # death between a commit to Delta and the checkpoint's own, and once more a checkpoint that is gone
    newest = max(Path(shop.lake).glob("_checkpoints/*/commits/*"))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    shop.produce(TOLD[:1])
    shop.run("bronze")
    shutil.rmtree(Path(shop.lake) / "_checkpoints")
    shop.produce(TOLD[:1])
    shop.run("bronze")
    assert {
        life_and_number: offsets == list(range(len(offsets)))
        for life_and_number, offsets in shop.landed().items()
    } == dict.fromkeys([(life, number) for life in (old, shop.listed().id) for number in range(3)], True) | {
        (old, 0): False
    }
    assert {
        number: len(offsets) for (life, number), offsets in shop.landed().items() if life == shop.listed().id
    } == {number: end for number, (_, end) in shop.offsets().items()}


def created_anew(shop: Shop, messages: Iterable[Message] = TOLD) -> None:
    """Deletion goes on for a moment after the broker has said yes."""
    for _ in range(50):
        try:
            return shop.produce(messages)
        except EnvironmentError_:
            time.sleep(0.2)
    raise AssertionError("expected the topic to be created anew")


def canal(number: int, kind: str, v: str, old: str | None = None) -> Message:
    body = {
        "id": number,
        "es": number,
        "ts": number,
        "database": "d",
        "table": "t",
        "isDdl": False,
        "type": kind,
        "pkNames": ["id"],
    }
    rows = {
        "data": [{"id": "1", "v": v}],
        "old": None if old is None else [{"v": old}],
        "mysqlType": {"id": "int", "v": "varchar(9)"},
    }
    return Message("t", 0, number, None, json.dumps({**body, **rows}).encode())


@pytest.mark.long  # a minute and more
def test_a_feed_whose_order_is_offsets_goes_on_above_all_before_when_its_topic_is_created_anew(
    shop: Shop,
) -> None:
    source = shop.config.sources["shop"].model_copy(update={"format": "canal"})
    shop.config.sources["shop"] = source
    produce(
        [canal(1, "INSERT", "a"), canal(2, "UPDATE", "b", "a"), canal(3, "UPDATE", "c", "b")],
        shop.broker.bootstrap,
        shop.topic,
    )
    shop.run()

    shop.wait(shop.admin.delete_topics([shop.topic]))
    created_anew(shop, [canal(4, "UPDATE", "d", "c")])
    shop.run()

    assert shop.tables() == {"d.t": [{"id": 1, "v": "d"}]}
    dismiss_dead_letters(shop.lake, "shop", "lost", "the server had stopped before")
    shop.run("gold")
    assert {state for state, _ in shop.states().values()} == {"exact"}


def test_holes_of_transactions_are_no_loss_and_what_was_aborted_is_not_landed(shop: Shop) -> None:
    shop.produce(TOLD[:1])
    producer = Producer({"bootstrap.servers": shop.broker.bootstrap, "transactional.id": shop.topic})
    producer.init_transactions(30)
    for value, end in (
        (b"kept", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"last", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(shop.topic, value, partition=1)
        producer.flush(30)
        end(30)

    shop.run("bronze")
    again = shop.run("bronze")

    rows = (
        Lake(shop.lake)
        .read(shop.spark, "bronze", "shop")
        .where("partition = 1")
        .orderBy("offset")
        .select("offset", "value")
        .collect()
    )
    assert [(row.offset, bytes(row.value)) for row in rows] == [(0, b"kept"), (4, b"last")]
    assert shop.offsets()[1] == (0, 6)
    assert status(shop.config, shop.lake)[0].get("gaps", []) == []
    assert (again["new_messages"], [line for line in shop.said if "warning" in line]) == (0, [])


# --- a process of its own ---


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path / "kafka") as running:
        yield running


@pytest.mark.long  # minutes
def test_a_continuous_run_outlives_a_killed_broker_and_ends_cleanly_on_sigterm(
    spark: Any, own_broker: Broker, tmp_path: Path
) -> None:
    shop = Shop(spark, own_broker, "shop", tmp_path)
    (tmp_path / "configs/sources").mkdir(parents=True)
    text = (
        f"format: ticdc-open\ntime_zone: UTC\ntables: auto\nkafka: {{bootstrap_servers: "
        f"'{own_broker.bootstrap}', topics: [shop]}}\n"
    )
    (tmp_path / "configs/sources/shop.yml").write_text(text)
    half, log = len(TOLD) // 2, tmp_path / "said.txt"
    shop.produce(TOLD[:half])

    command = [
        sys.executable,
        "-m",
        "lakehouse.cli.main",
        "run",
        "all",
        "--continuous",
        "--json",
        "--configs",
        str(tmp_path / "configs"),
    ]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--lake", shop.lake], stdout=subprocess.PIPE, stderr=stderr, env={**os.environ}
        )
    try:
        until(lambda: "gold " in log.read_text(), process)
        with pytest.raises(
            LakehouseError, match=rf"^shop: a bronze run is going on already \(pid {process.pid} on "
        ):
            shop.run("bronze")
        own_broker.stop(grace=0)
        until(lambda: "trying again" in log.read_text(), process)
        own_broker.start()
        shop.produce(TOLD[half:])
        until(lambda: "gold " in log.read_text().partition("going on")[2], process)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()

    assert (process.returncode, log.read_text().splitlines()[-1]) == (0, "stopped after the batch in hand")
    rest = shop.run()
    assert json.loads(said.splitlines()[-1])["new_messages"] + rest["new_messages"] == len(TOLD)
    assert {number: offsets for (_, number), offsets in shop.landed().items()} == {
        number: list(range(end)) for number, (_, end) in shop.offsets().items()
    }
    assert shop.tables() == engine(TOLD)


def until(done: Callable[[], bool], process: "subprocess.Popen[bytes]", seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.5)


def test_a_run_without_a_broker_without_its_topic_or_on_a_folder_that_is_none_is_one_sentence(
    shop: Shop,
) -> None:
    with pytest.raises(
        LakehouseError,
        match=(
            rf"^shop: expected topics {shop.topic} at {shop.broker.bootstrap}, found none; check "
            r"kafka.topics$"
        ),
    ):
        shop.run("bronze")
    away = shop.config.sources["shop"].model_copy(
        update={"kafka": KafkaInput(bootstrap_servers="127.0.0.1:9", topics=["t"])}
    )
    with pytest.raises(
        EnvironmentError_,
        match=r"^127.0.0.1:9: expected a Kafka broker, got: .*; check bootstrap_servers and kafka.options$",
    ):
        run(
            Config(sources={"shop": away}, tables={}, documents={}),
            LAYERS,
            True,
            (),
            shop.lake,
            shop.said.append,
        )
    (shop.root / "file").write_text("")
    with pytest.raises(
        LakehouseError,
        match=(
            r"/file/lake: expected a folder that can be written, got: Not a directory; choose another "
            r"with --lake$"
        ),
    ):
        run(shop.config, LAYERS, True, (), str(shop.root / "file/lake"), shop.said.append)


def test_a_broker_behind_tls_and_a_password_is_read_with_the_same_options_by_both_clients(
    spark: Any, tmp_path: Path
) -> None:
    stores = DATA / "kafka"
    login = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s3cret;"'
    )
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{login} user_ann="s3cret;";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(stores / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(stores / "ca.pem"),
    }
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f"{login};",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(stores / "ca.pem"),
    }
    with start_broker(tmp_path / "kafka", settings=settings, options=options) as secure:
        produce(TOLD, secure.bootstrap, "shop", options=options)
        kafka = KafkaInput(bootstrap_servers=secure.bootstrap, topics=["shop"], options=options)
        source = SourceConfig(format="ticdc-open", kafka=kafka, time_zone="UTC", tables="auto")

        outcome = run(
            Config(sources={"shop": source}, tables={}, documents={}),
            ("bronze",),
            True,
            (),
            str(tmp_path / "lake"),
            print,
        )

    assert outcome[0]["new_messages"] == len(TOLD)
