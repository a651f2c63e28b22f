"""W(source): the smallest watermark over the partitions that count; everything at or below it has arrived."""

from typing import Any

from lakehouse.events import MIN_POSITION, Position
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.done_record import WHOLE_SOURCE

Partition = tuple[str, int]


def partition_watermarks(done: dict[str, Any]) -> dict[Partition, Position]:
    """The highest watermark of each partition, over all its incarnations, as the done record keeps it."""
    return {(entry["topic"], entry["partition"]): tuple(entry["position"]) for entry in done["marks"]}


def counting_partitions(done: dict[str, Any], log: OpsLog) -> list[Partition]:
    """The partitions that count: those listed by the broker or met in bronze, without those that were
    retired.

    Where the source has one watermark for all of it, that stands for them.
    """
    if any(entry["partition"] == WHOLE_SOURCE for entry in done["marks"]):
        return [("", WHOLE_SOURCE)]
    retired = {
        (entry["topic"], partition) for entry in log.all("retired") for partition in entry["partitions"]
    }
    listed = {
        (topic, partition)
        for entry in (log.last("partitions") or {}).get("listed", [])
        for topic, partition in [tuple(entry)]
    }
    met = {(entry["topic"], entry["partition"]) for entry in done["next"]}
    return sorted((listed | met) - retired)


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
