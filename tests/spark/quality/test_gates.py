"""Expectations before gold: a failing row in every action mode, and that gold stays a pure fold over silver
and the suites.

One lake tells it all, a table per story: two batches, a changed suite, and what an operator does. The tests
look at what came out.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.errors import LakehouseError
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.operations.rejected_rows import list_rejected, requeue
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.show import show_all
from tests.support.orders_feed import BASE, OrdersFeed

TOTAL = "expect_column_values_to_be_between(total)"
POSITIVE = (
    "- {expect: expect_column_values_to_be_between, column: total, args: {min_value: 0}, action: reject}\n"
)
NOTED = "- {expect: expect_column_values_to_not_be_null, column: note}\n"
KIND = "- {expect: expect_column_values_to_be_in_set, column: kind, args: {value_set: [x]}, action: reject}\n"
STOP = POSITIVE.replace("reject", "stop")
SUITES = {
    "kept": POSITIVE + NOTED,
    "healed": POSITIVE,
    "batchy": POSITIVE,
    "loose": POSITIVE,
    "named": POSITIVE,
    "warned": NOTED,
    "stopped": STOP,
    "waits": STOP,
    "let": POSITIVE,
}
Row = tuple[str | None, str | None]


def quiet(_: str) -> None:
    pass


class Shop:
    """One source, its tables and their suites, in a folder."""

    def __init__(self, folder: Path, suites: dict[str, str]) -> None:
        self.folder, self.lake, self.names = folder, str(folder / "lake"), list(suites)
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/tables").mkdir()
        self.feed = OrdersFeed(folder / "shop.jsonl")
        source = f"format: ticdc-canal-json\nrecording: [{self.feed.path}]\ntime_zone: UTC\ntables: auto\n"
        (folder / "configs/sources/shop.yml").write_text(source)
        for name, quality in suites.items():
            self.say(name, quality)

    def say(self, name: str, quality: str) -> None:
        (self.folder / f"configs/tables/shop.{name}.yml").write_text(f"source: shop\nquality:\n{quality}")

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = run(
            load(self.folder / "configs"), ("bronze", "silver", "gold"), True, (), self.lake, quiet
        )[0]
        return found

    def requeue(self, name: str, accept: bool, why: str | None) -> dict[str, Any]:
        return requeue(load(self.folder / "configs"), f"shop.{name}", self.lake, accept, why)

    def first_batch(self) -> None:
        for name in self.names:
            sql = (
                f"CREATE TABLE `shop`.`{name}` (`id` INT PRIMARY KEY, `total` DECIMAL(10,2), `note` "
                "VARCHAR(20))"
            )
            self.feed.on(name).ddl(1, sql)
        rows: dict[str, list[tuple[int, int, str, str | None]]] = {
            "kept": [(2, 1, "5.00", "a"), (2, 2, "-1.00", None)],
            "healed": [(2, 1, "-5.00", "a"), (2, 2, "-1.00", "a")],
            "loose": [(2, 1, "5.00", "a"), (2, 2, "-1.00", "b")],
            "warned": [(2, 1, "5.00", None), (2, 2, "5.00", "a")],
            "stopped": [(2, 1, "5.00", "a"), (4, 2, "-1.00", "b"), (6, 3, "3.00", "c")],
            "waits": [(2, 1, "5.00", "a"), (4, 2, "-1.00", "b")],
            "let": [(2, 1, "-5.00", "a"), (2, 2, "-1.00", "b")],
        }
        for name in (name for name in self.names if name in rows):
            for at, key, total, note in rows[name]:
                self.feed.on(name).insert(at, id=str(key), total=total, note=note)
        self.feed.resolved(7)

    def second_batch(self) -> None:
        feed = self.feed
        if "kept" in self.names:
            feed.on("kept").update(8, {"total": "5.00"}, id="1", total="-5.00", note="b").insert(
                8, id="3", total="1.00", note="c"
            )
        if "healed" in self.names:
            feed.on("healed").update(8, {"total": "-5.00"}, id="1", total="7.00", note="a").delete(
                8, id="2", total="-1.00", note="a"
            )
        if "batchy" in self.names:
            feed.on("batchy").insert(8, id="1", total="5.00", note="a").update(
                9, {"total": "5.00"}, id="1", total="-5.00", note="b"
            )
            feed.insert(8, id="2", total="6.00", note="a").delete(9, id="2", total="6.00", note="a")
            feed.insert(10, id="2", total="-6.00", note="a")
        if "stopped" in self.names:
            feed.on("stopped").update(12, {"note": "a"}, id="1", total="5.00", note="z")
        if "named" in self.names:
            self._renamed()
        feed.resolved(13)

    def _renamed(self) -> None:
        feed = self.feed.on("named").insert(8, id="1", total="5.00", note="a")
        feed.ddl(9, "ALTER TABLE `shop`.`named` RENAME COLUMN `total` TO `sum`")
        feed.ddl(10, "ALTER TABLE `shop`.`named` ADD COLUMN `kind` VARCHAR(9) DEFAULT 'y'")
        self.say("named", POSITIVE + KIND)
        feed.insert(11, id="2", sum="-1.00", note="a", kind="x").insert(
            11, id="3", sum="1.00", note="a", kind="y"
        )
        feed.insert(11, id="4", sum="1.00", note="a", kind="x")


def gold(spark: Any, lake: str, name: str) -> dict[int, tuple[Any, ...]]:
    rows = Lake(lake).read(spark, "gold", f"shop__{name}").collect()
    return {row[0]: tuple(None if value is None else str(value) for value in row[1:]) for row in rows}


def rejected(spark: Any, lake: str) -> dict[str, list[tuple[str, int, list[str]]]]:
    found: dict[str, list[tuple[str, int, list[str]]]] = {}
    for row in Lake(lake).read(spark, "ops", "shop_rejected").orderBy("position", "key").collect():
        found.setdefault(row.table, []).append((row.key, row.position.p1 - BASE, row.reasons))
    return found


def states(outcome: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {
        table["table"].removeprefix("shop."): (table["state"], table["why"]) for table in outcome["tables"]
    }


class Story:
    """What was seen after each step."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.shop = Shop(folder, SUITES)
        self.shop.first_batch()
        self.first = states(self.shop.run())
        self.stopped = gold(spark, self.shop.lake, "stopped")
        self.shop.second_batch()
        self.second = states(self.shop.run())
        self.third = self.shop.run()
        self.gold = {name: gold(spark, self.shop.lake, name) for name in SUITES}
        self.rejected = rejected(spark, self.shop.lake)
        self.results = Lake(self.shop.lake).read(spark, "ops", "shop_quality").collect()
        self.shop.say("loose", POSITIVE.replace("min_value: 0", "min_value: -2"))
        self.shop.say("stopped", STOP.replace("min_value: 0", "min_value: -2"))
        self.fourth = states(self.shop.run())
        self.listed = (
            list_rejected(self.shop.lake, "shop.let", False),
            list_rejected(self.shop.lake, "shop.healed", True),
        )
        self.requeued = self.shop.requeue("let", False, None)
        self.accepted = self.shop.requeue("let", True, "agreed")
        self.went_on = self.shop.requeue("waits", True, "agreed")
        self.fifth = self.shop.run()
        self.later = {
            name: gold(spark, self.shop.lake, name) for name in ("loose", "stopped", "let", "waits")
        }


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(spark, tmp_path_factory.mktemp("quality"))


@pytest.mark.long  # its story takes minutes
def test_a_rejected_row_stays_out_with_its_reason_while_the_rest_is_merged(story: Story) -> None:
    assert story.first["kept"] == ("incomplete", "1 rejected rows; `lakehouse rejected list`")
    assert story.second["kept"] == ("incomplete", "2 rejected rows; `lakehouse rejected list`")
    assert story.third["gold"] == "nothing new"
    assert story.gold["kept"] == {1: ("5.00", "a"), 3: ("1.00", "c")}
    assert story.rejected["kept"] == [("[2]", 2, [TOTAL]), ("[1]", 8, [TOTAL])]


@pytest.mark.long  # its story takes minutes
def test_a_later_good_row_wins_over_a_rejected_one_and_the_table_is_exact_again(story: Story) -> None:
    assert (story.first["healed"][0], story.second["healed"]) == ("incomplete", ("exact", None))
    assert story.gold["healed"] == {1: ("7.00", "a")}


@pytest.mark.long  # its story takes minutes
def test_a_bad_row_after_a_good_one_of_the_same_batch_leaves_the_good_one(story: Story) -> None:
    assert story.gold["batchy"] == {1: ("5.00", "a")}


@pytest.mark.long  # its story takes minutes
def test_a_check_follows_its_column_through_a_rename_and_judges_no_row_of_before_its_column_came(
    story: Story,
) -> None:
    assert story.gold["named"] == {1: ("5.00", "a", "y"), 4: ("1.00", "a", "x")}


@pytest.mark.long  # its story takes minutes
def test_a_warning_is_counted_and_keeps_nothing_out(story: Story) -> None:
    assert story.first["warned"] == ("exact", None)
    assert story.gold["warned"] == {1: ("5.00", None), 2: ("5.00", "a")}
    told = [
        (row.expectation, row.action, row.checked, row.failed)
        for row in story.results
        if row.table == "warned"
    ]
    assert told == [("expect_column_values_to_not_be_null(note)", "warn", 2, 1)]


@pytest.mark.long  # its story takes minutes
def test_a_changed_suite_folds_the_table_again_without_any_new_row(spark: Any, story: Story) -> None:
    assert (story.second["loose"][0], story.fourth["loose"]) == ("incomplete", ("exact", None))
    assert (story.gold["loose"], story.later["loose"]) == (
        {1: ("5.00", "a")},
        {1: ("5.00", "a"), 2: ("-1.00", "b")},
    )
    assert "loose" not in rejected(spark, story.shop.lake)


@pytest.mark.long  # its story takes minutes
def test_a_stop_holds_its_table_before_the_failing_change_until_the_suite_lets_it_pass(story: Story) -> None:
    assert story.first["stopped"] == story.second["stopped"] == ("behind", f"stopped by quality: {TOTAL}")
    assert story.stopped == story.gold["stopped"] == {1: ("5.00", "a")}
    assert story.fourth["stopped"] == ("exact", None)
    assert story.later["stopped"] == {1: ("5.00", "z"), 2: ("-1.00", "b"), 3: ("3.00", "c")}


@pytest.mark.long  # its story takes minutes
def test_rejected_rows_are_listed_and_requeued_and_an_operator_may_let_them_pass(story: Story) -> None:
    open_, everything = story.listed
    assert [(row["table"], row["key"], row["reasons"], row["origin"]["partition"]) for row in open_] == [
        ("shop.let", "[1]", [TOTAL], 0),
        ("shop.let", "[2]", [TOTAL], 0),
    ]
    assert [row["key"] for row in everything] == ["[1]", "[2]"]
    assert (story.requeued["rejected_before"], story.requeued["rejected_now"], story.requeued["state"]) == (
        2,
        2,
        "incomplete",
    )
    assert (story.accepted["rejected_before"], story.accepted["rejected_now"], story.accepted["state"]) == (
        2,
        0,
        "exact",
    )
    assert story.later["let"] == {1: ("-5.00", "a"), 2: ("-1.00", "b")}
    assert story.fifth["gold"] == "nothing new"
    with pytest.raises(LakehouseError, match="expected --why with --accept: the reason is kept"):
        story.shop.requeue("let", True, None)


@pytest.mark.long  # its story takes minutes
def test_a_stopped_table_goes_on_when_its_row_is_accepted(story: Story) -> None:
    assert (story.second["waits"][0], story.went_on["state"]) == ("behind", "exact")
    assert story.later["waits"] == {1: ("5.00", "a"), 2: ("-1.00", "b")}


@pytest.mark.long  # its story takes minutes
def test_a_state_that_is_folded_from_silver_holds_no_rejected_row_either(
    story: Story, tmp_path: Path
) -> None:
    show_all(story.shop.lake, tmp_path / "then", [str(BASE + 7)])

    then = {
        name: (tmp_path / f"then/shop.{name}.jsonl").read_text().splitlines() for name in ("kept", "healed")
    }
    assert {name: [json.loads(line)["id"] for line in lines] for name, lines in then.items()} == {
        "kept": [1],
        "healed": [],
    }
    difference = rebuild_table(story.shop.lake, "shop.kept", None, False)
    assert (difference["only_live"], difference["only_rebuilt"], difference["equal"]) == (0, 0, 2)


@pytest.mark.long  # a minute and more
def test_folding_in_spark_jobs_rejects_what_the_driver_rejects(
    spark: Any, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("kept", "batchy", "named")
    shop = Shop(tmp_path, {name: SUITES[name] for name in names})
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)

    for batch in (shop.first_batch, shop.second_batch):
        batch()
        shop.run()

    assert {name: gold(spark, shop.lake, name) for name in names} == {
        name: story.gold[name] for name in names
    }
    assert rejected(spark, shop.lake) == {name: story.rejected[name] for name in names}


def test_a_suite_that_does_not_suit_its_table_holds_that_table_alone(spark: Any, tmp_path: Path) -> None:
    shop = Shop(
        tmp_path,
        {
            "kept": "- {expect: expect_column_values_to_not_be_null, column: totl, action: reject}\n",
            "warned": POSITIVE,
        },
    )
    shop.first_batch()
    unknown = shop.run()
    assert unknown["problems"] == [
        "shop.kept: quality: expected columns that the table has or had, got totl; did you mean `total`?"
    ]
    assert states(unknown) == {"warned": ("exact", None)}
    assert not Lake(shop.lake).exists(spark, "gold", "shop__kept")

    shop.say("kept", POSITIVE)
    shop.run()
    kept = gold(spark, shop.lake, "kept")
    sql = "ALTER TABLE `shop`.`{}` MODIFY COLUMN `total` VARCHAR(20)"
    shop.feed.on("kept").ddl(8, sql.format("kept")).insert(9, id="9", total="7.00", note="a")
    shop.feed.on("warned").insert(9, id="9", total="9.00", note="a").resolved(13)
    changed = states(shop.run())

    assert (gold(spark, shop.lake, "kept"), len(gold(spark, shop.lake, "warned"))) == (kept, 3)
    assert changed == {
        "kept": (
            "behind",
            "held by its YAML: quality: expect_column_values_to_be_between(total): expected values of type "
            "STRING, got a int",
        ),
        "warned": ("exact", None),
    }


@pytest.mark.parametrize(
    ("mode", "jobs"),
    [
        ("history", False),
        pytest.param("upsert", False, marks=pytest.mark.long),
        pytest.param("history", True, marks=pytest.mark.long),
    ],
    ids=["history", "upsert", "history in jobs"],
)
def test_a_failing_row_in_every_action_on_live_tables_and_on_histories(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, jobs: bool
) -> None:
    if jobs:
        monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)
    names = ("kept", "healed", "warned", "stopped")
    shop = Shop(tmp_path, {name: SUITES[name] + f"gold: {{mode: {mode}}}\n" for name in names})

    shop.first_batch()
    first = states(shop.run())
    shop.second_batch()
    second = states(shop.run())

    def told(name: str) -> list[tuple[int, str, bool]]:
        rows = Lake(shop.lake).read(spark, "gold", f"shop__{name}").orderBy("id").collect()
        return [(row.id, str(row.total), row._current if mode == "history" else True) for row in rows]

    assert {name: state for name, (state, _) in first.items()} == {
        "kept": "incomplete",
        "healed": "incomplete",
        "warned": "exact",
        "stopped": "behind",
    }
    assert {name: state for name, (state, _) in second.items()} == {
        "kept": "incomplete",
        "healed": "exact",
        "warned": "exact",
        "stopped": "behind",
    }
    assert told("kept") == [(1, "5.00", True), (3, "1.00", True)]
    assert told("healed") == [(1, "7.00", True)]
    assert told("warned") == [(1, "5.00", True), (2, "5.00", True)]
    assert told("stopped") == [(1, "5.00", True)]
    assert rejected(spark, shop.lake) == {
        "kept": [("[2]", 2, [TOTAL]), ("[1]", 8, [TOTAL])],
        "healed": [("[1]", 2, [TOTAL]), ("[2]", 2, [TOTAL])],
    }
