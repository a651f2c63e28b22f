"""Moments of a lake that has changed since: epochs and floors were raised, tables dropped, emptied, merged,
or made again by hand.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehouse.api import LakehouseError, open_lake
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.epochs import raise_epoch
from lakehouse.spark.operations.maintain import maintain
from lakehouse.spark.operations.retention import raise_floor
from lakehouse.spark.table_versions import version_of
from tests.spark.gold.test_modes import resolved, run_all
from tests.support.feeds import TiCDC
from tests.support.lakes import quiet, run, shown, write_recording
from tests.support.open_feed import OpenFeed, T

CREATE = "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))"
# tables that wait for a snapshot, or are held
pytestmark = pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")


class Shop:
    """A table that gets a row at 2 and one at 5, in a lake."""

    def __init__(self, root: Path) -> None:
        self.root, self.place, self.feed = root, root / "lake", OpenFeed()
        self.feed.ddl(1, "t", CREATE)
        self.feed.row(2, "t", 1, v="a")
        self.feed.row(5, "t", 2, v="b")
        self.goes_on(6)

    def goes_on(self, at: int) -> None:
        self.feed.resolved(at)
        run(write_recording(self.root / "shop.jsonl", self.feed.messages), self.place)

    def ids(self, at: int) -> list[int]:
        return sorted(row.id for row in open_lake(str(self.place)).table_at("shop.t", T + at).collect())


def test_a_tso_of_a_former_epoch_is_not_above_all_of_that_epoch(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    raise_epoch(str(shop.place), "shop", "another cluster", None)
    shop.feed.row(9, "t", 3, v="c")
    shop.goes_on(10)

    assert [shop.ids(at) for at in (3, 5, 8, 9, 10)] == [[1], [1, 2], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert [row["id"] for row in shown(shop.place, tmp_path / "out", T + 3)["shop.t"]] == [1]
    for at, epoch in ((3, 0), (9, 1)):
        told = raise_floor(str(shop.place), "shop", str(T + at), None, yes=False, why="")
        assert told["floor"][:2] == [epoch, T + at]


def test_a_floor_that_was_raised_since_a_lake_was_opened_is_a_floor_for_it(
    spark: Any, tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    lake = open_lake(str(shop.place))
    assert lake.table_at("shop.t", T + 3).count() == 1

    raise_floor(str(shop.place), "shop", str(T + 5), None, yes=True, why="old")

    assert lake.table_at("shop.t", T + 5).count() == 2
    with pytest.raises(LakehouseError, match="expected a moment at or above silver's floor"):
        lake.table_at("shop.t", T + 3)


def test_a_version_of_a_table_that_was_made_again_by_hand_is_not_read_as_another_ones(
    spark: Any, tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    shop.feed.row(7, "t", 3, v="c")
    shop.goes_on(8)
    place = Lake(str(shop.place))
    shutil.rmtree(place.path("gold", "shop__t"))
    maintain(place.root, "shop", 7 * 86400, quiet)
    shop.feed.row(9, "t", 4, v="d")
    shop.goes_on(10)
    lake = open_lake(place.root)
    assert version_of(spark, place, "shop__t") >= lake.manifests()["number"].iloc[0]

    assert sorted(row.id for row in lake.table("shop.t").collect()) == [1, 2, 3, 4]
    for read in (
        lambda: lake.table("shop.t", manifest=0),
        lambda: lake.at_manifest(0),
        lambda: lake.views(at=str(T + 6)),
    ):
        with pytest.raises(LakehouseError, match="expected the Delta table that was published as version"):
            read()
    assert shop.ids(6) == [1, 2]


def test_a_table_of_several_is_all_of_them_at_any_moment_though_one_has_its_name(
    spark: Any, tmp_path: Path
) -> None:
    feed = TiCDC()
    for number in (1, 2):
        feed.ddl(number << 18, f"CREATE TABLE `o_{number}` (`id` INT PRIMARY KEY)", f"o_{number}")
        feed.row((4 + number) << 18, "INSERT", {"id": number}, table=f"o_{number}")
    path = write_recording(tmp_path / "r.jsonl", resolved(feed, 9).messages)
    run_all(tmp_path, "ticdc-canal-json", path, {"d.o_1": "tables: d.o_*"})
    lake = open_lake(str(tmp_path / "lake"))

    found = [
        sorted(row.id for row in one.collect()) for one in (lake.table("d.o_1"), lake.table_at("d.o_1", None))
    ]

    assert found == [[1, 2], [1, 2]]
    assert lake.table_at("d.o_1", 5 << 18).count() == 1


def test_a_table_of_several_is_not_mixed_with_another_one_of_its_name(spark: Any, tmp_path: Path) -> None:
    feed = TiCDC()
    for number, table in enumerate(("o_1", "o_2", "orders"), 1):
        feed.ddl(number << 18, f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)", table)
        feed.row((4 + number) << 18, "INSERT", {"id": number}, table=table)
    path = write_recording(tmp_path / "r.jsonl", resolved(feed, 9).messages)
    run_all(tmp_path, "ticdc-canal-json", path, {"d.orders": "tables: [d.o_1, d.o_2]"})

    then = shown(tmp_path / "lake", tmp_path / "out", 8 << 18)

    assert then["d.orders"] == shown(tmp_path / "lake", tmp_path / "out")["d.orders"]
    assert {name: [row["id"] for row in rows] for name, rows in then.items()} == {
        "d.orders": [1, 2],
        "s:d.orders": [3],
    }


def test_a_rows_history_goes_through_a_key_that_was_text(spark: Any, tmp_path: Path) -> None:
    types = {"id": "varchar(9)", "a": "varchar(9)"}
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, a VARCHAR(9))")
    for at, id in ((2, "007"), (3, "8")):
        feed.row(at << 18, "INSERT", {"id": id, "a": "x"}, types=types)
    feed.ddl(5 << 18, "ALTER TABLE t MODIFY id INT")
    new, old = {"id": 7, "a": "y"}, {"id": 7, "a": "x"}
    feed.row(6 << 18, "UPDATE", new, old, types={"id": "int", "a": "varchar(9)"})
    path = write_recording(tmp_path / "r.jsonl", resolved(feed, 9).messages)
    run_all(tmp_path, "ticdc-canal-json", path, {})
    lake = open_lake(str(tmp_path / "lake"))

    assert [(row.op, row.after.a) for row in lake.history_of("d.t", 7).collect()] == [
        ("insert", "x"),
        ("update", "y"),
    ]
