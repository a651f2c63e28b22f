"""Rows of plain Delta tables on this machine's own disk, read without Spark: by the driver, and by Spark's
workers where they run on this machine. Of 300,000 rows Spark takes three CPU seconds to read them and hand
them to Python, and one more to sort them by key; Arrow takes one for all of it.

Format: PROTOCOL.md of delta-io/delta, "Add File" and "Per-file Statistics".
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.spark.commit_files import UNREADABLE, file_count, live_files

# of a table of more files only Delta tells the few that are read: it keeps what it knows of them
MOST_FILES = 2_000
# so many rows are read at once that they have about so many bytes, whatever is asked for
_AT_ONCE = 64 * 1024 * 1024


class TableFile(NamedTuple):
    """A file of a table: how many rows it has, and the lowest and highest values of some columns, where they
    are told.
    """

    name: str
    rows: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]

    def may_have(self, column: str, low: Any, high: Any) -> bool:
        """Whether it may have a value of a column between these, both included."""
        least, most = self.low.get(column), self.high.get(column)
        return (least is None or least <= high) and (most is None or most >= low)

    def only(self, column: str) -> Any:
        """The one value that a column has in it; None where that is not known."""
        least = self.low.get(column)
        return least if least == self.high.get(column) else None


def table_files(table: Path) -> list[TableFile] | None:
    """The files of a table's newest version; None where only Delta can tell them: of a table that has very
    many, needs a newer reader, is partitioned, or is being written or cleaned up at this moment.
    """
    try:
        number = file_count(table)
        files = live_files(table, plain=True) if number is not None and number <= MOST_FILES else None
        return None if files is None else [_file(name, one) for name, one in files.items()]
    except (*UNREADABLE, TypeError):  # a file without statistics
        return None


def _file(name: str, added: Mapping[str, Any]) -> TableFile:
    told = json.loads(added["stats"])
    return TableFile(name, told["numRecords"], told.get("minValues", {}), told.get("maxValues", {}))


class Footer(NamedTuple):
    """How many rows a file has, as it says itself, and about how many bytes some columns have in memory."""

    name: str
    rows: int
    size: int


def footers(table: Path, names: Iterable[str], columns: Sequence[str]) -> list[Footer] | None:
    """What files say of themselves; None where one lacks a column, or can't be read."""
    try:
        found = [_footer(table, name, columns) for name in names]
    except UNREADABLE:
        return None
    return None if None in found else [one for one in found if one is not None]


def _footer(table: Path, name: str, columns: Sequence[str]) -> Footer | None:
    told = pq.read_metadata(table / name)
    held = {told.schema.column(number).path.split(".")[0] for number in range(told.num_columns)}
    size = sum(bytes_of(told.row_group(number), columns) for number in range(told.num_row_groups))
    return Footer(name, told.num_rows, size) if held.issuperset(columns) else None


def read_batches(table: Path, names: Iterable[str], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of files, so many at a time, as these columns; fewer where they are large: beside the rows
    that a caller wants a file may have others, of any size.
    """
    for name in names:
        with pq.ParquetFile(table / name) as file:
            for number in range(file.num_row_groups):
                few = _few_rows(file.metadata.row_group(number), schema.names, rows)
                for batch in file.iter_batches(
                    few, row_groups=[number], columns=schema.names, use_threads=False
                ):
                    columns = [_as(batch.column(field.name), field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _few_rows(group: pq.RowGroupMetaData, columns: Sequence[str], rows: int) -> int:
    """How many rows of a group are read at once."""
    return max(1, min(rows, _AT_ONCE * group.num_rows // max(1, bytes_of(group, columns))))


def bytes_of(group: pq.RowGroupMetaData, columns: Sequence[str]) -> int:
    """About how many bytes some columns of a group have in memory."""
    parts = map(group.column, range(group.num_columns))
    return sum(part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] in columns)


def _as(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)
