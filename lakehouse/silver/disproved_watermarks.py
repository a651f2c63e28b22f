"""Watermarks that turn out to have been wrong: changes that are new to silver, of a partition that had said
before that it sends nothing more at or below their position.

    published W, and what each partition had promised then ─▶ a later change at or below both ─▶ Disproved

Two changefeeds that write to one topic do this, and a producer that goes back. What a partition sends that
had promised nothing, or that did not count, is late and legal. The table has the change; but what else is
missing is not known until the watermark has moved on.
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


def disproved_text(one: Disproved) -> str:
    """A table's late changes in words."""
    place = f"{one.place.topic}/{one.place.partition} at offset {one.place.offset}"
    return (
        f"changes came after a watermark that had passed them ({one.n}, the first in {place}): a topic must "
        "have one changefeed; the next watermark settles it"
    )
