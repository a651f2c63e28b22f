"""Commits read from Delta's log on disk against what DESCRIBE HISTORY tells of the same table."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import functions as F

from lakehouse.ops.records.operators import Rebuild
from lakehouse.spark.commit_files import newest_commits, row_count, small_table
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import reads_own_files
from lakehouse.spark.table_versions import commits_above, local_commits, told_commits

EVERY = [
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "INSERT INTO {t} SELECT id, 'b' FROM range(5, 9)",
    "UPDATE {t} SET v = 'c' WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
    "MERGE INTO {t} t USING (SELECT 1L id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'd'",
    "OPTIMIZE {t}",
    "ALTER TABLE {t} ADD COLUMNS (w INT)",
    "VACUUM {t}",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "a lake"))


def test_every_kind_of_commit_reads_as_delta_tells_it(spark: Any, lake: Lake) -> None:
    rows = spark.range(5).withColumn("v", F.lit("a"))
    lake.overwrite(rows, "gold", "t")
    lake.append(rows, "gold", "t")
    for statement in EVERY:
        spark.sql(statement.format(t=lake.ref("gold", "t"))).collect()
    lake.overwrite(rows.withColumn("w", F.lit(1)), "gold", "t")
    folder, ref = Path(lake.path("gold", "t")), lake.ref("gold", "t")

    every = told_commits(spark, ref, -1)
    assert len({one.operation for one in every}) >= 9
    assert local_commits(folder, -1) == every
    for version in (0, 3, len(every) - 2, len(every) - 1, 99):
        assert local_commits(folder, version) == told_commits(spark, ref, version, few=1)
    assert commits_above(spark, lake, ("gold", "t"), 3) == every[: every[0].version - 3]


def test_commits_behind_a_gap_are_not_told(spark: Any, lake: Lake) -> None:
    """Delta's clean-up takes the oldest files; what somebody has removed in between ends what is known."""
    for _ in range(4):
        lake.append(spark.range(1), "gold", "t")
    folder = Path(lake.path("gold", "t"))

    (folder / "_delta_log" / f"{1:020d}.json").unlink()

    assert [one.version for one in newest_commits(folder)] == [3, 2]
    assert list(newest_commits(folder.parent / "none")) == []


CHANGES = [
    "INSERT INTO {t} SELECT id, CAST(id AS STRING) FROM range(3)",
    "UPDATE {t} SET v = concat(v, 'c') WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
    "OPTIMIZE {t}",
    "RESTORE TABLE {t} TO VERSION AS OF {some}",
]


def rows_of(spark: Any, lake: Lake, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, lake.read(spark, "ops", name).select("v", "id").collect()))


def read_here(lake: Lake, name: str) -> list[tuple[Any, ...]] | None:
    found = small_table(Path(lake.path("ops", name)), ("v", "id"))
    return None if found is None else sorted(zip(*found.to_pydict().values(), strict=True))


@pytest.mark.parametrize("every", [1, 4])
def test_rows_read_here_are_those_that_delta_reads(spark: Any, lake: Lake, every: int) -> None:
    """With a checkpoint every few commits, whose names and older commits are there or cleaned up."""
    chance, name, ref = random.Random(every), "t", lake.ref("ops", "t")
    frame = spark.range(5).withColumn("v", F.lit("a"))
    frame.write.format("delta").option("delta.checkpointInterval", every).save(lake.path("ops", name))
    log = Path(lake.path("ops", name), "_delta_log")
    for _ in range(10):
        some = max(0, next(newest_commits(log.parent)).version - 1)
        spark.sql(chance.choice(CHANGES).format(t=ref, some=some)).collect()
        rows = rows_of(spark, lake, name)
        assert read_here(lake, name) == rows
        above = small_table(log.parent, ("id",), ("id", 1))
        assert above is not None
        assert sorted(above["id"].to_pylist()) == sorted(id for _, id in rows if id > 1)
        assert row_count(log.parent) == len(rows)
        assert row_count(log.parent, some) == lake.read(spark, "ops", name, some).count()
    last = max(log.glob("*.checkpoint.parquet")).name[:20]
    for path in log.glob("*.json"):
        if path.name[:20] <= last and path.name[:20] < max(log.glob("*.json")).name[:20]:
            path.unlink()
    assert read_here(lake, name) == rows
    assert row_count(log.parent) == len(rows)
    assert row_count(log.parent, 99) is None


def test_files_that_have_no_rows_above_a_number_are_not_opened(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (0, 10, 20):
        lake.append(spark.range(first, first + 10).coalesce(1), "ops", "t")
    opened: list[Path] = []

    def noted(path: Path) -> Any:
        opened.append(path)
        return ParquetFile(path)

    monkeypatch.setattr(pq, "ParquetFile", noted)

    def above(number: int) -> list[int]:
        found = lake.rows(spark, "ops", "t", ("id",), above=("id", number))
        assert found is not None
        return sorted(found["id"].to_pylist())

    assert (above(25), len(opened)) == ([26, 27, 28, 29], 1)
    assert (above(29), len(opened)) == ([], 2), "one of them tells the columns"
    assert (above(8), len(opened)) == ([9, *range(10, 30)], 5)


def test_a_table_that_only_delta_can_read_is_left_to_it(spark: Any, lake: Lake) -> None:
    plain = spark.range(5).withColumn("v", F.lit("a b"))
    for name in ("gap", "split", "mapped", "gone", "grown"):
        writer = plain.write.format("delta").partitionBy(*(["v"] if name == "split" else []))
        writer.option("delta.columnMapping.mode", "name" if name == "mapped" else "none")
        writer.save(lake.path("ops", name))
        lake.append(plain, "ops", name)
        lake.append(plain, "ops", name)
    folder = Path(lake.path("ops", "gap"))
    assert read_here(lake, "gap") == rows_of(spark, lake, "gap")
    (folder / "_delta_log" / f"{1:020d}.json").unlink()
    next(Path(lake.path("ops", "gone")).glob("*.parquet")).unlink()
    spark.sql(f"ALTER TABLE {lake.ref('ops', 'grown')} ADD COLUMNS (w INT)").collect()

    for name in ("gap", "split", "mapped", "gone"):
        assert read_here(lake, name) is None, name
    for name in ("gap", "split", "mapped"):
        assert row_count(Path(lake.path("ops", name))) is None, name
    assert lake.count(spark, "ops", "mapped") == 15
    assert lake.count(spark, "ops", "none") == 0
    assert read_here(lake, "grown") == rows_of(spark, lake, "grown")
    assert small_table(Path(lake.path("ops", "grown")), ("id", "w")) is None
    told = lake.rows(spark, "ops", "grown", ("id", "w"))
    assert told is not None
    assert told.num_rows == 15
    assert lake.rows(spark, "ops", "none", ("id",)) is None


def test_a_folder_that_is_none_of_this_process_is_not_looked_at(spark: Any, lake: Lake) -> None:
    assert reads_own_files(spark)
    assert lake.folder(spark, "gold", "t") == Path(lake.root, "gold", "t")
    assert Lake("s3a://bucket/lake").folder(spark, "gold", "t") is None
    assert Lake(lake.root, "main").folder(spark, "gold", "t") is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
        assert lake.folder(spark, "gold", "t") is None
    assert not lake.exists(spark, "gold", "t")
    Path(lake.root, "gold", "t", "_delta_log").mkdir(parents=True)
    assert not lake.exists(spark, "gold", "t"), "a process died before its first commit"


def test_an_append_that_another_was_quicker_than_is_told_by_the_table(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is asked only where its newest commit is not the one that was just made."""
    record = Rebuild(lineage="t", why="a test")
    mine, other = OpsLog(spark, lake, "shop").load(), OpsLog(spark, lake, "shop").load()
    asked: list[int] = []
    newer = OpsLog._newer

    def counted(self: OpsLog) -> Any:
        asked.append(self.seq)
        return newer(self)

    monkeypatch.setattr(OpsLog, "_newer", counted)

    assert mine.add(record) == 1
    assert asked == []
    assert other.add(record) == 2, "the first number was taken"
    assert asked == [0]
    assert mine.add(record) == 3
    assert asked == [0, 1]
    assert [one.seq for one in OpsLog(spark, lake, "shop").load().records] == [1, 2, 3]
