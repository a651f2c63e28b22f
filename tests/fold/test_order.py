"""The one order of changes that have one position, and where silver's keys become those of other rows."""

import pytest

from lakehouse.fold.row_edits import Change, in_order
from lakehouse.fold.steps import key_turns
from tests.support.feeds import TiCDC


class Unread(dict[str, object]):
    """An image that nobody needs to print."""

    def __repr__(self) -> str:
        raise AssertionError("the image was looked at")


def transaction(image: type[dict[str, object]]) -> list[Change]:
    """Changes of one commit."""
    images = [image(id=number, v=number % 3) for number in (3, 1, 2)]
    return [Change((0, 2, 1, 0, 0, 0), "insert", None, one, "canonical", (), 2) for one in images]


@pytest.mark.parametrize("turned", [False, True])
def test_rows_without_a_key_have_one_order_however_they_were_read(turned: bool) -> None:
    feed, changes = TiCDC().ddl(1, "CREATE TABLE t (id INT, v INT)"), transaction(dict)

    found = in_order(feed.lineage(), changes[::-1] if turned else changes, feed.memory.upstream)

    assert [change.after["id"] for change in found if change.after] == [1, 2, 3]


def test_rows_of_one_transaction_that_have_keys_are_not_compared() -> None:
    feed, changes = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v INT)"), transaction(Unread)

    assert len(in_order(feed.lineage(), changes, feed.memory.upstream)) == 3


@pytest.mark.parametrize(
    ("key", "ddl", "turns"),
    [
        ("a", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)", 1),
        ("a", "MODIFY a VARCHAR(9) NOT NULL", 1),
        ("a, b", "RENAME COLUMN a TO z", 1),  # silver has a key in the order of the names
        ("a, b", "RENAME COLUMN b TO z", 0),
        ("a", "RENAME COLUMN a TO z", 0),
        ("a", "MODIFY a BIGINT NOT NULL", 0),
        ("a", "ADD COLUMN c INT", 0),
    ],
)
def test_a_key_turns_where_its_columns_their_order_or_their_texts_change(
    key: str, ddl: str, turns: int
) -> None:
    create = f"CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY ({key}))"
    lineage = TiCDC().ddl(1, create).ddl(5, f"ALTER TABLE t {ddl}").lineage()

    assert len(key_turns(lineage, 1)) == turns
