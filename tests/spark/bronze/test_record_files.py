"""Records that workers read from bronze's files, held to what Spark reads of the same ranges."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.spark.bronze import record_files as reading
from lakehouse.spark.bronze.offsets import unread, within
from lakehouse.spark.bronze.record_files import RecordFiles, record_files, unread_sizes
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver.columns import INPUT

PLACES = [(topic, life, number) for topic in ("a", "订单") for life in ("", "2") for number in (0, 1)]


def row_of(chance: random.Random, number: int) -> dict[str, Any]:
    topic, life, partition = chance.choice(PLACES)
    value = chance.choice([None, b"", b"\xff" * chance.randrange(50)])
    headers = [{"key": "k", "value": chance.choice([None, b"v"])}, {"key": None, "value": b""}]
    return {
        "topic": chance.choice([topic] * 20 + [None]),
        "incarnation": chance.choice([life] * 20 + [None]),
        "partition": partition,
        "offset": number,
        "timestamp": chance.choice([None, number]),
        "key": chance.choice([None, b"k"]),
        "value": value,
        "headers": chance.choice([None, [], headers]),
        "path": chance.choice([None, "p"]),
        "size": None if value is None else len(value),
    }


def write(spark: SparkSession, lake: Lake, chance: random.Random) -> None:
    rows = [row_of(chance, number) for number in range(200)]
    chance.shuffle(rows)
    for start in range(0, 200, 50):
        part = pa.Table.from_pylist(rows[start : start + 50], schema=to_arrow_schema(BRONZE_SCHEMA))
        if chance.random() < 0.5:
            lake.append(spark.createDataFrame(part, BRONZE_SCHEMA).coalesce(1), "bronze", "s")
        else:
            lake.append_rows(spark, "bronze", "s", part.to_pylist(), schema=BRONZE_SCHEMA)


def ranges_of(chance: random.Random) -> list[OffsetRange]:
    found = []
    for place in chance.sample(PLACES, chance.randint(1, len(PLACES))):
        first, last = sorted((chance.randrange(200), chance.randrange(200)))
        found.append(OffsetRange(*place, first, last=last, context=chance.choice([None, max(0, first - 9)])))
    return found


def files_of(spark: SparkSession, lake: Lake, ranges: list[OffsetRange], *, ordered: bool) -> RecordFiles:
    found = record_files(spark, lake, "s", ranges, columns=INPUT, ordered=ordered)
    assert found is not None
    return found


def listed(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(8))
def test_workers_read_what_spark_reads(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance, lake = random.Random(seed), Lake(str(tmp_path / "lake"))
    write(spark, lake, chance)
    for _ in range(3):
        ranges, shares = ranges_of(chance), chance.randint(1, 5)
        rows = within(lake.read(spark, "bronze", "s"), ranges).select(*INPUT).toArrow().to_pylist()
        expected = sorted(map(repr, rows))
        files = files_of(spark, lake, ranges, ordered=False)
        parts = [listed(list(files.share(number, shares, 7))) for number in range(shares)]
        assert sorted(repr(row) for part in parts for row in part) == expected
        files = files_of(spark, lake, ranges, ordered=True)
        parts = [listed(list(files.ordered_share(number, shares, 7))) for number in range(shares)]
        assert sorted(repr(row) for part in parts for row in part) == expected
        places = [{tuple(row[name] for name in reading.PLACE) for row in part} for part in parts]
        assert sum(map(len, places)) == len(set().union(*places))
        for part in parts:
            by_place = [tuple(row[name] for name in (*reading.PLACE, "offset")) for row in part]
            assert by_place == sorted(by_place)


@pytest.mark.parametrize("seed", range(4))
def test_the_driver_counts_what_spark_counts(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance, lake = random.Random(seed), Lake(str(tmp_path / "lake"))
    write(spark, lake, chance)
    bronze = lake.read(spark, "bronze", "s").where("topic is not null and incarnation is not null")
    for _ in range(3):
        places = chance.sample(PLACES, chance.randint(0, len(PLACES)))
        following = [NextOffset(*place, chance.randrange(210)) for place in places]
        fresh = unread(bronze, following).selectExpr(
            *reading.PLACE, "offset", "coalesce(size, 0) + 100 AS bytes"
        )
        found = unread_sizes(spark, lake, "s", following)
        assert found is not None
        rows = [row for row in found.to_pylist() if None not in row.values()]
        assert sorted(map(repr, rows)) == sorted(map(repr, fresh.toArrow().to_pylist()))


def test_files_of_which_all_is_read_are_not_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, chance = Lake(str(tmp_path / "lake")), random.Random(1)
    rows = [
        {**row_of(chance, number), "topic": "a", "incarnation": "", "partition": 0} for number in range(90)
    ]
    for start, end in ((0, 60), (60, 90)):
        lake.append_rows(spark, "bronze", "s", rows[start:end], schema=BRONZE_SCHEMA)
    monkeypatch.setattr(reading, "MOST_SIZES", 30)
    found = unread_sizes(spark, lake, "s", [NextOffset("a", "", 0, 60)])
    assert found is not None and found.num_rows == 30
    assert unread_sizes(spark, lake, "s", [NextOffset("a", "", 0, 59)]) is None


def test_a_file_of_several_partitions_is_not_looked_at_once_all_of_them_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, chance = Lake(str(tmp_path / "lake")), random.Random(1)
    rows = [
        {**row_of(chance, n), "topic": "a", "incarnation": "", "partition": n % 2, "offset": n // 2}
        for n in range(60)
    ]
    lake.append_rows(spark, "bronze", "s", rows, schema=BRONZE_SCHEMA)
    monkeypatch.setattr(reading, "MOST_SIZES", 0)
    found = unread_sizes(spark, lake, "s", [NextOffset("a", "", n, 30) for n in (0, 1)])
    assert found is not None and found.num_rows == 0
    assert unread_sizes(spark, lake, "s", [NextOffset("a", "", 0, 30)]) is None
    assert unread_sizes(spark, lake, "s", [NextOffset("a", "", n, 30 - n) for n in (0, 1)]) is None


def test_workers_take_equal_shares(spark: SparkSession, tmp_path: Path) -> None:
    lake, chance = Lake(str(tmp_path / "lake")), random.Random(1)
    rows = [
        {**row_of(chance, number), "topic": "a", "incarnation": "", "partition": 0} for number in range(90)
    ]
    for start, end in ((0, 60), (60, 90)):
        lake.append_rows(spark, "bronze", "s", rows[start:end], schema=BRONZE_SCHEMA)
    files = files_of(spark, lake, [OffsetRange("a", "", 0, 0, last=89)], ordered=False)
    assert [len(listed(list(files.share(number, 4, 10)))) for number in range(4)] == [22, 23, 22, 23]
    files = files_of(spark, lake, [OffsetRange("a", "", 0, 60, last=70)], ordered=False)
    assert len(files.files) == 1


def test_spark_reads_what_workers_can_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, ranges = Lake(str(tmp_path / "lake")), [OffsetRange("a", "", 0, 0, last=9)]
    assert record_files(spark, lake, "s", ranges, columns=INPUT, ordered=False) is None
    write(spark, lake, random.Random(1))
    assert record_files(spark, lake, "s", ranges * 65, columns=INPUT, ordered=False) is None
    monkeypatch.setattr(reading, "MOST_BYTES", 1)
    assert record_files(spark, lake, "s", ranges, columns=INPUT, ordered=True) is None
    assert record_files(spark, lake, "s", ranges, columns=INPUT, ordered=False) is not None
    spark.sql(
        f"ALTER TABLE {lake.ref('bronze', 's')} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
    )
    assert record_files(spark, lake, "s", ranges, columns=INPUT, ordered=False) is None
