"""What `on_ddl` makes of statements about whole tables, and of tables that are made like one that it holds or
keeps as it was.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.policy import Rules
from lakehouse.events import TABLE_SNAPSHOT
from lakehouse.lineage import History, Interval, Lineage, Step
from lakehouse.schema import TableSchema
from lakehouse.schema_history.rulings import rule_on_alter, rule_on_inferred, rule_on_snapshot_of_some
from lakehouse.schema_history.schema_records import Record
from tests.support.engine import Memory
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
OTHER = "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, b VARCHAR(10))"
X: dict[str, Any] = {"id": 1, "a": "x"}


HOLDS = Rules({("d", "t"): {"add_column": "hold"}})


def table_schema(sql: str) -> TableSchema:
    (statement,) = read(sql)
    assert isinstance(statement, e.CreateTable)
    return create(statement)


def read_alter(record: Record) -> Sequence[e.Edit]:
    (statement,) = read(record.ddl or "")
    assert isinstance(statement, e.AlterTable)
    return statement.edits


def created() -> TiCDC:
    return TiCDC().ddl(1, CREATE).insert(2, **X)


def ruled(feed: TiCDC, **policy: str) -> Memory:
    return feed.memory.ruled(Rules({("d", "t"): policy}))


def live(history: History, name: str) -> Lineage:
    return history.live((0, 99, 2, 0, 0, 0))["d", name]


def names(lineage: Lineage) -> list[str]:
    return [column.name for column in lineage.steps[0].schema.columns]


@pytest.mark.parametrize(
    ("sql", "policy", "columns"),
    [
        ("ADD b VARCHAR(10)", {"add_column": "ignore"}, ["id", "a", "b"]),
        ("ADD b VARCHAR(10)", {"add_column": "hold"}, ["id", "a", "b"]),
        ("DROP a", {"drop_column": "ignore"}, ["id"]),
        ("RENAME COLUMN a TO b", {"rename_column": "reject"}, ["id", "b"]),
    ],
)
def test_a_table_that_is_made_like_another_has_the_source_s_columns_and_not_gold_s(
    sql: str, policy: dict[str, str], columns: list[str]
) -> None:
    feed = created().ddl(3, f"ALTER TABLE t {sql}").ddl(4, "CREATE TABLE u LIKE t", table="u")
    row = dict.fromkeys(columns, "1")
    memory = ruled(feed.row(5, "INSERT", row, table="u"), **policy)

    made = live(memory.history(), "u")

    assert (names(made), made.held) == (columns, None)
    assert memory.tables(memory.reach)["d.u"] == [{**row, "id": 1}]


def test_statements_behind_the_one_that_holds_it_count_for_a_table_that_is_made_like_it() -> None:
    feed = created().ddl(3, "ALTER TABLE t ADD b INT").ddl(4, "ALTER TABLE t ADD c INT, DROP a")
    history = ruled(feed.ddl(5, "TRUNCATE TABLE t").ddl(6, "CREATE TABLE u LIKE t", "u"), add_column="hold")

    assert names(live(history.history(), "u")) == ["id", "b", "c"]
    assert names(live(history.history(), "t")) == ["id", "a"]


@pytest.mark.parametrize("keyed", [True, False])
def test_what_rows_tell_of_a_held_table_leaves_its_columns_at_the_source_known(keyed: bool) -> None:
    """Undeclared columns that were inferred, and a snapshot of a table without a key that clears nothing."""
    create = "CREATE TABLE t (id INT PRIMARY KEY)" if keyed else "CREATE TABLE t (id INT)"
    told = [{"name": "id", "type": "int"}, {"name": "b", "type": "int"}, {"name": "c", "type": "int"}]
    lineage = Lineage(
        "d.t@1",
        [Step((0, 1, 2, 0, 0, 0), table_schema(create))],
        [Interval(("d", "t"), (0, 1, 2, 0, 0, 0), None)],
    )
    alter = Record("ddl", "d", "t", (0, 3, 2, 0, 0, 0), "ALTER TABLE t ADD b INT")
    rule_on_alter(lineage, read_alter(alter), alter, HOLDS).apply(lineage)
    seen = Record("inferred", "d", "t", (0, 4, 2, 0, 0, 0), ddl=None, columns=told)

    (rule_on_inferred if keyed else rule_on_snapshot_of_some)(lineage, seen).apply(lineage)

    assert lineage.held is not None
    assert lineage.source_schema is not None
    expected = ["id", "b", "c"] if keyed else ["id", "b"]
    assert [column.name for column in lineage.source_schema.columns] == expected


def test_a_table_that_is_made_like_one_of_unknown_columns_is_held_until_they_are_known() -> None:
    feed = created().ddl(3, "ALTER TABLE t FROBNICATE").ddl(4, "CREATE TABLE u LIKE t", table="u")

    made = feed.row(5, "INSERT", {"id": 1, "z": 2}, table="u").lineage("d.u")

    assert made.held is not None
    assert made.held.why.startswith("d.t: it has the same columns, and is held")


@pytest.mark.parametrize("kept", ["DROP TABLE t", "DROP DATABASE d", "RENAME TABLE t TO u"])
def test_a_create_if_not_exists_takes_the_place_of_a_table_that_the_source_has_no_more(kept: str) -> None:
    feed = created().ddl(3, kept, table=None).ddl(4, OTHER).row(5, "INSERT", {"id": 2, "b": "y"})
    memory = ruled(feed, drop_table="ignore", drop_database="ignore", rename_table="ignore")
    below = memory.tables((0, 3, 2, 0, 0, 0))

    assert below["d.t"] == [X]
    assert memory.tables(memory.reach)["d.t"] == [{"id": 2, "b": "y"}]
    assert [one.notes[1:] for one in memory.history().lineages if one.gone] == [[]]


def test_a_create_if_not_exists_has_no_effect_once_the_table_was_recovered() -> None:
    feed = created().ddl(3, "DROP TABLE t").ddl(4, "RECOVER TABLE t").ddl(5, OTHER)

    assert ruled(feed, drop_table="ignore").tables((0, 9, 2, 0, 0, 0)) == {"d.t": [X]}


def test_what_comes_under_the_new_name_of_an_ignored_rename_lacks_the_rows_of_before() -> None:
    feed = created().ddl(3, "RENAME TABLE t TO u", "u").row(4, "INSERT", {"id": 2, "a": "y"}, table="u")
    memory = ruled(feed, rename_table="ignore")
    found = live(memory.history(), "u").incomplete_at(memory.reach)

    assert memory.tables(memory.reach) == {"d.t": [X], "d.u": [{"id": 2, "a": "y"}]}
    assert found == ((0, 3, 2, 0, 0, 0), "a RENAME was ignored: its rows from before are those of d.t")


@pytest.mark.parametrize("action", ["hold", "reject"])
@pytest.mark.parametrize("sql", ["CREATE OR REPLACE TABLE t (id INT)", "CREATE OR REPLACE TABLE t LIKE t"])
def test_a_table_that_is_created_anew_is_held_where_a_dropped_one_is(sql: str, action: str) -> None:
    (before, after) = ruled(created().ddl(3, sql), drop_table=action).history().lineages

    assert before.held is not None
    assert (before.held.position, before.held.by) == ((0, 3, 2, 0, 0, 0), action)
    assert (before.end, after.held) == (before.held.position, None)


@pytest.mark.parametrize(
    ("sql", "policy", "held"),
    [
        ("ALTER TABLE t DROP a", {"drop_column": "hold"}, "hold"),
        ("TRUNCATE TABLE t", {"truncate_table": "reject"}, "reject"),
        ("ALTER TABLE t FROBNICATE", {}, None),
    ],
)
def test_a_snapshot_releases_a_table_that_no_policy_holds(
    sql: str, policy: dict[str, str], held: str | None
) -> None:
    memory = ruled(created().ddl(3, sql), **policy)
    told = "CREATE TABLE t (id INT PRIMARY KEY, b INT)"
    memory.records["snapshot"] = Record(TABLE_SNAPSHOT, "d", "t", (0, 5, 3, 0, 0, 0), told)
    lineage = live(memory.history(), "t")

    assert (lineage.held and lineage.held.by) == held
    assert lineage.source_schema is not None
    assert [column.name for column in lineage.source_schema.columns] == ["id", "b"]


@pytest.mark.parametrize("ignored", ["add_column", "drop_column"])
def test_what_not_null_does_stays_with_its_clause_where_another_is_ignored(ignored: str) -> None:
    other = {"add_column": "ADD COLUMN z INT", "drop_column": "DROP COLUMN b"}[ignored]
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    feed.row(2, "INSERT", {"id": 1, "a": None, "b": 2}, types={"id": "int", "a": "int", "b": "int"})
    feed.ddl(3, f"ALTER TABLE t MODIFY a INT NOT NULL, {other}")

    silver = ruled(feed, **{ignored: "ignore"})

    assert [row["a"] for row in silver.tables(silver.reach)["d.t"]] == [0]


def test_a_key_that_loses_a_column_follows_beside_an_ignored_clause() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))")
    feed.ddl(2, "ALTER TABLE t DROP COLUMN b, ADD COLUMN z INT")

    assert live(ruled(feed, add_column="ignore").history(), "t").held is None
