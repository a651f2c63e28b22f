"""Reads the changes since the last run, and the changes of many small tables in one query.

A read of one table looks through every file of silver that may hold rows of it. With hundreds of tables that
would be what gold costs, so small tables are read in groups: one query for as many as the driver holds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.fold.row_edits import Change
from lakehouse.lineage import History, Lineage, Name
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import (
    FOLD_COLUMNS,
    between,
    by_lineage,
    few_changes,
    named_changes,
    of_names,
)
from lakehouse.spark.gold.results import Size, TableResult, total


class Seen(NamedTuple):
    """What a window holds of one source table: how much, and how many rows of it are late."""

    size: Size
    late: int


@dataclass(frozen=True, slots=True)
class NewChanges:
    """The changes of the window: by lineage on the driver where `small`, else in the frame, with what it
    holds of each source table.
    """

    frame: DataFrame
    small: bool
    changes: Mapping[str, list[Change]] = field(default_factory=dict)
    seen: Mapping[Name, Seen] = field(default_factory=dict)

    def of(self, lineage: Lineage) -> Seen:
        """What the frame holds under the lineage's names: at most so much is the lineage's own."""
        found = [self.seen[name] for name in _names([lineage]) if name in self.seen]
        return Seen(total(seen.size for seen in found), sum(seen.late for seen in found))

    def any_of(self, lineage: Lineage) -> bool:
        """Whether the window may have changes of the lineage."""
        return lineage.id in self.changes or self.of(lineage).size.rows > 0


def read_window(frame: DataFrame, history: History, position_before: Position) -> NewChanges:
    """A window's changes; what is at or below `position_before` is late."""
    table = few_changes(frame, limits.GOLD_WINDOW_CHANGES, limits.GOLD_WINDOW_BYTES)
    if table is not None:
        owned, _ = by_lineage(history, named_changes(table))
        changes = {lineage: [change for change, _ in found] for lineage, found in owned.items()}
        return NewChanges(frame, small=True, changes=changes)
    images = sum((F.coalesce(F.octet_length(name), F.lit(0)) for name in ("before", "after")), F.lit(0))
    rows = frame.groupBy("database", "table").agg(
        F.count("*").alias("n"),
        F.sum(images).alias("bytes"),
        F.count_if(between(None, position_before)).alias("late"),
    )
    seen = {
        (row["database"], row["table"]): Seen(Size(row["n"], row["bytes"]), row["late"])
        for row in rows.toArrow().to_pylist()
    }
    return NewChanges(frame, small=False, seen=seen)


# --- read groups

Read = Mapping[str, pa.Table]
"""The changes that were read for a table, by lineage."""
NOTHING_READ: Read = MappingProxyType({})


class TableWork(NamedTuple):
    """The work on one gold table: the frame that its changes are read from together with other tables' (None:
    it reads for itself), how much that is at most, and what is done with the rows.
    """

    lineages: Sequence[Lineage]
    frame: DataFrame | None
    size: Size
    work: Callable[[Read], TableResult]


def start_all(
    pool: ThreadPoolExecutor,
    works: Sequence[TableWork],
    reading: Callable[[], AbstractContextManager[None]],
) -> list[Future[TableResult]]:
    """Start every table's work. Small tables are read in groups, within `reading()`; at most two groups are
    in memory.
    """
    started = {
        number: pool.submit(work.work, NOTHING_READ)
        for number, work in enumerate(works)
        if work.frame is None
    }
    earlier: list[Future[TableResult]] = []
    for group in read_groups([(number, work) for number, work in enumerate(works) if work.frame is not None]):
        with reading():
            read = read_group([work for _, work in group])
        wait(earlier)
        earlier = [pool.submit(work.work, rows) for (_, work), rows in zip(group, read, strict=True)]
        started.update(zip([number for number, _ in group], earlier, strict=True))
    return [started[number] for number in range(len(works))]


def read_groups(works: Iterable[tuple[int, TableWork]]) -> Iterator[list[tuple[int, TableWork]]]:
    """Numbered works, those of one frame in their order, as many at a time as fit together."""
    group: list[tuple[int, TableWork]] = []
    rows = size = 0
    for number, work in sorted(works, key=lambda numbered: id(numbered[1].frame)):
        fits = (
            rows + work.size.rows <= limits.GOLD_GROUP_CHANGES
            and size + work.size.bytes <= limits.GOLD_GROUP_BYTES
        )
        if group and not (fits and work.frame is group[0][1].frame):
            yield group
            group, rows, size = [], 0, 0
        group.append((number, work))
        rows, size = rows + work.size.rows, size + work.size.bytes
    if group:
        yield group


def read_group(works: Sequence[TableWork]) -> list[Read]:
    """The rows for each work of one frame, by lineage: all rows of the lineage's names, in FOLD_COLUMNS."""
    frame = works[0].frame
    assert frame is not None
    wanted = frame.where(of_names(_names(lineage for work in works for lineage in work.lineages)))
    table = wanted.select(*FOLD_COLUMNS).toArrow()
    found = rows_by_name(table)

    def of(lineage: Lineage) -> pa.Table:
        return pa.concat_tables([table[:0], *(found[name] for name in _names([lineage]) if name in found)])

    return [{lineage.id: of(lineage) for lineage in work.lineages} for work in works]


def _names(lineages: Iterable[Lineage]) -> set[Name]:
    return {interval.name for lineage in lineages for interval in lineage.intervals}


def rows_by_name(table: pa.Table) -> dict[Name, pa.Table]:
    """Rows by the name of their table: sorted by name, then cut wherever the name changes.

    Never by the order in which a group_by gives its groups: pyarrow promises none.
    """
    if not table.num_rows:
        return {}
    ordered = table.sort_by([("database", "ascending"), ("table", "ascending")])
    changed = [pc.not_equal(ordered[column][1:], ordered[column][:-1]) for column in ("database", "table")]
    starts = [0, *(number + 1 for number in pc.indices_nonzero(pc.or_(*changed)).to_pylist())]
    ends = [*starts[1:], ordered.num_rows]
    names = ordered.select(["database", "table"]).take(starts).to_pylist()
    return {
        (name["database"], name["table"]): ordered[start:end]
        for name, start, end in zip(names, starts, ends, strict=True)
    }
