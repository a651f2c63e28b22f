"""Rows with columns that no DDL has added: the table waits for the DDL, and after `drift_timeout` the columns
are inferred.

The wait is in the manifest (`held`, by "rows"), the inference is a record of the ops log, so that a rebuild
gives the same.
"""

import time

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.events import Position, just_below
from lakehouse.lineage import Held, Lineage
from lakehouse.ops.records.gold import HeldAt, Inferred, InferredColumn, Manifest, TableEntry
from lakehouse.ops.records.silver import Done
from lakehouse.spark.change_log.changes import not_void
from lakehouse.spark.change_log.sightings import Span, shape_of, shapes_of
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import read_silver


def waiting(position: Position, columns: tuple[str, ...]) -> Held:
    """How a table is held before the first row that has these columns."""
    why = f"rows have columns that no DDL has added yet: {', '.join(columns)}"
    return Held(position, why, None, "rows", columns=columns)


def still_waiting(lineage: Lineage, known: TableEntry | None) -> Held | None:
    """What holds the lineage where the last manifest held it for its rows, as long as its schema there lacks
    their columns. `known` may be the entry of a table that is merged of this one and others.
    """
    if known is None or known.held is None or known.held.by != "rows":
        return None
    held = known.held
    if held.shard is not UNSET and lineage.name_at(held.position) != held.shard:
        return None
    schema = lineage.schema_at(held.position)
    missing = tuple(name for name in held.columns if schema.column(name) is None)
    return waiting(held.position, missing) if missing else None


def held_at(
    held: Held | None, end: Position, known: TableEntry | None, shard: Lineage | None = None
) -> HeldAt | None:
    """What holds a table at a run's end, for the manifest: `ddl approve` and `ddl skip` speak of it, and rows
    wait from `seen` on. `shard`: which one is held, of a merged table.
    """
    if held is None or held.position > end:
        return None
    name = UNSET if shard is None else shard.name_at(held.position) or shard.intervals[-1].name
    before = known.held if known is not None else None
    same = before is not None and (before.position, before.by, before.shard) == (held.position, held.by, name)
    seen = before.seen if same and before is not None else int(time.time() * 1000)
    return HeldAt(held.position, held.ddl, held.by, held.columns, seen=seen, shard=name)


def infer_columns(log: OpsLog, timeout: float | None) -> int:
    """Record the columns of rows that have waited for `timeout` seconds as inferred; returns of how many
    tables.
    """
    manifest, done = log.last(Manifest), log.last(Done)
    if timeout is None or manifest is None or done is None:
        return 0
    waits = [(entry, held) for entry in manifest.tables if (held := entry.held) and held.by == "rows"]
    late = [(entry, held) for entry, held in waits if time.time() * 1000 - held.seen >= timeout * 1000]
    for entry, held in late:
        record = _record(log, done, entry, held)
        if record not in log.all(Inferred):
            log.add(record)
    return len(late)


def _record(log: OpsLog, done: Done, entry: TableEntry, held: HeldAt) -> Inferred:
    """The columns, of the types that the rows tell, right below the first row that has them."""
    below = just_below(held.position)
    changes = read_silver(log.spark, log.lake, log.source, "changes").where(
        (F.col("batch") <= done.batch) & not_void(log)
    )
    name = (entry.database, entry.table) if held.shard is UNSET else held.shard
    shape = shape_of(shapes_of(changes, Span(name, below, None)))
    types = shape.types if shape is not None else {}
    columns = tuple(InferredColumn(name, types.get(name, "")) for name in held.columns)
    return Inferred(database=name[0], table=name[1], position=below, columns=columns)
