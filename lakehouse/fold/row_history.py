"""A lineage's changes one after another: what each commit, and each DDL, made of each row.

    changes ─replay─▶ entries     one per row and commit: its image before and after

Unlike the fold, which only wants the last state, this goes through all of them: the live rows are taken
through every DDL where it stands, and an entry says so where that changes a value or removes a row. So the
rows that the entries leave are the fold's, and the entries up to any moment leave the rows of that moment.

At TiCDC the changes of one row at one commit_ts are netted into one entry, however they were cut; elsewhere
each change is one. Rows of a table without a key are counted per image, the oldest of equal ones goes first.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from lakehouse.ddl_effects import Clear
from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.current_rows import (
    DELETE,
    PUT,
    REFUSE,
    UPSTREAM,
    Change,
    Deltas,
    changes_key,
    image_text,
    row_key,
    target_step,
)
from lakehouse.fold.upcast import Move, Row, Upstream, compile_kept, compile_moves
from lakehouse.lineage import Lineage, key_ids

Shown = Callable[[Row], Any]


class Entry(NamedTuple):
    """What one commit or DDL made of one row; an image of None says that it was not there. Images are in the
    schema of `step`. `row` is the same number as long as it is the same row, through deletes and changes of
    the key by DDL.
    """

    row: int
    position: Position
    time: int | None
    op: str
    before: Row | None
    after: Row | None
    step: int


@dataclass(slots=True)
class Track:
    """One row through time: its image now (None: it is gone), the last one it had, and since when a snapshot
    leaves it open.
    """

    number: int
    row: Row | None
    last: Row
    open_since: tuple[Position, int | None] | None = None


def plain(row: Row) -> Any:
    """What of a row is compared, where all of it is shown: a column that is absent is null."""
    return {column_id: value for column_id, value in row.items() if value is not None}


def replay(
    lineage: Lineage,
    changes: Iterable[Change],
    at: Position,
    upstream: Upstream = UPSTREAM,
    *,
    by_commit: bool,
    shown: Shown = plain,
) -> list[Entry]:
    """The entries of a lineage up to `at`, in position order. Changes come in any order. `by_commit`:
    positions are TiCDC's.
    """
    machine = Replay(lineage, upstream, by_commit=by_commit, shown=shown)
    machine.run(changes, at)
    return machine.finish()


class Replay:
    """The rows of a lineage at one of its steps, and the entries that led there. `seed` before `run` goes on
    from known rows.
    """

    def __init__(
        self, lineage: Lineage, upstream: Upstream, *, by_commit: bool, shown: Shown = plain, step: int = 0
    ) -> None:
        self.lineage, self.upstream, self.by_commit, self.shown = lineage, upstream, by_commit, shown
        # by key; without one by image, the copies that are there in the order in which they came
        self.live: dict[Any, deque[Track]] = defaultdict(deque)
        self.gone: dict[Any, list[Track]] = defaultdict(list)
        self.owed: dict[str, tuple[Row, int]] = {}
        self.refused: dict[str, tuple[Row, int]] = {}
        self.entries: list[Entry] = []
        self.count = 0
        self.unknown: dict[str, Position] = {}
        self.problems: list[str] = []
        self.time: int | None = None
        self.applied = 0
        self._enter(step)

    def _enter(self, step: int) -> None:
        self.step, self.ids = step, key_ids(self.lineage, step)
        self.deltas = Deltas(self.lineage, step, self.upstream, self.ids)

    def seed(self, row: Row, *, live: bool) -> int:
        """A row as it is known from before the changes; returns its number."""
        return self._new(self._key(row), row if live else None, row).number

    def run(self, changes: Iterable[Change], at: Position) -> None:
        target = target_step(self.lineage, at)
        ordered = sorted(
            (change for change in changes if change.position <= at), key=lambda change: change.position
        )
        for step, group in groupby(ordered, key=lambda change: self.lineage.step_at(change.position)):
            while self.step < step:
                self._cross()
            for _, commit in groupby(group, key=self._commit_of):
                self._commit(list(commit))
        while self.step < target:
            self._cross()

    def finish(self) -> list[Entry]:
        """All entries in position order; what a snapshot has not brought again is gone."""
        self._close_open()
        self._leave()
        self.entries.sort(key=lambda entry: entry.position)
        return self.entries

    def _leave(self) -> None:
        self.unknown = {**self.deltas.unknown, **self.unknown}
        self.applied += self.deltas.applied

    def rows(self) -> list[Row]:
        return [track.row for tracks in self.live.values() for track in tracks if track.row is not None]

    # --- rows ---

    def _key(self, row: Row) -> Any:
        return row_key(row, self.ids) if self.ids else image_text(row)

    def _new(self, key: Any, row: Row | None, last: Row) -> Track:
        self.count += 1
        track = Track(self.count, row, last)
        (self.gone if row is None else self.live)[key].append(track)
        return track

    def _end(self, key: Any, track: Track) -> None:
        self.live[key].remove(track)
        self.gone[key].append(track)
        track.row = None

    def _begin(self, key: Any, track: Track, row: Row) -> None:
        if track.row is None:
            self.gone[key].remove(track)
            self.live[key].append(track)
        track.row = track.last = row

    def _add(
        self,
        track: Track,
        position: Position,
        time: int | None,
        op: str,
        before: Row | None,
        after: Row | None,
    ) -> None:
        self.entries.append(Entry(track.number, position, time, op, before, after, self.step))

    # --- commits ---

    def _commit_of(self, change: Change) -> Position:
        return (*change.position[:2], 0, 0, 0, 0) if self.by_commit else change.position

    def _commit(self, changes: list[Change]) -> None:
        self.time = max(
            (change.commit_ts for change in changes if change.commit_ts is not None), default=self.time
        )
        if self.ids:
            self._keyed(changes)
        else:
            self._counted(changes)

    def _keyed(self, changes: list[Change]) -> None:
        touched: dict[Any, _Net] = {}
        for change in changes:
            moved = False
            for delta in self.deltas.of((change,)):
                key = row_key(delta.row, self.ids)
                if key is None:
                    self.problems.append("an image without its key")
                    continue
                if delta.kind == REFUSE:
                    continue  # the row stays as it was; an update that changed its key has ended the old one
                net = touched.get(key)
                if net is None:
                    net = touched[key] = self._net(key, change)
                net.take(delta.kind, delta.row, change, moved=moved)
                moved = delta.kind == DELETE
        for key, net in touched.items():
            self._settle(key, net)

    def _net(self, key: Any, change: Change) -> "_Net":
        track = next(iter(self.live.get(key, ())), None)
        if track is not None and track.open_since is not None:
            if change.op == "snapshot":
                track.open_since = None
            else:
                self._close(key, track)
        gone = self.gone.get(key)
        known = track if track is not None else gone[-1] if gone else None
        return _Net(known, None if known is None else known.row)

    def _settle(self, key: Any, net: "_Net") -> None:
        before = net.before if net.before is not None else net.told
        if before is None and net.row is None:
            return
        track = net.track or self._new(key, None, net.row or before or {})
        if net.row is not None:
            self._begin(key, track, net.row)
        elif track.row is not None:
            self._end(key, track)
        self._add(track, net.position, self.time, net.op(), before, net.row)

    def _counted(self, changes: list[Change]) -> None:
        """A keyless table's commit: per image as many more or fewer as its halves say."""
        counts: dict[str, int] = {}
        last: dict[str, tuple[Change, Row]] = {}
        for change in changes:
            for delta in self.deltas.of((change,)):
                text = image_text(delta.row)
                if delta.kind == REFUSE:
                    self.refused[text] = delta.row, self.refused.get(text, (delta.row, 0))[1] + 1
                    continue
                if delta.kind == DELETE and (refused := self.refused.get(text)) is not None and refused[1]:
                    self.refused[text] = refused[0], refused[1] - 1  # it was never here
                    continue
                counts[text] = counts.get(text, 0) + (-1 if delta.kind == DELETE else 1)
                last[text] = change, delta.row
        for text, count in counts.items():
            change, row = last[text]
            for _ in range(abs(count)):
                (self._one_more if count > 0 else self._one_less)(text, row, change)

    def _one_more(self, text: str, row: Row, change: Change) -> None:
        owed, live, gone = self.owed.get(text), self.live[text], self.gone[text]
        if owed is not None and owed[1]:
            self.owed[text] = owed[0], owed[1] - 1
        elif change.op == "snapshot" and live and live[0].open_since is not None:
            live[0].open_since = None
            live.rotate(-1)
        else:
            # the one that went last comes back: a row that is deleted and inserted at one moment has not
            # changed
            track = gone[-1] if gone else self._new(text, None, row)
            self._begin(text, track, row)
            self._add(
                track,
                change.position,
                self.time,
                "snapshot" if change.op == "snapshot" else "insert",
                None,
                row,
            )

    def _one_less(self, text: str, row: Row, change: Change) -> None:
        track = next((track for track in self.live[text] if track.open_since is None), None)
        if track is None:
            self.problems.append("a delete of a row that no change inserted")
            self.owed[text] = row, self.owed.get(text, (row, 0))[1] + 1
            return
        self._add(track, change.position, self.time, "delete", track.row, None)
        self._end(text, track)

    # --- DDL ---

    def _cross(self) -> None:
        """On to the next step: what its DDL does to the live rows."""
        self._close_open()
        self._leave()
        step = self.lineage.steps[self.step + 1]
        told = self.lineage.times.get(step.position)
        self.time = told if told is not None else self.time
        live = compile_moves(self.lineage, self.step, self.step + 1, self.upstream)
        kept = compile_kept(self.lineage, self.step, self.step + 1, self.upstream)
        rekeyed = changes_key(self.lineage, self.step + 1)
        self._enter(self.step + 1)
        snapshot = step.ddl is None and any(isinstance(effect, Clear) for effect in step.effects)
        tracks = [track for by_key in (self.live, self.gone) for same in by_key.values() for track in same]
        if snapshot:
            self._open(tracks, step.position)
        elif live or kept:
            for track in tracks:
                self._move(track, live, kept, step.position)
        if rekeyed or live or kept:
            self._rekey(tracks, [] if rekeyed or snapshot else live)

    def _open(self, tracks: list[Track], position: Position) -> None:
        """A complete snapshot begins the table anew: a row that it brings again has never been away."""
        known = {column.id for column in self.lineage.steps[self.step].schema.columns}
        for track in tracks:
            track.last = {column_id: value for column_id, value in track.last.items() if column_id in known}
            if track.row is not None:
                track.row, track.open_since = track.last, (position, self.time)

    def _close_open(self) -> None:
        for key, tracks in list(self.live.items()):
            for track in [track for track in tracks if track.open_since is not None]:
                self._close(key, track)

    def _close(self, key: Any, track: Track) -> None:
        assert track.open_since is not None
        position, time = track.open_since
        self._add(track, position, time, "delete", track.row, None)
        track.open_since = None
        self._end(key, track)

    def _move(self, track: Track, live: list[Move], kept: list[Move], position: Position) -> None:
        before = _moved(kept, track.last)
        assert before is not None
        if track.row is None:
            track.last = before
            return
        after = _moved(live, track.row)
        if after is None:
            self._add(track, position, self.time, "delete", before, None)
        elif self.shown(before) != self.shown(after) and self.ids:
            self._add(track, position, self.time, "update", before, after)
        elif self.shown(before) != self.shown(after):
            self._add(track, position, self.time, "delete", before, None)
            self._add(track, position, self.time, "insert", None, after)
        track.row, track.last = after, after if after is not None else before

    def _rekey(self, tracks: list[Track], live: list[Move]) -> None:
        """Rows under the key of this step. What is owed, or was refused, goes on where the key does."""
        self.owed, self.refused = _carried(self.owed, live), _carried(self.refused, live)
        self.live.clear()
        self.gone.clear()
        for track in sorted(tracks, key=lambda track: track.number):
            (self.gone if track.row is None else self.live)[self._key(track.last)].append(track)


@dataclass(slots=True)
class _Net:
    """One row within one commit: its track, its image before, what a delete tells of one that is not known,
    and its image now.
    """

    track: Track | None
    before: Row | None
    row: Row | None = None
    told: Row | None = None
    position: Position = MIN_POSITION
    last_op: str = ""
    begun: bool = False

    def take(self, kind: str, row: Row, change: Change, *, moved: bool) -> None:
        if not self.begun:
            self.row, self.begun = self.before, True
            if kind == DELETE and self.before is None:
                self.told = row
        self.position = change.position
        self.last_op = "insert" if moved and change.op == "update" else change.op
        if kind == DELETE:
            self.row = None
        elif kind == PUT or self.row is None:
            self.row = row
        else:
            self.row = {**self.row, **row}

    def op(self) -> str:
        """Insert or update is judged by whether the row existed."""
        if self.row is None:
            return "delete"
        if self.last_op == "snapshot":
            return "snapshot"
        return (
            "update"
            if self.before is not None or self.told is not None or self.last_op == "update"
            else "insert"
        )


def _carried(counted: dict[str, tuple[Row, int]], moves: list[Move]) -> dict[str, tuple[Row, int]]:
    found = [(moved, n) for row, n in counted.values() if moves and (moved := _moved(moves, row)) is not None]
    return {image_text(row): (row, n) for row, n in found}


def _moved(moves: list[Move], row: Row) -> Row | None:
    moved: Row | None = dict(row)
    for move in moves:
        if moved is None:
            return None
        moved = move(moved)
    return moved
