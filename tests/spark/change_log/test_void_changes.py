"""What a restore of the upstream has made void."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET
from pyspark.sql import SparkSession

from lakehouse.ops.progress import TableSnapshot, TableSnapshots, Transactions
from lakehouse.ops.records.gold import Inferred, InferredColumn
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.bronze.epochs import is_void
from lakehouse.spark.change_log.changes import all_count, not_void
from lakehouse.spark.change_log.schema_history import recorded
from lakehouse.spark.operations.retention import not_void_at


def test_columns_of_rows_that_count_no_more_are_no_columns_of_the_table() -> None:
    """The restored source has none of them, and may add them by a statement of its own. Needs no session."""
    columns = (InferredColumn("c", "int"),)
    inferred = [
        Inferred(database="d", table=name, position=(epoch, 350, 1, 0, 0, -1), columns=columns)
        for name, epoch in (("void", 0), ("later", 1))
    ]
    told: dict[type[Any], list[Any]] = {
        Inferred: inferred,
        Epoch: [Epoch(epoch=1, places=(), restored_to=300, why="restored")],
    }
    log: Any = SimpleNamespace(all=lambda kind: told.get(kind, []))

    assert [one.table for one in recorded(log)] == ["later"]


def test_workers_read_silver_where_each_change_counts_alone() -> None:
    """They do not leave out any (lakehouse/spark/fold/silver_files.py). Needs no session."""
    place, later = (0, 1, 1, 0, 0, 0), (0, 2, 1, 0, 0, 0)
    table = TableSnapshot("d", "t", place)
    settled = Transactions(snapshots=(later,), begun=(later,))
    broken_off = Transactions(snapshots=(later,), begun=(place, later))
    whole, unfinished = TableSnapshots((table,), (table,)), TableSnapshots((table,))

    def counts(restored: int | None, transactions: Transactions | None, snapshots: Any) -> bool:
        done = SimpleNamespace(transactions=transactions, snapshots=snapshots)
        epochs = [Epoch(epoch=1, places=(), restored_to=restored, why="failover")]
        log: Any = SimpleNamespace(all=lambda kind: epochs, last=lambda kind: done)
        return all_count(log)

    assert counts(None, None, UNSET) and counts(None, settled, whole)
    assert not counts(300, None, UNSET)
    assert not counts(None, broken_off, UNSET)
    assert not counts(None, None, unfinished)


@pytest.mark.parametrize("restores", [{}, {1: 300}, {1: 300, 3: 200}, {2: 200, 3: 300}])
def test_rows_count_no_more_in_queries_where_positions_do_not(
    spark: SparkSession, restores: dict[int, int]
) -> None:
    """A position on which a retention floor may stand is one that counts, at or below the one asked for."""
    epochs = [Epoch(epoch=one, places=(), restored_to=restores.get(one), why="restored") for one in (1, 2, 3)]
    log: Any = SimpleNamespace(all=lambda kind: epochs)
    positions = [(epoch, ts, 2, 0, 0, 0) for epoch, ts in product(range(4), (199, 200, 201, 300, 301))]
    told = [((epoch, ts),) for epoch, ts, *_ in positions]
    rows = spark.createDataFrame(told, "position STRUCT<epoch: BIGINT, p1: BIGINT>").where(not_void(log))

    counting = [one[:2] for one in positions if not is_void(one, epochs)]
    assert sorted(tuple(row.position) for row in rows.collect()) == counting
    for one in positions:
        floor = not_void_at(one, epochs)
        assert floor <= one
        assert not is_void(floor, epochs)
        assert is_void(one, epochs) or floor == one
