"""Statements and snapshots that concern tables of which the feed has only shown rows (T66, T67)."""

from typing import Any

import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.lineage import Lineage
from lakehouse.schema_history.schema_records import Record
from tests.schema_history.test_snapshots import Feed
from tests.support.engine import Memory
from tests.support.feeds import Debezium, TiCDC, place


def with_a_row() -> TiCDC:
    """A table that was there before the feed, with one row that the feed has shown."""
    return TiCDC().insert(2, id=1, a="x")


def reason(feed: TiCDC, name: str = "d.t") -> tuple[bool, str | None]:
    """Whether the table is held, and why it is incomplete."""
    lineage: Lineage = feed.lineage(name)
    found = lineage.incomplete_at(feed.memory.reach)
    return lineage.held is not None, found and found[1]


def test_a_dropped_database_has_no_table_left() -> None:
    dropped = with_a_row().ddl(3, "DROP DATABASE d", table=None)

    assert dropped.tables == {}
    again = dropped.insert(5, id=2, a="y")
    assert again.table() == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]
    assert reason(again) == (False, "rows came after its DROP: it was recovered upstream")


def test_a_dropped_database_leaves_those_of_another_name_alone() -> None:
    feed = with_a_row().row(2, "INSERT", {"id": 1}, database="e").ddl(3, "DROP DATABASE e", table=None)

    assert feed.tables == {"d.t": [{"id": 1, "a": "x"}]}


@pytest.mark.parametrize("dropped", ["DROP TABLE t", "DROP DATABASE d", None])
@pytest.mark.parametrize("sql", ["FLASHBACK TABLE t", "RECOVER TABLE t", "FLASHBACK DATABASE d"])
def test_what_comes_back_is_incomplete_whether_or_not_its_drop_was_shown(
    sql: str, dropped: str | None
) -> None:
    feed = with_a_row()
    if dropped is not None:
        feed.ddl(3, dropped, table="t" if "TABLE" in dropped else None)
    feed.ddl(4, sql, table="t" if "TABLE" in sql else None).insert(5, id=2, a="y")

    held, why = reason(feed)

    assert (held, "upstream" in (why or "")) == (False, True)
    assert feed.table() == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]


def test_a_database_that_went_back_in_time_holds_its_tables_and_a_cluster_makes_them_incomplete() -> None:
    database = with_a_row().ddl(3, "FLASHBACK DATABASE d TO TSO 5", table=None)
    cluster = with_a_row().ddl(3, "FLASHBACK CLUSTER TO TSO 5", table=None)

    assert reason(database) == (True, None)
    assert reason(cluster) == (False, "the cluster was flashed back, which sends no rows")


def test_a_complete_snapshot_ends_a_table_that_it_does_not_have() -> None:
    feed = Feed().row("gone", "c", 50, 1, 1).row("a", "c", 60, 9, 9)
    feed.drop("DATABASE", 100).table("a", 100).row("a", "r", 100, 1, 10, "last")

    assert feed.tables() == {"d.a": [{"id": 1, "v": 10}]}


# --- columns that no row has shown


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t DROP z",
        "ALTER TABLE t RENAME COLUMN z TO y",
        "ALTER TABLE t MODIFY z INT",
        "ALTER TABLE t CHANGE z y INT AFTER a",
        "ALTER TABLE t ALTER z SET DEFAULT 5",
        "ALTER TABLE t PARTITION BY HASH (z) PARTITIONS 4",
        "ALTER TABLE t DROP INDEX z, DROP z, MODIFY a VARCHAR(10) AFTER z",
    ],
)
def test_a_statement_about_a_column_that_no_row_has_shown_holds_no_table(sql: str) -> None:
    """It may be VIRTUAL, which TiCDC does not send."""
    feed = with_a_row().ddl(3, sql).insert(4, id=2, a="y")

    assert reason(feed) == (False, None)
    assert feed.table() == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]


def test_a_column_that_is_added_behind_one_that_no_row_has_shown_is_the_last() -> None:
    feed = with_a_row().ddl(
        3, "ALTER TABLE t ADD b VARCHAR(9) DEFAULT 'q' AFTER z, ADD c INT AFTER b, DROP z"
    )

    assert reason(feed) == (False, None)
    assert feed.table() == [{"id": 1, "a": "x", "b": "q", "c": None}]


def test_a_table_of_which_the_create_is_known_is_held_by_a_column_that_it_has_not() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").ddl(2, "ALTER TABLE t DROP z")

    assert feed.lineage().held is not None


# --- imported schemas


def imported(feed: TiCDC, at: int, **columns: str) -> Memory:
    """The engine over the feed and a CREATE TABLE that an operator has supplied at a place."""
    memory = feed.memory
    told: list[dict[str, Any]] = [{"name": name, "type": text} for name, text in columns.items()]
    memory.records["imported"] = Record("schema", "d", "t", (0, at, 2, 0, 0, 0), None, told, ("id",))
    return memory


ENUM = {"id": "decimal", "e": "enum"}


def test_an_imported_schema_behind_statements_gives_earlier_rows_their_own_columns() -> None:
    feed = (
        with_a_row().ddl(3, "ALTER TABLE t ADD b INT DEFAULT 5 FIRST").ddl(4, "ALTER TABLE t ADD c INT FIRST")
    )
    memory = imported(feed, 5, c="int", b="int", id="int", a="varchar(10)")

    assert memory.tables(memory.reach) == {"d.t": [{"c": None, "b": 5, "id": 1, "a": "x"}]}


def test_an_imported_schema_tells_types_of_before_a_statement_that_has_not_changed_them() -> None:
    feed = TiCDC().row(2, "INSERT", {"id": "1.5", "e": "2"}, types=ENUM).ddl(3, "ALTER TABLE t ADD b INT")
    told = {"id": "decimal(10,2)", "e": "enum('x','y')"}
    memory = imported(feed, 5, **told, b="int")
    retyped = imported(
        feed.ddl(4, "ALTER TABLE t MODIFY e VARCHAR(9)"), 5, id="decimal(10,2)", e="varchar(9)"
    )

    assert memory.tables(memory.reach) == {"d.t": [{"id": "1.50", "e": "y", "b": None}]}
    steps = retyped.history().lineages[0].steps
    assert [str(step.schema.columns[1].type) for step in steps[:2]] == ["enum", "enum"]


def test_a_key_that_an_imported_schema_tells_holds_for_rows_before_a_statement_too() -> None:
    feed = TiCDC().row(2, "INSERT", {"id": 1, "a": "x"}, key=()).ddl(3, "ALTER TABLE t ADD b INT FIRST")
    same = imported(feed, 5, b="int", id="int", a="varchar(10)").history().lineages[0]
    feed.ddl(4, "ALTER TABLE t ADD PRIMARY KEY (id)")
    added = imported(feed, 5, b="int", id="int", a="varchar(10)").history().lineages[0]

    assert [step.schema.primary_key for step in same.steps] == [(1,), (1,)]
    assert [step.schema.primary_key for step in added.steps] == [(), (), (1,)]


DAYS = 18000  # 2019-04-14


@pytest.mark.parametrize("policy", [{}, {"modify_column": "hold"}, {"modify_column": "ignore"}])
def test_what_a_message_tells_behind_a_modify_is_no_type_of_the_rows_before(policy: dict[str, str]) -> None:
    told = [{"name": "id", "typeName": "INT"}, {"name": "v", "typeName": "DATETIME"}]
    feed = Debezium().change(2, "c", None, {"id": 1, "v": DAYS})
    feed.record(
        {
            "source": place(3, 0, 1, "t", "d"),
            "ddl": "ALTER TABLE t MODIFY v DATETIME",
            "databaseName": "d",
            "tableChanges": [{"type": "ALTER", "id": '"d"."t"', "table": {"columns": told}}],
        },
        None,
    )
    silver = feed.memory.ruled(Rules({("d", "t"): policy}))

    (row,) = silver.tables(silver.reach)["d.t"]

    assert row["v"] in (None, DAYS, str(DAYS))


def test_a_name_that_a_rename_has_freed_is_another_table_of_which_rows_may_be_missing() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))").insert(2, id=1, a="x")
    feed.ddl(3, "RENAME TABLE IF EXISTS t TO t_old, _t_new TO t").insert(4, id=2, a="y")

    assert feed.tables["d.t"] == [{"id": 2, "a": "y"}]
    assert reason(feed)[1] is not None


def test_nulls_become_zeros_where_a_statement_has_added_the_column() -> None:
    feed = TiCDC().insert(2, id=1)
    feed.ddl(3, "ALTER TABLE t ADD COLUMN n INT").ddl(4, "ALTER TABLE t MODIFY n BIGINT NOT NULL")

    assert feed.tables["d.t"] == [{"id": 1, "n": 0}]
