"""MODIFY COLUMN to AUTO_INCREMENT: MySQL and MariaDB give a row that has 0 the next number, but not where the
column was AUTO_INCREMENT before (run on MySQL 5.6 and MariaDB 11.4).
"""

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.upcast import lost_since
from tests.support.feeds import Canal

PLAIN = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)"
NUMBERED = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT, v INT)"
MODIFY = "ALTER TABLE t MODIFY id BIGINT NOT NULL AUTO_INCREMENT"
CHANGE = "ALTER TABLE t CHANGE id n INT NOT NULL AUTO_INCREMENT"


def problems(feed: Canal) -> set[str]:
    memory = feed.memory
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    return fold(feed.lineage(), changes, memory.reach, memory.upstream).problems


@pytest.mark.parametrize(
    ("create", "alter", "number", "column"),
    [
        (PLAIN, MODIFY, 0, "id"),
        (PLAIN, CHANGE, 0, "n"),
        (PLAIN, MODIFY, 1, None),
        (NUMBERED, MODIFY, 0, None),
        (NUMBERED, CHANGE, 0, None),
    ],
)
def test_a_row_with_0_is_numbered_where_its_column_becomes_auto_increment(
    create: str, alter: str, number: int, column: str | None
) -> None:
    feed = Canal().ddl(1, create).insert(2, id=number, v=7).ddl(3, alter)

    found = {f"column {column}: AUTO_INCREMENT numbers the rows that have 0"} if column else set()
    assert len(feed.table()) == 1
    assert problems(feed) == found
    place = feed.lineage().steps[-1].position
    assert {lost_since(feed.lineage(), text, feed.memory.reach) for text in found} <= {place}


def test_a_row_that_was_gone_by_then_leaves_its_table_exact() -> None:
    feed = Canal().ddl(1, PLAIN).insert(2, id=0, v=7).row(3, "DELETE", {"id": 0, "v": 7}).ddl(4, MODIFY)

    assert problems(feed) == set()
