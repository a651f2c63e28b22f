"""The three layers of a source, one after another: what `try`, `run` and the jobs call."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.carry import upstream_of
from lakehouse.config import Config
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import Message
from lakehouse.formats import FORMATS, order_of
from lakehouse.inputs import shown_options, tells_watermark
from lakehouse.kafka_admin import list_topics
from lakehouse.modes import clock_of
from lakehouse.recording import read_recording
from lakehouse.run_lock import run_lock
from lakehouse.spark.attachments import land_attachments
from lakehouse.spark.bronze import land_kafka, land_messages, offset_gaps
from lakehouse.spark.gold import GoldFeed, run_gold
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.registry import register
from lakehouse.spark.run_record import RunRecord, recorded
from lakehouse.spark.session import get_session
from lakehouse.spark.silver import Feed, run_silver
from lakehouse.spark.sources import Source, carries_virtual, kafka_input, selected_sources, settings_of
from lakehouse.spark.storage import land_storage

Progress = Callable[[str], None]
LAYERS = ("bronze", "silver", "gold")


def try_recording(path: Path, format_: str, options: Mapping[str, str], lake: str, consistency: str, progress: Progress) -> dict[str, Any]:
    """A recording through all three layers, with no YAML. Returns what came out; a second call adds nothing."""
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
    gold = GoldFeed(name, upstream_of(format_, options), consistency, virtual=carries_virtual(format_), clock=clock_of(format_, order))
    settings = settings_of(silver, gold)
    with ExitStack() as held:
        for layer in LAYERS:
            held.enter_context(run_lock(lake, name, layer))
        progress(f"lake    {lake}: starting Spark")
        spark, place = get_session(), Lake(lake)
        register(spark, place, name, settings)
        log = OpsLog(spark, place, name).load()
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
    return outcome(name, place, log, record.landed, record.batches, published)


def messages_of(path: Path) -> Iterator[Message]:
    return read_recording(path)


def source_name(path: Path) -> str:
    """A source's name from a file's, or from a folder's and its parent's: letters, digits and underscores."""
    whole = path.resolve()
    named = f"{whole.parent.name} {whole.name}" if whole.is_dir() else whole.stem
    return re.sub(r"\W+", "_", named).strip("_").lower() or "recording"


def outcome(name: str, lake: Lake, log: OpsLog, landed: int, batches: int, published: dict[str, Any] | None) -> dict[str, Any]:
    """What a run came to, for people and scripts."""
    manifest = log.last("manifest") or {"tables": [], "watermark": None}
    return {
        "source": name,
        "new_messages": landed,
        "silver_batches": batches,
        "gold": "published" if published else "nothing new",
        "watermark": manifest["watermark"],
        "tables": [
            {"table": f"{entry['database']}.{entry['table']}", "state": entry["state"], "why": entry.get("why"), "notes": entry["notes"],
             "location": lake.path("gold", entry["gold"]) if lake.catalog is None else lake.ref("gold", entry["gold"])}
            for entry in manifest["tables"]
        ],
    }  # fmt: skip


class Stop:
    """Set by SIGTERM and Ctrl-C: a continuous run ends after the batch in hand."""

    def __init__(self) -> None:
        self.event = threading.Event()

    @contextmanager
    def installed(self) -> Iterator["Stop"]:
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.signal(number, lambda *_: self.event.set()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(
    config: Config, layers: Iterable[str], once: bool, select: tuple[str, ...], lake: str | None, progress: Progress
) -> list[dict[str, Any]]:
    """Run layers of the selected sources; `once` ends when all that is there is done."""
    sources = selected_sources(config, select, lake)
    if not sources:
        raise ConfigError("run: expected at least one source; --select names none that is configured")
    spark = get_session()
    with Stop().installed() as stop:
        if once:
            return [run_once(spark, source, tuple(layers), progress) for source in sources]
        return run_continuously(spark, sources, tuple(layers), stop, progress)


def run_once(spark: SparkSession, source: Source, layers: tuple[str, ...], progress: Progress) -> dict[str, Any]:
    """One pass over one source."""
    with locked(source, layers):
        register(spark, source.lake, source.name, source.settings)
        log = OpsLog(spark, source.lake, source.name).load()
        with recorded(log, layers, read_by(source)) as record:
            published = pass_over(spark, source, layers, log, record, progress)
            refuse_rejected(log)
    return outcome(source.name, source.lake, log, record.landed, record.batches, published)


def pass_over(
    spark: SparkSession, source: Source, layers: tuple[str, ...], log: OpsLog, record: RunRecord, progress: Progress, *, sweep: bool = True
) -> dict[str, Any] | None:
    """The layers in their order, once; counts are added to the record. Returns what gold published."""
    published = None
    if "bronze" in layers:
        with record.timed("bronze"):
            record.landed += land_all(spark, source, log, progress, sweep=sweep)
    if "silver" in layers:
        with record.timed("silver"):
            record.batches += run_silver(spark, source.lake, source.silver, log, progress)
    if "gold" in layers:
        with record.timed("gold"):
            published = run_gold(spark, source.lake, source.gold, log, progress)
        record.published += published is not None
    return published


def read_by(source: Source) -> dict[str, Any]:
    """What bronze reads, for the run's record: topics with their brokers, or paths."""
    config = source.config
    if config.kafka is not None:
        return {"bootstrap": config.kafka.bootstrap_servers, "topics": config.kafka.topics or [config.kafka.topic_pattern]}
    return {"paths": [config.storage.path] if config.storage is not None else list(config.recording or ())}


def refuse_rejected(log: OpsLog) -> None:
    """A run in which a table's `on_ddl` rejects a DDL has failed, once everything else is published."""
    entries = (log.last("manifest") or {"tables": []})["tables"]
    rejected = [f"{e['database']}.{e['table']}" for e in entries if (e.get("held") or {}).get("by") == "reject" and e["state"] == "behind"]
    if rejected:
        names = ", ".join(rejected)
        raise LakehouseError(f"{log.source}: on_ddl rejects a DDL of {names}, all else is published: `ddl skip` it, or change the YAML")


def run_continuously(
    spark: SparkSession, sources: list[Source], layers: tuple[str, ...], stop: Stop, progress: Progress
) -> list[dict[str, Any]]:
    """Layers of the sources in turn, again and again, until a signal."""
    with ExitStack() as held:
        for source in sources:
            held.enter_context(locked(source, layers))
            register(spark, source.lake, source.name, source.settings)
        logs = {source.name: OpsLog(spark, source.lake, source.name).load() for source in sources}
        records = {source.name: RunRecord(layers, read_by(source)) for source in sources}
        sweep = True
        while not stop.event.is_set():
            begun = time.monotonic()
            for source in sources:
                log = logs[source.name]
                if set(layers) != set(LAYERS):
                    log.load()  # another process runs the other layers
                pass_over(spark, source, layers, log, records[source.name], progress, sweep=sweep)
                records[source.name] = records[source.name].flush(log)
            sweep = False
            stop.event.wait(max(0.0, 1.0 - (time.monotonic() - begun)))
        for name, record in records.items():
            record.flush(logs[name], now=True)
    progress("stopped after the batch in hand")
    return [outcome(source.name, source.lake, logs[source.name], *records[source.name].totals, None) for source in sources]


@contextmanager
def locked(source: Source, layers: tuple[str, ...]) -> Iterator[None]:
    with ExitStack() as held:
        for layer in layers:
            held.enter_context(run_lock(source.lake.root, source.name, layer))
        yield


def land_all(spark: SparkSession, source: Source, log: OpsLog, progress: Progress, *, sweep: bool = True) -> int:
    """Land what the source has now, and the payloads that its records name; returns how many records are new."""
    landed = sum(land(spark, source, log, progress, sweep=sweep))
    land_attachments(spark, source.lake, source.name, source.silver.format, source.silver.options, log, progress)
    return landed


def land(spark: SparkSession, source: Source, log: OpsLog, progress: Progress, *, sweep: bool = True) -> Iterator[int]:
    """Land what the source has now; yields counts of new records."""
    if source.config.storage is not None:
        yield land_storage(spark, source.lake, source.name, source.config.storage.path, source.silver.options, log, progress, sweep)
        return
    if source.config.recording is not None:
        for path in source.config.recording:
            yield land_messages(spark, source.lake, source.name, messages_of(Path(path)), progress)
        return
    kafka = kafka_input(source)
    names = kafka.subscribe.split(",") if kafka.subscribe else None
    topics = list_topics(kafka.bootstrap, kafka.options, names, kafka.pattern)
    if not topics:
        wanted = kafka.subscribe or kafka.pattern
        raise ConfigError(f"{source.name}: expected topics {wanted} at {kafka.bootstrap}, found none; check kafka.topics")
    yield max(land_kafka(spark, source.lake, source.name, kafka, {topic.name: topic.id for topic in topics}, progress), default=0)
    # the list is taken again after the end offsets were fixed: a partition that is new holds the watermark
    topics = list_topics(kafka.bootstrap, kafka.options, names, kafka.pattern)
    limit = source.config.kafka.partitions if source.config.kafka else None
    listed = [[topic.name, number] for topic in topics for number in topic.offsets if limit is None or number < limit]
    if (log.last("partitions") or {}).get("listed") != listed:
        log.add("partitions", {"listed": listed})
    for gap in offset_gaps(spark, source.lake, source.name, log):
        progress(
            f"warning: {gap['topic']}/{gap['partition']}: {gap['missing']} offsets are missing: they were deleted before they were read"
        )
