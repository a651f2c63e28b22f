"""When a row that differs is a difference.

Gold is read at a watermark, the server a little before it: rows that the feed has changed in between may
differ for that alone. So each look takes the server's place A, reads, takes the place B, waits until a
published watermark W has passed B, and asks silver for the rows that changed above A up to W. A row that
differs and has not changed differs; a row that has changed is looked at again. A server's binlog can be ahead
of what its SELECT sees by the transactions that are being committed, so a row counts once it has differed in
two looks. What still can't be said after the last look is undecided, never different.

At a TSO both sides are read at one place: the first look decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MISSING, EXTRA, CHANGED, REPEATED = "missing", "extra", "changed", "repeated"
COLUMNS, TABLE = "columns", "table"
DIFFERENT, UNDECIDED = "different", "undecided"
# how often a row must have differed, where the server's binlog may be ahead of what a SELECT sees
LOOKS = 2

Texts = tuple[str | None, ...]


class Found(NamedTuple):
    """A row that differs: the hash of its key ("" for what is about the table), how, in which columns, and
    whether the feed has changed it meanwhile. `gold` and `source`: the texts of the cells in `columns`, or of
    all of them where only one side has the row; empty unless values are asked for.

        missing     the source has it, gold has not      extra     gold has it, the source has not
        changed     some columns differ                  repeated  it is there more often on one side
        columns     one side lacks these columns         table     the source has no such table
    """

    key: str
    kind: str
    bucket: int = 0
    columns: tuple[str, ...] = ()
    changed: bool = False
    gold: Texts = ()
    source: Texts = ()


@dataclass(slots=True)
class Looks:
    """What the looks at a table have found so far. `needed`: in how many a row must have differed."""

    needed: int = LOOKS
    different: dict[str, Found] = field(default_factory=dict)
    open: dict[str, tuple[Found, int]] = field(default_factory=dict)

    def take(self, found: Iterable[Found]) -> None:
        """Take what one more look has found of all rows that are not decided yet."""
        before, self.open = self.open, {}
        for one in found:
            name = one.key or f"{one.kind} {', '.join(one.columns)}"
            if name in self.different:
                continue
            times = 0 if one.changed else (before[name][1] if name in before else 0) + 1
            if times >= self.needed:
                self.different[name] = one
            else:
                self.open[name] = (one, times)

    @property
    def undecided(self) -> list[Found]:
        """What differs as far as was looked, and may do so because it was being changed."""
        return [found for found, _ in self.open.values()]


def kind_of(
    names: Sequence[str], gold: Sequence[Sequence[str | None]], source: Sequence[Sequence[str | None]]
) -> Found:
    """How the rows of one key differ, by the texts or digests of their cells."""
    if len(gold) == len(source) == 1:
        pairs = zip(names, gold[0], source[0], strict=True)
        cells = [(name, one, other) for name, one, other in pairs if one != other]
        columns, ours, theirs = zip(*cells, strict=True)
        return Found("", CHANGED, columns=columns, gold=ours, source=theirs)
    kind = MISSING if not gold else EXTRA if not source else REPEATED
    every = tuple(names)
    return Found(
        "",
        kind,
        columns=every,
        gold=tuple(gold[0]) if gold else (),
        source=tuple(source[0]) if source else (),
    )
