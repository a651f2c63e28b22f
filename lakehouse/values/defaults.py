"""The value that existing rows get at ADD COLUMN, which no row event shows.

A literal is stored as the server stores it (`DEFAULT '5'` is 5 in an INT, `1.5` is 2), and comes out
canonical: decimals with their scale, labels, TIMESTAMP in UTC out of the session's `zone`. Without a default
a column is NULL, or its type's implicit default under NOT NULL. UNKNOWABLE is what each row, or the moment of
the statement, decides: CURRENT_TIMESTAMP, UUID(), RAND(), AUTO_INCREMENT, any expression; `default_reason`
says why.
"""

import functools
import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.schema import ColumnType, unquote
from lakehouse.values.charsets import LOST, charset_codec
from lakehouse.values.convert import UNKNOWABLE
from lakehouse.values.normal_form import ADDRESS_SIZES, address_text, vector_text
from lakehouse.values.server_value import Cell, Label, NoRule
from lakehouse.values.store_assignment.labels import error_value
from lakehouse.values.store_assignment.stores import STORES, store_of
from lakehouse.values.store_assignment.target import Target

_NUMBER = re.compile(r"([+-]?)\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.I | re.ASCII)
_BITS = re.compile(r"(?:b'([01]*)'|0b([01]+))", re.I)
_HEX = re.compile(r"(?:x'([0-9a-f]*)'|0x([0-9a-f]+))", re.I)
_STRING = re.compile(r"""(?:'((?:[^'\\]|''|\\.)*)'|"((?:[^"\\]|""|\\.)*)")""", re.S)
_INTRODUCER = re.compile(r"(?:_([a-z0-9]+)|(n)(?=')|(date|time|timestamp)(?=[\s'\"]))\s*", re.I)
# of a name without quotes, or of one in the quotes of a string that follows another one
_COLLATE = re.compile(r"""\s+collate\s+(?:\w+|`\w+`)\Z|(?<=['"])\s+collate\s+(['"])\w+\1\Z""", re.I)
_OFFSET = re.compile(r":\d\d(?:\.\d+)?\s*(?:[+-]\d\d:\d\d|Z)\Z", re.ASCII)
_WORDS: dict[str, Cell] = {"TRUE": 1, "FALSE": 0, "JSON_ARRAY()": "[]", "JSON_OBJECT()": "{}"}
_IMPLICIT: dict[str, Cell] = {
    **dict.fromkeys(("integer", "bit", "year", "decimal", "float", "double", "time"), 0),
    **dict.fromkeys(("text", "date", "datetime", "timestamp"), ""),
    "binary": b"",
    "set": Label(0, ""),
    "json": "null",
}


class _Literal(NamedTuple):
    """A literal's cell, and whether it is a number, which servers store by value."""

    cell: Cell
    number: bool


def default_value(
    sql_text: str | None,
    column_type: ColumnType,
    not_null: bool,
    zone: str | None = "UTC",
    *,
    server: str = "mysql",
) -> Any:
    """The canonical value of existing rows in a new column, or UNKNOWABLE. `server` and `zone` are as in
    `convert`.
    """
    try:
        return _stored(sql_text, column_type, not_null, zone, server=server)
    except NoRule:
        return UNKNOWABLE


def default_reason(
    sql_text: str | None,
    column_type: ColumnType,
    not_null: bool,
    zone: str | None = "UTC",
    *,
    server: str = "mysql",
) -> str | None:
    """Why `default_value` gives UNKNOWABLE, None where it doesn't."""
    try:
        _stored(sql_text, column_type, not_null, zone, server=server)
    except NoRule as why:
        return str(why)
    return None


def zero_value(column_type: ColumnType, *, server: str) -> Any:
    """What NULL becomes where a column may hold it no more: the type's zero, '' in an ENUM. None where no
    rule decides it, as for a TIMESTAMP, which gets the time of the statement.
    """
    if column_type.family == "enum":
        return error_value(column_type.members)
    if column_type.family not in _IMPLICIT or column_type.family == "timestamp":
        return None
    return _implicit(column_type, server)


@functools.lru_cache(maxsize=4096)
def _stored(
    sql_text: str | None, column_type: ColumnType, not_null: bool, zone: str | None, server: str
) -> Any:
    text = None if sql_text is None else _bare(sql_text)
    if text is not None and text.upper() == "NULL":
        return None
    if text is None:
        return _implicit(column_type, server) if not_null else None
    literal = _literal(text, column_type)
    if literal is None:
        raise NoRule(f"the default is an expression: {text}")
    return _store(literal, column_type, zone, server)


def _bare(text: str) -> str:
    """Without the parentheses around the whole of it."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and _closes_last(text):
        text = text[1:-1].strip()
    return text


def _closes_last(text: str) -> bool:
    depth = 0
    for place, char in enumerate(_STRING.sub(lambda found: "x" * len(found[0]), text)):
        depth += (char == "(") - (char == ")")
        if not depth:
            return place == len(text) - 1
    return False


def _implicit(column_type: ColumnType, server: str) -> Any:
    if column_type.family == "enum":
        return column_type.members[0] if column_type.members else ""
    if column_type.base in ADDRESS_SIZES:
        return address_text(column_type.base, bytes(ADDRESS_SIZES[column_type.base]))
    if column_type.family not in _IMPLICIT:
        raise NoRule(f"{column_type.family} has no implicit default")
    if column_type.family == "json" and server == "mariadb":
        return ""  # JSON is text there
    return STORES[column_type.family](
        _IMPLICIT[column_type.family], Target(column_type, server, "UTC", "utf-8")
    )


def _store(literal: _Literal, column_type: ColumnType, zone: str | None, server: str) -> Any:
    family = column_type.family
    if family == "vector" and isinstance(literal.cell, str):
        return _vector(literal.cell)
    store = store_of(column_type)
    if store is None:
        raise NoRule(f"a default of {family}")
    local = ("date", "time", "datetime", "timestamp") if server == "tidb" else ("datetime", "timestamp")
    if family in local and isinstance(literal.cell, str) and _OFFSET.search(literal.cell):
        raise NoRule("a literal with a time zone")
    # "tidb" stores numbers by value and rounds, as every server does with a literal; in an integer column
    # MariaDB rounds a quoted one too. As text a number is what its server prints
    by_value = literal.number and not (family == "text" and isinstance(literal.cell, float))
    if server == "mariadb" and family in ("time", "datetime", "timestamp"):
        by_value = False  # it cuts what its type has no fraction digits for, of a number too (run)
    rules = "tidb" if by_value else "mysql" if family == "integer" else server
    codec = charset_codec(column_type.charset)
    target = Target(column_type, rules, zone or "UTC", codec, checked=True)
    # TiDB keeps a YEAR's default as text, and '0' is the year 2000
    is_text_year = family == "year" and server == "tidb" and isinstance(literal.cell, int)
    cell = str(literal.cell) if is_text_year else literal.cell
    value = store(_kept_as_json(cell) if server == "tidb" and isinstance(cell, bytes) else cell, target)
    if family == "timestamp" and zone is None and value.endswith("Z"):
        raise NoRule("the session's time zone is not known")
    return value


def _kept_as_json(data: bytes) -> bytes:
    """TiDB keeps a table's definition as JSON: each byte of a default that is no UTF-8 is U+FFFD there."""
    return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape")).encode()


def _vector(text: str) -> str:
    try:
        return vector_text([float(number) for number in json.loads(text)])
    except (ValueError, TypeError):
        raise NoRule("not a vector") from None


# --- SQL literal -> cell


def _literal(text: str, column_type: ColumnType) -> _Literal | None:
    """The cell of a literal, None for an expression."""
    text = _COLLATE.sub("", text)
    word = _WORDS.get(text.upper().replace(" ", ""))
    if word is not None:
        return _Literal(word, isinstance(word, int))
    if number := _NUMBER.fullmatch(text):
        return _Literal(_number(number[1] + number[2]), True)
    introducer = _INTRODUCER.match(text)
    charset = introducer[1] if introducer else None
    rest = text[introducer.end() :] if introducer else text
    if (bits := _BITS.fullmatch(rest)) is not None:
        digits = bits[1] or bits[2] or ""
        return _bytes_literal(
            int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big"), charset, column_type
        )
    if (digits_found := _HEX.fullmatch(rest)) is not None:
        digits = digits_found[1] or digits_found[2] or ""
        return _bytes_literal(
            bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), charset, column_type
        )
    return _string_literal(rest, charset, column_type)


def _number(text: str) -> Cell:
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _bytes_literal(data: bytes, charset: str | None, column_type: ColumnType) -> _Literal:
    """Bytes are a number where the column holds numbers, an address's own where it holds one, text of their
    charset where it holds text or labels.
    """
    if column_type.family in ("integer", "bit", "decimal", "float", "double", "year"):
        return _Literal(int.from_bytes(data, "big"), True)
    codec = charset_codec(charset or column_type.charset)
    is_bytes = column_type.family == "binary" or column_type.base in ADDRESS_SIZES
    if is_bytes or codec is None or (charset or "").lower() == "binary":
        return _Literal(data, False)
    try:
        return _Literal(data.decode(codec), False)
    except UnicodeDecodeError:
        raise NoRule("bytes that are no text of their charset") from None


def _string_literal(text: str, charset: str | None, column_type: ColumnType) -> _Literal | None:
    """One or more quoted strings, which stand for their concatenation. In a BIT column a string is
    its bytes.
    """
    parts, place = [], 0
    while found := _STRING.match(text, place):
        parts.append(
            unquote(found[1]) if found[1] is not None else unquote((found[2] or "").replace('""', '"'))
        )
        place = found.end()
        place += len(text[place:]) - len(text[place:].lstrip())
    if not parts or place < len(text):
        return None
    value = "".join(parts)
    if LOST in value:  # a reader of the binlog took a session's charset for UTF-8
        raise NoRule("characters of its text are lost in the statement's message")
    if column_type.family == "bit":
        return _Literal(int.from_bytes(value.encode(), "big"), True)
    if column_type.family == "binary" and charset is None:
        return _Literal(value.encode(), False)
    if column_type.family in ("text", "enum", "set") and _is_reread(value, (charset or "utf8").lower()):
        raise NoRule("text whose bytes are read by another charset than the statement's")
    return _Literal(value, False)


def _is_reread(value: str, charset: str) -> bool:
    """Whether `_latin1'é'` may be another text than the one in quotes: bytes of the statement's charset."""
    is_wide = charset.startswith(("ucs2", "utf16", "utf32"))
    return is_wide or not (value.isascii() or charset.startswith(("utf8", "binary")))
