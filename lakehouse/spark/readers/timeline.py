"""Readings of the ops log and silver over time, as plain data: for the report, the metrics and `status
--history`.
"""

import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.events import MIN_POSITION
from lakehouse.formats import FORMATS
from lakehouse.ops.pruning import total
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.kinds import to_json
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.runs import Run
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.reporting.text.values import origin
from lakehouse.spark.change_log.dead_letters import missing_files, missing_text, open_losses
from lakehouse.spark.change_log.watermark import source_watermark
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.status import source_status
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source

BATCHES = 400
LATEST = 50
# the members of an origin that find its record in bronze
PLACE = ("topic", "incarnation", "partition", "offset")
Observed = dict[str, Any]


def observe(
    spark: SparkSession, lake: Lake, name: str, source: Source | None, newest: dict[int, int] | None = None
) -> Observed:
    """Everything there is to show of a source; lists are ordered by time, oldest first, and bounded.
    `newest`: the newest commit times of batches, as far as an earlier call has filled it; a batch that is
    done has the same for ever.
    """
    log = OpsLog(spark, lake, name).load()
    settings = sources(spark, lake).get(name)
    return {
        "source": name,
        "format": settings.format if settings else "",
        "order": settings.order if settings else None,
        "now": int(time.time() * 1000),
        "status": source_status(spark, lake, name, source),
        "totals": totals(log),
        "batches": batches(log, settings, newest={} if newest is None else newest),
        "manifests": manifests(log),
        "runs": runs(log, LATEST),
        "ddl": ddl_timeline(spark, lake, name, settings),
        "dead_letters": dead_letters(spark, lake, name),
        "gaps": open_losses(log),
        "missing_files": [missing_text(file) for file in missing_files(log)],
        "epochs": [{"epoch": one.epoch, "why": one.why, "at": at} for at, one in log.dated(Epoch)],
    }


def runs(log: OpsLog, number: int) -> list[dict[str, Any]]:
    """The last runs that did something or failed, oldest first."""
    return [to_json(run) for run in log.all(Run)[-number:]] if number else []


def totals(log: OpsLog) -> dict[str, int]:
    """What silver has counted since the lake began."""
    return to_json(total([log.summary.counts, *(done.counts for done in log.counted(Done))]))


def batches(log: OpsLog, settings: SourceSettings | None, newest: dict[int, int]) -> list[dict[str, Any]]:
    """Silver's batches: when, how long, how much, and the source's time up to which all had arrived
    (`fresh`). `newest` is filled with the newest commit times that it lacks, where these are that time.
    """
    planned = {plan.batch: at for at, plan in log.dated(Planned)}
    done = log.dated(Done)[-BATCHES:]
    by_position = settings is not None and settings.order == "tidb"
    first = max([done[0][1].batch, *(batch + 1 for batch in newest)]) if done else 1
    last = done[-1][1].batch if done else 0
    if not by_position and first <= last:
        found = newest_commits(log.spark, log.lake, log.source, settings, first=first)
        # of a batch that is not done there may be more changes
        newest.update({batch: time for batch, time in found.items() if batch <= last})
    return [
        {
            "batch": one.batch,
            "at": at,
            "seconds": max(0.0, (at - planned.get(one.batch, at)) / 1000),
            "bytes": one.bytes,
            "messages": one.counts.messages,
            "inserted": one.counts.inserted,
            "duplicate": one.counts.duplicate,
            "conflict": one.counts.conflict,
            "ddl": one.counts.ddl,
            "dead": one.counts.dead,
            "fresh": watermark_millis(one, log) if by_position else newest.get(one.batch),
        }
        for at, one in done
    ]


def watermark_millis(done: Done, log: OpsLog) -> int | None:
    """The time of a TiCDC source's watermark after a batch; None where a partition has sent none."""
    position, _ = source_watermark(done, log)
    return None if position == MIN_POSITION else tso_millis(position[1])


def tso_millis(tso: int) -> int:
    """The physical part of a TiDB timestamp."""
    return tso >> 18


def commit_millis(settings: SourceSettings | None, commit_ts: int) -> int:
    """A change's commit time in milliseconds."""
    row = FORMATS.get(settings.format) if settings else None
    return tso_millis(commit_ts) if row is not None and row.producer.tso else commit_ts


def newest_commits(
    spark: SparkSession, lake: Lake, name: str, settings: SourceSettings | None, first: int
) -> dict[int, int]:
    """The newest commit time of each batch, where positions are no times."""
    changes = read_silver(spark, lake, name, "changes").where(F.col("batch") >= first)
    rows = changes.groupBy("batch").agg(F.max("commit_ts").alias("newest")).collect()
    return {row.batch: commit_millis(settings, row.newest) for row in rows if row.newest is not None}


def manifests(log: OpsLog) -> list[dict[str, Any]]:
    """What gold published: when, the states of its tables, and its watermark."""
    return [
        {
            "at": at,
            "watermark": list(manifest.watermark),
            "states": _counted([entry.state for entry in manifest.tables]),
        }
        for at, manifest in log.dated(Manifest)[-BATCHES:]
    ]


def _counted(words: list[str]) -> dict[str, int]:
    return {word: words.count(word) for word in sorted(set(words))}


def ddl_timeline(
    spark: SparkSession, lake: Lake, name: str, settings: SourceSettings | None
) -> list[dict[str, Any]]:
    """The last statements, oldest first."""
    records = read_silver(spark, lake, name, "schema_changes").where("kind = 'ddl'")
    rows = (
        records.orderBy(F.col("position").desc())
        .select("database", "table", "commit_ts", "ddl")
        .limit(BATCHES)
        .collect()
    )
    return [
        {
            "table": table_of(row),
            "at": None if row.commit_ts is None else commit_millis(settings, row.commit_ts),
            "ddl": row.ddl,
        }
        for row in reversed(rows)
    ]


def dead_letters(spark: SparkSession, lake: Lake, name: str) -> dict[str, Any]:
    """How many by code and table, and the last ones with the place of their bytes."""
    letters = read_silver(spark, lake, name, "dead_letters")
    grouped = (
        letters.groupBy("code", "database", "table").count().orderBy("code", "database", "table").collect()
    )
    latest = letters.orderBy(F.col("batch").desc()).limit(20).collect() if grouped else []
    return {
        "counts": [{"code": row.code, "table": table_of(row), "number": row["count"]} for row in grouped],
        "latest": [
            {
                "code": row.code,
                "message": row.message,
                "table": table_of(row),
                "origin": origin(row.origin.asDict()),
                "place": {name: "" if row.origin[name] is None else row.origin[name] for name in PLACE},
            }
            for row in latest
        ],
    }


def table_of(row: Any) -> str:
    """The name of the table of one of silver's rows, as far as it is known."""
    return ".".join(part for part in (row.database, row.table) if part)
