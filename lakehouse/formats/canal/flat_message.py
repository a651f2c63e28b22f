"""Alibaba Canal FlatMessage (flatMessage=true): one binlog row event with all its rows per message, as JSON.

    {"database", "table", "type", "isDdl", "es", "id", "pkNames", "mysqlType", "sqlType", "sql",
     "data": [{…}] | null, "old": [{…}] | null}

Producer: Canal 1.1.x (seen: 1.1.7). Specification: com.alibaba.otter.canal.protocol.FlatMessage.
Order: arrival, positions (epoch, Kafka offset, row, half): no binlog position is on the wire. `commit_ts` is
`es`, milliseconds of the statement's start, which runs backwards inside a binlog. There is no watermark.
`old` holds more than what changed, never less: it completes to the old image. Values whose canonical form
only the schema knows (a decimal "11.0", an ENUM index) stay, `encoding` is "canal". TIMESTAMP is text in the
zone of Canal's JVM (`time_zone`). Nothing is given for XA COMMIT and for the SQL text of row events (QUERY
that is no DDL); ROLLBACK and XA ROLLBACK are a DeadLetter `rollback`. A statement-format change, whose rows
were lost at the source, is a DeadLetter `statement`; an update with binlog_row_image=MINIMAL, which names no
row, `unresolved`. Not to be had from this format: non-ASCII text of gbk and latin1 columns (U+FFFD), order
across partitions.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.binlog import ROLLED_BACK, rules_of_gtid, undoes
from lakehouse.formats.canal.values import (
    IMPLICIT_KEYS,
    Reading,
    image,
    is_bytes,
    is_doubtful,
    is_of_mariadb,
    is_spelled,
    is_statement,
    reading,
)
from lakehouse.formats.row import Logged
from lakehouse.formats.wire_json import read_json
from lakehouse.schema import parse_type
from lakehouse.values.normal_form import PRINTED

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Row = dict[str, str | None]
_DML = ("INSERT", "UPDATE", "DELETE")
_SILENT = ("QUERY", "GTID", "XACOMMIT", "MHEARTBEAT")


class _Message(msgspec.Struct):
    type: str
    database: str = ""
    table: str = ""
    es: _Int64 = 0
    isDdl: bool = False
    sql: str | None = None
    pkNames: list[str] | None = None
    mysqlType: dict[str, str] | None = None
    sqlType: dict[str, int] | None = None
    data: list[_Row] | None = None
    old: list[_Row | None] | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message."""
    if message.value is None:
        raise DecodeError("frame", "message: expected a value, got none")
    wire = read_json(_MESSAGE, message.value, "message")
    is_ddl = wire.isDdl or is_statement(wire.type, wire.sql or "", wire.database, wire.table)
    if wire.type == "XAROLLBACK" or (is_ddl and undoes(wire.sql or "")):
        raise DecodeError("rollback", ROLLED_BACK)
    if is_ddl:
        position = (message.epoch, message.offset, 0, 0, 0, 0)
        yield SchemaChange(
            "ddl",
            wire.database,
            wire.table or (None if wire.database else ""),
            commit_ts=wire.es,
            position=position,
            ddl=wire.sql or "",
            index=0,
        )
    elif wire.type in _DML:
        doubtful = is_doubtful(message.value)
        yield from _rows(wire, message, options.get("time_zone", "UTC"), doubtful=doubtful)
    elif wire.type not in _SILENT:
        raise DecodeError("kind", "message: expected INSERT, UPDATE, DELETE or a DDL, got another type")


class _Table(NamedTuple):
    """What a message says of all its rows."""

    database: str
    name: str
    commit_ts: int
    key_names: tuple[str, ...]
    reading: Reading
    open_key: bool


def _rows(wire: _Message, message: Message, zone: str, *, doubtful: bool) -> Iterator[Event]:
    if not wire.data:
        raise DecodeError(
            "statement",
            "message: expected rows in data, got a statement alone: is the source's binlog_format ROW?",
        )
    for name in IMPLICIT_KEYS.intersection(wire.pkNames or ()):
        _hide(wire, name)
    table = _table(wire, zone, doubtful=doubtful)
    # before 1.1.7 the first rows, as long as nothing that is sent has changed in them, have no old image
    old = [None] * (len(wire.data) - len(wire.old or ())) + (wire.old or [])
    index = 0
    for number, row in enumerate(wire.data):
        place = (message.epoch, message.offset, number)
        try:
            events = _row(wire.type, row, old[number], table, place=place)
        except DecodeError as error:
            events = [DeadLetter(error.code, str(error), 0, database=wire.database, table=wire.table)]
        for event in events:
            event.index = index
            index += 1
            yield event


def _hide(wire: _Message, name: str) -> None:
    """The table as its statements tell it: without a key, and without the column that stands for one."""
    wire.pkNames = [key for key in wire.pkNames or () if key != name]
    for row in (wire.mysqlType, *(wire.data or ()), *(wire.old or ())):
        if row is not None:
            row.pop(name, None)


def _table(wire: _Message, zone: str, *, doubtful: bool) -> _Table:
    types, codes = wire.mysqlType or {}, wire.sqlType or {}
    spelled = tuple(name for name, text in types.items() if is_spelled(text, codes.get(name)))
    names = tuple(sorted(wire.pkNames or ()))
    coded = bool(codes)
    open_key = doubtful or any(
        parse_type(text).base in PRINTED or (not coded and is_bytes(text))
        for text in (types.get(name, "") for name in names)
    )
    return _Table(
        wire.database,
        wire.table,
        wire.es,
        names,
        reading=reading(tuple(types), tuple(types.values()), zone, spelled, coded=coded, doubtful=doubtful),
        open_key=open_key,
    )


# Rows

_Place = tuple[int, int, int]


def _row(kind: str, data: _Row, old: _Row | None, table: _Table, place: _Place) -> list[Event]:
    now = image(data, table.reading.converters)
    if kind == "INSERT":
        return [_change("insert", None, now, table, place=place)]
    if not table.key_names and not (now if kind == "DELETE" else old):
        raise DecodeError(
            "unresolved", "row: expected a key or an old image, got neither: is binlog_row_image FULL?"
        )
    if kind == "DELETE":
        return [_change("delete", now, None, table, place=place)]
    before = {**now, **image(old or {}, table.reading.converters)}  # what `old` leaves out has not changed
    if _key(before, table) == _key(now, table):
        return [_change("update", before, now, table, place=place)]
    return [
        _change("delete", before, None, table, place=place, half=0),
        _change("insert", None, now, table, place=place),
    ]


def _key(row: Image, table: _Table) -> tuple[object, ...]:
    try:
        key = tuple([row[name] for name in table.key_names])
    except KeyError:
        raise DecodeError(
            "shape", "row: expected the columns that pkNames names, got a row without one"
        ) from None
    if table.open_key and any(type(value) is dict for value in key):
        raise DecodeError("value", "key: expected text, got bytes that are none")
    return key


def _change(
    op: str, before: Image | None, after: Image | None, table: _Table, place: _Place, half: int = 1
) -> RowChange:
    now = after if after is not None else before or {}
    position: Position = (*place, half, 0, 0)
    partial = after is not None and len(now) < len(
        table.reading.types
    )  # binlog_row_image=NOBLOB leaves unchanged columns out
    flags = ("partial_after",) if partial else ()
    return RowChange(
        table.database,
        table.name,
        op,
        _key(now, table),
        key_names=table.key_names,
        commit_ts=table.commit_ts,
        position=position,
        before=before,
        after=after,
        index=0,
        encoding="canal",
        types=table.reading.types,
        flags=flags,
    )


class _Logged(msgspec.Struct):
    type: str = ""
    database: str | None = None
    table: str | None = None
    es: _Int64 = 0
    isDdl: bool = False
    sql: str | None = None


_LOGGED = msgspec.json.Decoder(_Logged)


def logged(message: Message) -> Logged | None:
    """What a message tells of its event in the binlog; None for bytes that are no message."""
    try:
        wire = _LOGGED.decode(message.value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    sql = wire.sql or ""
    is_ddl = wire.isDdl or is_statement(wire.type, sql, wire.database or "", wire.table or "")
    return Logged(wire.es, sql if is_ddl else None)


class _Origin(msgspec.Struct):
    gtid: str | None = None
    mysqlType: dict[str, str] | None = None
    sqlType: dict[str, int] | None = None


_ORIGIN = msgspec.json.Decoder(_Origin)


def rules_told(message: Message) -> str | None:
    """Whose server it is, by its GTID, which Canal sends where it reads by GTID, or by a column's type."""
    try:
        wire = _ORIGIN.decode(message.value or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    codes = wire.sqlType or {}
    if any(is_of_mariadb(text, codes.get(name)) for name, text in (wire.mysqlType or {}).items()):
        return "mariadb"
    return rules_of_gtid(wire.gtid)
