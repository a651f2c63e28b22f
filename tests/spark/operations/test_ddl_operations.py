"""An operator's day on a real lake: tables held by DDL, approved and skipped, rebuilt, imported schemas, a
new generation.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lakehouse.config.load import load
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.ddl_decisions import decide
from lakehouse.spark.operations.epochs import raise_epoch
from lakehouse.spark.operations.rebuild import rebuild_silver, rebuild_table
from lakehouse.spark.operations.schemas import import_schema
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.lossy_columns import fidelity
from lakehouse.spark.readers.show import show_all
from lakehouse.spark.readers.status import status
from tests.support.canal_feed import CanalFeed
from tests.support.engine import Memory

SOURCE = "format: ticdc-canal-json\ntime_zone: {zone}\nrecording: {path}\n"


def quiet(_: str) -> None:
    pass


class Shop:
    """A source in a folder of its own: its YAML files, the recording that grows, and the lake."""

    def __init__(self, folder: Path, **tables: str) -> None:
        self.folder, self.feed = folder, CanalFeed()
        self.recording, self.lake = folder / "shop.jsonl", folder / "lake"
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/tables").mkdir()
        self.zone("UTC")
        for table, text in tables.items():
            self.table(table, text)

    def zone(self, zone: str) -> None:
        (self.folder / "configs/sources/shop.yml").write_text(SOURCE.format(path=self.recording, zone=zone))

    def log(self, spark: Any) -> OpsLog:
        return OpsLog(spark, Lake(str(self.lake)), "shop").load()

    def manifest(self, spark: Any) -> Manifest:
        manifest = self.log(spark).last(Manifest)
        assert manifest is not None
        return manifest

    def table(self, name: str, text: str = "") -> None:
        (self.folder / f"configs/tables/d.{name}.yml").write_text(f"source: shop\n{text}")

    def run(self, *layers: str) -> dict[str, Any]:
        """Land what the feed has by now and run; returns the outcome's tables by name."""
        if self.feed.news:
            self.feed.resolved()
        lines = [
            {"topic": m.topic, "partition": m.partition, "offset": m.offset, "value_b64": _b64(m.value)}
            for m in self.feed.messages
        ]
        self.recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        config = load(self.folder / "configs")
        (outcome,) = run(config, layers or ("bronze", "silver", "gold"), True, (), str(self.lake), quiet)
        return {entry["table"]: entry for entry in outcome["tables"]} | {"": outcome}

    def shown(self, at: int | None = None) -> dict[str, list[dict[str, Any]]]:
        target = self.folder / "shown"
        shutil.rmtree(target, ignore_errors=True)
        show_all(str(self.lake), target, [] if at is None else [str(at)])
        files = sorted(target.glob("*.jsonl"))
        return {
            path.name.removesuffix(".jsonl"): [json.loads(line) for line in path.read_text().splitlines()]
            for path in files
        }

    def silver(self) -> Memory:
        """The same feed in plain Python."""
        return Memory("ticdc-canal-json", {"time_zone": "UTC"}).add(self.feed.messages)


def _b64(data: bytes | None) -> str | None:
    import base64

    return None if data is None else base64.b64encode(data).decode()


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Callable[..., Shop]:
    return lambda **tables: Shop(tmp_path, **tables)


def test_a_held_table_waits_and_goes_on_where_an_operator_says_while_the_others_are_exact(
    shop: Callable[..., Shop],
) -> None:
    place = shop(a="on_ddl: {drop_column: hold}\n", b="", c="on_ddl: {truncate_table: reject}\n")
    for name in "abc":
        place.feed.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", name).put(name, {"id": 1, "v": 10})
    assert {entry["state"] for name, entry in place.run().items() if name} == {"exact"}

    place.feed.ddl("ALTER TABLE a DROP COLUMN v", "a").put("a", {"id": 2}).ddl(
        "ALTER TABLE b WOBBLE", "b"
    ).put("b", {"id": 2, "v": 20})
    held = place.run()
    assert [(held[f"d.{name}"]["state"], held[f"d.{name}"]["why"]) for name in "ac"] == [
        ("behind", "held by a DDL: on_ddl says hold for drop_column"),
        ("exact", None),
    ]
    assert held["d.b"]["state"] == "behind"
    assert place.shown() == {
        "d.a": [{"id": 1, "v": 10}],
        "d.b": [{"id": 1, "v": 10}],
        "d.c": [{"id": 1, "v": 10}],
    }
    assert place.shown(place.feed.last) == place.shown()
    with pytest.raises(LakehouseError, match="c: expected a table that a DDL holds, it is exact"):
        decide(str(place.lake), "d.c", "skip", "no reason")
    with pytest.raises(
        LakehouseError, match="this DDL can't be applied as it stands: say what it means with --as SQL"
    ):
        decide(str(place.lake), "d.b", "approve", "no reason")
    with pytest.raises(ConfigError, match="--as: expected a statement that can be read"):
        decide(str(place.lake), "d.b", "approve", "no reason", "ALTER TABLE b WOBBLE TWICE")

    assert [decide(str(place.lake), "d.a", "approve", "agreed")["recorded"] for _ in range(2)] == [
        True,
        False,
    ]
    assert decide(str(place.lake), "d.b", "skip", "an option of the storage engine")["recorded"]
    freed = place.run()

    assert (freed[""]["silver_batches"], freed[""]["gold"]) == (0, "published")
    assert {entry["state"] for name, entry in freed.items() if name} == {"exact"}
    assert place.shown() == {
        "d.a": [{"id": 1}, {"id": 2}],
        "d.b": [{"id": 1, "v": 10}, {"id": 2, "v": 20}],
        "d.c": [{"id": 1, "v": 10}],
    }
    place.feed.ddl("TRUNCATE TABLE c", "c").put("a", {"id": 3})
    with pytest.raises(
        LakehouseError, match=r"shop: on_ddl rejects a DDL of d\.c, all else is published: `ddl skip` it"
    ):
        place.run()
    assert place.shown()["d.a"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    with pytest.raises(
        LakehouseError, match="its on_ddl rejects this DDL: change the YAML, or `lakehouse ddl skip` it"
    ):
        decide(str(place.lake), "d.c", "approve", "no reason")
    decide(str(place.lake), "d.c", "skip", "by mistake upstream")
    assert place.run("gold")["d.c"]["notes"] == ["a DDL was ignored: truncate_table"]
    assert place.run("gold")[""]["gold"] == "nothing new"
    assert status(load(place.folder / "configs"), str(place.lake))[0]["tables"][2]["state"] == "exact"


def test_a_rebuilt_table_equals_the_live_one_after_renames_and_replaces_a_wrong_one_in_one_commit(
    spark: Any, shop: Callable[..., Shop]
) -> None:
    place = shop(a="", b="")
    place.feed.ddl("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "a").put("a", {"id": 1, "v": 10}).put(
        "a", {"id": 2, "v": 20}
    )
    place.feed.ddl("CREATE TABLE b (id INT PRIMARY KEY, w INT)", "b").put("b", {"id": 1, "w": 5})
    place.run()
    then = place.feed.last
    place.feed.ddl("RENAME TABLE a TO x, b TO a, x TO b", "a").ddl(
        "ALTER TABLE b CHANGE v u BIGINT", "b"
    ).put("b", {"id": 3, "u": 30})
    place.feed.ddl("DROP TABLE a", "a").ddl("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "a").put(
        "a", {"id": 9, "n": 90}
    )
    place.run()
    live, lake = place.shown(), str(place.lake)
    entry = next(one for one in place.manifest(spark).tables if one.table == "b")
    same = {"equal": 3, "only_live": 0, "only_rebuilt": 0, "columns_that_differ": [], "lacking": []}
    assert rebuild_table(lake, "d.b", None, False) == {
        "table": "d.b",
        "compared_with": "the published table",
        **same,
        "replaced": False,
    }
    lines: list[str] = []
    before = rebuild_table(lake, "d.b", str(then), False, progress=lines.append)
    assert lines == ["rebuild d.b: folding it again from silver, to compare with the manifest of that moment"]
    assert before["compared_with"] == "the manifest of that moment"
    assert (before["equal"], before["only_live"], before["only_rebuilt"], before["columns_that_differ"]) == (
        2,
        0,
        0,
        [],
    )
    assert not (place.lake / "gold" / f"_rebuild_{entry.gold}").exists()

    spoil(spark, place, entry)
    assert place.shown()["d.b"] != live["d.b"]
    spoilt = rebuild_table(lake, "d.b", None, True, "it was spoilt")

    assert (spoilt["equal"], spoilt["only_live"], spoilt["only_rebuilt"], spoilt["replaced"]) == (
        2,
        0,
        1,
        True,
    )
    after = next(one for one in place.manifest(spark).tables if one.table == "b")
    assert after.version == entry.version + 2
    assert place.shown() == live
    assert {one.table for one in place.manifest(spark).tables} == {"a", "b"}
    assert place.run()[""]["gold"] == "nothing new"


def spoil(spark: Any, place: Shop, entry: TableEntry) -> None:
    """A row is lost in the Delta table, and the manifest names that version."""
    log, manifest = place.log(spark), place.manifest(spark)
    spark.sql(f"DELETE FROM {log.lake.ref('gold', entry.gold)} WHERE id = 2")
    tables = tuple(replace(one, version=one.version + (one.gold == entry.gold)) for one in manifest.tables)
    log.add(replace(manifest, tables=tables))


@pytest.mark.long
def test_silver_is_built_again_after_a_setting_was_mended_with_imported_schemas_and_epochs_kept(
    spark: Any, shop: Callable[..., Shop]
) -> None:
    place = shop(t="", e="")
    lake = str(place.lake)
    place.zone("Asia/Shanghai")
    place.feed.ddl("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL)").put(
        "t", {"id": 1, "at": "2026-01-01 08:00:00"}, at="timestamp"
    )
    place.feed.put("e", {"id": 1, "size": 2}, size="enum").put("t", {"id": 7, "at": None}, at="timestamp")
    kept = place.feed.last - 10
    assert place.run()["d.e"]["notes"] == ["no CREATE was seen: its schema is inferred from the messages"]
    assert place.shown() == {
        "d.e": [{"id": 1, "size": None, "_raw_size": "2"}],
        "d.t": [{"id": 1, "at": "2026-01-01 00:00:00Z"}, {"id": 7, "at": None}],
    }

    (told,) = fidelity(lake, "d.e")
    assert told["schema"] == "inferred"
    assert {
        name: told["columns"][1][name] for name in ("column", "null_instead_of", "rows_in_companion")
    } == {
        "column": "size",
        "null_instead_of": "numbers whose labels no schema has told",
        "rows_in_companion": 1,
    }

    create = "CREATE TABLE d.e (id INT PRIMARY KEY, size ENUM('small', 'large'))"
    assert [import_schema(lake, "shop", create, str(place.feed.last))[0]["new"] for _ in range(2)] == [
        True,
        False,
    ]
    raise_epoch(lake, "shop", "the cluster was restored", kept)
    place.zone("UTC")
    place.feed.last = kept  # the restored cluster's clock goes on from there
    place.feed.put("t", {"id": 2, "at": "2026-01-01 08:00:00"}, at="timestamp")
    place.run()
    assert place.shown() == {
        "d.e": [{"id": 1, "size": "large"}],
        "d.t": [{"id": 1, "at": "2026-01-01 00:00:00Z"}, {"id": 2, "at": "2026-01-01 08:00:00Z"}],
    }

    lines: list[str] = []
    told = rebuild_silver(lake, "shop", False, progress=lines.append)
    assert lines[0] == "rebuild shop: decoding bronze into generation 2 of silver"
    assert lines[1].startswith("silver  shop: batch 1: ")
    assert lines[-1] == "rebuild shop: comparing both generations"
    assert (told["equal"], told["only_old"], told["only_new"], told["switched"]) == (3, 1, 1, False)
    assert place.run()[""]["gold"] == "nothing new"
    assert rebuild_silver(lake, "shop", True, "the zone was wrong")["switched"]
    assert place.log(spark).generation == 2

    again = place.run()
    assert (again[""]["silver_batches"], again[""]["gold"]) == (0, "published")
    expected = {
        "d.e": [{"id": 1, "size": "large"}],
        "d.t": [{"id": 1, "at": "2026-01-01 08:00:00Z"}, {"id": 2, "at": "2026-01-01 08:00:00Z"}],
    }
    assert place.shown() == expected
    place.feed.put("t", {"id": 3, "at": None}, at="timestamp")
    assert place.run()[""]["silver_batches"] == 1
    assert place.shown()["d.t"] == [*expected["d.t"], {"id": 3, "at": None}]


@pytest.mark.long
def test_rows_that_no_schema_fits_wait_for_their_ddl_and_are_inferred_after_the_timeout(
    spark: Any, shop: Callable[..., Shop]
) -> None:
    place = shop(t="", u="")
    for name in "tu":
        place.feed.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY)", name).put(name, {"id": 1}).put(
            name, {"id": 2, "c": 5}
        )
    held = place.run()
    assert [(held[f"d.{name}"]["state"], held[f"d.{name}"]["why"]) for name in "tu"] == [
        ("behind", "rows have columns that no DDL has added yet: c")
    ] * 2
    assert place.shown() == {"d.t": [{"id": 1}], "d.u": [{"id": 1}]}
    with pytest.raises(
        LakehouseError,
        match="its rows have columns that no DDL has added: set drift_timeout, or `lakehouse schema import`",
    ):
        decide(str(place.lake), "d.t", "approve", "no reason")

    late = place.feed.messages[2]  # the row of t with c; its DDL belongs right before it
    place.feed.at(json.loads(late.value or b"")["_tidb"]["commitTs"] - 5).ddl(
        "ALTER TABLE t ADD COLUMN c INT", "t"
    )
    place.feed.put("t", {"id": 3, "c": 6})
    with (place.folder / "configs/sources/shop.yml").open("a") as source:
        source.write("drift_timeout: 10h\n")
    assert {name: entry["state"] for name, entry in place.run().items() if name} == {
        "d.t": "exact",
        "d.u": "behind",
    }
    assert place.shown()["d.t"] == [{"id": 1, "c": None}, {"id": 2, "c": 5}, {"id": 3, "c": 6}]

    place.zone("UTC")
    with (place.folder / "configs/sources/shop.yml").open("a") as source:
        source.write("drift_timeout: 1ms\n")
    assert place.run()["d.u"]["notes"] == ["no DDL has added c: inferred from the rows"]
    assert place.shown()["d.u"] == [{"id": 1, "c": None}, {"id": 2, "c": 5}]


@pytest.mark.long
def test_silver_is_not_built_again_from_a_bronze_that_lost_its_beginning(
    spark: Any, shop: Callable[..., Shop]
) -> None:
    place = shop(t="")
    place.feed.ddl("CREATE TABLE t (id INT PRIMARY KEY)").put("t", {"id": 1})
    place.run("bronze", "silver")
    spark.sql(f"DELETE FROM {Lake(str(place.lake)).ref('bronze', 'shop')} WHERE offset < 1")

    with pytest.raises(
        LakehouseError,
        match="shop: bronze no longer holds the beginning of t/0: silver can't be built from it",
    ):
        rebuild_silver(str(place.lake), "shop", False)
