"""Moments of a source: what readers may write, as positions.

    a TSO, or six integers     that position
    a time                     everything that the source committed up to then
    None                       what is published: the watermark

A TSO holds the source's time. Positions of other feeds are no times: there a time means the position of the
last change with a commit time at or before it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.reporting.text.values import moment as moment_text
from lakehouse.reporting.text.values import place, tso_of
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.positions import check_floor, epoch_at, parse_position
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.silver.tables import read_silver

Moment = int | str | datetime | Sequence[int] | None
"""A TSO, a time (`datetime`, or text such as `2026-11-21 10:00`; UTC where it names no zone), a position of
six integers, or None for what is published."""

Time = datetime | str | None
"""A time, as a Moment has it; None: no limit."""

TSO_BITS = 18
TSO_RANK = 2


def position_of(reader: Reader, moment: Moment) -> Position:
    """The position that a moment means in a source; LakehouseError where it is above the watermark, or below
    silver's floor.
    """
    watermark = reader.watermark()
    if moment is None:
        return watermark
    if isinstance(moment, datetime):
        position = _at_time(reader, moment)
    elif isinstance(moment, str) and not _is_position(moment):
        position = _at_time(reader, _read_time(moment))
    else:
        text = moment if isinstance(moment, str) else json.dumps(_plain(moment))
        position = parse_position(reader.log, text, watermark)
    # a floor may have been raised since the lake was opened, and the log below it is gone for all
    now = OpsLog(reader.spark, replace(reader.lake, present={}), reader.source).load()
    for log in (reader.log, now):
        check_floor(log, str(moment), position)
    return position


def time_of(position: Position) -> datetime | None:
    """The source's time of a position that holds one, in UTC."""
    tso = tso_of(position)
    return None if tso is None else datetime.fromtimestamp((tso >> TSO_BITS) / 1000, UTC)


def millis_of(time: Time) -> int | None:
    """A time in milliseconds."""
    if time is None:
        return None
    read = time if isinstance(time, datetime) else _read_time(time)
    return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def _plain(moment: int | Sequence[int]) -> int | list[int]:
    return int(moment) if not isinstance(moment, Sequence) else [int(part) for part in moment]


def _is_position(text: str) -> bool:
    return text.strip().isdigit() or text.strip().startswith("[")


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise LakehouseError(
            f"{text}: expected a TSO, a time such as 2026-11-21 10:00, or a position of six integers"
        ) from error


def _at_time(reader: Reader, time: datetime) -> Position:
    millis, watermark = millis_of(time), reader.watermark()
    assert millis is not None
    if tso_of(watermark) is None:
        return _last_commit(reader, millis)
    if millis > watermark[1] >> TSO_BITS:
        raise LakehouseError(
            f"{moment_text(millis)}: expected a moment up to the watermark, {place(watermark)}"
        )
    tso = ((millis + 1) << TSO_BITS) - 1
    return min((epoch_at(reader.log, tso, watermark), tso, TSO_RANK, 0, 0, 0), watermark)


def _last_commit(reader: Reader, millis: int) -> Position:
    """The position of the last published change or statement that was committed up to a time."""
    found = [MIN_POSITION]
    for name in ("changes", "schema_changes"):
        rows = read_silver(reader.spark, reader.lake, reader.source, name)
        row = (
            rows.where(between(None, reader.watermark()) & (F.col("commit_ts") <= millis))
            .agg(F.max("position").alias("last"))
            .first()
        )
        if row is not None and row.last is not None:
            found.append(tuple(row.last))
    if found == [MIN_POSITION]:
        raise LakehouseError(
            f"{moment_text(millis)}: expected a moment at or after {reader.source}'s first change"
        )
    return max(found)
