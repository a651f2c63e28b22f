"""Watermarks that turn out to have been wrong: changes that are new to silver, of a partition that had said
before that it sends nothing more at or below their position.

    published W, and what each partition had promised then ─▶ a later change at or below both ─▶ Disproved

Two changefeeds that write to one topic do this, and a producer that goes back. What a partition sends that
had promised nothing, or that did not count, is late and legal. The table has the change; but what else is
missing is not known until the watermark has moved on.

In a binlog a row of a transaction that is known at another place tells more: the binlog began anew (RESET
MASTER, a restored server), and its places rank below those of before. An epoch settles that, no watermark.
"""

from collections.abc import Iterable, Mapping

from lakehouse.events import Position
from lakehouse.ops.progress import Disproved, Partition


def promised(marks: Mapping[Partition, Position], watermark: Position) -> dict[Partition, Position]:
    """Up to where each partition's changes had all been sent, at most up to the published watermark."""
    return {partition: min(mark, watermark) for partition, mark in marks.items()}


def standing(
    known: Iterable[Disproved], found: Iterable[Disproved], watermark: Position
) -> tuple[Disproved, ...]:
    """What a manifest at `watermark` has to say: what was `found` by this run, and what is `known` from the
    manifest before and no later watermark has settled; one for each table.
    """
    tables = {one.name: one for one in known if watermark <= one.until}
    for one in found:
        before = tables.get(one.name)
        tables[one.name] = one if before is None else _both(before, one)
    return tuple(tables[name] for name in sorted(tables))


def _both(one: Disproved, other: Disproved) -> Disproved:
    first = min(one, other, key=lambda each: each.position)
    until = max(one.until, other.until)
    return Disproved(first.name, one.n + other.n, first.position, first.place, until=until)


def anew(epoch: int) -> Position:
    """What no watermark of an epoch is past: up to where a binlog that began anew makes tables incomplete."""
    return (epoch, 2**63 - 1, 0, 0, 0, 0)


def disproved_text(one: Disproved) -> str:
    """A table's late changes in words."""
    place = f"{one.place.topic}/{one.place.partition} at offset {one.place.offset}"
    if one.until == anew(one.until[0]):
        return (
            f"the upstream's binlog began anew (changes below those that were known: {one.n}, the first in "
            f"{place}): rows since may be out of order; `lakehouse epoch raise`, then a snapshot"
        )
    return (
        f"changes came after a watermark that had passed them ({one.n}, the first in {place}): a topic must "
        "have one changefeed; the next watermark settles it"
    )
