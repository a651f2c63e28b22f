"""Debezium's MySQL and MariaDB connectors as JSON (1.x to 3.x), with or without embedded schemas.

    table topics         key {columns}; value {"op": c|u|d|r|t, "before", "after", "source", "transaction"},
                         or null: a tombstone
    schema change topic  {"source", "ddl", "databaseName", "tableChanges"}
    transaction topic    {"status": BEGIN|END, "id", "event_count", …}: no event, see transactions.py
    heartbeat topic      {"ts_ms"}: no event
    unwrapped rows       {columns…, "__op", "__source_file", "__source_pos", …} of ExtractNewRecordState

Specification: Debezium's documentation of the connectors, the topics and the new record state extraction.
Order: binlog file number, offset, phase, row, half; source.ts_ms runs backwards and is information only
(commit_ts, in ms). Outcomes: RowChange, SchemaChange (kind `snapshot` while a snapshot runs), DeadLetter for
a row; DecodeError for anything else. Without an embedded schema values stay as the wire has them: encoding
"debezium", followed by the handling modes that are not the defaults (values.py). Not supported: Avro
and Protobuf converters.
"""

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, Position, RowChange, SchemaChange
from lakehouse.formats.binlog import COMMENTS, ROLLED_BACK, file_number, server_of, undoes
from lakehouse.formats.debezium.connect_schema import structured
from lakehouse.formats.debezium.envelope import (
    NULL,
    TableChange,
    key_image,
    misread_charset,
    primary_key,
    schema_columns,
    value_of,
)
from lakehouse.formats.debezium.records import (
    SNAPSHOT,
    STREAMED,
    Payload,
    RowRecord,
    Source,
    begin_of,
    is_of_snapshot,
    operation,
    read_record,
    row_server,
    snapshot_flags,
    transaction_flags,
)
from lakehouse.formats.debezium.unwrapped import unwrapped_row
from lakehouse.formats.debezium.values import embedded_columns, encoding, modes
from lakehouse.formats.row_images import Half, halves, image_flags

_PARTITION_BITS = 16
COMPRESSION = "binlog_transaction_compression"
_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}
_MISREADS_TIMES = re.compile(r"[01]\.|2\.[0-5]\.", re.A)
# a UUID of MariaDB's that may have lost the zero bytes that end it: the connector puts them before the others
_CUT_UUID = re.compile(rb'"00[0-9a-f]{6}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"')
_OLD_KEY_DELETE = "__debezium.newkey"
_NAME = r"(?:`(?:[^`]|``)*`|[^\s.`,]+)"
_REPLACED = re.compile(rf"{COMMENTS}CREATE\s+OR\s+REPLACE\s+TABLE\s+(?:({_NAME})\s*\.\s*)?({_NAME})", re.I)
_RENAME = re.compile(
    rf"\s*RENAME\s+TABLES?\s+(?:({_NAME})\s*\.\s*)?{_NAME}\s+TO\s+(?:({_NAME})\s*\.\s*)?{_NAME}\s*", re.I
)
# What stands for a BLOB or TEXT that binlog_row_image=NOBLOB left out (unavailable.value.placeholder), as
# text and in each binary mode.
_UNAVAILABLE = b"__debezium_unavailable_value"
_PLACEHOLDERS = (_UNAVAILABLE, binascii.b2a_base64(_UNAVAILABLE, newline=False), _UNAVAILABLE.hex().encode())
_PLACEHOLDER_TEXTS = frozenset(each.decode() for each in _PLACEHOLDERS)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message; tombstones, heartbeats and transaction markers have none."""
    value = value_of(message)
    if record := unwrapped_row(message, value):
        yield from _row_event(record, options)
        return
    if not value:
        return
    schema, payload = read_record(value)
    if payload is None or payload.source is None:
        return
    if payload.op is not None:
        code = operation(payload.op, payload.source)
        flags = snapshot_flags(payload.source, code) + transaction_flags(payload.transaction)
        record = RowRecord(
            message,
            schema,
            "after",
            payload.source,
            op=code,
            before=payload.before,
            after=payload.after,
            transaction=payload.transaction,
            flags=flags,
        )
        yield from _row_event(record, options)
    elif payload.position == NULL:
        if undoes(payload.ddl or ""):
            raise DecodeError("rollback", ROLLED_BACK)
        yield _schema_change(message, payload, payload.source)
        yield from _misread_text(payload, payload.source)
        yield from _not_followed(payload, payload.source)


# Row events


def _row_event(record: RowRecord, options: Mapping[str, str]) -> Iterator[Event]:
    """The row's changes; a row that can't be read is a dead letter with its table's name, so that only this
    table is incomplete.
    """
    source = record.source
    if not source.db or not source.table:
        raise DecodeError("table", "source: expected the names of database and table, got none")
    try:
        yield from _changes(record, source.db, source.table, options)
    except DecodeError as error:
        yield DeadLetter(error.code, str(error), 0, database=source.db, table=source.table)


def _changes(record: RowRecord, database: str, table: str, options: Mapping[str, str]) -> Iterator[Event]:
    source = record.source
    if record.op == "t":
        yield _truncate(record.message, source, database, table)
        return
    if record.op not in _OPS:
        raise DecodeError("op", "op: expected c, u, d, r or t, got another")
    op = _OPS[record.op]
    names = key_image(record.message.key)
    before, after, flags = record.before, record.after, record.flags
    if op == "delete" and before is None and names:
        before, flags = dict(names), (*flags, "partial_before")
    if (before if op == "delete" else after) is None:
        raise DecodeError("image", f"a row of op {op}: expected its image, got null")
    if any(placeholder in (record.message.value or b"") for placeholder in _PLACEHOLDERS):
        before, after, flags = (
            *map(_sent, (before, after)),
            flags + _lost(before, "partial_before") + _lost(after, "partial_after"),
        )
    before, after, value_encoding, types = _canonical(record, before, after, options)
    key_names = tuple(sorted(names))
    flags += tuple(flag for flag in image_flags(before, after) if flag not in flags)
    server = row_server(source, op, flags)
    for index, half in enumerate(halves(op, key_names, before, after)):
        yield RowChange(
            database,
            table,
            half.op,
            half.key,
            key_names=key_names if half.key else (),
            commit_ts=source.ts_ms,
            position=(*_place(record, op, half, options), _half(record.message, op, half)),
            before=half.before,
            after=half.after,
            index=index,
            encoding=value_encoding,
            types=types,
            flags=flags,
            server=server,
        )


def _is_sent(value: Any) -> bool:
    return type(value) is not str or value not in _PLACEHOLDER_TEXTS


def _sent(row: Image | None) -> Image | None:
    """The image without placeholders of columns that were not sent."""
    return row and {name: value for name, value in row.items() if _is_sent(value)}


def _lost(row: Image | None, flag: str) -> tuple[str, ...]:
    return () if row is None or all(map(_is_sent, row.values())) else (flag,)


def _canonical(
    record: RowRecord, before: Image | None, after: Image | None, options: Mapping[str, str]
) -> tuple[Image | None, Image | None, str, dict[str, str] | None]:
    """Both images with the values that the embedded schema determines, their encoding, and its column
    types.
    """
    value = record.message.value or b""
    configured = modes(options)._replace(
        is_old=_misreads_times(record),
        cuts_uuids=record.op != "r" and _CUT_UUID.search(value) is not None,
        misreads=not value.isascii(),
    )
    columns = embedded_columns(record.schema, record.image, configured) if record.schema else None
    if columns is None:
        return _structures(before), _structures(after), encoding(configured, False), None
    if columns.has_bytes and configured.binary == "bytes":
        configured = configured._replace(binary="base64")
    value_encoding = encoding(configured, True) if columns.leave_open(before, after) else "canonical"
    return columns.canonical(before), columns.canonical(after), value_encoding, columns.types


def _misreads_times(record: RowRecord) -> bool:
    """Whether the row's connector reads negative times of the binlog wrong where they have no seconds."""
    return record.op != "r" and _MISREADS_TIMES.match(record.source.version or "") is not None


def _structures(row: Image | None) -> Image | None:
    """The image with its structures in canonical form: without a schema, only geometries, vectors, and dates
    and times in parts are recognised.
    """
    if row is None:
        return None
    for name, value in row.items():
        if isinstance(value, dict | list):
            try:
                row[name] = structured(value)
            except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
                raise DecodeError(
                    "value",
                    (
                        f"column {name}: expected a geometry, a vector, or a date or time in parts, got "
                        "another structure"
                    ),
                ) from None
    return row


def _place(
    record: RowRecord, op: str, half: Half, options: Mapping[str, str]
) -> tuple[int, int, int, int, int]:
    """The position without its half. All rows of a snapshot have the same offset: those without a key, of
    which several may be equal, are distinguished by their Kafka offset and partition.
    """
    message, source = record.message, record.source
    if op != "snapshot":
        row = _row_number(record, options)
        return (message.epoch, file_number(source.file), _streamed(source), STREAMED, row)
    row = source.row or 0
    if not half.key:
        row = message.offset << _PARTITION_BITS | message.partition
    return (message.epoch, file_number(source.file), _offset(source), SNAPSHOT, row)


def _row_number(record: RowRecord, options: Mapping[str, str]) -> int:
    """The row's number at its offset in the binlog; DecodeError where nothing tells it from equal rows of one
    statement.

    In a compressed binlog (binlog_transaction_compression), and in that of a MariaDB that writes no offsets
    into row events (binlog_legacy_event_pos=OFF), all row events of a transaction have the same offset, and
    `row` restarts in each: the row's number in the transaction, if sent, orders them. Elsewhere
    it must not: a connector that restarts in the middle of a transaction counts the rest from 1 again (before
    3.6.1, DBZ-5127), and a row that is sent twice would have two places.
    """
    source, transaction = record.source, record.transaction
    number = transaction.total_order if transaction else None
    if transaction is None or not number or source.row is None:
        if source.row is None and not number and not record.message.key:
            raise DecodeError(
                "position",
                "unwrapped row without a key: expected __source_row (add.fields), got none: nothing tells it "
                "from equal rows of its statement",
            )
        return source.row or number or 0
    return number if _is_compressed(transaction.id, source, options) else source.row


def _is_compressed(transaction: str, source: Source, options: Mapping[str, str]) -> bool:
    """Whether a transaction is compressed. An id without GTID names the offset of BEGIN, which is that of the
    rows where they are. Of GTIDs nothing tells it but the source's settings
    (lakehouse/silver/transaction_order.py finds where they are wrong).
    """
    begin = begin_of(transaction)
    if begin is not None:
        return begin == (source.file, source.pos)
    return options.get(COMPRESSION) == "true"


def _half(message: Message, op: str, half: Half) -> int:
    """0 for the delete half of an update that changes the key, whether the connector has split it (then a
    header marks it) or not; 1 for any other change.
    """
    split_by_producer = op == "delete" and any(name == _OLD_KEY_DELETE for name, _ in message.headers)
    return 0 if split_by_producer or (op == "update" and half.op == "delete") else 1


def _truncate(message: Message, source: Source, database: str, table: str) -> SchemaChange:
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (database, table))
    return SchemaChange(
        "ddl",
        database,
        table,
        commit_ts=source.ts_ms,
        position=_position(message, source, STREAMED),
        ddl=f"TRUNCATE TABLE {quoted}",
        index=0,
        server=server_of(source.server_id, source.file),
    )


# Schema changes


def _schema_change(message: Message, payload: Payload, source: Source) -> SchemaChange:
    """A statement, or a record that only shows a table: of a snapshot, or of the signal `schema-changes`."""
    snapshot = is_of_snapshot(source, payload.ddl)
    changes = payload.tableChanges or []
    change = changes[0] if len(changes) == 1 else None
    database = source.db or payload.databaseName or ""
    return SchemaChange(
        "snapshot" if snapshot else "ddl" if payload.ddl is not None else "schema",
        database,
        _table(source, change),
        commit_ts=source.ts_ms,
        position=_position(message, source, SNAPSHOT if snapshot else STREAMED),
        ddl=payload.ddl,
        index=0,
        columns=schema_columns(change) if change else None,
        primary_key=primary_key(change) if change else None,
        server=None if snapshot else server_of(source.server_id, source.file),
        parts=1 if snapshot else _parts(database, source, change, payload.ddl or ""),
    )


def _misread_text(payload: Payload, source: Source) -> Iterator[DeadLetter]:
    """A dead letter of each table with a text column that the connector reads by another character set than
    its own: what it has made of the bytes can't always be told.
    """
    number = 0
    for change in payload.tableChanges or ():
        if charset := misread_charset(change, source.connector or ""):
            number += 1
            text = f"column: expected text, got the character set {charset}, of which other characters come"
            database = source.db or payload.databaseName or None
            yield DeadLetter("type", text, number, database=database, table=_table(source, change))


def _not_followed(payload: Payload, source: Source) -> Iterator[DeadLetter]:
    """A dead letter of a table that CREATE OR REPLACE TABLE has made anew: the connector keeps the columns of
    the old one, which it then reads the rows by, and names no table.
    """
    replaced = _REPLACED.match(payload.ddl or "")
    if replaced is not None and payload.tableChanges == [] and not source.table:
        database, table = (name and name.strip("`").replace("``", "`") for name in replaced.groups())
        text = "CREATE OR REPLACE TABLE: the connector does not follow it, and reads rows by the old columns"
        database = database or source.db or payload.databaseName or None
        yield DeadLetter("type", text, 1, database=database, table=table)


def _table(source: Source, change: TableChange | None) -> str | None:
    """The table of a schema change, or None for a RENAME of several tables: `source.table` lists them in no
    fixed order.
    """
    return None if _are_several(source, change) else source.table or None


def _are_several(source: Source, change: TableChange | None) -> bool:
    name = source.table or ""
    return "," in name and not (change and change.id.endswith(f'"{name}"'))


def _parts(database: str, source: Source, change: TableChange | None, statement: str) -> int:
    """RENAME and DROP of several tables come as a statement for each, all at one place. `source.table` lists
    those of one database that come in a row, RENAME's by their new names; of a RENAME from one database to
    another there may be others.
    """
    if _are_several(source, change):
        return 1 if "," in statement else (source.table or "").count(",") + 1
    rename = _RENAME.fullmatch(statement)
    if rename is None:
        return 1
    old, new = (name and name.strip("`").replace("``", "`") for name in rename.groups())
    return int(old == (new or database) if old else not new)


def _position(message: Message, source: Source, phase: int) -> Position:
    """The position of a statement: always row 0."""
    offset = _streamed(source) if phase == STREAMED else _offset(source)
    return (message.epoch, file_number(source.file), offset, phase, 0, 0)


def _streamed(source: Source) -> int:
    """The offset of an event, which is never 0: a binlog begins with its magic number. Events of MariaDB's
    binlog in InnoDB have none, nor have those whose `pos` was taken out.
    """
    if not source.pos:
        raise DecodeError("position", "source.pos: expected the event's offset in the binlog, got none")
    return _offset(source)


def _offset(source: Source) -> int:
    """An offset in the binlog. Connectors make negative ones of the row events of a MariaDB that writes none
    into them; MariaDB's own of 3.4 takes that of their BEGIN.
    """
    if source.pos < 0:
        raise DecodeError(
            "position",
            "source.pos: expected the event's offset in the binlog, got a negative number: set "
            "binlog_legacy_event_pos=ON at the MariaDB",
        )
    return source.pos
