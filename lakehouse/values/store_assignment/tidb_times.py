"""How a TiDB reads texts as dates and times, which is not MySQL's way: what stands behind a date is an error
or an offset from UTC, a TIME is looked for before a date, and a fraction is rounded once, to the column's
digits.

Source: ParseTime and ParseDuration in pkg/types/time.go of pingcap/tidb. Texts that a strict sql_mode refuses
get what a lax one makes of them, mostly zero.
"""

import re
import string
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from lakehouse.values.server_value import NoRule
from lakehouse.values.temporal import (
    MAX_DURATION,
    ZERO,
    Moment,
    is_valid,
    time_of_day,
    zone_of,
)

_OFFSET = re.compile(r"(?:Z|([+-])(\d\d)(?:(:?)(\d\d))?)\Z", re.ASCII)
_LAST_POINT = re.compile(r"\.[^!-*,./:-@\[-`{-~]*\Z")
_LEADING_DIGITS = re.compile(r"\d*", re.ASCII)
_BLANKS = " \t\n\v\f\r"
# widths of the parts of a date and time without separators, by its number of characters
_PACKED = {
    5: (2, 2, 2),
    6: (2, 2, 2),
    7: (2, 2, 2, 1),
    8: (4, 2, 2),
    9: (2, 2, 2, 2, 1),
    10: (2, 2, 2, 2, 2),
    11: (2, 2, 2, 2, 2, 1),
    12: (2, 2, 2, 2, 2, 2),
    14: (4, 2, 2, 2, 2, 2),
}
_DAYS = re.compile(r"(\d+)\s+", re.ASCII)
# a colon is followed by a number, or there is no clock
_CLOCK = re.compile(r"(?>(\d+)(?:\s*:\s*(\d+)(?:\s*:\s*(\d+))?)?)(?(3)|(?!\s*:))", re.ASCII)
_FRACTION = re.compile(r"\s*(?:\.(\d*))?", re.ASCII)
_DATE_AND_MORE = re.compile(r"\d{12}(?:\d\d)?(?!\d)|(?:\d+[!-/:-@\[-`{-~]){2}\d+[ T]", re.ASCII)
_LONGEST_TIME, _MOST_DIGITS = 12, 18
_CALENDAR_CYCLE = 400


class _Parts(NamedTuple):
    """A text taken apart: the numbers of its date and time, the fraction's digits, and its offset from UTC:
    the sign, the hours and minutes, and whether a colon is between them.
    """

    numbers: list[str]
    fraction: str
    offset: re.Match[str] | None


def read_moment(text: str, digits: int, zone: str) -> Moment:
    """The date and time of a text, local to the session's `zone`, with so many fraction digits; ZERO of one
    that is none. NoRule where its offset from UTC needs a zone, and that is "".
    """
    parts = _absorbed(_taken_apart(text))
    if len(parts.numbers) == 1:
        numbers = _packed(parts.numbers[0], parts.fraction)
        has_seconds = len(parts.numbers[0]) in (11, 12, 14)
    else:
        numbers = [_number(part) for part in parts.numbers[:6]]
        has_seconds = len(numbers) == 6
    if len(numbers) < 3 or None in numbers or not (has_seconds or parts.offset is None):
        return ZERO
    year, *rest = [number or 0 for number in numbers]
    if len(parts.numbers[0]) <= 2 and (year or any(rest) or parts.fraction):
        year = _with_century(year)
    micro, carry = _rounded(parts.fraction if has_seconds else "", digits)
    moment = Moment(*[year, *rest, 0, 0, 0][:6])._replace(micro=micro)
    return _moved(moment, carry, parts.offset, zone) if is_valid(moment) else ZERO


def _with_century(year: int) -> int:
    return year + (2000 if year < 70 else 1900) if year < 100 else year


def _taken_apart(text: str) -> _Parts:
    offset = _OFFSET.search(text)
    if offset is not None and offset.start() > 0:
        text = text[: offset.start()].rstrip(string.punctuation)
    else:
        offset = None
    point, fraction = _LAST_POINT.search(text), ""
    if point is not None and point.start() > 0:
        fraction = _LEADING_DIGITS.match(text, point.start() + 1)[0]  # type: ignore[index]
        text = text[: point.start()].rstrip(string.punctuation)
    return _Parts(_numbers(text.strip()), fraction, offset)


def _numbers(text: str) -> list[str]:
    """The parts between separators; none of a text that is no date. Its last character belongs to the last
    part whatever it is.
    """
    if not text[:1].isdigit():
        return []
    found, start, place = list[str](), 0, 1
    while place < len(text) - 1:
        if _separates(text[place], before := len(found)):
            found.append(text[start:place])
            place += 1
            while place < len(text) and _separates(text[place], before):
                place += 1
            start = place
            # the character behind separators is not looked at
        elif not text[place].isdigit():
            return []
        place += 1
    return [*found, text[start:]]


def _separates(char: str, before: int) -> bool:
    return (
        char in string.punctuation
        or (before == 2 and char in "T" + _BLANKS)
        or (before > 4 and not char.isdigit())
    )


def _absorbed(parts: _Parts) -> _Parts:
    """Of a date that lacks its time, what looks like a fraction or an offset is a part of it."""
    numbers, fraction, offset = parts

    def is_whole() -> bool:
        return len(numbers) > 5 or (len(numbers) == 1 and len(numbers[0]) > 4)

    if fraction and not is_whole():
        numbers, fraction = [*numbers, fraction], ""
    if offset is not None and offset[1] and not is_whole() and not (offset[4] and not offset[3]):
        numbers, offset = [*numbers, offset[2], *filter(None, [offset[4]])], None
    return _Parts(numbers, fraction, offset)


def _number(part: str) -> int | None:
    return int(part) if part.isascii() and part.isdigit() else None


def _packed(text: str, fraction: str) -> list[int | None]:
    """The parts of a date and time without separators; what stands behind the point of a date is its time."""
    found, place = list[int | None](), 0
    for width in _PACKED.get(len(text), ()):
        number = _leading(text[place : place + width])
        found.append(_with_century(number) if number is not None and (place, width) == (0, 2) else number)
        place += width
    if len(text) in (5, 6, 8) and fraction:
        found += [_leading(fraction[at : at + 2]) for at in range(0, min(len(fraction), 5), 2)]
    if len(text) in (9, 10) and fraction:
        found.append(_leading(fraction[:2]))
    return found


def _leading(text: str) -> int | None:
    digits = _LEADING_DIGITS.match(text)
    return int(digits[0]) if digits is not None and digits[0] else None


def _rounded(fraction: str, digits: int) -> tuple[int, bool]:
    """A fraction's microseconds, rounded to so many digits by the next one alone, and whether that makes a
    whole second.
    """
    if digits >= len(fraction):
        return int(f"{fraction:0<6}"), False
    kept = (int(fraction[: digits + 1]) + 5) // 10
    return (0, True) if kept >= 10**digits else (kept * 10 ** (6 - digits), False)


def _moved(moment: Moment, carry: bool, offset: re.Match[str] | None, zone: str) -> Moment:
    """A second later, and from its own offset to the session's zone."""
    if not (carry or offset is not None):
        return moment
    if not (moment.month and moment.day):
        return ZERO
    # Python's calendar has no year 0
    shift = 0 if moment.year else _CALENDAR_CYCLE
    try:
        found = datetime(*moment._replace(year=moment.year + shift)) + timedelta(seconds=carry)
        if offset is not None and not zone:
            raise NoRule("the session's time zone is not known")
        if offset is not None:
            hours, minutes = int(offset[2] or 0), int(offset[4] or 0)
            if hours * 60 + minutes > 14 * 60 or minutes > 59 or (offset[1] == "-" and not hours + minutes):
                return ZERO
            east = timedelta(hours=hours, minutes=minutes) * (-1 if offset[1] == "-" else 1)
            found = found.replace(tzinfo=timezone(east)).astimezone(UTC).astimezone(zone_of(zone))
    except OverflowError:
        return ZERO
    if found.year < shift:
        return ZERO
    return Moment(*found.timetuple()[:6], found.microsecond)._replace(year=found.year - shift)


def read_time(text: str, digits: int, zone: str) -> int:
    """The microseconds of a text as TIME, with so many fraction digits; 0 of one that is none."""
    text = text.strip()
    micros, is_whole = _time(text, digits)
    if is_whole or not _DATE_AND_MORE.match(text):
        return micros
    unit = int(10 ** (6 - digits))
    return (time_of_day(read_moment(text, 6, zone)) + unit // 2) // unit * unit


def _time(text: str, digits: int) -> tuple[int, bool]:
    """The microseconds that a text begins with, and whether they are all of it and within TIME's bound: else
    a date is looked for. A long text with more behind its time has none.
    """
    rest = text.removeprefix("-").lstrip()
    found = _clock(rest)
    if found is None:
        return 0, False
    (hours, minutes, seconds), end = found
    fraction = _FRACTION.match(rest, end)
    assert fraction is not None  # all of it may be empty
    is_more = fraction.end() < len(rest)
    if minutes > 59 or seconds > 59 or (is_more and len(rest) >= _LONGEST_TIME):
        return 0, False
    micro, carry = _rounded(fraction[1] or "", digits)
    micros = (hours * 3600 + minutes * 60 + seconds + carry) * 1_000_000 + micro
    is_within, micros = micros <= MAX_DURATION, min(micros, MAX_DURATION)
    return -micros if text.startswith("-") else micros, is_within and not is_more


def _clock(text: str) -> tuple[tuple[int, int, int], int] | None:
    """Hours, minutes and seconds, and where they end: behind days, with colons, or hhmmss."""
    days, hours = _DAYS.match(text), 0
    found = _CLOCK.match(text, days.end()) if days else None
    if days and found:
        hours = 24 * int(days[1])
    else:
        found = _CLOCK.match(text)
    is_hhmmss = hours == 0 and not (days and found and found.start()) and not (found and found[2])
    found = _LEADING_DIGITS.match(text) if is_hhmmss else found
    if found is None or not found[0] or any(len(part or "") > _MOST_DIGITS for part in found.groups()):
        return None
    if is_hhmmss:
        number = int(found[0])
        return (number // 10_000, number // 100 % 100, number % 100), found.end()
    return (hours + int(found[1]), int(found[2] or 0), int(found[3] or 0)), found.end()
