"""Decoded rows as a few large values, and back: what passes between workers and Spark without becoming rows.

`pack` runs in a worker; `changes_frame` and `others_frame` give the rows of a packed frame, `read_others` those that the
driver takes for itself.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.batch_summary import summarise, to_bytes
from lakehouse.spark.decode import CHANGE_COLUMNS, OTHER_COLUMNS, POSITION, Taken

_POSITION = pa.struct([(name, pa.int64()) for name in ("epoch", "p1", "p2", "p3", "p4", "p5")])
_ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "array<string>": pa.list_(pa.string()), POSITION: _POSITION,
}  # fmt: skip
_CHANGES = pa.schema([(name, _ARROW[type_]) for name, type_ in CHANGE_COLUMNS.items()])
_OTHERS = pa.schema([(name, _ARROW[type_]) for name, type_ in OTHER_COLUMNS.items()])
_POSITION_BYTES = struct.Struct("<6q").pack
HASH_BYTES = 8


def pack(taken: Taken, order: str) -> pa.RecordBatch:
    """One packed row: the book, 8 bytes for the identity of each change, and the rows as compressed Arrow streams."""
    values = [
        to_bytes(summarise(taken.changes, taken.others, taken.messages, taken.silent, taken.servers)),
        b"".join(hash_of(c[0], c[1], c[2], c[5], c[12], c[15:18], order) for c in taken.changes),
        _stream(taken.changes, _CHANGES),
        _stream(taken.others, _OTHERS),
    ]
    return pa.RecordBatch.from_arrays([pa.array([value], pa.binary()) for value in values], names=["book", "hashes", "changes", "others"])


def hash_of(
    database: str, table: str, key: bytes, position: tuple[int, ...], row_id: str | None, place: tuple[Any, ...], order: str
) -> bytes:
    """A hash of what makes two changes one (lakehouse/spark/dedupe.py, `identity`): equal changes have equal hashes."""
    parts = [database.encode(), table.encode(), key, _POSITION_BYTES(*position), (row_id or "").encode()]
    if order == "arrival":
        parts.append(repr(place).encode())
    return hashlib.blake2b(b"\0".join(parts), digest_size=HASH_BYTES).digest()


def _stream(rows: list[tuple[Any, ...]], schema: pa.Schema) -> bytes | None:
    if not rows:
        return None
    columns = zip(*rows, strict=True)
    arrays = [
        _positions(values) if field.type == _POSITION else pa.array(values, field.type)
        for field, values in zip(schema, columns, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def _positions(values: tuple[Any, ...]) -> pa.StructArray:
    """Position tuples as one struct column, part by part."""
    parts = zip(*[value or (None,) * 6 for value in values], strict=True)
    missing = pa.array([value is None for value in values])
    return pa.StructArray.from_arrays([pa.array(part, pa.int64()) for part in parts], fields=list(_POSITION), mask=missing)


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


def read_others(values: Iterable[bytes]) -> list[dict[str, Any]]:
    """Unpacked on the driver, in arrival order within each value."""
    return [row for value in values for row in pa.ipc.open_stream(value).read_all().to_pylist()]
