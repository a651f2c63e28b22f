"""Bronze to silver: decode each record once, keep every distinct change, in batches that a crash can only
repeat.

A batch is planned (offset ranges, in the ops log), decoded, deduped exactly, appended with its number as the
Delta transaction's version, and then marked done. A batch planned but not done is done again with the same
ranges; writes that had been committed are skipped by Delta, and rows of its own number do not count as known.
"""

import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.silver.batch_summary import Summary, from_bytes, merged
from lakehouse.silver.redelivery import rule_of
from lakehouse.spark.bronze.epochs import epochs_of
from lakehouse.spark.bronze.recordings import BRONZE_SCHEMA
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.session import capabilities, keeping, many_rows
from lakehouse.spark.silver.context import beside, has_attachments, with_attachments
from lakehouse.spark.silver.decode import INPUT, POSITION, decode
from lakehouse.spark.silver.dedupe import Distinct, distinct_changes, is_distinct
from lakehouse.spark.silver.done_record import done_record, transactions_told
from lakehouse.spark.silver.driver_batch import append_rows, new_schema_rows, risen, run_local_batch
from lakehouse.spark.silver.keyless_rows import number_halves
from lakehouse.spark.silver.packed import changes_frame, others_frame
from lakehouse.spark.silver.redelivery import Replays, find_replays

ORIGIN = "struct<topic:string,incarnation:string,partition:int,offset:bigint,index:int,path:string>"
CHANGES = f"""source string, database string, `table` string, key string, op string, commit_ts bigint,
position {POSITION},
  before string, after string, types string, encoding string, flags array<string>, key_names array<string>,
  row_id string,
  physical_table bigint, origin {ORIGIN}, batch bigint"""
SCHEMA_CHANGES = f"""source string, kind string, database string, `table` string, commit_ts bigint, position
{POSITION}, ddl string,
  columns string, primary_key array<string>, origin {ORIGIN}, batch bigint"""
WATERMARKS = (
    f"source string, topic string, incarnation string, partition int, position {POSITION}, "
    "resolved_ts bigint, batch bigint"
)
DEAD_LETTERS = (
    "source string, code string, message string, database string, `table` string, origin "
    f"{ORIGIN}, batch bigint"
)
SCHEMAS = {
    "changes": CHANGES,
    "schema_changes": SCHEMA_CHANGES,
    "watermarks": WATERMARKS,
    "dead_letters": DEAD_LETTERS,
}
Progress = Callable[[str], None]
# up to this much the driver decodes by itself: the fixed cost of Spark jobs would be all there is
SMALL_RECORDS = 20_000
SMALL_BYTES = 32 * 1024 * 1024
# records handed to a Python worker at once: Spark's own limit in bytes walks every array again at each row,
# so it is no option
ARROW_ROWS = 10_000
ARROW_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Feed:
    """What silver needs to know of a source. `settled`: bronze has all there will be, nothing is on
    its way.
    """

    name: str
    format: str
    order: str
    options: dict[str, str] = field(default_factory=dict)
    row_ids: bool = False
    max_records: int = 1_000_000
    max_bytes: int = 256 * 1024 * 1024
    settled: bool = False


def silver_schema(name: str) -> StructType:
    return columns(SCHEMAS[name])


def read_silver(spark: SparkSession, lake: Lake, source: str, name: str) -> DataFrame:
    """A silver table of a source, empty where it does not exist yet."""
    return lake.read_or_empty(spark, "silver", f"{source}_{name}", silver_schema(name))


def run_silver(
    spark: SparkSession,
    lake: Lake,
    feed: Feed,
    log: OpsLog,
    progress: Progress,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Work off everything that bronze holds, or until `stopped`; returns how many batches were written."""
    done = 0
    while not stopped() and (plan := next_plan(spark, lake, feed, log)) is not None:
        counts = run_batch(spark, lake, feed, log, plan)
        progress(
            f"silver  {feed.name}: batch {plan['batch']}: {counts['messages']} messages, "
            f"{counts['inserted']} changes,"
            f" {counts['duplicate']} duplicates, {counts['ddl']} DDLs, {counts['dead']} dead letters"
        )
        if counts["broken_replays"]:
            progress(
                f"warning: {feed.name}: messages were sent again and then went on otherwise than before: "
                "tables may have seen the past"
            )
        done += 1
    return done


def next_plan(spark: SparkSession, lake: Lake, feed: Feed, log: OpsLog) -> dict[str, Any] | None:
    """The batch that was planned and not done, else a new one over the next bounded ranges, else None."""
    last, done = log.last("planned"), log.last("done")
    if last is not None and (done is None or done["batch"] < last["batch"]):
        return last
    ranges, small, arrow_rows = next_ranges(spark, lake, feed, done)
    if not ranges:
        return None
    generation = last["generation"] if last else uuid.uuid4().hex
    plan = {
        "batch": (done["batch"] if done else 0) + 1,
        "generation": generation,
        "small": small,
        "arrow_rows": arrow_rows,
        "ranges": _with_context(ranges, done),
    }
    log.add("planned", plan)
    return plan


def next_ranges(
    spark: SparkSession, lake: Lake, feed: Feed, done: dict[str, Any] | None
) -> tuple[list[dict[str, Any]], bool, int]:
    """Per partition the records to read next, from the first one not done, bounded; whether they are few; and
    how many of them a Python worker may take at once.
    """
    bronze = lake.read_or_empty(spark, "bronze", feed.name, BRONZE_SCHEMA)
    fresh = bronze.where(after(done["next"])) if done and done["next"] else bronze
    narrow = fresh.select(
        "topic", "incarnation", "partition", "offset", (F.coalesce("size", F.lit(0)) + 100).alias("bytes")
    )
    few = narrow.limit(SMALL_RECORDS + 1).toArrow()
    if few.num_rows <= SMALL_RECORDS and (few.num_rows == 0 or pc.sum(few["bytes"]).as_py() <= SMALL_BYTES):
        return (
            _ranges(
                few.group_by(["topic", "incarnation", "partition"])
                .aggregate([("offset", "min"), ("offset", "max")])
                .to_pylist()
            ),
            True,
            ARROW_ROWS,
        )
    grouped = narrow.groupBy("topic", "incarnation", "partition").agg(
        F.min("offset").alias("offset_min"),
        F.max("offset").alias("offset_max"),
        F.count("*").alias("n"),
        F.sum("bytes").alias("bytes"),
    )
    with many_rows(spark):
        rows = [row.asDict() for row in grouped.collect()]
    share = min(
        1.0,
        feed.max_records / max(sum(row["n"] for row in rows), 1),
        feed.max_bytes / max(sum(row["bytes"] for row in rows), 1),
    )
    for row in rows:
        row["offset_max"] = max(
            row["offset_min"],
            row["offset_min"] + math.ceil((row["offset_max"] - row["offset_min"] + 1) * share) - 1,
        )
    mean = sum(row["bytes"] for row in rows) / sum(row["n"] for row in rows)
    return _ranges(rows), False, max(1, min(ARROW_ROWS, int(ARROW_BYTES / mean)))


def _ranges(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(rows, key=lambda row: (row["topic"], row["incarnation"], row["partition"]))
    return [
        {
            "topic": row["topic"],
            "incarnation": row["incarnation"],
            "partition": row["partition"],
            "first": row["offset_min"],
            "last": row["offset_max"],
        }
        for row in ordered
    ]


def _with_context(ranges: list[dict[str, Any]], done: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Ranges that say from where on to read, where parts before their first record are needed."""
    resume = {
        (e["topic"], e["incarnation"], e["partition"]): e["offset"] for e in (done or {}).get("resume", [])
    }
    for entry in ranges:
        entry["context"] = resume.get(
            (entry["topic"], entry["incarnation"], entry["partition"]), entry["first"]
        )
    return ranges


def after(next_offsets: list[dict[str, Any]]) -> Column:
    """Records that no done batch has read."""
    known = F.lit(False)
    fresh = F.lit(False)
    for entry in next_offsets:
        mine = _is_partition(entry)
        known = known | mine
        fresh = fresh | (mine & (F.col("offset") >= entry["offset"]))
    return fresh | ~known


def _is_partition(entry: dict[str, Any]) -> Column:
    return (
        (F.col("topic") == entry["topic"])
        & (F.col("incarnation") == entry["incarnation"])
        & (F.col("partition") == entry["partition"])
    )


def in_ranges(ranges: list[dict[str, Any]]) -> Column:
    """Records within the ranges, and those before them whose parts they need."""
    condition = F.lit(False)
    for entry in ranges:
        condition = condition | (
            _is_partition(entry)
            & F.col("offset").between(entry.get("context", entry["first"]), entry["last"])
        )
    return condition


def run_batch(
    spark: SparkSession, lake: Lake, feed: Feed, log: OpsLog, plan: dict[str, Any]
) -> dict[str, int]:
    """Decode and write one planned batch; returns its counts."""
    bronze = lake.read(spark, "bronze", feed.name).where(in_ranges(plan["ranges"]))
    bronze = with_attachments(spark, lake, feed.name, feed.format, feed.options, bronze)
    done = log.last("done")
    small = plan["small"] and not has_attachments(feed.format, feed.options)
    table = bronze.select(*INPUT).toArrow() if small else None
    seen = Replays({}, 0, [])
    if (rule := rule_of(feed.format, feed.order)) is not None:
        seen = find_replays(lake.read(spark, "bronze", feed.name), rule, plan["ranges"], done, table)
    near = replace(
        beside(spark, lake, feed.name, feed.format, feed.options, plan["ranges"]), copies=seen.copies
    )
    settings = {
        "format": feed.format,
        "options": feed.options,
        "order": feed.order,
        "row_ids": feed.row_ids,
        "epochs": epochs_of(log),
        "floors": floors_of(log),
        "beside": near,
    }
    if table is not None:
        summary, runs, counts = run_local_batch(spark, lake, feed, table, settings, plan, done)
    else:
        summary, runs, counts = run_spark_batch(spark, lake, feed, bronze, settings, plan, done)
    counts = {
        **counts,
        "decoded": counts["decoded"] + counts["below"],
        "copies": sum(len(offsets) for offsets in seen.copies.values()),
        "broken_replays": seen.broken,
    }
    record = done_record(plan, done, summary, runs, counts)
    if plan.get("again") and done:  # out of order: runs of keyless rows and parts that wait are as they were
        record |= {"runs": done["runs"], "resume": done["resume"], "servers": done.get("servers")}
    log.add(
        "done",
        {
            **record,
            "arrival": feed.order in ("arrival", "files"),
            "requeued": plan.get("requeue"),
            "sent": seen.state,
        },
    )
    return counts


def run_spark_batch(
    spark: SparkSession,
    lake: Lake,
    feed: Feed,
    bronze: DataFrame,
    settings: dict[str, Any],
    plan: dict[str, Any],
    done: dict[str, Any] | None,
) -> tuple[Summary, dict[str, Any], dict[str, int]]:
    """Decode and write one batch of any size in Spark jobs."""
    bounded = _bounded(spark, plan.get("arrow_rows", ARROW_ROWS))
    with many_rows(spark), keeping(), bounded, staged(spark, lake, feed, decode(bronze, settings)) as packed:
        books = read_books(packed)
        summary = merged(from_bytes(row.book) for row in books)
        changes, others = changes_frame(packed), others_frame(packed)
        if feed.format == "debezium":
            summary.told, summary.settled = transactions_told(changes, others), feed.settled
        runs = (done or {}).get("runs", {})
        top = (done or {}).get("top")
        if summary.keyless:
            changes, runs = number_halves(changes, others, runs)
        if not summary.keyless and is_distinct(
            spark, lake, feed, (row.hashes for row in books), summary, plan["batch"], top
        ):
            result = Distinct(
                changes if summary.counts["decoded"] else None, None, summary.counts["decoded"], 0, 0
            )
        else:
            result = distinct_changes(spark, lake, feed, changes, summary, plan["batch"], top)
        if result.conflicts is not None:
            for row in result.conflicts.groupBy("database", "table").count().collect():
                summary.dead[row.database, row.table] = (
                    summary.dead.get((row.database, row.table), 0) + row["count"]
                )
        writer = Writer(spark, lake, feed, plan)
        writer.changes(result.distinct)
        writer.schema_changes(others, summary)
        writer.dead_letters(others, result.conflicts, summary)
        append_rows(spark, lake, feed, plan, "watermarks", risen(summary, done))
    return (
        summary,
        runs,
        {
            **summary.counts,
            "inserted": result.inserted,
            "duplicate": result.duplicates,
            "conflict": result.conflicted,
        },
    )


def read_books(packed: DataFrame) -> list[Any]:
    """What workers say of what they have decoded, and the hashes of its changes; this is what decodes a
    batch.
    """
    return packed.select("book", "hashes").collect()


@contextmanager
def _bounded(spark: SparkSession, rows: int) -> Iterator[None]:
    """At most so many records for a Python worker at once, where the platform lets it be set: records may be
    files of 64 MB.
    """
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    if rows >= ARROW_ROWS or not capabilities(spark).persist:
        yield
        return
    before = spark.conf.get(name)
    spark.conf.set(name, str(rows))
    try:
        yield
    finally:
        spark.conf.set(name, before)


@contextmanager
def staged(spark: SparkSession, lake: Lake, feed: Feed, packed: DataFrame) -> Iterator[DataFrame]:
    """What was decoded, decoded once: kept in memory and on disk where the platform can, else in a staging
    table.
    """
    if capabilities(spark).persist:
        kept = packed.persist()
        try:
            yield kept
        finally:
            kept.unpersist()
    else:
        lake.overwrite(packed, "silver", f"_{feed.name}_staging")
        yield lake.read(spark, "silver", f"_{feed.name}_staging")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes one batch, in the order that a reader of `done` batches relies on."""

    spark: SparkSession
    lake: Lake
    feed: Feed
    plan: dict[str, Any]

    def changes(self, frame: DataFrame | None) -> None:
        if frame is not None:
            self._append("changes", frame)

    def schema_changes(self, others: DataFrame, summary: Summary) -> None:
        """Broadcast and replayed DDLs are one: the same position, database and text."""
        if summary.counts["ddl"]:
            told = others.where("kind = 'schema_change'").toArrow().to_pylist()
            told = [{**row, "position": tuple(row["position"].values())} for row in told]
            fresh = new_schema_rows(self.spark, self.lake, self.feed, told, self.plan["batch"])
            append_rows(self.spark, self.lake, self.feed, self.plan, "schema_changes", fresh)

    def dead_letters(self, others: DataFrame, conflicts: DataFrame | None, summary: Summary) -> None:
        if summary.counts["dead"]:
            letters = others.where("kind = 'dead_letter'")
            fresh = letters.withColumn("code", F.col("error_code")).withColumn(
                "message", F.col("error_message")
            )
            self._append(
                "dead_letters",
                fresh if conflicts is None else fresh.unionByName(conflicts, allowMissingColumns=True),
            )
        elif conflicts is not None:
            self._append("dead_letters", conflicts)

    def _append(self, name: str, frame: DataFrame) -> None:
        origin = F.struct("topic", "incarnation", "partition", "offset", "index", "path")
        frame = frame.withColumn("source", F.lit(self.feed.name)).withColumn(
            "batch", F.lit(self.plan["batch"]).cast("bigint")
        )
        if "origin" not in frame.columns and "offset" in frame.columns:
            frame = frame.withColumn("origin", origin)
        txn = (f"silver:{self.feed.name}:{name}:{self.plan['generation']}", self.plan["batch"])
        self.lake.append(frame.select(*silver_schema(name).names), "silver", f"{self.feed.name}_{name}", txn)
