"""Rows between Python and Spark, through Arrow: frames of the driver's rows, batches of a worker's rows, and
the type of the functions that workers run over a frame (`mapInArrow`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

# a worker hands back so many rows at once, or what it has made of so many bytes
OUT_ROWS, OUT_BYTES = 8192, 16 * 1024 * 1024
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Metered:
    """Batches that a worker takes, and whether it has read so much that it should hand back its rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._bytes = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._bytes += batch.nbytes
            yield batch

    def take_much(self) -> bool:
        """Whether they had OUT_BYTES since this was last true; then it counts from 0 again."""
        if self._bytes < OUT_BYTES:
            return False
        self._bytes = 0
        return True


def rows_frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """A DataFrame of the driver's rows; a column that a row lacks is NULL."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema)), schema)


def rows_batch(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """An Arrow batch of a worker's rows, whose values are in the schema's order."""
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def columns_frame(spark: SparkSession, schema: StructType, values: list[list[Any]]) -> DataFrame:
    """A DataFrame from columns of Python values."""
    names = [f"c{index}" for index in range(len(values))]
    plain = StructType(list(map(StructField, names, (field.dataType for field in schema))))
    frame = spark.createDataFrame(arrow_rows(schema, values).rename_columns(names), plain)
    # renamed afterwards: a name may hold anything, dots and quotes included
    return frame.select(
        *[
            frame[name].alias(field.name, metadata=field.metadata or {})
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def arrow_rows(schema: StructType, values: list[list[Any]]) -> pa.Table:
    """The rows of columns of Python values."""
    plain = to_arrow_schema(schema).remove_metadata()
    arrays = [pa.array(column, field.type) for column, field in zip(values, plain, strict=True)]
    return pa.Table.from_arrays(arrays, schema=plain)
