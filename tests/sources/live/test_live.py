"""Tables of a real MariaDB read while a writer changes them, joined to the feed of those changes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.formats.snapshot.records import Place, Record, RowsRecord, TableRecord, read_record
from lakehouse.lineage import READ_WHILE
from lakehouse.sources.database import SESSION, Database, DatabaseSettings, connect
from lakehouse.sources.dumps.records import BinlogPlace
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.ahead import Connections, rows_held
from lakehouse.sources.live.parallel import Pace, Progress, Workers
from lakehouse.sources.live.prepared import xa_state
from lakehouse.sources.live.read import Begun, Reading, mark_of, table_messages
from lakehouse.sources.live.servers import (
    MariaDbServer,
    Moment,
    MySqlServer,
    Server,
    identity_of,
    refuse_another,
    server_of,
)
from lakehouse.sources.live.tables import Listed, chosen, listed
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.busy_server import BusyServer, in_order
from tests.support.engine import Memory

LAST = (0, 1 << 40, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        yield server


def settings_of(server: MariaDb) -> DatabaseSettings:
    return DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")


def placed(place: Any) -> Place:
    return place_in("debezium", "binlog", place, "shop")


READING = Reading(run="1", tables=1, epoch=0, placed=placed, chunk_rows=100)


class Unknowing(MySqlServer):
    """A MariaDB that is asked as a MySQL is: its places are of before and after a SELECT."""


def read(server: MariaDb, kind: Server, tables: tuple[str, ...], reading: Reading = READING) -> list[Message]:
    with connect(settings_of(server), (*SESSION, *kind.session)) as database:
        here = [table for table in listed(database) if table.name[1] in tables]
        return [message for table in here for message in table_messages(database, kind, table, reading)]


def spare(server: MariaDb, kind: Server, number: int) -> Connections:
    """So many connections that read chunks ahead."""
    return Connections(number, lambda: connect(settings_of(server), (*SESSION, *kind.session)))


def records(messages: list[Message]) -> list[Record]:
    return [read_record(message.value) for message in messages]


def is_exact(silver: Memory, at: Any = LAST) -> bool:
    lineages = silver.lineages().live(at).values()
    return all(lineage.incomplete_at(at) is None for lineage in lineages) and not silver.breaks


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", (MariaDbServer(), Unknowing(lambda seconds: None)), ids=("exact", "around"))
def test_tables_that_change_while_they_are_read_join_their_feed(
    server: MariaDb, kind: Server, seed: int
) -> None:
    busy = BusyServer(server.port, seed, rows=2000)
    tables = ("item", "pair", "bag") if isinstance(kind, MariaDbServer) else ("item", "pair")
    begun = len(busy.messages)
    free = spare(server, kind, seed)

    with busy.writing():
        wait_for(busy, 20)
        before = busy.transactions
        snapshot = read(
            server, kind, tables, replace(READING, paced=lambda rows: time.sleep(0.02), free=free)
        )
        meanwhile, told = busy.transactions - before, len(busy.messages)
        wait_for(busy, 60)
    for _ in range(20):
        busy.transact()

    truth = {name: rows for name, rows in busy.truth().items() if name.removeprefix("shop.") in tables}
    for parts in ((begun, told), (told, begun)):
        silver = (
            Memory("debezium", tidb=False).add(busy.messages[: parts[0]]).add(snapshot[: len(snapshot) // 2])
        )
        silver.add(busy.messages[parts[0] : parts[1]]).add(snapshot).add(busy.messages)
        found = {name: in_order(rows) for name, rows in silver.tables(LAST).items() if name in truth}
        assert found == truth
        assert is_exact(silver)
    assert meanwhile > 2
    assert waits(server) == {"Innodb_row_lock_waits": "0", "Table_locks_waited": "0"}


def waits(server: MariaDb) -> dict[str, str]:
    """How often somebody has waited for a lock."""
    names = "'Innodb_row_lock_waits', 'Table_locks_waited'"
    with connect(settings_of(server)) as database:
        rows = database.ask(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")
    return {(name or b"").decode(): (value or b"").decode() for name, value in rows}


def test_a_table_is_not_called_exact_before_all_that_its_snapshot_shows_has_been_streamed(
    server: MariaDb,
) -> None:
    busy = BusyServer(server.port, 7, rows=1000)
    kind = Unknowing(lambda seconds: None)

    messages = []
    with connect(settings_of(server)) as database:
        (table,) = chosen(listed(database), ("shop.item",))
        for message in table_messages(database, kind, table, READING):
            messages.append(message)
            busy.transact()

    *rows, end = records(messages)
    assert isinstance(end, TableRecord)
    assert end.until is not None
    assert (end.until.file, end.until.offset) > (end.place.file, end.place.offset)
    silver = Memory("debezium", tidb=False).add(busy.messages).add(messages)
    (lineage,) = (one for name, one in silver.lineages().live(LAST).items() if name == ("shop", "item"))
    ((begun, settled),) = lineage.unsettled.items()
    before = (*settled[:2], settled[2] - 1, 1, 0, 0)
    assert lineage.incomplete_at(before) == (begun, READ_WHILE)
    assert lineage.incomplete_at(settled) is None
    assert all(row.place == end.place for row in rows)
    assert in_order(silver.tables(LAST)["shop.item"]) == busy.truth()["shop.item"]


@pytest.mark.parametrize(
    ("rows", "held"), ((1, 1 << 24), (399, 1 << 24), (400, 1 << 24), (1000, 1 << 24), (401, 200), (400, 200))
)
def test_chunks_that_are_read_ahead_are_the_same_records(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch, rows: int, held: int
) -> None:
    """Also those that are cut, for they are too large to be held."""
    busy, kind = BusyServer(server.port, 7, rows=rows, tables=("item", "pair")), MariaDbServer()
    monkeypatch.setattr("lakehouse.sources.live.ahead.HELD_BYTES", held)
    monkeypatch.setattr("lakehouse.sources.live.read.rows_held", lambda size, rows, most: most)
    busy.run("CREATE OR REPLACE TABLE alone (id int, v varchar(20), n int)")
    busy.run("INSERT INTO alone SELECT * FROM item")
    begun, most, now = list[str](), [0], list[str]()

    @contextmanager
    def counted() -> Iterator[Database]:
        with connect(settings_of(server), (*SESSION, *kind.session)) as database:
            begun.append("")
            now.append("")
            most[0] = max(most[0], len(now))
            yield database
            now.pop()

    free = Connections(3, counted)
    for table in ("item", "pair", "alone"):
        one, other = (
            records(read(server, kind, (table,), reading))
            for reading in (READING, replace(READING, free=free))
        )
        assert rows_of(one) == rows_of(other)
        assert len(rows_of(one)) == rows
        assert one[-1] == other[-1]
    assert most[0] <= 3
    assert bool(begun) == (rows >= 100)
    assert all(free.take() for _ in range(3))


def rows_of(records: list[Record]) -> list[Any]:
    """All rows, whose numbers are those of their order."""
    *chunks, _ = records
    found = list[Any]()
    for chunk in chunks:
        assert isinstance(chunk, RowsRecord)
        assert chunk.first == len(found)
        found += chunk.rows
    return found


def test_what_fails_ahead_fails_and_leaves_its_connection_free(server: MariaDb) -> None:
    BusyServer(server.port, 7, rows=500, tables=("item",))

    def refused() -> Any:
        raise LakehouseError("no more connections")

    free = Connections(2, refused)
    with pytest.raises(LakehouseError, match="no more connections"):
        read(server, MariaDbServer(), ("item",), replace(READING, free=free))
    while not all([free.take(), free.take()]):
        free.give()


def test_a_definition_that_changes_under_chunks_read_ahead_is_read_again(server: MariaDb) -> None:
    busy, kind = BusyServer(server.port, 9, rows=900, tables=("item",)), MariaDbServer()
    reading, messages = replace(READING, free=spare(server, kind, 3)), list[Message]()
    with connect(settings_of(server), (*SESSION, *kind.session)) as database:
        (table,) = chosen(listed(database), ("shop.item",))
        for message in table_messages(database, kind, table, reading):
            if len(messages) == 1:
                busy.run("ALTER TABLE item ADD w int DEFAULT 7")
            messages.append(message)

    last = [message for message in messages if message.incarnation == messages[-1].incarnation]
    assert len(last) < len(messages)
    assert len(rows_of(records(last))) == 900
    assert {len(row) for row in rows_of(records(last))} == {4}


def test_rows_of_a_chunk_fit_into_memory() -> None:
    assert rows_held(0, 0, 50_000) == rows_held(1 << 23, 3, 50_000) == 50_000
    assert rows_held(1 << 30, 1 << 30, 50_000) == 50_000
    assert rows_held(1 << 30, 1 << 16, 50_000) == 1024
    assert rows_held(1 << 40, 1, 50_000) == rows_held(1 << 40, 0, 50_000) == 1


def test_a_read_that_died_goes_on_behind_its_last_record_of_the_same_place(server: MariaDb) -> None:
    busy = BusyServer(server.port, 8, rows=1000)
    with connect(settings_of(server)) as database:
        (table,) = chosen(listed(database), ("shop.pair",))
        landed = list(islice(table_messages(database, MariaDbServer(), table, READING), 4))
        for _ in range(30):
            busy.transact()
        mark = mark_of(landed[-1].key)
        assert mark is not None
        begun = {table.name: Begun(landed[-1].incarnation, 4, mark)}
        more = list(table_messages(database, MariaDbServer(), table, replace(READING, begun=begun)))
        anew = list(table_messages(database, MariaDbServer(), table, replace(READING, begun=begun, run="2")))

    assert [message.offset for message in (*landed, *more)] == list(range(len(landed) + len(more)))
    assert {message.incarnation for message in (*landed, *more)} == {landed[0].incarnation}
    assert (mark.rows, len(more) < len(anew)) == (400, True)
    assert anew[0].offset == 0
    silver = Memory("debezium", tidb=False).add(busy.messages).add(landed).add(more)
    assert in_order(silver.tables(LAST)["shop.pair"]) == busy.truth()["shop.pair"]
    assert is_exact(silver)


def test_a_read_that_begins_again_at_the_same_place_has_records_of_its_own(server: MariaDb) -> None:
    """In chunks of another size they are not those of the read that died, of which some have landed."""
    busy = BusyServer(server.port, 8, rows=1000)
    first = replace(READING, attempt="1")
    again = replace(READING, attempt="2", chunk_rows=300)
    with connect(settings_of(server)) as database:
        (table,) = chosen(listed(database), ("shop.pair",))
        landed = list(islice(table_messages(database, MariaDbServer(), table, first), 4))
        mark = mark_of(landed[-1].key)
        assert mark is not None
        begun = {table.name: Begun(landed[-1].incarnation, 4, mark)}
        on = list(table_messages(database, MariaDbServer(), table, replace(again, begun=begun)))
        anew = list(table_messages(database, MariaDbServer(), table, again))

    place = mark.place
    other = mark_of(anew[0].key)
    assert other is not None and other.place == place
    assert {message.incarnation for message in on} == {landed[0].incarnation}
    assert {message.incarnation for message in anew} != {landed[0].incarnation}
    for records in (on, anew):
        silver = Memory("debezium", tidb=False).add(busy.messages).add(landed).add(records)
        assert in_order(silver.tables(LAST)["shop.pair"]) == busy.truth()["shop.pair"]


def test_a_table_whose_definition_changes_meanwhile_is_read_again(server: MariaDb) -> None:
    busy = BusyServer(server.port, 9, rows=250)
    messages: list[Message] = []
    with connect(settings_of(server)) as database:
        (table,) = chosen(listed(database), ("shop.item",))
        for message in table_messages(database, MariaDbServer(), table, READING):
            if len(messages) == 1:
                busy.run("ALTER TABLE item ADD w int DEFAULT 7")
            messages.append(message)

    last = [message for message in messages if message.incarnation == messages[-1].incarnation]
    assert len(last) < len(messages)
    *rows, end = records(last)
    assert isinstance(end, TableRecord)
    assert "`w` int" in end.create
    assert sum(len(one.rows) for one in rows if isinstance(one, RowsRecord)) == 250
    assert all(isinstance(one, RowsRecord) for one in records(messages[: -len(last)]))


def test_a_table_whose_definition_never_stays_is_an_error_that_says_what_to_do(server: MariaDb) -> None:
    busy, number = BusyServer(server.port, 10, rows=150), 0
    with connect(settings_of(server)) as database:
        (table,) = chosen(listed(database), ("shop.item",))
        with pytest.raises(LakehouseError, match="got DDLs on it 3 times; run the command again"):
            for _ in table_messages(database, MariaDbServer(), table, READING):
                number += 1
                busy.run(f"ALTER TABLE item ADD w{number} int")


def test_an_insert_that_only_raises_auto_increment_is_no_change_of_definition(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        database.execute("CREATE OR REPLACE TABLE shop.auto (id int AUTO_INCREMENT PRIMARY KEY)")
        database.execute("INSERT INTO shop.auto VALUES (1), (2)")
        (table,) = chosen(listed(database), ("shop.auto",))
        found = table_messages(database, MariaDbServer(), table, READING)
        first = next(found)
        with connect(settings_of(server)) as other:
            other.execute("INSERT INTO shop.auto VALUES (NULL)")
        (end,) = records(list(found))

    assert mark_of(first.key).rows == 2  # type: ignore[union-attr]
    assert isinstance(end, TableRecord)


def test_rows_without_a_key_need_a_server_that_tells_of_which_place_they_are(server: MariaDb) -> None:
    BusyServer(server.port, 11, rows=5)

    with pytest.raises(LakehouseError, match=r"shop\.bag: expected a key, for MySQL does not tell"):
        read(server, Unknowing(lambda seconds: None), ("bag",))


def test_a_worker_s_error_ends_all_and_is_raised(server: MariaDb) -> None:
    BusyServer(server.port, 12, rows=5)
    with connect(settings_of(server)) as database:
        tables = chosen(listed(database), ("shop.*",))

    def fails(database: Database, table: Listed) -> Iterator[Message]:
        yield from table_messages(database, MariaDbServer(), table, READING)
        raise LakehouseError("no more")

    free = Connections(2, lambda: connect(settings_of(server)))
    workers = Workers(tables, free, fails, Progress())
    with pytest.raises(LakehouseError, match="no more"):
        list(workers.messages())


def test_a_pace_lets_no_more_rows_through_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("lakehouse.sources.live.parallel.time.sleep", waited.append)
    progress = Progress()
    pace = Pace(1000, progress)

    for _ in range(5):
        pace(100)

    assert progress.rows == 500
    assert waited[-1] == pytest.approx(0.5, abs=0.1)


# What other servers are asked, in their order


class Scripted:
    """A server that answers statements by their beginnings, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    def ask(self, sql: str) -> list[Any]:
        self.asked.append(sql)
        found: Any = next((answer for start, answer in self.answers.items() if sql.startswith(start)), [])
        found = found() if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return list(found)

    def execute(self, sql: str) -> None:
        self.ask(sql)


def test_tidb_is_read_at_the_tso_of_a_transaction_that_stays_open() -> None:
    tidb = Scripted(
        {
            "SELECT VERSION()": [(b"8.0.11-TiDB-v8.5.1",)],
            "SELECT @@tidb_current_ts": [(b"449583647234560001",)],
        }
    )

    with server_of(tidb) as found:
        with found.moment(tidb, first=True) as moment:
            assert place_in("ticdc-open", "tidb", moment.place, "s") == Place(tso=449583647234560001)
        assert found.session == (
            "SET SESSION tidb_isolation_read_engines = 'tikv,tidb', max_execution_time = 0",
            "SET SESSION tidb_snapshot = '449583647234560001'",
        )
    assert (moment.exact, found.name) == (True, "TiDB")
    assert tidb.asked == [
        "SELECT VERSION()",
        "SET SESSION wait_timeout = 604800",
        "SET SESSION tidb_idle_transaction_timeout = 0",
        "BEGIN",
        "SELECT @@tidb_current_ts",
    ]


def test_a_name_that_leads_to_several_servers_is_refused() -> None:
    """The second connection's rows would stand at a place of the first one's binlog."""
    one = Scripted({"SELECT @@hostname": [(b"db-0", b"3306", b"1")]})
    other = Scripted({"SELECT @@hostname": [(b"db-1", b"3306", b"2")]})
    known = identity_of(one, "MySQL")

    refuse_another(known, one, "MySQL")
    with pytest.raises(LakehouseError, match=r"one server behind its name, got db-0 3306 1 and db-1 3306 2"):
        refuse_another(known, other, "MySQL")
    assert identity_of(one, "TiDB") == identity_of(other, "TiDB")
    refuse_another(identity_of(one, "TiDB"), other, "TiDB")


UUIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "0e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    "owned",
    (
        (f"{UUIDS[0]}:23#7",) * 2,
        # a UUID stands before the first of its numbers alone, and nothing between one's last and the next
        (f"{UUIDS[0]}:23#7:24#8", f"{UUIDS[0]}:24#8:25#9"),
        (f"{UUIDS[0]}:23#7{UUIDS[1]}:4#6:5#6", f"{UUIDS[1]}:5#6"),
        (f"{UUIDS[0]}:tag_1:23#7:24#7", f"{UUIDS[0]}:tag_1:24#7"),
    ),
)
def test_mysql_s_place_counts_once_what_was_in_its_binlog_is_visible(owned: tuple[str, str]) -> None:
    told, waited = iter(owned), list[float]()
    mysql = Scripted(
        {
            "SHOW BINARY LOG STATUS": EnvironmentError_("no such statement"),
            "SHOW MASTER STATUS": [(b"mysql-bin.000012", b"345", b"", b"", b"")],
            "SHOW GLOBAL VARIABLES LIKE 'gtid": [(b"gtid_mode", b"ON")],
            "SELECT @@GLOBAL.gtid_owned": lambda: [(next(told, f"{UUIDS[0]}:99#7").encode(),)],
        }
    )

    with MySqlServer(waited.append).moment(mysql, first=True) as moment:
        assert moment == Moment(BinlogPlace("mysql-bin.000012", 345), exact=False)

    assert waited == [0.05]
    # the place comes first, then the transactions that are not committed yet
    asked = ["SHOW GLOBAL VARIABLES LIKE 'gtid\\_mode'", "SELECT @@GLOBAL.gtid_owned"]
    assert mysql.asked[:-2] == ["SHOW BINARY LOG STATUS", "SHOW MASTER STATUS", *asked * 3]
    assert mysql.asked[-2].startswith("SHOW GLOBAL STATUS")
    assert mysql.asked[-1] == "XA RECOVER"


def test_a_table_that_mysql_changed_since_the_last_place_begins_at_one_of_its_own(server: MariaDb) -> None:
    busy, kind = BusyServer(server.port, 12, rows=20), Unknowing(lambda seconds: None)

    (before, *_) = records(read(server, kind, ("pair",)))
    busy.run("ALTER TABLE item ADD since int DEFAULT 7")
    altered = busy.place()
    (rows, end) = records(read(server, kind, ("item",)))

    assert isinstance(end, TableRecord)
    assert "`since` int" in end.create
    # a feed tells the statement below that place: it is not executed once more on what has it already
    assert before.place.offset < altered[1]
    assert (rows.place.file, rows.place.offset) == (end.place.file, end.place.offset) == altered


def without_gtids(semisync_timeout: bytes) -> Scripted:
    return Scripted(
        {
            "SHOW BINARY LOG STATUS": [(b"b.000001", b"4", b"", b"", b"")],
            "SHOW GLOBAL VARIABLES LIKE 'gtid": [(b"gtid_mode", b"OFF")],
            "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE": [
                (b"rpl_semi_sync_source_timeout", semisync_timeout)
            ],
        }
    )


def test_mysql_without_gtids_waits_as_long_as_a_commit_may_take() -> None:
    waited: list[float] = []

    with MySqlServer(waited.append).moment(without_gtids(b"10000"), first=True):
        pass

    assert waited == [11.0]


def test_mysql_whose_commits_may_take_for_ever_and_that_tells_none_is_refused() -> None:
    server = MySqlServer(lambda seconds: None)

    with (
        pytest.raises(EnvironmentError_, match="replication of 1000000000001 s; with GTIDs"),
        server.moment(without_gtids(b"1000000000000000"), first=True),
    ):
        pass


def test_a_server_without_a_binlog_is_told_what_it_lacks() -> None:
    with (
        pytest.raises(EnvironmentError_, match="expected a server that writes a binlog"),
        MySqlServer().moment(Scripted({}), first=False),
    ):
        pass


# XA transactions: at last, for a server that has had one is asked more


@pytest.mark.parametrize("kind", (MariaDbServer, Unknowing))
@pytest.mark.parametrize("committed", (True, False))
def test_the_rows_of_a_transaction_that_is_prepared_are_waited_for(
    server: MariaDb, kind: type[MariaDbServer | MySqlServer], committed: bool
) -> None:
    """They are in the binlog below the place, and XA COMMIT logs none."""
    end = f"XA {'COMMIT' if committed else 'ROLLBACK'} 'x'"
    with connect(settings_of(server)) as writer:
        writer.execute("CREATE OR REPLACE TABLE shop.prepared (id int PRIMARY KEY)")
        writer.execute("INSERT INTO shop.prepared VALUES (1)")
        for statement in ("XA START 'x'", "INSERT INTO shop.prepared VALUES (2)", "XA END 'x'"):
            writer.execute(statement)
        writer.execute("XA PREPARE 'x'")

        def sleep(seconds: float) -> None:
            if seconds < 1 and writer.ask("XA RECOVER"):
                writer.execute(end)

        rows, told = records(read(server, kind(sleep), ("prepared",)))

    assert isinstance(rows, RowsRecord)
    assert isinstance(told, TableRecord)
    assert rows.rows == ([[b"1"], [b"2"]] if committed else [[b"1"]])
    assert told.until is not None
    assert told.place.offset < told.until.offset


def test_a_moment_after_such_transactions_have_ended_is_exact_again(server: MariaDb) -> None:
    waited: list[float] = []
    with (
        connect(settings_of(server)) as database,
        MariaDbServer(waited.append).moment(database, first=True) as one,
    ):
        assert one.exact
    assert waited == [3.0]


@pytest.mark.parametrize("kind", (MariaDbServer, Unknowing))
def test_a_transaction_that_stays_prepared_is_told(
    server: MariaDb, kind: type[MariaDbServer | MySqlServer]
) -> None:
    with connect(settings_of(server)) as writer:
        writer.execute("CREATE OR REPLACE TABLE shop.prepared (id int PRIMARY KEY)")
        for statement in ("XA START 'y'", "INSERT INTO shop.prepared VALUES (2)", "XA END 'y'"):
            writer.execute(statement)
        writer.execute("XA PREPARE 'y'")
        try:
            with pytest.raises(EnvironmentError_, match="got some that stay prepared"):
                read(server, kind(lambda seconds: None), ("prepared",))
        finally:
            writer.execute("XA ROLLBACK 'y'")


def test_an_account_that_is_not_told_of_them_is_refused_where_there_have_been_some() -> None:
    unused = Scripted({"XA RECOVER": EnvironmentError_("no"), "SHOW GLOBAL": [(b"Com_xa_prepare", b"0")]})
    used = Scripted({"XA RECOVER": EnvironmentError_("no"), "SHOW GLOBAL": [(b"Com_xa_prepare", b"1")]})

    assert not xa_state(unused).was_used
    with pytest.raises(EnvironmentError_, match=r"GRANT XA_RECOVER_ADMIN\): no"):
        xa_state(used)


def wait_for(busy: BusyServer, transactions: int) -> None:
    while busy.transactions < transactions:
        time.sleep(0.01)
