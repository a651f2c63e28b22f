"""TiCDC's canal-json, Debezium and storage sink, the other way round: a source's events become what TiCDC
would write of them.

Events are those of tests/support/encode_open.py: {"kind": "row", "schema", "table", "commit_ts", "before"?,
"after"?} with cells {"type", "value", "num"?}, "ddl" with "query", or "resolved".
tests/formats/test_encoders.py encodes recordings anew and compares.

Left out: the columns that a Debezium DDL lists in `tableChanges` (its text says the same), embedded schemas,
column ids of schema files.
"""

import base64
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from lakehouse.formats.ticdc.storage_csv import Dialect
from lakehouse.schema import TableSchema, parse_type
from tests.support.encode_open import Cells, Event, dumps, handle_names
from tests.support.storage_encoder import Value, encode_record

SQL_TYPES = {
    "tinyint": -6,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "float": 7,
    "double": 8,
    "decimal": 3,
    "bit": -7,
    "date": 91,
    "datetime": 93,
    "timestamp": 93,
    "time": 92,
    "year": 12,
    "char": 1,
    "varchar": 12,
    "json": 12,
    "vector": 12,
    "enum": 4,
    "set": -7,
    "binary": 2004,
    "varbinary": 2004,
    **{f"{size}blob": 2004 for size in ("tiny", "", "medium", "long")},
    **{f"{size}text": 2005 for size in ("tiny", "", "medium", "long")},
}
DDL_WORDS = (
    ("CREATE TABLE", "CREATE"),
    ("RENAME TABLE", "RENAME"),
    ("DROP TABLE", "ERASE"),
    ("TRUNCATE TABLE", "TRUNCATE"),
    (r"CREATE (UNIQUE )?INDEX|ALTER TABLE \S+ ADD (UNIQUE|INDEX|KEY)|ALTER TABLE \S+ ADD PRIMARY", "CINDEX"),
    (r"DROP INDEX|ALTER TABLE \S+ DROP INDEX|ALTER TABLE \S+ DROP PRIMARY", "DINDEX"),
    (r"ALTER TABLE \S+ RENAME (AS|TO) ", "RENAME"),
    ("ALTER TABLE", "ALTER"),
    ("", "QUERY"),
)
EPOCH = datetime(1970, 1, 1)


def ordered(cells: Cells, schema: TableSchema) -> list[tuple[str, dict[str, Any]]]:
    return [(column.name, cells[column.name]) for column in schema.columns if column.name in cells]


def raw_bytes(value: str) -> bytes:
    return bytes.fromhex(value.removeprefix("0x"))


# canal-json


def canal_json(event: Event, schema: TableSchema | None, *, extension: bool = True) -> bytes:
    """One message's value; `schema` is the one that a row was written under."""
    commit_ts = event["commit_ts"]
    body: dict[str, Any] = {
        "id": 0,
        "database": "",
        "table": "",
        "pkNames": None,
        "isDdl": False,
        "type": "TIDB_WATERMARK",
        "es": commit_ts >> 18,
        "ts": 1,
        "sql": "",
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
    }
    extra = {"commitTs": commit_ts}
    match event["kind"]:
        case "resolved":
            extra = {"watermarkTs": commit_ts}
        case "ddl":
            names = {"database": event["schema"], "table": event.get("table") or ""}
            body |= {**names, "isDdl": True, "type": ddl_word(event["query"]), "sql": event["query"]}
        case _:
            assert schema is not None
            body |= {"database": event["schema"], "table": event["table"], **canal_row(event, schema)}
    return dumps({**body, "_tidb": extra} if extension else body)


def ddl_word(query: str) -> str:
    """The `type` of a statement."""
    return next(word for pattern, word in DDL_WORDS if re.match(pattern, query))


def canal_row(event: Event, schema: TableSchema) -> dict[str, Any]:
    before, after = event.get("before"), event.get("after")
    now = before if after is None else after
    assert now is not None
    types = {name: parse_type(cell["type"]) for name, cell in ordered(now, schema)}
    keys = [column.name for column in schema.columns if column.id in schema.primary_key]
    return {
        "type": "DELETE" if after is None else "UPDATE" if before is not None else "INSERT",
        "pkNames": keys,
        "sqlType": {
            name: sql_type(types[name].base, types[name].unsigned, cell["value"])
            for name, cell in ordered(now, schema)
        },
        "mysqlType": {
            name: f"{type_.base}{' unsigned' if type_.unsigned else ''}" for name, type_ in types.items()
        },
        "old": [canal_image(before, schema)] if before is not None and after is not None else None,
        "data": [canal_image(now, schema)],
    }


def sql_type(base: str, unsigned: bool, value: str | None) -> int:
    """A BIGINT UNSIGNED beyond a Java long is a DECIMAL."""
    if base == "bigint" and unsigned and value is not None and int(value) >= 2**63:
        return 3
    return SQL_TYPES[base]


def canal_image(cells: Cells, schema: TableSchema) -> dict[str, str | None]:
    return {name: canal_text(parse_type(cell["type"]).base, cell) for name, cell in ordered(cells, schema)}


def canal_text(base: str, cell: dict[str, Any]) -> str | None:
    value = cell["value"]
    if value is None:
        return None
    if base in ("enum", "set"):
        return str(cell["num"])
    if base in ("binary", "varbinary") or base.endswith("blob"):
        return raw_bytes(value).decode("latin-1")
    if base in ("bit", "tinyint", "smallint", "mediumint", "int", "bigint"):
        return str(int(value))
    return str(value)


# Debezium


def debezium(event: Event, schema: TableSchema | None, zone: str) -> tuple[bytes, bytes]:
    """Key and value of one message, with schemas off. TIMESTAMP text is in `zone`."""
    commit_ts = event["commit_ts"]
    source = {
        "version": "2.4.0.Final",
        "connector": "TiCDC",
        "name": "test_cluster",
        "ts_ms": commit_ts >> 18,
        "snapshot": "false",
        "db": event.get("schema", ""),
        "table": event.get("table") or "",
        "server_id": 0,
        "gtid": None,
        "file": "",
        "pos": 0,
        "row": 0,
        "thread": 0,
        "query": None,
        "commit_ts": commit_ts,
        "cluster_id": "test_cluster",
    }
    head: dict[str, Any] = {"source": source, "ts_ms": 1}
    match event["kind"]:
        case "resolved":
            return dumps({"payload": {}}), dumps({"payload": {**head, "transaction": None, "op": "m"}})
        case "ddl":
            told = {
                "databaseName": event["schema"],
                "schemaName": None,
                "ddl": event["query"],
                "tableChanges": [],
            }
            return dumps({"payload": {"databaseName": event["schema"]}}), dumps({"payload": {**head, **told}})
    assert schema is not None
    before, after = (debezium_image(event.get(side), schema, zone) for side in ("before", "after"))
    op = "d" if after is None else "u" if before is not None else "c"
    handle = handle_names(schema)
    key = {name: value for name, value in (after or before or {}).items() if name in handle}
    return dumps({"payload": key}), dumps(
        {"payload": {**head, "transaction": None, "op": op, "before": before, "after": after}}
    )


def debezium_image(cells: Cells | None, schema: TableSchema, zone: str) -> dict[str, Any] | None:
    if cells is None:
        return None
    return {name: debezium_value(cell, zone) for name, cell in ordered(cells, schema)}


def debezium_value(cell: dict[str, Any], zone: str) -> Any:
    kind, value = parse_type(cell["type"]), cell["value"]
    if value is None:
        return None
    match kind.family:
        case "integer" | "year":
            return wrapped(int(value))
        case "decimal" | "float" | "double":
            return float(value)
        case "bit":
            return bits(int(value), kind.length or 1)
        case "binary":
            return base64.b64encode(raw_bytes(value)).decode()
        case "timestamp":
            return zoned(value, zone)
        case _:
            return temporal(kind.family, kind.length or 0, value)


def wrapped(number: int) -> int:
    """As 64 signed bits."""
    return number - 2**64 if number >= 2**63 else number


def bits(number: int, length: int) -> Any:
    return (
        bool(number)
        if length == 1
        else base64.b64encode(number.to_bytes(math.ceil(length / 8), "little")).decode()
    )


def zoned(text: str, zone: str) -> str:
    moment = datetime.fromisoformat(text[:19]).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{text[19:]}Z"


def temporal(family: str, digits: int, value: str) -> Any:
    """DATE, DATETIME and TIME as numbers; anything else is its text."""
    match family:
        case "date":
            return (date.fromisoformat(value) - EPOCH.date()).days
        case "datetime":
            micros = (datetime.fromisoformat(value) - EPOCH) // timedelta(microseconds=1)
            return micros // 1000 if digits <= 3 else micros
        case "time":
            hours, minutes, seconds = value.lstrip("-").split(":")
            micros = (int(hours) * 60 + int(minutes)) * 60_000_000 + round(float(seconds) * 1_000_000)
            return -micros if value.startswith("-") else micros
        case _:
            return value


# The storage sink

DIALECT = Dialect(b",", b'"', b"\\N", b"\r\n")
PRECISIONS = {
    "tinyint": 4,
    "smallint": 6,
    "mediumint": 9,
    "int": 11,
    "bigint": 20,
    "float": 12,
    "double": 22,
    "year": 4,
    "text": 65535,
    "blob": 65535,
}


def csv_row(
    event: Event, schema: TableSchema, *, binary: str = "base64", dialect: Dialect = DIALECT
) -> bytes:
    """The rows of one change, with commit ts and old values."""
    before, after = event.get("before"), event.get("after")
    is_update = before is not None and after is not None
    halves = [(op, cells) for op, cells in (("D", before), ("I", after)) if cells is not None]
    rows = []
    for op, cells in halves:
        head: list[Value] = [op, event["table"], event["schema"], event["commit_ts"], is_update]
        rows.append(
            encode_record([*head, *(csv_value(cell, binary) for _, cell in ordered(cells, schema))], dialect)
        )
    return b"".join(rows)


def csv_value(cell: dict[str, Any], binary: str) -> Value:
    value, family = cell["value"], parse_type(cell["type"]).family
    if value is None:
        return None
    if family in ("integer", "bit", "year"):
        return int(value)
    if family in ("float", "double"):
        return float(value)
    if family == "binary":
        return raw_bytes(value).hex() if binary == "hex" else base64.b64encode(raw_bytes(value)).decode()
    return str(value)


def schema_file(event: Event, schema: TableSchema | None) -> dict[str, Any]:
    """The schema file of a DDL; `schema` is the table's after it."""
    columns = [schema_column(column, schema) for column in schema.columns] if schema else None
    return {
        "Table": event.get("table") or "",
        "Schema": event["schema"],
        "Version": 1,
        "TableVersion": event["commit_ts"],
        "Query": event["query"],
        "Type": event.get("ddl_action", 0),
        "TableColumns": columns,
        "TableColumnsTotal": len(columns or []),
    }


def schema_column(column: Any, schema: TableSchema) -> dict[str, Any]:
    kind = column.type
    unsigned = kind.unsigned or kind.base in ("year", "bit")
    told: dict[str, Any] = {
        "ColumnName": column.name,
        "ColumnType": kind.base.upper() + (" UNSIGNED" if unsigned else ""),
    }
    temporal_ = kind.family in ("datetime", "timestamp", "time")
    precision = None if temporal_ else kind.length if kind.length is not None else PRECISIONS.get(kind.base)
    scale = kind.length if temporal_ else kind.scale
    told |= {"ColumnPrecision": str(precision)} if precision is not None else {}
    told |= {"ColumnScale": str(scale)} if scale else {}
    told |= {"ColumnNullable": "false"} if column.not_null or column.id in schema.primary_key else {}
    return told | ({"ColumnIsPk": "true"} if column.id in schema.primary_key else {})


class StoredFile(NamedTuple):
    """A file of a storage sink, and the lowest commit time in it."""

    path: str
    data: bytes
    low: int


class _Line(NamedTuple):
    """A row of a file, with the first half of its change: whether it is an insert, and the image."""

    ts: int
    text: bytes
    half: tuple[bool, object]


def storage_tree(events: Iterable[Event], protocol: str) -> dict[str, bytes]:
    """The files of a storage sink, by path. A DDL's event says the shape after it as `shape`, where the table
    lives on.
    """
    events = list(events)
    files = list(storage_files(events, protocol))
    last = events[-1]["commit_ts"] if events else 0
    return {file.path: file.data for file in files} | storage_heads(files, last)


def storage_files(events: Iterable[Event], protocol: str) -> Iterator[StoredFile]:
    """The schema files and the data files, in the order in which a sink writes them in each folder."""
    rows: dict[str, list[_Line]] = defaultdict(list)
    versions: dict[tuple[str, str], int] = {}
    for event in events:
        name, ts = (event.get("schema", ""), event.get("table") or ""), event["commit_ts"]
        if event["kind"] == "ddl":
            versions[name] = ts
            path = f"{name[0]}/{name[1]}/meta/schema_{ts}_{ts % 10**9:010}.json"
            yield StoredFile(path, dumps(schema_file(event, event.get("shape"))), ts)
        elif event["kind"] == "row":
            shape = event["shape"]
            line = csv_row(event, shape) if protocol == "csv" else canal_json(event, shape) + b"\r\n"
            rows[f"{name[0]}/{name[1]}/{versions[name]}/2026-11-21"].append(
                _Line(ts, line, (event.get("before") is None, event.get("before") or event["after"]))
            )
    for folder, lines in rows.items():
        for number, part in enumerate(_parts(lines), 1):
            path = f"{folder}/CDC{number:020}.{'csv' if protocol == 'csv' else 'json'}"
            yield StoredFile(path, b"".join(line.text for line in part), part[0].ts)


def _parts(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Three rows a file; but none begins as its transaction did, which would look like a replay."""
    begun, part = {line.ts: line.half for line in reversed(lines)}, list[_Line]()
    for line in lines:
        if len(part) >= 3 and not (part[-1].ts == line.ts and begun[line.ts] == line.half):
            yield part
            part = []
        part.append(line)
    if part:
        yield part


def storage_heads(files: Iterable[StoredFile], checkpoint: int) -> dict[str, bytes]:
    """What a sink writes anew as it goes on: each folder's index, and the checkpoint."""
    last = {
        folder: name
        for folder, _, name in (file.path.rpartition("/") for file in files)
        if name.startswith("CDC")
    }
    heads = {f"{folder}/meta/CDC.index": f"{name}\n".encode() for folder, name in last.items()}
    return {**heads, "metadata": dumps({"checkpoint-ts": checkpoint})}
