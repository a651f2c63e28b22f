"""The three layers of a source, one after another: what `try`, `run` and the jobs call."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.load import Config
from lakehouse.discovery.read_input import shown_options, tells_watermark
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import Message
from lakehouse.fold.upcast import upstream_of
from lakehouse.formats import FORMATS, order_of
from lakehouse.gold.modes import clock_of
from lakehouse.ops.file_lock import has_flock, is_remote
from lakehouse.sources.recording import read_recording
from lakehouse.spark.bronze.claim_checks import land_attachments
from lakehouse.spark.bronze.kafka import land_topics
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.bronze.storage import land_storage
from lakehouse.spark.gold.run import run_gold
from lakehouse.spark.gold.settings import GoldFeed
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.requeue import decode_late_files
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_record import RunRecord, error_text, recorded
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.run import Feed, run_silver
from lakehouse.spark.source import Source, carries_virtual, kafka_input, selected_sources, settings_of

Progress = Callable[[str], None]
LAYERS = ("bronze", "silver", "gold")
# a continuous run reads the ops log again after so many passes
LOOKS = 10


def try_recording(
    path: Path, format_: str, options: Mapping[str, str], lake: str, consistency: str, progress: Progress
) -> dict[str, Any]:
    """A recording through all three layers, with no YAML. Returns what came out; a second call adds
    nothing.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_}: expected one of {', '.join(FORMATS)}")
    if not path.exists():
        raise ConfigError(f"{path}: expected a recording, found nothing")
    options = shown_options(path, format_, options)
    name = source_name(path)
    order = order_of(format_, dict(options))
    silver = Feed(name, format_, order, dict(options), settled=True)
    if consistency == "resolved" and not tells_watermark(path, format_, options):
        progress(f"{path}: it sends no watermark: gold shows all that has arrived (--consistency eventual)")
        consistency = "eventual"
    gold = GoldFeed(
        name,
        upstream_of(format_, options),
        consistency,
        virtual=carries_virtual(format_),
        clock=clock_of(format_, order),
        drift_timeout=0,
    )
    settings = settings_of(silver, gold)
    if not is_remote(lake):
        has_flock(lake)  # says at once, before Spark starts, when the folder can't be written
    progress(f"lake    {lake}: starting Spark")
    spark, place = get_session(), Lake(lake)
    with layer_lock(spark, place, name, LAYERS):
        register(spark, place, name, settings)
        log = OpsLog(spark, place, name).load()
        began = log.seq
        with recorded(log, LAYERS, {"paths": [str(path)]}) as record:
            with record.timed("bronze"):
                if format_ == "ticdc-storage":
                    record.landed = land_storage(spark, place, name, str(path), options, log, progress)
                else:
                    record.landed = land_messages(spark, place, name, messages_of(path), progress)
                land_attachments(spark, place, name, format_, options, log, progress)
            with record.timed("silver"):
                record.batches = run_silver(spark, place, silver, log, progress)
            with record.timed("gold"):
                published = run_gold(spark, place, gold, log, progress)
            record.published = int(published is not None)
        log.tidy(began)
    return outcome(name, place, log, record.landed, record.batches, published)


def messages_of(path: Path) -> Iterator[Message]:
    return read_recording(path)


def source_name(path: Path) -> str:
    """A source's name from a file's, or from a folder's and its parent's: letters, digits and underscores."""
    whole = path.resolve()
    named = f"{whole.parent.name} {whole.name}" if whole.is_dir() else whole.stem
    return re.sub(r"\W+", "_", named).strip("_").lower() or "recording"


def outcome(
    name: str, lake: Lake, log: OpsLog, landed: int, batches: int, published: dict[str, Any] | None
) -> dict[str, Any]:
    """What a run came to, for people and scripts."""
    manifest = log.last("manifest") or {"tables": [], "watermark": None}
    return {
        "source": name,
        "new_messages": landed,
        "silver_batches": batches,
        "gold": "published" if published else "nothing new",
        "watermark": manifest["watermark"],
        "tables": [
            {
                "table": f"{entry['database']}.{entry['table']}",
                "state": entry["state"],
                "why": entry.get("why"),
                "notes": entry["notes"],
                "location": lake.path("gold", entry["gold"])
                if lake.catalog is None
                else lake.ref("gold", entry["gold"]),
            }
            for entry in manifest["tables"]
        ],
        "problems": manifest.get("problems", []),
    }


class Stop:
    """Set by SIGTERM and Ctrl-C: a run ends after the batch in hand."""

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


def run(
    config: Config,
    layers: Iterable[str],
    once: bool,
    select: tuple[str, ...],
    lake: str | None,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Run layers of the selected sources; `once` ends when all that is there is done. See `runs`."""
    return list(runs(config, layers, once, select, lake, progress))


def runs(
    config: Config,
    layers: Iterable[str],
    once: bool,
    select: tuple[str, ...],
    lake: str | None,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """The same, outcome by outcome. A source that fails stops no other: its error is raised when all the
    others are done.
    """
    sources = selected_sources(config, select, lake)
    if not sources:
        raise ConfigError("run: expected at least one source; --select names none that is configured")
    for root in {source.lake.root for source in sources}:
        if not is_remote(root):
            has_flock(root)  # says at once, before Spark starts, when the folder can't be written
    with Stop().installed() as stop:
        spark = get_session()
        if not once:
            yield from run_continuously(spark, sources, tuple(layers), stop, progress)
            return
        failed: dict[str, Exception] = {}
        for source in sources:
            if stop():
                break
            try:
                yield run_once(spark, source, tuple(layers), stop, progress)
            except Exception as error:
                failed[source.name] = error
                if len(sources) > 1:
                    progress(f"problem: {source.name}: {error_text(error)}")
        if len(failed) > 1:
            raise LakehouseError(
                f"{len(failed)} of {len(sources)} sources failed: {', '.join(failed)}"
            ) from next(iter(failed.values()))
        if failed:
            raise next(iter(failed.values()))


def run_once(
    spark: SparkSession, source: Source, layers: tuple[str, ...], stop: Stop, progress: Progress
) -> dict[str, Any]:
    """One pass over one source."""
    with layer_lock(spark, source.lake, source.name, layers):
        register(spark, source.lake, source.name, source.settings)
        log = OpsLog(spark, source.lake, source.name).load()
        began = log.seq
        with recorded(log, layers, read_by(source)) as record:
            landing = lambda: land_all(spark, source, log, progress, stop)  # noqa: E731
            published = pass_over(spark, source, layers, log, record, stop, progress, landing)
            refuse_rejected(log)
        log.tidy(began)
    if stop():
        progress("stopped after the batch in hand")
    return outcome(source.name, source.lake, log, record.landed, record.batches, published)


def pass_over(
    spark: SparkSession,
    source: Source,
    layers: tuple[str, ...],
    log: OpsLog,
    record: RunRecord,
    stop: Stop,
    progress: Progress,
    landing: Callable[[], int],
) -> dict[str, Any] | None:
    """The layers in their order, once, bronze by `landing`; counts are added to the record. Returns what gold
    published.
    """
    published = None
    if "bronze" in layers:
        with record.timed("bronze"):
            record.landed += landing()
    if "silver" in layers and not stop():
        with record.timed("silver"):
            batches = run_silver(spark, source.lake, source.silver, log, progress, stop)
            record.batches += batches
            if batches and not stop():
                decode_late_files(spark, source.lake, source.silver, log, progress)
    if "gold" in layers and not stop():
        with record.timed("gold"):
            published = run_gold(spark, source.lake, source.gold, log, progress)
        record.published += published is not None
    return published


def read_by(source: Source) -> dict[str, Any]:
    """What bronze reads, for the run's record: topics with their brokers, or paths."""
    config = source.config
    if config.kafka is not None:
        return {
            "bootstrap": config.kafka.bootstrap_servers,
            "topics": config.kafka.topics or [config.kafka.topic_pattern],
        }
    return {"paths": [config.storage.path] if config.storage is not None else list(config.recording or ())}


def refuse_rejected(log: OpsLog) -> None:
    """A run in which a table's `on_ddl` rejects a DDL has failed, once everything else is published."""
    entries = (log.last("manifest") or {"tables": []})["tables"]
    rejected = [
        f"{e['database']}.{e['table']}"
        for e in entries
        if (e.get("held") or {}).get("by") == "reject" and e["state"] == "behind"
    ]
    if rejected:
        names = ", ".join(rejected)
        raise LakehouseError(
            f"{log.source}: on_ddl rejects a DDL of {names}, all else is published: `ddl skip` it, or change "
            "the YAML"
        )


@dataclass(slots=True)
class Round:
    """A source in a continuous run: its log, the record of what the run has done, and what bronze last failed
    with. One that is `alone` must work at the start; among several one waits for its broker.
    """

    source: Source
    log: OpsLog
    record: RunRecord
    alone: bool
    passes: int = 0
    trouble: str = ""


def run_continuously(
    spark: SparkSession, sources: list[Source], layers: tuple[str, ...], stop: Stop, progress: Progress
) -> list[dict[str, Any]]:
    """Layers of the sources in turn, again and again, until a signal."""
    with ExitStack() as held:
        for source in sources:
            held.enter_context(layer_lock(spark, source.lake, source.name, layers))
            register(spark, source.lake, source.name, source.settings)
        rounds = [
            Round(
                source,
                OpsLog(spark, source.lake, source.name),
                RunRecord(layers, read_by(source)),
                len(sources) == 1,
            )
            for source in sources
        ]
        while not stop():
            begun = time.monotonic()
            for one in rounds:
                go_round(spark, one, layers, stop, progress)
            if rounds[0].passes == 1 and not stop():
                progress("up to date; going on until SIGTERM or Ctrl-C")
            stop.event.wait(max(0.0, 1.0 - (time.monotonic() - begun)))
        for one in rounds:
            one.record.flush(one.log, now=True)
    progress("stopped after the batch in hand")
    return [outcome(one.source.name, one.source.lake, one.log, *one.record.totals, None) for one in rounds]


def go_round(
    spark: SparkSession, one: Round, layers: tuple[str, ...], stop: Stop, progress: Progress
) -> None:
    """One pass over one source of a continuous run."""
    if set(layers) != set(LAYERS) or one.passes % LOOKS == 0:
        one.log.load()  # another process runs the other layers, or an operator has said something
    began = one.log.seq
    pass_over(
        spark,
        one.source,
        layers,
        one.log,
        one.record,
        stop,
        progress,
        lambda: _land_or_wait(spark, one, stop, progress),
    )
    one.record = one.record.flush(one.log)
    one.log.tidy(began)
    one.passes += 1


def _land_or_wait(spark: SparkSession, one: Round, stop: Stop, progress: Progress) -> int:
    """Land what is there. A broker that is away for a while ends no run that has begun; that is said once,
    and its return too.
    """
    try:
        landed = land_all(
            spark, one.source, one.log, progress, stop, first=one.passes == 0 or bool(one.trouble)
        )
    except LakehouseError as error:
        if one.passes == 0 and one.alone:
            raise
        if not one.trouble:
            progress(f"warning: {error}; trying again")
        one.trouble = str(error)
        return 0
    if one.trouble:
        progress(f"bronze  {one.source.name}: going on")
    one.trouble = ""
    return landed


def land_all(
    spark: SparkSession, source: Source, log: OpsLog, progress: Progress, stop: Stop, *, first: bool = True
) -> int:
    """Land what the source has now, and the payloads that its records name; returns how many records are new.

    `first`: nothing has been landed in this run so far, so folders and checkpoints are looked at with care.
    """
    landed = land(spark, source, log, progress, stop, first)
    land_attachments(
        spark, source.lake, source.name, source.silver.format, source.silver.options, log, progress
    )
    return landed


def land(
    spark: SparkSession, source: Source, log: OpsLog, progress: Progress, stop: Stop, first: bool
) -> int:
    """Land what the source's one input has now."""
    lake, name, config = source.lake, source.name, source.config
    if config.storage is not None:
        return land_storage(
            spark, lake, name, config.storage.path, source.silver.options, log, progress, first
        )
    if config.recording is not None:
        return sum(
            land_messages(spark, lake, name, messages_of(Path(path)), progress)
            for path in config.recording
            if not stop()
        )
    return land_topics(spark, lake, name, kafka_input(source), log, progress, stop, first=first)
