"""The log of a source's progress stays few files, however many runs write to it."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records import Rebuilding, Scan
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops import log as ops_log
from lakehouse.spark.ops.log import OpsLog


def files(spark: Any, lake: Lake) -> int:
    return len(lake.read(spark, "ops", "shop_log").inputFiles())


def test_the_files_of_a_log_are_put_together_by_the_run_that_passes_the_next_multiple(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops_log, "TIDY", 3)
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")
    log.add(Scan(checkpoint=1))
    log.add(Rebuilding(number=2))
    log.tidy(0)
    assert files(spark, log.lake) == 2

    log.add(Scan(checkpoint=2))
    log.tidy(2)

    assert files(spark, log.lake) == 1
    assert OpsLog(spark, log.lake, "shop").load().records == log.records
