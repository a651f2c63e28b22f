"""The encoders are proven on recordings: their truth, encoded again, is what was recorded, but for member order and wall clocks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from encode_tidb import canal_json, csv_row, debezium, schema_file
from engine import Memory
from judging import DATA, lines, messages, meta, name_of, options

from lakehouse.ddl.apply import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.reader import read
from lakehouse.events import Message
from lakehouse.schema import TableSchema

CANAL = [
    DATA / "ticdc-canal-json" / f"{name}.jsonl.gz"
    for name in (
        "newarch-202606/shop.tidb-ext", "newarch-202606/basictypes.tidb-ext", "newarch-202606/timezone.tidb-ext",
        "newarch-202606/shop.plain", "classic-v6.5.0/shop.tidb-ext", "classic-v9.0.0-beta.1/keys.tidb-ext",
        "classic-v9.0.0-beta.1/basictypes.tidb-ext", "classic-v9.0.0-beta.1/ddl.tidb-ext",
    )
]  # fmt: skip
DEBEZIUM = [
    DATA / "ticdc-debezium" / f"{name}.jsonl.gz"
    for name in ("newarch-202606/shop.no-schema", "newarch-202606/basictypes.no-schema", "classic-v9.0.0-beta.1/shop.no-schema")
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
            rows.append(csv_row({**event, **{side: cells_of(event[side]) for side in ("before", "after") if event.get(side)}}, shape, binary="hex"))

    data = DATA / "storage" / tree / "data"
    assert b"".join(rows) == b"".join(path.read_bytes() for path in sorted(data.rglob("*.csv")))
    for path in data.rglob("schema_*.json"):
        recorded = json.loads(path.read_text())
        for column in recorded["TableColumns"] or []:
            del column["ColumnId"]
        assert {**statements[recorded["TableVersion"]], "Type": 0} == {**recorded, "Type": 0}


def cells_of(image: dict[str, Any]) -> dict[str, Any]:
    """The cells of a tree's truth, [type, value], as events have them."""
    return {name: {"type": cell[0], "value": cell[1]["text"] if isinstance(cell[1], dict) else cell[1]} for name, cell in image.items()}


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
