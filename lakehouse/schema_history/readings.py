"""What was read from the database, in the history of a source: whole tables, and rows that were read again.

table     the end of a table's snapshot: what came before it is gone, its CREATE TABLE is the schema
part      some rows that were read while the table changed: from here on it is not exact
settled   all that a snapshot or a part shows had happened by here
"""

from collections.abc import Iterable

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.parse.statements import read
from lakehouse.errors import DdlError
from lakehouse.events import PART, SETTLED, SNAPSHOT_TOPIC, TABLE_SNAPSHOT, Position
from lakehouse.lineage import History, Lineage, Name
from lakehouse.ops.progress import Place
from lakehouse.ops.records.operators import Epoch
from lakehouse.schema_history.rulings import rule_on_table_snapshot
from lakehouse.schema_history.schema_records import Record
from lakehouse.schema_history.table_lives import OLDER, Lives

ROUNDED = "column {}: the dump has six digits of each FLOAT"
# behind all that any feed tells
_NEVER: Position = (1 << 62, 0, 0, 0, 0, 0)
# what was read of tables so far, by kind and name: the lineages, and the places
Taken = dict[tuple[str, Name], list[tuple[Lineage, Position]]]


def apply_reading(lives: Lives, record: Record, taken: Taken) -> list[tuple[Position, str]]:
    """Apply a record of what was read; any other one is left alone. Returns the problems that belong to no
    table.
    """
    if record.kind == TABLE_SNAPSHOT:
        return _table_snapshot(lives, record, taken)
    if record.kind == PART:
        _part(lives, record, taken)
    elif record.kind == SETTLED:
        _settle(record, taken)
    return []


def _table_snapshot(lives: Lives, record: Record, taken: Taken) -> list[tuple[Position, str]]:
    """A snapshot of one table that is whole: what came before it is gone, and its CREATE TABLE says what the
    table was. Returns why it can't be used: its rows then belong to what was known before.
    """
    name, position = (record.database, record.table or ""), record.position
    try:
        statement = read(record.ddl or "")[0]
        if not isinstance(statement, CreateTable):
            raise DdlError("expected CREATE TABLE, got another statement")
        schema = create(statement)
    except DdlError as error:
        return [(position, f"the snapshot of {'.'.join(name)} was not understood: {error}")]
    lineage = lives.find(name, position)
    if lineage is None:
        lineage = lives.begin(name, position, schema)
    else:
        lives.anchor(lineage, position)
        rule_on_table_snapshot(lineage, position, schema).apply(lineage)
        release(lineage)
        lineage.notes = [note for note in lineage.notes if note not in OLDER]
    rounded = (column["name"] for column in record.columns or () if column.get("rounded"))
    lineage.incomplete += [(position, ROUNDED.format(name)) for name in rounded]
    taken.setdefault((TABLE_SNAPSHOT, name), []).append((lineage, position))
    return []


def _part(lives: Lives, record: Record, taken: Taken) -> None:
    """Rows of one table that were read again while it changed."""
    name = (record.database, record.table or "")
    lineage = lives.find(name, record.position)
    if lineage is not None:
        taken.setdefault((PART, name), []).append((lineage, record.position))


def release(lineage: Lineage) -> None:
    """A snapshot tells what a statement has made that was not understood; what a policy holds an operator
    decides.
    """
    if lineage.held is not None and lineage.held.by == "reader":
        lineage.held = None


def _settle(record: Record, taken: Taken) -> None:
    """A snapshot of the table, or a part of it, shows what had happened by now: its lineage, whatever its
    name is now, is not exact between the two places. Of those that overlap it may be either.
    """
    kind = PART if record.ddl is None else TABLE_SNAPSHOT
    found = taken.get((kind, (record.database, record.table or "")), [])
    for lineage, begun in found:
        if lineage.unsettled.get(begun, record.position) >= found[-1][1]:
            lineage.unsettled[begun] = record.position


def leave_unsettled(history: History, epochs: Iterable[Epoch]) -> None:
    """What an epoch was to settle at an offset that it did not come to, nothing settles but a later snapshot:
    its topic was created anew, and what the former one held unread is lost. An epoch that is raised for
    another server leaves every table incomplete by itself.
    """
    before: dict[Place, int] = {}
    for epoch in sorted(epochs, key=lambda one: one.epoch):
        ends = {one.place: one.offset for one in epoch.places if one.topic != SNAPSHOT_TOPIC}
        read = max((end for place, end in ends.items() if end > before.get(place, 0)), default=0)
        for lineage in history.lineages if epoch.goes_on else ():
            for begun, settled in lineage.unsettled.items():
                if settled[0] == epoch.epoch - 1 and settled[1] > read:
                    lineage.unsettled[begun] = _NEVER
        before = ends
