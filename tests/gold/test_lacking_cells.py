"""A cell is a value, NULL, or not told by any message: a table with cells of the last kind says so in every
mode, and no other table does (T62, T93, T94).
"""

from collections.abc import Iterable
from typing import Any

import pytest

from lakehouse.fold.row_edits import Change
from lakehouse.gold.modes import Clock, Mode, ModeRows
from lakehouse.gold.options import ColumnOptions, GoldOptions
from tests.gold.test_modes import MODES, through_gold
from tests.support.feeds import Canal, TiCDC

EVERY = {"upsert": GoldOptions(), **{word: MODES[word] for word in ("history", "append", "soft")}}
TYPES = {"id": "int", "a": "varchar(9)", "b": "varchar(9)"}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))"
B = "column b: no message tells its value in some rows"


def row(feed: TiCDC, at: int, kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> TiCDC:
    return feed.row(at, kind, new, old, types={name: TYPES[name] for name in new})


def changes_of(feed: TiCDC) -> list[Change]:
    return [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags, c.commit_ts)
        for c in feed.memory.changes.values()
    ]


def mode_of(feed: TiCDC, said: GoldOptions, *, virtual: bool = False) -> Mode:
    return Mode(feed.lineage(), feed.memory.reach, feed.memory.upstream, Clock(), said, virtual)


def lacking(feed: TiCDC, *, virtual: bool = False) -> Iterable[frozenset[str]]:
    """What each mode says that rows lack; one answer where all say the same."""
    return {mode_of(feed, said, virtual=virtual).rows(changes_of(feed)).problems for said in EVERY.values()}


def test_a_column_that_no_message_carries_is_not_null_in_silence() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x"})

    assert lacking(feed) == {frozenset({B})}


def test_a_partial_update_of_a_row_that_was_never_seen_says_so() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "UPDATE", {"id": 1, "a": "x"})

    assert lacking(feed) == {frozenset({B})}


def test_a_partial_update_of_a_whole_row_lacks_nothing() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x", "b": None})
    row(feed, 3, "UPDATE", {"id": 1, "a": "y"})

    assert lacking(feed) == {frozenset()}


def test_a_first_update_of_a_key_with_a_full_image_lacks_nothing() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "UPDATE", {"id": 1, "a": "y", "b": "z"})

    assert lacking(feed) == {frozenset()}


def test_columns_that_came_later_and_went_lack_nothing() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x", "b": "z"})
    feed.ddl(3, "ALTER TABLE t ADD COLUMN c INT, ADD COLUMN d INT NOT NULL DEFAULT 7")
    feed.ddl(4, "ALTER TABLE t DROP COLUMN b")
    row(feed, 5, "UPDATE", {"id": 1, "a": "y"})

    assert lacking(feed) == {frozenset()}


def test_virtual_columns_are_in_no_row_where_the_feed_has_none() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(9) AS (id) VIRTUAL)")
    row(feed, 2, "INSERT", {"id": 1})

    assert lacking(feed) == {frozenset()}
    assert lacking(feed, virtual=True) == {frozenset({B})}


@pytest.mark.parametrize("word", EVERY)
def test_a_column_that_the_yaml_excludes_may_be_missing(word: str) -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x"})
    said = GoldOptions(
        mode=EVERY[word].mode, deletes=EVERY[word].deletes, columns={"b": ColumnOptions(exclude=True)}
    )

    assert mode_of(feed, said).rows(changes_of(feed)).problems == frozenset()


def test_a_whole_image_that_came_later_mends_the_row() -> None:
    feed = row(TiCDC().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x"})
    row(feed, 3, "UPDATE", {"id": 1, "a": "x", "b": "z"})
    changes = changes_of(feed)

    assert mode_of(feed, EVERY["upsert"]).rows(changes).problems == frozenset()
    # what the row was before is not known
    assert mode_of(feed, EVERY["history"]).rows(changes).problems == {B}


@pytest.mark.parametrize("word", ["history", "append", "soft"])
def test_a_partial_update_of_a_row_of_gold_lacks_nothing(word: str) -> None:
    """Gold has NULL where the source has: that is told."""
    feed = row(Canal().ddl(1, CREATE), 2, "INSERT", {"id": 1, "a": "x", "b": None})
    mode = mode_of(feed, EVERY[word])
    rows, _ = through_gold(mode, mode.rows(changes_of(feed)).rows)
    row(feed, 3, "UPDATE", {"id": 1, "a": "y"}, {"a": "x"})

    found: ModeRows = mode_of(feed, EVERY[word]).advance(changes_of(feed)[1:], rows)

    assert found.problems == frozenset()
