"""Positions of a source as its readers and operators write them."""

import json
import re

from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.ops.records.operators import Epoch
from lakehouse.reporting.text.values import place
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.silver.tables import read_silver

# `binlog 3:1234, epoch 1`, or the server's `mysql-bin.000003:1234`
_PLACE = re.compile(r"(?:binlog )?(?:[^:]*\.)?([0-9]+):([0-9]+)(?:, epoch ([0-9]+))?")


def parse_position(log: OpsLog, text: str, watermark: Position) -> Position:
    """A TSO, a place in a binlog as `place` writes it, or all six integers as a JSON list; never above the
    watermark.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, int):
        position = (epoch_at(log, value, watermark), value, 2, 0, 0, 0)
    elif isinstance(value, list) and len(value) <= 6 and all(isinstance(item, int) for item in value):
        position = (*value, *[0] * (6 - len(value)))
    elif found := _PLACE.fullmatch(text):
        file, offset, epoch = (None if part is None else int(part) for part in found.groups())
        position = (watermark[0] if epoch is None else epoch, file or 0, offset or 0, 0, 0, 0)
        position = watermark if position[:3] == watermark[:3] else position
    else:
        raise LakehouseError(
            f"--at {text}: expected a TSO or a position such as the watermark's, '{json.dumps(watermark)}'"
        )
    if position > watermark:
        raise LakehouseError(f"--at {text}: expected a moment up to the watermark, {place(watermark)}")
    return position


def epoch_at(log: OpsLog, tso: int, watermark: Position) -> int:
    """The epoch of a TSO: the newest one up to the watermark's that has a change or statement at or below it.
    In a newer one it would stand above all that the older ones have, whatever its time.
    """
    if not watermark[0] or not log.all(Epoch) or tso >= watermark[1]:
        return watermark[0]
    found = [MIN_POSITION[0]]
    for name in ("changes", "schema_changes"):
        rows = read_silver(log.spark, log.lake, log.source, name).where(between(None, watermark))
        row = rows.where(F.col("position.p1") <= tso).agg(F.max("position.epoch").alias("epoch")).first()
        found += [] if row is None or row.epoch is None else [row.epoch]
    return max(found)


def check_floor(log: OpsLog, at: str, position: Position) -> None:
    """Below silver's floor there is no log to tell of a moment."""
    floor = max(floors_of(log).values(), default=position)
    if position < floor:
        raise LakehouseError(f"--at {at}: expected a moment at or above silver's floor, {place(floor)}")
