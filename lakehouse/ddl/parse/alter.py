"""The clauses of ALTER TABLE. A clause whose first words are not in the table of clauses (at the end) is
refused.
"""

from collections.abc import Callable

from lakehouse.ddl.definitions import IndexDef
from lakehouse.ddl.edits import (
    AddColumn,
    AddIndex,
    AddPrimaryKey,
    AddUniqueKey,
    AlterDefault,
    ChangeColumn,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    Edit,
    ModifyColumn,
    NoEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    Repartition,
    SystemVersioning,
    TableCharset,
)
from lakehouse.ddl.parse.column_types import read_charset
from lakehouse.ddl.parse.columns import definition, place, read_default
from lakehouse.ddl.parse.create import read_elements
from lakehouse.ddl.parse.keys import Period, PrimaryKey, at_constraint, constraint
from lakehouse.ddl.parse.partition_clauses import (
    add_partition,
    coalesce_partition,
    drop_partition,
    exchange_partition,
    first_partition,
    last_partition,
    maintain_partition,
    merge_partitions,
    names,
    one_partition,
    reorganize_partition,
    split_partition,
    tablespace,
    truncate_partition,
)
from lakehouse.ddl.parse.table_options import read_option, read_table_charset
from lakehouse.ddl.parse.tokens import Cursor


def read_clauses(cursor: Cursor) -> tuple[Edit, ...]:
    """All clauses to the statement's end, in order; one clause may be several edits."""
    found: list[Edit] = []
    if cursor.kind == "end":
        return ()
    while True:
        found += _clause(cursor)
        if cursor.take("PARTITION", "BY"):
            found.append(one_partition_by(cursor))
        elif cursor.take("REMOVE", "PARTITIONING"):
            found.append(Repartition(None))
        if not cursor.take(","):
            break
    cursor.end()
    return tuple(found)


def one_partition_by(cursor: Cursor) -> Edit:
    cursor.at -= 1
    return one_partition(cursor)


def _clause(cursor: Cursor) -> list[Edit]:
    start = cursor.at
    reader = _CLAUSES.get(cursor.upper)
    if reader is not None:
        cursor.at += 1
        edits = reader(cursor)
        if edits is not None:
            return edits if isinstance(edits, list) else [edits]
        cursor.at = start
    return _options(cursor)


def _options(cursor: Cursor) -> list[Edit]:
    """One or more table options without commas are one clause. MariaDB takes WITH SYSTEM VERSIONING for ADD
    SYSTEM VERSIONING (run).
    """
    edit: Edit | None = None
    versioned: list[Edit] = []
    while True:
        charset = read_table_charset(cursor)
        if charset is not None:
            edit = TableCharset(charset or None)
        elif cursor.take("WITH", "SYSTEM", "VERSIONING"):
            versioned = [SystemVersioning(True)]
        elif read_option(cursor):
            edit = edit or NoEffect("table options")
        elif edit is not None:
            return [edit, *versioned]
        else:
            return versioned or cursor.fail("a clause of ALTER TABLE")


# --- ADD


def _add(cursor: Cursor) -> list[Edit]:
    if cursor.take("COLUMN"):
        return _add_columns(cursor)
    if cursor.take("MASKING", "POLICY"):
        return [_masking_policy(cursor)]
    if at_constraint(cursor):
        return [_key_edit(*constraint(cursor))]
    if cursor.take("PARTITION"):
        return [add_partition(cursor)]
    if cursor.take("SYSTEM", "VERSIONING"):
        return [SystemVersioning(True)]
    if cursor.take("STATS_EXTENDED"):
        return [_statistics(cursor)]
    return _add_columns(cursor)


def _add_columns(cursor: Cursor) -> list[Edit]:
    condition = cursor.take("IF", "NOT", "EXISTS")
    if cursor.upper != "(":
        return [AddColumn(definition(cursor), place(cursor), condition)]
    found = read_elements(cursor)
    edits: list[Edit] = [AddColumn(column, None, condition) for column in found.columns]
    if found.primary_key and not any(column.primary_key for column in found.columns):
        edits.append(AddPrimaryKey(found.primary_key))
    columns = [IndexDef(None, (column.name,), True) for column in found.columns if column.unique]
    for index in found.indexes:
        if index not in columns:
            edits.append(_key_edit(index, any(index is one for one in found.conditional)))
    return edits + [_key_edit(None, False)] * found.checks


def _key_edit(key: PrimaryKey | IndexDef | Period | None, condition: bool) -> Edit:
    match key:
        case None | Period():
            return NoEffect("ADD CONSTRAINT")
        case IndexDef(name, columns, True):
            return AddUniqueKey(columns, name, condition)
        case IndexDef(name, columns, _):
            return AddIndex(columns, name, condition)
        case _:
            return AddPrimaryKey(key, condition)


def _statistics(cursor: Cursor) -> Edit:
    cursor.take("IF", "NOT", "EXISTS")
    cursor.name("a name")
    cursor.name("a kind of statistics")
    cursor.group()
    return NoEffect("STATS_EXTENDED")


def _masking_policy(cursor: Cursor) -> Edit:
    """A policy's name and what is said of it, up to the clause's end. What queries show is masked, no row."""
    cursor.name("a policy's name")
    while cursor.upper != "," and cursor.kind != "end":
        if cursor.upper == "(":
            cursor.group(may_be_empty=True)
        else:
            cursor.at += 1
    return NoEffect("MASKING POLICY")


# --- DROP


def _drop(cursor: Cursor) -> Edit:
    if cursor.take("MASKING", "POLICY"):
        return _masking_policy(cursor)
    if cursor.take("PARTITION"):
        return drop_partition(cursor)
    if cursor.take("PRIMARY", "KEY") or cursor.take("CONSTRAINT", "PRIMARY", "KEY"):
        return DropPrimaryKey()
    if cursor.take("FOREIGN", "KEY") or cursor.take("CHECK") or cursor.take("STATS_EXTENDED"):
        cursor.take("IF", "EXISTS")
        cursor.column("a constraint's name")
        return NoEffect("DROP CONSTRAINT")
    if cursor.take("SYSTEM", "VERSIONING"):
        return SystemVersioning(False)
    if cursor.take("PERIOD", "FOR") or cursor.take("PERIOD", "IF", "EXISTS", "FOR"):
        cursor.name("a period's name")
        return NoEffect("DROP PERIOD")
    if cursor.take_one("INDEX", "KEY", "CONSTRAINT"):
        condition = cursor.take("IF", "EXISTS")
        return DropIndex(cursor.column("an index name"), condition)
    cursor.take("COLUMN")
    condition = cursor.take("IF", "EXISTS")
    edit = DropColumn(cursor.column(), condition)
    cursor.take_one("RESTRICT", "CASCADE")
    return edit


# --- columns that are there


def _modify(cursor: Cursor) -> Edit:
    if cursor.take("MASKING", "POLICY"):
        return _masking_policy(cursor)
    cursor.take("COLUMN")
    condition = cursor.take("IF", "EXISTS")
    return ModifyColumn(definition(cursor), place(cursor), condition)


def _change(cursor: Cursor) -> Edit:
    cursor.take("COLUMN")
    condition = cursor.take("IF", "EXISTS")
    name = cursor.column()
    return ChangeColumn(name, definition(cursor), place(cursor), condition)


def _rename(cursor: Cursor) -> Edit:
    if cursor.take("COLUMN"):
        condition = cursor.take("IF", "EXISTS")
        name = cursor.name("a column name")
        cursor.need("TO")
        return RenameColumn(name, cursor.name("a column name"), condition)
    if cursor.take_one("INDEX", "KEY"):
        cursor.take("IF", "EXISTS")
        name = cursor.column("an index name")
        cursor.need("TO")
        return RenameIndex(name, cursor.name("an index name"))
    cursor.take_one("TO", "AS", "=")
    return RenameTo(cursor.table())


def _alter(cursor: Cursor) -> Edit:
    if cursor.take_one("INDEX", "KEY"):
        cursor.take("IF", "EXISTS")
        cursor.name("an index name")
        if not cursor.take("NOT", "IGNORED"):
            cursor.need_one("VISIBLE", "INVISIBLE", "IGNORED")
        return NoEffect("ALTER INDEX")
    if cursor.take_one("CHECK", "CONSTRAINT"):
        cursor.name("a constraint's name")
        cursor.take("NOT")
        cursor.need("ENFORCED")
        return NoEffect("ALTER CHECK")
    cursor.take("COLUMN")
    condition = cursor.take("IF", "EXISTS")
    name = cursor.column()
    if cursor.take("DROP"):
        cursor.need("DEFAULT")
        return AlterDefault(name, None, condition)
    cursor.need("SET")
    if cursor.take_one("VISIBLE", "INVISIBLE"):
        return NoEffect("ALTER COLUMN")
    cursor.need("DEFAULT")
    return AlterDefault(name, read_default(cursor), condition)


# --- the table


def _convert(cursor: Cursor) -> Edit:
    cursor.need("TO")
    charset = read_charset(cursor)
    if charset is None:
        cursor.fail("CHARACTER SET")
    if cursor.take("COLLATE"):
        cursor.take("=")
        cursor.at += 1
    return TableCharset(None if charset == "default" else charset, convert=True)


def _order_by(cursor: Cursor) -> Edit:
    """The list's commas are its own; another clause can't follow."""
    cursor.need("BY")
    while True:
        cursor.table()
        cursor.take_one("ASC", "DESC")
        if not cursor.take(","):
            return NoEffect("ORDER BY")


def _remove(cursor: Cursor) -> Edit:
    return (
        Repartition(None)
        if cursor.need_one("PARTITIONING", "TTL") == "PARTITIONING"
        else NoEffect("REMOVE TTL")
    )


def _set(cursor: Cursor) -> Edit:
    cursor.take("HYPO")
    cursor.need("TIFLASH")
    cursor.need("REPLICA")
    cursor.number("a number of replicas")
    if cursor.take("LOCATION"):
        cursor.need("LABELS")
        cursor.string("a label")
        while cursor.take(","):
            cursor.string("a label")
    return NoEffect("SET TIFLASH REPLICA")


def _algorithm(cursor: Cursor) -> Edit:
    cursor.take("=")
    cursor.name("a method", reserved=cursor.upper == "DEFAULT")
    return NoEffect("ALGORITHM or LOCK")


def _validation(cursor: Cursor) -> Edit | None:
    return NoEffect("VALIDATION") if cursor.take("VALIDATION") else None


def _keys(cursor: Cursor) -> Edit:
    if cursor.take("MASKING", "POLICY"):
        return _masking_policy(cursor)
    cursor.need("KEYS")
    return NoEffect("ENABLE or DISABLE KEYS")


def _force(cursor: Cursor) -> Edit | None:
    """FORCE alone; FORCE AUTO_INCREMENT = 5 is an option."""
    return NoEffect("FORCE") if cursor.upper in ("", ",") else None


def _read(cursor: Cursor) -> Edit:
    cursor.need_one("ONLY", "WRITE")
    return NoEffect("READ ONLY or WRITE")


def _word(cursor: Cursor) -> Edit:
    return NoEffect(cursor.tokens[cursor.at - 1].upper)


def _secondary(cursor: Cursor) -> Edit:
    """SECONDARY_LOAD and SECONDARY_UNLOAD [PARTITION (p0, p1)]."""
    edit = _word(cursor)
    if cursor.take("PARTITION"):
        cursor.group()
    return edit


def _upgrade(cursor: Cursor) -> Edit:
    cursor.need("PARTITIONING")
    return NoEffect("UPGRADE PARTITIONING")


def _compact(cursor: Cursor) -> Edit:
    """COMPACT [PARTITION p] [TIFLASH REPLICA]."""
    if cursor.take("PARTITION"):
        names(cursor)
    if cursor.upper in ("", ","):
        return NoEffect("COMPACT")
    cursor.need("TIFLASH")
    cursor.need("REPLICA")
    return NoEffect("COMPACT")


_CLAUSES: dict[str, Callable[[Cursor], Edit | list[Edit] | None]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
    "ORDER": _order_by,
    "REMOVE": _remove,
    "SET": _set,
    "ALGORITHM": _algorithm,
    "LOCK": _algorithm,
    "WITH": _validation,
    "WITHOUT": _validation,
    "ENABLE": _keys,
    "DISABLE": _keys,
    "FORCE": _force,
    "CACHE": _word,
    "NOCACHE": _word,
    "SECONDARY_LOAD": _secondary,
    "SECONDARY_UNLOAD": _secondary,
    "UPGRADE": _upgrade,
    "COMPACT": _compact,
    "READ": _read,
    "PARTITION": one_partition,
    "TRUNCATE": truncate_partition,
    "EXCHANGE": exchange_partition,
    "REORGANIZE": reorganize_partition,
    "FIRST": first_partition,
    "LAST": last_partition,
    "MERGE": merge_partitions,
    "SPLIT": split_partition,
    "COALESCE": coalesce_partition,
    "ANALYZE": maintain_partition,
    "CHECK": maintain_partition,
    "OPTIMIZE": maintain_partition,
    "REBUILD": maintain_partition,
    "REPAIR": maintain_partition,
    "DISCARD": tablespace,
    "IMPORT": tablespace,
}
