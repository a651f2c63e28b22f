"""Reading recordings and storage folders that have no YAML: the settings that they show, and their
messages.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from lakehouse.discovery.detect_format import Guess, guess_format, shown_compression
from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.inspect import events_of
from lakehouse.errors import ConfigError, DecodeError
from lakehouse.events import Message, RowChange, Watermark
from lakehouse.formats import FORMATS, STORAGE_FORMAT, decode_message, sends_watermarks
from lakehouse.formats.assemble import assembled
from lakehouse.formats.row import DetectedOption, Transactions
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_tree import read_tree

_HEAD = 400  # messages at the beginning, from which a format is detected: a file that grows keeps them
_ROWS = 50_000  # those from which other settings of the producer are


def detected_format(path: Path) -> Guess:
    """The format of a recording's first messages, or the storage sink's for a folder. A ConfigError where no
    format decodes half of them.
    """
    if path.is_dir():
        return Guess(STORAGE_FORMAT, {}, 0, 0)
    return guess_format([*islice(read_recording(path), _HEAD)])


def shown_options(path: Path, format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options, completed by those that the input shows."""
    row = FORMATS[format]
    if row.reads_files:
        if not path.is_dir():
            raise ConfigError(f"{path}: expected the folder of a storage sink")
        return detect_options(path, options)
    if path.is_dir():
        raise ConfigError(
            f"{path}: expected a recording of {format}, found a folder; a storage sink's is --format "
            f"{STORAGE_FORMAT}"
        )
    if "compression" in row.options and "compression" not in options:
        head = [message for message in islice(read_recording(path), _HEAD) if message.value]
        options = {**options, **shown_compression(head, format)}
    if row.shown_options is not None:
        options = {**row.shown_options()(islice(read_recording(path), _ROWS), options), **options}
    options = {**_shown_server(path, format), **options}
    detected = row.detected
    if detected is not None and options.get(detected.name, "auto") == "auto":
        return {**options, detected.name: "true" if _shows(detected, path, format, options) else "false"}
    return dict(options)


def _shown_server(path: Path, format: str) -> dict[str, str]:
    """The kind of server that the first messages name, as its option."""
    tells_rules = FORMATS[format].tells_rules
    if tells_rules is None:
        return {}
    told = {server for server in map(tells_rules(), islice(read_recording(path), _HEAD)) if server}
    return {"server": told.pop()} if len(told) == 1 else {}


def read_input(path: Path, format: str, options: Mapping[str, str]) -> Iterator[Message]:
    """The messages of a recording, or the files of a storage sink's folder in the order in which
    they land.
    """
    return read_tree(path, options) if FORMATS[format].reads_files else read_recording(path)


def has_watermark(path: Path, format: str, options: Mapping[str, str]) -> bool:
    """Whether the input has watermarks or ends of transactions, which a feed may leave out."""
    messages = read_input(path, format, options)
    if (transactions := FORMATS[format].transactions) is not None:
        return _has_transactions(messages, format, options, transactions())
    if not sends_watermarks(format, options):
        return False
    return any(isinstance(event, Watermark) for _, event in events_of(messages, format, options))


def _has_transactions(
    messages: Iterator[Message], format: str, options: Mapping[str, str], transactions: Transactions
) -> bool:
    """Whether transactions have END records and rows name their transaction: unwrapped rows of Debezium do so
    only if the transform is configured to add it.
    """
    has_ids, has_end = False, False
    for message in messages:
        has_end = has_end or _is_end(message, transactions)
        if not has_ids:
            changes = [
                event for event in decode_message(format, message, options) if isinstance(event, RowChange)
            ]
            has_ids = any(flag.startswith("tx=") for event in changes for flag in event.flags)
            if not has_ids and any(event.op != "snapshot" for event in changes):
                return False
        if has_end and has_ids:
            break
    return has_end


def _is_end(message: Message, transactions: Transactions) -> bool:
    try:
        return transactions.end(message) is not None
    except DecodeError:
        return False


def _shows(detected: DetectedOption, path: Path, format: str, options: Mapping[str, str]) -> bool:
    """Whether the first readable message shows that the option is true; True where none is readable."""
    shows = detected.shows()
    for message in assembled(islice(read_recording(path), 100), format, options):
        try:
            if isinstance(message, Message):
                return shows(message)
        except DecodeError:
            continue
    return True
