"""TRUNCATE PARTITION removes the rows that are in a partition then: what decides is the row, not the images
that it had, nor a part of it (T39, T94).
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import Change
from lakehouse.fold.row_history import row_history
from lakehouse.fold.upcast import lost_since
from lakehouse.lineage import Lineage
from tests.support.feeds import TiCDC

ROWS = {"id": "int", "p": "int", "v": "int"}
PARTITIONS = {"p0": range(10), "p1": range(10, 20), "p2": range(20, 30)}
CREATE = (
    "CREATE TABLE t (id INT{key}, p INT, v INT) PARTITION BY RANGE COLUMNS (p) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
    "PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
OPEN = "partition p0: no message tells whether some rows were in it"


def created(key: bool = True) -> TiCDC:
    return TiCDC().ddl(1, CREATE.format(key=" PRIMARY KEY" if key else ""))


def row(feed: TiCDC, at: int, kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> TiCDC:
    return feed.row(at, kind, new, old, types={name: ROWS[name] for name in new})


def changes_of(feed: TiCDC) -> tuple[Lineage, list[Change]]:
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags, c.commit_ts)
        for c in feed.memory.changes.values()
    ]
    return feed.lineage(), changes


def found(feed: TiCDC) -> tuple[list[tuple[Any, ...]], set[str]]:
    """The rows that each way of folding gives, and what it says of them."""
    lineage, changes = changes_of(feed)
    at, upstream = feed.memory.reach, feed.memory.upstream
    folded = fold(lineage, changes, at, upstream)
    history = row_history(lineage, changes, at, upstream, by_commit=True)
    rows = listed(finish(folded))
    assert listed(history.rows) == rows
    assert history.problems == folded.problems
    return rows, folded.problems


def listed(rows: list[dict[int, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.get(number, "not sent") for number in (1, 2, 3)) for row in rows)


def test_an_update_into_the_partition_that_goes_takes_the_row_with_it() -> None:
    feed = row(created(), 2, "INSERT", {"id": 1, "p": 15, "v": 1})
    row(feed, 3, "UPDATE", {"id": 1, "p": 5, "v": 1})
    feed.ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0")

    assert found(feed) == ([], set())


def test_a_row_that_was_deleted_does_not_come_back_with_its_last_partition() -> None:
    feed = row(created(), 2, "INSERT", {"id": 1, "p": 15, "v": 1})
    row(feed, 3, "UPDATE", {"id": 1, "p": 5, "v": 1})
    row(feed, 4, "DELETE", {"id": 1, "p": 5, "v": 1})
    feed.ddl(5, "ALTER TABLE t TRUNCATE PARTITION p0")

    assert found(feed) == ([], set())


def test_an_update_that_leaves_the_partition_out_is_no_row_of_the_lowest_one() -> None:
    feed = row(created(), 2, "INSERT", {"id": 1, "p": 15, "v": 1})
    row(feed, 3, "UPDATE", {"id": 1, "v": 2})
    feed.ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0")

    assert found(feed) == ([(1, 15, 2)], set())


def test_null_is_in_the_lowest_partition() -> None:
    feed = row(created(), 2, "INSERT", {"id": 1, "p": None, "v": 1})
    feed.ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0")

    assert found(feed) == ([], set())


@pytest.mark.parametrize("key", [True, False])
def test_a_row_whose_partition_no_message_tells_stays_and_says_so(key: bool) -> None:
    feed = row(created(key), 2, "INSERT", {"id": 1, "v": 1})
    feed.ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0")

    assert found(feed) == ([(1, "not sent", 1)], {OPEN})


def test_what_empties_the_table_later_mends_it() -> None:
    feed = row(created(), 2, "INSERT", {"id": 1, "v": 1})
    feed.ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0").ddl(5, "TRUNCATE TABLE t")
    row(feed, 6, "INSERT", {"id": 2, "p": 1, "v": 1})
    lineage, changes = changes_of(feed)

    folded = fold(lineage, changes, feed.memory.reach, feed.memory.upstream)

    assert (listed(finish(folded)), folded.problems) == ([(2, 1, 1)], set())


def test_the_statement_that_a_table_is_incomplete_since_is_one_after_it_was_emptied() -> None:
    feed = created().ddl(4, "ALTER TABLE t TRUNCATE PARTITION p0").ddl(5, "TRUNCATE TABLE t")
    row(feed, 6, "INSERT", {"id": 2, "v": 1}).ddl(7, "ALTER TABLE t TRUNCATE PARTITION p0")
    row(feed, 8, "UPDATE", {"id": 2, "p": 1, "v": 1})

    assert found(feed) == ([(2, 1, 1)], {OPEN})
    assert lost_since(feed.lineage(), OPEN, feed.memory.reach) == (0, 7, 2, 0, 0, 0)


class Source:
    """A table of rows in partitions, and a feed that leaves out what it may: old images always, unchanged
    columns of updates often.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 1
        self.rows: dict[int, dict[str, int]] = {}
        self.feed = created()

    def step(self) -> None:
        self.now += 1
        key = self.chance.randrange(4)
        if self.chance.randrange(5) == 0:
            self.truncate(self.chance.choice(list(PARTITIONS)))
        elif key not in self.rows:
            self.rows[key] = {"id": key, "p": self.chance.randrange(30), "v": self.now}
            row(self.feed, self.now, "INSERT", self.rows[key])
        elif self.chance.randrange(4) == 0:
            row(self.feed, self.now, "DELETE", {"id": key})
            del self.rows[key]
        else:
            self.update(key)

    def update(self, key: int) -> None:
        new = {"v": self.now} if self.chance.randrange(2) else {"p": self.chance.randrange(30)}
        self.rows[key] = {**self.rows[key], **new}
        told = {"id": key, **new} if self.chance.randrange(2) else self.rows[key]
        row(self.feed, self.now, "UPDATE", told)

    def truncate(self, name: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if row["p"] not in PARTITIONS[name]}
        self.feed.ddl(self.now, f"ALTER TABLE t TRUNCATE PARTITION {name}")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 25))
def test_rows_in_partitions_are_the_sources(seed: int, count: int) -> None:
    source = Source(random.Random(seed))
    for _ in range(count):
        source.step()

    assert found(source.feed) == (
        listed([dict(enumerate(row.values(), 1)) for row in source.rows.values()]),
        set(),
    )
