"""A value that no rule converts at MODIFY COLUMN is NULL, and the table says so since that DDL: only if a row
held such a value then.
"""

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.row_history import row_history
from lakehouse.fold.upcast import Upstream, lost_since
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"
TO_POINT = "ALTER TABLE t MODIFY v POINT"
NO_RULE = "column v, varchar(20) to point: no rule from text to geometry"
TYPES = {"id": "int", "v": "varchar"}


def problems(feed: TiCDC, server: str = "tidb") -> set[str]:
    """What the fold and the history of rows, which agree, say of the feed's table."""
    memory, lineage, upstream = feed.memory, feed.lineage(), Upstream("UTC", server)
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    found = fold(lineage, changes, memory.reach, upstream).problems
    for by_commit in (True, False):
        assert row_history(lineage, changes, memory.reach, upstream, by_commit=by_commit).problems == found
    return found


def update(feed: TiCDC, at: int, new: str | None, old: str | None) -> TiCDC:
    return feed.row(at, "UPDATE", {"id": 1, "v": new}, {"id": 1, "v": old}, types=TYPES)


@pytest.mark.parametrize("create", [CREATE, "CREATE TABLE t (id INT, v VARCHAR(20))"])
def test_a_value_without_a_rule_is_null_and_the_table_says_which_column_and_since_when(create: str) -> None:
    key = ("id",) if create is CREATE else ()
    feed = TiCDC().ddl(1, create)
    for number in (1, 2):
        value = {"id": number, "v": "x" if number == 1 else None}
        feed.row(1 + number, "INSERT", value, types=TYPES, key=key)
    feed.ddl(4, TO_POINT)

    assert feed.table() == [{"id": 1, "v": None}, {"id": 2, "v": None}]
    assert problems(feed) == {NO_RULE}
    assert lost_since(feed.lineage(), NO_RULE, feed.memory.reach) == (0, 4, 2, 0, 0, 0)


def test_a_conversion_that_meets_no_value_loses_nothing() -> None:
    feed = TiCDC().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "v": None}, types=TYPES).ddl(3, TO_POINT)

    assert problems(feed) == set()


def test_values_that_were_gone_before_the_statement_lose_nothing() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, v="abc").insert(2, id=2, v="abc")
    update(feed, 3, "[1]", "abc").row(3, "DELETE", {"id": 2, "v": "abc"}, types=TYPES)
    feed.ddl(4, "ALTER TABLE t MODIFY v JSON")

    assert problems(feed) == set()
    assert feed.table() == [{"id": 1, "v": "[1]"}]


def test_one_value_of_many_that_does_not_fit_is_told() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, v="abc").insert(2, id=2, v="[2]")
    feed.ddl(4, "ALTER TABLE t MODIFY v JSON")

    assert problems(feed) == {"column v, varchar(20) to json: text that is not JSON"}
    assert feed.table() == [{"id": 1, "v": None}, {"id": 2, "v": "[2]"}]


def test_a_row_that_came_after_the_statement_is_not_asked() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(2, TO_POINT)
    feed.row(3, "INSERT", {"id": 1, "v": None}, types=TYPES)

    assert problems(feed) == set()
