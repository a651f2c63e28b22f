"""`verify` against a real MariaDB: nothing differs where nothing is wrong, and each fault is named to its
row.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.config.load import database_settings
from lakehouse.errors import LakehouseError
from lakehouse.lineage import History
from lakehouse.ops.progress import BinlogNames, Servers
from lakehouse.sources.server_sql import at_tso
from lakehouse.spark import limits
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.status import verified
from lakehouse.spark.verification import looks
from lakehouse.spark.verification import run as comparison
from lakehouse.spark.verification.looks import Compared, Options
from lakehouse.spark.verification.record import keep
from lakehouse.spark.verification.run import DROPPED, UNKNOWN, Open, TableResult, unseen, verify
from lakehouse.spark.verification.scratch import Scratch, scratch
from lakehouse.verification.rows import key_hash
from lakehouse.verification.server import ServerPlace
from lakehouse.verification.verdict import MISSING, Found, Looks
from tests.cli.test_commands import lakehouse
from tests.oracle.database import Database
from tests.oracle.losses import lost
from tests.oracle.values import TYPES, literals
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.lakes import quiet, write_recording
from tests.support.live_feed import BINLOG, FedLake, LiveFeed, created
from tests.support.records import table_entry

ITEM = "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20), `w` decimal(10,2), `x` double, `j` json)"
BAG = "CREATE TABLE `bag` (`a` int, `b` varchar(20))"
NAMED = "CREATE TABLE `named` (`name` varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, `f` float)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *BINLOG) as running:
        yield running


def checked(lake: FedLake, **options: Any) -> dict[str, TableResult]:
    source = lake.source()
    asked = Options(**{"pause": lake.beat, "wait": 8.0, **options})
    found = verify(Compared(source, database_settings(source.config), asked, quiet))
    return {result.name[1]: result for result in found}


def wide(format_: str) -> list[str]:
    """A row of each type's values that the format carries, in turn, and one of NULLs."""
    kinds = [
        [value for value in literals(kind, strict=format_ == "debezium") if is_carried(format_, kind, value)]
        for kind in TYPES
    ]
    most = max(map(len, kinds))
    rows = [[kind[number % len(kind)] for kind in kinds] for number in range(most)]
    return [f"({number}, {', '.join(row)})" for number, row in enumerate([*rows, ["NULL"] * len(TYPES)])]


def is_carried(format_: str, kind: str, value: str) -> bool:
    """See tests/oracle/losses.py."""
    if format_ == "debezium":
        return (kind, value) != ("year", "0")
    return value.isascii() or "CHARACTER SET" not in kind


@pytest.mark.parametrize(
    "format_",
    (
        "debezium",
        pytest.param("canal-protobuf", marks=pytest.mark.long),
        pytest.param("tencent-dts", marks=pytest.mark.long),
    ),
)
def test_every_type_is_equal(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    told = created(LiveFeed(Database(server.port), format_))
    columns = ", ".join(f"`c{number}` {kind}" for number, kind in enumerate(TYPES))
    told.ddl("wide", f"CREATE TABLE `wide` (`id` int PRIMARY KEY, {columns})")
    rows = wide(format_)
    for row in rows:
        told.rows(f"INSERT INTO `wide` VALUES {row}")
    lake = FedLake(tmp_path, told, server.port).run()

    histories = list[History]()

    def counted(*given: Any) -> History:
        histories.append(load_history(*given))
        return histories[-1]

    monkeypatch.setattr("lakehouse.spark.readers.show.load_history", counted)

    every = checked(lake)
    found = every["wide"]

    assert (found.compared, found.rows) == (True, len(rows))
    assert (len(every), len(histories)) == (2, 1)  # one for all tables
    assert told_lossless(told)
    assert (found.different, found.undecided, found.why) == ((), (), None)


def told_lossless(told: LiveFeed) -> bool:
    """Whether the format carries all that was written."""
    rows = [event for event in told.runner.events if event["kind"] == "row"]
    return [why for event in rows if (why := lost(told.format, event))] == []


def shop(server: MariaDb, format_: str) -> LiveFeed:
    """Tables with a key, without one, and with a key whose order is a collation's."""
    told = created(LiveFeed(Database(server.port), format_))
    told.ddl("item", ITEM).ddl("bag", BAG).ddl("named", NAMED)
    for first in range(1, 41, 10):
        rows = (
            f"({id_}, 'v{id_}', {id_}.5, {id_} / 3, '{{\"a\": {id_}}}')" for id_ in range(first, first + 10)
        )
        told.rows(f"INSERT INTO `item` VALUES {', '.join(rows)}")
    told.rows("INSERT INTO `bag` VALUES (1, 'one'), (1, 'one'), (2, NULL)")
    told.rows("INSERT INTO `named` VALUES ('a', 0.1), ('B', 1e10), ('ß', -2.5), ('é', 3)")
    return told


def differences(result: TableResult) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Kind and columns by key, of those that differ; nothing is undecided."""
    assert (result.compared, result.undecided, result.why) == (True, (), None)
    return {one.key: (one.kind, one.columns if one.kind == "changed" else ()) for one in result.different}


def test_each_fault_is_named_to_its_row_and_nothing_else_is(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "VERIFY_BUCKET_ROWS", 3)
    monkeypatch.setattr(limits, "VERIFY_RANGE_ROWS", 7)
    told = shop(server, "canal-protobuf")
    told.ddl("cleared", "CREATE TABLE `cleared` (`id` int PRIMARY KEY)")
    told.rows("INSERT INTO `cleared` VALUES (1), (2), (3)")
    told.ddl("cleared", "TRUNCATE TABLE `cleared`", clears=True).skip()
    told.ddl("unsaid", "CREATE TABLE `unsaid` (`id` int PRIMARY KEY)").skip()
    lake = FedLake(tmp_path, told, server.port)
    beats(lake, 8)
    told.rows("UPDATE `item` SET `v` = 'vanishes' WHERE `id` = 7")
    beats(lake, 8)
    write_recording(lake.recording, told.messages())
    lake.layers("bronze")
    lost = spark.sql(f"DELETE FROM delta.`{lake.lake}/bronze/shop` WHERE instr(value, 'vanishes') > 0")
    assert lost.first()[0] == 1
    lake.lost = b"vanishes"
    lake.layers("silver", "gold")
    gold = f"delta.`{lake.lake}/gold/shop__"
    spark.sql(f"UPDATE {gold}item` SET v = 'forged', x = 0 WHERE id = 3")
    spark.sql(f"DELETE FROM {gold}item` WHERE id = 5")
    spark.sql(f"INSERT INTO {gold}item` SELECT 1000 AS id, v, w, x, j FROM {gold}item` WHERE id = 4")
    spark.sql(f"INSERT INTO {gold}item` SELECT * FROM {gold}item` WHERE id = 9")
    spark.sql(f"INSERT INTO {gold}bag` VALUES (1, 'one'), (4, 'four')")
    spark.sql(f"UPDATE {gold}named` SET f = f + 0.001 WHERE name = 'a'")

    found = checked(lake, values=True)

    assert differences(found["item"]) == {
        key_hash(["3"]): ("changed", ("v", "x")),
        key_hash(["5"]): ("missing", ()),
        key_hash(["7"]): ("changed", ("v",)),
        key_hash(["9"]): ("repeated", ()),
        key_hash(["1000"]): ("extra", ()),
    }
    assert differences(found["bag"]) == {
        key_hash(["1", "one"]): ("repeated", ()),
        key_hash(["4", "four"]): ("extra", ()),
    }
    assert differences(found["cleared"]) == {key_hash([id_]): ("extra", ()) for id_ in "123"}
    assert (found["unsaid"].compared, found["unsaid"].why) == (False, UNKNOWN)
    assert differences(found["named"]) == {key_hash(["a"]): ("changed", ("f",))}
    log = OpsLog(spark, lake.source().lake, "shop").load()
    keep(log, list(found.values()), 1.0)
    kept = spark.read.format("delta").load(f"{lake.lake}/ops/shop_differences").toArrow().to_pylist()
    assert {(one["verdict"], one["table"], one["kind"], one["key_hash"]) for one in kept} == {
        ("different", name, one.kind, one.key) for name, result in found.items() for one in result.different
    }
    row = next(one for one in kept if one["key_hash"] == key_hash(["3"]) and one["table"] == "item")
    assert (row["columns"], row["gold_values"]) == (["v", "x"], [("v", "forged"), ("x", "0.0")])
    assert verified(log, {"shop.item"})["verified"]["different"] == {"shop.item": 5}
    three = next(one for one in found["item"].different if one.key == key_hash(["3"]))
    assert (three.gold, three.source) == (("forged", "0.0"), ("v3", "1.0"))


def beats(lake: FedLake, number: int) -> None:
    """Records of another table, so that those around them hold nothing else."""
    for _ in range(number):
        lake.told.rows("INSERT INTO `beat` VALUES ()")


def test_rows_that_change_meanwhile_are_looked_at_again_and_never_called_different(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    told = shop(server, "debezium")
    lake = FedLake(tmp_path, told, server.port).run()
    told.rows("UPDATE `item` SET `v` = 'new' WHERE `id` < 5", "DELETE FROM `item` WHERE `id` = 20")
    told.rows("INSERT INTO `bag` VALUES (3, 'three')")

    early = checked(lake, wait=0.0)
    written = iter(range(100))

    def go_on(_: float) -> None:
        told.rows(f"UPDATE `item` SET `w` = {next(written)} WHERE `id` = 6")
        lake.beat()

    late = checked(lake, pause=go_on)

    assert {name: one.different for name, one in early.items() if one.different} == {}
    assert {name: len(one.undecided) for name, one in early.items() if one.undecided} == {"item": 5, "bag": 1}
    assert early["item"].why is not None and "has not passed mysql-bin." in early["item"].why
    assert {name: one.different for name, one in late.items() if one.different} == {}
    assert {one.key for one in late["item"].undecided} <= {key_hash(["6"])}
    assert late["bag"].undecided == ()


def test_tables_in_other_modes_and_with_hidden_columns_are_compared_by_their_live_rows(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    told = shop(server, "debezium")
    told.ddl("masked", "CREATE TABLE `masked` (`id` int PRIMARY KEY, `a` varchar(9), `b` int, `c` int)")
    told.rows("INSERT INTO `masked` VALUES (1, 'x', 1, 1), (2, 'y', 2, 2)")
    told.rows("UPDATE `item` SET `v` = 'new' WHERE `id` < 9", "DELETE FROM `item` WHERE `id` = 20")
    told.rows("DELETE FROM `named` WHERE `f` = 3", "UPDATE `named` SET `f` = 7 WHERE `name` = 'a'")
    lake = FedLake(tmp_path, told, server.port)
    for name, words in {
        "item": "gold: {mode: history}",
        "named": "gold: {deletes: soft}",
        "bag": "gold: {mode: append}",
        "masked": "columns: {a: {hash: sha256}, b: {rename: bee}, c: {exclude: true}}",
    }.items():
        (tmp_path / f"tables/shop.{name}.yml").write_text(f"source: shop\n{words}\n")
    lake.run()
    spark.sql(f"UPDATE delta.`{lake.lake}/gold/shop__masked` SET bee = 3 WHERE id = 2")

    found = checked(lake)

    assert differences(found["item"]) == differences(found["named"]) == {}
    assert (found["bag"].compared, found["bag"].why) == (False, "it is a log, not the source's rows")
    assert found["masked"].left_out == ("a", "c")
    assert differences(found["masked"]) == {key_hash(["2"]): ("changed", ("b",))}


def test_at_a_tidb_every_session_reads_at_the_published_tso_and_the_first_look_decides(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MariaDB stands for the TiDB: it says that it is one, and keeps what it was asked."""
    log = tmp_path / "asked.log"
    options = ("--version=8.0.11-TiDB-v8.5.0", "--general-log", f"--general-log-file={log}")
    monkeypatch.setattr(looks, "at_tso", lambda tso: (at_tso(tso)[-1].replace("SESSION tidb_", "@tidb_"),))
    monkeypatch.setattr(looks, "keep_tso", lambda database, tso: database.ask(f"SELECT 'keeps {tso}'"))
    with start_mariadb(tmp_path / "server", *options, *BINLOG) as server:
        lake = FedLake(tmp_path, shop(server, "ticdc-open"), server.port).run()
        gold = f"delta.`{lake.lake}/gold/shop__item`"
        spark.sql(f"UPDATE {gold} SET v = 'forged' WHERE id = 3")
        log.write_text("")

        found = checked(lake, pause=never)
        asked = sessions(log.read_text(errors="replace"))
        words = ("verify", "shop", "--configs", str(tmp_path), "--tables", "shop.item", "--json")
        done, mended = lakehouse(*words), lakehouse(*words, "--repair")
        with monkeypatch.context() as broken, pytest.raises(LakehouseError, match="got error 1064"):
            broken.setattr(looks, "ranges", lambda *_: ["nonsense ="])
            checked(lake)
        monkeypatch.setattr(looks, "version_of", lambda _: "8.4.0")
        with pytest.raises(LakehouseError, match="expected a TiDB, as its feed is of one"):
            checked(lake)

    assert differences(found["item"]) == {key_hash(["3"]): ("changed", ("v",))}
    assert {name for name, one in found.items() if one.different} == {"item"}
    tso = found["item"].source_at.removeprefix("TSO ")
    reading = [said for said in asked if any("`shop`." in one for one in said)]
    assert len(reading) > len(found)
    assert all(f"SET @tidb_snapshot = '{tso}'" in first_before(said, "`shop`.") for said in reading)
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"] == [
        {"kind": "changed", "key_hash": key_hash(["3"]), "columns": ["v"]}
    ]
    assert (mended.returncode, json.loads(mended.stdout)["repaired_by"]) == (0, ["restored"])
    assert not any("MASTER" in one or "BINARY" in one for said in asked for one in said)


def never(_: float) -> None:
    raise AssertionError("nothing is waited for")


def sessions(log: str) -> list[list[str]]:
    """The statements of each connection, by the general log."""
    found: dict[str, list[str]] = {}
    for connection, said in re.findall(r"^[\d :]*\t+ *(\d+) Query\t(.*)$", log.replace("\0", ""), re.M):
        found.setdefault(connection, []).append(said)
    return list(found.values())


def first_before(said: list[str], text: str) -> list[str]:
    """What a connection said before it first said something with that text."""
    return said[: next(number for number, one in enumerate(said) if text in one)]


@pytest.mark.parametrize(
    "kind", ("lakehouse.errors.LakehouseError", "lakehouse.sources.database.DatabaseError")
)
def test_what_a_worker_says_of_the_server_is_one_sentence(kind: str) -> None:
    nothing: Any = None
    sentence = "database h:1: expected an answer, got error 1205"
    said = f"PythonException:\n  File x, line 1\nlakehouse.{kind}: {sentence}\n\tat x"

    with pytest.raises(LakehouseError, match=f"^{sentence}$"), looks.working(nothing, 0):
        raise RuntimeError(said)


def test_what_a_killed_run_has_left_is_removed_and_a_running_one_s_tables_stay(
    spark: Any, tmp_path: Path
) -> None:
    lake, rows = Lake(str(tmp_path)), spark.range(1)

    def looks_at(*runs: Scratch) -> list[str]:
        for run in runs:
            lake.overwrite(rows, "gold", run.table("shop__t"))
        return [run.table("shop__t") for run in runs]

    with scratch(spark, lake, "shop") as goes_on, scratch(spark, lake, "shop_t") as of_another:
        with scratch(spark, lake, "shop") as second, scratch(spark, lake, "shop") as third:
            kept = looks_at(goes_on, of_another)
            left = looks_at(second, third)
        lake.overwrite(rows, "gold", "_verify_of_somebody_s")
        before = lake.names(spark, "gold", "_verify_")
        with scratch(spark, lake, "shop") as after:
            remain = lake.names(spark, "gold", "_verify_")

    assert before == sorted([*kept, *left, "_verify_of_somebody_s"])
    assert remain == sorted([*kept, "_verify_of_somebody_s"])
    assert after.prefix == second.prefix


@pytest.mark.parametrize(
    ("place", "epochs", "refused"),
    (
        (ServerPlace("binlog.000007", 4), (), None),
        (ServerPlace("binlog.000006", 900), (), None),
        (ServerPlace("replica.000007", 4), (), "got one that writes replica"),
        (ServerPlace("binlog.000006", 899), (), "at binlog.000006:899, behind what the feed has told"),
        (ServerPlace("binlog.000005", 900), (), "behind what the feed has told: another server's binlog, or"),
        (ServerPlace("binlog.000007", 4), (1,), "expected gold at a place in epoch 1, which has begun"),
    ),
)
def test_a_server_that_can_t_be_the_one_of_the_published_watermark_is_refused(
    monkeypatch: pytest.MonkeyPatch, place: ServerPlace, epochs: tuple[int, ...], refused: str | None
) -> None:
    servers = Servers(names=(BinlogNames(0, "", ("binlog",)),))
    reader: Any = SimpleNamespace(
        watermark=lambda: (0, 6, 900, 1, 0, 0),
        done=SimpleNamespace(servers=servers),
        log=SimpleNamespace(all=lambda _: [SimpleNamespace(epoch=epoch) for epoch in epochs]),
    )
    session: Any = SimpleNamespace(
        source=SimpleNamespace(name="shop"), recorded=SimpleNamespace(order="binlog"), options=Options()
    )
    session.by_tso, session.version, session.settings = False, "11.4-MariaDB", None
    monkeypatch.setattr(comparison, "connect", lambda _: nullcontext())
    monkeypatch.setattr(comparison, "place_of", lambda _: place)

    with pytest.raises(LakehouseError, match=refused) if refused else nullcontext():
        comparison._refuse_other_server(session, reader)


def test_the_time_that_looking_takes_counts_as_waiting_and_what_is_waited_for_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reader() -> Any:
        time.sleep(0.2)
        return SimpleNamespace(watermark=lambda: (0, 1, 4, 0, 0, 0))

    monkeypatch.setattr(looks, "POLL", 0.1)
    said, paused = list[str](), list[float]()
    session: Any = SimpleNamespace(
        options=Options(wait=0.5, pause=paused.append),
        reader=reader,
        source=SimpleNamespace(name="shop"),
        progress=said.append,
    )

    _, passed = looks.Session.reader_past(session, ServerPlace("binlog.000007", 4))

    assert not passed
    # a look and the pause behind it take 0.3 s at least
    assert 1 <= len(paused) <= 2
    assert said == [
        "verify  shop: waits 0.5 s at most for a run to publish what the server had at binlog.000007:4: "
        "start `lakehouse run all` if none goes on"
    ]


def test_tables_that_the_server_has_and_gold_has_not_are_told() -> None:
    entries = [
        table_entry(database="shop", table="item"),
        table_entry(database="shop", table="gone", state="retired"),
        table_entry(database="shop", table="item", state="retired"),
        table_entry(database="shop", table="all", shards=("a", "b"), names=(("shop", "s1"), ("shop", "s2"))),
    ]
    here = [("shop", name) for name in ("gone", "item", "new", "s1", "s2")] + [("crm", "new")]

    assert unseen(here, entries, None) == {("shop", "gone"): DROPPED, ("shop", "new"): UNKNOWN}
    assert unseen(here, entries, {("shop", "item")}) == {("shop", "gone"): DROPPED}


def test_buckets_of_rows_that_are_not_named_are_looked_at_again() -> None:
    nothing: Any = None
    look = looks.Look([Found("k", MISSING, bucket=3, changed=True)], 1, nothing, nothing, passed=True)
    table = Open(nothing, 9, Looks(), None)

    seen = []
    for buckets, more in ((None, 7), ([2, 3], 1), ([2, 3], 0)):
        table.take(looks.Read(nothing, None, buckets, None, None), look._replace(more=more))
        seen.append(table.buckets)

    assert seen == [None, [2, 3], [3]]


def test_the_tables_of_a_catalog_are_listed_and_those_of_an_object_store_are_not() -> None:
    asked: list[str] = []

    class Session:
        """Of a catalog with three tables in one schema."""

        def sql(self, text: str) -> Any:
            asked.append(text)
            rows = [SimpleNamespace(tableName=name) for name in ("_verify_b", "shop__t", "_verify_a")]
            return SimpleNamespace(collect=lambda: rows)

    session: Any = Session()

    listed = Lake("/Volumes/v", "main", {"gold": "dev_gold"}).names(session, "gold", "_verify_")
    nothing = Lake("s3://bucket/lake").names(session, "gold", "_verify_")

    assert (listed, nothing) == (["_verify_a", "_verify_b"], [])
    assert asked == ["SHOW TABLES IN `main`.`dev_gold`"]
