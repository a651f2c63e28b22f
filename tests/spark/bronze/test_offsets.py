"""Ranges of offsets as a condition, for a few partitions, and as a table, for any number of them."""

from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.spark.bronze import offsets

PLACES = [(topic, life, number) for topic in ("t", "u") for life in ("a", "b") for number in range(3)]


def found(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_many_partitions_are_read_as_few_are(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(*place, offset) for place in PLACES for offset in range(6)]
    bronze = spark.createDataFrame(
        rows, "topic string, incarnation string, partition int, offset bigint"
    ).coalesce(1)
    read = [NextOffset(*place, offset=number % 7) for number, place in enumerate(PLACES[:9])]
    ranges = [OffsetRange(*place, number % 3, last=number % 5) for number, place in enumerate(PLACES[2:])]
    ranges += [OffsetRange(*PLACES[0], 4, last=5, context=2), OffsetRange(*PLACES[0], 1, last=3)]

    for limit in (0, 100):
        monkeypatch.setattr(offsets, "CONDITIONS", limit)
        left = found(offsets.unread(bronze, read))
        inside = found(offsets.within(bronze, ranges))

        following = {one.place: one.offset for one in read}
        assert left == [row for row in rows if row[3] >= following.get(row[:3], 0)]
        assert inside == [
            row
            for row in rows
            if any(one.place == row[:3] and one.start <= row[3] <= one.last for one in ranges)
        ]
        assert (found(offsets.unread(bronze, [])), found(offsets.within(bronze, []))) == (rows, [])
