"""Options, rules and YAMLs that change between a run that died and the next one: one table has one reading,
and what the dead run has written is taken back.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from lakehouse.config.load import load
from lakehouse.errors import LakehouseError
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.options import GoldOptions
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.spark.gold.run import tell_other_rules
from lakehouse.spark.gold.settings import GoldSettings, under_of
from lakehouse.spark.operations.retention import raise_floor
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.source import selected_sources
from tests.spark.operations.test_ddl_operations import Shop
from tests.support.killable import Killed, killing
from tests.support.records import log_of, manifest

OTHERS = [
    GoldSettings("shop", read_as={"time_zone": "Asia/Shanghai"}),
    GoldSettings("shop", Upstream(server="mariadb")),
    GoldSettings("shop", Upstream(version=(8, 0))),
    GoldSettings("shop", options={("d", "t"): GoldOptions(deletes="soft")}),
    GoldSettings("shop", tables=frozenset([("d", "t")])),
]
INTENT = Intent(batch=1, watermark=(0,) * 6, tables=("d__t",))
TOLD = (
    "warning: shop: a run has died that wrote under other options, rules or YAMLs: its tables go back to "
    "what is published"
)
REFUSED = r"^shop: expected the decoder's options that silver was decoded with, got others \(time_zone was"


def test_another_option_rule_or_yaml_is_another_digest() -> None:
    """Needs no session."""
    digests = [under_of(settings) for settings in (GoldSettings("shop"), *OTHERS)]

    assert len(set(digests)) == len(digests)
    assert under_of(GoldSettings("shop", settled=True)) == digests[0]


@pytest.mark.parametrize("other", range(len(OTHERS)))
def test_a_run_that_died_under_others_is_told_and_no_other_one(other: int) -> None:
    """Needs no session."""
    settings, said = GoldSettings("shop"), list[str]()
    same, another = (with_fields(INTENT, under=under_of(one)) for one in (settings, OTHERS[other]))

    for log in (log_of(same), log_of(INTENT), log_of(another, manifest()), log_of()):
        tell_other_rules(settings, log, said.append)
    assert said == []
    tell_other_rules(settings, log_of(manifest(), another, same), said.append)

    assert said == [TOLD]


class Changing(Shop):
    """A shop whose runs die, and what the last run has said."""

    said: list[str]

    def begun(self) -> "Changing":
        """Two rows, published."""
        self.feed.ddl("CREATE TABLE a (id INT PRIMARY KEY, v INT, at TIMESTAMP)", "a")
        for number in (1, 2):
            self.put(number)
        assert self.run()["d.a"]["state"] == "exact"
        return self

    def put(self, number: int, **more: int) -> None:
        row = {"id": number, "v": number, "at": "2026-01-01 12:00:00", **more}
        self.feed.put("a", row, at="timestamp")

    def dies(self, spark: Any, dies: Callable[[str], bool], *, after: bool) -> None:
        with killing(type(spark), dies, after=after), pytest.raises(Killed):
            self.run()

    def goes_on(self) -> None:
        """The same recording again."""
        self.said = []
        config, layers = load(self.folder / "configs"), ("bronze", "silver", "gold")
        run(config, layers, True, (), str(self.lake), self.said.append)


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Changing:
    return Changing(tmp_path, a="").begun()


def is_manifest(name: str) -> bool:
    return name.startswith("ops manifest")


@pytest.mark.parametrize("deletes", ["soft", "hard"])
def test_what_a_run_wrote_under_another_yaml_is_taken_back_and_told(
    spark: Any, shop: Changing, deletes: str
) -> None:
    shop.put(3)
    shop.feed.delete("a", {"id": 1})
    shop.table("a", f"gold: {{deletes: {deletes}}}\n")
    shop.dies(spark, is_manifest, after=False)
    intent = shop.log(spark).records[-1].record
    (source,) = selected_sources(load(shop.folder / "configs"), (), str(shop.lake))
    assert isinstance(intent, Intent)
    assert intent.under == under_of(source.gold)

    shop.table("a")
    shop.goes_on()

    assert [row["id"] for row in shop.shown()["d.a"]] == [2, 3]
    assert [line for line in shop.said if "a run has died" in line] == ([TOLD] if deletes == "soft" else [])


def test_a_run_of_gold_alone_under_another_zone_is_refused_also_behind_one_that_died(
    spark: Any, shop: Changing
) -> None:
    published = shop.log(spark).all(Manifest)
    shop.put(3)
    shop.dies(spark, is_manifest, after=False)

    shop.zone("Asia/Shanghai")
    with pytest.raises(LakehouseError, match=REFUSED):
        shop.run("gold")
    assert shop.log(spark).all(Manifest) == published

    shop.zone("UTC")
    assert shop.run("gold")["d.a"]["state"] == "exact"
    assert {row["at"] for row in shop.shown()["d.a"]} == {"2026-01-01 12:00:00Z"}


def test_a_batch_that_is_half_written_is_not_gone_on_with_under_another_zone(
    spark: Any, shop: Changing
) -> None:
    shop.put(3)
    shop.dies(spark, lambda name: name == "silver shop_changes", after=True)

    shop.zone("Asia/Shanghai")
    with pytest.raises(LakehouseError, match=REFUSED):
        shop.run()

    shop.zone("UTC")
    assert shop.run()["d.a"]["state"] == "exact"
    assert {row["at"] for row in shop.shown()["d.a"]} == {"2026-01-01 12:00:00Z"}
    assert [row["id"] for row in shop.shown()["d.a"]] == [1, 2, 3]


def test_a_table_that_is_held_below_what_a_dead_run_has_merged_stands_before_its_ddl(
    spark: Any, shop: Changing
) -> None:
    before = shop.shown()["d.a"]
    shop.feed.ddl("ALTER TABLE a ADD COLUMN w INT", "a")
    shop.put(3, w=1)
    shop.dies(spark, is_manifest, after=False)
    assert len(shop.shown()["d.a"]) == 2  # readers take the version that the manifest names

    shop.table("a", "on_ddl: {add_column: hold}\n")
    assert shop.run()["d.a"]["state"] == "behind"

    found = spark.read.format("delta").load(f"{shop.lake}/gold/d__a")
    assert sorted(row.id for row in found.collect()) == [1, 2]
    assert shop.shown()["d.a"] == before


def test_what_a_floor_has_folded_is_not_exact_under_another_yaml(spark: Any, shop: Changing) -> None:
    ignoring = "on_ddl: {truncate_table: ignore}\n"
    shop.table("a", ignoring)
    shop.feed.ddl("TRUNCATE TABLE a", "a")
    shop.put(3)
    shop.run()
    raise_floor(str(shop.lake), "shop", str(shop.manifest(spark).watermark[1]), None, yes=True, why="a test")
    shop.put(4)
    entry, rows = shop.run()["d.a"], shop.shown()["d.a"]
    assert (entry["state"], [row["id"] for row in rows]) == ("exact", [1, 2, 3, 4])

    def under(yaml: str) -> tuple[str, str]:
        shop.table("a", yaml)
        found = shop.run()["d.a"]
        return found["state"], (found["why"] or "")[:32]

    assert under("") == ("incomplete", "a retention floor has folded the")
    assert under(ignoring + "gold: {mode: history}\n") == ("incomplete", "a retention floor has taken the ")
    assert under(ignoring) == ("exact", "")
    assert under("on_ddl: {truncate_table: hold}\n") == ("behind", "held by a DDL: on_ddl says hold ")
    assert shop.shown()["d.a"] == rows, "it stays as it was published"
    assert under(ignoring) == ("exact", "")
    assert shop.shown()["d.a"] == rows
