"""What changes do not tell is said, and never made up (T33, T36, T41, T42, T94)."""

from typing import Any

import pytest

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import NULL_FOR_TEXT, OLD_ROW_STAYS, Change
from lakehouse.fold.row_history import row_history
from tests.support.feeds import TiCDC

KEYLESS = "CREATE TABLE t (id INT, a INT)"
INTS = {"id": "int", "a": "int"}


def problems(feed: TiCDC) -> set[str]:
    memory = feed.memory
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags) for c in memory.changes.values()
    ]
    found = fold(feed.lineage(), changes, memory.reach).problems
    for by_commit in (True, False):
        history = row_history(feed.lineage(), changes, memory.reach, by_commit=by_commit)
        # a delete whose image lacks columns takes a row that agrees with it in the fold alone
        assert history.problems >= found
    return found


def row(feed: TiCDC, at: int, kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> TiCDC:
    return feed.row(at, kind, new, old, types=INTS, key=())


def test_an_update_of_a_keyless_table_without_its_old_image_leaves_the_old_row_and_says_so() -> None:
    feed = row(row(TiCDC().ddl(1, KEYLESS), 2, "INSERT", {"id": 1, "a": 1}), 3, "UPDATE", {"id": 1, "a": 2})

    assert feed.table() == [{"id": 1, "a": 1}, {"id": 1, "a": 2}]
    assert problems(feed) == {OLD_ROW_STAYS}


def test_a_delete_without_any_column_says_so() -> None:
    feed = row(row(TiCDC().ddl(1, KEYLESS), 2, "INSERT", {"id": 1, "a": 1}), 3, "DELETE", {})

    assert OLD_ROW_STAYS in problems(feed)


def test_a_delete_of_a_keyless_row_that_nobody_inserted_says_so() -> None:
    feed = row(TiCDC().ddl(1, KEYLESS), 3, "DELETE", {"id": 1, "a": 1})

    assert problems(feed) == {"a delete of a row that no change inserted"}


def test_equal_rows_of_a_keyless_table_go_one_by_one() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT, a INT, UNIQUE KEY u (id))")
    for _ in range(3):
        row(feed, 2, "INSERT", {"id": None, "a": 7})
    row(feed, 3, "DELETE", {"id": None, "a": 7})
    row(feed, 4, "UPDATE", {"id": None, "a": 8}, {"id": None, "a": 7})

    assert feed.table() == [{"id": None, "a": 7}, {"id": None, "a": 8}]
    assert not problems(feed)


def test_a_first_update_or_delete_of_a_key_is_no_problem() -> None:
    feed = (
        TiCDC()
        .ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))")
        .row(2, "UPDATE", {"id": 1, "a": "y"}, {"id": 1, "a": "x"})
    )
    feed.row(3, "DELETE", {"id": 2, "a": "z"})

    assert feed.table() == [{"id": 1, "a": "y"}]
    assert not problems(feed)


def test_a_null_in_a_text_column_that_is_not_null_is_another_value_that_nothing_tells() -> None:
    """TiCDC 8.5.4's canal-json writes the text 'null' as NULL."""
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NOT NULL, w TEXT)")
    feed.insert(2, id=1, v="a", w=None)
    feed.row(3, "UPDATE", {"id": 1, "v": "b", "w": None}, {"id": 1, "v": None, "w": None})
    assert problems(feed) == set()

    feed.insert(4, id=2, v=None, w=None)

    assert problems(feed) == {NULL_FOR_TEXT.format("v")}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("DECIMAL(9,2)", "decimal"),
        ("DATE", "date"),
        ("TIME", "time"),
        ("DATETIME", "datetime"),
        ("ENUM('a')", "enum"),
    ],
)
def test_a_null_in_place_of_a_zero_is_another_value_that_nothing_tells(text: str, word: str) -> None:
    """The new architecture of TiCDC 9.0.0-beta.1 writes zero decimals, dates and times, '' and an ENUM's 0
    as NULL.
    """
    feed = TiCDC().ddl(1, f"CREATE TABLE t (id INT PRIMARY KEY, v {text} NOT NULL, w {text})")
    types = {"id": "int", "v": word, "w": word}
    feed.row(2, "INSERT", {"id": 1, "v": None, "w": None}, types=types)

    assert problems(feed) == {NULL_FOR_TEXT.format("v")}


def test_a_null_in_a_generated_column_that_is_not_null_is_no_problem() -> None:
    text = "CREATE TABLE t (id INT PRIMARY KEY, g VARCHAR(9) AS (CONCAT('a', id)) STORED NOT NULL)"

    assert problems(TiCDC().ddl(1, text).insert(2, id=1, g=None)) == set()


def test_a_null_that_came_before_a_column_was_not_null_or_before_the_table_was_emptied_is_no_problem() -> (
    None
):
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)").insert(2, id=1, v=None)
    feed.ddl(3, "ALTER TABLE t MODIFY v TEXT NOT NULL").insert(4, id=2, v=None).ddl(5, "TRUNCATE TABLE t")

    assert problems(feed) == set()
