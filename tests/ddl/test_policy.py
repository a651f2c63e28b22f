"""`on_ddl` and the operators' decisions: what gold shows when a DDL is ignored, held, rejected, approved or
skipped.
"""

import random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.models import Edit
from lakehouse.ddl import edits
from lakehouse.ddl.policy import Decision, Rules
from lakehouse.events import Position
from lakehouse.fold.current_rows import fold
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import PLAIN
from lakehouse.lineage import Lineage
from lakehouse.schema_history.schema_records import Record
from tests.support.arrivals import Feed
from tests.support.canal_feed import CanalFeed
from tests.support.engine import TSO, Memory
from tests.support.examples import QUICK
from tests.support.source_model import History

KINDS = get_args(Edit)
HOLD_ALL = dict.fromkeys(KINDS, "hold")
TABLE = ("d", "t")


def test_every_word_of_a_clause_is_one_that_a_yaml_may_say() -> None:
    assert {clause.on_ddl for clause in get_args(edits.Edit)} - {None} <= {*KINDS}


def base() -> CanalFeed:
    return (
        CanalFeed()
        .ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))")
        .put("t", {"id": 1, "a": 10, "b": "x"}, b="varchar")
    )


def silver(feed: CanalFeed, **policy: str) -> Memory:
    return Memory("ticdc-canal-json").add(feed.resolved().messages).ruled(Rules({TABLE: policy}))


def rows(feed: CanalFeed, **policy: str) -> list[dict[str, Any]]:
    told = silver(feed, **policy)
    return told.tables(told.watermark)["d.t"]


def lineage(told: Memory) -> Lineage:
    return next(one for one in told.history().lineages if one.intervals[-1].name == TABLE)


# --- ignore ---


def test_an_ignored_new_column_is_not_shown_and_rows_that_have_it_are_known() -> None:
    feed = (
        base()
        .ddl("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7 AFTER id")
        .put("t", {"id": 2, "c": 9, "a": 20, "b": "y"}, b="varchar")
    )

    assert rows(feed, add_column="ignore") == [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 20, "b": "y"}]
    assert rows(feed) == [{"id": 1, "c": 7, "a": 10, "b": "x"}, {"id": 2, "c": 9, "a": 20, "b": "y"}]


def test_an_ignored_new_column_whose_fill_no_one_can_know_leaves_the_table_complete() -> None:
    feed = base().ddl("ALTER TABLE t ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP")
    ignoring, evolving = (
        silver(feed, add_column="ignore"),
        silver(base().ddl("ALTER TABLE t ADD COLUMN c DATETIME DEFAULT NOW()")),
    )

    assert lineage(ignoring).incomplete_at(ignoring.watermark) is None
    assert lineage(evolving).incomplete_at(evolving.watermark) is not None


def test_an_ignored_drop_keeps_the_column_with_old_rows_values_and_rows_written_since_have_none() -> None:
    feed = base().put("t", {"id": 2, "a": 20, "b": "y"}, b="varchar").ddl("ALTER TABLE t DROP COLUMN a")
    feed.put("t", {"id": 2, "b": "z"}, {"id": 2, "b": "y"}, b="varchar").put(
        "t", {"id": 3, "b": "w"}, b="varchar"
    )

    assert rows(feed, drop_column="ignore") == [
        {"id": 1, "b": "x", "a": 10},
        {"id": 2, "b": "z", "a": None},
        {"id": 3, "b": "w", "a": None},
    ]


def test_a_column_that_comes_again_stands_beside_the_one_that_gold_kept() -> None:
    feed = (
        base().ddl("ALTER TABLE t DROP COLUMN a").ddl("ALTER TABLE t ADD COLUMN a VARCHAR(5) DEFAULT 'new'")
    )

    assert rows(feed, drop_column="ignore") == [{"id": 1, "b": "x", "a": "new", "a_2": 10}]


def test_an_ignored_rename_keeps_the_name_and_follows_the_column() -> None:
    feed = (
        base()
        .ddl("ALTER TABLE t RENAME COLUMN a TO amount")
        .put("t", {"id": 2, "amount": 20, "b": "y"}, b="varchar")
    )

    assert rows(feed, rename_column="ignore") == [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 20, "b": "y"}]


def test_an_ignored_type_change_keeps_the_type_and_what_no_longer_fits_stands_in_the_companion() -> None:
    feed = base().ddl("ALTER TABLE t MODIFY COLUMN a BIGINT, MODIFY COLUMN b INT")
    feed.put("t", {"id": 2, "a": 5, "b": 6}, a="bigint").put(
        "t", {"id": 3, "a": 5_000_000_000, "b": 7}, a="bigint"
    )

    assert rows(feed, modify_column="ignore") == [
        {"id": 1, "a": 10, "b": "x"},
        {"id": 2, "a": 5, "b": None, "_raw_b": "6"},
        {"id": 3, "a": None, "b": None, "_raw_a": "5000000000", "_raw_b": "7"},
    ]


def test_change_column_is_a_rename_and_a_type_change_each_under_its_own_policy() -> None:
    feed = (
        base()
        .ddl("ALTER TABLE t CHANGE COLUMN a amount BIGINT")
        .put("t", {"id": 2, "amount": 5_000_000_000, "b": "y"}, amount="bigint", b="varchar")
    )

    assert rows(feed, rename_column="ignore") == [
        {"id": 1, "a": 10, "b": "x"},
        {"id": 2, "a": 5_000_000_000, "b": "y"},
    ]
    assert rows(feed, modify_column="ignore")[1] == {
        "id": 2,
        "amount": None,
        "b": "y",
        "_raw_amount": "5000000000",
    }


def test_an_ignored_truncate_keeps_the_rows() -> None:
    feed = base().ddl("TRUNCATE TABLE t").put("t", {"id": 2, "a": 20, "b": "y"}, b="varchar")

    assert rows(feed, truncate_table="ignore") == [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 20, "b": "y"}]


def test_an_ignored_partition_drop_keeps_its_rows_as_an_archive_does() -> None:
    parts = "(PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (30))"
    feed = CanalFeed().ddl(f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) {parts}")
    feed.put("t", {"id": 11}).put("t", {"id": 21}).ddl("ALTER TABLE t DROP PARTITION p0")

    assert rows(feed, drop_partition="ignore") == [{"id": 11}, {"id": 21}]
    assert rows(feed) == [{"id": 21}]


@pytest.mark.parametrize("sql", ["DROP TABLE t", "DROP DATABASE d"])
def test_an_ignored_drop_of_the_table_leaves_it_live_with_its_rows(sql: str) -> None:
    assert rows(base().ddl(sql), drop_table="ignore", drop_database="ignore") == [
        {"id": 1, "a": 10, "b": "x"}
    ]


def test_an_ignored_rename_of_the_table_leaves_it_under_its_name_and_the_new_name_is_another_table() -> None:
    feed = base().ddl("RENAME TABLE t TO u").put("u", {"id": 5, "a": 1, "b": "n"}, b="varchar")
    told = silver(feed, rename_table="ignore")

    assert told.tables(told.watermark) == {
        "d.t": [{"id": 1, "a": 10, "b": "x"}],
        "d.u": [{"id": 5, "a": 1, "b": "n"}],
    }


def test_what_was_ignored_stands_in_the_tables_notes() -> None:
    feed = base().ddl("ALTER TABLE t ADD COLUMN c INT, DROP COLUMN a")

    assert lineage(silver(feed, add_column="ignore", drop_column="ignore")).notes == [
        "a DDL was ignored: add_column, drop_column"
    ]


@pytest.mark.parametrize(
    "sql", ["DROP PRIMARY KEY, ADD PRIMARY KEY (id, a), DROP b", "ADD x INT, ADD UNIQUE u (id)"]
)
def test_a_new_key_is_followed_though_a_clause_beside_it_is_ignored(sql: str) -> None:
    feed = base().put("t", {"id": 2, "a": None, "b": "y"}, b="varchar").ddl(f"ALTER TABLE t {sql}")
    told = silver(feed, drop_column="ignore", add_column="ignore")

    assert lineage(told).held is None
    zero = None if "UNIQUE" in sql else 0
    assert [row["a"] for row in told.tables(told.watermark)["d.t"]] == [10, zero]


@pytest.mark.parametrize(
    ("sql", "policy"),
    [
        ("ALTER TABLE t DROP PRIMARY KEY", "drop_primary_key"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD COLUMN c INT PRIMARY KEY", "add_column"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "add_primary_key"),
        ("ALTER TABLE t DROP COLUMN id", "drop_column"),
        ("ALTER TABLE t MODIFY COLUMN id VARCHAR(20)", "modify_column"),
    ],
)
def test_what_changes_the_key_is_held_where_it_is_to_be_ignored(sql: str, policy: str) -> None:
    held = lineage(silver(base().ddl(sql), **{policy: "ignore"})).held

    assert held is not None
    assert held.why.endswith("can't be ignored or skipped: rows could not be matched")


# --- hold and reject ---


def test_a_held_ddl_stops_its_table_there_and_says_which_kind_it_was() -> None:
    feed = base().ddl("ALTER TABLE t ADD COLUMN c INT, DROP COLUMN a")

    held = lineage(silver(feed, add_column="hold", drop_column="reject")).held

    assert held is not None
    assert (held.why, held.by, held.ddl) == (
        "on_ddl says reject for drop_column",
        "reject",
        "ALTER TABLE t ADD COLUMN c INT, DROP COLUMN a",
    )
    assert held.position[1] == feed.last


def test_a_rejected_ddl_can_be_skipped_and_not_approved() -> None:
    feed = base().ddl("ALTER TABLE t DROP COLUMN a")
    place = (
        lineage(silver(feed, drop_column="reject")).held or pytest.fail("expected it to be held")
    ).position
    said = {
        action: Rules(
            {TABLE: {"drop_column": "reject"}}, {(place, "ALTER TABLE t DROP COLUMN a"): Decision(action)}
        )
        for action in ("approve", "skip")
    }
    told = silver(feed)

    assert lineage(told.ruled(said["approve"])).held is not None
    assert lineage(told.ruled(said["skip"])).held is None
    assert told.tables(told.watermark)["d.t"] == [{"id": 1, "b": "x", "a": 10}]


def test_an_unreadable_ddl_is_approved_as_the_statement_that_an_operator_says_it_means() -> None:
    feed = base().ddl("ALTER TABLE t FROBNICATE").put("t", {"id": 2, "a": 1, "b": "y", "c": 3}, b="varchar")
    told = silver(feed)
    held = lineage(told).held
    assert held is not None and held.by == "reader"

    told.ruled(
        Rules(
            {},
            {
                (held.position, held.ddl or ""): Decision(
                    "approve", "ALTER TABLE t ADD COLUMN c INT DEFAULT 8"
                )
            },
        )
    )

    assert lineage(told).held is None
    assert told.tables(told.watermark)["d.t"] == [
        {"id": 1, "a": 10, "b": "x", "c": 8},
        {"id": 2, "a": 1, "b": "y", "c": 3},
    ]


def test_an_unreadable_ddl_that_is_skipped_never_was() -> None:
    told = silver(base().ddl("ALTER TABLE t FROBNICATE").put("t", {"id": 2, "a": 1, "b": "y"}, b="varchar"))
    held = lineage(told).held
    assert held is not None

    told.ruled(Rules({}, {(held.position, held.ddl or ""): Decision("skip")}))

    assert told.tables(told.watermark)["d.t"] == [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 1, "b": "y"}]
    assert lineage(told).notes[0].startswith("an operator skipped a DDL that was not applied: ")


def test_a_decision_is_about_one_statement_at_its_place_not_about_its_text() -> None:
    drop = "ALTER TABLE t DROP COLUMN a"
    feed = base().ddl(drop).ddl("ALTER TABLE t ADD COLUMN a INT").ddl(drop)
    first = Rules({TABLE: HOLD_ALL}, {})
    told = silver(feed).ruled(first)
    places = []
    while (held := lineage(told).held) is not None:
        places.append(held.position)
        told.ruled(
            Rules(
                first.policies, {**told.rules.decisions, (held.position, held.ddl or ""): Decision("approve")}
            )
        )

    assert len(places) == len(set(places)) == 3
    assert rows(feed) == told.tables(told.watermark)["d.t"]


@QUICK
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_holding_everything_shows_each_table_before_its_ddl_and_approving_everything_changes_nothing(
    seed: int, count: int, chance: int
) -> None:
    history = History(seed, count)
    messages = Feed(history.events, random.Random(chance), 2, "table").arrival(random.Random(chance))
    free, told = (Memory("ticdc-open").add(messages) for _ in range(2))
    names = {name for _, state in history.states for name in state}
    rules = Rules(dict.fromkeys(names, HOLD_ALL))
    expected = free.tables(free.watermark)

    while True:
        whole, changes = told.ruled(rules)._lineages()
        held = [one for one in whole.lineages if one.held is not None]
        if not held:
            break
        for one in held:
            assert one.held is not None
            before = just_below(one.held.position)
            name = one.name_at(before)
            if name is not None:
                assert told.rows(one, changes.get(one.id, ()), before) == free.tables(before).get(
                    ".".join(name), []
                )
        said = {
            (one.held.position, one.held.ddl or ""): Decision("approve")
            for one in held
            if one.held is not None
        }
        assert not said.keys() & rules.decisions.keys()
        rules = Rules(rules.policies, {**rules.decisions, **said})

    assert told.tables(told.watermark) == expected


def just_below(position: Position) -> Position:
    return (*position[:5], position[5] - 1)


# --- columns that no DDL has added ---


def drifting() -> CanalFeed:
    return (
        base()
        .put("t", {"id": 2, "a": 20, "b": "y"}, b="varchar")
        .put("t", {"id": 3, "a": 30, "b": "z", "c": 7}, b="varchar", c="bigint")
    )


def test_the_fold_tells_the_first_place_of_a_column_that_its_schema_lacks() -> None:
    feed = drifting().put("t", {"id": 4, "a": 1, "b": "z", "c": 7, "d": 8}, b="varchar", c="bigint")
    told = silver(feed)
    lineages, changes = told._lineages()
    (one,) = lineages.lineages

    assert fold(one, reversed(changes[one.id]), told.watermark).unknown == {
        "c": (0, feed.last - 10, 1, 0, 0, 0),
        "d": (0, feed.last, 1, 0, 0, 0),
    }


def test_inferred_columns_begin_where_rows_have_them_and_are_null_before() -> None:
    feed = drifting()
    told = silver(feed)
    columns = [{"name": "c", "type": "bigint"}, {"name": "A", "type": "int"}]
    told.records["inferred"] = Record(
        "inferred", "d", "t", just_below((0, feed.last, 1, 0, 0, 0)), None, columns
    )

    assert [row.get("c", "none") for row in told.ruled(Rules()).tables(told.watermark)["d.t"]] == [
        None,
        None,
        7,
    ]
    assert told.tables((0, feed.last - 10, 2, 0, 0, 0))["d.t"] == [
        {"id": 1, "a": 10, "b": "x"},
        {"id": 2, "a": 20, "b": "y"},
    ]
    assert lineage(told).notes == ["no DDL has added c: inferred from the rows"]
    (one,), changes = told._lineages()[0].lineages, told._lineages()[1]
    gold = Mode(one, told.watermark, told.upstream, TSO, PLAIN)
    assert gold.rows(changes[one.id]).problems == {"column c: no message tells its value in some rows"}


def test_a_ddl_that_comes_after_all_stands_in_place_of_what_was_inferred() -> None:
    feed = drifting()
    told = silver(feed)
    told.records["inferred"] = Record(
        "inferred", "d", "t", just_below((0, feed.last, 1, 0, 0, 0)), None, [{"name": "c", "type": "bigint"}]
    )
    told.records["late"] = Record(
        "ddl", "d", "t", (0, feed.last - 5, 2, 0, 0, 0), "ALTER TABLE t ADD COLUMN c INT DEFAULT 5 AFTER id"
    )

    assert told.ruled(Rules()).tables(told.watermark)["d.t"][0] == {"id": 1, "c": 5, "a": 10, "b": "x"}
    assert lineage(told).notes == []
