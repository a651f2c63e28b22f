"""Looking at topics: the beginning and end of each partition, within bounds, and nothing left at
the broker.
"""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from lakehouse.events import Message
from lakehouse.sources import kafka_sample
from lakehouse.sources.kafka_admin import list_topics
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.kafka_sample import sample


def test_a_sample_has_both_ends_of_each_partition_and_leaves_no_group(broker: Any, topic: str) -> None:
    told = [
        Message(topic, n % 3, n, b"k", b"%d" % n, (("h", b"x"), ("none", None)), 1_700_000_000_000)
        for n in range(300)
    ]
    produce(told, broker.bootstrap, topic, partitions=4)

    found = sample(broker.bootstrap, {}, list_topics(broker.bootstrap, {}, [topic], None), head=5, tail=3)

    assert [(m.partition, m.offset) for m in found] == [
        (p, n) for p in range(3) for n in (0, 1, 2, 3, 4, 97, 98, 99)
    ]
    assert found[0].value == b"0"
    assert found[0].headers == (("h", b"x"), ("none", None))
    assert found[0].timestamp is not None
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # kept: one that is let go of never answers
    groups = admin.list_consumer_groups(request_timeout=60).result(90)
    assert [group.group_id for group in groups.valid if group.group_id.startswith("lakehouse")] == []


def test_large_messages_are_bounded_by_bytes_with_a_share_for_each_partition(
    broker: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce([Message(topic, n % 2, n, None, bytes(100_000)) for n in range(40)], broker.bootstrap, topic)
    monkeypatch.setattr(kafka_sample, "BYTES", 1_000_000)

    found = sample(broker.bootstrap, {}, list_topics(broker.bootstrap, {}, [topic], None), head=100, tail=0)

    assert {partition: sum(m.partition == partition for m in found) for partition in (0, 1)} == {0: 6, 1: 6}
