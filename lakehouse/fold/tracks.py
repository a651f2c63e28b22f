"""The rows of a table over time, by key: live ones and deleted ones.

A track is one row for as long as it is the same row: through deletes, and through changes of the key by DDL.
A keyed table has one live track per key; a table without a key has one per row, by its image, the oldest of
equal ones first.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.row_edits import Key, image_text, row_key
from lakehouse.fold.upcast import LOST, Move, Moved, Row

Shown = Callable[[Row], Any]
KeyOf = Callable[[Row], Any]


class Entry(NamedTuple):
    """What one commit or DDL made of one row; an image of None says that it was not there. Images are in the
    schema of `step`. `row` is the number of its track.
    """

    row: int
    position: Position
    time: int | None
    op: str
    before: Row | None
    after: Row | None
    step: int


class Done(NamedTuple):
    """The entries of a DDL or of commits, what they lack, and the keys of which some change looks odd."""

    entries: list[Entry]
    problems: set[str]
    odd: set[Key]

    def add(self, other: "Done") -> None:
        """Add what the commits after these have."""
        self.entries.extend(other.entries)
        self.problems.update(other.problems)
        self.odd.update(other.odd)


@dataclass(slots=True)
class Track:
    """One row: its image now (None: it is gone), the last one it had, and since when a snapshot leaves it
    open whether it still is.
    """

    number: int
    row: Row | None
    last: Row
    open_since: tuple[Position, int | None] | None = None


@dataclass(slots=True)
class Tracks:
    """All rows that ever were, by key; `refused` are keys of images that an expectation has refused."""

    live: dict[Any, deque[Track]] = field(default_factory=lambda: defaultdict(deque))
    gone: dict[Any, list[Track]] = field(default_factory=lambda: defaultdict(list))
    refused: set[Any] = field(default_factory=set)
    count: int = 0

    def add(self, key: Any, row: Row | None, last: Row) -> Track:
        """A new track, live where it has a row now."""
        self.count += 1
        track = Track(self.count, row, last)
        (self.gone if row is None else self.live)[key].append(track)
        return track

    def put(self, key: Any, track: Track, row: Row) -> None:
        """Give the track this image; one that was gone is live again."""
        if track.row is None:
            self.gone[key].remove(track)
            self.live[key].append(track)
        track.row = track.last = row

    def end(self, key: Any, track: Track) -> None:
        """The row of a live track is deleted."""
        self.live[key].remove(track)
        self.gone[key].append(track)
        track.row = None

    def of_key(self, key: Any) -> Track | None:
        """The track of a key: the live one, else the one that went last."""
        live = self.live.get(key)
        if live:
            return live[0]
        gone = self.gone.get(key)
        return gone[-1] if gone else None

    def close(self, key: Any, track: Track, step: int) -> Entry:
        """End a row that a snapshot has not sent again: it was gone when the snapshot began."""
        assert track.open_since is not None
        position, time = track.open_since
        entry = Entry(track.number, position, time, "delete", before=track.row, after=None, step=step)
        track.open_since = None
        self.end(key, track)
        return entry

    def close_all(self, step: int) -> list[Entry]:
        """End every row that a snapshot has left open."""
        return [
            self.close(key, track, step)
            for key, tracks in list(self.live.items())
            for track in [track for track in tracks if track.open_since is not None]
        ]

    def settled(self, key: Any) -> int:
        """How many live rows of a key no snapshot has left open."""
        return sum(track.open_since is None for track in self.live.get(key, ()))

    def all(self) -> list[Track]:
        """Every track, the live ones first."""
        return [track for by_key in (self.live, self.gone) for same in by_key.values() for track in same]

    def rekey(self, tracks: Iterable[Track], key_of: KeyOf) -> None:
        """Hold the tracks under other keys."""
        self.live.clear()
        self.gone.clear()
        for track in sorted(tracks, key=lambda track: track.number):
            (self.gone if track.row is None else self.live)[key_of(track.last)].append(track)

    def rows(self) -> list[Row]:
        """The live rows."""
        return [track.row for tracks in self.live.values() for track in tracks if track.row is not None]


@dataclass(slots=True)
class Unmatched:
    """Images of a table without a key whose other half is to come, by their text, each with its number:
    `owed` were deleted before any change inserted them, `refused` were inserted and an expectation refused
    them, so that their delete takes nothing. `ordered`: positions are the order in which the source made its
    changes, so that none is owed.
    """

    ordered: bool = False
    owed: dict[str, tuple[Row, int]] = field(default_factory=dict)
    refused: dict[str, tuple[Row, int]] = field(default_factory=dict)

    def move(self, moves: list[Move]) -> None:
        """Take the images over a DDL, `moves` being what it does to rows; without any they are dropped."""
        self.owed, self.refused = _moved_images(self.owed, moves), _moved_images(self.refused, moves)


def add_one(counted: dict[str, tuple[Row, int]], text: str, row: Row) -> None:
    """Add one to the count of an image."""
    counted[text] = row, counted.get(text, (row, 0))[1] + 1


def take_one(counted: dict[str, tuple[Row, int]], text: str) -> bool:
    """Take one from the count of an image; whether there was one."""
    found = counted.get(text)
    if found is None or not found[1]:
        return False
    counted[text] = found[0], found[1] - 1
    return True


def _moved_images(counted: dict[str, tuple[Row, int]], moves: list[Move]) -> dict[str, tuple[Row, int]]:
    found = [
        (moved, n)
        for row, n in counted.values()
        if moves and (moved := apply_moves(moves, row).row) is not None
    ]
    return {image_text(row): (row, n) for row, n in found}


def apply_moves(moves: list[Move], row: Row) -> Moved:
    """A copy of the row after the moves."""
    moved = dict(row)
    for move in moves:
        following = move(moved)
        if following is None:
            return Moved(None)
        moved = following
    return Moved(moved, moved.pop(LOST, frozenset()))


def key_by(ids: tuple[int, ...]) -> KeyOf:
    """The function that gives the key of a row, or its whole image where the table has no key."""
    return (lambda row: row_key(row, ids)) if ids else image_text
