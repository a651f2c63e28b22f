"""What a batch of a storage sink's files needs of those that have landed before."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.formats.assemble import BatchContext
from lakehouse.formats.ticdc.storage_layout import DataFile, classify
from lakehouse.sources.file_systems import FileInfo
from lakehouse.spark.bronze.storage import append
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.silver.context import RANGES, batch_context, conditions, dispatchers_of, first_files
from tests.support.lakes import quiet

CSV = {"protocol": "csv", "include-commit-ts": "true"}


def test_dispatchers_are_counted_in_the_folders_of_a_batch_alone(spark: Any) -> None:
    paths = ["d/t/400/meta/schema_400_1.json", "d/t/400/CDC000001.csv", "d/t/400/CDC_b-1_000001.csv"]
    paths += [f"d/t/400/CDC000{number:03}.csv" for number in range(2, 40)]
    paths += [f"d/t/500/CDC_{writer}_000001.csv" for writer in ("x", "y")]
    paths += ["d/t/400/CDC_c_000001.csv", "d/t/400/2026-11-21/CDC_d_000001.csv", "d/o/400/CDC_e_000001.csv"]
    rows = [("s", "", 0, offset, path) for offset, path in enumerate(paths)]
    schema = "topic string, incarnation string, partition int, offset bigint, path string"
    bronze = spark.createDataFrame(rows, schema).coalesce(1)

    # a file of one dispatcher, one behind the second and one behind the third
    landed = [(paths[offset], offset) for offset in (1, *range(40, 44))]

    assert dispatchers_of(bronze, landed, CSV) == {40: 2, 42: 2, 43: 3}
    assert first_files(bronze, {"d/t/400"}).count() == 3, "one of forty files for each dispatcher"


def test_a_batch_gets_the_schema_files_that_its_records_need(spark: Any, tmp_path: Path) -> None:
    """Each as it landed last, of those that had landed when the batch was planned. Their bytes alone are
    read: what a sink has written by now may be terabytes.
    """
    log = OpsLog(spark, Lake(str(tmp_path)), "s").load()
    old = {f"d/t{number}/meta/schema_400_1.json": schema_of("a") for number in range(20)}
    data = {f"d/t{number}/400/CDC000001.csv": b"x" for number in (7, 9)}
    lots = [old, data, {"d/t7/meta/schema_400_1.json": schema_of("b")}, {"metadata": b"{}"}]
    lots.append({"d/t7/meta/schema_400_1.json": schema_of("c")})
    following = [sum(map(len, lots[:number])) for number in range(len(lots))]
    for lot, offset in zip(lots, following, strict=True):
        files = [(FileInfo(path, len(value), 1), value) for path, value in lot.items()]
        append(RunContext(log, quiet), files, offset)

    def given(*paths: str | None) -> BatchContext:
        rows = {
            "path": pa.array(paths, pa.string()),
            "offset": pa.array(range(20, 20 + len(paths)), pa.int64()),
        }
        return batch_context(log, "ticdc-storage", CSV, [], files=following[-1], records=pa.table(rows))

    found = given("d/t7/400/CDC000001.csv", "metadata", "d/t9/meta/schema_400_1.json", None).schemas
    file = classify("d/t7/400/CDC000001.csv", CSV)
    assert found is not None
    assert isinstance(file, DataFile)
    assert found.headers(file) == (("schema", schema_of("b")),)
    assert {place[1] for place in found.known} == {"t7", "t9"}
    assert given("metadata", None) == BatchContext()
    every = batch_context(log, "ticdc-storage", CSV, [], files=following[-1]).schemas
    assert every is not None
    assert len(every.known) == 20

    bronze = log.lake.read(spark, "bronze", "s")
    parts = [bronze.where(condition) for condition in conditions([*range(20), 22])]
    assert [len(part.inputFiles()) for part in parts] == [2], "files of Parquet that have data are not opened"
    assert sum(part.count() for part in parts) == 21
    assert len(list(conditions(range(0, 4 * RANGES, 2)))) == 2


def schema_of(column: str) -> bytes:
    told = {"TableVersion": 400, "TableColumns": [{"ColumnName": column, "ColumnType": "INT"}]}
    return json.dumps(told).encode()
