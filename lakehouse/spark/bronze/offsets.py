"""Selects records of bronze by ranges of offsets of some partitions, or by the offsets from which on they are
new.

A few partitions are a condition, by which Delta skips files. Many would be an expression that takes minutes
to plan, and at a thousand overflows the planner's stack: they are a small table that bronze is joined with,
behind a condition on offsets alone. A partition of which there are many ranges, as records have that are
decoded again, is joined by blocks of offsets: by the partition alone each of its records would meet each of
its ranges.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.ops.progress import NextOffset, OffsetRange, Place
from lakehouse.spark.column_types import columns

# up to so many partitions are a condition
CONDITIONS = 8
BOUNDS = (
    "of_topic string, of_incarnation string, of_partition int, of_block bigint, first bigint, last bigint"
)
# a table of ranges has about so many rows for each of them
BLOCKS = 8
Bounds = tuple[Place, int, int]


def unread(bronze: DataFrame, following: Iterable[NextOffset]) -> DataFrame:
    """The records that no done batch has read."""
    read = [(one.place, 0, one.offset - 1) for one in following]
    if not read:
        return bronze
    if len(read) > CONDITIONS:
        return _joined(_above_lowest(bronze, read), read, "left_anti")
    fresh = reduce(or_, [of_place(place) & (F.col("offset") > last) for place, _, last in read])
    return bronze.where(fresh | outside({place for place, _, _ in read}))


def within(bronze: DataFrame, ranges: Iterable[OffsetRange]) -> DataFrame:
    """The records of the ranges, and those before them whose parts they need."""
    wanted = [(one.place, one.start, one.last) for one in ranges]
    if not wanted:
        return bronze.where(F.lit(False))
    if len(wanted) > CONDITIONS:
        lowest, highest = min(first for _, first, _ in wanted), max(last for _, _, last in wanted)
        near = bronze.where(F.col("offset").between(lowest, highest))
        return _joined(near, wanted, "left_semi")
    return bronze.where(
        reduce(or_, [of_place(place) & F.col("offset").between(first, last) for place, first, last in wanted])
    )


def _above_lowest(bronze: DataFrame, read: Sequence[Bounds]) -> DataFrame:
    """The records of a few topics without those that lie below the lowest of what is new in any of their
    partitions: of other partitions, which may be new, all are left. Of many topics, or partitions with gaps
    between their numbers, such a condition would be long: all records are left.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    for (topic, life, number), _, _ in read:
        numbers.setdefault((topic, life), []).append(number)
    has_gaps = any(max(found) - min(found) >= len(found) for found in numbers.values())
    if has_gaps or len(numbers) > CONDITIONS:
        return bronze
    fresh = F.col("offset") > min(last for _, _, last in read)
    return bronze.where(fresh | outside({place for place, _, _ in read}))


def outside(places: Collection[Place]) -> Column:
    """The condition of records of other partitions: below, between and above those that there are, so that
    files of known partitions are skipped by their statistics, which a negation never is.
    """
    found = _gaps("topic", {topic for topic, _, _ in places})
    for topic, life in {place[:2] for place in places}:
        lives = {place[1] for place in places if place[0] == topic}
        numbers = {place[2] for place in places if place[:2] == (topic, life)}
        same = F.col("topic") == topic
        found = found | (same & _gaps("incarnation", lives))
        found = found | (same & (F.col("incarnation") == life) & _gaps("partition", numbers))
    return found


def _gaps(name: str, values: Collection[Any]) -> Column:
    """The condition that a column has none of some values."""
    ordered, column = sorted(values), F.col(name)
    found = (column < ordered[0]) | (column > ordered[-1])
    for low, high in pairwise(ordered):
        if not isinstance(low, int) or low + 1 < high:
            found = found | ((column > low) & (column < high))
    return found


def of_place(place: Place) -> Column:
    """The condition of records of a partition."""
    topic, incarnation, partition = place
    mine = (F.col("topic") == topic) & (F.col("incarnation") == incarnation)
    return mine & (F.col("partition") == partition)


def width_of(bounds: Sequence[Bounds]) -> int:
    """How many offsets a block has; 0: one block is enough, for each partition has one range."""
    if len({place for place, _, _ in bounds}) == len(bounds):
        return 0
    offsets = sum(last - first + 1 for _, first, last in bounds)
    return max(1, offsets // (BLOCKS * len(bounds)))


def in_blocks(bounds: Iterable[Bounds], width: int) -> Iterator[tuple[str, str, int, int, int, int]]:
    """The ranges, each once for each block of offsets that it lies in: a partition, the block, the range."""
    for place, first, last in bounds:
        for block in range(first // width, last // width + 1) if width else (0,):
            yield (*place, block, first, last)


def _joined(bronze: DataFrame, bounds: Sequence[Bounds], how: str) -> DataFrame:
    """The records that are in the ranges, both ends included (`left_semi`), or in none (`left_anti`)."""
    schema, width = columns(BOUNDS), width_of(bounds)
    values = zip(*in_blocks(bounds, width), strict=True)
    rows = dict(zip(schema.names, map(list, values), strict=True))
    table = bronze.sparkSession.createDataFrame(pa.table(rows, schema=to_arrow_schema(schema)), schema)
    same = F.col("topic") == F.col("of_topic")
    same = same & (F.col("incarnation") == F.col("of_incarnation"))
    same = same & (F.col("partition") == F.col("of_partition"))
    same = same & (F.expr(f"offset div {width:d}" if width else "0L") == F.col("of_block"))
    return bronze.join(F.broadcast(table), same & F.col("offset").between(F.col("first"), F.col("last")), how)
