"""The fold of changes that come grouped by silver's key gives what the fold on the driver gives: the same
rows of the same types, and all that the changes lack. Needs Spark's package, but no session.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakehouse.events import DELETES_HIDDEN, POSITION_PARTS
from lakehouse.fold.continuity import NOT_THERE, Continuity
from lakehouse.fold.current_rows import fold, settle
from lakehouse.fold.row_edits import (
    LATER_ROWS,
    NO_DELETES,
    NO_KEY,
    NULL_FOR_TEXT,
    OLD_KEY_UNKNOWN,
    TELLING,
    Change,
    row_key,
)
from lakehouse.fold.steps import cuts, rekeyings, target_step
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import gold_columns
from lakehouse.lineage import Lineage, key_ids
from lakehouse.spark.fold.by_key import OTHER_KEY, PLAIN, KeyFold, OtherKey, key_worker
from lakehouse.spark.fold.deltas import Piece
from lakehouse.spark.fold.notes import NOTE, ODD, Notes, found_in
from lakehouse.spark.fold.typed_rows import OP, Typing, typing_of
from tests.fold.test_continuity import refused
from tests.fold.test_partitions import Source
from tests.fold.test_versions import lineages, told
from tests.schema_history.test_snapshots import first_snapshot, shown
from tests.spark.fold.test_fold_workers import POSITION, bag, looked_at, mode_of
from tests.support.damage import damaged
from tests.support.engine import Memory
from tests.support.feeds import Canal, TiCDC
from tests.support.source_model import History

seeds = st.integers(0, 2**32 - 1)
Keyed = tuple[str, Change]
GROUPED = pa.schema(
    {
        "key": pa.string(),
        PLAIN: pa.bool_(),
        "op": pa.string(),
        "before": pa.string(),
        "after": pa.string(),
        "encoding": pa.string(),
        "flags": pa.list_(pa.string()),
        "position": POSITION,
    }
)


class Table(NamedTuple):
    """Gold's rows, and what was found with them."""

    rows: Counter[str]
    notes: Notes


def silver_key(lineage: Lineage, change: Change) -> str:
    """The key as a message tells it: the values of its columns in name order."""
    step = lineage.step_at(change.position)
    names = {column.id: column.name for column in lineage.steps[step].schema.columns}
    image = change.before if change.after is None else change.after
    assert image is not None
    wanted = sorted(names[column] for column in key_ids(lineage, step))
    return encoded([image.get(name) for name in wanted])


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def grouped(lineage: Lineage, keyed: list[Keyed], target: int) -> Iterator[pa.RecordBatch]:
    """As lakehouse.spark.fold.by_key.grouped, in batches of three rows: a group may lie in several."""
    rows: list[dict[str, Any]] = []
    for key, change in sorted(keyed, key=lambda one: (one[0], one[1].position)):
        is_plain = not set(TELLING) & set(change.flags)
        rows.append(
            {
                "key": key,
                PLAIN: is_plain and lineage.step_at(change.position) == target,
                "op": change.op,
                "before": None if change.before is None else encoded(change.before),
                "after": None if change.after is None else encoded(change.after),
                "encoding": change.encoding,
                "flags": list(change.flags),
                "position": dict(zip(POSITION_PARTS, change.position, strict=True)),
            }
        )
    for start in range(0, len(rows), 3):
        yield pa.RecordBatch.from_pylist(rows[start : start + 3], GROUPED)


def by_key(memory: Memory, lineage: Lineage, keyed: list[Keyed], upstream: Upstream) -> Table:
    """The table as its workers make it."""
    at = memory.reach
    target = target_step(lineage, at)
    typing, whole = typing_at(lineage, memory, target)
    work = key_worker(Piece(lineage, 0, target, upstream), whole, typing)
    rows = [row for batch in work(grouped(lineage, keyed, target)) for row in batch.to_pylist()]
    notes = found_in(row[OP] for row in rows)
    if ODD in notes.problems:
        breaks = looked_at(lineage, [change for _, change in keyed], at, upstream)
        notes = notes._replace(problems=notes.problems - {ODD}, breaks=breaks)
    return Table(Counter(text_of(row) for row in rows if row[OP] in ("put", "patch")), notes)


def on_the_driver(memory: Memory, lineage: Lineage, keyed: list[Keyed], upstream: Upstream) -> Table:
    """The table as the driver folds it, typed."""
    target = target_step(lineage, memory.reach)
    folded = mode_of(lineage, memory.reach, upstream).rows([change for _, change in keyed])
    typing, _ = typing_at(lineage, memory, target)
    rows = typing.typer().batch([("put", row) for row in folded.rows]).to_pylist()
    return Table(
        Counter(text_of(row) for row in rows if not row[OP].startswith(NOTE)),
        Notes(folded.unknown, frozenset(folded.problems), folded.breaks, taken=len(keyed)),
    )


def typing_at(lineage: Lineage, memory: Memory, target: int) -> tuple[Typing, frozenset[int]]:
    columns = gold_columns(lineage.steps[target].schema, virtual=False)
    needed = mode_of(lineage, memory.reach, memory.upstream).needed
    return typing_of(columns, needed), frozenset(column.column.id for column in columns)


def text_of(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name != OP})


def can_group(lineage: Lineage, target: int) -> bool:
    return bool(key_ids(lineage, target)) and not rekeyings(lineage, target)


@pytest.mark.parametrize("loses", [False, True])
@settings(max_examples=80, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_groups_give_the_rows_and_the_problems_of_the_fold(
    loses: bool, seed: int, count: int, chance: int
) -> None:
    memory, rand = told(History(seed, count), chance), random.Random(chance)
    # as if the feed told its inserts, which gives more that can break
    continuity = Continuity(rows=True, inserts=True, by_commit=chance % 2 == 0)
    upstream = memory.upstream._replace(continuity=continuity)

    for lineage, changes in lineages(memory):
        target = target_step(lineage, memory.reach)
        if not can_group(lineage, target):
            continue
        keyed = [
            (silver_key(lineage, change), refused(one, rand) if loses else one)
            for change in changes
            for one in (damaged([change], rand) if loses else [change])
        ]
        found = by_key(memory, lineage, keyed, upstream)

        if OTHER_KEY in found.notes.problems:
            event("another key")
            assert loses or target > 0
        else:
            event("folded by key")
            assert found == on_the_driver(memory, lineage, keyed, upstream)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_groups_lose_the_rows_of_a_partition_that_the_fold_loses(seed: int, count: int, chance: int) -> None:
    source = Source(random.Random(seed))
    for _ in range(count):
        source.step()
    memory, rand = source.feed.memory, random.Random(chance)

    for lineage, changes in lineages(memory):
        if can_group(lineage, target_step(lineage, memory.reach)):
            keyed = [
                (silver_key(lineage, change), one) for change in changes for one in damaged([change], rand)
            ]
            found = by_key(memory, lineage, keyed, memory.upstream)
            if OTHER_KEY not in found.notes.problems:
                assert found == on_the_driver(memory, lineage, keyed, memory.upstream)


def only(feed: TiCDC) -> tuple[Memory, Lineage, list[Keyed]]:
    """The feed's one table, with silver's own keys."""
    memory = feed.memory
    [(lineage, changes)] = lineages(memory)
    keys = [encoded(change.key) for change in memory.changes.values()]
    assert [change.position for change in memory.changes.values()] == [one.position for one in changes]
    return memory, lineage, list(zip(keys, changes, strict=True))


def both(feed: TiCDC) -> Table:
    """The table, which both ways give."""
    memory, lineage, keyed = only(feed)
    found = by_key(memory, lineage, keyed, memory.upstream)
    assert found == on_the_driver(memory, lineage, keyed, memory.upstream)
    return found


CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"


def test_a_number_that_is_text_on_the_wire_is_a_number_in_silvers_key() -> None:
    feed = Canal().ddl(1, CREATE)
    for number in range(20):
        feed.row(2 + number, "INSERT", {"id": number, "v": "a"})
        feed.row(30 + number, "UPDATE", {"id": number, "v": "b"}, {"v": "a"})

    found = both(feed)

    assert sum(found.rows.values()) == 20 and not found.notes.problems


def test_a_key_of_several_columns_is_in_name_order_in_silver() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (z INT, a VARCHAR(9), v INT, PRIMARY KEY (z, a))")
    types = {"z": "int", "a": "varchar(9)", "v": "int"}
    for number in range(5):
        feed.row(2 + number, "INSERT", {"z": 1, "a": f'"{number}', "v": 1}, types=types, key=("z", "a"))

    found = both(feed)

    assert sum(found.rows.values()) == 5 and not found.notes.problems


@pytest.mark.parametrize(
    ("ddl", "key", "image"),
    [
        (CREATE, '["7"]', {"id": 1, "v": "a"}),
        ("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) UNIQUE)", '["a"]', {"id": 1, "v": "a"}),
        ("CREATE TABLE t (id DECIMAL(5,2) PRIMARY KEY, v VARCHAR(9))", '["1.0"]', {"id": "1.0", "v": "a"}),
    ],
)
def test_an_image_whose_key_is_not_silvers_is_folded_in_another_way(
    ddl: str, key: str, image: dict[str, Any]
) -> None:
    memory, lineage, [(_, change)] = only(Canal().ddl(1, ddl).row(2, "INSERT", {"id": 1, "v": "a"}))

    found = by_key(memory, lineage, [(key, change._replace(after=image))], memory.upstream)

    assert found.notes.problems == {OTHER_KEY}


def test_an_update_that_moves_its_row_is_folded_in_another_way() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, v="a")
    memory, lineage, [(key, change)] = only(feed)
    moved = Change((0, 3, 1, 0, 0, 0), "update", change.after, {"id": 2, "v": "b"}, change.encoding)

    found = by_key(memory, lineage, [(key, change), ("[2]", moved)], memory.upstream)
    assert found.notes.problems == {OTHER_KEY}

    window = KeyFold(Piece(lineage, 0, 0, memory.upstream, whole=False), frozenset({1, 2}))
    with pytest.raises(OtherKey):
        list(window.rows(grouped(lineage, [("[2]", moved)], 0)))


def test_changes_that_fit_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, v="a")
    feed.row(3, "UPDATE", {"id": 1, "v": "b"}, {"v": "a"}).row(4, "DELETE", {"id": 1, "v": "b"})
    feed.insert(5, id=1, v="c").insert(6, id=2, v="d")
    memory, lineage, keyed = only(feed)
    piece = Piece(lineage, 0, 0, memory.upstream)
    monkeypatch.setattr(KeyFold, "_netted", lambda *_: pytest.fail("these changes fit"))

    rows = list(KeyFold(piece, frozenset({1, 2})).rows(grouped(lineage, keyed, 0)))

    assert [(kind, row[2]) for kind, row in rows] == [("put", "c"), ("put", "d")]


def test_a_null_for_text_that_is_not_null_is_found_in_every_image() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NOT NULL, w TEXT)")
    feed.insert(2, id=1, v="a", w=None)
    last = both(feed.insert(3, id=2, v=None, w=None))
    feed.row(4, "UPDATE", {"id": 2, "v": "b", "w": None}, {"v": None})

    assert last.notes.problems == both(feed).notes.problems == {NULL_FOR_TEXT.format("v")}


def test_what_an_earlier_image_of_a_row_has_is_not_passed_over() -> None:
    feed = TiCDC().ddl(1, CREATE)
    feed.row(2, "INSERT", {"id": 1, "v": "a", "w": "x"}).insert(3, id=1, v="b").insert(4, id=2, v="c")
    feed.row(5, "DELETE", {"id": 3, "v": "d"})

    found = both(feed)

    assert set(found.notes.unknown) == {"w"}
    assert found.notes.breaks.first is not None and found.notes.breaks.first.what == NOT_THERE


def test_images_of_two_encodings_may_have_two_keys() -> None:
    """The text "1" is the number 1 on Canal's wire, and stays text elsewhere."""
    memory, lineage, [(key, change)] = only(Canal().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "v": "a"}))
    change = change._replace(after={"id": "1", "v": "a"}, op="snapshot")
    first = change._replace(position=(0, 0, 0, 0, 0, 1), encoding="canonical")
    assert (key, change.encoding) == ("[1]", "canal") and first.position < change.position

    found = by_key(memory, lineage, [(key, first), (key, change)], memory.upstream)

    assert found.notes.problems == {OTHER_KEY}


def test_an_undeclared_column_in_both_images_of_the_first_change_is_found() -> None:
    memory, lineage, [(key, change)] = only(TiCDC().ddl(1, CREATE).insert(2, id=1, v="a"))
    image = {"id": 1, "v": "a", "w": 1}
    update = change._replace(op="update", before=image, after=image)
    groups = KeyFold(Piece(lineage, 0, 0, memory.upstream, whole=False), frozenset({1, 2}))

    list(groups.rows(grouped(lineage, [(key, update)], 0)))

    assert groups.unknown == {"w": change.position}


def test_a_partial_image_that_comes_first_is_a_patch_in_a_window() -> None:
    memory, lineage, [(key, change)] = only(TiCDC().ddl(1, CREATE).insert(2, id=1, v="a"))
    update = change._replace(op="update", after={"id": 1})
    groups = KeyFold(Piece(lineage, 0, 0, memory.upstream, whole=False), frozenset({1, 2}))

    assert list(groups.rows(grouped(lineage, [(key, update)], 0))) == [("patch", {1: 1})]


def test_what_a_row_lacked_before_its_table_was_emptied_is_no_problem() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, v="a").insert(3, id=2, v="a")
    feed.ddl(4, "ALTER TABLE t MODIFY v JSON").ddl(5, "TRUNCATE TABLE t")
    memory, lineage, keyed = only(
        feed.row(6, "INSERT", {"id": 1, "v": "1"}, types={"id": "int", "v": "json"})
    )
    keyed = [
        (key, change._replace(flags=(OLD_KEY_UNKNOWN,)) if change.position[1] == 2 else change)
        for key, change in keyed
    ]
    without = keyed[1][1]._replace(after={"v": "a"})

    found = by_key(memory, lineage, [*keyed, ("[3]", without)], memory.upstream)

    assert sum(found.rows.values()) == 1 and not found.notes.problems
    assert found == on_the_driver(memory, lineage, [*keyed, ("[3]", without)], memory.upstream)


def test_a_feed_that_sends_no_deletes_is_a_problem() -> None:
    memory, lineage, [(key, change)] = only(TiCDC().ddl(1, CREATE).insert(2, id=1, v="a"))
    keyed = [(key, change._replace(flags=(DELETES_HIDDEN,)))]

    found = by_key(memory, lineage, keyed, memory.upstream)

    assert found.notes.problems == {NO_DELETES}
    assert found == on_the_driver(memory, lineage, keyed, memory.upstream)


def test_rows_of_a_snapshot_beside_the_stream_may_be_of_a_later_time() -> None:
    feed = shown(first_snapshot(), "a", 150).row("a", "r", 150, 1, 10).row("a", "r", 150, 2, 20, "last")
    memory = Memory("debezium", tidb=False).add(feed.messages)
    problems = {}
    for lineage, changes in lineages(memory):
        keyed = [(silver_key(lineage, change), change) for change in changes]
        found = by_key(memory, lineage, keyed, memory.upstream)
        assert found == on_the_driver(memory, lineage, keyed, memory.upstream)
        problems[lineage.intervals[0].name] = found.notes.problems

    assert problems == {("d", "a"): {LATER_ROWS}, ("d", "b"): frozenset()}


def test_an_image_without_its_key_is_a_problem() -> None:
    memory, lineage, [(key, change)] = only(TiCDC().ddl(1, CREATE).insert(9, id=1, v="a"))
    without = change._replace(position=(0, 3, 1, 0, 0, 0), after={"v": "b"})
    keyed = [(key, change), ("[]", without)]

    found = by_key(memory, lineage, keyed, memory.upstream)

    assert NO_KEY in found.notes.problems
    assert found == on_the_driver(memory, lineage, keyed, memory.upstream)


@settings(max_examples=80, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_groups_of_a_window_give_what_the_fold_gives_of_it(seed: int, count: int, chance: int) -> None:
    """Of a window's changes the first one of a row says nothing of those before it."""
    memory, rand = told(History(seed, count), chance), random.Random(chance)
    continuity = Continuity(rows=True, inserts=True, by_commit=False)
    upstream = memory.upstream._replace(continuity=continuity)

    for lineage, changes in lineages(memory):
        target = target_step(lineage, memory.reach)
        window = [one for one in changes if chance % 2 or lineage.step_at(one.position) == target]
        if not can_group(lineage, target) or cuts(lineage, target, upstream):
            continue
        keyed = [
            (silver_key(lineage, one), told_of)
            for one in window
            for told_of in damaged(damaged([one], rand), rand)
            if rand.random() < 0.7
        ]
        _, whole = typing_at(lineage, memory, target)
        groups = KeyFold(Piece(lineage, 0, target, upstream, whole=False), whole)
        try:
            outcomes = list(groups.rows(grouped(lineage, keyed, target)))
        except OtherKey:
            continue
        mine = [change for _, change in keyed]
        folded = fold(lineage, mine, memory.reach, upstream, whole=False)
        settle(folded, whole)
        notes = found_in(groups.all_notes())

        assert bag([row for kind, row in outcomes if kind == "put"]) == bag([*folded.rows.values()])
        assert bag([row for kind, row in outcomes if kind == "patch"]) == bag([*folded.patches.values()])
        ids = key_ids(lineage, target)
        assert {row_key(row, ids) for kind, row in outcomes if kind == "delete"} == folded.deleted
        assert notes.problems - {ODD} == set(folded.problems) and notes.unknown == folded.unknown
        assert ODD in notes.problems or not folded.breaks.total
