"""The current rows of a table: a lineage's changes up to a position, folded.

    fold(lineage, changes, T) → rows

Every change is carried forward to the schema at T, the changes of one row are netted in position order (the
greatest position wins; partial images are merged column by column; a deleted row stays deleted), keyless
tables are multisets. Where a DDL changes the key, rows are folded up to it, and go on as rows of the new key;
where it removes rows by their partition, too, since the row decides and not the images that it had.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from lakehouse.events import Position
from lakehouse.fold.continuity import (
    NO_BREAKS,
    Breaks,
    Claim,
    absent_at,
    all_of,
    begun_at,
    breaks_of,
    key_text,
)
from lakehouse.fold.keyless import Multiset
from lakehouse.fold.row_edits import (
    DELETE,
    NO_KEY,
    ONE_KEY,
    PUT,
    REFUSE,
    UPSTREAM,
    Change,
    ChangeReader,
    Edits,
    Key,
    RowEdit,
    image_text,
    in_order,
    row_key,
)
from lakehouse.fold.steps import clears, cuts, target_step
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, key_ids

# the images of so many changes are in memory at once besides the rows that they make
CHUNK = 4096
NOTHING_KNOWN: Mapping[Key, Claim] = MappingProxyType({})


@dataclass(slots=True)
class Folded:
    """The rows of a fold, and all that it found. `rows` maps a key to its row by column id. `deleted` are
    keys known to be gone, `patches` are keys whose earlier image is not among the changes, `refused` are keys
    of refused images. `unknown` are column names that the schema at their position lacks, with the first such
    position, `problems` say what the changes lack to give the source's rows, `breaks` are the changes that do
    not fit those before them. `first` are keys whose first change says that their row was there before, of
    which the changes know nothing. `guessed`: in a table without a key, deletes did not find rows of their
    image.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    deleted: set[Key] = field(default_factory=set)
    patches: dict[Key, Row] = field(default_factory=dict)
    refused: set[Key] = field(default_factory=set)
    unknown: dict[str, Position] = field(default_factory=dict)
    keyless: list[Row] = field(default_factory=list)
    problems: set[str] = field(default_factory=set)
    applied: int = 0
    cleared: int = 0
    breaks: Breaks = NO_BREAKS
    first: set[Key] = field(default_factory=set)
    guessed: bool = False


def fold(
    lineage: Lineage,
    changes: Iterable[Change],
    at: Position,
    upstream: Upstream = UPSTREAM,
    *,
    whole: bool = True,
) -> Folded:
    """The table's rows after every change at or below `at`, in the schema of that place. Changes come in any
    order. Not `whole`: they are not all, so that the first one of a row says nothing of those before it.
    """
    target = target_step(lineage, at)
    ordered = in_order(lineage, (change for change in changes if change.position <= at), upstream)
    folded = Folded()
    rows: list[Row] = []
    for piece, mine in _pieces(lineage, ordered, target, upstream=upstream, whole=whole):
        if piece.end == target or rows or folded.problems or mine:
            folded = _with_found(_fold_piece(piece, mine, rows), folded, piece)
            if piece.end < target:
                rows, lost = _across(piece, finish(folded))
                folded.problems |= lost
    return folded


def _pieces(
    lineage: Lineage, ordered: list[Change], target: int, *, upstream: Upstream, whole: bool
) -> "Iterator[tuple[Piece, list[Change]]]":
    """The pieces up to a step, each with its changes, which come in position order."""
    start = done = 0
    for end in [*(step - 1 for step in cuts(lineage, target, upstream)), target]:
        reach = len(ordered) if end == target else _below(ordered, lineage.steps[end + 1].position, done)
        yield Piece(lineage, start, end, upstream, whole=whole), ordered[done:reach]
        start, done = end + 1, reach


def _below(ordered: list[Change], position: Position, low: int) -> int:
    """How many of the changes lie at or below the position."""
    return bisect_right(ordered, position, lo=low, key=attrgetter("position"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of steps without a cut. Not `whole`: its changes are not all."""

    lineage: Lineage
    start: int
    end: int
    upstream: Upstream
    whole: bool

    @property
    def begun(self) -> Position | None:
        """Where the table is known to have been empty."""
        return begun_at(self.lineage, self.start, self.end, whole=self.whole)


def _across(piece: Piece, rows: list[Row]) -> tuple[list[Row], frozenset[str]]:
    """The rows of a piece in the schema of the step after it, where they may go on under another key, and
    what of them no rule has converted.
    """
    carrier = Carrier(piece.lineage, piece.end, piece.end + 1, "canonical", upstream=piece.upstream)
    return [row for row in map(carrier.move, rows) if row is not None], carrier.take_lost()


def _with_found(folded: Folded, before: Folded, piece: Piece) -> Folded:
    """The rows of a piece with what was found in it and in the pieces before."""
    folded.unknown = {**folded.unknown, **before.unknown}
    if not clears(piece.lineage, piece.start, piece.end):
        folded.problems |= before.problems
        folded.breaks = folded.breaks.plus(before.breaks)
    folded.applied += before.applied
    folded.cleared += before.cleared
    folded.guessed |= before.guessed
    return folded


def _fold_piece(piece: Piece, changes: list[Change], base: list[Row]) -> Folded:
    """The rows of a piece in the schema of its end; `base` are those from before it, in that of its start."""
    ids = key_ids(piece.lineage, piece.end)
    mover = Carrier(piece.lineage, piece.start, piece.end, "canonical", upstream=piece.upstream)
    rows = [row for row in map(mover.move, base) if row is not None]
    reader = ChangeReader(piece.lineage, piece.end, piece.upstream, ids)
    read = (reader.read(changes[at : at + CHUNK]) for at in range(0, len(changes), CHUNK))
    if not ids:
        folded = count_keyless(rows, read, ordered=piece.whole and piece.upstream.continuity.rows)
    else:
        watch = Watch(piece.begun is not None, piece.upstream.continuity.inserts)
        folded, odd = net_keyed(rows, read, ids, watch)
        folded.breaks = _breaks(piece, changes, odd)
    folded.problems |= mover.take_lost()
    return folded


def _breaks(
    piece: Piece, changes: list[Change], keys: set[Key], known: Mapping[Key, Claim] = NOTHING_KNOWN
) -> Breaks:
    """What of these keys' changes does not fit the one before it: looked at again one by one, since what
    looked odd in the fold may have a reason. `known` are rows that were there or gone before.
    """
    continuity, ids = piece.upstream.continuity, key_ids(piece.lineage, piece.end)
    if not (keys and ids and continuity.rows) or piece.lineage.overruled:
        return NO_BREAKS
    reader = ChangeReader(piece.lineage, piece.end, piece.upstream, ids, claims=True)
    claims: dict[Key, list[Claim]] = {key: [] for key in keys}
    for at in range(0, len(changes), CHUNK):
        for edit in reader.read(changes[at : at + CHUNK]).edits:
            key = row_key(edit.row, ids)
            if key in claims and edit.claim is not None:
                claims[key].append(edit.claim)
    begun = absent_at(piece.begun)
    return all_of(
        found
        for key, said in claims.items()
        for found in breaks_of(key_text(key), said, known.get(key, begun), by_commit=continuity.by_commit)
    )


def breaks_among(
    lineage: Lineage,
    changes: Iterable[Change],
    at: Position,
    upstream: Upstream,
    *,
    keys: set[Key],
    whole: bool,
    known: Mapping[Key, Claim] = NOTHING_KNOWN,
) -> Breaks:
    """The breaks that `fold` finds among the changes of these keys. `known` is what gold's own rows say of
    some keys before the first change, no cut lying between.
    """
    if not keys:
        return NO_BREAKS
    ordered = in_order(lineage, (change for change in changes if change.position <= at), upstream)
    target, found = target_step(lineage, at), NO_BREAKS
    for piece, mine in _pieces(lineage, ordered, target, upstream=upstream, whole=whole):
        found = NO_BREAKS if clears(lineage, piece.start, piece.end) else found
        found = found.plus(_breaks(piece, mine, keys, known))
    return found


def _noted(folded: Folded, read: Iterable[Edits]) -> Iterator[list[RowEdit]]:
    """The edits, chunk by chunk, while what was found with them is added to the fold."""
    for found in read:
        folded.unknown = {**found.unknown, **folded.unknown}
        folded.problems |= found.problems
        folded.applied += found.applied
        folded.cleared += found.cleared
        yield found.edits


class Watch(NamedTuple):
    """What makes a change look odd: `begun`: an update or delete of a row that no change has put; `inserts`:
    an insert of a row that is there.
    """

    begun: bool
    inserts: bool


def net_keyed(
    base: list[Row], read: Iterable[Edits], ids: tuple[int, ...], watch: Watch
) -> tuple[Folded, set[Key]]:
    """One outcome per key of the edits, which come in position order; and the keys of which some change does
    not seem to fit the row that it met.
    """
    folded, odd = Folded(), set[Key]()
    for row in base:
        key = row_key(row, ids)
        if key is None:
            folded.problems.add(NO_KEY)
            continue
        if (other := folded.rows.get(key)) is not None:
            # a server would have refused the statement; one of them stays, whatever the order
            folded.problems.add(ONE_KEY)
            row = max(row, other, key=image_text)
        folded.rows[key] = row
    for edits in _noted(folded, read):
        for edit in edits:
            key = row_key(edit.row, ids)
            if key is None:
                folded.problems.add(NO_KEY)
            elif folded.refused and key in folded.refused:
                # the source's row is another one than the fold's
                _apply(folded, key, edit, watch)
                odd.add(key)
            elif _apply(folded, key, edit, watch):
                odd.add(key)
    return folded, odd


def _apply(folded: Folded, key: Key, edit: RowEdit, watch: Watch) -> bool:
    """Apply an edit; whether it looks odd."""
    kind, row = edit.kind, edit.row
    if kind == REFUSE:
        # the row stays as it was; an update that changed its key has deleted the old one
        folded.refused.add(key)
        is_known = key in folded.rows or key in folded.patches or key in folded.deleted
        return is_known or (watch.begun and edit.op == "update")
    if kind == DELETE:
        return _delete(folded, key, row, watch)
    if kind == PUT:
        return _put(folded, key, row) and watch.inserts and edit.op == "insert"
    rows = folded.rows if key in folded.rows else folded.patches
    if (earlier := rows.get(key)) is not None:
        if edit.before == earlier:
            rows[key] = row  # which begins as its old image: nothing of the row is lacking
            return False
        rows[key] = {**earlier, **row}
        if edit.before is None:
            return watch.inserts and edit.op == "insert"
        return {**earlier, **edit.before} != earlier
    if key in folded.deleted:
        _put(folded, key, row)
        return True
    folded.patches[key] = row
    if edit.before is not None:
        folded.first.add(key)
    return watch.begun


def is_odd(earlier: Row | None, edit: RowEdit, watch: Watch, *, was_there: bool) -> bool:
    """The same for an edit that meets the row `earlier`; None: there is none, though perhaps it was there."""
    if earlier is None:
        return (was_there or watch.begun) and (edit.kind == DELETE or edit.op == "update")
    if edit.kind == PUT or (edit.kind != DELETE and edit.before is None):
        return watch.inserts and edit.op == "insert"
    image = edit.row if edit.kind == DELETE else edit.before
    return image is not None and image != earlier and {**earlier, **image} != earlier


def _delete(folded: Folded, key: Key, row: Row, watch: Watch) -> bool:
    earlier = folded.rows.pop(key, None)
    earlier = folded.patches.pop(key, None) if earlier is None else earlier
    if earlier is not None:
        folded.deleted.add(key)
        return row != earlier and {**earlier, **row} != earlier
    if key in folded.deleted:
        return True
    folded.deleted.add(key)
    folded.first.add(key)
    return watch.begun


def _put(folded: Folded, key: Key, row: Row) -> bool:
    """Put a row; whether one was there."""
    folded.deleted.discard(key)
    patched = folded.patches.pop(key, None) if folded.patches else None
    count = len(folded.rows)
    folded.rows[key] = row
    return patched is not None or len(folded.rows) == count


def count_keyless(base: list[Row], read: Iterable[Edits], *, ordered: bool) -> Folded:
    """A keyless table is a multiset: one more per after image, one less per before image. Not `ordered`:
    whatever the order of images that are whole.
    """
    folded, found = Folded(), Multiset(ordered)
    for row in base:
        found.add(row)
    for edits in _noted(folded, read):
        for edit in edits:
            found.apply(edit)
    folded.keyless, folded.guessed = found.settle(), found.guessed
    folded.problems |= found.problems
    return folded


def settle(folded: Folded, columns: Iterable[int]) -> None:
    """Patches that have every one of `columns` need no earlier image: they are rows."""
    wanted = set(columns)
    for key in [key for key, row in folded.patches.items() if wanted <= row.keys()]:
        folded.rows[key] = folded.patches.pop(key)


def finish(folded: Folded) -> list[Row]:
    """The rows of a fold that began at the table's beginning: a patch without an earlier image is all that is
    known.
    """
    return [*folded.rows.values(), *folded.patches.values(), *folded.keyless]
