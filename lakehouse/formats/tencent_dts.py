"""Tencent DTS data subscription in Protobuf (MySQL, TDSQL-C, TDSQL for MySQL, MariaDB, Percona).

    value  Envelope {version = 1, total, index, data}; the parts of one Entries are joined before (dts_envelopes.py)
    data   Entries {Entry…}, Entry {Header, Event}: BEGIN, DML, COMMIT, DDL, ROLLBACK, HEARTBEAT, CHECKPOINT
    DML    columns {name, originalType, isKey}, rows {oldColumns, newColumns}, each value {dataType, charset, sv, bv}

Specification: Tencent Cloud's pages on consuming subscribed data; the messages stand in proto/subscribe.proto.
Order: Header.fileName's number and position, then the row in its event; seqId and the header `ps` are of one task only.
Outcomes: RowChange, SchemaChange, Watermark (a CHECKPOINT), DeadLetter for an entry or row that can't be read;
DecodeError for bytes that are no Entries. Zero values are absent on the wire, so nothing is told by presence.
Text that its charset can't read is `{"base64": …}`, which no type holds: encoding "tencent-dts".
Not supported: Avro and JSON subscriptions, PostgreSQL and Oracle sources.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange, Watermark
from lakehouse.formats.charsets import decode_text
from lakehouse.formats.debezium_envelope import halves, image_flags
from lakehouse.formats.mysql_values import base64_text, bit_number, integer, number, timestamp_utc
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.schema import ColumnType, parse_type

FORMAT = "tencent-dts"
STREAMED = 1
_LAST_ROW = 2**63 - 1
_SHARD_BITS = 32
_ENTRIES_TAG = b"\x0a"
_NIL, _NA = pb.NIL, pb.NA
_SILENT = frozenset({pb.BEGIN, pb.COMMIT, pb.ROLLBACK, pb.HEARTBEAT})
_OPS = {pb.INSERT: "insert", pb.UPDATE: "update", pb.DELETE: "delete"}


class _Columns(NamedTuple):
    """The columns of one DML event: names, how to read each, those of the key in name order, and their types."""

    names: tuple[str, ...]
    reads: tuple["_Read", ...]
    key: tuple[str, ...]
    types: dict[str, str]


class _Open(NamedTuple):
    """A value that the table's schema has yet to read."""

    value: Any


_Read = Callable[[pb.Data, str], Any]


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one whole Entries."""
    zone = options.get("time_zone", "UTC")
    index = 0
    for entry in _entries(message.value).items if message.value else ():
        for event in _entry_events(entry, message.epoch, zone):
            event.index = index
            index += 1
            yield event


def binlog_sources(message: Message) -> Iterator[tuple[int, str | None, str]]:
    """Server id, GTID and binlog file of each row event and DDL, as `debezium.binlog_source` gives them."""
    for entry in _entries(message.value).items if message.value else ():
        if entry.header.messageType in (pb.DML, pb.DDL):
            yield entry.header.serverId, entry.header.gtid or None, entry.header.fileName


def _entries(value: bytes) -> pb.Entries:
    try:
        if value.startswith(_ENTRIES_TAG):
            return pb.Entries.FromString(value)
        envelope = pb.Envelope.FromString(value)
        if envelope.version != 1:
            raise DecodeError("envelope", f"Envelope: expected version 1, got {envelope.version}")
        if envelope.total > 1:
            raise DecodeError("part", f"Envelope: expected a whole Entries, got part {envelope.index + 1} of {envelope.total}")
        return pb.Entries.FromString(envelope.data)
    except ProtobufError:
        raise DecodeError("protobuf", "value: expected an Envelope or Entries of the subscription's messages, got other bytes") from None


def _entry_events(entry: pb.Entry, epoch: int, zone: str) -> Iterator[Event]:
    """One entry's events, all with index 0; an entry that can't be read is a dead letter and leaves the others alone."""
    header, kind = entry.header, entry.header.messageType
    if kind in _SILENT:
        return
    try:
        if header.sourceType == pb.PGSQL:
            raise DecodeError("source_type", "Header.sourceType: expected MySQL or MariaDB, got PostgreSQL")
        if kind == pb.DML:
            yield from _row_changes(header, entry.event.dmlEvent, epoch, zone)
        elif kind == pb.DDL:
            yield _schema_change(header, entry.event.ddlEvent, epoch)
        elif kind == pb.CHECKPOINT:
            yield _watermark(header, entry.event.checkpointEvent, epoch)
        else:
            raise DecodeError("message_type", f"Header.messageType: expected 0 to 6, got {kind}")
    except DecodeError as error:
        yield _dead_letter(header, error)


def _dead_letter(header: pb.Header, error: DecodeError) -> DeadLetter:
    return DeadLetter(error.code, str(error), 0, header.schemaName or None, header.tableName or None)


def _schema_change(header: pb.Header, event: pb.DDLEvent, epoch: int) -> SchemaChange:
    position = _position(epoch, header.fileName, header.position, 0, 0)
    database = event.schemaName or header.schemaName
    return SchemaChange("ddl", database, header.tableName or None, header.timestamp * 1000, position, event.sql, 0)


def _watermark(header: pb.Header, event: pb.CheckpointEvent, epoch: int) -> Watermark:
    """A checkpoint covers everything at its position: positions are where an event ends."""
    place = (event.fileName, event.position) if event.fileName else (header.fileName, header.position)
    return Watermark(_position(epoch, *place, _LAST_ROW, 1), None, 0)


def _position(epoch: int, file: str, offset: int, row: int, half: int) -> Position:
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or offset >= 2**63:
        raise DecodeError("position", "Header: expected a binlog file name that ends in a number, and a position, got another")
    return (epoch, int(digits), offset, STREAMED, row, half)


# Rows


def _row_changes(header: pb.Header, event: pb.DMLEvent, epoch: int, zone: str) -> Iterator[Event]:
    if event.dmlEventType not in _OPS or header.eventIndex >= 1 << (63 - _SHARD_BITS):
        raise DecodeError("dml_type", "DMLEvent: expected an insert, update or delete with an event index, got another")
    columns = _columns(event.columns)
    place = _position(epoch, header.fileName, header.position, header.eventIndex << _SHARD_BITS, 1)
    for row_number, row in enumerate(event.rows):
        try:
            yield from _row(header, _OPS[event.dmlEventType], columns, row, (*place[:4], place[4] + row_number, 1), zone)
        except DecodeError as error:
            yield _dead_letter(header, error)


def _row(header: pb.Header, op: str, columns: _Columns, row: pb.RowChange, position: Position, zone: str) -> list[RowChange]:
    before, before_open, _ = _image(row.oldColumns, columns, zone) if op != "insert" else (None, False, False)
    after, after_open, partial = _image(row.newColumns, columns, zone) if op != "delete" else (None, False, False)
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got none")
    if any(type(image.get(name)) is dict for image in (before, after) if image for name in columns.key):
        raise DecodeError("value", "key: expected text, got bytes that are none in its charset")
    flags = _flags(op, columns, before, after, partial)
    if before and after:  # an image that leaves a key column out has not changed it
        after |= {name: before[name] for name in columns.key if name not in after and name in before}
    encoding = FORMAT if before_open or after_open else "canonical"
    names = (header.schemaName, header.tableName)
    return [
        RowChange(
            *names,
            half.op,
            half.key,
            columns.key if half.key else (),
            header.timestamp * 1000,
            (*position[:5], 0 if op == "update" and half.op == "delete" else 1),
            half.before,
            half.after,
            0,
            encoding,
            columns.types,
            flags,
        )
        for half in halves(op, columns.key, before, after)
    ]


def _flags(op: str, columns: _Columns, before: Image | None, after: Image | None, partial: bool) -> tuple[str, ...]:
    flags = image_flags(before, after) if op == "update" else ()
    if before is not None and len(before) < len(columns.names) and not flags:
        flags = ("partial_before",)
    if op == "update" and columns.key and not (before is not None and before.keys() >= set(columns.key)):
        flags += ("old_key_unknown",)
    return (*flags, "partial_after") if partial else flags


def _image(values: Sequence[pb.Data], columns: _Columns, zone: str) -> tuple[Image | None, bool, bool]:
    """An image, whether it has values that only the schema reads, and whether columns are left out."""
    if not values:
        return None, False, False
    if len(values) != len(columns.names):
        raise DecodeError("columns", f"RowChange: expected {len(columns.names)} values as there are columns, got {len(values)}")
    image: Image = {}
    opened = False
    for name, read, data in zip(columns.names, columns.reads, values, strict=True):
        kind = data.dataType
        if kind == _NIL:
            image[name] = None
        elif kind != _NA:
            try:
                value = read(data, zone)
            except (ValueError, InvalidOperation):
                raise DecodeError("value", f"column {name}: expected a value of its type, got another") from None
            if type(value) is _Open:
                opened, value = True, value.value
            image[name] = value
    return image, opened, len(image) < len(values)


def _columns(columns: Sequence[pb.Column]) -> _Columns:
    return _columns_of(tuple([(column.name, column.originalType, column.isKey) for column in columns]))


@functools.lru_cache(maxsize=4096)
def _columns_of(told: tuple[tuple[str, str, bool], ...]) -> _Columns:
    names = tuple(name for name, _, _ in told)
    key = tuple(sorted(name for name, _, is_key in told if is_key))
    return _Columns(names, tuple(_reader(type_) for _, type_, _ in told), key, {name: type_ for name, type_, _ in told})


# Values


@functools.lru_cache(maxsize=4096)
def _reader(original_type: str) -> _Read:
    """How to read a column; the value's own dataType decides where the column's type is not known."""
    column_type = parse_type(original_type) if original_type else ColumnType("")
    family = column_type.family
    if family in ("text", "enum", "set"):
        return functools.partial(_label_or_text, column_type)
    if family == "decimal":
        return functools.partial(_decimal, column_type.scale or 0)
    return _READS.get(family, _by_data_type)


def _bytes(data: pb.Data) -> bytes:
    return data.bv or data.sv.encode()


def _plain_text(data: pb.Data, _: str) -> str:
    return data.sv or data.bv.decode("ascii")


def _label_or_text(column_type: ColumnType, data: pb.Data, _: str) -> Any:
    """Text, or an ENUM's or SET's labels; an index or mask, or what is no label, is for the schema to read."""
    if data.dataType not in (pb.STRING, pb.BYTES):
        return _Open(integer(data.sv))
    text = _text(_bytes(data), data.charset or column_type.charset or "")
    if column_type.family == "text" or isinstance(text, _Open):
        return text
    known = column_type.members
    labels = text.split(",") if column_type.family == "set" and text else [text]
    is_label = all(label in known or label == "" for label in labels) if known else not text.isdigit()
    return text if is_label else _Open(text)


def _text(data: bytes, charset: str) -> Any:
    text = decode_text(data, charset)
    return _Open({"base64": base64_text(data)}) if text is None else text


def _json(data: pb.Data, _: str) -> Any:
    """JSON text; the server's binary form is not read."""
    raw = _bytes(data)
    text = decode_text(raw, "utf8mb4")
    return text if text and text.lstrip()[:1] in _JSON_STARTS else _Open({"base64": base64_text(raw)})


def _binary(data: pb.Data, _: str) -> str:
    return base64_text(_bytes(data))


def _integer(data: pb.Data, _: str) -> int:
    return integer(_plain_text(data, _))


def _float(data: pb.Data, _: str) -> float:
    return number(_plain_text(data, _))


def _bit(data: pb.Data, _: str) -> int:
    return bit_number(data.bv, "big") if data.dataType == pb.BYTES else _integer(data, _)


def _decimal(scale: int, data: pb.Data, _: str) -> str:
    """All fraction digits of the column, also where the wire leaves out zeros at the end."""
    text = _plain_text(data, _)
    if not _FIXED.fullmatch(text):
        text = f"{_bounded(Decimal(text)):f}"
    missing = scale - len(text.partition(".")[2])
    return text if missing <= 0 else f"{text}{'' if '.' in text else '.'}{'0' * missing}"


def _bounded(value: Decimal) -> Decimal:
    if not value.is_finite() or abs(value.adjusted()) > 100:
        raise ValueError("no DECIMAL")
    return value


def _timestamp(data: pb.Data, zone: str) -> str:
    """The text carries its zone ("2021-05-17 07:22:42 +00:00"); where it does not, it is in the source's."""
    text = _plain_text(data, zone)
    found = _ZONED.fullmatch(text)
    return timestamp_utc(found[1], found[2]) if found else timestamp_utc(text, zone)


def _by_data_type(data: pb.Data, zone: str) -> Any:
    """A column of unknown type, read as the wire types it."""
    if data.dataType in (pb.FLOAT32, pb.FLOAT64):
        return _float(data, zone)
    if data.dataType == pb.DECIMAL:
        return _decimal(0, data, zone)
    if data.dataType == pb.STRING and data.charset.lower() != "binary":
        return _text(_bytes(data), data.charset)
    if data.dataType in (pb.STRING, pb.BYTES):
        return _binary(data, zone)
    return _integer(data, zone)


_FIXED = re.compile(r"-?\d{1,81}(?:\.\d{1,81})?", re.A)
_ZONED = re.compile(r"(\S+ \S+?) ?([+-]\d\d:\d\d)", re.A)
_JSON_STARTS = frozenset('{["tfn-0123456789')
_READS: dict[str, _Read] = {
    **dict.fromkeys(("integer", "year"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    **dict.fromkeys(("binary", "geometry"), _binary),
    **dict.fromkeys(("date", "datetime", "time", "vector"), _plain_text),
    "bit": _bit,
    "json": _json,
    "timestamp": _timestamp,
}
