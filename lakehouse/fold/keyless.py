"""Rows of a table without a key: they are told apart by their images alone, and counted.

    Multiset   how many rows there are of each image, whatever the order in which changes come
    Images     the images themselves, found by the cells of one that lacks some
    Finder     the row of a table's history that a partial image means
    counted    what a window of changes does to the rows of before it

An update or delete whose old image lacks columns (`RowEdit.old`) is about a row that is there at its place:
the one that agrees on the columns it has. Where several rows that differ agree, nothing tells which of them
it is; where none does, what the image lacks is not known.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.events import Position
from lakehouse.fold.row_edits import (
    DELETE,
    NEVER_INSERTED,
    PUT,
    REFUSE,
    Change,
    ChangeReader,
    RowEdit,
    ends_of_snapshot,
    image_text,
    in_order,
)
from lakehouse.fold.tracks import Tracks
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.lineage import Lineage, StepIndex

NOTHING_TO_REPLACE = "a change tells a part of a row, and no change has inserted the rest"
ONE_OF_SEVERAL = "a change tells a part of a row, and several rows agree with it"


@dataclass(slots=True)
class Images:
    """The distinct images of rows, by their texts, and by the cells of some columns: per set of columns that
    was asked for, the texts by the text of those cells; under None those that lack one of the columns.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    parts: dict[tuple[int, ...], dict[str | None, list[str]]] = field(default_factory=dict)

    def add(self, row: Row) -> str:
        """The text of an image, which can be found from now on."""
        text = image_text(row)
        if text not in self.rows:
            self.rows[text] = row
            for ids, found in self.parts.items():
                found[_cells_text(row, ids)].append(text)
        return text

    def alike(self, part: Row) -> list[str]:
        """The texts of the images that agree with a partial one on the columns that both have."""
        ids = tuple(sorted(part))
        if ids not in self.parts:
            self.parts[ids] = defaultdict(list)
            for text, row in self.rows.items():
                self.parts[ids][_cells_text(row, ids)].append(text)
        found = self.parts[ids]
        lacking = [text for text in found[None] if _agree(self.rows[text], part)]
        return [*found[_cells_text(part, ids)], *lacking]


def _cells_text(row: Row, ids: tuple[int, ...]) -> str | None:
    return image_text({key: row[key] for key in ids}) if all(key in row for key in ids) else None


def _agree(row: Row, image: Row, *, null_agrees: bool = False) -> bool:
    return all(
        (null_agrees and value is None) or image.get(key, value) == value for key, value in row.items()
    )


class Completed(NamedTuple):
    """The row that a partial old image means, what the change makes of it (None: it deletes it), and what
    could not be told.
    """

    old: Row
    new: Row | None
    problem: str | None


def completed(edit: RowEdit, images: Images, live: Callable[[str], int]) -> Completed:
    """An edit whose old image lacks columns, with the row that it is about; `live` says how many rows of an
    image are there at the edit's place. Where there is none, the images are all that is known.
    """
    assert edit.old is not None
    deletes = edit.kind == DELETE
    found = sorted(text for text in images.alike(edit.old) if live(text) > 0)
    if not found:
        # a delete that finds no row is told where deletes are counted
        return Completed(edit.old, None if deletes else edit.row, None if deletes else NOTHING_TO_REPLACE)
    row = images.rows[found[0]]
    problem = ONE_OF_SEVERAL if len(found) > 1 else None
    return Completed(row, None if deletes else {**row, **edit.row}, problem)


class WholeEdits(NamedTuple):
    """The edits that an edit with a partial old image comes to, and what could not be told."""

    edits: list[RowEdit]
    problems: frozenset[str] = frozenset()


class Finder:
    """Finds the rows that partial old images mean, among the tracks of a table. The images are gathered when
    the first one is asked for: most tables have no such change.
    """

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._images: Images | None = None

    def whole_edits(
        self, edit: RowEdit, counts: Mapping[str, int], last: Mapping[str, RowEdit]
    ) -> WholeEdits:
        """The edit; a delete and a put of whole images, where its old image lacks columns. `counts` are the
        rows that its commit has added and taken so far, `last` its edits by image.
        """
        if edit.old is None:
            if self._images is not None:
                self._images.add(edit.row)
            return WholeEdits([edit])
        images = self._images = self._images or self._gathered(last)
        live = self._tracks.live
        found = completed(edit, images, lambda text: len(live.get(text, ())) + counts.get(text, 0))
        edits = [RowEdit(edit.position, DELETE, found.old, edit.op)]
        if found.new is not None:
            images.add(found.new)
            edits.append(RowEdit(edit.position, PUT, found.new, edit.op))
        return WholeEdits(edits, frozenset([found.problem] if found.problem is not None else []))

    def _gathered(self, last: Mapping[str, RowEdit]) -> Images:
        images = Images()
        for track in self._tracks.all():
            images.add(track.last)
        for edit in last.values():
            images.add(edit.row)
        return images


@dataclass(slots=True)
class Multiset:
    """How many rows there are of each image, and how many deletes found none. A delete of a refused image
    takes that image: it was never here.

    `ordered`: positions are the order in which the source made its changes, so that an insert puts another
    row than the one that was deleted before it. Else a delete may come before its insert. `guessed`: deletes
    have found no row of their image, and took others, or none.
    """

    ordered: bool = False
    images: Images = field(default_factory=Images)
    there: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    short: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problems: set[str] = field(default_factory=set)
    guessed: bool = False

    def live(self, text: str) -> int:
        """How many rows of an image are there so far."""
        return self.there[text]

    def add(self, row: Row) -> None:
        self.there[self.images.add(row)] += 1

    def apply(self, edit: RowEdit) -> None:
        """Apply an edit; edits come in the order of their places."""
        if edit.old is not None:
            self._replace(completed(edit, self.images, self.live))
        elif edit.kind == DELETE:
            self._delete(self.images.add(edit.row))
        else:
            counts = self.refused if edit.kind == REFUSE else self.there
            counts[self.images.add(edit.row)] += 1

    def _replace(self, found: Completed) -> None:
        self._delete(self.images.add(found.old))
        if found.new is not None:
            self.add(found.new)
        if found.problem is not None:
            self.problems.add(found.problem)

    def _delete(self, text: str) -> None:
        counts = self.refused if self.refused and self.refused[text] else self.there
        if counts[text]:
            counts[text] -= 1
        else:
            self.short[text] += 1

    def settle(self) -> list[Row]:
        """The rows that are there in the end. Each delete that found none of exactly its image takes one of
        which some cells are not known.
        """
        if not self.ordered:
            for text in self.short:
                for counts in (self.refused, self.there):
                    _take(counts, text, self.short, text)
        rows = self.images.rows
        gone = sorted(text for text, count in self.short.items() if count)
        self.guessed = bool(gone)
        # in an order of the images' own: of several that are alike the same one is taken however changes
        # arrive
        candidates = sorted(text for text, count in self.there.items() if count) if gone else []
        for null_agrees in (False, True):
            for text in gone:
                self._take_alike(candidates, text, null_agrees=null_agrees)
            if any(self.short[text] for text in gone):
                self.problems.add(NEVER_INSERTED)
        return [dict(rows[text]) for text, count in self.there.items() for _ in range(count)]

    def _take_alike(self, candidates: list[str], gone: str, *, null_agrees: bool) -> None:
        """A row of which some cells are not known is taken for an image that agrees on the rest. Such cells
        are absent, or NULL where no rule has converted them: NULL agrees with anything only when no row is
        left that is alike without it, and may as well be the value of another row.
        """
        rows = self.images.rows
        for text in candidates:
            if self.short[gone] == 0:
                return
            if text != gone and _agree(rows[text], rows[gone], null_agrees=null_agrees):
                _take(self.there, text, self.short, gone)


def _take(counts: dict[str, int], text: str, short: dict[str, int], gone: str) -> None:
    """Take rows of an image for deletes that found none yet."""
    taken = min(counts[text], short[gone])
    counts[text] -= taken
    short[gone] -= taken


@dataclass(slots=True)
class Counted:
    """What changes do to the rows of one image: how many more there are behind them (fewer, where it is below
    nothing), and how many there must have been before, so that each delete takes one.
    """

    row: Row
    more: int = 0
    least: int = 0


def counted(
    lineage: Lineage, changes: Iterable[Change], upstream: Upstream, *, step: int, before: Position
) -> list[Counted] | None:
    """What changes of a table without a key do to the rows that were there at `before`, image by image; they
    are all of the schema of `step`. None where only a fold of all changes can tell: a change lies below
    another step, is told in part, is refused, lacks something, takes a row at a place where the rows of
    `before` need not be those that were there, or is an end of a snapshot, which may have been begun again.
    """
    ordered, step_at = in_order(lineage, changes, upstream), StepIndex(lineage)
    for one in ordered:
        if step_at(one.position) != step or (one.op != "insert" and one.position <= before):
            return None
        if one.op == "snapshot" and ends_of_snapshot(one):
            return None
    found = ChangeReader(lineage, step, upstream, ()).read(ordered)
    if found.unknown or found.problems or found.cleared:
        return None
    images: dict[str, Counted] = {}
    for edit in found.edits:
        if edit.kind == REFUSE or edit.old is not None:
            return None
        image = images.setdefault(image_text(edit.row), Counted(edit.row))
        image.more += -1 if edit.kind == DELETE else 1
        image.least = max(image.least, -image.more)
    if not upstream.continuity.rows:
        # a delete may come before its insert
        for image in images.values():
            image.least = max(0, -image.more)
    return list(images.values())
