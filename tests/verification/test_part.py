"""Rows that differ, read again alone: which they are, and that they are right while a MariaDB goes on."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.parse.statements import read
from lakehouse.events import Message
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.encode import messages
from lakehouse.formats.snapshot.records import PartRecord, Place
from lakehouse.schema import Column, TableSchema, parse_type
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.read import Reading, table_messages
from lakehouse.sources.live.servers import MariaDbServer, MySqlServer, Server
from lakehouse.sources.live.tables import Listed, LiveTable, described, listed
from lakehouse.verification import part as part_module
from lakehouse.verification.cells import Cell, ServerColumn
from lakehouse.verification.part import Part, Span, WholeOnly, reads_alike, wanted
from lakehouse.verification.rows import Comparison
from lakehouse.verification.server import columns_of
from lakehouse.verification.verdict import CHANGED, COLUMNS, EXTRA, MISSING, REPEATED, Found
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.busy_server import KEYS, BusyServer, in_order
from tests.support.engine import Memory

LAST = (0, 1 << 40, 0, 0, 0, 0)
PLACE = Place(file="b.000001", offset=100)
TYPES = {"id": "int(11)", "v": "varchar(20)", "n": "int(11)"}


def comparison(names: Sequence[str], keys: Sequence[str], table: str = "t", buckets: int = 7) -> Comparison:
    cells = [
        Cell(name, Column(at, name, parse_type(TYPES[name])), f"_raw_{name}", ServerColumn(name, TYPES[name]))
        for at, name in enumerate(names)
    ]
    places = tuple(names.index(name) for name in keys)
    return Comparison("shop", table, cells=tuple(cells), keys=places, buckets=buckets)


def live(sql: str, charset: str | None = None) -> LiveTable:
    (statement,) = read(sql)
    assert isinstance(statement, CreateTable)
    table = Listed(("shop", "t"), "InnoDB", 3, size=100)
    return LiveTable(table, sql, sql, create(statement), key=(), charset=charset)


PAIR = "CREATE TABLE `t` (`id` int, `v` varchar(20) CHARSET latin1, `n` int, PRIMARY KEY (`v`, `id`))"


def test_what_is_read_again_is_what_was_named() -> None:
    told = comparison(("id", "v", "n"), ("v", "id"))
    found = [Found("b", EXTRA, bucket=3), Found("a", CHANGED, bucket=5), Found("c", MISSING, bucket=3)]

    assert wanted(told, found, 0) == (frozenset("abc"), (3, 5))
    assert Part(live(PAIR), told, wanted(told, found, 0)).statement == (
        "SELECT `id`, `v`, `n` FROM `shop`.`t` WHERE "
        "MOD(CAST(CONV(LEFT(MD5(CONCAT_WS(',', IFNULL(MD5(CONVERT(`v` USING utf8mb4)), 'N'), "
        "IFNULL(CAST(`id` + 0 AS CHAR), 'N'))), 8), 16, 10) AS UNSIGNED), 7) IN (3, 5)"
    )
    very_many = [Found(str(at), CHANGED, bucket=at) for at in range(2001)]
    assert Part(live(PAIR), told, wanted(told, very_many, 0)).statement.endswith(" WHERE 1 = 1")


def test_where_rows_are_not_named_all_of_the_table_is_read() -> None:
    told, row = comparison(("id", "v"), ("id",)), Found("a", CHANGED)

    def why(*found: Found, told: Comparison | None = told, more: int = 0) -> str:
        with pytest.raises(WholeOnly) as error:
            wanted(told, found, more)
        return str(error.value)

    assert why(row, more=1) == "more of its rows differ than are named"
    assert why(row, told=None) == "its columns have changed while it was compared"
    assert why(row, told=comparison(("id",), ())) == "it has no key that tells its rows"
    assert why(row, told=replace(told, sample=(1, 2))).startswith("a sample of its rows was compared")
    assert why(row, Found("b", REPEATED)) == why(row, Found("", COLUMNS, columns=("n",)))
    assert wanted(told, [row], 0).keys == {"a"}


def test_rows_are_told_by_their_key_in_the_servers_own_text() -> None:
    told = comparison(("id", "v", "n"), ("v", "id"))
    keys = [told.key_of(["é", 1]), told.key_of(["x", 2]), told.key_of(["y", 3])]
    part = Part(live(PAIR), told, wanted(told, [Found(key, CHANGED) for key in keys], 0))
    rows = [(b"1", b"\xe9", b"7"), (b"2", b"z", None), (b"4", b"x", b"1")]

    found = part.rows([rows[:2], rows[2:]])
    gone = part.gone({keys[0]: ["é", 1], keys[1]: ["x", 2]}, found)
    records = list(part.records(Span(PLACE), found.values(), gone))

    assert found == {keys[0]: (b"1", b"\xe9", b"7")}
    assert gone == [[2, "x"]]
    assert [(one.key, one.rows, one.gone) for one in records] == [
        (("id", "v"), [[b"1", b"\xe9", b"7"]], []),
        (("id", "v"), [], [[2, "x"]]),
    ]
    assert [column.charset for column in records[0].columns] == ["", "latin1", ""]


def test_a_part_that_can_not_be_told_or_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = comparison(("id", "v", "n"), ("id",))
    key = told.key_of([1])

    def part(sql: str) -> Part:
        return Part(live(sql), told, wanted(told, [Found(key, CHANGED)], 0))

    table = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(20), `n` int)"
    with pytest.raises(WholeOnly, match="by another key than the server"):
        part(PAIR).rows([])
    with pytest.raises(WholeOnly, match="not one of its type"):
        part(table).rows([[(b"x", None, None)]])
    with pytest.raises(WholeOnly, match="that its type can't hold"):
        part(table).gone({key: [None]}, {})
    monkeypatch.setattr(part_module, "MOST_BYTES", 3)
    assert part(table).rows([[(b"1", b"a", b"1")]]).keys() == {key}
    with pytest.raises(WholeOnly, match="too large"):
        part(table).rows([[(b"1", b"abc", b"1")]])


def test_rows_are_read_by_the_schema_that_the_feed_has_told() -> None:
    told = live("CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(20), `n` int)").schema
    printed = "CREATE TABLE `t` (`id` int(11) NOT NULL, {}, `n` int(11) DEFAULT NULL, PRIMARY KEY ({}))"

    def server(column: str = "`v` varchar(20) DEFAULT NULL", key: str = "`id`") -> TableSchema:
        return live(f"{printed.format(column, key)} DEFAULT CHARSET=utf8mb4").schema

    latin = live("CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(20) CHARSET latin1, `n` int)").schema
    assert reads_alike(told, server())
    assert not reads_alike(latin, server())
    assert not reads_alike(told, server("`v` varchar(21) DEFAULT NULL"))
    assert not reads_alike(told, server("`w` varchar(20) DEFAULT NULL"))
    assert not reads_alike(told, server("`v` varchar(20) NOT NULL"))
    assert not reads_alike(told, server("`v` varchar(20) DEFAULT NULL, `x` int"))
    assert not reads_alike(told, server("`v` varchar(20) AS ('a') STORED"))
    assert not reads_alike(told, server(key="`id`, `n`"))


def test_records_of_a_part_are_of_some_rows_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "CHUNK_ROWS", 2)
    told = comparison(("id", "v", "n"), ("id",))
    part = Part(live("CREATE TABLE `t` (`id` int PRIMARY KEY)"), told, wanted(told, [Found("", CHANGED)], 0))

    records = part.records(Span(PLACE), [(b"1",), (b"2",), (b"3",)], [[4], [5], [6]])

    assert [(one.rows, one.gone) for one in records] == [
        ([[b"1"], [b"2"]], []),
        ([[b"3"]], []),
        ([], [[4], [5]]),
        ([], [[6]]),
    ]


# --- while a server changes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        yield server


def placed(place: Any) -> Place:
    return place_in("debezium", "binlog", place, "shop")


def transaction(message: Message) -> int:
    """The number of the transaction that a message is of."""
    value = json.loads(message.value or b"")
    return int(str(value.get("id") or value["transaction"]["id"]).rpartition("-")[2])


class Seen:
    """How a table of gold differs from the server's, at one moment."""

    def __init__(self, name: str, gold: list[dict[str, Any]], source: list[dict[str, Any]]) -> None:
        self.told = comparison(("id", "v", "n"), KEYS[name], name)
        ours, theirs = self.by_key(gold), self.by_key(source)
        self.gold = {key: [row[one] for one in KEYS[name]] for key, row in ours.items()}
        self.found = [
            Found(key, CHANGED, bucket=self.told.bucket(list((theirs.get(key) or ours[key]).values())))
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]

    def by_key(self, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {self.told.key(list(row.values())): row for row in rows}


def read_part(server: MariaDb, kind: Server, name: str, seen: Seen) -> list[PartRecord]:
    settings = DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")
    with connect(settings, (*SESSION, *kind.session)) as database:
        table = next(one for one in listed(database) if one.name == ("shop", name))
        assert [one.type for one in columns_of(database, table.name)] == list(TYPES.values())
        part = Part(described(database, table, tidb=False), seen.told, wanted(seen.told, seen.found, 0))
        database.execute("SET SESSION character_set_results = NULL")
        with kind.moment(database, first=True) as moment:
            rows = part.rows(database.stream(part.statement))
            time.sleep(0.05)
        with kind.moment(database, first=False) as after:
            span = Span(placed(moment.place), None if moment.exact else placed(after.place))
        gold = {one.key: seen.gold[one.key] for one in seen.found if one.key in seen.gold}
        return list(part.records(span, rows.values(), part.gone(gold, rows)))


def read_whole(server: MariaDb) -> list[Message]:
    kind, reading = MariaDbServer(), Reading(run="1", tables=1, epoch=0, placed=placed)
    settings = DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")
    with connect(settings, (*SESSION, *kind.session)) as database:
        here = [table for table in listed(database) if table.name[0] == "shop"]
        return [message for table in here for message in table_messages(database, kind, table, reading)]


MYSQL = MySqlServer(lambda seconds: time.sleep(0.5))


@pytest.mark.parametrize("kind", [MariaDbServer(), MYSQL], ids=["MariaDB", "MySQL"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_read_again_while_the_server_changes_are_its_rows(
    server: MariaDb, seed: int, kind: Server
) -> None:
    busy, chance = BusyServer(server.port, seed, rows=300, tables=("item", "pair")), random.Random(seed)
    busy.large = 30
    whole = read_whole(server)
    for _ in range(80):
        busy.transact()
    lost = set(chance.sample(range(1, 81), 8))
    told = [one for one in busy.messages if transaction(one) not in lost]
    wrong, truth = Memory("debezium", tidb=False).add(whole).add(told).tables(LAST), busy.truth()
    seen = {name: Seen(name, wrong[f"shop.{name}"], truth[f"shop.{name}"]) for name in busy.tables}
    assert all(one.found for one in seen.values())

    with busy.writing():
        while busy.transactions < 120:
            time.sleep(0.01)
        parts = {name: read_part(server, kind, name, one) for name, one in seen.items()}
        behind = busy.transactions
        while busy.transactions < behind + 60:
            time.sleep(0.01)

    part = [one for name, some in parts.items() for one in messages(some, name)]
    later = [one for one in busy.messages if transaction(one) > 80]
    truth = busy.truth()
    for order in ((whole, told, part, later), (whole, told, later, part), (part, later, told, whole)):
        silver = Memory("debezium", tidb=False)
        for some in order:
            silver.add(some)
        silver.add(part).add(told)
        assert {name: in_order(rows) for name, rows in silver.tables(LAST).items()} == truth
        live = silver.lineages().live(LAST)
        for name, sent in parts.items():
            lineage, spans = live["shop", name], {(one.place, one.until, one.number) for one in sent}
            ((begun, until, number),) = spans
            since = position(0, begun, number)
            settled = position(0, begun if until is None else until)
            assert lineage.unsettled == ({} if until is None else {since: settled})
            assert (lineage.incomplete_at(since) is None) == (kind is not MYSQL)
            assert lineage.incomplete_at(settled) is None
    assert sum(len(one.gone) for some in parts.values() for one in some)
    assert {len(one.rows) + len(one.gone) for some in parts.values() for one in some} != {0}
    named = sum(len(one.found) for one in seen.values())
    assert sum(len(one.rows) + len(one.gone) for some in parts.values() for one in some) <= named
