"""The Parquet files of plain Delta tables, written without Spark: by the driver, and by Spark's workers where
they run on this machine. A file is no part of a table until a commit adds it (append.py).

Format: PROTOCOL.md of delta-io/delta, "Add File" and "Per-file Statistics".
"""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark

# Spark takes dates of files that say nothing for those of another calendar
_WRITER = {"org.apache.spark.version": pyspark.__version__}
# a longer text is kept in part, which Delta's readers have rules for
_LONGEST = 32
# Delta's own number of columns with statistics, where a table names none
_INDEXED = 32
# so many bytes of rows make a group of a file
_GROUP_BYTES = 32 * 1024 * 1024

# what a commit says of a file
Added = dict[str, Any]
_Leaf = tuple[str, ...]


class FileWriter:
    """A file of a table in a folder, written as rows come. `indexed` is what the table says of columns that
    have statistics (None: as many as Delta takes); `repeated` are the paths of those whose values have a
    dictionary.
    """

    def __init__(self, table: Path, indexed: str | None, *, repeated: list[str] | None = None) -> None:
        self._table, self._indexed, self._repeated = table, indexed, repeated
        self._name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._bounds: dict[_Leaf, _Bounds] = defaultdict(_Bounds)
        self._rows = self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Add rows; all of them have the same columns, under the names that files have."""
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        self._held.append(rows)
        for path, column in _indexed(rows, self._indexed):
            self._bounds[path].add(column)
        if self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> Added:
        """Write what is held, if only the columns; returns what a commit says of the file."""
        self._flush()
        assert self._writer is not None  # it was flushed
        self._writer.close()
        return {
            "path": self._name,
            "partitionValues": {},
            "size": (self._table / self._name).stat().st_size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": json.dumps(_statistics(self._rows, self._bounds), ensure_ascii=False),
        }

    def discard(self) -> None:
        """Delete the file."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
        discard(self._table, self._name)

    def _flush(self) -> None:
        if not self._held:
            return
        # Arrow leaves NaN out of a file's own statistics, which to Spark is above all numbers
        rows = pa.concat_tables(self._held).replace_schema_metadata(_WRITER)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._table / self._name,
                rows.schema,
                compression="snappy",
                store_decimal_as_integer=True,
                write_statistics=False,
                use_dictionary=True if self._repeated is None else self._repeated,
            )
        self._writer.write_table(rows)
        self._held, self._bytes = [], 0


class Discardable(Protocol):
    """What has files that no commit has added."""

    def discard(self) -> None:
        """Delete them."""


W = TypeVar("W", bound=Discardable)


@contextmanager
def discarding(writer: W) -> Iterator[W]:
    """A writer whose files are deleted where what it is used for fails."""
    try:
        yield writer
    except BaseException:
        writer.discard()
        raise


def write_file(table: Path, rows: pa.Table, indexed: str | None) -> Added:
    """Write a file of these rows; returns what a commit says of it. OSError where there is none."""
    with discarding(FileWriter(table, indexed)) as writer:
        writer.write(rows)
        return writer.close()


def rows_of(added: Iterable[Added]) -> int:
    """How many rows files have."""
    return sum(json.loads(one["stats"])["numRecords"] for one in added)


def discard(table: Path, *names: str) -> None:
    """Delete files that no commit has added."""
    for name in names:
        with suppress(OSError):
            (table / name).unlink(missing_ok=True)


@dataclass(slots=True)
class _Bounds:
    """Of whole numbers or texts: how many are NULL, the lowest and the highest."""

    nulls: int = 0
    low: Any = None
    high: Any = None

    def add(self, column: pa.ChunkedArray) -> None:
        self.nulls += column.null_count
        low, high = pc.min_max(column).as_py().values()
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    @property
    def is_told(self) -> bool:
        """Whether a file's statistics have the lowest and the highest: all numbers, and short texts."""
        if self.low is None:
            return False
        return isinstance(self.low, int) or max(len(self.low), len(self.high)) <= _LONGEST


def _statistics(number: int, columns: Mapping[_Leaf, _Bounds]) -> dict[str, Any]:
    """What Delta's readers skip files by."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, found in columns.items():
        _set(nulls, path, found.nulls)
        if found.is_told:
            _set(least, path, found.low)
            _set(most, path, found.high)
    return {"numRecords": number, "minValues": least, "maxValues": most, "nullCount": nulls}


def _indexed(rows: pa.Table, told: str | None) -> Iterator[tuple[_Leaf, pa.ChunkedArray]]:
    """The columns that have statistics: those that the table names, else as many as Delta takes."""
    leaves = (leaf for name in rows.column_names for leaf in _leaves((name,), rows.column(name)))
    if told is None:
        return islice(leaves, _INDEXED)
    asked = {one.replace("`", "").strip() for one in told.split(",")}
    return (leaf for leaf in leaves if ".".join(leaf[0]) in asked)


def _leaves(path: _Leaf, column: pa.ChunkedArray) -> Iterator[tuple[_Leaf, pa.ChunkedArray]]:
    """The whole numbers and texts of a column, which may be a struct."""
    if pa.types.is_struct(column.type):
        for field in column.type:
            yield from _leaves((*path, field.name), pc.struct_field(column, field.name))
    elif pa.types.is_integer(column.type) or pa.types.is_string(column.type):
        yield path, column


def _set(tree: dict[str, Any], path: _Leaf, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
