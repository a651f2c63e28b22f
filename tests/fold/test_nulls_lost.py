"""NOT NULL on a column that has NULLs: a strict sql_mode refuses it but in a TIMESTAMP, which gets the
statement's time; a lax MariaDB gives the DEFAULT where it changes the table in place (run on 10.11).
"""

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.row_history import row_history
from lakehouse.fold.upcast import lost_since
from tests.support.feeds import Canal, TiCDC

TIME = "column a, NOT NULL: the time of the statement fills existing rows"
BY_VERSION = (
    "column a, NOT NULL: a TIMESTAMP without NULL and DEFAULT, whose NULLs stay or become the statement's "
    "time: the version of the server says which"
)
BY_ALGORITHM = (
    "column a, NOT NULL: a lax MariaDB gives NULLs the DEFAULT or the type's zero, as it changes the table "
    "in place or copies it"
)
EXPLICIT = "MODIFY a TIMESTAMP NOT NULL"
IMPLIED = "MODIFY a TIMESTAMP"


def problems(feed: TiCDC) -> set[str]:
    memory, lineage = feed.memory, feed.lineage()
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    found = fold(lineage, changes, memory.reach, memory.upstream).problems
    assert row_history(lineage, changes, memory.reach, memory.upstream, by_commit=True).problems == found
    return found


def fed(feed: TiCDC, type_: str, alter: str) -> TiCDC:
    feed.ddl(1, f"CREATE TABLE t (id INT PRIMARY KEY, a {type_} NULL)")
    return feed.insert(2, id=1, a=None).ddl(3, f"ALTER TABLE t {alter}")


@pytest.mark.parametrize(
    ("server", "alter", "found"),
    [
        ("mysql", EXPLICIT, {TIME}),
        ("mysql 8.0", EXPLICIT, {TIME}),
        ("mariadb 11.4", "CHANGE a a TIMESTAMP(3) NOT NULL DEFAULT '2001-01-01'", {TIME}),
        ("mysql 8.0", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", {TIME}),
        ("mysql 5.7", IMPLIED, {TIME}),
        ("mysql 8.0", IMPLIED, set()),
        ("mariadb", IMPLIED, {BY_VERSION}),
        ("mysql 5.7", "MODIFY a TIMESTAMP NULL", set()),
        ("mysql 5.7", "MODIFY a TIMESTAMP DEFAULT NULL", set()),
    ],
)
def test_a_null_in_a_timestamp_becomes_the_time_of_the_statement(
    server: str, alter: str, found: set[str]
) -> None:
    feed = fed(Canal(server=server), "TIMESTAMP", alter)

    assert [row["a"] for row in feed.table()] == [None]
    assert problems(feed) == found
    place = feed.lineage().steps[-1].position
    assert {lost_since(feed.lineage(), text, feed.memory.reach) for text in found} <= {place}


@pytest.mark.parametrize(
    ("server", "type_", "alter", "value", "found"),
    [
        ("mariadb 10.11", "INT", "MODIFY a INT NOT NULL DEFAULT 7", 0, {BY_ALGORITHM}),
        ("mysql", "INT", "MODIFY a INT NOT NULL DEFAULT 7", 0, {BY_ALGORITHM}),
        ("mysql 8.0", "INT", "MODIFY a INT NOT NULL DEFAULT 7", 0, set()),
        ("mariadb", "INT DEFAULT 7", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", 0, {BY_ALGORITHM}),
        ("mariadb", "INT", "MODIFY a INT NOT NULL DEFAULT 0", 0, set()),
        ("mariadb", "INT", "MODIFY a INT NOT NULL", 0, set()),
        ("mariadb", "VARCHAR(9)", "MODIFY a VARCHAR(9) NOT NULL DEFAULT ''", "", set()),
        ("mariadb", "VARCHAR(9)", "MODIFY a VARCHAR(9) NOT NULL DEFAULT 'x'", "", {BY_ALGORITHM}),
    ],
)
def test_elsewhere_it_becomes_the_types_zero_and_in_a_lax_mariadb_maybe_the_default(
    server: str, type_: str, alter: str, value: object, found: set[str]
) -> None:
    feed = fed(Canal(server=server), type_, alter)

    assert [row["a"] for row in feed.table()] == [value]
    assert problems(feed) == found


def test_without_a_null_there_is_no_doubt_and_tidb_refuses_the_statement() -> None:
    gone = (
        fed(Canal(), "TIMESTAMP", "COMMENT ''")
        .row(4, "DELETE", {"id": 1, "a": None})
        .ddl(5, f"ALTER TABLE t {EXPLICIT}")
    )

    assert problems(gone) == set()
    assert problems(fed(TiCDC(), "TIMESTAMP", EXPLICIT)) == set()
