"""Selects records of bronze by ranges of offsets of some partitions, or by the offsets from which on they are
new.

A few partitions are a condition, by which Delta skips files. Many would be an expression that takes minutes
to plan, and at a thousand overflows the planner's stack: they are a small table that bronze is joined with.
"""

from collections.abc import Collection, Iterable, Sequence
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
BOUNDS = "of_topic string, of_incarnation string, of_partition int, first bigint, last bigint"
Bounds = tuple[Place, int, int]


def unread(bronze: DataFrame, following: Iterable[NextOffset]) -> DataFrame:
    """The records that no done batch has read."""
    read = [(one.place, 0, one.offset - 1) for one in following]
    if not read:
        return bronze
    if len(read) > CONDITIONS:
        return bronze.join(_table(bronze, read), _is_within(), "left_anti")
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
        return near.join(_table(bronze, wanted), _is_within(), "left_semi")
    return bronze.where(
        reduce(or_, [of_place(place) & F.col("offset").between(first, last) for place, first, last in wanted])
    )


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


def _table(bronze: DataFrame, bounds: Sequence[Bounds]) -> DataFrame:
    """The ranges, both ends included, as a table to join."""
    schema = columns(BOUNDS)
    values = zip(*[(*place, first, last) for place, first, last in bounds], strict=True)
    rows = dict(zip(schema.names, map(list, values), strict=True))
    table = pa.table(rows, schema=to_arrow_schema(schema))
    return F.broadcast(bronze.sparkSession.createDataFrame(table, schema))


def _is_within() -> Column:
    same = F.col("topic") == F.col("of_topic")
    same = same & (F.col("incarnation") == F.col("of_incarnation"))
    same = same & (F.col("partition") == F.col("of_partition"))
    return same & F.col("offset").between(F.col("first"), F.col("last"))
