"""Applies statements to schemas: `create` gives a table's first schema, `alter` the next one and its effects
on rows.

Pure functions. The clauses of one ALTER are simultaneous, as in MySQL: they name columns as they stand before
it (so two names can be swapped), AFTER and new keys name them as they stand behind it. A column keeps its id
through every change but DROP; one that is dropped and added again is another column. What does not fit the
schema is a DdlError.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.conditions import whose_condition_holds
from lakehouse.ddl.apply.effects import (
    Effects,
    added,
    dropped,
    implied,
    is_implied,
    nulls_lost,
    partition_effects,
    redefined,
    same_type,
)
from lakehouse.ddl.apply.generated_columns import recomputed, with_names
from lakehouse.ddl.apply.indexes import Ids, Keys, add_keys, drop_and_rename
from lakehouse.ddl.apply.partition_rules import make_rule, next_rule
from lakehouse.ddl.apply.text_lengths import by_length, widened
from lakehouse.ddl.apply.unseen_columns import of_known_columns
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.ddl.parse.column_types import with_charset
from lakehouse.ddl_effects import Effect, Rekey, Retype
from lakehouse.errors import DdlError
from lakehouse.schema import Column, ColumnType, TableSchema, name_key


def create(statement: e.CreateTable) -> TableSchema:
    """The schema that CREATE TABLE gives; DdlError where a query decides its columns."""
    if statement.as_select:
        raise DdlError(
            f"CREATE TABLE {statement.table}: expected all columns in the statement, got a query that adds "
            "its own"
        )
    columns = [
        _column(column, number, statement.charset) for number, column in enumerate(statement.columns, 1)
    ]
    _check(columns)
    keys = Keys(columns)
    if statement.primary_key:
        keys.set_primary(statement.primary_key)
    taken = [index.name for index in statement.indexes if index.name]
    for index in statement.indexes:
        keys.add(index.columns, index.name, index.unique, taken)
    return TableSchema(
        columns=_with_primary(columns, keys.primary),
        primary_key=keys.primary,
        unique_keys=keys.unique,
        partition=make_rule(statement.partition, keys.ids),
        next_id=len(columns) + 1,
        charset=statement.charset,
        indexes=tuple(keys.indexes),
        versioned=statement.versioned,
    )


def alter_by_edit(
    schema: TableSchema, edits: Iterable[e.Edit]
) -> tuple[TableSchema, list[tuple[e.Edit, Effects]]]:
    """As `alter`, with the effects edit by edit; what the edits together do to the key stands with the last
    that is about keys, else with the last.

    Edits whose IF [NOT] EXISTS is false are left out.
    """
    live = whose_condition_holds(schema, of_known_columns(schema, edits) if schema.inferred else edits)
    work = _Columns(schema, live)
    _check(work.columns)
    keys = Keys(work.columns, schema.inferred)
    keys.keep(schema)
    drop_and_rename(keys, live)
    keys.follow(work.successors())
    add_keys(keys, live)
    following = replace(
        schema,
        columns=_with_primary(work.columns, keys.primary),
        primary_key=keys.primary,
        unique_keys=keys.unique,
        partition=next_rule(schema, live, keys.ids, living=set(keys.names)),
        next_id=work.next_id,
        charset=work.charset,
        indexes=tuple(keys.indexes),
        versioned=next(
            (edit.on for edit in reversed(live) if isinstance(edit, e.SystemVersioning)), schema.versioned
        ),
    )
    work.columns = list(following.columns)
    steps = [(edit, work.effects(edit)) for edit in live]
    made = {work.made[id(edit)].id: edit for edit in live if id(edit) in work.made}
    owners = {**work.touched, **made}
    steps = _with_nulls_gone(schema, following, steps, owners)
    steps = _with_recomputed(schema, following, steps, work.made)
    return following, _with_rekey(schema, following, steps, owners)


def _with_recomputed(
    old: TableSchema, new: TableSchema, steps: list[tuple[e.Edit, Effects]], made: Mapping[int, Column]
) -> list[tuple[e.Edit, Effects]]:
    """The steps with the stored columns that are computed again; `made`: as in _Columns."""
    return [
        (edit, (*effects, *recomputed(old.columns, new.columns, effects, made.get(id(edit)))))
        for edit, effects in steps
    ]


def _with_nulls_gone(
    old: TableSchema, new: TableSchema, steps: list[tuple[e.Edit, Effects]], owners: Mapping[int, e.Edit]
) -> list[tuple[e.Edit, Effects]]:
    """The steps with the columns that become NOT NULL, by their own clause or by a primary key."""
    following = {column.id: column for column in new.columns}
    pairs = [(column, following[column.id]) for column in old.columns if column.id in following]
    gone = {
        one.id: other.type
        for one, other in pairs
        if other.not_null and not one.not_null and other.generated is None
    }
    if not gone or not steps:
        return steps
    marked = [(edit, tuple(_nulls_gone(effect, gone) for effect in effects)) for edit, effects in steps]
    for one, other in pairs:
        own, kind = owners.get(one.id), gone.get(one.id)
        # a clause about the column has told it
        lost = () if isinstance(own, _REDEFINING) else nulls_lost(one, other)
        for effect in (*lost, *([] if kind is None else [Retype(one.id, kind, kind, not_null=True)])):
            marked = _with_effect(marked, effect, [own])
    return marked


def _nulls_gone(effect: Effect, gone: dict[int, ColumnType]) -> Effect:
    """A change of type does both at once; such a column is taken out of `gone`."""
    if isinstance(effect, Retype) and effect.column_id in gone:
        del gone[effect.column_id]
        return replace(effect, not_null=True)
    return effect


def _with_rekey(
    old: TableSchema, new: TableSchema, steps: list[tuple[e.Edit, Effects]], owners: Mapping[int, e.Edit]
) -> list[tuple[e.Edit, Effects]]:
    if set(old.handle_key) == set(new.handle_key) or not steps:
        return steps
    own = [owners.get(one) for one in {*old.handle_key} ^ {*new.handle_key}]
    return _with_effect(steps, Rekey(old.handle_key, new.handle_key), own)


def _with_effect(
    steps: list[tuple[e.Edit, Effects]], effect: Effect, own: Sequence[e.Edit | None]
) -> list[tuple[e.Edit, Effects]]:
    """The steps with an effect of the statement as a whole, at the last edit that is about keys, else at the
    last of the columns' `own`, else at the last: an edit beside it may be ignored.
    """
    keys = [at for at, (edit, _) in enumerate(steps) if _is_about_keys(edit)]
    mine = [at for at, (edit, _) in enumerate(steps) if any(edit is one for one in own)]
    if isinstance(effect, Rekey):
        mine = keys or mine
    place = (mine or keys or [len(steps) - 1])[-1]
    edit, effects = steps[place]
    return [*steps[:place], (edit, (*effects, effect)), *steps[place + 1 :]]


def _is_about_keys(edit: e.Edit) -> bool:
    match edit:
        case e.AddPrimaryKey() | e.DropPrimaryKey() | e.AddUniqueKey() | e.DropIndex():
            return True
        case e.AddColumn(column) | e.ModifyColumn(column) | e.ChangeColumn(_, column):
            return column.primary_key or column.unique
        case _:
            return False


# --- conditions


# --- columns


class _Columns:
    """The columns after a statement, and for each edit its column before and after it."""

    def __init__(self, schema: TableSchema, edits: Sequence[e.Edit]) -> None:
        self.old, self.next_id, self.charset = schema, schema.next_id, schema.charset
        charsets = [edit for edit in edits if isinstance(edit, e.TableCharset)]
        self.convert = next((one for one in reversed(charsets) if one.convert), None)
        # a default beside CONVERT TO stays, wherever it is written (run on MariaDB; MySQL takes no other one)
        for told in sorted(charsets, key=lambda one: not one.convert):
            self.charset = told.charset
        self.new_names: set[str] = set()
        self.columns: list[Column] = []
        self.touched: dict[int, e.Edit] = {}
        self.made: dict[int, Column] = {}  # id(edit) → the column that it makes or changes
        for edit in edits:
            self._note(edit)
        self.defaults = {
            name_key(edit.name): edit.default for edit in edits if isinstance(edit, e.AlterDefault)
        }
        for name in self.defaults.keys() - self.new_names:
            self._old(name)
        self._keep()
        for edit in edits:
            self._place(edit)

    def _note(self, edit: e.Edit) -> None:
        """Note the column of each clause, by its name before the statement."""
        match edit:
            case (
                e.DropColumn(name)
                | e.RenameColumn(name, _)
                | e.ChangeColumn(name, _)
                | e.ModifyColumn(ColumnDef(name))
            ):
                column = self._old(name)
                if column.id in self.touched:
                    raise DdlError(
                        f"column {name}: expected one clause of the statement to change it, got two"
                    )
                self.touched[column.id] = edit
                self.made[id(edit)] = column
            case e.AddColumn(definition):
                self.new_names.add(name_key(definition.name))

    def _old(self, name: str) -> Column:
        column = self.old.column(name)
        if column is None:
            raise DdlError(f"column {name}: expected a column of the table, got none of that name")
        return column

    def _keep(self) -> None:
        """The columns that stay, where they are: those that FIRST or AFTER moves stand there too until their
        turn comes.
        """
        is_plain = not self.defaults and self.convert is None
        for column in self.old.columns:
            match self.touched.get(column.id):
                case None:
                    stays = column if is_plain else self._converted(self._with_default(column))
                    self.columns.append(stays)
                case e.RenameColumn(_, to):
                    self.columns.append(replace(self._converted(self._with_default(column)), name=to))
                case e.ModifyColumn(definition) | e.ChangeColumn(_, definition):
                    self.columns.append(self._defined(definition, column.id))
        before = {column.id: column.name for column in self.old.columns}
        names = {name_key(before[new.id]): new.name for new in self.columns if before[new.id] != new.name}
        if names:
            self.columns = [
                column if isinstance(self.touched.get(column.id), _REDEFINING) else with_names(column, names)
                for column in self.columns
            ]

    def _with_default(self, column: Column) -> Column:
        folded = name_key(column.name)
        return replace(column, default=self.defaults[folded]) if folded in self.defaults else column

    def _defined(self, definition: ColumnDef, column_id: int) -> Column:
        """A column that the statement defines. CONVERT TO reaches it too, but makes its type no wider."""
        column = _column(definition, column_id, self.charset)
        if self.convert is None or not _is_text(column):
            return column
        bare = replace(definition.type, charset=None)
        return _column(replace(definition, type=bare, charset=self.convert.charset), column_id, self.charset)

    def _converted(self, column: Column) -> Column:
        if self.convert is None or not _is_text(column):
            return column
        converted = with_charset(replace(column.type, charset=None), self.convert.charset)
        return replace(column, type=by_length(widened(column.type, converted)))

    def successors(self) -> dict[int, int]:
        """Which column keys have in place of each old one: itself, or a new one of its name if it comes
        first.
        """
        old = {column.id for column in self.old.columns}
        places = {column.id: place for place, column in enumerate(self.columns)}
        made = {name_key(one.name): one.id for one in reversed(self.columns) if one.id not in old}
        found = {column.id: column.id for column in self.old.columns if column.id in places}
        for column in self.old.columns if made else ():
            alike = made.get(name_key(column.name))
            if alike is not None:
                heirs = [one for one in (column.id, alike) if one in places]
                found[column.id] = min(heirs, key=places.__getitem__)
        return found

    def _place(self, edit: e.Edit) -> None:
        """New columns, and those that FIRST or AFTER moves, in the order of their clauses."""
        match edit:
            case e.AddColumn(definition, position):
                column = self._with_default(self._defined(definition, self.next_id))
                self.next_id += 1
                self.made[id(edit)] = column
                self.columns.insert(self._index(position), column)
            case e.ModifyColumn(_, str(position)) | e.ChangeColumn(_, _, str(position)):
                moved = self._new(self.made[id(edit)].id)
                self.columns.remove(moved)
                self.columns.insert(self._index(position), moved)

    def _index(self, position: str | None) -> int:
        if position is None:
            return len(self.columns)
        if position == "first":
            return 0
        name = position.removeprefix("after ")
        for index, column in enumerate(self.columns):
            if name_key(column.name) == name_key(name):
                return index + 1
        raise DdlError(f"AFTER {name}: expected a column of the table, got none of that name")

    def effects(self, edit: e.Edit) -> Effects:
        match edit:
            case e.AddColumn(definition):
                column = self._new(self.made[id(edit)].id)
                if is_implied(definition, column):
                    stamps = (one.id for one in self.columns if one.type.base == "timestamp")
                    return (implied(column, is_first=next(stamps, None) == column.id),)
                return added(column, definition.auto_increment)
            case e.DropColumn():
                return dropped(self.made[id(edit)])
            case e.ModifyColumn(definition) | e.ChangeColumn(_, definition):
                old = self.made[id(edit)]
                return redefined(old, self._new(old.id), definition, inferred=self.old.inferred)
            case e.TableCharset(_, True):
                return self._charset_effects()
            case _:
                return partition_effects(
                    edit, self.old.partition, {column.id: column.type for column in self.old.columns}
                )

    def _new(self, column_id: int) -> Column:
        return next(column for column in self.columns if column.id == column_id)

    def _charset_effects(self) -> Effects:
        untouched = [
            column for column in self.old.columns if not isinstance(self.touched.get(column.id), _REDEFINING)
        ]
        pairs = [(column, self._new(column.id).type) for column in untouched]
        return tuple(
            Retype(column.id, column.type, new) for column, new in pairs if not same_type(column.type, new)
        )


def _is_text(column: Column) -> bool:
    """Whether CONVERT TO CHARACTER SET reaches a column: not one of bytes, nor labels of charset binary."""
    return column.type.family in ("text", "enum", "set") and column.type.charset != "binary"


_REDEFINING = (e.DropColumn, e.ModifyColumn, e.ChangeColumn)


def _column(definition: ColumnDef, column_id: int, table_charset: str | None) -> Column:
    """The column as the table stores it: with its charset."""
    return Column(
        id=column_id,
        name=definition.name,
        type=_stored_type(definition, table_charset),
        not_null=definition.not_null or definition.primary_key or definition.auto_increment,
        default=definition.default,
        generated=definition.generated,
        expression=definition.expression,
        comment=definition.comment,
        auto_increment=definition.auto_increment,
    )


def _stored_type(definition: ColumnDef, table_charset: str | None) -> ColumnType:
    charset = definition.type.charset or definition.charset or table_charset
    return by_length(with_charset(definition.type, charset))


def _with_primary(columns: Sequence[Column], primary: Ids) -> tuple[Column, ...]:
    """Columns of a primary key are NOT NULL, whatever their definition says."""
    return tuple(replace(column, not_null=True) if column.id in primary else column for column in columns)


def _check(columns: Sequence[Column]) -> None:
    if not columns:
        raise DdlError("table: expected at least one column to stay, got none")
    names: set[str] = set()
    for column in columns:
        if name_key(column.name) in names:
            raise DdlError(f"column {column.name}: expected one column of that name, got two")
        names.add(name_key(column.name))
