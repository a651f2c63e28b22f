"""The changes of some rows: folded alone they give these rows as all changes of the table do. Needs Spark's
package, but no session.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.fold.current_rows import fold
from lakehouse.fold.row_edits import Change, Key, row_key
from lakehouse.fold.steps import cuts
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import PLAIN
from lakehouse.lineage import key_ids
from lakehouse.spark.change_log.key_changes import Reading, may_be_of, move_others
from lakehouse.spark.fold.modes import valued
from tests.fold.test_continuity import TIDB, at, image
from tests.fold.test_continuity import lineage as a_table
from tests.fold.test_versions import lineages, told
from tests.gold.test_modes import MODES, TSO, listed
from tests.support.damage import damaged
from tests.support.source_model import History

EVERY = {"upsert": PLAIN, **MODES}
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("word", EVERY)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds, whole=st.booleans())
def test_the_changes_of_some_keys_give_their_rows(
    word: str, seed: int, count: int, chance: int, whole: bool
) -> None:
    memory, rand = told(History(seed, count), random.Random(chance).randrange(1000)), random.Random(chance)
    for lineage, all_changes in lineages(memory):
        changes = list(all_changes if whole else damaged(all_changes, rand))
        mode = Mode(lineage, memory.reach, memory.upstream, TSO, EVERY[word])
        ids = key_ids(lineage, mode.target)
        if not ids or cuts(lineage, mode.target, memory.upstream):
            continue
        plain = EVERY[word].plain
        rows = mode.rows(changes).rows
        every = {key for row in rows if (key := row_key(row, mode.ids)) is not None}
        every |= (mode.touched(changes).keys or set()) - {None}
        keys = set(rand.sample(sorted(every, key=repr), min(len(every), rand.randint(0, 3))))
        reading = Reading(
            lineage if plain else valued(lineage), mode.target, memory.upstream, cleared=not plain
        )

        kept = may_be_of(reading, changes, keys)

        mine = [change for change, is_kept in zip(changes, kept, strict=True) if is_kept]
        one, other = mode.of_keys(mode.rows(mine).rows, keys), mode.of_keys(rows, keys)
        assert listed(mode, one) == listed(mode, other)


def test_changes_of_other_rows_are_left_out() -> None:
    kept = total = 0
    for seed in range(40):
        memory = told(History(seed, 25), seed)
        for lineage, changes in lineages(memory):
            mode = Mode(lineage, memory.reach, memory.upstream, TSO, PLAIN)
            if mode.ids and not cuts(lineage, mode.target, memory.upstream):
                reading = Reading(lineage, mode.target, memory.upstream, cleared=False)
                kept += sum(may_be_of(reading, list(changes), set()))
                total += len(changes)

    assert total > 100
    assert kept < total / 10


@pytest.mark.parametrize("word", EVERY)
def test_other_rows_of_a_transaction_do_not_seem_to_lack_changes(word: str) -> None:
    shared = 0
    for seed in range(60):
        memory = told(History(seed, 25), seed)
        for one, changes in lineages(memory):
            mode = Mode(one, memory.reach, memory.upstream, TSO, EVERY[word])
            keys: set[Key] = {*(mode.touched(changes).keys or ())} - {None}
            if not mode.ids or not keys or cuts(one, mode.target, memory.upstream):
                continue
            plain = EVERY[word].plain
            reading = Reading(one if plain else valued(one), mode.target, memory.upstream, cleared=not plain)
            key = {min(keys, key=repr)}

            kept = may_be_of(reading, changes, key)

            mine = [change for change, is_kept in zip(changes, kept, strict=True) if is_kept]
            assert mode.rows(changes).breaks.total == mode.rows(mine).breaks.total == 0
            shared += len({change.position for change in changes}) < len(changes)
    assert shared > 20


def test_a_change_that_moves_a_row_is_of_two_rows() -> None:
    table = a_table()
    moves = Change(at(0, 3), "update", {**image("a"), "id": 8}, image("b"), "canonical")
    stays = Change(at(0, 4), "update", image("b"), image("c"), "canonical")
    reading = Reading(table, 0, TIDB, cleared=False)

    assert may_be_of(reading, [moves, stays], {(7,)}) == [True, True]
    assert move_others(reading, [moves, stays], {(7,)})
    assert not move_others(reading, [moves, stays], {(7,), (8,)})
    assert not move_others(reading, [stays], {(7,)})
    assert fold(table, [moves, stays], at(0, 9), TIDB).breaks.total, "row 8 would seem never to have been"
