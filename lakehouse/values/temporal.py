"""Dates and times as the servers read, round and print them, including zero and partial dates, which Python's
types can't hold.

A Moment is seven numbers; a duration is signed microseconds. Reading is as lenient as the servers' own
(`24-1-2`, `20240102`, `2024/1/2 3:4`), for text and numbers that a MODIFY COLUMN or a DEFAULT turns into
dates. What is no date at all is ZERO, as in a lax sql_mode (a strict one would have refused the statement).

`rounds` tells the servers apart: MySQL and TiDB round fractions half up, MariaDB cuts them.
"""

import functools
import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

MAX_DURATION = (838 * 3600 + 59 * 60 + 59) * 1_000_000
_LAST_INSTANT = datetime(2038, 1, 19, 3, 14, 7, 999999)
# of a MariaDB of 64 bits from 11.5 on
_LAST_UNSIGNED = datetime(2106, 2, 7, 6, 28, 15, 999999)
_EPOCH = datetime(1970, 1, 1)


class Moment(NamedTuple):
    """A date and time of day; any part may be zero."""

    year: int
    month: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    micro: int = 0

    @property
    def has_date(self) -> bool:
        """Whether it is a day of the calendar that Python knows."""
        return self.year > 0 and self.month > 0 and self.day > 0


ZERO = Moment(0)

# --- canonical text


def read_moment(text: str) -> Moment:
    """Canonical DATE or DATETIME text; ValueError for any other."""
    parts = text.replace(" ", "-").replace(":", "-").replace(".", "-").split("-")
    if len(parts) not in (3, 6, 7) or not "".join(parts).isdecimal():
        raise ValueError("not canonical date or time text")
    if len(parts) == 7:
        parts[6] = f"{parts[6]:0<6}"
    return Moment(*(int(part) for part in parts))


def day_text(moment: Moment) -> str:
    """DATE text."""
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"


def moment_text(moment: Moment, digits: int) -> str:
    """DATETIME text with so many fraction digits."""
    tail = f".{moment.micro:06}"[: digits + 1] if digits else ""
    return f"{day_text(moment)} {moment.hour:02}:{moment.minute:02}:{moment.second:02}{tail}"


def read_duration(text: str) -> int:
    """Canonical TIME text in microseconds; ValueError for any other."""
    head, _, decimals = text.removeprefix("-").partition(".")
    hours, minutes, seconds = head.split(":")
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int(f"{decimals:0<6}")
    return -micros if text.startswith("-") else micros


# --- rounding and zones


def to_digits(micros: int, digits: int, *, rounds: bool) -> int:
    """Microseconds with only so many fraction digits, halves away from zero."""
    unit = int(10 ** (6 - digits))
    kept = (abs(micros) + (unit // 2 if rounds else 0)) // unit * unit
    return -kept if micros < 0 else kept


def moment_to_digits(moment: Moment, digits: int, *, rounds: bool) -> Moment:
    """A moment with only so many fraction digits. ValueError where rounding would leave the calendar."""
    micro = to_digits(moment.micro, digits, rounds=rounds)
    if micro < 1_000_000:
        return moment._replace(micro=micro)
    if not moment.has_date:
        raise ValueError("no next second")
    try:
        following = datetime(*moment[:6]) + timedelta(seconds=1)
    except OverflowError:
        raise ValueError("no next second") from None
    return Moment(*following.timetuple()[:6])


@functools.lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo:
    """A zone by its IANA name or as the servers write offsets (`+08:00`); ValueError for any other name."""
    offset = re.fullmatch(r"([+-])(\d\d?):(\d\d)", name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"no time zone {name!r}") from None


def to_utc(moment: Moment, zone: str) -> Moment:
    """Local time as UTC; ZERO for what TIMESTAMP can't hold. Of two instants with one local time it is the
    first.
    """
    instant = _instant(moment, zone)
    if instant is None or not _EPOCH < instant <= _LAST_INSTANT:
        return ZERO
    return Moment(*instant.timetuple()[:6], instant.microsecond)


def is_between_lasts(moment: Moment, zone: str) -> bool:
    """Whether a local time lies above what TIMESTAMP could hold before MariaDB 11.5, and not above what it
    can hold since.
    """
    instant = _instant(moment, zone)
    return instant is not None and _LAST_INSTANT < instant <= _LAST_UNSIGNED


def _instant(moment: Moment, zone: str) -> datetime | None:
    try:
        local = datetime(*moment, tzinfo=zone_of(zone)) if moment.has_date else None
        return None if local is None else local.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return None


def to_local(moment: Moment, zone: str) -> Moment:
    """UTC as local time; a zero timestamp is no instant and stays."""
    if not moment.has_date:
        return moment
    local = datetime(*moment, tzinfo=UTC).astimezone(zone_of(zone))
    return Moment(*local.timetuple()[:6], local.microsecond)


# --- lenient reading

_UNDELIMITED = re.compile(r"([\dT]+)(?:\.(\d*))?\Z", re.ASCII)
_POINTS = r"[^A-Za-z0-9\s]"
_DELIMITED = re.compile(
    rf"(\d+){_POINTS}+(\d+){_POINTS}+(\d+)"  # year, month, day
    rf"(?:(?:T|{_POINTS}*\s+[^A-Za-z0-9]*|{_POINTS}+)(\d+)"
    rf"(?:{_POINTS}+(\d+)(?:{_POINTS}+(\d+)(?:\.(\d*))?)?)?)?",
    re.ASCII,
)
# MySQL takes a number with a point behind it for a date without delimiters: its fields have their widths
_POINTED = {
    width: re.compile(
        rf"(\d{{1,{width}}}){_POINTS}*(\d\d?){_POINTS}*(\d\d?)"
        rf"(?:(?:T|{_POINTS}*\s*{_POINTS}*)(\d\d?)"
        rf"(?:{_POINTS}*(\d\d?)(?:{_POINTS}*(\d\d?)(?:\.(\d*))?)?)?)?",
        re.ASCII,
    )
    for width in (2, 4)
}
_FIRST_NUMBER = re.compile(r"(\d+)\.", re.ASCII)
_EXPONENT = re.compile(r"[eE][+-]?\d", re.ASCII)
# days only where two characters follow: `1 2` is a second, with something behind it
_CLOCK = r"(?:(\d+)\s+(?=\d.))?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d*))?"
_TIME = re.compile("(-?)" + _CLOCK, re.ASCII)
_SIGNED_TIME = re.compile(r"([+-]?)\s*" + _CLOCK, re.ASCII)
_FRACTION_ALONE = re.compile(r"\A-?(?=\.\d)", re.ASCII)
_LAST_CLOCK = (1 << 32) - 1


def parse_moment(text: str, server: str, *, rounds: bool) -> Moment:
    """The moment that MySQL or MariaDB reads from any text; ZERO where it reads none. What follows a date
    is ignored. Of a year's digits two lack their century.
    """
    text = text.strip()
    pointed = _FIRST_NUMBER.match(text) if server == "mysql" else None
    bare = _UNDELIMITED.match(text)
    if bare and not pointed:
        return _packed(bare[1].replace("T", ""), bare[2] or "", rounds=rounds)
    width = _year_width(len(pointed[1])) if pointed else 0
    parts = _POINTED[width].match(text) if pointed else _DELIMITED.match(text)
    if not parts:
        return ZERO
    numbers = [int(part or 0) for part in parts.groups()[:6]]
    return _checked(numbers, width or len(parts[1]), parts[7] or "", rounds=rounds)


def _year_width(digits: int) -> int:
    return 4 if digits in (4, 8) or digits >= 14 else 2


def _packed(digits: str, fraction: str, *, rounds: bool) -> Moment:
    """`20240102`, `240102030405`: no delimiters, fields of fixed width."""
    width = _year_width(len(digits))
    fields = [
        digits[:width],
        *(digits[start : start + 2] for start in range(width, min(len(digits), width + 10), 2)),
    ]
    if len(fields) < 3:
        return ZERO
    numbers = [*map(int, fields), *[0] * (6 - len(fields))]
    return _checked(numbers, width, fraction if len(fields) == 6 else "", rounds=rounds)


def _checked(numbers: list[int], year_width: int, fraction: str, *, rounds: bool) -> Moment:
    if year_width == 2 and any(numbers):
        numbers[0] += 2000 if numbers[0] < 70 else 1900
    micro, carry = _micro(fraction, rounds=rounds)
    parts = [*numbers, micro]
    moment = Moment(*parts)
    if not is_valid(moment):
        return ZERO
    return moment_to_digits(moment._replace(micro=999_999), 0, rounds=True) if carry else moment


def _micro(fraction: str, *, rounds: bool) -> tuple[int, bool]:
    """Fraction digits as microseconds, and whether rounding the seventh carries into the second."""
    micro = int(f"{fraction[:6]:0<6}") + (rounds and fraction[6:7] >= "5")
    return micro % 1_000_000, micro >= 1_000_000


def is_valid(moment: Moment) -> bool:
    """Whether a server in a lax sql_mode takes these numbers for a date: zero parts are allowed, 30 February
    is not.
    """
    year, month, day, hour, minute, second, _ = moment
    if year > 9999 or month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        return False
    return not month or day <= monthrange(year or 4, month)[1]


def moment_of_number(number: int, micro: int = 0) -> Moment:
    """`20240102`, `240102`, `20240102030405`: how a server reads a number as a date; ZERO where it reads
    none.
    """
    full = _full_number(number)
    if full is None:
        return ZERO
    day, time = divmod(full, 1_000_000)
    micro = micro if number > 99991231 else 0
    clock = (time // 10000, time // 100 % 100, time % 100)
    moment = Moment(day // 10000, day // 100 % 100, day % 100, *clock, micro)
    return moment if is_valid(moment) else ZERO


def _full_number(number: int) -> int | None:
    """YYYYMMDDhhmmss of a number that may lack the century or the time."""
    if number == 0 or number >= 10000101000000:
        return number
    for low, high, offset, factor in (
        (101, 691231, 20000000, 1000000),
        (700101, 991231, 19000000, 1000000),
        (10000101, 99991231, 0, 1000000),
        (101000000, 691231235959, 20000000000000, 1),
        (700101000000, 991231235959, 19000000000000, 1),
    ):
        if low <= number <= high:
            return (number + offset) * factor
    return None


def parse_duration(text: str, server: str) -> int:
    """The microseconds that MySQL or MariaDB reads from any text as TIME: `11:12`, `1 02:03:04`, `111213`, a
    whole date and time. 0 where it reads none. TIME's bound is not applied.
    """
    rounds = server != "mariadb"
    text = text.strip()
    whole = _of_moment(text, server, rounds=rounds)
    if whole is not None:
        return whole
    if server == "mysql":
        text = _FRACTION_ALONE.sub(r"\g<0>0", text)
    parts = (_SIGNED_TIME if server == "mariadb" else _TIME).match(text)
    if not parts or _EXPONENT.match(text, parts.end()):
        return 0
    hours, minutes, seconds = int(parts[3]), int(parts[4] or 0), int(parts[5] or 0)
    if parts[4] is None and parts[2] is None:
        if hours > _LAST_CLOCK:
            return 0
        hours, minutes, seconds = clock(hours)
    micro, carry = _micro(parts[6] or "", rounds=rounds)
    micros = duration(int(parts[2] or 0) * 24 + hours, minutes, seconds, micro + carry * 1_000_000)
    return -micros if parts[1] == "-" else micros


def _of_moment(text: str, server: str, *, rounds: bool) -> int | None:
    """The time of a date and time, 0 of one that no calendar has; None of text that is none. MySQL takes one
    with delimiters for it only where it has a space, and one without them only where it is whole. MariaDB
    takes short ones too. MySQL counts the days of one without a month.
    """
    bare = _UNDELIMITED.match(text)
    if len(text) < 12 and (bare or server == "mysql"):
        return None
    if not (bare or " " in text or ("T" in text and server != "mysql")):
        return None
    moment = parse_moment(text, server, rounds=rounds)
    if moment == ZERO:
        parts = _DELIMITED.match(text)
        return 0 if parts and parts[4] else None
    if bare and server == "mysql" and len(bare[1]) < 12:
        return None
    cut = parse_moment(text, server, rounds=False)
    days = cut.day if server == "mysql" and not cut.month else 0
    return time_of_day(cut) + (cut != moment) + days * 24 * 3600 * 1_000_000


def duration_of_number(number: int, micro: int) -> int:
    """The microseconds that MariaDB reads from a number as TIME, its sign aside: `hhmmss`, above 9999999 a
    date and time.
    """
    if 9_999_999 < number <= 99991231235959:
        return time_of_day(moment_of_number(number, micro))
    hours, minutes, seconds = clock(number)
    return MAX_DURATION * 2 if number > 8_385_959 else duration(hours, minutes, seconds, micro)


def clock(number: int) -> tuple[int, int, int]:
    """hhmmss taken apart."""
    return number // 10000, number // 100 % 100, number % 100


def duration(hours: int, minutes: int, seconds: int, micro: int) -> int:
    """Microseconds of TIME's parts: 0 if the minutes or seconds are none."""
    if minutes > 59 or seconds > 59:
        return 0
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micro


def time_of_day(moment: Moment) -> int:
    """The time of a moment in microseconds."""
    return (moment.hour * 3600 + moment.minute * 60 + moment.second) * 1_000_000 + moment.micro
