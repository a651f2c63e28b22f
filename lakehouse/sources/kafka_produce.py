"""Publish a recording to Kafka: every message into its own partition, in order, with its key, value, headers
and timestamp.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from lakehouse.sources.kafka_client import client_config
from lakehouse.sources.recording import read_recording

TIMEOUT = 30.0
_STEP = 10_000
Progress = Callable[[str], None]


def produce(
    recording: Path | Iterable[Message],
    bootstrap: str,
    topic: str | None = None,
    progress: Progress | None = None,
    *,
    partitions: int = 1,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Publish all messages and wait until the broker has them; each keeps its partition, and within it the
    order of offsets.

    `topic` overrides the recording's own. A topic gets at least `partitions` partitions and as many as its
    messages need. `options` are Spark's `kafka.*`. Returns the number of messages and where they went.
    EnvironmentError_ when the broker refuses or does not answer.
    """
    config = client_config(bootstrap, options or {})
    read = _reader(recording)
    needed, in_order = _survey(read(), topic)
    messages = read() if in_order else sorted(read(), key=lambda message: (message.partition, message.offset))
    try:
        for name, count in needed.items():
            ensure_topic(config, name, max(count, partitions))
        counts = _publish(messages, config, topic, progress)
    except KafkaException as error:
        raise EnvironmentError_(
            f"{bootstrap}: expected a Kafka broker that takes messages, got: {error.args[0].str()}"
        ) from error
    places = [
        {"topic": name, "partition": number, "messages": count}
        for (name, number), count in sorted(counts.items())
    ]
    return {"messages": counts.total(), "partitions": places}


def _reader(recording: Path | Iterable[Message]) -> Callable[[], Iterable[Message]]:
    """A function that gives the messages each time it is called; a file is never held in memory."""
    if isinstance(recording, Path):
        return partial(read_recording, recording)
    held = list(recording)
    return lambda: held


# a broker takes at most 10,000 changes of its metadata in one request: a topic, and each of its partitions
_PARTITIONS_AT_ONCE = 5_000
# a broker of one machine makes 10,000 partitions in 40 seconds
_CREATED_WITHIN = 180.0


def ensure_topic(config: Mapping[str, Any], topic: str, partitions: int) -> None:
    """Create a topic, or add the partitions it lacks, and wait until they are there. KafkaException when the
    broker refuses.
    """
    admin = AdminClient(dict(config))
    known = count = _partitions(admin, topic)
    while count < partitions:
        step = min(partitions, count + _PARTITIONS_AT_ONCE)
        if count:
            asked = admin.create_partitions([NewPartitions(topic, step)])
        else:
            asked = admin.create_topics([NewTopic(topic, step, -1)])
        for future in asked.values():
            future.result(TIMEOUT)
        count = step
    deadline = time.monotonic() + _CREATED_WITHIN
    while known < partitions:
        known = _partitions(admin, topic)
        if known < partitions and time.monotonic() > deadline:
            raise EnvironmentError_(
                f"topic {topic}: expected {partitions:,} partitions within {_CREATED_WITHIN:.0f} seconds, "
                f"the broker has made {known:,}: try again once it has all"
            )
        time.sleep(0.05)


def _partitions(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(timeout=TIMEOUT).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def _survey(messages: Iterable[Message], topic: str | None) -> tuple[dict[str, int], bool]:
    """How many partitions each topic needs, and whether every partition's offsets ascend, so that nothing has
    to be held in memory.
    """
    needed: dict[str, int] = {}
    last: dict[tuple[str, int], int] = {}
    in_order = True
    for message in messages:
        name = topic or message.topic
        needed[name] = max(needed.get(name, 1), message.partition + 1)
        place = (message.topic, message.partition)
        in_order = in_order and message.offset >= last.get(place, 0)
        last[place] = message.offset
    return needed, in_order


def _publish(
    messages: Iterable[Message], config: Mapping[str, Any], topic: str | None, progress: Progress | None
) -> Counter[tuple[str, int]]:
    producer = Producer(
        {**config, "enable.idempotence": True, "linger.ms": 20, "message.max.bytes": 10_000_000}
    )
    delivered = _Deliveries(progress)
    for message in messages:
        _send(producer, topic or message.topic, message, delivered)
        if delivered.failure:
            raise KafkaException(delivered.failure)
    left, before = producer.flush(TIMEOUT), -1
    while left and not delivered.failure and delivered.counts.total() > before:  # slow is not silent
        before = delivered.counts.total()
        left = producer.flush(TIMEOUT)
    if delivered.failure or left:
        raise KafkaException(delivered.failure or KafkaError(KafkaError._TIMED_OUT))
    return delivered.counts


def _send(producer: Producer, topic: str, message: Message, delivered: "_Deliveries") -> None:
    while True:
        try:
            # by name: a callback may be given under two names, and both count as positions
            producer.produce(
                topic,
                message.value,
                message.key,
                message.partition,
                on_delivery=delivered,
                timestamp=message.timestamp or 0,
                headers=list(message.headers),
            )
            producer.poll(0)
            return
        except BufferError:  # the queue is full: let deliveries make room
            producer.poll(0.5)


class _Deliveries:
    """The delivery reports of the broker so far."""

    def __init__(self, progress: Progress | None) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self.failure: KafkaError | None = None
        self._progress = progress

    def __call__(self, error: KafkaError | None, message: Delivered) -> None:
        if error is not None:
            self.failure = self.failure or error
            return
        self.counts[message.topic() or "", message.partition() or 0] += 1
        if self._progress and self.counts.total() % _STEP == 0:
            self._progress(f"kafka   {self.counts.total()} messages published")
