"""Expectations before gold: a failing row in every action mode, and that gold stays a pure fold over silver and the suite."""

import json
from pathlib import Path
from typing import Any

import pytest
from orders_feed import BASE, OrdersFeed

from lakehouse.config import load
from lakehouse.errors import LakehouseError
from lakehouse.spark import gold as spark_gold
from lakehouse.spark import gold_table
from lakehouse.spark.admin import rebuild_table
from lakehouse.spark.data_docs import check_lake
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline import run
from lakehouse.spark.rejected import list_rejected, requeue
from lakehouse.spark.show import show_all

CREATE = "CREATE TABLE `shop`.`orders` (`id` INT PRIMARY KEY, `total` DECIMAL(10,2), `note` VARCHAR(20))"


def quiet(_: str) -> None:
    pass


class Shop:
    """One source with one table and its suite, in a folder."""

    def __init__(self, folder: Path, quality: str) -> None:
        self.folder, self.lake = folder, str(folder / "lake")
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/tables").mkdir()
        self.feed = OrdersFeed(folder / "shop.jsonl")
        source = f"format: ticdc-canal-json\nrecording: [{self.feed.path}]\ntime_zone: UTC\ntables: auto\n"
        (folder / "configs/sources/shop.yml").write_text(source)
        self.say(quality)

    def say(self, quality: str) -> None:
        (self.folder / "configs/tables/shop.orders.yml").write_text(f"source: shop\nquality:\n{quality}")

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = run(load(self.folder / "configs"), ("bronze", "silver", "gold"), True, (), self.lake, quiet)[0]
        return found


def gold(spark: Any, lake: str) -> dict[int, tuple[Any, Any]]:
    rows = Lake(lake).read(spark, "gold", "shop__orders").collect()
    return {row.id: (None if row.total is None else str(row.total), row.note) for row in rows}


def rejected(spark: Any, lake: str) -> list[tuple[str, int, list[str], int]]:
    rows = Lake(lake).read(spark, "ops", "shop_rejected").orderBy("position", "key").collect()
    return [(row.key, row.position.p1 - BASE, row.reasons, row.origin.offset) for row in rows]


REJECT = """\
- {expect: expect_column_values_to_be_between, column: total, args: {min_value: 0}, action: reject}
- {expect: expect_column_values_to_not_be_null, column: note}
"""
TOTAL = "expect_column_values_to_be_between(total)"


def test_a_rejected_row_stays_out_with_its_reason_and_place_while_the_rest_is_merged(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(2, id="2", total="-1.00", note=None).resolved(3)
    first = shop.run()
    shop.feed.update(4, {"total": "5.00"}, id="1", total="-5.00", note="b").insert(4, id="3", total="1.00", note="c").resolved(5)

    second, third = shop.run(), shop.run()

    assert (first["tables"][0]["state"], second["tables"][0]["state"]) == ("incomplete", "incomplete")
    assert second["tables"][0]["why"] == "2 rejected rows; `lakehouse rejected list`"
    assert third["gold"] == "nothing new"
    assert gold(spark, shop.lake) == {1: ("5.00", "a"), 3: ("1.00", "c")}
    assert rejected(spark, shop.lake) == [("[2]", 2, [TOTAL], 2), ("[1]", 4, [TOTAL], 4)]


def test_a_later_good_row_wins_over_a_rejected_one_and_the_table_is_exact_again(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="-5.00", note="a").insert(2, id="2", total="-1.00", note="a").resolved(3)
    shop.run()
    shop.feed.update(4, {"total": "-5.00"}, id="1", total="7.00", note="a").delete(4, id="2", total="-1.00", note="a").resolved(5)

    told = shop.run()["tables"][0]

    assert told["state"] == "exact"
    assert gold(spark, shop.lake) == {1: ("7.00", "a")}


def test_a_bad_row_after_a_good_one_of_the_same_batch_leaves_the_good_one(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).resolved(1)
    shop.run()
    shop.feed.insert(2, id="1", total="5.00", note="a").update(3, {"total": "5.00"}, id="1", total="-5.00", note="b")
    shop.feed.insert(2, id="2", total="6.00", note="a").delete(3, id="2", total="6.00", note="a")
    shop.feed.insert(4, id="2", total="-6.00", note="a").resolved(5)

    shop.run()

    assert gold(spark, shop.lake) == {1: ("5.00", "a")}


def test_a_changed_suite_folds_the_table_again_without_any_new_row(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(2, id="2", total="-1.00", note="b").resolved(3)
    shop.run()
    shop.say(REJECT.replace("min_value: 0", "min_value: -2"))

    told = shop.run()

    assert (told["gold"], told["tables"][0]["state"]) == ("published", "exact")
    assert gold(spark, shop.lake) == {1: ("5.00", "a"), 2: ("-1.00", "b")}
    assert rejected(spark, shop.lake) == []


def test_a_check_follows_its_column_through_a_rename_and_judges_no_row_of_before_its_column_came(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT + "- {expect: expect_column_values_to_be_in_set, column: kind, args: {value_set: [x]}, action: reject}\n")
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").ddl(3, "ALTER TABLE `shop`.`orders` RENAME COLUMN `total` TO `sum`")
    shop.feed.ddl(4, "ALTER TABLE `shop`.`orders` ADD COLUMN `kind` VARCHAR(9) DEFAULT 'y'")
    shop.feed.types = {"id": "int", "sum": "decimal(10,2)", "note": "varchar(20)", "kind": "varchar(9)"}
    shop.feed.insert(5, id="2", sum="-1.00", note="a", kind="x").insert(5, id="3", sum="1.00", note="a", kind="y")
    shop.feed.insert(5, id="4", sum="1.00", note="a", kind="x").resolved(6)

    shop.run()

    rows = Lake(shop.lake).read(spark, "gold", "shop__orders").orderBy("id").collect()
    assert [(row.id, str(row["sum"]), row.kind) for row in rows] == [(1, "5.00", "y"), (4, "1.00", "x")]


def test_a_warning_is_counted_and_keeps_nothing_out(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, "- {expect: expect_column_values_to_not_be_null, column: note}\n")
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note=None).insert(2, id="2", total="5.00", note="a").resolved(3)

    told = shop.run()

    rows = Lake(shop.lake).read(spark, "ops", "shop_quality").collect()
    assert told["tables"][0]["state"] == "exact"
    assert gold(spark, shop.lake) == {1: ("5.00", None), 2: ("5.00", "a")}
    assert [(r.expectation, r.action, r.checked, r.failed) for r in rows] == [("expect_column_values_to_not_be_null(note)", "warn", 2, 1)]


STOP = "- {expect: expect_column_values_to_be_between, column: total, args: {min_value: 0}, action: stop}\n"


def test_a_stop_holds_its_table_before_the_failing_change_until_the_suite_lets_it_pass(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, STOP)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(4, id="2", total="-1.00", note="b")
    shop.feed.insert(6, id="3", total="3.00", note="c").resolved(6)
    first = shop.run()["tables"][0]
    before = gold(spark, shop.lake)
    shop.feed.update(8, {"note": "a"}, id="1", total="5.00", note="z").resolved(9)
    second = shop.run()["tables"][0]
    between = gold(spark, shop.lake)
    shop.say(STOP.replace("min_value: 0", "min_value: -2"))

    third = shop.run()["tables"][0]

    assert (first["state"], first["why"]) == ("behind", f"stopped by quality: {TOTAL}")
    assert (second["state"], before, between) == ("behind", {1: ("5.00", "a")}, {1: ("5.00", "a")})
    assert third["state"] == "exact"
    assert gold(spark, shop.lake) == {1: ("5.00", "z"), 2: ("-1.00", "b"), 3: ("3.00", "c")}


def test_a_suite_that_does_not_suit_its_table_runs_nothing(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, "- {expect: expect_column_values_to_not_be_null, column: totl, action: reject}\n")
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").resolved(3)

    with pytest.raises(LakehouseError) as unknown:
        shop.run()
    shop.say("- {expect: expect_column_values_to_match_regex, column: total, args: {regex: a}, action: reject}\n")
    with pytest.raises(LakehouseError) as unsuited:
        shop.run()

    assert str(unknown.value) == "shop.orders: quality: expected columns that the table has or had, got totl; did you mean total?"
    assert str(unsuited.value) == "expect_column_values_to_match_regex(total): expected a column of type STRING, got DECIMAL(10,2)"
    assert not Lake(shop.lake).exists(spark, "gold", "shop__orders")


def test_folding_in_spark_jobs_rejects_what_the_driver_rejects(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Shop(tmp_path / "small", REJECT)
    for feed in (small.feed,):
        feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(2, id="2", total="-1.00", note="b").resolved(3)
    small.run()
    parts = [small.feed.path.read_text()]
    small.feed.update(4, {"total": "5.00"}, id="1", total="-5.00", note="b").insert(4, id="3", total="1.00", note="c")
    small.feed.delete(5, id="2", total="-1.00", note="b").resolved(6)
    small.run()
    parts.append(small.feed.path.read_text())
    large = Shop(tmp_path / "large", REJECT)
    monkeypatch.setattr(gold_table, "SMALL_CHANGES", 0)
    monkeypatch.setattr(spark_gold, "SMALL_CHANGES", 0)

    for part in parts:
        large.feed.path.write_text(part)
        large.run()

    assert gold(spark, large.lake) == gold(spark, small.lake) == {1: ("5.00", "a"), 3: ("1.00", "c")}
    assert rejected(spark, large.lake) == rejected(spark, small.lake)


def test_great_expectations_agrees_on_gold_and_its_pages_can_be_opened(spark: Any, tmp_path: Path) -> None:
    unique = "- {expect: expect_column_values_to_be_unique, column: total}\n"
    shop = Shop(tmp_path, REJECT + unique)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(2, id="2", total="-1.00", note="a")
    shop.feed.insert(2, id="3", total="5.00", note=None).resolved(3)
    shop.run()

    page, *told = check_lake(Lake(shop.lake), tmp_path / "docs")
    again = check_lake(Lake(shop.lake), tmp_path / "docs")

    assert [(one["expectation"], one["success"], one["unexpected_count"], one["problem"]) for one in told] == [
        (TOTAL, True, 0, None),
        ("expect_column_values_to_not_be_null(note)", False, 1, None),
        ("expect_column_values_to_be_unique(total)", False, 2, None),
    ]
    assert again == [page, *told]
    assert "shop.orders" in Path(page["page"]).read_text()
    suite = json.loads((tmp_path / "docs/gx/expectations/shop.orders.json").read_text())
    assert [entry["meta"]["lakehouse"]["action"] for entry in suite["expectations"]] == ["reject", "warn", "warn"]


def test_rejected_rows_are_listed_and_requeued_and_an_operator_may_let_them_pass(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="-5.00", note="a").insert(2, id="2", total="-1.00", note="b").resolved(3)
    shop.feed.update(4, {"total": "-5.00"}, id="1", total="7.00", note="a").resolved(5)
    shop.run()
    lake = Lake(shop.lake)

    listed, everything = list_rejected(lake, "shop.orders", False), list_rejected(lake, None, True)
    again = requeue(load(tmp_path / "configs"), "shop.orders", shop.lake, False, None)
    accepted = requeue(load(tmp_path / "configs"), "shop.orders", shop.lake, True, "agreed")

    assert [(row["table"], row["key"], row["reasons"], row["origin"]["offset"]) for row in listed] == [("shop.orders", "[2]", [TOTAL], 2)]
    assert [row["key"] for row in everything] == ["[1]", "[2]"]
    assert (again["rejected_before"], again["rejected_now"], again["state"]) == (2, 2, "incomplete")
    assert (accepted["rejected_before"], accepted["rejected_now"], accepted["state"]) == (2, 0, "exact")
    assert gold(spark, shop.lake) == {1: ("7.00", "a"), 2: ("-1.00", "b")}
    assert shop.run()["gold"] == "nothing new"


def test_a_stopped_table_goes_on_when_its_row_is_accepted_and_show_agrees_at_every_moment(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, STOP)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(4, id="2", total="-1.00", note="b").resolved(5)
    shop.run()

    told = requeue(load(tmp_path / "configs"), "shop.orders", shop.lake, True, "agreed")

    assert told["state"] == "exact"
    assert gold(spark, shop.lake) == {1: ("5.00", "a"), 2: ("-1.00", "b")}
    with pytest.raises(LakehouseError, match="expected --why with --accept: the reason is kept"):
        requeue(load(tmp_path / "configs"), "shop.orders", shop.lake, True, None)


def test_a_state_that_is_folded_from_silver_holds_no_rejected_row_either(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, REJECT)
    shop.feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(2, id="2", total="-1.00", note="b").resolved(3)
    shop.feed.update(4, {"total": "5.00"}, id="1", total="-5.00", note="c").resolved(5)
    shop.run()

    show_all(shop.lake, tmp_path / "then", [str(BASE + 3)])
    difference = rebuild_table(shop.lake, "shop.orders", None, False)

    assert [json.loads(line)["id"] for line in (tmp_path / "then/shop.orders.jsonl").read_text().splitlines()] == [1]
    assert (difference["only_live"], difference["only_rebuilt"], difference["equal"]) == (0, 0, 1)
