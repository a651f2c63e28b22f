"""Which partitions of a source count for its watermark: a rule over what the broker lists, what silver has
read and what operators have retired.

A partition of an incarnation counts from when it is first listed or met, until an operator retires it or the
broker lists a newer incarnation of its topic that has no such partition. One that was retired counts again as
soon as something arrives in it, or as its topic is created anew with it.

TiCDC sends watermarks to topics that have tables. A statement that removes a topic's last table comes after
all of the topic's rows: it stands for a watermark, and the topic counts no more until there is a table again,
or a watermark above.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lakehouse.events import MIN_POSITION, SNAPSHOT_TOPIC, Position
from lakehouse.lineage import Interval, Lineage, Name
from lakehouse.ops.progress import NextOffset, Partition

# what no topic's name has, and TiCDC replaces
_FORBIDDEN = re.compile(r"[^a-z0-9._-]")


class Listing(NamedTuple):
    """The partitions that a broker lists, and the incarnation of each topic that it has listed (none for a
    recording, whose partitions are those that silver has met).
    """

    partitions: Collection[Partition] = ()
    incarnations: Mapping[str, str] = {}


class Retirement(NamedTuple):
    """A partition that an operator retired, and the next offset that silver had then, by incarnation."""

    partition: Partition
    read: Mapping[str, int]


class Counting(NamedTuple):
    """The partitions that count, in order; and those of them that were retired and count again."""

    partitions: list[Partition]
    again: list[Partition]


def counting(listing: Listing, read: Iterable[NextOffset], retired: Iterable[Retirement]) -> Counting:
    """The partitions that count, with what silver has read (`read`) and the retirements, oldest first. Table
    snapshots have no watermark of their own: they hold nothing.
    """
    met: dict[Partition, dict[str, int]] = {}
    for one in (one for one in read if one.topic != SNAPSHOT_TOPIC):
        met.setdefault((one.topic, one.partition), {})[one.incarnation] = one.offset
    newest = _newest(listing)
    there = set(listing.partitions) | {
        place for place, offsets in met.items() if newest.get(place[0]) in (None, *offsets)
    }
    resting = {one.partition: one.read for one in retired if one.partition in there}
    again = {
        place for place, then in resting.items() if _has_more(met.get(place, {}), then, newest.get(place[0]))
    }
    return Counting(sorted(there - (resting.keys() - again)), sorted(again))


def _newest(listing: Listing) -> dict[str, str]:
    """The incarnation of each topic that is listed now. One that is away is not known to be another."""
    topics = {topic for topic, _ in listing.partitions}
    return {topic: name for topic, name in listing.incarnations.items() if topic in topics}


def _has_more(met: Mapping[str, int], then: Mapping[str, int], newest: str | None) -> bool:
    """Whether something has arrived in a partition since `then`, or its topic was created anew."""
    is_another = newest is not None and newest not in then
    return is_another or any(offset > then.get(incarnation, 0) for incarnation, offset in met.items())


def lives_at_source(lineage: Lineage) -> list[Interval]:
    """The stretches of a table's names, whatever a policy keeps in gold that the source has no more."""
    *before, last = lineage.intervals
    ends = last.high is None and lineage.gone is not None
    return [*before, replace(last, high=lineage.gone)] if ends else lineage.intervals


def with_new_names(
    tables: Mapping[str, Collection[Name]], lineages: Iterable[Lineage]
) -> dict[str, set[Name]]:
    """The tables of each topic, with the names that RENAMEs have given them. A topic that is called after
    what they have changed is left with it: its producer sends the table's rows to another one.
    """
    lineages, found = list(lineages), dict[str, set[Name]]()
    renames = [pair for one in lineages for pair in pairwise(interval.name for interval in one.intervals)]
    # of a RENAME that a policy ignores, the table of the new name begins where the other one is gone
    begun = {one.steps[0].position: one.intervals[0].name for one in lineages}
    renames += [(one.intervals[-1].name, begun[one.gone]) for one in lineages if one.gone in begun]
    for topic, names in tables.items():
        mine = found[topic] = set(names)
        for old, new in renames:
            if _folded(old) in map(_folded, mine) and not _is_called_after(topic, old, new):
                mine.add(new)
    return found


def _is_called_after(topic: str, old: Name, new: Name) -> bool:
    """Whether a part of the old name that the new one has not is in the topic's name, as TiCDC writes it."""
    lost = (was for was, now in zip(_folded(old), _folded(new), strict=True) if was != now)
    return any(_FORBIDDEN.sub("_", part) in topic.casefold() for part in lost)


def topic_ends(
    tables: Mapping[str, Collection[Name]],
    intervals: Iterable[Interval],
    marks: Mapping[Partition, Position],
) -> dict[str, Position]:
    """The topics of whose `tables` none is left, and where the last one ended: by name, in any case."""
    ends: dict[Name, list[Position | None]] = {}
    for interval in intervals:
        ends.setdefault(_folded(interval.name), []).append(interval.high)
    found = {}
    for topic, names in tables.items():
        highs = [high for name in {_folded(name) for name in names} for high in ends.get(name, [None])]
        closed = [high for high in highs if high is not None]
        if closed and len(closed) == len(highs):
            found[topic] = max(closed)
    return without_later_marks(found, marks)


def without_later_marks(
    ends: Mapping[str, Position], marks: Mapping[Partition, Position]
) -> dict[str, Position]:
    """The ends above which their topic has sent no watermark."""
    highest: dict[str, Position] = {}
    for (topic, _), mark in marks.items():
        highest[topic] = max(mark, highest.get(topic, mark))
    return {topic: end for topic, end in ends.items() if highest.get(topic, MIN_POSITION) <= end}


def is_passed(whole: Collection[int], batch: int | None, done: int) -> bool:
    """Whether of the batches from a statement's on, up to `done`, two have taken all that a pass had landed
    (they are among `whole`): one pass may land the statement, and only the next one rows of other partitions
    that came before it.
    """
    return batch is not None and sum(batch <= one <= done for one in whole) > 1


def smallest(
    marks: Mapping[Partition, Position],
    partitions: Collection[Partition],
    ends: Mapping[str, Position],
) -> tuple[Position, Partition | None]:
    """The watermark of a source, and the partition that holds it: the smallest over the partitions that
    count. One without a watermark holds the source at the beginning. Topics at their end hold nothing; where
    there are no others, all that they had to send is there.
    """
    open_ = [partition for partition in partitions if partition[0] not in ends]
    if not open_:
        closed = [ends[topic] for topic, _ in partitions]
        return max(closed, default=MIN_POSITION), None
    held = min(open_, key=lambda partition: marks.get(partition, MIN_POSITION))
    return marks.get(held, MIN_POSITION), held


def _folded(name: Name) -> Name:
    return name[0].casefold(), name[1].casefold()
