"""Finds, from bronze, the records of a batch that a feed in order of arrival had sent before
(lakehouse/silver/redelivery.py).

Most batches cost one look at the messages' numbers. Only where these fall, or a replay goes on, the
partition's run is read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.row import Redelivery
from lakehouse.ops.progress import OffsetRange, Place, SentState
from lakehouse.ops.records.silver import Done
from lakehouse.silver.redelivery import Aligner, Sent, restarted, starts_of
from lakehouse.spark.arrow import Worker
from lakehouse.spark.bronze.offsets import of_place, within

Numbers = dict[Place, list[tuple[int, int, int | None]]]
SENT = "offset bigint, number bigint, mark binary, made bigint, `table` string"
_NUMBER = r'[{{,]\s*"{}"\s*:\s*([0-9]{{1,18}})\s*[,}}]'
_LAST = "(?s).*" + _NUMBER  # `ts` stands behind `sqlType`, which has a number for a column of that name


class Replays(NamedTuple):
    """The copies of a batch by partition, how many replays left their run, and what the next batch has to
    know of each partition.
    """

    copies: dict[Place, frozenset[int]]
    broken: int
    state: tuple[SentState, ...]


def find_replays(
    bronze: DataFrame,
    rule: Redelivery,
    ranges: Sequence[OffsetRange],
    done: Done | None,
    table: pa.Table | None,
) -> Replays:
    """`bronze` is all of the source's records, `table` those of the ranges where they are at hand."""
    before = {one.place: one for one in (done.sent if done else ())}
    numbers = _numbers(bronze, rule, ranges) if table is None else _numbers_in(table, rule)
    copies: dict[Place, frozenset[int]] = {}
    broken = 0
    for one in ranges:
        state = before.get(one.place, SentState(*one.place, offset=-1, number=None))
        if one.first <= state.offset:
            # records that are read again for their dead letters: they were laid beside the run before
            continue
        met = sorted(numbers.get(one.place, ()))
        told = [(state.number, state.made), *[(number, made) for _, number, made in met]]
        since = None
        if state.replaying or any(restarted(earlier, *later) for earlier, later in pairwise(told)):
            copies[one.place], since, torn = _copies(bronze, rule, one, state)
            broken += torn
        number, made = told[-1]
        before[one.place] = SentState(
            *(*one.place, one.last, number, made),
            replaying=since is not None,
            since=UNSET if since is None else since,
        )
    return Replays(copies, broken, tuple(before[place] for place in sorted(before)))


def _within(place: Place, first: int, last: int) -> Column:
    return of_place(place) & F.col("offset").between(first, last)


def _numbers(bronze: DataFrame, rule: Redelivery, ranges: Iterable[OffsetRange]) -> Numbers:
    """The offsets and numbers of the messages that have one, by partition."""
    bare = (msgspec.structs.replace(one, context=None) for one in ranges)
    text = F.col("value").cast("string")
    number = F.regexp_extract(text, _NUMBER.format(rule.number), 1).alias("number")
    made = (F.regexp_extract(text, _LAST.format(rule.made), 1) if rule.made else F.lit("")).alias("made")
    return _by_place(
        within(bronze, bare)
        .select("topic", "incarnation", "partition", "offset", number, made)
        .toArrow()
        .to_pylist()
    )


def _numbers_in(table: pa.Table, rule: Redelivery) -> Numbers:
    search = re.compile(_NUMBER.format(rule.number).encode()).search
    search_made = re.compile(_LAST.format(rule.made).encode()).search if rule.made else None
    rows = table.select(["topic", "incarnation", "partition", "offset", "value"]).to_pylist()
    for row in rows:
        found = search(row["value"] or b"")
        row["number"] = found[1] if found else None
        made = search_made(row["value"] or b"") if search_made else None
        row["made"] = made[1] if made else None
    return _by_place(rows)


def _by_place(rows: list[dict[str, Any]]) -> Numbers:
    numbers: Numbers = {}
    for row in rows:
        if row["number"]:
            numbers.setdefault((row["topic"], row["incarnation"], row["partition"]), []).append(
                (row["offset"], int(row["number"]), int(row["made"]) if row["made"] else None)
            )
    return numbers


def _copies(
    bronze: DataFrame, rule: Redelivery, read: OffsetRange, state: SentState
) -> tuple[frozenset[int], int | None, int]:
    """The copies in a range; from which offset on the next batch has to read the run, where a replay is under
    way behind the range; and how many replays broke in it.
    """
    met = _sent(bronze, rule, read.place, (read.first, read.last))
    starts = starts_of([row for _, row in met], (state.number, state.made))
    first = _first_place(bronze, rule, read, state, starts=starts)
    run = _sent(bronze, rule, read.place, (first, read.first - 1))
    aligner = Aligner(rule)
    aligner.copies([row for _, row in run])
    torn = aligner.broken
    found = aligner.copies([row for _, row in met])
    copies = frozenset(offset for (offset, _), copy in zip(met, found, strict=True) if copy)
    return copies, first if aligner.is_replaying else None, aligner.broken - torn


def _first_place(
    bronze: DataFrame, rule: Redelivery, read: OffsetRange, state: SentState, *, starts: frozenset[bytes]
) -> int:
    """The first offset of the run that messages of a range may be copies of: that of the first message before
    it that is equal to one with which the feed begins again. What is before that is followed by none, so
    only workers look at it. A replay that began before the range goes on from where its run was found.
    """
    lowest = max(0, read.first - rule.run)
    places = [read.first]
    if state.replaying:  # a record of an older lakehouse does not say from where on
        places.append(lowest if isinstance(state.since, UnsetType) else state.since)
    if starts:
        messages = bronze.where(_within(read.place, lowest, read.first - 1)).select("offset", "value")
        equal = messages.mapInArrow(_marks(rule, starts), SENT).select(F.min("offset")).first()
        places += [] if equal is None or equal[0] is None else [equal[0]]
    return min(places)


def _sent(
    bronze: DataFrame, rule: Redelivery, place: Place, offsets: tuple[int, int]
) -> list[tuple[int, Sent]]:
    """The messages between two offsets, both included, as they are compared."""
    first, last = offsets
    if first > last:
        return []
    messages = bronze.where(_within(place, first, last)).select("offset", "value")
    table = messages.mapInArrow(_marks(rule), SENT).toArrow().sort_by("offset")
    rows = zip(*(table[name].to_pylist() for name in ("offset", *Sent._fields)), strict=True)
    return [(offset, Sent(*told)) for offset, *told in rows]


def _marks(rule: Redelivery, wanted: frozenset[bytes] | None = None) -> Worker:
    """Reads messages as they are compared: all of them, or those of `wanted` marks."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.events import Message
        from lakehouse.silver.redelivery import sent

        for batch in batches:
            offsets, values = batch.column("offset").to_pylist(), batch.column("value").to_pylist()
            rows = [
                (offset, *sent(Message("", 0, offset, key=None, value=value), rule))
                for offset, value in zip(offsets, values, strict=True)
            ]
            rows = [row for row in rows if wanted is None or row[2] in wanted]
            arrays = [
                pa.array([row[i] for row in rows], type_)
                for i, type_ in enumerate((pa.int64(), pa.int64(), pa.binary(), pa.int64(), pa.string()))
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=["offset", *Sent._fields])

    return work
