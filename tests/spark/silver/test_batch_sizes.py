"""How many records, and how large ones, a batch has that Spark's workers decode."""

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.spark import limits
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver import run as silver_run
from lakehouse.spark.silver.run import ENOUGH
from lakehouse.spark.silver.tables import SilverSettings

FEED = SilverSettings("shop", "ticdc-open", "tidb")
# what a record counts besides its value
MORE = 100
Sizes = dict[int, dict[int, int]]


def landed(spark: Any, lake: Lake, sizes: Sizes) -> Lake:
    """A lake whose bronze has records of these sizes, by partition and offset."""
    empty = dict.fromkeys(BRONZE_SCHEMA.names)
    rows = [
        {**empty, "topic": "t", "incarnation": "a", "partition": partition, "offset": offset, "size": size}
        for partition, records in sizes.items()
        for offset, size in records.items()
    ]
    lake.append(spark.createDataFrame(rows, BRONZE_SCHEMA), "bronze", "shop")
    return lake


def batches(
    spark: Any, lake: Lake, feed: SilverSettings, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> list[list[tuple[int, int]]]:
    """The partition and offset of each record of each batch, one batch behind the other."""
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)
    left, found = {partition: dict(records) for partition, records in sizes.items()}, []
    while any(left.values()):
        following = silver_run.next_ranges(spark, lake, feed, done_up_to(left))
        assert following.is_all == (following.ranges == following.landed)
        found.append([(one.partition, offset) for one in following.ranges for offset in taken(left, one)])
    return found


def done_up_to(left: Sizes) -> Any:
    """What the last batch has left of each partition."""
    offsets = {partition: min(records, default=1 << 40) for partition, records in left.items()}
    return SimpleNamespace(next=tuple(NextOffset("t", "a", one, offset) for one, offset in offsets.items()))


def taken(left: Sizes, one: OffsetRange) -> list[int]:
    records = left[one.partition]
    assert one.first == min(records) and one.last in records
    offsets = [offset for offset in records if offset <= one.last]
    for offset in offsets:
        del records[offset]
    return offsets


@pytest.mark.parametrize("counted_by", ["driver", "spark"])
def test_no_batch_has_more_bytes_or_records_than_it_may(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted_by: str
) -> None:
    """Sizes differ along a partition, and offsets have gaps."""
    seed = int(counted_by == "spark")
    if counted_by == "spark":
        monkeypatch.setattr(silver_run, "unread_sizes", lambda *_: None)
    chance, sizes = random.Random(seed), dict[int, dict[int, int]]()
    for partition in range(3):
        offset, records = chance.randrange(50), dict[int, int]()
        for spread, largest in ((1, 3000), (40, 10), (2, 20)) if partition else ((30, 5), (1, 2000)):
            for _ in range(chance.randrange(30, 60)):
                offset += chance.randrange(1, spread + 1)
                records[offset] = chance.randrange(largest)
        sizes[partition] = records
    feed = replace(FEED, max_bytes=40_000, max_records=60)
    lake = landed(spark, Lake(str(tmp_path / "lake")), sizes)

    found = batches(spark, lake, feed, sizes, monkeypatch)

    assert sorted(place for batch in found for place in batch) == sorted(
        (partition, offset) for partition, records in sizes.items() for offset in records
    )
    for batch in found:
        firsts = dict(reversed(batch))
        more = [place for place in batch if firsts[place[0]] != place[1]]
        size = sum(sizes[partition][offset] + MORE for partition, offset in batch)
        assert len(batch) * ENOUGH <= feed.max_records
        assert size * ENOUGH <= feed.max_bytes or not more
    assert len(found) < 20


def test_a_record_that_is_larger_than_a_batch_is_one_by_itself(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {0: {1: 50_000, 2: 10, 3: 60_000, 9: 10, 10: 10}}
    lake = landed(spark, Lake(str(tmp_path / "lake")), sizes)

    found = batches(spark, lake, replace(FEED, max_bytes=20_000), sizes, monkeypatch)

    assert found[0] == [(0, 1)]
    assert [batch for batch in found if (0, 3) in batch] == [[(0, 3)]]
    assert found[-1][-1] == (0, 10)
