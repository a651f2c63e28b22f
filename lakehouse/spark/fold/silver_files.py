"""A table's changes read from silver's files by the workers that fold them, where these run on the lake's
machine, instead of by Spark (lakehouse/spark/plain/read.py).

    silver's files ──each worker takes the rows of its keys──▶ by key, in position order ──▶ KeyFold

What comes is what `grouped` makes of the frame of the same changes, in the same columns and order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.row_edits import TELLING
from lakehouse.lineage import Interval, Lineage
from lakehouse.spark.arrow import Worker
from lakehouse.spark.column_types import columns
from lakehouse.spark.fold.by_key import GROUPED, PLAIN
from lakehouse.spark.fold.deltas import Piece
from lakehouse.spark.plain.read import TableFile, footers, read_batches, table_files
from lakehouse.spark.silver.columns import POSITION

# the workers hold the changes of their keys: all of them together are at most so many bytes, in files and,
# where a text that comes again and again is once, in memory
MOST_BYTES = 256 * 1024 * 1024
# so many rows are read at once, and handed on at once where they have so many bytes or less
_READ_ROWS, _BATCH_ROWS, _BATCH_BYTES = 4096, 10_000, 16 * 1024 * 1024
_GROUPED = to_arrow_schema(columns(GROUPED))
_SCHEMA = to_arrow_schema(
    columns(
        f"database string, `table` string, batch bigint, key string, op string, before string, after string, "
        f"encoding string, flags array<string>, position {POSITION}"
    )
)


@dataclass(frozen=True, slots=True)
class SilverFiles:
    """Where silver's changes lie, and up to which batch they count; in all of these each change does."""

    folder: Path
    batch: int

    def of(
        self, lineage: Lineage, low: Position | None, high: Position, *, images: int
    ) -> "ChangeFiles | None":
        """The files that have the changes of a lineage with low < position <= high, whose images have about
        so many bytes; None where only Spark can read them, or the workers would hold too much.
        """
        found = table_files(self.folder) if images <= MOST_BYTES else None
        if found is None:
            return None
        names = [one.name for one in found if _may_have(one, lineage.intervals, low)]
        files = footers(self.folder, names, _SCHEMA.names)
        if files is None or sum(one.size for one in files) > MOST_BYTES:
            return None
        return ChangeFiles(
            str(self.folder), names, batch=self.batch, intervals=lineage.intervals, low=low, high=high
        )


def _may_have(file: TableFile, intervals: Iterable[Interval], low: Position | None) -> bool:
    """Whether a file may have changes of the intervals above a position."""
    if low is not None:
        least, most = file.low.get("position", {}), file.high.get("position", {})
        first, last = least.get("epoch"), most.get("epoch")
        if last is not None and last < low[0]:
            return False
        if first == last == low[0] and most.get("p1", low[1]) < low[1]:
            return False
    names = [one.name for one in intervals]
    return any(
        file.may_have("database", *(name[0],) * 2) and file.may_have("table", *(name[1],) * 2)
        for name in names
    )


class ChangeFiles(NamedTuple):
    """A table's changes as files: those of `intervals` in batches up to `batch`, low < position <= high."""

    folder: str
    names: list[str]
    batch: int
    intervals: list[Interval]
    low: Position | None
    high: Position

    def frame(
        self, spark: SparkSession, piece: Piece, worker: Worker, *, shares: int, schema: StructType | str
    ) -> DataFrame:
        """What workers make of the changes, each of so many shares of the keys by one of them."""
        return spark.range(0, shares, 1, shares).mapInArrow(_sharing(self, piece, worker, shares), schema)

    def share(self, piece: Piece, number: int, shares: int) -> Iterator[pa.RecordBatch]:
        """The changes of a share of the keys, in GROUPED, as `grouped` orders them."""
        batches = read_batches(Path(self.folder), self.names, _SCHEMA, _READ_ROWS)
        rows = pa.Table.from_batches((self._mine(batch, number, shares) for batch in batches), schema=_SCHEMA)
        rows = rows.take(_order(rows))
        plain = _is_plain(rows, piece)
        rows = pa.table(
            [plain if name == PLAIN else rows.column(name) for name in _GROUPED.names], schema=_GROUPED
        )
        each = max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows.num_rows // max(1, rows.nbytes)))
        yield from rows.combine_chunks().to_batches(each)

    def _mine(self, batch: pa.RecordBatch, number: int, shares: int) -> pa.RecordBatch:
        """The changes among rows that are of a share of the keys."""
        rows = batch.filter(self._counts(batch))
        return rows.filter(_of_share(rows.column("key"), number, shares))

    def _counts(self, batch: pa.RecordBatch) -> pa.Array:
        """Of each row whether it is one of the changes."""
        positions = batch.column("position")
        found = pa.repeat(pa.scalar(False), batch.num_rows)
        for one in self.intervals:
            mine = pc.and_(
                pc.equal(batch.column("database"), one.name[0]), pc.equal(batch.column("table"), one.name[1])
            )
            mine = pc.and_(mine, _above(positions, one.low))
            if one.high is not None:
                mine = pc.and_(mine, pc.invert(_from(positions, one.high)))
            found = pc.or_(found, mine)
        found = pc.and_(found, pc.less_equal(batch.column("batch"), self.batch))
        found = pc.and_(found, pc.invert(_above(positions, self.high)))
        return found if self.low is None else pc.and_(found, _above(positions, self.low))


def _sharing(changes: ChangeFiles, piece: Piece, worker: Worker, shares: int) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from worker(changes.share(piece, number, shares))

    return work


def _of_share(keys: pa.Array, number: int, shares: int) -> pa.Array:
    return pa.array([crc32((key or "").encode()) % shares == number for key in keys.to_pylist()], pa.bool_())


def _above(positions: pa.StructArray, bound: Position) -> pa.Array:
    """Of each position whether it is above another one."""
    return _compared(positions, bound, equal=False)


def _from(positions: pa.StructArray, bound: Position) -> pa.Array:
    """Of each position whether it is another one or above that."""
    return _compared(positions, bound, equal=True)


def _compared(positions: pa.StructArray, bound: Position, *, equal: bool) -> pa.Array:
    found: pa.Array | pa.Scalar = pa.scalar(equal)
    for part, value in zip(reversed(positions.flatten()), reversed(bound), strict=True):
        found = pc.or_(pc.greater(part, value), pc.and_(pc.equal(part, value), found))
    return found


def _order(rows: pa.Table) -> pa.Array:
    """The order of the rows by key and position."""
    parts = dict(zip(POSITION_PARTS, rows.column("position").combine_chunks().flatten(), strict=True))
    # most parts are the same in all of them
    parts = {name: part for name, part in parts.items() if _differ(part)}
    by = pa.table({"key": rows.column("key"), **parts})
    return pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names])


def _differ(part: pa.Array) -> bool:
    bounds = pc.min_max(part).as_py()
    return bool(bounds["min"] != bounds["max"])


def _is_plain(rows: pa.Table, piece: Piece) -> pa.Array:
    """PLAIN, as `grouped` has it."""
    flags, plain = rows.column("flags").combine_chunks(), pa.repeat(pa.scalar(True), rows.num_rows)
    if pc.any(pc.is_in(flags.flatten(), pa.array(TELLING))).as_py():
        plain = pa.array([set(TELLING).isdisjoint(told or ()) for told in flags.to_pylist()], pa.bool_())
    if piece.end > 0:
        position = rows.column("position").combine_chunks()
        plain = pc.and_(plain, _above(position, piece.lineage.steps[piece.end].position))
    return plain
