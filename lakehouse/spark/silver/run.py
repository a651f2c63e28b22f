"""Runs bronze to silver: decode each record once and keep every distinct change, in batches that are safe to
repeat after a crash.

A batch is planned (offset ranges, in the ops log), decoded, deduped exactly, appended in Delta transactions
that name the plan, and then marked done. A batch planned but not done is done again by the same plan; writes
that had been committed are skipped by Delta, and rows of its own number do not count as known.
"""

import math
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.ops.progress import Counts, OffsetRange
from lakehouse.ops.records.bronze import Backfill, Read
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.reporting.text.values import counted, pace
from lakehouse.silver import backfill
from lakehouse.silver.redelivery import rule_of
from lakehouse.silver.transaction_watermark import waits
from lakehouse.sources.kafka_offsets import Reading, has_more, is_read, reading_of, undone
from lakehouse.spark import limits
from lakehouse.spark.bronze.claim_checks import has_attachments, is_searched, searched, with_attachments
from lakehouse.spark.bronze.epochs import epochs_of
from lakehouse.spark.bronze.offsets import unread, within
from lakehouse.spark.bronze.record_files import RECORD_BYTES, record_files, unread_sizes
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.commit_files import UNREADABLE
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.session import ARROW_ROWS, arrow_rows_of, many_rows
from lakehouse.spark.silver.columns import INPUT
from lakehouse.spark.silver.context import batch_context, files_of
from lakehouse.spark.silver.done_record import Sent, done_record, next_offsets, with_counts
from lakehouse.spark.silver.driver_batch import run_local_batch
from lakehouse.spark.silver.redelivery import Replays, find_replays
from lakehouse.spark.silver.spark_batch import run_spark_batch
from lakehouse.spark.silver.tables import SilverSettings, next_txn, refuse_other_reading
from lakehouse.spark.table_versions import NEWEST, commits_above

Wanted = tuple[OffsetRange, ...] | Done | None
PLACE = ["topic", "incarnation", "partition"]
# a batch that is larger than it may be by so little is not cut once more, for that is another job
ENOUGH = 20 / 21


def run_silver(
    context: RunContext,
    feed: SilverSettings,
    stopped: Callable[[], bool] = lambda: False,
    landed: OpsLog | None = None,
    *,
    looked: bool = False,
) -> int:
    """Work off everything that bronze holds, or until `stopped`; returns how many batches were written.
    `landed`: the log that says what bronze holds, where it is another one. `looked`: bronze has looked for
    more since the last batch.
    """
    done, landed = 0, landed or context.log
    with context.log.gathering():  # a batch is done in the commit that plans the next one
        while (
            not stopped()
            and (plan := next_plan(context.log, feed, landed, looked=looked and not done)) is not None
        ):
            begun = time.monotonic()
            counts = run_batch(context.log, feed, plan)
            left = left_to_do(context.log, landed)
            _tell(context, plan, counts, left=left, seconds=time.monotonic() - begun)
            done += 1
    return done


def _tell(context: RunContext, plan: Planned, counts: Counts, *, left: int, seconds: float) -> None:
    """Say what a batch held, how fast that went, and what was odd about it."""
    name, rate = context.source, pace(counts.messages, seconds, left)
    context.progress(
        f"silver  {name}: batch {plan.batch}: {counted(counts.messages, 'message')}, "
        f"{counted(counts.inserted, 'change')}, {counted(counts.duplicate, 'duplicate')}, "
        f"{counted(counts.ddl, 'DDL')}, {counted(counts.dead, 'dead letter')}{rate}"
    )
    if plan.again and plan.backfills:
        context.progress(f"silver  {name}: messages had come below those that were read, and are decoded now")
    if counts.broken_replays:
        context.progress(
            f"warning: {name}: messages were sent again and then went on otherwise than before: "
            "tables may have seen the past"
        )


def left_to_do(log: OpsLog, landed: OpsLog) -> int:
    """About how many messages of topics are landed and not decoded; 0 where bronze reads no topics."""
    done = log.last(Done)
    following = {offset.place: offset.offset for offset in (done.next if done else ())}
    return undone(reading_of(landed.last(Read)), following)


def next_plan(
    log: OpsLog, feed: SilverSettings, landed: OpsLog | None = None, *, looked: bool = False
) -> Planned | None:
    """The batch that was planned and not done, else a new one over the next bounded ranges, else None.
    `landed` and `looked` as in `run_silver`. LakehouseError where silver was decoded under other options of
    the decoder.
    """
    last, done = log.last(Planned), log.last(Done)
    refuse_other_reading(log, feed.read_as)
    if last is not None and (done is None or done.batch < last.batch):
        return last
    landed = landed or log
    late, reading = landed_late(log, done), reading_of(landed.last(Read))
    if late:
        following = Following(late, is_small(log, feed, late))
    else:
        following = following_records(log, feed, done, landed)
    ranges = following.ranges
    whole = following.is_all and (reading is None or not has_more(next_offsets(ranges, done), reading))
    if not ranges and not (whole and counts_alone(log, done, reading, looked=looked)):
        return None
    plan = Planned(
        batch=(done.batch if done else 0) + 1,
        generation=last.generation if last else uuid.uuid4().hex,
        small=following.small,
        arrow_rows=following.arrow_rows,
        txn=next_txn(log),
        bronze=following.bronze,
        ranges=ranges if late else _with_context(ranges, done),
        again=bool(late),
        backfills=len(log.all(Backfill)),
        read_as=feed.read_as,
        whole=whole,
        files=files_of(feed.format, log.source, next_offsets(following.landed, done)),
    )
    log.add(plan)
    return plan


def counts_alone(log: OpsLog, done: Done | None, reading: Reading | None, *, looked: bool) -> bool:
    """Whether a batch of no record, which leaves nothing unread, makes something count. The last one may have
    read what landed after the last reading; where topics end does not show by itself that nothing else did,
    for markers of the producer's transactions may stand behind the last record. `looked` as in `run_silver`.
    """
    if done is None or done.transactions is None:
        return False
    if waits(done.transactions, looked=looked):
        return True
    plans = [one for one in log.gists(Planned) if not one.again]
    is_open = bool(plans) and not plans[-1].whole
    return is_open and reading is not None and not is_read(done.next, reading)


def following_records(log: OpsLog, feed: SilverSettings, done: Done | None, landed: OpsLog) -> "Following":
    """The records to read next, without a look at any where bronze has no others. `landed` as in
    `run_silver`.
    """
    if not log.lake.exists(log.spark, "bronze", log.source):
        return Following((), small=True)
    newest = bronze_version(log, done)
    if newest is None:
        return Following((), small=True, is_all=True)
    following = next_ranges(log.spark, log.lake, feed, done, log=landed)
    if following.is_all and not is_searched(landed, feed.format, feed.options):
        following = following._replace(is_all=False)
    return following._replace(bronze=newest if following.is_all else UNSET)


def landed_late(log: OpsLog, done: Done | None) -> tuple[OffsetRange, ...]:
    """What has landed below where silver goes on, and no batch has read."""
    if done is None:
        return ()
    known = 0 if done.backfills is UNSET else done.backfills
    return backfill.unread((one for record in log.all(Backfill)[known:] for one in record.ranges), done.next)


def is_small(log: OpsLog, feed: SilverSettings, ranges: tuple[OffsetRange, ...]) -> bool:
    """Whether the driver may decode these records by itself."""
    return _few(_sizes(log.spark, log.lake, feed, ranges)) is not None


class Following(NamedTuple):
    """Per partition the records to read next; whether they are few; how many of them a Python worker may take
    at once; whether they are all that bronze has, and the version of its table that has no others; and all
    that have `landed` and are not read.
    """

    ranges: tuple[OffsetRange, ...]
    small: bool
    arrow_rows: int = ARROW_ROWS
    is_all: bool = False
    bronze: tuple[int, int] | UnsetType = UNSET
    landed: tuple[OffsetRange, ...] = ()


def bronze_version(log: OpsLog, done: Done | None) -> tuple[int, int] | None:
    """The newest version of bronze's table, and when it was made; None where it has no record that is not
    read: there is no table, or nothing has been added to it since a version of which all is read. No record
    is looked at.
    """
    if not log.lake.exists(log.spark, "bronze", log.source):
        return None
    known, at = done.bronze if done is not None and done.bronze is not UNSET else (NEWEST, 0)
    commits = commits_above(log.spark, log.lake, ("bronze", log.source), known - 1)
    above = [one for one in commits if one.version > known]
    is_same = any((one.version, one.at) == (known, at) for one in commits)
    is_same = is_same and len(above) == commits[0].version - known
    if is_same and all(one.keeps_rows for one in above):
        return None
    return commits[0].version, commits[0].at


def next_ranges(
    spark: SparkSession, lake: Lake, feed: SilverSettings, done: Done | None, *, log: OpsLog | None = None
) -> Following:
    """The records to read next, from the first one not done, bounded; with bronze's `log`, of those whose
    claim-check payloads were copied.
    """
    is_apart = log is not None and has_attachments(feed.format, feed.options)
    here = None if is_apart else unread_sizes(spark, lake, feed.name, done.next if done else ())
    narrow = _sizes(spark, lake, feed, done, log=log) if here is None else None
    if (few := _few(here if narrow is None else narrow)) is not None:
        ranges = _ranges(_grouped(few))
        return Following(ranges, small=True, is_all=True, landed=ranges)
    rows = _grouped(here) if narrow is None else _per_partition(narrow)
    landed = _ranges(rows)
    if _share(feed, rows) < 1:
        rows = _first_records(narrow or _sizes(spark, lake, feed, done, log=log), feed, rows)
    is_all = _ranges(rows) == landed
    mean = sum(row["bytes"] for row in rows) / sum(row["n"] for row in rows)
    return Following(_ranges(rows), small=False, arrow_rows=arrow_rows_of(mean), is_all=is_all, landed=landed)


def _grouped(narrow: pa.Table) -> list[dict[str, Any]]:
    """`_per_partition` of the driver's rows."""
    told = [("offset", "min"), ("offset", "max"), ("offset", "count"), ("bytes", "sum")]
    rows = narrow.group_by(PLACE).aggregate(told).to_pylist()
    return [{**row, "n": row["offset_count"], "bytes": row["bytes_sum"]} for row in rows]


def _per_partition(narrow: DataFrame) -> list[dict[str, Any]]:
    """The first and last offset of each partition, and how many records and bytes it has."""
    grouped = narrow.groupBy(*PLACE).agg(
        F.min("offset").alias("offset_min"),
        F.max("offset").alias("offset_max"),
        F.count("*").alias("n"),
        F.sum("bytes").alias("bytes"),
    )
    with many_rows(narrow.sparkSession):
        return [row.asDict() for row in grouped.collect()]


def _share(feed: SilverSettings, rows: list[dict[str, Any]]) -> float:
    """The part of the partitions' records that a batch may have."""
    records, size = (sum(row[name] for row in rows) for name in ("n", "bytes"))
    return min(1, feed.max_records / max(records, 1), feed.max_bytes / max(size, 1))


def _first_records(
    narrow: DataFrame, feed: SilverSettings, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What of each partition a batch has: so much of its offsets as of all records fit, and less where its
    first ones are larger than others, or lie closer, by more than a twentieth. A partition has its first
    record in any case.
    """
    share = _share(feed, rows)
    spans = [{**row, "offset_max": _cut(row["offset_min"], row["offset_max"], share)} for row in rows]
    near = within(narrow, _ranges(spans))
    found = _per_partition(near)
    share = _share(feed, found)
    if share >= ENOUGH:
        return found
    near, whole = near.withColumn("n", F.lit(1)), Window.partitionBy(*PLACE)
    so_far = whole.orderBy("offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fits = [F.sum(name).over(so_far) <= F.sum(name).over(whole) * share for name in ("n", "bytes")]
    is_taken = (fits[0] & fits[1]) | (F.row_number().over(whole.orderBy("offset")) == 1)
    return _per_partition(near.withColumn("is_taken", is_taken).where("is_taken"))


def _cut(first: int, last: int, share: float) -> int:
    """The last offset of a share of the offsets, one at least."""
    return max(first, first + math.ceil((last - first + 1) * share) - 1)


def _sizes(
    spark: SparkSession, lake: Lake, feed: SilverSettings, wanted: Wanted, *, log: OpsLog | None = None
) -> DataFrame:
    """The places and sizes of the records of some ranges, or of those that a done batch has left."""
    bronze = lake.read_or_empty(spark, "bronze", feed.name, BRONZE_SCHEMA)
    if isinstance(wanted, tuple):
        bronze = within(bronze, wanted)
    elif wanted is not None:
        bronze = unread(bronze, wanted.next)
    if log is not None:
        bronze = searched(log, feed.format, feed.options, bronze)
    size = (F.coalesce("size", F.lit(0)) + RECORD_BYTES).alias("bytes")
    return bronze.select(*PLACE, "offset", size)


def _few(narrow: DataFrame | pa.Table) -> pa.Table | None:
    """All of these records, where the driver may decode them by itself."""
    few = narrow if isinstance(narrow, pa.Table) else narrow.limit(limits.SILVER_BATCH_RECORDS + 1).toArrow()
    if few.num_rows > limits.SILVER_BATCH_RECORDS:
        return None
    return few if few.num_rows == 0 or pc.sum(few["bytes"]).as_py() <= limits.SILVER_BATCH_BYTES else None


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


def decoded_here(records: pa.Table) -> pa.Table | None:
    """The records, if the driver decodes them by itself. Batches are planned by the sizes of values, and keys
    have sizes too: where a message holds many small changes, they are most of its bytes.
    """
    return records if records.nbytes <= limits.SILVER_BATCH_BYTES else None


def _records(log: OpsLog, feed: SilverSettings, plan: Planned, bronze: DataFrame) -> pa.Table:
    """The records of a small batch."""
    files = record_files(log.spark, log.lake, feed.name, plan.ranges, columns=INPUT, ordered=True)
    if files is not None:
        with suppress(*UNREADABLE):  # Spark's own error is the one to show
            return files.table()
    return bronze.select(*INPUT).toArrow()


def run_batch(log: OpsLog, feed: SilverSettings, plan: Planned) -> Counts:
    """Decode and write one planned batch; returns its counts."""
    spark, lake = log.spark, log.lake
    bronze = within(lake.read(spark, "bronze", feed.name), plan.ranges)
    bronze = with_attachments(log, feed.format, feed.options, bronze)
    done = log.last(Done)
    small = plan.small and not has_attachments(feed.format, feed.options)
    table = decoded_here(_records(log, feed, plan, bronze)) if small else None
    read = bronze if table is None else table
    seen = Replays({}, 0, ())
    if (rule := rule_of(feed.format, feed.order)) is not None:
        seen = find_replays(lake.read(spark, "bronze", feed.name), rule, plan.ranges, done, table=table)
    near = batch_context(log, feed.format, feed.options, plan.ranges, files=plan.files, records=read)
    # of records that are read again no batch reads on: parts that wait would be forgotten with their letters
    near = replace(near, copies=seen.copies, final=plan.again, apart=plan.again)
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
    log.add_along(done_record(plan, with_counts(log, done), summary, runs, counts=counts, sent=sent))
    return counts
