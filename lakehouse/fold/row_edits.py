"""Changes as edits of rows: what each change puts, patches or deletes, in the schema of one step.

    changes ─ChangeReader.read─▶ Edits: edits by column id, and what the changes lack

An update that changes the key is two edits: the old row is deleted, the new one is put. Where the table has
no key every update is two, since its rows are told apart by their images alone.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, StepIndex

Key = tuple[Any, ...]
PUT, PATCH, DELETE, REFUSE = "put", "patch", "delete", "refuse"
REJECTED = "rejected"
OLD_KEY_UNKNOWN = "old_key_unknown"
OLD_ROW_STAYS = "a change does not tell which row was before it: the old one may still be there"
NO_KEY = "an image without its key"
NEVER_INSERTED = "a delete of a row that no change inserted"
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


class RowEdit(NamedTuple):
    """What one change does to one row: put a full image, patch some columns, delete it, or nothing, since its
    image is refused. `op` is the change's own; the second half of an update that changes the key is an
    insert.
    """

    position: Position
    kind: str
    row: Row
    op: str = "insert"


class Edits(NamedTuple):
    """What some changes do to rows, in the order of the changes.

    `unknown` are column names that the schema at their position lacks, with the first such position: those
    that the reader has not reported before. `problems` say what the changes lack to give the source's rows.
    `applied` counts the changes that edit a row, `cleared` those whose row a later DDL removed.
    """

    edits: list[RowEdit]
    unknown: dict[str, Position]
    problems: frozenset[str]
    applied: int
    cleared: int


class ChangeReader:
    """Reads changes as edits in the schema of a target step, `ids` being the key there. Holds nothing but one
    compiled carrier per step and encoding.
    """

    def __init__(self, lineage: Lineage, target: int, upstream: Upstream, ids: tuple[int, ...]) -> None:
        self._lineage, self._target, self._upstream, self._ids = lineage, target, upstream, ids
        self._step_at = StepIndex(lineage)
        self._carriers: dict[tuple[int, str], Carrier] = {}

    def read(self, changes: Iterable[Change]) -> Edits:
        """The edits of some changes, with all that was found on the way."""
        edits: list[RowEdit] = []
        unknown: dict[str, Position] = {}
        problems: set[str] = set()
        applied = cleared = 0
        for change in changes:
            carrier = self._carrier(self._step_at(change.position), change.encoding)
            before = None if change.before is None else carrier(change.before)
            after = None if change.after is None else carrier(change.after)
            if carrier.unknown:
                unknown = {**dict.fromkeys(carrier.take_unknown(), change.position), **unknown}
            if before is None and after is None:
                cleared += 1
                continue
            applied += 1
            if lacks_old_row(change, before, self._ids):
                problems.add(OLD_ROW_STAYS)
            self._add(edits, change, before, after)
        return Edits(edits, unknown, frozenset(problems), applied, cleared=cleared)

    def _carrier(self, step: int, encoding: str) -> Carrier:
        found = self._carriers.get((step, encoding))
        if found is None:
            found = Carrier(self._lineage, step, self._target, encoding, upstream=self._upstream)
            self._carriers[step, encoding] = found
        return found

    def _add(self, edits: list[RowEdit], change: Change, before: Row | None, after: Row | None) -> None:
        """Add the edits of one change; at least one of its images is there."""
        position, op = change.position, change.op
        if after is None:
            assert before is not None
            edits.append(RowEdit(position, DELETE, before, op))
            return
        if before is not None and self._ids:
            # an old image is the row right before this change: it completes a partial new one
            after = {**before, **after}
            old = row_key(before, self._ids)
            if old is not None and old != row_key(after, self._ids):
                edits.append(RowEdit(position, DELETE, before, op))
                op = "insert" if op == "update" else op
        elif before is not None:
            edits.append(RowEdit(position, DELETE, before, op))
        kind = REFUSE if REJECTED in change.flags else PATCH if is_partial(change) else PUT
        edits.append(RowEdit(position, kind, after, op))


def lacks_old_row(change: Change, before: Row | None, ids: tuple[int, ...]) -> bool:
    """Whether a change leaves open which row it replaces: its producer says so, or it is an update without an
    old image in a table without a key.
    """
    return OLD_KEY_UNKNOWN in change.flags or (before is None and change.op == "update" and not ids)


def is_partial(change: Change) -> bool:
    """A full image replaces the row; in one that may lack columns, absent keeps the earlier value."""
    return change.op == "update" or "partial_after" in change.flags


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


def image_text(row: Row) -> str:
    """One text per distinct image; columns in id order."""
    return json.dumps(sorted(row.items()), ensure_ascii=False)
