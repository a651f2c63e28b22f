"""Statements that arrive below a retention floor are refused, as rows are: the floor's rows have the schema
that was known when it was raised, and the log that they would change is gone.

    records with their batches, floors ─without_late─▶ the records that count, and the refused ones
"""

from collections.abc import Iterable
from typing import NamedTuple

from lakehouse.events import Position
from lakehouse.lineage import History, Lineage, Name
from lakehouse.schema_history.named_tables import Tables, tables_of
from lakehouse.schema_history.schema_records import Record


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
