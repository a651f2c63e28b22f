"""Bytes to events: one module per wire format, each with one `decode(message, options) -> Iterator[Event]`.

A decoder is stateless and does no I/O; parts of messages are joined and compression is undone before it
(`lakehouse.formats.ticdc.large_messages`). It raises DecodeError for bytes that are no message of its format,
and yields a DeadLetter for a row that can't be read where the rows beside it can. FORMATS is the table of all
of them. A module is imported at its first message, so a worker pays only for the format it reads.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Message, Stored
from lakehouse.formats.ticdc.storage_layout import OPTIONS, has_commit_ts

Decode = Callable[[Message, Mapping[str, str]], Iterator[Event]]
DecodeStored = Callable[[Message, Mapping[str, str]], list[Stored]]


class Option(NamedTuple):
    """One setting of the feed that its messages do not tell. Values are text, as YAML and the command line
    give them.
    """

    default: str
    help: str
    choices: tuple[str, ...] = ()


class Format(NamedTuple):
    """`order` names the family of positions (lakehouse.events): tidb, binlog, arrival or files.
    `decode_stored` gives the same events with changes as silver stores them, where that is cheaper.
    """

    decode: Decode
    order: str
    options: Mapping[str, Option]
    has_watermarks: bool
    decode_stored: DecodeStored | None = None


@functools.cache
def _load(module: str, function: str) -> Any:
    return getattr(importlib.import_module(f"lakehouse.formats.{module}"), function)


def _lazy(module: str, function: str = "decode") -> Any:
    def decode(message: Message, options: Mapping[str, str]) -> Any:
        return _load(module, function)(message, options)

    return decode


_BOOLEAN = ("false", "true")
_TIME_ZONE = Option(
    "UTC", "zone of the server that prints TIMESTAMP text: an IANA name, or an offset such as +08:00"
)
_LARGE = {
    "compression": Option(
        "none", "large-message-handle-compression of the changefeed", ("none", "lz4", "snappy")
    ),
    "claim_check": Option("", "folder that holds the claim-check files"),
    "claim_check_raw": Option(
        "false", "claim-check-raw-value: the file is the message's value itself", _BOOLEAN
    ),
}
_EXTENSION = Option(
    "auto",
    "enable-tidb-extension: without it order is arrival and there is no watermark",
    ("auto", "true", "false"),
)
_COMPRESSION = {"compression": _LARGE["compression"]}
_STORAGE = {name: Option(*told) for name, told in OPTIONS.items()}
_DEBEZIUM = {
    "decimal_handling_mode": Option(
        "precise", "decimal.handling.mode, where schemas are off", ("precise", "string", "double")
    ),
    "time_precision_mode": Option(
        "adaptive_time_microseconds",
        "time.precision.mode, where schemas are off",
        (
            "adaptive_time_microseconds",
            "adaptive",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
            "structured",
        ),
    ),
    "binary_handling_mode": Option(
        "bytes", "binary.handling.mode", ("bytes", "base64", "base64-url-safe", "hex")
    ),
}

# A module reads its options with `options.get(name, default)`; what stands here is what config and the CLI
# accept.
FORMATS: dict[str, Format] = {
    "ticdc-open": Format(_lazy("ticdc.open_protocol"), "tidb", {"time_zone": _TIME_ZONE, **_LARGE}, True),
    "ticdc-canal-json": Format(
        _lazy("ticdc.canal_json"),
        "tidb",
        {"time_zone": _TIME_ZONE, "tidb_extension": _EXTENSION, **_LARGE},
        True,
    ),
    "ticdc-debezium": Format(_lazy("ticdc.debezium"), "tidb", {**_COMPRESSION}, True),
    "ticdc-storage": Format(_lazy("ticdc.storage"), "tidb", _STORAGE, True),
    "canal": Format(_lazy("canal.flat_message"), "arrival", {"time_zone": _TIME_ZONE}, False),
    "canal-protobuf": Format(_lazy("canal.protobuf"), "binlog", {"time_zone": _TIME_ZONE}, False),
    "debezium": Format(_lazy("debezium.connector"), "binlog", _DEBEZIUM, True),
    "tencent-dts": Format(
        _lazy("dts.subscription"),
        "binlog",
        {"time_zone": _TIME_ZONE},
        True,
        _lazy("dts.subscription", "decode_stored"),
    ),
}


def decode_message(format: str, message: Message, options: Mapping[str, str]) -> list[Event]:
    """All events of one message; a message that can't be decoded is one dead letter of index 0 in their
    place.
    """
    decode = FORMATS[format].decode
    try:
        events = list(decode(message, options))
    except DecodeError as error:
        events = [DeadLetter(error.code, str(error), 0)]
    if any(isinstance(event, DeadLetter) and event.code == "json" for event in events):
        from lakehouse.formats.invalid_text import decode_again

        events = decode_again(decode, message, options, format) or events
    return events


def decode_stored(format: str, message: Message, options: Mapping[str, str]) -> Sequence[Stored]:
    """The same events, of which changes may be as silver stores them."""
    decode = FORMATS[format].decode_stored
    if decode is None:
        return decode_message(format, message, options)
    try:
        return decode(message, options)
    except DecodeError as error:
        return [DeadLetter(error.code, str(error), 0)]


def order_of(format: str, options: Mapping[str, str]) -> str:
    """The family of positions of a feed with these settings."""
    if format == "ticdc-storage" and not has_commit_ts(options):
        return "files"
    if format == "ticdc-canal-json" and options.get("tidb_extension") == "false":
        return "arrival"
    return FORMATS[format].order


def sends_watermarks(format: str, options: Mapping[str, str]) -> bool:
    """Whether a feed with these settings tells how far it is complete."""
    return FORMATS[format].has_watermarks and order_of(format, options) in ("tidb", "binlog")
