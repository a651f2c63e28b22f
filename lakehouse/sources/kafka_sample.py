"""A sample of topics' messages, from each partition's beginning and end. No consumer group is created and no
offset committed.
"""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from lakehouse.sources.kafka_admin import TIMEOUT, Topic
from lakehouse.sources.kafka_client import client_config

HEAD, TAIL = 2_000, 500
SECONDS = 20.0
BYTES = 64 * 2**20


def sample(
    bootstrap: str, options: Mapping[str, str], topics: list[Topic], head: int = HEAD, tail: int = TAIL
) -> list[Message]:
    """Up to `head` messages from each partition's beginning and `tail` from its end, in the order of topic,
    partition, offset.
    """
    spans = [
        (topic.name, number, start, end)
        for topic in topics
        for number, (first, last) in topic.offsets.items()
        for start, end in _spans(first, last, head, tail)
    ]
    found: list[Message] = []
    deadline, share = time.monotonic() + SECONDS, BYTES // max(len(spans), 1)
    for span in spans:
        read = read_span(bootstrap, options, *span, seconds=max(1.0, deadline - time.monotonic()))
        found += _bounded(read, share)
        if time.monotonic() > deadline:
            break
    return sorted(found, key=lambda message: (message.topic, message.partition, message.offset))


def _bounded(messages: Iterator[Message], room: int) -> Iterator[Message]:
    """Messages up to `room` bytes, at least one: each partition has its share."""
    for message in messages:
        yield message
        room -= len(message.value or b"") + len(message.key or b"")
        if room < 0:
            return


def _spans(first: int, end: int, head: int, tail: int) -> Iterator[tuple[int, int]]:
    middle = min(end, first + head)
    yield first, middle
    if tail and middle < end:
        yield max(middle, end - tail), end


_LOOKING = {
    "group.id": "lakehouse-look",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


def read_span(
    bootstrap: str,
    options: Mapping[str, str],
    topic: str,
    partition: int,
    start: int,
    end: int,
    seconds: float = SECONDS,
) -> Iterator[Message]:
    """The committed messages of offsets [start, end) of a partition, for at most `seconds`. EnvironmentError_
    where the broker does not answer.
    """
    if start >= end:
        return
    consumer = Consumer({**client_config(bootstrap, options), **_LOOKING})
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for record in consumer.consume(1_000, min(1.0, TIMEOUT)):
                error = record.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise KafkaException(error)
                if (record.offset() or 0) >= end:
                    return
                yield _message(record)
                if (record.offset() or 0) == end - 1:
                    return
    except KafkaException as error:
        raise EnvironmentError_(
            f"{bootstrap}: expected messages of {topic}/{partition}, got: {error.args[0].str()}"
        ) from error
    finally:
        consumer.close()


def _message(record: Record) -> Message:
    headers = tuple((name, None if data is None else bytes(data)) for name, data in record.headers() or ())
    stamp = record.timestamp()[1]
    return Message(
        record.topic() or "",
        record.partition() or 0,
        record.offset() or 0,
        key=record.key(),
        value=record.value(),
        headers=headers,
        timestamp=stamp if stamp > 0 else None,
    )
