"""A writer that changes a real MariaDB while others read it, and the feed that Debezium would make of that:
the same changes, at the places that they have in the server's own binlog.

There is one writer, so that a transaction lies between the end of the one before it and its own end.
"""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pymysql

from lakehouse.events import Message

Row = dict[str, Any]
Change = tuple[str, Row | None, Row | None]
TABLES = ("item", "pair", "bag")
# rows are (id, v, n); `pair` has the key (v, id); `bag` has none
CREATE = (
    "CREATE TABLE `{}` (`id` int NOT NULL, `v` varchar(20) NOT NULL, `n` int, PRIMARY KEY (`id`))",
    "CREATE TABLE `{}` (`id` int NOT NULL, `v` varchar(20) NOT NULL, `n` int, PRIMARY KEY (`v`, `id`))",
    "CREATE TABLE `{}` (`id` int NOT NULL, `v` varchar(20) NOT NULL, `n` int)",
)
KEYS: dict[str, tuple[str, ...]] = {"item": ("id",), "pair": ("id", "v"), "bag": ()}


class Committed(NamedTuple):
    """A change, when its transaction began, and when it was committed."""

    began: float
    committed: float
    table: str
    change: Change


class Placed(NamedTuple):
    """A transaction: its number, the changes of each table in their order, and where it begins in the
    binlog.
    """

    number: int
    changes: list[tuple[str, Change]]
    file: str
    offset: int


class BusyServer:
    """Tables of a database `shop`, rows that no feed tells of, and transactions one after another, whose
    messages are in `messages`.
    """

    def __init__(self, port: int, seed: int, rows: int, tables: Sequence[str] = TABLES) -> None:
        self.chance, self.tables = random.Random(seed), tuple(tables)
        self.connection: Any = pymysql.connect(
            host="127.0.0.1", port=port, user="root", charset="utf8mb4", autocommit=True
        )
        self.cursor = self.connection.cursor()
        self.rows: dict[str, dict[int, Row]] = {}
        self.messages: list[Message] = []
        self.offsets: dict[str, int] = {}
        self.next, self.transactions = rows, 0
        self.began, self.log, self.placed = 0.0, list[Committed](), list[Placed]()
        self.large = 300  # changes of a large transaction
        self._begin(rows)

    def _begin(self, rows: int) -> None:
        self.run("DROP DATABASE IF EXISTS shop")
        self.run("CREATE DATABASE shop CHARACTER SET utf8mb4")
        self.run("USE shop")
        for table in self.tables:
            self.run(CREATE[TABLES.index(kind_of(table))].format(table))
            self.rows[table] = {id_: {"id": id_, "v": f"v{id_ % 97}é'\\", "n": id_} for id_ in range(rows)}
            values = [tuple(row.values()) for row in self.rows[table].values()]
            self.cursor.executemany(f"INSERT INTO `{table}` VALUES (%s, %s, %s)", values)

    def run(self, sql: str) -> None:
        self.cursor.execute(sql)

    def place(self) -> tuple[str, int]:
        """The end of the binlog."""
        self.cursor.execute("SHOW MASTER STATUS")
        file, offset, *_ = self.cursor.fetchone()
        return file, int(offset)

    def begun_at(self, file: str, offset: int) -> int:
        """Where the first transaction behind a place begins. The server may write of its own between them:
        behind a new file's header MariaDB says which files are done with (Binlog_checkpoint), when it gets to
        it. A MySQL without GTIDs begins a transaction with BEGIN.
        """
        self.cursor.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset} LIMIT 9")
        events = [(int(place), kind, info) for _, place, kind, _, _, info in self.cursor.fetchall()]
        return next(place for place, kind, info in events if kind == "Gtid" or info == "BEGIN")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Transactions from a thread of their own, for as long as the block lasts."""
        stop, failed = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                while not stop.wait(0.01):
                    self.transact()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    def transact(self) -> None:
        """One transaction: rows inserted, changed, moved to another key, deleted; now and then many."""
        chance, (file, offset), self.began = self.chance, self.place(), time.time()
        if chance.random() < 0.02:
            self.run("FLUSH BINARY LOGS")
            file, offset = self.place()
        self.run("BEGIN")
        many = self.large if chance.random() < 0.03 else chance.choice((1, 1, 2, 5))
        changes = [self._change(chance.choice(self.tables)) for _ in range(many)]
        self.run("COMMIT")
        changed = [change for change in changes if change is not None]
        self._tell(changed, file, self.begun_at(file, offset) if changed else offset)

    def lose(self, table: str) -> None:
        """Insert a row of which the feed is told nothing, and delete it, which it is told."""
        self.next += 1
        lost: Row = {"id": self.next, "v": "lost", "n": 1}
        self.began = time.time()
        self._execute(f"INSERT INTO `{table}` VALUES (%s, %s, %s)", *lost.values())
        file, offset = self.place()
        self._execute(f"DELETE FROM `{table}` WHERE id = %s", lost["id"])
        self._tell([(table, ("d", lost, None))], file, self.begun_at(file, offset))

    def _change(self, table: str) -> tuple[str, Change] | None:
        chance, rows = self.chance, self.rows[table]
        what = chance.choice(("insert", "update", "update", "move", "delete"))
        if what == "insert" or not rows:
            self.next += 1
            new: Row = {"id": self.next, "v": f"new {chance.randrange(50)}", "n": chance.randrange(9)}
            rows[self.next] = new
            self._execute(f"INSERT INTO `{table}` VALUES (%s, %s, %s)", *new.values())
            return table, ("c", None, new)
        old: Row = rows.pop(chance.choice(list(rows)))
        if what == "delete":
            self._execute(f"DELETE FROM `{table}` WHERE id = %s", old["id"])
            return table, ("d", old, None)
        # another number, as the server logs no row that stays as it is
        new = {**old, "n": (old["n"] + chance.randrange(1, 10_000)) % 10_000}
        if what == "move":
            self.next += 1
            new |= {"id": self.next, "v": f"moved {chance.randrange(50)}"}
        rows[new["id"]] = new
        self._execute(f"UPDATE `{table}` SET id = %s, v = %s, n = %s WHERE id = %s", *new.values(), old["id"])
        return table, ("u", old, new)

    def _execute(self, sql: str, *values: object) -> None:
        assert self.cursor.execute(sql, values) in (0, 1)

    def _tell(self, changes: list[tuple[str, Change]], file: str, offset: int) -> None:
        self.transactions += 1
        self.log += [Committed(self.began, time.time(), table, change) for table, change in changes]
        self.placed.append(Placed(self.transactions, changes, file, offset))
        id_, counts = f"0-7-{self.transactions}", dict.fromkeys(self.tables, 0)
        told = [self._record("s.transaction", {"id": id_}, {"status": "BEGIN", "id": id_, "ts_ms": 1})]
        halves = [half for table, change in changes for half in self._halves(table, change)]
        for order, (table, (op, old, new)) in enumerate(halves, 1):
            counts[table] += 1
            value = {
                "op": op,
                "before": old,
                "after": new,
                "source": {
                    "db": "shop",
                    "table": table,
                    "server_id": 7,
                    "file": file,
                    "pos": offset + 42,
                    "ts_ms": 1_700_000_000_000 + self.transactions,
                    "row": order,
                    "snapshot": "false",
                },
                "transaction": {"id": id_, "total_order": order, "data_collection_order": counts[table]},
            }
            key = {name: (new or old or {})[name] for name in KEYS[kind_of(table)]} or None
            told.append(self._record(f"s.shop.{table}", key, value))
        collections = [
            {"data_collection": f"shop.{table}", "event_count": count}
            for table, count in counts.items()
            if count
        ]
        end = {"status": "END", "id": id_, "event_count": len(halves), "data_collections": collections}
        self.messages += [*told, self._record("s.transaction", {"id": id_}, {**end, "ts_ms": 1})]

    def _halves(self, table: str, change: Change) -> Iterator[tuple[str, Change]]:
        """Debezium sends another key as a delete and an insert."""
        _, old, new = change
        keys = KEYS[kind_of(table)]
        if old is not None and new is not None and any(old[name] != new[name] for name in keys):
            yield table, ("d", old, None)
            yield table, ("c", None, new)
        else:
            yield table, change

    def _record(self, topic: str, key: Row | None, value: Row) -> Message:
        offset = self.offsets.get(topic, 0)
        self.offsets[topic] = offset + 1
        told = None if key is None else json.dumps(key).encode()
        return Message(topic, 0, offset, told, json.dumps(value).encode())

    def truth(self) -> dict[str, list[Row]]:
        """What the server has now, table by table."""
        found = {}
        for table in self.tables:
            self.cursor.execute(f"SELECT id, v, n FROM `{table}`")
            rows = [dict(zip(("id", "v", "n"), row, strict=True)) for row in self.cursor.fetchall()]
            found[f"shop.{table}"] = in_order(rows)
        return found


def kind_of(table: str) -> str:
    """`item_7` is a table like `item`."""
    return table.partition("_")[0]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
