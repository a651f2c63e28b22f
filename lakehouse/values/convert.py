"""Conversion of existing values at MODIFY COLUMN, which no row event shows.

    canonical value ──read──▶ cell ──store──▶ canonical value of the new type, or UNKNOWABLE

A strict sql_mode refuses an ALTER whose data does not fit, so a value that doesn't fit was met by a lax one
and is clipped as the server clips it. UNKNOWABLE is what no rule decides (a TIME's date, bytes that are no
text of the charset, a value that is none of its old type); `reason` says why. None stays None.

`server` is the one whose rules hold, for they differ: "mysql" (the default), "mariadb" or "tidb". MySQL and
TiDB round what MariaDB cuts (fraction digits, `'1.9'` to INT); TiDB prints floats without an exponent. For
TiCDC's formats stands what a TiDB made of each value (tests/data/conversions-tidb.jsonl). A label in another
case or with other accents is UNKNOWABLE: a column's collation decides, which no message tells. `zone` is the
session's time zone, which a change between TIMESTAMP and local time depends on; None makes such a change
UNKNOWABLE.
"""

import functools
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

from lakehouse.schema import ColumnType
from lakehouse.values.charsets import bytes_codec, charset_codec
from lakehouse.values.normal_form import PRINTED, Rule, address_bytes, bytes_of
from lakehouse.values.server_value import (
    UNNUMBERED,
    Address,
    Bits,
    Cell,
    Dated,
    Document,
    Fixed,
    Label,
    NoRule,
    Single,
    Span,
    as_real,
)
from lakehouse.values.store_assignment.labels import labels_mask
from lakehouse.values.store_assignment.stores import store_of
from lakehouse.values.store_assignment.target import Target
from lakehouse.values.temporal import read_duration, read_moment, to_local


class _Unknowable:
    """The mark of a value that no rule decides. There is one."""

    def __repr__(self) -> str:
        return "UNKNOWABLE"


UNKNOWABLE: Final = _Unknowable()

Converted = Any  # a canonical value, or UNKNOWABLE


def convert(
    value: Any, old: ColumnType, new: ColumnType, *, server: str = "mysql", zone: str | None = "UTC"
) -> Converted:
    """The canonical value of the new type that an existing row's value becomes."""
    rule = compile_convert(old, new, server=server, zone=zone)
    return value if rule is None else rule(value)


def reason(
    value: Any, old: ColumnType, new: ColumnType, *, server: str = "mysql", zone: str | None = "UTC"
) -> str | None:
    """Why `convert` gives UNKNOWABLE for this value, None where it doesn't. The text never holds
    the value.
    """
    if value is None or is_identity(old, new):
        return None
    try:
        _steps(old, new, server, zone)(value)
    except NoRule as why:
        return str(why)
    return None


_NUMBERS_AND_DATES = (
    *("integer", "bit", "decimal", "float", "double", "year"),
    *("date", "datetime", "timestamp", "time"),
)


def may_be_unknowable(old: ColumnType, new: ColumnType, *, server: str) -> bool:
    """Whether a value of the old type may have none in the new one by any rule: where this is False, only
    what is no value of the old type is UNKNOWABLE, or what no calendar has.
    """
    if server == "mariadb":
        old, new = _plain(old), _plain(new)
    if is_identity(old, new):
        return False
    if old.family == "time" and new.family in ("date", "datetime", "timestamp"):
        return True
    if old.family == "bit" and new.family == "text":
        return True
    if new.family in ("enum", "set") and (server == "tidb" or old.family not in _NUMBERS_AND_DATES):
        return True
    if server == "mariadb" and new.family == "timestamp" and old.family != "timestamp":
        return True
    return not (_is_always_read(old) and _is_always_stored(new))


def _is_always_read(old: ColumnType) -> bool:
    known = charset_codec(old.charset) is not None and old.base not in PRINTED
    return old.family in _NUMBERS_AND_DATES or (
        known and (old.family == "text" or (old.family in ("enum", "set") and bool(old.members)))
    )


def _is_always_stored(new: ColumnType) -> bool:
    known = charset_codec(new.charset) is not None and new.base not in PRINTED
    return new.family in (*_NUMBERS_AND_DATES, "binary") or (
        known and (new.family == "text" or (new.family in ("enum", "set") and bool(new.members)))
    )


@functools.lru_cache(maxsize=4096)
def compile_convert(
    old: ColumnType, new: ColumnType, *, server: str = "mysql", zone: str | None = "UTC"
) -> Rule | None:
    """`convert` for one change of type; None where it changes no value."""
    if is_identity(old, new):
        return None
    steps = _steps(old, new, server, zone)

    def rule(value: Any) -> Converted:
        if value is None:
            return None
        try:
            return steps(value)
        except NoRule:
            return UNKNOWABLE

    return rule


def _steps(old: ColumnType, new: ColumnType, server: str, zone: str | None) -> Rule:
    """Read, then store. MariaDB's JSON is text. Between two TIMESTAMPs no zone matters; between TIMESTAMP and
    anything else the session's does.
    """
    if server == "mariadb":
        old, new = _plain(old), _plain(new)
    one_sided = (old.family == "timestamp") != (new.family == "timestamp")
    read, store = reader(old, (zone if one_sided else "UTC") or "UTC", server), store_of(new)
    if one_sided and zone is None:
        return _no_rule("the session's time zone is not known")
    if old.family == new.family == "vector":
        return lambda value: _vector(value, new.length)
    if store is None or read is None or (old.family == "geometry" and not _keeps_geometry(new, server)):
        return _no_rule(f"no rule from {old.family} to {new.family}")
    # TiDB takes an offset in a text to the session's zone
    is_local = one_sided or (server == "tidb" and new.family != "timestamp")
    target = Target(new, server, (zone or "") if is_local else "UTC", bytes_codec(old.charset, server))

    def steps(value: Any) -> Any:
        try:
            return store(read(value), target)
        except (ValueError, TypeError, ArithmeticError, struct.error):
            raise NoRule(f"not a value of {old.family}") from None

    return steps


def _keeps_geometry(new: ColumnType, server: str) -> bool:
    """A geometry's bytes are bytes in BLOB, and in MariaDB text as far as they can be."""
    return new.family == "binary" or (
        server == "mariadb" and new.family == "text" and new.base not in PRINTED
    )


def _vector(value: Any, dimensions: int | None) -> Any:
    if type(value) is not str or value.count(",") + 1 != dimensions:
        raise NoRule("a vector of another number of dimensions")
    return value


def _plain(column_type: ColumnType) -> ColumnType:
    return ColumnType("longtext", charset="utf8mb4") if column_type.family == "json" else column_type


def _no_rule(text: str) -> Rule:
    def rule(_: Any) -> Any:
        raise NoRule(text)

    return rule


# --- changes that change nothing

_CAPACITY = {"tinytext": 255, "text": 65535, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1}
_WIDTH = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def is_identity(old: ColumnType, new: ColumnType) -> bool:
    """Whether every value keeps its canonical form, as a widening does. A type that nobody told has no form
    to lose.
    """
    if old == new or not old.base:
        return True
    if old.family != new.family:
        return False
    match old.family:
        case "integer":
            signs = old.unsigned or not new.unsigned
            return signs and _WIDTH[new.base] >= _WIDTH[old.base] + (old.unsigned and not new.unsigned)
        case "decimal":
            return _decimal_widens(old, new)
        case "text":
            return _text_widens(old, new)
        case "enum" | "set":
            # the error value is told from a member '' where there is one
            same = ("" in old.members) == ("" in new.members) or old.family == "set"
            return same and new.members[: len(old.members)] == old.members
        case "datetime" | "timestamp" | "time":
            return (old.length or 0) == (new.length or 0)
        case "bit":
            return (new.length or 1) >= (old.length or 1)
        case "json" | "vector":
            return new.length is None  # TiDB's VECTOR takes any number of dimensions
        case "geometry":
            return new.base == "geometry"
        case _:
            return False


def _decimal_widens(old: ColumnType, new: ColumnType) -> bool:
    if old.length is None or new.length is None or (new.unsigned and not old.unsigned):
        return False
    return (old.scale or 0) == (new.scale or 0) and new.length >= old.length


def _text_widens(old: ColumnType, new: ColumnType) -> bool:
    """Text is code points: only a shorter length, a charset that lacks some of them, or CHAR (it drops its
    last spaces) changes it.
    """
    if (
        new.charset not in (None, "utf8mb4", old.charset)
        or new.base not in _CHARACTERS | _CAPACITY.keys()
        or old.base not in _LENGTHS
    ):
        return False
    if new.base == "char" and old.base != "char":
        return False
    if new.base in _CHARACTERS:
        return old.base in _CHARACTERS and new.size >= old.size
    return (
        _CAPACITY[new.base] >= (old.length or 1) * 4
        if old.base in _CHARACTERS
        else _CAPACITY[new.base] >= _CAPACITY[old.base]
    )


_CHARACTERS = {"char", "varchar"}
_LENGTHS = _CHARACTERS | _CAPACITY.keys()

# --- canonical value -> cell


def reader(old: ColumnType, zone: str, server: str = "mysql") -> Callable[[Any], Cell] | None:
    """The rule that makes a canonical value of this type a cell; it raises ValueError or TypeError for what
    is none.
    """
    digits = old.length or 0
    match old.family:
        case "integer" if old.zerofill and server != "tidb":
            width = old.length or _ZEROFILL[old.base]
            return lambda value: _Zerofilled(_integer(value), width)
        case "decimal" if old.zerofill and server != "tidb":
            width = (old.length or 10) + bool(old.scale)
            return lambda value: _ZerofilledDecimal(Decimal(_text(value)), width)
        case "integer" | "year":
            return _integer if old.family == "integer" or server == "tidb" else _year
        case "text" if old.base in PRINTED:
            return functools.partial(_address, old.base)
        case "text":
            return _text
        case "bit":
            return lambda value: Bits(_integer(value), old.length or 1)
        case "datetime":
            return lambda value: Dated(read_moment(_text(value)), digits)
        case "timestamp":
            return lambda value: Dated(to_local(read_moment(_text(value).removesuffix("Z")), zone), digits)
        case "time":
            return lambda value: Span(read_duration(_text(value)), digits)
        case "enum" | "set":
            return functools.partial(_label, old)
        case "float" | "double" if old.scale is not None and server != "tidb":
            return functools.partial(_fixed, old.scale, _READERS[old.family])
        case family:
            return _READERS.get(family)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not an integer")
    return value


# the display width of an unsigned integer whose type names none
_ZEROFILL = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}


class _Zerofilled(int):
    """A value of a ZEROFILL column, which prints with as many digits as the column is wide. TiDB prints it as
    it is.
    """

    width: int

    def __new__(cls, value: int, width: int) -> "_Zerofilled":
        found = super().__new__(cls, value)
        found.width = width
        return found

    def __str__(self) -> str:
        return f"{int(self):0{self.width}d}"


class _ZerofilledDecimal(Decimal):
    """The same of a DECIMAL: as wide as its digits and their point."""

    width: int

    def __new__(cls, value: Decimal, width: int) -> "_ZerofilledDecimal":
        found = super().__new__(cls, value)
        found.width = width
        return found

    def __format__(self, spec: str, _: Context | None = None, /) -> str:
        return super().__format__(spec).zfill(self.width)


class _Year(int):
    """A YEAR, which prints with four digits; TiDB prints the year 0 with one."""

    def __str__(self) -> str:
        return f"{int(self):04}"


def _year(value: Any) -> int:
    return _Year(_integer(value))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not text")
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("not a number")
    return float(value)


def _fixed(scale: int, read: Callable[[Any], Cell], value: Any) -> float:
    return Fixed(as_real(read(value)), scale)


def _bytes(value: Any) -> bytes:
    data = bytes_of(_text(value))
    if data is None:
        raise ValueError("not base64")
    return data


def _address(base: str, value: Any) -> Address:
    data = address_bytes(base, _text(value))
    if data is None:
        raise ValueError(f"not an {base}")
    return Address(base, data)


def _label(column_type: ColumnType, value: Any) -> Label | str:
    """A SET of no labels is empty text, which may be a label of an ENUM; an ENUM's error value is not."""
    if type(value) is int and value == 0 and column_type.family == "enum":
        return Label(0, "")
    text, members = _text(value), column_type.members
    words = text.split(",") if column_type.family == "set" else [text]
    if not members:
        return Label(UNNUMBERED, text)
    if text and not all(word in members for word in words):
        raise ValueError("not a label")
    if column_type.family == "set":
        return text and Label(labels_mask(words, members), text)
    return Label(members.index(text) + 1 if text in members else 0, text)


_READERS: dict[str, Callable[[Any], Cell]] = {
    "decimal": lambda value: Decimal(_text(value)),
    "float": lambda value: Single(struct.unpack("<f", struct.pack("<f", _real(value)))[0]),
    "double": _real,
    "binary": _bytes,
    "geometry": _bytes,
    "date": lambda value: Dated(read_moment(_text(value)), None),
    "json": lambda value: Document(_text(value)),
}
