"""What a lake is at, and what a run would do: read only."""

import time
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.load import Config
from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION
from lakehouse.lineage import split_name
from lakehouse.ops.progress import Counts
from lakehouse.ops.records import Done, Manifest, Run, to_json
from lakehouse.sources.kafka_offsets import told_loss
from lakehouse.spark.bronze.kafka import listed
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.change_log.dead_letters import open_counts, open_losses
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.change_log.watermark import counting_partitions, partition_watermarks, source_watermark
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.run import next_ranges
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source, kafka_input, selected_sources


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


def last_runs(spark: SparkSession, lake: Lake, name: str, number: int) -> dict[str, Any]:
    """The last runs that did something or failed, newest first."""
    if not number:
        return {}
    runs = OpsLog(spark, lake, name).load().all(Run)[-number:]
    return {"runs": [run_line(run) for run in reversed(runs)]}


def run_line(run: Run) -> dict[str, Any]:
    """A run's record for people."""
    return {
        "begun": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(run.begun / 1000)) + " UTC",
        "seconds": round((run.ended - run.begun) / 1000, 1),
        "layers": list(run.layers),
        "landed": run.landed,
        "batches": run.batches,
        "published": bool(run.published),
        "outcome": run.error or "ok",
    }


def source_status(spark: SparkSession, lake: Lake, name: str, source: Source | None) -> dict[str, Any]:
    log = OpsLog(spark, lake, name).load()
    done, manifest = log.last(Done), log.last(Manifest)
    if done is None:
        return {"source": name, "state": "nothing has run yet", **lag(source, None)}
    partitions = counting_partitions(done, log)
    marks = partition_watermarks(done)
    position, holder = source_watermark(marks, partitions)
    tables = manifest.tables if manifest else ()
    met = {one.name for one in done.tables}
    known = {name for entry in tables for name in entry.names}
    unknown = [] if manifest and manifest.auto else sorted(".".join(name) for name in met - known)
    return {
        "source": name,
        "last_silver_batch": done.batch,
        "last_run": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(log.records[-1].at / 1000)) + " UTC",
        "watermark": list(position) if position != MIN_POSITION else None,
        "held_by": f"{holder[0]}/{holder[1]}" if holder else None,
        "no_watermark_seen": [
            f"{topic}/{number}" for topic, number in partitions if (topic, number) not in marks
        ],
        "gold_watermark": list(manifest.watermark) if manifest else None,
        "consistency": manifest.consistency if manifest else None,
        "dead_letters": sum(open_counts(spark, lake, name, log).values()),
        "books": book(done.counts),
        "not_configured": unknown,
        "gaps": [told_loss(gap) for gap in open_losses(log)],
        "problems": list(manifest.problems) if manifest else [],
        "tables": [
            {
                "table": entry.name,
                "state": entry.state,
                "why": entry.why,
                "notes": list(entry.notes),
                "version": entry.version,
            }
            for entry in tables
        ],
        **lag(source, done),
    }


def book(counts: Counts) -> str:
    """Whether a batch's decoded changes are all accounted for (model: decoded = inserted + duplicate +
    conflict + below the floor).
    """
    left = counts.decoded - counts.inserted - counts.duplicate - counts.conflict - counts.below
    return "closed" if left == 0 else f"open: {left} decoded changes are not accounted for"


def lag(source: Source | None, done: Done | None) -> dict[str, Any]:
    """How many messages of the topic silver has not done, and how old its watermark is."""
    if source is None or source.config.kafka is None:
        return {}
    kafka = kafka_input(source)
    try:
        topics = listed(kafka)
    except LakehouseError as error:
        return {"broker": str(error)}
    following = {(one.topic, one.partition): one.offset for one in (done.next if done else ())}
    behind = {
        f"{topic.name}/{number}": end - max(following.get((topic.name, number), first), first)
        for topic in topics
        for number, (first, end) in topic.offsets.items()
    }
    return {"lag_messages": sum(behind.values()), "lag_by_partition": behind, **age(done, source)}


def age(done: Done | None, source: Source) -> dict[str, Any]:
    """Seconds between now and the watermark's own time, for feeds whose watermark is a TSO."""
    marks = [mark.position[1] for mark in (done.marks if done else ())]
    if not marks or source.silver.order != "tidb":
        return {}
    return {"lag_seconds": max(0, round(time.time() - (min(marks) >> 18) / 1000))}


def plan(config: Config, lake: str | None) -> list[dict[str, Any]]:
    """What a run would read, which DDLs and how many changes gold would apply, and what a changed
    configuration does.
    """
    spark = get_session()
    return [source_plan(spark, source) for source in selected_sources(config, (), lake)]


def source_plan(spark: SparkSession, source: Source) -> dict[str, Any]:
    lake, log = source.lake, OpsLog(spark, source.lake, source.name).load()
    done, manifest = log.last(Done), log.last(Manifest)
    ranges, _, _ = next_ranges(spark, lake, source.silver, done)
    would_read = [to_json(one) for one in ranges]
    entry: dict[str, Any] = {"source": source.name, "silver_would_read": would_read, **lag(source, done)}
    if done is None:
        return entry
    before = manifest.watermark if manifest else MIN_POSITION
    position, _ = source_watermark(partition_watermarks(done), counting_partitions(done, log))
    if source.gold.consistency == "eventual":
        position = done.reach or MIN_POSITION
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
        .orderBy("position")
        .select("ddl")
        .collect()
    )
    entry["gold_would_apply"] = {f"{row.database}.{row.table}": row["count"] for row in changes}
    entry["ddl_would_apply"] = [row.ddl for row in ddl]
    return {**entry, **table_changes(spark, source, log, done, manifest=manifest)}


def table_changes(
    spark: SparkSession, source: Source, log: OpsLog, done: Done, manifest: Manifest | None
) -> dict[str, Any]:
    """Tables that gold would create for a new YAML, and those whose YAML is gone: their data stays until it
    is removed by hand.
    """
    tables = manifest.tables if manifest else ()
    held = {(entry.database, entry.table) for entry in tables if entry.state != "retired"}
    if source.gold.tables is None:
        wanted = set(load_history(log, done, source.settings.said).live(done.reach or MIN_POSITION))
    else:
        wanted = {
            split_name(said.merged) if said.merged else name for name, said in source.gold.options.items()
        }
    return {
        "tables_to_create": sorted(".".join(name) for name in wanted - held),
        "tables_no_longer_configured": sorted(".".join(name) for name in held - wanted)
        if source.gold.tables is not None
        else [],
    }
