"""A small TiCDC canal-json feed, written by hand: what it says is easy to read in a test.

feed = OrdersFeed(tmp_path / "shop.jsonl")
feed.ddl("CREATE TABLE `shop`.`orders` (…)").insert(1, id="1", total="5").resolved(1)
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BASE = 470606995731251200


class OrdersFeed:
    """Messages of one partition; `at` counts commits. Values are text, as TiCDC sends them."""

    def __init__(self, path: Path, table: str = "orders", types: Mapping[str, str] | None = None) -> None:
        self.path, self.table = path, table
        self.pk_names = ["id"]
        self.types = {
            "id": "int",
            "total": "decimal(10,2)",
            "note": "varchar(20)",
            "sum": "decimal(10,2)",
            "kind": "varchar(9)",
        }
        self.types |= types or {}
        self.count = 0
        path.write_text("")

    def on(self, table: str) -> "OrdersFeed":
        """What follows is about this table."""
        self.table = table
        return self

    def ddl(self, at: int, sql: str) -> "OrdersFeed":
        return self._send(
            {"isDdl": True, "type": "QUERY", "sql": sql, "mysqlType": None, "data": None, "old": None}, at
        )

    def insert(self, at: int, **row: str | None) -> "OrdersFeed":
        return self._row("INSERT", at, row, None)

    def update(self, at: int, old: dict[str, str | None], **row: str | None) -> "OrdersFeed":
        return self._row("UPDATE", at, row, old)

    def delete(self, at: int, **row: str | None) -> "OrdersFeed":
        return self._row("DELETE", at, row, None)

    def resolved(self, at: int) -> "OrdersFeed":
        return self._send({"type": "TIDB_WATERMARK", "database": "", "table": ""}, at, "watermarkTs")

    def garbage(self, value: bytes) -> "OrdersFeed":
        return self._write(value)

    def _row(
        self, kind: str, at: int, row: dict[str, str | None], old: dict[str, str | None] | None
    ) -> "OrdersFeed":
        types = {name: self.types[name] for name in row}
        return self._send(
            {"type": kind, "mysqlType": types, "data": [row], "old": [old] if old else None}, at
        )

    def _send(self, told: dict[str, Any], at: int, name: str = "commitTs") -> "OrdersFeed":
        body = {
            "id": 0,
            "database": "shop",
            "table": self.table,
            "pkNames": self.pk_names,
            "isDdl": False,
            "sql": "",
            "es": at,
            "ts": at,
            **told,
            "_tidb": {name: BASE + at},
        }
        return self._write(json.dumps(body).encode())

    def _write(self, data: bytes) -> "OrdersFeed":
        value = base64.b64encode(data).decode()
        line = {
            "topic": self.path.stem,
            "partition": 0,
            "offset": self.count,
            "key_b64": None,
            "value_b64": value,
        }
        with self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")
        self.count += 1
        return self
