"""Tables without a key whose changes tell a part of a row: the cells that a change leaves out are those of
the row that it replaces (T94), and where nothing tells which row that is, the table says so.
"""

from typing import Any

import pytest

from lakehouse.fold.keyless import NOTHING_TO_REPLACE, ONE_OF_SEVERAL
from lakehouse.fold.row_edits import NEVER_INSERTED, Change
from lakehouse.gold.modes import Clock, Mode, ModeRows
from lakehouse.gold.options import GoldOptions
from tests.gold.test_modes import MODES
from tests.support.feeds import Canal, TiCDC

TYPES = {"a": "int", "b": "text", "c": "int"}
EVERY = {"upsert": GoldOptions(), **MODES}


def notes() -> Canal:
    return Canal().ddl(1, "CREATE TABLE t (a INT, b TEXT, c INT)")


def row(feed: Canal, at: int, kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> Canal:
    """A row of a source with binlog_row_image=NOBLOB: a message names the columns that it has."""
    return feed.row(at, kind, new, old, types={name: TYPES[name] for name in new}, key=())


def made(feed: TiCDC, mode: str) -> ModeRows:
    memory, lineage = feed.memory, feed.lineage()
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags, c.commit_ts)
        for c in memory.changes.values()
    ]
    return Mode(lineage, memory.reach, memory.upstream, Clock(), EVERY[mode]).rows(changes)


def images(found: ModeRows) -> list[dict[int, Any]]:
    """The source's cells of the rows."""
    rows = [{k: v for k, v in row.items() if k > 0} for row in found.rows]
    return sorted(rows, key=repr)


@pytest.mark.parametrize("mode", EVERY)
def test_a_partial_update_keeps_the_cells_of_the_row_that_it_replaces(mode: str) -> None:
    feed = row(notes(), 2, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 3, "UPDATE", {"a": 2, "c": 5}, {"a": 1})

    found = made(feed, mode)

    assert {1: 2, 2: "hello", 3: 5} in images(found)
    assert all(row.keys() == {1, 2, 3} for row in images(found))
    assert not found.problems


@pytest.mark.parametrize("mode", EVERY)
def test_several_partial_updates_follow_one_row(mode: str) -> None:
    feed = row(notes(), 2, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 3, "INSERT", {"a": 9, "b": "other", "c": 5})
    row(feed, 4, "UPDATE", {"a": 2, "c": 5}, {"a": 1})
    row(feed, 5, "UPDATE", {"a": 2, "b": "bye", "c": 6}, {"b": "hello", "c": 5})
    row(feed, 6, "UPDATE", {"a": 3, "c": 6}, {"a": 2})
    row(feed, 7, "DELETE", {"a": 9, "b": "other", "c": 5})

    found = made(feed, mode)

    assert {1: 3, 2: "bye", 3: 6} in images(found)
    assert not found.problems
    if mode == "upsert":
        assert images(found) == [{1: 3, 2: "bye", 3: 6}]


@pytest.mark.parametrize("mode", EVERY)
def test_equal_rows_are_no_doubt(mode: str) -> None:
    feed = row(notes(), 2, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 3, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 4, "UPDATE", {"a": 2, "c": 5}, {"a": 1})

    found = made(feed, mode)

    assert not found.problems
    if mode == "upsert":
        assert images(found) == [{1: 1, 2: "hello", 3: 5}, {1: 2, 2: "hello", 3: 5}]


@pytest.mark.parametrize("mode", EVERY)
def test_of_several_rows_that_agree_none_is_chosen_in_silence(mode: str) -> None:
    feed = row(notes(), 2, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 3, "INSERT", {"a": 1, "b": "bye", "c": 5})
    row(feed, 4, "UPDATE", {"a": 2, "c": 5}, {"a": 1})

    assert made(feed, mode).problems == {ONE_OF_SEVERAL}


@pytest.mark.parametrize("mode", EVERY)
def test_a_row_that_came_later_is_not_the_one_that_was_replaced(mode: str) -> None:
    feed = row(notes(), 2, "INSERT", {"a": 1, "b": "hello", "c": 5})
    row(feed, 3, "DELETE", {"a": 1, "c": 5})
    row(feed, 4, "INSERT", {"a": 1, "b": "bye", "c": 5})

    found = made(feed, mode)

    assert not found.problems
    assert {1: 1, 2: "bye", 3: 5} in images(found)
    if mode == "upsert":
        assert images(found) == [{1: 1, 2: "bye", 3: 5}]


@pytest.mark.parametrize("mode", EVERY)
def test_a_partial_change_of_a_row_that_nobody_inserted_says_so(mode: str) -> None:
    update = row(notes(), 4, "UPDATE", {"a": 2, "c": 5}, {"a": 1})
    delete = row(notes(), 4, "DELETE", {"a": 1, "c": 5})

    assert NOTHING_TO_REPLACE in made(update, mode).problems
    assert made(delete, mode).problems == {NEVER_INSERTED}


def whole(feed: TiCDC, at: int, kind: str, image: dict[str, Any], old: dict[str, Any] | None = None) -> TiCDC:
    return feed.row(at, kind, image, old, types={name: TYPES[name] for name in image}, key=())


X, Y = {"a": 1, "b": "x"}, {"a": 2, "b": "y"}


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("insert", [3, 4])
def test_a_delete_of_a_row_from_before_the_feed_takes_no_equal_row_that_is_inserted_later(
    mode: str, insert: int
) -> None:
    feed = whole(TiCDC(), 3, "DELETE", X)
    whole(whole(feed, insert, "INSERT", X), 5, "INSERT", Y)

    found = made(feed, mode)

    assert found.problems == {NEVER_INSERTED}
    assert images(found) == [{1: 1, 2: "x"}, {1: 2, 2: "y"}]


@pytest.mark.parametrize("mode", EVERY)
def test_an_update_that_changes_nothing_is_of_a_row_that_is_there(mode: str) -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (a INT, b TEXT)")
    whole(whole(feed, 2, "INSERT", X), 3, "UPDATE", X, X)

    found = made(feed, mode)

    assert not found.problems
    assert {1: 1, 2: "x"} in images(found)


def test_a_row_with_a_null_is_not_silently_the_one_that_a_delete_means() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (a INT, b TEXT)")
    whole(whole(feed, 2, "INSERT", {"a": 1, "b": None}), 3, "DELETE", X)

    assert made(feed, "upsert").problems == {NEVER_INSERTED}


def test_in_order_of_arrival_a_delete_may_come_before_its_insert() -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (a INT, b TEXT)")
    whole(whole(feed, 2, "DELETE", X), 3, "INSERT", X)

    found = made(feed, "upsert")

    assert images(found) == []
    assert not found.problems
