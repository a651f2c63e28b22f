"""A source that speaks TiCDC canal-json, written line by line: what a test says happened, in one partition.

feed = CanalFeed().ddl("CREATE TABLE d.t (id INT PRIMARY KEY)").put("t", {"id": 1})
"""

import json
from typing import Any

from lakehouse.events import Message

Row = dict[str, Any]


class CanalFeed:
    """Each call happens at a commit_ts of its own, 10 after the one before; `last` is the newest."""

    def __init__(self, topic: str = "t") -> None:
        self.topic, self.last = topic, 1000
        self.messages: list[Message] = []

    def ddl(self, sql: str, table: str = "t") -> "CanalFeed":
        return self._add({"database": "d", "table": table, "isDdl": True, "type": "ALTER", "sql": sql})

    def put(self, table: str, after: Row, before: Row | None = None, **types: str) -> "CanalFeed":
        """An insert, or an update where `before` is told. Types are MySQL's words, int unless said."""
        return self._row(table, "INSERT" if before is None else "UPDATE", after, before, types)

    def delete(self, table: str, row: Row, **types: str) -> "CanalFeed":
        return self._row(table, "DELETE", row, None, types)

    def together(self, *rows: tuple[str, Row, Row | None]) -> "CanalFeed":
        """Rows of one transaction: (table, after, before)."""
        at = self.last + 10
        for table, after, before in rows:
            self.last = at - 10
            self.put(table, after, before)
        return self

    def resolved(self) -> "CanalFeed":
        value = {"database": "", "table": "", "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": self.last}}
        self.messages.append(Message(self.topic, 0, len(self.messages), None, json.dumps(value).encode()))
        return self

    def _row(self, table: str, kind: str, row: Row, old: Row | None, types: dict[str, str]) -> "CanalFeed":
        told = {name: types.get(name, "int") for name in row}
        images = [None if image is None else {name: _text(value) for name, value in image.items()} for image in (row, old)]
        body = {"database": "d", "table": table, "isDdl": False, "type": kind, "pkNames": ["id"], "mysqlType": told}
        return self._add({**body, "data": [images[0]], "old": [images[1]] if old is not None else None})

    def _add(self, body: dict[str, Any]) -> "CanalFeed":
        self.last += 10
        value = {"id": 0, "es": 0, "ts": 0, **body, "_tidb": {"commitTs": self.last}}
        self.messages.append(Message(self.topic, 0, len(self.messages), None, json.dumps(value).encode()))
        return self


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
