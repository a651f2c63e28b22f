"""The rows that silver has of tables whose schema no statement tells: their shapes, from which a schema is
inferred.

Shapes are kept in the ops log, so that a run reads only the batches since then, in one query for all tables.
A table that is asked for between other positions than before is read in a query of its own.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import Name
from lakehouse.ops.records.gold import RowShape, Sighted, Sightings, Spreads
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.silver import Done
from lakehouse.schema_history.schema_records import Shape, shape_of_rows
from lakehouse.silver.transaction_watermark import aborted
from lakehouse.spark.change_log.changes import between, unfinished_snapshots
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import raised_floors

# after so many batches what was found is recorded again although it is the same: newer batches are looked at
BATCHES = 50
Shapes = tuple[RowShape, ...]
Kept = TypeVar("Kept", Sightings, Spreads)


@dataclass(frozen=True, slots=True)
class Span:
    """A source table's rows between two positions, `low` excluded."""

    name: Name
    low: Position
    high: Position | None


class SilverSightings:
    """Rows seen of each name: from the bounds of the done record, and from silver where those leave a
    doubt. `changes` are silver's rows that count; `told_of` the names that statements or schemas speak of.
    """

    def __init__(
        self, log: OpsLog, done: Done, changes: DataFrame, told_of: Collection[tuple[str, str | None]]
    ) -> None:
        self.bounds = {one.name: one for one in done.tables}
        self.silver = Silver(changes, kept(log, done, Sightings))
        self.silver.unasked = frozenset(name for name in self.bounds if name not in told_of)
        self.asked: dict[Span, Shapes] = {}

    def names(self) -> Iterable[Name]:
        return list(self.bounds)

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        entry = self.bounds.get(name)
        return entry is not None and entry.high > low and (high is None or entry.low < high)

    def key_names(self, name: Name) -> tuple[str, ...]:
        entry = self.bounds.get(name)
        return (entry.keys or ()) if entry else ()

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        span = Span(name, low, high)
        if span not in self.asked:
            self.asked[span] = self.silver.shapes(span, self.bounds[name].n if name in self.bounds else 0)
        return shape_of(self.asked[span])

    def record(self, log: OpsLog, done: Done) -> None:
        """Keep what was found for the next run, with the next record of the log, where it is news or many
        batches old.
        """
        tables = tuple(
            Sighted(*span.name, span.low, span.high, shapes)
            for span, shapes in sorted(self.asked.items(), key=lambda item: repr(item[0]))
        )
        known = self.silver.kept
        if tables and (tables != known.tables or done.batch - known.batch >= BATCHES):
            log.add_along(Sightings(batch=done.batch, under=digest(log, done), tables=tables))


@dataclass
class Silver:
    """Silver's rows that count, what is known of them, and what one look at the newer ones found."""

    changes: DataFrame
    kept: Sightings
    unasked: frozenset[Name] = frozenset()
    known: dict[Span, Sighted] = field(init=False)
    newer: dict[Name, Shapes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.known = {span_of(one): one for one in self.kept.tables}

    def shapes(self, span: Span, rows: int) -> Shapes:
        """The shapes of a span's rows; `rows` is how many the table has in silver."""
        known = self.known.get(span)
        newer = self.newer_shapes().get(span.name, ())
        every = (span.low, span.high) == (MIN_POSITION, None)
        if known is None:
            # all that there are of the name are new ones
            whole = every and sum(shape.rows for shape in newer) == rows
            return newer if whole else self.look(span, since=None)
        if every:
            return merged(known.shapes, newer)
        if all(span.high is not None and shape.first > span.high for shape in newer):
            return known.shapes
        return merged(known.shapes, self.look(span, since=self.kept.batch))

    def newer_shapes(self) -> dict[Name, Shapes]:
        """The shapes of the rows of newer batches, of the names that were asked for before or are likely to
        be.
        """
        if self.newer is None:
            names = {(one.database, one.table) for one in self.kept.tables} | self.unasked
            databases, tables = sorted({name[0] for name in names}), sorted({name[1] for name in names})
            mine = (F.col("batch") > self.kept.batch) & F.col("database").isin(databases)
            rows = shapes_in(self.changes.where(mine & F.col("table").isin(tables)))
            found: dict[Name, list[RowShape]] = {}
            for name, shape in rows:
                found.setdefault(name, []).append(shape)
            self.newer = {name: merged((), shapes) for name, shapes in found.items()}
        return self.newer

    def look(self, span: Span, since: int | None) -> Shapes:
        """The shapes of a span's rows, of all batches or of those behind `since`."""
        changes = self.changes if since is None else self.changes.where(F.col("batch") > since)
        return shapes_of(changes, span)


def shapes_of(changes: DataFrame, span: Span) -> Shapes:
    """The shapes of a span's rows among the changes."""
    database, table = span.name
    mine = (F.col("database") == database) & (F.col("table") == table) & between(span.low, span.high)
    return merged((), (shape for _, shape in shapes_in(changes.where(mine))))


def shapes_in(changes: DataFrame) -> Iterator[tuple[Name, RowShape]]:
    """The shapes of rows by name. Where a message tells types it names all of its columns: only images that
    come without are looked into.
    """
    columns = F.when(F.col("types").isNull(), F.json_object_keys(F.coalesce("after", "before")))
    told = changes.select("database", "table", "position", "types", "key_names", columns.alias("columns"))
    groups = told.groupBy("database", "table", "types", "key_names", "columns")
    for row in groups.agg(F.min("position").alias("first"), F.count(F.lit(1)).alias("rows")).collect():
        shape = RowShape(
            row.types, tuple(row.columns or ()), tuple(row.key_names or ()), tuple(row.first), rows=row.rows
        )
        yield (row.database, row.table), shape


def merged(known: Iterable[RowShape], newer: Iterable[RowShape]) -> Shapes:
    """Both, each shape once, in the order of their first rows."""
    found: dict[tuple[str | None, tuple[str, ...], tuple[str, ...]], RowShape] = {}
    for shape in (*known, *newer):
        key = shape.types, shape.columns, shape.key_names
        other = found.get(key)
        if other is not None:
            shape = RowShape(*key, min(shape.first, other.first), shape.rows + other.rows)
        found[key] = shape
    return tuple(sorted(found.values(), key=lambda one: (one.first, one.types or "", one.columns)))


def shape_of(shapes: Iterable[RowShape]) -> Shape | None:
    """The one shape that a schema is inferred from."""
    return shape_of_rows(
        (json.loads(one.types) if one.types else None, one.columns, one.key_names, one.first)
        for one in shapes
    )


def span_of(one: Sighted) -> Span:
    return Span((one.database, one.table), one.low, one.high)


def kept(log: OpsLog, done: Done, kind: type[Kept]) -> Kept:
    """What the last run has recorded, or nothing where other rows count now."""
    last, under = log.last(kind), digest(log, done)
    if last is not None and last.under == under and last.batch <= done.batch:
        return last
    return kind(batch=-1, under=under, tables=())


def digest(log: OpsLog, done: Done) -> str:
    """What decides which of silver's rows count: its generation, restores of the upstream, snapshots that
    were broken off, retention floors.
    """
    restored = [(one.epoch, one.restored_to) for one in log.all(Epoch) if one.restored_to is not None]
    off = aborted(done.transactions if done.transactions else None)
    floors = [(one.place, sorted(one.names), one.batch) for one in raised_floors(log)]
    said = (log.generation, restored, [*off, *unfinished_snapshots(done)], floors)
    return hashlib.blake2b(repr(said).encode(), digest_size=12).hexdigest()
