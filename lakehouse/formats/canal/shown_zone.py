"""The zone in which a Canal prints TIMESTAMP, where its rows show it: a column that is set to the time of its
statement differs from that time, which the message has in UTC, by the zone's offset.

    es 2026-11-21T01:00:00Z   updated_at 2026-11-21 09:00:00   ─▶   +08:00

Only columns count that a statement declares so (CURRENT_TIMESTAMP), or whose name says so (updated_at): one
like `expires_at` may be hours behind. The offset is told if many values differ by it and none by another: a
zone with a summer time whose both halves are seen, or several zones, show nothing.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from lakehouse.errors import DecodeError
from lakehouse.events import Event, Message, RowChange, SchemaChange
from lakehouse.formats.canal.flat_message import decode as decode_flat
from lakehouse.formats.canal.protobuf import decode as decode_packet

_Decode = Callable[[Message, Mapping[str, str]], Iterator[Event]]
_MANY, _ENOUGH = 5, 2000  # values that stand at a whole offset: those that it takes, and that are looked at
_QUARTER, _FARTHEST = 900, 14 * 3600  # seconds: offsets are whole quarters of an hour
_DECLARED = re.compile(
    r"[`\"]?(\w+)[`\"]?\s+TIMESTAMP\b[^,]*?\b(?:CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)\b", re.I
)
_NAMED = re.compile("creat|updat|modif|chang|insert", re.I)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.A)


def _shown_zone(decode: _Decode, messages: Iterable[Message], options: Mapping[str, str]) -> dict[str, str]:
    """The zone as the option `time_zone`, where it is not UTC and none is said."""
    if options.get("time_zone", "UTC") != "UTC":
        return {}
    found: Counter[int] = Counter()
    for offset in _offsets(decode, messages):
        found[offset] += 1
        if found.total() >= _ENOUGH:
            break
    if len(found) != 1 or found.total() < _MANY:
        return {}
    [minutes] = [offset // 60 for offset in found]
    sign = "-" if minutes < 0 else "+"
    return {"time_zone": f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"} if minutes else {}


def _offsets(decode: _Decode, messages: Iterable[Message]) -> Iterator[int]:
    """By how many seconds values lie behind their statement's time, of those where it is a whole offset."""
    declared: set[str] = set()
    for message in messages:
        try:
            events = list(decode(message, {}))
        except DecodeError:
            continue
        for event in events:
            if isinstance(event, SchemaChange):
                declared |= {name.lower() for name in _DECLARED.findall(event.ddl or "")}
            elif isinstance(event, RowChange) and event.commit_ts is not None:
                for value in _set(event, declared):
                    seconds = _seconds_behind(value, event.commit_ts)
                    if seconds is not None and not seconds % _QUARTER and abs(seconds) <= _FARTHEST:
                        yield seconds


def _set(event: RowChange, declared: set[str]) -> Iterator[str]:
    """The TIMESTAMPs that the change has set, as its statement's time may be."""
    before, types = event.before or {}, event.types or {}
    for name, value in (event.after or {}).items():
        if type(value) is str and value != before.get(name) and _TIMESTAMP.fullmatch(value):
            is_timestamp = types.get(name, "").lower().startswith("timestamp")
            if is_timestamp and (name.lower() in declared or _NAMED.search(name)):
                yield value


def _seconds_behind(text: str, milliseconds: int) -> int | None:
    """None for what is no date, such as the 31st of June."""
    try:
        moment = datetime.fromisoformat(text[:19])
    except ValueError:
        return None
    return int(moment.replace(tzinfo=UTC).timestamp()) - milliseconds // 1000


flat_zone = functools.partial(_shown_zone, decode_flat)
packed_zone = functools.partial(_shown_zone, decode_packet)
