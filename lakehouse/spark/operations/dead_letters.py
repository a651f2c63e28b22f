"""Operators' commands on dead letters: list, requeue, dismiss."""

from typing import Any

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.bronze import Gap, MissingFile
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.kinds import to_json
from lakehouse.ops.records.operators import Dismissed
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.sources.kafka_offsets import loss_text
from lakehouse.spark.bronze.claim_checks import land_named
from lakehouse.spark.change_log.dead_letters import (
    LOST,
    closing,
    is_open,
    missing_files,
    missing_text,
    open_losses,
    open_shortfalls,
    shortfall_text,
)
from lakehouse.spark.change_log.reconcile import is_dismissed
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.requeue import decode_again, ranges_of
from lakehouse.spark.ops.lake_record import opened, sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import silver_settings_of


def list_dead_letters(root: str, source: str | None, code: str | None) -> list[dict[str, Any]]:
    """Dead letters with their reason and the place of their bytes, losses of the topics among them; `open`:
    not dismissed or requeued.
    """
    if source:
        return letters_of(opened(root, source)[0], code)
    spark, lake = get_session(), Lake(root)
    logs = [OpsLog(spark, lake, name).load() for name in sources(spark, lake)]
    return [letter for log in logs for letter in letters_of(log, code)]


def letters_of(log: OpsLog, code: str | None) -> list[dict[str, Any]]:
    """The dead letters of one source."""
    frame = read_silver(log.spark, log.lake, log.source, "dead_letters").withColumn("open", is_open(log))
    rows = (frame.where(F.col("code") == code) if code else frame).orderBy("batch", "origin").collect()
    letters = [
        {
            "source": log.source,
            "code": row.code,
            "message": row.message,
            "table": row.table and f"{row.database}.{row.table}",
            "origin": {key: value for key, value in row.origin.asDict().items() if value is not None},
            "batch": row.batch,
            "open": row.open,
        }
        for row in rows
    ]
    lost = open_losses(log)
    for number, gap in enumerate(log.all(Gap) if code in (None, LOST) else ()):
        plain = to_json(gap)
        origin = {
            name: plain[name]
            for name in ("topic", "incarnation", "partition", "first", "last")
            if name in plain
        }
        letters.append(
            {
                "source": log.source,
                "code": LOST,
                "message": loss_text(gap),
                "table": None,
                "origin": origin,
                "batch": None,
                "open": number >= len(log.all(Gap)) - len(lost),
            }
        )
    if code in (None, LOST):
        letters += [_lost_file(log.source, file) for file in missing_files(log)]
        letters += [_lost(log.source, *found) for found in unlike_counts(log)]
    return letters


def unlike_counts(log: OpsLog) -> list[tuple[str, dict[str, Any]]]:
    """What numbers, sizes and counts say is lacking, in words, with its place, and nobody has dismissed."""
    found = [
        (
            shortfall_text(one),
            {
                "topic": one.topic,
                "incarnation": one.incarnation,
                "partition": one.partition,
                "first": one.offset,
            },
        )
        for one in open_shortfalls(log)
    ]
    manifest = log.last(Manifest)
    bronze = UNSET if manifest is None or is_dismissed(log) else manifest.bronze
    return found + [(text, {}) for text in (() if bronze is UNSET else bronze.losses)]


def _lost(source: str, message: str, origin: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": source,
        "code": LOST,
        "message": message,
        "table": None,
        "origin": origin,
        "batch": None,
        "open": True,
    }


def _lost_file(source: str, file: MissingFile) -> dict[str, Any]:
    return {
        "source": source,
        "code": LOST,
        "message": missing_text(file),
        "table": file.table and ".".join(file.table),
        "origin": {"path": file.path},
        "batch": None,
        "open": True,
    }


def dismiss_dead_letters(root: str, source: str, code: str | None, why: str) -> dict[str, Any]:
    """Dismiss dead letters: they no longer keep a table from being exact. Their bytes and rows stay."""
    log, _ = opened(root, source)
    letters = [letter for letter in letters_of(log, code) if letter["open"]]
    if letters:
        done = log.last(Done)
        closed = closing(code, done.batch if done else 0, len(log.all(Gap)))
        files = missing_files(log) if code in (None, LOST) else []
        paths = tuple(file.path for file in files)
        log.add(Dismissed(code=closed.code, batch=closed.batch, gaps=closed.gaps, why=why, files=paths))
    return {"source": source, "dismissed": len(letters)}


def requeue_dead_letters(root: str, source: str, code: str | None) -> dict[str, Any]:
    """Decode the messages of open dead letters again, as silver batches of their own; what fails again is a
    dead letter again.

    The batch that is done closes them, so that a crash before it leaves them open.
    """
    log, settings = opened(root, source)
    with layer_lock(log.spark, log.lake, source, ["silver"]) as lake:
        log = OpsLog(log.spark, lake, source).load()
        last, done = log.last(Planned), log.last(Done)
        if last is None or done is None or done.batch < last.batch:
            raise LakehouseError(f"{source}: a silver batch is not done yet; `lakehouse run silver` first")
        letters = [letter for letter in letters_of(log, code) if letter["open"] and letter["code"] != LOST]
        ranges = ranges_of(letter["origin"] for letter in letters)
        land_named(log, settings.format, settings.options, ranges)
        feed = silver_settings_of(source, settings)
        counts = decode_again(log, feed, ranges, code)
    return {"source": source, "requeued": len(letters), **counts}
