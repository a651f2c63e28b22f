"""Bytes to events: one module per wire format, each with one `decode(message, options) -> Iterator[Event]`.

A decoder is stateless and does no I/O; parts of messages are joined and compression is undone before it
(lakehouse.formats.assemble). It raises DecodeError for bytes that are no message of its format, and yields a
DeadLetter for a row that can't be read where the rows beside it can.

A row of FORMATS says all that is particular to a format (lakehouse.formats.row explains the fields); other
modules ask the row and name no format. A module is imported at its first message, so a worker pays only for
the format it reads.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse.errors import DecodeError
from lakehouse.events import SNAPSHOT_TOPIC, DeadLetter, Event, Message, Stored
from lakehouse.formats import options as _options
from lakehouse.formats import producer_settings as _settings
from lakehouse.formats.row import (
    Caveat,
    Decode,
    DetectedOption,
    Format,
    Options,
    OtherOrder,
    Producer,
    Redelivery,
)


@functools.cache
def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"lakehouse.formats.{module}"), name)


def _lazy(module: str, function: str = "decode") -> Any:
    def decode(message: Message, options: Options) -> Any:
        return _load(module, function)(message, options)

    return decode


def _later(module: str, name: str) -> Callable[[], Any]:
    """A function that imports a name from a module of formats/ when it is first called."""
    return functools.partial(_load, module, name)


def _is_without_extension(options: Options) -> bool:
    return options.get("tidb_extension") == "false"


def _is_without_commit_ts(options: Options) -> bool:
    has_commit_ts: Callable[[Options], bool] = _load("ticdc.storage_layout", "has_commit_ts")
    return not has_commit_ts(options)


def _is_extension_unsaid(options: Options, consistency: str | None) -> bool:
    return consistency == "eventual" and options.get("tidb_extension", "auto") == "auto"


def _is_csv_without_commit_ts(options: Options, _: str | None) -> bool:
    return options.get("protocol") == "csv" and options.get("include-commit-ts") != "true"


def _is_csv_without_old_value(options: Options, _: str | None) -> bool:
    return options.get("protocol") == "csv" and options.get("output-old-value") != "true"


_TICDC = Producer(
    server="tidb",
    tso=True,
    carries_virtual=False,
    old_rows="set output-old-value=true at the changefeed",
    whole_images="set only-output-updated-columns=false at the changefeed",
    whole_deletes="set delete-only-output-handle-key-columns=false at the changefeed",
    whole_rows="use claim check, or raise max-message-bytes, instead of handle-key-only",
    partitioning="dispatch by table or index-value, or use one partition",
    watermarks="set enable-tidb-extension=true at the changefeed",
)
_BINLOG = Producer(
    server=None,
    tso=False,
    carries_virtual=True,
    old_rows="set binlog_row_image=FULL at the server",
    whole_images="set binlog_row_image=FULL at the server",
    whole_deletes="set binlog_row_image=FULL at the server",
    whole_rows="set binlog_row_image=FULL at the server",
    partitioning="hash by the table or its primary key, or use one partition",
    watermarks="",
)
_SINK = _TICDC._replace(
    old_rows="set output-old-value=true (8.0 and later) or protocol=canal-json at the changefeed, or use "
    "TiCDC 6.5.5, 7.1.2 or 7.5 and later, which split updates that change a key"
)
_TIME_ZONE = {"time_zone": _options.TIME_ZONE}
_ZONE_AND_SERVER = _TIME_ZONE | {"server": _options.SERVER}
_CANAL_OPTIONS = _ZONE_AND_SERVER | {"charset": _options.CHARSET}
_CANAL_SETTINGS = _settings.BINLOG | _settings.COMPACTED | _settings.CANAL

FORMATS: dict[str, Format] = {
    "ticdc-open": Format(
        _lazy("ticdc.open_protocol"),
        order="tidb",
        options=_TIME_ZONE | _options.OPEN_OLD_VALUE | _options.LARGE,
        has_watermarks=True,
        producer=_TICDC,
        harmful_settings=_settings.TICDC | _settings.TICDC_KAFKA | _settings.OPEN_PROTOCOL,
        decode_stored=_lazy("ticdc.open_protocol", "decode_stored"),
        large=_later("ticdc.large_messages", "OPEN_PROTOCOL"),
        framed=True,
        schema_encodings=("ticdc-open", "ticdc-open-legacy", "ticdc-open-unflagged"),
        sends_row_ids=True,
        counts_partitions=True,
        hides_updates="set output-old-value=true (the default) at the changefeed",
    ),
    "ticdc-canal-json": Format(
        _lazy("ticdc.canal_json"),
        order="tidb",
        options=_TIME_ZONE | {"tidb_extension": _options.TIDB_EXTENSION} | _options.LARGE,
        has_watermarks=True,
        producer=_TICDC,
        harmful_settings=_settings.TICDC | _settings.TICDC_KAFKA | _settings.EXTENSION,
        large=_later("ticdc.large_messages", "CANAL_JSON"),
        other_order=OtherOrder("arrival", _is_without_extension),
        # `es` falls often, so the run is short
        redelivery=Redelivery("es", 2, 100_000, by_table=True),
        sends_row_ids=True,
        counts_partitions=True,
        detected=DetectedOption("tidb_extension", _later("ticdc.canal_json", "has_extension")),
        caveats=(
            Caveat(
                ("options", "enable-tidb-extension"),
                "is not said: where messages lack it, replays and changes over several partitions are not "
                "told apart",
                "write true or false, as the changefeed has it",
                _is_extension_unsaid,
            ),
        ),
        shape="canal-json",
        is_own=_later("ticdc.canal_json", "is_written_by_ticdc"),
    ),
    "ticdc-debezium": Format(
        _lazy("ticdc.debezium"),
        order="tidb",
        options=_options.COMPRESSION,
        has_watermarks=True,
        producer=_TICDC,
        harmful_settings=_settings.TICDC
        | _settings.TICDC_KAFKA
        | _settings.EXTENSION
        | _settings.TICDC_DEBEZIUM,
        large=_later("ticdc.large_messages", "DEBEZIUM"),
        schema_encodings=("ticdc-debezium",),
        tells_inserts=True,
        counts_partitions=True,
        caveats=(
            Caveat(
                ("format",),
                "loses DECIMAL digits, and sends the default in place of NULL",
                "use ticdc-open where those matter",
                lambda options, consistency: True,
            ),
        ),
    ),
    "ticdc-storage": Format(
        _lazy("ticdc.storage"),
        order="tidb",
        options=_options.STORAGE,
        has_watermarks=True,
        producer=_SINK,
        harmful_settings=_settings.TICDC | _settings.STORAGE,
        reads_files=True,
        other_order=OtherOrder("files", _is_without_commit_ts),
        sends_row_ids=True,
        caveats=(
            Caveat(
                ("options", "include-commit-ts"),
                "is not true: rows have no commit time, and files no watermark",
                "set it at the changefeed and here",
                _is_csv_without_commit_ts,
            ),
            Caveat(
                ("options", "output-old-value"),
                "is not true: TiCDC before 6.5.5, 7.1.2 and 7.5 does not split an update that changes a key, "
                "and the old row stays",
                "set it at the changefeed (8.0 and later) and here, or use a release that splits",
                _is_csv_without_old_value,
            ),
        ),
    ),
    "canal": Format(
        _lazy("canal.flat_message"),
        order="arrival",
        options=_CANAL_OPTIONS,
        has_watermarks=False,
        producer=_BINLOG,
        harmful_settings=_CANAL_SETTINGS,
        schema_encodings=("canal",),
        redelivery=Redelivery("id", 1, 2_000_000, "ts"),
        logged=_later("canal.flat_message", "logged"),
        mixes_names=True,
        hides_sessions=True,
        shown_options=_later("canal.shown_zone", "flat_zone"),
        shape="canal-json",
        tells_rules=_later("canal.flat_message", "rules_told"),
    ),
    "canal-protobuf": Format(
        _lazy("canal.protobuf"),
        order="binlog",
        options=_CANAL_OPTIONS,
        has_watermarks=False,
        producer=_BINLOG,
        harmful_settings=_CANAL_SETTINGS | _settings.CANAL_PROTOBUF,
        schema_encodings=("canal-protobuf",),
        tells_inserts=True,
        tells_servers=True,
        mixes_names=True,
        shown_options=_later("canal.shown_zone", "packed_zone"),
        tells_rules=_later("canal.protobuf", "rules_told"),
    ),
    "debezium": Format(
        _lazy("debezium.connector"),
        order="binlog",
        options=_options.DEBEZIUM,
        has_watermarks=True,
        producer=_BINLOG,
        harmful_settings=_settings.BINLOG | _settings.COMPACTED | _settings.DEBEZIUM,
        schema_encodings=("debezium",),
        tells_inserts=True,
        transactions=_later("debezium.transactions", "TRANSACTIONS"),
        caveats=(
            Caveat(
                ("options", "binlog_transaction_compression"),
                "rows of a transaction have one place, and without its metadata nothing tells their order",
                "set provide.transaction.metadata=true, and leave `consistency: eventual` out",
                lambda options, consistency: (
                    options.get("binlog_transaction_compression") == "true" and consistency == "eventual"
                ),
            ),
        ),
        tells_servers=True,
        tells_all=True,
        shown_options=_later("debezium.shown_modes", "shown_modes"),
        untyped_question="No schema is embedded in the messages. What are the connector's modes? These are "
        "its defaults.",
        tells_rules=_later("debezium.envelope", "rules_told"),
    ),
    "tencent-dts": Format(
        _lazy("dts.subscription"),
        order="binlog",
        options=_ZONE_AND_SERVER,
        has_watermarks=True,
        producer=_BINLOG,
        harmful_settings=_settings.BINLOG | _settings.TENCENT_DTS,
        decode_stored=_lazy("dts.subscription", "decode_stored"),
        tells_ends=True,
        parts=_later("dts.envelopes", "join"),
        schema_encodings=("tencent-dts",),
        tells_inserts=True,
        tells_servers=True,
        tells_all=True,
        tells_time_zone=True,
        tells_rules=_later("dts.envelopes", "rules_told"),
    ),
}
# Of records that join a source of any format; no source has it by itself.
_SNAPSHOT: Decode = _lazy("snapshot.decode")
# The one whose messages are the files of a storage sink.
STORAGE_FORMAT = next(name for name, row in FORMATS.items() if row.reads_files)


def decode_message(format: str, message: Message, options: Mapping[str, str]) -> list[Event]:
    """All events of one message; a message that can't be decoded becomes one dead letter of index 0."""
    decode = FORMATS[format].decode if message.topic != SNAPSHOT_TOPIC else _SNAPSHOT
    try:
        events = list(decode(message, options))
    except (ImportError, MemoryError):
        raise  # the machine's fault: no message is to blame
    except Exception as error:
        events = [refused(error)]
    for event in events:
        if type(event) is DeadLetter and event.code == "json":
            from lakehouse.formats.invalid_text import decode_again

            return decode_again(decode, message, options, format, framed=FORMATS[format].framed) or events
    return events


def decode_stored(format: str, message: Message, options: Mapping[str, str]) -> Sequence[Stored]:
    """The events of one message; changes may be in the form that silver stores."""
    decode = FORMATS[format].decode_stored
    if decode is None or message.topic == SNAPSHOT_TOPIC:
        return decode_message(format, message, options)
    try:
        events = decode(message, options)
    except (ImportError, MemoryError):
        raise  # the machine's fault: no message is to blame
    except Exception:  # of the message or of the quicker way: the decoder itself tells which
        return decode_message(format, message, options)
    for event in events:
        if type(event) is DeadLetter and event.code == "json":
            return decode_message(format, message, options)  # which may mend it
    return events


def refused(error: Exception) -> DeadLetter:
    """The dead letter of a message that its decoder could not read. An error that the decoder did not foresee
    is its bug, and still stops no stream; its own text may quote the message and is left out.
    """
    if isinstance(error, DecodeError):
        return DeadLetter(error.code, str(error), 0)
    return DeadLetter("decoder", f"decoder: expected events, got the error {type(error).__name__}", 0)


def order_of(format: str, options: Mapping[str, str]) -> str:
    """The family of positions of a feed with these settings."""
    row = FORMATS[format]
    other = row.other_order
    return other.order if other is not None and other.applies(options) else row.order


def sends_watermarks(format: str, options: Mapping[str, str]) -> bool:
    """Whether a feed with these settings sends watermarks."""
    return FORMATS[format].has_watermarks and order_of(format, options) in ("tidb", "binlog")
