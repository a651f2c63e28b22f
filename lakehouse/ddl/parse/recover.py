"""TiDB's RECOVER and FLASHBACK: what was dropped comes back; what goes back in time can't be followed."""

from lakehouse.ddl.edits import Name, RecoverDatabase, RecoverTable, Statement
from lakehouse.ddl.parse.tokens import Cursor, Token, tokenize
from lakehouse.errors import DdlError


def recover(cursor: Cursor) -> Statement:
    """RECOVER TABLE t; by a job's number it names no table, so it is refused."""
    cursor.need("TABLE")
    if cursor.take("BY", "JOB"):
        raise DdlError(f"RECOVER TABLE BY JOB names no table, and {_NO_ROWS}")
    database, table = cursor.table()
    if cursor.kind == "number":
        cursor.at += 1
    cursor.end()
    return RecoverTable(database, table)


def flashback(cursor: Cursor) -> Statement:
    """A table or a database that was dropped; what goes back in time can't be followed, so it is refused."""
    if any(_at_time(cursor.tokens[at : at + 3]) for at in range(cursor.at, len(cursor.tokens))):
        raise DdlError(f"FLASHBACK to a time: {_NO_ROWS}")
    if cursor.need_one("TABLE", "DATABASE", "SCHEMA") == "TABLE":
        database, table = cursor.table()
        to = cursor.name("a table name") if cursor.take("TO") else None
        cursor.end()
        return RecoverTable(database, table, to)
    name = cursor.name("a database name")
    to = cursor.name("a database name") if cursor.take("TO") else None
    cursor.end()
    return RecoverDatabase(name, to)


_NO_ROWS = (
    "no message tells the rows that came back; take a snapshot of the tables, then `lakehouse ddl skip` it"
)


def _at_time(tokens: list[Token]) -> bool:
    """TO TIMESTAMP 'text' or TO TSO number; a table may have either word as its name."""
    kinds = {"TIMESTAMP": "string", "TSO": "number"}
    return len(tokens) > 2 and tokens[0].upper == "TO" and kinds.get(tokens[1].upper) == tokens[2].kind


def rewound(sql: str) -> tuple[list[Name], str | None]:
    """The tables that a FLASHBACK to a time names, or the database; neither for any other text."""
    try:
        cursor = Cursor(sql, tokenize(sql))
        if not cursor.take("FLASHBACK"):
            return [], None
        if cursor.take_one("DATABASE", "SCHEMA"):
            return [], cursor.name("a database name")
        cursor.need("TABLE")
        names = [cursor.table()]
        while cursor.take(","):
            names.append(cursor.table())
        return names, None
    except DdlError:
        return [], None
