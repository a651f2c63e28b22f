"""`lakehouse doctor`: is this machine, each source and its lake fit to run? Each finding is ok, warn or fail,
with what to do.

    machine   Python, packages, Java, jars, memory
    config    what `validate` says
    source    its broker, topics and their retention; its folder or recording; its messages: are they what the
              YAML says, and what do
              they show of their producer's settings (lakehouse/discovery/survey.py)
    lake      can it be written, is there room; with Spark: does the catalog answer, which version wrote it

Nothing is changed, but for jars that are fetched once, and a file or table that is written to the lake and
removed.
"""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from lakehouse.config.load import check, kafka_options, load, resolve_source
from lakehouse.config.models import SourceConfig
from lakehouse.discovery.detect_format import are_alike, guess_format
from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.findings import FAIL, OK, WARN, Finding
from lakehouse.discovery.survey import signs, survey
from lakehouse.errors import ConfigError, EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.sources.kafka_admin import Topic, list_topics, topic_settings
from lakehouse.sources.recording import read_recording

Progress = Callable[[str], None]
# What a session finds out about a source's lake: the source, and the lake's root where the caller names one.
LakeChecks = Callable[[SourceConfig, str | None], Iterable[Finding]]
DAY = 86_400_000
RECORDS = 50_000  # of a recording that are looked at
_GIB = 2**30
_PACKAGES = (("pyspark", "4.0"), ("delta-spark", "4.0"))


def doctor(
    configs: Path,
    progress: Progress,
    lake_checks: LakeChecks,
    *,
    lake: str | None = None,
    spark: bool = False,
) -> list[dict[str, str]]:
    """All findings, those of the machine first. `lake_checks` starts a session: for every lake that is remote
    or in a catalog, and with `spark` for local ones too.
    """
    sources = every_source(configs, progress, lake_checks, lake=lake, spark=spark)
    return [finding._asdict() for finding in [*machine(), *configuration(configs), *sources]]


def failed(findings: list[dict[str, str]]) -> bool:
    """Whether any finding keeps something from working right."""
    return any(finding["state"] == FAIL for finding in findings)


# The machine


def machine() -> Iterator[Finding]:
    """Python, packages, Java, jars and memory; where Spark is provided, its Java and jars are not ours to
    look at.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    fit = (3, 11) <= sys.version_info[:2] < (3, 13)
    yield Finding(
        "python",
        version,
        OK if fit else FAIL,
        "" if fit else "expected 3.11 or 3.12",
        fix="" if fit else "install one of them",
    )
    if any(os.environ.get(name) for name in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")):
        yield Finding("spark", "provided", OK, "Databricks or a Connect server brings Spark, Java and jars")
        return
    yield from map(_package, _PACKAGES)
    yield from (_java(), _jars())
    yield from _memory()


def _package(wanted: tuple[str, str]) -> Finding:
    name, version = wanted
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding("package", name, FAIL, "is not installed", fix="pip install 'lakehouse[spark]'")
    if not found.startswith(version + "."):
        return Finding(
            "package", f"{name} {found}", FAIL, f"expected {version}", fix="pip install 'lakehouse[spark]'"
        )
    return Finding("package", f"{name} {found}", OK, "")


def _java() -> Finding:
    from lakehouse.jvm.java import java_home

    try:
        return Finding("java", str(java_home().joinpath("lib").resolve().parent), OK, "")
    except EnvironmentError_ as error:
        return _told("java", "", error)


def _jars() -> Finding:
    try:
        from lakehouse.jvm.jars import spark_jars

        return Finding("jars", f"{len(spark_jars())} files", OK, "")
    except LakehouseError as error:
        return _told("jars", "", error)


def _memory() -> Iterator[Finding]:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return
    if total < 4 * _GIB:
        fix = "set LAKEHOUSE_DRIVER_MEMORY=1g, or take a machine with 4 GiB"
        yield Finding(
            "memory",
            f"{total / _GIB:.1f} GiB",
            WARN,
            "Spark's driver takes 2 GiB unless told otherwise",
            fix=fix,
        )
    else:
        yield Finding("memory", f"{total / _GIB:.1f} GiB", OK, "")


def _told(check_: str, about: str, error: Exception, state: str = FAIL) -> Finding:
    """An error's one sentence as a finding: what stands behind its last semicolon is what to do."""
    text, _, fix = str(error).rpartition("; ")
    text, fix = (text, fix) if text else (fix, "")
    return Finding(check_, about, state, text.removeprefix(f"{about}: "), fix=fix)


# Configuration


def configuration(folder: Path) -> Iterator[Finding]:
    """What `validate` says."""
    if not folder.is_dir():
        yield Finding(
            "config",
            str(folder),
            WARN,
            "is no folder: no source is looked at",
            fix="lakehouse init writes one; or name it with --configs",
        )
        return
    errors, warnings = check(folder)
    for state, found in ((FAIL, errors), (WARN, warnings)):
        for problem in found:
            where = f"{problem.file}:{problem.line}"
            yield Finding(
                "config",
                where,
                state,
                f"{problem.path}: {problem.text}" if problem.path else problem.text,
                fix=problem.fix,
            )
    if not errors and not warnings:
        yield Finding("config", str(folder), OK, "")


def every_source(
    configs: Path, progress: Progress, lake_checks: LakeChecks, *, lake: str | None, spark: bool
) -> Iterator[Finding]:
    """Each source with its lake, where the configuration is valid."""
    if not configs.is_dir() or check(configs)[0]:
        return
    config = load(configs)
    roots: dict[str, Callable[[], Iterator[Finding]]] = {}
    for name, said in config.sources.items():
        progress(f"source  {name}")
        try:
            source = resolve_source(said)
            yield from one_source(name, source)
        except LakehouseError as error:
            yield _told("source", name, error)
            continue
        own = None if lake is not None else source.lake
        root = lake or (own.path if own else "./lake")
        needs_spark = spark or "://" in root or (own is not None and own.catalog is not None)
        checks = lake_checks if needs_spark else None
        roots.setdefault(root, partial(_lake, source, root, lake, checks))
    for look in roots.values():
        yield from look()


def one_source(name: str, source: SourceConfig) -> Iterator[Finding]:
    """Its input, and what its messages are."""
    if source.kafka is not None:
        yield from kafka_source(name, source)
    elif source.storage is not None:
        yield from storage_source(name, source.storage.path, source)
    else:
        for path in source.recording or ():
            messages = list(islice(read_recording(Path(path)), RECORDS))
            yield Finding(
                "recording",
                path,
                OK,
                f"{len(messages)} messages{' and more' if len(messages) == RECORDS else ''}",
            )
            yield from messages_told(name, source, messages)


# Kafka


def kafka_source(name: str, source: SourceConfig) -> Iterator[Finding]:
    """The broker, the topics with their retention, and a sample of their messages."""
    from lakehouse.sources.kafka_sample import sample

    kafka = source.kafka
    assert kafka is not None
    options = kafka_options(source)
    try:
        topics = list_topics(kafka.bootstrap_servers, options, kafka.topics, kafka.topic_pattern)
    except EnvironmentError_ as error:
        yield _told("broker", kafka.bootstrap_servers, error)
        return
    yield Finding("broker", kafka.bootstrap_servers, OK, "")
    missing = sorted(set(kafka.topics or ()) - {topic.name for topic in topics})
    for absent in missing or ([] if topics else [kafka.topic_pattern or ""]):
        yield Finding(
            "topic",
            absent,
            FAIL,
            "is not there",
            fix=f"create it, or mend kafka.topics in sources/{name}.yml",
        )
    if not topics:
        return
    settings = topic_settings(kafka.bootstrap_servers, options, [topic.name for topic in topics])
    for topic in topics:
        yield from topic_told(topic, settings.get(topic.name, {}), source)
    messages = sample(kafka.bootstrap_servers, options, topics)
    if messages:
        yield from messages_told(name, source, messages)


def topic_told(topic: Topic, settings: dict[str, str], source: SourceConfig) -> Iterator[Finding]:
    """What its settings and offsets mean for what can be read."""
    held = sum(end - first for first, end in topic.offsets.values())
    if not held:
        yield Finding(
            "topic", topic.name, WARN, "has no messages", fix="is the changefeed running, and writing here?"
        )
    else:
        yield Finding("topic", topic.name, OK, f"{len(topic.offsets)} partitions, {held} messages")
    if "compact" in settings.get("cleanup.policy", ""):
        text = "is compacted: intermediate versions and deletes are dropped before they are read"
        yield Finding("compaction", topic.name, FAIL, text, fix="set cleanup.policy=delete for the topic")
    yield from _retention(topic, settings)
    gone = [f"{number} begins at {first}" for number, (first, _) in topic.offsets.items() if first > 0]
    if gone:
        text = f"its beginning is deleted already: partition {', '.join(gone)}"
        yield Finding(
            "beginning",
            topic.name,
            WARN,
            text,
            fix="a new lake begins there: tables are whole only from their next snapshot on",
        )
    written = source.kafka.partitions if source.kafka else None
    silent = [
        number
        for number, (_, end) in topic.offsets.items()
        if end == 0 and (written is None or number < written)
    ]
    if silent and held:
        text = f"partitions {', '.join(map(str, silent))} have never had a message, and hold the watermark"
        yield Finding(
            "partitions",
            topic.name,
            WARN,
            text,
            fix="say kafka.partitions in the source's YAML if the feed writes to fewer",
        )


def _retention(topic: Topic, settings: dict[str, str]) -> Iterator[Finding]:
    millis = int(settings.get("retention.ms", -1))
    if 0 <= millis < DAY:
        text = (
            f"messages are deleted after {millis / 3_600_000:g} h: what bronze has not read by then is lost"
        )
        yield Finding(
            "retention",
            topic.name,
            WARN,
            text,
            fix="run bronze more often than that, or raise retention.ms to some days",
        )
    else:
        kept = "for ever" if millis < 0 else f"{millis / DAY:g} days"
        yield Finding("retention", topic.name, OK, f"messages are kept {kept}")
    size = int(settings.get("retention.bytes", -1))
    if size >= 0:
        text = f"a partition keeps at most {size} bytes, so a burst can delete what was not read"
        yield Finding(
            "retention", topic.name, WARN, text, fix="set retention.bytes=-1, and bound retention.ms instead"
        )


# Storage and messages


def storage_source(name: str, root: str, source: SourceConfig) -> Iterator[Finding]:
    """A local sink's folder, and whether its files are what the YAML says. A remote one is read by Spark
    alone.
    """
    if "://" in root:
        yield Finding("storage", root, OK, "is remote: the first run looks at it")
        return
    if not Path(root).is_dir():
        yield Finding("storage", root, FAIL, "is no folder", fix=f"mend storage.path in sources/{name}.yml")
        return
    if not (Path(root) / "metadata").is_file():
        text = "has no file `metadata`, which holds the changefeed's checkpoint"
        yield Finding(
            "storage", root, WARN, text, fix="name the sink's own root; without a checkpoint gold waits"
        )
    said, shown = source.decoder_options(), detect_options(root, {})
    for option, value in shown.items():
        if option in said and said[option] != value:
            text = f"the files show {option} {value!r}, the YAML says {said[option]!r}"
            yield Finding("settings", root, FAIL, text, fix=f"mend options in sources/{name}.yml")
    yield Finding("storage", root, OK, f"{shown['protocol']} files" if shown else "no files yet")


def messages_told(name: str, source: SourceConfig, messages: list[Message]) -> Iterator[Finding]:
    """Whether the messages are of the format and compression that the YAML says, and what they show of their
    producer.
    """
    options = source.decoder_options()
    try:
        guess = guess_format(messages)
    except ConfigError as error:
        yield _told("format", name, error)
        return
    said, shown = (
        (source.format, source.compression),
        (guess.format, guess.options.get("compression", "none")),
    )
    if not are_alike(said[0], shown[0]):
        yield Finding(
            "format",
            name,
            FAIL,
            f"the messages are {shown[0]}, the YAML says {said[0]}",
            fix=f"write format: {shown[0]}",
        )
        return
    if said[1] != shown[1] and shown[1] != "none":
        yield Finding(
            "format",
            name,
            FAIL,
            f"the messages are compressed with {shown[1]}",
            fix=f"write compression: {shown[1]}",
        )
        return
    yield Finding("format", name, OK, f"{guess.read} of {guess.sampled} sampled messages are {source.format}")
    found = list(signs(survey(messages, source.format, options)))
    for sign in found:
        yield Finding(sign.what, name, sign.severity, sign.text, fix=sign.fix)
    if not found:
        yield Finding("feed", name, OK, "the sample shows no setting that destroys anything")


# The lake


def _lake(
    source: SourceConfig, root: str, given: str | None, lake_checks: LakeChecks | None
) -> Iterator[Finding]:
    if "://" not in root:
        yield from local_folder(root)
    if lake_checks is not None:
        yield from lake_checks(source, given)


def local_folder(root: str) -> Iterator[Finding]:
    """Whether the folder, or the nearest one above it that exists, can be written, and how much room there
    is.
    """
    folder = Path(root).absolute()
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".lakehouse-doctor-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding(
            "lake",
            root,
            FAIL,
            f"can't be written: {error.strerror}",
            fix="choose another folder, or mend its permissions",
        )
        return
    if free < 2 * _GIB:
        yield Finding(
            "lake", root, WARN, f"{free / _GIB:.1f} GiB are free", fix="a lake keeps every message: make room"
        )
    else:
        yield Finding("lake", root, OK, f"can be written; {free / _GIB:.0f} GiB are free")
