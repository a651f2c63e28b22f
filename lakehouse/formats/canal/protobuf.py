"""Alibaba Canal protobuf (flatMessage=false): a batch of binlog entries per message.

    Kafka value = Packet{type MESSAGES, body}   body = Messages{messages: [Entry, …]}
    Entry       = {header: file, offset, table, …   entryType   storeValue = RowChange}
    RowChange   = {sql | rowDatas [{before, after}]}

Producer: Canal 1.1.x (seen: 1.1.7). Fields: proto/canal.proto.
Order: the binlog's, positions (epoch, file number, offset, 1, row, half) from the entry's header, DDL at row
0, half 0. A row's number counts within its binlog event. partitionHash cuts the event into entries of one row
each (`rowsCount` says how many it had), and every partition counts its own: their numbers have the partition
behind them, and the deletes of key changes come before all else, since a key is free before it is taken.
`commit_ts` is executeTime, milliseconds of the statement's start, which runs backwards inside a binlog.
Transaction ends, heartbeats, XA COMMIT and the SQL text of row events give no event. Both images are on the
wire; with binlog_row_image other than FULL the new one is completed from the old one and both are flagged
partial.
Values as in FlatMessage (`encoding` "canal"). A statement-format change is a DeadLetter `statement`,
ROLLBACK and XA ROLLBACK a DeadLetter `rollback`. An entry that can't be read is a DeadLetter in its place,
the others go on.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.binlog import ROLLED_BACK, rules_of_gtid, server_of, undoes
from lakehouse.formats.canal.values import (
    IMPLICIT_KEYS,
    Reading,
    image,
    is_doubtful,
    is_of_mariadb,
    is_spelled,
    is_statement,
    reading,
)
from lakehouse.formats.proto import canal_pb2 as wire
from lakehouse.schema import parse_type
from lakehouse.values.normal_form import PRINTED

_DML = {wire.EVENT_INSERT: "insert", wire.EVENT_UPDATE: "update", wire.EVENT_DELETE: "delete"}
_PARTITION_BITS = 16
# rows of an event that was cut, above all deletes of its key changes
_CUT = 1 << 40
_FILE_NUMBER = re.compile(r"\.(\d{1,18})\Z", re.A)


class _Wire(NamedTuple):
    """What reads an entry's values beside their types: the zone of TIMESTAMP text, and whether Canal may have
    changed some.
    """

    zone: str
    doubtful: bool


class _Place(NamedTuple):
    """A binlog event. `partition`: the one of its entry, where it was cut into several."""

    epoch: int
    file: int
    offset: int
    partition: int | None = None

    def position(self, row: int, half: int) -> Position:
        if self.partition is not None:
            row = (row << _PARTITION_BITS | self.partition) + _CUT * half
        return (self.epoch, self.file, self.offset, 1, row, half)


@dataclass(slots=True)
class _Seen:
    """How many rows of an event the message has had so far, and, where the event was cut, the keys that they
    took.
    """

    rows: int = 0
    taken: set[str] = field(default_factory=set)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message."""
    zone = options.get("time_zone", "UTC")
    rows: dict[_Place, _Seen] = {}
    index = 0
    for data in _entries(message.value):
        try:
            events = _entry(data, message, rows, zone)
        except DecodeError as error:
            events = [DeadLetter(error.code, str(error), 0)]
        for event in events:
            event.index = index
            index += 1
            yield event


# Frame


def _entries(value: bytes | None) -> Sequence[bytes]:
    if value is None:
        raise DecodeError("frame", "message: expected a value, got none")
    try:
        packet = wire.Packet.FromString(value)
        if packet.type == wire.PACKET_HEARTBEAT:
            return []
        if packet.type != wire.PACKET_MESSAGES:
            raise DecodeError("kind", f"packet: expected type MESSAGES, got {packet.type}")
        if packet.compression not in (0, 1):
            raise DecodeError("compression", f"packet: expected no compression, got {packet.compression}")
        return wire.Messages.FromString(packet.body).messages[:]
    except ProtobufError:
        raise DecodeError("protobuf", "message: expected a Canal packet, got other bytes") from None


def _entry(data: bytes, message: Message, rows: dict[_Place, _Seen], zone: str) -> Sequence[Event]:
    try:
        entry = wire.Entry.FromString(data)
        if entry.entryType in (
            wire.ENTRY_TRANSACTIONBEGIN,
            wire.ENTRY_TRANSACTIONEND,
            wire.ENTRY_HEARTBEAT,
            wire.ENTRY_GTIDLOG,
        ):
            return []
        if entry.entryType != wire.ENTRY_ROWDATA:
            raise DecodeError("kind", f"entry: expected ROWDATA, got type {entry.entryType}")
        change = wire.RowChange.FromString(entry.storeValue)
    except ProtobufError:
        raise DecodeError("protobuf", "entry: expected a Canal entry, got other bytes") from None
    is_ddl = change.isDdl or (change.eventType == wire.EVENT_QUERY and _is_statement(entry.header, change))
    if change.eventType == wire.EVENT_XAROLLBACK or (is_ddl and undoes(change.sql)):
        raise DecodeError("rollback", ROLLED_BACK)
    if is_ddl:
        return [_ddl(entry.header, change, _place(entry.header, message.epoch))]
    if change.eventType in _DML:
        place = _place(entry.header, message.epoch)
        cut = _Place(*place[:3], message.partition)
        # of a compressed transaction all events have one place: what comes behind cut rows stays behind them
        if cut in rows or _is_cut(entry.header, change):
            place = cut
        sent = _Wire(zone, is_doubtful(data))
        return list(_rows(entry.header, change, place, rows, sent=sent))
    return []


def _is_statement(header: wire.Header, change: wire.RowChange) -> bool:
    database = header.schemaName or change.ddlSchemaName
    return is_statement("QUERY", change.sql, database, header.tableName)


def _place(header: wire.Header, epoch: int) -> _Place:
    number = _FILE_NUMBER.search(header.logfileName)
    if number is None or header.logfileOffset <= 0:
        raise DecodeError(
            "position", "entry: expected a binlog file with a number and an offset, got another position"
        )
    return _Place(epoch, int(number[1]), header.logfileOffset)


def _is_cut(header: wire.Header, change: wire.RowChange) -> bool:
    """Whether the entry has one of several rows of its event."""
    if len(change.rowDatas) != 1:
        return False
    count = next((pair.value for pair in header.props[:] if pair.key == "rowsCount"), "")
    return count.isdecimal() and count.isascii() and count.lstrip("0") not in ("", "1")


# Events


def _ddl(header: wire.Header, change: wire.RowChange, place: _Place) -> SchemaChange:
    """The statement; `database` is what its unqualified names stand for, `table` is given if it is of that
    database, and empty where Canal could not read the statement.
    """
    database = change.ddlSchemaName or header.schemaName
    table = header.tableName if header.schemaName in (database, "") else None
    return SchemaChange(
        "ddl",
        database,
        table or (None if header.schemaName else ""),
        commit_ts=header.executeTime,
        position=place.position(0, 0),
        ddl=change.sql,
        index=0,
        server=server_of(header.serverId, header.logfileName),
    )


def _rows(
    header: wire.Header, change: wire.RowChange, place: _Place, rows: dict[_Place, _Seen], sent: _Wire
) -> Iterator[Event]:
    if not change.rowDatas:
        raise DecodeError(
            "statement", "entry: expected rows, got a statement alone: is the source's binlog_format ROW?"
        )
    seen = rows.get(place)
    if seen is None:
        seen = rows[place] = _Seen()
    for row in change.rowDatas[:]:  # a slice: protobuf's own iterators cost three times as much
        number = seen.rows
        seen.rows += 1
        try:
            events = _row(header, _DML[change.eventType], row, place, number=number, sent=sent)
            yield from events if place.partition is None else _in_chain(events, seen.taken)
        except DecodeError as error:
            yield DeadLetter(error.code, str(error), 0, database=header.schemaName, table=header.tableName)


def _in_chain(events: Sequence[RowChange], taken: set[str]) -> Sequence[RowChange]:
    """The changes of a row of a cut event; a key that a row before it took is left after that."""
    for event in events:
        if event.after is not None:
            taken.add(str(event.key))
        elif event.position[5] == 0 and str(event.key) in taken:
            event.position = (*event.position[:4], event.position[4] + _CUT, 0)
    return events


def _row(
    header: wire.Header, op: str, row: wire.RowData, place: _Place, number: int, sent: _Wire
) -> Sequence[RowChange]:
    old_columns, new_columns = row.beforeColumns[:], row.afterColumns[:]
    old, new = _shape_of(old_columns, sent), _shape_of(new_columns, sent)
    before, after = _image(old_columns, old), _image(new_columns, new)
    if (not before and op != "insert") or (not after and op != "delete"):
        raise DecodeError("shape", f"row: expected what {op} needs of before and after images, got fewer")
    here = place.position(number, 1)
    if op == "insert":
        return [_change(header, op, None, after, shape=new, position=here, flags=_partial("after", new))]
    if op == "delete":
        only_key = ("partial_before",) if len(before) == len(old.key_names) else ()
        return [
            _change(
                header, op, before, None, shape=old, position=here, flags=only_key or _partial("before", old)
            )
        ]
    return _updated(header, place, number, old=(before, old), new=(after, new))


def _updated(
    header: wire.Header,
    place: _Place,
    number: int,
    *,
    old: "tuple[Image, _Shape]",
    new: "tuple[Image, _Shape]",
) -> Sequence[RowChange]:
    """An update of a row, which is two changes where its key becomes another."""
    here, (before, old_shape), (sent, new_shape) = place.position(number, 1), old, new
    # with binlog_row_image=MINIMAL the new image holds what changed, the old one names the row
    after = {**before, **sent}
    flags = _partial("before", old_shape, new_shape), _partial("after", new_shape, old_shape)
    table = _merged(old_shape, new_shape)
    names = table.key_names
    unknown = () if before.keys() >= set(names) else ("old_key_unknown",)
    if unknown or [before[name] for name in names] == [after[name] for name in names]:
        told = (*unknown, *flags[0], *flags[1])
        return [_change(header, "update", before, after, shape=table, position=here, flags=told)]
    deleted = _change(
        header, "delete", before, None, shape=table, position=place.position(number, 0), flags=flags[0]
    )
    return [deleted, _change(header, "insert", None, after, shape=table, position=here, flags=flags[1])]


def _change(
    header: wire.Header,
    op: str,
    before: Image | None,
    after: Image | None,
    shape: "_Shape",
    position: Position,
    flags: tuple[str, ...],
) -> RowChange:
    now = after if after is not None else before or {}
    if not now.keys() >= set(shape.key_names):
        raise DecodeError("shape", "row: expected all columns of the key, got fewer")
    key = tuple([now[name] for name in shape.key_names])
    if shape.open_key and any(type(value) is dict for value in key):
        raise DecodeError("value", "key: expected text, got bytes that are none")
    return RowChange(
        header.schemaName,
        header.tableName,
        op,
        key,
        key_names=shape.key_names,
        commit_ts=header.executeTime,
        position=position,
        before=before,
        after=after,
        index=0,
        encoding="canal",
        types=shape.reading.types,
        flags=flags,
        server=server_of(header.serverId, header.logfileName),
    )


# Images


class _Shape(NamedTuple):
    """What the columns of an image say besides their values."""

    names: tuple[str, ...]
    reading: Reading
    key_names: tuple[str, ...]
    gaps: bool
    open_key: bool
    hidden: tuple[str, ...]


def _shape_of(columns: Sequence[wire.Column], sent: _Wire) -> _Shape:
    return _shape(tuple([(c.name, c.mysqlType, c.isKey, c.index, c.sqlType) for c in columns]), sent)


@functools.lru_cache(maxsize=4096)
def _shape(columns: tuple[tuple[str, str, bool, int, int], ...], sent: _Wire) -> _Shape:
    names = tuple(column[0] for column in columns)
    shown = [column for column in columns if not (column[2] and column[0] in IMPLICIT_KEYS)]
    spelled = tuple(name for name, text, _, _, code in shown if is_spelled(text, code))
    keys = {name: parse_type(text).base for name, text, is_key, _, _ in shown if is_key}
    gaps = max((index for _, _, _, index, _ in columns), default=-1) + 1 > len(columns)
    types = tuple(column[1] for column in shown)
    read = reading(
        tuple(column[0] for column in shown), types, sent.zone, spelled, coded=True, doubtful=sent.doubtful
    )
    hidden = tuple(IMPLICIT_KEYS.intersection(names).difference(column[0] for column in shown))
    return _Shape(
        names,
        read,
        tuple(sorted(keys)),
        gaps,
        open_key=sent.doubtful or not PRINTED.keys().isdisjoint(keys.values()),
        hidden=hidden,
    )


def _merged(old: _Shape, new: _Shape) -> _Shape:
    """The shape of an update whose two images have different columns."""
    if old is new:
        return new
    types = {**old.reading.types, **new.reading.types}
    names, open_key = tuple(sorted({*old.key_names, *new.key_names})), old.open_key or new.open_key
    return new._replace(key_names=names, reading=new.reading._replace(types=types), open_key=open_key)


def _image(columns: Sequence[wire.Column], shape: _Shape) -> Image:
    values = dict(zip(shape.names, [None if c.isNull else c.value for c in columns], strict=True))
    for name in shape.hidden:
        values.pop(name, None)
    return image(values, shape.reading.converters)


def _partial(which: str, shape: _Shape, other: _Shape | None = None) -> tuple[str, ...]:
    """The flag of an image with fewer columns than the other one, or with gaps in its column numbers."""
    return (f"partial_{which}",) if shape.gaps or (other and len(shape.names) < len(other.names)) else ()


def rules_told(message: Message) -> str | None:
    """Whose server it is, by its GTID, which Canal sends where it reads by GTID, or by a column's type."""
    try:
        entries = [wire.Entry.FromString(data) for data in _entries(message.value)]
        rows = [row for entry in entries for row in _first_row(entry)]
    except (DecodeError, ProtobufError):
        return None
    columns = [column for row in rows for column in (*row.beforeColumns[:], *row.afterColumns[:])]
    if any(is_of_mariadb(column.mysqlType, column.sqlType) for column in columns):
        return "mariadb"
    told = (rules_of_gtid(entry.header.gtid) for entry in entries)
    return next((rules for rules in told if rules is not None), None)


def _first_row(entry: wire.Entry) -> Sequence[wire.RowData]:
    if entry.entryType != wire.ENTRY_ROWDATA:
        return []
    return wire.RowChange.FromString(entry.storeValue).rowDatas[:1]
