"""Gold's rows in each mode: on from what gold has, window by window, or anew from all changes, they are the
same.
"""

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.events import Position
from lakehouse.fold.row_edits import Change, row_key
from lakehouse.fold.row_history import plain
from lakehouse.fold.steps import target_step
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import gold_columns, type_rows
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.own_columns import canonical_rows, own_columns
from lakehouse.lineage import Lineage
from tests.fold.test_versions import lineages, place, told
from tests.support.engine import Memory
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


def through_gold(table: Mode, rows: list[Row]) -> tuple[list[Row], bool]:
    """The rows as gold gives them back, and whether some value of them is in a companion."""
    columns = gold_columns(table.lineage.steps[table.target].schema, {}, virtual=False, options=table.options)
    columns += own_columns(table.options, [column.name for column in columns])
    typed = type_rows(rows, columns)
    return canonical_rows(columns, typed.columns, typed.count), bool(typed.raw)


def listed(table: Mode, rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(plain(table.shown(row)).items())) for row in through_gold(table, rows)[0])


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
                gold = advanced(table, gold, fresh)
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
    if not late:
        return advanced(table, gold, fresh)
    keys = table.touched(fresh).keys
    if keys is None:
        return table.rows(here).rows
    held, _ = through_gold(table, gold)
    known = [row for row in held if row_key(row, table.ids) in keys]
    return merged(table, held, *table.differences(known, table.of_keys(table.rows(here).rows, keys)))


def advanced(table: Mode, gold: list[Row], fresh: list[Change]) -> list[Row]:
    """Gold after a window, merged as Spark does it."""
    keys = table.touched(fresh).keys
    assert keys is not None
    held, _ = through_gold(table, gold)
    known = [row for row in held if row_key(row, table.ids) in keys]
    if table.word == "append":
        last = {row_key(row, table.ids): row for row in sorted(known, key=lambda row: row[-11])}
        return [*held, *table.advance(fresh, list(last.values())).rows]
    return merged(table, held, *table.differences(known, table.advance(fresh, known).rows))


def merged(table: Mode, held: list[Row], puts: list[Row], deletes: list[Row]) -> list[Row]:
    """As MERGE does it: rows that were equal before they got a key may have one key, and stay as many."""
    new = {row_key(row, table.row_ids): row for row in puts}
    gone = {row_key(row, table.row_ids) for row in deletes}
    keyed = [(row_key(row, table.row_ids), row) for row in held]
    there = {key for key, _ in keyed}
    inserted = [row for key, row in new.items() if key not in there]
    return [*(new.get(key, row) for key, row in keyed if key not in gone), *inserted]
