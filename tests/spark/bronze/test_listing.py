"""When the partitions of a topic are recorded. Needs Spark's package, but neither a session nor a broker."""

from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.ops.records.bronze import Partitions, Read
from lakehouse.ops.records.record import Record
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_offsets import Reading
from lakehouse.spark.bronze import kafka
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from tests.support.lakes import quiet


class Landing(Exception):
    """Records are landed from here on, and another process may take them."""


def test_a_new_partition_is_recorded_before_a_record_of_the_pass_is_landed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    log = OpsLog(nothing, Lake("lake"), "shop")
    topics = [Topic("t", "id", {0: (0, 5), 1: (0, 2)})]
    reading = Reading(0, ("t",), {"t": "id"}, {"t": "id"}, following={("t", 0): 0, ("t", 1): 0})

    def add_all(log: OpsLog, records: Sequence[Record]) -> int:
        log.records += [log._logged(record, log.seq + 1) for record in records]
        return log.seq

    def landing(*_: Any) -> Any:
        raise Landing

    monkeypatch.setattr(OpsLog, "add_all", add_all)
    for name, given in {"_settled": topics, "_reading": reading, "bronze_rows": 0}.items():
        monkeypatch.setattr(kafka, name, lambda *_, given=given, **__: given)
    monkeypatch.setattr(kafka, "_stream", landing)
    log.add(Partitions(listed=(("t", 0),)))
    log.add(Read(stream=0, topics=("t",), ids={}, incarnations={}, next=()))

    with pytest.raises(Landing):
        kafka.land_topics(
            RunContext(log, quiet), kafka.KafkaInput("broker", ["t"]), lambda: False, first=False
        )

    listed = log.last(Partitions)
    assert listed is not None
    assert listed.listed == (("t", 0), ("t", 1))
