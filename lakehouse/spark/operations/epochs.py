"""Operators' commands on epochs and partitions. Each writes a record of the ops log, so that a rebuild from
silver applies it too.
"""

from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.bronze import Read
from lakehouse.ops.records.kinds import to_json
from lakehouse.ops.records.operators import Retired
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.values import instant
from lakehouse.spark.bronze.epochs import begin_epoch, bronze_ends
from lakehouse.spark.change_log.watermark import counting_partitions, read_of
from lakehouse.spark.ops.lake_record import opened
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.silver.done_record import WHOLE_SOURCE


def raise_epoch(root: str, source: str, why: str, restored_to: int | None) -> dict[str, Any]:
    """Begin a new epoch, above all before it, for everything that bronze lands from now on.

    With `restored_to` T the older changes above T are void; without it every table is incomplete until it is
    snapshotted. LakehouseError while tables are snapshotted or imported.
    """
    log, settings = opened(root, source)
    if restored_to is not None and settings.order != "tidb":
        raise LakehouseError(
            f"--restored-to {restored_to}: expected a source whose positions are TSOs, {source} has none: "
            "leave it out, and let its tables be snapshotted again"
        )
    floor = max((place[1] for place in floors_of(log).values()), default=None)
    if floor is not None and restored_to is not None and restored_to < floor:
        raise LakehouseError(
            f"--restored-to {restored_to}: expected a moment at or above silver's floor, {instant(floor)}"
        )
    # what a snapshot or an import has read of the former upstream would land as rows of the new epoch
    with layer_lock(log.spark, log.lake, source, ["silver", "import"]):
        begun = begin_epoch(log.load(), bronze_ends(log.spark, log.lake, source), why, restored_to)
    places = [to_json(one) for one in begun.places]
    return {"source": source, "epoch": begun.epoch, "from": places, "restored_to": begun.restored_to}


def retire_partition(root: str, source: str, topic: str, partition: int, why: str) -> dict[str, Any]:
    """Exclude a partition from the watermark, until a record arrives in it."""
    log, _ = opened(root, source)
    done = log.last(Done)
    counting = counting_partitions(done, log)
    if (topic, partition) not in counting:
        known = ", ".join(f"{name}/{number}" for name, number in counting if number != WHOLE_SOURCE)
        raise LakehouseError(
            f"{topic}/{partition}: expected a partition that the watermark waits for, which are "
            f"{known or 'none'}"
        )
    read = read_of(topic, partition, done, log.last(Read))
    log.add(Retired(topic=topic, partitions=(partition,), why=why, read=read))
    return {"source": source, "retired": f"{topic}/{partition}"}
