"""The summary of a silver batch: counts, bounds by table, progress. Made where rows are decoded, then merged.

Changes come by column, the others as rows (lakehouse/silver/event_rows.py). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakehouse.events import SETTLED, SNAPSHOT_FLAG, SNAPSHOT_TOPIC, TABLE_SNAPSHOT, Position
from lakehouse.ops.progress import Shortfall, TableSnapshot
from lakehouse.silver.binlog_servers import Stretch
from lakehouse.silver.event_rows import OtherRow
from lakehouse.silver.transaction_watermark import TransactionEvents

Changes = Mapping[str, Sequence[Any]]
Mark = tuple[Position, int | None, str]
_COUNTS = ("messages", "control", "decoded", "ddl", "watermarks", "dead", "below")
_COUNTED = {"schema_change": "ddl", "watermark": "watermarks", "dead_letter": "dead", "below": "below"}


@dataclass(slots=True)
class Summary:
    """What one batch holds. `tables`: low and high position, rows, bytes of images, key names, topics;
    `reach`: the highest position of changes and DDLs; `marks`: the highest (resolved position, resolved_ts,
    incarnation) by topic and partition; `resume`: where partitions have to be read again; `servers`: whose
    binlog the rows come from; `begun`, `whole`: table snapshots that have rows or their end here;
    `short`: records that are lacking or cut. `inserted`: how many changes of each
    table are new to silver, once that is known.
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
    told: TransactionEvents | None = None
    settled: bool = False
    servers: list[Stretch] = field(default_factory=list)
    begun: set[TableSnapshot] = field(default_factory=set)
    whole: set[TableSnapshot] = field(default_factory=set)
    short: list[Shortfall] = field(default_factory=list)
    inserted: dict[tuple[str, str], int] | None = None


def summarise(
    changes: Changes,
    others: list[OtherRow],
    messages: int,
    silent: int,
    *,
    servers: Iterable[Stretch] = (),
    short: Iterable[Shortfall] = (),
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
        short=list(short),
    )
    _add_changes(summary, changes)
    for bounds in summary.tables.values():
        summary.low, summary.high = _least(summary.low, bounds["low"]), _most(summary.high, bounds["high"])
    summary.reach = summary.high
    for other in others:
        _add_other(summary, other)
    return summary


def _add_changes(summary: Summary, changes: Changes) -> None:
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, name in enumerate(zip(changes["database"], changes["table"], strict=True)):
        numbers.setdefault(name, []).append(number)
    columns = [changes[name] for name in ("position", "before", "after", "key_names", "topic")]
    for name, mine in numbers.items():
        rows = columns if len(numbers) == 1 else [[column[n] for n in mine] for column in columns]
        summary.tables[name] = _bounds_of(*rows)
    if SNAPSHOT_TOPIC in changes["topic"]:
        _add_snapshots(summary, changes)
    summary.keyless = any(half is not None for half in changes["half"])


def _bounds_of(
    positions: Sequence[Position],
    before: Sequence[bytes | None],
    after: Sequence[bytes | None],
    names: Sequence[tuple[str, ...]],
    topics: Sequence[str],
) -> dict[str, Any]:
    """What the summary says of a table, from its changes by column."""
    return {
        "low": min(positions),
        "high": max(positions),
        "n": len(positions),
        "bytes": sum(len(image) for images in (before, after) for image in images if image),
        "keys": next((list(key) for key in names if key), None),
        "topics": set(topics),
    }


def _add_snapshots(summary: Summary, changes: Changes) -> None:
    columns = [changes[name] for name in ("database", "table", "position", "topic", "flags")]
    for database, table, position, topic, flags in zip(*columns, strict=True):
        # rows of a part wait for no end
        if topic == SNAPSHOT_TOPIC and SNAPSHOT_FLAG in (flags or ()):
            summary.begun.add(TableSnapshot(database, table, (*position[:4], 0, 0)))


def _add_other(summary: Summary, other: OtherRow) -> None:
    kind, position = other.kind, other.position
    if kind in _COUNTED:
        summary.counts[_COUNTED[kind]] += 1
    if kind == "schema_change":
        # of where a snapshot or a part is settled, nothing says that the feed has come to it
        if other.schema_kind != SETTLED:
            summary.reach = _most(summary.reach, position)
        if other.schema_kind == TABLE_SNAPSHOT and position is not None:
            summary.whole.add(TableSnapshot(other.database or "", other.table or "", position))
    elif kind == "watermark" and position is not None:
        _raise_watermark(
            summary, (other.topic, other.partition), (position, other.resolved_ts, other.incarnation)
        )
    elif kind == "dead_letter":
        name = (other.database, other.table)
        summary.dead[name] = summary.dead.get(name, 0) + 1
    elif kind == "resume":
        summary.resume[other.topic, other.incarnation, other.partition] = other.offset


def _raise_watermark(summary: Summary, place: tuple[str, int], watermark: Mark) -> None:
    known = summary.marks.get(place)
    if known is None or watermark[0] > known[0]:
        summary.marks[place] = watermark


def merged(parts: Iterable[Summary]) -> Summary:
    """One summary of all, in the order of the parts."""
    whole = Summary(dict.fromkeys(_COUNTS, 0), {})
    for part in parts:
        for name in _COUNTS:
            whole.counts[name] += part.counts[name]
        for table, bounds in part.tables.items():
            whole.tables[table] = _both(whole.tables.get(table), bounds)
        whole.low, whole.high, whole.reach = (
            _least(whole.low, part.low),
            _most(whole.high, part.high),
            _most(whole.reach, part.reach),
        )
        whole.keyless |= part.keyless
        for place, watermark in part.marks.items():
            _raise_watermark(whole, place, watermark)
        for of, number in part.dead.items():
            whole.dead[of] = whole.dead.get(of, 0) + number
        whole.resume.update(part.resume)
        whole.servers += part.servers
        whole.begun |= part.begun
        whole.whole |= part.whole
        whole.short += part.short
    return whole


def _both(first: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    if first is None:
        return other
    return {
        "low": min(first["low"], other["low"]),
        "high": max(first["high"], other["high"]),
        "n": first["n"] + other["n"],
        "bytes": first["bytes"] + other["bytes"],
        "keys": first["keys"] or other["keys"],
        "topics": first["topics"] | other["topics"],
    }


def _least(first: Position | None, other: Position | None) -> Position | None:
    return min((position for position in (first, other) if position is not None), default=None)


def _most(first: Position | None, other: Position | None) -> Position | None:
    return max((position for position in (first, other) if position is not None), default=None)


class _Table(msgspec.Struct, array_like=True):
    database: str
    table: str
    low: Position
    high: Position
    n: int
    bytes: int
    keys: list[str] | None
    topics: set[str]


class _Packed(msgspec.Struct, array_like=True):
    counts: dict[str, int]
    tables: list[_Table]
    reach: Position | None
    keyless: bool
    marks: list[tuple[str, int, Mark]]
    dead: list[tuple[str | None, str | None, int]]
    resume: list[tuple[str, str, int, int]]
    servers: list[Stretch]
    begun: set[TableSnapshot]
    whole: set[TableSnapshot]
    short: list[Shortfall]


_decoder = msgspec.msgpack.Decoder(_Packed)


def to_bytes(summary: Summary) -> bytes:
    """A summary encoded for its way from a worker to the driver."""
    packed = _Packed(
        summary.counts,
        [_Table(*name, **bounds) for name, bounds in summary.tables.items()],
        summary.reach,
        summary.keyless,
        marks=[(*place, watermark) for place, watermark in summary.marks.items()],
        dead=[(*name, n) for name, n in summary.dead.items()],
        resume=[(*place, offset) for place, offset in summary.resume.items()],
        servers=summary.servers,
        begun=summary.begun,
        whole=summary.whole,
        short=summary.short,
    )
    return msgspec.msgpack.encode(packed)


def from_bytes(data: bytes) -> Summary:
    """The summary that `to_bytes` encoded."""
    packed = _decoder.decode(data)
    tables = {
        (bounds.database, bounds.table): {
            name: getattr(bounds, name) for name in _Table.__struct_fields__[2:]
        }
        for bounds in packed.tables
    }
    return Summary(
        packed.counts,
        tables,
        min((t.low for t in packed.tables), default=None),
        max((t.high for t in packed.tables), default=None),
        reach=packed.reach,
        keyless=packed.keyless,
        marks={(topic, partition): watermark for topic, partition, watermark in packed.marks},
        dead={(database, table): n for database, table, n in packed.dead},
        resume={
            (topic, incarnation, partition): offset for topic, incarnation, partition, offset in packed.resume
        },
        servers=packed.servers,
        begun=packed.begun,
        whole=packed.whole,
        short=packed.short,
    )
