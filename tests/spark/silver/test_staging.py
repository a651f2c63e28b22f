"""Where a large batch's decoded rows are kept on a platform that keeps no frame: in a table."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver import spark_batch


def test_a_generation_that_is_built_beside_another_one_does_not_write_over_its_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_batch, "capabilities", lambda _: SimpleNamespace(persist=False))
    lake = Lake(str(tmp_path))
    present, beside = OpsLog(spark, lake, "shop"), OpsLog(spark, lake, "shop", suffix="_g2")

    with (
        spark_batch.staged(present, spark.range(3)) as mine,
        spark_batch.staged(beside, spark.range(5)) as other,
    ):
        tables = {frame.inputFiles()[0].split("/")[-2] for frame in (mine, other)}
        counts = [lake.read(spark, "silver", name).count() for name in sorted(tables)]

    assert counts == [3, 5]
