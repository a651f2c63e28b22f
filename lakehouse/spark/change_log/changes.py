"""Silver's changes for the fold: selected by lineage intervals, parsed once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from msgspec import UNSET
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_FLAG, Position, position_struct
from lakehouse.fold.row_edits import Change
from lakehouse.lineage import History, Interval, Lineage, Name
from lakehouse.ops.progress import TableSnapshot
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.silver import Done
from lakehouse.silver.transaction_watermark import aborted
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import read_silver

FOLD_COLUMNS = [
    "database",
    "table",
    "op",
    "position",
    "before",
    "after",
    "encoding",
    "flags",
    "batch",
    "commit_ts",
]
_decode = msgspec.json.decode
# above the number of any row
LAST = 2**63 - 1


def position_literal(position: Position) -> Column:
    """A position as a literal that Spark compares."""
    return F.expr(position_sql(position))  # one call of the JVM, where columns would be twenty


def position_sql(position: Position) -> str:
    """A position as a literal in SQL text."""
    fields = (f"'{name}', {value:d}L" for name, value in position_struct(position).items())
    return f"named_struct({', '.join(fields)})"


def between(low: Position | None, high: Position | None) -> Column:
    """low < position <= high; the leading integers are compared on their own too, so that files are skipped
    by statistics.
    """
    condition = F.lit(True)
    if low is not None:
        condition = (
            condition & (F.col("position.epoch") >= low[0]) & (F.col("position") > position_literal(low))
        )
        if low[0] == (high[0] if high else None):
            condition = condition & (F.col("position.p1") >= low[1])
    if high is not None:
        condition = (
            condition & (F.col("position.epoch") <= high[0]) & (F.col("position") <= position_literal(high))
        )
        if high[0] == (low[0] if low else None):
            condition = condition & (F.col("position.p1") <= high[1])
    return condition


def _counted_up_to(log: OpsLog, batch: int) -> Column:
    """The condition of the changes that count, of batches up to `batch`."""
    return (F.col("batch") <= batch) & not_void(log) & _not_aborted(log)


def all_count(log: OpsLog) -> bool:
    """Whether each change of a batch that is done counts."""
    done, restored = log.last(Done), any(one.restored_to is not None for one in log.all(Epoch))
    return not (restored or aborted(done.transactions if done else None) or unfinished_snapshots(done))


def counted_changes(log: OpsLog, batch: int) -> DataFrame:
    """Silver's changes that count, of batches up to `batch`."""
    return read_silver(log.spark, log.lake, log.source, "changes").where(_counted_up_to(log, batch))


def not_void(log: OpsLog) -> Column:
    """The condition that leaves out changes of an epoch that an upstream restore has voided."""
    condition = F.lit(True)
    for one in log.all(Epoch):
        if one.restored_to is not None:
            older = F.col("position.epoch") < one.epoch
            condition = condition & ~(older & (F.col("position.p1") > one.restored_to))
    return condition


def _not_aborted(log: OpsLog) -> Column:
    """Rows of a full snapshot that was broken off are void; the complete one has them all again. So are those
    of a table's snapshot until its last one has arrived.
    """
    condition = F.lit(True)
    done = log.last(Done)
    for epoch, p1, p2, p3, *_ in aborted(done.transactions if done else None):
        here = (F.col("position.epoch") == epoch) & (F.col("position.p1") == p1)
        here = here & (F.col("position.p2") == p2) & (F.col("position.p3") == p3)
        full = ~F.coalesce(F.array_contains("flags", "snapshot=incremental"), F.lit(False))
        condition = condition & ~(here & (F.col("op") == "snapshot") & full)
    for one in unfinished_snapshots(done):
        mine = (F.col("database") == one.database) & (F.col("table") == one.table)
        rows = mine & between(one.position, (*one.position[:4], LAST, 1))
        condition = condition & ~(rows & F.coalesce(F.array_contains("flags", SNAPSHOT_FLAG), F.lit(False)))
    return condition


def unfinished_snapshots(done: Done | None) -> list[TableSnapshot]:
    """The table snapshots that silver has rows of, and whose last one has not arrived."""
    return [] if done is None or done.snapshots is UNSET else done.snapshots.unfinished


def of_lineage(lineage: Lineage) -> Column:
    """The condition of rows of the lineage, by its name intervals."""
    return any_of([_within_interval(interval) for interval in lineage.intervals])


def _within_interval(interval: Interval) -> Column:
    database, table = interval.name
    mine = (F.col("database") == database) & (F.col("table") == table)
    mine = mine & (F.col("position") > position_literal(interval.low))
    return mine if interval.high is None else mine & (F.col("position") < position_literal(interval.high))


def of_any(lineages: Iterable[Lineage]) -> Column:
    """The condition of rows of any of the lineages."""
    return any_of([_within_interval(interval) for lineage in lineages for interval in lineage.intervals])


def of_names(names: Iterable[Name]) -> Column:
    """The condition of rows of any of these source tables."""
    tables = defaultdict[str, list[str]](list)
    for database, table in sorted(names):
        tables[database].append(table)
    return any_of([(F.col("database") == one) & F.col("table").isin(found) for one, found in tables.items()])


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether any of the conditions holds, as a balanced tree: a chain of a thousand would overflow the
    planner's stack.
    """
    if len(conditions) < 2:
        return conditions[0] if conditions else F.lit(False)
    middle = len(conditions) // 2
    return any_of(conditions[:middle]) | any_of(conditions[middle:])


def few_changes(frame: DataFrame, rows: int, size: int) -> pa.Table | None:
    """The changes, in FOLD_COLUMNS, if they are at most `rows` with at most `size` bytes of images, else
    None. Larger images are not fetched: even few rows may be more than the driver can hold.
    """
    images = sum((F.coalesce(F.octet_length(name), F.lit(0)) for name in ("before", "after")), F.lit(0))
    found = frame.select(*FOLD_COLUMNS).limit(rows + 1)
    # of all rows, which a limit has brought together
    found = found.withColumn("bytes", F.sum(images).over(Window.partitionBy()))
    is_few = F.col("bytes") <= size
    table = found.withColumns({name: F.when(is_few, F.col(name)) for name in ("before", "after")}).toArrow()
    if table.num_rows > rows or (table.num_rows and table["bytes"][0].as_py() > size):
        return None
    return table.drop_columns("bytes")


def collect_changes(frame: DataFrame) -> Iterator[tuple[Name, Change, int]]:
    """The rows of silver's changes with their names and batches, on the driver."""
    yield from named_changes(frame.select(*FOLD_COLUMNS).toArrow())


def named_changes(table: pa.Table) -> Iterator[tuple[Name, Change, int]]:
    """The rows of collected changes, with their names and batches."""
    for batch in table.to_batches():
        columns = [batch.column(name).to_pylist() for name in FOLD_COLUMNS]
        for database, name, op, position, before, after, encoding, flags, number, commit_ts in zip(
            *columns, strict=True
        ):
            yield (
                (database, name),
                parse_change(
                    position, op, before, after, encoding=encoding, flags=flags, commit_ts=commit_ts
                ),
                number,
            )


def changes_in(rows: pa.Table, lineage: Lineage, at: Position) -> Iterator[Change]:
    """The lineage's own changes up to `at`, among rows that were read for it. LakehouseError for a row under
    a name that the lineage never had: the read was wrong, and to skip the row would lose it silently.
    """
    names = {interval.name for interval in lineage.intervals}
    for name, change, _ in named_changes(rows):
        if name not in names:
            raise LakehouseError(
                f"silver's rows for {lineage.id}: expected rows of {sorted(names)}, got one of {name}"
            )
        if change.position <= at and any(
            name == one.name and one.has(change.position) for one in lineage.intervals
        ):
            yield change


def changes_of(batch: pa.RecordBatch) -> Iterator[Change]:
    """The changes of one Arrow batch, for a worker."""
    columns = [batch.column(name).to_pylist() for name in FOLD_COLUMNS[2:8]]
    for op, position, before, after, encoding, flags in zip(*columns, strict=True):
        yield parse_change(position, op, before, after, encoding=encoding, flags=flags)


def parse_change(
    position: dict[str, int],
    op: str,
    before: str | None,
    after: str | None,
    encoding: str,
    flags: list[str] | None,
    commit_ts: int | None = None,
) -> Change:
    epoch, p1, p2, p3, p4, p5 = position.values()
    return Change(
        (epoch, p1, p2, p3, p4, p5),
        op,
        None if before is None else _decode(before),
        None if after is None else _decode(after),
        encoding=encoding,
        flags=tuple(flags or ()),
        commit_ts=commit_ts,
    )


def by_lineage(
    history: History, changes: Iterable[tuple[Name, Change, int]]
) -> tuple[dict[str, list[tuple[Change, int]]], int]:
    """Changes by the id of the lineage they belong to, and how many belong to none."""
    owners = _Owners(history)
    found: dict[str, list[tuple[Change, int]]] = defaultdict(list)
    strays = 0
    for name, change, batch in changes:
        lineage = owners.of(name, change.position)
        if lineage is None:
            strays += 1
        else:
            found[lineage.id].append((change, batch))
    return found, strays


class _Owners:
    """History.owner, with the intervals of each name at hand."""

    def __init__(self, history: History) -> None:
        self.intervals: dict[Name, list[tuple[Interval, Lineage]]] = defaultdict(list)
        for lineage in history.lineages:
            for interval in lineage.intervals:
                self.intervals[interval.name].append((interval, lineage))

    def of(self, name: Name, position: Position) -> Lineage | None:
        for interval, lineage in self.intervals.get(name, ()):
            if interval.has(position):
                return lineage
        return None
