"""Applies a DDL statement to the lives of the tables that it names.

What it means for a table is decided in rulings.py; here names are looked up, and lineages begun, renamed and
ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.conditions import edits_at
from lakehouse.ddl.parse.recover import rewound
from lakehouse.ddl.parse.targets import targets
from lakehouse.ddl.policy import Rules
from lakehouse.ddl_effects import Clear, Unknowable
from lakehouse.errors import DdlError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import Lineage, Name, Step
from lakehouse.schema import name_key
from lakehouse.schema_history.created_schemas import first_schema
from lakehouse.schema_history.name_matching import Spelling, of_database
from lakehouse.schema_history.named_tables import as_parsed, names_of_hidden_session, statements_of
from lakehouse.schema_history.rulings import (
    UNPLACED,
    doubts_of_create,
    rule_on_alter,
    rule_on_create_again,
    rule_on_table,
    rule_on_unread,
)
from lakehouse.schema_history.schema_records import Record
from lakehouse.schema_history.table_lives import EMPTY, MAYBE_OLDER, Lives, one_of_equals

RECOVERED = "it was recovered upstream, which sends no rows"
MOVED = "a RENAME of a table of this name, and no message tells of which database"
DROPPED = "a DROP of a table of this name, and no message tells of which database"
MODEL = "it has the same columns, and is held by a statement: which they are is not known"
KEPT = "a RENAME was ignored: its rows from before are those of"
EXCHANGED = "EXCHANGE PARTITION moved rows that no change tells"


@dataclass(frozen=True, slots=True)
class Context:
    """One record with what it is read by: the tables so far, the rules for DDLs, how names are spelled."""

    record: Record
    lives: Lives
    rules: Rules
    spelling: Spelling

    @property
    def position(self) -> Position:
        return self.record.position

    @property
    def ddl(self) -> str:
        return as_parsed(self.record.ddl or "", self.rules.server)

    def name(self, name: E.Name) -> Name:
        """The live table that the statement means by a name."""
        return self.spelling.existing(self.record, name, self.lives.live)

    def old_name(self, name: E.Name, new: E.Name) -> Name:
        """The table that a statement renames. Where its message has the new name's database alone, and the
        statement names none for the old one, it may be of any database.
        """
        found = self.name(name)
        alike = self.in_all_databases(name[1]) if self.may_be_of_any_database(name, new, found) else []
        return alike[0] if len(alike) == 1 else found

    def may_be_of_any_database(self, old: E.Name, new: E.Name, found: Name) -> bool:
        """Not where nothing moves, or the message has another database than the new one: the session's, which
        TiCDC's has never, so that a table of the new one's database is as good as others.
        """
        if old[0] is not None or new[0] is None or name_key(new[0]) != name_key(self.record.database):
            return False
        is_sighted = found in self.spelling.sighted and found != self.new_name(new)
        if found in self.lives.live or is_sighted:
            return not self.lives.virtual and len(self.in_all_databases(old[1])) > 1
        return True

    def in_all_databases(self, table: str) -> list[Name]:
        """The tables of that name that are there, in any database."""
        unseen = (
            name for name in sorted(self.spelling.sighted) if self.lives.is_unnamed(name, self.position)
        )
        return [name for name in (*self.lives.live, *unseen) if name_key(name[1]) == name_key(table)]

    def others(self, name: E.Name, own: str | None) -> list[Name]:
        """The tables that may be meant beside the statement's own, whose database is written: a name without
        one is of the session's database, and the message may have the table's.
        """
        found = self.name(name)
        if name[0] is not None or own is None or name_key(own) != name_key(self.record.database):
            return [found]
        told = self.lives.virtual and not self.rules.hides_sessions and self.lives.find(found, self.position)
        return [found] if told else self.in_all_databases(name[1])

    def new_name(self, name: E.Name, old: Name | None = None, *, there: bool = False) -> Name:
        """The name that a table gets, of which rows have it as the server spells it. `there`: it may have it
        already.
        """
        return self.spelling.of_new(self.record, name, self.lives.live, old, there=there)

    def proceeds(self, lineage: Lineage, kind: str) -> bool:
        """Whether an edit of a whole table is done, after what the rules say of it was noted."""
        return rule_on_table(lineage, kind, self.record, self.rules).apply(lineage)


def renames_of(context: Context) -> list[tuple[Name, Name]]:
    """The old and new names of the tables that a record renames."""
    try:
        statements = statements_of(context.ddl)
    except DdlError:
        return []
    renames = (statement for statement in statements if isinstance(statement, E.RenameTable))
    pairs = [pair for statement in renames for pair in statement.pairs]
    olds = [context.old_name(old, new) for old, new in pairs]
    return [(old, context.new_name(new, old)) for old, (_, new) in zip(olds, pairs, strict=True)]


def apply_ddl(context: Context) -> list[tuple[Position, str]]:
    """Apply a record's statements; returns the problems that belong to no table."""
    record = context.record
    decision = context.rules.decision(record.position, record.ddl)
    try:
        statements = statements_of((decision.instead if decision else None) or context.ddl)
    except DdlError as error:
        return _hold_unread(context, str(error))
    problems = []
    for statement in statements:
        try:
            meant = _meant(context, statement)
            for name in meant or ():
                lineage = context.lives.get(name, context.position)
                rule_on_unread(record, UNPLACED, context.rules).apply(lineage)
            if meant is None:
                _apply(context, statement)
        except DdlError as error:
            problems += _hold_unread(context, str(error))
    return problems


def _meant(context: Context, statement: E.Statement) -> list[Name] | None:
    """The tables, of any database, that a statement may mean where neither it nor its message names one, as
    Canal sends what it can't read; None where they do.
    """
    if context.rules.hides_sessions and (hidden := names_of_hidden_session(statement)):
        told = [context.name(name) for name in hidden if name[0] is not None]
        bare = {name_key(table) for database, table in hidden if database is None}
        every = {*context.lives.live, *context.spelling.sighted}  # rows of new names come behind it
        return told + sorted(name for name in every if name_key(name[1]) in bare)
    match statement:
        case E.CreateTable() | E.CreateTableLike() | E.AlterTable() | E.TruncateTable():
            names = [(statement.database, statement.table)]
        case E.RenameTable():
            names = [name for pair in statement.pairs for name in pair]
        case E.DropTable():
            names = list(statement.tables)
        case _:
            return None
    if context.record.database or all(database for database, _ in names):
        return None
    if isinstance(statement, E.CreateTable | E.CreateTableLike) and not statement.or_replace:
        return []  # of a table that is in no database yet
    return [found for _, table in names for found in context.in_all_databases(table)]


def _hold_unread(context: Context, why: str) -> list[tuple[Position, str]]:
    """Hold the tables that a record is about or takes back in time, of which the message may name the
    session's database and not theirs, or only the new name, or none. A problem of the source where
    neither names a table.
    """
    record = context.record
    tables, database = rewound(record.ddl or "")
    makes = (record.ddl or "").lstrip().upper().startswith("CREATE TABLE")  # it is in no database yet
    names = []
    for name in [*targets(record.ddl or ""), *tables]:
        if name[0] or record.database:
            names.append(context.name(name))
        elif not makes:
            names += context.in_all_databases(name[1])
    names += context.lives.present(context.position, database) if database is not None else []
    if record.table and all(name_key(name[1]) != name_key(record.table) for name in names):
        names.append((record.database, record.table))
    for name in names:
        lineage = context.lives.get(name, context.position)
        rule_on_unread(record, why, context.rules).apply(lineage)
    if names:
        return []
    if (record.ddl or "").lstrip().upper().startswith("FLASHBACK CLUSTER"):
        for name in context.lives.present(context.position):
            lineage = context.lives.get(name, context.position)
            lineage.incomplete.append((context.position, "the cluster was flashed back, which sends no rows"))
    return [(context.position, f"a DDL of database {record.database} was not understood: {why}")]


def _apply(context: Context, statement: E.Statement) -> None:
    match statement:
        case E.CreateTable() | E.CreateTableLike():
            _create(context, statement)
        case E.AlterTable():
            _alter(context, statement)
        case E.RenameTable():
            for old, new in statement.pairs:
                name = _renamed(context, old, new)
                if not statement.if_exists or context.lives.find(name, context.position) is not None:
                    _rename(context, name, context.new_name(new, name))
        case E.DropTable():
            _drop_tables(context, statement.tables)
        case E.TruncateTable():
            _truncate(context, context.name((statement.database, statement.table)))
        case E.DropDatabase():
            for name in context.lives.present(context.position, statement.database):
                _drop(context, name, "drop_database")
            context.lives.charsets.drop(statement.database)
        case E.DatabaseCharset(database, charset, condition):
            database = database or context.record.database
            context.lives.charsets.tell(database, charset, if_not_exists=condition)
        case E.RecoverTable():
            _recover_table(context, statement)
        case E.RecoverDatabase():
            _recover_database(context, statement.database, statement.to)
        case E.NoEffect():
            pass


def _create(context: Context, statement: E.CreateTable | E.CreateTableLike) -> None:
    lives, position = context.lives, context.position
    there = statement.if_not_exists or statement.or_replace
    name = context.new_name((statement.database, statement.table), there=there)
    # looked up before the table of that name ends: it may be the same one
    models = (
        context.others(statement.like, statement.database) if isinstance(statement, E.CreateTableLike) else []
    )
    like = one_of_equals([lives.find(model, position) for model in models])
    charset = lives.charsets.of(name[0])
    before = lives.live[name].source_schema if name in lives.live else None
    schema = like.source_schema if like else first_schema(statement, charset, context.rules.server)
    if not _makes_room(context, name, statement):
        lineage = lives.get(name, position)
        rule_on_create_again(lineage, schema or EMPTY, context.record, context.rules).apply(lineage)
        return
    lineage = lives.begin(name, lives.low(name, position), schema or EMPTY, context.record.ddl)
    if statement.if_not_exists and lives.virtual and name not in lives.free_since:
        lineage.notes.append(MAYBE_OLDER)  # a binlog has such a statement in any case
    doubts = doubts_of_create(
        schema or EMPTY, context.record, context.rules, charset=charset, like=like, before=before
    )
    lineage.incomplete += [(position, why) for why in doubts]
    if schema is None:
        rule_on_unread(context.record, f"{'.'.join(models[0])}: {MODEL}", context.rules).apply(lineage)


def _makes_room(context: Context, name: Name, statement: E.CreateTable | E.CreateTableLike) -> bool:
    """Whether a CREATE takes effect; a live table of that name ends where it does."""
    lives, position = context.lives, context.position
    found = lives.find(name, position) if lives.ordered else lives.live.get(name)
    if found is None:
        return True
    if statement.if_not_exists and not found.gone:
        return False
    if not found.gone:
        # whoever keeps a dropped table keeps it until it is created again
        ruling = rule_on_table(found, "drop_table", context.record, context.rules)
        if ruling.proceeds:
            ruling.apply(found)
        if not statement.or_replace and not found.steps[-1].schema.inferred:
            found.notes.append("it was created again without a DROP that the feed has shown")
    lives.drop(name, position)
    return True


def _alter(context: Context, statement: E.AlterTable) -> None:
    written = (statement.database, statement.table)
    # a new name without a database is of the session's, whichever the table's own is
    new = next((edit.to for edit in statement.edits if isinstance(edit, E.RenameTo)), None)
    lives, name = context.lives, context.name(written) if new is None else _renamed(context, written, new)
    lineage = (lives.find if statement.if_exists else lives.get)(name, context.position)
    if lineage is None:
        return
    lives.anchor(lineage, context.position)
    default = E.TableCharset(lives.charsets.of(name[0]), convert=True)
    edits = [
        default if edit == E.TableCharset(None, convert=True) else edit
        for edit in edits_at(statement.edits, context.rules.server)
    ]
    rule_on_alter(lineage, edits, context.record, context.rules).apply(lineage)
    for edit in statement.edits:
        if isinstance(edit, E.RenameTo):
            _rename(context, name, context.new_name(edit.to, name))
        elif isinstance(edit, E.ExchangePartition):
            for other in context.others(edit.table, statement.database):
                _exchange(context, other)


def _exchange(context: Context, name: Name) -> None:
    """The table that a partition was exchanged with: its rows are others now."""
    lineage = context.lives.find(name, context.position)
    if lineage is not None and context.proceeds(lineage, "exchange_partition"):
        schema, ddl = lineage.steps[-1].schema, context.record.ddl
        lineage.steps.append(Step(context.position, schema, (Unknowable(EXCHANGED),), ddl))


def _renamed(context: Context, old: E.Name, new: E.Name) -> Name:
    """The table that is renamed. Where several databases have one of that name, it may be any of them."""
    name = context.old_name(old, new)
    if context.may_be_of_any_database(old, new, name):
        for other in context.in_all_databases(old[1]):
            context.lives.get(other, context.position).incomplete.append((context.position, MOVED))
    return name


def _rename(context: Context, old: Name, new: Name) -> None:
    lives, position = context.lives, context.position
    lineage = lives.get(old, position)
    if old == new:
        return
    if context.proceeds(lineage, "rename_table"):
        lives.rename(old, new, position, tells_all=context.rules.tells_all)
        return
    lineage.gone = position
    lives.drop(new, position)
    other = lives.begin(new, lives.low(new, position), lineage.source_schema or EMPTY)
    other.incomplete.append((position, f"{KEPT} {'.'.join(old)}"))


def _drop_tables(context: Context, tables: Sequence[E.Name]) -> None:
    """Of several tables in databases of their own, one without is of the session's: where the message has
    another one's database, which table it is can't be told. A server leaves out the session's alone.
    """
    written = [name_key(database) for database, _ in tables if database is not None]
    hidden = context.rules.hides_sessions and tables[0][0] is not None  # it has the first one's
    for table in tables:
        others = context.others(table, written[0] if written else None)
        if hidden and table[0] is None:
            others = [other for other in others if name_key(other[0]) not in written]
        elif context.name(table) in others:
            _drop(context, context.name(table), "drop_table")
            continue
        for other in others:
            context.lives.get(other, context.position).incomplete.append((context.position, DROPPED))


def _drop(context: Context, name: Name, kind: str) -> None:
    lineage = context.lives.find(name, context.position)
    if lineage is not None and context.proceeds(lineage, kind):
        context.lives.drop(name, context.position)
    elif lineage is not None:
        lineage.gone = context.position


def _truncate(context: Context, name: Name) -> None:
    lineage = context.lives.find(name, context.position)
    if lineage is not None and context.proceeds(lineage, "truncate_table"):
        context.lives.anchor(lineage, context.position)
        lineage.steps.append(Step(context.position, lineage.steps[-1].schema, (Clear(),), context.record.ddl))


def _recover_table(context: Context, statement: E.RecoverTable) -> None:
    tables = [*context.lives.live, *context.lives.ended]
    name = context.spelling.existing(context.record, (statement.database, statement.table), tables)
    to = None if statement.to is None else context.new_name((name[0], statement.to))
    _recover(context, name, to)


def _recover(context: Context, name: Name, to: Name | None) -> None:
    lives, position = context.lives, context.position
    lineage = lives.find(name, position) or lives.ended.get(name)
    if lineage is None:
        return
    incomplete = list(lineage.incomplete)
    if name not in lives.live:
        lives.reopen(name, position, RECOVERED)
        if to is not None:
            lives.rename(name, to, position)
    elif to is not None:
        lives.restore_cleared(lineage, to, position).incomplete.append((position, RECOVERED))
    else:
        lineage.gone = None
        lineage.incomplete.append((position, "it was flashed back upstream, which sends no rows"))
    if not context.proceeds(lineage, "recover_table"):
        lineage.incomplete = incomplete


def _recover_database(context: Context, database: str, to: str | None) -> None:
    """The tables that its DROP DATABASE ended, not those that were dropped before; where the feed has not
    shown that statement, those that are there.
    """
    if to is None:
        for name in context.lives.present(context.position, database):
            _recover(context, name, None)
    every = context.lives.ended
    ended = {name: every[name].end or MIN_POSITION for name in of_database(every, database)}
    for name in [name for name, end in ended.items() if end == max(ended.values())]:
        _recover(context, name, None if to is None else (to, name[1]))
