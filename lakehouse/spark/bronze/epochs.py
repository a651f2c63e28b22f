"""Epochs of a source: the offset at which each partition enters them, kept in the ops log, so that the epoch
is a function of origin alone.
"""

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.ops.progress import NextOffset, Place
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

# (epoch, (topic, incarnation, partition) -> its first offset); a partition that was not met when the epoch
# was raised is all of it
Epochs = Collection[tuple[int, Mapping[tuple[str, str, int], int]]]


def epoch_of(epochs: Epochs, partition: tuple[str, str, int], offset: int) -> int:
    """The epoch of a record, a function of its origin alone."""
    return max((epoch for epoch, first in epochs if offset >= first.get(partition, 0)), default=0)


def bronze_ends(spark: SparkSession, lake: Lake, source: str) -> dict[Place, int]:
    """The next offset of every partition in bronze."""
    bronze = lake.read_or_empty(spark, "bronze", source, BRONZE_SCHEMA)
    rows = bronze.groupBy("topic", "incarnation", "partition").agg(F.max("offset").alias("last")).collect()
    return {(row.topic, row.incarnation, row.partition): row["last"] + 1 for row in rows}


def last_epoch(log: OpsLog) -> int:
    """The epoch of what lands now."""
    return max((one.epoch for one in log.all(Epoch)), default=0)


def begin_epoch(
    log: OpsLog, ends: dict[Place, int], why: str, restored_to: int | None = None, *, goes_on: bool = False
) -> Epoch:
    """Record a new epoch, above all others: records at or after `ends`, and partitions without an end, belong
    to it.

    `goes_on`: the upstream is the same, so that no table misses anything by it.
    """
    number = last_epoch(log) + 1
    places = tuple(NextOffset(*place, offset) for place, offset in sorted(ends.items()))
    record = Epoch(epoch=number, places=places, restored_to=restored_to, why=why, goes_on=goes_on)
    log.add(record)
    return record


def epochs_of(log: OpsLog) -> Epochs:
    """The offsets at which each partition enters the epochs."""
    return [(one.epoch, {place.place: place.offset for place in one.places}) for one in log.all(Epoch)]


def is_void(position: Position, epochs: Iterable[Epoch]) -> bool:
    """Whether what stands at a position counts no more, since the upstream was restored to a moment before
    it. In silver's queries: `not_void` (lakehouse/spark/change_log/changes.py).
    """
    restores = ((one.epoch, one.restored_to) for one in epochs if one.restored_to is not None)
    return any(position[0] < epoch and position[1] > moment for epoch, moment in restores)
