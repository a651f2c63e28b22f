"""Alibaba Canal protobuf (flatMessage=false): a batch of binlog entries per message.

    Kafka value = Packet{type MESSAGES, body}   body = Messages{messages: [Entry, …]}
    Entry       = {header: file, offset, table, …   entryType   storeValue = RowChange{sql | rowDatas [{before, after}]}}

Producer: Canal 1.1.x (seen: 1.1.7). Fields: proto/canal.proto.
Order: the binlog's, positions (epoch, file number, offset, 1, row, half) from the entry's header, DDL at row 0, half 0. A row's number
counts within its binlog event, which partitionHash cuts into several entries. `commit_ts` is executeTime, milliseconds of the
statement's start, which runs backwards inside a binlog. Transaction ends, heartbeats, XA and the SQL text of row events give no event.
Both images are on the wire; with binlog_row_image other than FULL the new one is completed from the old one and both are flagged partial.
Values as in FlatMessage (`encoding` "canal"). A statement-format change is a DeadLetter `statement`. An entry that can't be read is a
DeadLetter in its place, the others go on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.canal_values import converters, image, utf8_of_latin1
from lakehouse.formats.proto import canal_pb2 as wire

_BLOB = 2004  # the java.sql.Types code of MariaDB's JSON, which Canal spells as bytes
_DML = {wire.EVENT_INSERT: "insert", wire.EVENT_UPDATE: "update", wire.EVENT_DELETE: "delete"}
_FILE_NUMBER = re.compile(r"\.(\d{1,18})\Z", re.A)


class _Place(NamedTuple):
    """A binlog event."""

    epoch: int
    file: int
    offset: int

    def position(self, row: int, half: int) -> Position:
        return (self.epoch, self.file, self.offset, 1, row, half)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message."""
    zone = options.get("time_zone", "UTC")
    rows: dict[_Place, int] = {}
    index = 0
    for data in _entries(message.value):
        try:
            events = _entry(data, message.epoch, rows, zone)
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
        return wire.Messages.FromString(packet.body).messages
    except ProtobufError:
        raise DecodeError("protobuf", "message: expected a Canal packet, got other bytes") from None


def _entry(data: bytes, epoch: int, rows: dict[_Place, int], zone: str) -> Sequence[Event]:
    try:
        entry = wire.Entry.FromString(data)
        if entry.entryType in (wire.ENTRY_TRANSACTIONBEGIN, wire.ENTRY_TRANSACTIONEND, wire.ENTRY_HEARTBEAT, wire.ENTRY_GTIDLOG):
            return []
        if entry.entryType != wire.ENTRY_ROWDATA:
            raise DecodeError("kind", f"entry: expected ROWDATA, got type {entry.entryType}")
        change = wire.RowChange.FromString(entry.storeValue)
    except ProtobufError:
        raise DecodeError("protobuf", "entry: expected a Canal entry, got other bytes") from None
    if change.isDdl:
        return [_ddl(entry.header, change, _place(entry.header, epoch))]
    if change.eventType in _DML:
        return list(_rows(entry.header, change, _place(entry.header, epoch), rows, zone))
    return []


def _place(header: wire.Header, epoch: int) -> _Place:
    number = _FILE_NUMBER.search(header.logfileName)
    if number is None or header.logfileOffset < 0:
        raise DecodeError("position", "entry: expected a binlog file with a number and an offset, got another position")
    return _Place(epoch, int(number[1]), header.logfileOffset)


# Events


def _ddl(header: wire.Header, change: wire.RowChange, place: _Place) -> SchemaChange:
    """The statement; `database` is what its unqualified names stand for, `table` is given if it is of that database."""
    database = change.ddlSchemaName or header.schemaName
    table = header.tableName if header.schemaName in (database, "") else ""
    return SchemaChange("ddl", database, table or None, header.executeTime, place.position(0, 0), change.sql, 0)


def _rows(header: wire.Header, change: wire.RowChange, place: _Place, rows: dict[_Place, int], zone: str) -> Iterator[Event]:
    if not change.rowDatas:
        raise DecodeError("statement", "entry: expected rows, got a statement alone: is the source's binlog_format ROW?")
    for row in change.rowDatas:
        number = rows.get(place, 0)
        rows[place] = number + 1
        try:
            yield from _row(header, _DML[change.eventType], row, place, number, zone)
        except DecodeError as error:
            yield DeadLetter(error.code, str(error), 0, header.schemaName, header.tableName)


def _row(header: wire.Header, op: str, row: wire.RowData, place: _Place, number: int, zone: str) -> Sequence[Event]:
    before, after = _image(row.beforeColumns, zone), _image(row.afterColumns, zone)
    if (not before and op != "insert") or (not after and op != "delete"):
        raise DecodeError("shape", f"row: expected what {op} needs of before and after images, got fewer")
    table = _table(header, row)
    here = place.position(number, 1)
    if op == "insert":
        return [_change(table, op, None, after, here, _partial(row, "after"))]
    if op == "delete":
        return [_change(table, op, before, None, here, _partial(row, "before", key_only=len(table.key_names)))]
    after = {**before, **after}  # with binlog_row_image=MINIMAL the new image holds what changed, the old one names the row
    before_flags, after_flags = _partial(row, "before"), _partial(row, "after")
    if not before.keys() >= set(table.key_names):
        return [_change(table, op, before, after, here, ("old_key_unknown", *before_flags, *after_flags))]
    if [before[name] for name in table.key_names] == [after[name] for name in table.key_names]:
        return [_change(table, op, before, after, here, before_flags + after_flags)]
    deleted = _change(table, "delete", before, None, place.position(number, 0), before_flags)
    return [deleted, _change(table, "insert", None, after, here, after_flags)]


class _Table(NamedTuple):
    """What an entry says of all its rows."""

    header: wire.Header
    key_names: tuple[str, ...]
    types: dict[str, str]


def _table(header: wire.Header, row: wire.RowData) -> _Table:
    columns = [*row.beforeColumns, *row.afterColumns]
    keys = {column.name for column in columns if column.isKey}
    return _Table(header, tuple(sorted(keys)), {column.name: column.mysqlType for column in columns})


def _image(columns: Sequence[wire.Column], zone: str) -> Image:
    row = {column.name: None if column.isNull else column.value for column in columns}
    as_bytes = [(column.name, utf8_of_latin1) for column in columns if column.sqlType == _BLOB and column.mysqlType.lower() == "json"]
    return image(row, [*converters({column.name: column.mysqlType for column in columns}, zone), *as_bytes])


def _partial(row: wire.RowData, which: str, key_only: int = 0) -> tuple[str, ...]:
    """The flag of an image with fewer columns than the other one, or with gaps in its column numbers."""
    columns, other = (row.beforeColumns, row.afterColumns) if which == "before" else (row.afterColumns, row.beforeColumns)
    gaps = max((column.index for column in columns), default=-1) + 1 > len(columns)
    return (f"partial_{which}",) if gaps or len(columns) < len(other) or len(columns) == key_only else ()


def _change(table: _Table, op: str, before: Image | None, after: Image | None, position: Position, flags: tuple[str, ...]) -> RowChange:
    now = after if after is not None else before or {}
    if not now.keys() >= set(table.key_names):
        raise DecodeError("shape", "row: expected all columns of the key, got fewer")
    key = tuple([now[name] for name in table.key_names])
    header = table.header
    return RowChange(
        header.schemaName, header.tableName, op, key, table.key_names, header.executeTime, position, before, after, 0,
        "canal", table.types, flags,
    )  # fmt: skip
