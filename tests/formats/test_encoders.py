"""The encoders are proven on recordings: their truth, encoded again, is what was recorded, but for member
order and wall clocks.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.parse.statements import read
from lakehouse.events import Message, RowChange
from lakehouse.formats import decode_message
from lakehouse.formats.dts.envelopes import join
from lakehouse.formats.proto import canal_pb2, subscribe_pb2
from lakehouse.schema import Column, TableSchema, make_schema, parse_type
from lakehouse.sources.recording import read_recording
from lakehouse.values.decode_with_schema import resolve
from tests.support.encode_binlog import Logged, canal_entry, canal_flat, canal_packet, dts_rows
from tests.support.encode_binlog import debezium as debezium_records
from tests.support.encode_tidb import canal_json, csv_row, debezium, schema_file
from tests.support.engine import Memory
from tests.support.events import changes_of
from tests.support.judging import lines, messages, meta, name_of, options
from tests.support.paths import DATA

CANAL = [
    DATA / "ticdc-canal-json" / f"{name}.jsonl.gz"
    for name in (
        "newarch-202606/shop.tidb-ext",
        "newarch-202606/basictypes.tidb-ext",
        "newarch-202606/timezone.tidb-ext",
        "newarch-202606/shop.plain",
        "classic-v6.5.0/shop.tidb-ext",
        "classic-v9.0.0-beta.1/keys.tidb-ext",
        "classic-v9.0.0-beta.1/basictypes.tidb-ext",
        "classic-v9.0.0-beta.1/ddl.tidb-ext",
    )
]
DEBEZIUM = [
    DATA / "ticdc-debezium" / f"{name}.jsonl.gz"
    for name in (
        "newarch-202606/shop.no-schema",
        "newarch-202606/basictypes.no-schema",
        "classic-v9.0.0-beta.1/shop.no-schema",
    )
]


@pytest.mark.parametrize("recording", CANAL, ids=name_of)
def test_canal_json_encoded_again_is_what_was_recorded(recording: Path) -> None:
    extension = bool(meta(recording)["options"].get("enable-tidb-extension"))
    for event, message, schema in told(recording):
        assert tree(canal_json(event, schema, extension=extension)) == tree(message.value)


@pytest.mark.parametrize("recording", DEBEZIUM, ids=name_of)
def test_debezium_encoded_again_is_what_was_recorded(recording: Path) -> None:
    for event, message, schema in told(recording):
        key, value = debezium(event, schema, meta(recording)["time_zone"])
        assert (tree(key), tree(value)) == (tree(message.key), tree(message.value))


@pytest.mark.parametrize("tree", ["csv-types-old-value-hex"])
def test_csv_encoded_again_is_what_was_recorded(tree: str) -> None:
    truth = json.loads((DATA / "storage" / tree / "expected.json").read_text())
    rows, statements, shape = [], {}, None
    for event in truth["events"]:
        if event["kind"] == "ddl" and event["table"]:
            (statement,) = read(event["query"])
            assert isinstance(statement, CreateTable)
            shape = create(statement)
        if event["kind"] == "ddl":
            statements[event["commit_ts"]] = schema_file(event, shape)
        if event["kind"] == "row":
            assert shape is not None
            rows.append(
                csv_row(
                    {
                        **event,
                        **{side: cells_of(event[side]) for side in ("before", "after") if event.get(side)},
                    },
                    shape,
                    binary="hex",
                )
            )

    data = DATA / "storage" / tree / "data"
    assert b"".join(rows) == b"".join(path.read_bytes() for path in sorted(data.rglob("*.csv")))
    for path in data.rglob("schema_*.json"):
        recorded = json.loads(path.read_text())
        for column in recorded["TableColumns"] or []:
            del column["ColumnId"]
        assert {**statements[recorded["TableVersion"]], "Type": 0} == {**recorded, "Type": 0}


def cells_of(image: dict[str, Any]) -> dict[str, Any]:
    """The cells of a tree's truth, [type, value], as events have them."""
    return {
        name: {"type": cell[0], "value": cell[1]["text"] if isinstance(cell[1], dict) else cell[1]}
        for name, cell in image.items()
    }


def told(recording: Path) -> Iterator[tuple[Any, Message, TableSchema | None]]:
    """Each event of the truth with its message, and the schema of its row."""
    form = recording.relative_to(DATA).parts[0]
    ordered = ".plain" not in recording.name
    history = Memory(form, options(recording), tidb=ordered).add(messages(recording)).history()
    for message, line in zip(messages(recording), lines(recording), strict=True):
        (event,) = line["expected"]["events"]
        schema = None
        if event["kind"] == "row":
            position = (0, event["commit_ts"], 1, 0, 0, 0) if ordered else (0, message.offset, 0, 1, 0, 0)
            lineage = history.owner((event["schema"], event["table"]), position)
            assert lineage is not None
            schema = lineage.schema_at(position)
        yield event, message, schema


def tree(value: bytes | None) -> Any:
    """JSON without wall clocks, and without the columns that a Debezium DDL lists: its text says the same."""
    found = json.loads(value or b"null")
    body = found.get("payload", found) if isinstance(found, dict) else {}
    for clock in ("ts", "ts_ms"):
        body.pop(clock, None)
    if "tableChanges" in body:
        body["tableChanges"] = []
    return found


# Binlog feeds: no recording of them says what each message means, so their events are read, made what the
# server has, and encoded again

Cell = dict[str, Any]


def cell_of(value: Any, type_: str, encoding: str) -> Cell:
    """A value of silver as the server prints it, in UTC."""
    kind = parse_type(type_)
    value = resolve(value, kind, encoding)
    told: Cell = {"type": type_, "value": None if value is None else str(value)}
    if value is None:
        return told
    match kind.family:
        case "binary":
            told["value"] = "0x" + base64.b64decode(value).hex()
        case "timestamp":
            told["value"] = value.removesuffix("Z")
        case "enum":
            told["num"] = kind.members.index(value) + 1
        case "set":
            told["num"] = sum(
                1 << place for place, label in enumerate(kind.members) if label in value.split(",")
            )
    return told


def cells(image: dict[str, Any] | None, change: RowChange, types: dict[str, str]) -> dict[str, Cell] | None:
    return (
        None
        if image is None
        else {name: cell_of(value, types[name], change.encoding) for name, value in image.items()}
    )


def shape_of(types: dict[str, str], keys: Iterable[str]) -> TableSchema:
    return make_schema([Column(0, name, parse_type(text)) for name, text in types.items()], tuple(keys))


def logged(changes: list[RowChange], types: dict[str, str], keys: Iterable[str]) -> Logged:
    """The changes of one binlog event; the two halves of a change of key are one row."""
    rows: dict[Any, list[RowChange]] = {}
    for change in changes:  # one row's halves have one place, but for the half
        rows.setdefault(
            change.position[:3] if change.position[4:] == (0, 0) else change.position[:5], []
        ).append(change)
    pairs = tuple(
        (cells(halves[0].before, halves[0], types), cells(halves[-1].after, halves[-1], types))
        for halves in rows.values()
    )
    ops = {(True, False): "delete", (False, True): "insert", (True, True): "update"}
    op = ops[pairs[0][0] is not None, pairs[0][1] is not None]
    return Logged(op, 1, 4, 0, 1, changes[0].database, changes[0].table, pairs, shape_of(types, keys))


@pytest.mark.parametrize("recording", ["canal/inventory.jsonl.gz", "canal/orders_small.jsonl.gz"])
def test_flat_messages_encoded_again_are_what_was_recorded(recording: str) -> None:
    seen = set()
    for message in read_recording(DATA / recording):
        recorded = tree(message.value)
        if recorded["isDdl"] or not recorded["data"]:
            continue
        changes = decode_message("canal", message, {})
        event = logged(changes_of(changes), recorded["mysqlType"], recorded["pkNames"] or ())._replace(
            time=recorded["es"] // 1000
        )
        assert tree(canal_flat(event, recorded["id"], recorded["mysqlType"])) == recorded
        seen.add(event.op)
    assert seen == {"insert", "update", "delete"}


def test_packets_encoded_again_are_what_was_recorded() -> None:
    count = 0
    for message in read_recording(DATA / "canal-protobuf/inventory.jsonl.gz"):
        body = canal_pb2.Messages.FromString(canal_pb2.Packet.FromString(message.value or b"").body)
        for data in body.messages:
            recorded = canal_pb2.Entry.FromString(data)
            change = canal_pb2.RowChange.FromString(recorded.storeValue)
            if recorded.entryType != canal_pb2.ENTRY_ROWDATA or not change.rowDatas:
                continue
            changes = decode_message(
                "canal-protobuf", msgspec.structs.replace(message, value=canal_packet([recorded], 1)), {}
            )
            columns = change.rowDatas[0].afterColumns or change.rowDatas[0].beforeColumns
            types = {column.name: column.mysqlType for column in columns}
            event = logged(changes_of(changes), types, [column.name for column in columns if column.isKey])
            assert rows_of(canal_entry(event, types)) == rows_of(recorded)
            count += 1
    assert count > 50


def rows_of(entry: canal_pb2.Entry) -> Any:
    """The rows of an entry; `length` is the server's own, and nothing reads it."""
    change = canal_pb2.RowChange.FromString(entry.storeValue)
    for row in change.rowDatas:
        for column in (*row.beforeColumns, *row.afterColumns):
            column.length = 0
    return entry.header.eventType, change.eventType, list(change.rowDatas)


@pytest.mark.parametrize("recording", ["inventory", "orders_small"])
def test_a_connectors_records_encoded_again_are_what_was_recorded(recording: str) -> None:
    recorded = list(read_recording(DATA / "debezium" / recording / "noschema.jsonl.gz"))
    history = Memory("debezium", tidb=False).add(recorded).history()
    seen = set()
    for message in recorded:
        events = decode_message("debezium", message, {})
        if len(events) != 1 or not isinstance(change := events[0], RowChange) or change.op == "snapshot":
            continue
        lineage = history.owner((change.database, change.table), change.position)
        assert lineage is not None
        schema = lineage.schema_at(change.position)
        types = {column.name: str(column.type) for column in schema.columns}
        event = logged([change], types, change.key_names)
        (sent, *_) = debezium_records(event)
        assert (sent.key and json.loads(sent.key), images(sent.value)) == (
            message.key and json.loads(message.key),
            images(message.value),
        )
        seen.add(event.op)
    assert seen == {"insert", "update", "delete"}


def images(value: bytes | None) -> Any:
    record = json.loads(value or b"null")
    return (
        record["op"],
        record["before"],
        record["after"],
        record.keys() - {"ts_us", "ts_ns"},
        record["source"].keys(),
    )


def test_entries_encoded_again_are_what_was_recorded() -> None:
    """The recording's truth tells each value as the service's own types have it."""
    entries = [
        entry
        for found in join(read_recording(DATA / "dts/inventory/stream.jsonl.gz"))
        if isinstance(found, Message)
        for entry in entries_of(found.value or b"").items
    ]
    truth = [
        json.loads(line)
        for line in gzip.decompress((DATA / "dts/inventory/expected.jsonl.gz").read_bytes()).splitlines()
    ]
    count = 0
    for line in truth:
        if line["messageType"] != "DML":
            continue
        entry = next(
            entry
            for entry in entries
            if entry.header.seqId == line["seqId"] and entry.header.messageType == subscribe_pb2.DML
        )
        types = {column["name"]: column["originalType"] for column in line["columns"]}
        pairs = tuple((dts_cells(row["old"], types), dts_cells(row["new"], types)) for row in line["rows"])
        shape = shape_of(types, [column["name"] for column in line["columns"] if column["isKey"]])
        event = Logged(line["dml"].lower(), 1, 4, 0, 1, "d", "t", pairs, shape)
        assert dts_rows(event, "UTC", types) == entry.event.dmlEvent
        count += 1
    assert count > 50


def dts_cells(values: list[dict[str, Any]], types: dict[str, str]) -> dict[str, Cell] | None:
    return (
        {name: dts_cell(value, types[name]) for name, value in zip(types, values, strict=True)}
        if values
        else None
    )


def dts_cell(data: dict[str, Any], type_: str) -> Cell:
    text = data.get("sv", data.get("text"))
    if text is None and "hex" in data:
        text = (
            bytes.fromhex(data["hex"]).decode() if parse_type(type_).family == "json" else "0x" + data["hex"]
        )
    return {
        "type": type_,
        "value": text
        if text is None or parse_type(type_).family != "timestamp"
        else text.removesuffix(" +00:00"),
    }


def entries_of(value: bytes) -> subscribe_pb2.Entries:
    if value.startswith(b"\x0a"):
        return subscribe_pb2.Entries.FromString(value)
    return subscribe_pb2.Entries.FromString(subscribe_pb2.Envelope.FromString(value).data)
