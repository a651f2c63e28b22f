"""Canal, Canal's protobuf, Debezium and DTS, the other way round: a binlog's events become what these
producers write of them.

    binlog(events) ──▶ [Logged]   transactions, row events of one table and kind with all their rows,
                                  statements, each with its position
    canal_flat, canal_packet, debezium, dts ──▶ messages

Cells are those of tests/support/encode_open.py: the server's text. tests/formats/test_encoders.py encodes
recordings anew and compares. Left out: the columns that a Debezium DDL lists in `tableChanges` (its text says
the same), embedded schemas.
"""

import base64
import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

from lakehouse.events import Message, Position
from lakehouse.formats.proto import canal_pb2, subscribe_pb2
from lakehouse.schema import ColumnType, TableSchema, parse_type
from tests.support.encode_open import Cells, Event, dumps, handle_names
from tests.support.encode_tidb import SQL_TYPES, bits, ddl_word, ordered, raw_bytes, temporal, wrapped, zoned

Pair = tuple[Cells | None, Cells | None]
FILE_EVENTS = 40


class Logged(NamedTuple):
    """One event of a binlog. `op` is insert, update, delete, ddl, begin or commit; `rows` of a commit counts
    its transaction's rows; `session` is the database that a statement's names without one are of.
    """

    op: str
    file: int
    offset: int
    time: int
    transaction: int
    schema: str = ""
    table: str = ""
    pairs: tuple[Pair, ...] = ()
    shape: TableSchema | None = None
    query: str = ""
    first: int = 1
    rows: int = 0
    commit_ts: int = 0
    session: str = ""

    @property
    def place(self) -> Position:
        """A position behind all of the event."""
        return (0, self.file, self.offset, 1, 2**62, 1)


def binlog(events: Iterable[Event], chance: random.Random) -> list[Logged]:
    """The binlog of a server on which these things happened; its clock says when statements began, so it runs
    backwards.
    """
    out: list[Logged] = []
    transaction = 0
    clock = 1_790_000_000
    for moment, group in grouped(events):
        transaction += 1
        clock += chance.choice((0, 1, 5))

        def log(
            op: str, transaction: int = transaction, clock: int = clock, moment: int = moment, **more: Any
        ) -> None:
            number = len(out)
            time = clock - chance.choice((0, 0, 3, 60))
            out.append(
                Logged(
                    op,
                    1 + number // FILE_EVENTS,
                    4 + 100 * (number % FILE_EVENTS),
                    time,
                    transaction,
                    commit_ts=moment,
                    **more,
                )
            )

        if group[0]["kind"] == "ddl":
            told = {name: group[0][name] for name in ("schema", "table", "query")}
            log("ddl", **told, session=group[0].get("session", group[0]["schema"]))
            continue
        log("begin")
        count = 1
        for op, rows in statements(group):
            pairs = tuple((row.get("before"), row.get("after")) for row in rows)
            log(
                op,
                schema=rows[0]["schema"],
                table=rows[0]["table"],
                shape=rows[0]["shape"],
                pairs=pairs,
                first=count,
            )
            count += len(pairs)
        log("commit", rows=count - 1)
    return out


def grouped(events: Iterable[Event]) -> Iterator[tuple[int, list[Event]]]:
    """Transactions, and statements one by one."""
    group: list[Event] = []
    for event in events:
        if event["kind"] == "resolved":
            continue
        if group and (
            event["kind"] == "ddl" or group[0]["kind"] == "ddl" or event["commit_ts"] != group[0]["commit_ts"]
        ):
            yield group[0]["commit_ts"], group
            group = []
        group.append(event)
    if group:
        yield group[0]["commit_ts"], group


def statements(group: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    """Rows in an order in which a server can have changed them, rows of one table and kind together."""
    rows = [half for event in group for half in possible(event, group)]
    for table in dict.fromkeys((row["schema"], row["table"]) for row in rows):
        mine = [row for row in rows if (row["schema"], row["table"]) == table]
        for op in ("delete", "update", "insert"):
            chosen = [
                row
                for row in mine
                if op == ("delete" if "after" not in row else "update" if "before" in row else "insert")
            ]
            if chosen:
                yield op, chosen


def possible(event: Event, group: Sequence[Event]) -> list[Event]:
    """The event, or its two halves where it takes a key that another row of the transaction gives up."""
    old, new = key_of(event, "before"), key_of(event, "after")
    if old is None or new is None or old == new:
        return [event]
    table = (event["schema"], event["table"])
    others = [other for other in group if other is not event and (other["schema"], other["table"]) == table]
    if all(key_of(other, side) != new for other in others for side in ("before", "after")):
        return [event]
    return [{name: value for name, value in event.items() if name != left} for left in ("after", "before")]


def key_of(event: Event, side: str) -> Any:
    shape = event["shape"]
    if side not in event or not shape.handle_key:
        return None
    return [event[side][column.name]["value"] for column in shape.columns if column.id in shape.handle_key]


def key_names(shape: TableSchema) -> list[str]:
    return [column.name for column in shape.columns if column.id in shape.primary_key]


# Canal

CANAL_TYPES = {**SQL_TYPES, "json": 2004, "set": 2004}


def canal_text(cell: dict[str, Any]) -> str | None:
    """A value as Canal prints it: a decimal without a fraction has one zero behind its point."""
    kind, value = parse_type(cell["type"]), cell["value"]
    if value is None:
        return None
    match kind.family:
        case "decimal":
            whole, _, fraction = value.partition(".")
            return f"{whole}.0" if fraction and not fraction.strip("0") else str(value)
        case "enum" | "set":
            return str(cell["num"])
        case "binary":
            return raw_bytes(value).decode("latin-1")
        case "integer":
            return str(int(value))  # a log has no ZEROFILL
        case _:
            return str(value)


def canal_flat(event: Logged, number: int, types: dict[str, str] | None = None) -> bytes | None:
    """One message's value. `types` are the texts of the columns' types, where they are not the
    schema's own.
    """
    body: dict[str, Any] = {
        "data": None,
        "database": event.schema,
        "es": event.time * 1000,
        "gtid": "",
        "id": number,
        "isDdl": True,
        "mysqlType": None,
        "old": None,
        "pkNames": None,
        "sql": event.query,
        "sqlType": None,
        "table": event.table,
        "ts": 1,
        "type": "",
    }
    if event.op == "ddl":
        return dumps({**body, "type": ddl_word(event.query)})
    if event.shape is None:
        return None
    shape = event.shape
    rows = [
        dict(ordered(after if after is not None else before or {}, shape)) for before, after in event.pairs
    ]
    names = [name for name, _ in ordered(rows[0], shape)]
    texts = types or {name: str(parse_type(rows[0][name]["type"])) for name in names}
    return dumps(
        {
            **body,
            "type": event.op.upper(),
            "isDdl": False,
            "sql": "",
            "pkNames": key_names(shape) or None,
            "mysqlType": texts,
            "data": [{name: canal_text(cell) for name, cell in row.items()} for row in rows],
            "sqlType": {name: CANAL_TYPES[parse_type(texts[name]).base] for name in names},
            "old": list(old_images(event)) if event.op == "update" else None,
        }
    )


def old_images(event: Logged) -> Iterator[dict[str, str | None]]:
    """What changed in any row of the message so far, of each row."""
    changed: set[str] = set()
    assert event.shape is not None
    for before, after in event.pairs:
        assert before is not None and after is not None
        changed |= {name for name, cell in before.items() if canal_text(cell) != canal_text(after[name])}
        yield {name: canal_text(cell) for name, cell in ordered(before, event.shape) if name in changed}


def canal_entry(event: Logged, types: dict[str, str] | None = None) -> canal_pb2.Entry:
    """One entry of a packet: rows, a statement, or the end of a transaction."""
    header = canal_pb2.Header(
        version=1,
        logfileName=f"mysql-bin.{event.file:06}",
        logfileOffset=event.offset,
        serverId=1,
        serverenCode="UTF-8",
        executeTime=event.time * 1000,
        sourceType=2,
        schemaName=event.schema,
        tableName=event.table,
    )
    if event.shape is None and event.op != "ddl":
        ends = event.op == "commit"
        type_ = canal_pb2.ENTRY_TRANSACTIONEND if ends else canal_pb2.ENTRY_TRANSACTIONBEGIN
        return canal_pb2.Entry(header=header, entryType=type_)
    if event.op == "ddl":
        number = {
            "CREATE": 4,
            "ALTER": 5,
            "ERASE": 6,
            "QUERY": 7,
            "TRUNCATE": 8,
            "RENAME": 9,
            "CINDEX": 10,
            "DINDEX": 11,
        }[ddl_word(event.query)]
        kind = cast(canal_pb2.EventType, number)
        change = canal_pb2.RowChange(eventType=kind, isDdl=True, sql=event.query, ddlSchemaName=event.session)
    else:
        kind = cast(canal_pb2.EventType, {"insert": 1, "update": 2, "delete": 3}[event.op])
        rows = [row_data(pair, event, types) for pair in event.pairs]
        change = canal_pb2.RowChange(tableId=7, eventType=kind, rowDatas=rows)
        header.props.add(key="rowsCount", value=str(len(rows)))
    header.eventType = kind
    return canal_pb2.Entry(
        header=header, entryType=canal_pb2.ENTRY_ROWDATA, storeValue=change.SerializeToString()
    )


def row_data(pair: Pair, event: Logged, types: dict[str, str] | None) -> canal_pb2.RowData:
    assert event.shape is not None
    before, after = ([] if cells is None else canal_columns(cells, event.shape, types) for cells in pair)
    for index, column in enumerate(after):
        column.updated = not before or (before[index].value, before[index].isNull) != (
            column.value,
            column.isNull,
        )
    return canal_pb2.RowData(beforeColumns=before, afterColumns=after)


def canal_columns(cells: Cells, shape: TableSchema, types: dict[str, str] | None) -> list[canal_pb2.Column]:
    keys = key_names(shape)
    columns = []
    for index, (name, cell) in enumerate(ordered(cells, shape)):
        text = types[name] if types else str(parse_type(cell["type"]))
        columns.append(
            canal_pb2.Column(
                index=index,
                sqlType=CANAL_TYPES[parse_type(text).base],
                name=name,
                isKey=name in keys,
                isNull=cell["value"] is None,
                value=canal_text(cell) or "",
                mysqlType=text,
            )
        )
    return columns


def canal_packet(entries: Iterable[canal_pb2.Entry], batch: int) -> bytes:
    body = canal_pb2.Messages(batch_id=batch, messages=[entry.SerializeToString() for entry in entries])
    return canal_pb2.Packet(type=canal_pb2.PACKET_MESSAGES, body=body.SerializeToString()).SerializeToString()


# Debezium


class Sent(NamedTuple):
    """One record of a connector."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def debezium(event: Logged, name: str = "s", zone: str = "UTC") -> Iterator[Sent]:
    """The records of one event, with schemas off and the connector's default modes."""
    id_ = f"0-1-{event.transaction}"
    source = {
        "version": "3.6.0.Final",
        "connector": "mysql",
        "name": name,
        "ts_ms": event.time * 1000,
        "snapshot": "false",
        "db": event.schema,
        "sequence": None,
        "ts_us": event.time * 10**6,
        "ts_ns": event.time * 10**9,
        "table": event.table,
        "server_id": 1,
        "gtid": id_,
        "file": f"mysql-bin.{event.file:06}",
        "pos": event.offset,
        "row": 0,
        "thread": None,
        "query": None,
    }
    if event.op in ("begin", "commit"):
        yield transaction_record(event, id_, name)
    elif event.op == "ddl" and event.query.startswith("TRUNCATE TABLE"):
        body = {"before": None, "after": None, "source": source, "op": "t", "ts_ms": 1, "transaction": None}
        yield Sent(f"{name}.{event.schema}.{event.table}", None, dumps(body))
    elif event.op == "ddl":
        for database, tables, statement in one_by_one(event):
            told: dict[str, Any] = {
                "source": {**source, "db": database, "table": tables},
                "ts_ms": 1,
                "databaseName": database,
                "schemaName": None,
                "ddl": statement,
                "tableChanges": [],
            }
            yield Sent(name, dumps({"databaseName": database}), dumps(told))
    else:
        for number, pair in enumerate(event.pairs):
            order = {
                "id": id_,
                "total_order": event.first + number,
                "data_collection_order": event.first + number,
            }
            head = {"source": {**source, "row": number}, "transaction": order, "ts_ms": 1}
            yield from debezium_row(event, pair, head, f"{name}.{event.schema}.{event.table}", zone)


def one_by_one(event: Logged) -> Iterator[tuple[str, str, str]]:
    """A connector tells RENAME and DROP of several tables as one statement for each, all at one place: the
    database, the tables of that database that come in a row (of a RENAME the new ones), and the statement.
    """
    query = event.query
    verb = re.match(r"RENAME TABLE |DROP TABLE (IF EXISTS )?", query)
    name = r"`(?:[^`]|``)*`"
    table = rf"(?:({name})\.)?({name})"
    pattern = rf"(?:{name}\.)?{name} TO {table}" if query.startswith("RENAME") else table
    parts = list(re.finditer(pattern, query[verb.end() :])) if verb else []
    if verb is None or (len(parts) < 2 and not query.startswith("RENAME")):
        yield event.schema, event.table, query
        return
    for database, group in groupby(parts, key=lambda part: _unquoted(part[1]) or event.session):
        several = list(group)
        tables = ",".join(dict.fromkeys(_unquoted(part[2]) for part in several))
        yield from ((database, tables, f"{verb[0]}{part[0]}") for part in several)


def _unquoted(name: str | None) -> str:
    return (name or "")[1:-1].replace("``", "`")


def transaction_record(event: Logged, id_: str, name: str) -> Sent:
    status = {"begin": "BEGIN", "commit": "END"}[event.op]
    body = {
        "status": status,
        "id": id_,
        "event_count": None if event.op == "begin" else event.rows,
        "data_collections": None,
        "ts_ms": 1,
    }
    return Sent(f"{name}.transaction", dumps({"id": id_}), dumps(body))


def debezium_row(event: Logged, pair: Pair, head: dict[str, Any], topic: str, zone: str) -> Iterator[Sent]:
    """A change of the key is a delete, a tombstone and a create at one place. The key is a unique one where
    there is no primary key.
    """
    assert event.shape is not None
    before, after = (None if cells is None else debezium_image(cells, event.shape, zone) for cells in pair)
    keys = [
        name
        for name, _ in ordered(pair[0] or pair[1] or {}, event.shape)
        if name in handle_names(event.shape)
    ]
    old, new = (None if image is None else {name: image[name] for name in keys} for image in (before, after))
    bytes_of = {id(key): dumps(key) if key else None for key in (old, new)}
    if before is None or after is None:
        key = bytes_of[id(new if before is None else old)]
        yield Sent(
            topic,
            key,
            dumps({"before": before, "after": after, "op": "c" if before is None else "d", **head}),
        )
        if after is None and key:
            yield Sent(topic, key, None)
    elif old == new:
        yield Sent(topic, bytes_of[id(new)], dumps({"before": before, "after": after, "op": "u", **head}))
    else:
        was, now = bytes_of[id(old)] or b"", bytes_of[id(new)] or b""
        yield Sent(
            topic,
            was,
            dumps({"before": before, "after": None, "op": "d", **head}),
            (("__debezium.newkey", now),),
        )
        yield Sent(topic, was, None)
        yield Sent(
            topic,
            now,
            dumps({"before": None, "after": after, "op": "c", **head}),
            (("__debezium.oldkey", was),),
        )


def debezium_image(cells: Cells, shape: TableSchema, zone: str) -> dict[str, Any]:
    return {name: debezium_value(cell, zone) for name, cell in ordered(cells, shape)}


def debezium_value(cell: dict[str, Any], zone: str) -> Any:
    kind, value = parse_type(cell["type"]), cell["value"]
    if value is None:
        return None
    match kind.family:
        case "integer" | "year":
            return wrapped(int(value))
        case "decimal":
            return unscaled(value)
        case "float" | "double":
            return float(value)
        case "bit":
            return bits(int(value), kind.length or 1)
        case "binary":
            return base64.b64encode(raw_bytes(value)).decode()
        case "timestamp":
            return zoned(value, zone)
        case _:
            return temporal(kind.family, kind.length or 0, value)


def unscaled(value: str) -> str:
    """Connect's Decimal: the digits as the shortest two's complement."""
    number = int(value.replace(".", ""))
    length = next(size for size in range(1, 40) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


# DTS

DTS_INTEGERS = {
    "tinyint": "INT8",
    "smallint": "INT16",
    "mediumint": "INT32",
    "int": "INT32",
    "bigint": "INT64",
}


def dts_data(kind: ColumnType, cell: dict[str, Any], zone: str) -> subscribe_pb2.Data:
    value = cell["value"]
    if value is None:
        return subscribe_pb2.Data(dataType=subscribe_pb2.NIL)
    match kind.family:
        case "integer":
            word = ("U" if kind.unsigned else "") + DTS_INTEGERS[kind.base]
            return subscribe_pb2.Data(dataType=word, sv=str(int(value)))
        case "year" | "bit":
            return subscribe_pb2.Data(dataType="INT64", sv=value)
        case "float" | "double" | "decimal":
            word = {"float": "FLOAT32", "double": "FLOAT64", "decimal": "DECIMAL"}[kind.family]
            return subscribe_pb2.Data(dataType=word, sv=value)
        case "binary":
            return subscribe_pb2.Data(dataType="BYTES", bv=raw_bytes(value))
        case "json":
            return subscribe_pb2.Data(dataType="BYTES", bv=value.encode())
        case "timestamp" if not value.startswith("0000-"):
            moment = datetime.fromisoformat(value[:19]).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
            value = f"{moment:%Y-%m-%d %H:%M:%S}{value[19:]} +00:00"
    charset = "utf8" if kind.family in ("date", "datetime", "timestamp", "time") else "utf8mb4"
    return subscribe_pb2.Data(dataType="STRING", charset=charset, bv=value.encode())


def dts_entry(event: Logged, zone: str = "UTC") -> subscribe_pb2.Entry:
    """One entry: rows, a statement, or the begin or end of a transaction."""
    word = {"begin": "BEGIN", "commit": "COMMIT", "ddl": "DDL"}.get(event.op, "DML")
    header = subscribe_pb2.Header(
        version=1,
        sourceType="MYSQL",
        messageType=word,
        timestamp=event.time,
        serverId=1,
        fileName=f"mysql-bin.{event.file:06}",
        position=event.offset,
        gtid=f"0-1-{event.transaction}",
        schemaName=event.schema,
        tableName=event.table,
        isLast=True,
    )
    entry = subscribe_pb2.Entry(header=header)
    if event.op == "ddl":
        entry.event.ddlEvent.schemaName, entry.event.ddlEvent.sql = event.session, event.query
    elif event.shape is not None:
        entry.event.dmlEvent.CopyFrom(dts_rows(event, zone))
    return entry


def dts_rows(event: Logged, zone: str, types: dict[str, str] | None = None) -> subscribe_pb2.DMLEvent:
    assert event.shape is not None
    first = next(cells for pair in event.pairs for cells in pair if cells is not None)
    texts = types or {name: str(parse_type(cell["type"])) for name, cell in ordered(first, event.shape)}
    keys = key_names(event.shape)
    dml = subscribe_pb2.DMLEvent(dmlEventType=event.op.upper())
    for name, text in texts.items():
        dml.columns.append(
            subscribe_pb2.Column(name=name, originalType=text, isKey=name in keys).SerializeToString()
        )
    kinds = {name: parse_type(text) for name, text in texts.items()}
    for pair in event.pairs:
        old, new = (
            [dts_data(kinds[name], cells[name], zone).SerializeToString() for name in texts]
            if cells is not None
            else []
            for cells in pair
        )
        dml.rows.add(oldColumns=old, newColumns=new)
    return dml


def dts_checkpoint(event: Logged) -> subscribe_pb2.Entry:
    """A checkpoint that covers an event."""
    file = f"mysql-bin.{event.file:06}"
    entry = subscribe_pb2.Entry(
        header=subscribe_pb2.Header(
            version=1, messageType="CHECKPOINT", timestamp=event.time, fileName=file, position=event.offset
        )
    )
    entry.event.checkpointEvent.fileName = file
    entry.event.checkpointEvent.position = event.offset
    return entry


def dts_envelopes(entries: Sequence[subscribe_pb2.Entry], limit: int = 10**6) -> list[bytes]:
    """One Entries, in parts where it is too long."""
    data = subscribe_pb2.Entries(items=entries).SerializeToString()
    total = math.ceil(len(data) / limit)
    parts = [data[start : start + limit] for start in range(0, len(data), limit)]
    return [
        subscribe_pb2.Envelope(version=1, total=total, index=index, data=part).SerializeToString()
        for index, part in enumerate(parts)
    ]


# Feeds


def feed(format: str, log: Sequence[Logged], chance: random.Random, zone: str = "UTC") -> list[Message]:
    """All messages of a binlog in one format and one partition (Debezium: one of each topic), in the order
    they are sent.
    """
    return list(_FEEDS[format](log, chance, zone))


def _flat_feed(log: Sequence[Logged], chance: random.Random, zone: str) -> Iterator[Message]:
    values = [
        value for number, event in enumerate(log) if (value := canal_flat(event, 1 + number // 5)) is not None
    ]
    yield from (Message("canal", 0, offset, None, value) for offset, value in enumerate(values))


def _packet_feed(log: Sequence[Logged], chance: random.Random, zone: str) -> Iterator[Message]:
    yield from packets(cut(log, chance))


def packets(cuts: Iterable[Sequence[Logged]]) -> Iterator[Message]:
    """A binlog in pieces, each as a packet of Canal's protobuf."""
    for offset, events in enumerate(cuts):
        yield Message("packets", 0, offset, None, canal_packet(map(canal_entry, events), offset + 1))


def _debezium_feed(log: Sequence[Logged], chance: random.Random, zone: str) -> Iterator[Message]:
    offsets: dict[str, int] = {}
    for event in log:
        for sent in debezium(event, zone=zone):
            offsets[sent.topic] = offsets.get(sent.topic, -1) + 1
            yield Message(sent.topic, 0, offsets[sent.topic], sent.key, sent.value, sent.headers)


def _dts_feed(log: Sequence[Logged], chance: random.Random, zone: str) -> Iterator[Message]:
    offset = 0
    for events in cut(log, chance):
        entries = [dts_entry(event, zone) for event in events] + [dts_checkpoint(events[-1])]
        for value in dts_envelopes(entries, chance.choice((90, 400, 10**6))):
            yield Message("dts", 0, offset, None, value, (("ps", str(offset + 1).encode()),))
            offset += 1


def cut(log: Sequence[Logged], chance: random.Random) -> Iterator[Sequence[Logged]]:
    start = 0
    while start < len(log):
        count = chance.choice((1, 2, 7))
        yield log[start : start + count]
        start += count


_FEEDS = {
    "canal": _flat_feed,
    "canal-protobuf": _packet_feed,
    "debezium": _debezium_feed,
    "tencent-dts": _dts_feed,
}
