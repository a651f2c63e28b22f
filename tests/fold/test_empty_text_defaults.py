"""ADD COLUMN of a TEXT or BLOB with DEFAULT '', which lax servers log: MariaDB keeps the default, MySQL drops
it, and TiDB drops it of TEXT and LONGTEXT alone.
"""

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.upcast import lost_since
from tests.support.feeds import Canal, TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
BY_SERVER = (
    "column a, new: a TEXT or BLOB with DEFAULT '', which existing rows get in MariaDB, and MySQL drops: the "
    "server is not said with its version"
)


def problems(feed: TiCDC) -> set[str]:
    memory, lineage = feed.memory, feed.lineage()
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    return fold(lineage, changes, memory.reach, memory.upstream).problems


@pytest.mark.parametrize(
    ("server", "column", "value", "found"),
    [
        ("mysql 5.7", "TEXT DEFAULT ''", None, set()),
        ("mysql 8.4", 'MEDIUMTEXT DEFAULT ""', None, set()),
        ("mariadb", "TEXT DEFAULT ''", "", set()),
        ("mariadb 10.1", "TEXT DEFAULT ''", None, set()),
        ("mysql", "TEXT DEFAULT ''", None, {BY_SERVER}),
        # where nothing is dropped
        ("mysql 5.7", "TEXT NOT NULL DEFAULT ''", "", set()),
        ("mysql 8.4", "TEXT DEFAULT ('')", "", set()),
        ("mysql", "VARCHAR(9) DEFAULT ''", "", set()),
        ("mysql", "TEXT DEFAULT NULL", None, set()),
    ],
)
def test_existing_rows_get_what_the_server_makes_of_an_empty_default(
    server: str, column: str, value: str | None, found: set[str]
) -> None:
    feed = Canal(server=server).ddl(1, CREATE).insert(2, id=1).ddl(3, f"ALTER TABLE t ADD a {column}")

    assert feed.table() == [{"id": 1, "a": value}]
    assert problems(feed) == found
    place = feed.lineage().steps[-1].position
    assert {lost_since(feed.lineage(), text, feed.memory.reach) for text in found} <= {place}


@pytest.mark.parametrize(
    ("column", "value"),
    [("TEXT DEFAULT _UTF8MB4''", None), ("LONGTEXT DEFAULT ''", None), ("TINYTEXT DEFAULT ''", "")],
)
def test_tidb_drops_it_of_two_types(column: str, value: str | None) -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1).ddl(3, f"ALTER TABLE t ADD a {column}")

    assert feed.table() == [{"id": 1, "a": value}]
    assert problems(feed) == set()
