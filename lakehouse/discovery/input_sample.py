"""Samples of an input that has no YAML yet: a topic, a recording, or the folder of a storage sink.

Each is an `InputSample`: the survey of the messages that were read, the YAML lines that name the input, and
the questions that its messages leave open.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from lakehouse.config.secrets import resolve_secrets, resolve_text
from lakehouse.discovery.config_text import InputSample, option_text, question_lines, scalar
from lakehouse.discovery.detect_format import guess_format
from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.survey import survey_messages
from lakehouse.errors import ConfigError, EnvironmentError_
from lakehouse.events import Message
from lakehouse.formats import FORMATS, STORAGE_FORMAT
from lakehouse.sources.kafka_admin import Topic, list_topics
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_tree import read_tree

Progress = Callable[[str], None]
_MAX_FILES = 2_000  # of a storage sink
_MAX_RECORDS = 50_000  # of a recording


def sample_topic(
    servers: str, topic: str, format: str | None, options: Mapping[str, str], progress: Progress
) -> InputSample:
    """A sample of a topic, of several with commas, or of all that a regular expression matches."""
    from lakehouse.sources.kafka_sample import sample

    secrets, address = resolve_secrets(options), resolve_text(servers)
    topics, is_pattern = _topics_named(address, secrets, topic)
    number = sum(end - first for each in topics for first, end in each.offsets.values())
    if not number:
        raise ConfigError(
            f"{topic}: expected messages to read, found an empty topic; start the producer first, or "
            "copy configs/examples"
        )
    progress(f"kafka   {address}: {len(topics)} topic{'s' * (len(topics) > 1)} with {number} messages")
    messages = sample(address, secrets, topics)
    return _sampled(
        topic,
        _topics_text(topics),
        _kafka_lines(servers, topic, options, is_pattern),
        messages,
        format=format,
        whole=len(messages) >= number,
        empty=_empty_partitions(topics),
    )


def _topics_named(address: str, options: Mapping[str, str], topic: str) -> tuple[list[Topic], bool]:
    """The topics, and whether `topic` is a regular expression: where no topic has one of the names."""
    names = topic.split(",")
    topics = list_topics(address, options, names, None)
    if not topics and (matching := _matching(address, options, topic)):
        return matching, True
    missing = sorted(set(names) - {each.name for each in topics})
    if missing:
        raise ConfigError(
            f"{address}: expected topic {', '.join(missing)}, found {_all_topics_text(address, options)}"
        )
    return topics, False


def _matching(address: str, options: Mapping[str, str], pattern: str) -> list[Topic]:
    """The topics that match a regular expression, Kafka's own (`__…`) left out; none where it is invalid."""
    try:
        re.compile(pattern)
    except re.error:
        return []
    return [
        topic for topic in list_topics(address, options, None, pattern) if not topic.name.startswith("__")
    ]


def _all_topics_text(address: str, options: Mapping[str, str]) -> str:
    names = [topic.name for topic in _matching(address, options, ".*")]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more if names else "no topic at all"


def _topics_text(topics: Sequence[Topic]) -> str:
    partitions = sum(len(topic.offsets) for topic in topics)
    names = f"{', '.join(topic.name for topic in topics[:5])}{', …' * (len(topics) > 5)}"
    return f"{names} ({partitions} partitions)"


def _kafka_lines(servers: str, topic: str, options: Mapping[str, str], is_pattern: bool) -> list[str]:
    """The YAML of `kafka`; addresses and options as they were given, so that secrets stay references."""
    names = ", ".join(map(scalar, topic.split(",")))
    lines = [
        "kafka:",
        f"  bootstrap_servers: {scalar(servers)}",
        f"  topic_pattern: {scalar(topic)}" if is_pattern else f"  topics: [{names}]",
    ]
    if options:
        lines.append("  options:")
        lines += [f"    {scalar(option)}: {scalar(value)}" for option, value in options.items()]
    lines.append(
        "  # starting: earliest   # where the first run starts: earliest, latest, or "
        "timestamp:2026-11-21T09:00:00Z"
    )
    return lines


def _empty_partitions(topics: Sequence[Topic]) -> list[str]:
    return [
        f"{topic.name}/{number}"
        for topic in topics
        for number, (first, end) in topic.offsets.items()
        if first == end
    ]


def _partitions_question(format: str, empty: Sequence[str]) -> list[str]:
    """The question for empty partitions, in a format whose watermark waits for each of them."""
    if not empty or not FORMATS[format].counts_partitions:
        return []
    partitions = f"{', '.join(empty[:8])}{', …' * (len(empty) > 8)}"
    return [
        *question_lines(
            f"No messages are in {partitions}. Does the producer write there?",
            "A partition that gets no watermark holds gold; say how many partitions the feed writes to:",
        ),
        "#   partitions: 1",
    ]


def sample_recording(path: Path, format: str | None) -> InputSample:
    """A sample of a recording: its first messages, up to a bound."""
    if not path.is_file():
        raise ConfigError(f"{path}: expected a recording (a file of JSON lines), found none")
    stem = Path(path.stem).stem if path.suffix == ".gz" else path.stem
    messages = list(islice(read_recording(path), _MAX_RECORDS + 1))
    return _sampled(
        stem,
        str(path),
        [f"recording: {scalar(str(path))}"],
        messages[:_MAX_RECORDS],
        format=format,
        whole=len(messages) <= _MAX_RECORDS,
    )


def sample_storage(root: str, format: str | None) -> InputSample:
    """A sample of a storage sink's local folder: its first files, up to a bound, and the settings they
    show.
    """
    _check_storage(root, format)
    options = detect_options(root, {})
    messages = list(islice(read_tree(root, options), _MAX_FILES))
    survey = survey_messages(messages, STORAGE_FORMAT, options)
    if not options:
        raise ConfigError(
            f"{root}: expected the files of a TiCDC storage sink, found none that can be read; name the "
            "sink's root"
        )
    lines = ["storage:", f"  path: {scalar(root)}", "options:"]
    lines += [f"  {name}: {option_text(value)}" for name, value in options.items()]
    lines += _csv_questions(options) if options.get("protocol") == "csv" else []
    return InputSample(Path(root).resolve().name, root, lines, survey, whole=len(messages) < _MAX_FILES)


def _check_storage(root: str, format: str | None) -> None:
    """Raise ConfigError unless the root is a local folder, and the format is the storage sink's or none."""
    if format not in (None, STORAGE_FORMAT):
        raise ConfigError(
            f"--format {format}: a storage sink's files are {STORAGE_FORMAT}; leave --format out"
        )
    if not Path(root).is_dir():
        is_remote = "://" in root
        what = (
            "init reads local folders; copy some of its files to one" if is_remote else "name the sink's root"
        )
        raise ConfigError(f"{root}: expected a folder, found none; {what}")


_SHOWN_BY_SOME = {
    "null": ("\\N", "Is NULL written \\N, the default? The files don't show it."),
    "binary-encoding-method": ("base64", "Is binary base64, the default? The files don't show it."),
}


def _csv_questions(options: Mapping[str, str]) -> list[str]:
    lines = []
    for name, (default, question) in _SHOWN_BY_SOME.items():
        if name not in options:
            lines += [*question_lines(question), f"#   {name}: {default}"]
    return lines


def _sampled(
    name: str,
    place: str,
    lines: list[str],
    messages: list[Message],
    *,
    format: str | None,
    whole: bool,
    empty: Sequence[str] = (),
) -> InputSample:
    """The survey of messages whose format and options are detected from them; the options become YAML
    lines.
    """
    if not messages:
        raise EnvironmentError_(f"{place}: expected messages to read, got none")
    guess = guess_format(messages, format)
    survey = survey_messages(messages, guess.format, guess.options)
    server = {"server": next(iter(survey.servers))} if len(survey.servers) == 1 else {}
    survey.options = {**guess.options, **server}
    option_lines = _option_lines(guess.format, survey.options)
    lines = [*lines, *_partitions_question(guess.format, empty), *option_lines]
    return InputSample(name, place, lines, survey, whole=whole)


def _option_lines(format: str, options: Mapping[str, str]) -> list[str]:
    """The YAML of decoder options by their producers' names; compression and zone are options of the source
    itself.
    """
    known = FORMATS[format].options
    of_source = ("compression", "time_zone")
    lines = [f"{name}: {option_text(options[name])}" for name in of_source if name in options]
    others = {
        (known[option].spelled or (option,))[0]: value
        for option, value in options.items()
        if option not in of_source
    }
    if others:
        lines += ["options:", *(f"  {option}: {option_text(value)}" for option, value in others.items())]
    return lines
