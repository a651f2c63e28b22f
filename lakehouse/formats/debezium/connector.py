"""Debezium's MySQL and MariaDB connectors as JSON (2.x and 3.x), with or without embedded schemas.

    table topics         key {columns}, value {"op": c|u|d|r|t, "before", "after", "source", "transaction"};
                         tombstones
    schema change topic  {"source", "ddl", "databaseName", "tableChanges"}
    transaction topic    {"status": BEGIN|END, "id", "event_count", …} and heartbeats: no event here, see
                         transaction_end
    unwrapped rows       {columns…, "__op", "__source_file", "__source_pos", …} of ExtractNewRecordState

Specification: Debezium's documentation of the connectors, the topics and the new record state extraction.
Order: binlog file number, offset, phase, row, half; source.ts_ms runs backwards and is information only
(commit_ts, in ms). Outcomes: RowChange, SchemaChange (kind `snapshot` while a snapshot runs), DeadLetter for
a row; DecodeError for anything else. Without an embedded schema values stay as the wire has them: encoding
"debezium", followed by the handling modes that are not the defaults (values.py). Not supported: Avro
and Protobuf converters.
"""

import binascii
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.binlog import server_of
from lakehouse.formats.debezium.connect_schema import structured
from lakehouse.formats.debezium.envelope import (
    NULL,
    Frame,
    TableChange,
    header_members,
    is_metadata,
    key_image,
    primary_key,
    schema_columns,
)
from lakehouse.formats.debezium.values import embedded_columns, encoding, modes
from lakehouse.formats.row import TransactionEnd
from lakehouse.formats.row_images import Half, halves, image_flags
from lakehouse.formats.wire_json import read_json

S = TypeVar("S")
SNAPSHOT, STREAMED = 0, 1
_PARTITION_BITS = 16
_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}
_OLD_KEY_DELETE = "__debezium.newkey"
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Source(msgspec.Struct):
    file: str = ""
    pos: _Int64 = 0
    row: _Int64 | None = 0
    db: str | None = None
    table: str | None = None
    snapshot: str | bool | None = None
    ts_ms: _Time | None = None
    server_id: int | None = None


class _Transaction(msgspec.Struct):
    id: str
    total_order: _Int64 | None = None


class _Collection(msgspec.Struct):
    data_collection: str
    event_count: _Int64


class _Payload(msgspec.Struct):
    """A record of any topic: a row (op), a schema change (ddl; with `position` the internal history's), a
    transaction marker (status).
    """

    source: _Source | None = None
    op: str | None = None
    before: Image | None = None
    after: Image | None = None
    transaction: _Transaction | None = None
    ddl: str | None = None
    databaseName: str | None = None
    tableChanges: list[TableChange] | None = None
    position: msgspec.Raw = NULL
    status: str | None = None
    id: str | None = None
    event_count: _Int64 | None = None
    data_collections: list[_Collection] | None = None


class _Record(NamedTuple):
    """One row event, framed or unwrapped, before its values are read."""

    message: Message
    schema: bytes | None
    image: str
    source: _Source
    op: str
    before: Image | None
    after: Image | None
    transaction: _Transaction | None
    flags: tuple[str, ...]


_FLAT = msgspec.json.Decoder(_Payload)
_FRAMED = msgspec.json.Decoder(Frame[_Payload])
_MEMBERS = msgspec.json.Decoder(dict[str, Any])
_FRAMED_MEMBERS = msgspec.json.Decoder(Frame[dict[str, Any]])
_is_framed = re.compile(rb'\s*\{\s*"(?:schema|payload)"\s*:\s*(?:\{|null)').match
# What stands for a BLOB or TEXT that binlog_row_image=NOBLOB left out (unavailable.value.placeholder), as
# text and in each binary mode.
_UNAVAILABLE = b"__debezium_unavailable_value"
_PLACEHOLDERS = (_UNAVAILABLE, binascii.b2a_base64(_UNAVAILABLE, newline=False), _UNAVAILABLE.hex().encode())
_PLACEHOLDER_TEXTS = frozenset(each.decode() for each in _PLACEHOLDERS)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message; tombstones, heartbeats and transaction markers have none."""
    if record := _unwrapped(message, message.value or b""):
        yield from _row_event(record, options)
        return
    if not message.value:
        return
    schema, payload = _read(message.value)
    if payload is None or payload.source is None:
        return
    if payload.op is not None:
        flags = _snapshot_flags(payload.source, payload.op) + _transaction_flags(payload.transaction)
        record = _Record(
            message,
            schema,
            "after",
            payload.source,
            op=payload.op,
            before=payload.before,
            after=payload.after,
            transaction=payload.transaction,
            flags=flags,
        )
        yield from _row_event(record, options)
    elif payload.ddl is not None and payload.position == NULL:
        yield _schema_change(message, payload, payload.source)


def transaction_end(message: Message) -> TransactionEnd | None:
    """The END of a transaction, or None for any other message."""
    payload = (
        _read(message.value)[1]
        if message.value and b'"END"' in message.value and b'"event_count"' in message.value
        else None
    )
    if payload is None or payload.op is not None or payload.status != "END" or payload.id is None:
        return None
    counts = {each.data_collection: each.event_count for each in payload.data_collections or ()}
    return TransactionEnd(payload.id, payload.event_count or 0, counts)


def _read(value: bytes) -> tuple[bytes | None, _Payload | None]:
    """The embedded schema and the record; None for a null, for a heartbeat, which has nothing but its time,
    and for a notification.
    """
    if _is_framed(value):
        frame = read_json(_FRAMED, value, "value")
        schema, payload = frame.schema_bytes(), frame.payload
    else:
        schema, payload = None, read_json(_FLAT, value, "value")
    if (
        payload is None
        or (payload.source is not None and (payload.op is not None or payload.ddl is not None))
        or payload.status is not None
    ):
        return schema, payload
    members = _members(value).keys()
    if members != {"ts_ms"} and not {"aggregate_type", "type"} <= members:
        raise DecodeError(
            "shape",
            (
                "value: expected a row, schema change, transaction, heartbeat or notification record, got "
                "none of them"
            ),
        )
    return schema, None


def _members(value: bytes) -> dict[str, Any]:
    return (
        (read_json(_FRAMED_MEMBERS, value, "value").payload or {})
        if _is_framed(value)
        else read_json(_MEMBERS, value, "value")
    )


# Row events


def _row_event(record: _Record, options: Mapping[str, str]) -> Iterator[Event]:
    """A row that can't be read is a dead letter of its table: the other tables know that they lack
    nothing.
    """
    source = record.source
    if not source.db or not source.table:
        raise DecodeError("table", "source: expected the names of database and table, got none")
    try:
        yield from _changes(record, source.db, source.table, options)
    except DecodeError as error:
        yield DeadLetter(error.code, str(error), 0, database=source.db, table=source.table)


def _changes(record: _Record, database: str, table: str, options: Mapping[str, str]) -> Iterator[Event]:
    source = record.source
    if record.op == "t":
        yield _truncate(record.message, source, database, table)
        return
    if record.op not in _OPS:
        raise DecodeError("op", "op: expected c, u, d, r or t, got another")
    op = _OPS[record.op]
    names = key_image(record.message.key)
    before, after, flags = record.before, record.after, record.flags
    if op == "delete" and before is None and names:
        before, flags = dict(names), (*flags, "partial_before")
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got null")
    if any(placeholder in (record.message.value or b"") for placeholder in _PLACEHOLDERS):
        before, after, flags = (
            *map(_sent, (before, after)),
            flags + _lost(before, "partial_before") + _lost(after, "partial_after"),
        )
    before, after, written, types = _canonical(record, before, after, options)
    key_names = tuple(sorted(names))
    flags += tuple(flag for flag in image_flags(before, after) if flag not in flags)
    server = None if op == "snapshot" else server_of(source.server_id, source.file)
    for index, half in enumerate(halves(op, key_names, before, after)):
        yield RowChange(
            database,
            table,
            half.op,
            half.key,
            key_names=key_names if half.key else (),
            commit_ts=source.ts_ms,
            position=(*_place(record, op, half), _half(record.message, op, half)),
            before=half.before,
            after=half.after,
            index=index,
            encoding=written,
            types=types,
            flags=flags,
            server=server,
        )


def _is_sent(value: Any) -> bool:
    return type(value) is not str or value not in _PLACEHOLDER_TEXTS


def _sent(row: Image | None) -> Image | None:
    """The columns that the row image held."""
    return row and {name: value for name, value in row.items() if _is_sent(value)}


def _lost(row: Image | None, flag: str) -> tuple[str, ...]:
    return () if row is None or all(map(_is_sent, row.values())) else (flag,)


def _canonical(
    record: _Record, before: Image | None, after: Image | None, options: Mapping[str, str]
) -> tuple[Image | None, Image | None, str, dict[str, str] | None]:
    """Both images with the values that an embedded schema settles, their encoding, and the types that it
    tells.
    """
    chosen = modes(options)
    columns = embedded_columns(record.schema, record.image, chosen) if record.schema else None
    if columns is None:
        return _structures(before), _structures(after), encoding(chosen, False), None
    written = encoding(chosen, True) if columns.leave_open(before, after) else "canonical"
    return columns.canonical(before), columns.canonical(after), written, columns.types


def _structures(row: Image | None) -> Image | None:
    """Without a schema, geometries, vectors, and dates and times in parts alone tell what they are."""
    if row is None:
        return None
    for name, value in row.items():
        if isinstance(value, dict | list):
            try:
                row[name] = structured(value)
            except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
                raise DecodeError(
                    "value",
                    (
                        f"column {name}: expected a geometry, a vector, or a date or time in parts, got "
                        "another structure"
                    ),
                ) from None
    return row


def _place(record: _Record, op: str, half: Half) -> tuple[int, int, int, int, int]:
    """A position but for its half. In a compressed binlog (binlog_transaction_compression) all row events of
    a transaction have its one place, and `row` begins anew in each: the row's number in the transaction, if
    told, orders as `row` does elsewhere. All rows of a snapshot have one place too: those without a key, of
    which several may be equal, are told apart by their place in the topic.
    """
    message, source = record.message, record.source
    row = (record.transaction.total_order if record.transaction else None) or source.row or 0
    if op != "snapshot":
        return (message.epoch, file_number(source.file), source.pos, STREAMED, row)
    if not half.key:
        row = message.offset << _PARTITION_BITS | message.partition
    return (message.epoch, file_number(source.file), source.pos, SNAPSHOT, row)


def _half(message: Message, op: str, half: Half) -> int:
    """0 for the delete half of a key-changing update, which the connector has split already (a header says
    so) or not.
    """
    split_by_producer = op == "delete" and any(name == _OLD_KEY_DELETE for name, _ in message.headers)
    return 0 if split_by_producer or (op == "update" and half.op == "delete") else 1


def _snapshot_flags(source: _Source, code: str) -> tuple[str, ...]:
    """`snapshot`, with the marker that says where in the snapshot this row stands."""
    if code != "r":
        return ()
    marker = str(source.snapshot or "true").lower()
    return ("snapshot",) if marker in ("true", "false") else ("snapshot", f"snapshot={marker}")


def _transaction_flags(told: _Transaction | None) -> tuple[str, ...]:
    return () if told is None else (f"tx={told.id};{told.total_order or 0}",)


def _truncate(message: Message, source: _Source, database: str, table: str) -> SchemaChange:
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (database, table))
    return SchemaChange(
        "ddl",
        database,
        table,
        commit_ts=source.ts_ms,
        position=_position(message, source, STREAMED),
        ddl=f"TRUNCATE TABLE {quoted}",
        index=0,
        server=server_of(source.server_id, source.file),
    )


# Unwrapped rows


def _unwrapped(message: Message, value: bytes) -> _Record | None:
    """A flat row of ExtractNewRecordState, whose updates carry no old image, nor its deletes where they are
    told by a key and headers alone (mode `tombstone`); None for any other record.
    """
    told = header_members(message)
    if (not told and b'"__' not in value) or (not value and told.keys().isdisjoint(_FILES)):
        return None
    members = {**told, **_members(value)} if value else told
    if members.keys().isdisjoint(_UNWRAPPED):
        return None
    told = {
        name: members.get(f"__source_{name}", members.get(f"__{name}")) for name in _Source.__struct_fields__
    }
    if told["file"] is None or told["pos"] is None:
        raise DecodeError(
            "position",
            (
                "unwrapped row: expected __source_file and __source_pos (add.fields), got none: it has no "
                "place in the order"
            ),
        )
    source = _converted(told, _Source)
    row = {name: content for name, content in members.items() if not is_metadata(name)}
    deleted = str(members.get("__deleted")).lower() == "true" or members.get("__op") == "d"
    code = "d" if deleted else str(members.get("__op") or "u")
    schema = read_json(_FRAMED_MEMBERS, value, "value").schema_bytes() if _is_framed(value) else None
    before, after = (row or None, None) if deleted else (None, row)
    told = {name: members.get(f"__transaction_{name}") for name in _Transaction.__struct_fields__}
    transaction = _converted(told, _Transaction) if told["id"] else None
    flags = _snapshot_flags(source, code) + _transaction_flags(transaction)
    return _Record(
        message, schema, "", source, op=code, before=before, after=after, transaction=transaction, flags=flags
    )


def _converted(members: dict[str, Any], kind: type[S]) -> S:
    """`source` or `transaction` of an unwrapped row, as far as the transform was told to add it
    (`add.fields`, `add.headers`).
    """
    try:
        return msgspec.convert(
            {name: content for name, content in members.items() if content is not None}, kind, strict=False
        )
    except msgspec.ValidationError as error:
        raise DecodeError("shape", f"unwrapped row: {error}") from None


# Schema changes


def _schema_change(message: Message, payload: _Payload, source: _Source) -> SchemaChange:
    snapshot = str(source.snapshot or "false").lower() != "false"
    changes = payload.tableChanges or []
    change = changes[0] if len(changes) == 1 else None
    return SchemaChange(
        "snapshot" if snapshot else "ddl",
        source.db or payload.databaseName or "",
        _table(source, change),
        commit_ts=source.ts_ms,
        position=_position(message, source, SNAPSHOT if snapshot else STREAMED),
        ddl=payload.ddl,
        index=0,
        columns=schema_columns(change) if change else None,
        primary_key=primary_key(change) if change else None,
        server=None if snapshot else server_of(source.server_id, source.file),
    )


def _table(source: _Source, change: TableChange | None) -> str | None:
    """The one table of the change; a RENAME of several tables lists them all in `source.table`, in no fixed
    order.
    """
    name = source.table or None
    several = name is not None and "," in name and not (change and change.id.endswith(f'"{name}"'))
    return None if several else name


# Position


def _position(message: Message, source: _Source, phase: int) -> Position:
    """The place of a statement: row 0, whatever the record says."""
    return (message.epoch, file_number(source.file), source.pos, phase, 0, 0)


@functools.lru_cache(maxsize=1024)
def file_number(file: str) -> int:
    """The running number of a binlog file: `mysql-bin.000012` is 12."""
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise DecodeError("position", "binlog file: expected a name that ends in a number, got another")
    return int(digits)


_FILES = frozenset({"__source_file", "__file"})
_UNWRAPPED = _FILES | {"__op", "__deleted"}
