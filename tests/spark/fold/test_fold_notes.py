"""What the workers of a large fold find beside rows: columns that no DDL has declared, each with the first
position where a row has it.
"""

from typing import Any

import pyarrow as pa

from lakehouse.events import MIN_POSITION, POSITION_PARTS
from lakehouse.fold.continuity import NO_BREAKS
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.schema import Column, make_schema, parse_type
from lakehouse.spark.change_log.changes import FOLD_COLUMNS
from lakehouse.spark.fold.deltas import Piece, carry_worker
from lakehouse.spark.fold.net_rows import net_worker
from lakehouse.spark.fold.notes import found_in


def test_a_name_that_no_ddl_has_told_reaches_the_end_of_a_large_fold() -> None:
    schema = make_schema([Column(0, "id", parse_type("int"))], ("id",))
    piece = Piece(
        Lineage("t", [Step(MIN_POSITION, schema)], [Interval(("d", "t"), MIN_POSITION, None)]),
        0,
        0,
        Upstream(),
    )
    rows: list[dict[str, Any]] = [
        {
            "database": "d",
            "table": "t",
            "op": "insert",
            "position": dict(zip(POSITION_PARTS, (0, n, 2, 0, 0, 0), strict=True)),
            "before": None,
            "after": f'{{"id":{n},"c":5}}',
            "encoding": "canonical",
            "flags": [],
            "batch": 1,
            "commit_ts": n,
        }
        for n in (7, 3)
    ]
    batch = pa.RecordBatch.from_pylist(rows).select(FOLD_COLUMNS)

    deltas = [row for found in carry_worker(piece)(iter([batch])) for row in found.to_pylist()]
    ordered = pa.RecordBatch.from_pylist(sorted(deltas, key=lambda row: row["key"]))
    netted = [row for found in net_worker(piece, frozenset())(iter([ordered])) for row in found.to_pylist()]

    assert sorted(row["kind"] for row in netted if row["image"] != "{}") == ["put", "put"]
    assert found_in(row["kind"] for row in netted) == (
        {"c": (0, 7, 2, 0, 0, 0)},
        frozenset(),
        NO_BREAKS,
        None,
    )
