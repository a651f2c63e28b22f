"""Of silver's changes Delta keeps the lowest and highest values of what readers look for, and of no image."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.spark import limits
from tests.support.lakes import run, write_recording
from tests.support.open_feed import OpenFeed, T


@pytest.mark.parametrize("records", [limits.SILVER_BATCH_RECORDS, 0])
def test_files_of_changes_tell_positions_and_no_texts(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", records)
    feed = OpenFeed()
    feed.ddl(10, "t", "create table t (id int primary key, v varchar(20))")
    for ts in (20, 40):
        feed.row(ts, "t", ts, v="a")
        feed.resolved(ts + 5)
        run(write_recording(tmp_path / "r.jsonl", feed.messages), tmp_path / "lake")

    tables = [path for path in (tmp_path / "lake/silver").glob("*_changes") if "schema" not in path.name]
    log = sorted(path for table in tables for path in (table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    told = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
    assert [one["numRecords"] for one in told] == [1, 1]
    assert [one["maxValues"]["position"] for one in told] == [
        {"epoch": 0, "p1": T + 20},
        {"epoch": 0, "p1": T + 40},
    ]
    assert all({"table", "batch", "commit_ts"} < set(one["maxValues"]) for one in told)
    assert not any({"before", "after", "key", "types"} & set(one["maxValues"]) for one in told)
