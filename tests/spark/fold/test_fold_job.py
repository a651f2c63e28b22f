"""A large table is told in parts: dealt out by key, the parts together are the table. Needs Spark's package,
but no session.
"""

import functools
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ddl_effects import Clear
from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.continuity import Breaks, Continuity
from lakehouse.fold.row_ddl import untimed, with_times
from lakehouse.fold.row_edits import Change, ChangeReader
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.schema import Column, make_schema, parse_type
from lakehouse.spark.fold.modes import BUCKET, Dealer, change_of, parts_of, valued
from tests.fold.test_continuity import refused
from tests.fold.test_versions import lineages, told
from tests.gold.test_modes import MODES, TSO, listed
from tests.support.damage import damaged
from tests.support.engine import Memory
from tests.support.source_model import History

seeds = st.integers(0, 2**32 - 1)


def silver_row(change: Change) -> dict[str, Any]:
    """A change as silver's table has it."""
    images = {
        name: None if image is None else json.dumps(image)
        for name, image in (("before", change.before), ("after", change.after))
    }
    position = dict(zip(POSITION_PARTS, change.position, strict=True))
    return {
        "op": change.op,
        "position": position,
        "encoding": change.encoding,
        "flags": list(change.flags),
        **images,
        "commit_ts": change.commit_ts,
    }


def dealt(mode: Mode, changes: list[Change], parts: int) -> list[list[Change]]:
    dealer = Dealer(ChangeReader(valued(mode.lineage), mode.target, mode.upstream, mode.ids), mode.ids, parts)
    found: list[list[Change]] = [[] for _ in range(parts)]
    for change in changes:
        for row in dealer.deal(silver_row(change)):
            found[row[BUCKET]].append(change_of(row))
    return found


def assert_parts_are_the_whole(
    silver: Memory, lineage: Lineage, changes: list[Change], options: GoldOptions
) -> None:
    mode = Mode(lineage, silver.reach, silver.upstream, TSO, options)
    in_parts = [row for part in dealt(mode, changes, 5) for row in mode.rows(part).rows]
    assert listed(mode, in_parts) == listed(mode, mode.rows(changes).rows)


def timed(mode: Mode, changes: list[Change]) -> Mode:
    """As lakehouse.spark.fold.modes.timed, which asks Spark for the last change before each place."""
    last: dict[Position, tuple[Position, int]] = {}
    for place in untimed(mode.lineage, mode.at):
        before = [
            (c.position, c.commit_ts) for c in changes if c.position < place and c.commit_ts is not None
        ]
        last |= {place: max(before)} if before else {}
    return replace(mode, lineage=with_times(mode.lineage, last))


@pytest.mark.parametrize("word", MODES)
@settings(max_examples=15)
@given(seed=seeds, count=st.integers(0, 20), chance=seeds)
def test_a_statement_without_a_time_has_that_of_the_last_commit_whatever_the_part(
    word: str, seed: int, count: int, chance: int
) -> None:
    memory, rand = told(History(seed, count), random.Random(chance).randrange(1000)), random.Random(chance)

    for lineage, whole in lineages(memory):
        times = {place: time for place, time in lineage.times.items() if rand.randrange(3)}
        changes = [one if rand.randrange(4) else one._replace(commit_ts=None) for one in whole]
        clock = Clock(by_commit=False, tso=True)
        mode = Mode(replace(lineage, times=times), memory.reach, memory.upstream, clock, MODES[word])
        in_order = timed(mode, changes)
        assert listed(mode, in_order.rows(changes).rows) == listed(mode, mode.rows(changes).rows)


@pytest.mark.parametrize("word", MODES)
def test_the_rows_of_a_snapshot_without_a_time_are_in_parts_what_they_are_together(word: str) -> None:
    """A dump of a table in the middle of its binlog: one row has changed, one is gone, one is new."""
    columns = [Column(0, name, parse_type("int")) for name in ("id", "a")]
    start, place, schema = (0, 1, 0, 0, 0, 0), (0, 1, 500, 0, 0, 0), make_schema(columns, ("id",))
    steps = [Step(start, schema, (), "CREATE TABLE t"), Step(place, schema, (Clear(),))]
    lineage = Lineage("d.t@1", steps, [Interval(("d", "t"), start, None)], times={start: 1})
    changes = [
        Change((0, 1, 10 * i, 1, 0, 1), "insert", None, {"id": i, "a": i}, "canonical", (), 1000 * i)
        for i in range(1, 6)
    ]
    changes += [
        Change((*place[:5], 1), "snapshot", None, {"id": i, "a": 3}, "canonical", ("snapshot",))
        for i in (1, 2, 3, 9)
    ]
    mode = Mode(lineage, (0, 1, 900, 0, 0, 0), Upstream(), Clock(), MODES[word])

    in_parts = [row for part in dealt(mode, changes, 3) for row in timed(mode, changes).rows(part).rows]

    assert listed(mode, in_parts) == listed(mode, mode.rows(changes).rows)


@pytest.mark.parametrize("word", MODES)
@settings(max_examples=15)
@given(seed=seeds, count=st.integers(0, 20), chance=seeds)
def test_the_parts_together_are_the_table(word: str, seed: int, count: int, chance: int) -> None:
    silver = told(History(seed, count), random.Random(chance).randrange(1000))

    for lineage, changes in lineages(silver):
        mode = Mode(lineage, silver.reach, silver.upstream, TSO, MODES[word])
        if parts_of(mode, 10**6) > 1:
            assert_parts_are_the_whole(silver, lineage, changes, MODES[word])


@pytest.mark.parametrize("word", MODES)
@settings(max_examples=15)
@given(seed=seeds, count=st.integers(0, 20), chance=seeds)
def test_the_parts_together_find_what_the_changes_lack(word: str, seed: int, count: int, chance: int) -> None:
    memory, rand = told(History(seed, count), random.Random(chance).randrange(1000)), random.Random(chance)

    for lineage, whole in lineages(memory):
        changes = [refused(change, rand) for change in damaged(whole, rand)]
        said = Continuity(rows=True, inserts=chance % 2 == 0, by_commit=True)
        upstream = memory.upstream._replace(continuity=said)
        mode = Mode(lineage, memory.reach, upstream, TSO, MODES[word])
        if parts_of(mode, 10**6) > 1:
            parts = [mode.rows(part) for part in dealt(mode, changes, 5)]
            whole_table = mode.rows(changes)

            assert {problem for part in parts for problem in part.problems} == whole_table.problems
            assert {name for part in parts for name in part.unknown} == set(whole_table.unknown)
            assert functools.reduce(Breaks.plus, (part.breaks for part in parts)) == whole_table.breaks
            in_parts = [row for part in parts for row in part.rows]
            assert listed(mode, in_parts) == listed(mode, whole_table.rows)


def test_an_update_of_a_keyless_row_is_dealt_out_to_both_of_its_images() -> None:
    from tests.support.feeds import Canal

    feed = Canal().ddl(1, "CREATE TABLE t (a VARCHAR(9), b VARCHAR(9))")
    for number in range(9):
        feed.row(2 + number, "INSERT", {"a": f"a{number}", "b": "x"}, key=())
        feed.row(20 + number, "UPDATE", {"a": f"b{number}", "b": "x"}, {"a": f"a{number}"}, key=())

    for lineage, changes in lineages(feed.memory):
        mode = Mode(lineage, feed.memory.reach, feed.memory.upstream, TSO, MODES["history"])
        assert sum(len(part) for part in dealt(mode, changes, 5)) > len(changes)
        assert_parts_are_the_whole(feed.memory, lineage, changes, MODES["history"])


def test_deleted_rows_of_a_table_without_a_key_are_in_one_part() -> None:
    """A deleted row and the one that brings it back may lie in two: a later column's default fills one of
    them and not the other.
    """
    from tests.support.feeds import TiCDC

    feed = TiCDC().ddl(1, "CREATE TABLE `t` (`a` INT)")
    feed.row(2, "INSERT", {"a": "1"}, types={"a": "int"}, key=())
    feed.row(3, "DELETE", {"a": "1"}, types={"a": "int"}, key=())
    feed.ddl(4, "ALTER TABLE `t` ADD COLUMN `b` INT NOT NULL DEFAULT 7")
    feed.row(5, "INSERT", {"a": "1"}, types={"a": "int"}, key=())

    [(lineage, _)] = lineages(feed.memory)
    modes = {word: Mode(lineage, feed.memory.reach, feed.memory.upstream, TSO, MODES[word]) for word in MODES}

    assert {word: parts_of(mode, 10**6) for word, mode in modes.items() if mode.word == "soft"} == {"soft": 1}
    assert all(parts_of(mode, 10**6) > 1 for mode in modes.values() if mode.word != "soft")
