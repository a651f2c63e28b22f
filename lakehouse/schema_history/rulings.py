"""The effect of a statement or schema record on one table, decided from its lineage and returned.

    lineage, record, rules ─▶ Ruling     steps to add, what holds the table, notes, whether the edit is done

Nothing is changed here: `Ruling.apply` is the one place that does.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.schema import alter_by_edit
from lakehouse.ddl.policy import Rules, action_of, alter_outcome, stopping
from lakehouse.ddl_effects import Clear, Rekey, Retype
from lakehouse.errors import DdlError
from lakehouse.events import Position
from lakehouse.lineage import BINARY_TEXT, LASTING, NAMES_MIXED, READ_OTHERWISE, Held, Lineage, Step
from lakehouse.schema import Column, ColumnType, TableSchema, name_key
from lakehouse.schema_history.schema_records import (
    Record,
    after_snapshot,
    is_alike,
    kept,
    lost_labels,
    recorded_schema,
    replaced,
    with_charsets,
    with_columns,
    with_ids_of,
    with_types,
)

UNPLACED = (
    "a statement on a table of this name, and no message tells of which database: skip it, or approve it "
    "--as one that does"
)
# the same snapshot, taken again of a table that has no key
TWICE = (
    "a snapshot was taken of it while changes were streamed: it has no key that tells its rows "
    "from those that were there"
)


_IN_BINARY = re.compile(r"\b(?:CHAR(?:ACTER)?\s+SET|CHARSET|COLLATE)\s*=?\s*['\"`]?binary\b", re.I)


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on one table at one record. `proceeds`: the edit is done; `held`: the table is held from
    the record on, unless it is already; `steps` are appended to the lineage's own; `overruled`: something of
    the edit is left out. `beyond` is the source's schema behind the record, of a table that is held.
    """

    proceeds: bool = True
    held: Held | None = None
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    incomplete: tuple[tuple[Position, str], ...] = ()
    overruled: bool = False
    beyond: TableSchema | None = None

    def apply(self, lineage: Lineage) -> bool:
        """Change the lineage as decided; whether the edit is to be done."""
        lineage.held = lineage.held or self.held
        lineage.steps.extend(self.steps)
        lineage.notes.extend(self.notes)
        lineage.incomplete.extend(self.incomplete)
        lineage.overruled = lineage.overruled or self.overruled
        lineage.beyond = lineage.beyond if self is NOTHING else self.beyond
        return self.proceeds


NOTHING = Ruling()


def rule_on_table(lineage: Lineage, kind: str, record: Record, rules: Rules) -> Ruling:
    """Whether an edit of a whole table is done: not where a policy ignores it. Where it is held it is done
    too: names go on, gold stops before.
    """
    policy = rules.policy(lineage, record.position, record.ddl)
    held, beyond = stopping(policy, (kind,), record.position, record.ddl), lineage.source_schema
    if action_of(policy, kind) != "ignore":
        return Ruling(held=held, beyond=beyond)
    notes = (f"a DDL was ignored: {kind}",)
    return Ruling(proceeds=False, held=held, notes=notes, overruled=True, beyond=beyond)


def rule_on_unread(record: Record, why: str, rules: Rules) -> Ruling:
    """A table stops before a DDL that can't be applied, unless an operator skips it."""
    decision = rules.decision(record.position, record.ddl)
    if decision is not None and decision.action == "skip":
        skipped = f"an operator skipped a DDL that was not applied: {why}"
        return Ruling(notes=(skipped,), overruled=True)
    return Ruling(held=Held(record.position, why, record.ddl))


def rule_on_alter(lineage: Lineage, edits: Iterable[E.Edit], record: Record, rules: Rules) -> Ruling:
    """The step that an ALTER adds. None for a table that is held, or of which no column is known."""
    schema = lineage.steps[-1].schema
    if lineage.held is not None:
        return Ruling(beyond=_altered(lineage.source_schema, edits))
    if not schema.columns:
        return NOTHING
    policy = rules.policy(lineage, record.position, record.ddl)
    try:
        judged = alter_outcome(schema, edits, policy, record.position, ddl=record.ddl)
    except DdlError as error:
        return rule_on_unread(record, str(error), rules)
    mixed = rules.mixes_names and _exchanges_names(schema, judged.schema)
    told = doubts_of(judged.schema, record.ddl, rules)
    told += _doubts_of_unread(schema, judged.schema, record, rules)
    changes = judged.schema != schema or judged.effects
    return Ruling(
        held=judged.held,
        steps=(Step(record.position, judged.schema, judged.effects, record.ddl),) if changes else (),
        notes=(f"a DDL was ignored: {', '.join(judged.ignored)}",) if judged.ignored else (),
        incomplete=tuple(
            (record.position, why)
            for why in (*lost_labels(judged.schema), *((NAMES_MIXED,) if mixed else ()), *told)
        ),
        overruled=bool(judged.ignored),
        beyond=_altered(schema, edits) if judged.held is not None else None,
    )


def rule_on_create_again(lineage: Lineage, told: TableSchema, record: Record, rules: Rules) -> Ruling:
    """A CREATE IF NOT EXISTS of a table that is there: some releases of Canal, where they could read it, take
    its columns for the table's.
    """
    actual, known = lineage.source_schema, {why for _, why in lineage.incomplete}
    if actual is None or not (told.columns and record.table):
        return NOTHING
    doubts = [why for why in _doubts_of_columns(told, actual, rules) if why not in known]
    found = tuple((record.position, why) for why in doubts)
    return Ruling(incomplete=found, beyond=lineage.beyond) if found else NOTHING


def doubts_of(
    schema: TableSchema,
    ddl: str | None,
    rules: Rules,
    *,
    charset: str | None = None,
    like: Lineage | None = None,
) -> list[str]:
    """What a statement leaves in doubt that gives a table this schema, in a database of that `charset`, or
    `like` another one. Canal goes by its own reading of statements, to which text of charset binary is text.
    """
    if like is not None:
        return [why for _, why in like.incomplete if why in LASTING]
    is_binary = charset == "binary" or _IN_BINARY.search(ddl or "") is not None
    has_bytes = any(column.type.family == "binary" for column in schema.columns)
    return [BINARY_TEXT] if rules.mixes_names and is_binary and has_bytes else []


def doubts_of_create(
    schema: TableSchema,
    record: Record,
    rules: Rules,
    *,
    charset: str | None,
    like: Lineage | None,
    before: TableSchema | None,
) -> list[str]:
    """The same of a new table; `before` is the schema of the one that it takes the place of."""
    told = doubts_of(schema, record.ddl, rules, charset=charset, like=like)
    return told + (_doubts_of_unread(before, schema, record, rules) if before is not None else [])


def _doubts_of_unread(old: TableSchema, new: TableSchema, record: Record, rules: Rules) -> list[str]:
    """What a statement that its producer could not read leaves in doubt, which goes on with the columns from
    before it.
    """
    return _doubts_of_columns(old, new, rules) if record.table == "" else []


def _doubts_of_columns(taken: TableSchema, actual: TableSchema, rules: Rules) -> list[str]:
    """What a table's rows leave in doubt where the producer takes its columns for others. Canal goes by their
    places, and stops at a row of more columns than it knows of.
    """
    pairs = zip(taken.columns, actual.columns, strict=False)
    fits = len(taken.columns) < len(actual.columns) or all(_is_read_alike(*pair) for pair in pairs)
    return [READ_OTHERWISE] if rules.mixes_names and not fits else []


def _is_read_alike(one: Column, other: Column) -> bool:
    """Whether Canal sends a column's values in one form under both names and types."""

    def read(column: Column) -> tuple[object, ...]:
        kind = column.type
        padded = kind.length if kind.base == "binary" else None
        return name_key(column.name), kind.family, kind.unsigned, padded

    return read(one) == read(other)


def _exchanges_names(old: TableSchema, new: TableSchema) -> bool:
    """Whether a column has the name now that another one had, and that one is still there."""
    before = {name_key(column.name): column.id for column in old.columns}
    living = {column.id for column in new.columns}
    return any(before.get(name_key(one.name), one.id) in living - {one.id} for one in new.columns)


def _altered(schema: TableSchema | None, edits: Iterable[E.Edit]) -> TableSchema | None:
    """The source's next schema, None where it is not known."""
    try:
        return None if schema is None else alter_by_edit(schema, edits)[0]
    except DdlError:
        return None


def with_record_columns(lineage: Lineage, record: Record) -> list[Step]:
    """The steps of a lineage after a DDL whose message has the table's columns: they settle a schema that is
    not known, the types of one that was inferred, and charsets that are the database's.
    """
    steps, told = lineage.steps, recorded_schema(record)
    if not steps[-1].schema.columns:
        return _with_last_schema(steps, told)
    if lineage.held is not None:
        return steps
    if not steps[0].schema.inferred:
        return _with_last_schema(steps, with_charsets(steps[-1].schema, told))
    types = {name_key(column.name): column.type for column in told.columns}
    by_id = {
        column.id: types[name_key(column.name)]
        for column in steps[-1].schema.columns
        if name_key(column.name) in types
    }
    typed: list[Step] = []
    following: dict[int, ColumnType] = {}
    for step in reversed(steps):
        own = {column.id: column.type for column in step.schema.columns}
        # what the message tells is the type behind a statement that has changed it, not before
        by_id = {key: kind for key, kind in by_id.items() if own.get(key) == following.get(key, own.get(key))}
        following = own
        typed.append(replace(step, schema=with_types(step.schema, by_id)))
    return typed[::-1]


def with_schema_record(lineage: Lineage, record: Record) -> list[Step]:
    """The steps of a lineage after a schema record, which takes the place of an inferred schema, and never
    drops or clears anything. It tells the columns of before too, as far as no statement has changed them.
    """
    last = lineage.steps[-1].schema
    if last.columns and not last.inferred:
        return lineage.steps
    steps = _with_last_schema(lineage.steps, with_ids_of(last, recorded_schema(record)))
    for index in range(len(steps) - 1, 0, -1):
        before = steps[index - 1]
        steps[index - 1] = replace(before, schema=_before_statement(before.schema, steps[index]))
    return steps


def _with_last_schema(steps: list[Step], schema: TableSchema) -> list[Step]:
    return [*steps[:-1], replace(steps[-1], schema=schema)]


def _before_statement(inferred: TableSchema, after: Step) -> TableSchema:
    """An inferred schema with the types and the key of the one after the next statement, where that has not
    changed them.
    """
    changed = {effect.column_id for effect in after.effects if isinstance(effect, Retype)}
    types = {column.id: column.type for column in after.schema.columns if column.id not in changed}
    columns = tuple(replace(column, type=types.get(column.id, column.type)) for column in inferred.columns)
    key, rekeyed = after.schema.primary_key, any(isinstance(effect, Rekey) for effect in after.effects)
    same = not rekeyed and all(inferred.by_id(column) is not None for column in key)
    return replace(inferred, columns=columns, primary_key=key if same else inferred.primary_key)


def rule_on_inferred(lineage: Lineage, record: Record) -> Ruling:
    """The step that adds columns which rows have had for long and no DDL has added, where the rows begin to
    have them. What rows of before have in them, no statement tells and no message: they have no such cell.
    """
    schema, source = lineage.steps[-1].schema, lineage.source_schema
    added = _lacking_in(schema, record)
    if not schema.columns or not added:
        return NOTHING
    names = ", ".join(column.name for column in added)
    return Ruling(
        steps=(Step(record.position, with_columns(schema, added)),),
        notes=(f"no DDL has added {names}: inferred from the rows",),
        beyond=None if source is None else with_columns(source, _lacking_in(source, record)),
    )


def _lacking_in(schema: TableSchema, record: Record) -> list[Column]:
    """The columns of a record that a schema does not have."""
    return [column for column in recorded_schema(record).columns if schema.column(column.name) is None]


def rule_on_snapshot(lineage: Lineage, record: Record) -> Ruling:
    """The step at which a complete snapshot empties the table before its rows."""
    before = lineage.steps[-1].schema
    return _emptied(record.position, before, after_snapshot(before, record))


def rule_on_table_snapshot(lineage: Lineage, position: Position, schema: TableSchema) -> Ruling:
    """The step at which a snapshot of the table alone empties it before its rows. Its schema counts where
    that before was inferred, for it tells keys and defaults too.
    """
    before = lineage.steps[-1].schema
    same = not before.inferred and is_alike(before, schema)
    return _emptied(position, before, kept(before, schema) if same else with_ids_of(before, schema))


def _emptied(position: Position, before: TableSchema, schema: TableSchema) -> Ruling:
    """The step of a snapshot. No row stays; what a table that keeps its history has of them is converted."""
    return Ruling(steps=(Step(position, schema, (Clear(), *replaced(before, schema))),), beyond=schema)


def rule_on_snapshot_of_some(lineage: Lineage, record: Record) -> Ruling:
    """What a snapshot that clears nothing leaves open: its rows are added to those that were there, each by
    its key, or else twice.
    """
    if record.primary_key or lineage.key_names or lineage.steps[-1].schema.handle_key:
        return NOTHING
    return Ruling(incomplete=((record.position, TWICE),), beyond=lineage.source_schema)
