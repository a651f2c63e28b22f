"""Wire values to canonical values, one function per type family that several formats share.

A canonical value is what silver holds: TIMESTAMP as UTC text with Z, binary as base64 text, integers as int,
floats as float, everything else as MySQL's own text. A function raises ValueError (or a subclass) for text
that is no value of its type; the decoder makes a dead letter of it. A TIMESTAMP that is no instant (zero,
partial) stays as it is.
"""

import binascii
import functools
import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from lakehouse.errors import DecodeError

_INSTANT = re.compile(
    (
        r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]) "
        r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    ),
    re.A,
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):?([0-5]\d)?", re.A)
ZONED = re.compile(r"(\S+ \S+?) ?([+-]\d\d:\d\d)", re.A)  # how Tencent DTS writes a TIMESTAMP
_INTEGER = re.compile(r"[+-]?\d+", re.A)
DOUBLE_DIGITS = 15
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "Z", "+00:00", "GMT", ""})


def timestamp_utc(text: str, zone: str) -> str:
    """TIMESTAMP text of a server in `zone` as UTC text with Z and the same fraction digits.

    Of the two instants that one text can mean when clocks are set back, it is the first.
    """
    if not _INSTANT.fullmatch(text):
        return text
    if zone in _UTC_NAMES:
        return text + "Z"
    moved = _to_utc(text[:19], zone)
    return text if moved is None else f"{moved}{text[19:]}Z"


@functools.lru_cache(maxsize=65536)
def _to_utc(seconds: str, zone: str) -> str | None:
    """None for what is no date (the 31st of June), or leaves the calendar."""
    place = time_zone(zone)
    try:
        return str(datetime.fromisoformat(seconds).replace(tzinfo=place).astimezone(UTC).replace(tzinfo=None))
    except (ValueError, OverflowError):
        return None


@functools.lru_cache(maxsize=64)
def time_zone(zone: str) -> tzinfo:
    """An IANA name or an offset such as +08:00."""
    if zone in _UTC_NAMES:
        return UTC
    found = _OFFSET.fullmatch(zone)
    if found:
        span = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        if span < timedelta(hours=24):
            return timezone(-span if found[1] == "-" else span)
    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise DecodeError(
            "option", f"time_zone: expected an IANA name or an offset such as +08:00, got {zone!r}"
        ) from None


def base64_text(data: bytes) -> str:
    """Canonical binary."""
    return binascii.b2a_base64(data, newline=False).decode()


def base64_bytes(text: str) -> bytes:
    """The bytes of base64 text, strictly."""
    return binascii.a2b_base64(text, strict_mode=True)


def latin1_base64(text: str) -> str:
    """Canonical binary of bytes that the wire spells as the characters U+0000 to U+00FF."""
    return base64_text(text.encode("latin-1"))


def integer(text: str) -> int:
    """An integer of any size from decimal text."""
    if len(text) > 100 or not _INTEGER.fullmatch(text):
        raise ValueError("no integer")
    return int(text)


def bit_number(data: bytes, order: Literal["big", "little"]) -> int:
    """BIT(n), at most 64 of them, as an unsigned number."""
    if len(data) > 8:
        raise ValueError("no BIT")
    return int.from_bytes(data, order)


def bit_bytes(text: str) -> int | dict[str, str]:
    """BIT(n) whose bytes TiCDC printed as text; those that were no UTF-8 are lost, and no column holds it."""
    return {"text": text} if "\ufffd" in text else bit_number(text.encode(), "big")


def number(text: str) -> float:
    """FLOAT and DOUBLE from text with or without exponent; there is no NaN and no infinity in MySQL."""
    value = float(text)
    if "_" in text or value - value != 0:
        raise ValueError("no finite number")
    return value


def decimal_of_double(value: float, scale: int) -> Any:
    """A DECIMAL of that scale that was written as a number and read as a double: one of so many digits that
    no double may have them all stays what it is, which no column holds.
    """
    number = Decimal(repr(value))
    return f"{number:f}" if abs(number).scaleb(scale) < 10**DOUBLE_DIGITS else {"double": value}


def is_rounded(value: Any, digits: int | None, scale: int) -> bool:
    """Whether a double may have been another DECIMAL of so many digits (None: not known) and that scale: it
    is beyond them, or has more digits than every double keeps where doubles lie further apart than such
    decimals.
    """
    if type(value) is not int and type(value) is not float:
        return False
    try:
        double = float(value)
    except OverflowError:
        return True
    shown = Decimal(repr(double)).normalize()
    if digits is not None and abs(shown) >= 10 ** (digits - scale):
        return True
    is_long = len(shown.as_tuple().digits) > DOUBLE_DIGITS
    return is_long and (digits is None or Decimal(math.ulp(double)).scaleb(scale) > 1)


def instant(clock: str) -> str:
    """A TIMESTAMP in UTC as Debezium tells it. The epoch is no value of that type: it stands for the zero
    timestamp of a column that is NOT NULL.
    """
    is_zero = clock.startswith("1970-01-01 00:00:00") and not clock[19:].strip(".0")
    return "0000-00-00 00:00:00" if is_zero else clock + "Z"


def year(value: Any) -> Any:
    """A YEAR as Debezium reads it from a binlog: 1900, which is no YEAR, is 0000."""
    return 0 if value == 1900 else value


def whole_nanoseconds(value: int) -> int:
    """Nanoseconds of a DATETIME, which 64 bits hold from 1677 to 2262: Debezium before 3.6 lets the others
    wrap. No DATETIME has less than a microsecond, and what has wrapped has.
    """
    if not value % 1000:
        return value
    for wraps in range(-4, 15):
        if not (whole := value + (wraps << 64)) % 1000:
            return whole
    raise ValueError("no DATETIME")


LONGEST_TIME = 3_020_399_999  # milliseconds


def whole_milliseconds(value: int, digits: int) -> int | None:
    """Milliseconds of a TIME with so many decimals, which Debezium sends in 32 bits, where those beyond 596
    hours wrap: told by decimals that the column does not have. None where both may be meant.
    """
    if not -1 << 31 <= value < 1 << 31:
        return value
    unit = 10 ** (3 - min(digits, 3))
    wholes = [
        whole
        for whole in (value, value + (1 << 32), value - (1 << 32))
        if abs(whole) <= LONGEST_TIME and not whole % unit
    ]
    return wholes[0] if len(wholes) == 1 else None
