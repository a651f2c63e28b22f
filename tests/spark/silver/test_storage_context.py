"""What a batch of a storage sink's files needs of those that have landed before."""

from typing import Any

from lakehouse.formats.assemble import BatchContext
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, join_schemas
from lakehouse.ops.progress import OffsetRange
from lakehouse.spark.silver.context import dispatchers_of, first_files, for_workers

CSV = {"protocol": "csv"}


def test_dispatchers_are_counted_in_the_folders_of_a_batch_alone(spark: Any) -> None:
    paths = ["d/t/400/meta/schema_400_1.json", "d/t/400/CDC000001.csv", "d/t/400/CDC_b-1_000001.csv"]
    paths += [f"d/t/400/CDC000{number:03}.csv" for number in range(2, 40)]
    paths += [f"d/t/500/CDC_{writer}_000001.csv" for writer in ("x", "y")]
    paths += ["d/t/400/CDC_c_000001.csv", "d/t/400/2026-11-21/CDC_d_000001.csv", "d/o/400/CDC_e_000001.csv"]
    rows = [("s", "", 0, offset, path) for offset, path in enumerate(paths)]
    schema = "topic string, incarnation string, partition int, offset bigint, path string"
    bronze = spark.createDataFrame(rows, schema).coalesce(1)

    # a file of one dispatcher, one behind the second and one behind the third
    ranges = [OffsetRange("s", "", 0, 1, last=1), OffsetRange("s", "", 0, 40, last=43)]

    assert dispatchers_of(bronze, ranges, CSV) == {40: 2, 42: 2, 43: 3}
    assert first_files(bronze, {"d/t/400"}).count() == 3, "one of forty files for each dispatcher"


def test_workers_get_the_schema_files_that_their_records_need(spark: Any) -> None:
    content = b'{"TableVersion": 400, "TableColumns": [{"ColumnName": "a", "ColumnType": "INT"}]}'
    told = [classify(f"d/t{number}/meta/schema_400_1.json", CSV) for number in range(50)]
    schemas = join_schemas((file, content) for file in told if isinstance(file, SchemaFile))
    paths = ["d/t7/400/CDC000001.csv", "d/t7/400/CDC000002.csv", "d/t9/meta/schema_400_1.json", "x", None]
    records = spark.createDataFrame([(path,) for path in paths], "path string")

    found = for_workers(BatchContext(schemas=schemas), records, CSV).schemas

    data = classify(paths[0] or "", CSV)
    assert found is not None
    assert isinstance(data, DataFile)
    assert found.headers(data) == schemas.headers(data) is not None
    assert {place[1] for place in found.known} == {"t7", "t9"}
    assert for_workers(BatchContext(), records, CSV) == BatchContext()
