"""Rows of gold tables on this machine's own disk, found by their keys without Spark: of each file that may
have rows of the keys only the keys are read first. A query of Spark reads all that the files have, and hands
the keys to each task.

The rows of a key are found by what Spark takes for equal (`prepared`). None says that only Spark can tell.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap
from pyspark.sql import types as T

from lakehouse.spark.commit_files import UNREADABLE, live_files
from lakehouse.spark.plain.deletion_vectors import read_vector
from lakehouse.spark.plain.files import Added
from lakehouse.spark.plain.merge import PHYSICAL, Prepared, Wanted, comparable, opened, prepared
from lakehouse.spark.plain.read import bytes_of

_MOST_ROWS = 50_000_000  # are looked at
# so many rows are read at once, fewer where they have texts, and these about so many bytes
_AT_ONCE, _TEXTS_AT_ONCE, _BYTES_AT_ONCE = 65_536, 32_768, 16 * 1024 * 1024
Key = tuple[Any, ...]


class Asked(NamedTuple):
    """The keys of the rows to merge: the table's columns that make one, as its files name them, with their
    types; the keys themselves, each once; the values of each column; and the columns in the order in which
    they are looked at: texts last, others by how many values are asked for.
    """

    physical: list[str]
    types: list[pa.DataType]
    keys: set[Key]
    values: list[pa.Array]
    order: list[int]


class Hits(NamedTuple):
    """The rows of a table's version that have one of the keys, of these columns, that are asked for: the
    table's files, by path; in each file that has such rows these, and those that were gone before; and how
    many rows have each key.
    """

    version: int
    keys: list[str]
    asked: list[Key]
    files: dict[str, Added]
    rows: dict[str, BitMap]
    gone: dict[str, BitMap]
    met: Counter[Key]


def equal_rows(table: Path, wanted: Wanted, version: int) -> Hits | None:
    """The rows of a table without a key that are equal to the rows to delete, at a version that is its newest
    one.
    """
    found = _prepared(table, wanted, version)
    return None if found is None else hits_of(table, found)


def rows_of_keys(
    table: Path, wanted: Wanted, version: int, names: Sequence[str]
) -> tuple[pa.Table, Hits] | None:
    """The rows that a table has of these keys, at a version that is its newest one, of some columns those
    that it has; and which they are.
    """
    found = _prepared(table, wanted, version)
    hits = None if found is None else hits_of(table, found)
    if found is None or hits is None:
        return None
    chosen = [field for field in found.fields if field.name in names]
    schema = pa.schema([found.schema.field(field.name) for field in chosen])
    try:
        read = [_taken(table / path, rows, chosen, schema) for path, rows in hits.rows.items()]
    except UNREADABLE:
        return None
    return pa.concat_tables([schema.empty_table(), *read]), hits


def is_of(hits: Hits, found: Prepared) -> bool:
    """Whether the rows are those of the keys that are looked for."""
    of_version = hits.version == found.newest.number and hits.keys == found.keys
    return of_version and set(hits.asked) == set(found.asked)


def _prepared(table: Path, wanted: Wanted, version: int) -> Prepared | None:
    found = prepared(table, wanted, marks=False, due=True) or prepared(table, wanted, marks=True, due=True)
    return found if found is not None and found.newest.number == version else None


def hits_of(table: Path, found: Prepared) -> Hits | None:
    """The rows that have the keys that are looked for."""
    asked = _asked(found)
    try:
        files = live_files(table, found.newest.number)
        chosen = None if files is None else _chosen(files, asked)
        if files is None or chosen is None:
            return None
        hits = Hits(
            found.newest.number, found.keys, found.asked, files=files, rows={}, gone={}, met=Counter()
        )
        for path in chosen:
            _add(hits, table, path, asked)
        return hits
    except (*UNREADABLE, TypeError, AttributeError):  # a file without statistics
        return None


def _asked(found: Prepared) -> Asked:
    named = {field.name: field.metadata[PHYSICAL] for field in found.fields}
    types = [found.schema.field(name).type for name in found.keys]
    values = [
        pa.array({key[column] for key in found.asked}, comparable(pa.array([], type_)).type)
        for column, type_ in enumerate(types)
    ]
    order = sorted(range(len(types)), key=lambda column: (not _is_short(types[column]), -len(values[column])))
    physical = [named[name] for name in found.keys]
    return Asked(physical, types, keys=set(found.asked), values=values, order=order)


def _is_short(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))


def _chosen(files: dict[str, Added], asked: Asked) -> list[str] | None:
    """The files that may have one of the keys. None where these have too many rows to look at."""
    values = {
        column: sorted(key[column] for key in asked.keys if key[column] is not None)
        for column, type_ in enumerate(asked.types)
        if pa.types.is_integer(type_) or pa.types.is_string(type_)
    }
    chosen = [path for path, file in files.items() if asked.keys and _may_have(file, asked, values)]
    rows = sum(json.loads(files[path]["stats"])["numRecords"] for path in chosen)
    return chosen if rows <= _MOST_ROWS else None


def _add(hits: Hits, table: Path, path: str, asked: Asked) -> None:
    """Add the rows of a file."""
    gone, rows = read_vector(table, hits.files[path].get("deletionVector")), BitMap()
    for number, key in _rows_of(table / path, asked):
        if key in asked.keys and number not in gone:
            rows.add(number)
            hits.met[key] += 1
    if rows:
        hits.rows[path], hits.gone[path] = rows, gone


def _may_have(file: Added, asked: Asked, values: dict[int, list[Any]]) -> bool:
    """Whether a file may have one of the keys, as its statistics tell of the columns that are whole numbers
    or texts: bounds of long texts are cut such that they still are bounds.
    """
    told = json.loads(file["stats"])
    for column, wanted in values.items():
        name = asked.physical[column]
        low, high = (told.get(bounds, {}).get(name) for bounds in ("minValues", "maxValues"))
        if low is None or high is None or told.get("nullCount", {}).get(name) != 0:
            continue
        if bisect_left(wanted, low) >= bisect_right(wanted, high):
            return False
    return True


def _rows_of(file: Path, asked: Asked) -> Iterator[tuple[int, Key]]:
    """The number and the key of each row that has one of the wanted values in each column."""
    read = opened(file)
    held = set(read.schema_arrow.names)
    if held.isdisjoint(asked.physical):
        raise ValueError(f"{file}: expected a column of the key, got none")

    def cells(column: int, batch: pa.RecordBatch) -> pa.Array:
        name, type_ = asked.physical[column], asked.types[column]
        return comparable(batch.column(name).cast(type_) if name in held else pa.nulls(batch.num_rows, type_))

    def is_met(column: int, found: pa.Array) -> pa.Array:
        return pc.is_in(found, value_set=asked.values[column])

    first, *rest = asked.order
    if rest and (name := asked.physical[first]) in held:
        # many files have none of the most selective column's values
        looked = (pc.any(is_met(first, cells(first, batch))).as_py() for batch in _batches(read, [name]))
        if not any(looked):
            return
    start = 0
    for batch in _batches(read, [name for name in asked.physical if name in held]):
        taken = cells(first, batch)
        numbers = pc.indices_nonzero(is_met(first, taken))
        columns = {first: taken.take(numbers)}
        for column in rest:
            taken = cells(column, batch).take(numbers)
            is_one = is_met(column, taken)
            columns = {other: found.filter(is_one) for other, found in columns.items()}
            columns[column], numbers = taken.filter(is_one), numbers.filter(is_one)
        keys = zip(*(columns[column].to_pylist() for column in range(len(columns))), strict=True)
        yield from zip((numbers.to_numpy() + start).tolist(), keys, strict=True)
        start += batch.num_rows


def _batches(read: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a file's rows, few at once where these are large: as the file tells, and as the first
    ones are, for a text that many rows have is in a file once.
    """
    rows = _AT_ONCE
    if not all(_is_short(read.schema_arrow.field(name).type) for name in columns):
        first = next(read.iter_batches(1024, columns=columns), None)
        told = sum(bytes_of(read.metadata.row_group(one), columns) for one in range(read.num_row_groups))
        most = max(told // max(1, read.metadata.num_rows), first.nbytes // first.num_rows if first else 0, 1)
        rows = max(1, min(_TEXTS_AT_ONCE, _BYTES_AT_ONCE // most))
    return iter(read.iter_batches(rows, columns=columns))


def _taken(file: Path, rows: BitMap, fields: list[T.StructField], schema: pa.Schema) -> pa.Table:
    """Some rows of a file. What came behind it is NULL in it, and what was widened is narrower."""
    read, numbers, start, found = opened(file), np.array(rows), 0, list[pa.Table]()
    physical = [field.metadata[PHYSICAL] for field in fields]
    held = set(read.schema_arrow.names) & set(physical)
    for batch in _batches(read, [name for name in physical if name in held]):
        low, high = np.searchsorted(numbers, (start, start + batch.num_rows))
        if low < high:
            taken = batch.take(pa.array(numbers[low:high] - start))
            cells = [
                taken.column(name).cast(field.type) if name in held else pa.nulls(taken.num_rows, field.type)
                for name, field in zip(physical, schema, strict=True)
            ]
            found.append(pa.table(cells, schema=schema))
        start += batch.num_rows
    return pa.concat_tables([schema.empty_table(), *found])
