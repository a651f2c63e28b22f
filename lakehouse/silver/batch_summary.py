"""What the decoded rows of a silver batch hold: counts, bounds by table, progress. Made where rows are
decoded, then merged.

Changes come by column, the others as rows (lakehouse/silver/event_rows.py). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakehouse.events import Position
from lakehouse.silver.binlog_servers import Stretch
from lakehouse.silver.event_rows import OtherRow
from lakehouse.silver.transaction_watermark import Told

Changes = Mapping[str, Sequence[Any]]
Mark = tuple[Position, int | None, str]
_COUNTS = ("messages", "control", "decoded", "ddl", "watermarks", "dead", "below")
_COUNTED = {"schema_change": "ddl", "watermark": "watermarks", "dead_letter": "dead", "below": "below"}


@dataclass(slots=True)
class Summary:
    """What one batch holds. `tables`: low and high position, rows, bytes of images and key names; `reach`:
    the highest position of changes and DDLs; `marks`: the highest (resolved position, resolved_ts,
    incarnation) by topic and partition; `resume`: where partitions have to be read again; `servers`: whose
    binlog the rows come from.
    """

    counts: dict[str, int]
    tables: dict[tuple[str, str], dict[str, Any]]
    low: Position | None = None
    high: Position | None = None
    reach: Position | None = None
    keyless: bool = False
    marks: dict[tuple[str, int], Mark] = field(default_factory=dict)
    dead: dict[tuple[str | None, str | None], int] = field(default_factory=dict)
    resume: dict[tuple[str, str, int], int] = field(default_factory=dict)
    told: Told | None = None
    settled: bool = False
    servers: list[Stretch] = field(default_factory=list)


def summarise(
    changes: Changes, others: list[OtherRow], messages: int, silent: int, servers: Iterable[Stretch] = ()
) -> Summary:
    """The summary of some rows, decoded from so many records, of which `silent` gave none."""
    summary = Summary(
        {
            **dict.fromkeys(_COUNTS, 0),
            "messages": messages,
            "control": silent,
            "decoded": len(changes["key"]),
        },
        {},
        servers=list(servers),
    )
    _add_changes(summary, changes)
    for seen in summary.tables.values():
        summary.low, summary.high = _least(summary.low, seen["low"]), _most(summary.high, seen["high"])
    summary.reach = summary.high
    for other in others:
        _add_other(summary, other)
    return summary


def _add_changes(summary: Summary, changes: Changes) -> None:
    tables = summary.tables
    columns = [changes[name] for name in ("database", "table", "position", "before", "after", "key_names")]
    for database, table, position, before, after, names in zip(*columns, strict=True):
        seen = tables.get((database, table))
        if seen is None:
            seen = tables[database, table] = {
                "low": position,
                "high": position,
                "n": 0,
                "bytes": 0,
                "keys": None,
            }
        elif position > seen["high"]:
            seen["high"] = position
        elif position < seen["low"]:
            seen["low"] = position
        seen["n"] += 1
        seen["bytes"] += len(before or b"") + len(after or b"")
        if names and seen["keys"] is None:
            seen["keys"] = list(names)
    summary.keyless = any(half is not None for half in changes["half"])


def _add_other(summary: Summary, other: OtherRow) -> None:
    kind, position = other.kind, other.position
    if kind in _COUNTED:
        summary.counts[_COUNTED[kind]] += 1
    if kind == "schema_change":
        summary.reach = _most(summary.reach, position)
    elif kind == "watermark" and position is not None:
        _raise_watermark(
            summary, (other.topic, other.partition), (position, other.resolved_ts, other.incarnation)
        )
    elif kind == "dead_letter":
        name = (other.database, other.table)
        summary.dead[name] = summary.dead.get(name, 0) + 1
    elif kind == "resume":
        summary.resume[other.topic, other.incarnation, other.partition] = other.offset


def _raise_watermark(summary: Summary, place: tuple[str, int], mark: Mark) -> None:
    known = summary.marks.get(place)
    if known is None or mark[0] > known[0]:
        summary.marks[place] = mark


def merged(parts: Iterable[Summary]) -> Summary:
    """One summary of all, in the order of the parts."""
    whole = Summary(dict.fromkeys(_COUNTS, 0), {})
    for part in parts:
        for name in _COUNTS:
            whole.counts[name] += part.counts[name]
        for table, seen in part.tables.items():
            whole.tables[table] = _both(whole.tables.get(table), seen)
        whole.low, whole.high, whole.reach = (
            _least(whole.low, part.low),
            _most(whole.high, part.high),
            _most(whole.reach, part.reach),
        )
        whole.keyless |= part.keyless
        for place, mark in part.marks.items():
            _raise_watermark(whole, place, mark)
        for of, number in part.dead.items():
            whole.dead[of] = whole.dead.get(of, 0) + number
        whole.resume.update(part.resume)
        whole.servers += part.servers
    return whole


def _both(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    if one is None:
        return other
    return {
        "low": min(one["low"], other["low"]),
        "high": max(one["high"], other["high"]),
        "n": one["n"] + other["n"],
        "bytes": one["bytes"] + other["bytes"],
        "keys": one["keys"] or other["keys"],
    }


def _least(one: Position | None, other: Position | None) -> Position | None:
    return min((position for position in (one, other) if position is not None), default=None)


def _most(one: Position | None, other: Position | None) -> Position | None:
    return max((position for position in (one, other) if position is not None), default=None)


class _Table(msgspec.Struct, array_like=True):
    database: str
    table: str
    low: Position
    high: Position
    n: int
    bytes: int
    keys: list[str] | None


class _Packed(msgspec.Struct, array_like=True):
    counts: dict[str, int]
    tables: list[_Table]
    reach: Position | None
    keyless: bool
    marks: list[tuple[str, int, Mark]]
    dead: list[tuple[str | None, str | None, int]]
    resume: list[tuple[str, str, int, int]]
    servers: list[Stretch]


_decoder = msgspec.msgpack.Decoder(_Packed)


def to_bytes(summary: Summary) -> bytes:
    """A summary of some rows as it travels."""
    packed = _Packed(
        summary.counts,
        [_Table(*name, **seen) for name, seen in summary.tables.items()],
        summary.reach,
        summary.keyless,
        marks=[(*place, mark) for place, mark in summary.marks.items()],
        dead=[(*name, n) for name, n in summary.dead.items()],
        resume=[(*place, offset) for place, offset in summary.resume.items()],
        servers=summary.servers,
    )
    return msgspec.msgpack.encode(packed)


def from_bytes(data: bytes) -> Summary:
    """The summary that `to_bytes` wrote."""
    packed = _decoder.decode(data)
    tables = {
        (t.database, t.table): {"low": t.low, "high": t.high, "n": t.n, "bytes": t.bytes, "keys": t.keys}
        for t in packed.tables
    }
    return Summary(
        packed.counts,
        tables,
        min((t.low for t in packed.tables), default=None),
        max((t.high for t in packed.tables), default=None),
        reach=packed.reach,
        keyless=packed.keyless,
        marks={(topic, partition): mark for topic, partition, mark in packed.marks},
        dead={(database, table): n for database, table, n in packed.dead},
        resume={
            (topic, incarnation, partition): offset for topic, incarnation, partition, offset in packed.resume
        },
        servers=packed.servers,
    )
