"""Tables read beside a feed that tells no places: whatever the feed's delay, its replays and the moments of the
chunks, gold equals the source at every message at which it calls the table exact.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message, Position
from lakehouse.formats.canal.flat_message import logged
from lakehouse.formats.row import Logged
from lakehouse.formats.snapshot.encode import TableChunks, messages
from lakehouse.formats.snapshot.records import Place, RowsRecord, TableRecord
from lakehouse.lineage import READ_WHILE
from lakehouse.schema import Column, TableSchema, parse_type
from lakehouse.sources.dumps.records import BinlogPlace, TopicPlace
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.arrival import (
    CLOCKS_WITHIN,
    ArrivalServer,
    CaughtUp,
    caught_up,
    is_overtaken,
)
from lakehouse.sources.live.servers import MariaDbServer, Moment
from lakehouse.sources.server_sql import server_time
from tests.support.engine import Memory

Row = dict[str, Any]
CHUNK, KEYS, BEGUN = 3, 14, 1_700_000_000_000
NAME = ("d", "t")
SWAP = "ALTER TABLE t RENAME COLUMN n TO m, RENAME COLUMN m TO n"
ADD = "ALTER TABLE t ADD COLUMN {} int DEFAULT 7"


class Entry:
    """One event of the binlog: a row before and after it, or a statement that adds a column, or gives two
    columns each other's name, which can be done twice.
    """

    def __init__(self, time: int, old: Row | None = None, new: Row | None = None, ddl: str = "") -> None:
        self.time, self.old, self.new, self.ddl = time, old, new, ddl

    def apply(self, rows: dict[int, Row]) -> None:
        for row in rows.values() if self.ddl else ():
            if self.ddl == SWAP:
                row["n"], row["m"] = row["m"], row["n"]
            else:
                row[self.ddl.split()[5]] = 7
        if self.old is not None:
            rows.pop(self.old["id"], None)
        if self.new is not None:
            rows[self.new["id"]] = dict(self.new)


class World:
    """A server with transactions that take long, its binlog, and a Canal that lags, stalls and starts again.
    `skew`: by how many milliseconds the clock of the binlog is ahead of the one that can be asked.
    """

    def __init__(self, seed: int, *, skew: int = 0, partial: bool = False, ddl: float = 0.0) -> None:
        self.chance, self.skew, self.partial, self.ddl = random.Random(seed), skew, partial, ddl
        self.clock, self.columns = BEGUN + 456, ["id", "n", "m", "v"]
        self.first = {key: {"id": key, "n": key, "m": -key, "v": f"v{key}"} for key in range(0, KEYS, 2)}
        self.rows = {key: dict(row) for key, row in self.first.items()}
        self.log: list[Entry] = []
        self.open: list[tuple[int, list[Entry]]] = []
        self.topic: list[tuple[int, Message]] = []
        self.sent = self.number = 0
        self.stalled = self.statements = 0

    def step(self) -> None:
        """Some time goes by."""
        self.clock += self.chance.choice((20, 300, 900, 2500))
        for at, entries in [one for one in self.open if one[0] <= self.clock]:
            self.open.remove((at, entries))
            self._commit(entries)
        if len(self.open) < 4:
            self._begin()
        self._send()

    def _time(self) -> int:
        return (self.clock + self.skew) // 1000 * 1000

    def _commit(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.log.append(entry)
            entry.apply(self.rows)

    def _begin(self) -> None:
        """A statement, or one that waits long for its commit: nobody else may touch its rows meanwhile."""
        locked = {row["id"] for _, some in self.open for one in some for row in (one.old, one.new) if row}
        if self.chance.random() < self.ddl and not self.open and self.statements < 5:
            self._commit([Entry(self._time(), ddl=self._statement())])
            return
        here, free = sorted(set(self.rows) - locked), sorted(set(range(KEYS)) - set(self.rows) - locked)
        what = self.chance.choice(("insert", "update", "update", "move", "delete"))
        if what == "insert" or not here:
            if not free:
                return
            key = self.chance.choice(free)
            entry = Entry(self._time(), None, {name: self._cell(name, key) for name in self.columns})
        else:
            old = dict(self.rows[self.chance.choice(here)])
            new: Row | None = {**old, "n": self.chance.randrange(1000)}
            if what == "move" and free:
                new = {**old, "id": self.chance.choice(free)}
            entry = Entry(self._time(), old, None if what == "delete" else new)
        if self.chance.random() < 0.2 and not self.ddl:
            self.open.append((self.clock + self.chance.randrange(60_000), [entry]))
        else:
            self._commit([entry])

    def _statement(self) -> str:
        """A statement, which the definition has from now on."""
        self.statements += 1
        if self.chance.random() < 0.5:
            first, other = self.columns.index("n"), self.columns.index("m")
            self.columns[first], self.columns[other] = "m", "n"
            return SWAP
        self.columns.append(f"c{len(self.columns)}")
        return ADD.format(self.columns[-1])

    def _cell(self, name: str, key: int) -> Any:
        return key if name == "id" else f"new {self.clock}" if name == "v" else self.chance.randrange(1000)

    def _send(self) -> None:
        """Canal goes on, stalls, or begins again before what it has sent."""
        if self.stalled:
            self.stalled -= 1
            return
        if self.chance.random() < 0.05:
            self.stalled = self.chance.randrange(40)
        if self.chance.random() < 0.03 and self.sent > 3:
            again, self.number = self.chance.randrange(self.sent), 0
            for place in range(again, self.sent):
                self._put(place)
        until = min(len(self.log), self.sent + self.chance.choice((0, 1, 1, 2, 9)))
        for place in range(self.sent, until):
            self._put(place)
        self.sent = until

    def _put(self, place: int) -> None:
        self.number += 1
        entry, offset = self.log[place], len(self.topic)
        told: Row = {"id": self.number, "database": "d", "table": "t", "es": entry.time, "ts": self.clock}
        if entry.ddl:
            told |= {"isDdl": True, "type": "ALTER", "sql": entry.ddl}
        else:
            told |= {"isDdl": False, "pkNames": ["id"], **self._images(entry)}
        self.topic.append((place, Message("c", 0, offset, None, json.dumps(told).encode())))

    def _images(self, entry: Entry) -> Row:
        old, new = entry.old, entry.new
        row = dict(new or old or {})
        types = {name: "varchar(40)" if name == "v" else "int" for name in row}
        changed = {name for name in row if old is not None and new is not None and old[name] != new[name]}
        if self.partial and changed and "id" not in changed:
            row = {name: cell for name, cell in row.items() if name in changed | {"id"}}
        return {
            "type": "INSERT" if old is None else "DELETE" if new is None else "UPDATE",
            "mysqlType": types,
            "sqlType": {name: 12 if name == "v" else 4 for name in types},
            "data": [{name: str(cell) for name, cell in row.items()}],
            "old": [{name: str(old[name]) for name in sorted(changed)}] if changed and old else None,
        }

    # what a snapshot asks for

    def end(self) -> TopicPlace:
        return TopicPlace("c", 0, len(self.topic), time=self.clock)

    def read(self, first: int, end: int) -> Iterator[tuple[int, Logged]]:
        for offset in range(first, end):
            told = logged(self.topic[offset][1])
            assert told is not None
            yield offset, told

    def snapshot(self) -> list[Message]:
        """The records of the table, as a run makes them."""
        found = list[RowsRecord | TableRecord]()
        landed = list[Message]()
        for turn in range(50):
            found, place, columns = self._read_table()
            read_at = self.clock
            told = caught_up(self, place.offset, lambda: self.clock, lambda line: None, self._wait)
            if not is_overtaken(NAME, place.offset, read_at, told):
                break
            landed += messages(found, f"broken {turn}")
        until = Place(topic="c", offset=told.offset, time=place.time)
        create = ", ".join(f"`{name}` {'varchar(40)' if name == 'v' else 'int'}" for name in columns)
        end = TableRecord(
            place=place,
            database="d",
            table="t",
            create=f"CREATE TABLE `t` ({create}, PRIMARY KEY (`id`))",
            rows=0,
            until=None if until == place else until,
        )
        return [*landed, *messages([*found, end], "whole")]

    def _wait(self, seconds: float) -> None:
        self.step()

    def _read_table(self) -> tuple[list[RowsRecord | TableRecord], Place, list[str]]:
        """The rows chunk by chunk, while things go on; begun again where the definition changes."""
        while True:
            columns, at = list(self.columns), self.end()
            place = place_in("canal", "arrival", at, "s")
            chunks = TableChunks(place, NAME, schema_of(columns), live=True)
            found, last = list[RowsRecord | TableRecord](), -1
            while keys := sorted(key for key in self.rows if key > last)[:CHUNK]:
                rows = [[str(self.rows[key][name]).encode() for name in columns] for key in keys]
                found += chunks.add(columns, rows, "utf8mb4", "+00:00")
                last = keys[-1]
                for _ in range(self.chance.randrange(8)):
                    self.step()
            found += chunks.rest()
            if self.columns == columns:
                return found, place, columns


def schema_of(columns: list[str]) -> TableSchema:
    types = {name: parse_type("varchar(40)" if name == "v" else "int") for name in columns}
    return TableSchema(
        tuple(Column(number, name, types[name]) for number, name in enumerate(columns)), primary_key=(0,)
    )


def is_exact(silver: Memory, at: Position) -> bool:
    (lineage,) = silver.lineages().live(at).values()
    return lineage.incomplete_at(at) is None and lineage.held is None and not silver.problems


def checked(world: World, snapshot: list[Message]) -> int:
    """Whether gold is the source at each message at which it says so; at how many it does."""
    truth, applied, exact = {key: dict(row) for key, row in world.first.items()}, 0, 0
    silver = Memory("canal", tidb=False).add(snapshot)
    for count, (place, message) in enumerate(world.topic, 1):
        silver.add([message])
        while applied <= place:
            world.log[applied].apply(truth)
            applied += 1
        rows = silver.tables(silver.reach)["d.t"]
        if is_exact(silver, silver.reach):
            exact += 1
            assert sorted(rows, key=lambda row: row["id"]) == [truth[key] for key in sorted(truth)], count
    return exact


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ("whole", "partial", "ddl", "skewed"))
def test_no_table_is_called_exact_before_it_is(seed: int, kind: str) -> None:
    skew = random.Random(seed).choice((-60_000, -9_000, 3_000, 9_000)) if kind == "skewed" else 0
    world = World(seed, partial=kind == "partial", ddl=0.08 if kind == "ddl" else 0.0, skew=skew)
    while len(world.topic) < 5:
        world.step()

    snapshot = world.snapshot()
    for _ in range(10):
        world.step()

    assert checked(world, snapshot) > 0
