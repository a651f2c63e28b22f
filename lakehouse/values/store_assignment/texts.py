"""Storing a cell into a column (SQL's store assignment): the canonical value that the column then has,
clipped as under a lax sql_mode.

One function per family of the new type, reached through STORES. Each raises NoRule for what no rule decides.
"""

import codecs
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.schema import INTEGER_BITS, ColumnType
from lakehouse.values.charsets import charset_codec
from lakehouse.values.mysql_json import stored
from lakehouse.values.normal_form import (
    ADDRESS_SIZES,
    address_bytes,
    address_text,
    duration_text,
    fraction,
    single,
    text_of,
)
from lakehouse.values.server_value import (
    WIDE,
    Address,
    Bits,
    Cell,
    Dated,
    Document,
    Label,
    NoRule,
    Single,
    Span,
    as_decimal,
    as_integer,
    as_real,
    as_text,
    is_json,
    rounded,
)
from lakehouse.values.temporal import (
    MAX_DURATION,
    ZERO,
    Moment,
    day_text,
    duration_of_number,
    moment_of_number,
    moment_text,
    parse_duration,
    parse_moment,
    time_of_day,
    to_digits,
    to_utc,
)

_MAX_SINGLE = 3.4028234663852886e38
_LAST_NUMBER = 99991231235959
_TIERS = {"tiny": 255, "": 65535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}


class Target(NamedTuple):
    """What a store needs besides the cell: the column, the server's rules, the session's time zone, and the
    codec of the old column's text.
    """

    type: ColumnType
    server: str
    zone: str
    codec: str | None

    @property
    def rounds(self) -> bool:
        return self.server != "mariadb"


# --- numbers


def store_integer(cell: Cell, target: Target) -> int:
    """Within the column's range; a negative number is 0 in an unsigned one."""
    bits = INTEGER_BITS[target.type.base]
    low, high = (0, (1 << bits) - 1) if target.type.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)
    return int(max(low, min(as_integer(cell, target.server), high)))


def store_bit(cell: Cell, target: Target) -> int:
    """All ones for a number that doesn't fit, negative ones too. Text gives its whole digits."""
    width = target.type.length or 1
    number = as_integer(cell, "mariadb" if isinstance(cell, str | bytes) else target.server)
    if number < 0 and isinstance(cell, Decimal) and target.server == "mariadb":
        return 0
    if number < 0:
        number += 1 << 64
    return int(min(number, (1 << width) - 1))


def store_decimal(cell: Cell, target: Target) -> str:
    """Rounded half away from zero to the column's scale, then clipped to its precision."""
    precision, scale = target.type.length or 10, target.type.scale or 0
    unit = Decimal((0, (1,), -scale))
    bound = Decimal((0, (9,) * precision, -scale))
    number = max(bound.copy_negate(), min(as_decimal(cell), bound)).quantize(unit, context=WIDE)
    if number < 0 and target.type.unsigned:
        number = number.copy_abs() * 0
    return f"{number.quantize(unit, context=WIDE) if number else abs(number):f}"


def store_real(cell: Cell, target: Target) -> float:
    """FLOAT and DOUBLE, with the digits and the bound of an old-style (M,D)."""
    column = target.type
    number = as_real(cell)
    if column.length is not None and column.scale is not None:
        number = _to_scale(number, column.length, column.scale)
    if column.unsigned:
        number = max(number, 0.0)
    if column.family == "double":
        return max(-1.7976931348623157e308, min(number, 1.7976931348623157e308)) + 0.0
    return single(max(-_MAX_SINGLE, min(number, _MAX_SINGLE)))


def _to_scale(number: float, digits: int, scale: int) -> float:
    factor = 10.0**scale
    bound = 10.0 ** (digits - scale) - 1.0 / factor
    if abs(number) < bound:
        whole = math.floor(number)
        number = round(whole + round((number - whole) * factor) / factor, scale)
    return max(-bound, min(number, bound))


def store_year(cell: Cell, target: Target) -> int:
    """0, 1901…2155; numbers below 100 are years of this century or the last."""
    mariadb = target.server == "mariadb"
    if isinstance(cell, Dated) and target.server != "mysql":
        return cell.moment.year if 1901 <= cell.moment.year <= 2155 else 0
    if isinstance(cell, Span) and mariadb:
        return 0
    number = int(cell) if isinstance(cell, float) and mariadb else as_integer(cell, "mysql")
    if (
        number == 0
        and isinstance(cell, str | bytes)
        and len(cell) != 4
        and as_text(cell, target.server).lstrip().startswith("0")
    ):
        return 2000
    if 1 <= number <= 99:
        number += 2000 if number < 70 else 1900
    return int(number) if 1901 <= number <= 2155 else 0


# --- text and bytes


def store_text(cell: Cell, target: Target) -> str:
    """Cut at the column's length; CHAR drops its last spaces; a character that the charset lacks
    becomes `?`.
    """
    column = target.type
    codec = charset_codec(column.charset)
    if codec is None:
        raise NoRule(f"charset {column.charset}")
    text = _decoded(cell, target, codec)
    if not text.isascii() and codec != "utf-8":
        text = text.encode(codec, "replace").decode(codec)
    if column.charset in ("utf8", "utf8mb3", "ucs2"):
        text = "".join(char if char <= "\uffff" else "?" for char in text)
    if column.base in ("char", "varchar"):
        text = text[: column.length or 1]
        return text.rstrip(" ") if column.base == "char" else text
    return (
        text
        if len(text) * 4 <= capacity(column)
        else text.encode(codec)[: capacity(column)].decode(codec, "ignore")
    )


def _decoded(cell: Cell, target: Target, codec: str) -> str:
    if isinstance(cell, Bits):
        if target.server == "tidb" or target.type.base in ("char", "varchar"):
            return as_text(cell, target.server)
        cell = _bit_bytes(cell)
    if not isinstance(cell, bytes):
        return as_text(cell, target.server)
    try:
        return cell.decode(codec, "lakehouse.question" if target.server == "mariadb" else "strict")
    except UnicodeDecodeError:
        raise NoRule("bytes that are no text of the column's charset") from None


def _question(error: UnicodeError) -> tuple[str, int]:
    """MariaDB puts a question mark for each byte that is no text."""
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


codecs.register_error("lakehouse.question", _question)


def store_binary(cell: Cell, target: Target) -> str:
    """The bytes of the old column's text, cut at the length; BINARY(n) is filled with zero bytes."""
    column = target.type
    data = _encoded(cell, target)
    if column.base in ("binary", "varbinary"):
        data = data[: column.length or 1]
        return text_of(data.ljust(column.length or 1, b"\0") if column.base == "binary" else data)
    return text_of(data[: capacity(column)])


def _encoded(cell: Cell, target: Target) -> bytes:
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, Address):
        return cell.data
    if isinstance(cell, Document):
        return as_text(cell, target.server).encode()
    if isinstance(cell, Bits) and target.server != "tidb" and target.type.base.endswith("blob"):
        return _bit_bytes(cell)
    text = as_text(cell, target.server)
    if target.codec is None and not text.isascii():
        raise NoRule("the old column's charset")
    return text.encode(target.codec or "ascii", "replace")


def _bit_bytes(cell: Bits) -> bytes:
    return cell.value.to_bytes((cell.width + 7) // 8, "big")


def capacity(column: ColumnType) -> int:
    """The bytes that a TEXT or BLOB holds; TEXT(n) and BLOB(n) are the smallest of them that hold n."""
    family = "text" if column.base.endswith("text") else "blob"
    if column.length is None or column.base not in ("text", "blob"):
        return _TIERS[column.base.removesuffix(family)]
    needed = column.length * (4 if family == "text" else 1)
    return next((size for size in _TIERS.values() if size >= needed), _TIERS["long"])


def store_address(cell: Cell, target: Target) -> str | None:
    """INET4, INET6 or UUID (MariaDB's): text that prints one, or as many bytes as it has; NULL for any
    other.
    """
    base = target.type.base
    match cell:
        case Address("inet4", data) if base == "inet6":
            return address_text(base, bytes(10) + b"\xff\xff" + data)
        case bytes():
            return address_text(base, cell) if len(cell) == ADDRESS_SIZES[base] else None
        case str() | Label():
            read = address_bytes(base, as_text(cell, target.server))
            return None if read is None else address_text(base, read)
        case _:
            raise NoRule(f"no rule into {base}")


# --- dates and times


def _moment(cell: Cell, target: Target) -> Moment:
    """The date and time that a cell is. MySQL reads numbers by their text, the others by their value."""
    match cell:
        case Dated(moment, _):
            return moment
        case Span():
            raise NoRule("the date on which the statement ran")
        case Bits(value, _):
            return moment_of_number(value)
        case Document():
            raise NoRule("a date out of a JSON document")
        case Address():
            raise NoRule("a date out of an address")
        case int() | float() | Decimal() if target.server != "mysql":
            return _number_moment(as_decimal(cell))
        case _:
            return parse_moment(as_text(cell, target.server), rounds=target.rounds)


def _number_moment(number: Decimal) -> Moment:
    if number < 0:
        return ZERO
    whole = int(number)
    return moment_of_number(whole, int((number - whole) * 1_000_000))


def store_date(cell: Cell, target: Target) -> str:
    return day_text(rounded(_moment(cell, target), 0, rounds=target.rounds))


def store_datetime(cell: Cell, target: Target) -> str:
    digits = target.type.length or 0
    return moment_text(rounded(_moment(cell, target), digits, rounds=target.rounds), digits)


def store_timestamp(cell: Cell, target: Target) -> str:
    """In UTC; what is no instant of TIMESTAMP's range is the zero timestamp."""
    digits = target.type.length or 0
    instant = to_utc(rounded(_moment(cell, target), digits, rounds=target.rounds), target.zone)
    return moment_text(instant, digits) + ("Z" if instant != ZERO else "")


def store_time(cell: Cell, target: Target) -> str:
    """Within 838:59:59 either way; MariaDB's bound has the column's fraction digits, all nines."""
    digits = target.type.length or 0
    bound = MAX_DURATION + (0 if target.rounds else 1_000_000 - 10 ** (6 - digits))
    micros = max(-bound, min(to_digits(_micros(cell, target), digits, rounds=target.rounds), bound))
    return fraction(duration_text(micros), digits)


def _micros(cell: Cell, target: Target) -> int:
    match cell:
        case Span(micros, _):
            return micros
        case Dated(moment, _):
            return time_of_day(moment)
        case Document():
            raise NoRule("a time out of a JSON document")
        case Address():
            raise NoRule("a time out of an address")
        case int() | float() | Decimal() | Bits() if target.server == "mariadb":
            return _number_micros(cell)
        case int():
            return parse_duration(str(int(cell)), rounds=target.rounds)
        case _:
            return parse_duration(as_text(cell, target.server), rounds=target.rounds)


def _number_micros(cell: Cell) -> int:
    """MariaDB's reading of a number; that of a negative one has the time part alone, a float beyond any date
    none.
    """
    number = Decimal(f"{cell:.6g}") if isinstance(cell, Single) else as_decimal(cell)
    size = number.copy_abs()
    if isinstance(cell, float) and size > _LAST_NUMBER:
        return 0
    whole = int(size)
    micro = int((size - whole) * 1_000_000)
    if number < 0:
        return -duration_of_number(whole if whole <= 9_999_999 else 9_999_999, micro)
    return duration_of_number(whole, micro)


# --- labels, JSON and what changes into nothing else


def store_enum(cell: Cell, target: Target) -> str | int:
    """By text, else by index; '' for what is no member, 0 where '' is one. MySQL reads numbers by their text
    first, the others by their value.
    """
    members = target.type.members
    if not members:
        raise NoRule("ENUM without labels")
    if _by_value(cell, target):
        return _at(members, as_integer(cell, target.server))
    if isinstance(cell, Label) and cell.number == 0:
        return error_value(members)
    text = _label_text(cell, target)
    found = _member(text, members, target.server)
    if found is not None:
        return found
    is_index = text.isdecimal() and text.isascii() and len(text) < 6
    return _at(members, int(text)) if is_index else error_value(members)


def store_set(cell: Cell, target: Target) -> str:
    """By labels, unknown ones dropped; else by mask."""
    members = target.type.members
    if not members:
        raise NoRule("SET without labels")
    if _by_value(cell, target):
        number = as_integer(cell, target.server)
        return _labels(members, min(number, (1 << 63) - 1) if isinstance(cell, Decimal) else number)
    text = _label_text(cell, target)
    words = text.split(",") if text else []
    known = [found for word in words if (found := _member(word, members, target.server)) is not None]
    if not known and text.removeprefix("-").isdecimal() and text.isascii():
        return _labels(members, int(text))
    return _labels(members, labels_mask(known, members))


def _label_text(cell: Cell, target: Target) -> str:
    """Bytes are looked for among the labels as text of the labels' charset."""
    if isinstance(cell, Document) and target.server == "mysql":
        raise NoRule("a label out of a JSON document")
    if isinstance(cell, bytes):
        return cell.decode(charset_codec(target.type.charset) or "utf-8", "replace")
    return as_text(cell, target.server)


def _by_value(cell: Cell, target: Target) -> bool:
    return isinstance(cell, Bits) or (isinstance(cell, int | float | Decimal) and target.server != "mysql")


def _member(text: str, members: Sequence[str], server: str) -> str | None:
    """The member that a text names: TiDB's default collation tells case apart, the others' do not; no one's
    last spaces count.
    """
    if text in members:
        return text
    fold: Callable[[str], str] = str if server == "tidb" else str.casefold
    plain = fold(text).rstrip(" ")
    return next((member for member in members if fold(member).rstrip(" ") == plain), None)


def _at(members: Sequence[str], index: int) -> str | int:
    return members[index - 1] if 0 < index <= len(members) else error_value(members)


def error_value(members: Sequence[str]) -> str | int:
    """The canonical value of an ENUM's index 0, which prints as '': 0 where '' is a member."""
    return 0 if "" in members else ""


def _labels(members: Sequence[str], mask: int) -> str:
    mask = max(-1 << 63, min(mask, (1 << 64) - 1))
    return ",".join(member for bit, member in enumerate(members) if mask >> bit & 1)


def labels_mask(labels: Sequence[str], members: Sequence[str]) -> int:
    """The bits of a SET's labels; a label that is no member has none."""
    return sum(1 << bit for bit, member in enumerate(members) if member in labels)


def store_json(cell: Cell, target: Target) -> str:
    """Text that is JSON stays as it is, but for MySQL, which prints it in its own way; a number is its own
    text. Anything else the server refuses.
    """
    if isinstance(cell, Document):
        return cell.text
    if isinstance(cell, Dated | Span | Bits | bytes | Address):
        raise NoRule("no rule into JSON")
    text = as_text(cell, target.server)
    if not is_json(text):
        raise NoRule("text that is not JSON")
    return text if target.server != "mysql" else _json_stored(text)


def _json_stored(text: str) -> str:
    try:
        return stored(text)
    except (ValueError, OverflowError):
        raise NoRule("JSON with a member twice, or a number beyond a double") from None


def store_of(column_type: ColumnType) -> Callable[[Cell, Target], Any] | None:
    """The function that stores into a column of this type, None where no rule does."""
    return store_address if column_type.base in ADDRESS_SIZES else STORES.get(column_type.family)


STORES: Mapping[str, Callable[[Cell, Target], Any]] = {
    "integer": store_integer,
    "bit": store_bit,
    "decimal": store_decimal,
    "float": store_real,
    "double": store_real,
    "year": store_year,
    "text": store_text,
    "binary": store_binary,
    "date": store_date,
    "datetime": store_datetime,
    "timestamp": store_timestamp,
    "time": store_time,
    "enum": store_enum,
    "set": store_set,
    "json": store_json,
}
