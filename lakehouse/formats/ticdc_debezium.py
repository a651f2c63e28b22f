"""TiCDC's Debezium protocol (8.0 and later; DDL and watermarks from 8.5.5, `tidb_type` with enable-tidb-extension).

    key    {"payload": {handle key columns}, "schema"?}            null in 8.0 to 8.4
    value  {"payload": {"op": c|u|d, "before"?, "after", "source"}, "schema"?}
           {"payload": {"ddl", "tableChanges", "source"}}          a DDL
           {"payload": {"op": "m", "source"}}                      a watermark: source.commit_ts is the resolved ts

Specification: TiCDC's Debezium encoder, which follows Debezium's data change events for MySQL.
Order: source.commit_ts, then rank. Outcomes: RowChange, SchemaChange, Watermark; DecodeError for anything else.
With an embedded schema dates, times, bits and unsigned numbers become canonical; a DECIMAL, sent as a double, never
does, and without a schema nothing does: encoding "ticdc-debezium". The producer itself loses a decimal's digits beyond
a double, NULL in columns with a default, and zero dates. Not supported: debezium-avro.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DDL, Event, Image, Message, RowChange, SchemaChange, Watermark, tidb_position
from lakehouse.formats.connect_schema import Column, Columns, Field, always, bits, cached, embedded, named, negative, unsigned
from lakehouse.formats.debezium_envelope import (
    ROW,
    Members,
    TableChange,
    halves,
    image_flags,
    key_image,
    primary_key,
    schema_columns,
    unwrap,
)
from lakehouse.formats.wire_json import read_json

FORMAT = "ticdc-debezium"
_OPS = {"c": "insert", "u": "update", "d": "delete"}
_Tso = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Source(msgspec.Struct):
    commit_ts: _Tso
    db: str = ""
    table: str | None = None


_SOURCE = msgspec.json.Decoder(_Source)
_TEXT = msgspec.json.Decoder(str | None)
_CHANGES = msgspec.json.Decoder(list[TableChange] | None)
_NULL = msgspec.Raw(b"null")


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message; a tombstone has none."""
    schema, payload = unwrap(message.value, "value") if message.value else (None, None)
    if payload is None:
        return
    source = read_json(_SOURCE, payload.get("source", _NULL), "source")
    op = read_json(_TEXT, payload.get("op", _NULL), "op")
    if op == "m":
        yield Watermark(tidb_position(message.epoch, source.commit_ts, DDL), source.commit_ts, 0)
    elif op is None and "ddl" in payload:
        yield _schema_change(message, payload, source)
    elif op in _OPS:
        yield from _row_changes(message, schema, payload, source, _OPS[op])
    else:
        raise DecodeError("op", "payload.op: expected c, u, d or m, or a payload with ddl, got another")


def _schema_change(message: Message, payload: Members, source: _Source) -> SchemaChange:
    changes = read_json(_CHANGES, payload.get("tableChanges", _NULL), "tableChanges") or []
    change = changes[0] if len(changes) == 1 else None
    return SchemaChange(
        "ddl",
        source.db,
        source.table or None,
        source.commit_ts,
        tidb_position(message.epoch, source.commit_ts, DDL),
        read_json(_TEXT, payload["ddl"], "ddl"),
        0,
        schema_columns(change) if change else None,
        primary_key(change) if change else None,
    )


def _row_changes(message: Message, schema: bytes | None, payload: Members, source: _Source, op: str) -> Iterator[RowChange]:
    columns = _columns(schema) if schema else None
    wire = tuple(read_json(ROW, payload.get(name, _NULL), name) for name in ("before", "after"))
    encoding = FORMAT if columns is None or any(row and columns.leaves_open(row) for row in wire) else "canonical"
    before, after = (_image(row, columns) for row in wire)
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got null")
    names = tuple(sorted(key_image(message.key)))
    flags = image_flags(before, after)
    for index, half in enumerate(halves(op, names, before, after)):
        yield RowChange(
            source.db,
            source.table or "",
            half.op,
            half.key,
            names if half.key else (),
            source.commit_ts,
            tidb_position(message.epoch, source.commit_ts, half.rank),
            half.before,
            half.after,
            index,
            encoding,
            columns.types if columns else None,
            flags,
        )


def _image(row: Image | None, columns: Columns | None) -> Image | None:
    return row if row is None or columns is None else columns.canonical(row)


@cached
def _columns(schema: bytes) -> Columns | None:
    return embedded(schema, "after", _column) or embedded(schema, "before", _column)


def _column(field: Field) -> Column:
    """`tidb_type` is the type's word without length; where there is none, only a named schema or a plain one settles a value."""
    known = named(field) or _plain(field)
    return known._replace(type=field.tidb_type or (None if field.type == "string" else known.type))


def _plain(field: Field) -> Column:
    match field.type, field.tidb_type:
        case "double", kind:
            return Column(float, None, "double") if kind == "double" else Column(None, always)
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
