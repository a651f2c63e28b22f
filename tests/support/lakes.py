"""Lakes of tests: a recording written and run through all layers, and what its tables and silver hold."""

import base64
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lakehouse.events import Message, Position
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.show import show_all
from lakehouse.spark.silver.tables import read_silver
from tests.support.engine import Memory

Tables = dict[str, list[dict[str, Any]]]


def quiet(_: str) -> None:
    pass


def write_recording(path: Path, told: Iterable[Message], *, headers: bool = False) -> Path:
    """Write messages as a recording, without timestamps; with `headers` theirs too."""
    lines = [
        {
            "topic": m.topic,
            "partition": m.partition,
            "offset": m.offset,
            "key_b64": text(m.key),
            "value_b64": text(m.value),
            "headers": [[name, text(value)] for name, value in m.headers] if headers else [],
        }
        for m in told
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def run(path: Path, lake: Path) -> dict[str, Any]:
    return try_recording(path, "ticdc-open", {}, str(lake), "resolved", quiet)


def shown(lake: Path, folder: Path, at: int | None = None) -> Tables:
    """The gold tables as `show --all --json` writes them, rows in a fixed order."""
    shutil.rmtree(folder, ignore_errors=True)
    show_all(str(lake), folder, [] if at is None else [str(at)])
    found = {
        path.name.removesuffix(".jsonl"): [json.loads(line) for line in path.read_text().splitlines()]
        for path in folder.glob("*.jsonl")
    }
    return in_order(found)


def in_order(tables: Tables) -> Tables:
    return {
        name: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        for name, rows in sorted(tables.items())
    }


def engine(told: Iterable[Message], at: Position | None = None) -> Tables:
    silver = Memory("ticdc-open").add(told)
    return in_order(silver.tables(silver.watermark if at is None else at))


def silver_rows(spark: Any, lake: Path, source: str, name: str) -> list[dict[str, Any]]:
    """A silver table without what tells one run from another."""
    rows = read_silver(spark, Lake(str(lake)), source, name).toArrow().to_pylist()
    return sorted(({key: value for key, value in row.items() if key != "batch"} for row in rows), key=repr)
