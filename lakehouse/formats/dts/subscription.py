"""Tencent DTS data subscription in Protobuf (MySQL, TDSQL-C, TDSQL for MySQL, MariaDB, Percona).

    value  Envelope {version = 1, total, index, data}; envelopes.py joins the parts of one Entries before
    data   Entries {Entry…}, Entry {Header, Event}: BEGIN, DML, COMMIT, DDL, ROLLBACK, HEARTBEAT, CHECKPOINT
    DML    columns {name, originalType, isKey}, rows {oldColumns, newColumns},
           each value {dataType, charset, sv, bv}

Specification: Tencent Cloud's pages on consuming subscribed data; the messages stand in
proto/subscribe.proto. Order: Header.fileName's number and position, then the row in its event; seqId and the
header `ps` are of one task only. Outcomes: RowChange, SchemaChange, Watermark (a CHECKPOINT), DeadLetter for
an entry or row that can't be read, and for a transaction that was rolled back after its rows; DecodeError for
bytes that are no Entries. Zero values are absent on the wire, so nothing is told by presence. Text that its
charset can't read, and bytes of a column whose type is not told, are `{"base64": …}` for the schema: encoding
"tencent-dts". Not supported: Avro and JSON subscriptions, PostgreSQL and Oracle sources.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DeadLetter,
    Event,
    Image,
    JsonChange,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Stored,
    Watermark,
    opened,
)
from lakehouse.formats.binlog import Server, server_of, undoes
from lakehouse.formats.dts.fast_values import Read
from lakehouse.formats.dts.rollbacks import rolled_back
from lakehouse.formats.dts.values import ABSENT, Cells, Open
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.formats.row_images import halves, image_flags

FORMAT = "tencent-dts"
STREAMED = 1
_LAST_ROW = 2**63 - 1
_SHARD_BITS = 32
_ENTRIES_TAG = b"\x0a"
_SILENT = frozenset({pb.BEGIN, pb.COMMIT, pb.HEARTBEAT})
_OPS = {pb.INSERT: "insert", pb.UPDATE: "update", pb.DELETE: "delete"}
_NOT_PROTOBUF = "value: expected an Envelope or Entries of the subscription's messages, got other bytes"


class _Columns(NamedTuple):
    """The columns of one DML event: names, the reader of each column's values, the reader of an image and its
    key as JSON text, the key's names in their order, and the types. `doubled`: two columns have one name.
    """

    names: tuple[str, ...]
    cells: tuple[Cells, ...]
    image: Callable[[list[bytes]], tuple[bytes, bytes]]
    key: tuple[str, ...]
    types: dict[str, str]
    types_text: bytes
    doubled: bool


class _Row(NamedTuple):
    """What the rows of one DML event share."""

    database: str
    table: str
    op: str
    commit_ts: int
    server: Server | None


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one whole Entries."""
    return (
        opened(event) if isinstance(event, JsonChange) else event for event in decode_stored(message, options)
    )


def decode_stored(message: Message, options: Mapping[str, str]) -> list[Stored]:
    """The events of one whole Entries, most changes as JSON text as silver stores them."""
    zone = options.get("time_zone", "UTC")
    events: list[Stored] = []
    # a slice: protobuf's own iterators cost three times as much
    entries = _entries(message.value).items[:] if message.value else []
    for number, entry in enumerate(entries):
        header = entry.header
        if header.messageType == pb.ROLLBACK:
            events += rolled_back(entries[:number], len(events))
        elif header.messageType not in _SILENT:
            _add_events(events, entry, header, message.epoch, zone=zone)
    return events


def _entries(value: bytes) -> pb.Entries:
    try:
        if value.startswith(_ENTRIES_TAG):
            return pb.Entries.FromString(value)
        envelope = pb.Envelope.FromString(value)
        if envelope.version != 1:
            raise DecodeError("envelope", f"Envelope: expected version 1, got {envelope.version}")
        if envelope.total > 1:
            raise DecodeError(
                "part",
                f"Envelope: expected a whole Entries, got part {envelope.index + 1} of {envelope.total}",
            )
        return pb.Entries.FromString(envelope.data)
    except ProtobufError:
        raise DecodeError("protobuf", _NOT_PROTOBUF) from None


def _add_events(events: list[Stored], entry: pb.Entry, header: pb.Header, epoch: int, zone: str) -> None:
    """Add one entry's events; an entry that can't be read becomes one dead letter."""
    kind = header.messageType
    try:
        if header.sourceType == pb.PGSQL:
            raise DecodeError("source_type", "Header.sourceType: expected MySQL or MariaDB, got PostgreSQL")
        if kind == pb.DML:
            _add_rows(events, header, entry.event.dmlEvent, epoch, zone=zone)
        elif kind == pb.DDL and undoes(entry.event.ddlEvent.sql):
            events += rolled_back([], len(events))
        elif kind == pb.DDL:
            events.append(_schema_change(header, entry.event.ddlEvent, epoch, len(events)))
        elif kind == pb.CHECKPOINT:
            if entry.event.checkpointEvent.fileName or header.fileName:  # one by GTID alone tells no position
                events.append(_watermark(header, entry.event.checkpointEvent, epoch, len(events)))
        else:
            raise DecodeError("message_type", f"Header.messageType: expected 0 to 6, got {kind}")
    except DecodeError as error:
        events.append(_dead_letter(header, error, len(events)))


def _dead_letter(header: pb.Header, error: DecodeError, index: int) -> DeadLetter:
    return DeadLetter(
        error.code, str(error), index, database=header.schemaName or None, table=header.tableName or None
    )


def _schema_change(header: pb.Header, event: pb.DDLEvent, epoch: int, index: int) -> SchemaChange:
    """The statement. `database` resolves its unqualified names; `table` is set only if it is in that
    database.
    """
    position = _position(epoch, header.fileName, header.position, 0, half=0)
    database = event.schemaName or header.schemaName
    table = header.tableName if header.schemaName in (database, "") else ""
    return SchemaChange(
        "ddl",
        database,
        table or None,
        commit_ts=header.timestamp * 1000,
        position=position,
        ddl=event.sql,
        index=index,
        server=server_of(header.serverId, header.fileName),
    )


def _watermark(header: pb.Header, event: pb.CheckpointEvent, epoch: int, index: int) -> Watermark:
    """A checkpoint covers the changes up to and at its position, since a position is the end of an event."""
    file, offset = (event.fileName, event.position) if event.fileName else (header.fileName, header.position)
    return Watermark(_position(epoch, file, max(offset, 1), _LAST_ROW, half=1), None, index)


def _position(epoch: int, file: str, offset: int, row: int, half: int) -> Position:
    if not 0 < offset < 2**63:  # MariaDB's events have 0 under binlog_legacy_event_pos=OFF
        raise DecodeError("position", _NO_PLACE)
    return (epoch, _file_number(file), offset, STREAMED, row, half)


@functools.lru_cache(maxsize=1024)
def _file_number(file: str) -> int:
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise DecodeError("position", _NO_PLACE)
    return int(digits)


_NO_PLACE = "Header: expected a binlog file name that ends in a number, and a position, got another"


# Rows


def _add_rows(events: list[Stored], header: pb.Header, event: pb.DMLEvent, epoch: int, zone: str) -> None:
    op, first = _OPS.get(event.dmlEventType), header.eventIndex
    if op is None or first >= 1 << (63 - _SHARD_BITS):
        raise DecodeError(
            "dml_type", "DMLEvent: expected an insert, update or delete with an event index, got another"
        )
    columns = _columns(tuple(event.columns[:]), zone)
    shared = _Row(
        header.schemaName,
        header.tableName,
        op,
        header.timestamp * 1000,
        server=server_of(header.serverId, header.fileName),
    )
    epoch, file, offset, streamed, row_number, _ = _position(
        epoch, header.fileName, header.position, first << _SHARD_BITS, half=1
    )
    for number, row in enumerate(event.rows[:], row_number):
        try:
            _add_row(events, shared, columns, row, position=(epoch, file, offset, streamed, number, 1))
        except DecodeError as error:
            events.append(_dead_letter(header, error, len(events)))


def _add_row(
    events: list[Stored], shared: _Row, columns: _Columns, row: pb.RowChange, position: Position
) -> None:
    database, table, op, commit_ts, server = shared
    old_values, new_values = (
        row.oldColumns[:] if op != "insert" else [],
        row.newColumns[:] if op != "delete" else [],
    )
    if not (old_values if op == "delete" else new_values):
        raise DecodeError("image", f"a row of op {op}: expected its image, got none")
    if columns.doubled or (op == "update" and not old_values):
        _add_uncommon(events, shared, columns, old_values, new_values=new_values, position=position)
        return
    try:
        before, old_key = columns.image(old_values) if old_values else (None, b"")
        after, key = columns.image(new_values) if new_values else (None, old_key)
    except TypeError:  # a value that has no text
        _add_uncommon(events, shared, columns, old_values, new_values=new_values, position=position)
        return
    if before is not None and old_key != key:
        _add_delete_half(events, shared, columns, old_key, before=before, position=(*position[:5], 0))
        op, before = "insert", None
    events.append(
        JsonChange(
            database,
            table,
            op,
            key,
            key_names=columns.key,
            commit_ts=commit_ts,
            position=position,
            before=before,
            after=after,
            index=len(events),
            types=columns.types_text,
            server=server,
        )
    )


def _add_delete_half(
    events: list[Stored], shared: _Row, columns: _Columns, key: bytes, *, before: bytes, position: Position
) -> None:
    """Add the delete of the old key that an update of the key begins with."""
    events.append(
        JsonChange(
            shared.database,
            shared.table,
            "delete",
            key,
            key_names=columns.key,
            commit_ts=shared.commit_ts,
            position=position,
            before=before,
            after=None,
            index=len(events),
            types=columns.types_text,
            server=shared.server,
        )
    )


def _image_reader(
    reads: Sequence[Read], key_at: Sequence[tuple[int, int]]
) -> Callable[[list[bytes]], tuple[bytes, bytes]]:
    """A function that gives an image and its key as JSON text; it raises TypeError where a value has none."""
    first, cut = key_at[0] if len(key_at) == 1 else (0, 0)

    def read(values: list[bytes]) -> tuple[bytes, bytes]:
        if len(values) != len(reads):
            raise _miscounted(len(values), len(reads))
        members = list(map(operator.call, reads, values))
        text = b"{" + b",".join(members) + b"}"
        return text, b"[" + (
            members[first][cut:] if cut else b",".join([members[place][start:] for place, start in key_at])
        ) + b"]"

    return read


def _miscounted(values: int, columns: int) -> DecodeError:
    return DecodeError("columns", f"RowChange: expected {columns} values as there are columns, got {values}")


def _add_uncommon(
    events: list[Stored],
    shared: _Row,
    columns: _Columns,
    old_values: Sequence[bytes],
    new_values: Sequence[bytes],
    position: Position,
) -> None:
    """Add a row whose images may be partial, or have values that only the table's schema can read."""
    database, table, op, commit_ts, server = shared
    before, before_opened = _opened(old_values, columns)
    after, after_opened = _opened(new_values, columns)
    if any(type(image.get(name)) is dict for image in (before, after) if image for name in columns.key):
        raise DecodeError("value", "key: expected text, got bytes that are none in its charset")
    flags = _flags(op, columns, before, after)
    if before and after:  # an image that leaves a key column out has not changed it
        after |= {name: before[name] for name in columns.key if name not in after and name in before}
    for half in halves(op, columns.key, before, after):
        place = (*position[:5], 0 if op == "update" and half.op == "delete" else 1)
        names = columns.key if half.key else ()
        encoding = FORMAT if before_opened or after_opened else "canonical"
        events.append(
            RowChange(
                database,
                table,
                half.op,
                half.key,
                key_names=names,
                commit_ts=commit_ts,
                position=place,
                before=half.before,
                after=half.after,
                index=len(events),
                encoding=encoding,
                types=columns.types,
                flags=flags,
                server=server,
            )
        )


def _opened(values: Sequence[bytes], columns: _Columns) -> tuple[Image | None, bool]:
    """An image without absent values, and whether it has values that only the table's schema can read."""
    if not values:
        return None, False
    if len(values) != len(columns.cells):
        raise _miscounted(len(values), len(columns.cells))
    members = [
        (name, cells.value(value))
        for name, cells, value in zip(columns.names, columns.cells, values, strict=True)
    ]
    image = {
        name: value.value if isinstance(value, Open) else value
        for name, value in members
        if value is not ABSENT
    }
    return image, any(isinstance(value, Open) for _, value in members)


def _flags(op: str, columns: _Columns, before: Image | None, after: Image | None) -> tuple[str, ...]:
    flags = image_flags(before, after) if op == "update" else ()
    if before is not None and len(before) < len(columns.names) and not flags:
        flags = ("partial_before",)
    if op == "update" and columns.key and not (before is not None and before.keys() >= set(columns.key)):
        flags += ("old_key_unknown",)
    return (*flags, "partial_after") if after is not None and len(after) < len(columns.names) else flags


@functools.lru_cache(maxsize=4096)
def _columns(encoded: tuple[bytes, ...], zone: str) -> _Columns:
    try:
        columns = [_column(column, zone) for column in encoded]
    except ProtobufError:
        raise DecodeError("protobuf", _NOT_PROTOBUF) from None
    names = tuple(column.name for column, *_ in columns)
    key = sorted(
        (column.name, place, len(cells.member))
        for place, (column, cells, _) in enumerate(columns)
        if column.isKey
    )
    types = {column.name: column.originalType for column, *_ in columns}
    image = _image_reader([read for _, _, read in columns], [(place, start) for _, place, start in key])
    return _Columns(
        names,
        tuple(cells for _, cells, _ in columns),
        image,
        tuple(name for name, *_ in key),
        types=types,
        types_text=msgspec.json.encode(types),
        doubled=len(types) < len(names),
    )


@functools.lru_cache(maxsize=4096)
def _column(encoded: bytes, zone: str) -> tuple[pb.Column, Cells, Read]:
    """A column, its value readers, and the reader of its values as text. Cached by the column's bytes, which
    tables and their versions share.
    """
    column = pb.Column.FromString(encoded)
    cells = Cells(column.name, column.originalType, zone, column.isKey)
    return column, cells, cells.quick()
