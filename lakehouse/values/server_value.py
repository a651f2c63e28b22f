"""A stored value by the kind that the server computes with, and how each kind converts to a number or text.

MODIFY COLUMN and DEFAULT store a value of one kind into a column of another. `Cell` is the value before that:
numbers are Python's, a FLOAT is a Single (it prints with six digits), dates, times, labels, bits and JSON
have a small tuple each. The servers differ in a few places, named where they do: MariaDB cuts where MySQL and
TiDB round; TiDB never prints an exponent.

The rules are those of MySQL's `Copy_field::get_copy_func` and `Field_*::store`, of TiDB's `Datum.ConvertTo`,
and what a MariaDB 11.4 was seen to do (tests/data/conversions.jsonl).
"""

import json
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple

from lakehouse.values.mysql_json import printed
from lakehouse.values.normal_form import address_text, duration_text, fraction, single
from lakehouse.values.temporal import Moment, day_text, moment_text, moment_to_digits, to_digits

WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
_ONE = Decimal(1)
_SPACES = " \t\n\v\f\r"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = 1 << 63


class NoRule(Exception):
    """A conversion that no rule decides; the message says why, and never has the value."""


class Single(float):
    """A FLOAT column's value."""


class Fixed(float):
    """A value of a FLOAT(M,D) or DOUBLE(M,D) column, which prints with D digits behind the point."""

    scale: int

    def __new__(cls, value: float, scale: int) -> "Fixed":
        found = super().__new__(cls, value)
        found.scale = scale
        return found


class Dated(NamedTuple):
    """A DATE (digits is None), DATETIME or TIMESTAMP, in local time."""

    moment: Moment
    digits: int | None


class Span(NamedTuple):
    """A TIME."""

    micros: int
    digits: int


UNNUMBERED = -1


class Label(NamedTuple):
    """An ENUM or SET value: its index or mask (UNNUMBERED where the type's labels are not known), and its
    text.
    """

    number: int
    text: str


class Bits(NamedTuple):
    """A BIT(width) value."""

    value: int
    width: int


class Document(NamedTuple):
    """A JSON value's text."""

    text: str


class Address(NamedTuple):
    """An INET4, INET6 or UUID: its type and its bytes."""

    base: str
    data: bytes


Cell = int | float | Decimal | str | bytes | Dated | Span | Label | Bits | Document | Address


# --- as a number


def as_integer(cell: Cell, server: str) -> int:
    """The whole number that a cell stores into an integer column, before the column's range."""
    match cell:
        case int():
            return cell
        case Decimal():
            whole = int(cell.quantize(_ONE, context=WIDE))
            return _within_int64(whole) if server == "mysql" else whole
        case float():
            whole = int(Decimal(cell).to_integral_value(ROUND_HALF_EVEN))
            return whole if server == "tidb" else _within_int64(whole)
        case str() | bytes():
            return _text_integer(plain_text(cell), server)
        case Dated() | Span():
            return int(as_decimal(_whole_seconds(cell, server)))
        case Document():
            return as_integer(scalar(cell), server)
        case Label(number, _):
            if number == UNNUMBERED:
                raise NoRule("labels without their numbers")
            return number
        case Bits(value, _):
            return value
        case Address():
            raise NoRule("an address as a number")


def as_decimal(cell: Cell) -> Decimal:
    """The exact number a cell stores into a DECIMAL column, before the column's scale."""
    match cell:
        case int():
            return Decimal(cell)
        case Decimal():
            return cell
        case float():
            return Decimal(repr(float(cell)))
        case str() | bytes():
            found = _NUMBER.match(plain_text(cell).lstrip(_SPACES))
            return Decimal(found[0]) if found else Decimal(0)
        case Dated(moment, digits):
            day = moment.year * 10000 + moment.month * 100 + moment.day
            return (
                Decimal(day)
                if digits is None
                else Decimal(day * 1_000_000 + _clock(moment)) + Decimal(moment.micro).scaleb(-6)
            )
        case Span(micros, _):
            seconds, micro = divmod(abs(micros), 1_000_000)
            number = Decimal(seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60) + Decimal(
                micro
            ).scaleb(-6)
            return -number if micros < 0 else number
        case Document():
            return as_decimal(scalar(cell))
        case _:
            return Decimal(as_integer(cell, "mysql"))


def as_real(cell: Cell) -> float:
    """The double a cell stores into a FLOAT or DOUBLE column."""
    return float(cell) if isinstance(cell, float) else float(as_decimal(cell))


def _clock(moment: Moment) -> int:
    return moment.hour * 10000 + moment.minute * 100 + moment.second


def _whole_seconds(cell: Dated | Span, server: str) -> Cell:
    if isinstance(cell, Span) and server == "tidb":  # halves go up, of negative times too
        return Span((cell.micros + 500_000) // 1_000_000 * 1_000_000, 0)
    rounds = server != "mariadb"
    if isinstance(cell, Span):
        return Span(to_digits(cell.micros, 0, rounds=rounds), 0)
    return Dated(rounded(cell.moment, 0, rounds=rounds), cell.digits)


def rounded(moment: Moment, digits: int, *, rounds: bool) -> Moment:
    """The moment with so many fraction digits."""
    try:
        return moment_to_digits(moment, digits, rounds=rounds)
    except ValueError:
        raise NoRule("rounding leaves the calendar") from None


def _text_integer(text: str, server: str) -> int:
    """MariaDB reads the whole digits (`1.9` is 1) as a signed number of 64 bits, MySQL and TiDB the number,
    rounded (2). Of spaces MySQL skips blanks and tabs alone.
    """
    text = text.lstrip(" \t" if server == "mysql" else _SPACES)
    found = (_INTEGER if server == "mariadb" else _NUMBER).match(text)
    if not found:
        return 0
    return (
        _within_int64(int(found[0]))
        if server == "mariadb"
        else int(Decimal(found[0]).quantize(_ONE, context=Context(prec=100_100, rounding=ROUND_HALF_UP)))
    )


def scalar(document: Document) -> Cell:
    """What a JSON document is outside of JSON: a number, text, 0 or 1."""
    value = json.loads(document.text, parse_float=Decimal)
    if type(value) in (int, str, Decimal, bool):
        return int(value) if type(value) is bool else value
    raise NoRule("a JSON null, array or object has no value in this type")


def _within_int64(number: int) -> int:
    return max(-_INT64, min(number, _INT64 - 1))


# --- as text


def plain_text(cell: str | bytes) -> str:
    """Text as it is, bytes as one character each."""
    return cell if isinstance(cell, str) else cell.decode("latin-1")


def as_text(cell: Cell, server: str) -> str:
    """The text a cell stores into a text column, before the column's length."""
    match cell:
        case str() | bytes():
            return plain_text(cell)
        case float():
            return real_text(cell, server)
        case Decimal():
            return f"{cell:f}"
        case Dated(moment, digits):
            return day_text(moment) if digits is None else moment_text(moment, digits)
        case Span(micros, digits):
            return fraction(duration_text(micros), digits)
        case Label(_, text):
            return text
        case Document(text):
            return printed(text) if server == "mysql" else text
        case Address(base, data):
            return address_text(base, data)
        case _:
            return str(as_integer(cell, server))


def real_text(number: float, server: str) -> str:
    """A FLOAT or DOUBLE as text: MySQL and MariaDB print a FLOAT with six digits and use an exponent outside
    1e-15…1e15, but for a number with digits behind its point.
    """
    if isinstance(number, Fixed):
        told = Decimal(repr(float(number)))
        # the shortest digits that tell the number, if they are no more than its type has (run)
        fits = -int(told.normalize().as_tuple().exponent) <= number.scale
        return f"{told:.{number.scale}f}" if fits else f"{number:.{number.scale}f}"
    shortest = repr(float(number))
    if isinstance(number, Single):
        shortest = repr(single(number)) if server == "tidb" else f"{number:.6g}"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    point = len(mantissa) + int(exponent)
    minus = "-" if sign and number else ""
    if server == "tidb" or -15 < point <= 15 or 0 < point < len(mantissa) or not number:
        return minus + f"{abs(Decimal(shortest)).normalize():f}"
    rest = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{minus}{mantissa[0]}{rest}e{point - 1}"


def is_json(text: Any) -> bool:
    """Whether text is a JSON document."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(_: str) -> None:
    raise ValueError("not JSON")
