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

from lakehouse.events import Position
from lakehouse.fold.current_rows import Folded, finish, fold, rekeyings, target_step
from lakehouse.fold.row_edits import Change, image_text
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.gold.own_columns import PARTS
from lakehouse.lineage import Lineage
from lakehouse.spark.change_log.changes import FOLD_COLUMNS
from lakehouse.spark.gold.fold_job import SHORT, Piece, _carry, _cross, _net, decode_row, found_in
from tests.fold.test_versions import lineages, told
from tests.spark.gold.test_fold_job import has_key, silver_row
from tests.support.damage import damaged
from tests.support.feeds import TiCDC
from tests.support.source_model import History

Netted = list[dict[str, Any]]
seeds = st.integers(0, 2**32 - 1)


def in_workers(
    lineage: Lineage, changes: list[Change], at: Position, upstream: Upstream, *, alone: bool
) -> Netted:
    """What the workers of lakehouse.spark.gold.fold_job.fold_frame make of the changes, key by key."""
    target, start = target_step(lineage, at), 0
    netted: Netted = []
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream)
        mine = [change for change in changes if start <= lineage.step_at(change.position) <= end]
        deltas = rows_of(_carry(piece)(iter([silver(mine)])))
        if start:
            base = [row for row in netted if row["kind"] != "delete"]
            deltas += rows_of(_cross(piece)(iter([pa.RecordBatch.from_pylist(base, NETTED)])))
        batch = pa.RecordBatch.from_pylist(sorted(deltas, key=place_of), DELTAS)
        netted = rows_of(_net(piece, frozenset(), alone=alone)(iter([batch])))
        start = end + 1
    return netted


POSITION = pa.struct([(part, pa.int64()) for part in PARTS])
DELTAS = pa.schema(
    {
        "key": pa.string(),
        "position": POSITION,
        "kind": pa.string(),
        "image": pa.string(),
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
    """As lakehouse.spark.gold.fold_job.fold_large: a table that falls short is folded in one partition."""
    netted = in_workers(lineage, changes, at, upstream, alone=False)
    if SHORT in found_in(row["kind"] for row in netted)[1]:
        netted = in_workers(lineage, changes, at, upstream, alone=True)
    unknown, problems = found_in(row["kind"] for row in netted)
    rows = [decode_row(row["image"]) for row in netted if row["kind"] in ("put", "patch")]
    return Folded(keyless=rows, unknown=unknown, problems=set(problems))


def bag(rows: list[Row]) -> Counter[str]:
    return Counter(map(image_text, rows))


@settings(max_examples=60)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_workers_fold_what_the_driver_folds_and_find_what_it_finds(
    seed: int, count: int, chance: int
) -> None:
    memory, rand = told(History(seed, count), chance), random.Random(chance)

    for lineage, whole in lineages(memory):
        changes = list(damaged(whole, rand, keyed=has_key(lineage)))
        small = fold(lineage, changes, memory.reach, memory.upstream)
        found = large(lineage, changes, memory.reach, memory.upstream)

        assert bag(finish(found)) == bag(finish(small))
        # an undeclared column's position is the first that a worker met: the table is folded up to it, and
        # again where there is an earlier one
        assert (found.problems, set(found.unknown)) == (small.problems, set(small.unknown))


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
