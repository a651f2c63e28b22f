"""W(source): the smallest watermark over the partitions that count; everything at or below it has arrived."""

from lakehouse.events import MIN_POSITION, Position
from lakehouse.ops.progress import Partition
from lakehouse.ops.records import Done, Partitions, Retired
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.done_record import WHOLE_SOURCE


def partition_watermarks(done: Done) -> dict[Partition, Position]:
    """The highest watermark of each partition, over all its incarnations, as the done record keeps it."""
    return {(mark.topic, mark.partition): mark.position for mark in done.marks}


def counting_partitions(done: Done | None, log: OpsLog) -> list[Partition]:
    """The partitions that count: those listed by the broker or met in bronze, without those that were
    retired.

    Where the source has one watermark for all of it, that stands for them.
    """
    if done is not None and any(mark.partition == WHOLE_SOURCE for mark in done.marks):
        return [("", WHOLE_SOURCE)]
    retired = {(one.topic, partition) for one in log.all(Retired) for partition in one.partitions}
    listed = log.last(Partitions)
    met = {(one.topic, one.partition) for one in (done.next if done else ())}
    return sorted({*(listed.listed if listed else ()), *met} - retired)


def source_watermark(
    marks: dict[Partition, Position], partitions: list[Partition]
) -> tuple[Position, Partition | None]:
    """W, and the partition that holds it. A partition without a watermark holds the source at the
    beginning.
    """
    if not partitions:
        return MIN_POSITION, None
    held = min(partitions, key=lambda partition: marks.get(partition, MIN_POSITION))
    return marks.get(held, MIN_POSITION), held
