"""Rows of a table without a key that are sent again once a watermark has passed them, however batches are
cut.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records.silver import Done
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from tests.support.lakes import engine, run, shown, write_recording
from tests.support.open_feed import OpenFeed, T


@pytest.mark.parametrize("records", [limits.SILVER_BATCH_RECORDS, 0])
def test_rows_are_known_again_though_their_watermark_came_in_a_batch_of_its_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", records)
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", OpenFeed()

    def row() -> None:
        key = {"ts": T + 10, "scm": "shop", "tbl": "k", "t": 1}
        feed.add(key, {"u": {"v": {"t": 15, "f": 64, "v": "one"}}})

    def halves() -> int:
        run(write_recording(path, feed.messages), lake)
        done = OpsLog(spark, Lake(str(lake)), "shop").load().last(Done)
        assert done is not None
        return sum(len(one.halves) for tables in done.runs.values() for one in tables.values())

    feed.ddl(1, "k", "CREATE TABLE `shop`.`k` (v VARCHAR(20))")
    row()
    row()
    assert halves() == 1
    feed.resolved(20)
    assert halves() == 0, "no batch keeps what its watermark has ended"
    row()
    row()
    feed.resolved(20)
    feed.resolved(30)
    halves()

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert shown(lake, tmp_path / "shown")["shop.k"] == [{"v": "one"}] * 2


@pytest.mark.parametrize("records", [limits.SILVER_BATCH_RECORDS, 0])
def test_a_changefeed_that_begins_again_is_noticed_by_a_watermark_of_a_batch_before_any_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", records)
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", OpenFeed()
    feed.ddl(1, "k", "CREATE TABLE `shop`.`k` (v VARCHAR(20))")
    feed.resolved(20)
    run(write_recording(path, feed.messages), lake)
    key, image = {"ts": T + 30, "scm": "shop", "tbl": "k", "t": 1}, {"v": {"t": 15, "f": 64, "v": "one"}}
    for resolved in (15, 40):
        feed.add(key, {"u": image})
        feed.resolved(resolved)
    run(write_recording(path, feed.messages), lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert shown(lake, tmp_path / "shown")["shop.k"] == [{"v": "one"}]
