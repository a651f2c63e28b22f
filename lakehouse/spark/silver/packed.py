"""Decoded rows packed into a few large values, and unpacked: how workers pass them through Spark without
making rows.

`pack` runs in a worker; `changes_frame` and `others_frame` give the rows of a packed frame.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import adler32, crc32

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.events import POSITION_PARTS
from lakehouse.ops.progress import Shortfall
from lakehouse.silver.batch_summary import Summary, summarise, to_bytes
from lakehouse.silver.binlog_servers import Stretch
from lakehouse.silver.event_rows import OtherRow
from lakehouse.spark.silver.change_files import ChangeWriter
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, OTHER_COLUMNS, POSITION


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
