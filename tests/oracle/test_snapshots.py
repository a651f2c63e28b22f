"""A dump by the server's own program, or a live read, taken in the middle of a random history, and a feed
that began somewhere before it without any CREATE: from its position on, gold is the database.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from lakehouse.events import DDL, Message
from lakehouse.formats import order_of
from lakehouse.formats.snapshot.encode import messages as messages_of
from lakehouse.formats.snapshot.records import Place as RecordPlace
from lakehouse.formats.snapshot.records import Record, read_record
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.sources.dumps.files import LocalDump
from lakehouse.sources.dumps.read import find_dump
from lakehouse.sources.dumps.records import BinlogPlace, Place, Tso
from lakehouse.sources.dumps.snapshot import Found, place_in, snapshot_messages
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.read import Reading, table_messages
from lakehouse.sources.live.servers import MariaDbServer
from lakehouse.sources.live.tables import listed
from tests.oracle.check import OPTIONS, Judged, compare, delivered
from tests.oracle.database import Database
from tests.oracle.formats import carried, places
from tests.oracle.generate import Maker
from tests.oracle.program import ZONE, Program
from tests.oracle.runner import Runner, State
from tests.servers.mariadb import MariaDb, run_program, start_mariadb
from tests.support.encode_binlog import Logged, binlog, feed
from tests.support.engine import Memory

BINLOG = ("debezium", "canal-protobuf", "tencent-dts")
WAYS = (
    (),
    ("--hex-blob",),
    ("--skip-extended-insert", "--complete-insert"),
    ("--skip-tz-utc",),
)
LAST = 2**62


class Server(NamedTuple):
    process: MariaDb
    database: Database


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as process:
        yield Server(process, Database(process.port))


class Taken(NamedTuple):
    """A history, and a dump of the moment `at`."""

    runner: Runner
    at: int
    path: Path
    live: list[Record]


def taken(server: Server, seed: int, path: Path) -> Taken:
    """A random program, and a dump in the middle of it, which settles all doubts about rows."""
    chance = random.Random(f"{seed} snapshot")
    runner = Runner(server.database, Program(seed, strict=chance.random() < 0.5))
    maker, steps = Maker(chance, runner), chance.choice((10, 20))
    for number in range(2 * steps):
        if number == steps:
            at, way = runner.ts, WAYS[seed % len(WAYS)]
            names = runner.database.names
            path.write_bytes(
                run_program("mariadb-dump", server.process, "--master-data=2", *way, "--databases", *names)
            )
            live = read_live(server.process, names)
            runner.tables = {
                name: replace(table, unknown=frozenset(), maybe=False, computed=False)
                for name, table in runner.tables.items()
            }
        for step in maker.next():
            runner.step(step)
    return Taken(runner, at, path, live)


def read_live(server: MariaDb, databases: tuple[str, ...]) -> list[Record]:
    """The records of all tables, read in chunks of few rows, also ahead; their place is told later."""
    nowhere = RecordPlace(file="b.000001", offset=4)
    kind, settings = MariaDbServer(), DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")
    free = Connections(2, lambda: connect(settings, (*SESSION, *kind.session)))
    reading = Reading("1", 1, 0, placed=lambda _: nowhere, chunk_rows=3, free=free)
    with connect(settings) as database:
        return [
            read_record(message.value)
            for table in listed(database)
            if table.name[0] in databases
            for message in table_messages(database, kind, table, reading)
        ]


def exact_in_dumps(state: State) -> State:
    """The tables without FLOAT, of which servers print six digits."""
    return {
        name: table
        for name, table in state.items()
        if all(column.base != "float" for column in table.columns)
    }


@pytest.mark.parametrize("format_", ("ticdc-open", *BINLOG))
def test_from_a_dumps_position_on_gold_is_the_database(server: Server, tmp_path: Path, format_: str) -> None:
    judged = Judged()

    for seed in range(8):
        judge(taken(server, seed, tmp_path / f"{seed}.sql"), format_, judged)

    assert judged.watermarks > 40
    assert judged.tables > judged.watermarks


@pytest.mark.parametrize("format_", ("ticdc-open", *BINLOG))
def test_from_a_live_read_s_position_on_gold_is_the_database(
    server: Server, tmp_path: Path, format_: str
) -> None:
    judged = Judged()

    for seed in range(200, 206):
        judge(taken(server, seed, tmp_path / f"{seed}.sql"), format_, judged, live=True)

    assert judged.watermarks > 40
    assert judged.tables > judged.watermarks


def judge(dump: Taken, format_: str, judged: Judged, *, live: bool = False) -> None:
    chance = random.Random(f"{dump.runner.seed} {format_}")
    begun = chance.choice([ts for ts, _ in dump.runner.states if ts <= dump.at])
    events, states, _ = carried(dump.runner, format_)
    events = [event for event in events if event["commit_ts"] > begun]
    if format_ in BINLOG:
        log = binlog(carried(dump.runner, format_)[0], chance)
        at, of = places(format_, log), place_in_log(log, dump.at, format_)
        messages = feed(format_, [event for event in log if event.commit_ts > begun], chance, ZONE)
        row_ids = False
    else:
        at, of = {ts: (0, ts, DDL, 0, 0, 0) for ts, _ in states}, Tso(dump.at)
        keyless = any(not table.handle() for _, state in states for table in state.values())
        messages, row_ids = delivered(events, chance, keyless=keyless, raw=False)
    snapshot = live_of(dump, format_, of) if live else snapshot_of(dump, format_, of)
    silver = Memory(format_, OPTIONS, tidb=format_ not in BINLOG, row_ids=row_ids)
    # parts of one message come together
    split = chance.randrange(len(messages) + 1) if format_ != "tencent-dts" else len(messages)
    silver.add(messages[:split]).add(snapshot).add(messages[split:]).add(snapshot)
    for ts, state in states:
        if ts > dump.at and ts in at and (live or exact_in_dumps(state) == state):
            compare(silver, at[ts], state, judged)


def place_in_log(log: list[Logged], at: int, format_: str) -> Place:
    """What the server's own SHOW MASTER STATUS would be: behind all events so far."""
    before = [event for event in log if event.commit_ts <= at]
    after = [event for event in log if event.commit_ts > at]
    if format_ == "tencent-dts" or not after:  # its positions are those of the ends of events
        last = before[-1] if before else log[0]
        return BinlogPlace(f"mysql-bin.{last.file:06}", last.offset if before else last.offset - 1)
    return BinlogPlace(f"mysql-bin.{after[0].file:06}", after[0].offset)


def snapshot_of(dump: Taken, format_: str, of: Place) -> list[Message]:
    order = order_of(format_, OPTIONS)
    place = place_in(format_, order, of, "shop")
    return list(snapshot_messages(replace(find_dump(LocalDump(dump.path)), zone=ZONE), place, Found()))


def live_of(dump: Taken, format_: str, of: Place) -> list[Message]:
    place = place_in(format_, order_of(format_, OPTIONS), of, "shop")
    return list(messages_of((structs.replace(record, place=place) for record in dump.live), "live"))
