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
from pyroaring import BitMap
from pyspark.sql import types as T

from lakehouse.spark.commit_files import UNREADABLE, live_files
from lakehouse.spark.plain.deletion_vectors import read_vector
from lakehouse.spark.plain.files import Added
from lakehouse.spark.plain.merge import PHYSICAL, Prepared, Wanted, comparable, opened, prepared

# so many rows are looked at, read at once, and of these so many with all their columns
_MOST_ROWS, _AT_ONCE, _WHOLE_AT_ONCE = 50_000_000, 65_536, 4096
Key = tuple[Any, ...]


class Asked(NamedTuple):
    """The keys of the rows to merge: the table's columns that make one, as its files name them, with their
    types; the keys themselves, each once; and the columns in the order in which they are looked at, of most
    values first.
    """

    physical: list[str]
    types: list[pa.DataType]
    keys: set[Key]
    order: list[int]


class Hits(NamedTuple):
    """The rows of a table's version that have one of the keys that are asked for: the table's files, by path;
    in each file that has such rows these, and those that were gone before; and how many rows have each key.
    """

    version: int
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


def rows_of_keys(table: Path, wanted: Wanted, version: int, names: Sequence[str]) -> pa.Table | None:
    """The rows that a table has of these keys, at a version that is its newest one: of some columns those
    that it has.
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
    return pa.concat_tables([schema.empty_table(), *read])


def _prepared(table: Path, wanted: Wanted, version: int) -> Prepared | None:
    found = prepared(table, wanted, marks=False, due=True) or prepared(table, wanted, marks=True, due=True)
    return found if found is not None and found.newest.number == version else None


def hits_of(table: Path, found: Prepared) -> Hits | None:
    """The rows that have the keys that are looked for."""
    named = {field.name: field.metadata[PHYSICAL] for field in found.fields}
    types = [found.schema.field(name).type for name in found.keys]
    several = [len(set(values)) for values in zip(*found.asked, strict=True)]
    order = sorted(range(len(several)), key=lambda column: -several[column])
    asked = Asked([named[name] for name in found.keys], types, set(found.asked), order)
    try:
        files = live_files(table, found.newest.number)
        chosen = None if files is None else _chosen(files, asked)
        if files is None or chosen is None:
            return None
        hits = Hits(found.newest.number, found.asked, files, {}, {}, Counter())
        for path in chosen:
            _add(hits, table, path, asked)
        return hits
    except (*UNREADABLE, TypeError):  # a file without statistics
        return None


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
    wanted = [
        pa.array({key[column] for key in asked.keys}, comparable(pa.array([], type_)).type)
        for column, type_ in enumerate(asked.types)
    ]
    for number, key in _rows_of(table / path, asked, wanted):
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


def _rows_of(file: Path, asked: Asked, wanted: list[pa.Array]) -> Iterator[tuple[int, Key]]:
    """The number and the key of each row that has one of the wanted values in each column."""
    read = opened(file)
    held = set(read.schema_arrow.names)
    if held.isdisjoint(asked.physical):
        raise ValueError(f"{file}: expected a column of the key, got none")

    def met(column: int, batch: pa.RecordBatch, numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
        name, type_ = asked.physical[column], asked.types[column]
        cells = batch.column(name).cast(type_) if name in held else pa.nulls(batch.num_rows, type_)
        taken = comparable(cells.take(numbers))
        return taken, pc.is_in(taken, value_set=wanted[column])

    first, *rest = asked.order
    if rest and (name := asked.physical[first]) in held:
        batches = read.iter_batches(_AT_ONCE, columns=[name])
        if not any(pc.any(met(first, batch, _numbers(batch))[1]).as_py() for batch in batches):
            return
    start = 0
    for batch in read.iter_batches(_AT_ONCE, columns=[name for name in asked.physical if name in held]):
        numbers, columns = _numbers(batch), dict[int, pa.Array]()
        for column in asked.order:
            taken, is_one = met(column, batch, numbers)
            columns = {other: cells.filter(is_one) for other, cells in columns.items()}
            columns[column], numbers = taken.filter(is_one), numbers.filter(is_one)
        keys = zip(*(columns[column].to_pylist() for column in range(len(columns))), strict=True)
        yield from zip((numbers.to_numpy() + start).tolist(), keys, strict=True)
        start += batch.num_rows


def _numbers(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.arange(batch.num_rows))


def _taken(file: Path, rows: BitMap, fields: list[T.StructField], schema: pa.Schema) -> pa.Table:
    """Some rows of a file. What came behind it is NULL in it, and what was widened is narrower."""
    read, numbers, start, found = opened(file), np.array(rows), 0, list[pa.Table]()
    physical = [field.metadata[PHYSICAL] for field in fields]
    held = set(read.schema_arrow.names) & set(physical)
    for batch in read.iter_batches(_WHOLE_AT_ONCE, columns=[name for name in physical if name in held]):
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
