"""Tables read beside a feed that tells no places: whatever the feed's delay, its replays and the moments of
the chunks, gold equals the source at every message at which it calls the table exact.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from lakehouse.ddl.policy import Rules
from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message, Position
from lakehouse.formats.canal.flat_message import logged
from lakehouse.formats.row import Logged
from lakehouse.formats.snapshot.encode import Cells, TableChunks, messages
from lakehouse.formats.snapshot.records import Place, RowsRecord, TableRecord
from lakehouse.lineage import READ_WHILE
from lakehouse.schema import Column, TableSchema, parse_type
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.sources.dumps.records import BinlogPlace, TopicPlace
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.live.arrival import ArrivalServer, CaughtUp, caught_up, is_overtaken
from lakehouse.sources.live.parallel import Pace, Progress
from lakehouse.sources.live.read import Ending, Reading, table_messages
from lakehouse.sources.live.servers import MariaDbServer, Moment, MySqlServer
from lakehouse.sources.live.tables import listed
from lakehouse.sources.live.topic import KafkaFeed, only_partition
from lakehouse.sources.server_sql import server_time
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.busy_server import BusyServer, in_order
from tests.support.engine import Memory
from tests.support.flat_feed import FlatFeed

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
                images = [self.rows[key] for key in keys]
                rows: list[Cells] = [[str(row[name]).encode() for name in columns] for row in images]
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
    silver = Memory("canal", tidb=False)
    silver.rules = Rules()  # of a Canal that does not mix up names
    silver.add(snapshot)
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


# The rule's parts


class Told:
    """A topic whose messages come one after another, each time that somebody looks."""

    def __init__(self, first: list[Logged], *later: list[Logged]) -> None:
        self.there, self.later, self.clock = list(first), list(later), BEGUN

    def end(self) -> TopicPlace:
        return TopicPlace("c", 0, len(self.there))

    def read(self, first: int, end: int) -> Iterator[tuple[int, Logged]]:
        return iter(list(enumerate(self.there))[first:end])

    def wait(self, seconds: float) -> None:
        self.clock += 5000
        self.there += self.later.pop(0) if self.later else []


def found_in(told: Told) -> CaughtUp:
    return caught_up(told, 0, lambda: told.clock, lambda line: None, told.wait)


def at(seconds: float, ddl: str | None = None) -> Logged:
    return Logged(BEGUN + int(seconds * 1000), ddl)


def test_a_feed_has_caught_up_with_a_statement_that_began_after_now_whatever_clocks_differ() -> None:
    told = Told([at(-3)], [at(4)], [at(10)], [at(-60, "ALTER TABLE t ADD c int"), at(11)], [at(12)])

    assert found_in(told) == CaughtUp(4, ((3, at(-60, "ALTER TABLE t ADD c int")),))


def test_a_feed_of_another_clock_is_an_error() -> None:
    with pytest.raises(LakehouseError, match="expected the server whose clock the feed's statements are of"):
        found_in(Told([at(-3), at(10.1)]))
    with pytest.raises(LakehouseError, match="T22:13:25Z where the feed tells of 2023-11-14T22:13"):
        found_in(Told([], [at(16)]))


def test_a_feed_that_tells_nothing_more_is_an_error_and_the_table_is_not_called_exact() -> None:
    with pytest.raises(LakehouseError, match=r"nothing for two minutes \(the feed has come to 2023-11-14T"):
        found_in(Told([at(-3)], [at(-1)]))
    with pytest.raises(LakehouseError, match="the feed has told nothing since the tables were begun"):
        found_in(Told([]))


@pytest.mark.parametrize(
    ("ddl", "late"),
    (
        ("ALTER TABLE `t` ADD c int", True),
        ("alter table D.T add c int", True),
        ("RENAME TABLE other TO t", True),
        ("ALTER DATABASE d CHARACTER SET latin1", True),
        ("DROP SCHEMA d", True),
        ("", True),
        ("ALTER TABLE t2 ADD c int", False),
        ("CREATE TABLE a$t (id int)", False),
    ),
)
def test_a_table_is_read_again_for_statements_that_may_be_on_it(ddl: str, late: bool) -> None:
    told = CaughtUp(9, ((5, at(3, ddl)),))

    assert is_overtaken(NAME, 5, BEGUN, told) == late
    assert not is_overtaken(NAME, 6, BEGUN, told)
    assert not is_overtaken(NAME, 5, BEGUN - 8000, told)


class Clock:
    """A connection that tells the clock and the end of the binlog."""

    def ask(self, sql: str) -> list[Any]:
        if sql.startswith("SELECT UNIX_TIMESTAMP"):
            return [(b"1700000000.456789",)]
        return [(b"b.000002", b"400", b"", b"")] if sql == "SHOW BINARY LOG STATUS" else []

    def execute(self, sql: str) -> None:
        raise AssertionError(sql)


def test_a_table_is_not_read_before_all_that_its_topic_has_is_visible() -> None:
    visible, waited = [399, 399, 400], list[float]()

    class Lagging(MariaDbServer):
        def moment(self, database: Any, *, first: bool) -> Any:
            return nullcontext(Moment(BinlogPlace("b.000002", visible.pop(0)), exact=True))

    server = ArrivalServer(Lagging(), lambda: TopicPlace("c", 0, 7), waited.append)
    with server.moment(Clock(), first=True) as moment:
        assert moment == Moment(TopicPlace("c", 0, 7, time=1_700_000_000_456), exact=False)
    with server.moment(Clock(), first=False) as moment:
        assert moment.place == TopicPlace("c", 0, 7)

    assert (visible, waited) == ([], [0.05, 0.05])
    visible += [399] * 2000
    with (
        pytest.raises(EnvironmentError_, match="committed within a minute"),
        server.moment(Clock(), first=True),
    ):
        pass


def test_only_one_partition_of_one_topic_may_have_messages() -> None:
    def topics(**ends: list[int]) -> list[Topic]:
        return [
            Topic(name, "id", {number: (0, end) for number, end in enumerate(some)})
            for name, some in ends.items()
        ]

    found, number = only_partition("s", topics(a=[0, 0], b=[0, 7, 0]))
    assert (found.name, number) == ("b", 1)
    for some, refused in (
        (topics(a=[1], b=[1]), "got 2"),
        (topics(a=[1, 1]), "got 2"),
        (topics(a=[0]), "none"),
    ):
        with pytest.raises(LakehouseError, match=refused):
            only_partition("s", some)


def test_a_topic_that_becomes_another_one_is_an_error() -> None:
    ends = iter([("1", 5), ("1", 5), ("1", 9), ("1", 8), ("2", 9)])

    def listed() -> list[Topic]:
        id_, end = next(ends)
        return [Topic("c", id_, {0: (0, end)})]

    feed = KafkaFeed("s", ("", {}), listed, logged)
    assert [feed.end().offset, feed.end().offset] == [5, 9]
    for _ in range(2):
        with pytest.raises(LakehouseError, match="expected the topic c to stay what it was"):
            feed.end()


def test_two_that_ask_a_topic_for_its_end_at_once_are_told_one_after_the_other() -> None:
    """The one whose answer is the older one would take the topic for a new one."""
    ends, other_was_told = iter((0, 5, 7)), threading.Event()

    def listed() -> list[Topic]:
        end = next(ends)
        if end == 5:
            other_was_told.wait(0.5)
        elif end == 7:
            other_was_told.set()
        return [Topic("c", "1", {0: (0, end or 1)})]

    feed = KafkaFeed("s", ("", {}), listed, logged)
    with ThreadPoolExecutor(2) as both:
        first, second = both.submit(feed.end), both.submit(feed.end)

    assert [first.result().offset, second.result().offset] == [5, 7]


# A real MariaDB, and a Canal that is late


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        yield server


def settings_of(server: MariaDb) -> DatabaseSettings:
    return DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")


def placed(place: Any) -> Place:
    return place_in("canal", "arrival", place, "shop")


@pytest.mark.parametrize(
    "kind", (MariaDbServer(), MySqlServer(lambda seconds: None)), ids=("MariaDB", "MySQL")
)
def test_tables_that_change_join_a_feed_that_is_late(
    server: MariaDb, kind: MariaDbServer | MySqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.sources.live.arrival.CLOCKS_WITHIN", 1000)
    busy, endings = BusyServer(server.port, 21, rows=800), list[Ending]()
    feed = FlatFeed(busy, lag=1.5)
    asked = ArrivalServer(kind, feed.end)
    slow = Pace(8000, Progress())
    reading = Reading("1", 2, 0, placed, paced=slow, chunk_rows=100, ending=endings.append)

    with busy.writing(), connect(settings_of(server), (*SESSION, *asked.session)) as database:
        while not feed.send():
            time.sleep(0.05)
        tables = [one for one in listed(database) if one.name[1] in ("item", "pair")]
        rows = [message for one in tables for message in table_messages(database, asked, one, reading)]
        first = min(one.place.offset for one in endings)
        found = caught_up(feed, first, lambda: server_time(database), lambda line: None, time.sleep)
    ends = [message for one in endings for message in one.records(replace(one.place, offset=found.offset))]
    feed.send(lag=0)

    silver = Memory("canal", tidb=False).add(feed.sent[: found.offset]).add([*rows, *ends])
    early = {
        name: one.incomplete_at(silver.reach) for name, one in silver.lineages().live(silver.reach).items()
    }
    silver.add(feed.sent[found.offset :])
    truth = busy.truth()
    for table in ("item", "pair"):
        assert in_order(silver.tables(silver.reach)[f"shop.{table}"]) == truth[f"shop.{table}"]
        lineage = silver.lineages().live(silver.reach)["shop", table]
        assert lineage.incomplete_at(silver.reach) is None
        why = early["shop", table]
        assert why is not None
        assert why[1] == READ_WHILE
    assert found.offset > first + 20


def test_rows_without_a_key_are_refused_and_say_why(server: MariaDb) -> None:
    busy = BusyServer(server.port, 22, rows=5, tables=("bag",))
    asked = ArrivalServer(MariaDbServer(), FlatFeed(busy, lag=0.0).end)

    with connect(settings_of(server), (*SESSION, *asked.session)) as database:
        (bag,) = [one for one in listed(database) if one.name == ("shop", "bag")]
        with pytest.raises(LakehouseError, match=r"shop\.bag: expected a key, for the messages of the feed"):
            list(table_messages(database, asked, bag, Reading("1", 1, 0, placed)))


def test_the_server_s_clock_is_told_in_milliseconds(server: MariaDb) -> None:
    with connect(settings_of(server), SESSION) as database:
        before, told, after = time.time() * 1000, server_time(database), time.time() * 1000

    assert before - 2 <= told <= after + 2


def test_rows_that_are_not_committed_are_not_read_whatever_the_server_s_level_is(server: MariaDb) -> None:
    busy = BusyServer(server.port, 23, rows=5, tables=("item",))
    busy.run("SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'")
    try:
        busy.run("BEGIN")
        busy.run("INSERT INTO item VALUES (99, 'open', 1)")
        with connect(settings_of(server), (*SESSION, *MySqlServer.session)) as database:
            rows = database.ask("SELECT COUNT(*) FROM shop.item")
    finally:
        busy.run("ROLLBACK")
        busy.run("SET GLOBAL tx_isolation = DEFAULT")

    assert rows == [(b"5",)]
