"""The schema history of a source: its DDLs and schema records, in order, become lineages
(lakehouse/lineage.py).

Where no CREATE was seen, a lineage begins with the schema that the messages' own types tell (`inferred`),
taken from the rows before the next DDL, so that it never depends on how far silver had come. A statement that
is not understood, or that does not fit, holds its table from its position on.
"""

import functools
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, pairwise

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.generated_columns import computed_anew
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import altered, read
from lakehouse.ddl.policy import Rules, action_of, judge, stopping
from lakehouse.ddl_effects import Clear, Fill, Unknowable
from lakehouse.errors import DdlError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import Held, History, Lineage, Name, Step
from lakehouse.schema_history.name_matching import Spelling, of_database
from lakehouse.schema_history.schema_records import (
    Record,
    kept_ids,
    recorded_schema,
    with_columns,
    with_types,
)
from lakehouse.schema_history.table_lives import EMPTY, Lives, Sightings

RECOVERED = "it was recovered upstream, which sends no rows"
TWICE = (
    "a snapshot was taken of it while changes were streamed: it has no key that tells its rows "
    "from those that were there"
)
NO_RULES = Rules()


@functools.lru_cache(maxsize=8192)
def _read(sql: str) -> tuple[E.Statement, ...]:
    """The same statements are read run after run."""
    return tuple(read(sql))


def build(
    records: Iterable[Record],
    sightings: Sightings,
    rules: Rules = NO_RULES,
    snapshots: Iterable[Position] = (),
    *,
    ordered: bool = True,
    virtual: bool = False,
) -> History:
    """The lineages of a source. `rules` are what YAMLs and operators say of DDLs; `snapshots` are the places
    of the full snapshots that are complete. Not `ordered`: rows lie in several partitions, whose places do
    not compare. `virtual`: rows carry VIRTUAL columns.
    """
    records = sorted(records, key=lambda record: record.position)
    builder = _Builder(sightings, rules, ordered, Spelling(sightings.names(), records))
    whole = set(snapshots)
    times = {record.position: record.commit_ts for record in records if record.commit_ts is not None}
    for position, group in groupby(records, key=lambda record: record.position):
        at_once = list(group)
        if position not in whole:
            builder.group(at_once)
        elif _is_of_some_tables(at_once):
            builder.snapshot_of_some(position, at_once)
        else:
            builder.snapshot(position, at_once)
    history = builder.finish()
    for lineage in history.lineages:
        lineage.steps = _with_virtual(lineage.steps) if virtual else lineage.steps
        lineage.times = {
            step.position: times[step.position] for step in lineage.steps if step.position in times
        }
    return history


def _is_of_some_tables(records: list[Record]) -> bool:
    """Whether a snapshot is one that a signal asked for while streaming (`execute-snapshot`, type
    `blocking`): it holds the tables that the signal names, and of them what its conditions let through, so
    its rows clear nothing. Its records drop those tables alone; a full snapshot's drop their databases too.
    """
    dropped = {
        words[1]
        for record in records
        if len(words := (record.ddl or "").upper().split(None, 2)) > 1 and words[0] == "DROP"
    }
    return "TABLE" in dropped and not dropped & {"DATABASE", "SCHEMA"}


def _with_virtual(steps: list[Step]) -> list[Step]:
    """The steps with what each does to VIRTUAL columns."""
    told = [
        (*computed_anew(one.schema, two.schema, two.effects), *two.effects) for one, two in pairwise(steps)
    ]
    return [
        *steps[:1],
        *(replace(step, effects=effects) for step, effects in zip(steps[1:], told, strict=True)),
    ]


class _Builder(Lives):
    def __init__(self, sightings: Sightings, rules: Rules, ordered: bool, spelling: Spelling) -> None:
        super().__init__(sightings, ordered)
        self.rules, self.spelling = rules, spelling

    # --- records ---

    def group(self, records: list[Record]) -> None:
        """Records of one position, in the only order in which each source name exists and each target is
        free.
        """
        pending = records
        while pending:
            chosen = min(pending, key=lambda record: self._rank(record, pending))
            self._record(chosen)
            pending = [record for record in pending if record is not chosen]

    def _rank(self, record: Record, pending: list[Record]) -> tuple[bool, bool, bool]:
        """What speaks against a rename as the next one; names that nothing is known of may exist or not."""
        for old, new in self._renames(record):
            others = {pair[0] for other in pending if other is not record for pair in self._renames(other)}
            return (
                self._find(new, record.position) is not None,
                new in others,
                self._find(old, record.position) is None,
            )
        return False, False, False

    def _renames(self, record: Record) -> list[tuple[Name, Name]]:
        try:
            statements = _read(record.ddl) if record.ddl else ()
        except DdlError:
            return []
        pairs = [
            pair
            for statement in statements
            if isinstance(statement, E.RenameTable)
            for pair in statement.pairs
        ]
        return [(self._old_name(record, old), self._new_name(record, new)) for old, new in pairs]

    def _record(self, record: Record) -> None:
        if record.kind == "inferred":
            self._inferred_columns(record)
            return
        if record.kind != "ddl":
            self._schema_record(record)
            return
        decision = self.rules.decision(record.position, record.ddl)
        try:
            statements = _read((decision.instead if decision else None) or record.ddl or "")
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
        """Hold the tables that it alters, of which the message may tell the session's database and not
        theirs, or only the new name.
        """
        names = [self._name(record, name) for name in altered(record.ddl or "")]
        if record.table and all(name[1].casefold() != record.table.casefold() for name in names):
            names.append((record.database, record.table))
        if not names:
            self.history.problems.append(
                (record.position, f"a DDL of database {record.database} was not understood: {why}")
            )
            if (record.ddl or "").lstrip().upper().startswith("FLASHBACK CLUSTER"):
                for lineage in self.live.values():
                    lineage.incomplete.append(
                        (record.position, "the cluster was flashed back, which sends no rows")
                    )
            return
        for name in names:
            self._hold(self._get(name, record.position), record, why)

    def _hold(self, lineage: Lineage, record: Record, why: str) -> None:
        """Hold the table before a DDL that can't be applied, unless an operator skips it."""
        decision = self.rules.decision(record.position, record.ddl)
        if decision is not None and decision.action == "skip":
            lineage.notes.append(f"an operator skipped a DDL that was not applied: {why}")
        elif lineage.held is None:
            lineage.held = Held(record.position, why, record.ddl)

    def _passes(self, lineage: Lineage, kind: str, record: Record) -> bool:
        """Whether an edit of a whole table goes on: not where it is ignored. Held, it does too: names go on,
        gold stops before.
        """
        policy = self.rules.policy(lineage, record.position, record.ddl)
        if lineage.held is None:
            lineage.held = stopping(policy, (kind,), record.position, record.ddl)
        if action_of(policy, kind) != "ignore":
            return True
        lineage.notes.append(f"a DDL was ignored: {kind}")
        return False

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
                    self._rename_ruled(self._old_name(record, old), self._new_name(record, new), record)
            case E.DropTable():
                for table in statement.tables:
                    self._drop_ruled(self._name(record, table), "drop_table", record)
            case E.TruncateTable():
                self._truncate(self._name(record, (statement.database, statement.table)), record)
            case E.DropDatabase():
                for name in of_database(self.live, statement.database):
                    self._drop_ruled(name, "drop_database", record)
            case E.RecoverTable():
                name = self.spelling.known(
                    record, (statement.database, statement.table), [*self.live, *self.ended]
                )
                self._recover(
                    name,
                    None if statement.to is None else self._new_name(record, (name[0], statement.to)),
                    record,
                )
            case E.RecoverDatabase():
                self._recover_database(statement.database, statement.to, record)
            case E.NoEffect():
                pass

    def _name(self, record: Record, name: E.Name) -> Name:
        return self.spelling.known(record, name, self.live)

    def _old_name(self, record: Record, name: E.Name) -> Name:
        """The table that a statement renames: a message has the new database alone, and the statement may
        name none.
        """
        found = self._name(record, name)
        if name[0] is None and found not in self.live and found not in self.spelling.sighted:
            return self.spelling.elsewhere(name[1], self.live) or found
        return found

    def _new_name(self, record: Record, name: E.Name) -> Name:
        return self.spelling.told(record, (name[0] or record.database, name[1]))

    # --- lives ---

    def _drop_ruled(self, name: Name, kind: str, record: Record) -> None:
        lineage = self._find(name, record.position)
        if lineage is not None and self._passes(lineage, kind, record):
            self._drop(name, record.position)

    # --- statements ---

    def _create(self, statement: E.CreateTable, record: Record) -> None:
        name = self.spelling.made(record, (statement.database, statement.table), self.live)
        if not self._make_room(name, record.position, statement.if_not_exists, replaced=statement.or_replace):
            return
        complete = bool(statement.columns) and not statement.as_select
        self._begin(
            name, self._low(name, record.position), create(statement) if complete else EMPTY, record.ddl
        )

    def _create_like(self, statement: E.CreateTableLike, record: Record) -> None:
        name = self.spelling.made(record, (statement.database, statement.table), self.live)
        like = self._find(self._name(record, statement.like), record.position)
        if self._make_room(name, record.position, statement.if_not_exists, replaced=statement.or_replace):
            self._begin(
                name, self._low(name, record.position), like.steps[-1].schema if like else EMPTY, record.ddl
            )

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
        lineage = (
            self._get(name, record.position) if not statement.if_exists else self._find(name, record.position)
        )
        if lineage is None:
            return
        self._anchor(lineage, record.position)
        if lineage.held is None:
            self._alter_schema(lineage, statement, record)
        for edit in statement.edits:
            if isinstance(edit, E.RenameTo):
                self._rename_ruled(name, self._new_name(record, (edit.to[0] or name[0], edit.to[1])), record)
            elif isinstance(edit, E.ExchangePartition):
                self._unknowable(
                    self._name(record, edit.table),
                    record,
                    "EXCHANGE PARTITION moved rows that no change tells",
                )

    def _alter_schema(self, lineage: Lineage, statement: E.AlterTable, record: Record) -> None:
        schema = lineage.steps[-1].schema
        if not schema.columns:
            return
        policy = self.rules.policy(lineage, record.position, record.ddl)
        try:
            judged = judge(schema, statement.edits, policy, record.position, record.ddl)
        except DdlError as error:
            self._hold(lineage, record, str(error))
            return
        lineage.held = judged.held
        if judged.ignored:
            lineage.notes.append(f"a DDL was ignored: {', '.join(judged.ignored)}")
        if judged.schema != schema or judged.effects:
            lineage.steps.append(Step(record.position, judged.schema, judged.effects, record.ddl))

    def _unknowable(self, name: Name, record: Record, why: str) -> None:
        lineage = self._find(name, record.position)
        if lineage is not None and self._passes(lineage, "exchange_partition", record):
            lineage.steps.append(
                Step(record.position, lineage.steps[-1].schema, (Unknowable(why),), record.ddl)
            )

    def _rename_ruled(self, old: Name, new: Name, record: Record) -> None:
        if self._passes(self._get(old, record.position), "rename_table", record):
            self._rename(old, new, record.position)

    def _truncate(self, name: Name, record: Record) -> None:
        lineage = self._find(name, record.position)
        if lineage is not None and self._passes(lineage, "truncate_table", record):
            self._anchor(lineage, record.position)
            lineage.steps.append(Step(record.position, lineage.steps[-1].schema, (Clear(),), record.ddl))

    def _recover(self, name: Name, to: Name | None, record: Record) -> None:
        lineage = self.live.get(name) or self.ended.get(name)
        if lineage is None:
            return
        incomplete = list(lineage.incomplete)
        if name not in self.live:
            self._reopen(name, record.position, RECOVERED)
            if to is not None:
                self._rename(name, to, record.position)
        elif to is not None:
            self._recover_truncated(lineage, to, record.position)
        else:
            lineage.incomplete.append((record.position, "it was flashed back upstream, which sends no rows"))
        if not self._passes(lineage, "recover_table", record):
            lineage.incomplete = incomplete

    def _recover_truncated(self, lineage: Lineage, to: Name, position: Position) -> None:
        """The rows that a TRUNCATE took away come back as another table."""
        cleared = [
            step.schema for step in lineage.steps if any(isinstance(effect, Clear) for effect in step.effects)
        ]
        self._begin(to, position, cleared[-1] if cleared else EMPTY).incomplete.append((position, RECOVERED))

    def _recover_database(self, database: str, to: str | None, record: Record) -> None:
        """The tables that its DROP DATABASE ended, not those that were dropped before."""
        ended = {name: self.ended[name].end or MIN_POSITION for name in of_database(self.ended, database)}
        for name in [name for name, end in ended.items() if end == max(ended.values())]:
            self._recover(name, None if to is None else (to, name[1]), record)

    # --- shapes ---

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
                column.id: told[column.name.casefold()]
                for column in lineage.steps[-1].schema.columns
                if column.name.casefold() in told
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

    def _inferred_columns(self, record: Record) -> None:
        """Columns that rows have had for long and that no DDL has added: they are added where the rows begin
        to have them.
        """
        lineage = self._find((record.database, record.table or ""), record.position)
        if lineage is None or not lineage.steps[-1].schema.columns:
            return
        schema = lineage.steps[-1].schema
        added = [column for column in recorded_schema(record).columns if schema.column(column.name) is None]
        if added:
            step = with_columns(schema, added)
            effects = tuple(
                Fill(column.id, None, column.type) for column in step.columns[len(schema.columns) :]
            )
            lineage.steps.append(Step(record.position, step, effects))
            lineage.notes.append(
                f"no DDL has added {', '.join(column.name for column in added)}: inferred from the rows"
            )

    def snapshot(self, position: Position, records: list[Record]) -> None:
        """A complete full snapshot holds all there was: what came before it is gone, and so is a table that
        it does not know.
        """
        known = {
            (record.database, record.table): record
            for record in records
            if record.table is not None and record.columns
        }
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

    def snapshot_of_some(self, position: Position, records: list[Record]) -> None:
        """Rows of such a snapshot stand beside those that were there: each by its key, or else twice."""
        for record in records:
            lineage = (
                self._find((record.database, record.table), position)
                if record.table and record.columns
                else None
            )
            if lineage is not None and not (
                record.primary_key or lineage.key_names or lineage.steps[-1].schema.handle_key
            ):
                lineage.incomplete.append((position, TWICE))
        self.group(records)

    def finish(self) -> History:
        for name in self.sightings.names():
            if name not in self.live and self.sightings.maybe(
                name, self.free_since.get(name, MIN_POSITION), None
            ):
                low = self.free_since.get(name, MIN_POSITION)
                shape = self.sightings.shape(name, low, None)
                if shape is not None:
                    self._adopt(name, low, shape)
        for lineage in self.live.values():
            self._anchor(lineage, None)
            if untyped := [
                column.name for column in lineage.steps[-1].schema.columns if not column.type.base
            ]:
                names = ", ".join(untyped)
                lineage.notes.append(
                    f"no message tells the type of {names}: text as the wire has it, until a schema is "
                    "imported"
                )
        return self.history
