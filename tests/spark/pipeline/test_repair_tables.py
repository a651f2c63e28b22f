"""`verify --repair` against a real MariaDB: each seeded fault is named to its row and mended, and no other
table is written to.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lakehouse.config.load import database_settings, load
from lakehouse.errors import LakehouseError
from lakehouse.lineage import READ_WHILE
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Verified
from lakehouse.sources.live.servers import MySqlServer
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import request
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline import repair_rows, repair_tables
from lakehouse.spark.pipeline.repair_rows import refuse_whole
from lakehouse.spark.pipeline.repair_tables import Differing, is_wrong, verified, verify_sources
from lakehouse.spark.verification.looks import Compared, Options
from lakehouse.spark.verification.run import TableResult
from lakehouse.verification.part import WholeOnly
from lakehouse.verification.rows import key_hash
from lakehouse.verification.verdict import COLUMNS, EXTRA, TABLE, Found
from tests.oracle.database import Database
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.lakes import write_recording
from tests.support.live_feed import BINLOG, FedLake, LiveFeed, created

ITEM = "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20), `w` decimal(10,2))"
BAG = "CREATE TABLE `bag` (`a` int, `b` varchar(20))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *BINLOG) as running:
        yield running


def shop(server: MariaDb, format_: str) -> LiveFeed:
    """Tables with a key and without one, and one that no fault is in."""
    told = created(LiveFeed(Database(server.port), format_))
    told.ddl("item", ITEM).ddl("bag", BAG).ddl("other", ITEM.replace("item", "other"))
    for table in ("item", "other"):
        rows = (f"({id_}, 'v{id_}', {id_}.5)" for id_ in range(1, 21))
        told.rows(f"INSERT INTO `{table}` VALUES {', '.join(rows)}")
    return told.rows("INSERT INTO `bag` VALUES (1, 'one'), (1, 'one'), (2, NULL)")


class Repaired:
    """A lake, its comparisons, and what they have written."""

    def __init__(self, spark: Any, lake: FedLake) -> None:
        self.spark, self.lake, self.before = spark, lake, dict[str, int]()
        self.said = list[str]()

    def verify(self, *, repair: bool = False, **options: Any) -> dict[str, dict[str, Any]]:
        """A comparison's entries by table; what the pipeline writes meanwhile is not counted."""
        source = self.lake.source()
        asked = Options(**{"pause": self.lake.beat, "wait": 8.0, **options})
        self.before = self.versions()
        settings = database_settings(source.config)
        entries = verified(Compared(source, settings, asked, self.said.append), repair=repair)
        return {entry["table"].removeprefix("shop."): entry for entry in entries}

    def versions(self) -> dict[str, int]:
        """How many commits each gold table has."""
        gold = self.lake.lake / "gold"
        return {
            folder.name.removeprefix("shop__"): len(list((folder / "_delta_log").glob("*.json")))
            for folder in gold.iterdir()
        }

    def written(self) -> set[str]:
        """The gold tables that have a commit which they had not before the last comparison; `beat` is
        written to that the feed goes on.
        """
        return {name for name, last in self.versions().items() if last != self.before.get(name)} - {"beat"}

    def operations(self, table: str) -> list[str]:
        """What Delta's history says of a gold table, newest first."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.lake.lake}/gold/shop__{table}`")
        return [row.operation for row in history.select("operation").collect()]

    def rows_written(self, table: str) -> tuple[str, list[int]]:
        """The operation of a gold table's last commit, and how many rows it inserted, updated, deleted."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.lake.lake}/gold/shop__{table}`")
        last = history.select("operation", "operationMetrics").first()
        kinds = ("Inserted", "Updated", "Deleted")
        return last.operation, [int(last.operationMetrics[f"numTargetRows{kind}"]) for kind in kinds]

    def manifest(self) -> Manifest:
        found = OpsLog(self.spark, Lake(str(self.lake.lake)), "shop").load().last(Manifest)
        assert found is not None
        return found

    def gold(self, table: str, statement: str) -> None:
        """Somebody writes to gold."""
        self.spark.sql(statement.format(f"delta.`{self.lake.lake}/gold/shop__{table}`"))


def faults(entry: dict[str, Any]) -> dict[str, str]:
    """The kind of each difference by its key."""
    return {one["key_hash"]: one["kind"] for one in entry["differences"]}


def test_what_somebody_has_written_to_gold_is_taken_back(
    spark: Any, server: MariaDb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Repaired(spark, FedLake(tmp_path, shop(server, "debezium"), server.port).run())
    lake.gold("item", "UPDATE {} SET v = 'forged' WHERE id = 3")
    lake.gold("item", "DELETE FROM {} WHERE id = 5")
    lake.gold("item", "INSERT INTO {} VALUES (1000, 'more', 1)")
    lake.gold("bag", "INSERT INTO {} VALUES (1, 'one'), (4, 'four')")

    found = lake.verify(repair=True)
    written, again = lake.written(), list[dict[str, Any]]()
    shop_yml = (tmp_path / "sources/shop.yml").read_text()
    (tmp_path / "sources/unpublished.yml").write_text(shop_yml)
    (tmp_path / "sources/alone.yml").write_text(
        "".join(line for line in shop_yml.splitlines(keepends=True) if not line.startswith("database:"))
    )
    with pytest.raises(LakehouseError, match=r"got others or no answer: unpublished$"):
        again.extend(verify_sources(load(tmp_path), (), None, repair=True))

    assert faults(found["item"]) == {
        key_hash(["3"]): "changed",
        key_hash(["5"]): "missing",
        key_hash(["1000"]): "extra",
    }
    assert faults(found["bag"]) == {key_hash(["1", "one"]): "repeated", key_hash(["4", "four"]): "extra"}
    repairs = {name: one["repaired_by"] for name, one in found.items() if "repaired_by" in one}
    assert repairs == {"item": ["restored"], "bag": ["restored"]}
    assert [one for one in found.values() if is_wrong(one)] == []
    assert written == {"item", "bag"}
    assert lake.operations("item")[0] == lake.operations("bag")[0] == "RESTORE"
    assert {(one["source"], one["different"], one["undecided"]) for one in again} == {("shop", 0, 0)}
    said = capsys.readouterr().err
    assert "alone: left out, its YAML names no database" in said
    assert "unpublished: gold has published nothing yet" in said
    published = {one.table: one for one in lake.manifest().tables}
    assert {one.state for one in published.values()} == {"exact"}
    assert published["item"].version == len(lake.operations("item")) - 1
    log = OpsLog(spark, Lake(str(lake.lake.lake)), "shop").load()
    assert [
        {one.name: one.different for one in each.tables if one.different} for each in log.all(Verified)
    ] == [
        {"shop.bag": 2, "shop.item": 3},
        {},
        {},
    ]


def test_what_was_published_wrongly_is_folded_again_and_a_truncate_that_was_not_told_is_mended(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody wrote to gold in the middle of a run's commits, and a manifest has named what came of it. A
    run goes on, which does what gold is asked.
    """
    told = shop(server, "debezium").ddl("cleared", "CREATE TABLE `cleared` (`id` int PRIMARY KEY)")
    told.rows("INSERT INTO `cleared` VALUES (1), (2), (3)")
    told.ddl("cleared", "TRUNCATE TABLE `cleared`", clears=True).skip()
    told.rows("UPDATE `other` SET `v` = 'lost' WHERE `id` = 4").skip()
    told.rows("DELETE FROM `other` WHERE `id` = 5").skip()
    told.rows("INSERT INTO `other` VALUES (50, 'lost', 1)").skip()
    lake = Repaired(spark, FedLake(tmp_path, told, server.port).run())
    lake.gold("item", "DELETE FROM {} WHERE id = 5")
    log, manifest = OpsLog(spark, Lake(str(lake.lake.lake)), "shop").load(), lake.manifest()
    tables = tuple(
        msgspec.structs.replace(one, version=one.version + (one.table == "item")) for one in manifest.tables
    )
    log.add(msgspec.structs.replace(manifest, tables=tables))

    with ExitStack() as goes_on:

        def asked(*given: Any, **more: Any) -> str | bool:
            goes_on.enter_context(layer_lock(spark, log.lake, "shop", ["gold"]))
            return request(*given, **more)

        def pipeline(_: float) -> None:
            goes_on.close()
            lake.lake.beat()

        monkeypatch.setattr(repair_tables, "request", asked)
        found = lake.verify(repair=True, pause=pipeline)
    written, versions = lake.written(), lake.versions()
    lake.lake.beat()
    taken = {name for name, last in lake.versions().items() if last != versions[name]} - {"beat"}
    counts = {name: lake.rows_written(name) for name in sorted(taken)}
    # what was mended goes on: no change seems to be lacking before these
    told.rows("INSERT INTO `other` VALUES (5, 'again', 1)").rows(
        "UPDATE `other` SET `v` = 'on' WHERE id = 50"
    )
    again = lake.verify()

    assert faults(found["item"]) == {key_hash(["5"]): "missing"}
    assert faults(found["other"]) == {
        key_hash(["4"]): "changed",
        key_hash(["5"]): "extra",
        key_hash(["50"]): "missing",
    }
    assert faults(found["cleared"]) == {key_hash([id_]): "extra" for id_ in "123"}
    repairs = {name: one["repaired_by"] for name, one in found.items() if "repaired_by" in one}
    assert repairs == {"item": ["rebuilt"], "cleared": ["rows"], "other": ["rows"]}
    assert [one for one in found.values() if is_wrong(one)] == []
    assert (written, taken) == ({"item"}, {"cleared", "other"})
    assert counts == {"cleared": ("MERGE", [0, 0, 3]), "other": ("MERGE", [1, 1, 1])}
    assert {one.state for one in lake.manifest().tables} == {"exact"}
    assert {name for name, one in again.items() if one["different"] or one["undecided"]} == set()


def test_a_repair_that_can_do_nothing_says_why() -> None:
    nothing: Any = None
    extra, table, columns = Found("k", EXTRA), Found("", TABLE), Found("", COLUMNS, columns=("c",))

    def held(*, overruled: bool = False, why: str | None = None) -> Any:
        lineage = SimpleNamespace(overruled=overruled)
        return SimpleNamespace(mode=SimpleNamespace(lineage=lineage), entry=SimpleNamespace(why=why))

    def why_not(table: Any, *found: Found) -> str | None:
        return repair_tables._why_not_read(TableResult(("shop", "t"), different=found), table)

    assert why_not(held(), table) == why_not(nothing, extra) == repair_tables.GONE
    assert why_not(held(overruled=True), extra) == repair_tables.OVERRULED
    assert why_not(held(why="3 rejected rows"), extra) == repair_tables.REJECTED
    assert why_not(held(), columns, extra) is None
    assert is_wrong({"different": 1}) and is_wrong({"different": 1, "not_repaired": "it is gone"})
    assert not is_wrong({"different": 1, "not_repaired": None}) and not is_wrong({"compared": False})


def test_rows_alone_are_not_read_of_a_table_that_they_would_not_make_exact() -> None:
    lost = "bronze has lost 3 of 9 records"

    def why(
        word: str = "upsert", state: str = "exact", said: str | None = None, inferred: Any = False
    ) -> str:
        lineage = SimpleNamespace(
            source_schema=inferred if inferred is None else SimpleNamespace(inferred=inferred)
        )
        table: Any = SimpleNamespace(
            mode=SimpleNamespace(word=word, lineage=lineage),
            entry=SimpleNamespace(state=state, why=said),
        )
        try:
            refuse_whole(table, {lost})
        except WholeOnly as error:
            return str(error)
        return ""

    assert why() == why(state="incomplete", said=lost) == ""
    assert why("soft").startswith("its mode is soft")
    assert why(inferred=True) == why(inferred=None) == "no statement has told its schema"
    assert why(state="incomplete", said="3 dead letters") == "it is incomplete: 3 dead letters"


def test_a_table_that_is_undecided_after_it_was_mended_is_not_called_repaired() -> None:
    first = TableResult(("shop", "t"), different=(Found("k", EXTRA),))
    one, other = Differing(first), Differing(first)

    one.take(TableResult(("shop", "t"), undecided=(Found("k", EXTRA),), why="it was idle"))
    other.take(TableResult(("shop", "t"), compared=False, why="its source table is gone"))

    assert (one.is_open, one.why_not) == (False, "compared again, 1 rows are undecided: it was idle")
    assert other.why_not == "it can't be compared any more: its source table is gone"


def test_what_silver_lacks_is_read_again_from_the_database(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    told = shop(server, "canal-protobuf")
    fed = FedLake(tmp_path, told, server.port)
    lake = Repaired(spark, fed)
    beats(fed)
    told.rows("UPDATE `item` SET `v` = 'vanishes' WHERE `id` = 7")
    beats(fed)
    write_recording(fed.recording, told.messages())
    fed.layers("bronze")
    gone = spark.sql(f"DELETE FROM delta.`{fed.lake}/bronze/shop` WHERE instr(value, 'vanishes') > 0")
    assert gone.first()[0] == 1
    fed.lost = b"vanishes"
    fed.layers("silver", "gold")
    lake.gold("item", "UPDATE {} SET v = 'forged' WHERE id = 3")

    found = lake.verify(repair=True)
    written = lake.written()
    versions = lake.versions()
    fed.beat()
    taken = {name for name, last in lake.versions().items() if last != versions[name]} - {"beat"}
    again = lake.verify()

    assert faults(found["item"]) == {key_hash(["3"]): "changed", key_hash(["7"]): "changed"}
    assert found["item"]["repaired_by"] == ["restored", "rows"], lake.said
    assert [one for one in found.values() if is_wrong(one)] == []
    assert (written, taken) == ({"item"}, {"item"})
    assert {name for name, one in again.items() if one["different"] or one["undecided"]} == set()


def test_rows_that_were_read_while_they_changed_are_exact_once_the_feed_is_behind_that(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is asked as a MySQL is. Rows are deleted and inserted between the place that they stand at
    and the one that they show, and a manifest is published between the two.
    """
    told = shop(server, "debezium")
    told.rows("UPDATE `item` SET `v` = 'lost' WHERE `id` IN (9, 10)", "DELETE FROM `item` WHERE `id` = 11")
    fed = FedLake(tmp_path, told.skip(), server.port).run()
    lake, before = Repaired(spark, fed), list[int]()

    def meanwhile(_: float) -> None:
        if not before:
            told.rows("INSERT INTO `beat` VALUES ()")
            before.append(len(told.messages()))
            told.rows("DELETE FROM `item` WHERE `id` = 9", "INSERT INTO `item` VALUES (11, 'again', 1)")

    @contextmanager
    def as_mysql(_: Any) -> Iterator[MySqlServer]:
        yield MySqlServer(meanwhile)

    monkeypatch.setattr(repair_rows, "server_of", as_mysql)
    found = lake.verify(repair=True)
    write_recording(fed.recording, told.messages()[: before[0]])
    fed.layers("bronze", "silver", "gold")
    between = {one.table: (one.state, one.why) for one in lake.manifest().tables}
    fed.beat()
    last = {one.table: (one.state, one.why) for one in lake.manifest().tables}
    again = lake.verify()

    assert set(faults(found["item"])) == {key_hash([id_]) for id_ in ("9", "10", "11")}
    assert found["item"]["repaired_by"] == ["rows"], lake.said
    assert between.pop("item") == ("incomplete", READ_WHILE)
    assert {state for state, _ in between.values()} == {state for state, _ in last.values()} == {"exact"}
    assert {name for name, one in again.items() if one["different"] or one["undecided"]} == set()


def beats(lake: FedLake) -> None:
    """Records of another table, so that those around them hold nothing else."""
    for _ in range(8):
        lake.told.rows("INSERT INTO `beat` VALUES ()")
