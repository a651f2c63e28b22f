"""The order in which a TiDB makes the indexes of a CREATE TABLE, which decides their names and, of several
unique keys, the handle: those in the columns' own definitions are made after all others
(buildColumnsAndConstraints in pkg/ddl/create_table.go). MySQL makes them as they are written.
"""

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.conditions import indexes_at
from lakehouse.ddl.parse.statements import read
from tests.support.feeds import TiCDC

TYPES = {"a": "int", "b": "int", "c": "int"}
TWO = "CREATE TABLE `t` (`a` INT NOT NULL UNIQUE KEY,`b` INT NOT NULL,`c` INT,UNIQUE {}(`b`))"
ALIKE = "CREATE TABLE `t` (`a` INT NOT NULL UNIQUE KEY,`b` INT NOT NULL,`c` INT,UNIQUE (`a`,`b`))"


def inserted(create: str, *rows: tuple[int, int], alter: str | None = None) -> TiCDC:
    feed = TiCDC().ddl(1, create)
    if alter is not None:
        feed.ddl(2, alter)
    for at, (a, b) in enumerate(rows, 3):
        feed.row(at, "INSERT", {"a": a, "b": b, "c": 0}, types=TYPES, key=())
    return feed


def test_a_delete_by_the_handle_key_alone_finds_its_row() -> None:
    """Under delete-only-output-handle-key-columns: of keys of one length the first one made is the handle."""
    feed = inserted(TWO.format("`u`"), (1, 2), (4, 5))
    feed.row(9, "DELETE", {"b": 2}, types={"b": "int"}, key=())

    assert feed.table() == [{"a": 4, "b": 5, "c": 0}]
    assert feed.incomplete() is None


@pytest.mark.parametrize(("dropped", "count"), [("a", 1), ("a_2", 2)])
def test_an_index_without_a_name_gets_that_of_its_turn(dropped: str, count: int) -> None:
    feed = inserted(ALIKE, (1, 2), (1, 3), alter=f"ALTER TABLE `t` DROP INDEX `{dropped}`")

    assert len(feed.table()) == count


def test_other_servers_make_them_as_they_are_written() -> None:
    (statement,) = read(TWO.format("`u`"))
    assert isinstance(statement, e.CreateTable)

    assert [index.name for index in indexes_at(statement, "mysql")] == [None, "u"]
    assert [index.name for index in indexes_at(statement, "tidb")] == ["u", None]


@pytest.mark.parametrize(("server", "count"), [("mariadb", 2), ("mysql", 1), ("tidb", 1)])
@pytest.mark.parametrize("alters", [False, True])
def test_a_mariadb_makes_no_unique_key_beside_a_primary_key_of_one_definition(
    server: str, count: int, alters: bool
) -> None:
    """Run on 11.4. Without the primary key equal rows are two there."""
    own = "" if alters else " UNIQUE PRIMARY KEY"
    feed = TiCDC(server=server).ddl(1, f"CREATE TABLE `t` (`a` INT{own},`b` INT,`c` INT)")
    if alters:
        feed.ddl(2, "ALTER TABLE `t` MODIFY `a` INT PRIMARY KEY UNIQUE")
    feed.ddl(3, "ALTER TABLE `t` DROP PRIMARY KEY")
    for at in (4, 5):
        feed.row(at, "INSERT", {"a": 1, "b": at, "c": 0}, types=TYPES, key=())

    assert len(feed.table()) == count
