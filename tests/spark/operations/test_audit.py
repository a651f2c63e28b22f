"""`lakehouse audit`: what one layer has lost is found by what the next one says it took."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.audit import audit
from lakehouse.spark.operations.rebuild import rebuild_silver
from tests.support.lakes import quiet, run, write_recording
from tests.support.open_feed import OpenFeed

Damage = Callable[[Any, Lake], None]


@pytest.fixture(scope="module")
def whole(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three batches, with a dead letter, a duplicate, and a message that landed late below the others."""
    folder = tmp_path_factory.mktemp("audit")
    place, path, feed = folder / "lake", folder / "shop.jsonl", OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    feed.row(2, "t", 1, v="one")
    feed.row(3, "t", 2, v="two")
    feed.row(3, "t", 2, v="two")
    feed.messages.append(Message("shop", 0, 4, None, b"no message"))
    feed.resolved(4)
    run(write_recording(path, [one for one in feed.messages if one.offset != 1]), place)
    feed.row(5, "t", 3, v="three")
    feed.row(6, "t", 2, v="two again")
    feed.resolved(7)
    run(write_recording(path, feed.messages), place)
    return place


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> Lake:
    shutil.copytree(whole, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def findings(lake: Lake) -> list[str]:
    [entry] = audit(lake.root, None, quiet)
    return [re.sub(r"\(.*?\)", "(…)", each) for each in entry["findings"]]


def test_a_lake_that_is_whole_has_no_findings(lake: Lake) -> None:
    [entry] = audit(lake.root, "shop", quiet)

    assert entry == {
        "source": "shop",
        "batches": 3,
        "tables": 1,
        "not_compared": [],
        "findings": [],
    }


def test_a_silver_that_was_decoded_again_has_none_either(lake: Lake, whole: Path) -> None:
    rebuild_silver(lake.root, "shop", True, "to see what audit counts")
    run(whole.parent / "shop.jsonl", Path(lake.root))

    [entry] = audit(lake.root, "shop", quiet)

    assert entry["findings"] == []


def test_what_a_silver_that_was_decoded_again_has_lost_is_found(spark: Any, lake: Lake, whole: Path) -> None:
    rebuild_silver(lake.root, "shop", True, "to see what audit counts")
    run(whole.parent / "shop.jsonl", Path(lake.root))
    spark.sql(f"DELETE FROM {lake.ref('silver', 'shop_changes_g2')} WHERE key = '[1]'")

    assert any("silver holds" in one for one in findings(lake))


def delete(layer: str, table: str, condition: str) -> Damage:
    def damage(spark: Any, lake: Lake) -> None:
        spark.sql(f"DELETE FROM {lake.ref(layer, table)} WHERE {condition}")

    return damage


def twice(layer: str, table: str, condition: str) -> Damage:
    def damage(spark: Any, lake: Lake) -> None:
        rows = spark.sql(f"SELECT * FROM {lake.ref(layer, table)} WHERE {condition}").toArrow()
        spark.createDataFrame(rows).write.format("delta").mode("append").save(lake.path(layer, table))

    return damage


def restore(layer: str, table: str) -> Damage:
    def damage(spark: Any, lake: Lake) -> None:
        spark.sql(f"RESTORE TABLE {lake.ref(layer, table)} TO VERSION AS OF 0")

    return damage


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (delete("bronze", "shop", "offset = 5"), "bronze: batch"),
        (twice("bronze", "shop", "offset = 5"), "bronze shop/0: 1 of"),
        (delete("silver", "shop_changes", "position.p1 % 10 = 5"), "silver: batch"),
        (twice("silver", "shop_changes", "batch = 1"), "silver: batch 1 inserted"),
        (restore("silver", "shop_changes"), "silver: batch"),
        (delete("silver", "shop_dead_letters", "true"), "silver: 1 dead letters of no known table"),
        (delete("gold", "shop__t", "id = 2"), "gold shop__t: 1 rows"),
        (twice("gold", "shop__t", "id = 3"), "gold shop__t: 0 rows"),
    ],
)
def test_what_a_layer_lost_or_has_twice_is_found_with_its_place(
    spark: Any, lake: Lake, damage: Damage, where: str
) -> None:
    damage(spark, lake)

    assert any(each.startswith(where) for each in findings(lake)), findings(lake)
