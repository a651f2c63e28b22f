"""MERGE of the driver's rows into a large gold table on this machine's own disk, without Spark: of each file
that may have rows of the keys only the keys are read, the rows that are met are marked in deletion vectors,
and the new ones are another file. Delta's own joins them three times.

The rows of a key are found by what Spark takes for equal (`prepared`). Delta itself merges where they lie in
too many rows to look at, and where the vectors that are there are not known here.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakehouse.spark.commit_files import UNREADABLE, live_files
from lakehouse.spark.plain.append import commit, newest_version
from lakehouse.spark.plain.deletion_vectors import counts_of, read_vector, write_vectors
from lakehouse.spark.plain.files import Added, discard, write_file
from lakehouse.spark.plain.merge import (
    PHYSICAL,
    Done,
    Prepared,
    Wanted,
    comparable,
    info_of,
    is_known,
    opened,
    physical,
    prepared,
)

# so many rows are looked at, and read at once
_MOST_ROWS, _AT_ONCE = 50_000_000, 65_536
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


class Marked(NamedTuple):
    """The files that were met, by path: all rows of them that are gone now; and the keys that were met, with
    how many rows have each.
    """

    rows: dict[str, BitMap]
    met: Counter[Key]


def is_marked(table: Path) -> bool:
    """Whether rows can be merged so into the table in a folder, as far as its newest version tells."""
    newest = newest_version(table)
    return newest is not None and is_known(newest, marks=True)


def merge_marked(table: Path, wanted: Wanted) -> Done | None:
    """Merge rows by key into the table in a folder, which has deletion vectors, as `merge_plain` does. None
    where nothing was done, and Delta has to do it.
    """
    found = prepared(table, wanted, marks=True) if wanted.marks else None
    if found is None:
        return None
    looked = _looked(table, found)
    if looked is None:
        return None
    files, marked = looked
    if marked.met.total() > len(marked.met) and not wanted.keyless:
        return None
    put = found.rows.filter(pa.array([not gone for gone in wanted.deleted], pa.bool_()))
    if not marked.rows and not put.num_rows:
        return Done(found.newest.number, 0, 0)
    with suppress(OSError):
        if _commit(table, found, files, marked, put=put, wanted=wanted):
            return Done(found.newest.number + 1, marked.met.total(), put.num_rows)
    return None


def equal_rows(table: Path, wanted: Wanted, version: int) -> list[int] | None:
    """How many rows a table without a key has at its newest version, if it is this one, that are equal to
    each of the rows to delete. None where that is not known here.
    """
    found = prepared(table, wanted, marks=False) or prepared(table, wanted, marks=True)
    if found is None or found.newest.number != version or (looked := _looked(table, found)) is None:
        return None
    return [looked[1].met[image] for image in found.asked]


def _looked(table: Path, found: Prepared) -> tuple[dict[str, Added], Marked] | None:
    """The table's files, and the rows in them that are asked for. None where these are not known here."""
    named = {field.name: field.metadata[PHYSICAL] for field in found.fields}
    types = [found.schema.field(name).type for name in found.keys]
    several = [len(set(values)) for values in zip(*found.asked, strict=True)]
    order = sorted(range(len(several)), key=lambda column: -several[column])
    asked = Asked([named[name] for name in found.keys], types, set(found.asked), order)
    try:
        files = live_files(table, found.newest.number)
        marked = None if files is None else marked_of(table, files, asked)
    except (*UNREADABLE, TypeError):  # a file without statistics
        return None
    return None if files is None or marked is None else (files, marked)


def _commit(
    table: Path,
    found: Prepared,
    files: dict[str, Added],
    marked: Marked,
    *,
    put: pa.Table,
    wanted: Wanted,
) -> bool:
    """Commit what is gone and what is new; files that no commit has added are deleted. Once a commit is being
    made they may be the table's, and stay where that breaks off.
    """
    info = info_of(marked.met, found, wanted, copied=0)
    with ExitStack() as made:
        added = []
        if put.num_rows:
            if not wanted.keyless:
                put = put.sort_by([(name, "ascending") for name in found.keys])
            added.append(write_file(table, physical(put, found.fields), None))
            made.callback(discard, table, added[0]["path"])
        left = {path: rows for path, rows in marked.rows.items() if len(rows) < _records(files[path])}
        if left:
            name, vectors = write_vectors(table, left)
            made.callback(discard, table, name)
            added += [_marked_file(files[path], vectors[path]) for path in left]
        unused = made.pop_all()
    kept = [one for path, one in files.items() if path not in marked.rows]
    removed = [files[path] for path in marked.rows]
    if commit(table, found.newest, info, added, removed=removed, told=counts_of([*kept, *added])):
        return True
    unused.close()
    return False


def _records(file: Added) -> int:
    return int(json.loads(file["stats"])["numRecords"])


def _marked_file(file: Added, vector: dict[str, Any]) -> Added:
    """A file as a commit adds it again, with another vector: its bounds may be wider than its rows. They stay
    letter for letter what they were: a decimal number that is rounded is no bound.
    """
    told = {name: value for name, value in file.items() if name != "stats" and value is not None}
    stats = {**msgspec.json.decode(file["stats"], type=dict[str, msgspec.Raw]), "tightBounds": False}
    return {
        **told,
        "partitionValues": {},
        "dataChange": True,
        "stats": msgspec.json.encode(stats).decode(),
        "deletionVector": vector,
    }


def marked_of(table: Path, files: dict[str, Added], asked: Asked) -> Marked | None:
    """The rows of the table's files that have one of the keys. None where there are too many to look at."""
    values = {
        column: sorted(key[column] for key in asked.keys if key[column] is not None)
        for column, type_ in enumerate(asked.types)
        if pa.types.is_integer(type_) or pa.types.is_string(type_)
    }
    chosen = [path for path, file in files.items() if asked.keys and _may_have(file, asked, values)]
    if sum(json.loads(files[path]["stats"])["numRecords"] for path in chosen) > _MOST_ROWS:
        return None
    wanted = [
        pa.array({key[column] for key in asked.keys}, comparable(pa.array([], type_)).type)
        for column, type_ in enumerate(asked.types)
    ]
    found = Marked({}, Counter())
    for path in chosen:
        gone = read_vector(table, files[path].get("deletionVector"))
        rows = BitMap()
        for number, key in _rows_of(table / path, asked, wanted):
            if key in asked.keys and number not in gone:
                rows.add(number)
                found.met[key] += 1
        if rows:
            found.rows[path] = rows | gone
    return found


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
