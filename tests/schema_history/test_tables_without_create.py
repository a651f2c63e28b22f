"""Statements and snapshots that concern tables of which the feed has only shown rows: they are tables like any
other (T66, T67).
"""

import pytest

from lakehouse.lineage import Lineage
from tests.schema_history.test_snapshots import Feed
from tests.support.feeds import TiCDC


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
