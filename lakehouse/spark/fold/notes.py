"""What workers find besides rows: columns that no DDL has declared, what the changes lack, which do not fit
those before them, and how many there were. It travels as rows without an image, whose kind is the note.
"""

import json
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from lakehouse.events import Position
from lakehouse.fold.continuity import NO_BREAKS, Breaks
from lakehouse.spark.quality.continuity import added_up, encoded

NOTE = "note "
# of a keyless table: more deletes of an image than rows, or a change whose old image lacks columns
SHORT = "a delete of an image that is not there as it is"
# of a keyed one: changes that may not fit those before them (lakehouse/spark/quality/continuity.py)
ODD = "a change looks as if it did not fit the one before it"
# no column has such a name
_TAKEN = ""


def note(text: str, place: Position | None = None) -> str:
    """What a worker found, as the kind of a row: a column that no DDL has declared, with the position of a
    row that has it; without a position, something that the changes lack.
    """
    return NOTE + json.dumps([text, place])


def taken_note(number: int) -> str:
    """That a worker has folded so many changes; two workers' notes are never the same."""
    return NOTE + json.dumps([_TAKEN, [number, uuid.uuid4().hex]])


def is_problem(kind: str) -> bool:
    """Whether a note says what the changes lack, or which do not fit."""
    text, place = json.loads(kind.removeprefix(NOTE))
    return (place is None or text is None) and kind != note(SHORT)


def break_notes(breaks: Breaks) -> list[str]:
    """The changes that do not fit those before them, as one note."""
    return [NOTE + json.dumps([None, encoded(breaks)])] if breaks.total else []


class Notes(NamedTuple):
    """What workers found beside rows: columns that no DDL has declared, each with the first position where a
    row has it, what the changes lack, which do not fit those before them, and how many were folded (None:
    nobody has counted them).
    """

    unknown: dict[str, Position]
    problems: frozenset[str]
    breaks: Breaks
    taken: int | None


def found_in(kinds: Iterable[str]) -> Notes:
    """What the notes among the kinds of rows say."""
    unknown: dict[str, Position] = {}
    problems: set[str] = set()
    breaks, taken = NO_BREAKS, None
    for text, place in (json.loads(kind.removeprefix(NOTE)) for kind in kinds if kind.startswith(NOTE)):
        if place is None:
            problems.add(text)
        elif text is None:
            breaks = breaks.plus(added_up([place]))
        elif text == _TAKEN:
            taken = (taken or 0) + place[0]
        else:
            unknown[text] = min(tuple(place), unknown.get(text, tuple(place)))
    return Notes(unknown, frozenset(problems), breaks, taken)
