"""A table's changes that workers read from silver's files, held to what Spark makes of the same table: the
same rows in the same order within each key.
"""

import random
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.row_edits import TELLING
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.schema import Column, make_schema, parse_type
from lakehouse.spark.change_log.changes import between, of_lineage
from lakehouse.spark.fold import silver_files
from lakehouse.spark.fold.by_key import grouped
from lakehouse.spark.fold.deltas import Piece
from lakehouse.spark.fold.silver_files import ChangeFiles, SilverFiles
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver.tables import silver_schema

SCHEMA = silver_schema("changes")
NAMES = [("shop", "orders"), ("shop", "items"), ("Ünï", "订单"), ("shop", "x" * 40), ("shop", "x" * 40 + "y")]


def position_of(chance: random.Random) -> Position:
    rest = [chance.choice((0, 0, 1)) for _ in range(4)]
    return (chance.randrange(2), chance.randrange(4), rest[0], rest[1], rest[2], rest[3])


def row_of(chance: random.Random, number: int) -> dict[str, Any]:
    database, table = chance.choice(NAMES)
    flags = chance.choice([None, [], ["snapshot"], [chance.choice(TELLING)], ["snapshot", TELLING[0], "é"]])
    return {
        "database": chance.choice([database] * 20 + [None]),
        "table": table,
        "key": chance.choice([None, "[1]", '["ä"]', '["\U0001f600"]', f"[{number % 7}]"]),
        "op": "insert",
        "position": dict(zip(POSITION_PARTS, position_of(chance), strict=True)),
        "after": f'{{"id":{number}}}',
        "before": None,
        "encoding": "mysql",
        "flags": flags,
        "batch": chance.randrange(1, 4),
    }


def lineage_of(chance: random.Random) -> Lineage:
    schema = make_schema([Column(1, "id", parse_type("bigint"))], ("id",))
    places = sorted({(-1, 0, 0, 0, 0, 0), *(position_of(chance) for _ in range(2))})
    intervals = [
        Interval(chance.choice(NAMES), low, chance.choice([None, *places]))
        for low in places[: chance.randint(1, 2)]
    ]
    steps = [Step((-1, 0, 0, 0, 0, 0), schema), *(Step(place, schema) for place in places[1:])]
    return Lineage("1", steps, intervals)


def in_groups(rows: list[dict[str, Any]]) -> dict[Any, list[Any]]:
    """By key the rows as they came; those of one position have no order."""
    found = {}
    for key, group in groupby(rows, key=lambda row: row["key"]):
        assert key not in found
        mine = list(group)
        places = [tuple(row["position"].values()) for row in mine]
        assert places == sorted(places)
        found[key] = sorted(map(repr, mine))
    return found


def by_spark(spark: SparkSession, lake: Lake, lineage: Lineage, piece: Piece, *, low: Any, high: Any) -> Any:
    changes = lake.read(spark, "silver", "s_changes").where((F.col("batch") <= 2) & of_lineage(lineage))
    frame = grouped(changes.where(between(low, high)), piece, 3)
    parts: list[list[dict[str, Any]]] = [[], [], []]
    for row in frame.withColumn("_part", F.spark_partition_id()).collect():
        parts[row["_part"]].append({k: v for k, v in row.asDict(recursive=True).items() if k != "_part"})
    return {key: rows for part in parts for key, rows in in_groups(part).items()}


def by_files(found: ChangeFiles, piece: Piece, shares: int) -> Any:
    groups: dict[Any, list[Any]] = {}
    for number in range(shares):
        batches = list(found.share(piece, number, shares))
        mine = in_groups([row for batch in batches for row in batch.to_pylist()])
        assert not groups.keys() & mine.keys()
        groups |= mine
    return groups


@pytest.mark.parametrize("seed", range(12))
def test_workers_read_what_spark_reads(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, lake = random.Random(seed), Lake(str(tmp_path / "lake"))
    monkeypatch.setattr(silver_files, "_READ_ROWS", 7)
    monkeypatch.setattr(silver_files, "_BATCH_ROWS", 5)
    rows = [row_of(chance, number) for number in range(120)]
    for start in range(0, 120, 40):
        part = pa.Table.from_pylist(rows[start : start + 40], schema=to_arrow_schema(SCHEMA))
        if chance.random() < 0.5:
            lake.append(spark.createDataFrame(part, SCHEMA).coalesce(1), "silver", "s_changes")
        else:
            lake.append_rows(spark, "silver", "s_changes", part.to_pylist(), schema=SCHEMA)
    told = 0
    for _ in range(4):
        lineage = lineage_of(chance)
        low = chance.choice([None, None, position_of(chance)])
        high = chance.choice([(9, 0, 0, 0, 0, 0), position_of(chance)])
        end = chance.randrange(len(lineage.steps))
        piece = Piece(lineage, 0, end, Upstream())
        found = SilverFiles(Path(lake.path("silver", "s_changes")), 2).of(lineage, low, high, images=0)
        assert found is not None
        expected = by_spark(spark, lake, lineage, piece, low=low, high=high)
        assert by_files(found, piece, shares=2) == expected
        told += len(expected)
    assert told


def test_files_below_a_window_and_of_other_tables_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    lake, chance = Lake(str(tmp_path / "lake")), random.Random(1)
    for epoch, table in ((0, "orders"), (1, "items"), (1, "orders")):
        rows = [{**row_of(chance, 1), "database": "shop", "table": table} for _ in range(3)]
        for row in rows:
            row["position"]["epoch"] = epoch
        lake.append_rows(spark, "silver", "s_changes", rows, schema=SCHEMA)
    schema = make_schema([Column(1, "id", parse_type("bigint"))], ("id",))
    low, first = (1, -1, 0, 0, 0, 0), (-1, 0, 0, 0, 0, 0)
    lineage = Lineage("1", [Step(first, schema)], [Interval(("shop", "orders"), first, None)])
    files = SilverFiles(Path(lake.path("silver", "s_changes")), 9)
    found = files.of(lineage, low, (9, 0, 0, 0, 0, 0), images=0)
    assert found is not None and len(found.names) == 1
    whole = files.of(lineage, None, (9, 0, 0, 0, 0, 0), images=0)
    assert whole is not None and len(whole.names) == 2


def test_spark_reads_what_workers_can_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, chance = Lake(str(tmp_path / "lake")), random.Random(1)
    lineage, high = lineage_of(chance), (9, 0, 0, 0, 0, 0)
    lake.append_rows(spark, "silver", "s_changes", [row_of(chance, n) for n in range(50)], schema=SCHEMA)
    files = SilverFiles(Path(lake.path("silver", "s_changes")), 9)
    # texts that come again and again are in a file once
    assert files.of(lineage, None, high, images=silver_files.MOST_BYTES)
    assert files.of(lineage, None, high, images=silver_files.MOST_BYTES + 1) is None
    monkeypatch.setattr(silver_files, "MOST_BYTES", 1)
    assert files.of(lineage, None, high, images=0) is None
    monkeypatch.undo()
    table = lake.ref("silver", "s_changes")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    assert files.of(lineage, None, high, images=0) is None
    assert SilverFiles(tmp_path / "none", 9).of(lineage, None, high, images=0) is None
