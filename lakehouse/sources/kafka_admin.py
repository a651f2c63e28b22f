"""Topics as a broker lists them: ids, partitions, offsets and settings. Data is read by Spark's own
source.
"""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from lakehouse.errors import EnvironmentError_
from lakehouse.sources.kafka_client import client_config

TIMEOUT = 10.0
# what a topic's id reads as where the broker tells none: Kafka before 2.8, and services that speak as it does
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `offsets` maps a partition to its (first, next) offset."""

    name: str
    id: str
    offsets: dict[int, tuple[int, int]]


def list_topics(
    bootstrap: str, options: Mapping[str, str], names: list[str] | None, pattern: str | None
) -> list[Topic]:
    """The topics of a source that exist now. EnvironmentError_ where the broker can't be reached."""
    config = client_config(bootstrap, options)
    try:
        admin = AdminClient(config)
        known = admin.list_topics(timeout=TIMEOUT).topics
        chosen = [
            name
            for name in known
            if (name in names if names is not None else re.fullmatch(pattern or "", name))
        ]
        found = admin.describe_topics(TopicCollection(chosen), request_timeout=TIMEOUT) if chosen else {}
        ids = {name: _id(future) for name, future in found.items()}
        consumer = Consumer({**config, "group.id": "lakehouse-admin", "enable.auto.commit": False})
        try:
            return [
                Topic(name, ids.get(name, ""), _offsets(consumer, name, list(known[name].partitions)))
                for name in sorted(chosen)
            ]
        finally:
            consumer.close()
    except KafkaException as error:
        raise EnvironmentError_(
            f"{bootstrap}: expected a Kafka broker, got: {error.args[0].str()}; check bootstrap_servers and "
            "kafka.options"
        ) from error


def topic_settings(
    bootstrap: str, options: Mapping[str, str], names: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Each topic's effective settings, such as retention.ms. EnvironmentError_ where the broker does not
    return them.
    """
    try:
        admin = AdminClient(client_config(bootstrap, options))
        asked = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=TIMEOUT
        )
        return {
            resource.name: {
                name: entry.value for name, entry in future.result().items() if entry.value is not None
            }
            for resource, future in asked.items()
        }
    except KafkaException as error:
        raise EnvironmentError_(
            f"{bootstrap}: expected the settings of its topics, got: {error.args[0].str()}"
        ) from error


def _offsets(consumer: Consumer, topic: str, partitions: list[int]) -> dict[int, tuple[int, int]]:
    return {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT)
        for number in sorted(partitions)
    }


def _id(future: Future[Any]) -> str:
    """A topic's id; empty where the broker has none."""
    try:
        return str(future.result().topic_id).replace(ZERO_ID, "")
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION):
            return ""
        raise


def offsets_at(
    bootstrap: str, options: Mapping[str, str], topics: Iterable[Topic], instant: str
) -> dict[tuple[str, int], int]:
    """The first offset of each partition at or after an instant (ISO 8601 with a zone), or the end offset if
    there is none.
    """
    millis = int(datetime.fromisoformat(instant.strip()).timestamp() * 1000)
    consumer = Consumer(
        {**client_config(bootstrap, options), "group.id": "lakehouse-admin", "enable.auto.commit": False}
    )
    ends = {(topic.name, number): end for topic in topics for number, (_, end) in topic.offsets.items()}
    try:
        found = consumer.offsets_for_times(
            [TopicPartition(*place, millis) for place in ends], timeout=TIMEOUT
        )
    except KafkaException as error:
        raise EnvironmentError_(
            f"{bootstrap}: expected a Kafka broker, got: {error.args[0].str()}; check bootstrap_servers"
        ) from error
    finally:
        consumer.close()
    return {
        place: place_at.offset if place_at.offset >= 0 else ends[place]
        for place_at in found
        for place in [(place_at.topic, place_at.partition)]
    }
