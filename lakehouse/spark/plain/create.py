"""A new Delta table of the driver's rows on this machine's own disk, without Spark: Delta's own first commit
takes a fifth of a CPU second, with the job that writes the rows.

What is written is what Delta would write of the same properties: column names that are mapped, the features
that the properties ask for, one file. Delta itself makes tables of what is not known here, and all of them
where the session has properties for new tables. Format: PROTOCOL.md of delta-io/delta, "Change Metadata",
"Column Mapping" and "Table Features", and those of lakehouse/spark/plain/append.py.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakehouse.spark.plain.append import Version, commit
from lakehouse.spark.plain.files import Added, discard, rows_of, write_file
from lakehouse.spark.plain.merge import ID, PHYSICAL, physical

_DEFAULTS = "spark.databricks.delta.properties.defaults."
# what a property of a new table is called among the protocol's features
_FEATURES = {
    ("delta.columnMapping.mode", "name"): "columnMapping",
    ("delta.enableTypeWidening", "true"): "typeWidening",
    ("delta.feature.timestampNtz", "supported"): "timestampNtz",
    ("delta.enableDeletionVectors", "false"): None,
}
_WRITERS = ("invariants", "appendOnly")
# types that ask for no feature of their own
_TYPES = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


def has_defaults(spark: SparkSession) -> bool:
    """Whether the session has properties for new tables, which Delta would set."""
    names = spark._jsparkSession.conf().getAll().keys().mkString("\n")
    return any(name.startswith(_DEFAULTS) for name in names.split("\n"))


def mapped_fields(schema: T.StructType, properties: Mapping[str, str]) -> list[T.StructField] | None:
    """The columns of a new table with their ids and names in files, of columns that have no metadata but
    comments; None where Delta has to make the table.
    """
    if not (properties.items() <= _FEATURES.keys() and _is_fitting(schema)):
        return None
    return [_mapped(field, number) for number, field in enumerate(schema, 1)]


def create_plain(table: Path, rows: pa.Table, schema: T.StructType, properties: Mapping[str, str]) -> bool:
    """Make a table of these rows and properties in a folder that has no table. False where nothing was done,
    and Delta has to do it.
    """
    fields = mapped_fields(schema, properties)
    if fields is None:
        return False
    with suppress(OSError):
        table.mkdir(parents=True, exist_ok=True)
        added = [write_file(table, physical(rows, fields), None)] if rows.num_rows else []
        if create_mapped(table, fields, added, properties):
            return True
        discard(table, *(one["path"] for one in added))
    return False


def create_mapped(
    table: Path, fields: list[T.StructField], added: Sequence[Added], properties: Mapping[str, str]
) -> bool:
    """Make a table of files that lie in its folder already, and of columns as `mapped_fields` gives them.
    False where nothing was done; the files are the caller's then.
    """
    newest = Version.none({"metadata": _metadata(fields, properties), "protocol": _protocol(properties)})
    info: dict[str, Any] = {
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
        "isBlindAppend": False,
        "operationMetrics": {"numFiles": str(len(added)), "numOutputRows": str(rows_of(added))},
    }
    with suppress(OSError):
        (table / "_delta_log").mkdir(exist_ok=True)
        return commit(table, newest, info, added)
    return False


def _metadata(fields: list[T.StructField], properties: Mapping[str, str]) -> dict[str, Any]:
    highest = str(max(field.metadata[ID] for field in fields))
    said = {name: value for name, value in properties.items() if not name.startswith("delta.feature.")}
    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": T.StructType(fields).json(),
        "partitionColumns": [],
        "configuration": {**said, "delta.columnMapping.maxColumnId": highest},
        "createdTime": int(time.time() * 1000),
    }


def _protocol(properties: Mapping[str, str]) -> dict[str, Any]:
    features = [name for name in map(_FEATURES.get, properties.items()) if name is not None]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, *_WRITERS],
    }


def _is_fitting(schema: T.StructType) -> bool:
    names = {field.name.lower() for field in schema}
    return len(names) == len(schema) > 0 and all(
        field.nullable and field.metadata.keys() <= {"comment"} and _is_known(field.dataType)
        for field in schema
    )


def _is_known(type_: T.DataType) -> bool:
    while isinstance(type_, T.ArrayType):
        type_ = type_.elementType
    return isinstance(type_, _TYPES)


def _mapped(field: T.StructField, number: int) -> T.StructField:
    metadata = {**field.metadata, ID: number, PHYSICAL: f"col-{uuid.uuid4()}"}
    return T.StructField(field.name, field.dataType, True, metadata)
