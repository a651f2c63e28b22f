"""Ranges of offsets as a condition, for a few partitions, and as a table, for any number of them."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.spark.bronze import offsets
from lakehouse.spark.lake import Lake

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


def test_what_is_unread_is_what_python_says_whatever_partitions_there_are(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    topics, lives, numbers = ("", "T", "t", "tt", "ü", "𝄞"), ("", "a", "b"), (0, 1, 2, 5, 9)
    rows = [(t, life, n, offset) for t in topics for life in lives for n in numbers for offset in range(4)]
    schema = "topic string, incarnation string, partition int, offset bigint"
    bronze = spark.createDataFrame(rows, schema).coalesce(1).cache()
    for limit in [8] * 12 + [0] * 3:
        monkeypatch.setattr(offsets, "CONDITIONS", limit)
        size = chance.randint(1, 8)
        places = {(chance.choice(topics), chance.choice(lives), chance.choice(numbers)) for _ in range(size)}
        following = {place: chance.randint(0, 5) for place in places}

        left = found(offsets.unread(bronze, [NextOffset(*place, following[place]) for place in places]))

        assert left == sorted(row for row in rows if row[3] >= following.get(row[:3], 0))
    bronze.unpersist()


def test_files_of_partitions_that_are_read_are_not_opened(spark: Any, tmp_path: Path) -> None:
    lake, schema = Lake(str(tmp_path)), "topic string, incarnation string, partition int, offset bigint"
    for first in range(0, 40, 10):
        rows = [("t", "a", number, first + offset) for number in (0, 1, 2) for offset in range(10)]
        lake.append(spark.createDataFrame(rows, schema).coalesce(1), "bronze", "s")
    bronze = lake.read(spark, "bronze", "s")
    at_the_end = [NextOffset("t", "a", number, 40) for number in (0, 1, 2)]

    assert len(bronze.inputFiles()) == 4
    assert offsets.unread(bronze, at_the_end).inputFiles() == []
    assert len(offsets.unread(bronze, [*at_the_end[:2], NextOffset("t", "a", 2, 35)]).inputFiles()) == 1
    assert len(offsets.unread(bronze, at_the_end[:2]).inputFiles()) == 4, "partition 2 was never read"

    many = [NextOffset("t", "a", number, 30 + number) for number in range(offsets.CONDITIONS + 1)]
    assert len(offsets.unread(bronze, many).inputFiles()) == 1
    assert len(offsets.unread(bronze, [*many, NextOffset("u", "a", 0, 3)]).inputFiles()) == 4
    assert len(offsets.unread(bronze, many[1:] + many[:1]).inputFiles()) == 1
    assert len(offsets.unread(bronze, [*many[1:], NextOffset("t", "a", 9, 30)]).inputFiles()) == 4


def test_a_record_meets_few_of_the_thousands_of_ranges_of_its_partition() -> None:
    """Needs no session."""
    place = ("t", "a", 0)
    letters = [(place, 3 * number, 3 * number) for number in range(5_000)]
    mixed = [*letters, (("t", "a", 1), 0, 10_000_000)]

    for bounds in (letters, mixed):
        width = offsets.width_of(bounds)
        rows = list(offsets.in_blocks(bounds, width))
        met = Counter(row[:4] for row in rows)

        assert len(rows) <= (offsets.BLOCKS + 2) * len(bounds)
        assert max(met.values()) <= 100
        assert all(row[3] * width <= row[5] and row[4] < (row[3] + 1) * width for row in rows)
    one_each = [(("t", "a", number), 0, 10**9) for number in range(1_000)]
    assert len(list(offsets.in_blocks(one_each, offsets.width_of(one_each)))) == 1_000
