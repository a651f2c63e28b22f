"""Lineages: the life of a table from CREATE to DROP, through renames and schema changes, as intervals of
names over positions.

Every read of silver selects by a lineage's name intervals, never by name alone. A row at position p belongs
to the schema of the last step below p; a DDL's own position never equals a row's.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from operator import is_
from typing import NamedTuple

from lakehouse.ddl_effects import VERSIONED, Clear, Effect, Unknowable
from lakehouse.events import MIN_POSITION, Position
from lakehouse.schema import Column, GoldKeeps, TableSchema

Name = tuple[str, str]
# a producer that has mixed up names goes on so: rows behind a TRUNCATE have the same ones
NAMES_MIXED = (
    "an ALTER exchanged names of columns: some releases of its producer send the values that follow under "
    "the wrong ones"
)
BINARY_TEXT = "columns are text in charset binary, whose bytes its producer may send as if they were text"
READ_OTHERWISE = (
    "its producer reads a statement otherwise than the server, or not at all, and may send the values that "
    "follow under the wrong columns"
)
# what its producer goes on to do behind a TRUNCATE, and with a table that is made like this one
LASTING = (NAMES_MIXED, BINARY_TEXT, READ_OTHERWISE)


@dataclass(frozen=True, slots=True)
class Step:
    """A schema of the table, in force from `position` on (exclusive for rows), and the effects on the rows
    that existed then.
    """

    position: Position
    schema: TableSchema
    effects: tuple[Effect, ...] = ()
    ddl: str | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """Rows of `name` with low < position < high belong to the lineage."""

    name: Name
    low: Position
    high: Position | None

    def has(self, position: Position) -> bool:
        """Whether a row of the name at this position belongs to the lineage."""
        return self.low < position and (self.high is None or position < self.high)


class Held(NamedTuple):
    """A DDL that gold stops before, and the reason. `by`: "reader" where it was not understood or does not
    fit, "hold" or "reject" where a policy says so, "rows" where rows have `columns` that no DDL has added
    yet.
    """

    position: Position
    why: str
    ddl: str | None = None
    by: str = "reader"
    columns: tuple[str, ...] = ()


# digests of steps, by their number and all else that they depend on
Shapes = dict[str, tuple[tuple[Step, ...], str]]
# why a table is not exact for a while
READ_WHILE = "rows of it were read while it changed, and the watermark is not past the end of that yet"


@dataclass(slots=True)
class Lineage:
    """One table's life. `end` is the position of its DROP. `held` is the first DDL that gold can't apply.
    `since` is where a table without a CREATE was first met: its first step may lie below, but nothing shows
    that it was there. `times` are the commit times of its steps, where they are told. `overruled`: a
    policy or an operator has left out what a statement does, so that its rows need not be the source's.
    `unsettled` are the places of snapshots that show more than what had happened there, each with the place
    where all of it had. `gone`: where the source lost the table, which a policy keeps in gold.
    `beyond` is the source's schema while the table is held, None where it is not known. `snapshots_shown`:
    the feed has the schema records of its snapshots, so that one without them has not emptied the table.
    `shapes` are the last digests that `shape_of` has computed.
    """

    id: str
    steps: list[Step]
    intervals: list[Interval]
    key_names: tuple[str, ...] = ()
    end: Position | None = None
    held: Held | None = None
    incomplete: list[tuple[Position, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    since: Position = MIN_POSITION
    times: dict[Position, int] = field(default_factory=dict)
    overruled: bool = False
    unsettled: dict[Position, Position] = field(default_factory=dict)
    gone: Position | None = None
    beyond: TableSchema | None = None
    snapshots_shown: bool = False
    shapes: Shapes = field(default_factory=dict, compare=False, repr=False)

    @property
    def source_schema(self) -> TableSchema | None:
        """The table's schema at the source after its last statement, whatever gold keeps of an older one;
        None where it is not known.
        """
        last = self.steps[-1].schema if self.held is None else self.beyond
        return None if last is None else replace(last, keeps=GoldKeeps())

    @property
    def start(self) -> Position:
        return max(self.steps[0].position, self.since)

    def step_at(self, position: Position) -> int:
        """The index of the step whose schema decodes a row at `position` (0 for rows below the first)."""
        return max(bisect_left([step.position for step in self.steps], position) - 1, 0)

    def schema_at(self, position: Position) -> TableSchema:
        return self.steps[self.step_at(position)].schema

    def name_at(self, position: Position) -> Name | None:
        """The table's name right after everything at or below `position`, or None where it does not exist."""
        if position < self.start or (self.end is not None and self.end <= position):
            return None
        live = [
            interval
            for interval in self.intervals
            if interval.low <= position and (interval.high is None or position < interval.high)
        ]
        return live[-1].name if live else None

    def ended_at(self, position: Position) -> Position | None:
        """Where the table was dropped, of one that does not live right after `position` and has lived
        before.
        """
        if self.name_at(position) is not None:
            return None
        ends = (one.high for one in self.intervals if one.high is not None and one.high <= position)
        return max(ends, default=None)

    def reaches_below(self, floors: Mapping[Name, Position]) -> bool:
        """Whether some of its life lies below a floor of its name, and not only that of an earlier table."""
        return any(one.low < floors.get(one.name, MIN_POSITION) for one in self.intervals)

    def cleared_at(self, position: Position) -> Position:
        """The last position at or below `position` where the table was emptied: by a statement or a complete
        snapshot.
        """
        clears = [
            step.position for step in self.steps if any(isinstance(effect, Clear) for effect in step.effects)
        ]
        return max((place for place in clears if place <= position), default=MIN_POSITION)

    def is_unsettled_at(self, position: Position) -> bool:
        """Whether rows may show more than what had happened there, for they were read while it changed, and
        the table was not emptied since.
        """
        cleared = self.cleared_at(position)
        return any(cleared <= begun <= position < settled for begun, settled in self.unsettled.items())

    def incomplete_at(
        self, position: Position, more: Sequence[tuple[Position, str]] = ()
    ) -> tuple[Position, str] | None:
        """The position since which the table is known to be incomplete at `position`, and the reason; `more`
        is what its changes are known to lack. Clearing the table ends it, but not what is wrong with the
        changes of a table that keeps its history.
        """
        cleared = self.cleared_at(position)
        known = [
            (max(place, cleared), why) if why in LASTING else (place, why)
            for place, why in (*self.incomplete, *more)
            if place <= position
        ]
        unknowable = [
            (step.position, effect.reason)
            for step in self.steps
            if step.position <= position
            for effect in step.effects
            if isinstance(effect, Unknowable)
        ]
        after = [step.position for step in self.steps[1:]]
        versioned = [
            (max(step.position, cleared), VERSIONED)
            for step, end in zip_longest(self.steps, after)
            if step.schema.versioned and step.position <= position and (end is None or end > cleared)
        ]
        early = [
            (begun, READ_WHILE) for begun, settled in self.unsettled.items() if begun <= position < settled
        ]
        found = known + unknowable + versioned + early
        return min((entry for entry in found if entry[0] >= cleared), default=None)


@dataclass(slots=True)
class History:
    """All lineages of a source, and the statements that could not be read."""

    lineages: list[Lineage] = field(default_factory=list)
    problems: list[tuple[Position, str]] = field(default_factory=list)

    def live(self, position: Position) -> dict[Name, Lineage]:
        """The tables that exist right after `position`."""
        named = ((lineage.name_at(position), lineage) for lineage in self.lineages)
        return {name: lineage for name, lineage in named if name is not None}

    def owner(self, name: Name, position: Position) -> Lineage | None:
        """The lineage that a row of `name` at `position` belongs to."""
        for lineage in self.lineages:
            for interval in lineage.intervals:
                if interval.name == name and interval.has(position):
                    return lineage
        return None


class StepIndex:
    """`Lineage.step_at` for many positions, with the steps searched once instead of at every call."""

    __slots__ = ("_places",)

    def __init__(self, lineage: Lineage) -> None:
        self._places = [step.position for step in lineage.steps]

    def __call__(self, position: Position) -> int:
        return max(bisect_left(self._places, position) - 1, 0)


def shape_of(lineage: Lineage, at: Position, restores: list[int | Position | None]) -> str:
    """A digest of the schema history up to `at` and of voided positions: a table folded under another one is
    folded again. The text of years of steps is megabytes, and mostly that of the run before.
    """
    steps = tuple(step for step in lineage.steps if step.position <= at)
    names = [(interval.name, interval.low) for interval in lineage.intervals if interval.low <= at]
    rest = f"], {names!r}, {lineage.key_names!r}, {restores!r})"
    key = f"{len(steps)}{rest}"
    known, found = lineage.shapes.get(key, ((), ""))
    if not found or not all(map(is_, known, steps)):
        digest, texts = hashlib.blake2b(b"([", digest_size=12), dict[int, str]()
        for number, step in enumerate(steps):
            told = (step.position, _text(step.schema, texts), repr(step.effects))
            digest.update(f"{', ' if number else ''}{told!r}".encode())
        digest.update(rest.encode())
        found = digest.hexdigest()
        lineage.shapes[key] = steps, found
    return found


def _text(schema: TableSchema, texts: dict[int, str]) -> str:
    """`repr(schema)`. `texts` are those of columns, by their ids in memory: most are the objects that the
    step before has.
    """
    for column in schema.columns:
        if id(column) not in texts:
            texts[id(column)] = repr(column)
    columns = ", ".join(texts[id(column)] for column in schema.columns)
    rest = [f"{one.name}={getattr(schema, one.name)!r}" for one in fields(schema) if one.name != "columns"]
    return f"TableSchema(columns=({columns}{',' * (len(schema.columns) == 1)}), {', '.join(rest)})"


def key_ids(lineage: Lineage, step: int) -> tuple[int, ...]:
    """The columns that identify a row: the primary key, else the key that messages or its YAML name, else a
    NOT NULL unique key.
    """
    schema = lineage.steps[step].schema
    if schema.primary_key:
        return schema.primary_key
    named = [schema.column(name) or _renamed(lineage, schema, name) for name in lineage.key_names]
    if named and all(named):
        return tuple(column.id for column in named if column is not None)
    return schema.handle_key


def _renamed(lineage: Lineage, schema: TableSchema, name: str) -> Column | None:
    """The column of a schema that has the name in another one of the table's schemas."""
    others = (step.schema.column(name) for step in lineage.steps)
    return next((here for one in others if one and (here := schema.by_id(one.id)) is not None), None)


def key_orders(lineage: Lineage) -> set[tuple[int, ...]]:
    """The columns of a table's key in the order of their names, in which messages have its values: several
    where the key has changed, or a RENAME of columns has changed their order.
    """
    found = set()
    for number, step in enumerate(lineage.steps):
        columns = (step.schema.by_id(one) for one in key_ids(lineage, number))
        found.add(tuple(one.id for one in sorted((one for one in columns if one), key=lambda one: one.name)))
    return found


_NAME = re.compile(r"(`(?:[^`]|``)+`|[^.`]+)\.(`(?:[^`]|``)+`|[^.`]+)")


def split_name(text: str) -> tuple[str, str]:
    """`db.table` as its two names; a name that contains a dot is in backquotes. Anything else is a
    ValueError.
    """
    match = _NAME.fullmatch(text)
    if not match:
        raise ValueError("expected db.table, with names that contain a dot in backquotes")
    database, table = (
        part[1:-1].replace("``", "`") if part.startswith("`") else part for part in match.groups()
    )
    return database, table
