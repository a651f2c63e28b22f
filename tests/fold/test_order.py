"""The one order of changes that have one position."""

import pytest

from lakehouse.fold.row_edits import Change, in_order
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
