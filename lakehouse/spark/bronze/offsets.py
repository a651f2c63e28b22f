"""Ranges of offsets as conditions on bronze."""

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F


def after(next_offsets: list[dict[str, Any]]) -> Column:
    """Records that no done batch has read."""
    known = F.lit(False)
    fresh = F.lit(False)
    for entry in next_offsets:
        mine = _is_partition(entry)
        known = known | mine
        fresh = fresh | (mine & (F.col("offset") >= entry["offset"]))
    return fresh | ~known


def _is_partition(entry: dict[str, Any]) -> Column:
    return (
        (F.col("topic") == entry["topic"])
        & (F.col("incarnation") == entry["incarnation"])
        & (F.col("partition") == entry["partition"])
    )


def in_ranges(ranges: list[dict[str, Any]]) -> Column:
    """Records within the ranges, and those before them whose parts they need."""
    condition = F.lit(False)
    for entry in ranges:
        condition = condition | (
            _is_partition(entry)
            & F.col("offset").between(entry.get("context", entry["first"]), entry["last"])
        )
    return condition
