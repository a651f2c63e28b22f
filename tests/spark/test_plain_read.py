"""Rows of plain tables that are read without Spark."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.spark.plain import read
from lakehouse.spark.plain.read import read_batches

SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def test_of_large_rows_few_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small rows behind them were asked for, so many at once as are few bytes."""
    monkeypatch.setattr(read, "_AT_ONCE", 50_000)
    rows = [{"offset": n, "value": bytes(10_000 if n < 60 else 1)} for n in range(1000)]
    with pq.ParquetWriter(tmp_path / "f", SCHEMA, compression="none", use_dictionary=False) as file:
        for start, end in ((0, 20), (20, 60), (60, 1000)):
            file.write_table(pa.Table.from_pylist(rows[start:end], schema=SCHEMA))

    batches = list(read_batches(tmp_path, ["f"], SCHEMA, 900))

    assert [row for batch in batches for row in batch.to_pylist()] == rows
    assert max(batch.nbytes for batch in batches) < 60_000
    assert [batch.num_rows for batch in batches[-2:]] == [900, 40]
