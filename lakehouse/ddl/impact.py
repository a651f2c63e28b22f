"""The impact of a statement on a gold table before it is run upstream: `lakehouse ddl FILE --table DB.TABLE`.

    nothing      the table is not concerned, or nothing of it that gold has
    in_place     its shape changes, and no value of an existing row
    fill         existing rows get the new column's default
    rewrite      values are converted, rows are keyed anew
    remove       rows go: a partition, a truncate, a drop
    unknowable   rows change in a way that no message tells: the table is incomplete until it is snapshotted
                 again
    ignored      on_ddl leaves gold as it is
    held         gold stops before it: on_ddl asks for that, or the statement can't be applied

The heaviest word of a statement's edits is the statement's own. Statements are taken one after another.
"""

from dataclasses import dataclass, replace
from typing import Any

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.effects import Effects
from lakehouse.ddl.apply.schema import alter_by_edit, create
from lakehouse.ddl.policy import Policy, action_of, alter_outcome, kinds_of, stopping
from lakehouse.ddl_effects import (
    Clear,
    Drop,
    Effect,
    Fill,
    Forget,
    ImpliedFill,
    NullsLost,
    Numbered,
    Rekey,
    RemoveRows,
    Retype,
    Unknowable,
    UnknownFill,
)
from lakehouse.errors import DdlError
from lakehouse.events import MIN_POSITION
from lakehouse.lineage import Name
from lakehouse.schema import TableSchema, name_key
from lakehouse.values.convert import compile_convert

WORDS = ("nothing", "ignored", "in_place", "fill", "rewrite", "remove", "unknowable", "held")
Outcome = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """A gold table as it is now, and its policy. `schema` is None once it is dropped."""

    name: Name
    schema: TableSchema | None
    policy: Policy
    server: str = "mysql"
    zone: str | None = None


def outlook(table: Table, statement: e.Statement) -> tuple[Outcome, Table]:
    """What the statement would do, and the table behind it."""
    match statement:
        case e.AlterTable() if _is(table, (statement.database, statement.table)):
            return _altered(table, statement)
        case e.RenameTable(pairs):
            renamed = next((new for old, new in pairs if _is(table, old)), None)
            if renamed is not None:
                return _ruled(
                    table,
                    "rename_table",
                    "in_place",
                    replace(table, name=(renamed[0] or table.name[0], renamed[1])),
                )
        case e.TruncateTable() if _is(table, (statement.database, statement.table)):
            return _ruled(table, "truncate_table", "remove", table)
        case e.DropTable(tables) if any(_is(table, name) for name in tables):
            return _ruled(table, "drop_table", "remove", replace(table, schema=None))
        case e.DropDatabase(database) if (
            name_key(database) == name_key(table.name[0]) and table.schema is not None
        ):
            return _ruled(table, "drop_database", "remove", replace(table, schema=None))
        case e.CreateTable() if _is_named(table, (statement.database, statement.table)):
            return _created(table, statement)
        case e.RecoverTable() if _is_named(table, (statement.database, statement.table)):
            return _ruled(table, "recover_table", "unknowable", table)
        case _:
            pass
    return _said("nothing"), table


def unreadable(why: str) -> Outcome:
    """A statement that the reader does not know holds the table that the feed names with it."""
    return _said("held", why)


def _is(table: Table, name: e.Name) -> bool:
    return table.schema is not None and _is_named(table, name)


def _is_named(table: Table, name: e.Name) -> bool:
    database, wanted = (name[0] or table.name[0]), name[1]
    return (name_key(database), name_key(wanted)) == (name_key(table.name[0]), name_key(table.name[1]))


def _said(word: str, *why: str) -> Outcome:
    return {"gold": word, **({"why": list(why)} if why else {})}


def _ruled(table: Table, kind: str, word: str, following: Table) -> tuple[Outcome, Table]:
    """A statement about a table as a whole."""
    held = stopping(table.policy, (kind,), MIN_POSITION, None)
    if held is not None:
        return _said("held", held.why), table
    if action_of(table.policy, kind) == "ignore":
        return _said("ignored", f"on_ddl says ignore for {kind}"), table
    return _said(word), following


def _created(table: Table, statement: e.CreateTable) -> tuple[Outcome, Table]:
    if table.schema is not None and statement.if_not_exists:
        return _said("nothing", "the table exists"), table
    held = stopping(table.policy, ("drop_table",), MIN_POSITION, None)
    if table.schema is not None and held is not None:
        return _said("held", held.why), table
    if statement.as_select:
        return _said("held", "a query decides its columns"), table
    why = () if table.schema is None else ("the live table of this name ends, and another begins",)
    return _said("nothing" if table.schema is None else "remove", *why), replace(
        table, schema=create(statement)
    )


def _altered(table: Table, statement: e.AlterTable) -> tuple[Outcome, Table]:
    assert table.schema is not None
    try:
        judged = alter_outcome(table.schema, statement.edits, table.policy, MIN_POSITION, ddl=None)
        _, steps = alter_by_edit(table.schema, statement.edits)
    except DdlError as error:
        return _said("held", str(error)), table
    if judged.held is not None:
        return _said("held", judged.held.why), table
    outcomes = [_edit(table, edit, effects) for edit, effects in steps]
    heaviest = max((outcome["gold"] for outcome in outcomes), key=WORDS.index, default="nothing")
    renamed = next((edit.to for edit in statement.edits if isinstance(edit, e.RenameTo)), None)
    name = table.name if renamed is None else (renamed[0] or table.name[0], renamed[1])
    return {"gold": heaviest, "edits": outcomes}, replace(table, name=name, schema=judged.schema)


def _edit(table: Table, edit: e.Edit, effects: Effects) -> Outcome:
    kinds = kinds_of(edit, effects)
    ignored = [kind for kind in kinds if action_of(table.policy, kind) == "ignore"]
    outcome = {"edit": kinds[0] if kinds else "other"}
    if ignored:
        return {**outcome, **_said("ignored", *(f"on_ddl says ignore for {kind}" for kind in ignored))}
    words = [_word(table, effect) for effect in effects]
    why = [effect.reason for effect in effects if isinstance(effect, Unknowable)]
    why += [effect.problem for effect in effects if isinstance(effect, UnknownFill)]
    why += [
        _open(effect) for effect in effects if isinstance(effect, ImpliedFill) and _is_open(table, effect)
    ]
    why += ["the source computes the column anew" for effect in effects if isinstance(effect, Forget)]
    shaped = kinds or isinstance(edit, e.ModifyColumn | e.ChangeColumn)
    return {**outcome, **_said(max([*words, "in_place" if shaped else "nothing"], key=WORDS.index), *why)}


def _is_open(table: Table, effect: ImpliedFill) -> bool:
    """Whether the server's name alone leaves open what existing rows get."""
    return table.server == "mysql" or (table.server == "mariadb" and effect.type.family == "timestamp")


def _open(effect: ImpliedFill) -> str:
    if effect.type.family == "timestamp":
        return "the server's explicit_defaults_for_timestamp decides what a new TIMESTAMP holds"
    return "MariaDB keeps the DEFAULT '' of a TEXT or BLOB, and MySQL drops it"


def _word(table: Table, effect: Effect) -> str:
    match effect:
        case Unknowable() | UnknownFill() | Forget():
            return "unknowable"
        case ImpliedFill() if _is_open(table, effect):
            return "unknowable"
        case ImpliedFill(not_null=not_null):
            return "fill" if not_null or table.server == "mariadb" else "in_place"
        case Fill(_, default, _, not_null):
            return "fill" if not_null or default not in (None, "NULL") else "in_place"
        case Retype(_, old, new):
            same = compile_convert(old, new, server=table.server, zone=table.zone or "UTC") is None
            return "in_place" if same else "rewrite"
        case Rekey():
            return "rewrite"
        case Clear() | RemoveRows():
            return "remove"
        case Drop() | Numbered() | NullsLost():
            return "in_place"
