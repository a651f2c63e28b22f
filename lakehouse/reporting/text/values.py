"""Times, positions, ages and numbers as people write them, and text that a terminal can't be steered by."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

# A TSO is milliseconds shifted by 18 bits: one of 1980 is larger than any file number, offset or time in
# milliseconds.
LEAST_TSO = 315_532_800_000 << 18
TSO_RANKS = 3
STATEMENT = 100
# Seconds of work of which nobody asks for the rate.
QUICK = 10
# Bytes of a line of hexadecimal digits.
_LINE = 16
_UNITS = (("day", 86_400), ("h", 3_600), ("min", 60))


def moment(millis: float) -> str:
    """A time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "out of range"


def millis_of(text: str) -> float:
    """The time that `moment` writes so."""
    read = datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC")
    return read.replace(tzinfo=UTC).timestamp() * 1000


def instant(commit_ts: int) -> str:
    """A commit time: a TSO with the time that it holds, or milliseconds as a time."""
    if commit_ts < LEAST_TSO:
        return moment(commit_ts)
    return f"{moment(commit_ts >> 18)} (TSO {commit_ts})"


def tso_of(position: Sequence[int]) -> int | None:
    """The TSO of a position in TiDB's order. Files without commit times begin with a TSO too, that of their
    schema, but have a file number.
    """
    is_tso = position[1] >= LEAST_TSO and position[2] <= TSO_RANKS and not any(position[3:])
    return position[1] if is_tso else None


def place(position: Sequence[int], order: str | None = None) -> str:
    """A position: the source's time with the TSO, else the binlog's file and offset, or what the order has.
    Without the order, which no record holds, numbers of other orders are written as FILE:OFFSET too.
    """
    tso = tso_of(position)
    epoch = f", epoch {position[0]}" if position[0] else ""
    if tso is not None:
        return instant(tso) + epoch
    match order:
        case "arrival":
            return f"offset {position[1]}{epoch}"
        case "files":
            return f"file {position[3]} of {position[2] or 'no date'}{epoch}"
        case "binlog":
            return f"binlog {position[1]}:{position[2]}{epoch}"
    return f"{position[1]}:{position[2]}{epoch}"


def is_position(value: Any) -> bool:
    """Whether a value of a record is a position: six integers."""
    return isinstance(value, list | tuple) and len(value) == 6 and all(type(part) is int for part in value)


def duration(seconds: float) -> str:
    """A duration in the largest unit of which it has two, rounded."""
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            number = round(seconds / length)
            return f"{number} {unit}s" if unit == "day" else f"{number} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"


def ago(seconds: float) -> str:
    """An age; a clock that is a little behind makes none of it negative."""
    return "just now" if seconds < 1 else f"{duration(round(seconds))} ago"


def size(count: float) -> str:
    """A number of bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def pace(done: int, seconds: float, left: int | None = None) -> str:
    """The rate of work, and how long what is left takes at it, as the end of a line of progress; nothing of
    work that was quick, and no time of work of which less than a hundredth is done: it has only just begun.
    """
    if seconds < QUICK or round(done / seconds) < 1:
        return ""
    rest = f", about {duration(max(1, left * seconds / done))} left" if left and done * 100 >= left else ""
    return f", {number(round(done / seconds))} a second{rest}"


def number(count: int) -> str:
    """A count with thousands separators."""
    return f"{count:,}"


def counted(count: int, word: str) -> str:
    """A count and what is counted: `1 message`, `1,200 messages`."""
    plural = word[:-1] + "ies" if word.endswith("y") else word + "es" if word.endswith("ch") else word + "s"
    return f"{number(count)} {word if count == 1 else plural}"


def statement(sql: str | None, width: int = STATEMENT) -> str:
    """A statement on one line, shortened at its end."""
    line = " ".join((sql or "").split())
    return line if len(line) <= width else line[: width - 1] + "…"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence: `a, b and c`, or the first of them and how many more."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {number(len(names) - most)} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def safe(text: str) -> str:
    """Text in which control characters, which could move a terminal's cursor, are written as escapes."""
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def origin(fields: dict[str, Any]) -> str:
    """Where the bytes of an event are: `TOPIC/PARTITION@OFFSET[INDEX]`, or a file's row. "" where there is no
    such place: of a loss of many records, and of a row that many changes were folded to.
    """
    fields = {name: value for name, value in fields.items() if value is not None}
    if not fields:
        return ""
    index = f"[{fields['index']}]" if "index" in fields else ""
    if "path" in fields:
        return f"{fields['path']}{':' + str(fields['row']) if 'row' in fields else ''}{index}"
    if "partition" not in fields:
        return str(fields["topic"])
    if "first" in fields:
        last = f"-{fields['last']}" if "last" in fields else ""
        return f"{fields['topic']}/{fields['partition']}@{fields['first']}{last}"
    return f"{fields['topic']}/{fields['partition']}@{fields['offset']}{index}"


def shown_size(shown: int, whole: int) -> str:
    """The number of bytes, and how many of them are shown where that is not all."""
    return size(whole) if shown == whole else f"the first {size(shown)} of {size(whole)}"


def hex_lines(data: bytes) -> Iterator[str]:
    """Bytes as offset, hexadecimal digits, and ASCII where they are that."""
    for begin in range(0, len(data), _LINE):
        part = data[begin : begin + _LINE]
        halves = (part[:8].hex(" "), part[8:].hex(" "))
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{begin:08x}  {halves[0]:<23}  {halves[1]:<23}  |{seen}|"
