"""Recordings and storage trees that nobody has described: what they show of their own settings, and their
messages.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from lakehouse.discovery.detect_storage import detect_options
from lakehouse.discovery.inspect import events_of
from lakehouse.errors import ConfigError, DecodeError
from lakehouse.events import Message, RowChange, Watermark
from lakehouse.formats import decode_message, sends_watermarks
from lakehouse.formats.assemble import assembled
from lakehouse.formats.debezium.connector import transaction_end
from lakehouse.formats.ticdc.canal_json import has_extension
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_files import read_tree


def shown_options(path: Path, format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options, and what the input itself shows of those that were not said."""
    if format == "ticdc-storage":
        if not path.is_dir():
            raise ConfigError(f"{path}: expected the folder of a storage sink")
        return detect_options(path, options)
    if path.is_dir():
        raise ConfigError(
            f"{path}: expected a recording of {format}, found a folder; a storage sink's is --format "
            "ticdc-storage"
        )
    if format == "ticdc-canal-json" and options.get("tidb_extension", "auto") == "auto":
        return {**options, "tidb_extension": "true" if _shows_extension(path, options) else "false"}
    return dict(options)


def read_input(path: Path, format: str, options: Mapping[str, str]) -> Iterator[Message]:
    """The messages of a recording, or the files of a storage sink's folder in the order in which
    they land.
    """
    return read_tree(path, options) if format == "ticdc-storage" else read_recording(path)


def tells_watermark(path: Path, format: str, options: Mapping[str, str]) -> bool:
    """Whether the input tells how far it is complete: a feed may leave watermarks, or Debezium's
    transactions, out.
    """
    messages = read_input(path, format, options)
    if format == "debezium":
        return _tells_transactions(messages, options)
    if not sends_watermarks(format, options):
        return False
    return any(isinstance(event, Watermark) for _, event in events_of(messages, format, options))


def _tells_transactions(messages: Iterator[Message], options: Mapping[str, str]) -> bool:
    """Whether transactions have ENDs and rows say which is theirs: unwrapped ones do only if the transform
    was told to add it.
    """
    rows_tell, ends = False, False
    for message in messages:
        ends = ends or _is_end(message)
        if not rows_tell:
            streamed = [
                event
                for event in decode_message("debezium", message, options)
                if isinstance(event, RowChange)
            ]
            rows_tell = any(flag.startswith("tx=") for event in streamed for flag in event.flags)
            if not rows_tell and any(event.op != "snapshot" for event in streamed):
                return False
        if ends and rows_tell:
            break
    return ends


def _is_end(message: Message) -> bool:
    try:
        return transaction_end(message) is not None
    except DecodeError:
        return False


def _shows_extension(path: Path, options: Mapping[str, str]) -> bool:
    """Whether the first message that can be read has TiDB's extension."""
    for message in assembled(islice(read_recording(path), 100), "ticdc-canal-json", options):
        try:
            if isinstance(message, Message):
                return has_extension(message)
        except DecodeError:
            continue
    return True
