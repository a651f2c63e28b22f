"""A source that speaks TiCDC canal-json, written line by line: what a test says happened, in one partition.

feed = CanalFeed().ddl("CREATE TABLE d.t (id INT PRIMARY KEY)").put("t", {"id": 1})
"""

import json
from typing import Any

from lakehouse.events import Message

Row = dict[str, Any]


class CanalFeed:
    """Each call happens at a commit_ts of its own, 10 after the one before; `last` is the newest. Tables are
    in the partitions that are said, else in 0; DDL and watermarks are in all.
    """

    def __init__(self, topic: str = "t", **partitions: int) -> None:
        self.topic, self.last, self.partitions = topic, 1000, partitions
        self.then: int | None = None
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

    def at(self, commit_ts: int) -> "CanalFeed":
        """What is told next happened then, although it arrives now; what comes behind it goes on above
        everything.
        """
        self.then = commit_ts
        return self

    def resolved(self) -> "CanalFeed":
        value = {"database": "", "table": "", "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": self.last}}
        for partition in {0, *self.partitions.values()}:
            self._send(partition, value)
        return self

    @property
    def news(self) -> bool:
        """Whether anything was told since the last watermark."""
        return not self.messages or json.loads(self.messages[-1].value or b"")["type"] != "TIDB_WATERMARK"

    def _send(self, partition: int, value: Row) -> None:
        offset = sum(message.partition == partition for message in self.messages)
        self.messages.append(Message(self.topic, partition, offset, None, json.dumps(value).encode()))

    def _row(self, table: str, kind: str, row: Row, old: Row | None, types: dict[str, str]) -> "CanalFeed":
        told = {name: types.get(name, "int") for name in row}
        images = [
            None if image is None else {name: _text(value) for name, value in image.items()}
            for image in (row, old)
        ]
        body = {
            "database": "d",
            "table": table,
            "isDdl": False,
            "type": kind,
            "pkNames": ["id"],
            "mysqlType": told,
        }
        return self._add({**body, "data": [images[0]], "old": [images[1]] if old is not None else None})

    def _add(self, body: dict[str, Any]) -> "CanalFeed":
        if self.then is None:
            self.last += 10
        value = {"id": 0, "es": 0, "ts": 0, **body, "_tidb": {"commitTs": self.then or self.last}}
        self.then = None
        everywhere = (
            {0, *self.partitions.values()} if body["isDdl"] else {self.partitions.get(body["table"], 0)}
        )
        for partition in everywhere:
            self._send(partition, value)
        return self


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
