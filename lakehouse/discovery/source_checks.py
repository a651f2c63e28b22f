"""Checks of a source for `lakehouse doctor`: its broker, its topics and their retention; its folder or
recording; whether its messages have the configured format, and which harmful settings of the producer they
show.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from lakehouse.config.load import database_settings, kafka_options
from lakehouse.config.models import SourceConfig
from lakehouse.discovery.config_text import option_text
from lakehouse.discovery.detect_format import are_alike, guess_format
from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.findings import FAIL, OK, WARN, Finding, error_finding
from lakehouse.discovery.survey import producer_findings, survey_messages
from lakehouse.errors import ConfigError, EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.formats import FORMATS, order_of
from lakehouse.ops.file_lock import is_remote
from lakehouse.reporting.text.values import counted, size
from lakehouse.sources.database import SESSION, connect
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.kafka_admin import Topic, list_topics, topic_settings
from lakehouse.sources.live.servers import server_of
from lakehouse.sources.live.tables import listed
from lakehouse.sources.recording import read_recording
from lakehouse.sources.server_sql import Asks, variables
from lakehouse.sources.storage_tree import read_tree

DAY_MS = 86_400_000
CHANGE = "change it at the server, or say what the text names in the source's YAML"
RECORDS = 50_000  # of a recording that are sampled
FILES = 200  # of a storage sink that are sampled


def source_findings(name: str, source: SourceConfig) -> Iterator[Finding]:
    """Findings on a source's input and on a sample of its messages."""
    if source.kafka is not None:
        yield from _kafka_findings(name, source)
    elif source.storage is not None:
        yield from _storage_findings(name, source.storage.path, source)
    else:
        for path in source.recording or ():
            messages = list(islice(read_recording(Path(path)), RECORDS))
            yield Finding(
                "recording",
                path,
                OK,
                f"{len(messages)} messages{' and more' if len(messages) == RECORDS else ''}",
            )
            yield from _message_findings(name, source, messages)
    if source.database is not None:
        yield from _database_findings(name, source)


def _database_findings(name: str, source: SourceConfig) -> Iterator[Finding]:
    """Whether a source's database answers with a place in the feed's order, what it has, and how it logs."""
    settings = database_settings(source)
    try:
        with connect(settings) as held, server_of(held) as server:
            tables = listed(held)
            order = order_of(source.format, source.decoder_options())
            if order != "arrival" or FORMATS[source.format].logged is None:
                with server.moment(held, first=False) as moment:
                    place_in(source.format, order, moment.place, name)
            with connect(settings, (*SESSION, *server.session)):
                pass  # a server may refuse what each session that reads begins with
            logs = list(_log_findings(source, held, settings.address))
    except LakehouseError as error:
        yield error_finding("database", settings.address, error)
        return
    there = f"{server.name}, {counted(len(tables), 'table')} (about {size(sum(one.size for one in tables))})"
    yield Finding("database", settings.address, OK, f"{there}: `lakehouse snapshot {name}` reads them")
    yield from logs


def _log_findings(source: SourceConfig, held: Asks, address: str) -> Iterator[Finding]:
    """The server's settings of its binlog that cost the feed something; of a decoder's option that says the
    same, `validate` warns.
    """
    harmful = FORMATS[source.format].harmful_settings
    said = source.decoder_options().get("binlog_transaction_compression") == "true"
    names = [name for name in harmful if name.startswith(("binlog_", "log_bin_"))]
    for name, value in variables(held, names).items():
        is_said = said and name in ("binlog_transaction_compression", "binlog_legacy_event_pos")
        if re.fullmatch(harmful[name].harmful, value, re.I) and not is_said:
            yield Finding("database", address, WARN, f"{name} is {value}: {harmful[name].cost}", fix=CHANGE)


def _kafka_findings(name: str, source: SourceConfig) -> Iterator[Finding]:
    """Findings on the broker, on the topics with their retention, and on a sample of their messages."""
    from lakehouse.sources.kafka_sample import sample

    kafka = source.kafka
    assert kafka is not None
    options = kafka_options(source)
    try:
        topics = list_topics(kafka.bootstrap_servers, options, kafka.topics, kafka.topic_pattern)
    except EnvironmentError_ as error:
        yield error_finding("broker", kafka.bootstrap_servers, error)
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
    settings: dict[str, dict[str, str]] = {}
    try:
        settings = topic_settings(kafka.bootstrap_servers, options, [topic.name for topic in topics])
    except EnvironmentError_ as error:  # to read messages takes no right to see them
        text = f"can't be seen, so that compaction and retention are not known: {error}"
        yield Finding(
            "settings", kafka.bootstrap_servers, WARN, text, fix="allow DescribeConfigs on the topics"
        )
    for topic in topics:
        yield from topic_findings(topic, settings.get(topic.name, {}), source)
    messages = sample(kafka.bootstrap_servers, options, topics)
    if messages:
        yield from _message_findings(name, source, messages)


def topic_findings(topic: Topic, settings: dict[str, str], source: SourceConfig) -> Iterator[Finding]:
    """Findings on a topic: its number of messages, compaction, retention, deleted beginning, empty
    partitions.
    """
    held = sum(end - first for first, end in topic.offsets.values())
    if not held:
        yield Finding(
            "topic", topic.name, WARN, "has no messages", fix="is the producer running, and writing here?"
        )
    else:
        partitions = counted(len(topic.offsets), "partition")
        yield Finding("topic", topic.name, OK, f"{partitions}, {counted(held, 'message')}")
    if "compact" in settings.get("cleanup.policy", ""):
        text = "is compacted: intermediate versions and deletes are dropped before they are read"
        yield Finding("compaction", topic.name, FAIL, text, fix="set cleanup.policy=delete for the topic")
    yield from _retention(topic, settings)
    yield from _beginning(topic)
    if held:
        yield from _empty_partitions(topic, source)


def _beginning(topic: Topic) -> Iterator[Finding]:
    deleted = [f"{number} begins at {first}" for number, (first, _) in topic.offsets.items() if first > 0]
    if deleted:
        text = f"its beginning is deleted already: partition {', '.join(deleted)}"
        yield Finding(
            "beginning",
            topic.name,
            WARN,
            text,
            fix="a new lake begins there: tables are whole only from their next snapshot on (`lakehouse "
            "snapshot`), or once a dump is imported (`lakehouse import`)",
        )


def _empty_partitions(topic: Topic, source: SourceConfig) -> Iterator[Finding]:
    written = source.kafka.partitions if source.kafka else None
    empty = [
        number
        for number, (_, end) in topic.offsets.items()
        if end == 0 and (written is None or number < written)
    ]
    if empty:
        text = f"partitions {', '.join(map(str, empty))} have never had a message, and hold the watermark"
        yield Finding(
            "partitions",
            topic.name,
            WARN,
            text,
            fix="write kafka.partitions in the source's YAML if the feed writes to fewer",
        )


def _retention(topic: Topic, settings: dict[str, str]) -> Iterator[Finding]:
    if "retention.ms" not in settings:
        return
    millis = int(settings["retention.ms"])
    if 0 <= millis < DAY_MS:
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
        period = "for ever" if millis < 0 else f"{millis / DAY_MS:g} days"
        yield Finding("retention", topic.name, OK, f"messages are kept {period}")
    kept = int(settings.get("retention.bytes", -1))
    if kept >= 0:
        text = f"a partition keeps at most {size(kept)}, so a burst can delete what was not read"
        yield Finding(
            "retention", topic.name, WARN, text, fix="set retention.bytes=-1, and bound retention.ms instead"
        )


def _storage_findings(name: str, root: str, source: SourceConfig) -> Iterator[Finding]:
    """Findings on a storage sink's local folder: its checkpoint, and whether its files have the configured
    settings. A remote folder is read by Spark alone.
    """
    if is_remote(root):
        yield Finding("storage", root, OK, "is remote: the first run reads it")
        return
    if not Path(root).is_dir():
        yield Finding("storage", root, FAIL, "is no folder", fix=f"mend storage.path in sources/{name}.yml")
        return
    if not (Path(root) / "metadata").is_file():
        text = "has no file `metadata`, which holds the changefeed's checkpoint"
        yield Finding(
            "storage", root, WARN, text, fix="name the sink's own root; without a checkpoint gold waits"
        )
    configured, shown = source.decoder_options(), detect_options(root, {})
    others = [option for option, value in shown.items() if configured.get(option, value) != value]
    for option in others:
        text = f"the files show {option} {shown[option]!r}, the YAML says {configured[option]!r}"
        yield Finding("settings", root, FAIL, text, fix=f"mend options in sources/{name}.yml")
    if shown and not others:
        sample = survey_messages(islice(read_tree(root, configured), FILES), source.format, configured)
        for found in producer_findings(sample):
            yield Finding(found.what, name, found.severity, found.text, fix=found.fix)
    yield Finding("storage", root, OK, f"{shown['protocol']} files" if shown else "no files yet")


def _message_findings(name: str, source: SourceConfig, messages: list[Message]) -> Iterator[Finding]:
    """Findings on sampled messages: whether they have the configured format and compression, and which
    harmful settings of the producer they show.
    """
    options = source.decoder_options()
    try:
        guess = guess_format(messages)
    except ConfigError as error:
        yield error_finding("format", name, error)
        return
    configured, shown = (
        (source.format, source.compression),
        (guess.format, guess.options.get("compression", "none")),
    )
    if not are_alike(configured[0], shown[0]):
        yield Finding(
            "format",
            name,
            FAIL,
            f"the messages are {shown[0]}, the YAML says {configured[0]}",
            fix=f"write format: {shown[0]}",
        )
        return
    if configured[1] != shown[1] and shown[1] != "none":
        yield Finding(
            "format",
            name,
            FAIL,
            f"the messages are compressed with {shown[1]}",
            fix=f"write compression: {shown[1]}",
        )
        return
    yield Finding("format", name, OK, f"{guess.read} of {guess.sampled} sampled messages are {source.format}")
    harmful = list(producer_findings(survey_messages(messages, source.format, options)))
    for setting in harmful:
        yield Finding(setting.what, name, setting.severity, setting.text, fix=setting.fix)
    yield from _server_findings(name, source, options)
    yield from _mode_findings(name, source.format, options, messages)
    if not harmful:
        yield Finding("feed", name, OK, "the sample shows no setting that destroys anything")


def _mode_findings(
    name: str, format: str, options: Mapping[str, str], messages: list[Message]
) -> Iterator[Finding]:
    """Options that the messages show to be other than the YAML says."""
    row = FORMATS[format]
    shown = row.shown_options()(messages, options) if row.shown_options is not None else {}
    for option, value in shown.items():
        told = row.options[option]
        spelled, configured = (told.spelled or (option,))[0], options.get(option) or told.default
        if configured != value:
            text = f"the messages show {spelled} {value!r}, the YAML says {configured!r}"
            line = f"{spelled}: {option_text(value)}"
            fix = line if option == "time_zone" else f"options: {{{line}}}"
            yield Finding("settings", name, FAIL, text, fix=f"write {fix}, then rebuild silver")


def _server_findings(name: str, source: SourceConfig, options: Mapping[str, str]) -> Iterator[Finding]:
    """Whose rules convert values, in formats whose messages may come from several kinds of server."""
    if FORMATS[source.format].producer.server is None:
        server = options.get("server")
        text = "mysql's rules convert values, since nothing else is said"
        yield Finding("server", name, OK, text if server is None else f"{server}'s rules convert values")
