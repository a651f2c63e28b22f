"""The heart: whatever a source did, and however it reaches us, the tables at every resolved ts are the
source's own.

A seeded source (source_model) does random things; arrivals sends them as TiCDC would, and as Kafka may
deliver them; the engine reads bytes. Positions, identities, lineages, DDL effects and the fold are all that
stands in between.
"""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Position
from lakehouse.lineage import Name
from lakehouse.schema import parse_type
from lakehouse.values.decode_with_schema import resolve
from tests.support.arrivals import DISPATCHERS, Feed
from tests.support.encode_open import Wire
from tests.support.engine import Memory
from tests.support.examples import QUICK
from tests.support.judging import truth
from tests.support.source_model import History, Snapshot

ZONE = "Asia/Shanghai"
OPTIONS = {"time_zone": ZONE}

seeds = st.integers(0, 2**32 - 1)
steps = st.integers(0, 20)
partitions = st.sampled_from((1, 2, 3))
dispatchers = st.sampled_from(DISPATCHERS)


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds, st.booleans())
def test_any_arrival_of_a_history_gives_the_sources_tables_at_every_commit(
    seed: int, count: int, parts: int, dispatcher: str, chance: int, raw: bool
) -> None:
    history = History(seed, count, raw_updates=raw)
    feed = Feed(history.events, random.Random(chance), parts, dispatcher)

    silver = Memory("ticdc-open", OPTIONS).add(feed.arrival(random.Random(chance)))

    assert silver.watermark == place(history.events[-1]["commit_ts"])
    assert_every_state(silver, history)


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds)
def test_the_tables_at_each_watermark_on_the_way_are_already_right(
    seed: int, count: int, parts: int, dispatcher: str, chance: int
) -> None:
    history = History(seed, count)
    messages = Feed(history.events, random.Random(chance), parts, dispatcher).arrival(random.Random(chance))
    silver, before, told = Memory("ticdc-open", OPTIONS), (0, 0, 0, 0, 0, 0), dict(history.states)

    for message in messages:
        silver.add([message])
        if len(silver.marks) == parts and silver.watermark > before:
            before = silver.watermark
            assert_state(silver, before[1], told[max(at for at in told if at <= before[1])])


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds, st.integers(1, 3), st.booleans(), st.booleans())
def test_replays_repeats_and_b_a_b_change_nothing(
    seed: int, count: int, parts: int, dispatcher: str, chance: int, restarts: int, losing: bool, raw: bool
) -> None:
    history, rand = History(seed, count, keyless=False, raw_updates=raw), random.Random(chance)
    feed = Feed(history.events, rand, parts, dispatcher)
    for _ in range(restarts):
        feed.restart(at_resolved=False, losing=losing)

    silver = Memory("ticdc-open", OPTIONS).add(feed.repeat().arrival(rand))

    assert_every_state(silver, history)
    assert_once(silver, history)


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds, st.integers(1, 3))
def test_equal_rows_of_keyless_tables_survive_replays_after_a_resolved_event(
    seed: int, count: int, parts: int, dispatcher: str, chance: int, restarts: int
) -> None:
    history, rand = History(seed, count), random.Random(chance)
    feed = Feed(history.events, rand, parts, dispatcher, Wire(row_ids=False, sorted_columns=False))
    for _ in range(restarts):
        feed.restart(at_resolved=True)

    silver = Memory("ticdc-open", OPTIONS).add(feed.arrival(rand))

    assert_every_state(silver, history)
    assert_once(silver, history)


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds, st.integers(1, 3), st.booleans())
def test_equal_rows_of_keyless_tables_survive_anything_where_row_ids_are_sent(
    seed: int, count: int, parts: int, dispatcher: str, chance: int, restarts: int, losing: bool
) -> None:
    history, rand = History(seed, count), random.Random(chance)
    feed = Feed(history.events, rand, parts, dispatcher)
    for _ in range(restarts):
        feed.restart(at_resolved=False, losing=losing)

    silver = Memory("ticdc-open", OPTIONS, row_ids=True).add(feed.repeat().arrival(rand))

    assert_every_state(silver, history)


@QUICK
@given(seeds, steps, partitions, seeds)
def test_a_feed_without_old_values_gives_the_same_tables(
    seed: int, count: int, parts: int, chance: int
) -> None:
    history, rand = History(seed, count, keyless=False), random.Random(chance)

    for wire in (
        Wire(before="none", key_only_deletes=True),
        Wire(before="changed-only"),
        Wire(row_ids=False, sorted_columns=False),
    ):
        feed = Feed(history.events, rand, parts, "table", wire)
        assert_every_state(Memory("ticdc-open", OPTIONS).add(feed.arrival(rand)), history)


@QUICK
@given(seeds, steps, partitions, dispatchers, seeds)
def test_tables_first_seen_without_a_create_are_read_by_what_their_messages_tell(
    seed: int, count: int, parts: int, dispatcher: str, chance: int
) -> None:
    history, rand = History(seed, count, creates=False), random.Random(chance)
    feed = Feed(history.events, rand, parts, dispatcher, Wire(sorted_columns=False))

    silver = Memory("ticdc-open", OPTIONS).add(feed.arrival(rand))

    for at, tables in history.states:
        found = silver.tables(place(at))
        seen = {
            name: snapshot for name, snapshot in tables.items() if snapshot.rows or ".".join(name) in found
        }
        assert_tables(found, at, seen)


@QUICK
@given(seeds, steps, seeds)
def test_the_order_in_which_silver_holds_its_rows_and_ddl_is_nothing(
    seed: int, count: int, chance: int
) -> None:
    history, rand = History(seed, count), random.Random(chance)
    silver = Memory("ticdc-open", OPTIONS).add(Feed(history.events, rand, 2, "ts").arrival(rand))

    for name in ("changes", "records"):
        items = list(getattr(silver, name).items())
        rand.shuffle(items)
        setattr(silver, name, dict(items))

    assert_every_state(silver, history)


@QUICK
@given(seeds, steps, seeds)
def test_a_moment_between_two_commits_shows_the_state_after_the_first(
    seed: int, count: int, chance: int
) -> None:
    history, rand = History(seed, count), random.Random(chance)
    silver = Memory("ticdc-open", OPTIONS).add(Feed(history.events, rand, 2, "ts").arrival(rand))

    for (at, tables), (following, _) in zip(history.states, history.states[1:], strict=False):
        moment = rand.randrange(at, following)
        assert_tables(silver.tables(place(moment)), moment, tables)


def assert_once(silver: Memory, history: History) -> None:
    """Silver has each change once: as many as the source made, an update that moves or is keyless
    being two.
    """
    made = 0
    for event in history.events:
        if event["kind"] == "row":
            made += 2 if "before" in event and "after" in event and is_two(event) else 1
    assert len(silver.changes) == made
    assert len(silver.records) == sum(event["kind"] == "ddl" for event in history.events)


def is_two(event: dict[str, Any]) -> bool:
    shape = event["shape"]
    names = [column.name for column in shape.columns if column.id in shape.handle_key]
    return not names or any(event["before"][name] != event["after"][name] for name in names)


def assert_every_state(silver: Memory, history: History) -> None:
    assert_all_understood(silver)
    for at, tables in history.states:
        assert_state(silver, at, tables)


def assert_all_understood(silver: Memory) -> None:
    """No dead letter, no problem of the schema history, and no table that it holds or calls incomplete."""
    assert silver.dead == []
    told = silver.history()
    assert told.problems == []
    assert [
        lineage.held or lineage.incomplete for lineage in told.lineages if lineage.held or lineage.incomplete
    ] == []


def assert_state(silver: Memory, at: int, tables: dict[Name, Snapshot]) -> None:
    assert_tables(silver.tables(place(at)), at, tables)
    assert silver.breaks == {}


def assert_tables(found: dict[str, list[dict[str, Any]]], at: int, tables: dict[Name, Snapshot]) -> None:
    assert found.keys() == {".".join(name) for name in tables}
    for name, snapshot in tables.items():
        rows = found[".".join(name)]
        assert as_set(rows) == as_set(canonical(snapshot)), f"{'.'.join(name)} at {at}"
        assert all(list(row) == list(snapshot.columns) for row in rows), (
            f"columns of {'.'.join(name)} at {at}"
        )


def canonical(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The rows as `show` prints them: fraction digits are the column's."""
    return [
        {
            name: resolve(truth.canonical(cell, ZONE), parse_type(cell["type"]), "canonical")
            for name, cell in row.items()
        }
        for row in snapshot.rows
    ]


def as_set(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def place(at: int) -> Position:
    return (0, at, 2, 0, 0, 0)
