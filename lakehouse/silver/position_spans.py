"""Where the positions of a batch lie, as a few spans, by which silver is looked through for what it may have
of them: file statistics tell which files have none. One old row among new ones must not make of them all that
lies between.
"""

from collections.abc import Iterable
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from lakehouse.events import Position

# so many spans, or one for each epoch where there are more
SPANS = 8
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Span(NamedTuple):
    """The positions of an epoch whose second integer is between two, both included."""

    epoch: int
    low: int
    high: int


def spans_of(bounds: Iterable[tuple[Position, Position]]) -> tuple[Span, ...]:
    """A few spans that have all positions in them that lie between any of these lowest and highest ones: with
    the largest of the gaps between these left out.
    """
    found = _joined(span for low, high in bounds for span in _by_epoch(low, high))
    if not found:
        return ()
    neighbours = list(enumerate(pairwise(found), 1))
    begins = {0, *(number for number, (one, other) in neighbours if one.epoch != other.epoch)}
    gaps = [(other.low - one.high, number) for number, (one, other) in neighbours if number not in begins]
    begins |= {number for _, number in nlargest(max(0, SPANS - len(begins)), gaps)}
    starts = sorted(begins)
    ends = [*starts[1:], len(found)]
    return tuple(
        Span(found[start].epoch, found[start].low, found[end - 1].high)
        for start, end in zip(starts, ends, strict=True)
    )


def _by_epoch(low: Position, high: Position) -> Iterable[Span]:
    for epoch in range(low[0], high[0] + 1):
        yield Span(
            epoch,
            low[1] if epoch == low[0] else LOWEST,
            high[1] if epoch == high[0] else HIGHEST,
        )


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one."""
    found: list[Span] = []
    for one in sorted(spans):
        if found and found[-1].epoch == one.epoch and one.low <= found[-1].high:
            found[-1] = Span(one.epoch, found[-1].low, max(found[-1].high, one.high))
        else:
            found.append(one)
    return found
