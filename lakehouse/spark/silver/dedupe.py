"""Exact dedupe of a batch's changes, against itself and against silver.

The normal case is cheap: the hashes of a decoded batch, compared with each other and with those of the few
rows of silver in the same range, show that nothing is there twice. Equal identities whose after-images
disagree in a column that both have, or of which one is a delete, are conflicts: dead letters, and gold holds
their table.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import SNAPSHOT_TOPIC, Position, position_struct
from lakehouse.lineage import Name
from lakehouse.ops.records.silver import Planned
from lakehouse.silver.batch_summary import Summary
from lakehouse.silver.position_spans import Span, spans_of
from lakehouse.spark.arrow import rows_frame
from lakehouse.spark.column_types import columns
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import kept
from lakehouse.spark.silver.columns import ORIGIN, PLACE, POSITION, RECORD
from lakehouse.spark.silver.packed import HASH_BYTES, IDENTITY, POSITION_BYTES, hashes_of
from lakehouse.spark.silver.tables import SilverSettings, count_by_table, read_silver

LETTERS = """database string, `table` string, topic string, incarnation string, partition int, offset bigint,
index int, path string,
  code string, message string"""
KNOWN_LIMIT = 200_000
# the types of an identity's columns that are no text
TYPES = {"position": POSITION, "partition": "int", "physical_table": "bigint"}
# the key of a row without one: two that are equal, in two partitions of their table, are two
NO_KEY = "[]"
CONFLICT = (
    "the same change arrived with another value: check the feed's settings and zone, or raise "
    "an epoch if the source is another one"
)
EQUAL_ROW = (
    "a row without a key, decoded apart from those sent with it, can't be told from an equal one of "
    "them: `lakehouse rebuild silver` decodes all in order"
)


@dataclass(frozen=True, slots=True)
class Distinct:
    """`distinct` are the changes that are new to silver (None: there are none), `conflicts` the
    dead letters; `tables`: how many of each table are inserted.
    """

    distinct: DataFrame | None
    conflicts: DataFrame | None
    inserted: int
    duplicates: int
    conflicted: int
    tables: Mapping[Name, int]


def identity(order: str) -> list[Column]:
    """The columns that make two changes one; arrival feeds order only within a partition."""
    return [_of_identity(name).alias(name) for name in identity_names(order)]


def distinct_changes(
    log: OpsLog,
    feed: SilverSettings,
    changes: DataFrame,
    summary: Summary,
    *,
    batch: int,
    top: Position | None,
    again: bool,
) -> Distinct:
    """Split a batch's changes into new ones, duplicates and conflicts. `again`: its records lie below others
    that were read, so that rows without a key are numbered apart from those of their run.
    """
    total = summary.counts["decoded"]
    if not total or summary.low is None or summary.high is None:
        return Distinct(None, None, inserted=0, duplicates=0, conflicted=0, tables={})
    first = _firsts(changes, feed.order)
    if overlaps(summary, top):
        first = _join_known(first, _known(log, feed, known_spans(summary, top), batch), feed.order)
    else:
        first = first.withColumn("_known", F.lit(False)).withColumn(
            "_known_after", F.lit(None).cast("string")
        )
        again = False
    return _split(kept(first), total, again=again)


def _firsts(keyed: DataFrame, order: str) -> DataFrame:
    """One row per identity, the first to arrive, with its twins of other messages. Within a message, even one
    that arrived before, the later row counts.
    """
    window = Window.partitionBy(*identity(order))
    ordered = window.orderBy(*RECORD, F.col("index").desc())
    message = F.concat_ws("/", *RECORD)
    ranked = (
        keyed.withColumn("_rank", F.row_number().over(ordered))
        .withColumn("_first", F.first(message).over(ordered))
        .withColumn("_previous", F.lag(message).over(ordered))
    )
    is_twin = (message != F.col("_first")) & (message != F.col("_previous"))
    twins = F.collect_list(F.when(is_twin, F.struct("after", *ORIGIN))).over(window)
    return ranked.withColumn("_twins", twins).where("_rank = 1").drop("_rank", "_first", "_previous")


def overlaps(summary: Summary, top: Position | None) -> bool:
    """Whether silver may hold changes of a batch: its lowest position is not above everything before."""
    return summary.low is not None and top is not None and summary.low <= top


def highest_known(order: str, plan: Planned, top: Position | None) -> Position | None:
    """The highest position that silver may have of what a batch reads; None where it has none of it. In an
    order of arrival a change's position is its record's offset, and a batch of new records has only new
    positions: partitions whose offsets differ cause no search of silver.
    """
    if order != "arrival" or plan.again or any(one.topic == SNAPSHOT_TOPIC for one in plan.ranges):
        return top
    return None


def is_distinct(
    log: OpsLog,
    feed: SilverSettings,
    hashes: Iterable[bytes],
    summary: Summary,
    *,
    batch: int,
    top: Position | None,
) -> bool:
    """Whether the hashes of its changes show that nothing of a batch is there twice. False also where that
    can't be found out cheaply.
    """
    own = pa.concat_arrays([_hash_array(text) for text in hashes])
    if pc.count_distinct(own).as_py() < len(own):
        return False
    if not overlaps(summary, top):
        return True
    known = (
        _known(log, feed, known_spans(summary, top), batch).select(*IDENTITY).limit(KNOWN_LIMIT + 1).toArrow()
    )
    if known.num_rows > KNOWN_LIMIT:
        return False
    databases, tables, keys, positions, *others = (known[name].to_pylist() for name in IDENTITY)
    places = [POSITION_BYTES(*position.values()) for position in positions]
    found = hashes_of([databases, tables, [key.encode() for key in keys], places, *others], feed.order)
    return not pc.any(pc.is_in(_hash_array(found), own)).as_py()


def _hash_array(hashes: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(hashes) // HASH_BYTES, [None, pa.py_buffer(hashes)])


def _known(log: OpsLog, feed: SilverSettings, spans: Iterable[Span], batch: int) -> DataFrame:
    """What silver holds of other batches in some spans, which Delta skips files by."""
    known = read_silver(log.spark, log.lake, feed.name, "changes").where(F.col("batch") < batch)
    return known.where(in_spans(spans)).select(
        "database",
        "table",
        "key",
        "position",
        "row_id",
        "physical_table",
        *(f"origin.{name}" for name in RECORD),
        "after",
    )


def known_spans(summary: Summary, top: Position | None) -> tuple[Span, ...]:
    """The spans in which silver, which has nothing above `top`, may have changes of a batch, by the bounds of
    the batch's tables.
    """
    bounds = ((found["low"], found["high"]) for found in summary.tables.values())
    return spans_of((low, min(high, top)) for low, high in bounds if top is not None and low <= top)


def in_spans(spans: Iterable[Span]) -> Column:
    """The condition of positions in any of the spans."""
    condition = F.lit(False)
    for one in spans:
        near = F.col("position.p1").between(one.low, one.high)
        condition = condition | ((F.col("position.epoch") == one.epoch) & near)
    return condition


def known_afters(
    log: OpsLog, feed: SilverSettings, changes: list[dict[str, Any]], *, batch: int
) -> Iterator[dict[str, Any]]:
    """The changes of a small batch that silver has already: identities and after-images, as rows on the
    driver. Other changes of the same keys are left out: there may be any number of them.
    """
    known = _known(log, feed, spans_of((tuple(one["position"]),) * 2 for one in changes), batch)
    names = identity_names(feed.order)
    rows = [{f"k_{name}": _plain(name, one) for name in names} for one in changes]
    schema = columns(", ".join(f"k_{name} {TYPES.get(name, 'string')}" for name in names))
    mine = known.join(F.broadcast(rows_frame(log.spark, rows, schema)), same_identity(names), "left_semi")
    for batch_ in mine.toArrow().to_batches():
        yield from batch_.to_pylist()


def _plain(name: str, change: dict[str, Any]) -> Any:
    value = change[name]
    if name == "position":
        return position_struct(value)
    if name == "row_id":
        return value or ""
    if name == "physical_table":
        return physical_table_of(change)
    return value.decode() if isinstance(value, bytes) else value


def identity_names(order: str) -> list[str]:
    """The columns of an identity."""
    names = ["database", "table", "key", "position", "row_id", "physical_table"]
    return [*names, *PLACE] if order == "arrival" else names


def same_identity(names: Iterable[str]) -> Column:
    """Whether a row's identity is that of the columns with `k_` before their names."""
    condition = F.lit(True)
    for name in names:
        condition = condition & _of_identity(name).eqNullSafe(F.col(f"k_{name}"))
    return condition


def _of_identity(name: str) -> Column:
    if name == "physical_table":
        return F.when(F.col("key") == NO_KEY, F.col(name))
    return F.coalesce(name, F.lit("")) if name == "row_id" else F.col(name)


def physical_table_of(change: dict[str, Any]) -> int | None:
    """The physical table as a part of a change's identity."""
    number: int | None = change["physical_table"]
    return number if change["key"] in (NO_KEY, NO_KEY.encode()) else None


def _join_known(first: DataFrame, known: DataFrame, order: str) -> DataFrame:
    """Mark what silver holds already."""
    names = identity_names(order)
    right = known.select(
        *[_of_identity(name).alias(f"k_{name}") for name in names],
        F.col("after").alias("_known_after"),
        F.struct(*RECORD).alias("_known_in"),
        F.lit(True).alias("_known"),
    )
    joined = first.join(right, same_identity(names), "left").drop(*[f"k_{name}" for name in names])
    return joined.withColumn("_known", F.coalesce("_known", F.lit(False)))


def _split(marked: DataFrame, total: int, *, again: bool) -> Distinct:
    conflicts = _suspects(marked).mapInArrow(_conflicting, LETTERS)
    if again:
        conflicts = conflicts.unionByName(_equal_rows(marked))
    conflicts = kept(conflicts)
    conflicted = conflicts.count()
    distinct = marked.where(~F.col("_known"))
    tables = count_by_table(distinct)
    inserted = sum(tables.values())
    distinct = distinct.drop("_twins", "_known", "_known_after", "_known_in")
    return Distinct(
        distinct if inserted else None,
        conflicts if conflicted else None,
        inserted=inserted,
        duplicates=total - inserted - conflicted,
        conflicted=conflicted,
        tables=tables,
    )


def _suspects(marked: DataFrame) -> DataFrame:
    """Each change that is a twin of the one that counts (silver's, else the batch's first) and has another
    after-image as text, with that of the one that counts.
    """
    standing = F.when(F.col("_known"), F.col("_known_after")).otherwise(F.col("after")).alias("_standing")
    names = ["database", "table"]
    twins = marked.select(*names, standing, F.explode("_twins").alias("_twin")).select(
        *names, "_standing", "_twin.*"
    )
    arrived = marked.where(F.col("_known")).select(*names, standing, "after", *ORIGIN)
    return twins.unionByName(arrived).where(~F.col("after").eqNullSafe(F.col("_standing")))


def _equal_rows(marked: DataFrame) -> DataFrame:
    """The rows without a key that silver has from another record of their partition, as dead letters."""
    *place, number = [F.col(name) == F.col(f"_known_in.{name}") for name in RECORD]
    found = marked.where(F.col("_known") & F.col("half").isNotNull() & ~number)
    for same in place:
        found = found.where(same)
    told = found.withColumn("code", F.lit("equal_row")).withColumn("message", F.lit(EQUAL_ROW))
    return told.select(*columns(LETTERS).names)


def _conflicting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        kept = [_letter(row) for row in batch.to_pylist() if disagree(row["after"], row["_standing"])]
        yield pa.RecordBatch.from_pylist(kept, schema=to_arrow_schema(columns(LETTERS)))


def _letter(row: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("database", "table", *ORIGIN)}
    return {**place, "code": "conflict", "message": CONFLICT}


def disagree(one: str | None, other: str | None) -> bool:
    """Whether two after-images differ in a column that both have, or only one of them is none, a delete's."""
    if one is None or other is None:
        return one is not other
    left, right = json.loads(one), json.loads(other)
    return any(left[name] != right[name] for name in left.keys() & right.keys())
