"""Bronze to silver: decode each record once, keep every distinct change, in batches that a crash can only
repeat.

A batch is planned (offset ranges, in the ops log), decoded, deduped exactly, appended with its number as the
Delta transaction's version, and then marked done. A batch planned but not done is done again with the same
ranges; writes that had been committed are skipped by Delta, and rows of its own number do not count as known.
"""

import math
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.ops.progress import Counts, OffsetRange
from lakehouse.ops.records import Done, Planned
from lakehouse.silver.redelivery import rule_of
from lakehouse.spark import limits
from lakehouse.spark.bronze.claim_checks import has_attachments, with_attachments
from lakehouse.spark.bronze.epochs import epochs_of
from lakehouse.spark.bronze.offsets import after, in_ranges
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.session import many_rows
from lakehouse.spark.silver.columns import INPUT
from lakehouse.spark.silver.context import beside
from lakehouse.spark.silver.done_record import Sent, done_record
from lakehouse.spark.silver.driver_batch import run_local_batch
from lakehouse.spark.silver.redelivery import Replays, find_replays
from lakehouse.spark.silver.spark_batch import ARROW_ROWS, run_spark_batch
from lakehouse.spark.silver.tables import Feed

# a batch of Arrow rows holds at most so many bytes of messages
ARROW_BYTES = 64 * limits.MIB


def run_silver(context: RunContext, feed: Feed, stopped: Callable[[], bool] = lambda: False) -> int:
    """Work off everything that bronze holds, or until `stopped`; returns how many batches were written."""
    done = 0
    while not stopped() and (plan := next_plan(context.log, feed)) is not None:
        counts = run_batch(context.log, feed, plan)
        context.progress(
            f"silver  {feed.name}: batch {plan.batch}: {counts.messages} messages, {counts.inserted} changes,"
            f" {counts.duplicate} duplicates, {counts.ddl} DDLs, {counts.dead} dead letters"
        )
        if counts.broken_replays:
            context.progress(
                f"warning: {feed.name}: messages were sent again and then went on otherwise than before: "
                "tables may have seen the past"
            )
        done += 1
    return done


def next_plan(log: OpsLog, feed: Feed) -> Planned | None:
    """The batch that was planned and not done, else a new one over the next bounded ranges, else None."""
    last, done = log.last(Planned), log.last(Done)
    if last is not None and (done is None or done.batch < last.batch):
        return last
    ranges, small, arrow_rows = next_ranges(log.spark, log.lake, feed, done)
    if not ranges:
        return None
    plan = Planned(
        batch=(done.batch if done else 0) + 1,
        generation=last.generation if last else uuid.uuid4().hex,
        small=small,
        arrow_rows=arrow_rows,
        ranges=_with_context(ranges, done),
    )
    log.add(plan)
    return plan


def next_ranges(
    spark: SparkSession, lake: Lake, feed: Feed, done: Done | None
) -> tuple[tuple[OffsetRange, ...], bool, int]:
    """Per partition the records to read next, from the first one not done, bounded; whether they are few; and
    how many of them a Python worker may take at once.
    """
    bronze = lake.read_or_empty(spark, "bronze", feed.name, BRONZE_SCHEMA)
    fresh = bronze.where(after(done.next)) if done and done.next else bronze
    narrow = fresh.select(
        "topic", "incarnation", "partition", "offset", (F.coalesce("size", F.lit(0)) + 100).alias("bytes")
    )
    few = narrow.limit(limits.SILVER_BATCH_RECORDS + 1).toArrow()
    if few.num_rows <= limits.SILVER_BATCH_RECORDS and (
        few.num_rows == 0 or pc.sum(few["bytes"]).as_py() <= limits.SILVER_BATCH_BYTES
    ):
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


def _ranges(rows: list[dict[str, Any]]) -> tuple[OffsetRange, ...]:
    ranges = (
        OffsetRange(
            row["topic"], row["incarnation"], row["partition"], row["offset_min"], last=row["offset_max"]
        )
        for row in rows
    )
    return tuple(sorted(ranges, key=lambda one: one.place))


def _with_context(ranges: Iterable[OffsetRange], done: Done | None) -> tuple[OffsetRange, ...]:
    """Ranges that say from where on to read, where parts before their first record are needed."""
    resume = {one.place: one.offset for one in (done.resume if done else ())}
    return tuple(msgspec.structs.replace(one, context=resume.get(one.place, one.first)) for one in ranges)


def run_batch(log: OpsLog, feed: Feed, plan: Planned) -> Counts:
    """Decode and write one planned batch; returns its counts."""
    spark, lake = log.spark, log.lake
    bronze = lake.read(spark, "bronze", feed.name).where(in_ranges(plan.ranges))
    bronze = with_attachments(log, feed.format, feed.options, bronze)
    done = log.last(Done)
    small = plan.small and not has_attachments(feed.format, feed.options)
    table = bronze.select(*INPUT).toArrow() if small else None
    seen = Replays({}, 0, ())
    if (rule := rule_of(feed.format, feed.order)) is not None:
        seen = find_replays(lake.read(spark, "bronze", feed.name), rule, plan.ranges, done, table=table)
    near = replace(beside(log, feed.format, feed.options, plan.ranges), copies=seen.copies)
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
        summary, runs, counted = run_local_batch(log, feed, table, settings, plan=plan, done=done)
    else:
        summary, runs, counted = run_spark_batch(log, feed, bronze, settings, plan=plan, done=done)
    copies = sum(len(offsets) for offsets in seen.copies.values())
    decoded = counted["decoded"] + counted["below"]
    counts = Counts(**{**counted, "decoded": decoded}, copies=copies, broken_replays=seen.broken)
    sent = Sent(feed.order in ("arrival", "files"), seen.state)
    log.add(done_record(plan, done, summary, runs, counts=counts, sent=sent))
    return counts
