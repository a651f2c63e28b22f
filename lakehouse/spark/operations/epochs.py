"""What operators say of a source: epochs, retired partitions, dead letters, imported schemas, rebuilds. Each
is a record of the ops log (or a silver batch of its own), so that a rebuild from silver sees it too.
"""

from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.ops.records import Done, Retired, to_json
from lakehouse.spark.bronze.epochs import begin_epoch, bronze_ends
from lakehouse.spark.change_log.watermark import counting_partitions
from lakehouse.spark.ops.lake_record import opened
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.silver.done_record import WHOLE_SOURCE


def raise_epoch(root: str, source: str, why: str, restored_to: int | None) -> dict[str, Any]:
    """What bronze lands from now on belongs to a new epoch, above everything before it.

    With `restored_to` T the older changes above T are void; without it every table is incomplete until it is
    snapshotted.
    """
    spark, lake, log, _ = opened(root, source)
    floor = max((place[1] for place in floors_of(log).values()), default=None)
    if floor is not None and restored_to is not None and restored_to < floor:
        raise LakehouseError(
            f"--restored-to {restored_to}: expected a moment at or above silver's floor {floor}"
        )
    with layer_lock(spark, lake, source, ["silver"]):
        begun = begin_epoch(log.load(), bronze_ends(spark, lake, source), why, restored_to)
    places = [to_json(one) for one in begun.places]
    return {"source": source, "epoch": begun.epoch, "from": places, "restored_to": begun.restored_to}


def retire_partition(root: str, source: str, topic: str, partition: int, why: str) -> dict[str, Any]:
    """The watermark no longer waits for a partition."""
    _, _, log, _ = opened(root, source)
    counting = counting_partitions(log.last(Done), log)
    if (topic, partition) not in counting:
        known = ", ".join(f"{name}/{number}" for name, number in counting if number != WHOLE_SOURCE)
        raise LakehouseError(
            f"{topic}/{partition}: expected a partition that the watermark waits for, which are "
            f"{known or 'none'}"
        )
    log.add(Retired(topic=topic, partitions=(partition,), why=why))
    return {"source": source, "retired": f"{topic}/{partition}"}
