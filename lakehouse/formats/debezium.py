"""Debezium's MySQL and MariaDB connectors as JSON (2.x and 3.x), with or without embedded schemas.

    table topics         key {columns}, value {"op": c|u|d|r|t, "before", "after", "source", "transaction"}; tombstones
    schema change topic  {"source", "ddl", "databaseName", "tableChanges"}
    transaction topic    {"status": BEGIN|END, "id", "event_count", …} and heartbeats: no event here, see transaction_end
    unwrapped rows       {columns…, "__op", "__source_file", "__source_pos", …} of ExtractNewRecordState

Specification: Debezium's documentation of the connectors, the topics and the new record state extraction.
Order: binlog file number, offset, phase, row, half; source.ts_ms runs backwards and is information only (commit_ts, in ms).
Outcomes: RowChange, SchemaChange (kind `snapshot` while a snapshot runs); DecodeError for anything else. Without an
embedded schema values stay as the wire has them: encoding "debezium", followed by the handling modes that are not the
defaults (debezium_values.py). Not supported: Avro and Protobuf converters.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.connect_schema import Columns, structured
from lakehouse.formats.debezium_envelope import (
    ROW,
    Half,
    Members,
    TableChange,
    halves,
    image_flags,
    key_image,
    primary_key,
    schema_columns,
    unwrap,
)
from lakehouse.formats.debezium_values import embedded_columns, encoding, modes
from lakehouse.formats.wire_json import read_json

SNAPSHOT, STREAMED = 0, 1
_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}
_OLD_KEY_DELETE = "__debezium.newkey"
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Source(msgspec.Struct):
    file: str
    pos: _Int64
    row: _Int64 | None = 0
    db: str | None = None
    table: str | None = None
    snapshot: str | bool | None = None
    ts_ms: int | None = None
    server_id: int | None = None
    gtid: str | None = None


class _Transaction(msgspec.Struct):
    id: str
    total_order: int | None = None


class _Collection(msgspec.Struct):
    data_collection: str
    event_count: int


class _Marker(msgspec.Struct):
    status: str
    id: str
    event_count: int | None = None
    data_collections: list[_Collection] | None = None


class TransactionEnd(NamedTuple):
    """What an END of the transaction topic says: how many row events its transaction has, per `database.table` too."""

    id: str
    event_count: int
    counts: dict[str, int]


_SOURCE = msgspec.json.Decoder(_Source)
_TRANSACTION = msgspec.json.Decoder(_Transaction | None)
_MARKER = msgspec.json.Decoder(_Marker)
_TEXT = msgspec.json.Decoder(str | None)
_CHANGES = msgspec.json.Decoder(list[TableChange] | None)
_NULL = msgspec.Raw(b"null")


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message; tombstones, heartbeats and transaction markers have none."""
    schema, payload = unwrap(message.value, "value") if message.value else (None, None)
    if payload is None or _is_control(payload):
        return
    if _is_unwrapped(payload):
        yield from _unwrapped(message, schema, payload, options)
    elif "op" in payload and "source" in payload:
        yield from _row_event(message, schema, payload, options)
    elif "ddl" in payload and "source" in payload:
        yield _schema_change(message, payload)
    else:
        raise DecodeError("shape", "value: expected a row, schema change, transaction or heartbeat record, got none of them")


def transaction_end(message: Message) -> TransactionEnd | None:
    """The END of a transaction, or None for any other message."""
    payload = unwrap(message.value, "value")[1] if message.value and b'"END"' in message.value else None
    if not payload or not {"status", "id", "event_count"} <= payload.keys() or "op" in payload:
        return None
    marker = read_json(_MARKER, msgspec.json.encode(payload), "transaction")
    counts = {each.data_collection: each.event_count for each in marker.data_collections or ()}
    return TransactionEnd(marker.id, marker.event_count or 0, counts) if marker.status == "END" else None


def binlog_source(message: Message) -> tuple[int, str | None, str] | None:
    """Server id, GTID and binlog file of a row or schema change; None for any other message."""
    payload = unwrap(message.value, "value")[1] if message.value else None
    if not payload or _is_control(payload):
        return None
    source = _flat_source(payload) if _is_unwrapped(payload) else _source(payload) if "source" in payload else None
    return None if source is None else (source.server_id or 0, source.gtid, source.file)


def _is_control(payload: Members) -> bool:
    """Heartbeats, transaction markers, and the connector's own schema history, which the schema change topic repeats."""
    names = payload.keys()
    return names == {"ts_ms"} or {"status", "id", "event_count"} <= names <= _MARKER_MEMBERS or {"source", "position", "ddl"} <= names


def _is_unwrapped(payload: Members) -> bool:
    return "op" not in payload and ("__op" in payload or "__deleted" in payload or "__source_file" in payload or "__file" in payload)


# Row events


def _row_event(message: Message, schema: bytes | None, payload: Members, options: Mapping[str, str]) -> Iterator[Event]:
    source = _source(payload)
    code = read_json(_TEXT, payload["op"], "op") or ""
    if code == "t":
        yield _truncate(message, source)
        return
    if code not in _OPS:
        raise DecodeError("op", "op: expected c, u, d, r or t, got another")
    rows = (read_json(ROW, payload.get("before", _NULL), "before"), read_json(ROW, payload.get("after", _NULL), "after"))
    flags = _snapshot_flags(source, code) + _transaction_flags(payload)
    yield from _row_changes(
        message, embedded_columns(schema, "after", modes(options)) if schema else None, source, _OPS[code], rows, flags, options
    )


def _row_changes(
    message: Message,
    columns: Columns | None,
    source: _Source,
    op: str,
    rows: tuple[Image | None, Image | None],
    flags: tuple[str, ...],
    options: Mapping[str, str],
) -> Iterator[RowChange]:
    if not source.db or not source.table:
        raise DecodeError("table", "source: expected the names of database and table, got none")
    names = key_image(message.key)
    before, after = rows
    if op == "delete" and before is None:
        before, flags = dict(names), (*flags, "partial_before")
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got null")
    opened = columns is None or any(row and columns.leaves_open(row) for row in (before, after))
    written = encoding(modes(options), columns is not None) if opened else "canonical"
    images = (_image(before, columns), _image(after, columns))
    flags += image_flags(*images)
    key_names = tuple(sorted(names))
    for index, half in enumerate(halves(op, key_names, *images)):
        yield RowChange(
            source.db,
            source.table,
            half.op,
            half.key,
            key_names if half.key else (),
            source.ts_ms,
            _position(message, source, op == "snapshot", _half(message, op, half), source.row or 0),
            half.before,
            half.after,
            index,
            written,
            columns.types if columns else None,
            flags,
        )


def _image(row: Image | None, columns: Columns | None) -> Image | None:
    if row is None:
        return None
    return columns.canonical(row) if columns else _structures(row)


def _structures(row: Image) -> Image:
    """Without a schema, geometries and vectors alone tell what they are."""
    for name, value in row.items():
        if isinstance(value, dict | list):
            try:
                row[name] = structured(value)
            except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
                raise DecodeError("value", f"column {name}: expected a geometry or a vector, got another structure") from None
    return row


def _half(message: Message, op: str, half: Half) -> int:
    """0 for the delete half of a key-changing update, which the connector has split already (a header says so) or not."""
    split_by_producer = op == "delete" and any(name == _OLD_KEY_DELETE for name, _ in message.headers)
    return 0 if split_by_producer or (op == "update" and half.op == "delete") else 1


def _snapshot_flags(source: _Source, code: str) -> tuple[str, ...]:
    """`snapshot`, with the marker that says where in the snapshot this row stands."""
    if code != "r":
        return ()
    marker = str(source.snapshot or "true").lower()
    return ("snapshot",) if marker in ("true", "false") else ("snapshot", f"snapshot={marker}")


def _transaction_flags(payload: Members) -> tuple[str, ...]:
    told = read_json(_TRANSACTION, payload.get("transaction", _NULL), "transaction")
    return () if told is None else (f"tx={told.id};{told.total_order or 0}",)


def _truncate(message: Message, source: _Source) -> SchemaChange:
    if not source.db or not source.table:
        raise DecodeError("table", "source: expected the names of database and table, got none")
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (source.db, source.table))
    return SchemaChange("ddl", source.db, source.table, source.ts_ms, _position(message, source, False, 0), f"TRUNCATE TABLE {quoted}", 0)


# Unwrapped rows


def _unwrapped(message: Message, schema: bytes | None, payload: Members, options: Mapping[str, str]) -> Iterator[Event]:
    """A flat row: its deletes carry the old image, its updates no old one."""
    source = _flat_source(payload)
    row = {name: read_json(_VALUE, raw, name) for name, raw in payload.items() if name not in _METADATA}
    deleted = str(read_json(_VALUE, payload.get("__deleted", _NULL), "__deleted")).lower() == "true"
    code = read_json(_TEXT, payload.get("__op", _NULL), "__op") or ("d" if deleted else "u")
    if code == "t":
        yield _truncate(message, source)
        return
    if code not in _OPS:
        raise DecodeError("op", "__op: expected c, u, d, r or t, got another")
    rows = (row, None) if deleted or code == "d" else (None, row)
    columns = embedded_columns(schema, "", modes(options)) if schema else None
    yield from _row_changes(message, columns, source, _OPS[code], rows, _snapshot_flags(source, code), options)


def _flat_source(payload: Members) -> _Source:
    """`source` from the fields that ExtractNewRecordState was told to add (`add.fields`)."""
    told = {name: payload.get(f"__source_{name}", payload.get(f"__{name}")) for name in _Source.__struct_fields__}
    if told["file"] is None or told["pos"] is None:
        raise DecodeError(
            "position", "unwrapped row: expected __source_file and __source_pos (add.fields), got none: it has no place in the order"
        )
    return read_json(_SOURCE, msgspec.json.encode({name: raw for name, raw in told.items() if raw is not None}), "unwrapped row")


# Schema changes


def _schema_change(message: Message, payload: Members) -> SchemaChange:
    source = _source(payload)
    snapshot = str(source.snapshot or "false").lower() != "false"
    changes = read_json(_CHANGES, payload.get("tableChanges", _NULL), "tableChanges") or []
    change = changes[0] if len(changes) == 1 else None
    return SchemaChange(
        "snapshot" if snapshot else "ddl",
        source.db or read_json(_TEXT, payload.get("databaseName", _NULL), "databaseName") or "",
        _table(source, change),
        source.ts_ms,
        _position(message, source, snapshot, 0),
        read_json(_TEXT, payload["ddl"], "ddl"),
        0,
        schema_columns(change) if change else None,
        primary_key(change) if change else None,
    )


def _table(source: _Source, change: TableChange | None) -> str | None:
    """The one table of the change; a RENAME of several tables lists them all in `source.table`, in no fixed order."""
    name = source.table or None
    several = name is not None and "," in name and not (change and change.id.endswith(f'"{name}"'))
    return None if several else name


# Position


def _source(payload: Members) -> _Source:
    return read_json(_SOURCE, payload["source"], "source")


def _position(message: Message, source: _Source, snapshot: bool, half: int, row: int = 0) -> Position:
    return (message.epoch, file_number(source.file), source.pos, SNAPSHOT if snapshot else STREAMED, row, half)


def file_number(file: str) -> int:
    """The running number of a binlog file: `mysql-bin.000012` is 12."""
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise DecodeError("position", "binlog file: expected a name that ends in a number, got another")
    return int(digits)


_SOURCE_MEMBERS = (
    *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence"),
    *("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
)
_METADATA = frozenset(("__op", "__deleted", *(f"{prefix}{name}" for prefix in ("__", "__source_") for name in _SOURCE_MEMBERS)))
_MARKER_MEMBERS = {"status", "id", "event_count", "data_collections", "ts_ms", "ts_us", "ts_ns"}
_VALUE: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
