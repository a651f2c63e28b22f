"""`lakehouse maintain` of several sources."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.maintain import maintain
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.table_versions import history_of
from tests.support.lakes import quiet, run, write_recording
from tests.support.open_feed import OpenFeed


def operations(spark: Any, lake: Lake, source: str) -> list[str]:
    return [row.operation for row in history_of(spark, lake.ref("silver", f"{source}_changes"))]


def test_a_source_that_runs_keeps_no_other_from_being_maintained(spark: Any, tmp_path: Path) -> None:
    for source in ("first", "second"):
        feed = OpenFeed()
        feed.ddl(1, source, f"CREATE TABLE `shop`.`{source}` (id INT PRIMARY KEY)")
        for number in range(2):
            feed.row(2 + number, source, number)
            feed.resolved(10 + number)
            run(write_recording(tmp_path / f"{source}.jsonl", feed.messages), tmp_path / "lake")
    lake = Lake(str(tmp_path / "lake"))

    with (
        layer_lock(spark, lake, "first", ["gold"]),
        pytest.raises(LakehouseError, match="first"),
    ):
        maintain(lake.root, None, 0, quiet)

    assert "OPTIMIZE" not in operations(spark, lake, "first")
    assert "OPTIMIZE" in operations(spark, lake, "second")
