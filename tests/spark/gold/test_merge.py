"""A large gold table is written in the order of its key, and a MERGE opens the files alone that have the
batch's keys.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.gold.options import GoldOptions
from lakehouse.spark.fold import key_bounds
from lakehouse.spark.fold.typed_rows import OP
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.gold.merge import merge_frame, replace_frame
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.maintain import GOLD_FILES, optimize
from tests.support.feeds import TiCDC

ROWS = 10_000


def key_of(create: str, names: str) -> list[GoldColumn]:
    schema = TiCDC().ddl(1, create).lineage().steps[0].schema
    return [column for column in gold_columns(schema, virtual=False) if column.name in names.split()]


def metrics(spark: Any, lake: Lake) -> dict[str, int]:
    row = spark.sql(f"DESCRIBE HISTORY {lake.ref('gold', 't')} LIMIT 1").first()
    return {name: int(value) for name, value in row["operationMetrics"].items() if value.isdigit()}


@pytest.mark.parametrize("vectors", [True, False])
def test_a_merge_marks_rows_or_rewrites_files_of_its_keys_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: bool
) -> None:
    monkeypatch.setattr(write_gold, "ORDERED_ROWS", 100)
    monkeypatch.setattr(write_gold, "ROWS_PER_FILE", 1_000)
    options = GoldOptions(deletion_vectors=vectors)
    lake, keys = (
        Lake(str(tmp_path)),
        key_of("CREATE TABLE t (id BIGINT, part VARCHAR(9), v INT, PRIMARY KEY (id, part))", "id part"),
    )
    # in the order in which a hash would leave them
    made = spark.range(ROWS).selectExpr("id", "concat('p', id % 3) part", "0 v").repartition(2, "part")
    replace_frame(spark, lake, "t", made, create=True, keys=keys, rows=ROWS)

    for low, count, files in ((ROWS - 50, 100, 1), (2_500, 10, 1), (-5, 5, 0)):
        batch = spark.range(low, low + count).selectExpr(
            "id", "concat('p', pmod(id, 3)) part", "1 v", f"'put' {OP}"
        )
        put = merge_frame(spark, lake, "t", batch, keys=keys, options=options, rows=ROWS)
        told = metrics(spark, lake)
        marked = told["numTargetDeletionVectorsAdded"] + told["numTargetDeletionVectorsUpdated"]
        assert (marked, told["numTargetFilesRemoved"]) == ((files, 0) if vectors else (0, files))
        assert put.written == count
    gone = spark.range(2_500, 2_503).selectExpr("id", "concat('p', id % 3) part", "1 v", f"'delete' {OP}")
    merge_frame(spark, lake, "t", gone, keys=keys, options=options, rows=ROWS)

    expected = dict.fromkeys(range(ROWS), 0) | dict.fromkeys(
        (*range(ROWS - 50, ROWS + 50), *range(2_503, 2_510), *range(-5, 0)), 1
    )
    held = {row.id: row.v for row in lake.read(spark, "gold", "t").collect()}
    assert held == {key: value for key, value in expected.items() if key not in range(2_500, 2_503)}


def test_maintenance_leaves_files_of_a_good_size_as_they_are(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, smallest = Lake(str(tmp_path)), "spark.databricks.delta.optimize.minFileSize"
    spark.range(100).repartition(5).write.format("delta").save(lake.path("gold", "t"))
    before = spark.conf.get(smallest)

    for size, files in (("1", 5), (GOLD_FILES[smallest], 1)):
        optimize(spark, lake.ref("gold", "t"), {**GOLD_FILES, smallest: size})
        assert spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', 't')}").first()["numFiles"] == files
    assert spark.conf.get(smallest) == before


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("INT", ["-5", "NULL", "7"]),
        ("DATE", ["DATE'0001-01-01'", "DATE'9999-12-31'"]),
        (
            "DATETIME(6)",
            ["TIMESTAMP_NTZ'2026-11-22 01:02:03.000001'", "TIMESTAMP_NTZ'2026-11-22 01:02:03.000002'"],
        ),
        ("VARCHAR(99)", [r"'it\'s'", r"'back\\slash'", "'é😀'", "''", "'%_ -- `'"]),
        ("VARCHAR(99)", ["'a'", r"'line\nbreak'"]),
        ("DOUBLE", ["1.5", "2.5"]),
        ("DECIMAL(30,2)", ["1.50"]),
        ("VARBINARY(9)", ["X'00ff'"]),
    ],
)
def test_every_row_of_a_batch_is_within_the_bounds(spark: Any, type_: str, values: list[str]) -> None:
    (key,) = key_of(f"CREATE TABLE t (`k``y` {type_}, PRIMARY KEY (`k``y`))", "k`y")
    rows = spark.sql(" UNION ALL ".join(f"SELECT CAST({value} AS {key.spark}) `k``y`" for value in values))

    bounds = key_bounds.key_bounds(rows, [key])

    assert bool(bounds) == (
        key.spark in key_bounds._BOUNDED
        and "NULL" not in values
        and not any(r"\n" in value for value in values)
    )
    rows.createOrReplaceTempView("bounded")
    assert spark.sql(f"SELECT * FROM bounded t WHERE {' AND '.join(['true', *bounds])}").count() == len(
        values
    )


@pytest.mark.parametrize(
    ("type_", "keys", "opened"),
    [
        ("BIGINT", [3, *range(1_000_000, 1_000_100)], 2),
        ("BIGINT", [-(2**63), 2**63 - 1], 1),  # as wide as the type: not looked at
        ("INT", [-(2**31), *range(-50, 50), 2**31 - 1], 3),
        ("INT", list(range(100)), 1),
        ("INT", [number * 1_000_000 for number in range(1_000)], 1),
        ("SMALLINT UNSIGNED", [0, 65_535], 2),
        ("BIGINT", sorted({2**number + delta for number in range(61) for delta in (0, 1, 7)}), 10),
        ("BIGINT", [number * 10**9 + delta for number in range(20) for delta in range(3)], 16),
    ],
)
def test_gaps_between_keys_are_left_out(spark: Any, type_: str, keys: list[int], opened: int) -> None:
    (key,) = key_of(f"CREATE TABLE t (id {type_}, PRIMARY KEY (id))", "id")
    spark.createDataFrame(pa.table({"id": pa.array(keys, "int64")})).createOrReplaceTempView("wide")
    rows = spark.sql(f"SELECT CAST(id AS {key.spark}) id FROM wide")

    (bound,) = key_bounds.key_bounds(rows, [key])

    assert bound.count(">=") == opened
    rows.createOrReplaceTempView("bounded")
    assert spark.sql(f"SELECT * FROM bounded t WHERE {bound}").count() == len(keys)
