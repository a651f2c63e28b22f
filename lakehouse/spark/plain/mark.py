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
    types; and the keys themselves, each once.
    """

    physical: list[str]
    types: list[pa.DataType]
    keys: set[Key]


class Marked(NamedTuple):
    """The files that were met, by path: all rows of them that are gone now; and the keys that were met."""

    rows: dict[str, BitMap]
    met: list[Key]


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
    named = {field.name: field.metadata[PHYSICAL] for field in found.fields}
    types = [found.schema.field(name).type for name in found.keys]
    asked = Asked([named[name] for name in found.keys], types, set(found.asked))
    try:
        files = live_files(table, found.newest.number)
        marked = None if files is None else marked_of(table, files, asked)
    except (*UNREADABLE, TypeError):  # a file without statistics
        return None
    if files is None or marked is None or len(set(marked.met)) < len(marked.met):
        return None
    put = found.rows.filter(pa.array([not gone for gone in wanted.deleted], pa.bool_()))
    if not marked.rows and not put.num_rows:
        return Done(found.newest.number, 0, 0)
    with suppress(OSError):
        if _commit(table, found, files, marked, put=put, deleted=wanted.deleted):
            return Done(found.newest.number + 1, len(marked.met), put.num_rows)
    return None


def _commit(
    table: Path,
    found: Prepared,
    files: dict[str, Added],
    marked: Marked,
    *,
    put: pa.Table,
    deleted: list[bool],
) -> bool:
    """Commit what is gone and what is new; files that no commit has added are deleted. Once a commit is being
    made they may be the table's, and stay where that breaks off.
    """
    info = info_of(Counter(marked.met), found.asked, deleted, copied=0)
    with ExitStack() as made:
        added = []
        if put.num_rows:
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
    values = None
    if pa.types.is_integer(asked.types[0]) or pa.types.is_string(asked.types[0]):
        values = sorted(key[0] for key in asked.keys if key[0] is not None)
    chosen = [path for path, file in files.items() if _may_have(file, asked, values)]
    if sum(json.loads(files[path]["stats"])["numRecords"] for path in chosen) > _MOST_ROWS:
        return None
    wanted = pa.array(list({key[0] for key in asked.keys}), asked.types[0])
    found = Marked({}, [])
    for path in chosen:
        gone = read_vector(table, files[path].get("deletionVector"))
        rows = BitMap()
        for number, key in _rows_of(table / path, asked, wanted):
            if key in asked.keys and number not in gone:
                rows.add(number)
                found.met.append(key)
        if rows:
            found.rows[path] = rows | gone
    return found


def _may_have(file: Added, asked: Asked, values: list[Any] | None) -> bool:
    """Whether a file may have one of the keys, as its statistics tell of the first column, if these are whole
    numbers or texts: bounds of long texts are cut such that they still are bounds.
    """
    told, name = json.loads(file["stats"]), asked.physical[0]
    low, high = (told.get(bounds, {}).get(name) for bounds in ("minValues", "maxValues"))
    if values is None or low is None or high is None or told.get("nullCount", {}).get(name) != 0:
        return True
    return bisect_left(values, low) < bisect_right(values, high)


def _rows_of(file: Path, asked: Asked, wanted: pa.Array) -> Iterator[tuple[int, Key]]:
    """The number and the key of each row whose key begins with one of the wanted values."""
    read = opened(file)
    held = set(read.schema_arrow.names)
    if asked.physical[0] not in held:
        raise ValueError(f"{file}: expected a column of the key, got none")
    start = 0
    for batch in read.iter_batches(_AT_ONCE, columns=[name for name in asked.physical if name in held]):
        columns = [
            batch.column(name).cast(type_) if name in held else pa.nulls(batch.num_rows, type_)
            for name, type_ in zip(asked.physical, asked.types, strict=True)
        ]
        numbers = pa.array(
            np.flatnonzero(pc.is_in(columns[0], value_set=wanted).to_numpy(zero_copy_only=False))
        )
        keys = zip(*(column.take(numbers).to_pylist() for column in columns), strict=True)
        yield from zip((numbers.to_numpy() + start).tolist(), keys, strict=True)
        start += batch.num_rows
