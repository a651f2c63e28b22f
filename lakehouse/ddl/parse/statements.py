"""SQL text to statements. Unknown syntax is a DdlError, never another statement.

A statement without effect on tables, columns, keys or rows (views, users, sessions, routines …) is NoEffect;
its text is read no further than needed to know that. A statement that changes rows (INSERT, LOAD, CALL …) is
refused: where one stands in a log of changes, its rows come in no message.
"""

from collections.abc import Callable

from lakehouse.ddl.edits import (
    AddColumn,
    AddIndex,
    AddPrimaryKey,
    AddUniqueKey,
    AlterTable,
    ChangeColumn,
    DropColumn,
    DropDatabase,
    DropDuplicates,
    DropIndex,
    DropTable,
    Edit,
    ModifyColumn,
    Name,
    NoEffect,
    RenameTable,
    ReorganizePartition,
    Repartition,
    Statement,
    TableCharset,
    TruncateTable,
)
from lakehouse.ddl.parse.alter import read_clauses
from lakehouse.ddl.parse.create import alter_database, create_database, create_table
from lakehouse.ddl.parse.keys import index_options, index_type, key_parts
from lakehouse.ddl.parse.recover import flashback, recover
from lakehouse.ddl.parse.splitting import ROUTINES, split
from lakehouse.ddl.parse.tokens import Cursor, Token, tokenize
from lakehouse.errors import DdlError

_OBJECTS = (
    "VIEW",
    "SEQUENCE",
    "USER",
    "ROLE",
    "SERVER",
    "TABLESPACE",
    "LOGFILE",
    "UNDO",
    "PLACEMENT",
    "RESOURCE",
    "BINDING",
    "STATISTICS",
    "SPATIAL",
    "INSTANCE",
    "SESSION",
    "GLOBAL",
    "RANGE",
    "WORKLOAD",
    "MATERIALIZED",
    "LIBRARY",
    "MASKING",
    "CATALOG",
    "COMPRESSION_DICTIONARY",
    "PREPARE",
    "SYSTEM",
    "STATS",
    "QUERY",
    "HYPO",
    "IMPORT",
    "JSON",
    *ROUTINES,
)
_WITHOUT_EFFECT_LIST = (
    "SET USE GRANT REVOKE BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE XA FLUSH ANALYZE OPTIMIZE CHECK "
    "CHECKSUM REPAIR LOCK UNLOCK KILL"
    " SHOW SELECT EXPLAIN DESC DESCRIBE HELP PREPARE DEALLOCATE RESET PURGE STOP CHANGE INSTALL UNINSTALL "
    "CACHE SPLIT ADMIN TRACE BACKUP"
    " SHUTDOWN RESTART CLONE"
)
_WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT_LIST.split())
_ROWS_LIST = (
    "INSERT UPDATE DELETE REPLACE LOAD CALL DO WITH EXECUTE IMPORT BATCH BINLOG HANDLER RESTORE TABLE VALUES"
)
_ROWS = frozenset(_ROWS_LIST.split())
_EXECUTED = (*_ROWS - {"TABLE"}, "FORMAT", "SELECT")


def read(sql: str) -> list[Statement]:
    """The statements of a text; DdlError if any of them is not understood whole."""
    return [read_statement(sql, tokens) for tokens in split(tokenize(sql))]


def read_statement(sql: str, tokens: list[Token]) -> Statement:
    """One statement's meaning. No message tells a session's sql_mode: where its double quotes can't be
    strings, they are names, as under ANSI_QUOTES.
    """
    try:
        return _statement(Cursor(sql, tokens))
    except DdlError as error:
        start, end = tokens[0].start, tokens[-1].end
        if '"' not in sql[start:end]:
            raise
        try:
            return _statement(Cursor(sql, tokenize(sql[start:end], ansi_quotes=True, offset=start)))
        except DdlError:
            raise error from None


def _statement(cursor: Cursor) -> Statement:
    if cursor.take("SET", "STATEMENT"):
        _set_statement(cursor)
    head = cursor.upper
    reader = _STATEMENTS.get(head)
    if reader is not None:
        cursor.at += 1
        return reader(cursor)
    if cursor.ahead("BEGIN", "NOT") or (cursor.take("ANALYZE") and cursor.upper in _EXECUTED):
        cursor.fail("a statement that executes no others")
    if head in _WITHOUT_EFFECT:
        return NoEffect(head)
    if head in _ROWS:
        cursor.fail(
            "a statement that defines tables (rows of a statement that changes them come in no message)"
        )
    return cursor.fail("the first word of a statement")


def _set_statement(cursor: Cursor) -> None:
    """MariaDB's SET STATEMENT name = value, … FOR statement: skip to the statement after FOR."""
    while not cursor.take("FOR"):
        if cursor.kind == "end":
            cursor.fail("FOR and a statement")
        if cursor.upper == "(":
            cursor.group()
        else:
            cursor.at += 1


# --- CREATE


def _create(cursor: Cursor) -> Statement:
    or_replace = cursor.take("OR", "REPLACE")
    if cursor.take("TEMPORARY") or cursor.take("GLOBAL", "TEMPORARY"):
        return _temporary(cursor)
    if cursor.take("TABLE"):
        return create_table(cursor, or_replace)
    if cursor.take_one("DATABASE", "SCHEMA"):
        return create_database(cursor, or_replace)
    if _at_index(cursor):
        return _create_index(cursor)
    _view_words(cursor)
    return _other(cursor)


def _temporary(cursor: Cursor) -> Statement:
    """A temporary table is its session's own: no rows of it are logged."""
    while cursor.take("TEMPORARY"):
        pass  # old MySQLs logged DROP /*!40005 TEMPORARY */ /*!40005 TEMPORARY */ TABLE, too
    if cursor.need_one("TABLE", "TABLES", "SEQUENCE") and cursor.kind == "end":
        cursor.fail("a table name")
    return NoEffect("TEMPORARY TABLE")


def _at_index(cursor: Cursor) -> bool:
    """[ONLINE] [UNIQUE | FULLTEXT | SPATIAL | VECTOR | COLUMNAR] INDEX."""
    following = cursor.tokens[cursor.at : cursor.at + 3]
    head = [token.upper for token in following]
    return "INDEX" in head and all(word in _INDEX_WORDS for word in head[: head.index("INDEX")])


_INDEX_WORDS = ("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID")


def _create_index(cursor: Cursor) -> Statement:
    words = []
    while not cursor.take("INDEX"):
        words.append(cursor.need_one(*_INDEX_WORDS))
    condition = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("an index name")
    index_type(cursor)
    _wait(cursor)
    cursor.need("ON")
    table = cursor.table()
    _wait(cursor)
    columns, plain = key_parts(cursor)
    _wait(cursor)
    unique = index_options(cursor) and "UNIQUE" in words and plain
    _index_tail(cursor)
    return _index_statement(
        table, AddUniqueKey(columns, name, condition) if unique else AddIndex(columns, name, condition)
    )


def _index_statement(table: Name, edit: Edit) -> Statement:
    return AlterTable(table[0], table[1], (edit,), index_statement=True)


def _index_tail(cursor: Cursor) -> None:
    """Skip ALGORITHM and LOCK at the end, with or without commas."""
    while cursor.take_one("ALGORITHM", "LOCK"):
        cursor.take("=")
        cursor.name("a method", reserved=cursor.upper == "DEFAULT")
        cursor.take(",")
    _wait(cursor)
    cursor.end()


def _view_words(cursor: Cursor) -> None:
    """Skip ALGORITHM = x, DEFINER = user, SQL SECURITY x and AGGREGATE before VIEW or a routine."""
    while True:
        if cursor.take("ALGORITHM"):
            cursor.need("=")
            cursor.name("a method")
        elif cursor.take("DEFINER"):
            cursor.need("=")
            _user(cursor)
        elif cursor.take("SQL", "SECURITY"):
            cursor.need_one("DEFINER", "INVOKER")
        elif not cursor.take("AGGREGATE"):
            return


def _user(cursor: Cursor) -> None:
    """A user, a role, or CURRENT_USER()."""
    if cursor.kind not in ("name", "word", "string"):
        cursor.fail("a user")
    cursor.at += 1
    cursor.take("(", ")")
    if cursor.take("@"):
        _host(cursor)


def _host(cursor: Cursor) -> None:
    """A host in quotes, or bare (`u@10.0.0.1`): up to the next blank."""
    if cursor.kind not in ("name", "word", "string", "number"):
        cursor.fail("a host")
    is_bare = cursor.kind in ("word", "number")
    cursor.at += 1
    while is_bare and cursor.token and cursor.token.start == cursor.tokens[cursor.at - 1].end:
        cursor.at += 1


def _other(cursor: Cursor) -> Statement:
    """An object that is no table: its kind must be known and something must follow."""
    kind = cursor.need_one(*_OBJECTS)
    if cursor.kind == "end":
        cursor.fail("a name")
    return NoEffect(kind)


# --- ALTER, RENAME


def _alter(cursor: Cursor) -> Statement:
    start = cursor.at
    if _at_table(cursor):
        words = {token.upper for token in cursor.tokens[start : cursor.at]}
        database, table = cursor.table()
        _wait(cursor)
        edits = read_clauses(cursor)
        drops = "IGNORE" in words and any(map(_may_drop_rows, edits))
        return AlterTable(database, table, (*edits, DropDuplicates()) if drops else edits, "EXISTS" in words)
    cursor.at = start
    if cursor.take_one("DATABASE", "SCHEMA"):
        return alter_database(cursor)
    _view_words(cursor)
    return _other(cursor)


def _at_table(cursor: Cursor) -> bool:
    """[ONLINE | OFFLINE] [IGNORE] TABLE [IF EXISTS], moved over."""
    cursor.take_one("ONLINE", "OFFLINE")
    cursor.take("IGNORE")
    return cursor.take("TABLE") and (cursor.take("IF", "EXISTS") or True)


def _may_drop_rows(edit: Edit) -> bool:
    """Whether there may be rows that a key, check or partition does not admit behind it, which IGNORE drops:
    of new values, of a new collation (run on MariaDB).
    """
    match edit:
        case AddPrimaryKey() | AddUniqueKey() | NoEffect("ADD CONSTRAINT"):
            return True
        case ModifyColumn() | ChangeColumn() | DropColumn() | Repartition() | ReorganizePartition():
            return True
        case AddColumn(column):
            return column.unique or column.primary_key
        case TableCharset(_, convert):
            return convert
        case _:
            return False


def _rename(cursor: Cursor) -> Statement:
    if cursor.take("USER"):
        return NoEffect("RENAME USER")
    cursor.need_one("TABLE", "TABLES")
    condition = cursor.take("IF", "EXISTS")
    pairs = [_pair(cursor)]
    while cursor.take(","):
        pairs.append(_pair(cursor))
    cursor.end()
    return RenameTable(tuple(pairs), condition)


def _pair(cursor: Cursor) -> tuple[Name, Name]:
    old = cursor.table()
    _wait(cursor)
    cursor.need("TO")
    return old, cursor.table()


def _wait(cursor: Cursor) -> None:
    """MariaDB's WAIT n and NOWAIT."""
    if cursor.take("WAIT"):
        cursor.number("seconds")
    else:
        cursor.take("NOWAIT")


# --- DROP, TRUNCATE


def _drop(cursor: Cursor) -> Statement:
    if cursor.take("TEMPORARY") or cursor.take("GLOBAL", "TEMPORARY"):
        return _temporary(cursor)
    if cursor.take_one("TABLE", "TABLES"):
        return _drop_tables(cursor)
    if cursor.take_one("DATABASE", "SCHEMA"):
        condition = cursor.take("IF", "EXISTS")
        name = cursor.name("a database name")
        cursor.end()
        return DropDatabase(name, condition)
    cursor.take_one("ONLINE", "OFFLINE")
    if cursor.take("INDEX"):
        return _drop_index(cursor)
    return _other(cursor)


def _drop_tables(cursor: Cursor) -> Statement:
    condition = cursor.take("IF", "EXISTS")
    tables = [cursor.table()]
    while cursor.take(","):
        tables.append(cursor.table())
    _wait(cursor)
    cursor.take_one("RESTRICT", "CASCADE")
    cursor.end()
    return DropTable(tuple(tables), condition)


def _drop_index(cursor: Cursor) -> Statement:
    condition = cursor.take("IF", "EXISTS")
    name = cursor.name("an index name")
    cursor.need("ON")
    table = cursor.table()
    _wait(cursor)
    _index_tail(cursor)
    return _index_statement(table, DropIndex(name, condition))


def _truncate(cursor: Cursor) -> Statement:
    cursor.take("TABLE")
    database, table = cursor.table()
    _wait(cursor)
    if cursor.take_one("DROP", "REUSE"):
        cursor.need("STORAGE")
    cursor.end()
    return TruncateTable(database, table)


_STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "RENAME": _rename,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RECOVER": recover,
    "FLASHBACK": flashback,
}
