"""The current rows of a table: what a lineage's changes up to a position make of its rows.

    fold(lineage, changes, T) → rows

Every change is carried forward to the schema at T, the changes of one row are netted in position order (the
greatest position wins; partial images are merged column by column; a deleted row stays deleted), keyless
tables are multisets. Where a DDL changes the key, rows are folded up to it, and go on as rows of the new key.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakehouse.ddl_effects import Rekey, Retype
from lakehouse.events import Position
from lakehouse.fold.row_edits import (
    DELETE,
    NEVER_INSERTED,
    NO_KEY,
    PUT,
    REFUSE,
    UPSTREAM,
    Change,
    ChangeReader,
    Edits,
    Key,
    RowEdit,
    image_text,
    row_key,
)
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, key_ids
from lakehouse.values.convert import is_identity

# the images of so many changes are in memory at once besides the rows that they make
CHUNK = 4096


@dataclass(slots=True)
class Folded:
    """The rows of a fold, and all that it found. `rows` maps a key to its row by column id. `deleted` are
    keys known to be gone, `patches` are keys whose earlier image is not among the changes, `refused` are keys
    of refused images. `unknown` are column names that the schema at their position lacks, with the first such
    position, `problems` say what the changes lack to give the source's rows.
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


def rekeyings(lineage: Lineage, upto: int) -> list[int]:
    """The steps, up to `upto`, at which the key becomes another."""
    return [index for index in range(1, upto + 1) if changes_key(lineage, index)]


def changes_key(lineage: Lineage, index: int) -> bool:
    """Whether a row's key before the step may be another one after it. Two keys that become equal by a
    column's new type are different keys below it: a row that was deleted long before must not take the other
    one with it.
    """
    before = key_ids(lineage, index - 1)
    if before != key_ids(lineage, index):
        return True
    return any(
        isinstance(effect, Rekey)
        or (
            isinstance(effect, Retype)
            and effect.column_id in before
            and not is_identity(effect.old, effect.new)
        )
        for effect in lineage.steps[index].effects
    )


def fold(lineage: Lineage, changes: Iterable[Change], at: Position, upstream: Upstream = UPSTREAM) -> Folded:
    """The table's rows after every change at or below `at`, in the schema of that place. Changes come in any
    order.
    """
    target = target_step(lineage, at)
    ordered = sorted(
        (change for change in changes if change.position <= at), key=lambda change: change.position
    )
    folded = Folded()
    rows: list[Row] = []
    start = done = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        reach = len(ordered) if end == target else _below(ordered, lineage.steps[end + 1].position, done)
        piece = Piece(lineage, start, end, upstream)
        folded = _with_found(_fold_piece(piece, ordered[done:reach], rows), folded)
        if end < target:
            rows = _across(piece, finish(folded))
        start, done = end + 1, reach
    return folded


def _below(ordered: list[Change], position: Position, low: int) -> int:
    """How many of the changes lie at or below the position."""
    return bisect_right(ordered, position, lo=low, key=lambda change: change.position)


def target_step(lineage: Lineage, at: Position) -> int:
    """The step in force right after `at`: a DDL at `at` itself counts."""
    return max((index for index, step in enumerate(lineage.steps) if step.position <= at), default=0)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of steps without a change of key."""

    lineage: Lineage
    start: int
    end: int
    upstream: Upstream


def _across(piece: Piece, rows: list[Row]) -> list[Row]:
    """The rows of a piece in the schema of the step after it, where they go on under another key."""
    carrier = Carrier(piece.lineage, piece.end, piece.end + 1, "canonical", upstream=piece.upstream)
    return [row for row in map(carrier.move, rows) if row is not None]


def _with_found(folded: Folded, before: Folded) -> Folded:
    """The rows of a piece with what was found in it and in the pieces before."""
    folded.unknown = {**folded.unknown, **before.unknown}
    folded.problems |= before.problems
    folded.applied += before.applied
    folded.cleared += before.cleared
    return folded


def _fold_piece(piece: Piece, changes: list[Change], base: list[Row]) -> Folded:
    """The rows of a piece in the schema of its end; `base` are those from before it, in that of its start."""
    ids = key_ids(piece.lineage, piece.end)
    mover = Carrier(piece.lineage, piece.start, piece.end, "canonical", upstream=piece.upstream)
    rows = [row for row in map(mover.move, base) if row is not None]
    reader = ChangeReader(piece.lineage, piece.end, piece.upstream, ids)
    read = (reader.read(changes[at : at + CHUNK]) for at in range(0, len(changes), CHUNK))
    return net_keyed(rows, read, ids) if ids else count_keyless(rows, read)


def _noted(folded: Folded, read: Iterable[Edits]) -> Iterator[list[RowEdit]]:
    """The edits, chunk by chunk, while what was found with them is added to the fold."""
    for found in read:
        folded.unknown = {**found.unknown, **folded.unknown}
        folded.problems |= found.problems
        folded.applied += found.applied
        folded.cleared += found.cleared
        yield found.edits


def net_keyed(base: list[Row], read: Iterable[Edits], ids: tuple[int, ...]) -> Folded:
    """One outcome per key of the edits, which come in position order."""
    folded = Folded()
    for row in base:
        key = row_key(row, ids)
        if key is None:
            folded.problems.add(NO_KEY)
        else:
            folded.rows[key] = row
    for edits in _noted(folded, read):
        for edit in edits:
            key = row_key(edit.row, ids)
            if key is None:
                folded.problems.add(NO_KEY)
            else:
                _apply(folded, key, edit)
    return folded


def _apply(folded: Folded, key: Key, edit: RowEdit) -> None:
    kind, row = edit.kind, edit.row
    if kind == REFUSE:
        # the row stays as it was; an update that changed its key has deleted the old one
        folded.refused.add(key)
    elif kind == DELETE:
        folded.rows.pop(key, None)
        folded.patches.pop(key, None)
        folded.deleted.add(key)
    elif kind == PUT:
        _put(folded, key, row)
    elif (earlier := folded.rows.get(key)) is not None:
        folded.rows[key] = {**earlier, **row}
    elif key in folded.deleted:
        _put(folded, key, row)
    else:
        folded.patches[key] = {**folded.patches.get(key, {}), **row}


def _put(folded: Folded, key: Key, row: Row) -> None:
    folded.deleted.discard(key)
    folded.patches.pop(key, None)
    folded.rows[key] = row


def count_keyless(base: list[Row], read: Iterable[Edits]) -> Folded:
    """A keyless table is a multiset: one more per after image, one less per before image, whatever the order.

    A delete of a refused image takes that image: it was never here.
    """
    folded = Folded()
    counts: dict[str, int] = defaultdict(int)
    refused: dict[str, int] = defaultdict(int)
    deleted: dict[str, int] = defaultdict(int)
    rows: dict[str, Row] = {}
    for row in base:
        text = image_text(row)
        counts[text] += 1
        rows[text] = row
    for edits in _noted(folded, read):
        for edit in edits:
            text = image_text(edit.row)
            (refused if edit.kind == REFUSE else deleted if edit.kind == DELETE else counts)[text] += 1
            rows.setdefault(text, edit.row)
    for text, number in deleted.items():
        counts[text] -= max(0, number - refused[text])
    _take_all_alike(counts, rows)
    for text, count in counts.items():
        if count < 0:
            folded.problems.add(NEVER_INSERTED)
        folded.keyless.extend(dict(rows[text]) for _ in range(count))
    return folded


def _take_all_alike(counts: dict[str, int], rows: dict[str, Row]) -> None:
    """Take a row for each delete that has none of exactly its image."""
    short = sorted(text for text, count in counts.items() if count < 0)
    # in an order of the images' own: of several that are alike the same one is taken however changes arrive
    candidates = sorted(counts) if short else []
    for null_agrees in (False, True):
        for text in short:
            _take_alike(counts, rows, candidates, text, null_agrees=null_agrees)


def _take_alike(
    counts: dict[str, int], rows: dict[str, Row], candidates: list[str], gone: str, *, null_agrees: bool
) -> None:
    """A row of which some cells are not known is taken for an image that agrees on the rest. Such cells are
    absent, or NULL where no rule has converted them: NULL agrees with anything only when no row is left that
    is alike without it.
    """
    image = rows[gone]
    for text in candidates:
        count = counts[text]
        if counts[gone] == 0:
            return
        if count > 0 and _is_alike(rows[text], image, null_agrees):
            taken = min(count, -counts[gone])
            counts[text] -= taken
            counts[gone] += taken


def _is_alike(row: Row, image: Row, null_agrees: bool) -> bool:
    return all(
        (null_agrees and value is None) or image.get(key, value) == value for key, value in row.items()
    )


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
