"""RENAME TABLE that takes one table over several names, as TiCDC tells it: a record for each name at one
commit ts, all of them under the table's last one.
"""

import pytest

from lakehouse.schema_history.build import MAY_BE_GONE, ORIGIN
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_tree import read_tree
from tests.support.engine import Memory
from tests.support.feeds import TiCDC
from tests.support.paths import DATA

TREE = DATA / "storage" / "csv-rename-chain"
FORMATS = ("ticdc-open", "ticdc-canal-json")


def _recorded(format_: str) -> Memory:
    """Tables a, b and c with rows, `RENAME a TO x, x TO y`, then swaps of y and b, of c with itself, of three
    tables, and `RENAME c TO q1, q1 TO q2, q2 TO q3`; a row into each table behind each.
    """
    options = {"time_zone": "Asia/Shanghai"}
    return Memory(format_, options).add(read_recording(DATA / "rename-chain" / f"{format_}.jsonl.gz"))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_keeps_its_rows_over_the_names_between(format_: str) -> None:
    silver = _recorded(format_)

    rows = silver.tables(silver.reach)

    assert {name: sorted(row["id"] for row in found) for name, found in rows.items()} == {
        "chain.b": [1, 2, 200],
        "chain.q3": [4, 10, 20, 200, 300],
        "chain.y": [1, 2, 3, 5],
    }


@pytest.mark.parametrize("format_", FORMATS)
def test_no_table_stays_under_a_name_between(format_: str) -> None:
    silver = _recorded(format_)
    at = silver.reach

    live = silver.lineages().live(at)

    assert sorted(live) == [("chain", "b"), ("chain", "q3"), ("chain", "y")]
    assert [one.incomplete_at(at) for one in live.values()] == [None] * 3
    assert not silver.lineages().problems


def _stored() -> Memory:
    """The same statements in the tree of a storage sink, which keeps one file of each table's steps."""
    options = {"protocol": "csv", "include-commit-ts": "true", "output-old-value": "true"}
    return Memory("ticdc-storage", options).add(read_tree(TREE / "data", options))


def test_tables_that_exchange_names_keep_their_rows_though_a_step_of_theirs_is_lost() -> None:
    silver = _stored()
    at = (0, 470719146007199744, 2, 0, 0, 0)  # RENAME c TO d, d TO c

    rows = silver.tables(at)

    assert sorted(row["id"] for row in rows["chain.c"]) == [1]
    assert silver.lineages().live(at)["chain", "c"].incomplete_at(at) is None


def test_a_table_of_which_only_the_last_step_is_told_is_incomplete_and_so_is_what_it_may_have_been() -> None:
    silver = _stored()

    live = silver.lineages().live(silver.watermark)
    told = {name[1]: one.incomplete_at(silver.watermark) for name, one in live.items()}

    assert {name: one and one[1] for name, one in told.items()} == {
        "a": MAY_BE_GONE,
        "b": None,
        "c": MAY_BE_GONE,
        "q3": ORIGIN,
        "y": ORIGIN,
    }


def _classic(*steps: str, feed: TiCDC) -> dict[str, list[int]]:
    """Tables a, b and c, with the rows 1, 2 and 3, behind steps at one commit ts: `a x` is RENAME a TO x,
    told under x. The ids of each table's rows.
    """
    for row, name in enumerate("abc", 1):
        feed.ddl(1, f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY)", table=name)
        feed.row(2, "INSERT", {"id": row}, table=name)
    for step in steps:
        old, new = step.split()
        feed.ddl(3, f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", table=new)
    assert all(feed.incomplete(name) is None for name in feed.tables)
    return {name.removeprefix("d."): [row["id"] for row in rows] for name, rows in feed.tables.items()}


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        # RENAME a TO x, b TO a, x TO b: of an older TiDB, and of one whose steps have the last names alone
        (("a x", "b a", "a b"), {"a": [2], "b": [1], "c": [3]}),
        (("a b", "b a", "a x"), {"a": [2], "b": [1], "c": [3]}),
        (("a b", "b a", "a b"), {"a": [2], "b": [1], "c": [3]}),
        # RENAME a TO x, b TO a, c TO b, x TO c
        (("a x", "b a", "c b", "a c"), {"a": [2], "b": [3], "c": [1]}),
        (("a c", "b a", "c b", "a c"), {"a": [2], "b": [3], "c": [1]}),
        # the name between is another table's last one
        (("c x", "a x", "b a", "a b"), {"a": [2], "b": [1], "x": [3]}),
        # RENAME a TO x, x TO y
        (("a x", "a y"), {"b": [2], "c": [3], "y": [1]}),
        (("a y", "a y"), {"b": [2], "c": [3], "y": [1]}),
        # the steps themselves, each told under its own new name
        (("a x", "b a", "x b"), {"a": [2], "b": [1], "c": [3]}),
        (("a x", "c a", "b c", "x b"), {"a": [3], "b": [1], "c": [2]}),
        # each table is renamed once
        (("a x", "b a"), {"a": [2], "c": [3], "x": [1]}),
        (("b a", "a x"), {"a": [2], "c": [3], "x": [1]}),
    ],
)
def test_the_classic_architecture_tells_each_step_from_the_names_before_the_statement(
    steps: tuple[str, ...], rows: dict[str, list[int]]
) -> None:
    assert _classic(*steps, feed=TiCDC()) == rows


def test_a_table_that_the_feed_has_not_shown_takes_part_in_an_exchange() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE `a` (`id` INT PRIMARY KEY)", table="a")
    feed.row(2, "INSERT", {"id": 1}, table="a")
    feed.ddl(3, "RENAME TABLE `d`.`a` TO `d`.`u`", table="u").ddl(
        3, "RENAME TABLE `d`.`u` TO `d`.`a`", table="a"
    )
    feed.row(4, "INSERT", {"id": 2}, table="a")

    assert feed.table("d.u") == [{"id": 1}]
    assert feed.table("d.a") == [{"id": 2}]
    assert feed.incomplete("d.a") is not None


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        (("a x", "b a", "a b"), {"a": [2], "b": [1], "c": [3]}),
        (("a b", "b a"), {"a": [2], "b": [1], "c": [3]}),
        (("a x", "a y"), {"b": [2], "c": [3], "y": [1]}),
        (("a x", "b a"), {"a": [2], "c": [3], "x": [1]}),
    ],
)
def test_in_order_of_arrival_its_steps_are_one_statement_too(
    steps: tuple[str, ...], rows: dict[str, list[int]]
) -> None:
    feed = TiCDC(tidb_extension="false")
    feed.tidb = False

    assert _classic(*steps, feed=feed) == rows
