"""Quartz cron expressions, as https://www.quartz-scheduler.org/documentation/ describes them."""

import re

_NAMES = {
    3: ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    5: ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (1, 7), (1970, 2199))


def is_cron(text: str) -> bool:
    """Is it a Quartz cron expression: seconds to year, and exactly one of the two days is `?`"""
    fields = text.split()
    if len(fields) not in (6, 7) or [fields[3], fields[5]].count("?") != 1:
        return False
    return all(_is_field(index, part) for index, field in enumerate(fields) for part in field.split(","))


def _is_field(index: int, text: str) -> bool:
    if text in ("?", "L", "LW") or (index == 5 and "#" in text):
        return (
            index in (3, 5)
            and (text != "LW" or index == 3)
            and ("#" not in text or re.fullmatch(r"[1-7]#[1-5]", text) is not None)
        )
    span, slash, step = text.partition("/")
    if slash and not step.isdecimal():
        return False
    low, dash, high = span.partition("-")
    return span == "*" or (_is_value(index, low) and (not dash or _is_value(index, high)))


def _is_value(index: int, text: str) -> bool:
    low, high = _BOUNDS[index]
    return text.upper() in _NAMES.get(index, ()) or (text.isdecimal() and low <= int(text) <= high)
