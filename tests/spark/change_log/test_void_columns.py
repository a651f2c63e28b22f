"""Columns that were inferred from rows which a restore of the upstream has made void. Needs no session."""

from types import SimpleNamespace
from typing import Any

from lakehouse.ops.records.gold import Inferred, InferredColumn
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.change_log.schema_history import recorded


def test_columns_of_rows_that_count_no_more_are_no_columns_of_the_table() -> None:
    """The restored source has none of them, and may add them by a statement of its own."""
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
