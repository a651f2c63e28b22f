"""What bronze has of what a pass over topics was to land."""

import time

from msgspec import UNSET, UnsetType
from pyspark.sql import functions as F

from lakehouse.ops.records.bronze import OffsetsLost
from lakehouse.sources.kafka_offsets import Lost
from lakehouse.spark.bronze.offsets import of_place
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.table_versions import NEWEST, commits_above


def bronze_version(context: RunContext) -> int:
    """The newest version of bronze's table; -1 where there is none."""
    table = ("bronze", context.source)
    if not context.lake.exists(context.spark, *table):
        return -1
    return commits_above(context.spark, context.lake, table, NEWEST, few=1)[0].version


def appended_above(context: RunContext, version: int) -> int | None:
    """How many rows Delta says that the commits above a version have appended to bronze; None where it does
    not say it of each.
    """
    if not context.lake.exists(context.spark, "bronze", context.source):
        return 0
    commits = commits_above(context.spark, context.lake, ("bronze", context.source), version)
    new = [one.appended for one in commits if one.version > version]
    return None if None in new else sum(count for count in new if count is not None)


def note_lost(context: RunContext, found: Lost, there: int | None = None) -> None:
    """Say what of a range is not in bronze although it was to be read; where the broker still has `there`
    records of it, what of them is not in bronze although it was read.
    """
    missing = (found.end - found.first if there is None else there) - held(context, found)
    if missing > 0:
        why = "deleted before they were read" if there is None else "read, and are not in bronze"
        add_lost(context, found, missing, UNSET if there is None else True)
        _warn(context, found, missing, f"they were {why}")


def note_left_out(context: RunContext, found: Lost) -> None:
    """Say what of a range between offsets of recordings is in none of them."""
    missing = found.end - found.first - held(context, found)
    if missing > 0:
        add_lost(context, found, missing, False)
        _warn(context, found, missing, "no recording has them")


def held(context: RunContext, found: Lost) -> int:
    """How many offsets of a range are in bronze."""
    bronze = context.lake.read_or_empty(context.spark, "bronze", context.source, BRONZE_SCHEMA)
    rows = bronze.where(of_place(found.place) & F.col("offset").between(found.first, found.end - 1))
    return rows.select("offset").distinct().count()


def add_lost(context: RunContext, found: Lost, missing: int, read: bool | UnsetType) -> None:
    """Record so many offsets of a range as lost."""
    topic, incarnation, number = found.place
    lost = OffsetsLost(
        topic=topic,
        incarnation=incarnation,
        partition=number,
        first=found.first,
        last=found.end - 1,
        missing=missing,
        seen_at=now(),
        read=read,
    )
    context.log.add(lost)


def _warn(context: RunContext, found: Lost, missing: int, why: str) -> None:
    topic, _, number = found.place
    context.progress(f"warning: {topic}/{number}: {missing} offsets are missing from {found.first} on: {why}")


def now() -> int:
    """This moment, in milliseconds."""
    return int(time.time() * 1000)
