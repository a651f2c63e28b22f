"""Rows of a table without a key that are sent again once a watermark has passed them, however batches are
cut.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.fold.row_edits import IN_TWO_FILES
from lakehouse.ops.records.silver import Done
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.support.lakes import engine, quiet, run, shown, write_recording
from tests.support.open_feed import OpenFeed, T
from tests.support.sink_trees import schema_file
from tests.whole_path.test_eight_formats import write_tree


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


@pytest.mark.parametrize("records", [limits.SILVER_BATCH_RECORDS, 0])
def test_a_file_of_a_sink_that_begins_as_a_transaction_did_may_be_its_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """No watermark comes between the files of one pass."""
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", records)
    lake, sink = tmp_path / "lake", tmp_path / "shop"
    files = {
        f"shop/{table}/meta/schema_400_1.json": schema_file(
            400, f"CREATE TABLE `shop`.`{table}` (`a` INT,`b` INT)", table, "shop", "a", "b"
        )
        for table in "kc"
    }
    for number, b in ((1, 10), (2, 10), (3, 11)):
        files[f"shop/k/400/CDC{number:06}.csv"] = f'"I","k","shop",600,1,{min(b, 10)}\r\n'.encode()
        files[f"shop/c/400/CDC{number:06}.csv"] = f'"I","c","shop",600,1,{b + number}\r\n'.encode()
    write_tree(sink, {**files, "metadata": b'{"checkpoint-ts": 900}'})
    options = {"protocol": "csv", "include-commit-ts": "true"}

    result = try_recording(sink, "ticdc-storage", options, str(lake), "resolved", quiet)

    assert {one["table"]: (one["state"], one["why"]) for one in result["tables"]} == {
        "shop.k": ("incomplete", IN_TWO_FILES),
        "shop.c": ("exact", None),
    }
    assert shown(lake, tmp_path / "shown")["shop.k"] == [{"a": 1, "b": 10}] * 3
