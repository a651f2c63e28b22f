"""Statements about columns that no row has shown, of a table without a CREATE: VIRTUAL ones in feeds that do
not send them, and those that partial images have left out.

    edits, an inferred schema ─of_known_columns─▶ the edits that concern columns of the schema

They hold no table. Rows that bring such a column after all do, as any undeclared column
does.
"""

from collections.abc import Iterable
from dataclasses import replace

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.schema import TableSchema, name_key


def of_known_columns(schema: TableSchema, edits: Iterable[e.Edit]) -> list[e.Edit]:
    """The edits without those of other columns; a column that is added behind one of those comes last."""
    edits = list(edits)
    known = {name_key(column.name) for column in schema.columns}
    live = [edit for edit in edits if (name := _old_name(edit)) is None or name_key(name) in known]
    following = known | {name_key(name) for edit in live if (name := _new_name(edit)) is not None}
    return [_placed(edit, following) for edit in live]


def _old_name(edit: e.Edit) -> str | None:
    match edit:
        case e.DropColumn(name) | e.RenameColumn(name, _) | e.ChangeColumn(name, _) | e.AlterDefault(name, _):
            return name
        case e.ModifyColumn(ColumnDef(name)):
            return name
        case _:
            return None


def _new_name(edit: e.Edit) -> str | None:
    match edit:
        case e.AddColumn(column) | e.ChangeColumn(_, column):
            return column.name
        case e.RenameColumn(_, to):
            return to
        case _:
            return None


def _placed(edit: e.Edit, following: set[str]) -> e.Edit:
    match edit:
        case e.AddColumn(_, str(place)) | e.ModifyColumn(_, str(place)) | e.ChangeColumn(_, _, str(place)):
            behind = place.removeprefix("after ")
            return edit if place == "first" or name_key(behind) in following else replace(edit, position=None)
        case e.Repartition(rule) if rule and any(name_key(name) not in following for name in rule.columns):
            return e.Repartition(replace(rule, columns=(), partitions=()))
        case _:
            return edit
