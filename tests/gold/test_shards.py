"""Several tables as one: which tables a pattern means, and one shape for shards that a DDL has not reached
yet (T75, T119).
"""

import pytest

from lakehouse.gold.columns import GoldColumn, gold_column, gold_columns, type_rows
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.own_columns import SHARD, own_columns, remade
from lakehouse.gold.shards import aligned, misspelled, options_for, options_of, said_of, split_shards
from tests.support.feeds import TiCDC

MERGED = GoldOptions(merged="shop.orders")
CLOCK = Clock(by_commit=True, tso=True)


def shards(*creates: str) -> TiCDC:
    feed = TiCDC()
    for number, columns in enumerate(creates):
        feed.ddl(
            1 + number, f"CREATE TABLE `o_{number}` (`id` INT PRIMARY KEY{columns})", table=f"o_{number}"
        )
    return feed


def shapes(feed: TiCDC, options: GoldOptions = MERGED) -> dict[str, list[GoldColumn]]:
    memory = feed.memory
    found = {}
    for name, lineage in sorted(memory.history().live(memory.reach).items()):
        columns = gold_columns(lineage.steps[-1].schema, virtual=False, options=options)
        found[name[1]] = columns + own_columns(options, [column.name for column in columns])
    return found


def test_a_name_has_its_own_options_before_those_of_a_pattern_and_a_star_stays_within_a_part() -> None:
    own, wide = GoldOptions(mode="append"), GoldOptions(merged="shop.all")
    said = {("shop", "o_*"): wide, ("shop", "o_1"): own}

    assert options_for(("shop", "o_1"), said) is own
    assert options_for(("shop", "o_22"), said) is wide
    assert [options_for(name, said) for name in (("shop2", "o_2"), ("shop", "p"), ("shop", "O_2"))] == [
        None,
        None,
        None,
    ]


def test_a_yaml_that_means_no_table_but_in_other_letters_is_told() -> None:
    names = [("shop", "orders"), ("shop", "o_1"), ("shop", "Items")]
    said = dict.fromkeys([("shop", "Orders"), ("shop", "O_*"), ("shop", "Items"), ("shop", "later")], MERGED)

    assert misspelled(said, names) == [
        f"{name}: its YAML means no table, for the source has {meant}: upper and lower case are told apart"
        for name, meant in [("shop.O_*", "shop.o_1"), ("shop.Orders", "shop.orders")]
    ]
    assert misspelled(said, [*names, ("shop", "Orders"), ("shop", "O_7")]) == [], "names may differ in case"


def test_shards_of_one_yaml_are_one_table_and_others_are_alone() -> None:
    lineages = shards("", "", "").memory.history().lineages
    said = {("d", "o_0"): MERGED, ("d", "o_2"): MERGED}

    alone, together = split_shards(lineages, said)

    assert [lineage.intervals[0].name[1] for lineage in alone] == ["o_1"]
    assert [[lineage.intervals[0].name[1] for lineage in found] for found, _ in together] == [["o_0", "o_2"]]


def test_a_column_that_some_shards_have_is_in_all_and_types_that_differ_become_one_that_holds_both() -> None:
    feed = shards(", `a` INT, `b` INT", ", `A` BIGINT, `b` VARCHAR(9), `c` DATE", ", `a` INT, `b` INT")

    columns, notes = aligned(shapes(feed))

    assert {shard: [(c.name, c.spark) for c in told] for shard, told in columns.items()} == {
        shard: [("id", "INT"), ("a", "BIGINT"), ("b", "STRING"), ("c", "DATE"), ("_shard", "STRING")]
        for shard in ("o_0", "o_1", "o_2")
    }
    assert notes == [
        "column a: INT in o_0, BIGINT in o_1, INT in o_2; gold has BIGINT",
        "column b: INT in o_0, STRING in o_1, INT in o_2; gold has STRING",
        "o_0, o_2: no column c, which other shards have",
    ]


def test_rows_of_every_shard_are_typed_alike_and_say_whose_they_are() -> None:
    feed = shards(", `b` INT", ", `b` VARCHAR(9), `c` INT")
    feed.row(7, "INSERT", {"id": 1, "b": 5}, table="o_0", types={"id": "int", "b": "int"})
    feed.row(
        8, "INSERT", {"id": 1, "b": "x", "c": 6}, table="o_1", types={"id": "int", "b": "varchar", "c": "int"}
    )
    memory = feed.memory
    columns, _ = aligned(shapes(feed))
    history, changes = memory._lineages()

    typed = []
    for (_, table), lineage in sorted(history.live(memory.reach).items()):
        mode = Mode(lineage, memory.reach, memory.upstream, CLOCK, MERGED)
        assert mode.row_ids[-1] == SHARD
        typed.append(type_rows(mode.rows(changes[lineage.id]).rows, columns[table]).columns)

    assert typed == [
        {"id": [1], "b": ["5"], "c": [None], "_shard": ["d.o_0"]},
        {"id": [1], "b": ["x"], "c": [6], "_shard": ["d.o_1"]},
    ]


@pytest.mark.parametrize("other", ["BIGINT", "VARCHAR(9)"])
def test_a_masked_column_stays_masked_where_shards_have_it_in_different_types(other: str) -> None:
    options = GoldOptions(merged="shop.orders", columns={"b": ColumnOptions(mask="nullify")})
    columns, notes = aligned(shapes(shards(", `b` INT", f", `b` {other}"), options))

    assert len(notes) == 1
    for told in columns.values():
        assert type_rows([{1: 1, 2: 5}], told).columns["b"] == [None]


def test_two_columns_of_a_shard_that_gold_tells_apart_stay_two() -> None:
    columns, _ = aligned(shapes(shards(", `strasse` INT, `straße` INT")))

    assert [column.name for column in columns["o_0"]] == ["id", "strasse", "straße", "_shard"]


def test_workers_type_the_rows_of_a_shard_as_the_driver_does() -> None:
    """They make their columns of plain data."""
    feed = shards(
        ", `a` INT, `b` DOUBLE, `c` BIT(3), `d` DATE, `e` YEAR",
        ", `a` VARCHAR(9), `b` FLOAT, `c` INT, `d` DATETIME, `e` DATE, `f` INT",
    )
    row = {1: 1, 2: 5, 3: 0.1, 4: 3, 5: "0000-00-00", 6: 1999}
    columns = aligned(shapes(feed))[0]["o_0"]
    made = [remade(column.column, column.spark, column.companion, column.mask) for column in columns]
    plain = [gold_column(column.column, column.spark, column.companion, column.mask) for column in columns]

    expected = {"a": ["5"], "b": ["0.1"], "c": [3], "d": ["0000-00-00"], "e": ["1999"], "f": [None]}

    for told in (columns, made, plain):
        typed = type_rows([row], told)
        assert typed.columns == {"id": [1], **expected, "_shard": [None]} and not typed.raw


def renamed() -> TiCDC:
    """Two shards with a card number each, one of which has renamed it."""
    feed = shards(", `card` VARCHAR(19), `n` INT", ", `card` VARCHAR(19), `n` INT")
    feed.ddl(3, "ALTER TABLE `o_1` RENAME COLUMN `card` TO `number`", table="o_1")
    return feed


@pytest.mark.parametrize(
    "hides", [ColumnOptions(mask="nullify"), ColumnOptions(hash="sha256"), ColumnOptions(exclude=True)]
)
def test_what_hides_a_column_hides_it_under_the_names_that_renames_give_it(hides: ColumnOptions) -> None:
    same, other = renamed().memory.history().lineages
    said = {("d", "o_*"): GoldOptions(columns={"Card": hides})}

    assert options_of(other, said).column("number") == hides
    assert said_of(other, said).column("number") == ColumnOptions()
    assert options_of(same, said) is said["d", "o_*"]


def test_a_yaml_that_says_something_of_the_new_name_says_all_of_it() -> None:
    _, other = renamed().memory.history().lineages
    columns = {"card": ColumnOptions(mask="nullify", rename="c"), "number": ColumnOptions(rename="shown")}
    said = {("d", "o_1"): GoldOptions(columns=columns)}

    assert options_of(other, said).column("number") == ColumnOptions(rename="shown")


def test_a_column_that_one_shard_has_renamed_stays_hidden_in_the_merged_table() -> None:
    hides = ColumnOptions(mask="nullify")
    said = {("d", "o_*"): GoldOptions(merged="shop.orders", columns={"card": hides})}

    _, [(lineages, options)] = split_shards(renamed().memory.history().lineages, said)

    assert len(lineages) == 2
    assert (options.column("card"), options.column("number")) == (hides, hides)
