"""What a lake says of itself: how its sources are read, and which lakehouse may read it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops import lake_record as registry
from lakehouse.spark.ops.lake_record import register, sources
from lakehouse.spark.ops.lease import Table


def read_with(**options: str) -> SourceSettings:
    return SourceSettings(format="ticdc-open", order="tidb", options=options, virtual=False)


def test_a_lake_of_a_newer_layout_is_refused_before_anything_is_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    register(spark, lake, "shop", read_with())
    monkeypatch.setattr(registry, "LAYOUT", registry.LAYOUT + 1)
    monkeypatch.setattr(registry, "__version__", "9.9.9")
    register(spark, lake, "shop", read_with(time_zone="UTC"))
    assert sources(spark, lake) == {"shop": read_with(time_zone="UTC")}
    monkeypatch.undo()

    with pytest.raises(
        LakehouseError, match=r"this lake was written by lakehouse 9\.9\.9, newer than .*: upgrade lakehouse"
    ):
        sources(spark, lake)


def test_the_last_settings_of_a_source_win_however_often_they_change(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for source, zone in (
        ("shop", "UTC"),
        ("bank", "UTC"),
        ("shop", "+01:00"),
        ("shop", "+02:00"),
        ("bank", "+03:00"),
        ("bank", "+03:00"),
    ):
        register(spark, lake, source, read_with(time_zone=zone))

    assert sources(spark, lake) == {
        "shop": read_with(time_zone="+02:00"),
        "bank": read_with(time_zone="+03:00"),
    }
    assert sorted(row.seq for row in lake.read(spark, "ops", "lake").collect()) == [1, 2, 3, 4, 5]


def test_sources_that_begin_at_one_moment_on_a_store_without_locks_are_all_recorded(
    spark: Any, tmp_path: Path
) -> None:
    """Each of them finds no record of the lake yet, and makes it."""
    lake, at_once = Lake(f"file://{tmp_path}"), Barrier(3)

    def begin(source: str) -> None:
        at_once.wait()
        register(spark, lake, source, read_with())
        Table(spark, lake, "shop_lease").create()

    with ThreadPoolExecutor(3) as pool:
        for begun in [pool.submit(begin, source) for source in "abc"]:
            begun.result()

    assert sorted(sources(spark, lake)) == ["a", "b", "c"]


def test_a_relative_lake_lies_where_the_process_is_in_paths_and_in_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert Lake("./lake").ref("gold", "t") == f"delta.`{tmp_path}/lake/gold/t`"
    assert Lake("s3a://bucket/lake").path("gold", "t") == "s3a://bucket/lake/gold/t"
