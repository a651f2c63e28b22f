"""The fold: what a lineage's changes up to a position make of its rows.

    fold(lineage, changes, T) → rows

Every change is carried forward to the schema at T, the changes of one row are netted in position order (the
greatest position stands; partial images are merged column by column; a deleted row stays deleted), keyless
tables are multisets. Where a DDL changes the key, rows are folded up to it, and go on as rows of the new key.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.ddl_effects import Clear, Rekey, Retype
from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, key_ids
from lakehouse.values.convert import is_identity

Key = tuple[Any, ...]
PUT, PATCH, DELETE, REFUSE = "put", "patch", "delete", "refuse"
REJECTED = "rejected"
OLD_KEY_UNKNOWN = "old_key_unknown"
NO_KEY = "an image without its key"
NOT_INSERTED = "a delete of a row that no change inserted"
OLD_ROW_STAYS = "a change does not tell which row was before it: the old one may still be there"
UPSTREAM = Upstream()


class Change(NamedTuple):
    """A change as silver holds it, images as dicts by column name. The flag `rejected` is gold's: an
    expectation refuses the new image.
    """

    position: Position
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    encoding: str
    flags: tuple[str, ...] = ()
    commit_ts: int | None = None


class Delta(NamedTuple):
    """What one change does to the row with this key: put a full image, patch some columns, delete, or
    nothing: its image is refused.
    """

    position: Position
    kind: str
    row: Row


@dataclass(slots=True)
class Folded:
    """`rows` maps a key to its row by column id. `deleted` are keys known to be gone, `patches` are keys
    whose earlier image is not among the changes, `refused` are keys of refused images. `unknown` are column
    names that the schema at their position lacks, with the first such position, `problems` say what the
    changes lack to give the source's rows.
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


def row_key(row: Row, ids: tuple[int, ...]) -> Key | None:
    """The key of a row, or None where a key column is absent, or has a structure (text that its charset can't
    read): it names no row.
    """
    try:
        key = tuple([row[column_id] for column_id in ids])
        hash(key)
    except (KeyError, TypeError):
        return None
    return key


def rekeyings(lineage: Lineage, upto: int) -> list[int]:
    """The steps, up to `upto`, at which the key becomes another."""
    return [index for index in range(1, upto + 1) if changes_key(lineage, index)]


def changes_key(lineage: Lineage, index: int) -> bool:
    """Whether a row's key before the step may be another one behind it. Two keys that a column's new type
    makes one are told apart below it: a row that was deleted long before must not take the other one with it.
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


def last_clear(lineage: Lineage, upto: int) -> int:
    """The last step up to `upto` that cleared the table: nothing before it matters."""
    return max(
        (i for i in range(upto + 1) if any(isinstance(effect, Clear) for effect in lineage.steps[i].effects)),
        default=0,
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
    carried: list[Row] = []
    start = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = [change for change in ordered if start <= lineage.step_at(change.position) <= end]
        folded = _fold_piece(lineage, piece, carried, start, end, upstream, folded)
        if end < target:
            carried = _cross(lineage, finish(folded), end, upstream)
        start = end + 1
    return folded


def target_step(lineage: Lineage, at: Position) -> int:
    """The step in force right after `at`: a DDL at `at` itself counts."""
    return max((index for index, step in enumerate(lineage.steps) if step.position <= at), default=0)


def _cross(lineage: Lineage, rows: list[Row], end: int, upstream: Upstream) -> list[Row]:
    carrier = Carrier(lineage, end, end + 1, "canonical", upstream)
    return [row for row in map(carrier.move, rows) if row is not None]


def _fold_piece(
    lineage: Lineage,
    piece: list[Change],
    base: list[Row],
    start: int,
    end: int,
    upstream: Upstream,
    before: Folded,
) -> Folded:
    """One stretch without a change of key: `base` rows are in the schema of `start`, results in that of
    `end`.
    """
    folded = Folded(
        unknown=before.unknown, problems=before.problems, applied=before.applied, cleared=before.cleared
    )
    ids = key_ids(lineage, end)
    mover = Carrier(lineage, start, end, "canonical", upstream)
    rows = [row for row in map(mover.move, base) if row is not None]
    source = Deltas(lineage, end, upstream, ids)
    if ids:
        _net(folded, rows, source.of(piece), ids)
    else:
        _count(folded, rows, source.of(piece))
    folded.unknown = {**source.unknown, **folded.unknown}
    folded.problems |= source.problems
    folded.applied += source.applied
    folded.cleared += source.cleared
    return folded


class Deltas:
    """Turns changes into deltas in the schema of a target step; keeps one compiled carrier per step and
    encoding.
    """

    def __init__(self, lineage: Lineage, target: int, upstream: Upstream, ids: tuple[int, ...]) -> None:
        self.lineage, self.target, self.upstream, self.ids = lineage, target, upstream, ids
        self.carriers: dict[tuple[int, str], Carrier] = {}
        self.unknown: dict[str, Position] = {}
        self.problems: set[str] = set()
        self.applied = 0
        self.cleared = 0

    def of(self, changes: Iterable[Change]) -> Iterator[Delta]:
        for change in changes:
            before, after = self._images(change)
            if before is None and after is None:
                self.cleared += 1
                continue
            self.applied += 1
            yield from self._deltas(change, before, after)

    def _images(self, change: Change) -> tuple[Row | None, Row | None]:
        carrier = self._carrier(self.lineage.step_at(change.position), change.encoding)
        known = len(carrier.unknown)
        before = None if change.before is None else carrier(change.before)
        after = None if change.after is None else carrier(change.after)
        if len(carrier.unknown) > known:
            self.unknown = {**dict.fromkeys(carrier.unknown, change.position), **self.unknown}
        return before, after

    def _carrier(self, step: int, encoding: str) -> Carrier:
        found = self.carriers.get((step, encoding))
        if found is None:
            found = self.carriers[step, encoding] = Carrier(
                self.lineage, step, self.target, encoding, self.upstream
            )
        return found

    def _deltas(self, change: Change, before: Row | None, after: Row | None) -> Iterator[Delta]:
        if OLD_KEY_UNKNOWN in change.flags or (before is None and change.op == "update" and not self.ids):
            self.problems.add(OLD_ROW_STAYS)
        if after is None:
            if before is not None:
                yield Delta(change.position, DELETE, before)
            return
        if before is not None and self.ids:
            # an old image is the row right before this change: it completes a partial new one
            after = {**before, **after}
            old = row_key(before, self.ids)
            if old is not None and old != row_key(after, self.ids):
                yield Delta(change.position, DELETE, before)
        elif before is not None:
            yield Delta(change.position, DELETE, before)
        kind = REFUSE if REJECTED in change.flags else PATCH if is_partial(change) else PUT
        yield Delta(change.position, kind, after)


def is_partial(change: Change) -> bool:
    """A full image replaces the row; in one that may lack columns, absent keeps the earlier value."""
    return change.op == "update" or "partial_after" in change.flags


def _net(folded: Folded, base: list[Row], deltas: Iterable[Delta], ids: tuple[int, ...]) -> None:
    """Net the deltas, which come in position order, into one outcome per key."""
    for row in base:
        key = row_key(row, ids)
        if key is None:
            folded.problems.add(NO_KEY)
        else:
            folded.rows[key] = row
    for delta in deltas:
        key = row_key(delta.row, ids)
        if key is None or (delta.kind == DELETE and not delta.row):
            folded.problems.add(NO_KEY)
        elif delta.kind == REFUSE:
            folded.refused.add(
                key
            )  # the row stays as it was; an update that changed its key has deleted the old one
        elif delta.kind == DELETE:
            _delete(folded, key)
        elif delta.kind == PUT:
            _put(folded, key, delta.row)
        else:
            _patch(folded, key, delta.row)


def _delete(folded: Folded, key: Key) -> None:
    folded.rows.pop(key, None)
    folded.patches.pop(key, None)
    folded.deleted.add(key)


def _put(folded: Folded, key: Key, row: Row) -> None:
    folded.deleted.discard(key)
    folded.patches.pop(key, None)
    folded.rows[key] = row


def _patch(folded: Folded, key: Key, row: Row) -> None:
    earlier = folded.rows.get(key)
    if earlier is not None:
        folded.rows[key] = {**earlier, **row}
    elif key in folded.deleted:
        _put(folded, key, row)
    else:
        folded.patches[key] = {**folded.patches.get(key, {}), **row}


def _count(folded: Folded, base: list[Row], deltas: Iterable[Delta]) -> None:
    rows, problems = count_rows(deltas, base)
    folded.keyless.extend(rows)
    folded.problems |= problems


def count_rows(deltas: Iterable[Delta], base: Iterable[Row] = ()) -> tuple[list[Row], set[str]]:
    """The rows of a keyless table, and what its changes lack. The table is a multiset: one row more per after
    image, one less per before image, whatever the order. A delete of a refused image takes that one: it was
    never here.
    """
    counts: dict[str, int] = defaultdict(int)
    refused: dict[str, int] = defaultdict(int)
    deleted: dict[str, int] = defaultdict(int)
    rows: dict[str, Row] = {}
    for row in base:
        text = image_text(row)
        counts[text] += 1
        rows[text] = row
    for delta in deltas:
        text = image_text(delta.row)
        if delta.kind == REFUSE:
            refused[text] += 1
        elif delta.kind == DELETE:
            deleted[text] += 1
        else:
            counts[text] += 1
        rows.setdefault(text, delta.row)
    for text, number in deleted.items():
        counts[text] -= max(0, number - refused[text])
    short = [text for text, count in counts.items() if count < 0]
    for null_agrees in (False, True):
        for text in short:
            _take_alike(counts, rows, text, null_agrees)
    left = [dict(rows[text]) for text, count in counts.items() for _ in range(count)]
    return left, {NOT_INSERTED} if any(count < 0 for count in counts.values()) else set()


def _take_alike(counts: dict[str, int], rows: dict[str, Row], gone: str, null_agrees: bool) -> None:
    """A row of which some cells are not known goes for an image that agrees on the rest. They are absent, or
    NULL where no rule has converted them: NULL agrees with anything only when no row is left that is alike
    without it.
    """
    image = rows[gone]
    for text, count in counts.items():
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


def image_text(row: Row) -> str:
    """One text per distinct image; columns in id order."""
    return json.dumps(sorted(row.items()), ensure_ascii=False)


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


__all__ = [
    "MIN_POSITION",
    "Change",
    "Delta",
    "Deltas",
    "Folded",
    "finish",
    "fold",
    "key_ids",
    "rekeyings",
    "row_key",
]
