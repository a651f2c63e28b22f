"""TiCDC canal-json: one event per message, JSON in the Kafka value, no key.

    row        {"database", "table", "pkNames", "type": INSERT | UPDATE | DELETE, "es", "mysqlType",
                "old": [{…}] | null, "data": [{…}], "_tidb"?}
    DDL        {…, "isDdl": true, "type", "sql"}
    watermark  {"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs"}}
    _tidb      {"commitTs" | "watermarkTs", "onlyHandleKey"?, "claimCheckLocation"?, "rowkey"?}: there with
               enable-tidb-extension

Producers: all TiCDC releases. Specification: docs.pingcap.com, "TiCDC Canal-JSON Protocol".
Order: with the extension commit_ts, then delete before upsert before DDL. Without it arrival within the
partition, no watermark, and `commit_ts` is `es` in a TSO's unit (milliseconds << 18). Which of the two is
read from each message, unless option `tidb_extension` says it. Old images that hold only what changed are
completed from the new one. `pkNames` is the PRIMARY KEY only: the key of a table whose handle is a unique key
is left to the schema. A row of which only the handle key was sent is a DeadLetter `unresolved`, unless it is
a delete. ENUM and SET are index and mask: such rows' `encoding` is "ticdc-canal-json".
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DDL,
    DELETE,
    NO_PRIMARY_KEY,
    UPSERT,
    DeadLetter,
    Event,
    Image,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Watermark,
)
from lakehouse.formats.canal.values import Convert, Reading, image, reading
from lakehouse.formats.invalid_text import MARK, decode_again, with_lost_text
from lakehouse.formats.wire_json import read_json
from lakehouse.values.scalars import base64_text

_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**45 - 1)]
_Row = dict[str, str | None]
_Flags = tuple[str, ...]


class _Extension(msgspec.Struct):
    commitTs: _Int64 | None = None
    watermarkTs: _Int64 | None = None
    onlyHandleKey: bool = False
    claimCheckLocation: str = ""
    rowkey: str | None = None


class _Message(msgspec.Struct):
    type: str
    database: str
    table: str
    es: _Milliseconds = 0
    isDdl: bool = False
    sql: str = ""
    pkNames: list[str] | None = None
    mysqlType: dict[str, str] | None = None
    sqlType: msgspec.Raw = msgspec.Raw(b"null")
    data: list[_Row] | None = None
    old: list[_Row | None] | None = None
    extension: _Extension | None = msgspec.field(default=None, name="_tidb")


_NO_EXTENSION = _Extension()
_MESSAGE = msgspec.json.Decoder(_Message)
_SQL_TYPES = msgspec.json.Decoder(dict[str, int] | None)
_CHAR, _VARCHAR = 1, 12  # of JDBC; since 5.4 a BINARY is a BLOB there


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message. Text that lost bytes on its way is no text."""
    value = message.value or b""
    if rb"\ufffd" in value and _loses_text(read_json(_MESSAGE, value, "message")):
        copy = msgspec.structs.replace(message, value=with_lost_text(value))
        if events := decode_again(_decode, copy, options, "ticdc-canal-json"):
            yield from events
            return
    yield from _decode(message, options)


def _loses_text(wire: _Message) -> bool:
    """Whether what is lost in a message is of its texts: old releases lose bytes of binary columns too."""
    types = wire.mysqlType or {}
    binaries = [name for name, text in types.items() if text.partition("(")[0] in (*_BINARY, "bit")]
    rows = [row for row in (*(wire.data or ()), *(wire.old or ())) if row]
    return not (wire.isDdl or any("\ufffd" in (row.get(name) or "") for row in rows for name in binaries))


def _decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    if message.value is None:
        raise DecodeError("frame", "message: expected a value, got none")
    wire = read_json(_MESSAGE, message.value, "message")
    order = _order(message, wire, options.get("tidb_extension", "auto"))
    if wire.isDdl:
        yield SchemaChange(
            "ddl",
            wire.database,
            wire.table or None,
            commit_ts=order.commit_ts,
            position=order.position(0, DDL, 0),
            ddl=wire.sql,
            index=0,
        )
    elif wire.type == "TIDB_WATERMARK":
        resolved = wire.extension.watermarkTs if wire.extension else None
        if resolved is None:
            raise DecodeError("shape", "watermark: expected _tidb.watermarkTs, got none")
        yield Watermark((message.epoch, resolved, DDL, 0, 0, 0), resolved, 0)
    elif wire.type in ("INSERT", "UPDATE", "DELETE"):
        yield from _rows(wire, order, options.get("time_zone", "UTC"))
    else:
        raise DecodeError(
            "kind", "message: expected type INSERT, UPDATE, DELETE, TIDB_WATERMARK or a DDL, got another"
        )


def has_extension(message: Message) -> bool:
    """Whether the message was sent with enable-tidb-extension; a DecodeError for bytes that are no
    message.
    """
    extension = read_json(_MESSAGE, message.value or b"", "message").extension
    return extension is not None and (extension.commitTs is not None or extension.watermarkTs is not None)


class _Mark(msgspec.Struct):
    id: int | None = None
    gtid: str | None = None
    extension: dict[str, object] | None = msgspec.field(default=None, name="_tidb")


_MARK = msgspec.json.Decoder(_Mark)


def is_written_by_ticdc(messages: Sequence[Message]) -> bool:
    """Whether TiCDC has written these messages, or a Canal whose FlatMessages have the same shape: TiCDC
    writes `"id":0` in all messages and no `gtid`; Canal numbers its batches.
    """
    marks = list(_marks(messages))
    if any(mark.extension is not None for mark in marks):
        return True
    return not any(mark.gtid is not None or mark.id for mark in marks)


def _marks(messages: Sequence[Message]) -> Iterator[_Mark]:
    for message in messages:
        try:
            yield _MARK.decode(message.value or b"")
        except msgspec.DecodeError:
            continue


class _Order(NamedTuple):
    """Where a message stands: by its commit_ts, or by its offset where the extension is off."""

    epoch: int
    commit_ts: int
    offset: int | None

    def position(self, row: int, rank: int, half: int = 1) -> Position:
        """`half` is 0 for the delete half of a key change, and for DDL."""
        if self.offset is None:
            return (self.epoch, self.commit_ts, rank, 0, 0, 0)
        return (self.epoch, self.offset, row, half, 0, 0)


def _order(message: Message, wire: _Message, extension: str) -> _Order:
    commit_ts = wire.extension.commitTs if wire.extension and extension != "false" else None
    if commit_ts is not None:
        return _Order(message.epoch, commit_ts, None)
    if extension == "true" and wire.type != "TIDB_WATERMARK":
        text = (
            "message: expected _tidb.commitTs, got none; where the whole feed has none, say "
            "enable-tidb-extension: false"
        )
        raise DecodeError("extension", text)
    return _Order(message.epoch, wire.es << 18, message.offset)


# Rows


class _Table(NamedTuple):
    """What a message says of all its rows."""

    database: str
    name: str
    order: _Order
    key_names: tuple[str, ...]
    reading: Reading
    encoding: str
    row_id: str | None
    unresolved: str
    may_lose_bytes: bool


def _rows(wire: _Message, order: _Order, zone: str) -> Iterator[Event]:
    table = _table(wire, order, zone)
    old = wire.old or []
    index = 0
    for number, row in enumerate(wire.data or []):
        try:
            events = _row(wire.type, row, old[number] if number < len(old) else None, table, number=number)
        except DecodeError as error:
            events = [DeadLetter(error.code, str(error), 0, database=wire.database, table=wire.table)]
        for event in events:
            event.index = index
            index += 1
            yield event
    if not wire.data:
        raise DecodeError("shape", "row message: expected rows in data, got none")


def _table(wire: _Message, order: _Order, zone: str) -> _Table:
    types = wire.mysqlType or {}
    columns = tuple(wire.data[0]) if wire.data else ()
    texts = tuple([types.get(name) for name in columns])
    read, binaries = _reading(columns, texts, zone)
    in_utf8 = _in_utf8(wire, binaries) if binaries else ()
    if in_utf8:
        read = _reading_of_utf8(columns, texts, zone, in_utf8)
    extension = wire.extension or _NO_EXTENSION
    unresolved = "its claim-check file is missing or unreadable" if extension.claimCheckLocation else ""
    if extension.onlyHandleKey:
        unresolved = unresolved or "the feed sends handle-key-only messages"
    encoding = "ticdc-canal-json" if read.indexed or not read.typed else "canonical"
    return _Table(
        wire.database,
        wire.table,
        order,
        tuple(sorted(wire.pkNames or ())),
        reading=read,
        encoding=encoding,
        row_id=extension.rowkey,
        unresolved=unresolved,
        may_lose_bytes=bool(in_utf8),
    )


_BINARY = ("binary", "varbinary")


@functools.lru_cache(maxsize=4096)
def _reading(
    names: tuple[str, ...], texts: tuple[str | None, ...], zone: str
) -> tuple[Reading, tuple[str, ...]]:
    """How rows of these types are read, and which columns are BINARY and VARBINARY."""
    binaries = [
        name for name, text in zip(names, texts, strict=True) if text and text.partition("(")[0] in _BINARY
    ]
    read = reading(names, texts, zone)
    converters = [
        (name, functools.partial(_bytes_or_default, read=convert) if name in binaries else convert)
        for name, convert in read.converters
    ]
    return read._replace(converters=converters), tuple(binaries)


def _bytes_or_default(text: str, read: Convert) -> Any:
    """TiCDC before 6.5.9, 7.1.5 and 7.5.2 prints a default that it fills in itself as text, not as one
    character for each byte: where one is no byte, that tells it.
    """
    try:
        return read(text)
    except UnicodeEncodeError:
        if text.startswith(MARK):
            raise
        return _bytes_of_utf8(text)


def _in_utf8(wire: _Message, binaries: tuple[str, ...]) -> tuple[str, ...]:
    """The BINARY and VARBINARY columns whose bytes are sent as UTF-8, as TiCDC before 5.4 does."""
    sql_types = read_json(_SQL_TYPES, wire.sqlType, "sqlType") or {}
    return tuple(name for name in binaries if sql_types.get(name) in (_CHAR, _VARCHAR))


@functools.lru_cache(maxsize=4096)
def _reading_of_utf8(
    names: tuple[str, ...], texts: tuple[str | None, ...], zone: str, in_utf8: tuple[str, ...]
) -> Reading:
    read = reading(names, texts, zone)
    converters = [(name, _bytes_of_utf8 if name in in_utf8 else convert) for name, convert in read.converters]
    return read._replace(converters=converters)


def _bytes_of_utf8(text: str) -> str | dict[str, str]:
    """Bytes that are no UTF-8 were replaced on the way, and are lost."""
    return {"text": text} if "\ufffd" in text else base64_text(text.encode())


def _row(kind: str, data: _Row, old: _Row | None, table: _Table, number: int) -> list[Event]:
    if kind == "DELETE" and (data or not table.unresolved):
        before = image(data, table.reading.converters)
        return [_change("delete", before, None, table, number=number, flags=_delete_flags(before, table))]
    if table.unresolved:
        raise DecodeError(
            "unresolved", f"row: expected all columns, got the handle key only: {table.unresolved}"
        )
    after = image(data, table.reading.converters)
    if kind == "INSERT":
        return [_change("insert", None, after, table, number=number)]
    if old is None:
        return [_change("update", None, after, table, number=number)]
    if not old.keys() <= after.keys():  # 8.5.4 sends what column selectors leave out there, as ''
        old = {name: value for name, value in old.items() if name in after}
    before = {**after, **image(old, table.reading.converters)}  # what `old` leaves out has not changed
    if _key(before, table) == _key(after, table):
        return [_change("update", before, after, table, number=number)]
    return [
        _change("delete", before, None, table, number=number, half=0),
        _change("insert", None, after, table, number=number),
    ]


def _delete_flags(before: Image, table: _Table) -> _Flags:
    if not before:
        return (
            "old_key_unknown",
            "partial_before",
        )  # delete-only-handle-key of a table without one: `data` is [{}]
    key_only = table.unresolved or len(before) == len(table.key_names)
    return ("partial_before",) if key_only else ()


def _key(row: Image, table: _Table) -> tuple[object, ...]:
    try:
        key = tuple([row[name] for name in table.key_names])
    except KeyError:
        raise DecodeError(
            "shape", "row: expected the columns that pkNames names, got a row without one"
        ) from None
    if table.may_lose_bytes and dict in map(type, key):
        raise DecodeError(
            "value", "key: expected bytes that are UTF-8, as TiCDC before 5.4 sends them, got others"
        )
    return key


def _change(
    op: str,
    before: Image | None,
    after: Image | None,
    table: _Table,
    number: int,
    half: int = 1,
    flags: _Flags = (),
) -> RowChange:
    now = after if after is not None else before or {}
    position = table.order.position(number, DELETE if op == "delete" else UPSERT, half)
    is_keyless = not table.key_names and table.order.offset is None  # else a DDL may be of any place
    return RowChange(
        table.database,
        table.name,
        op,
        _key(now, table),
        key_names=table.key_names,
        commit_ts=table.order.commit_ts,
        position=position,
        before=before,
        after=after,
        index=0,
        encoding=table.encoding,
        types=table.reading.types,
        flags=(*flags, NO_PRIMARY_KEY) if is_keyless else flags,
        row_id=table.row_id,
    )
