"""Ranges of offsets as conditions on bronze."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.ops.progress import NextOffset, OffsetRange, Place


def after(next_offsets: Iterable[NextOffset]) -> Column:
    """Records that no done batch has read."""
    known = F.lit(False)
    fresh = F.lit(False)
    for one in next_offsets:
        mine = of_place(one.place)
        known = known | mine
        fresh = fresh | (mine & (F.col("offset") >= one.offset))
    return fresh | ~known


def of_place(place: Place) -> Column:
    """Records of a partition."""
    topic, incarnation, partition = place
    mine = (F.col("topic") == topic) & (F.col("incarnation") == incarnation)
    return mine & (F.col("partition") == partition)


def in_ranges(ranges: Iterable[OffsetRange]) -> Column:
    """Records within the ranges, and those before them whose parts they need."""
    condition = F.lit(False)
    for one in ranges:
        condition = condition | (of_place(one.place) & F.col("offset").between(one.start, one.last))
    return condition
