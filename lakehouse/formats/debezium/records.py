"""Records of Debezium's topics as they are on the wire: rows, schema changes and transaction markers, with or
without the frame of an embedded schema.

    row            {"op", "before", "after", "source", "transaction"}
    schema change  {"source", "ddl", "databaseName", "tableChanges"}
    transaction    {"status": BEGIN|END, "id", "event_count", "data_collections"}
    heartbeat      {"ts_ms"}
    notification   {"aggregate_type", "type", …}
    signal         {"type", "data"}
"""

import functools
import re
from typing import Annotated, Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import INCREMENTAL, Image, Message
from lakehouse.formats.binlog import Server, file_number, server_of, server_of_snapshot
from lakehouse.formats.debezium.envelope import NULL, Frame, TableChange
from lakehouse.formats.row import TransactionEnd
from lakehouse.formats.wire_json import number_or_text, read_json

SNAPSHOT, STREAMED = 0, 1
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Source(msgspec.Struct):
    file: str = ""
    pos: _Time = 0
    row: _Int64 | None = None
    db: str | None = None
    table: str | None = None
    snapshot: str | bool | None = None
    ts_ms: _Time | None = None
    server_id: int | None = None
    version: str | None = None
    connector: str | None = None


class Transaction(msgspec.Struct):
    id: str
    total_order: _Int64 | None = None


class _Collection(msgspec.Struct):
    data_collection: str
    event_count: _Int64


class Payload(msgspec.Struct):
    """A record of any topic: a row has `op`, a schema change `ddl` (and `position` if it is of the internal
    schema history) or, where the signal `schema-changes` asked for it, `tableChanges` alone, a transaction
    marker `status`.
    """

    source: Source | None = None
    op: str | None = None
    before: Image | None = None
    after: Image | None = None
    transaction: Transaction | None = None
    ddl: str | None = None
    databaseName: str | None = None
    tableChanges: list[TableChange] | None = None
    position: msgspec.Raw = NULL
    status: str | None = None
    id: str | None = None
    event_count: _Int64 | None = None
    data_collections: list[_Collection] | None = None

    @property
    def is_change(self) -> bool:
        return self.op is not None or self.ddl is not None or bool(self.tableChanges)


class RowRecord(NamedTuple):
    """One row event, with or without an envelope, before its values are decoded."""

    message: Message
    schema: bytes | None
    image: str
    source: Source
    op: str
    before: Image | None
    after: Image | None
    transaction: Transaction | None
    flags: tuple[str, ...]


_FLAT = msgspec.json.Decoder(Payload, float_hook=number_or_text)
_FRAMED = msgspec.json.Decoder(Frame[Payload], float_hook=number_or_text)
_MEMBERS = msgspec.json.Decoder(dict[str, Any], float_hook=number_or_text)
_FRAMED_MEMBERS = msgspec.json.Decoder(Frame[dict[str, Any]], float_hook=number_or_text)
# what users write to signal.kafka.topic
_SNAPSHOT_SIGNALS = ("execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot")
_SIGNALS = frozenset({*_SNAPSHOT_SIGNALS, "log", "schema-changes", "set-binlog-position"})
_CREATES_IN_SNAPSHOT = re.compile(r"0\.|1\.[0-3]\.", re.A)
_NAME = r"(?:`(?:[^`]|``)*`|[^\s.`(]+)"
_CLOUD_EVENT = "value: expected a record of Debezium, got a CloudEvent (let value.converter be JsonConverter)"
_RECORDS = frozenset({"source", "status"})  # of a row or schema change, of a transaction marker
_NO_RECORD = (
    "value: expected a row, schema change, transaction, heartbeat, notification or signal record, got none "
    "of them: a row that a transform has unwrapped needs source.file and source.pos in its add.fields"
)
# statements that no snapshot's records have: they drop `d`.`t` if it exists, and create `t`
_IN_STREAM = re.compile(
    r"\s*(?:ALTER|RENAME|TRUNCATE|(?:CREATE|DROP)\s+(?:\w+\s+)?INDEX)\s"
    r"|\s*DROP\s+TABLE\s+(?!IF\s+EXISTS\s+`(?:[^`]|``)*`\.`(?:[^`]|``)*`\s*$)"
    rf"|\s*CREATE\s+TABLE\s+(?:IF\s|{_NAME}\s*(?:\.|LIKE\s))",
    re.I,
)
_BEGIN = re.compile(r"file=(.*),pos=(\d{1,18})", re.A)
# no unwrapped row, of which the first column may be called so and be NULL
_is_framed = re.compile(
    rb'\s*\{\s*"(?:schema"\s*:\s*(?:\{|null\s*,\s*"payload")'
    rb'|payload"\s*:\s*(?:\{|null\s*(?:\}|,\s*"schema")))'
).match


def read_record(value: bytes) -> tuple[bytes | None, Payload | None]:
    """The embedded schema and the record of a value; no record for a null, a heartbeat, a notification or a
    signal.
    """
    try:
        schema, payload = _record(value)
    except DecodeError:
        _refuse(value)
        raise
    if payload is None or payload.status is not None or (payload.source is not None and payload.is_change):
        return schema, payload
    members = read_members(value)
    if members.keys() == {"ts_ms"} or {"aggregate_type", "type"} <= members.keys():
        return schema, None
    if members.keys() <= {"id", "type", "data"} and str(members.get("type")) in _SIGNALS:
        return schema, None
    raise DecodeError("shape", _NO_RECORD)


def _refuse(value: bytes) -> None:
    """DecodeError for what CloudEventsConverter or a transform has made of a record."""
    members = read_members(value)
    if "specversion" in members:
        raise DecodeError("shape", _CLOUD_EVENT)
    if members.keys().isdisjoint(_RECORDS):
        raise DecodeError("shape", _NO_RECORD)


def _record(value: bytes) -> tuple[bytes | None, Payload | None]:
    if _is_framed(value):
        frame = read_json(_FRAMED, value, "value")
        return frame.schema_bytes(), frame.payload
    return None, read_json(_FLAT, value, "value")


def read_members(value: bytes) -> dict[str, Any]:
    """The members of a row's value, without the frame of an embedded schema."""
    return (
        (read_json(_FRAMED_MEMBERS, value, "value").payload or {})
        if _is_framed(value)
        else read_json(_MEMBERS, value, "value")
    )


def transaction_end(message: Message) -> TransactionEnd | None:
    """The END of a transaction, or None for any other message."""
    payload = (
        read_record(message.value)[1]
        if message.value and b'"END"' in message.value and b'"event_count"' in message.value
        else None
    )
    if payload is None or payload.op is not None or payload.status != "END" or payload.id is None:
        return None
    counts = {each.data_collection: each.event_count for each in payload.data_collections or ()}
    return TransactionEnd(payload.id, payload.event_count or 0, counts, _begin_place(payload.id))


def _begin_place(transaction: str) -> tuple[int, int] | None:
    begin = begin_of(transaction)
    try:
        return (file_number(begin[0]), begin[1]) if begin else None
    except DecodeError:
        return None  # a file whose rows are dead letters


def begin_of(transaction: str) -> tuple[str, int] | None:
    """The file and the offset of a transaction's BEGIN, where its id tells them: without GTIDs."""
    told = _BEGIN.fullmatch(transaction)
    return (told[1], int(told[2])) if told else None


def operation(code: str, source: Source) -> str:
    """The record's op: a row that connectors before 1.4 read in a snapshot is a `c` like any other, and so
    the transform ReadToInsertEvent makes each. On rows that are streamed behind a blocking snapshot its
    marker may stay (3.2), but they have a server id.
    """
    marker = _marker(source)
    if code != "c" or marker == "false":
        return code
    writes_r = source.version is not None and _CREATES_IN_SNAPSHOT.match(source.version) is None
    return "c" if writes_r and source.server_id != 0 and marker != "incremental" else "r"


def is_of_snapshot(source: Source, ddl: str | None) -> bool:
    """Whether a schema record is a snapshot's. The marker of a blocking snapshot may stay on statements that
    are streamed behind it (3.2).
    """
    return _marker(source) != "false" and (ddl is None or _IN_STREAM.match(ddl) is None)


def snapshot_flags(source: Source, code: str) -> tuple[str, ...]:
    """The flags of a snapshot's row: `snapshot`, and the marker of its place in the snapshot, such as
    last.
    """
    if code != "r":
        return ()
    marker = _marker(source)
    return ("snapshot",) if marker in ("true", "false") else ("snapshot", f"snapshot={marker}")


def _marker(source: Source) -> str:
    return str(source.snapshot or "false").lower()


def row_server(source: Source, op: str, flags: tuple[str, ...]) -> Server | None:
    """Whose binlog a row was read from; what stands for it where a full snapshot has read the row."""
    if op != "snapshot":
        return server_of(source.server_id, source.file)
    is_full = source.server_id == 0 and INCREMENTAL not in flags
    return server_of_snapshot(source.file, source.pos) if is_full else None


def transaction_flags(transaction: Transaction | None) -> tuple[str, ...]:
    """The flag of a row's transaction: its id and the row's number in it."""
    return () if transaction is None else (f"tx={transaction.id};{transaction.total_order or 0}",)


@functools.lru_cache(maxsize=1024)
def embedded_schema(value: bytes) -> bytes | None:
    """The schema that is embedded in a row's value, as JSON; None where there is none."""
    return read_json(_FRAMED_MEMBERS, value, "value").schema_bytes() if _is_framed(value) else None
