"""One pass over a source: land new messages, run silver and gold, and return the result."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.ops.progress import Place
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.runs import RunInput
from lakehouse.sources.recording import noted, read_recording
from lakehouse.spark.bronze.claim_checks import begin_looking, land_attachments
from lakehouse.spark.bronze.kafka import land_topics
from lakehouse.spark.bronze.recordings import land_recordings
from lakehouse.spark.bronze.storage import land_storage
from lakehouse.spark.change_log.watermark import snapshots_above, waiting_transaction
from lakehouse.spark.gold.run import run_gold
from lakehouse.spark.operations.requeue import decode_late_files
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.ops.run_record import RunRecord, recorded
from lakehouse.spark.pipeline.recording_holes import note_holes
from lakehouse.spark.silver.run import run_silver
from lakehouse.spark.source import Source, kafka_input

LAYERS = ("bronze", "silver", "gold")


def messages_of(path: Path) -> Iterator[Message]:
    """The messages of a recording."""
    return read_recording(path)


def outcome(log: OpsLog, landed: int, batches: int, published: Manifest | None) -> dict[str, Any]:
    """The result of a run, for people and scripts."""
    lake = log.lake
    manifest = log.last(Manifest)
    tables = manifest.tables if manifest else ()
    return {
        "source": log.source,
        "new_messages": landed,
        "silver_batches": batches,
        "gold": "published" if published else "nothing new",
        "watermark": list(manifest.watermark) if manifest else None,
        "tables": [
            {
                "table": entry.name,
                "state": entry.state,
                "why": entry.why,
                "notes": list(entry.notes),
                "location": lake.path("gold", entry.gold)
                if lake.catalog is None
                else lake.ref("gold", entry.gold),
            }
            for entry in tables
        ],
        "problems": list(manifest.problems) if manifest else [],
        "snapshots_above": snapshots_above(log),
        "waiting_transaction": waiting_transaction(log),
    }


class Stop:
    """Set by SIGTERM and Ctrl-C: a run ends after its current batch."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self) -> bool:
        return self.event.is_set()

    @contextmanager
    def installed(self) -> Iterator["Stop"]:
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {
            number: signal.signal(number, lambda *_: self.event.set())
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_once(
    spark: SparkSession, source: Source, layers: tuple[str, ...], stop: Stop, *, progress: Progress
) -> dict[str, Any]:
    """One pass over one source."""
    with layer_lock(spark, source.lake, source.name, layers) as lake:
        register(spark, lake, source.name, source.settings)
        log = OpsLog(spark, lake, source.name).load()
        context = RunContext(log, progress)
        began = log.seq
        with log.gathering(), recorded(log, layers, read_by(source)) as record:
            if "bronze" in layers:
                with record.timed("bronze"):
                    record.landed += land_all(context, source, stop)
            published = derive(context, source, layers, record, stop=stop, looked="bronze" in layers)
            refuse_rejected(log)
        log.tidy(began)
    if stop():
        progress("stopped after the batch in hand")
    return outcome(log, record.landed, record.batches, published)


def derive(
    context: RunContext,
    source: Source,
    layers: tuple[str, ...],
    record: RunRecord,
    *,
    stop: Stop,
    looked: bool,
    patient: bool = False,
) -> Manifest | None:
    """Run silver and gold, of those layers, once; counts are added to the record. `looked`: bronze has just
    landed what there was; `patient`: the next pass comes at once. Returns the manifest that gold published.
    """
    published = None
    if "silver" in layers and not stop():
        with record.timed("silver"):
            batches = run_silver(context, source.silver, stop, looked=looked)
            record.batches += batches
            if batches and not stop():
                decode_late_files(context, source.silver)
    if "gold" in layers and not stop():
        with record.timed("gold"):
            published = run_gold(
                source.gold,
                context.log,
                progress=context.progress,
                unread=bool(record.landed) and "silver" in layers and not record.batches,
                patient=patient,
            )
        record.published += published is not None
    return published


def read_by(source: Source) -> RunInput:
    """The input that bronze reads, for the run's record: topics with their brokers, or paths."""
    config = source.config
    if config.kafka is not None:
        topics = config.kafka.topics or [config.kafka.topic_pattern or ""]
        return RunInput(config.kafka.bootstrap_servers, tuple(topics))
    return RunInput(paths=(config.storage.path,) if config.storage else tuple(config.recording or ()))


def refuse_rejected(log: OpsLog) -> None:
    """Raise LakehouseError if a table's `on_ddl` rejects a DDL; everything else is published by then."""
    manifest = log.last(Manifest)
    rejected = [
        entry.name
        for entry in (manifest.tables if manifest else ())
        if entry.held and entry.held.by == "reject" and entry.state == "behind"
    ]
    if rejected:
        names = ", ".join(rejected)
        raise LakehouseError(
            f"{log.source}: on_ddl rejects a DDL of {names}, all else is published: `ddl skip` it, or change "
            "the YAML"
        )


def land_all(context: RunContext, source: Source, stop: Stop, *, first: bool = True) -> int:
    """Land what the source has now, and the payloads that its records name; returns how many records are new.

    `first`: nothing has been landed in this run so far, so folders and checkpoints are looked at with care.
    """
    begin_looking(context.log, source.silver.format, source.silver.options)
    landed = land(context, source, stop, first=first)
    land_attachments(context, source.silver.format, source.silver.options)
    return landed


def land(context: RunContext, source: Source, stop: Stop, *, first: bool) -> int:
    """Land new messages of the source's input; returns how many."""
    config = source.config
    if config.storage is not None:
        return land_storage(context, config.storage.path, source.silver.options, sweep=first)
    if config.recording is not None:
        return _land_recordings(context, source, [Path(path) for path in config.recording], stop)
    return land_topics(context, kafka_input(source), stop, first=first)


def _land_recordings(context: RunContext, source: Source, paths: Sequence[Path], stop: Stop) -> int:
    """Land recordings, and say which offsets are in none of them, where compaction has not left them out."""
    seen: dict[Place, list[tuple[int, int]]] = {}

    def read(path: Path) -> Iterator[Message]:
        return noted(messages_of(path), seen)

    landed = land_recordings(context, [partial(read, path) for path in paths], stop)
    if not stop() and source.silver.options.get("compacted") != "true":
        note_holes(context, seen, landed=landed > 0)
    return landed
