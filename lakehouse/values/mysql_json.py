"""JSON documents, in MySQL's binary form or as another server's text, as the text that MySQL prints.

    document   type, value
    object     count, size, (key offset, key length)…, (type, offset or value)…, keys, values
    array      count, size, (type, offset or value)…, values
    opaque     a field type of the server, length, bytes: DECIMAL, dates and times as their text, any other
               type as base64

    Counts and offsets have 2 bytes, 4 in large documents; offsets are from the count on.

Specification: the comment at the head of MySQL's sql/json_binary.h; decimals as in strings/decimal.c
(decimal2bin), packed dates and times as in sql-common/my_time.cc. Little endian but for decimals. An empty
value is the JSON null. ValueError for what is no such document.
"""

import base64
import json
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_LITERALS = {0: "null", 1: "true", 2: "false"}
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL, _INT16, _UINT16, _INT32, _UINT32 = range(
    9
)
_STRING, _OPAQUE = 0x0C, 0x0F
_NUMBERS = {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", 0x09: "<q", 0x0A: "<Q"}
_DOUBLE = 0x0B
_INLINE = frozenset({_LITERAL, _INT16, _UINT16})
_INLINE_LARGE = _INLINE | {_INT32, _UINT32}
_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL = 7, 10, 11, 12, 246
_LINE = 57  # bytes that the server puts into one line of base64
_MOST_DIGITS = 19  # of a double with its point that is short already
_MANY_DIGITS = re.compile(r"[\d.]{19}", re.A)
_SEPARATORS = re.compile("[\u2028\u2029]")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_STRING_OR_LONG_NUMBER = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+\.\d+(?![eE])|-?\d{20,}(?![\d.eE])', re.A | re.S
)


def json_text(data: bytes) -> str:
    """The document's text: `, ` and `: ` between its parts, members in the order in which they are stored."""
    if not data:
        return "null"
    try:
        return _Reader(len(data)).value(data[0], memoryview(data)[1:], 0)
    except (struct.error, IndexError, KeyError, OverflowError):
        raise ValueError("no binary JSON") from None


class _Reader:
    """Reads values; no document has more of them than bytes, however its offsets are laid."""

    def __init__(self, size: int) -> None:
        self.left = size

    def value(self, kind: int, data: memoryview, depth: int) -> str:
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise ValueError("no binary JSON")
        if kind <= _LARGE_ARRAY:
            return self._container(kind, data, depth)
        if kind == _LITERAL:
            return _LITERALS[data[0]]
        if kind == _DOUBLE:
            return double_text(struct.unpack_from("<d", data)[0])
        if kind == _STRING:
            return _string(_measured(data))
        if kind == _OPAQUE:
            return _opaque(data[0], _measured(data[1:]))
        return str(struct.unpack_from(_NUMBERS[kind], data)[0])

    def _container(self, kind: int, data: memoryview, depth: int) -> str:
        large, is_object = kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind <= _LARGE_OBJECT
        width, unit = (4, "<I") if large else (2, "<H")
        (count,) = struct.unpack_from(unit, data)
        entries = 2 * width + (count * (width + 2) if is_object else 0)
        values = [self._entry(data, entries + number * (width + 1), large, depth) for number in range(count)]
        if not is_object:
            return f"[{', '.join(values)}]"
        keys = [_key(data, 2 * width + number * (width + 2), unit) for number in range(count)]
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"

    def _entry(self, data: memoryview, place: int, large: bool, depth: int) -> str:
        kind, told = data[place], data[place + 1 : place + (5 if large else 3)]
        if kind in (_INLINE_LARGE if large else _INLINE):
            return self.value(kind, told, depth + 1)
        (offset,) = struct.unpack("<I" if large else "<H", told)
        if not 0 < offset < len(data):
            raise ValueError("no binary JSON")
        return self.value(kind, data[offset:], depth + 1)


def _string(data: memoryview) -> str:
    return json.dumps(str(data, "utf-8"), ensure_ascii=False)


def _key(data: memoryview, place: int, unit: str) -> str:
    (offset,) = struct.unpack_from(unit, data, place)
    (length,) = struct.unpack_from("<H", data, place + struct.calcsize(unit))
    return _string(_cut(data, offset, length))


def _measured(data: memoryview) -> memoryview:
    """Bytes behind their length, which has seven bits a byte, the lowest first."""
    length = 0
    for place, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return _cut(data, place + 1, length)
    raise ValueError("no binary JSON")


def _cut(data: bytes | memoryview, start: int, length: int) -> memoryview:
    if start + length > len(data):
        raise ValueError("no binary JSON")
    return memoryview(data)[start : start + length]


def double_text(number: float) -> str:
    """A DOUBLE as a document: the shortest digits, with an exponent outside 1e-15…1e15, as my_gcvt prints.
    JSON has no NaN and no infinity.
    """
    if number - number != 0:
        raise ValueError("no binary JSON")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    point = len(digits) + int(exponent)
    if not number or -15 < point <= 15:
        text = f"{Decimal(repr(number)).normalize():f}"
        return text if "." in text else f"{text}.0"
    head, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{head}{'.' if rest else ''}{rest}e{point - 1}"


# Opaque values


def _opaque(kind: int, data: memoryview) -> str:
    read = _OPAQUES.get(kind)
    if read is not None:
        return read(data)
    lines = [base64.b64encode(data[start : start + _LINE]).decode() for start in range(0, len(data), _LINE)]
    return json.dumps(f"base64:type{kind}:" + "\n".join(lines))


def _decimal(data: memoryview) -> str:
    """Precision, scale, then groups of nine digits in four bytes each, the odd ones at the outer ends; the
    first bit is the sign.
    """
    precision, scale = data[0], data[1]
    whole, rest = precision - scale, data[2:]
    if not 0 < precision <= 65 or whole < 0 or not rest:
        raise ValueError("no binary JSON")
    negative = not rest[0] & 0x80
    raw = bytes([rest[0] ^ 0x80, *rest[1:]])
    raw = bytes(byte ^ 0xFF for byte in raw) if negative else raw
    sizes = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    digits, place = "", 0
    for size in sizes:
        width = (size + 1) // 2 if size < 9 else 4
        number = str(int.from_bytes(_cut(raw, place, width), "big")) if size else ""
        digits, place = digits + number.zfill(size), place + width
    if len(digits) != precision:
        raise ValueError("no binary JSON")
    text = (digits[:whole].lstrip("0") or "0") + (f".{digits[whole:]}" if scale else "")
    return f"-{text}" if negative else text


def _packed(data: memoryview) -> tuple[str, int, str]:
    """A packed date or time: its sign, its whole part, and the fraction as six digits."""
    (number,) = struct.unpack("<q", data)
    whole, fraction = divmod(abs(number), 1 << 24)
    return "-" if number < 0 else "", whole, f"{fraction:06}"


def _day(whole: int) -> str:
    months, day = divmod(whole >> 17, 32)
    year, month = divmod(months, 13)
    return f"{year:04}-{month:02}-{day:02}"


def _clock(whole: int) -> str:
    return f"{whole >> 12:02}:{whole >> 6 & 0x3F:02}:{whole & 0x3F:02}"


def _date(data: memoryview) -> str:
    return f'"{_day(_packed(data)[1])}"'


def _datetime(data: memoryview) -> str:
    _, whole, fraction = _packed(data)
    return f'"{_day(whole)} {_clock(whole & 0x1FFFF)}.{fraction}"'


def _time(data: memoryview) -> str:
    sign, whole, fraction = _packed(data)
    return f'"{sign}{_clock(whole)}.{fraction}"'


_OPAQUES: dict[int, Callable[[memoryview], str]] = {
    _DECIMAL: _decimal, _DATE: _date, _TIME: _time, _DATETIME: _datetime, _TIMESTAMP: _datetime,
}  # fmt: skip


# Text


class _Number(str):
    """A number as its text has it."""

    __slots__ = ()


class _Members(list[tuple[str, object]]):
    """The members of an object, in order."""

    __slots__ = ()


def printed(text: str) -> str:
    """A stored document as the server prints it, from the text of whoever read it: `, ` and `: ` between its
    parts, the shorter members first. ValueError for what is no document.
    """
    read = json.loads(
        text, object_pairs_hook=_Members, parse_float=_Number, parse_int=_Number, parse_constant=_refused
    )
    return _printed(read)


def as_printed(value: Any) -> Any:
    """The same of any value: what is no document, or escapes half a surrogate pair, stays as it is."""
    if type(value) is not str:
        return value
    try:
        text = printed(value)
        text.encode()
    except (ValueError, RecursionError):
        return value
    return text


def stored(text: str) -> str:
    """JSON text that is stored into a JSON column, as the server prints it then: a number with a point or
    beyond 64 bits is a double. ValueError for what is no document, or has a member twice: of two the first
    counts up to MySQL 8.0.2, the last after it.
    """
    read = json.loads(
        text,
        object_pairs_hook=_distinct,
        parse_float=lambda number: _Number(double_text(float(number))),
        parse_int=_whole,
        parse_constant=_refused,
    )
    return _printed(read)


def stored_at_tidb(text: str) -> str:
    """The same at TiDB, where the last of two members counts, members are in the order of their names alone,
    line separators are escaped and half a surrogate pair is U+FFFD.
    """
    read = json.loads(
        text,
        parse_float=lambda number: _Number(double_text(float(number))),
        parse_int=_whole,
        parse_constant=_refused,
    )
    told = _SEPARATORS.sub(lambda found: f"\\u{ord(found[0]):04x}", _printed(read, by_length=False))
    return _HALF_PAIR.sub("\ufffd", told)


def with_short_doubles(text: str) -> str:
    """A document of Debezium's stream as the server prints it, as far as doubles go: of those of 1e7 and
    more, or of less than 1e-3, the connector prints all digits of the binary number
    (12345678.9000000003725290298461914062… is 12345678.9). A whole one that 64 bits hold may be an integer.
    """
    return _STRING_OR_LONG_NUMBER.sub(_short_double, text) if _MANY_DIGITS.search(text) else text


def _short_double(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"' or len(text) < _MOST_DIGITS:
        return text
    double = float(text)
    may_be_integer = "." not in text and -(2.0**63) <= double < 2.0**64
    return double_text(double) if not may_be_integer and f"{Decimal(double):f}" == text else text


def _distinct(pairs: list[tuple[str, object]]) -> _Members:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member twice")
    return _Members(pairs)


def _whole(digits: str) -> _Number:
    number = int(digits)
    return _Number(number if -1 << 63 <= number < 1 << 64 else double_text(float(number)))


def _refused(_: str) -> str:
    raise ValueError("not JSON")


def _printed(value: object, by_length: bool = True) -> str:
    match value:
        case _Number():
            return str(value) if not set("eE").intersection(value) else double_text(float(value))
        case _Members() | dict():
            members = value.items() if isinstance(value, dict) else value
            pairs = sorted(members, key=lambda pair: (by_length and len(pair[0].encode()), pair[0].encode()))
            told = [
                f"{json.dumps(key, ensure_ascii=False)}: {_printed(member, by_length)}"
                for key, member in pairs
            ]
            return f"{{{', '.join(told)}}}"
        case list():
            return f"[{', '.join(_printed(item, by_length) for item in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


# MySQL and TiDB nest a JSON document no deeper. How deep Python's readers go depends on who calls them, so
# what one has read another may not: beyond this limit nothing is stored.
MAX_DEPTH = 100
