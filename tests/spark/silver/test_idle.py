"""A pass over what is read already looks at no record of bronze."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from lakehouse.ops.records.silver import Done
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver import run as silver_run
from lakehouse.spark.silver.run import next_plan, next_ranges
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.lakes import run, write_recording
from tests.support.open_feed import OpenFeed

FEED = SilverSettings("shop", "ticdc-open", "tidb", settled=True)


def looks(log: OpsLog, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the next pass looks for records; it must find none."""
    seen: list[int] = []
    real = silver_run.next_ranges

    def looked(*given: Any, **named: Any) -> Any:
        seen.append(1)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(silver_run, "next_ranges", looked)
        patch.setattr(silver_run, "refuse_other_reading", lambda *_: None)
        assert next_plan(log.load(), FEED) is None
    return len(seen)


def test_an_idle_pass_looks_at_no_record_until_bronze_has_another_version(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, path, feed = Lake(str(tmp_path / "lake")), tmp_path / "shop.jsonl", OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    for number in range(4):
        feed.row(2 + number, "t", number, v="one")
    feed.resolved(9)
    run(write_recording(path, feed.messages[:3]), Path(lake.root))
    run(write_recording(path, feed.messages), Path(lake.root))
    log, ref = OpsLog(spark, lake, "shop"), lake.ref("bronze", "shop")

    assert looks(log, monkeypatch) == 0
    spark.sql(f"OPTIMIZE {ref}").collect()
    assert looks(log, monkeypatch) == 0, "the same records, in other files"
    done = log.last(Done)
    spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF 0").collect()
    assert looks(log, monkeypatch) == 1, "who knows what it has now"

    feed.row(12, "t", 7, v="new")
    feed.resolved(13)
    spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF 1").collect()
    result = run(write_recording(path, feed.messages), Path(lake.root))
    assert (result["new_messages"], result["silver_batches"]) == (2, 1)
    now = log.load().last(Done)
    assert done is not None and done.bronze is not UNSET
    assert now is not None and now.bronze is not UNSET
    assert done.bronze < now.bronze
    assert looks(log, monkeypatch) == 0


def test_a_batch_that_leaves_records_says_no_version(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, path, feed = Lake(str(tmp_path / "lake")), tmp_path / "shop.jsonl", OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    for number in range(4):
        feed.row(2 + number, "t", number, v="one")
    run(write_recording(path, feed.messages), Path(lake.root))
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)

    part = next_ranges(spark, lake, replace(FEED, max_records=2), None)
    whole = next_ranges(spark, lake, FEED, None)

    assert (part.ranges[0].last, part.is_all) == (1, False)
    assert (whole.ranges[0].last, whole.is_all) == (4, True)
