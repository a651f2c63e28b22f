"""Tables of a real TiDB: snapshotted, compared with gold, and mended, at its own TSOs.

The server is one that runs: see tests/support/tidb_feed.py.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import database_settings
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.database import DatabaseSettings
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline import snapshot_tables as command
from lakehouse.spark.pipeline.repair_tables import verified
from lakehouse.spark.pipeline.snapshot_tables import Asked, list_tables, snapshot_tables
from lakehouse.spark.verification.looks import Compared, Options
from lakehouse.verification.rows import key_hash
from tests.cli.test_commands import lakehouse
from tests.oracle.values import TYPES, literals
from tests.support.killed_snapshot import kill_snapshot
from tests.support.lakes import quiet
from tests.support.live_feed import FedLake, created
from tests.support.tidb_feed import DATABASE, TidbFeed, tidb_settings

ITEM = "CREATE TABLE `item` (`id` bigint PRIMARY KEY NONCLUSTERED, `v` varchar(20), `w` decimal(10,2))"
NAMED = (
    "CREATE TABLE `named` (`name` varchar(20) COLLATE utf8mb4_general_ci, `n` int, `f` float, `x` vector(2), "
    "`j` json, PRIMARY KEY (`name`, `n`) CLUSTERED)"
)
BAG = "CREATE TABLE `bag` (`a` int, `b` varchar(20))"


@pytest.fixture(scope="module")
def settings() -> DatabaseSettings:
    return tidb_settings()


class Adopted:
    """Tables of which the feed has not told all rows, and a lake of the feed."""

    def __init__(self, settings: DatabaseSettings, folder: Path) -> None:
        self.told = TidbFeed(settings)
        created(self.told)
        self.told.ddl("item", ITEM).ddl("named", NAMED).ddl("bag", BAG)
        rows = ", ".join(f"({id_}, 'v{id_}', {id_}.5)" for id_ in range(1, 41))
        names = ", ".join(
            f"('n{one % 3}', {one}, {one}/7, '[{one},0.1]', '{{\"a\":{one}}}')" for one in range(9)
        )
        self.told.unsaid(f"INSERT INTO item VALUES {rows}", f"INSERT INTO named VALUES {names}")
        self.told.unsaid("INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (NULL, NULL)")
        self.told.rows("UPDATE item SET v = 'new' WHERE id = 2", "INSERT INTO bag VALUES (1, 'a')")
        self.lake = FedLake(folder, self.told, settings.port).run()
        self.folder = folder

    def snapshot(self, *tables: str, **asked: Any) -> dict[str, Any]:
        return snapshot_tables(self.lake.source(), Asked(tables, **asked), quiet)

    def verify(self, *, repair: bool = False, **options: Any) -> dict[str, dict[str, Any]]:
        source = self.lake.source()
        asked = Options(**{"pause": self.lake.beat, "wait": 8.0, **options})
        entries = verified(Compared(source, database_settings(source.config), asked, quiet), repair=repair)
        return {entry["table"].removeprefix(f"{DATABASE}."): entry for entry in entries}

    def states(self, spark: Any) -> dict[str, str | None]:
        found = OpsLog(spark, Lake(str(self.lake.lake)), "shop").load().last(Manifest)
        assert found is not None
        return {one.table: one.why for one in found.tables if one.state != "exact"}


def faults(entry: dict[str, Any]) -> dict[str, str]:
    assert (entry["compared"], entry["undecided"]) == (True, 0)
    return {one["key_hash"]: one["kind"] for one in entry.get("differences", ())}


def test_tables_that_exist_are_read_and_equal_then_and_later(
    spark: Any, settings: DatabaseSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "CHUNK_ROWS", 7)
    monkeypatch.setattr(limits, "VERIFY_BUCKET_ROWS", 3)
    monkeypatch.setattr(limits, "VERIFY_RANGE_ROWS", 20)
    shop = Adopted(settings, tmp_path)
    shop.told.unsaid("CREATE GLOBAL TEMPORARY TABLE temp (id int) ON COMMIT DELETE ROWS")
    shop.told.runner.tables.pop((DATABASE, "temp"))
    shown = list_tables(shop.lake.source(), Asked())
    result = shop.snapshot()
    shop.told.ddl("item", "ALTER TABLE `item` ADD COLUMN `n` int DEFAULT 3, MODIFY COLUMN `v` varchar(30)")
    shop.told.rows("UPDATE named SET f = 2.5, j = '[1.50, \"é\"]' WHERE n = 4", "DELETE FROM bag LIMIT 1")
    shop.told.rows("DELETE FROM item WHERE id = 3", "INSERT INTO item VALUES (99, 'x', 1, NULL)")
    shop.lake.beat()
    after = shop.verify(parallel=3)
    doctor = lakehouse("doctor", "--configs", str(tmp_path))

    assert {one["table"].partition(".")[2] for one in shown} == {"bag", "beat", "item", "named"}
    assert (result["tables"], result["server"], result["rows"]) == (4, "TiDB", 53)
    assert {name: entry["why"] for name, entry in after.items()} == dict.fromkeys(
        ("bag", "beat", "item", "named")
    )
    assert {name: faults(entry) for name, entry in after.items() if faults(entry)} == {}
    assert shop.states(spark) == {}
    assert "TiDB, " in doctor.stdout


def test_a_snapshot_that_was_killed_goes_on_at_a_later_tso(
    spark: Any, settings: DatabaseSettings, tmp_path: Path
) -> None:
    shop = Adopted(settings, tmp_path)
    rows = ", ".join(f"({id_}, 'v{id_}', {id_}.5)" for id_ in range(100, 3000))
    shop.told.unsaid(f"INSERT INTO item VALUES {rows}")
    kill_snapshot(tmp_path, shop.lake.lake, commits=6)
    shop.told.rows("UPDATE item SET v = 'between' WHERE id IN (100, 2999)", "DELETE FROM item WHERE id = 101")
    shop.told.ddl("item", "ALTER TABLE `item` ADD COLUMN `n` int DEFAULT 3")
    shop.lake.run()
    after_death = shop.states(spark)

    result = shop.snapshot()
    shop.lake.beat()
    last = shop.verify()

    assert "do not fit the rows before them" in (after_death["item"] or ""), "no half of a snapshot is shown"
    assert (result["tables"], result["rows"]) == (1, 2939), "the small ones were whole"
    assert {name: faults(entry) for name, entry in last.items() if faults(entry)} == {}
    assert shop.states(spark) == {}


def test_a_table_that_ddl_made_incomplete_is_read_again_and_no_other(
    spark: Any, settings: DatabaseSettings, tmp_path: Path
) -> None:
    shop = Adopted(settings, tmp_path)
    shop.snapshot()
    shop.told.ddl("item", "ALTER TABLE `item` ADD COLUMN `at` datetime DEFAULT CURRENT_TIMESTAMP")
    shop.lake.beat()
    states = shop.states(spark)

    result = shop.snapshot(incomplete=True)
    shop.lake.beat()

    assert set(states) == {"item"}
    assert (result["tables"], result["rows"]) == (1, 40)
    assert shop.states(spark) == {}
    assert {name: faults(entry) for name, entry in shop.verify().items() if faults(entry)} == {}


def test_faults_are_named_to_the_row_and_mended(
    spark: Any, settings: DatabaseSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "VERIFY_BUCKET_ROWS", 3)
    shop = Adopted(settings, tmp_path)
    shop.snapshot()
    shop.lake.beat()
    gold = f"delta.`{shop.lake.lake}/gold/{DATABASE}__"
    spark.sql(f"UPDATE {gold}item` SET v = 'forged' WHERE id = 3")
    spark.sql(f"DELETE FROM {gold}item` WHERE id = 5")
    spark.sql(f"INSERT INTO {gold}item` SELECT 1000 AS id, v, w FROM {gold}item` WHERE id = 4")
    shop.told.unsaid("UPDATE named SET x = '[7,7]' WHERE n = 1", "DELETE FROM named WHERE n = 2")
    shop.told.unsaid("INSERT INTO named (name, n) VALUES ('N9', 9)", "DELETE FROM bag WHERE a IS NULL")
    shop.lake.beat()

    found = shop.verify()
    mended = shop.verify(repair=True)
    shop.lake.beat()
    last = shop.verify()

    assert faults(found["item"]) == {
        key_hash(["3"]): "changed",
        key_hash(["5"]): "missing",
        key_hash(["1000"]): "extra",
    }
    assert faults(found["named"]) == {
        key_hash(["n1", "1"]): "changed",
        key_hash(["n2", "2"]): "extra",
        key_hash(["N9", "9"]): "missing",
    }
    assert list(faults(found["bag"]).values()) == ["extra"]
    repaired = {name: entry.get("repaired_by") for name, entry in mended.items() if entry.get("different")}
    assert repaired == {"item": ["restored"], "named": ["rows"], "bag": ["snapshot"]}
    assert {name: faults(entry) for name, entry in last.items() if faults(entry)} == {}
    assert shop.states(spark) == {}


def test_every_type_is_equal_as_the_feed_and_as_a_snapshot_tell_it(
    spark: Any, settings: DatabaseSettings, tmp_path: Path
) -> None:
    more = {
        "vector": ("'[1,2.5,-1e-10]'", "'[]'"),
        "vector(3)": ("'[0,0.1,16777216]'",),
        "varchar(20) CHARACTER SET gbk": ("'中文'", "''"),
        "enum('中','文') CHARACTER SET gbk": ("'中'",),
        "varchar(20) CHARACTER SET gb18030": ("'龘😀'",),
        "varchar(20) COLLATE utf8mb4_0900_ai_ci": ("'ß'", "'z '"),
    }
    kinds = {**{kind: literals(kind, strict=False) for kind in TYPES}, **more}
    columns = ", ".join(f"`c{number}` {kind}" for number, kind in enumerate(kinds))
    told = TidbFeed(settings)
    created(told)
    for table in ("wide", "unsaid"):
        told.ddl(table, f"CREATE TABLE `{table}` (`id` int PRIMARY KEY, {columns})")
    number = max(map(len, kinds.values()))
    rows = [
        f"({id_}, {', '.join(some[id_ % len(some)] for some in kinds.values())})" for id_ in range(number)
    ]
    for row in rows:
        told.rows(f"INSERT INTO `wide` VALUES {row}")
    told.unsaid("SET SESSION time_zone = '+08:00', sql_mode = ''", "INSERT INTO unsaid SELECT * FROM wide")
    lake = FedLake(tmp_path, told, settings.port).run()
    snapshot_tables(lake.source(), Asked((f"{DATABASE}.unsaid",)), quiet)
    lake.beat()

    source = lake.source()
    asked = Compared(source, database_settings(source.config), Options(values=True), quiet)
    entries = verified(asked, repair=False)

    assert {entry["table"]: entry["different"] for entry in entries if entry["different"]} == {}
    assert {entry["table"].partition(".")[2]: entry["rows"] for entry in entries} == {
        "beat": 1,
        "wide": number,
        "unsaid": number,
    }
