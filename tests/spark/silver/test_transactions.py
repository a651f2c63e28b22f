"""A plan's appends happen once, and no other plan's append is taken for them."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import MIN_POSITION
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.silver import Planned
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver import run as silver_run
from lakehouse.spark.silver import tables
from lakehouse.spark.silver.driver_batch import append_rows
from lakehouse.spark.silver.spark_batch import Writer
from lakehouse.spark.silver.tables import SilverSettings, next_txn, silver_schema
from tests.support.killable import Killed, killing
from tests.support.lakes import engine, run, shown, silver_rows, write_recording
from tests.support.open_feed import OpenFeed
from tests.support.records import log_of

CREATE = "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))"
FEED = SilverSettings("shop", "ticdc-open", "tidb")


def plan(txn: int) -> Planned:
    return Planned(batch=2, generation="g", small=True, ranges=(), txn=txn)


def on_the_driver(log: OpsLog, made: Planned, offset: int) -> None:
    event = {"topic": "t", "incarnation": "", "partition": 0, "position": MIN_POSITION, "resolved_ts": offset}
    append_rows(log, FEED, made, name="watermarks", events=[event])


def in_spark_jobs(log: OpsLog, made: Planned, offset: int) -> None:
    row = dict.fromkeys(silver_schema("watermarks").names) | {"topic": "t", "resolved_ts": offset}
    frame = log.spark.createDataFrame([row], silver_schema("watermarks"))
    Writer(log, FEED, made)._append("watermarks", frame)


@pytest.mark.parametrize("append", [on_the_driver, in_spark_jobs])
def test_of_two_plans_for_one_batch_both_append_and_each_once(
    spark: Any, tmp_path: Path, append: Any
) -> None:
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")

    def appended() -> list[int]:
        return sorted(row["resolved_ts"] for row in silver_rows(spark, tmp_path, "shop", "watermarks"))

    append(log, plan(5), 1)
    append(log, plan(5), 1)
    assert appended() == [1]
    append(log, plan(7), 2)
    append(log, plan(7), 2)
    assert appended() == [1, 2]
    append(log, plan(5), 1)  # it was overtaken

    assert appended() == [1, 2]


def test_the_number_of_a_plan_exceeds_that_of_the_last_one_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Needs no session."""
    before = time.time_ns() // 1000
    first = next_txn(log_of())
    assert before <= first <= time.time_ns() // 1000
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)

    assert next_txn(log_of(plan(first))) == first + 1
    assert next_txn(log_of(plan(0))) == 1000


def two_parts() -> tuple[OpenFeed, list[Any]]:
    feed = OpenFeed()
    feed.ddl(1, "t", CREATE)
    feed.row(2, "t", 1, v="one")
    feed.resolved(3)
    first = list(feed.messages)
    feed.row(4, "t", 2, v="two")
    feed.row(5, "t", 1, v="changed")
    feed.resolved(6)
    return feed, first


def of_an_older_lakehouse(source: str, plan: Planned, name: str) -> tuple[str, int]:
    return f"silver:{source}:{name}:{plan.generation}", plan.batch


def test_what_an_older_lakehouse_left_half_written_is_not_appended_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, first = two_parts()
    lake, path = tmp_path / "lake", tmp_path / "shop.jsonl"
    with monkeypatch.context() as older:
        older.setattr(silver_run, "next_txn", lambda _: 0)
        older.setattr(tables, "transaction_of", of_an_older_lakehouse)
        run(write_recording(path, first), lake)
        with killing(type(spark), lambda name: name == "silver shop_changes"), pytest.raises(Killed):
            run(write_recording(path, feed.messages), lake)
    left = OpsLog(spark, Lake(str(lake)), "shop").load().last(Planned)
    assert left is not None and (left.batch, left.txn) == (2, 0)

    run(path, lake)
    feed.row(7, "t", 3, v="three")
    feed.resolved(8)
    run(write_recording(path, feed.messages), lake)

    assert len(silver_rows(spark, lake, "shop", "changes")) == 4
    assert shown(lake, tmp_path / "shown") == engine(feed.messages)


def transactions(folder: Path) -> list[tuple[str, int]]:
    """The transactions of a Delta table's commits, in order."""
    lines = (line for file in sorted(folder.glob("_delta_log/*.json")) for line in file.open())
    found = (json.loads(line).get("txn") for line in lines)
    return [(one["appId"], one["version"]) for one in found if one is not None]


def test_however_many_batches_there_are_a_table_has_one_id_and_versions_that_grow(
    spark: Any, tmp_path: Path
) -> None:
    feed, first = two_parts()
    lake, path = tmp_path / "lake", tmp_path / "shop.jsonl"
    run(write_recording(path, first), lake)
    run(write_recording(path, feed.messages), lake)

    found = transactions(lake / "silver/shop_changes")

    plans = OpsLog(spark, Lake(str(lake)), "shop").load().all(Planned)
    assert [version for _, version in found] == [one.txn for one in plans]
    assert len({one for one, _ in found}) == 1
    assert plans[0].txn < plans[1].txn


def test_a_batch_that_is_planned_again_from_an_older_copy_of_the_log_loses_nothing(
    spark: Any, tmp_path: Path
) -> None:
    feed, first = two_parts()
    lake, path, copy = tmp_path / "lake", tmp_path / "shop.jsonl", tmp_path / "copy"
    run(write_recording(path, first), lake)
    shutil.copytree(lake / "ops/shop_log", copy)
    run(write_recording(path, feed.messages), lake)
    shutil.rmtree(lake / "ops/shop_log")
    shutil.copytree(copy, lake / "ops/shop_log")

    feed.row(7, "t", 3, v="three")
    feed.resolved(8)
    run(write_recording(path, feed.messages), lake)

    changes = Lake(str(lake)).read(spark, "silver", "shop_changes").where("batch = 2").collect()
    assert sorted(row.key for row in changes) == [*["[1]"] * 2, *["[2]"] * 2, "[3]"]
    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    published = OpsLog(spark, Lake(str(lake)), "shop").load().last(Manifest)
    assert published is not None
    assert [(one.state, (one.why or "")[:26]) for one in published.tables] == [
        ("incomplete", "silver has 6 changes, of w")
    ]
