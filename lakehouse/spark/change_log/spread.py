"""The partitions that a feed's rows and statements lie in (lakehouse/schema_history/ordering_problems.py):
only a feed whose partitions do not compare needs it.

The partitions found are kept in the ops log, so that a run groups only the rows of newer batches. For tables
in several partitions it also reads older rows of the same keys.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lineage import Name
from lakehouse.ops.progress import Partition
from lakehouse.ops.records.gold import Spreads, TableSpread
from lakehouse.ops.records.silver import Done
from lakehouse.schema_history.ordering_problems import Spread
from lakehouse.spark.change_log.changes import of_names
from lakehouse.spark.change_log.sightings import BATCHES, kept
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import count_by_table

KEY = ["database", "table", "key"]


class Spreading(NamedTuple):
    """What the ops log has of a source's rows, and what silver has with them: the partitions of each table,
    and the number of its keys that came in several.
    """

    kept: Spreads
    found: tuple[TableSpread, ...]

    def of(self, statements: Iterable[Any]) -> Spread:
        """The rows' spread, and that of rows of silver's schema changes."""
        told = {(tuple(row.position), row.ddl): row for row in statements}
        return Spread(
            {(one.database, one.table): set(one.places) for one in self.found},
            {place: (row.origin.topic, row.origin.partition) for place, row in told.items()},
            {(one.database, one.table): one.moved for one in self.found},
            {place: (row.database, row.table) for place, row in told.items()},
        )

    def record(self, log: OpsLog, done: Done) -> None:
        """Keep what was found for the next run, with the next record of the log, where it is news or many
        batches old.
        """
        if self.found and (self.found != self.kept.tables or done.batch - self.kept.batch >= BATCHES):
            log.add_along(Spreads(batch=done.batch, under=self.kept.under, tables=self.found))


def spreading(log: OpsLog, done: Done, changes: DataFrame) -> Spreading:
    """Where the rows of batches up to `done` lie. `changes` are silver's rows that count."""
    last = kept(log, done, Spreads)
    if last.batch == done.batch:
        return Spreading(last, last.tables)
    known = {(one.database, one.table): one for one in last.tables}
    newer = changes.where(F.col("batch") > last.batch)
    places = {name: _places(known.get(name), found) for name, found in _places_by_table(newer)}
    several = [name for name, found in places.items() if len(found) > 1]
    moved = dict(_moved(newer, changes.where(F.col("batch") <= last.batch), several)) if several else {}
    for name, found in places.items():
        before = known[name].moved if name in known else 0
        known[name] = TableSpread(*name, found, before + moved.get(name, 0))
    return Spreading(last, tuple(known[name] for name in sorted(known)))


def _places(known: TableSpread | None, found: Iterable[Partition]) -> tuple[Partition, ...]:
    return tuple(sorted({*(known.places if known else ()), *found}))


def _places_by_table(rows: DataFrame) -> Iterator[tuple[Name, list[Partition]]]:
    tables = rows.groupBy("database", "table").agg(F.collect_set(_place()).alias("places"))
    for row in tables.collect():
        yield (row.database, row.table), [(place.topic, place.partition) for place in row.places]


def _place() -> Column:
    return F.struct(F.col("origin.topic").alias("topic"), F.col("origin.partition").alias("partition"))


def _moved(newer: DataFrame, older: DataFrame, names: list[Name]) -> Iterator[tuple[Name, int]]:
    """How many keys of some tables came in several partitions with the newer rows, and had not before."""
    mine = of_names(names) & (F.col("key") != "[]")
    fresh = newer.where(mine).groupBy(*KEY).agg(F.collect_set(_place()).alias("places"))
    before = older.where(mine).join(fresh.select(*KEY), KEY, "left_semi")
    before = before.groupBy(*KEY).agg(F.collect_set(_place()).alias("before"))
    both = fresh.join(before, KEY, "left")
    known = F.coalesce("before", F.array().cast(both.schema["places"].dataType))
    is_moved = (F.size(known) < 2) & (F.size(F.array_union("places", known)) > 1)
    yield from count_by_table(both.where(is_moved)).items()
