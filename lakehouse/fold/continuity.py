"""Continuity: whether each change of a row fits the change before it. What does not fit shows a change that
was never delivered, or a producer that sends what its source does not have.

    changes ─ChangeReader─▶ Claim: what a change says of its row, before it and after it
            ─breaks_of────▶ Break: two claims in a row that can't both be true

An insert says that the row was not there, an update with its old image and a delete say that it was, and what
its cells were. Which of these a feed says is its format's matter (`Continuity`); docs/continuity.md has the
reasons. A false alarm is worse than a miss, so nothing is said where one of these lies between two changes:

    another epoch                   another server's changes, whose state before is not known
    one commit_ts (TiCDC)           a transaction may be cut into other changes when it is sent again
    a row of an incremental         its position is older than the state that it shows
    snapshot, or of one of a
    live table
    a DDL that changes keys, or     rows may have become others, or be gone
    removes or converts rows

Cells are compared where both images are whole, of one schema step and one encoding; never those of floating
point, JSON, spatial and generated columns, and never those of a snapshot, which producers may write in
another form. Of a key whose first change is seen nothing is known, but where the table's CREATE, a TRUNCATE
or a complete snapshot says that it was empty then.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from lakehouse.ddl_effects import Clear
from lakehouse.events import Position
from lakehouse.lineage import Lineage
from lakehouse.schema import Column, TableSchema

INSERTED_TWICE = "an insert of a row that is there"
NOT_THERE = "an update or delete of a row that is not there"
ANOTHER_ROW = "an old image that is not the row before it"
_encode = msgspec.json.Encoder().encode
# whose text is the same in every image of one schema and encoding
_EXACT = {
    *("integer", "decimal", "bit", "text", "binary", "enum", "set"),
    *("date", "datetime", "timestamp", "time", "year"),
}


class Continuity(NamedTuple):
    """What the changes of a feed say of the rows before them. `rows`: an update with its old image, and a
    delete, are of a row that is there; `inserts`: an insert is of one that is not; `by_commit`: changes of
    one row at one commit_ts are one change, however they were cut. `compacted`: nothing, though the format
    would: its topic keeps the last change of each row alone.
    """

    rows: bool = False
    inserts: bool = False
    by_commit: bool = False
    compacted: bool = False


class Claim(NamedTuple):
    """What a change says of its row: whether it was there before and is there after it (None: nothing), and
    checksums of its cells before and after. Those of one `form` can be compared.
    """

    position: Position
    before: bool | None
    after: bool | None
    form: str = ""
    old: int | None = None
    new: int | None = None


class Break(NamedTuple):
    """A change that does not fit the one before it: its position, the earlier one's (of a key's first change
    that of the statement or snapshot that has emptied the table), a hash of the key, and what does not fit.
    """

    position: Position
    before: Position
    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.what}: key {self.key}, at {_place(self.position)} after {_place(self.before)}"


class Breaks(NamedTuple):
    """How many changes do not fit, and the first of them."""

    total: int = 0
    first: Break | None = None

    def plus(self, other: "Breaks") -> "Breaks":
        """Both together."""
        found = [each.first for each in (self, other) if each.first is not None]
        return Breaks(self.total + other.total, min(found, default=None))


NO_BREAKS = Breaks()


def _place(position: Position) -> str:
    """A position without the zeros at its end."""
    parts = max((i for i, part in enumerate(position) if part), default=0) + 1
    return ".".join(map(str, position[:parts]))


def begun_at(lineage: Lineage, start: int, end: int, *, whole: bool) -> Position | None:
    """Where the table is known to have been empty, for changes of the steps start … end, no cut among them:
    at its CREATE, or where a statement or a complete snapshot has emptied it. None where rows may have been
    there that no change has shown; not `whole`: earlier changes are left out.
    """
    if not whole:
        return None
    for step in reversed(lineage.steps[start : end + 1]):
        if any(isinstance(effect, Clear) for effect in step.effects):
            # what a snapshot shows that was read while the table changed, happened after it
            return None if step.position in lineage.unsettled else step.position
    first = lineage.steps[0]
    # a server may log CREATE TABLE IF NOT EXISTS for a table that exists
    words = (first.ddl or "").upper().split(None, 12)
    is_created = bool(words) and words[0] == "CREATE" and "EXISTS" not in words
    return first.position if start == 0 and is_created and not lineage.incomplete else None


class Form(NamedTuple):
    """Images that can be compared: their schema step and encoding, as a text, and the columns."""

    text: str
    ids: tuple[int, ...]

    def checksum(self, row: Mapping[int, Any] | None) -> int | None:
        """A checksum of a row's cells, None where one is absent. Two rows that differ may have one checksum,
        which misses a break in four billion.
        """
        if row is None or not self.ids:
            return None
        try:
            return crc32(_encode([row[column] for column in self.ids]))
        except KeyError:
            return None


def form_of(source: TableSchema, target: TableSchema, text: str) -> Form:
    """The form of images of a schema that are carried to a later one: their columns that are the same there
    and have one text for each value.
    """
    later = {column.id: column for column in target.columns}
    ids = [column.id for column in source.columns if _is_comparable(column, later.get(column.id))]
    return Form(text, tuple(ids))


def _is_comparable(column: Column, later: Column | None) -> bool:
    return (
        later is not None
        and later.type == column.type
        and column.type.family in _EXACT
        and not (column.generated or later.generated)
    )


def misfit(last: Claim, claim: Claim, *, by_commit: bool) -> str | None:
    """What of a claim does not fit the one before it, None where it fits or nothing is said."""
    if last.after is None or claim.before is None or last.position[0] != claim.position[0]:
        return None
    if by_commit and last.position[:2] == claim.position[:2]:
        return None
    if claim.before != last.after:
        return NOT_THERE if claim.before else INSERTED_TWICE
    if last.form != claim.form or last.new is None or claim.old is None:
        return None
    return ANOTHER_ROW if last.new != claim.old else None


def absent_at(position: Position | None) -> Claim | None:
    """That a row was not there at a position; None where there is no such position."""
    return None if position is None else Claim(position, None, after=False)


def break_of(key: str, last: Claim | None, claim: Claim, *, by_commit: bool) -> Break | None:
    """The break between two claims of a key, whose text is `key`; None where there is none."""
    what = None if last is None else misfit(last, claim, by_commit=by_commit)
    return None if what is None or last is None else Break(claim.position, last.position, key_hash(key), what)


def breaks_of(key: str, claims: Iterable[Claim], last: Claim | None, *, by_commit: bool) -> Iterator[Break]:
    """The breaks among the claims of one key, in position order; `last` is what is known of the row before
    them. Of several claims of one commit none says what was before the commit: a delete may be half of an
    update that was sent again.
    """
    for claim, following in pairwise(chain(claims, (None,))):
        assert claim is not None
        said = claim
        if by_commit and following is not None and following.position[:2] == claim.position[:2]:
            said = claim._replace(before=None)
        if (found := break_of(key, last, said, by_commit=by_commit)) is not None:
            yield found
        last = claim


def key_text(key: tuple[Any, ...]) -> str:
    """A key as JSON."""
    return _encode(key).decode()


def key_hash(key: str) -> str:
    """What stands for a key, by its text, where no value of a row may be shown."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def all_of(found: Iterable[Break]) -> Breaks:
    """Breaks, counted."""
    every = list(found)
    return Breaks(len(every), min(every, default=None))
