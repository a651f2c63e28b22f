"""Column definitions: a name, a type and attributes in any order. Unknown attributes are refused."""

from collections.abc import Callable
from typing import Any

from lakehouse.ddl.definitions import ColumnDef
from lakehouse.ddl.parse.column_types import charset_name, read_charset, read_type, with_charset
from lakehouse.ddl.parse.keys import read_check, read_references
from lakehouse.ddl.parse.table_options import OPTIONS
from lakehouse.ddl.parse.tokens import Cursor

Members = dict[str, Any]
_VALUE_WORD_LIST = (
    "NULL TRUE FALSE CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP UTC_DATE UTC_TIME "
    "UTC_TIMESTAMP CURRENT_USER CURRENT_ROLE USER UUID"
)
_VALUE_WORDS = frozenset(_VALUE_WORD_LIST.split())


def definition(cursor: Cursor) -> ColumnDef:
    """A name, a type and its attributes in any order."""
    name = cursor.column()
    serial, national = cursor.upper == "SERIAL", cursor.upper in ("NATIONAL", "NCHAR", "NVARCHAR")
    members: Members = {"type": read_type(cursor), **({"charset": "utf8mb3"} if national else {})}
    if serial:
        members |= {"not_null": True, "unique": True, "auto_increment": True}
    while _attribute(cursor, members):
        pass
    return ColumnDef(name, **members)


def _attribute(cursor: Cursor, members: Members) -> bool:
    """Move over one attribute, if one is at the cursor. Engines of MariaDB have attributes of their own, and
    take none without `=`.
    """
    attribute = _ATTRIBUTES.get(cursor.upper)
    is_own = cursor.kind in ("word", "name") and cursor.upper not in OPTIONS
    following = cursor.tokens[cursor.at + 1 : cursor.at + 2]
    if attribute is None and is_own and following and following[0].upper == "=":
        attribute = _one_value
    if attribute is None:
        return False
    cursor.at += 1
    attribute(cursor, members)
    return True


def place(cursor: Cursor) -> str | None:
    """FIRST, AFTER a column, or nothing."""
    if cursor.take("FIRST"):
        return "first"
    return f"after {cursor.column()}" if cursor.take("AFTER") else None


# --- attributes


def _not(cursor: Cursor, members: Members) -> None:
    if cursor.need_one("NULL", "SECONDARY") == "NULL":
        members["not_null"] = True


def _null(cursor: Cursor, members: Members) -> None:
    """The last of NULL and NOT NULL counts."""
    members.update(not_null=False, null=True)


def _default(cursor: Cursor, members: Members) -> None:
    members["default"] = read_default(cursor)


def read_default(cursor: Cursor) -> str:
    """The SQL text of a literal, a call or an expression in brackets."""
    start = cursor.at
    if cursor.kind == "symbol" and cursor.upper == "(":
        cursor.group()
    elif cursor.take_one("+", "-") or cursor.kind in ("number", "literal") or cursor.upper == ".":
        _number(cursor)
    elif cursor.kind == "string":
        cursor.string("a string")
    else:
        _value_word(cursor)
    return cursor.source(start, cursor.at)


def _number(cursor: Cursor) -> None:
    cursor.take(".")
    if cursor.kind not in ("number", "literal"):
        cursor.fail("a number")
    cursor.at += 1


def _value_word(cursor: Cursor) -> None:
    """NULL, NOW(6), _utf8mb4'x', DATE '2024-01-01', NEXT VALUE FOR s, and MariaDB's expressions without
    brackets; a bare word that is none of them is refused.
    """
    start, word = cursor.at, cursor.upper
    if _expression(cursor):
        return
    if cursor.take("NEXT", "VALUE", "FOR") or cursor.take("PREVIOUS", "VALUE", "FOR"):
        cursor.table()
        return
    if cursor.kind != "word":
        cursor.fail("a value")
    cursor.at += 1
    if cursor.kind in ("string", "literal") and (
        word.startswith("_") or word in ("DATE", "TIME", "TIMESTAMP")
    ):
        cursor.at += 1
        if cursor.kind == "string":
            cursor.string("a string")
        return
    called = cursor.upper == "("
    if called and cursor.tokens[cursor.at + 1 : cursor.at + 2] and cursor.tokens[cursor.at + 1].upper == ")":
        cursor.at += 2
    elif called:
        cursor.group()
    elif word not in _VALUE_WORDS:
        cursor.at = start
        cursor.fail("a value")


def _expression(cursor: Cursor) -> bool:
    """Move over another column in quotes or with its table, a variable, CASE … END, or {ts '2024-01-01'}."""
    following = [token.upper for token in cursor.tokens[cursor.at + 1 : cursor.at + 2]]
    if cursor.take("CASE"):
        depth = 1
        while depth:
            if cursor.kind == "end":
                cursor.fail("END")
            depth += {"CASE": 1, "END": -1}.get(cursor.upper, 0)
            cursor.at += 1
    elif cursor.take("{"):
        cursor.name("a kind of literal")
        if cursor.upper == "{":
            cursor.fail("a value")
        read_default(cursor)
        cursor.need("}")
    elif cursor.kind == "name" or following == ["."] or cursor.upper == "@":
        while cursor.take("@"):
            pass
        cursor.column("a value")
    else:
        return False
    return True


def _on_update(cursor: Cursor, members: Members) -> None:
    cursor.need("UPDATE")
    cursor.need_one("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
    if cursor.take("(") and not cursor.take(")"):
        cursor.number("digits of fractions")
        cursor.need(")")


def _key(cursor: Cursor, members: Members) -> None:
    members["primary_key"] = True
    cursor.take_one("CLUSTERED", "NONCLUSTERED")
    cursor.take_one("GLOBAL", "LOCAL")


def _primary(cursor: Cursor, members: Members) -> None:
    cursor.need("KEY")
    _key(cursor, members)


def _unique(cursor: Cursor, members: Members) -> None:
    members["unique"] = True
    cursor.take("KEY")
    cursor.take_one("GLOBAL", "LOCAL")


def _comment(cursor: Cursor, members: Members) -> None:
    members["comment"] = cursor.string("a comment in quotes")


def _collate(cursor: Cursor, members: Members) -> None:
    cursor.take("=")
    members.setdefault("charset", _charset_of(charset_name(cursor)))


def _charset_of(collation: str) -> str | None:
    """`latin1_swedish_ci` is of latin1; MariaDB's short `uca1400_ai_ci` names none."""
    charset = collation.partition("_")[0]
    return None if charset in ("default", "uca1400") else charset


def _charset(cursor: Cursor, members: Members) -> None:
    cursor.at -= 1
    charset = read_charset(cursor)
    if charset is None:
        cursor.fail("a column's attribute")
    members["charset"] = None if charset == "default" else charset
    members["type"] = with_charset(members["type"], charset)


def _generated(cursor: Cursor, members: Members) -> None:
    cursor.need("ALWAYS")
    cursor.need("AS")
    _as(cursor, members)


def _as(cursor: Cursor, members: Members) -> None:
    """AS (expression), or MariaDB's AS ROW START and END of system versioned tables."""
    if cursor.take("ROW"):
        cursor.need_one("START", "END")
        members["generated"] = "stored"
        return
    members["expression"] = cursor.group()
    members.setdefault("generated", "virtual")


def _stored(cursor: Cursor, members: Members) -> None:
    word = cursor.tokens[cursor.at - 1].upper
    if members.get("expression") is None:
        cursor.fail("an expression before it")
    members["generated"] = "virtual" if word == "VIRTUAL" else "stored"


def _auto_increment(cursor: Cursor, members: Members) -> None:
    members["auto_increment"] = True


def _auto_random(cursor: Cursor, members: Members) -> None:
    """TiDB takes it only in a table's primary key from the start, so it numbers no rows that exist."""
    cursor.numbers(2)


def _serial(cursor: Cursor, members: Members) -> None:
    cursor.need("DEFAULT")
    cursor.need("VALUE")
    members.update(not_null=True, unique=True, auto_increment=True)


def _constraint(cursor: Cursor, members: Members) -> None:
    if cursor.upper not in ("CHECK", "REFERENCES"):
        cursor.name("a constraint's name")
    if cursor.need_one("CHECK", "REFERENCES") == "CHECK":
        _check(cursor, members)
    else:
        _references(cursor, members)


def _check(cursor: Cursor, members: Members) -> None:
    read_check(cursor)


def _references(cursor: Cursor, members: Members) -> None:
    read_references(cursor)


def _with(cursor: Cursor, members: Members) -> None:
    if cursor.take("COMPRESSION_DICTIONARY"):  # of Percona Server
        cursor.name("a dictionary's name")
        return
    cursor.need("SYSTEM")
    cursor.need("VERSIONING")


def _compressed(cursor: Cursor, members: Members) -> None:
    if cursor.take("="):
        cursor.name("a method")


def _one_value(cursor: Cursor, members: Members) -> None:
    cursor.take("=")
    if cursor.kind not in ("word", "string", "number"):
        cursor.fail("a value")
    cursor.at += 1


def _nothing(cursor: Cursor, members: Members) -> None:
    pass


_ATTRIBUTES: dict[str, Callable[[Cursor, Members], None]] = {
    "NOT": _not,
    "NULL": _null,
    "DEFAULT": _default,
    "ON": _on_update,
    "KEY": _key,
    "PRIMARY": _primary,
    "UNIQUE": _unique,
    "COMMENT": _comment,
    "COLLATE": _collate,
    "CHARACTER": _charset,
    "CHARSET": _charset,
    "GENERATED": _generated,
    "AS": _as,
    "STORED": _stored,
    "VIRTUAL": _stored,
    "PERSISTENT": _stored,
    "AUTO_INCREMENT": _auto_increment,
    "AUTO_RANDOM": _auto_random,
    "SERIAL": _serial,
    "CONSTRAINT": _constraint,
    "CHECK": _check,
    "REFERENCES": _references,
    "WITH": _with,
    "WITHOUT": _with,
    "COMPRESSED": _compressed,
    "BINARY": _nothing,  # these are of the type, and stand behind MariaDB's COMPRESSED
    "ASCII": _charset,
    "UNICODE": _charset,
    "BYTE": _charset,
    "INVISIBLE": _nothing,
    "VISIBLE": _nothing,
    "SRID": _one_value,
    "REF_SYSTEM_ID": _one_value,
    "COLUMN_FORMAT": _one_value,
    "STORAGE": _one_value,
    "ENGINE_ATTRIBUTE": _one_value,
    "SECONDARY_ENGINE_ATTRIBUTE": _one_value,
}
