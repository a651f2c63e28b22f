"""Rows between Python and Spark, through Arrow: frames of the driver's rows, batches of a worker's rows, and
the type of the functions that workers run over a frame (`mapInArrow`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def rows_frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """A DataFrame of the driver's rows; a column that a row lacks is NULL."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema)), schema)


def rows_batch(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """An Arrow batch of a worker's rows, whose values are in the schema's order."""
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
