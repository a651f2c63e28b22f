"""What is new for gold, and silver's changes of many small tables read together.

A read of one table looks through every file of silver that may hold rows of it. With hundreds of tables that
would be what gold costs, so small ones are read in lots: as many in one look as the driver holds at once.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.fold.current_rows import Change
from lakehouse.lineage import History, Lineage, Name
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, between, by_lineage, named_changes
from lakehouse.spark.gold.plan import Size


class Seen(NamedTuple):
    """What a window holds of one source table: how much, and how many rows of it are late."""

    size: Size
    late: int


@dataclass(slots=True)
class Fresh:
    """The changes of the window: by lineage on the driver where `small`, else in the frame, with what it
    holds of each table.
    """

    frame: DataFrame
    small: bool
    changes: dict[str, list[tuple[Change, int]]] = field(default_factory=dict)
    seen: dict[Name, Seen] = field(default_factory=dict)

    def of(self, lineage: Lineage) -> Seen:
        """At most so much of a frame's rows are the lineage's."""
        told = [
            self.seen[name] for name in {interval.name for interval in lineage.intervals} if name in self.seen
        ]
        return Seen(
            Size(sum(one.size.rows for one in told), sum(one.size.bytes for one in told)),
            sum(one.late for one in told),
        )


def look(frame: DataFrame, history: History, position_before: Position) -> Fresh:
    """A window's changes; what is at or below `position_before` is late."""
    table = frame.select(*FOLD_COLUMNS).limit(limits.GOLD_WINDOW_CHANGES + 1).toArrow()
    if table.num_rows <= limits.GOLD_WINDOW_CHANGES and table.nbytes <= limits.GOLD_WINDOW_BYTES:
        return Fresh(frame, small=True, changes=by_lineage(history, named_changes(table))[0])
    images = sum((F.coalesce(F.octet_length(name), F.lit(0)) for name in ("before", "after")), F.lit(0))
    told = [
        F.count("*").alias("n"),
        F.sum(images).alias("bytes"),
        F.count_if(between(None, position_before)).alias("late"),
    ]
    rows = frame.groupBy("database", "table").agg(*told).toArrow().to_pylist()
    seen = {(row["database"], row["table"]): Seen(Size(row["n"], row["bytes"]), row["late"]) for row in rows}
    return Fresh(frame, small=False, seen=seen)


# Lots

Read = Mapping[str, pa.Table]
NOTHING: Read = MappingProxyType({})


class Share(NamedTuple):
    """What one gold table needs of a frame (None: it reads for itself), how much that is at most, and what is
    done with the rows.
    """

    lineages: Sequence[Lineage]
    frame: DataFrame | None
    size: Size
    work: Callable[[Read], Any]


def begin(
    pool: ThreadPoolExecutor, shares: Sequence[Share], reading: Callable[[], AbstractContextManager[None]]
) -> list[Future[Any]]:
    """Begin all work, in lots where tables are read together, of which two are held at a time; lots are read
    within `reading()`.
    """
    begun = {
        number: pool.submit(share.work, NOTHING) for number, share in enumerate(shares) if share.frame is None
    }
    earlier: list[Future[Any]] = []
    for lot in lots([(number, share) for number, share in enumerate(shares) if share.frame is not None]):
        with reading():
            read = read_lot([share for _, share in lot])
        wait(earlier)
        earlier = [pool.submit(share.work, rows) for (_, share), rows in zip(lot, read, strict=True)]
        begun.update(zip([number for number, _ in lot], earlier, strict=True))
    return [begun[number] for number in range(len(shares))]


def lots(shares: Iterable[tuple[int, Share]]) -> Iterator[list[tuple[int, Share]]]:
    """Numbered shares, those of one frame in their order, as many at a time as fit together."""
    lot: list[tuple[int, Share]] = []
    rows = size = 0
    for number, share in sorted(shares, key=lambda one: id(one[1].frame)):
        fits = (
            rows + share.size.rows <= limits.GOLD_GROUP_CHANGES
            and size + share.size.bytes <= limits.GOLD_GROUP_BYTES
        )
        if lot and not (fits and share.frame is lot[0][1].frame):
            yield lot
            lot, rows, size = [], 0, 0
        lot.append((number, share))
        rows, size = rows + share.size.rows, size + share.size.bytes
    if lot:
        yield lot


def read_lot(shares: Sequence[Share]) -> list[Read]:
    """The rows for each of a frame's shares, by lineage: all rows of the lineage's names, in FOLD_COLUMNS."""
    frame = shares[0].frame
    assert frame is not None
    mine = frame.where(_named(_names(lineage for share in shares for lineage in share.lineages)))
    table = mine.select(*FOLD_COLUMNS).toArrow()
    found = _by_name(table)

    def of(lineage: Lineage) -> pa.Table:
        return pa.concat_tables([table[:0], *(found[name] for name in _names([lineage]) if name in found)])

    return [{lineage.id: of(lineage) for lineage in share.lineages} for share in shares]


def _names(lineages: Iterable[Lineage]) -> set[Name]:
    return {interval.name for lineage in lineages for interval in lineage.intervals}


def _named(names: Iterable[Name]) -> Column:
    """Rows of any of these tables."""
    tables: dict[str, list[str]] = {}
    for database, table in sorted(names):
        tables.setdefault(database, []).append(table)
    conditions = [
        (F.col("database") == database) & F.col("table").isin(found) for database, found in tables.items()
    ]
    return functools.reduce(lambda one, other: one | other, conditions)


def _by_name(table: pa.Table) -> dict[Name, pa.Table]:
    """Rows by the name of their table: sorted by name, then cut wherever the name changes."""
    ordered = table.sort_by([("database", "ascending"), ("table", "ascending")])
    changed = [pc.not_equal(ordered[column][1:], ordered[column][:-1]) for column in ("database", "table")]
    # never by the order in which a group_by gives its groups: pyarrow promises none
    starts = (
        [0, *(number + 1 for number in pc.indices_nonzero(pc.or_(*changed)).to_pylist())]
        if ordered.num_rows
        else []
    )
    names = ordered.select(["database", "table"]).take(starts).to_pylist() if starts else []
    ends = [*starts[1:], ordered.num_rows]
    return {
        (row["database"], row["table"]): ordered[start:end]
        for row, start, end in zip(names, starts, ends, strict=False)
    }
