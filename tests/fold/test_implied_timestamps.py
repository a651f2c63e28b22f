"""ADD COLUMN of a TIMESTAMP without NULL and DEFAULT: NULL where explicit_defaults_for_timestamp is on, else
the statement's time in a table's first TIMESTAMP column and the zero timestamp in the others, as a MariaDB
11.4 does.
"""

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.row_history import row_history
from lakehouse.fold.upcast import lost_since
from tests.support.feeds import Canal, TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
FIRST, SECOND = "ALTER TABLE t ADD a TIMESTAMP", "ALTER TABLE t ADD z TIMESTAMP NULL, ADD a TIMESTAMP(1)"
SURE = "ALTER TABLE t ADD z TIMESTAMP NULL, ADD a TIMESTAMP NOT NULL"
ZERO = "0000-00-00 00:00:00"
BY_VERSION = (
    "column a, new: a TIMESTAMP without NULL and DEFAULT, whose existing rows get NULL or the statement's "
    "time: the version of the server says which"
)
BY_STATEMENT = "column a, new: the time of the statement fills existing rows"


def problems(feed: TiCDC) -> set[str]:
    memory, lineage = feed.memory, feed.lineage()
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    found = fold(lineage, changes, memory.reach, memory.upstream).problems
    assert row_history(lineage, changes, memory.reach, memory.upstream, by_commit=True).problems == found
    return found


@pytest.mark.parametrize(
    ("server", "alter", "value", "found"),
    [
        ("mysql 8.0", FIRST, None, set()),
        ("mariadb 10.10.2", FIRST, None, set()),
        ("mysql 5.7", FIRST, None, {BY_STATEMENT}),
        ("mariadb 10.6", FIRST, None, {BY_STATEMENT}),
        ("mysql", FIRST, None, {BY_VERSION}),
        ("mysql 8.0", SECOND, None, set()),
        ("mysql 5.7", SECOND, ZERO + ".0", set()),
        ("mariadb", SECOND, None, {BY_VERSION}),
        ("mysql", SURE, ZERO, set()),
        ("mysql 5.7", SURE, ZERO, set()),
        ("mysql 5.7", "ALTER TABLE t ADD a TIMESTAMP NULL", None, set()),
        ("mysql", "ALTER TABLE t ADD a TIMESTAMP NOT NULL DEFAULT 0", ZERO, set()),
    ],
)
def test_a_new_timestamp_holds_what_the_servers_version_says(
    server: str, alter: str, value: str | None, found: set[str]
) -> None:
    feed = Canal(server=server).ddl(1, CREATE).insert(2, id=1).ddl(3, alter)

    [row] = feed.table()
    assert row.get("_raw_a", row["a"]) == value
    assert problems(feed) == found
    place = feed.lineage().steps[-1].position
    assert {lost_since(feed.lineage(), text, feed.memory.reach) for text in found} <= {place}


def test_no_row_no_doubt_and_tidb_has_none() -> None:
    gone = Canal().ddl(1, CREATE).insert(2, id=1).row(3, "DELETE", {"id": 1}).ddl(4, FIRST)
    gone.insert(5, id=2, a=None)

    assert problems(gone) == set()
    assert problems(TiCDC().ddl(1, CREATE).insert(2, id=1).ddl(3, FIRST)) == set()
