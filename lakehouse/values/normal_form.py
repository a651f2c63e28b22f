"""The normal form of each type's canonical values, so that equal values are equal as text, in keys too.

A DECIMAL has exactly the column's scale, a FLOAT is the shortest number of its 32 bits, date and time
fractions have exactly the column's digits, BINARY(n) has n bytes, an ENUM index or SET mask is its label.

A type without a length (`datetime` in an inferred schema) has unknown fraction digits: the zeros that end a
fraction are dropped. A DECIMAL without a precision keeps its text. A value that has no such form (text that
would lose digits, what is no value of the type) stays as it is: never an exception, and None stays None.
"""

import binascii
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException, Inexact
from typing import Any

from lakehouse.schema import ColumnType
from lakehouse.values.scalars import base64_text

Rule = Callable[[Any], Any]
# of a label in a statement that a server prints
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"})

PRINTED = {
    "inet4": re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.A),
    "inet6": re.compile(r"(?=.*:)[0-9a-f:.]{2,45}", re.I | re.A),
    "uuid": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I | re.A),
}
_EXACT = Context(prec=200, traps=[Inexact])
_HALF_UP = Context(prec=200, rounding=ROUND_HALF_UP)
_TINY_SINGLE = 2.0**-126


def normal_form(column_type: ColumnType) -> Rule | None:
    """The function that gives the normal form of canonical values of this type; None for types with only one
    form.
    """
    form = _FORMS.get(column_type.family)
    return form(column_type) if form else None


# --- numbers


def single(value: float) -> float:
    """The shortest number with the same 32-bit float; a value beyond its range is unchanged."""
    if 1e-37 < abs(value) < 3e38 and float(f"{value:.6g}") == value:
        return value
    try:
        packed = struct.pack("<f", value)
    except (OverflowError, struct.error):
        return value
    exact: float = struct.unpack("<f", packed)[0]
    for digits in range(6 if abs(exact) >= _TINY_SINGLE else 1, 9):
        short = float(f"{exact:.{digits}g}")
        if struct.pack("<f", short) == packed:
            return short + 0.0
    return float(f"{exact:.9g}")


def _float(value: Any, finish: Callable[[float], float]) -> Any:
    if type(value) not in (int, str, float, Decimal):
        return value
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return value
    return finish(number) if math.isfinite(number) else value


def _single_form(_: ColumnType) -> Rule:
    return lambda value: _float(value, single)


def _double_form(_: ColumnType) -> Rule:
    return lambda value: value + 0.0 if type(value) is float else _float(value, float)


def _decimal_form(column_type: ColumnType) -> Rule:
    if column_type.length is None:
        return _shortest
    scale = column_type.scale or 0
    point = slice(-scale - 1, -scale)

    def scaled(value: Any) -> Any:
        if type(value) is str and (value[point] == "." if scale else value.isdecimal()):
            return value
        return _filled(value, scale) if scale and type(value) is str else decimal_text(value, scale)

    return scaled


def _shortest(value: Any) -> Any:
    """A number whose scale nothing tells, as text: TiCDC's Debezium sends doubles, and a table of before the
    feed has no CREATE.
    """
    if type(value) not in (int, float) or value - value != 0:
        return value
    text = f"{Decimal(repr(value)):f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _filled(text: str, scale: int) -> Any:
    """Decimal text with fewer decimals than the scale: zeros are all it needs."""
    whole, _, decimals = text.partition(".")
    if len(decimals) < scale and whole != "-0" and (whole.removeprefix("-") + decimals).isdecimal():
        return f"{whole}.{decimals:0<{scale}}"
    return decimal_text(text, scale)


def decimal_text(value: Any, scale: int) -> Any:
    """A number or its text with exactly `scale` decimals. Text that would lose digits stays as it is; a
    double, which never was exact, is rounded.
    """
    if type(value) not in (str, int, float, Decimal):
        return value
    context = _HALF_UP if type(value) is float else _EXACT
    try:
        fixed = Decimal(repr(value) if type(value) is float else value).quantize(
            Decimal((0, (1,), -scale)), context=context
        )
    except (DecimalException, ValueError):
        return value
    return f"{fixed if fixed else abs(fixed):f}" if fixed.is_finite() else value


def _bit_form(_: ColumnType) -> Rule:
    """A BIT(64) that was told as a signed number is negative with its first bit set."""
    return lambda value: (
        int(value)
        if type(value) is bool
        else value + (1 << 64)
        if type(value) is int and value < 0
        else value
    )


# --- dates and times


def _fraction_form(column_type: ColumnType) -> Rule:
    digits = column_type.length
    if digits is None:
        return lambda value: _stripped(value) if type(value) is str and "." in value else value
    if not digits:
        return lambda value: fraction(value, 0) if type(value) is str and "." in value else value
    tail = digits + 1 + (column_type.base == "timestamp")

    def fixed(value: Any) -> Any:
        if type(value) is not str or value[-tail : 1 - tail] == ".":
            return value
        return fraction(value, digits)

    return fixed


def fraction(text: str, digits: int) -> str:
    """Date and time text with exactly so many fraction digits; text that would lose any, or has no time of
    day, as it is.
    """
    head, _, decimals = text.removesuffix("Z").partition(".")
    if ":" not in head or decimals[digits:].strip("0"):
        return text
    zone = "Z" if text.endswith("Z") else ""
    return f"{head}.{decimals[:digits]:0<{digits}}{zone}" if digits else head + zone


def _stripped(text: str) -> str:
    head, _, decimals = text.removesuffix("Z").partition(".")
    return fraction(text, len(decimals.rstrip("0"))) if ":" in head else text


def duration_text(micros: int) -> str:
    """Microseconds as TIME text, with six fraction digits where there are any."""
    seconds, rest = divmod(abs(micros), 1_000_000)
    tail = f".{rest:06}" if rest else ""
    return f"{'-' * (micros < 0)}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"


# --- labels and bytes


def _enum_form(column_type: ColumnType) -> Rule | None:
    """Index -> label."""
    if not column_type.members:
        return None
    # index 0 is the error value, which prints as '' too: where that is a member, the error value stays 0
    labels: dict[int, str | int] = dict(enumerate(("", *column_type.members)))
    if "" in column_type.members:
        labels[0] = 0
    known = _spelled(column_type.members)
    return lambda value: (
        labels.get(value, value)
        if type(value) is int
        else known.get(value, value)
        if type(value) is str
        else value
    )


def _spelled(members: Sequence[str]) -> dict[str, str]:
    """Labels by how they may be spelled. Native Debezium takes them from the statement's text: it leaves
    escapes in it as they are, and escapes a comma (`with\\,comma`). Undone where only that makes it a member.
    """
    known = {label: label for label in members}
    for label in members:
        written = label.translate(_ESCAPES)
        for spelled in (label.replace(",", "\\,"), written, written.replace(",", "\\,")):
            known.setdefault(spelled, label)
    return known


def _set_form(column_type: ColumnType) -> Rule | None:
    members = column_type.members
    if not members:
        return None
    known = _spelled(members) if any("\\" in member for member in members) else {}

    def labels(value: Any) -> Any:
        if type(value) is str and known:
            return ",".join(known.get(label, label) for label in value.split(","))
        if type(value) is not int or not 0 <= value < 1 << len(members):
            return value
        return ",".join(member for bit, member in enumerate(members) if value >> bit & 1)

    return labels


def _binary_form(column_type: ColumnType) -> Rule | None:
    """BINARY(n) holds n bytes, but binlogs cut the zero bytes that end it."""
    if column_type.base != "binary" or column_type.length is None:
        return None
    length = column_type.length
    size, pads = (length + 2) // 3 * 4, -length % 3

    def padded(value: Any) -> Any:
        if type(value) is not str or (len(value) == size and value.count("=") == pads):
            return value
        data = bytes_of(value)
        return value if data is None or len(data) > length else base64_text(data.ljust(length, b"\0"))

    return padded


def _printed_form(column_type: ColumnType) -> Rule | None:
    """MariaDB logs INET4, INET6 and UUID as bytes, which a producer may take for text: what is no print of
    such a value is its bytes.
    """
    form = PRINTED.get(column_type.base)
    if form is None:
        return None
    return lambda value: (
        {"base64": base64_text(_utf8(value))} if type(value) is str and not form.fullmatch(value) else value
    )


_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_QUAD = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.A)
_GROUP = re.compile(r"[0-9a-f]{1,4}", re.I | re.A)
_HEX = re.compile(r"[0-9a-f](?:-*[0-9a-f]){31}", re.I | re.A)
_MAPPED = bytes(10) + b"\xff\xff"
ADDRESS_SIZES = {"inet4": 4, "inet6": 16, "uuid": 16}


def address_bytes(base: str, text: str) -> bytes | None:
    """The bytes of an INET4, INET6 or UUID that a text is to MariaDB, None where it is none. An IPv4 address
    is an INET6 too; a UUID may lack its hyphens, and have others.
    """
    if base == "uuid":
        return bytes.fromhex(text.replace("-", "")) if _HEX.fullmatch(text) else None
    if _QUAD.fullmatch(text):
        quad = bytes(map(int, text.split(".")))
        return quad if base == "inet4" else _MAPPED + quad
    return _groups_bytes(text) if base == "inet6" else None


def _groups_bytes(text: str) -> bytes | None:
    """Groups of an IPv6 address, `::` standing for at least one of zero."""
    halves = text.split("::")
    parts = [_half_bytes(half, last=number == len(halves) - 1) for number, half in enumerate(halves)]
    data = [part for part in parts if part is not None]
    if len(data) < len(parts) or len(parts) > 2:
        return None
    zeros = 16 - sum(map(len, data))
    if zeros != 0 if len(parts) == 1 else zeros < 2:
        return None
    return bytes(zeros).join(data) if len(parts) == 2 else data[0]


def _half_bytes(half: str, *, last: bool) -> bytes | None:
    groups = half.split(":") if half else []
    tail = b""
    if last and groups and _QUAD.fullmatch(groups[-1]):
        tail = bytes(map(int, groups.pop().split(".")))
    if not all(map(_GROUP.fullmatch, groups)):
        return None
    return b"".join(int(group, 16).to_bytes(2, "big") for group in groups) + tail


def whole_uuid(text: str) -> str | None:
    """The UUID whose bytes a binlog had without the zero bytes at its end, which were put before the others.
    None where several may be meant: it tells itself by its version and variant.
    """
    data = bytes.fromhex(text.replace("-", ""))
    zeros = len(data) - len(data.lstrip(b"\0"))
    if zeros in (0, len(data)):
        return text
    wholes = [data[lost:] + bytes(lost) for lost in range(zeros + 1)]
    told = [whole for whole in wholes if 1 <= whole[6] >> 4 <= 8 and whole[8] >> 6 == 2]
    return address_text("uuid", told[0]) if len(told) == 1 else None


def address_text(base: str, data: bytes) -> str:
    """As MariaDB prints the bytes of an INET4, INET6 or UUID."""
    if base == "uuid":
        digits = data.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if base == "inet4":
        return ".".join(map(str, data))
    groups = [f"{int.from_bytes(data[place : place + 2], 'big'):x}" for place in range(0, 16, 2)]
    start, length = _longest_zeros(groups)
    if start == 0 and (length == 6 or (length == 5 and groups[5] == "ffff")):
        return f"::{'ffff:' if length == 5 else ''}{address_text('inet4', data[12:])}"
    if not length:
        return ":".join(groups)
    return f"{':'.join(groups[:start])}::{':'.join(groups[start + length :])}"


def _longest_zeros(groups: list[str]) -> tuple[int, int]:
    """Where the longest run of zero groups begins, the first of equal ones, and its length."""
    runs = [
        (next((n for n, group in enumerate(groups[start:]) if group != "0"), len(groups) - start), -start)
        for start in range(len(groups))
    ]
    length, start = max(runs)
    return -start, length


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def bytes_of(text: str) -> bytes | None:
    """The bytes of canonical binary text, None for text that is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def bytes_vector(data: bytes) -> list[float]:
    """The numbers of a VECTOR as the servers store it. ValueError for bytes that are none."""
    if len(data) % 4:
        raise ValueError("no VECTOR")
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def vector_text(numbers: list[float]) -> str:
    """`[1,2.5]`: 32-bit floats without an exponent, as the servers print a VECTOR."""
    return f"[{','.join(f'{Decimal(repr(single(number))).normalize():f}' for number in numbers)}]"


_FORMS: dict[str, Callable[[ColumnType], Rule | None]] = {
    "float": _single_form,
    "double": _double_form,
    "decimal": _decimal_form,
    "bit": _bit_form,
    "datetime": _fraction_form,
    "timestamp": _fraction_form,
    "time": _fraction_form,
    "enum": _enum_form,
    "set": _set_form,
    "binary": _binary_form,
    "text": _printed_form,
}
