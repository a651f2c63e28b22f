"""Exact dedupe of a batch's changes, against itself and against silver.

The normal case does not pay: a batch whose lowest position lies above everything that silver holds joins nothing, and a
batch without equal identities shuffles only hashes. Equal identities whose after-images disagree in a column that both
have are conflicts: dead letters, and gold holds their table.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.spark.lake import Lake
from lakehouse.spark.type_text import columns

if TYPE_CHECKING:
    from lakehouse.spark.silver import Feed
    from lakehouse.spark.silver_books import Summary

LETTERS = """database string, `table` string, topic string, incarnation string, partition int, offset bigint, index int, path string,
  code string, message string"""
ORIGIN = ["topic", "incarnation", "partition", "offset", "index", "path"]
TWINS = "array<struct<after:string,topic:string,incarnation:string,partition:int,offset:bigint,index:int,path:string>>"
CONFLICT = "the same change arrived with another value: check the feed's settings and zone, or raise an epoch if the source is another one"


@dataclass(frozen=True, slots=True)
class Distinct:
    """`distinct` are the changes that are new to silver (None: there are none), `conflicts` the dead letters."""

    distinct: DataFrame | None
    conflicts: DataFrame | None
    inserted: int
    duplicates: int
    conflicted: int


def identity(order: str) -> list[Column]:
    """The columns that make two changes one; arrival feeds order only within a partition."""
    parts = [F.col("database"), F.col("table"), F.col("key"), F.col("position"), F.coalesce(F.col("row_id"), F.lit("")).alias("row_id")]
    place = [F.col("topic"), F.col("incarnation"), F.col("partition")]
    return parts + place if order == "arrival" else parts


def distinct_changes(
    spark: SparkSession, lake: Lake, feed: "Feed", changes: DataFrame, summary: "Summary", batch: int, top: list[int] | None
) -> Distinct:
    """Split a batch's changes into new ones, duplicates and conflicts."""
    total = summary.counts["decoded"]
    if not total or summary.low is None or summary.high is None:
        return Distinct(None, None, 0, 0, 0)
    keyed = changes.withColumn("_id", F.xxhash64(*identity(feed.order)))
    overlaps = top is not None and list(summary.low) <= top
    repeated = total - keyed.agg(F.count_distinct("_id")).first()[0]
    if not repeated and not overlaps:
        return Distinct(keyed.drop("_id"), None, total, 0, 0)
    first = _firsts(keyed, feed.order) if repeated else keyed.withColumn("_twins", F.lit(None).cast(TWINS))
    if overlaps:
        first = _join_known(spark, lake, feed, first, summary, batch)
    else:
        first = first.withColumn("_known", F.lit(False)).withColumn("_known_after", F.lit(None).cast("string"))
    return _split(first.persist(), total)


def _firsts(keyed: DataFrame, order: str) -> DataFrame:
    """One row per identity, the first to arrive, with its twins of other messages. Within one message the later row stands."""
    window = Window.partitionBy(*identity(order))
    ordered = window.orderBy("topic", "incarnation", "partition", "offset", F.col("index").desc())
    message = F.concat_ws("/", "topic", "incarnation", "partition", "offset")
    ranked = keyed.withColumn("_rank", F.row_number().over(ordered)).withColumn("_first", F.first(message).over(ordered))
    twins = F.collect_list(F.when(message != F.col("_first"), F.struct("after", *ORIGIN))).over(window)
    return ranked.withColumn("_twins", twins).where("_rank = 1").drop("_rank", "_first")


def _join_known(spark: SparkSession, lake: Lake, feed: "Feed", first: DataFrame, summary: "Summary", batch: int) -> DataFrame:
    """Mark what silver holds already, reading only the files whose range the batch touches."""
    from lakehouse.spark.silver import read_silver

    assert summary.low is not None and summary.high is not None
    known = read_silver(spark, lake, feed.name, "changes").where(F.col("batch") < batch)
    known = known.where(F.col("position.epoch").between(summary.low[0], summary.high[0]))
    if summary.low[0] == summary.high[0]:
        known = known.where(F.col("position.p1").between(summary.low[1], summary.high[1]))
    known = known.select(
        "database", "table", "key", "position", "row_id", "origin.topic", "origin.incarnation", "origin.partition", "after"
    )
    names = ["database", "table", "key", "position", "row_id"] + (["topic", "incarnation", "partition"] if feed.order == "arrival" else [])
    right = known.select(
        *[F.col(name).alias(f"k_{name}") for name in names], F.col("after").alias("_known_after"), F.lit(True).alias("_known")
    )
    condition = F.lit(True)
    for name in names:
        condition = condition & F.col(name).eqNullSafe(F.col(f"k_{name}"))
    joined = first.join(right, condition, "left").drop(*[f"k_{name}" for name in names])
    return joined.withColumn("_known", F.coalesce("_known", F.lit(False)))


def _split(marked: DataFrame, total: int) -> Distinct:
    conflicts = _suspects(marked).mapInArrow(_conflicting, LETTERS).persist()
    conflicted = conflicts.count()
    distinct = marked.where(~F.col("_known"))
    inserted = distinct.count()
    distinct = distinct.drop("_id", "_twins", "_known", "_known_after")
    return Distinct(distinct if inserted else None, conflicts if conflicted else None, inserted, total - inserted - conflicted, conflicted)


def _suspects(marked: DataFrame) -> DataFrame:
    """Each change that is not the one that stands (silver's, else the batch's first), beside what stands, where their texts differ."""
    standing = F.when(F.col("_known"), F.col("_known_after")).otherwise(F.col("after")).alias("_standing")
    names = ["database", "table"]
    twins = marked.select(*names, standing, F.explode("_twins").alias("_twin")).select(*names, "_standing", "_twin.*")
    arrived = marked.where(F.col("_known")).select(*names, standing, "after", *ORIGIN)
    return twins.unionByName(arrived).where(F.col("after") != F.col("_standing"))


def _conflicting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        kept = [_letter(row) for row in batch.to_pylist() if disagree(row["after"], row["_standing"])]
        yield pa.RecordBatch.from_pylist(kept, schema=to_arrow_schema(columns(LETTERS)))


def _letter(row: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("database", "table", "topic", "incarnation", "partition", "offset", "index", "path")}
    return {**place, "code": "conflict", "message": CONFLICT}


def disagree(one: str | None, other: str | None) -> bool:
    """Whether two after-images differ in a column that both have."""
    if one is None or other is None:
        return False
    left, right = json.loads(one), json.loads(other)
    return any(left[name] != right[name] for name in left.keys() & right.keys())
