"""Bronze's records read from its files by the workers that decode them, where these run on the lake's
machine, or by the driver, instead of by Spark (lakehouse/spark/plain/read.py).

    bronze's files ──each worker: as many rows as the others, or the partitions that are its own──▶ records
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.ops.progress import NextOffset, OffsetRange, Place
from lakehouse.spark.arrow import Worker
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.commit_files import UNREADABLE
from lakehouse.spark.lake import Lake
from lakehouse.spark.plain.read import TableFile, footers, read_batches, table_files

PLACE = ("topic", "incarnation", "partition")
# what a record is in memory besides its value
RECORD_BYTES = 100
# of more ranges each batch would be compared with too many
MOST_RANGES = 64
# workers that need records in order hold them: all together have at most so many bytes
MOST_BYTES = 256 * 1024 * 1024
# of so many records the driver looks at the sizes
MOST_SIZES = 2_000_000
_READ_ROWS = 10_000


class RecordFiles(NamedTuple):
    """Columns of the records of some ranges, as files of a folder, each with its number of rows. `ordered`:
    all records of a partition go to one worker, in the order of their offsets.
    """

    folder: str
    files: list[tuple[str, int]]
    ranges: Sequence[OffsetRange]
    columns: pa.Schema
    ordered: bool

    def frame(self, spark: SparkSession, worker: Worker, schema: str, rows: int) -> DataFrame:
        """What workers make of the records, of which they take so many at once."""
        shares = spark.sparkContext.defaultParallelism
        if self.ordered:
            shares = max(1, min(shares, len({one.place for one in self.ranges})))
        return spark.range(0, shares, 1, shares).mapInArrow(_sharing(self, worker, shares, rows), schema)

    def table(self) -> pa.Table:
        """All of the records."""
        return pa.Table.from_batches(self.share(0, 1, _READ_ROWS), schema=self.columns)

    def share(self, number: int, shares: int, rows: int) -> Iterator[pa.RecordBatch]:
        """One of so many equal shares of the files' rows, without those that are in no range."""
        total = sum(count for _, count in self.files)
        first, last = (total * bound // shares for bound in (number, number + 1))
        begin = 0
        for name, count in self.files:
            if begin < last and begin + count > first:
                yield from self._part(name, first - begin, last - begin, rows)
            begin += count

    def ordered_share(self, number: int, shares: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The records of a share of the partitions, in order."""
        mine = [one for one in self.ranges if crc32(repr(one.place).encode()) % shares == number]
        if not mine:
            return
        batches = self._replace(ranges=mine).share(0, 1, rows)
        table = pa.Table.from_batches(batches, schema=self.columns)
        yield from table.sort_by([(name, "ascending") for name in (*PLACE, "offset")]).to_batches(rows)

    def _part(self, name: str, first: int, last: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The records of a file between two rows of it."""
        at = 0
        for batch in read_batches(Path(self.folder), [name], self.columns, rows):
            low, high = max(first - at, 0), min(last - at, batch.num_rows)
            at += batch.num_rows
            if low < high:
                part = batch.slice(low, high - low)
                yield part.filter(self._within(part))
            if at >= last:
                return

    def _within(self, batch: pa.RecordBatch) -> pa.Array:
        """Of each record whether it is in a range."""
        found = pa.repeat(pa.scalar(False), batch.num_rows)
        offset = batch.column("offset")
        for one in self.ranges:
            mine = pc.and_(pc.greater_equal(offset, one.start), pc.less_equal(offset, one.last))
            # what is NULL is in none
            found = pc.or_kleene(found, pc.and_(_of_place(batch, one.place), mine))
        return found


def record_files(
    spark: SparkSession,
    lake: Lake,
    source: str,
    ranges: Sequence[OffsetRange],
    *,
    columns: Sequence[str],
    ordered: bool,
) -> RecordFiles | None:
    """The files that have the records of these ranges, and those before them whose parts they need; None
    where only Spark can read them, or workers would hold too much.
    """
    folder = lake.folder(spark, "bronze", source)
    found = None if folder is None or len(ranges) > MOST_RANGES else table_files(folder)
    if folder is None or found is None:
        return None
    names = [one.name for one in found if any(_may_have(one, range_) for range_ in ranges)]
    files = footers(folder, names, columns)
    if files is None or (ordered and sum(one.size for one in files) > MOST_BYTES):
        return None
    schema = to_arrow_schema(StructType([BRONZE_SCHEMA[name] for name in columns]))
    return RecordFiles(str(folder), [(one.name, one.rows) for one in files], ranges, schema, ordered=ordered)


def unread_sizes(
    spark: SparkSession, lake: Lake, source: str, following: Sequence[NextOffset]
) -> pa.Table | None:
    """Where the records are that no done batch has read, and how many bytes each is about (columns of PLACE,
    `offset`, `bytes`); None where only Spark can tell it, or they are too many.
    """
    folder = lake.folder(spark, "bronze", source)
    found = None if folder is None or len(following) > MOST_RANGES else table_files(folder)
    if folder is None or found is None:
        return None
    read = {one.place: one.offset for one in following}
    mine = [one for one in found if not _is_read(one, read)]
    if sum(one.rows for one in mine) > MOST_SIZES:
        return None
    schema = to_arrow_schema(StructType([BRONZE_SCHEMA[name] for name in (*PLACE, "offset", "size")]))
    try:
        batches = [*read_batches(folder, [one.name for one in mine], schema, _READ_ROWS)]
    except UNREADABLE:
        return None
    rows = pa.Table.from_batches([batch.filter(_unread(batch, read)) for batch in batches], schema=schema)
    size = pc.add(pc.fill_null(rows.column("size"), 0), RECORD_BYTES)
    return rows.drop_columns("size").append_column("bytes", size)


def _is_read(file: TableFile, read: Mapping[Place, int]) -> bool:
    """Whether a file has records of one topic alone, of partitions of which all up to its last offset is
    read.
    """
    topic, life, last = file.only("topic"), file.only("incarnation"), file.high.get("offset")
    low, high = file.low.get("partition"), file.high.get("partition")
    if topic is None or life is None or last is None or low is None or high is None:
        return False
    return all(last < read.get((topic, life, number), -1) for number in range(low, high + 1))


def _unread(batch: pa.RecordBatch, read: Mapping[Place, int]) -> pa.Array:
    found = pa.repeat(pa.scalar(False), batch.num_rows)
    for place, following in read.items():
        found = pc.or_kleene(
            found, pc.and_(_of_place(batch, place), pc.less(batch.column("offset"), following))
        )
    return pc.invert(pc.fill_null(found, False))


def _of_place(batch: pa.RecordBatch, place: Place) -> pa.Array:
    found = pa.repeat(pa.scalar(True), batch.num_rows)
    for name, value in zip(PLACE, place, strict=True):
        found = pc.and_(found, pc.equal(batch.column(name), value))
    return found


def _may_have(file: TableFile, range_: OffsetRange) -> bool:
    named = zip(PLACE, range_.place, strict=True)
    return file.may_have("offset", range_.start, range_.last) and all(
        file.may_have(name, value, value) for name, value in named
    )


def _sharing(files: RecordFiles, worker: Worker, shares: int, rows: int) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        share = files.ordered_share if files.ordered else files.share
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from worker(share(number, shares, rows))

    return work
