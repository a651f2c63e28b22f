"""Which records of a batch a feed in order of arrival had sent before (lakehouse/replays.py), from bronze.

Most batches cost one look at the messages' batch numbers. Only where these fall, or a replay goes on, the partition's run is read.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.replays import Aligner, Sent

Place = tuple[str, str, int]
RUN = 2_000_000  # as many messages before a batch are laid beside it, at most
SENT = "offset bigint, number bigint, mark binary"
_NUMBER = r'[{,]\s*"id"\s*:\s*([0-9]{1,18})\s*[,}]'


class Replays(NamedTuple):
    """The copies of a batch by partition, how many replays left their run, and what the next batch has to know of each partition."""

    copies: dict[Place, frozenset[int]]
    broken: int
    state: list[dict[str, Any]]


def find_replays(bronze: DataFrame, ranges: list[dict[str, Any]], done: dict[str, Any] | None) -> Replays:
    """`bronze` is all of the source's records."""
    before = {(e["topic"], e["incarnation"], e["partition"]): e for e in (done or {}).get("sent", [])}
    copies: dict[Place, frozenset[int]] = {}
    broken = 0
    for entry in ranges:
        place = (entry["topic"], entry["incarnation"], entry["partition"])
        state = before.get(place, {"number": None, "replaying": False})
        last, fell = _numbers(bronze.where(_within(place, entry["first"], entry["last"])), state["number"])
        replaying = False
        if fell or state["replaying"]:
            found, aligner, torn = _copies(bronze, place, entry)
            copies[place], replaying = found, aligner.is_replaying
            broken += torn
        before[place] = {
            "topic": place[0], "incarnation": place[1], "partition": place[2], "number": last, "replaying": replaying,
        }  # fmt: skip
    return Replays(copies, broken, [before[place] for place in sorted(before)])


def _within(place: Place, first: int, last: int) -> Column:
    topic, incarnation, partition = place
    mine = (F.col("topic") == topic) & (F.col("incarnation") == incarnation) & (F.col("partition") == partition)
    return mine & F.col("offset").between(first, last)


def _numbers(records: DataFrame, last: int | None) -> tuple[int | None, bool]:
    """The last batch number, and whether any is lower than the one before it."""
    number = F.regexp_extract(F.col("value").cast("string"), _NUMBER, 1)
    table = records.select("offset", number.alias("n")).toArrow()
    fell = False
    for row in sorted(table.to_pylist(), key=lambda row: row["offset"]):
        if row["n"]:
            fell, last = fell or (last is not None and int(row["n"]) < last), int(row["n"])
    return last, fell


def _copies(bronze: DataFrame, place: Place, entry: dict[str, Any]) -> tuple[frozenset[int], Aligner, int]:
    run = bronze.where(_within(place, entry["first"] - RUN, entry["last"])).select("offset", "value")
    aligner, found, torn = Aligner(), set(), 0
    for row in sorted(run.mapInArrow(_marks, SENT).toArrow().to_pylist(), key=lambda row: row["offset"]):
        if row["offset"] == entry["first"]:
            torn = aligner.broken
        if aligner.is_copy(Sent(row["number"], row["mark"])) and row["offset"] >= entry["first"]:
            found.add(row["offset"])
    return frozenset(found), aligner, aligner.broken - torn


def _marks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from lakehouse.events import Message
    from lakehouse.replays import sent

    for batch in batches:
        offsets, values = batch.column("offset").to_pylist(), batch.column("value").to_pylist()
        rows = [(offset, *sent(Message("", 0, offset, None, value))) for offset, value in zip(offsets, values, strict=True)]
        arrays = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate((pa.int64(), pa.int64(), pa.binary()))]
        yield pa.RecordBatch.from_arrays(arrays, names=["offset", "number", "mark"])
