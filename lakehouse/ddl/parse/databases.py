"""CREATE and ALTER DATABASE. Only the charset affects tables: those to come have it."""

from lakehouse.ddl.edits import DatabaseCharset, DropDatabase, NoEffect, Statement
from lakehouse.ddl.parse.table_options import read_table_charset
from lakehouse.ddl.parse.tokens import Cursor

_OPTIONS = frozenset({"DEFAULT", "CHARACTER", "CHAR", "CHARSET", "COLLATE"})


def create_database(cursor: Cursor, or_replace: bool) -> Statement:
    """What CREATE DATABASE means, from its name on; what was there before a replaced one is dropped."""
    condition = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("a database name")
    if or_replace and not condition:
        return DropDatabase(name, if_exists=True)
    return DatabaseCharset(name, _charset(cursor) or None, condition)


def alter_database(cursor: Cursor) -> Statement:
    """What ALTER DATABASE means, from its name on, which may be left out."""
    if cursor.kind == "end":
        cursor.fail("a database name or an option")
    unnamed = cursor.kind == "word" and cursor.upper in _OPTIONS
    name = None if unnamed else cursor.name("a database name", reserved=True)
    charset = _charset(cursor)
    return NoEffect("ALTER DATABASE") if charset is None else DatabaseCharset(name, charset or None)


def _charset(cursor: Cursor) -> str | None:
    """The charset that options at the cursor name: "" for the server's, None where they name none."""
    found = None
    while cursor.kind != "end":
        told = read_table_charset(cursor)
        if told is None:
            cursor.at += 1
        else:
            found = told or found or ""
    return found
