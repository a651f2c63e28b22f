"""A large silver batch, in Spark jobs: decode, drop duplicates, append."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.formats import FORMATS
from lakehouse.ops.progress import OpenRuns
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.batch_summary import Summary, from_bytes, merged
from lakehouse.silver.identity import resolved_runs
from lakehouse.spark.bronze.claim_checks import has_attachments
from lakehouse.spark.bronze.record_files import RecordFiles, record_files
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.plain.files import Added
from lakehouse.spark.session import ARROW_ROWS, arrow_batches, capabilities, keeping, many_rows
from lakehouse.spark.silver.columns import INPUT, ORIGIN, PLACE, RECORD
from lakehouse.spark.silver.decode import decode, decode_files
from lakehouse.spark.silver.dedupe import Distinct, distinct_changes, highest_known, is_distinct
from lakehouse.spark.silver.done_record import transaction_events
from lakehouse.spark.silver.driver_batch import (
    append_rows,
    new_schema_rows,
    resolved_events,
    risen,
    runs_before,
)
from lakehouse.spark.silver.keyless_rows import number_halves
from lakehouse.spark.silver.packed import (
    Target,
    added_of,
    changes_frame,
    discard_staged,
    others_frame,
    staged_changes,
)
from lakehouse.spark.silver.tables import (
    SilverSettings,
    append_files_once,
    append_once,
    count_by_table,
    silver_schema,
)

# records handed to a Python worker at once: Spark's own limit in bytes walks every array again at each row,
# so it is no option


def run_spark_batch(
    log: OpsLog,
    feed: SilverSettings,
    bronze: DataFrame,
    settings: dict[str, Any],
    *,
    plan: Planned,
    done: Done | None,
) -> tuple[Summary, OpenRuns, dict[str, int]]:
    """Decode and write one batch of any size in Spark jobs."""
    with decoded_batch(log, feed, bronze, settings, plan=plan) as batch:
        changes, others, summary = batch.changes, batch.others, batch.summary
        if FORMATS[feed.format].transactions is not None:
            summary.told, summary.settled = transaction_events(changes, others), feed.settled
        runs = runs_before(plan, done)
        top = highest_known(feed.order, plan, done.top if done else None)
        if summary.keyless:
            changes, runs = number_halves(changes, others, runs, files=FORMATS[feed.format].reads_files)
        elif feed.order == "tidb" and summary.counts["watermarks"]:
            runs = resolved_runs(runs, resolved_events(resolved_rows(others, runs)))
        result = without_duplicates(log, feed, changes, batch.hashes, summary=summary, plan=plan, top=top)
        summary.inserted = dict(result.tables)
        count_conflicts(result, summary)
        writer = Writer(log, feed, plan)
        if result.distinct is not batch.changes or not writer.files(batch.files):
            writer.changes(result.distinct)
        writer.schema_changes(others, summary)
        writer.dead_letters(others, result.conflicts, summary)
        append_rows(log, feed, plan, name="watermarks", events=risen(summary, done))
    found = {"inserted": result.inserted, "duplicate": result.duplicates, "conflict": result.conflicted}
    return summary, runs, {**summary.counts, **found}


class Decoded(NamedTuple):
    """A decoded batch: what workers say of it and the hashes of its changes, the changes and everything else;
    the files that have the changes, where workers have written them, until a commit takes them over.
    """

    summary: Summary
    hashes: list[bytes]
    changes: DataFrame
    others: DataFrame
    files: list[Added]


@contextmanager
def decoded_batch(
    log: OpsLog, feed: SilverSettings, bronze: DataFrame, settings: dict[str, Any], *, plan: Planned
) -> Iterator[Decoded]:
    """Decode a batch, once; files of changes that are left at the end are deleted."""
    spark, target = log.spark, _target(log, feed, plan)
    rows = plan.arrow_rows or ARROW_ROWS
    bounded = arrow_batches(spark, rows)
    settings, read = {**settings, "files": target}, _files(log, feed, plan)
    packed_rows = decode(bronze, settings) if read is None else decode_files(spark, read, settings, rows)
    with many_rows(spark), keeping(), bounded, staged(log, packed_rows) as packed:
        told = read_books(packed)
        books, files = [row for row in told if row.book is not None], added_of(row.files for row in told)
        changes = staged_changes(spark, target, files) if target and files else changes_frame(packed)
        summary = merged(from_bytes(row.book) for row in books)
        try:
            hashes = [row.hashes for row in books]
            yield Decoded(summary, hashes, changes, others_frame(packed), files=files)
        finally:
            if target is not None:
                discard_staged(target, files)


def _files(log: OpsLog, feed: SilverSettings, plan: Planned) -> RecordFiles | None:
    """The files that workers read a batch's records from; None where Spark reads them."""
    if has_attachments(feed.format, feed.options):
        return None
    ordered = FORMATS[feed.format].parts is not None
    return record_files(log.spark, log.lake, feed.name, plan.ranges, columns=INPUT, ordered=ordered)


def _target(log: OpsLog, feed: SilverSettings, plan: Planned) -> Target | None:
    """Where workers write a batch's changes themselves; None where Spark does."""
    folder = log.lake.files_folder(log.spark, "silver", f"{feed.name}_changes", silver_schema("changes"))
    return None if folder is None else Target(str(folder), feed.name, plan.batch)


def resolved_rows(others: DataFrame, runs: OpenRuns) -> list[dict[str, Any]]:
    """The resolved events that the runs after a batch depend on: of each partition the last one, or all where
    runs are open.
    """
    marks = others.where("kind = 'watermark'").select("kind", *RECORD, "index", "resolved_ts")
    if all(run.ended for tables in runs.values() for run in tables.values()):
        last = F.max(F.struct("offset", "index", "resolved_ts")).alias("last")
        marks = marks.groupBy("kind", *PLACE).agg(last).select("kind", *PLACE, "last.*")
    return list(marks.toArrow().to_pylist())


def without_duplicates(
    log: OpsLog,
    feed: SilverSettings,
    changes: DataFrame,
    hashes: list[bytes],
    *,
    summary: Summary,
    plan: Planned,
    top: Position | None,
) -> Distinct:
    """The changes that silver does not have yet. Where the hashes of their identities show that all are new
    and different, none is looked at.
    """
    batch = plan.batch
    if summary.keyless or not is_distinct(log, feed, hashes, summary, batch=batch, top=top):
        return distinct_changes(log, feed, changes, summary, batch=batch, top=top, again=plan.again)
    decoded = summary.counts["decoded"]
    return Distinct(
        changes if decoded else None,
        None,
        inserted=decoded,
        duplicates=0,
        conflicted=0,
        tables={name: bounds["n"] for name, bounds in summary.tables.items()},
    )


def count_conflicts(result: Distinct, summary: Summary) -> None:
    """Add the changes that contradict known ones to the summary's dead letters."""
    if result.conflicts is None:
        return
    for name, number in count_by_table(result.conflicts).items():
        summary.dead[name] = summary.dead.get(name, 0) + number


def read_books(packed: DataFrame) -> list[Any]:
    """What workers say of what they have decoded, the hashes of its changes, and in rows of their own the
    files that they have written; this is what decodes a batch.
    """
    return packed.select("book", "hashes", "files").collect()


def staging_table(source: str, suffix: str) -> str:
    """The staging table of a source, in the generation of silver whose log has this suffix."""
    return f"_{source}_staging{suffix}"


@contextmanager
def staged(log: OpsLog, packed: DataFrame) -> Iterator[DataFrame]:
    """What was decoded, decoded once: kept in memory and on disk where the platform can, else in a staging
    table. A generation of silver that is built beside another one has its own: each query reads it anew.
    """
    if capabilities(log.spark).persist:
        kept = packed.persist()
        try:
            yield kept
        finally:
            kept.unpersist()
    else:
        name = staging_table(log.source, log.suffix)
        log.lake.overwrite(packed, "silver", name)
        yield log.lake.read(log.spark, "silver", name)


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes one batch, in the order that a reader of `done` batches relies on."""

    log: OpsLog
    feed: SilverSettings
    plan: Planned

    def changes(self, frame: DataFrame | None) -> None:
        if frame is not None:
            self._append("changes", frame)

    def files(self, added: list[Added]) -> bool:
        """Add files of changes to silver, which are the table's then; False where nothing was done."""
        if not added:
            return False
        # from here on nobody deletes them, whatever becomes of the commit
        taken = list(added)
        added.clear()
        if not append_files_once(self.log, taken, self.feed, self.plan):
            added += taken
        return not added

    def schema_changes(self, others: DataFrame, summary: Summary) -> None:
        """Broadcast and replayed DDLs are one: the same position, database and text."""
        if summary.counts["ddl"]:
            told = others.where("kind = 'schema_change'").toArrow().to_pylist()
            told = [{**row, "position": tuple(row["position"].values())} for row in told]
            fresh = new_schema_rows(self.log, self.feed, told, self.plan.batch)
            append_rows(self.log, self.feed, self.plan, name="schema_changes", events=fresh)

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
        frame = frame.withColumn("source", F.lit(self.feed.name)).withColumn(
            "batch", F.lit(self.plan.batch).cast("bigint")
        )
        if "origin" not in frame.columns and "offset" in frame.columns:
            frame = frame.withColumn("origin", F.struct(*ORIGIN))
        append_once(self.log.lake, frame.select(*silver_schema(name).names), self.feed, self.plan, name=name)
