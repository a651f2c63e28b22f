"""The fold of a large table with a key in one pass through Python: its changes come grouped by the key that
silver has of them, each group in position order.

    silver rows ──by silver's key──▶ KeyFold ──▶ (kind, row by column id) ──type──▶ gold's columns

Most changes of a row fit the one before them word by word: an update or delete has the row's last image as
its old one, an insert meets none. Of those only the last image is read by the table's rules. From the first
change on that is otherwise (another schema step, a flag, another old image, an undeclared column, a NULL in
text that is NOT NULL, a snapshot's row beside the stream) a group's changes go through the functions that
fold any change (ChangeReader, net_group), from the row as it is then.

That all changes of a row are in one group is checked: the key of each image has to be silver's. Where it is
another (an update moves its row, messages do not have the key, or its values have several texts on the wire),
the outcome is OTHER_KEY alone, and the table is folded by fold_frame (fold_job.py).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.fold.row_edits import (
    NO_KEY,
    TELLING,
    Change,
    ChangeReader,
    row_key,
)
from lakehouse.fold.steps import rekeyings
from lakehouse.fold.upcast import Carrier, Row, RowMover
from lakehouse.lineage import Lineage, StepIndex, key_ids
from lakehouse.spark.arrow import OUT_ROWS, Metered, Worker
from lakehouse.spark.change_log.changes import position_literal
from lakehouse.spark.fold.deltas import Piece, decode_row, encode_key, encode_row, hint_of
from lakehouse.spark.fold.net_rows import Told, net_group
from lakehouse.spark.fold.notes import NOTE, note, taken_note
from lakehouse.spark.fold.typed_rows import Typing
from lakehouse.spark.silver.columns import POSITION

OTHER_KEY = "the key of a row's image is not silver's"
PLAIN = "_plain"
_READ = ("key", PLAIN, "op", "before", "after", "encoding")
GROUPED = (
    f"key string, {PLAIN} boolean, op string, before string, after string, encoding string, "
    f"flags array<string>, position {POSITION}"
)
_decode, _encode = msgspec.json.decode, msgspec.json.encode
Outcome = tuple[str, Row]
# key, plain, op, before, after, encoding, and where its position and flags are
Silver = tuple[str, bool, str, str | None, str | None, str, "Batch", int]


def can_group(changes: DataFrame, lineage: Lineage, target: int) -> bool:
    """Whether a table's changes may be grouped by silver's key: up to the step `target` it has one key, which
    messages tell.
    """
    is_told = bool(lineage.steps[target].schema.primary_key or lineage.key_names)
    has_one = bool(key_ids(lineage, target)) and not rekeyings(lineage, target)
    return is_told and has_one and "key" in changes.columns


def grouped(changes: DataFrame, piece: Piece, partitions: int) -> DataFrame:
    """The changes by silver's key, in position order. PLAIN are those of the schema of the piece's end that
    have no flag which says something of their images.
    """
    telling = F.array(*map(F.lit, TELLING))
    plain = ~F.coalesce(F.arrays_overlap("flags", telling), F.lit(False))
    if piece.end > 0:
        plain = plain & (F.col("position") > position_literal(piece.lineage.steps[piece.end].position))
    chosen = changes.select(*_READ[:1], plain.alias(PLAIN), *_READ[2:], "flags", "position")
    return chosen.repartition(partitions, "key").sortWithinPartitions("key", "position")


def key_worker(piece: Piece, whole: frozenset[int], typing: Typing) -> Worker:
    """Gold's columns of grouped changes, and notes; `whole` as in net_worker."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.fold.by_key import KeyFold, OtherKey

        fold, typer, read = KeyFold(piece, whole), typing.typer(), Metered(batches)
        outcomes: list[Outcome] = []
        try:
            for outcome in fold.rows(read):
                outcomes.append(outcome)
                if len(outcomes) == OUT_ROWS or read.take_much():
                    yield typer.batch(outcomes)
                    outcomes = []
        except OtherKey:
            fold.notes = {note(OTHER_KEY)}
            for _ in read:
                pass  # Spark waits until all of them are taken
        notes = [*sorted(fold.all_notes()), taken_note(fold.taken)]
        yield typer.batch([*outcomes, *((kind, {}) for kind in notes)])

    return work


class OtherKey(Exception):
    """An image's key is not silver's."""


class State(NamedTuple):
    """What is known of a group's row after some of its changes, all of which fitted: the kind of its outcome
    ("" before the first), its last image as text and by name, and the encoding.
    """

    kind: str = ""
    text: str | None = None
    image: dict[str, Any] | None = None
    encoding: str = ""


NOTHING = State()


class KeyFold:
    """Folds groups of changes; `notes` are what was found beside rows, `unknown` the undeclared columns, each
    with the first position of a row that has it, `taken` the number of changes so far.
    """

    def __init__(self, piece: Piece, whole: frozenset[int]) -> None:
        self.notes: set[str] = set()
        self.unknown: dict[str, Position] = {}
        self.taken = 0
        self._piece, self._whole = piece, whole
        lineage, end = piece.lineage, piece.end
        self._ids, schema = key_ids(lineage, end), lineage.steps[end].schema
        names = {column.id: column.name for column in schema.columns}
        by_name = sorted(range(len(self._ids)), key=lambda place: names[self._ids[place]])
        # as silver orders a key's values
        self._places = by_name if by_name != list(range(len(self._ids))) else None
        self._key_names = [names[column] for column in self._ids]
        self._ends, self._begun, self._cleared = piece.stretches, piece.begun, piece.cleared
        self._is_begun, self._step_at = end in self._begun, StepIndex(lineage)
        self._readers = {at: ChangeReader(lineage, at, piece.upstream, self._ids) for at in self._ends}
        self._mover = RowMover(lineage, piece.upstream)
        self._carrier = lru_cache(None)(
            lambda encoding: Carrier(lineage, end, end, encoding, upstream=piece.upstream)
        )
        self._undeclared = lru_cache(4096)(self._undeclared_names)
        self._is_known = lru_cache(4096)(
            lambda shape: not self._undeclared(end, shape) and set(self._key_names) <= set(shape)
        )
        self._never_null = lru_cache(4096)(self._never_null_names)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
        """The outcome of each group. OtherKey where a row's changes may be in several."""
        for group, changes in groupby(self._silver(batches), key=itemgetter(0)):
            state, rest = self._fitting(changes)
            yield from self._outcome(group, state) if rest is None else self._netted(group, state, rest)

    def _silver(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Silver]:
        for batch in batches:
            self.taken += batch.num_rows
            columns = [batch.column(name).to_pylist() for name in _READ]
            yield from zip(*columns, repeat(Batch(batch)), range(batch.num_rows), strict=False)

    def all_notes(self) -> set[str]:
        """All that was found beside rows, as notes."""
        return self.notes | {note(name, place) for name, place in self.unknown.items()}

    def _fitting(self, changes: Iterator[Silver]) -> tuple[State, Iterator[Silver] | None]:
        """What the first changes make of the row as long as they fit, and the others, if there are any."""
        state = NOTHING
        for change in changes:
            following = self._after(state, change) if change[1] else None
            if following is None:
                return state, chain((change,), changes)
            state = following
        return state, None

    def _after(self, state: State, change: Silver) -> State | None:
        """The state after a change, None where it does not fit, or is to be looked at more closely."""
        kind, _, earlier, encoding = state
        _, _, op, before, after, written, _, _ = change
        following = _following(state, op, before, after, begun=self._is_begun)
        if following is None or (kind and written != encoding):
            return None
        if op == "snapshot" and self._is_beside_stream(change):
            return None
        if not kind and before is not None and after is not None:
            earlier = _decode(before)
            if not self._is_known(tuple(earlier)):
                return None
        last = before if after is None else after
        assert last is not None  # of a change that fits
        image = _decode(last)
        shape = tuple(image)
        if earlier is None:
            if not self._is_known(shape):
                return None
        elif shape != tuple(earlier) or self._key_text(image) != self._key_text(earlier):
            # one image lacks what the other has, or has another key
            return None
        if after is not None and None in image.values() and self._lacks_text(shape, image):
            return None
        return State(following, last, image, written)

    def _is_beside_stream(self, change: Silver) -> bool:
        """Whether a snapshot's row may lie beside the stream: its reader notes what that leaves open. None
        does in a feed that does not show its snapshots.
        """
        if not self._piece.lineage.snapshots_shown:
            return False
        position, flags = change[6].place(change[7])
        row = Change(position, "snapshot", None, None, encoding=change[5], flags=tuple(flags or ()))
        return self._readers[self._piece.end].is_beside_stream(row)

    def _key_text(self, image: dict[str, Any]) -> bytes:
        return _encode([image[name] for name in self._key_names])

    def _outcome(self, group: str, state: State) -> Iterator[Outcome]:
        row = self._row_of(group, state)
        if row is not None:
            is_put = state.kind == "patch" and self._whole <= row.keys()
            yield "put" if is_put else state.kind, row

    def _row_of(self, group: str, state: State) -> Row | None:
        """The row of the last image, None where it names none."""
        assert state.image is not None
        row: Row | None = self._carrier(state.encoding)(state.image)
        assert row is not None
        if self._names_row(group, row):
            return row
        self.notes.add(note(NO_KEY))
        return None

    def _names_row(self, group: str, row: Row) -> bool:
        """Whether the row has a key. OtherKey where it is not silver's."""
        key = row_key(row, self._ids)
        if key is None:
            return False
        ordered = key if self._places is None else tuple([key[place] for place in self._places])
        if encode_key(ordered) != group:
            raise OtherKey
        return True

    def _netted(self, group: str, state: State, changes: Iterator[Silver]) -> Iterator[Outcome]:
        """The outcome of a group of which some change does not fit, and those before it have made `state`."""
        row = self._row_of(group, state) if state.kind else None
        start = ("", "") if row is None else (state.kind, encode_row(row))
        told, end = self._told(group, changes), self._piece.end
        found = net_group(
            group, told, self._mover, end, begun=self._begun, cleared=self._cleared, start=start
        )
        for name, kind, image in found:
            if name == NOTE:
                self.notes.add(kind)
                continue
            row = decode_row(image)
            yield "put" if kind == "patch" and self._whole <= row.keys() else kind, row

    def _told(self, group: str, changes: Iterator[Silver]) -> Iterator[Told]:
        """The edits of changes, all of one key."""
        for change in map(_change_of, changes):
            step = self._step_at(change.position)
            self._note_undeclared(change, step)
            end = self._ends[bisect_left(self._ends, step)]
            found = self._readers[end].read((change,))
            if found.problems and end >= self._cleared:
                self.notes.update(map(note, found.problems))
            for edit in found.edits:
                if self._names_row(group, edit.row):
                    yield group, edit.kind, encode_row(edit.row), end, hint_of(edit)
                elif end >= self._cleared:
                    self.notes.add(note(NO_KEY))

    def _note_undeclared(self, change: Change, step: int) -> None:
        for image in (change.before, change.after):
            for name in () if image is None else self._undeclared(step, tuple(image)):
                place = self.unknown.get(name, change.position)
                self.unknown[name] = min(place, change.position)

    def _lacks_text(self, shape: tuple[str, ...], image: dict[str, Any]) -> bool:
        """Whether an image has a NULL that stands for another value, which its reader notes."""
        return any(image[name] is None for name in self._never_null(shape))

    def _never_null_names(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        schema = self._piece.lineage.steps[self._piece.end].schema
        found = ((name, schema.column(name)) for name in shape)
        return tuple(name for name, column in found if column is not None and column.is_never_null)

    def _undeclared_names(self, step: int, shape: tuple[str, ...]) -> tuple[str, ...]:
        schema = self._piece.lineage.steps[step].schema
        return tuple(name for name in shape if schema.column(name) is None)


def _following(state: State, op: str, before: str | None, after: str | None, *, begun: bool) -> str | None:
    """The kind of a row's outcome after a change, by the rules of net_group; None where the change does not
    fit what it meets word by word: a row ("put", "patch") and its text, one that is gone ("delete"), or none
    that is known of (""). `begun`: then there was none.
    """
    kind = state.kind
    there = kind in ("put", "patch")
    fits = before == state.text if there else not (kind or begun)
    match op:
        case "insert":
            return "put" if before is None and after is not None and not there else None
        case "snapshot":
            return "put" if before is None and after is not None else None
        case "update" if after is not None and (before is None or fits):
            return "patch" if kind in ("", "patch") else "put"
        case "delete" if after is None and before is not None and fits:
            return "delete"
    return None


class Batch:
    """A batch of grouped changes, whose positions and flags are read where a change needs them."""

    __slots__ = ("_batch", "_places")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._places: list[tuple[Position, list[str] | None]] | None = None

    def place(self, index: int) -> tuple[Position, list[str] | None]:
        """Position and flags of the row `index`."""
        if self._places is None:
            parts = [part.to_pylist() for part in self._batch.column("position").flatten()]
            flags = self._batch.column("flags").to_pylist()
            self._places = list(zip(zip(*parts, strict=True), flags, strict=True))
        return self._places[index]


def _change_of(row: Silver) -> Change:
    _, _, op, before, after, encoding, batch, index = row
    position, flags = batch.place(index)
    return Change(
        position,
        op,
        None if before is None else _decode(before),
        None if after is None else _decode(after),
        encoding=encoding,
        flags=tuple(flags or ()),
    )
