"""A feed of TiCDC Open Protocol, written change by change."""

import json
from typing import Any

from lakehouse.events import Message
from tests.support.encode_open import message

T = 470_606_995_725_312_000


class OpenFeed:
    """Open Protocol messages of one partition of the topic `shop`, line by line. Times count from T."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.messages: list[Message] = []

    def add(self, key: dict[str, Any], value: Any = None) -> None:
        coded = json.dumps(key).encode(), b"" if value is None else json.dumps(value).encode()
        self.messages.append(message([coded], "shop", self.partition, len(self.messages)))

    def ddl(self, ts: int, table: str, query: str) -> None:
        self.add({"ts": T + ts, "scm": "shop", "tbl": table, "t": 2}, {"q": query, "t": 0})

    def row(self, ts: int, table: str, id: int, what: str = "u", **cells: Any) -> None:
        key = {"id": {"t": 3, "h": True, "f": 11, "v": id}}
        codes = {"v": 15, "w": 3, "at": 12}
        image = {**key, **{name: {"t": codes[name], "f": 64, "v": value} for name, value in cells.items()}}
        self.add({"ts": T + ts, "scm": "shop", "tbl": table, "t": 1}, {what: image})

    def resolved(self, ts: int) -> None:
        self.add({"ts": T + ts, "t": 3})
