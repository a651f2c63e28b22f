"""Of a large table without a key no worker sees all rows: that a snapshot was begun again at its place is
found all the same, as in a small one.
"""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse.fold.keyless import counted
from lakehouse.fold.row_edits import SENT_TWICE
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage
from lakehouse.spark.fold.fold_job import FoldTask, fold_large
from lakehouse.spark.fold.modes import mode_large
from lakehouse.spark.session import keeping
from tests.fold.test_versions import lineages
from tests.schema_history.test_snapshots import Feed
from tests.spark.fold.test_fold_workers import silver
from tests.support.engine import TSO, Memory

AGAIN = pytest.mark.parametrize(("places", "problems"), [((100, 100), {SENT_TWICE}), ((100,), set())])


def snapshots(places: tuple[int, ...], *, key: tuple[str, ...] = ()) -> Memory:
    """A connector's snapshots of one table, each with rows of its own."""
    feed = Feed()
    for number, place in enumerate(places):
        feed.drop("TABLE", place, "n").drop("DATABASE", place).table("n", place, key=key)
        for row, end in enumerate(("first", "true", "last")):
            feed.row("n", "r", place, 10 * number + row, 1, end, keyed=bool(key))
    return Memory("debezium", tidb=False).add(feed.messages)


def in_two(spark: SparkSession, changes: list[Any]) -> DataFrame:
    """The changes as a frame, the first half of them in another partition than the others."""
    halves = [changes[: len(changes) // 2], changes[len(changes) // 2 :]]
    frames = [spark.createDataFrame(pa.Table.from_batches([silver(half)])).coalesce(1) for half in halves]
    return frames[0].union(frames[1])


@AGAIN
@pytest.mark.parametrize("word", ["upsert", "append", "history"])
def test_a_snapshot_that_is_begun_again_is_found_in_parts_too(
    spark: SparkSession, word: str, places: tuple[int, ...], problems: set[str]
) -> None:
    memory = snapshots(places)
    [(lineage, changes)] = lineages(memory)
    mode = Mode(lineage, memory.reach, memory.upstream, TSO, GoldOptions(mode=word))
    with keeping():
        found = folded(in_two(spark, changes), lineage, mode)

        assert found.problems == problems == mode.rows(changes).problems
        assert found.frame.count() == 3 * len(places)


def folded(changes: DataFrame, lineage: Lineage, mode: Mode) -> Any:
    columns = gold_columns(lineage.steps[mode.target].schema, virtual=False)
    if mode.word != "upsert":
        return mode_large(changes, mode, columns, rows=6)
    task = FoldTask(lineage, mode.at, mode.target, mode.upstream)
    return fold_large(changes, task, columns, needed=mode.needed, rows=6)


def test_a_window_with_an_end_of_a_snapshot_is_not_counted_by_itself() -> None:
    memory = snapshots((100, 100))
    [(lineage, changes)] = lineages(memory)
    step, before = lineage.step_at(memory.reach), changes[2].position

    assert counted(lineage, changes[3:], memory.upstream, step=step, before=before) is None
    assert counted(lineage, changes[4:5], memory.upstream, step=step, before=before)
