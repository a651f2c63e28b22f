"""The schema history of a source: its DDLs and schema records, in order, become lineages (lakehouse/lineage.py).

Where no CREATE was seen, a lineage begins with the schema that the messages' own types tell (`inferred`), taken from the
rows before the next DDL, so that it never depends on how far silver had come. A statement that is not understood, or
that does not fit, holds its table from its position on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply import alter, create
from lakehouse.ddl.reader import read
from lakehouse.effects import Clear, Unknowable
from lakehouse.errors import DdlError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import History, Interval, Lineage, Name, Step
from lakehouse.schema import TableSchema
from lakehouse.shapes import Record, Shape, inferred_schema, kept_ids, recorded_schema, with_types
from lakehouse.spelling import Spelling, of_database

EMPTY = TableSchema((), inferred=True)
RECOVERED = "it was recovered upstream, which sends no rows"


class Sightings(Protocol):
    """What silver has of each name's rows."""

    def names(self) -> Iterable[Name]: ...

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        """Whether rows of the name between the places may exist; cheap, and never wrongly no."""

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        """The shape of the rows between the places, or None where there are none."""

    def key_names(self, name: Name) -> tuple[str, ...]: ...


def build(
    records: Iterable[Record],
    sightings: Sightings,
    decisions: Mapping[str, str] | None = None,
    snapshots: Iterable[Position] = (),
    *,
    ordered: bool = True,
) -> History:
    """The lineages of a source. `decisions` maps the text of a held DDL to `approve` or `skip`; `snapshots` are the places of
    the full snapshots that are complete. Not `ordered`: rows lie in several partitions, whose places do not compare."""
    records = sorted(records, key=lambda record: record.position)
    builder = _Builder(sightings, decisions or {}, ordered, Spelling(sightings.names(), records))
    whole = set(snapshots)
    for position, group in groupby(records, key=lambda record: record.position):
        if position in whole:
            builder.snapshot(position, list(group))
        else:
            builder.group(list(group))
    return builder.finish()


class _Builder:
    def __init__(self, sightings: Sightings, decisions: Mapping[str, str], ordered: bool, spelling: Spelling) -> None:
        self.sightings, self.decisions, self.ordered, self.spelling = sightings, decisions, ordered, spelling
        self.live: dict[Name, Lineage] = {}
        self.free_since: dict[Name, Position] = {}
        self.ended: dict[Name, Lineage] = {}
        self.history = History()

    # --- records ---

    def group(self, records: list[Record]) -> None:
        """Records of one position, in the only order in which each source name exists and each target is free."""
        pending = records
        while pending:
            chosen = min(pending, key=lambda record: self._rank(record, pending))
            self._record(chosen)
            pending = [record for record in pending if record is not chosen]

    def _rank(self, record: Record, pending: list[Record]) -> tuple[bool, bool, bool]:
        """What speaks against a rename as the next one; names that nothing is known of may exist or not."""
        for old, new in self._renames(record):
            others = {pair[0] for other in pending if other is not record for pair in self._renames(other)}
            return self._find(new, record.position) is not None, new in others, self._find(old, record.position) is None
        return False, False, False

    def _renames(self, record: Record) -> list[tuple[Name, Name]]:
        try:
            statements = read(record.ddl) if record.ddl else []
        except DdlError:
            return []
        pairs = [pair for statement in statements if isinstance(statement, E.RenameTable) for pair in statement.pairs]
        return [(self._old_name(record, old), self._new_name(record, new)) for old, new in pairs]

    def _record(self, record: Record) -> None:
        if record.kind != "ddl":
            self._schema_record(record)
            return
        if record.ddl and self.decisions.get(record.ddl) == "skip":
            return
        try:
            statements = read(record.ddl or "")
        except DdlError as error:
            self._hold_unread(record, str(error))
            return
        for statement in statements:
            try:
                self._statement(statement, record)
            except DdlError as error:
                self._hold_unread(record, str(error))
        self._anchor_by_columns(record)

    def _hold_unread(self, record: Record, why: str) -> None:
        name = (record.database, record.table) if record.table else None
        if name is None:
            self.history.problems.append((record.position, f"a DDL of database {record.database} was not understood: {why}"))
            if (record.ddl or "").lstrip().upper().startswith("FLASHBACK CLUSTER"):
                for lineage in self.live.values():
                    lineage.incomplete.append((record.position, "the cluster was flashed back, which sends no rows"))
            return
        lineage = self._get(name, record.position)
        if lineage.held is None:
            lineage.held = (record.position, why)

    def _statement(self, statement: E.Statement, record: Record) -> None:
        match statement:
            case E.CreateTable():
                self._create(statement, record)
            case E.CreateTableLike():
                self._create_like(statement, record)
            case E.AlterTable():
                self._alter(statement, record)
            case E.RenameTable():
                for old, new in statement.pairs:
                    self._rename(self._old_name(record, old), self._new_name(record, new), record.position)
            case E.DropTable():
                for table in statement.tables:
                    self._drop(self._name(record, table), record.position)
            case E.TruncateTable():
                self._truncate(self._name(record, (statement.database, statement.table)), record)
            case E.DropDatabase():
                for name in of_database(self.live, statement.database):
                    self._drop(name, record.position)
            case E.RecoverTable():
                name = self.spelling.known(record, (statement.database, statement.table), [*self.live, *self.ended])
                self._recover(name, None if statement.to is None else self._new_name(record, (name[0], statement.to)), record.position)
            case E.RecoverDatabase():
                self._recover_database(statement.database, statement.to, record.position)
            case E.NoEffect():
                pass

    def _name(self, record: Record, name: E.Name) -> Name:
        return self.spelling.known(record, name, self.live)

    def _old_name(self, record: Record, name: E.Name) -> Name:
        """The table that a statement renames: a message has the new database alone, and the statement may name none."""
        found = self._name(record, name)
        if name[0] is None and found not in self.live and found not in self.spelling.sighted:
            return self.spelling.elsewhere(name[1], self.live) or found
        return found

    def _new_name(self, record: Record, name: E.Name) -> Name:
        return self.spelling.told(record, (name[0] or record.database, name[1]))

    # --- lives ---

    def _begin(self, name: Name, position: Position, schema: TableSchema, ddl: str | None = None) -> Lineage:
        places = ".".join(str(part) for part in position[: max((i for i, part in enumerate(position) if part), default=0) + 1])
        lineage = Lineage(f"{name[0]}.{name[1]}@{places}", [Step(position, schema, (), ddl)], [Interval(name, position, None)])
        lineage.key_names = self._named_key(name, schema, ddl)
        self.history.lineages.append(lineage)
        self.live[name] = lineage
        return lineage

    def _named_key(self, name: Name, schema: TableSchema, ddl: str | None) -> tuple[str, ...]:
        """The key that messages name, for schema records that tell none. A CREATE and an inferred shape tell the key of their own
        time: another table may have had the name, or this one another key."""
        return () if ddl is not None or schema.inferred else self.sightings.key_names(name)

    def _drop(self, name: Name, position: Position) -> None:
        lineage = self._find(name, position)
        if lineage is not None:
            self._anchor(lineage, position)
            lineage.end = position
            self._close(name, position)
            self.ended[name] = lineage

    def _close(self, name: Name, position: Position) -> Lineage:
        lineage = self.live.pop(name)
        last = lineage.intervals[-1]
        lineage.intervals[-1] = replace(last, high=position)
        self.free_since[name] = position
        return lineage

    def _find(self, name: Name, position: Position) -> Lineage | None:
        """The live lineage of a name, or one that begins where rows of it were seen before `position`."""
        if name in self.live:
            return self.live[name]
        low = self.free_since.get(name, MIN_POSITION)
        if not self.sightings.maybe(name, low, position):
            return None
        shape = self.sightings.shape(name, low, position)
        return None if shape is None else self._adopt(name, low, shape)

    def _adopt(self, name: Name, low: Position, shape: Shape) -> Lineage:
        """Rows under a name without a live table: the last one reopened, else a table that was there before the feed."""
        if name in self.ended:
            return self._reopen(name, low, "rows came after its DROP: it was recovered upstream")
        lineage = self._begin(name, low, inferred_schema(shape))
        lineage.notes.append("no CREATE was seen: its schema is inferred from the messages")
        return lineage

    def _reopen(self, name: Name, position: Position, why: str) -> Lineage:
        lineage = self.ended.pop(name)
        lineage.end = None
        lineage.intervals.append(Interval(name, position, None))
        lineage.incomplete.append((position, why))
        self.live[name] = lineage
        return lineage

    def _get(self, name: Name, position: Position) -> Lineage:
        """The lineage that a DDL of a name speaks of; one of unknown shape where nothing was seen of it."""
        found = self._find(name, position)
        if found is not None:
            return found
        lineage = self._begin(name, self.free_since.get(name, MIN_POSITION), EMPTY)
        lineage.notes.append("no CREATE was seen: its schema is inferred from the messages")
        return lineage

    # --- statements ---

    def _create(self, statement: E.CreateTable, record: Record) -> None:
        name = self.spelling.made(record, (statement.database, statement.table), self.live)
        if not self._make_room(name, record.position, statement.if_not_exists, replaced=statement.or_replace):
            return
        complete = bool(statement.columns) and not statement.as_select
        low = record.position if self.ordered else self.free_since.get(name, MIN_POSITION)
        self._begin(name, low, create(statement) if complete else EMPTY, record.ddl)

    def _create_like(self, statement: E.CreateTableLike, record: Record) -> None:
        name = self.spelling.made(record, (statement.database, statement.table), self.live)
        like = self._find(self._name(record, statement.like), record.position)
        if self._make_room(name, record.position, statement.if_not_exists, replaced=statement.or_replace):
            self._begin(name, record.position, like.steps[-1].schema if like else EMPTY, record.ddl)

    def _make_room(self, name: Name, position: Position, if_not_exists: bool, *, replaced: bool) -> bool:
        """Whether a CREATE takes effect; a live table of that name ends where it does."""
        found = self._find(name, position) if self.ordered else self.live.get(name)
        if found is None:
            return True
        if if_not_exists:
            return False
        if not replaced and not found.steps[-1].schema.inferred:
            found.notes.append("it was created again without a DROP that the feed has shown")
        self._drop(name, position)
        return True

    def _alter(self, statement: E.AlterTable, record: Record) -> None:
        name = self._name(record, (statement.database, statement.table))
        lineage = self._get(name, record.position) if not statement.if_exists else self._find(name, record.position)
        if lineage is None:
            return
        self._anchor(lineage, record.position)
        if lineage.held is None:
            self._alter_schema(lineage, statement, record)
        for edit in statement.edits:
            if isinstance(edit, E.RenameTo):
                self._rename(name, self._new_name(record, (edit.to[0] or name[0], edit.to[1])), record.position)
            elif isinstance(edit, E.ExchangePartition):
                self._unknowable(self._name(record, edit.table), record, "EXCHANGE PARTITION moved rows that no change tells")

    def _alter_schema(self, lineage: Lineage, statement: E.AlterTable, record: Record) -> None:
        schema = lineage.steps[-1].schema
        if not schema.columns:
            return
        try:
            following, effects = alter(schema, statement.edits)
        except DdlError as error:
            lineage.held = (record.position, str(error))
            return
        if following != schema or effects:
            lineage.steps.append(Step(record.position, following, effects, record.ddl))

    def _unknowable(self, name: Name, record: Record, why: str) -> None:
        lineage = self._find(name, record.position)
        if lineage is not None:
            lineage.steps.append(Step(record.position, lineage.steps[-1].schema, (Unknowable(why),), record.ddl))

    def _rename(self, old: Name, new: Name, position: Position) -> None:
        lineage = self._get(old, position)
        if new in self.live and self.live[new] is not lineage:
            self._drop(new, position)
        if not self._rename_anchored(lineage, position):
            lineage.notes.append(f"its shape before the rename from {'.'.join(old)} is not known")
        self._close(old, position)
        lineage.intervals.append(Interval(new, position, None))
        self.live[new] = lineage
        self.ended.pop(new, None)
        lineage.key_names = lineage.key_names or self._named_key(new, lineage.steps[-1].schema, lineage.steps[0].ddl)

    def _rename_anchored(self, lineage: Lineage, position: Position) -> bool:
        self._anchor(lineage, position)
        return bool(lineage.steps[-1].schema.columns) or lineage.steps[-1].position == MIN_POSITION

    def _truncate(self, name: Name, record: Record) -> None:
        lineage = self._find(name, record.position)
        if lineage is not None:
            self._anchor(lineage, record.position)
            lineage.steps.append(Step(record.position, lineage.steps[-1].schema, (Clear(),), record.ddl))

    def _recover(self, name: Name, to: Name | None, position: Position) -> None:
        if name in self.ended and name not in self.live:
            self._reopen(name, position, RECOVERED)
            if to is not None:
                self._rename(name, to, position)
        elif name in self.live and to is not None:
            self._recover_truncated(self.live[name], to, position)
        elif name in self.live:
            self.live[name].incomplete.append((position, "it was flashed back upstream, which sends no rows"))

    def _recover_truncated(self, lineage: Lineage, to: Name, position: Position) -> None:
        """The rows that a TRUNCATE took away come back as another table."""
        cleared = [step.schema for step in lineage.steps if any(isinstance(effect, Clear) for effect in step.effects)]
        self._begin(to, position, cleared[-1] if cleared else EMPTY).incomplete.append((position, RECOVERED))

    def _recover_database(self, database: str, to: str | None, position: Position) -> None:
        """The tables that its DROP DATABASE ended, not those that were dropped before."""
        ended = {name: self.ended[name].end or MIN_POSITION for name in of_database(self.ended, database)}
        for name in [name for name, end in ended.items() if end == max(ended.values())]:
            self._recover(name, None if to is None else (to, name[1]), position)

    # --- shapes ---

    def _anchor(self, lineage: Lineage, position: Position | None) -> None:
        """Give a lineage of unknown shape the one that its rows since its last step have."""
        last = lineage.steps[-1]
        interval = lineage.intervals[-1]
        if last.schema.columns or not self.sightings.maybe(interval.name, interval.low, position):
            return
        shape = self.sightings.shape(interval.name, max(interval.low, last.position), position)
        if shape is not None:
            lineage.steps[-1] = replace(last, schema=inferred_schema(shape))

    def _anchor_by_columns(self, record: Record) -> None:
        """A DDL that brings the table's columns along settles an unknown shape."""
        lineage = self.live.get((record.database, record.table or ""))
        if lineage is None or not record.columns:
            return
        if not lineage.steps[-1].schema.columns:
            lineage.steps[-1] = replace(lineage.steps[-1], schema=recorded_schema(record))
        elif lineage.steps[0].schema.inferred:
            told = {column.name.casefold(): column.type for column in recorded_schema(record).columns}
            types = {
                column.id: told[column.name.casefold()] for column in lineage.steps[-1].schema.columns if column.name.casefold() in told
            }
            lineage.steps = [replace(step, schema=with_types(step.schema, types)) for step in lineage.steps]

    def _schema_record(self, record: Record) -> None:
        """A schema record sets the history and never drops or clears anything."""
        if record.table is None or not record.columns:
            return
        name = (record.database, record.table)
        lineage = self._find(name, record.position)
        if lineage is None:
            self._begin(name, record.position, recorded_schema(record))
            return
        schema = lineage.steps[-1].schema
        if not schema.columns or schema.inferred:
            lineage.steps[-1] = replace(lineage.steps[-1], schema=recorded_schema(record))

    def snapshot(self, position: Position, records: list[Record]) -> None:
        """A complete full snapshot holds all there was: what came before it is gone, and so is a table that it does not know."""
        known = {(record.database, record.table): record for record in records if record.table is not None and record.columns}
        for name, record in known.items():
            lineage = self._find(name, position)
            if lineage is None:
                self._begin(name, position, recorded_schema(record))
                continue
            self._anchor(lineage, position)
            schema = kept_ids(lineage.steps[-1].schema, recorded_schema(record))
            lineage.steps.append(Step(position, schema, (Clear(),)))
            lineage.held = None
        databases = {name[0] for name in known}
        for name in [name for name in self.live if name[0] in databases and name not in known]:
            self._drop(name, position)

    def finish(self) -> History:
        for name in self.sightings.names():
            if name not in self.live and self.sightings.maybe(name, self.free_since.get(name, MIN_POSITION), None):
                low = self.free_since.get(name, MIN_POSITION)
                shape = self.sightings.shape(name, low, None)
                if shape is not None:
                    self._adopt(name, low, shape)
        for lineage in self.live.values():
            self._anchor(lineage, None)
            if untyped := [column.name for column in lineage.steps[-1].schema.columns if not column.type.base]:
                names = ", ".join(untyped)
                lineage.notes.append(f"no message tells the type of {names}: text as the wire has it, until a schema is imported")
        return self.history
