"""`lakehouse init`: the YAML of a source and of each of its tables, from looking at a topic, a storage sink's
folder or a recording.

What the messages show is written; what they can't show stands in the file as a commented question. Nothing is
overwritten: a file that is there is kept, and said so. All that is written is valid, or nothing is.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from lakehouse.config.load import problems
from lakehouse.config.options import known_option
from lakehouse.config.secrets import resolve_secrets, resolve_text
from lakehouse.config.yaml_reader import read_yaml
from lakehouse.discovery.detect_format import guess_format
from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.survey import SeenTable, Survey, signs, survey
from lakehouse.errors import ConfigError, EnvironmentError_
from lakehouse.events import Message
from lakehouse.formats import FORMATS, STORAGE_FORMAT, sends_watermarks
from lakehouse.lineage import split_name
from lakehouse.sources.kafka_admin import Topic, list_topics
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_files import read_tree

Progress = Callable[[str], None]
WIDTH = 110
_FILES = 2_000  # of a storage sink that are looked at
RECORDS = 50_000  # of a recording


@dataclass(frozen=True, slots=True)
class Seen:
    """What was looked at: `lines` is the input as the YAML says it, `place` as a sentence does."""

    name: str
    place: str
    lines: list[str]
    survey: Survey
    whole: bool
    questions: list[str] = field(default_factory=list)


def init(
    folder: Path,
    format: str | None,
    servers: str | None,
    topic: str | None,
    storage: str | None,
    progress: Progress,
    *,
    recording: Path | None = None,
    name: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """Write the YAMLs below `folder` and tell of each whether it was written or kept. A ConfigError where
    nothing can be told.
    """
    if format is not None and format not in FORMATS:
        raise ConfigError(f"--format {format}: expected one of {', '.join(FORMATS)}")
    if storage is not None:
        seen = look_at_storage(storage, format)
    elif recording is not None:
        seen = look_at_recording(recording, format)
    elif topic is not None and servers is not None:
        seen = look_at_topic(servers, topic, format, kafka_options or {}, progress=progress)
    else:
        raise ConfigError("init: expected --topic with --bootstrap-servers, --storage or --recording")
    source = name or source_name(seen.name)
    texts = {f"sources/{source}.yml": source_text(seen)}
    for file, table, found in table_files(seen.survey):
        file = file if is_free(folder / "tables" / file, source) else f"{source}.{file}"
        texts[f"tables/{file}"] = table_text(source, table, found, Path(file).stem)
    check(texts)
    done = [{"file": str(folder / file), "state": write(folder / file, text)} for file, text in texts.items()]
    _tell(seen.survey, folder, source, progress)
    return done


def _tell(found: Survey, folder: Path, source: str, progress: Progress) -> None:
    """What the sample shows of its producer, and what to do next."""
    for sign in signs(found):
        progress(
            f"{'warning' if sign.severity == 'warn' else 'problem'}: {sign.what}: {sign.text}; {sign.fix}"
        )
    given = "" if folder == Path("configs") else f" --configs {folder}"
    validate = "lakehouse validate" + ("" if folder == Path("configs") else f" {folder}")
    progress(
        f"next: answer the questions in {folder / 'sources' / source}.yml, then {validate}, lakehouse "
        f"plan{given}, lakehouse run all{given}"
    )


def source_name(text: str) -> str:
    """A source's name: what is no letter, digit or underscore becomes an underscore."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "source"


# Looking


def look_at_topic(
    servers: str, topic: str, format: str | None, options: Mapping[str, str], progress: Progress
) -> Seen:
    """A topic, several with commas, or all that a regular expression matches."""
    from lakehouse.sources.kafka_sample import sample

    secrets, address = resolve_secrets(options), resolve_text(servers)
    names = topic.split(",")
    topics = list_topics(address, secrets, names, None)
    pattern = not topics and _matches(address, secrets, topic)
    topics = pattern or topics
    missing = [] if pattern else sorted(set(names) - {found.name for found in topics})
    if missing:
        raise ConfigError(
            f"{address}: expected topic {', '.join(missing)}, found {_topic_names(address, secrets)}"
        )
    number = sum(end - first for found in topics for first, end in found.offsets.values())
    if not number:
        raise ConfigError(
            f"{topic}: expected messages to look at, found an empty topic; start the changefeed first, or "
            "copy configs/examples"
        )
    progress(f"kafka   {address}: {len(topics)} topic{'s' * (len(topics) > 1)} with {number} messages")
    messages = sample(address, secrets, topics)
    partitions = sum(len(found.offsets) for found in topics)
    lines = ["kafka:", f"  bootstrap_servers: {scalar(servers)}"]
    lines.append(
        f"  topic_pattern: {scalar(topic)}" if pattern else f"  topics: [{', '.join(map(scalar, names))}]"
    )
    if options:
        lines += [
            "  options:",
            *(f"    {scalar(option)}: {scalar(value)}" for option, value in options.items()),
        ]
    lines.append(
        "  # starting: earliest   # where the first run starts: earliest, latest, or "
        "timestamp:2026-11-21T09:00:00Z"
    )
    place = (
        f"{', '.join(found.name for found in topics[:5])}{', …' * (len(topics) > 5)} ({partitions} "
        "partitions)"
    )
    return _seen(
        topic,
        place,
        lines,
        messages,
        format=format,
        whole=len(messages) >= number,
        questions=_topic_questions(topics, servers),
    )


def _matches(address: str, options: Mapping[str, str], pattern: str) -> list[Topic]:
    try:
        re.compile(pattern)
    except re.error:
        return []
    return [
        found for found in list_topics(address, options, None, pattern) if not found.name.startswith("__")
    ]


def _topic_names(address: str, options: Mapping[str, str]) -> str:
    names = [
        found.name for found in list_topics(address, options, None, ".*") if not found.name.startswith("__")
    ]
    return (
        ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        if names
        else "no topic at all"
    )


def _topic_questions(topics: Sequence[Topic], servers: str) -> list[str]:
    empty = [
        f"{topic.name}/{number}"
        for topic in topics
        for number, (first, end) in topic.offsets.items()
        if first == end
    ]
    if not empty:
        return []
    text = (
        f"Nothing came in {', '.join(empty[:8])}{', …' * (len(empty) > 8)}. Does the changefeed write there?"
    )
    return [
        *_question(
            text, "A partition that gets no watermark holds gold; say how many partitions the feed writes to:"
        ),
        "#   partitions: 1",
    ]


def look_at_recording(path: Path, format: str | None) -> Seen:
    """A recording."""
    if not path.is_file():
        raise ConfigError(f"{path}: expected a recording (a file of JSON lines), found none")
    stem = Path(path.stem).stem if path.suffix == ".gz" else path.stem
    messages = list(islice(read_recording(path), RECORDS + 1))
    lines = [f"recording: {scalar(str(path))}"]
    return _seen(stem, str(path), lines, messages[:RECORDS], format=format, whole=len(messages) <= RECORDS)


def look_at_storage(root: str, format: str | None) -> Seen:
    """The local folder of a storage sink."""
    if format not in (None, STORAGE_FORMAT):
        raise ConfigError(
            f"--format {format}: a storage sink's files are {STORAGE_FORMAT}; leave --format out"
        )
    if not Path(root).is_dir():
        what = (
            "init looks at local folders; copy some of its files to one"
            if "://" in root
            else "name the sink's root"
        )
        raise ConfigError(f"{root}: expected a folder, found none; {what}")
    options = detect_options(root, {})
    messages: list[Message] = []
    for message in read_tree(root, options):
        messages.append(message)
        if len(messages) >= _FILES:
            break
    found = survey(messages, STORAGE_FORMAT, options)
    if not options:
        raise ConfigError(
            f"{root}: expected the files of a TiCDC storage sink, found none that can be read; name the "
            "sink's root"
        )
    lines = ["storage:", f"  path: {scalar(root)}", "options:"]
    lines += [f"  {name}: {_option(value)}" for name, value in options.items()]
    questions = []
    if options.get("protocol") == "csv":
        questions = [
            *_question("Is NULL written \\N and binary base64, the defaults? The files don't show it."),
            "#   null: \\N",
            "#   binary-encoding-method: base64",
        ]
    return Seen(
        Path(root).resolve().name, root, lines, found, whole=len(messages) < _FILES, questions=questions
    )


def _seen(
    name: str,
    place: str,
    lines: list[str],
    messages: list[Message],
    format: str | None,
    whole: bool,
    questions: Sequence[str] = (),
) -> Seen:
    if not messages:
        raise EnvironmentError_(f"{place}: expected messages to look at, got none")
    guess = guess_format(messages, format)
    found = survey(messages, guess.format, guess.options)
    compression = {"compression": guess.options["compression"]} if "compression" in guess.options else {}
    known = FORMATS[guess.format].options
    options = {
        (known[option].spelled or (option,))[0]: value
        for option, value in guess.options.items()
        if option not in compression
    }
    lines = [*lines, *(f"{option}: {value}" for option, value in compression.items())]
    if options:
        lines += ["options:", *(f"  {option}: {_option(value)}" for option, value in options.items())]
    return Seen(name, place, lines, found, whole=whole, questions=list(questions))


# Writing


def source_text(seen: Seen) -> str:
    """The source's YAML."""
    found = seen.survey
    what = (
        f"{'all' if seen.whole else 'a sample of'} {found.messages} "
        f"{'files' if FORMATS[found.format].reads_files else 'messages'}"
    )
    lines = [
        *_comment(
            f"Written by lakehouse init from {seen.place}: {what}, {len(found.tables)} tables, {found.ddl} "
            "DDLs,"
            f" {found.watermarks} watermarks."
        ),
        "# Every option: `lakehouse schema json source`. What no message shows is asked for below.",
        f"format: {found.format}",
        *seen.lines,
        *seen.questions,
        *_zone_question(found),
        *_claim_check_question(found),
        *_untyped_question(found),
        *_upstream_question(found),
        (
            "# auto: gold holds every table it meets, as its YAML says; configured: only those with a "
            "file in ../tables"
        ),
        "tables: auto",
        *_consistency(found),
    ]
    return "\n".join(lines) + "\n"


def _zone_question(found: Survey) -> Iterator[str]:
    row = FORMATS[found.format]
    if "time_zone" not in row.options or row.tells_time_zone:
        return
    columns = found.timestamps()
    which = f" It matters for {', '.join(columns[:4])}{', …' * (len(columns) > 4)}." if columns else ""
    yield from _question(
        "In which zone does the producer print TIMESTAMP? No message says it; unsaid, it is read as "
        f"UTC.{which}"
    )
    yield "# time_zone: UTC"


def _claim_check_question(found: Survey) -> Iterator[str]:
    if found.claim_checks:
        yield from _question(
            f"Which folder holds the claim-check files? {found.claim_checks} messages name one; without it "
            "they are dead letters."
        )
        yield "# claim_check: /path/or/url"


def _untyped_question(found: Survey) -> Iterator[str]:
    row = FORMATS[found.format]
    untyped = any(not any(table.columns.values()) for table in found.tables.values())
    if row.untyped_question and untyped:
        yield from _question(row.untyped_question)
        yield "# options:"
        for name, option in row.options.items():
            yield f"#   {(option.spelled or (name,))[0]}: {option.default}"


def _upstream_question(found: Survey) -> Iterator[str]:
    """Settings that no message shows and that lose something by default."""
    settings = {
        name: (default, cost)
        for name, (default, harmful, cost) in FORMATS[found.format].harmful_settings.items()
        if default is not None and re.fullmatch(harmful, default) and not known_option(found.format, name)
    }
    if settings:
        yield from _question(
            "What is the producer set to here? Each of these defaults loses something, and `validate` warns "
            "of it."
        )
        yield "# upstream:"
        yield from (f"#   {name}: {default}   # {cost}" for name, (default, cost) in settings.items())


def _consistency(found: Survey) -> Iterator[str]:
    awaited = sends_watermarks(found.format, found.options) and not FORMATS[found.format].transactions
    if awaited and not found.watermarks:
        yield from _question(
            "No watermark was seen. Does the changefeed send them (enable-tidb-extension)? If it does not, "
            "write:"
        )
        yield "# consistency: eventual"


def table_files(found: Survey) -> Iterator[tuple[str, tuple[str, str], SeenTable]]:
    """A file name of its own for each table, in the tables' order."""
    taken: set[str] = set()
    for name, table in sorted(found.tables.items()):
        stem = _stem(name)
        number = 1
        while (file := f"{stem}{'' if number == 1 else f'-{number}'}.yml").casefold() in taken:
            number += 1
        taken.add(file.casefold())
        yield file, name, table


def _stem(name: tuple[str, str]) -> str:
    """A file's name for a table, which any file system takes."""
    plain = re.sub(r"[^\w.$-]", "_", ".".join(name)).lstrip(".")
    return plain.encode()[:200].decode(errors="ignore") or "table"


def is_free(file: Path, source: str) -> bool:
    """Whether a table's YAML may have this file: not where one of another source stands there."""
    try:
        held = read_yaml(str(file), file.read_bytes()).data
    except OSError:
        return True
    return not isinstance(held, dict) or held.get("source", source) == source


def table_text(source: str, name: tuple[str, str], table: SeenTable, stem: str) -> str:
    """The table's YAML: nothing but its source, unless its name or key must be said."""
    lines = _comment(f"{'.'.join(name)}: {table.changes} changes seen.")
    lines += _comment(
        "Columns: " + ", ".join(f"{column} {type_}".rstrip() for column, type_ in table.columns.items())
    )
    lines.append(f"source: {scalar(source)}")
    if not _is_named(stem, name):
        lines.append(f"table: {scalar('.'.join(_quoted(part) for part in name))}")
    if table.key_names:
        lines += _comment(f"The messages tell its key, {', '.join(table.key_names)}; nothing is to be said.")
    else:
        lines += _question(
            "No message tells a key. Where the table's CREATE tells none either, which columns identify a "
            "row?",
            "Without one equal rows are counted, and an update is a delete and an insert.",
        )
        lines.append(f"# key: [{', '.join(scalar(column) for column in list(table.columns)[:1])}]")
    lines += [
        "# gold:",
        f"#   target: {scalar('__'.join(name))}   # the gold table's name; this is the default",
    ]
    return "\n".join(lines) + "\n"


def _is_named(stem: str, name: tuple[str, str]) -> bool:
    try:
        return split_name(stem) == name
    except ValueError:
        return False


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`" if re.search(r"[.`]", part) else part


def scalar(text: str) -> str:
    """Text as YAML: plain where that is safe, else in double quotes."""
    plain = re.fullmatch(r"[A-Za-z0-9_./$][\w./:$,@-]*", text, re.A) and not re.search(
        r":$|[:,](\s|$)|,", text
    )
    if plain and not re.fullmatch(r"true|false|null|~|[-+.\d][\d_.eE+-]*|0[xo][0-9a-fA-F]+", text, re.I):
        return text
    signs = (
        "\\" + sign if sign in '"\\' else sign if sign.isprintable() else f"\\U{ord(sign):08x}"
        for sign in text
    )
    return f'"{"".join(signs)}"'


def _option(text: str) -> str:
    return text if re.fullmatch(r"true|false|\d{1,9}", text, re.A) else scalar(text)


def _comment(text: str) -> list[str]:
    """Text as comment lines of bounded width."""
    lines, line = [], "#"
    for word in "".join(sign if sign.isprintable() else " " for sign in text).split():
        if len(line) + len(word) > WIDTH and line != "#":
            lines.append(line)
            line = "#"
        line += " " + word
    return [*lines, line]


def _question(*sentences: str) -> list[str]:
    return [
        line
        for number, sentence in enumerate(sentences)
        for line in _comment(("QUESTION: " if number == 0 else "") + sentence)
    ]


def check(texts: Mapping[str, str]) -> None:
    """A ConfigError where what would be written is not valid: a secret on the command line, say."""
    with tempfile.TemporaryDirectory() as folder:
        for file, text in texts.items():
            path = Path(folder) / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = problems(folder)
    if found:
        raise ConfigError("\n".join(f"init: {str(problem).removeprefix(folder + '/')}" for problem in found))


def write(path: Path, text: str) -> str:
    """Write a new file; one that is there stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return "kept: it was there already"
    except OSError as error:
        raise EnvironmentError_(
            f"{path}: expected a folder that can be written, got: {error.strerror}"
        ) from error
    return "written"
