"""A real TiDB read at one TSO: every statement in its place, every type and key, while it is written to.

The server is one that runs: see tests/support/tidb_feed.py.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.sources.database import SESSION, Database, DatabaseSettings, connect
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.read import Reading, table_messages
from lakehouse.sources.live.servers import TiDbServer, server_of
from lakehouse.sources.live.tables import Listed, chosen, described, listed, without_temporary
from lakehouse.sources.server_sql import at_tso, keep_tso, now_kept, table_name
from tests.oracle.check import Judged, compare, place
from tests.oracle.values import TYPES, literals
from tests.support.engine import Memory
from tests.support.live_feed import created
from tests.support.tidb_feed import DATABASE, TidbFeed, run, tidb_settings

READER = f"{DATABASE}_reader"
ZONE = {"time_zone": "Etc/GMT-8"}
READING = Reading(
    run="1", tables=1, epoch=0, placed=lambda told: place_in("ticdc-open", "tidb", told, "s"), chunk_rows=3
)
# what a table is called is its key; each has ten rows
KEYS = {
    "clustered": "(id int PRIMARY KEY CLUSTERED, v int)",
    "unsigned_": "(id bigint unsigned PRIMARY KEY, v int)",
    "composite": "(v varchar(9), id int, d datetime DEFAULT '2024-01-01', PRIMARY KEY (v, d, id))",
    "cased": "(v varchar(9) COLLATE utf8mb4_general_ci, id int, PRIMARY KEY (v, id) CLUSTERED)",
    "apart": "(id bigint PRIMARY KEY NONCLUSTERED, v int)",
    "apart_text": "(v varchar(9) COLLATE utf8mb4_unicode_ci, id int, PRIMARY KEY (v, id) NONCLUSTERED)",
    "unique_": "(id int NOT NULL, v varchar(9) NOT NULL, n int, UNIQUE `odd ``name` (v, id))",
    "unseen": "(id int NOT NULL, v int NOT NULL, UNIQUE (id, v), UNIQUE (id) INVISIBLE)",
    "decimal_": "(id decimal(20,5), v varbinary(9), PRIMARY KEY (v, id))",
    "bits": "(id bit(40) PRIMARY KEY, v int)",
    "gbk_": "(id varchar(9) CHARACTER SET gbk PRIMARY KEY, v int)",
    "hashed": "(id int PRIMARY KEY, v int) PARTITION BY HASH (id) PARTITIONS 4",
    "apart_hashed": "(id int PRIMARY KEY NONCLUSTERED, v int) PARTITION BY KEY (id) PARTITIONS 3",
    "nullable": "(id int, v int, UNIQUE (id))",
    "none": "(id int, v int)",
    "sharded": "(id int, v int) SHARD_ROW_ID_BITS = 4",
    "labelled": "(id enum('9','8','7','6','5','4','3','2','1','0') PRIMARY KEY, v int)",
    "prefixed": "(v varchar(99), id int, PRIMARY KEY (v(3), id))",
}


@pytest.fixture(scope="module")
def settings() -> DatabaseSettings:
    return tidb_settings()


@contextmanager
def tables(settings: DatabaseSettings, *statements: str) -> Iterator[Database]:
    """A connection to a database that has what these statements make."""
    begin = (f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}")
    with connect(settings, (*SESSION, *begin)) as writer:
        for statement in statements:
            run(writer, statement)
        yield writer


def filled(name: str, number: int = 10) -> str:
    values = ", ".join(f"({one}, '{one % 4}')" for one in range(number))
    return f"INSERT INTO {name} (id, v) VALUES {values}"


def read(settings: DatabaseSettings, server: TiDbServer, *names: str, chunk_rows: int = 3) -> list[Message]:
    """The records of a snapshot, chunks of which are read ahead."""
    session = (*SESSION, *server.session)
    free = Connections(2, lambda: connect(settings, session))
    reading = replace(READING, free=free, chunk_rows=chunk_rows)
    with connect(settings, session) as database:
        mine = chosen(listed(database), names or (f"{DATABASE}.*",))
        return [one for table in mine for one in table_messages(database, server, table, reading)]


@contextmanager
def at_now(settings: DatabaseSettings) -> Iterator[TiDbServer]:
    with connect(settings) as held, server_of(held) as server:
        assert isinstance(server, TiDbServer)
        yield server


def rows_of(messages: list[Message]) -> dict[str, Counter[str]]:
    """The rows that a snapshot alone gives, by table."""
    silver = Memory("ticdc-open", ZONE).add(messages)
    assert not silver.dead
    found = silver.tables(place(1 << 62))
    return {name.partition(".")[2]: Counter(map(as_text, rows)) for name, rows in found.items()}


def as_text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@pytest.mark.parametrize("chunk_rows", (1, 3, 100))
def test_every_kind_of_key_is_read_whole(settings: DatabaseSettings, chunk_rows: int) -> None:
    made = [f"CREATE TABLE {name} {body}" for name, body in KEYS.items()]
    with tables(settings, *made, *map(filled, KEYS)), at_now(settings) as server:
        found = rows_of(read(settings, server, chunk_rows=chunk_rows))

    assert {name: sum(rows.values()) for name, rows in found.items()} == dict.fromkeys(KEYS, 10)
    assert all(len(rows) == 10 for rows in found.values())


def test_each_chunk_reads_its_own_range_of_the_key(settings: DatabaseSettings) -> None:
    """No table is sorted for a chunk, or read from the chunk's first value of the key on: of one value in the
    first column of a key there may be millions.
    """
    named = KEYS.keys() - {"unseen", "nullable", "none", "sharded", "labelled", "prefixed"}
    made = [f"CREATE TABLE {name} {KEYS[name]}" for name in named]
    with tables(settings, *made, *(filled(name, 300) for name in named)) as database:
        run(database, f"ANALYZE TABLE {', '.join(named)}")
        for name in named:
            (table,) = chosen(listed(database), (f"{DATABASE}.{name}",))
            found = described(database, table, tidb=True)
            run(database, "SET SESSION character_set_results = utf8mb4")
            after, last = (database.ask(found.key_after(None, number))[0] for number in (101, 102))
            for statement in (
                found.rows_after(after, 5),
                found.key_after(after, 5),
                found.rows_between(after, last),
            ):
                plan = database.ask(f"EXPLAIN FORMAT = 'brief' {statement}")
                told = [(id_ or b"").decode() + (access or b"").decode() for id_, *_, access in plan]
                assert not [one for one in told if "TopN" in one or "Sort" in one], (name, statement, told)
                assert not [one for one in told if "FullScan" in one], (name, statement, told)
                assert not [one for one in told if "TiFlash" in one], (name, statement, told)
            rows = database.ask(f"EXPLAIN ANALYZE {found.rows_between(after, last)}")
            read_rows = [int(row[2] or 0) for row in rows if b"Scan" in (row[0] or b"")]
            assert max(read_rows, default=1) == 1, (name, rows)


def test_every_type_is_what_the_feed_tells(settings: DatabaseSettings) -> None:
    more = {
        "vector": ("'[1,2.5,-1e-10]'", "'[]'", "'[3.4028234e38]'"),
        "vector(3)": ("'[0,0.1,16777216]'",),
        "varchar(20) CHARACTER SET gbk": ("'中文'", "''"),
        "enum('中','文') CHARACTER SET gbk": ("'中'",),
        "varchar(20) CHARACTER SET gb18030": ("'龘😀'",),
        "text CHARACTER SET utf8": ("'中'",),
        "varchar(20) COLLATE utf8mb4_0900_ai_ci": ("'ß'", "'z '"),
    }
    told = TidbFeed(settings)
    kinds = {**{kind: literals(kind, strict=False) for kind in TYPES}, **more}
    columns = ", ".join(f"`c{number}` {kind}" for number, kind in enumerate(kinds))
    told.ddl("wide", f"CREATE TABLE `wide` (`id` int PRIMARY KEY, {columns})")
    for id_ in range(max(map(len, kinds.values()))):
        values = ", ".join(some[id_ % len(some)] for some in kinds.values())
        told.rows(f"INSERT INTO `wide` VALUES ({id_}, {values})")
    told.rows("INSERT INTO `wide` (`id`) VALUES (-1)")

    with at_now(settings) as server:
        snapshot = read(settings, server)

    streamed, both = (Memory("ticdc-open", ZONE, row_ids=True) for _ in range(2))
    last = place(server.tso)
    (by_feed,) = streamed.add(told.messages()).tables(last).values()
    (by_both,) = both.add(told.messages()).add(snapshot).tables(last).values()
    assert len(by_feed) == len(by_both) > 10
    for one, other in zip(by_feed, by_both, strict=True):
        assert {name: (cell, other[name]) for name, cell in one.items() if cell != other[name]} == {}
    assert as_text(by_feed[1]) == as_text(by_both[1])
    assert not both.dead


def test_rows_of_before_the_feed_and_statements_behind_the_snapshot_join(settings: DatabaseSettings) -> None:
    told = TidbFeed(settings)
    created(told)
    told.ddl(
        "item", "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20), `w` int AS (id + 1) VIRTUAL)"
    )
    told.ddl("bag", "CREATE TABLE `bag` (`a` int, `b` varchar(20))")
    told.unsaid("INSERT INTO item (id, v) VALUES (1, 'old'), (2, 'old')", "INSERT INTO bag VALUES (1, 'a')")
    told.unsaid("INSERT INTO bag VALUES (1, 'a')", "INSERT INTO beat VALUES ()")
    told.rows("UPDATE item SET v = 'new' WHERE id = 2")

    with at_now(settings) as server:
        told.ddl("item", "ALTER TABLE `item` ADD COLUMN `n` int DEFAULT 7, DROP COLUMN `w`")
        told.ddl("bag", "ALTER TABLE `bag` CHANGE `b` `c` varchar(30)")
        told.rows("INSERT INTO item VALUES (3, 'later', 1)", "DELETE FROM item WHERE id = 1")
        told.rows("DELETE FROM bag LIMIT 1")
        snapshot = read(settings, server)

    silver = Memory("ticdc-open", ZONE, row_ids=True).add(told.messages()).add(snapshot)
    ts, state = told.runner.states[-1]
    compare(silver, place(ts), state, Judged())
    lineages = silver.lineages().live(place(ts)).values()
    assert [one.incomplete_at(place(ts)) for one in lineages] == [None, None, None]


def test_all_chunks_are_of_one_moment_while_a_writer_goes_on(settings: DatabaseSettings) -> None:
    """A sum that each transaction leaves as it is would be another one in rows of two moments."""
    stopped = threading.Event()
    made = "CREATE TABLE account (id int PRIMARY KEY, v int)"
    with tables(settings, made, filled("account", 400)) as database:
        run(database, "UPDATE account SET v = 100")

        def write() -> None:
            with connect(settings, (*SESSION, f"USE {DATABASE}")) as writer:
                for number in range(1 << 30):
                    if stopped.is_set():
                        return
                    one, other = number * 7 % 400, (number * 13 + 1) % 400
                    writer.execute("BEGIN")
                    writer.execute(f"UPDATE account SET v = v - 5 WHERE id = {one}")
                    writer.execute(f"UPDATE account SET v = v + 5 WHERE id = {other}")
                    writer.execute("COMMIT")

        thread = threading.Thread(target=write)
        thread.start()
        try:
            with at_now(settings) as server:
                (rows,) = rows_of(read(settings, server, chunk_rows=20)).values()
                with connect(settings, (*SESSION, *at_tso(server.tso))) as reader:
                    truth = reader.ask(f"SELECT id, v FROM {DATABASE}.account")
        finally:
            stopped.set()
            thread.join()
        later = database.ask(f"SELECT id, v FROM {DATABASE}.account")

    found = Counter((row["id"], row["v"]) for row in map(json.loads, rows))
    assert sum(v for _, v in found) == 400 * 100
    assert found == Counter((int(id_ or 0), int(v or 0)) for id_, v in truth)
    assert sorted(later) != sorted(truth)


def test_a_table_that_is_dropped_while_it_is_read_is_what_it_was(settings: DatabaseSettings) -> None:
    made = (f"CREATE TABLE {name} (id int PRIMARY KEY, v int)" for name in ("gone", "cleared"))
    with tables(settings, *made, filled("gone"), filled("cleared")) as database, at_now(settings) as server:
        run(database, "DROP TABLE gone")
        run(database, "TRUNCATE TABLE cleared")
        found = rows_of(read(settings, server))

    assert {name: sum(rows.values()) for name, rows in found.items()} == {"gone": 10, "cleared": 10}


def test_what_is_no_table_of_a_feed_is_left_out(settings: DatabaseSettings) -> None:
    made = (
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "CREATE GLOBAL TEMPORARY TABLE temp (id int PRIMARY KEY) ON COMMIT DELETE ROWS",
        "CREATE VIEW w AS SELECT * FROM t",
        "CREATE SEQUENCE s",
    )
    with tables(settings, *made) as database:
        mine = [one for one in listed(database) if one.name[0] == DATABASE]
        names = [one.name[1] for one in without_temporary(database, mine)]

    assert names == ["t"]


def test_names_with_odd_characters(settings: DatabaseSettings) -> None:
    name = "a`b \"x\" 'y' \\ %s 中"
    made = (
        f"CREATE TABLE {table_name(('d', name))[4:]} (`i``d %s` int PRIMARY KEY, `sel'ect` int, `\"` int)",
        f"INSERT INTO {table_name(('d', name))[4:]} VALUES (1, 2, 3), (2, 3, 4)",
    )
    with tables(settings, *made), at_now(settings) as server:
        ((found, rows),) = rows_of(read(settings, server, chunk_rows=1)).items()

    assert found == name
    assert rows == Counter(map(as_text, [{"i`d %s": n, "sel'ect": n + 1, '"': n + 2} for n in (1, 2)]))


def test_an_account_that_may_select_is_enough(settings: DatabaseSettings) -> None:
    made = ("CREATE TABLE t (id int PRIMARY KEY, v int)", filled("t"))
    with tables(settings, *made, f"DROP USER IF EXISTS {READER}") as database:
        run(database, f"CREATE USER {READER} IDENTIFIED BY 'p w'")
        run(database, f"GRANT SELECT ON {DATABASE}.t TO {READER}")
        reader = replace(settings, user=READER, password="p w")
        try:
            with at_now(reader) as server:
                (rows,) = rows_of(read(reader, server)).values()
            with connect(reader) as held:
                keep_tso(held, server.tso)
        finally:
            run(database, f"DROP USER {READER}")

    assert sum(rows.values()) == 10


def test_a_transaction_that_is_open_keeps_its_tso_from_garbage_collection(settings: DatabaseSettings) -> None:
    """TiDB collects nothing above the smallest start that its process list shows."""
    with connect(settings) as one, connect(settings) as other, connect(settings) as asked:
        begun = now_kept(one)
        keep_tso(other, begun - (5000 << 18))
        wanted: set[int] = {begun, (begun >> 18) - 5000 << 18}
        starts: set[int] = set()
        # a session is listed as it is now a moment after the answer to its statement
        end = time.monotonic() + 10
        while not wanted <= starts and time.monotonic() < end:
            shown = asked.ask("SELECT txnstart FROM information_schema.processlist")
            starts = {int(one) for (start,) in shown for one in re.findall(rb"\((\d+)\)", start or b"")}

    assert wanted <= starts


def test_a_tso_that_is_no_longer_kept_is_told_with_what_to_do(settings: DatabaseSettings) -> None:
    words = (
        "snapshot is older than GC safe point .*; TiDB keeps no state that is older than tidb_gc_life_time"
    )
    with pytest.raises(EnvironmentError_, match=words), connect(settings, (*SESSION, *at_tso(1 << 18))):
        pass


def test_a_server_without_tls_is_refused_by_default(settings: DatabaseSettings) -> None:
    with connect(settings) as database:
        if database.ask("SELECT @@have_ssl") == [(b"YES",)]:
            pytest.skip("this server has TLS")
    with (
        pytest.raises(LakehouseError, match=r"choose database\.tls"),
        connect(replace(settings, tls="verified")),
    ):
        pass


def test_a_table_of_a_size_that_no_statistics_tell_is_read(settings: DatabaseSettings) -> None:
    """TiDB says 0 rows of what it has not analyzed."""
    made = ("CREATE TABLE t (id int PRIMARY KEY, v longtext)",)
    with tables(settings, *made) as database, at_now(settings):
        for id_ in range(12):
            run(database, f"INSERT INTO t VALUES ({id_}, REPEAT('x', 3000000))")
        with at_now(settings) as now:
            messages = read(settings, now, chunk_rows=4)
            (table,) = [one for one in listed(database) if one.name[0] == DATABASE]

    assert isinstance(table, Listed)
    (rows,) = rows_of(messages).values()
    assert sum(rows.values()) == 12
