"""Changes as edits of rows: the images that each change puts, patches or deletes, in the schema of one step.

    changes ─ChangeReader.read─▶ Edits: edits by column id, and what the changes lack

An update that changes the key is two edits: the old row is deleted, the new one is put. Where the table has
no key every update is two, since its rows are told apart by their images alone; it is one where its old image
lacks columns, since only the row that it replaces has the others (keyless.py).
"""

import json
from collections.abc import Iterable
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from lakehouse.ddl_effects import Clear
from lakehouse.events import (
    DELETES_HIDDEN,
    INCREMENTAL,
    NO_HANDLE,
    NO_PRIMARY_KEY,
    SNAPSHOT_FLAG,
    WRITTEN_AGAIN,
    Position,
)
from lakehouse.fold.continuity import Claim, Form, form_of
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, StepIndex, key_ids
from lakehouse.values.mysql_json import as_printed

Key = tuple[Any, ...]
PUT, PATCH, DELETE, REFUSE = "put", "patch", "delete", "refuse"
REJECTED = "rejected"
OLD_KEY_UNKNOWN = "old_key_unknown"
PARTIAL_AFTER = "partial_after"
# flags that say something of a change's images, or of what its table lacks
TELLING = (REJECTED, OLD_KEY_UNKNOWN, PARTIAL_AFTER, DELETES_HIDDEN)
OLD_ROW_STAYS = "a change does not tell which row was before it: the old one may still be there"
NO_DELETES = "the feed sends no deletes: rows that are gone may still be there"
KEY_GONE = "rows say that the table has no key: a statement that dropped it is not in the feed"
SENT_AGAIN = "rows of a snapshot beside the stream may be there already: the table has no key to tell them by"
SENT_TWICE = "a snapshot was begun again at its place: no key tells which rows are there twice"
ROUNDED_KEY = "a snapshot has six digits of each FLOAT of the key: rows that changed since are there twice"
IN_TWO_FILES = "two files begin with equal rows of one transaction: a restarted sink may have sent it twice"
# what the flags of a table's first and last row begin with, and how many parts of their positions are the
# snapshot's place
ENDS_OF_SNAPSHOT, PLACE_PARTS = ("snapshot=first", "snapshot=last"), 4
LATER_ROWS = "rows of a snapshot that did not empty the table may be of a later time than their place"
NO_KEY = "an image without its key"
ONE_KEY = "several rows have one key since a statement has changed it: changes before it were not delivered"
NEVER_INSERTED = "a delete of a row that no change inserted"
NULL_FOR_TEXT = "column {}: it is NOT NULL and came as NULL: the producer writes some other value so"
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


def in_order(lineage: Lineage, changes: Iterable[Change], upstream: Upstream) -> list[Change]:
    """The changes in position order. Those of one position (of one commit at TiCDC, of several partitions in
    order of arrival) stand by their commit times, then by what they say: however they were read, their order
    is the same. Not by that in a table with a key at TiCDC, where they are of different rows: a transaction
    may have very many.
    """
    ordered = sorted(changes, key=attrgetter("position"))
    keyed = all(key_ids(lineage, step) for step in range(len(lineage.steps)))
    if keyed and upstream.continuity.by_commit:
        return ordered
    if all(one.position != other.position for one, other in pairwise(ordered)):
        return ordered
    runs = (list(run) for _, run in groupby(ordered, key=attrgetter("position")))
    return [change for run in runs for change in (sorted(run, key=_content) if len(run) > 1 else run)]


def _content(change: Change) -> tuple[int, str]:
    return change.commit_ts or 0, repr((change.op, change.before, change.after, change.flags))


class RowEdit(NamedTuple):
    """The effect of a change on one row: put a full image, patch some columns, delete it, or nothing if its
    image is refused. `op` is the change's own; the second half of an update that changes the key is an
    insert. `old` is an old image that lacks columns, in a table without a key: the row that it means has to
    be found first. `before` is the old image of an update, in a table with a key; `claim`, where the reader
    makes them, what the change says of its row. `time` is the change's own commit time.
    """

    position: Position
    kind: str
    row: Row
    op: str = "insert"
    old: Row | None = None
    before: Row | None = None
    claim: Claim | None = None
    time: int | None = None


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
    """Reads changes as edits in the schema of a target step, `ids` being the key there; with `claims` each
    edit has what its change says of the row. Holds nothing but what it has compiled per step and encoding.
    """

    def __init__(
        self,
        lineage: Lineage,
        target: int,
        upstream: Upstream,
        ids: tuple[int, ...],
        *,
        claims: bool = False,
    ) -> None:
        self._lineage, self._target, self._upstream, self._ids = lineage, target, upstream, ids
        self._claims = claims and bool(ids) and upstream.continuity.rows and not lineage.overruled
        self._step_at = StepIndex(lineage)
        steps = (one for one in lineage.steps[1:] if any(isinstance(effect, Clear) for effect in one.effects))
        self._emptied = {one.position[:4] for one in (lineage.steps[0], *steps)}
        self._ends_of_snapshots: set[tuple[tuple[int, ...], str]] = set()
        self._documents = _documents(lineage, target, upstream, ids)
        columns = lineage.steps[target].schema.columns
        self._floats = [one.id for one in columns if one.id in ids and one.type.family == "float"]
        self._carriers: dict[tuple[int, str], Carrier] = {}
        self._forms: dict[tuple[int, str], Form] = {}

    def read(self, changes: Iterable[Change]) -> Edits:
        """The edits of some changes, with all that was found on the way."""
        edits: list[RowEdit] = []
        unknown: dict[str, Position] = {}
        problems: set[str] = set()
        applied = cleared = 0
        for change in changes:
            carrier = self._carrier(self._step_at(change.position), change.encoding)
            before = self._carried(carrier, change.before)
            carrier.nulls.clear()
            after = self._carried(carrier, change.after)
            if carrier.unknown:
                unknown = {**dict.fromkeys(carrier.take_unknown(), change.position), **unknown}
            if carrier.lost:
                problems |= carrier.take_lost()
            if before is None and after is None:
                cleared += 1
                continue
            applied += 1
            if carrier.nulls and after is not None:
                problems |= set(map(NULL_FOR_TEXT.format, carrier.nulls))
            if lacks_old_row(change, before, self._ids):
                problems.add(OLD_ROW_STAYS)
            if DELETES_HIDDEN in change.flags:
                problems.add(NO_DELETES)
            if WRITTEN_AGAIN in change.flags:
                problems.add(IN_TWO_FILES)
            if change.flags and self._has_lost_key(change):
                problems.add(KEY_GONE)
            if self.is_beside_stream(change):
                problems |= self._problems_of_snapshot(change)
            if change.op == "snapshot" and not self._ids and self._is_begun_again(change):
                problems.add(SENT_TWICE)
            if self._floats and after is not None and self._is_rounded(change, after):
                problems.add(ROUNDED_KEY)
            partial = before is not None and not self._ids and not carrier.tells_all(change.before or {})
            self._add(edits, change, before, after, partial=partial)
            if self._claims:
                self._claim(edits, change)
        return Edits(edits, unknown, frozenset(problems), applied, cleared=cleared)

    def _carried(self, carrier: Carrier, image: dict[str, Any] | None) -> Row | None:
        row = None if image is None else carrier(image)
        if row is not None:
            for column_id in self._documents:
                if column_id in row:
                    row[column_id] = as_printed(row[column_id])
        return row

    def is_beside_stream(self, change: Change) -> bool:
        """Whether a row comes of a snapshot that was taken while changes were streamed: one that has not
        emptied the table, nor begun it.
        """
        if INCREMENTAL in change.flags or change.op != "snapshot":
            return INCREMENTAL in change.flags
        # rows of a retention floor stand right below a place, mostly one of what is streamed
        is_read = change.position[3] == 0 and change.position[5] >= 0
        return self._lineage.snapshots_shown and is_read and change.position[:4] not in self._emptied

    def _is_begun_again(self, change: Change) -> bool:
        """Whether a row of a table without a key is the second that is marked as the first, or the last, of a
        snapshot at its place.
        """
        ends = {(change.position[:PLACE_PARTS], end) for end in ends_of_snapshot(change)}
        is_known = not ends.isdisjoint(self._ends_of_snapshots)
        self._ends_of_snapshots |= ends
        return is_known

    def _is_rounded(self, change: Change, row: Row) -> bool:
        """Whether a connector's snapshot may have another key than the stream: it prints six digits of a
        FLOAT, 1.0000001 as 1. What lakehouse reads itself has all.
        """
        # rows of a retention floor are none of a snapshot
        is_printed = change.op == "snapshot" and change.position[5] >= 0 and SNAPSHOT_FLAG not in change.flags
        return is_printed and any(row.get(column) for column in self._floats)

    def _problems_of_snapshot(self, change: Change) -> set[str]:
        """What rows beside the stream leave open. Those of an incremental snapshot are of their place: the
        connector leaves out what changed meanwhile.
        """
        blocking = set() if INCREMENTAL in change.flags else {LATER_ROWS}
        return blocking if self._ids else {*blocking, SENT_AGAIN}

    def _has_lost_key(self, change: Change) -> bool:
        """Whether a row's message knows no key where its table has one. TiCDC sends no DDL after which a
        table has none, but with `force-replicate`; the new architecture sends its rows on, equal keys too.
        """
        if not self._ids or self._lineage.overruled:
            return False
        schema = self._lineage.steps[self._step_at(change.position)].schema
        if NO_PRIMARY_KEY in change.flags:
            return bool(schema.primary_key)
        return NO_HANDLE in change.flags and bool(schema.handle_key)

    def _carrier(self, step: int, encoding: str) -> Carrier:
        found = self._carriers.get((step, encoding))
        if found is None:
            found = Carrier(self._lineage, step, self._target, encoding, upstream=self._upstream)
            self._carriers[step, encoding] = found
        return found

    def _claim(self, edits: list[RowEdit], change: Change) -> None:
        """Give the edits of the change, the last ones, their claims."""
        place = (self._step_at(change.position), change.encoding)
        form = self._forms.get(place)
        if form is None:
            steps, (step, encoding) = self._lineage.steps, place
            form = form_of(steps[step].schema, steps[self._target].schema, f"{step} {encoding}")
            self._forms[place] = form
        inserts = self._upstream.continuity.inserts
        number = len(edits)
        while number and edits[number - 1].position == change.position and edits[number - 1].claim is None:
            number -= 1
            flags = (*change.flags, INCREMENTAL) if self.is_beside_stream(change) else change.flags
            claim = claim_of(edits[number], flags, form, inserts=inserts)
            edits[number] = edits[number]._replace(claim=claim)

    def _add(
        self, edits: list[RowEdit], change: Change, before: Row | None, after: Row | None, *, partial: bool
    ) -> None:
        """Add the edits of one change; at least one of its images is there. `partial`: the table has no key,
        and the old image lacks columns.
        """
        position, op, old = change.position, change.op, before if partial else None
        time = change.commit_ts
        if after is None:
            assert before is not None
            edits.append(RowEdit(position, DELETE, before, op, old=old, time=time))
            return
        refused = REJECTED in change.flags
        was = None
        if before is not None:
            # an old image is the row right before this change: it completes a partial new one
            after = {**before, **after}
            if partial and not refused:
                edits.append(RowEdit(position, PATCH, after, op, old=old, time=time))
                return
            if not self._ids:
                edits.append(RowEdit(position, DELETE, before, op, old=old, time=time))
            elif (key := row_key(before, self._ids)) is not None and key != row_key(after, self._ids):
                edits.append(RowEdit(position, DELETE, before, op, time=time))
                op = "insert" if op == "update" else op
            else:
                was = before
        kind = REFUSE if refused else PATCH if is_partial(change) else PUT
        if was is None:
            edits.append(RowEdit(position, kind, after, op, time=time))
        else:
            edits.append(RowEdit(position, kind, after, op, before=was, time=time))


def _documents(lineage: Lineage, target: int, upstream: Upstream, ids: tuple[int, ...]) -> tuple[int, ...]:
    """The JSON columns of a table whose rows are told apart by their images. A document of MySQL's has a text
    in the stream and another one in a snapshot, for each producer writes it in its way; other servers keep
    the text.
    """
    if ids or upstream.server != "mysql":
        return ()
    columns = lineage.steps[target].schema.columns
    return tuple(column.id for column in columns if column.type.family == "json")


def claim_of(edit: RowEdit, flags: tuple[str, ...], form: Form, *, inserts: bool) -> Claim:
    """What an edit says of its row, before it and after it. An update without its old image says nothing of
    what was before: some producers write an insert so.
    """
    position = edit.position
    # a row of a snapshot beside the stream may show more than its position, or mend what no change has told
    if OLD_KEY_UNKNOWN in flags or INCREMENTAL in flags:
        return Claim(position, None, None)
    if edit.op == "snapshot":
        return Claim(position, None, after=True)
    if edit.kind == DELETE:
        return Claim(position, before=True, after=False, form=form.text, old=form.checksum(edit.row))
    if edit.op == "update":
        before = True if edit.before is not None else None
    else:
        before = False if inserts else None
    old, new = form.checksum(edit.before), form.checksum(edit.row)
    return Claim(position, before, after=True, form=form.text, old=old, new=new)


def ends_of_snapshot(change: Change) -> list[str]:
    """As what ends of its snapshot a row is marked."""
    return [end for end in ENDS_OF_SNAPSHOT if any(flag.startswith(end) for flag in change.flags)]


def lacks_old_row(change: Change, before: Row | None, ids: tuple[int, ...]) -> bool:
    """Whether a change leaves open which row it replaces: its producer says so, or it is an update without an
    old image in a table without a key.
    """
    return OLD_KEY_UNKNOWN in change.flags or (before is None and change.op == "update" and not ids)


def is_partial(change: Change) -> bool:
    """A full image replaces the row; in one that may lack columns, absent keeps the earlier value."""
    return change.op == "update" or PARTIAL_AFTER in change.flags


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
