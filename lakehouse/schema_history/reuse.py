"""The history that a process built last for a source, given again where building it would give the same.

    records, sightings, rules ─built─▶ History      built, or a copy of the one before

`build` depends on its arguments and on what sightings answer to its questions, on nothing else. So a digest
of the arguments is kept with each question and its answer, and every question is asked again: rows that have
come since give the same answers, as a rule. A run without a new statement costs a look at each record, and
not the statements of years, applied one by one.
"""

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.lineage import History, Name
from lakehouse.schema_history.build import build
from lakehouse.schema_history.schema_records import Record, Shape
from lakehouse.schema_history.table_lives import Sightings

# so many steps of lineages are kept, of all sources: a table of 20 columns takes 2 KB for each
STEPS = 50_000
Span = tuple[Name, Position, Position | None]


@dataclass(frozen=True, slots=True)
class Answers:
    """What sightings have answered, by question."""

    names: list[Name] = field(default_factory=list)
    maybe: dict[Span, bool] = field(default_factory=dict)
    shapes: dict[Span, Shape | None] = field(default_factory=dict)
    keys: dict[Name, tuple[str, ...]] = field(default_factory=dict)

    def are_those_of(self, sightings: Sightings) -> bool:
        """Whether other sightings answer the same to all that was asked; looking at rows comes last."""
        return (
            self.names == list(sightings.names())
            and all(sightings.maybe(*span) == found for span, found in self.maybe.items())
            and all(sightings.key_names(name) == found for name, found in self.keys.items())
            and all(_is_same(sightings.shape(*span), found) for span, found in self.shapes.items())
        )


@dataclass(frozen=True, slots=True)
class Asking:
    """Sightings whose answers are noted."""

    sightings: Sightings
    answers: Answers = field(default_factory=Answers)

    def names(self) -> Iterable[Name]:
        self.answers.names[:] = self.sightings.names()
        return list(self.answers.names)

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        found = self.answers.maybe[name, low, high] = self.sightings.maybe(name, low, high)
        return found

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        found = self.answers.shapes[name, low, high] = self.sightings.shape(name, low, high)
        return found

    def key_names(self, name: Name) -> tuple[str, ...]:
        found = self.answers.keys[name] = self.sightings.key_names(name)
        return found


@dataclass(frozen=True, slots=True)
class Kept:
    """A history with what it was built of."""

    arguments: bytes
    answers: Answers
    history: History

    @property
    def steps(self) -> int:
        return sum(len(lineage.steps) for lineage in self.history.lineages)


_kept: dict[str, Kept] = {}
_LOCK = threading.Lock()


def built(
    place: str,
    records: Iterable[Record],
    sightings: Sightings,
    rules: Rules,
    *,
    snapshots: Sequence[Position] = (),
    ordered: bool = True,
    virtual: bool = False,
) -> History:
    """What `build` gives; the caller may change it. `place`: what a source's histories are kept under."""
    records = sorted(records, key=lambda record: record.position)
    arguments = _digest(records, rules, snapshots, (ordered, virtual))
    with _LOCK:
        known = _kept.pop(place, None)
    if known is None or known.arguments != arguments or not known.answers.are_those_of(sightings):
        known, asking = None, Asking(sightings)  # it leaves the memory before the next one is built
        history = build(records, asking, rules, snapshots, ordered=ordered, virtual=virtual)
        known = Kept(arguments, asking.answers, history)
    with _LOCK:  # sources run side by side
        _kept[place] = known
        while sum(one.steps for one in _kept.values()) > STEPS:
            del _kept[next(iter(_kept))]  # the one that was used longest ago
    return _copied(known.history)


def _digest(
    records: Iterable[Record], rules: Rules, snapshots: Sequence[Position], flags: tuple[bool, bool]
) -> bytes:
    said = rules.policies, rules.decisions, sorted(rules.logs), rules.charset
    of_format = rules.mixes_names, rules.hides_sessions, rules.tells_all, rules.server
    digest = hashlib.blake2b(
        repr((said, of_format, list(snapshots), flags)).encode(errors="backslashreplace")
    )
    for record in records:
        try:
            digest.update(msgspec.json.encode(record))
        except UnicodeEncodeError:  # half a character, as JSON can spell it
            digest.update(repr(record).encode(errors="backslashreplace"))
    return digest.digest()


def _is_same(one: Shape | None, other: Shape | None) -> bool:
    """Whether shapes are equal, in the order of their columns too."""
    return one == other and (one is None or other is None or list(one.types) == list(other.types))


def _copied(history: History) -> History:
    lineages = [
        replace(
            one,
            steps=list(one.steps),
            intervals=list(one.intervals),
            incomplete=list(one.incomplete),
            notes=list(one.notes),
            times=dict(one.times),
            unsettled=dict(one.unsettled),
        )
        for one in history.lineages
    ]
    return History(lineages, list(history.problems))
