"""Records as a Debezium connector writes them, for the tests of its decoder."""

import json
from typing import Any

from lakehouse.events import Message
from lakehouse.formats.debezium.connector import decode

SOURCE = {
    "db": "d",
    "table": "t",
    "file": "mysql-bin.000012",
    "pos": 345,
    "row": 2,
    "server_id": 7,
    "gtid": "g:1",
    "ts_ms": 9000,
}
HEADER = "__debezium."


def message(value: Any, key: Any = None, *headers: str) -> Message:
    packed = None if value is None else json.dumps(value, ensure_ascii=False).encode()
    told = tuple((HEADER + name, b"{}") for name in headers)
    return Message("p.d.t", 0, 0, None if key is None else json.dumps(key).encode(), packed, told, epoch=1)


def row(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": SOURCE | source, "transaction": None}


def one(told: Message, **options: str) -> Any:
    (event,) = decode(told, options)
    return event
