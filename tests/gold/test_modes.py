"""Gold's rows in each mode: on from what gold has, window by window, or anew from all changes, they are the
same.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.fold.row_edits import Change, row_key
from lakehouse.fold.steps import target_step
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, gold_columns, type_rows
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.own_columns import POSITION, canonical_rows, own_columns
from lakehouse.lineage import Lineage
from tests.fold.test_versions import lineages, place, told
from tests.support.engine import Memory
from tests.support.feeds import TiCDC
from tests.support.source_model import History

QUICK = settings(max_examples=30)
seeds = st.integers(0, 2**32 - 1)
TSO = Clock(by_commit=True, tso=True)
MODES = {
    "history": GoldOptions(mode="history"),
    "append": GoldOptions(mode="append"),
    "soft": GoldOptions(deletes="soft"),
    "masked": GoldOptions(
        mode="history",
        columns={"a": ColumnOptions(hash="sha256"), "b": ColumnOptions(exclude=True, rename=None)},
    ),
}


def mode(silver: Memory, lineage: Lineage, at: Position, options: GoldOptions, clock: Clock = TSO) -> Mode:
    return Mode(lineage, at, silver.upstream, clock, options)


def columns_of(table: Mode) -> list[GoldColumn]:
    schema = table.lineage.steps[table.target].schema
    columns = gold_columns(schema, virtual=False, options=table.options)
    return columns + own_columns(table.options, [column.name for column in columns])


def through_gold(table: Mode, rows: list[Row]) -> tuple[list[Row], bool]:
    """The rows as gold gives them back, and whether no value of them is in a companion."""
    columns = columns_of(table)
    typed = type_rows(rows, columns)
    return canonical_rows(columns, typed.columns, typed.count), not typed.raw


def listed(table: Mode, rows: list[Row]) -> list[str]:
    """The rows as gold has them, companions among them."""
    typed = type_rows(rows, columns_of(table))
    cells = {**typed.columns, **typed.raw}
    return sorted(
        repr([(name, values[index]) for name, values in sorted(cells.items()) if values[index] is not None])
        for index in range(typed.count)
    )


@pytest.mark.parametrize("word", MODES)
@QUICK
@given(seed=seeds, count=st.integers(0, 20), chance=seeds)
@example(seed=2308060317, count=12, chance=0)  # equal rows that get one key
def test_window_by_window_gives_what_all_changes_at_once_give(
    word: str, seed: int, count: int, chance: int
) -> None:
    history = History(seed, count)
    silver, rand = told(history, chance), random.Random(chance)

    for lineage, changes in lineages(silver):
        moments = [at for at, _ in history.states if lineage.name_at(place(at)) is not None]
        windows = sorted(rand.sample(moments, k=min(len(moments), 4)))
        gold: list[Row] | None = None
        before: Any = None
        for at in windows:
            table = mode(silver, lineage, place(at), MODES[word])
            if gold is None or table.target != before.target or not table.advances:
                gold = table.rows(changes).rows
            else:
                fresh = [change for change in changes if before.at < change.position <= table.at]
                gold = advanced(table, gold, before.at, changes, fresh)
            before = table
            assert listed(table, gold) == listed(table, table.rows(changes).rows), (lineage.id, at)


@pytest.mark.parametrize("word", MODES)
@QUICK
@given(seed=seeds, count=st.integers(0, 20), chance=seeds)
@example(seed=385896, count=7, chance=355)  # a late row below a TRUNCATE
def test_windows_that_cut_a_commit_in_two_and_late_rows_give_the_same(
    word: str, seed: int, count: int, chance: int
) -> None:
    history = History(seed, count, raw_updates=True)
    silver, rand = told(history, chance), random.Random(chance)

    for lineage, changes in lineages(silver):
        here = [change for change in changes if not rand.randrange(3)]
        places = sorted({change.position for change in changes})
        gold: list[Row] = []
        before: Position = (0, 0, 0, 0, 0, 0)
        for at in sorted(rand.sample(places, k=min(len(places), 5))):
            table = mode(silver, lineage, at, MODES[word])
            late = [
                change
                for change in changes
                if change not in here and change.position <= before and rand.randrange(2)
            ]
            fresh = [
                change
                for change in changes
                if change not in here and before < change.position <= at and rand.randrange(3)
            ]
            here += late + fresh
            gold = windowed(
                table,
                lineage,
                gold,
                before,
                here,
                late + [change for change in here if before < change.position <= at],
            )
            before = at
            assert listed(table, gold) == listed(table, table.rows(here).rows), (lineage.id, at)


def windowed(
    table: Mode, lineage: Lineage, gold: list[Row], before: Position, here: list[Change], fresh: list[Change]
) -> list[Row]:
    """Gold after a window, by the rules of lakehouse/spark/gold/window.py."""
    late = any(table.is_late(change, before) for change in fresh)
    if (
        not gold
        or table.target != target_step(lineage, before)
        or not table.advances
        or (late and table.word == "append")
    ):
        return table.rows(here).rows
    return advanced(table, gold, before, here, fresh, late=late)


def advanced(
    table: Mode,
    gold: list[Row],
    before: Position,
    here: list[Change],
    fresh: list[Change],
    *,
    late: bool = False,
) -> list[Row]:
    """Gold after a window, merged as Spark does it: its rows are found by their keys, without the values that
    are in companions.
    """
    keys = table.touched(fresh).keys
    if keys is None:
        return table.rows(here).rows
    mine = [row for row in gold if row_key(row, table.ids) in keys]
    if table.word == "append":
        last = {row_key(row, table.ids): row for row in sorted(mine, key=lambda row: row[POSITION])}
        mine = list(last.values())
    known, exact = through_gold(table, mine)
    if not table.tells_apart(known):
        return table.rows(here).rows
    rows = table.advance(fresh, known).rows
    if late or not exact:
        rows = table.of_keys(table.rows(here).rows, keys)
    if table.word == "append":
        return [*gold, *table.log_above(rows, before)]
    return merged(table, gold, *table.differences(known, rows, exact=exact))


def merged(table: Mode, held: list[Row], puts: list[Row], deletes: list[Row]) -> list[Row]:
    """As MERGE does it: rows that were equal before they got a key may have one key, and stay as many."""
    new = {row_key(row, table.row_ids): row for row in puts}
    gone = {row_key(row, table.row_ids) for row in deletes}
    keyed = [(row_key(row, table.row_ids), row) for row in held]
    there = {key for key, _ in keyed}
    inserted = [row for key, row in new.items() if key not in there]
    return [*(new.get(key, row) for key, row in keyed if key not in gone), *inserted]


def assert_windows_give_the_table(
    feed: TiCDC, options: GoldOptions, *, in_one_second: bool = False, on_ddl: Mapping[str, str] | None = None
) -> Counter[int]:
    """Each change in a window of its own gives what all changes give; `in_one_second` of a binlog's clock.
    Returns how many rows there were after how many windows.
    """
    [(lineage, changes)] = lineages(feed.memory.ruled(Rules({("d", "t"): on_ddl or {}})))
    clock = Clock() if in_one_second else TSO
    changes = [change._replace(commit_ts=1000) if in_one_second else change for change in changes]
    gold: list[Row] = []
    counts = Counter[int]()
    before: Position = changes[0].position
    for change in sorted(changes, key=lambda change: change.position):
        table = mode(feed.memory, lineage, change.position, options, clock)
        goes_on = gold and table.advances and table.target == target_step(lineage, before)
        gold = advanced(table, gold, before, changes, [change]) if goes_on else table.rows(changes).rows
        assert listed(table, gold) == listed(table, table.rows(changes).rows), change.op
        before, counts[len(gold)] = change.position, counts[len(gold)] + 1
    return counts


TYPES = {"id": "int", "d": "date", "v": "varchar"}
ZERO, PARTIAL = "0000-00-00", "2024-00-00"


def dated(key: str) -> TiCDC:
    """A table of dates that gold can't hold."""
    return TiCDC().ddl(1, f"CREATE TABLE `t` (`id` INT, `d` DATE, `v` VARCHAR(9), PRIMARY KEY (`{key}`))")


@pytest.mark.parametrize("word", ["history", "append", "soft"])
@pytest.mark.parametrize("in_one_second", [False, True])
def test_a_value_that_gold_can_not_hold_is_not_null_in_later_windows(word: str, in_one_second: bool) -> None:
    feed = dated("id").row(2, "INSERT", {"id": 1, "d": ZERO, "v": "a"}, types=TYPES)
    feed.row(3, "UPDATE", {"id": 1, "d": ZERO, "v": "b"}, {"v": "a"}, types=TYPES)
    feed.row(4, "UPDATE", {"id": 1, "d": None, "v": "b"}, {"d": ZERO}, types=TYPES)
    feed.row(5, "UPDATE", {"id": 1, "d": ZERO, "v": "b"}, {"d": None}, types=TYPES)
    feed.row(6, "DELETE", {"id": 1, "d": ZERO, "v": "b"}, types=TYPES)

    assert_windows_give_the_table(feed, MODES[word], in_one_second=in_one_second)


@pytest.mark.parametrize("word", ["history", "append", "soft"])
@pytest.mark.parametrize("in_one_second", [False, True])
def test_rows_whose_keys_gold_can_not_hold_are_told_apart(word: str, in_one_second: bool) -> None:
    feed, key = dated("d"), ("d",)
    feed.row(2, "INSERT", {"id": 1, "d": ZERO, "v": "a"}, types=TYPES, key=key)
    feed.row(3, "INSERT", {"id": 2, "d": PARTIAL, "v": "a"}, types=TYPES, key=key)
    feed.row(4, "UPDATE", {"id": 1, "d": ZERO, "v": "b"}, {"v": "a"}, types=TYPES, key=key)
    feed.row(5, "DELETE", {"id": 2, "d": PARTIAL, "v": "a"}, types=TYPES, key=key)

    assert_windows_give_the_table(feed, MODES[word], in_one_second=in_one_second)


@pytest.mark.parametrize(
    ("ddl", "kind", "said", "names"),
    [
        ("ADD COLUMN c INT", "add_column", {}, ("a", "c")),
        ("RENAME COLUMN a TO c", "rename_column", {"a": ColumnOptions(exclude=True)}, ("b", "c")),
        ("RENAME COLUMN a TO c", "rename_column", {"a": ColumnOptions(hash="sha256")}, ("b", "c")),
        ("DROP COLUMN a", "drop_column", {"a": ColumnOptions(exclude=True)}, ("b", "b")),
    ],
)
def test_what_an_ignored_ddl_keeps_from_gold_makes_no_version(
    ddl: str, kind: str, said: dict[str, ColumnOptions], names: tuple[str, str]
) -> None:
    """A YAML means a column by the name that gold keeps."""
    types = dict.fromkeys(("id", "a", "b"), "int")
    feed = TiCDC().ddl(1, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` INT, `b` INT)")
    feed.row(2, "INSERT", {"id": 1, "a": 1, "b": 1}, types=types)
    feed.ddl(3, f"ALTER TABLE `t` {ddl}")
    row, types = {"id": 1, **dict.fromkeys(names, 1)}, dict.fromkeys(["id", *names], "int")
    changed = {"c": 2} if "c" in names and "hash" not in str(said) else {}
    for tick in (4, 5):
        feed.row(tick, "UPDATE", {**row, **changed}, row if tick == 4 else {**row, **changed}, types=types)

    counts = assert_windows_give_the_table(
        feed, GoldOptions(mode="history", columns=said), on_ddl={kind: "ignore"}
    )
    assert counts == {1: 3}


@pytest.mark.parametrize("word", ["history", "append", "soft"])
@pytest.mark.parametrize("key", ["PRIMARY KEY (`id`)", "KEY (`id`)"])
def test_a_window_after_a_change_of_the_key_goes_on_from_the_row_that_has_the_key(
    word: str, key: str
) -> None:
    """k = 5 was row 1's before k was the key: the row that is inserted with it is another one."""
    types, first = dict.fromkeys(("id", "k", "v"), "int"), ("id",) if "PRIMARY" in key else ()
    feed = TiCDC().ddl(1, f"CREATE TABLE `t` (`id` INT, `k` INT NOT NULL, `v` INT, {key})")
    feed.row(2, "INSERT", {"id": 1, "k": 5, "v": 1}, types=types, key=first)
    feed.row(3, "UPDATE", {"id": 1, "k": 6, "v": 1}, {"id": 1, "k": 5, "v": 1}, types=types, key=first)
    drop = "DROP PRIMARY KEY, " if "PRIMARY" in key else ""
    feed.ddl(4, f"ALTER TABLE `t` {drop}ADD PRIMARY KEY (`k`)")
    feed.row(5, "INSERT", {"id": 2, "k": 7, "v": 2}, types=types, key=("k",))
    feed.row(6, "INSERT", {"id": 1, "k": 5, "v": 2}, types=types, key=("k",))
    feed.row(7, "UPDATE", {"id": 1, "k": 5, "v": 3}, {"v": 2}, types=types, key=("k",))

    assert_windows_give_the_table(feed, MODES[word])


@pytest.mark.parametrize("turned", [False, True])
def test_of_deleted_rows_with_one_key_the_last_one_by_position_is_shown_whatever_the_clock_says(
    turned: bool,
) -> None:
    feed, types = (
        TiCDC().ddl(1, "CREATE TABLE `t` (`id` INT NOT NULL, `v` INT)"),
        dict.fromkeys(("id", "v"), "int"),
    )
    for tick, kind, value in ((2, "INSERT", 1), (3, "INSERT", 2), (4, "DELETE", 2), (5, "DELETE", 1)):
        feed.row(tick, kind, {"id": 1, "v": value}, types=types, key=())
    feed.ddl(6, "ALTER TABLE `t` ADD PRIMARY KEY (`id`)")
    [(lineage, changes)] = lineages(feed.memory)
    changes = [change._replace(commit_ts=100 - change.position[1]) for change in changes]

    rows = mode(feed.memory, lineage, place(7), MODES["soft"], Clock()).rows(
        changes[::-1] if turned else changes
    )

    [row] = listed(mode(feed.memory, lineage, place(7), MODES["soft"], Clock()), rows.rows)
    assert "('v', 1)" in row


@pytest.mark.parametrize("word", ["history", "append", "soft"])
@pytest.mark.parametrize("turned", [False, True])
def test_changes_of_several_partitions_at_one_offset_keep_their_own_times(word: str, turned: bool) -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)")
    for key in (1, 2):
        feed.row(2, "INSERT", {"id": key, "v": 0}, types=dict.fromkeys(("id", "v"), "int"))
    [(lineage, changes)] = lineages(feed.memory)
    one, two = (change._replace(commit_ts=1000 * change.after["id"]) for change in changes if change.after)
    gone = two._replace(op="delete", before=two.after, after=None, position=(0, 3, 0, 0, 0, 0))
    both = [one, two, gone, gone._replace(before=one.after, commit_ts=7000)]
    table = mode(feed.memory, lineage, place(4), MODES[word], Clock())

    rows = table.rows(both[::-1] if turned else both).rows

    alone = [table.rows(one).rows for one in (both[0::3], both[1:3])]
    assert listed(table, rows) == listed(table, [row for found in alone for row in found])


@pytest.mark.parametrize("word", MODES)
@QUICK
@given(seed=seeds, count=st.integers(0, 20), chance=seeds, slow=st.integers(1, 6))
def test_windows_of_a_binlogs_clock_give_what_all_changes_at_once_give(
    word: str, seed: int, count: int, chance: int, slow: int
) -> None:
    """Its commit times are no positions: they stand still and run backwards."""
    history = History(seed, count)
    silver, rand = told(history, chance), random.Random(chance)

    for lineage, changes in lineages(silver):
        changes = [
            change._replace(commit_ts=(change.commit_ts or 0) // 10**slow - rand.randrange(3))
            for change in changes
        ]
        gold: list[Row] = []
        before: Position = (0, 0, 0, 0, 0, 0)
        for at in sorted({change.position for change in changes}):
            table = mode(silver, lineage, at, MODES[word], Clock())
            fresh = [change for change in changes if before < change.position <= at]
            gold = windowed(table, lineage, gold, before, changes, fresh)
            before = at
            assert listed(table, gold) == listed(table, table.rows(rand.sample(changes, k=len(changes))).rows)
