"""Which clauses of an ALTER have an effect: IF EXISTS and IF NOT EXISTS, and what a server leaves undone. In
which order it makes the indexes of a CREATE.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.indexes import keys_of
from lakehouse.ddl.definitions import IndexDef
from lakehouse.schema import TableSchema, name_key


def edits_at(edits: Sequence[e.Edit], server: str) -> list[e.Edit]:
    """The clauses that a server carries out. RENAME COLUMN to the same name in another case does nothing at
    TiDB, which carries out the clauses beside it; a CHANGE or MODIFY gives the column that case (run). TiDB
    tells nothing of it without other clauses: where it is told, a server has done it.
    """

    def is_done(edit: e.Edit) -> bool:
        return not isinstance(edit, e.RenameColumn) or name_key(edit.name) != name_key(edit.to)

    done = [edit for edit in edits if server != "tidb" or is_done(edit)]
    done = done or list(edits)
    return [_with_one_key(edit) for edit in done] if server == "mariadb" else done


def _with_one_key(edit: e.Edit) -> e.Edit:
    """MariaDB makes no unique key of a definition that asks for the primary key as well (run)."""
    match edit:
        case e.AddColumn(column) | e.ModifyColumn(column) | e.ChangeColumn(_, column) if column.primary_key:
            return replace(edit, column=replace(column, unique=False))
        case _:
            return edit


def indexes_at(statement: e.CreateTable, server: str) -> tuple[IndexDef, ...]:
    """The indexes in the order in which a server makes them and names those without a name. TiDB makes those
    that columns ask for in their own definitions after all others (buildColumnsAndConstraints). MariaDB makes
    none of a definition that asks for the primary key as well (run).
    """
    own = [column for column in statement.columns if column.unique]
    moved = own if server == "tidb" else [column for column in own if column.primary_key]
    if server not in ("tidb", "mariadb") or not moved:
        return statement.indexes
    others = list(statement.indexes)
    for column in moved:
        others.remove(IndexDef(None, (column.name,), True))
    last = moved if server == "tidb" else []
    return (*others, *(IndexDef(None, (column.name,), True) for column in last))


def whose_condition_holds(schema: TableSchema, edits: Iterable[e.Edit]) -> list[e.Edit]:
    """Conditions look at the table before the statement, and at columns that the statement itself adds, drops
    or calls so before: MariaDB takes the new name of a CHANGE for there even where that has no effect (run).
    """
    dropped, named = set[str](), set[str]()
    live: list[e.Edit] = []
    for edit in edits:
        match edit:
            case e.AddColumn(column, _, if_not_exists):
                holds = not if_not_exists or (
                    schema.column(column.name) is None and name_key(column.name) not in named
                )
                named.add(name_key(column.name))
            case e.ModifyColumn(column, _, if_exists):
                holds = not (if_exists and schema.column(column.name) is None)
            case e.DropColumn(name, if_exists):
                holds = not if_exists or (schema.column(name) is not None and name_key(name) not in dropped)
                dropped.add(name_key(name))
            case e.RenameColumn(name, _, if_exists) | e.AlterDefault(name, _, if_exists):
                holds = not (if_exists and schema.column(name) is None)
            case e.ChangeColumn(name, column, _, if_exists):
                holds = not (if_exists and schema.column(name) is None)
                named.add(name_key(column.name))
            case _:
                holds = True
        if holds:
            live.append(edit)
        elif isinstance(edit, (e.AddColumn, e.ModifyColumn, e.ChangeColumn)):
            live += keys_of(
                edit.column, True
            )  # MariaDB leaves the column out, not the key that its definition asks for (run)
    return live
