"""Small feeds for the suites: a few statements and rows, spelled as a format spells them, and what the engine
makes of them.

    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").insert(2, id=1)
    feed.table("d.t")   ──▶ [{"id": 1}]

`TiCDC` is canal-json with the TiDB extension, `Canal` a FlatMessage; both tell types by `mysqlType`. Values
are texts as the wire has them, or what `str` makes of them. `Debezium` is the connector's, without schemas:
values are JSON.
"""

import json
from typing import Any, Self

from lakehouse.events import Message
from lakehouse.lineage import Lineage
from tests.support.engine import Memory

Values = dict[str, Any]


class TiCDC:
    """Messages of TiCDC's canal-json, and the engine over them."""

    format, tidb = "ticdc-canal-json", True

    def __init__(self, **options: str) -> None:
        self.options = options
        self.messages: list[Message] = []

    def put(self, at: int, body: dict[str, Any]) -> Self:
        """Whatever the message is, with the commit time in every place that has one."""
        body = {"database": "d", "table": "t", "isDdl": False, "es": at, "_tidb": {"commitTs": at}, **body}
        value = json.dumps(body, ensure_ascii=False).encode()
        self.messages.append(Message("topic", 0, len(self.messages), None, value))
        return self

    def ddl(self, at: int, sql: str, table: str | None = "t", database: str = "d") -> Self:
        return self.put(
            at, {"database": database, "table": table or "", "isDdl": True, "type": "ALTER", "sql": sql}
        )

    def row(
        self,
        at: int,
        kind: str,
        new: Values,
        old: Values | None = None,
        *,
        types: dict[str, str] | None = None,
        key: tuple[str, ...] = ("id",),
        table: str = "t",
        database: str = "d",
    ) -> Self:
        types = {name: "int" if name == "id" else "varchar" for name in new} if types is None else types
        body = {
            "type": kind,
            "pkNames": list(key),
            "mysqlType": types,
            "data": [texts(new)],
            "old": None if old is None else [texts(old)],
        }
        return self.put(at, {"database": database, "table": table, **body})

    def insert(self, at: int, **values: Any) -> Self:
        return self.row(at, "INSERT", values)

    # --- what comes of it ---

    @property
    def memory(self) -> Memory:
        return Memory(self.format, self.options, tidb=self.tidb).add(self.messages)

    @property
    def tables(self) -> dict[str, list[Values]]:
        memory = self.memory
        assert not memory.dead
        return memory.tables(memory.reach)

    def table(self, name: str = "d.t") -> list[Values]:
        return self.tables[name]

    def lineage(self, name: str = "d.t") -> Lineage:
        memory = self.memory
        return memory.history().live(memory.reach)[tuple(name.split("."))]  # type: ignore[index]

    def incomplete(self, name: str = "d.t") -> str | None:
        """Why the table is known to lack something, None where it is not."""
        memory = self.memory
        memory.tables(memory.reach)
        more = [(memory.reach, problem) for problem in sorted(memory.problems.get(name, ()))]
        found = self.lineage(name).incomplete_at(memory.reach, more)
        return found and found[1]


class Canal(TiCDC):
    """Messages of Alibaba Canal, in order of arrival."""

    format, tidb = "canal", False


class Debezium(TiCDC):
    """Messages of a Debezium connector; `at` is the position in the binlog file `file`, `row` the row in its
    event.
    """

    format, tidb = "debezium", False

    def ddl(self, at: int, sql: str, table: str | None = "t", database: str = "d", file: int = 1) -> Self:
        return self.record(
            {"source": place(at, 0, file, table, database), "ddl": sql, "databaseName": database}, None
        )

    def change(
        self,
        at: int,
        op: str,
        before: Values | None,
        after: Values | None,
        *,
        row: int = 0,
        file: int = 1,
        headers: tuple[str, ...] = (),
        **source: Any,
    ) -> Self:
        image = after or before
        key = None if image is None else {"id": image["id"]}
        body = {
            "op": op,
            "before": before,
            "after": after,
            "source": {**place(at, row, file, "t", "d"), **source},
        }
        return self.record(body, key, headers)

    def record(self, body: dict[str, Any], key: Values | None, headers: tuple[str, ...] = ()) -> Self:
        told = None if key is None else json.dumps(key).encode()
        named = tuple((name, b"{}") for name in headers)
        self.messages.append(Message("topic", 0, len(self.messages), told, json.dumps(body).encode(), named))
        return self


def place(at: int, row: int, file: int, table: str | None, database: str) -> dict[str, Any]:
    return {
        "file": f"bin.{file:06}",
        "pos": at,
        "row": row,
        "db": database,
        "table": table or "",
        "snapshot": "false",
        "ts_ms": 1,
    }


def texts(values: Values) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in values.items()}
