"""CREATE TABLE: its definitions, options and partitions, and whether a query fills it. CREATE and ALTER
DATABASE, of which only the charset affects tables: those to come have it.
"""

from dataclasses import replace
from itertools import chain

from lakehouse.ddl.definitions import ColumnDef, IndexDef, Partitioning
from lakehouse.ddl.edits import (
    CreateTable,
    CreateTableLike,
    DatabaseCharset,
    DropDatabase,
    NoEffect,
    Statement,
)
from lakehouse.ddl.parse.columns import definition
from lakehouse.ddl.parse.keys import Period, PrimaryKey, at_constraint, constraint
from lakehouse.ddl.parse.partition_clauses import read_partitioning, split_regions
from lakehouse.ddl.parse.table_options import read_option, read_table_charset
from lakehouse.ddl.parse.tokens import Cursor
from lakehouse.errors import DdlError

_DATABASE_OPTIONS = frozenset({"DEFAULT", "CHARACTER", "CHAR", "CHARSET", "COLLATE"})
_QUERY_WORDS = ("AS", "SELECT", "WITH", "VALUES", "TABLE", "IGNORE", "REPLACE")


class TableElements:
    """What a table list holds: columns, the primary key's names, and indexes in the order they were
    declared. `checks` counts checks and foreign keys, `conditional` has the indexes with IF NOT EXISTS.
    """

    __slots__ = ("checks", "columns", "conditional", "indexes", "periods", "primary_key")

    def __init__(self) -> None:
        self.checks = 0
        self.conditional: list[IndexDef] = []
        self.columns: list[ColumnDef] = []
        self.primary_key: tuple[str, ...] = ()
        self.indexes: list[IndexDef] = []
        self.periods: list[Period] = []

    def add_column(self, column: ColumnDef) -> None:
        self.columns.append(column)
        if column.primary_key:
            self._add_primary_key((column.name,))
        if column.unique:
            self.indexes.append(IndexDef(None, (column.name,), True))

    def add(self, element: PrimaryKey | IndexDef | Period | None, condition: bool) -> None:
        if isinstance(element, IndexDef):
            self.indexes.append(element)
            self.conditional += [element] if condition else []
        elif isinstance(element, Period):
            self.periods.append(element)
        elif element is not None:
            self._add_primary_key(element)
        else:
            self.checks += 1

    def apply_periods(self) -> None:
        """Give periods their effect: their columns are NOT NULL, and are those of a key WITHOUT OVERLAPS."""
        for name, ends in self.periods:
            self.columns = [
                replace(column, not_null=column.not_null or (column.name in ends and not column.generated))
                for column in self.columns
            ]
            parts = [ends if part == name else (part,) for part in self.primary_key]
            self.primary_key = tuple(chain.from_iterable(parts))

    def _add_primary_key(self, names: tuple[str, ...]) -> None:
        if self.primary_key:
            raise DdlError("CREATE TABLE: expected one primary key, got two")
        self.primary_key = names


def read_elements(cursor: Cursor) -> TableElements:
    """`(column | key | check, …)`."""
    found = TableElements()
    cursor.need("(")
    while True:
        if at_constraint(cursor):
            found.add(*constraint(cursor))
        else:
            found.add_column(definition(cursor))
        if not cursor.take(","):
            break
    cursor.need(")")
    found.apply_periods()
    return found


def create_table(cursor: Cursor, or_replace: bool) -> CreateTable | CreateTableLike:
    """What follows CREATE [OR REPLACE] TABLE, to the statement's end."""
    condition = cursor.take("IF", "NOT", "EXISTS")
    database, table = cursor.table()
    if cursor.take("LIKE") or cursor.take("(", "LIKE"):
        bracket = cursor.tokens[cursor.at - 2].upper == "("
        like = cursor.table()
        if bracket:
            cursor.need(")")
        cursor.end()
        return CreateTableLike(database, table, like, condition, or_replace=or_replace)
    found = TableElements() if _at_query(cursor) else _elements(cursor)
    charset, partition = _tail(cursor)
    words = [token.upper for token in cursor.tokens[: cursor.at]]
    versioned = ("WITH", "SYSTEM", "VERSIONING") in zip(words, words[1:], words[2:], strict=False)
    query = _query(cursor)
    if not found.columns and not query:
        raise DdlError("CREATE TABLE: expected columns, LIKE or a query, got none")
    return CreateTable(
        database,
        table,
        tuple(found.columns),
        found.primary_key,
        indexes=tuple(found.indexes),
        partition=partition,
        charset=charset,
        if_not_exists=condition,
        or_replace=or_replace,
        as_select=query,
        versioned=versioned,
    )


def _elements(cursor: Cursor) -> TableElements:
    """CREATE TABLE t ENGINE=InnoDB AS SELECT … has no list."""
    return read_elements(cursor) if cursor.upper == "(" else TableElements()


def _tail(cursor: Cursor) -> tuple[str | None, Partitioning | None]:
    charset: str | None = None
    partition = None
    while True:
        if (found := read_table_charset(cursor)) is not None:
            charset = found or charset
        elif cursor.take("PARTITION", "BY"):
            partition = read_partitioning(cursor)
        elif cursor.take("SPLIT"):
            split_regions(cursor)
        elif not read_option(cursor):
            return charset, partition
        cursor.take(",")


def _at_query(cursor: Cursor) -> bool:
    """A query in brackets, or behind AS."""
    if cursor.upper in _QUERY_WORDS:
        return not cursor.ahead("WITH", "SYSTEM")
    return any(cursor.ahead("(", word) for word in ("SELECT", "WITH", "VALUES", "("))


def _query(cursor: Cursor) -> bool:
    """Is the rest a query? It is not read further than its first word."""
    start = cursor.at
    cursor.take_one("IGNORE", "REPLACE")
    cursor.take("AS")
    while cursor.take("("):
        pass
    if word := cursor.take_one("SELECT", "WITH", "VALUES", "TABLE"):
        if cursor.kind == "end" or (word == "WITH" and cursor.kind not in ("name", "word")):
            cursor.fail("a query")
        cursor.at = len(cursor.tokens)
        return True
    cursor.at = start
    cursor.end()
    return False


# --- databases


def create_database(cursor: Cursor, or_replace: bool) -> Statement:
    """What CREATE DATABASE means, from its name on; what was there before a replaced one is dropped."""
    condition = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("a database name")
    if or_replace and not condition:
        return DropDatabase(name, if_exists=True)
    return DatabaseCharset(name, _database_charset(cursor) or None, condition)


def alter_database(cursor: Cursor) -> Statement:
    """What ALTER DATABASE means, from its name on, which may be left out."""
    if cursor.kind == "end":
        cursor.fail("a database name or an option")
    unnamed = cursor.kind == "word" and cursor.upper in _DATABASE_OPTIONS
    name = None if unnamed else cursor.name("a database name", reserved=True)
    charset = _database_charset(cursor)
    return NoEffect("ALTER DATABASE") if charset is None else DatabaseCharset(name, charset or None)


def _database_charset(cursor: Cursor) -> str | None:
    """The charset that options at the cursor name: "" for the server's, None where they name none."""
    found = None
    while cursor.kind != "end":
        told = read_table_charset(cursor)
        if told is None:
            cursor.at += 1
        else:
            found = told or found or ""
    return found
