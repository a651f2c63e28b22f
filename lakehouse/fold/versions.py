"""From a row history's entries (lakehouse/fold/row_history.py) to the rows of each mode of a gold table.

    append     every entry is a row of its own
    history    a version is a stretch of time in which a row was the same: [since, until), by commit time
    soft       one row per key, as it is or as it last was

A row's times never fall: its commit times may run backwards in a binlog, so each bound is at least the one
before. Of several versions that begin at one time the last stands, and two that meet and are alike are one;
so no interval is empty and none overlap. Images of the past keep their values (`compile_kept`): a column that
came later is null in them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.row_history import plain
from lakehouse.fold.tracks import Entry, Shown
from lakehouse.fold.upcast import Move, Row, Upstream, compile_kept
from lakehouse.lineage import Lineage


class Version(NamedTuple):
    """A row as it was from `since` on, before `until` (None: it still is). The image is in the schema of
    `step`.
    """

    row: Row
    step: int
    since: int
    until: int | None


class Last(NamedTuple):
    """A row as it is, or as it was when it was deleted at `gone`: by the entry at `place`, None where none
    has changed a row that was known before the entries.
    """

    row: Row
    step: int
    gone: int | None
    live: bool
    place: Position | None = None


def versions(
    entries: Iterable[Entry],
    shown: Shown = plain,
    known: Mapping[int, list[Version]] | None = None,
    *,
    keep: "Keeper | None" = None,
) -> dict[int, list[Version]]:
    """The versions of each row, in order. `known` are those of seeded rows, which are gone on from. With
    `keep` two versions that meet are compared as they are shown today: gold's rows say of no version which
    step it was in.
    """
    found: dict[int, list[Version]] = defaultdict(list)
    found.update({row: list(earlier) for row, earlier in (known or {}).items()})
    for entry in entries:
        if entry.after is None:
            _close(found[entry.row], entry.time or 0)
        else:
            _put(found[entry.row], entry, entry.after, shown, keep=keep)
    return found


def _close(earlier: list[Version], time: int) -> None:
    """The row is gone: its open version ends, or was never, where it began at this very time."""
    if earlier and earlier[-1].until is None:
        last = earlier.pop()
        if last.since < time:
            earlier.append(last._replace(until=time))


def _put(earlier: list[Version], entry: Entry, row: Row, shown: Shown, *, keep: "Keeper | None") -> None:
    open_now = bool(earlier) and earlier[-1].until is None
    if open_now and entry.before is not None and shown(entry.before) == shown(row):
        return
    time = entry.time or 0
    if earlier:
        last = earlier[-1]
        time = max(time, last.since if last.until is None else last.until)
        if open_now:
            _close(earlier, time)
    if earlier and earlier[-1].until == time and _alike(earlier[-1], entry.step, row, shown=shown, keep=keep):
        earlier.append(earlier.pop()._replace(until=None))
    else:
        earlier.append(Version(row, entry.step, time, None))


def _alike(last: Version, step: int, row: Row, *, shown: Shown, keep: "Keeper | None") -> bool:
    if last.step == step:
        return bool(shown(last.row) == shown(row))
    return keep is not None and bool(shown(keep(last.row, last.step)) == shown(keep(row, step)))


def last_known(entries: Iterable[Entry], known: Mapping[int, Last] | None = None) -> dict[int, Last]:
    """Each row that ever existed, in its present or last state; a delete of a row that is otherwise unknown
    adds none.
    """
    found = dict(known or {})
    for entry in entries:
        if entry.after is not None:
            found[entry.row] = Last(entry.after, entry.step, None, live=True, place=entry.position)
        elif entry.row in found and found[entry.row].live:
            row = entry.before or found[entry.row].row
            found[entry.row] = Last(row, entry.step, entry.time, live=False, place=entry.position)
    return found


class Keeper:
    """Takes images from the step they are in to a target step, as images of the past: compiled once
    per step.
    """

    def __init__(self, lineage: Lineage, target: int, upstream: Upstream) -> None:
        self.lineage, self.target, self.upstream = lineage, target, upstream
        self.moves: dict[int, list[Move]] = {}

    def __call__(self, row: Row, step: int) -> Row:
        if step not in self.moves:
            self.moves[step] = compile_kept(self.lineage, step, self.target, self.upstream)
        moved: Any = dict(row)
        for move in self.moves[step]:
            moved = move(moved)
        return dict(moved)
