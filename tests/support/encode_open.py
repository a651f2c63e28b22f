"""TiCDC Open Protocol, the other way round: what a source did becomes the messages that TiCDC would send of
it.

An event is written as the recordings' truth writes it: {"kind": "row", "schema", "table", "commit_ts",
"before", "after"}, "ddl" with "query", or "resolved". A cell is {"type", "value", "num"?}: the server's text.
Flags come from the table's schema. tests/formats/test_encode_open.py encodes recordings anew and compares the
bytes.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.schema import TableSchema, parse_type

Event = dict[str, Any]
Cells = dict[str, dict[str, Any]]
CODES = {
    "tinyint": 1,
    "smallint": 2,
    "int": 3,
    "float": 4,
    "double": 5,
    "timestamp": 7,
    "bigint": 8,
    "mediumint": 9,
    "date": 10,
    "time": 11,
    "datetime": 12,
    "year": 13,
    "varchar": 15,
    "varbinary": 15,
    "bit": 16,
    "vector": 225,
    "json": 245,
    "decimal": 246,
    "enum": 247,
    "set": 248,
    "tinytext": 249,
    "tinyblob": 249,
    "mediumtext": 250,
    "mediumblob": 250,
    "longtext": 251,
    "longblob": 251,
    "text": 252,
    "blob": 252,
    "char": 254,
    "binary": 254,
}
BINARY, HANDLE, GENERATED, PRIMARY, UNIQUE, MULTIPLE, NULLABLE, UNSIGNED = 1, 2, 4, 8, 16, 32, 64, 128
CHARACTERS = ("text", "enum", "set", "vector")


class Wire(NamedTuple):
    """How a changefeed writes: `row_ids` in keys (the classic architecture), and what it leaves out."""

    row_ids: bool = True
    before: str = "full"
    key_only_deletes: bool = False
    sorted_columns: bool = True


def encode(event: Event, schema: TableSchema | None = None, wire: Wire = Wire()) -> tuple[bytes, bytes]:
    """The key and the value of one event; `schema` is the one that a row was written under."""
    match event["kind"]:
        case "resolved":
            return dumps({"ts": event["commit_ts"], "t": 3}), b""
        case "ddl":
            table = {"tbl": event["table"]} if event.get("table") else {} if wire.row_ids else {"tbl": ""}
            key = {"ts": event["commit_ts"], "scm": event["schema"], **table, "t": 2}
            return dumps(key), dumps({"q": event["query"], "t": event.get("ddl_action", 0)})
        case _:
            assert schema is not None
            return dumps(row_key(event, schema, wire)), dumps(row_value(event, schema, wire))


def message(events: Sequence[tuple[bytes, bytes]], topic: str, partition: int, offset: int) -> Message:
    """One Kafka message of encoded events."""
    key, value = framed([key for key, _ in events], [value for _, value in events])
    return Message(topic, partition, offset, key, value)


def row_key(event: Event, schema: TableSchema, wire: Wire) -> dict[str, Any]:
    key = {"ts": event["commit_ts"], "scm": event["schema"], "tbl": event["table"], "t": 1}
    if wire.row_ids and event.get("row_id"):
        key["rid"] = event["row_id"]
    if schema.partition is not None:
        key["ptn"] = event["physical_table_id"]
    return key


def row_value(event: Event, schema: TableSchema, wire: Wire) -> dict[str, Any]:
    before, after = event.get("before"), event.get("after")
    if after is None:
        assert before is not None
        kept = handle_names(schema) if wire.key_only_deletes else set(before)
        return {"d": columns({name: cell for name, cell in before.items() if name in kept}, schema, wire)}
    row = {"u": columns(after, schema, wire)}
    if before is not None and wire.before != "none":
        changed = (
            before
            if wire.before == "full"
            else {name: cell for name, cell in before.items() if cell != after.get(name)}
        )
        if changed:
            row["p"] = columns(changed, schema, wire)
    return row


def columns(cells: Cells, schema: TableSchema, wire: Wire) -> dict[str, Any]:
    return {
        name: column(name, cells[name], schema) for name in (sorted(cells) if wire.sorted_columns else cells)
    }


def column(name: str, cell: dict[str, Any], schema: TableSchema) -> dict[str, Any]:
    kind = parse_type(cell["type"])
    flags = column_flags(name, schema)
    handle = {"h": True} if flags & HANDLE else {}
    return {
        "t": CODES[kind.base],
        **handle,
        "f": flags,
        "v": None if cell["value"] is None else wire_value(kind.base, cell),
    }


def wire_value(base: str, cell: dict[str, Any]) -> Any:
    value = cell["value"]
    match base:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" | "bit":
            return int(value)
        case "enum" | "set":
            return int(cell["num"])
        case "float" | "double":
            return float(value)
        case "binary" | "varbinary":
            return go_quote(bytes.fromhex(value.removeprefix("0x")))
        case _ if base.endswith("blob"):
            return base64.b64encode(bytes.fromhex(value.removeprefix("0x"))).decode()
        case _ if base.endswith("text"):
            return base64.b64encode(value.encode()).decode()
        case _:
            return value


def column_flags(name: str, schema: TableSchema) -> int:
    """The flags that TiDB keeps of a column: charset, nullability, sign, and the indexes that it is
    part of.
    """
    found = schema.column(name)
    assert found is not None
    kind, flags = found.type, 0
    if kind.family not in CHARACTERS:
        flags |= BINARY
    if found.id in schema.handle_key:
        flags |= HANDLE
    if found.id in schema.primary_key:
        flags |= PRIMARY | (MULTIPLE if len(schema.primary_key) > 1 else 0)
    elif not found.not_null:
        flags |= NULLABLE
    if found.generated == "stored":
        flags |= GENERATED
    if kind.unsigned or kind.base in ("bit", "year"):
        flags |= UNSIGNED
    return flags | index_flags(found.id, schema)


def index_flags(column_id: int, schema: TableSchema) -> int:
    flags = 0
    for index in schema.indexes:
        if column_id in index.columns:
            flags |= (UNIQUE if index.unique else MULTIPLE) | (MULTIPLE if len(index.columns) > 1 else 0)
    for key in schema.unique_keys:
        if column_id in key:
            flags |= UNIQUE | (MULTIPLE if len(key) > 1 else 0)
    return flags


def handle_names(schema: TableSchema) -> set[str]:
    return {column.name for column in schema.columns if column.id in schema.handle_key}


def go_quote(data: bytes) -> str:
    """Go's strconv.Quote without its outer quotes."""
    named = dict(zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True))
    out = ""
    for char in data.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if char in named:
            out += "\\" + named[char]
        elif 0xDC80 <= code <= 0xDCFF:
            out += f"\\x{code - 0xDC00:02x}"
        elif char.isprintable():
            out += char
        else:
            out += (
                f"\\x{code:02x}"
                if code < 0x20 or code == 0x7F
                else f"\\u{code:04x}"
                if code < 0x10000
                else f"\\U{code:08x}"
            )
    return out


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
