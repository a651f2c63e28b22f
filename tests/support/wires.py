"""Encoders for the suites: one table's changes, spelled as each format spells them.

    table demo.t (`COLUMNS`), key (code, id)        Wire.rows(op, [(before, after), …]) ──▶ Message

An image is canonical. An encoder leaves out what its producer leaves out, and nothing else. A format that
can't express a behaviour says so in `cannot`, with the reason.
"""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from lakehouse.events import Image, Message
from lakehouse.formats.open_frames import framed
from lakehouse.formats.proto import canal_pb2
from tests.support.encode_open import go_quote
from tests.support.encode_tidb import SQL_TYPES

COLUMNS = {
    "id": "bigint unsigned",
    "code": "varchar",
    "qty": "int",
    "price": "decimal",
    "note": "text",
    "bin": "varbinary",
    "blob": "blob",
    "ratio": "double",
    "bits": "bit",
    "at": "timestamp",
    "dt": "datetime",
    "day": "date",
    "t": "time",
    "y": "year",
    "doc": "json",
}
KEY = ("code", "id")
ZONE = "Asia/Shanghai"
TS = 470606996798439424
Pairs = Sequence[tuple[Image | None, Image | None]]


class Wire(NamedTuple):
    format: str
    rows: Callable[[str, Pairs], Message]
    ddl: Callable[[str], Message]
    watermark: Callable[[int], Message] | None
    cannot: dict[str, str]


def message(key: bytes | None, value: bytes) -> Message:
    return Message("topic", 1, 77, key, value, epoch=3)


def local(text: str) -> str:
    """UTC text with Z as the text that a server in ZONE prints."""
    moved = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC).astimezone(ZoneInfo(ZONE))
    return f"{moved.replace(tzinfo=None)}{text[19:-1]}"


# Open Protocol

CODES = {
    "bigint unsigned": (8, 129),
    "varchar": (15, 0),
    "int": (3, 1),
    "decimal": (246, 1),
    "text": (252, 0),
    "varbinary": (15, 1),
    "blob": (252, 1),
    "double": (5, 1),
    "bit": (16, 129),
    "timestamp": (7, 1),
    "datetime": (12, 1),
    "date": (10, 1),
    "time": (11, 1),
    "year": (13, 129),
    "json": (245, 1),
}


def open_column(name: str, value: Any) -> dict[str, Any]:
    code, flags = CODES[COLUMNS[name]]
    if value is not None:
        match COLUMNS[name]:
            case "text":
                value = base64.b64encode(value.encode()).decode()
            case "varbinary":
                value = go_quote(base64.b64decode(value))
            case "timestamp":
                value = local(value)
    return {
        "t": code,
        **({"h": True} if name in KEY else {}),
        "f": flags | (10 if name in KEY else 64),
        "v": value,
    }


def open_image(image: Image) -> dict[str, Any]:
    return {name: open_column(name, value) for name, value in image.items()}


def open_row(before: Image | None, after: Image | None) -> bytes:
    if after is None:
        assert before is not None
        return dumps({"d": open_image(before)})
    return dumps({"u": open_image(after), **({"p": open_image(before)} if before else {})})


def open_rows(op: str, pairs: Pairs) -> Message:
    key = dumps({"ts": TS, "scm": "demo", "tbl": "t", "t": 1})
    return message(*framed([key] * len(pairs), [open_row(*pair) for pair in pairs]))


def open_ddl(text: str) -> Message:
    return message(
        *framed([dumps({"ts": TS, "scm": "demo", "tbl": "t", "t": 2})], [dumps({"q": text, "t": 3})])
    )


def open_watermark(ts: int) -> Message:
    return message(*framed([dumps({"ts": ts, "t": 3})], [b""]))


# canal-json and FlatMessage


def text_value(name: str, value: Any) -> str | None:
    if value is None:
        return None
    match COLUMNS[name]:
        case "varbinary" | "blob":
            return base64.b64decode(value).decode("latin-1")
        case "timestamp":
            return local(value)
        case "double":
            return format(Decimal(repr(value)), "f")
        case _:
            return str(value)


def text_image(image: Image) -> dict[str, str | None]:
    return {name: text_value(name, value) for name, value in image.items()}


def canal_json(op: str, pairs: Pairs) -> dict[str, Any]:
    images = [after if after is not None else before or {} for before, after in pairs]
    old = [text_image(before or {}) for before, _ in pairs] if op == "update" else None
    return {
        "id": 0,
        "database": "demo",
        "table": "t",
        "pkNames": ["id", "code"],
        "isDdl": False,
        "type": op.upper(),
        "es": TS >> 18,
        "ts": 1,
        "mysqlType": {name: COLUMNS[name] for name in images[0]},
        "old": old,
        "data": [text_image(image) for image in images],
    }


def ticdc_rows(op: str, pairs: Pairs) -> Message:
    return message(None, dumps({**canal_json(op, pairs), "_tidb": {"commitTs": TS}}))


def ticdc_ddl(text: str) -> Message:
    return message(
        None,
        dumps(
            {
                "database": "demo",
                "table": "t",
                "isDdl": True,
                "type": "ALTER",
                "sql": text,
                "_tidb": {"commitTs": TS},
            }
        ),
    )


def ticdc_watermark(ts: int) -> Message:
    return message(
        None,
        dumps(
            {
                "database": "",
                "table": "",
                "isDdl": False,
                "type": "TIDB_WATERMARK",
                "_tidb": {"watermarkTs": ts},
            }
        ),
    )


def flat_rows(op: str, pairs: Pairs) -> Message:
    # without the codes it may be of Tencent's DTS, which may write bytes in hex
    codes = {name: SQL_TYPES[kind.partition(" ")[0]] for name, kind in COLUMNS.items()}
    return message(None, dumps({**canal_json(op, pairs), "sqlType": codes}))


def flat_ddl(text: str) -> Message:
    return message(
        None,
        dumps(
            {"database": "demo", "table": "t", "isDdl": True, "type": "ALTER", "sql": text, "es": TS >> 18}
        ),
    )


# Canal protobuf


def proto_columns(image: Image | None) -> list[canal_pb2.Column]:
    return [
        canal_pb2.Column(
            index=index,
            name=name,
            isKey=name in KEY,
            mysqlType=COLUMNS[name],
            isNull=value is None,
            value=text_value(name, value) or "",
        )
        for index, (name, value) in enumerate((image or {}).items())
    ]


def packet(change: canal_pb2.RowChange, database: str = "demo", table: str = "t") -> Message:
    header = canal_pb2.Header(
        logfileName="bin.000007",
        logfileOffset=4711,
        schemaName=database,
        tableName=table,
        executeTime=TS >> 18,
    )
    entry = canal_pb2.Entry(
        header=header, entryType=canal_pb2.ENTRY_ROWDATA, storeValue=change.SerializeToString()
    )
    end = canal_pb2.Entry(header=header, entryType=canal_pb2.ENTRY_TRANSACTIONEND)
    body = canal_pb2.Messages(messages=[entry.SerializeToString(), end.SerializeToString()])
    return message(
        None,
        canal_pb2.Packet(type=canal_pb2.PACKET_MESSAGES, body=body.SerializeToString()).SerializeToString(),
    )


def proto_rows(op: str, pairs: Pairs) -> Message:
    rows = [
        canal_pb2.RowData(beforeColumns=proto_columns(before), afterColumns=proto_columns(after))
        for before, after in pairs
    ]
    return packet(canal_pb2.RowChange(eventType=f"EVENT_{op.upper()}", rowDatas=rows))


def proto_ddl(text: str) -> Message:
    return packet(canal_pb2.RowChange(eventType="EVENT_ALTER", isDdl=True, sql=text, ddlSchemaName="demo"))


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


WIRES = {
    wire.format: wire
    for wire in (
        Wire("ticdc-open", open_rows, open_ddl, open_watermark, {}),
        Wire("ticdc-canal-json", ticdc_rows, ticdc_ddl, ticdc_watermark, {}),
        Wire(
            "canal",
            flat_rows,
            flat_ddl,
            None,
            {"key-only delete": "its deletes hold the whole row, nothing marks others"},
        ),
        Wire(
            "canal-protobuf",
            proto_rows,
            proto_ddl,
            None,
            {"changed columns": "its old image is the whole row, or names the row alone"},
        ),
    )
}
