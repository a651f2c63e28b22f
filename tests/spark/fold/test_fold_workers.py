"""The fold of a large table, as its workers do it, gives what the fold on the driver gives: the same rows,
and all that the changes lack. Needs Spark's package, but no session.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.continuity import Breaks, Continuity
from lakehouse.fold.current_rows import Folded, finish, fold
from lakehouse.fold.row_edits import NO_KEY, ONE_KEY, Change, image_text
from lakehouse.fold.steps import rekeyings, target_step
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage
from lakehouse.spark.change_log.changes import FOLD_COLUMNS
from lakehouse.spark.fold.deltas import Piece, carry_worker, cross_worker, decode_row
from lakehouse.spark.fold.fold_job import FoldTask, _fold_all
from lakehouse.spark.fold.net_rows import net_worker
from lakehouse.spark.fold.notes import ODD, SHORT, found_in
from lakehouse.spark.fold.typed_rows import OP, typing_of
from lakehouse.spark.quality.continuity import added_up, break_worker, claim_worker, stretches_of
from tests.fold.test_continuity import refused
from tests.fold.test_partitions import Source
from tests.fold.test_versions import lineages, told
from tests.spark.fold.test_fold_job import silver_row
from tests.support.damage import damaged
from tests.support.engine import TSO
from tests.support.feeds import TiCDC
from tests.support.source_model import History

Netted = list[dict[str, Any]]
seeds = st.integers(0, 2**32 - 1)


def in_workers(lineage: Lineage, changes: list[Change], at: Position, upstream: Upstream) -> Netted:
    """What the workers of lakehouse.spark.fold.fold_job.fold_frame make of the changes, key by key."""
    target, start = target_step(lineage, at), 0
    netted: Netted = []
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream)
        mine = [change for change in changes if start <= lineage.step_at(change.position) <= end]
        deltas = rows_of(carry_worker(piece)(iter([silver(mine)])))
        if start:
            base = [row for row in netted if row["kind"] != "delete"]
            deltas += rows_of(cross_worker(piece)(iter([pa.RecordBatch.from_pylist(base, NETTED)])))
        batch = pa.RecordBatch.from_pylist(sorted(deltas, key=place_of), DELTAS)
        netted = rows_of(net_worker(piece, frozenset())(iter([batch])))
        start = end + 1
    return netted


POSITION = pa.struct([(part, pa.int64()) for part in POSITION_PARTS])
DELTAS = pa.schema(
    {
        "key": pa.string(),
        "position": POSITION,
        "kind": pa.string(),
        "image": pa.string(),
        "step": pa.int32(),
        "hint": pa.string(),
    }  # as workers read them
)
NETTED = pa.schema({"key": pa.string(), "kind": pa.string(), "image": pa.string()})


def silver(changes: list[Change]) -> pa.RecordBatch:
    nothing = dict.fromkeys(FOLD_COLUMNS)
    return pa.RecordBatch.from_pylist([{**nothing, **silver_row(change)} for change in changes], FOLDED)


FOLDED = pa.schema(
    {name: pa.string() for name in FOLD_COLUMNS}
    | {"position": POSITION, "flags": pa.list_(pa.string()), "batch": pa.int64(), "commit_ts": pa.int64()}
)


def rows_of(batches: Iterator[pa.RecordBatch]) -> Netted:
    return [row for batch in batches for row in batch.to_pylist()]


def place_of(row: dict[str, Any]) -> Any:
    return row["key"], [*row["position"].values()] if row["position"] else []


def large(lineage: Lineage, changes: list[Change], at: Position, upstream: Upstream) -> Folded:
    """As lakehouse.spark.fold.fold_job.fold_large: a table that falls short is folded by one worker."""
    netted = in_workers(lineage, changes, at, upstream)
    if SHORT in found_in(row["kind"] for row in netted).problems:
        task = FoldTask(lineage, at, target_step(lineage, at), upstream)
        netted = rows_of(_fold_all(task)(iter([silver(changes)])))
    mode = mode_of(lineage, at, upstream)
    columns = gold_columns(lineage.steps[mode.target].schema, virtual=False)
    typed = typing_of(columns, mode.needed).worker(iter([pa.RecordBatch.from_pylist(netted, NETTED)]))
    notes = found_in(row[OP] for row in rows_of(typed))
    breaks = notes.breaks
    if ODD in notes.problems:
        breaks = looked_at(lineage, changes, at, upstream)
    rows = [decode_row(row["image"]) for row in netted if row["kind"] in ("put", "patch")]
    return Folded(keyless=rows, unknown=notes.unknown, problems=set(notes.problems - {ODD}), breaks=breaks)


def looked_at(lineage: Lineage, changes: list[Change], at: Position, upstream: Upstream) -> Breaks:
    """As lakehouse.spark.quality.continuity.breaks_in, which looks at all changes where some look odd."""
    stretches, by_commit = stretches_of(lineage, at, upstream, whole=True), upstream.continuity.by_commit
    claims = rows_of(claim_worker(lineage, upstream, stretches)(iter([silver(changes)])))
    claims.sort(key=lambda row: (row["stretch"], *place_of(row)))
    batch = pa.RecordBatch.from_pylist(claims, CLAIMS)
    found = rows_of(break_worker(stretches, by_commit=by_commit)(iter([batch])))
    return added_up(row["breaks"] for row in found)


CLAIMS = pa.schema({"stretch": pa.int32(), "key": pa.string(), "position": POSITION, "claim": pa.string()})


def mode_of(lineage: Lineage, at: Position, upstream: Upstream) -> Mode:
    return Mode(lineage, at, upstream, TSO, GoldOptions())


def bag(rows: list[Row]) -> Counter[str]:
    return Counter(map(image_text, rows))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_workers_fold_what_the_driver_folds_and_find_what_it_finds(
    seed: int, count: int, chance: int
) -> None:
    memory, rand = told(History(seed, count), chance), random.Random(chance)

    # as if the feed told its inserts, which gives more that can break
    upstream = memory.upstream._replace(
        continuity=Continuity(rows=True, inserts=True, by_commit=chance % 2 == 0)
    )
    for lineage, whole in lineages(memory):
        changes = [refused(change, rand) for change in damaged(whole, rand)]
        small = mode_of(lineage, memory.reach, upstream).rows(changes)
        found = large(lineage, changes, memory.reach, upstream)

        assert bag(finish(found)) == bag(small.rows)
        # an undeclared column's position is the first that a worker met: the table is folded up to it, and
        # again where there is an earlier one
        assert (found.problems, set(found.unknown)) == (set(small.problems), set(small.unknown))
        assert found.breaks == small.breaks


def test_a_delete_takes_the_same_of_two_rows_that_lack_a_cell() -> None:
    ddl, ints = "CREATE TABLE `t` (`a` INT, `b` INT)", {"a": "int", "b": "int"}
    feed = TiCDC().ddl(1, ddl)
    for moment, image in ((2, {"b": "2"}), (3, {"a": "1"})):
        feed.row(moment, "INSERT", image, types={name: ints[name] for name in image}, key=())
    feed.row(4, "DELETE", {"a": "1", "b": "2"}, types=ints, key=())

    [(lineage, changes)] = lineages(feed.memory)
    at, upstream = feed.memory.reach, feed.memory.upstream

    assert bag(finish(large(lineage, changes, at, upstream))) == bag(
        finish(fold(lineage, changes, at, upstream))
    )


def test_a_value_that_no_rule_converts_is_told_by_workers_too_and_only_if_its_row_was_there() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), w VARCHAR(9))")
    feed.insert(2, id=1, v="abc", w="abc").insert(2, id=2, v="[1]", w="abc")
    feed.row(3, "DELETE", {"id": 1}, {"id": 1}).ddl(4, "ALTER TABLE t MODIFY v JSON")

    [(lineage, changes)] = lineages(feed.memory)
    found = large(lineage, changes, feed.memory.reach, feed.memory.upstream)
    assert found.problems == fold(lineage, changes, feed.memory.reach, feed.memory.upstream).problems == set()

    feed.ddl(5, "ALTER TABLE t MODIFY w JSON")
    [(lineage, changes)] = lineages(feed.memory)
    found = large(lineage, changes, feed.memory.reach, feed.memory.upstream)
    assert found.problems == {"column w, varchar(9) to json: text that is not JSON"}


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds, whole=st.booleans())
def test_workers_remove_the_rows_of_a_partition_that_the_driver_removes(
    seed: int, count: int, chance: int, whole: bool
) -> None:
    source = Source(random.Random(seed))
    for _ in range(count):
        source.step()
    memory = source.feed.memory

    for lineage, every in lineages(memory):
        changes = every if whole else list(damaged(every, random.Random(chance)))
        small = mode_of(lineage, memory.reach, memory.upstream).rows(changes)
        found = large(lineage, changes, memory.reach, memory.upstream)

        assert bag(finish(found)) == bag(small.rows)
        assert (found.problems, set(found.unknown)) == (set(small.problems), set(small.unknown))
        assert found.breaks == small.breaks


def test_rows_that_have_lost_their_key_are_converted_by_statements_after_that() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    feed.insert(2, id=1, v="abc").insert(3, id=2, v="12")
    feed.ddl(4, "ALTER TABLE t DROP PRIMARY KEY").ddl(5, "ALTER TABLE t MODIFY v JSON")

    [(lineage, changes)] = lineages(feed.memory)
    at, upstream = feed.memory.reach, feed.memory.upstream
    small, found = fold(lineage, changes, at, upstream), large(lineage, changes, at, upstream)

    assert bag(finish(found)) == bag(finish(small))
    assert found.problems == small.problems == {"column v, varchar(9) to json: text that is not JSON"}


def test_an_insert_behind_a_lossy_statement_is_no_row_that_was_deleted_before_it() -> None:
    """The table had rows that no change has inserted: a delete of one is told, and takes no later row."""
    types = {"v": "varchar(9)", "w": "int"}
    feed = TiCDC().ddl(1, "CREATE TABLE t (v VARCHAR(9), w INT)")
    feed.row(2, "DELETE", {"v": "12", "w": "1"}, types=types, key=()).ddl(3, "ALTER TABLE t MODIFY v JSON")
    feed.row(4, "INSERT", {"v": "12", "w": "1"}, types=types | {"v": "json"}, key=())

    [(lineage, changes)] = lineages(feed.memory)
    at, upstream = feed.memory.reach, feed.memory.upstream
    small, found = fold(lineage, changes, at, upstream), large(lineage, changes, at, upstream)

    assert bag(finish(found)) == bag(finish(small)) and found.keyless
    assert found.problems == small.problems == {"a delete of a row that no change inserted"}


def test_what_a_table_lacked_before_it_was_emptied_is_mended_whatever_statements_lie_between() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    feed.insert(2, id=1, v="abc").insert(3, id=2, v="12")
    feed.row(4, "INSERT", {"v": "12"}, key=()).ddl(5, "ALTER TABLE t MODIFY v JSON")
    feed.row(6, "UPDATE", {"id": 1}, types={"id": "int"}).ddl(7, "ALTER TABLE t MODIFY v INT")

    def found() -> Folded:
        [(lineage, changes)] = lineages(feed.memory)
        at, upstream = feed.memory.reach, feed.memory.upstream
        small, told = fold(lineage, changes, at, upstream), large(lineage, changes, at, upstream)
        assert (bag(finish(told)), told.problems) == (bag(finish(small)), small.problems)
        return told

    lost = "column v, varchar(9) to json: text that is not JSON"
    assert {lost, NO_KEY} <= found().problems
    feed.ddl(8, "TRUNCATE TABLE t").insert(9, id=3, v="1")
    assert found().problems == set()
    feed.ddl(10, "ALTER TABLE t MODIFY id VARCHAR(9)")
    assert found().problems == set()


def test_rows_that_have_one_key_once_it_is_declared_are_no_whole_table() -> None:
    """The server has let the statement pass: the delete of one of them is lacking."""
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT NOT NULL, v VARCHAR(9))")
    for moment, value in ((2, "a"), (3, "b")):
        feed.row(moment, "INSERT", {"id": 1, "v": value}, key=())
    feed.ddl(4, "ALTER TABLE t ADD PRIMARY KEY (id)").insert(5, id=2, v="c")

    def found() -> set[str]:
        [(lineage, changes)] = lineages(feed.memory)
        at, upstream = feed.memory.reach, feed.memory.upstream
        small, told = fold(lineage, changes, at, upstream), large(lineage, changes, at, upstream)
        history = Mode(lineage, at, upstream, TSO, GoldOptions(mode="history")).rows(changes)
        assert told.problems == small.problems == history.problems
        return small.problems

    assert found() == {ONE_KEY}
    feed.ddl(6, "ALTER TABLE t MODIFY id VARCHAR(9)")
    assert found() == {ONE_KEY}


def test_a_row_that_goes_on_under_another_key_is_one_row() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT NOT NULL, v VARCHAR(9))")
    feed.row(2, "INSERT", {"id": 1, "v": "a"}, key=()).row(3, "INSERT", {"id": 2, "v": "a"}, key=())
    feed.ddl(4, "ALTER TABLE t ADD PRIMARY KEY (id)").row(5, "UPDATE", {"id": 1, "v": "b"}, {"v": "a"})

    [(lineage, changes)] = lineages(feed.memory)
    at, upstream = feed.memory.reach, feed.memory.upstream

    assert large(lineage, changes, at, upstream).problems == set()
    assert fold(lineage, changes, at, upstream).problems == set()
