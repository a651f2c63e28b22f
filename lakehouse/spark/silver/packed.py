"""Decoded rows packed into a few large values, and unpacked: how workers pass them through Spark without
making rows.

`pack` runs in a worker; `changes_frame` and `others_frame` give the rows of a packed frame.

Where workers run on the lake's machine, they write the changes as files of silver's own table, and Spark
neither carries nor writes them:

    decoded ──ChangeWriter──▶ files in the table's folder ──all new──▶ added by a commit (Lake.append_files)
                                                         └─otherwise─▶ read back, deduped, deleted

A file that a dead worker has left is in no version of the table; `lakehouse maintain` deletes it with those
of former versions (VACUUM).
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import adler32, crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType

from lakehouse.events import POSITION_PARTS
from lakehouse.ops.progress import Shortfall
from lakehouse.silver.batch_summary import Summary, summarise, to_bytes
from lakehouse.silver.binlog_servers import Stretch
from lakehouse.silver.event_rows import OtherRow
from lakehouse.spark.plain.files import Added, FileWriter, discard, discarding
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, ORIGIN, OTHER_COLUMNS, POSITION
from lakehouse.spark.silver.tables import INDEXED, silver_schema


@dataclass(slots=True)
class Taken:
    """Changes by column, the other rows, and how many records they came from; `silent` gave none."""

    changes: dict[str, list[Any]]
    others: list[OtherRow]
    messages: int
    silent: int
    servers: list[Stretch] = field(default_factory=list)
    short: list[Shortfall] = field(default_factory=list)

    def summary(self) -> Summary:
        """Their counts, bounds and watermarks."""
        return summarise(
            self.changes, self.others, self.messages, self.silent, servers=self.servers, short=self.short
        )


_POSITION = pa.struct([(name, pa.int64()) for name in POSITION_PARTS])
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "array<string>": pa.list_(pa.string()),
    POSITION: _POSITION,
}
_CHANGES = pa.schema([(name, _ARROW[type_]) for name, type_ in CHANGE_COLUMNS.items()])
_PACKED = pa.schema(
    [(name, pa.binary()) for name in ("book", "hashes", "changes", "others")] + [("files", pa.string())]
)
_OTHERS = pa.schema([(name, _ARROW[type_]) for name, type_ in OTHER_COLUMNS.items()])
POSITION_BYTES = struct.Struct("=6q").pack
_NO_POSITION = POSITION_BYTES(0, 0, 0, 0, 0, 0)
HASH_BYTES = 8
IDENTITY = ("database", "table", "key", "position", "row_id", "topic", "incarnation", "partition")

# which of the two halves of an update without a key a row is: number_halves needs it, silver does not have it
_HALF = "half"
# what Spark takes for a pattern in a path that it reads
_PATTERN = re.compile(r"[\\*?\[\]{}]")
# a value of these hardly comes twice
_TEXTS = {"key", "before", "after"}


class Target(NamedTuple):
    """Where a batch's changes are written: the folder of silver's table, and what all rows have."""

    folder: str
    source: str
    batch: int


class ChangeWriter:
    """Writes a worker's changes: one file, and another one of those that come with halves."""

    def __init__(self, target: Target) -> None:
        self._target, self._folder = target, Path(target.folder)
        self._schema = to_arrow_schema(silver_schema("changes"))
        self._files: dict[bool, FileWriter] = {}

    def write(self, changes: pa.RecordBatch) -> None:
        """Add changes, in CHANGE_COLUMNS."""
        has_halves = changes.column(_HALF).null_count < changes.num_rows
        if has_halves not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[has_halves] = FileWriter(self._folder, INDEXED, repeated=_repeated(self._schema))
        rows = pa.table([self._column(changes, column) for column in self._schema], schema=self._schema)
        if has_halves:
            rows = rows.append_column(_HALF, changes.column(_HALF))
        self._files[has_halves].write(rows)

    def close(self) -> str | None:
        """What commits say of the files, as JSON; None where there are none."""
        return json.dumps([file.close() for file in self._files.values()]) if self._files else None

    def discard(self) -> None:
        """Delete the files."""
        for file in self._files.values():
            file.discard()

    def _column(self, changes: pa.RecordBatch, column: pa.Field) -> pa.Array:
        match column.name:
            case "source":
                return pa.repeat(pa.scalar(self._target.source, column.type), changes.num_rows)
            case "batch":
                return pa.repeat(pa.scalar(self._target.batch, column.type), changes.num_rows)
            case "origin":
                parts = [changes.column(name) for name in ORIGIN]
                return pa.StructArray.from_arrays(parts, fields=list(column.type))
            case name:
                return changes.column(name).cast(column.type)


def change_writer(target: Target | None) -> AbstractContextManager[ChangeWriter | None]:
    """A worker's writer, whose files are deleted where it fails; None where Spark writes."""
    return nullcontext() if target is None else discarding(ChangeWriter(target))


def pack(taken: Taken, order: str, files: ChangeWriter | None = None) -> pa.RecordBatch:
    """One packed row: the book, 8 bytes for the identity of each change, and the rows as compressed Arrow
    streams; with `files` the changes are in those.
    """
    changes = _with_position_bytes(taken.changes)
    others = _with_position_bytes(dict(zip(OTHER_COLUMNS, zip(*taken.others, strict=True), strict=False)))
    rows = _batch(changes, _CHANGES)
    if rows is not None and files is not None:
        files.write(rows)
    return _packed_row(
        book=to_bytes(taken.summary()),
        hashes=hashes_of([changes[name] for name in IDENTITY], order),
        changes=None if files is not None else _stream(rows),
        others=_stream(_batch(others, _OTHERS)),
    )


def files_row(files: ChangeWriter) -> pa.RecordBatch:
    """A packed row that says which files a worker has written."""
    return _packed_row(files=files.close())


def _packed_row(**values: bytes | str | None) -> pa.RecordBatch:
    arrays = [pa.array([values.get(field.name)], field.type) for field in _PACKED]
    return pa.RecordBatch.from_arrays(arrays, schema=_PACKED)


def _with_position_bytes(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {
        **columns,
        "position": [position and POSITION_BYTES(*position) for position in columns.get("position", ())],
    }


def hashes_of(columns: Sequence[Sequence[Any]], order: str) -> bytes:
    """8 bytes for each change, from its IDENTITY, given column by column, with keys and positions as bytes.
    Changes of one identity (lakehouse/spark/silver/dedupe.py, `identity`) have equal hashes. Others seldom
    have, and then only cost a closer comparison, so checksums are enough.
    """
    databases, tables, keys, positions, row_ids, *place = columns
    starts: dict[tuple[str, str], int] = {}
    hashes = []
    for database, table, key, position, row_id in zip(
        databases, tables, keys, positions, row_ids, strict=True
    ):
        start = starts.get((database, table))
        if start is None:
            start = starts[database, table] = crc32(f"{database}\0{table}".encode())
        text = key + position
        if row_id is not None:
            text += row_id.encode()
        hashes.append(crc32(text, start) << 32 | adler32(text))
    if order == "arrival":
        hashes = [found ^ crc32(repr(told).encode()) for found, *told in zip(hashes, *place, strict=True)]
    return struct.pack(f"<{len(hashes)}Q", *hashes)


def _batch(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch | None:
    if not columns["position"]:
        return None
    arrays = [
        _positions(columns[field.name])
        if field.type == _POSITION
        else _array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stream(rows: pa.RecordBatch | None) -> bytes | None:
    if rows is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A column; many have one value in all rows, which is quick to repeat if it is no list."""
    if not pa.types.is_list(type_) and values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type_), len(values))
    return pa.array(values, type_)


def _positions(values: Sequence[bytes | None]) -> pa.StructArray:
    """Positions as one struct column."""
    missing = None
    if None in values:
        missing = pa.array([value is None for value in values])
        values = [value or _NO_POSITION for value in values]
    numbers = memoryview(b"".join(values)).cast("q")  # type: ignore[arg-type]  # none is None now
    parts = [
        pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(numbers[part::6].tobytes())])
        for part in range(6)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(_POSITION), mask=missing)


def changes_frame(packed: DataFrame) -> DataFrame:
    """The changes of packed rows, in CHANGE_COLUMNS."""
    return packed.select("changes").where("changes is not null").mapInArrow(_unpack, _sql(CHANGE_COLUMNS))


def others_frame(packed: DataFrame) -> DataFrame:
    """Everything else, in OTHER_COLUMNS."""
    return packed.select("others").where("others is not null").mapInArrow(_unpack, _sql(OTHER_COLUMNS))


def _sql(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column(0):
            yield from pa.ipc.open_stream(value.as_buffer())


def added_of(texts: Iterable[str | None]) -> list[Added]:
    """What workers say of their files."""
    return [one for text in texts if text is not None for one in json.loads(text)]


def staged_changes(spark: SparkSession, target: Target, added: list[Added]) -> DataFrame:
    """The changes of files that no commit has added yet, in CHANGE_COLUMNS."""
    schema = silver_schema("changes").add(_HALF, StringType())
    folder = _PATTERN.sub(r"\\\g<0>", target.folder)
    rows = spark.read.schema(schema).parquet(*(f"{folder}/{one['path']}" for one in added))
    return rows.select(*(F.col(f"origin.{name}") if name in ORIGIN else name for name in CHANGE_COLUMNS))


def discard_staged(target: Target, added: list[Added]) -> None:
    """Delete files that no commit has added."""
    discard(Path(target.folder), *(one["path"] for one in added))


def _repeated(schema: pa.Schema) -> list[str]:
    """The paths of the columns whose values come again and again."""
    paths: list[str] = []
    for column in schema:
        if pa.types.is_struct(column.type):
            paths += [f"{column.name}.{member.name}" for member in column.type]
        elif pa.types.is_list(column.type):
            paths.append(f"{column.name}.list.element")
        elif column.name not in _TEXTS:
            paths.append(column.name)
    return paths
