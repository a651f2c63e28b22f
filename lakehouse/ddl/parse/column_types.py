"""The type of a column definition, in every spelling of MySQL, MariaDB and TiDB; other spellings are refused.

Integers lose their display width (but TINYINT(1) keeps it, for it says BOOL), CHAR, BINARY, BIT and DECIMAL
get the length they have without one, FLOAT(30) is DOUBLE, and text of charset binary is the binary type it is
stored as.
"""

from dataclasses import replace

from lakehouse.ddl.parse.tokens import Cursor
from lakehouse.errors import DdlError
from lakehouse.schema import BINARIES, GEOMETRIES, INTEGERS, SYNONYMS, TEXTS, ColumnType, is_possible

_PLAIN = (
    "date",
    "json",
    "tinytext",
    "mediumtext",
    "longtext",
    "tinyblob",
    "mediumblob",
    "longblob",
    "inet4",
    "inet6",
    "uuid",
    *GEOMETRIES,
)
_FRACTIONS = ("datetime", "timestamp", "time")
_WITHOUT_LENGTH = {"char": 1, "binary": 1, "bit": 1}
_BINARY_FORM = dict(zip(TEXTS, BINARIES, strict=True))
_NATIONAL = {"nchar": "char", "nvarchar": "varchar"}


def read_type(cursor: Cursor) -> ColumnType:
    """The type at the cursor, with its UNSIGNED, ZEROFILL and charset."""
    start = cursor.at
    if cursor.kind != "word":
        cursor.fail("a type")
    found = _of_base(cursor, _base(cursor))
    if found is None or not is_possible(found.base, found.length, found.scale):
        cursor.at = start
        cursor.fail("a known type")
    return _attributes(cursor, found)


def _base(cursor: Cursor) -> str:
    """The type word after synonyms; "bool" and "serial" stay, since they say more than a type."""
    cursor.take("MARIADB_SCHEMA", ".")  # MariaDB's own type of a name that means another in some sql_mode
    word = cursor.upper
    cursor.at += 1
    if word == "LONG":
        return _long(cursor)
    if word == "NATIONAL":
        word = cursor.need_one("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER")
    if word in ("CHAR", "CHARACTER", "NCHAR") and cursor.take_one("VARYING", "VARCHAR", "VARCHARACTER"):
        return "varchar"
    if word in ("DOUBLE", "FLOAT8", "REAL"):
        cursor.take("PRECISION")
    folded = word.lower()
    if folded in ("bool", "boolean", "serial"):
        return folded[:4] if folded != "serial" else folded
    return _NATIONAL.get(folded) or {"varcharacter": "varchar"}.get(folded) or SYNONYMS.get(folded, folded)


def _long(cursor: Cursor) -> str:
    if cursor.take("VARBINARY"):
        return "mediumblob"
    if cursor.ahead("CHAR", "SET") or cursor.ahead("CHARACTER", "SET"):
        pass
    elif cursor.take_one("CHAR", "CHARACTER"):
        cursor.need("VARYING")
    else:
        cursor.take_one("VARCHAR", "VARCHARACTER")
    return "mediumtext"


def _of_base(cursor: Cursor, base: str) -> ColumnType | None:
    if base in INTEGERS:
        return ColumnType(base, next(iter(cursor.numbers(1)), None))
    if base in ("bool", "serial"):
        return ColumnType("tinyint", 1) if base == "bool" else ColumnType("bigint", unsigned=True)
    if base in ("decimal", "float", "double"):
        return _number(cursor, base)
    if base in ("enum", "set"):
        return ColumnType(base, members=_members(cursor))
    if base == "vector":
        return _vector(cursor)
    if base in _PLAIN:
        return ColumnType(base)
    if base in ("char", "varchar", "binary", "varbinary", "bit", "text", "blob", "year", *_FRACTIONS):
        return _sized(cursor, base)
    return None


def _sized(cursor: Cursor, base: str) -> ColumnType | None:
    length = next(iter(cursor.numbers(1)), None)
    if base in ("varchar", "varbinary") and length is None:
        cursor.fail("a length")
    if base in (*_FRACTIONS, "text", "blob"):
        return ColumnType(base, length or None)
    if base == "bit":
        length = length or None  # BIT(0) is BIT(1)
    return ColumnType(base, _WITHOUT_LENGTH.get(base) if length is None else length)


def _number(cursor: Cursor, base: str) -> ColumnType:
    found = cursor.numbers(2)
    if base == "decimal":
        precision, scale = [*found, *(10, 0)[len(found) :]]
        return ColumnType(base, precision or 10, scale)
    if len(found) == 2:
        return ColumnType(base, found[0], found[1])
    if base == "float" and found:
        return ColumnType("double" if found[0] > 24 else "float")
    return ColumnType(base)


def _members(cursor: Cursor) -> tuple[str, ...]:
    cursor.need("(")
    found = [_member(cursor)]
    while cursor.take(","):
        found.append(_member(cursor))
    cursor.need(")")
    return tuple(found)


def _member(cursor: Cursor) -> str:
    """A label, without the spaces that end it, which servers cut."""
    token = cursor.token
    if token is not None and token.kind == "literal":
        cursor.at += 1
        try:
            return _literal_bytes(token.text).decode().rstrip(" ")
        except ValueError as error:
            raise DdlError(
                f"character {token.start + 1}: expected a label in UTF-8, got other bytes"
            ) from error
    if token is not None and token.upper.startswith("_"):
        cursor.at += 1
    return cursor.string("a label in quotes").rstrip(" ")


def _literal_bytes(text: str) -> bytes:
    """The bytes of x'61', 0x61, b'1100001' or 0b1100001."""
    digits = text[2:].removesuffix("'")
    if text[0] in "bB" or text[:2] in ("0b", "0B"):
        return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")
    return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))


def _vector(cursor: Cursor) -> ColumnType:
    if cursor.take("<"):
        cursor.need("FLOAT")
        cursor.need(">")
    return ColumnType("vector", next(iter(cursor.numbers(1)), None))


def _attributes(cursor: Cursor, found: ColumnType) -> ColumnType:
    numeric = found.family in ("integer", "decimal", "float", "double", "year")
    while True:
        if found.family == "year" and cursor.take_one("UNSIGNED", "ZEROFILL"):
            pass
        elif numeric and (word := cursor.take_one("UNSIGNED", "ZEROFILL")):
            found = replace(found, unsigned=True, zerofill=found.zerofill or word == "ZEROFILL")
        elif numeric and cursor.take("SIGNED"):
            pass
        elif not numeric and (charset := read_charset(cursor)):
            found = with_charset(found, charset)
        elif numeric or not cursor.take("BINARY"):
            return _without_width(found)


def _without_width(found: ColumnType) -> ColumnType:
    """An integer's width matters to ZEROFILL alone; TINYINT(1) keeps it, for it says BOOL."""
    if found.family != "integer" or found.zerofill or (found.base, found.length) == ("tinyint", 1):
        return found
    return replace(found, length=None)


def read_charset(cursor: Cursor) -> str | None:
    """`CHARACTER SET utf8mb4` or one of its short forms, in lower case; "default" where it says DEFAULT."""
    short = cursor.take_one("ASCII", "UNICODE", "BYTE")
    if short:
        return {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}[short]
    if cursor.take("CHARSET") or cursor.take("CHARACTER", "SET") or cursor.take("CHAR", "SET"):
        cursor.take("=")
        return charset_name(cursor)
    return None


def charset_name(cursor: Cursor) -> str:
    if cursor.kind == "string":
        return cursor.string("a charset").lower()
    return cursor.name("a charset", reserved=cursor.upper in ("BINARY", "DEFAULT")).lower()


def with_charset(found: ColumnType, charset: str | None) -> ColumnType:
    """The type as a column of that charset has it: text of charset binary is a binary type; other types have
    none. `utf8` is an older name of utf8mb3.
    """
    if charset == "binary" and found.base in _BINARY_FORM:
        return replace(found, base=_BINARY_FORM[found.base], charset=None)
    if charset in (None, "default") or found.family not in ("text", "enum", "set"):
        return found
    return replace(found, charset="utf8mb3" if charset == "utf8" else charset)
