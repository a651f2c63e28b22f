"""Records that land below what silver has read of their partition: an older recording of a topic, or one
whose messages are in no order.

Silver reads each partition upwards and remembers its next offset. What bronze lands below is recorded as
ranges. What of them lies below its next offset, silver decodes in a batch of its own; it meets the rest as it
goes on.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from lakehouse.ops.progress import NextOffset, OffsetRange, Place

# more ranges than this are taken as one for each partition: what has been read before is a duplicate
RANGES = 200
Record = tuple[str, str, int, int]


def landed_below(records: Iterable[Record], ends: Mapping[Place, int]) -> tuple[OffsetRange, ...]:
    """The ranges of the records (topic, incarnation, partition, offset) that lie below where bronze ends."""
    below = sorted({one for one in records if one[3] < ends.get(one[:3], 0)})
    return merged(OffsetRange(*one, last=one[3]) for one in below)


def is_half_told(told: Sequence[tuple[OffsetRange, ...]]) -> bool:
    """Whether the last of the records that tell of such ranges, each written before and after its messages
    land, was written before alone: the run died, and silver may have looked before they had landed.
    """
    last = list(takewhile(lambda ranges: ranges == told[-1], reversed(told)))
    return len(last) % 2 == 1


def unread(ranges: Iterable[OffsetRange], following: Iterable[NextOffset]) -> tuple[OffsetRange, ...]:
    """What of the ranges lies below the next offsets: reading upwards will not meet it."""
    ends = {one.place: one.offset for one in following}
    kept = [one for one in ranges if one.first < ends.get(one.place, 0)]
    return merged(OffsetRange(*one.place, one.first, min(one.last, ends[one.place] - 1)) for one in kept)


def merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """As `joined`; where they are too many, one for each partition."""
    found = joined(ranges)
    return tuple(found) if len(found) <= RANGES else _by_partition(found)


def joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The ranges in order, with neighbours and those that overlap as one."""
    found: list[OffsetRange] = []
    for one in sorted(ranges, key=lambda one: (one.place, one.first)):
        if found and found[-1].place == one.place and one.first <= found[-1].last + 1:
            found[-1] = OffsetRange(*one.place, found[-1].first, max(found[-1].last, one.last))
        else:
            found.append(one)
    return found


def _by_partition(ranges: list[OffsetRange]) -> tuple[OffsetRange, ...]:
    whole: dict[Place, OffsetRange] = {}
    for one in ranges:
        whole[one.place] = OffsetRange(*one.place, whole.get(one.place, one).first, one.last)
    return tuple(whole.values())
