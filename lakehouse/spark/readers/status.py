"""The progress of a lake's sources, and what a run would do; read only."""

import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.load import Config
from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, PART, SETTLED
from lakehouse.lineage import split_name
from lakehouse.ops.progress import Counts, Partition
from lakehouse.ops.records.bronze import Read
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.kinds import to_json
from lakehouse.ops.records.operators import Verified, VerifiedTable
from lakehouse.ops.records.runs import Run, standing_failures
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.values import moment
from lakehouse.schema_history.table_lives import OLDER
from lakehouse.silver.partition_lives import without_later_marks
from lakehouse.sources.kafka_offsets import loss_text, reading_of, unread
from lakehouse.spark.bronze.kafka import listed
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.change_log.dead_letters import missing_files, missing_text, open_counts, open_losses
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.change_log.watermark import (
    awaited_rows,
    partition_lives,
    partition_watermarks,
    published_ends,
    snapshots_above,
    source_watermark,
    waiting_transaction,
)
from lakehouse.spark.gold.settings import asked_of, find_watermark
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from lakehouse.spark.silver.run import next_ranges
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source, kafka_input, selected_sources

# what `lag` may say of a source
LAG = ("broker", "lag_messages", "lag_by_partition", "lag_seconds")


def status(config: Config | None, lake: str | None, history: int = 0) -> list[dict[str, Any]]:
    """One entry per source: layers, watermark and who holds it, lag, dead letters, tables and their states;
    and its last runs.
    """
    spark = get_session()
    if config is not None and config.sources:
        found = [(source.lake, source.name, source) for source in selected_sources(config, (), lake)]
        return [
            {**source_status(spark, *each), **last_runs(spark, each[0], each[1], history)} for each in found
        ]
    place = Lake(lake or "./lake")
    return [
        {**source_status(spark, place, name, None), **last_runs(spark, place, name, history)}
        for name in sources(spark, place)
    ]


def orders(config: Config | None, lake: str | None) -> dict[str, str]:
    """The order of each source's positions (lakehouse.events), which `status` does not show."""
    if config is not None and config.sources:
        return {source.name: source.silver.order for source in selected_sources(config, (), lake)}
    return {name: found.order for name, found in sources(get_session(), Lake(lake or "./lake")).items()}


def last_runs(spark: SparkSession, lake: Lake, name: str, number: int) -> dict[str, Any]:
    """The last runs that did something or failed, newest first."""
    if not number:
        return {}
    runs = OpsLog(spark, lake, name).load().all(Run)[-number:]
    return {"runs": [run_line(run) for run in reversed(runs)]}


def run_line(run: Run) -> dict[str, Any]:
    """A run's record for people."""
    return {
        "begun": moment(run.begun),
        "seconds": round((run.ended - run.begun) / 1000, 1),
        "layers": list(run.layers),
        "landed": run.landed,
        "batches": run.batches,
        "published": bool(run.published),
        "outcome": run.error or "ok",
    }


def failed_runs(log: OpsLog) -> dict[str, Any]:
    """The runs that failed and whose layers have not run since, newest first."""
    failed = standing_failures(log.newest_first(Run), ("bronze", "silver", "gold"))
    return {"failed_runs": [run_line(run) for run in failed]}


def source_status(spark: SparkSession, lake: Lake, name: str, source: Source | None) -> dict[str, Any]:
    log = OpsLog(spark, lake, name).load()
    done, manifest = log.last(Done), log.last(Manifest)
    if done is None:
        return {"source": name, "state": "nothing has run yet", **failed_runs(log), **lag(source, log)}
    partitions, again = partition_lives(done, log)
    marks = partition_watermarks(done)
    position, holder = source_watermark(done, log)
    ends = without_later_marks(published_ends(manifest), marks)
    tables = manifest.tables if manifest else ()
    eventual = is_eventual(source, manifest)
    return {
        "source": name,
        "last_silver_batch": done.batch,
        "last_run": moment(log.records[-1].at),
        "watermark": list(position) if position != MIN_POSITION else None,
        "held_by": _held_by(done, holder),
        "no_watermark_seen": [
            f"{topic}/{number}"
            for topic, number in partitions
            if not eventual and (topic, number) not in marks and topic not in ends
        ],
        "topics_without_tables": sorted(ends),
        "deleted": _deleted(partitions, holder, log),
        "counts_again": [f"{topic}/{number}" for topic, number in again],
        "snapshots_above": snapshots_above(log),
        "waiting_transaction": waiting_transaction(log),
        "gold_watermark": list(manifest.watermark) if manifest else None,
        "consistency": manifest.consistency if manifest else None,
        "dead_letters": sum(open_counts(log).values()),
        "books": reconciliation(done.counts),
        "not_configured": not_configured(done, manifest),
        "gaps": [*map(loss_text, open_losses(log)), *map(missing_text, missing_files(log))],
        "problems": list(manifest.problems) if manifest else [],
        "tables": [table_status(entry) for entry in tables],
        **verified(log, {entry.name for entry in tables}),
        **failed_runs(log),
        **lag(source, log),
    }


def _held_by(done: Done, holder: Partition | None) -> str | None:
    """What holds the watermark: a partition, or a transaction of which rows are lacking."""
    if holder is None or holder[1] == WHOLE_SOURCE:
        return awaited_rows(done)
    return f"{holder[0]}/{holder[1]}"


def _deleted(partitions: Iterable[Partition], holder: Partition | None, log: OpsLog) -> list[str]:
    """The partitions of the topic that holds the watermark, where it is read no more."""
    return [
        f"{topic}/{number}"
        for topic, number in partitions
        if holder is not None and holder[0] == topic and is_deleted(log.last(Read), topic)
    ]


def is_deleted(read: Read | None, topic: str) -> bool:
    """Whether the broker no longer lists a topic that was read, or the YAML no longer names it."""
    return read is not None and topic in read.incarnations and topic not in read.topics


def not_configured(done: Done, manifest: Manifest | None) -> list[str]:
    """The tables that silver has and gold does not, where gold does not take all."""
    if manifest and manifest.auto:
        return []
    known = {name for entry in (manifest.tables if manifest else ()) for name in entry.names}
    return sorted(".".join(name) for name in {table.name for table in done.tables} - known)


def table_status(entry: TableEntry) -> dict[str, Any]:
    """A table's part of its source's status."""
    return {
        "table": entry.name,
        "state": entry.state,
        "why": entry.why,
        "notes": list(entry.notes),
        "version": entry.version,
    }


def verified(log: OpsLog, names: set[str]) -> dict[str, Any]:
    """When tables were compared with the source's server, how many, and which of them differed when they last
    were; nothing where none has been.
    """
    last: dict[str, tuple[int, VerifiedTable]] = {}
    for at, one in log.dated(Verified):
        last.update({table.name: (at, table) for table in one.tables if table.name in names})
    if not last:
        return {}
    return {
        "verified": {
            "at": max(at for at, _ in last.values()),
            "tables": len(last),
            "different": {name: one.different for name, (_, one) in sorted(last.items()) if one.different},
            "undecided": {name: one.undecided for name, (_, one) in sorted(last.items()) if one.undecided},
        }
    }


def reconciliation(counts: Counts) -> str:
    """Whether all decoded changes of a batch are accounted for: decoded = inserted + duplicate + conflict +
    below the floor.
    """
    unaccounted = counts.decoded - counts.inserted - counts.duplicate - counts.conflict - counts.below
    return "closed" if unaccounted == 0 else f"open: {unaccounted} decoded changes are not accounted for"


def with_lag(entry: dict[str, Any], source: Source | None, log: OpsLog) -> dict[str, Any]:
    """A source's entry with its lag as it is now."""
    return {**{name: value for name, value in entry.items() if name not in LAG}, **lag(source, log)}


def lag(source: Source | None, log: OpsLog) -> dict[str, Any]:
    """How many messages of the topic silver has not done, and how old its watermark is."""
    if source is None or source.config.kafka is None:
        return {}
    kafka = kafka_input(source)
    try:
        topics = listed(kafka)
    except LakehouseError as error:
        return {"broker": str(error)}
    done = log.last(Done)
    following = {offset.place: offset.offset for offset in (done.next if done else ())}
    behind = {
        f"{topic}/{number}": offsets
        for (topic, number), offsets in unread(reading_of(log.last(Read)), topics, following).items()
    }
    return {"lag_messages": sum(behind.values()), "lag_by_partition": behind, **age(done, log, source)}


def age(done: Done | None, log: OpsLog, source: Source) -> dict[str, Any]:
    """Seconds between now and the watermark's own time, for feeds whose watermark is a TSO."""
    if done is None or source.silver.order != "tidb":
        return {}
    position, _ = source_watermark(done, log)
    if position == MIN_POSITION:
        return {}
    return {"lag_seconds": max(0, round(time.time() - (position[1] >> 18) / 1000))}


def plan(config: Config, lake: str | None) -> list[dict[str, Any]]:
    """What a run would read, which DDLs and how many changes gold would apply, and what a changed
    configuration does.
    """
    spark = get_session()
    return [source_plan(spark, source) for source in selected_sources(config, (), lake)]


def is_eventual(source: Source | None, manifest: Manifest | None) -> bool:
    """Whether gold shows what has arrived, and waits for no watermark: by the source's YAML, or where that is
    not at hand by the last manifest.
    """
    if source is not None:
        return source.gold.consistency == "eventual"
    return manifest is not None and manifest.consistency == "eventual"


def source_plan(spark: SparkSession, source: Source) -> dict[str, Any]:
    lake, log = source.lake, OpsLog(spark, source.lake, source.name).load()
    done, manifest = log.last(Done), log.last(Manifest)
    ranges = next_ranges(spark, lake, source.silver, done).ranges
    would_read = [to_json(offsets) for offsets in ranges]
    entry: dict[str, Any] = {"source": source.name, "silver_would_read": would_read, **lag(source, log)}
    if done is None:
        return entry
    before = manifest.watermark if manifest else MIN_POSITION
    position, _ = find_watermark(source.gold, log, done)
    window = between(before, position)
    changes = (
        read_silver(spark, lake, source.name, "changes")
        .where(window)
        .groupBy("database", "table")
        .count()
        .collect()
    )
    ddl = (
        read_silver(spark, lake, source.name, "schema_changes")
        .where(window)
        .where(f"kind NOT IN ('{PART}', '{SETTLED}')")
        .orderBy("position")
        .select("ddl")
        .collect()
    )
    entry["gold_would_apply"] = {f"{row.database}.{row.table}": row["count"] for row in changes}
    entry["ddl_would_apply"] = [row.ddl for row in ddl]
    asked = None if manifest is None else manifest.asked
    entry["settings_changed"] = asked is not None and asked != asked_of(source.gold, log)
    return {**entry, **table_changes(source, log, done, manifest)}


def table_changes(source: Source, log: OpsLog, done: Done, manifest: Manifest | None) -> dict[str, Any]:
    """Tables that gold would create for a new YAML, those whose YAML is gone: their data stays until it is
    removed by hand, and those of which the feed has told no CREATE: rows from before it may be missing.
    """
    tables = manifest.tables if manifest else ()
    held = {(entry.database, entry.table) for entry in tables if entry.state != "retired"}
    if source.gold.tables is None:
        live_names = set(load_history(log, done, source.gold.said).live(done.reach or MIN_POSITION))
    else:
        live_names = {
            split_name(options.merged) if options.merged else name
            for name, options in source.gold.options.items()
        }
    return {
        "tables_to_create": sorted(".".join(name) for name in live_names - held),
        "tables_no_longer_configured": sorted(".".join(name) for name in held - live_names)
        if source.gold.tables is not None
        else [],
        "tables_older_than_the_feed": sorted(
            entry.name for entry in tables if entry.state != "retired" and not OLDER.isdisjoint(entry.notes)
        ),
    }
