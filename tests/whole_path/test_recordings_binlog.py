"""Recordings of binlog feeds, and of Canal's, against the tables that the server had at their end."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.sources.recording import read_recording
from tests.support.engine import Memory
from tests.support.judging import check_tables, write_tables
from tests.support.paths import DATA

# recording, format, truth, and whether the feed tells how far it is complete
RECORDINGS = [
    ("canal/inventory.jsonl.gz", "canal", "debezium/inventory", False),
    ("canal/inventory.3p.jsonl.gz", "canal", "debezium/inventory", False),
    ("canal/orders_small.jsonl.gz", "canal", "debezium/orders_small", False),
    ("canal-protobuf/inventory.jsonl.gz", "canal-protobuf", "debezium/inventory", False),
    ("canal-protobuf/inventory.3p.jsonl.gz", "canal-protobuf", "debezium/inventory", False),
    ("debezium/inventory/noschema.jsonl.gz", "debezium", "debezium/inventory", True),
    ("debezium/inventory/withschema.jsonl.gz", "debezium", "debezium/inventory", True),
    ("debezium/orders_small/noschema.jsonl.gz", "debezium", "debezium/orders_small", True),
    ("dts/inventory/stream.jsonl.gz", "tencent-dts", "dts/inventory", True),
]
DATABASES = {"debezium/inventory": "inventory", "debezium/orders_small": "ord", "dts/inventory": "inventory"}


@pytest.mark.parametrize(
    ("recording", "format", "truth", "resolved"), RECORDINGS, ids=[each[0] for each in RECORDINGS]
)
def test_the_tables_at_the_end_are_the_servers(
    recording: str, format: str, truth: str, resolved: bool, tmp_path: Path
) -> None:
    silver = Memory(format, tidb=False).add(read_recording(DATA / recording))

    write_tables(tmp_path, silver.tables(silver.watermark if resolved else silver.reach))

    check = check_tables.TableCheck([])
    check.state(tables(truth), tmp_path, False)
    assert check.report.wrong == []
    assert [text for text in check.report.warnings if "column order" in text] == []
    assert silver.dead == []
    assert silver.breaks == {}


def tables(truth: str) -> dict[str, Any]:
    """The server's tables, as the checker reads them."""
    told = json.loads((DATA / truth / "truth.json").read_text())
    return {f"{DATABASES[truth]}.{name}": table(each) for name, each in told.items()}


def table(told: dict[str, Any]) -> Any:
    rows = [
        {name: {"type": told["types"][name], "value": value} for name, value in row.items()}
        for row in told["rows"]
    ]
    return check_tables.Table(rows, told["primary_key"], list(told["types"]))
