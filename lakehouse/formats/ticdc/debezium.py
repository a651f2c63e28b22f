"""TiCDC's Debezium protocol (8.0 and later; DDL and watermarks from 8.5.5, `tidb_type` with
enable-tidb-extension).

    key    {"payload": {handle key columns}, "schema"?}            null in 8.0 to 8.4
    value  {"payload": {"op": c|u|d, "before"?, "after", "source"}, "schema"?}
           {"payload": {"ddl", "tableChanges", "source"}}          a DDL
           {"payload": {"op": "m", "source"}}                      a watermark; source.commit_ts: resolved ts

Specification: TiCDC's Debezium encoder, which follows Debezium's data change events for MySQL.
Order: source.commit_ts, then rank. Outcomes: RowChange, SchemaChange, Watermark; DecodeError for anything
else. With an embedded schema dates, times, bits and unsigned numbers become canonical; a DECIMAL, sent as a
double, never does, and without a schema nothing does: encoding "ticdc-debezium". The producer itself loses a
decimal's digits beyond a double, NULL in columns with a default, and zero dates. Not supported:
debezium-avro.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DDL,
    NO_HANDLE,
    Event,
    Image,
    Message,
    RowChange,
    SchemaChange,
    Watermark,
    tidb_position,
)
from lakehouse.formats.debezium.connect_schema import (
    Column,
    Columns,
    Field,
    always,
    bits,
    cached,
    embedded,
    label,
    named,
    negative,
    unsigned,
)
from lakehouse.formats.debezium.envelope import Frame, TableChange, key_image, primary_key, schema_columns
from lakehouse.formats.row_images import halves, image_flags
from lakehouse.formats.wire_json import read_json

FORMAT = "ticdc-debezium"
_OPS = {"c": "insert", "u": "update", "d": "delete"}
_Tso = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Source(msgspec.Struct):
    commit_ts: _Tso
    db: str = ""
    table: str | None = None


class _Payload(msgspec.Struct):
    source: _Source
    op: str | None = None
    before: Image | None = None
    after: Image | None = None
    ddl: str | None = None
    tableChanges: list[TableChange] | None = None


_FRAME = msgspec.json.Decoder(Frame[_Payload])


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message; a tombstone has none."""
    frame = read_json(_FRAME, message.value, "value") if message.value else None
    if frame is None or frame.payload is None:
        return
    payload = frame.payload
    if payload.op == "m":
        commit_ts = payload.source.commit_ts
        yield Watermark(tidb_position(message.epoch, commit_ts, DDL), commit_ts, 0)
    elif payload.op is None and payload.ddl is not None:
        yield _schema_change(message, payload, payload.ddl)
    elif payload.op in _OPS:
        yield from _row_changes(message, payload, _OPS[payload.op], frame.schema_bytes())
    else:
        raise DecodeError("op", "payload.op: expected c, u, d or m, or a payload with ddl, got another")


def _schema_change(message: Message, payload: _Payload, ddl: str) -> SchemaChange:
    source, changes = payload.source, payload.tableChanges or []
    change = changes[0] if len(changes) == 1 else None
    return SchemaChange(
        "ddl",
        source.db,
        source.table or None,
        commit_ts=source.commit_ts,
        position=tidb_position(message.epoch, source.commit_ts, DDL),
        ddl=ddl,
        index=0,
        columns=schema_columns(change) if change else None,
        primary_key=primary_key(change) if change else None,
    )


def _row_changes(message: Message, payload: _Payload, op: str, schema: bytes | None) -> Iterator[RowChange]:
    source, before, after = payload.source, payload.before, payload.after
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got null")
    columns = _columns(schema) if schema else None
    encoding = FORMAT if columns is None or columns.leave_open(before, after) else "canonical"
    if columns is not None:
        before, after = columns.canonical(before), columns.canonical(after)
    names = tuple(sorted(key_image(message.key)))
    types = _types(schema, tuple((before if after is None else after) or ())) if schema else None
    is_keyless = not names and (message.key or b"").startswith(b"{")  # before 8.5 there is no record key
    flags = (*image_flags(before, after), NO_HANDLE) if is_keyless else image_flags(before, after)
    for index, half in enumerate(halves(op, names, before, after)):
        yield RowChange(
            source.db,
            source.table or "",
            half.op,
            half.key,
            key_names=names if half.key else (),
            commit_ts=source.commit_ts,
            position=tidb_position(message.epoch, source.commit_ts, half.rank),
            before=half.before,
            after=half.after,
            index=index,
            encoding=encoding,
            types=types,
            flags=flags,
        )


@cached
def _columns(schema: bytes) -> Columns | None:
    return embedded(schema, "after", _column) or embedded(schema, "before", _column)


@cached
def _types(schema: bytes, names: tuple[str, ...]) -> dict[str, str] | None:
    """The SQL types of a row's columns, "" where the schema has none. Others that it lists are VIRTUAL, or an
    expression index's: rows are whole, and have no such column.
    """
    columns = _columns(schema)
    told = columns.types if columns else None
    return {name: told.get(name, "") for name in names} if told else None


def _column(field: Field) -> Column:
    """`tidb_type` is the type's word without length; where there is none, the schema's name or its plain type
    tells what it can.
    """
    known = named(field) or _plain(field)
    read = (
        None if known.read is label else known.read
    )  # TiCDC escapes commas in the list of an ENUM's labels, not in values
    return known._replace(read=read, type=field.tidb_type or known.type)


def _plain(field: Field) -> Column:
    match field.type, field.tidb_type:
        case "double", kind:
            return (
                Column(float, None, "double")
                if (kind or "").startswith(("double", "float"))
                else Column(None, always)
            )
        case "float", _:
            return Column(float, None, "float")
        case "int64", kind:
            wrapped = kind is not None and kind.startswith("bigint unsigned")
            return Column(unsigned) if wrapped else Column(None, None if kind else negative, "bigint")
        case "boolean", _:
            return Column(bits, None, "bit(1)")
        case kind, _:
            return Column(None, None, _INTEGERS.get(kind))


_INTEGERS = {"int8": "tinyint", "int16": "smallint", "int32": "int"}
