"""Problems of order: what a feed in order of arrival does not determine is reported, not guessed, and what
comes below a retention floor is refused.

An offset orders rows within its partition alone. A key whose changes stay in one partition is exact. What is
not: a statement that changes rows which lie in other partitions than it does, a name that two tables had, and
keys of which changes came in several partitions (an update of the key goes to the new key's partition, and
deletes the old one from there). Topics of their own for tables have their statements too, but one that names
several tables, or a database, is in one of them only.

A feed that is sent again comes at new offsets; silver leaves out what aligns with the run before. Of what
does not, rows by key are right once it has caught up; a statement that comes again, at the same second with
the same text, is not, for rows of before it follow it: its tables are reported. Files without commit ts are
such a feed too, of one partition, and nothing in them aligns.

    records with their batches, floors ─without_late─▶ the records that count, and the refused ones

Statements that arrive below a floor are refused, as rows are: the floor's rows have the schema that was known
when it was raised, and the log that they would change is gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.ddl_effects import Clear
from lakehouse.events import Position
from lakehouse.lineage import History, Lineage, Name, Step, key_ids
from lakehouse.schema_history.named_tables import Tables, tables_of
from lakehouse.schema_history.schema_records import Record

Place = tuple[str, int]
STATEMENT = "a statement came in another partition than rows that it changes: which came first is not known"
APART = "statements on it came in several partitions: which came first is not known"
NAME = (
    "another table had its name, and rows of the two came in other partitions than the "
    "statements: which are whose is not known"
)


REPEATED = (
    "a statement came again: the feed was sent again from before it, and its rows of then were applied on top"
)
KEYLESS = (
    "it has no key, and its feed tells no order but arrival: rows that are sent again, and are "
    "not seen to be, count twice"
)


@dataclass(frozen=True, slots=True)
class SentStatement:
    """A statement of the feed, and the second at which the source says that it began."""

    position: Position
    database: str
    table: str | None
    ddl: str | None
    commit_ts: int | None


def report_repeats(history: History, statements: Iterable[SentStatement]) -> None:
    """Note on the lineages which statements came again, and what a replay does to tables without a key."""
    seen: set[tuple[Any, ...]] = set()
    for told in sorted((told for told in statements if told.ddl), key=lambda told: told.position):
        identity = (told.database, told.table, told.ddl, told.commit_ts)
        if identity in seen:
            own, tables = (told.database, told.table), tables_of(told.database, told.table, told.ddl)
            for lineage in history.lineages:
                if any(one.name == own or tables.has(one.name) for one in lineage.intervals):
                    lineage.incomplete.append((told.position, REPEATED))
        seen.add(identity)
    for lineage in history.lineages:
        if not key_ids(lineage, len(lineage.steps) - 1):
            lineage.notes.append(KEYLESS)


@dataclass(frozen=True, slots=True)
class Spread:
    """Where a feed's rows and statements lie: partitions by table, and by a statement's place and text;
    `moved` counts the keys of a table whose changes came in several partitions; `messages` are the database
    and the table that a statement's message names, by its place and text.
    """

    rows: Mapping[Name, set[Place]] = field(default_factory=dict)
    statements: Mapping[tuple[Position, str | None], Place] = field(default_factory=dict)
    moved: Mapping[Name, int] = field(default_factory=dict)
    messages: Mapping[tuple[Position, str | None], tuple[str, str | None]] = field(default_factory=dict)


def report_disorder(history: History, spread: Spread) -> None:
    """Note on the lineages what depends on an order that the feed does not have."""
    owners = Counter(
        name for lineage in history.lineages for name in {interval.name for interval in lineage.intervals}
    )
    told = list(_told(spread)) if len(set(spread.statements.values())) > 1 else []
    for lineage in history.lineages:
        names = {interval.name for interval in lineage.intervals}
        shared = {name for name in names if owners[name] > 1}
        lineage.incomplete += _found(lineage, names, shared, spread)
        if len({place for tables, place in told if any(map(tables.has, names))}) > 1:
            lineage.incomplete += _throughout(lineage, APART)


def _throughout(lineage: Lineage, why: str) -> Iterable[tuple[Position, str]]:
    """The reason at its beginning, and again where it is cleared: what its rows and statements are in order
    is not known behind that either.
    """
    cleared = (step.position for step in lineage.steps if any(isinstance(one, Clear) for one in step.effects))
    return [(position, why) for position in (lineage.start, *cleared)]


def _told(spread: Spread) -> Iterator[tuple[Tables, Place]]:
    """The tables that each statement names, and where it lies."""
    for (position, ddl), place in spread.statements.items():
        database, table = spread.messages.get((position, ddl), ("", None))
        if ddl:
            yield tables_of(database, table, ddl), place


def _found(
    lineage: Lineage, names: set[Name], shared: set[Name], spread: Spread
) -> Iterable[tuple[Position, str]]:
    rows = set().union(*(spread.rows.get(name, set()) for name in names))
    for before, step in zip(lineage.steps, lineage.steps[1:], strict=False):
        if rows - {spread.statements.get((step.position, step.ddl))} and _changes_rows(before, step):
            yield step.position, STATEMENT
    if shared and len(rows | set(spread.statements.values())) > 1:
        yield from _throughout(lineage, NAME)
    if moved := sum(spread.moved.get(name, 0) for name in names):
        yield lineage.start, f"changes of {moved} keys came in several partitions, whose order is not known"


def _changes_rows(before: Step, step: Step) -> bool:
    """Even a new column that is NULL at first: rows behind it may be read by the schema before it."""
    return bool(step.effects) or before.schema.columns != step.schema.columns


# Below a retention floor


class RaisedFloor(NamedTuple):
    """A floor of the tables of these names, and the last batch that silver had done when it was raised."""

    place: Position
    names: frozenset[Name]
    batch: int


class Sorted(NamedTuple):
    """The records that count, and those that came too late."""

    counted: list[Record]
    refused: list[Record]


def without_late(records: Iterable[tuple[Record, int]], floors: Iterable[RaisedFloor]) -> Sorted:
    """Records, each with its batch, without those that a later batch has brought of a place below a floor. A
    statement that comes again is no new record: silver has it once. One of several tables is refused for all.
    """
    found, raised = Sorted([], []), list(floors)
    for record, batch in records:
        late = any(batch > floor.batch and _is_below(record, floor) for floor in raised)
        (found.refused if late else found.counted).append(record)
    return found


def _is_below(record: Record, floor: RaisedFloor) -> bool:
    return record.position <= floor.place and any(map(_tables_of(record).has, floor.names))


def _tables_of(record: Record) -> Tables:
    return tables_of(record.database, record.table, record.ddl)


def report_refused(history: History, refused: Iterable[Record]) -> None:
    """Say of each table that statements of it were refused: it is incomplete since the first of them. Of a
    statement of no table that is known, the source says so.
    """
    told: dict[str, list[Record]] = {}
    for record in refused:
        about = [lineage for lineage in history.lineages if _was_there(lineage, record)]
        for lineage in about:
            told.setdefault(lineage.id, []).append(record)
        if not about:
            history.problems.append((record.position, f"{record.database}: {_why(1)}"))
    for lineage in history.lineages:
        mine = told.get(lineage.id, [])
        if mine:
            lineage.incomplete.append((min(record.position for record in mine), _why(len(mine))))


def _was_there(lineage: Lineage, record: Record) -> bool:
    tables = _tables_of(record)
    return any(tables.has(one.name) and one.has(record.position) for one in lineage.intervals)


def _why(count: int) -> str:
    return f"below the retention floor: {count} statements that arrived late were refused"
