"""Losses that were seeded, each with its own guard switched off: what the layers hold does not add up, and no
table that they concern is called exact.
"""

import shutil
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.formats import assemble
from lakehouse.lineage import Lineage
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Dismissed
from lakehouse.sources.file_systems import LocalFiles
from lakehouse.sources.recording import read_recording
from lakehouse.sources.recording import write_recording as write_with_headers
from lakehouse.spark import limits
from lakehouse.spark.bronze import kafka, recordings, storage
from lakehouse.spark.change_log.changes import named_changes
from lakehouse.spark.fold.silver_files import ChangeFiles, SilverFiles
from lakehouse.spark.gold import new_changes
from lakehouse.spark.gold import table as gold_table
from lakehouse.spark.gold import tables as gold_tables
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters, list_dead_letters
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.one_pass import LAYERS, Stop, run_once
from lakehouse.spark.pipeline.try_recording import source_of_path
from lakehouse.spark.silver.run import next_plan, run_batch
from tests.spark.bronze.test_kafka_faults import TOLD, Shop
from tests.support.lakes import quiet, silver_rows, write_recording
from tests.support.open_feed import OpenFeed
from tests.support.paths import DATA
from tests.support.sink_trees import old_layout, schema_file
from tests.whole_path.test_eight_formats import write_tree

CREATE = "CREATE TABLE `shop`.`%s` (id INT PRIMARY KEY, v VARCHAR(20))"
States = dict[str, tuple[str, str | None]]


class Feed:
    """A recording that grows, and a lake; layers run one by one."""

    def __init__(self, spark: Any, root: Path, format_: str = "ticdc-open", path: str = "shop.jsonl") -> None:
        self.spark, self.path, self.place, self.format = spark, root / path, root / "lake", format_
        self.feed, self.options = OpenFeed(), dict[str, str]()

    @property
    def lake(self) -> Lake:
        return Lake(str(self.place))

    @property
    def log(self) -> OpsLog:
        return OpsLog(self.spark, self.lake, self.source().name).load()

    def source(self) -> Any:
        return source_of_path(self.path, self.format, self.options, self.lake, consistency="resolved")

    def sent(self, messages: Iterable[Message] | None = None) -> None:
        write_recording(self.path, self.feed.messages if messages is None else messages)

    def run(self, *layers: str) -> dict[str, Any]:
        return run_once(self.spark, self.source(), layers or LAYERS, Stop(), progress=quiet)

    def states(self) -> States:
        manifest = self.log.last(Manifest)
        assert manifest is not None
        return {entry.name: (entry.state, entry.why) for entry in manifest.tables}

    def begins(self, *tables: str) -> None:
        """Two rows of each table, published."""
        for table in tables:
            self.feed.ddl(1, table, CREATE % table)
            for number in (1, 2):
                self.feed.row(1 + number, table, number, v=f"{table}{number}")
        self.feed.resolved(4)

    def goes_on(self, ts: int, *tables: str) -> None:
        for table in tables:
            self.feed.row(ts, table, ts, v="later")
        self.feed.resolved(ts + 1)


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


# --- silver and gold


def crossed(table: pa.Table) -> dict[tuple[str, str], pa.Table]:
    """Slices by name, and two tables have each other's."""
    found = new_changes_rows_by_name(table)
    names = sorted(found)
    if len(names) < 2:
        return found
    return {**found, names[0]: found[names[1]], names[1]: found[names[0]]}


new_changes_rows_by_name = new_changes.rows_by_name


def without_a_look(rows: pa.Table, lineage: Lineage, at: Any) -> Iterator[Any]:
    """What changes_in was: foreign rows are passed over."""
    names = {interval.name for interval in lineage.intervals}
    return (change for name, change, _ in named_changes(rows) if name in names and change.position <= at)


@pytest.fixture
def slices_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_changes, "rows_by_name", crossed)
    monkeypatch.setattr(gold_tables, "changes_in", without_a_look)
    monkeypatch.setattr(gold_table, "changes_in", without_a_look)


def test_g1_tables_that_are_folded_from_each_others_rows(shop: Feed, slices_crossed: None) -> None:
    shop.begins("a", "b", "c")
    shop.sent()
    shop.run()

    found = shop.states()
    assert found["shop.c"] == ("exact", None)
    for name in ("shop.a", "shop.b"):
        assert found[name][0] == "incomplete"
        assert found[name][1].startswith("0 of 2 changes that silver has of it were folded"), found  # type: ignore[union-attr]


def test_g1_a_large_window_that_is_dealt_out_wrongly(
    shop: Feed, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    shop.begins("a", "b", "c")
    shop.sent()
    shop.run()
    assert {state for state, _ in shop.states().values()} == {"exact"}

    request.getfixturevalue("slices_crossed")
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)
    shop.goes_on(10, "a", "b", "c")
    shop.sent()
    shop.run()

    found = shop.states()
    assert found["shop.c"] == ("exact", None)
    for name in ("shop.a", "shop.b"):
        assert found[name][0] == "incomplete"
        assert found[name][1].startswith("2 of 3 changes that silver has of it were folded"), found  # type: ignore[union-attr]


def test_g1_a_large_fold_whose_workers_miss_a_file(shop: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)
    shop.begins("a", "b")
    shop.sent()
    shop.run()
    assert {state for state, _ in shop.states().values()} == {"exact"}

    whole = SilverFiles.of

    def without_one(files: SilverFiles, *told: Any, **images: Any) -> ChangeFiles | None:
        found = whole(files, *told, **images)
        assert found is not None
        return found._replace(names=found.names[:-1])

    monkeypatch.setattr(SilverFiles, "of", without_one)
    shop.feed.ddl(8, "c", CREATE % "c")
    shop.goes_on(10, "a", "c")
    shop.sent()
    shop.run()

    found = shop.states()
    assert found["shop.b"] == ("exact", None)
    for name, text in (("shop.a", "2 of 3"), ("shop.c", "0 of 1")):
        assert found[name][0] == "incomplete"
        assert found[name][1].startswith(f"{text} changes that silver has of it were folded"), found  # type: ignore[union-attr]


# --- bronze and silver


def test_s1_two_runs_that_write_the_same_batch(shop: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    monkeypatch.setattr(OpsLog, "_refuse_rival", lambda *_: None)
    settings = shop.source().silver

    shop.goes_on(10, "a")
    shop.sent()
    shop.run("bronze")
    one, other = shop.log, shop.log
    plan = next_plan(one, settings)
    shop.goes_on(12, "a")
    shop.sent()
    shop.run("bronze")
    wider = next_plan(other, settings)
    assert plan is not None
    assert wider is not None
    assert (plan.batch, wider.batch) == (2, 2)
    run_batch(one, settings, plan)
    run_batch(other, settings, wider)
    shop.run("gold")

    state, why = shop.states()["shop.a"]
    told = "silver has 5 changes, of which its batches have inserted 4: "
    assert (state, (why or "")[: len(told)]) == ("incomplete", told)
    found = shop.lake.read(shop.spark, "gold", "shop__a").select("id").collect()
    assert sorted(row.id for row in found) == [1, 2, 10, 12]


def test_s7_messages_that_land_below_those_that_were_read(
    shop: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "landed_below", lambda *_: ())
    shop.begins("a")
    whole = list(shop.feed.messages)
    shop.sent(message for message in whole if message.offset != 2)
    shop.run()
    left_out = "1 offsets of shop/0 from 2 on are in no recording"
    assert shop.states()["shop.a"] == ("incomplete", left_out)

    shop.sent()
    shop.run()

    state, why = shop.states()["shop.a"]
    assert state == "incomplete"
    assert why is not None
    assert why.startswith("bronze: batch 1 of silver counted 3 messages, and bronze holds 4 in its ranges")


def delete(feed: Feed) -> None:
    feed.spark.sql(f"DELETE FROM {feed.lake.ref('bronze', 'shop')} WHERE offset = 5")


def restore(feed: Feed) -> None:
    feed.spark.sql(f"RESTORE TABLE {feed.lake.ref('bronze', 'shop')} TO VERSION AS OF 0")


@pytest.mark.parametrize("damage", [delete, restore])
@pytest.mark.parametrize("when", ["before silver", "after silver"])
def test_s8_records_that_bronze_had_and_has_no_more(shop: Feed, damage: Any, when: str) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    shop.goes_on(10, "a")
    shop.sent()
    shop.run("bronze")
    if when == "after silver":
        shop.run("silver")
    damage(shop)
    shop.goes_on(20, "a")
    shop.sent()
    for layer in LAYERS:
        shop.run(layer)

    state, why = shop.states()["shop.a"]
    assert state == "incomplete"
    assert why is not None
    assert why.startswith("bronze has lost "), why


def test_what_bronze_has_lost_is_told_until_it_is_restored_or_given_up(shop: Feed) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    ref, root = shop.lake.ref("bronze", "shop"), shop.lake.root
    shop.spark.sql(f"DELETE FROM {ref} WHERE offset = 2")
    shop.goes_on(10, "a")
    shop.sent(message for message in shop.feed.messages if message.offset != 2)
    shop.run()
    hole, letter = sorted(list_dead_letters(root, "shop", "lost"), key=itemgetter("message"))
    assert (hole["open"], hole["message"]) == (True, "1 offsets of shop/0 from 2 on are in no recording")
    assert (letter["open"], letter["message"]) == (True, shop.states()["shop.a"][1])
    assert letter["message"].startswith("bronze has lost 1 of 6 records (DELETE made version 1): restore")

    shop.spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF 0")
    shop.goes_on(20, "a")
    shop.sent()
    shop.run()  # it lands what the restore took, which looks like new records
    assert shop.states()["shop.a"][0] == "incomplete"
    assert dismiss_dead_letters(root, "shop", "lost", "landed again")["dismissed"] == 1
    shop.run("gold")
    assert shop.states()["shop.a"] == ("exact", None)
    shop.goes_on(30, "a")
    shop.sent()
    shop.run()
    left = [letter for letter in list_dead_letters(root, "shop", "lost") if letter["open"]]
    assert (shop.states()["shop.a"], left) == (("exact", None), [])


def test_what_bronze_has_lost_unseen_is_not_given_up_with_what_had_been_told(shop: Feed) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    shop.goes_on(10, "a")
    shop.sent()
    shop.run("bronze")
    shop.spark.sql(f"DELETE FROM {shop.lake.ref('bronze', 'shop')} WHERE offset = 4")
    shop.log.add(Dismissed(code=None, batch=1, gaps=0, why="a letter of long ago"))
    shop.run("silver")
    shop.run("gold")

    state, why = shop.states()["shop.a"]
    assert (state, (why or "")[:30]) == ("incomplete", "bronze has lost 1 of 6 records")


def lose_a_change(shop: Feed) -> None:
    """Somebody deletes the row that was sent at 14."""
    changes = shop.lake.ref("silver", "shop_changes")
    shop.spark.sql(f"DELETE FROM {changes} WHERE commit_ts % 10 = 4 AND batch < 3")


def test_changes_that_silver_has_lost_before_gold_has_ever_run(shop: Feed) -> None:
    shop.begins("a")
    shop.goes_on(14, "a")
    shop.sent()
    shop.run("bronze")
    shop.run("silver")
    lose_a_change(shop)
    shop.run("gold")

    state, why = shop.states()["shop.a"]
    assert (state, (why or "")[:22]) == ("incomplete", "silver has lost 1 of 3")


def test_rows_of_a_batch_that_is_under_way_make_up_for_none_that_silver_has_lost(shop: Feed) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    shop.goes_on(14, "a")
    shop.sent()
    shop.run("bronze")
    shop.run("silver")
    changes = shop.lake.read(shop.spark, "silver", "shop_changes")
    shop.lake.append(changes.withColumn("batch", F.lit(3).cast("bigint")), "silver", "shop_changes")
    lose_a_change(shop)
    shop.run("gold")

    state, why = shop.states()["shop.a"]
    assert (state, (why or "")[:22]) == ("incomplete", "silver has lost 1 of 3")


def test_rows_of_a_dropped_table_under_the_same_name_are_no_loss(shop: Feed) -> None:
    """They are counted under the name, and are none of the new table's."""
    shop.begins("a", "b")
    shop.feed.ddl(5, "a", "DROP TABLE `shop`.`a`")
    shop.feed.ddl(6, "a", CREATE % "a")
    shop.feed.row(7, "a", 7, v="new")
    shop.feed.ddl(8, "b", "RENAME TABLE `shop`.`b` TO `shop`.`c`")
    shop.feed.row(9, "c", 9, v="renamed")
    shop.feed.row(12, "c", 12, v="above the watermark")
    shop.feed.resolved(10)
    shop.sent()
    shop.run()
    shop.feed.resolved(13)
    shop.goes_on(20, "a", "c")
    shop.sent()
    shop.run()

    manifest = shop.log.last(Manifest)
    assert manifest is not None
    counts = {entry.name: entry.changes for entry in manifest.tables if entry.state == "exact"}
    assert counts == {"shop.a": (2, 2), "shop.c": (5, 0)}


def test_s8_bronze_that_was_put_back_from_a_copy(shop: Feed) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    shutil.copytree(shop.place / "bronze/shop", shop.place / "copy")
    shop.goes_on(10, "a")
    shop.sent()
    shop.run()
    shutil.rmtree(shop.place / "bronze/shop")
    shutil.copytree(shop.place / "copy", shop.place / "bronze/shop")
    shop.spark.catalog.clearCache()
    shop.goes_on(20, "a")
    shop.sent(message for message in shop.feed.messages if message.offset not in (4, 5))
    shop.run()

    state, why = shop.states()["shop.a"]
    assert (state, (why or "")[:6]) == ("incomplete", "bronze")


# --- what the producer numbered


def test_s2_a_file_that_is_landed_empty(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, read = sink_of(spark, tmp_path), LocalFiles.read
    rows = [f'"I","t","k",60{number},{number},{number}0' for number in (1, 2)]
    write_tree(sink.path, old_layout(TABLE, rows[0]))
    (sink.path / "k/t/500/CDC000002.csv").write_bytes(f"{rows[1]}\r\n".encode())
    monkeypatch.setattr(storage, "is_whole", lambda *_: True)

    looks: list[str] = []

    def fails(files: LocalFiles, path: str, start: int = 0) -> bytes:
        """The second look at the file, which is to land it, finds it gone."""
        looks.append(path)
        return b"" if path.endswith("2.csv") and looks.count(path) > 1 else read(files, path, start)

    monkeypatch.setattr(LocalFiles, "read", fails)
    sink.run()

    state, why = sink.states()["k.t"]
    assert state == "incomplete"
    assert why is not None
    name = sink.source().name
    assert why.startswith(f"1 records of {name}/0 are not as long as what was read (the first at offset 3")


def test_s4_a_numbered_file_that_the_sink_lacks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(spark, tmp_path)
    rows = [f'"I","t","k",60{number},{number},{number}0' for number in (1, 3)]
    write_tree(sink.path, old_layout(TABLE, rows[0]))
    (sink.path / "k/t/500/CDC000003.csv").write_bytes(f"{rows[1]}\r\n".encode())
    monkeypatch.setattr(storage, "record_missing", lambda *_: None)

    sink.run()

    state, why = sink.states()["k.t"]
    assert (state, (why or "")[:41]) == ("incomplete", "the storage sink lacks k/t/500/CDC000002.")


def test_tables_of_the_same_columns_that_a_sink_begins_with_have_each_their_schema(
    spark: Any, tmp_path: Path
) -> None:
    sink = sink_of(spark, tmp_path)
    tree = {"metadata": b'{"checkpoint-ts": 900}'}
    for name in ("a", "b"):
        tree[f"k/{name}/500/schema.json"] = schema_file(500, "", name, "k", "id", "a")
        tree[f"k/{name}/500/CDC000001.csv"] = f'"I","{name}","k",601,1,10\r\n'.encode()
    write_tree(sink.path, tree)

    sink.run()

    told = silver_rows(spark, sink.place, sink.source().name, "schema_changes")
    assert sorted(row["table"] for row in told) == ["a", "b"]


TABLE = "CREATE TABLE `k`.`t` (`id` INT NOT NULL,`a` INT,PRIMARY KEY(`id`))"


def sink_of(spark: Any, root: Path) -> Feed:
    """The source of a storage sink."""
    sink = Feed(spark, root, "ticdc-storage", "sink")
    sink.options = {"protocol": "csv", "include-commit-ts": "true"}
    return sink


def test_s3_records_that_a_feed_skips(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {kind: code for kind, code in assemble._CODES.items() if kind != "gap"}
    monkeypatch.setattr(assemble, "_CODES", codes)
    told = list(read_recording(DATA / "dts/inventory/stream.jsonl.gz"))
    dts = Feed(spark, tmp_path, "tencent-dts")
    write_with_headers([*told[:40], *told[41:]], dts.path)

    dts.run()

    found = dts.states()
    assert {state for state, _ in found.values()} == {"incomplete"}, found
    assert all(
        "1 records of" in (why or "") and "by the numbers" in (why or "") for _, why in found.values()
    ), found


def test_messages_that_landed_below_after_silver_had_looked_for_them(
    shop: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.begins("a")
    first, late, *others = shop.feed.messages
    shop.sent([first, *others])
    shop.run()
    save = Lake._save

    def dies(lake: Lake, write: Any, layer: str, name: str) -> None:
        if layer == "bronze":
            monkeypatch.undo()
            shop.run("silver")  # beside this run, which has said what is about to land
            save(lake, write, layer, name)
            raise MemoryError
        save(lake, write, layer, name)

    monkeypatch.setattr(Lake, "_save", dies)
    shop.sent([first, late, *others])
    with pytest.raises(MemoryError):
        shop.run("bronze")
    shop.run()

    assert shop.states() == {"shop.a": ("exact", None)}
    assert shop.lake.read(shop.spark, "gold", "shop__a").count() == 2


def test_another_message_in_the_place_of_one_that_was_read(shop: Feed) -> None:
    shop.begins("a")
    shop.sent()
    shop.run()
    shop.feed = OpenFeed()  # the topic was created anew, and recorded again
    shop.begins("orders")
    shop.sent()

    with pytest.raises(LakehouseError, match="shop/0: expected the message that was read at offset 0 before"):
        shop.run()


# --- the broker and bronze


def test_s5_a_batch_that_delta_skips(
    spark: Any, broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, broker, topic, tmp_path)
    shop.produce(TOLD)
    shop.run()
    monkeypatch.setattr(kafka, "_is_whole", lambda *_: True)
    for part in ("offsets", "commits"):
        shutil.rmtree(Path(shop.lake, "_checkpoints", "bronze_shop_0", part))
    shop.produce(TOLD[:3])
    shop.run()
    shop.produce(TOLD[3:6])
    shop.run()

    found = shop.states()
    assert {state for state, _ in found.values()} == {"incomplete"}, found
    assert any("were read and are not in bronze" in (why or "") for _, why in found.values()), found
