"""Checks that one option's model can't make: options that exclude, require or ignore each other.

A check is a generator over the raw data of one file; it yields (path, what is wrong, what to do). It looks at
the raw data so that it runs although another option of the file is invalid: data of another shape than it
expects is reported by the model.
"""

import re
import zoneinfo
from collections.abc import Iterable, Iterator

from lakehouse.config.expressions import computed_problem
from lakehouse.config.options import KAFKA_PROPERTIES, KAFKA_TAKEN, known_option, option_problems
from lakehouse.config.producer_settings import Data, Finding, section, sends_watermarks
from lakehouse.config.quality import is_regex, quality_findings
from lakehouse.config.secrets import FORMS, has_reference, has_secret_reference, holds_secret, is_malformed
from lakehouse.config.yaml_reader import Path
from lakehouse.errors import did_you_mean, nearest
from lakehouse.formats import FORMATS, STORAGE_FORMAT
from lakehouse.sources.kafka_client import unsupported_options

INPUTS = ("kafka", "recording", "storage")
_COUNTS_PARTITIONS = tuple(name for name, row in FORMATS.items() if row.counts_partitions)
# orders in which nothing of a message tells that it was sent before
_WITHOUT_PLACE = ("arrival", "files")
# Settings of a source that only some formats can use, beside those that stand in the format's own table of
# options.
ONLY_FOR = {
    ("row_ids",): tuple(name for name, row in FORMATS.items() if row.sends_row_ids),
    ("kafka", "partitions"): _COUNTS_PARTITIONS,
    ("kafka", "default_topic"): _COUNTS_PARTITIONS,
    ("accept",): tuple(
        name
        for name, row in FORMATS.items()
        if row.order in _WITHOUT_PLACE or (row.other_order and row.other_order.order in _WITHOUT_PLACE)
    ),
}
# A reference may stand in these strings, a secret scope's only in those of SECRET.
SECRET = (("kafka", "options"), ("database", "user"), ("database", "password"))
REFERABLE = (
    *SECRET,
    ("database", "host"),
    ("database", "ca"),
    ("kafka", "bootstrap_servers"),
    ("recording",),
    ("storage", "path"),
    ("claim_check",),
    ("lake",),
)


def source_findings(data: Data) -> Iterator[Finding]:
    """Problems in a source that its model does not see."""
    yield from _inputs(data)
    yield from _topics(data)
    yield from _kafka_options(section(section(data, "kafka"), "options"))
    yield from _database(section(data, "database"))
    yield from _strings(data)
    yield from _time_zone(data)
    if data.get("format") in tuple(FORMATS):
        yield from _format_options(data)
        yield from _inert(data)
        yield from _watermarks(data)
        yield from _upstream(data)


def _inputs(data: Data) -> Iterator[Finding]:
    inputs = [name for name in INPUTS if name in data]
    if not inputs:
        yield (), "has no input", "add one of kafka, recording or storage"
    for name in inputs[1:]:
        yield (name,), f"is a second input beside {inputs[0]}", "a source has one: split it in two files"
    row = FORMATS[data["format"]] if data.get("format") in tuple(FORMATS) else None
    if "storage" in data and row is not None and not row.reads_files:
        yield (
            ("storage",),
            f"holds files of a TiCDC storage sink, which {data['format']} does not read",
            f"write format: {STORAGE_FORMAT}",
        )
    for name in ("kafka", "recording"):
        if name in data and row is not None and row.reads_files:
            yield (
                (name,),
                f"is no input of {data['format']}, which reads a sink's files",
                "write storage: {path: …}",
            )


def _topics(data: Data) -> Iterator[Finding]:
    kafka = section(data, "kafka")
    topics, pattern, default = kafka.get("topics"), kafka.get("topic_pattern"), kafka.get("default_topic")
    if kafka and topics is None and pattern is None:
        yield ("kafka",), "names no topic", "add topics or topic_pattern"
    if topics is not None and pattern is not None:
        yield ("kafka", "topic_pattern"), "says again what topics says", "keep one of the two"
    if isinstance(pattern, str) and not is_regex(pattern):
        yield (
            ("kafka", "topic_pattern"),
            "is no regular expression",
            "write one that matches whole topic names, such as shop\\..*",
        )
    elif isinstance(default, str) and not _is_read(default, topics, pattern):
        yield (
            ("kafka", "default_topic"),
            "is not among the topics that are read",
            "add it to topics: its watermark counts",
        )
    starting = kafka.get("starting")
    if isinstance(starting, dict) and isinstance(topics, list):
        for topic in starting.keys() - set(map(str, topics)):
            yield (
                ("kafka", "starting", topic),
                "is not among the topics that are read",
                did_you_mean(topic, map(str, topics)),
            )


def _is_read(topic: str, topics: object, pattern: object) -> bool:
    if isinstance(topics, list):
        return topic in topics
    return not isinstance(pattern, str) or re.fullmatch(pattern, topic) is not None


def _kafka_options(options: Data) -> Iterator[Finding]:
    for name in options:
        path = ("kafka", "options", name)
        plain = name.removeprefix("kafka.")
        if plain in KAFKA_TAKEN:
            yield path, "is set by the reader", KAFKA_TAKEN[plain]
        elif plain == name:
            yield path, "lacks the prefix of Kafka's own options", f"write `kafka.{name}`"
        elif plain not in KAFKA_PROPERTIES and (close := nearest(plain, KAFKA_PROPERTIES)):
            yield path, "is no property of a Kafka consumer", f"did you mean `kafka.{close}`?"
    for name, text, fix in unsupported_options(options):
        yield ("kafka", "options", name), text, fix


def _database(data: Data) -> Iterator[Finding]:
    if "ca" in data and data.get("tls", "verified") != "verified":
        yield ("database", "ca"), f"has no effect with tls: {data['tls']}", "remove it, or use tls: verified"


def _strings(data: Data) -> Iterator[Finding]:
    """Problems of references that are malformed or in the wrong place, and of secrets that are written
    out.
    """
    for path, text in strings(data):
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        if is_malformed(text):
            yield path, "holds a reference of no known form", FORMS
        elif holds_secret(name, text):
            yield (
                path,
                "holds a secret",
                f"keep it elsewhere: {FORMS.removeprefix('write ')}, without a default",
            )
        elif has_reference(text) and not any(path[: len(place)] == place for place in REFERABLE):
            yield path, "can't hold a reference", "write the value itself"
        elif has_secret_reference(text) and path[:2] not in SECRET:
            yield (
                path,
                "can't hold a secret",
                "use ${env:NAME} here; secrets are for kafka.options and database.password",
            )


def strings(data: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every text in the data, with its path."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from strings(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from strings(value, (*path, index))


def _format_options(data: Data) -> Iterator[Finding]:
    options, format = section(data, "options"), data["format"]
    for name, text, fix in option_problems(format, options):
        if name.replace("-", "_") in ("time_zone", "compression", "claim_check"):
            continue
        if name in FORMATS[format].harmful_settings and not known_option(format, name):
            yield ("options", name), "is a setting that no decoder reads", "move it under `upstream:`"
        else:
            yield ("options", name), text, fix
    for name in options:
        if (known := name.replace("-", "_")) in ("time_zone", "compression", "claim_check"):
            yield (
                ("options", name),
                "is an option of the source itself",
                f"move it one level up, as `{known}:`",
            )


def _inert(data: Data) -> Iterator[Finding]:
    """Problems of options that have no effect for this format."""
    format = data["format"]
    for name in ("time_zone", "compression", "claim_check"):
        if name in data and name not in FORMATS[format].options:
            fitting = [other for other in FORMATS if name in FORMATS[other].options]
            yield (name,), f"has no effect on {format}", f"remove it; it is for {', '.join(fitting)}"
    for path, formats in ONLY_FOR.items():
        owner = section(data, path[0]) if len(path) == 2 else data
        if path[-1] in owner and format not in formats:
            yield path, f"has no effect on {format}", f"remove it; it is for {', '.join(formats)}"
    yield from _inert_options(format, section(data, "options"))


def _inert_options(format: str, configured: Data) -> Iterator[Finding]:
    """Problems of options that have an effect only with a value of another option."""
    options = FORMATS[format].options
    for name in configured:
        known = known_option(format, name)
        needed = options[known].only_with if known else None
        if needed is None:
            continue
        other, value = needed
        default = options[other].default
        if configured.get(other, default) != value:
            text, fix = f"has no effect on {default} files", f"remove it, or add {other}: {value}"
            yield ("options", name), text, fix


def _time_zone(data: Data) -> Iterator[Finding]:
    zone = data.get("time_zone")
    if isinstance(zone, str) and not has_reference(zone) and not _is_zone(zone):
        close = nearest(zone, zoneinfo.available_timezones())
        yield (
            ("time_zone",),
            "is no time zone",
            f"did you mean `{close}`?" if close else "write an IANA name or an offset such as +08:00",
        )


def _is_zone(zone: str) -> bool:
    if re.fullmatch(r"[+-](0\d|1[0-4]):[0-5]\d", zone, re.A):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        return False
    return True


def _watermarks(data: Data) -> Iterator[Finding]:
    if data.get("consistency") == "resolved" and not sends_watermarks(data):
        yield (
            ("consistency",),
            "resolved waits for watermarks, which this feed does not send",
            "write consistency: eventual",
        )


def _upstream(data: Data) -> Iterator[Finding]:
    names = FORMATS[data["format"]].harmful_settings
    for name in section(data, "upstream"):
        if known_option(data["format"], name):
            yield ("upstream", name), "is an option of the decoder", "move it under `options:`"
        elif name not in names:
            yield ("upstream", name), "is no setting that matters to this format", did_you_mean(name, names)


def table_findings(data: Data) -> Iterator[Finding]:
    """Problems in a table that its model does not see."""
    if "table" in data and "tables" in data:
        yield ("tables",), "says again what table says", "keep one of the two"
    yield from _gold_options(data, section(data, "gold"))
    yield from _pattern_and_ddl(data)
    if "accept" in data and section(data, "gold").get("mode", "upsert") == "upsert":
        yield ("accept",), "has no effect in mode upsert", "remove it"
    for path, text in strings(data):
        if has_reference(text) and path[0] not in ("table", "tables"):  # a name is nothing but itself
            yield path, "can't hold a reference", "write the value itself"
    yield from quality_findings(data)
    for name, column in section(data, "columns").items():
        yield from _column(name, column if isinstance(column, dict) else {})
    yield from _renames(section(data, "columns"))


def _gold_options(data: Data, gold: Data) -> Iterator[Finding]:
    if "deletes" in gold and gold.get("mode", "upsert") != "upsert":
        yield ("gold", "deletes"), f"has no effect in mode {gold['mode']}", "remove it"
    if "cluster_by" in gold and "partition_by" in gold:
        yield ("gold", "partition_by"), "excludes cluster_by", "keep one of the two"
    if gold.get("primary_key") and gold.get("mode", "upsert") != "upsert":
        yield (
            ("gold", "primary_key"),
            f"has no effect in mode {gold['mode']}, where a key has many rows",
            "remove it",
        )
    if gold.get("primary_key") and "tables" in data:
        yield ("gold", "primary_key"), "can't be promised of several tables that become one", "remove it"


def _pattern_and_ddl(data: Data) -> Iterator[Finding]:
    for kind in ("add_primary_key", "drop_primary_key"):
        if section(data, "on_ddl").get(kind) == "ignore":
            yield (
                ("on_ddl", kind),
                "can't be ignored: rows of another key could not be matched",
                "write evolve, hold or reject",
            )
    if has_pattern(data.get("tables")):
        for name in ("key", "on_ddl"):
            if name in data:
                yield (
                    (name,),
                    "needs the tables by their names",
                    "list them under tables, instead of a pattern",
                )


def has_pattern(tables: object) -> bool:
    """Whether a table's `tables` holds a pattern with *."""
    names = [tables] if isinstance(tables, str) else tables if isinstance(tables, list) else []
    return any("*" in name for name in names if isinstance(name, str))


def _renames(columns: Data) -> Iterator[Finding]:
    taken: set[str] = set()
    for name, column in columns.items():
        new = column.get("rename") if isinstance(column, dict) else None
        if isinstance(new, str):
            if new.casefold() in taken:
                yield ("columns", name, "rename"), "is another column's new name too", "give each its own"
            if new.startswith("_raw_"):
                yield (
                    ("columns", name, "rename"),
                    "begins as companions do",
                    "choose a name that does not begin with _raw_",
                )
            taken.add(new.casefold())


def _column(name: str, column: Data) -> Iterator[Finding]:
    for first, others in (
        ("exclude", ("type", "rename", "mask", "hash", "computed")),
        ("computed", ("rename", "type", "mask", "hash")),
        ("mask", ("hash",)),
        ("hash", ("type",)),
    ):
        for other in others:
            if column.get(first) and other in column:
                yield ("columns", name, other), f"has no effect beside {first}", "keep one of the two"
    if isinstance(expression := column.get("computed"), str) and (wrong := computed_problem(expression)):
        yield ("columns", name, "computed"), *wrong


def mode_findings(table: Data, order: str, accepts: Iterable[str]) -> Iterator[Finding]:
    """Problems of a table's mode that needs what its feed does not send. `accepts` is the source's
    `accept`.
    """
    mode = section(table, "gold").get("mode", "upsert")
    if mode == "history" and order == "files":
        yield (
            ("gold", "mode"),
            "history needs commit times, which these files do not tell",
            "set include-commit-ts, at the sink and here",
        )
    elif (
        mode != "upsert"
        and order in ("arrival", "files")
        and "replays" not in {*accepts, *table.get("accept", ())}
    ):
        yield (
            ("gold", "mode"),
            f"{mode} on a feed in arrival order counts a replay twice",
            "write accept: [replays] to build it so",
        )
