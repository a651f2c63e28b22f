"""Finds the changes that disprove a published watermark (lakehouse/silver/disproved_watermarks.py), in
silver's batches since.

A run reads the done records. It reads silver only if a batch has a change at or below the watermark. Changes
that a replay may have sent in another form than before are left out.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import POSITION_PARTS, Position, position_struct
from lakehouse.ops.progress import Disproved, NextOffset
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.silver import Done
from lakehouse.silver.disproved_watermarks import anew, disproved_text, promised, standing
from lakehouse.silver.position_spans import Span, spans_of
from lakehouse.spark.arrow import rows_frame
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.change_log.watermark import done_at, partition_watermarks
from lakehouse.spark.column_types import columns
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress
from lakehouse.spark.silver.columns import PLACE, POSITION, RECORD
from lakehouse.spark.silver.dedupe import in_spans
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from lakehouse.spark.silver.tables import read_silver

PROMISES = f"topic string, partition int, promise {POSITION}"
NEXT = "topic string, incarnation string, partition int, next bigint"
_WHERE = ["database", "table", "position"]
_ASKED = [*_WHERE, "key", "commit_ts", "flags", *RECORD]
_FEW = 10_000


def disproved(
    log: OpsLog, last: Manifest | None, until: Position, progress: Progress, *, goes_on: bool
) -> tuple[Disproved, ...]:
    """The disproofs for the next manifest, at the watermark `until`: those of changes that came after `last`
    was published, which are reported to `progress`, and those of `last` that no later watermark has settled.
    Not `goes_on` (silver was built again): new changes can't be told from old ones, so there are no new ones.
    """
    if last is None:
        return ()
    found = disproofs(log, last, until) if goes_on else []
    for one in found:
        progress(f"warning: {'.'.join(one.name)}: {disproved_text(one)}")
    return standing(() if last.disproved is UNSET else last.disproved, found, until)


def disproofs(log: OpsLog, last: Manifest, until: Position) -> list[Disproved]:
    """The tables with changes that came after `last` was published and should have come before. They count
    up to the watermark `until`.
    """
    batches, before = _overtaken(log, last), done_at(log, last.batch)
    if not batches or before is None:
        return []
    changes = read_silver(log.spark, log.lake, log.source, "changes").withColumns(
        {name: F.col(f"origin.{name}") for name in RECORD}
    )
    late = changes.where(F.col("batch").isin(batches) & between(None, last.watermark))
    late = late.where(~F.array_contains(F.coalesce("flags", F.array()), "snapshot"))
    late = _broken(late, before, last.watermark)
    late, spans, has_rows = _collected(_first_read(late, before.next))
    if not spans:
        return []
    known = changes.where(F.col("batch") <= last.batch)
    late = _without_replays(late, known.where(in_spans(spans)))
    first = F.min(F.struct("position", *RECORD)).alias("first")
    found = late.groupBy("database", "table").agg(F.count("*").alias("n"), first).collect()
    told = () if last.disproved is UNSET else last.disproved
    is_anew = any(one.until == anew(until[0]) for one in told)
    if found and (is_anew or (has_rows and _has_known_rows(late, known))):
        until = anew(until[0])
    return [
        Disproved(
            (row.database, row.table),
            row.n,
            tuple(row.first.position),
            NextOffset(*row.first[1:]),
            until=until,
        )
        for row in found
    ]


def _has_known_rows(late: DataFrame, known: DataFrame) -> bool:
    """Whether one of the late changes is a row of a transaction that silver has at another place."""
    tells = F.filter(F.coalesce("flags", F.array()), lambda flag: flag.startswith("tx="))
    row = [F.get(tells, 0).alias("row"), F.col("position.epoch").alias("epoch")]
    place = F.struct("position.p1", "position.p2")
    mine = late.select(*row, place.alias("place")).where("row IS NOT NULL")
    if mine.isEmpty():
        return False
    other = known.select(*row, place.alias("known_place")).where("row IS NOT NULL")
    return not mine.join(other, ["row", "epoch"]).where("place != known_place").isEmpty()


def _overtaken(log: OpsLog, last: Manifest) -> list[int]:
    """The batches since a manifest that have changes at or below its watermark."""
    return [
        one.batch
        for one in log.above(Done, last.batch)
        if one.low is not UNSET and one.low and one.low <= last.watermark
    ]


def _broken(late: DataFrame, before: Done, watermark: Position) -> DataFrame:
    """The changes that their own partition, or the whole source, had promised not to send."""
    marks = promised(partition_watermarks(before), watermark)
    whole = marks.get(("", WHOLE_SOURCE))
    if whole is not None:
        return late.where(between(None, whole))
    rows = [
        {"topic": topic, "partition": number, "promise": position_struct(position)}
        for (topic, number), position in marks.items()
    ]
    promises = F.broadcast(rows_frame(late.sparkSession, rows, columns(PROMISES)))
    kept = late.join(promises, ["topic", "partition"]).where(F.col("position") <= F.col("promise"))
    return kept.drop("promise")


def _first_read(late: DataFrame, read: Iterable[NextOffset]) -> DataFrame:
    """The changes of records behind those that silver had read: what is landed below was missing before."""
    rows = [
        {"topic": one.topic, "incarnation": one.incarnation, "partition": one.partition, "next": one.offset}
        for one in read
    ]
    known = F.broadcast(rows_frame(late.sparkSession, rows, columns(NEXT)))
    return late.join(known, PLACE, "left").where(F.col("offset") >= F.coalesce("next", F.lit(0)))


class Late(NamedTuple):
    """Changes that came late; where they lie: silver is looked through for others of their commits there
    alone; and whether they may be rows of transactions that say which row they are.
    """

    changes: DataFrame
    spans: tuple[Span, ...]
    has_rows: bool = True


def _collected(late: DataFrame) -> Late:
    """The changes, as the driver's rows if they are few: else each query would read silver for them again."""
    late = late.select(*_ASKED)
    rows = late.limit(_FEW + 1).toArrow()
    if rows.num_rows > _FEW:
        ends = F.min("position").alias("low"), F.max("position").alias("high")
        bounds = late.groupBy("database", "table").agg(*ends).collect()
        return Late(late, spans_of((tuple(row.low), tuple(row.high)) for row in bounds))
    lies: dict[tuple[str, str], list[Position]] = defaultdict(list)
    for database, table, position in zip(*(rows[name].to_pylist() for name in _WHERE), strict=True):
        lies[database, table].append(tuple(position[part] for part in POSITION_PARTS))
    spans = spans_of((min(positions), max(positions)) for positions in lies.values())
    has_rows = any(flag.startswith("tx=") for flags in rows["flags"].to_pylist() for flag in flags or ())
    return Late(late.sparkSession.createDataFrame(rows, late.schema), spans, has_rows)


def _without_replays(late: DataFrame, known: DataFrame) -> DataFrame:
    """The changes of rows of which silver has no other change of the same commit: a producer may send an
    update as one change, and again as a delete and an insert.
    """
    names = ["database", "table", "key"]
    commit = [F.col("position.epoch").alias("epoch"), F.col("position.p1").alias("p1")]
    other = known.where("key != '[]'").select(*names, *commit, F.col("position.p2").alias("known_p2"))
    mine = late.withColumns({"epoch": F.col("position.epoch"), "p1": F.col("position.p1")}).alias("mine")
    other = other.alias("other")
    same = F.lit(True)
    for name in (*names, "epoch", "p1"):
        same = same & (F.col(f"mine.{name}") == F.col(f"other.{name}"))
    is_tso = F.col("mine.commit_ts") == F.col("mine.p1")
    return mine.join(other, same & (is_tso | (F.col("mine.position.p2") == F.col("known_p2"))), "left_anti")
