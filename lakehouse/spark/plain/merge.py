"""MERGE of the driver's rows into a small gold table on this machine's own disk, without Spark: Delta's takes
half a CPU second or more, whatever the number of rows.

Those files are read in which a row of a key lies, and are written anew as one, as Delta does without deletion
vectors. Delta itself merges into tables that are not small, or use what is not known here, by keys whose
equality Arrow does not know as Spark does, and where it makes a checkpoint. Format: PROTOCOL.md of
delta-io/delta, "Column Mapping", "Type Widening", and those of lakehouse/spark/plain/append.py.
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.spark.commit_files import UNREADABLE, live_files
from lakehouse.spark.plain.append import Version, commit, newest_version
from lakehouse.spark.plain.files import discard, write_file

_FEATURES = {"timestampNtz", "typeWidening", "columnMapping", "invariants", "appendOnly"}
_MARKS = "delta.enableDeletionVectors"
# properties and their values that ask nothing else of a writer
_PROPERTIES = {
    "delta.enableTypeWidening": {"true"},
    "delta.columnMapping.mode": {"name"},
    "delta.columnMapping.maxColumnId": None,
    "delta.checkpointInterval": None,
    "delta.logRetentionDuration": None,
    "delta.deletedFileRetentionDuration": None,
}
ID, PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_OF_COLUMNS = {ID, PHYSICAL, "comment", "delta.typeChanges"}
# of these types Spark takes values for equal that are equal here, and no others
_KEYS = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.DecimalType,
    T.TimestampNTZType,
)
# and of these they have the same bits; of a struct Delta names the members otherwise in files, and a cast
# makes NULL of those
_VALUES = (*_KEYS, T.BooleanType, T.FloatType, T.DoubleType, T.TimestampType)
# a text that all rows have is in a file once: so many bytes of rows are held of each, read so many at once
_MOST, _AT_ONCE = 64 * 1024 * 1024, 1024
# how Spark marks a file whose dates before 1582 it has written by the Julian calendar
_JULIAN = b"org.apache.spark.legacy"


class Wanted(NamedTuple):
    """Rows to put and to delete, in columns of gold's names and types; whether each is to be deleted; the
    columns that make a row's key, of which the table may lack companions; how many bytes the table's files
    may have; and whether rows that are replaced may be marked in deletion vectors. `keyless`: the rows to put
    are new ones, and one to delete stands for all that are equal to it in `keys`, which are all columns.
    """

    rows: pa.Table
    deleted: list[bool]
    keys: Sequence[str]
    most: int
    marks: bool = True
    keyless: bool = False


class Done(NamedTuple):
    """The version that was made, how many of the rows the table had before, and how many were put."""

    version: int
    matched: int
    written: int


class _Kept(NamedTuple):
    """A file's rows that are no key's, under gold's names; None where it has none of a key, and stays."""

    rows: pa.Table | None
    met: list[Any]


class Prepared(NamedTuple):
    """A table's newest version, its columns, and the rows to merge in these: all of them, the keys that are
    looked for, and the columns of the table that make a key.
    """

    newest: Version
    fields: list[T.StructField]
    schema: pa.Schema
    rows: pa.Table
    asked: list[tuple[Any, ...]]
    keys: list[str]


def prepared(table: Path, wanted: Wanted, *, marks: bool, due: bool = False) -> Prepared | None:
    """What a merge without Spark begins with; `marks`: into a table with deletion vectors, `due`: also where
    Delta is to make the next version. None where Delta has to merge.
    """
    newest = newest_version(table, due=due)
    if newest is None or not is_known(newest, marks=marks):
        return None
    fields = T.StructType.fromJson(json.loads(newest.told["metadata"]["schemaString"])).fields
    if not all(map(_is_copied, fields)):
        return None
    schema = to_arrow_schema(T.StructType(fields)).remove_metadata()
    keys = [field.name for field in fields if field.name in wanted.keys]
    if not _is_fitting(fields, schema, wanted):
        return None
    rows = pa.table([_column(wanted.rows, field) for field in schema], schema=schema)
    asked = _keys_of(rows.filter(pa.array(wanted.deleted, pa.bool_())) if wanted.keyless else rows, keys)
    if len(set(asked)) < len(asked):
        return None
    return Prepared(newest, fields, schema, rows=rows, asked=asked, keys=keys)


def merge_plain(table: Path, wanted: Wanted) -> Done | None:
    """Merge rows by key into the table in a folder: a row of the key is replaced or deleted, others are
    added. None where nothing was done, and Delta has to do it.
    """
    found = prepared(table, wanted, marks=False)
    if found is None or found.newest.told["tableSizeBytes"] > wanted.most:
        return None
    newest, fields, schema, rows, asked, keys = found
    try:
        files = live_files(table, newest.number)
        if files is None or any(one.get("deletionVector") for one in files.values()):
            return None
        read = files if asked else ()
        kept = {path: _kept(table / path, schema, fields, keys=keys, asked=set(asked)) for path in read}
    except UNREADABLE:
        return None
    met = Counter(key for one in kept.values() for key in one.met)
    if met.total() > len(met) and not wanted.keyless:
        return None
    put = rows.filter(pa.array([not gone for gone in wanted.deleted], pa.bool_()))
    touched = [path for path, one in kept.items() if one.rows is not None]
    if not touched and not put.num_rows:
        return Done(newest.number, 0, 0)
    written = pa.concat_tables([*(one.rows for path, one in kept.items() if one.rows is not None), put])
    info = info_of(met, found, wanted, copied=written.num_rows - put.num_rows)
    with suppress(OSError):
        added = [write_file(table, physical(written, fields), None)] if written.num_rows else []
        if commit(table, newest, info, added, removed=[files[path] for path in touched]):
            return Done(newest.number + 1, met.total(), put.num_rows)
        discard(table, *(one["path"] for one in added))
    return None


def is_known(newest: Version, *, marks: bool) -> bool:
    """Whether nothing of the table asks for what is not done here; `marks`: it has deletion vectors."""
    protocol = newest.told["protocol"]
    features = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
    properties = newest.properties
    return (
        (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
        and features <= (_FEATURES | {"deletionVectors"} if marks else _FEATURES)
        and (properties.get(_MARKS) == "true") is marks
        and "columnMapping" in features
        and properties.get("delta.columnMapping.mode") == "name"
        and all(
            name in _PROPERTIES and ((known := _PROPERTIES[name]) is None or value in known)
            for name, value in properties.items()
            if name != _MARKS
        )
    )


def _is_copied(field: T.StructField) -> bool:
    """Whether a column's cells are in a new file what they were in the old one."""
    type_ = field.dataType
    return (
        isinstance(type_.elementType if isinstance(type_, T.ArrayType) else type_, _VALUES)
        and field.nullable
        and {ID, PHYSICAL} <= field.metadata.keys() <= _OF_COLUMNS
    )


def _is_fitting(fields: list[T.StructField], schema: pa.Schema, wanted: Wanted) -> bool:
    """Whether the table has the columns of the rows, and its keys can be compared here."""
    types, compared = {field.name: field.type for field in schema}, _VALUES if wanted.keyless else _KEYS
    return (
        all(types.get(field.name) == field.type for field in wanted.rows.schema)
        and all(isinstance(field.dataType, compared) for field in fields if field.name in wanted.keys)
        and any(field.name in wanted.keys for field in fields)
    )


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """The rows' column, or NULLs where they do not have it."""
    has_it = field.name in rows.column_names
    return rows.column(field.name) if has_it else pa.nulls(rows.num_rows, field.type)


def _keys_of(rows: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = (comparable(rows.column(name).combine_chunks()) for name in keys)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def comparable(values: pa.Array) -> pa.Array:
    """The values as Python compares them: floating-point numbers by their bits, as 0.0 and -0.0 are different
    rows and NaN is equal to itself; times by theirs, of which some are none in Python.
    """
    if pa.types.is_floating(values.type) or pa.types.is_temporal(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values


def _kept(
    file: Path, schema: pa.Schema, fields: list[T.StructField], *, keys: list[str], asked: set[Any]
) -> _Kept:
    """What a file keeps. A column that came behind it is NULL in it, and one that was widened is narrower."""
    read = _read(file)
    held = set(read.column_names)
    logical = {
        field.name: read.column(field.metadata[PHYSICAL]).cast(schema.field(field.name).type)
        if field.metadata[PHYSICAL] in held
        else pa.nulls(read.num_rows, schema.field(field.name).type)
        for field in fields
    }
    rows = pa.table(list(logical.values()), schema=schema)
    found = _keys_of(rows, keys)
    met = [key for key in found if key in asked]
    return _Kept(rows.filter(pa.array([key not in asked for key in found])) if met else None, met)


def _read(file: Path) -> pa.Table:
    """A file's rows; a ValueError where they are not for this process."""
    read = opened(file)
    batches, held = [], 0
    for batch in read.iter_batches(_AT_ONCE):
        batches.append(batch)
        held += batch.nbytes
        if held > _MOST:
            raise ValueError(f"{file}: expected up to {_MOST} bytes of rows, got more")
    return pa.Table.from_batches(batches) if batches else read.read()


def opened(file: Path) -> pq.ParquetFile:
    """A table's file; a ValueError where its dates are not those of this process."""
    read = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    if any(key.startswith(_JULIAN) for key in read.metadata.metadata or {}):
        raise ValueError(f"{file}: expected dates of one calendar, got some of another")
    return read


def physical(rows: pa.Table, fields: list[T.StructField]) -> pa.Table:
    """The rows under the names that files have, with the columns' ids."""
    named = [
        pa.field(
            field.metadata[PHYSICAL], column.type, metadata={"PARQUET:field_id": str(field.metadata[ID])}
        )
        for field, column in zip(fields, rows.schema, strict=True)
    ]
    return pa.table(rows.columns, schema=pa.schema(named))


def info_of(met: Counter[Any], found: Prepared, wanted: Wanted, *, copied: int) -> dict[str, Any]:
    """What a commit says of a merge that has met these keys of gold."""
    put = (
        [] if wanted.keyless else [k for k, gone in zip(found.asked, wanted.deleted, strict=True) if not gone]
    )
    updated, number = sum(key in met for key in put), wanted.deleted.count(False)
    told = {
        "numTargetRowsInserted": number - updated,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": met.total() - updated,
        "numTargetRowsCopied": copied,
        "numOutputRows": number + copied,
        "numSourceRows": found.rows.num_rows,
    }
    return {
        "operation": "MERGE",
        "operationParameters": {},
        "isBlindAppend": False,
        "operationMetrics": {name: str(number) for name, number in told.items()},
    }
