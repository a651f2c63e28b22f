"""Loads a source's schema history: its schema records from silver, and what silver's rows tell where no DDL
does.
"""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.ddl.policy import Decision, Rules
from lakehouse.events import Position
from lakehouse.lineage import History, Name
from lakehouse.ops.progress import TableSize, plain
from lakehouse.ops.records import Decision as DecisionRecord
from lakehouse.ops.records import Done, Imported, Inferred
from lakehouse.ops.source_settings import Said
from lakehouse.schema_history.build import build
from lakehouse.schema_history.ordering_problems import Spread, Told, report_disorder, report_repeats
from lakehouse.schema_history.schema_records import Record, Shape, shape_of_rows
from lakehouse.spark.change_log.changes import between, not_aborted, not_void
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import read_silver

NOTHING_SAID = Said()


def load_history(log: OpsLog, done: Done, said: Said = NOTHING_SAID) -> History:
    """The lineages of a source as of a done batch. Of what YAMLs say the `keys` count, for tables
    whose messages and DDL tell none, their `on_ddl`, and `virtual`: whether rows carry VIRTUAL columns.
    """
    rows = (
        read_silver(log.spark, log.lake, log.source, "schema_changes")
        .where((F.col("batch") <= done.batch) & not_void(log))
        .collect()
    )
    records = [
        Record(
            row.kind,
            row.database,
            row.table,
            tuple(row.position),
            ddl=row.ddl,
            columns=json.loads(row.columns) if row.columns else None,
            primary_key=tuple(row.primary_key) if row.primary_key else None,
            commit_ts=row.commit_ts,
        )
        for row in rows
    ]
    records += [
        Record(
            "schema",
            one.database,
            one.table,
            one.position,
            ddl=None,
            columns=plain(one.columns),
            primary_key=one.key or None,
        )
        for one in log.all(Imported)
    ]
    records += [
        Record("inferred", one.database, one.table, one.position, ddl=None, columns=plain(one.columns))
        for one in log.all(Inferred)
    ]
    changes = read_silver(log.spark, log.lake, log.source, "changes").where(
        (F.col("batch") <= done.batch) & not_void(log) & not_aborted(log)
    )
    rules = rules_of(log, said.on_ddl)
    sightings, virtual = SilverSightings(changes, done.tables), said.virtual
    history = build(
        records, sightings, rules, whole_snapshots(done), ordered=is_ordered(done), virtual=virtual
    )
    if not is_ordered(done):
        report_disorder(history, spread_of(changes, rows))
    if done.arrival:
        report_repeats(
            history,
            [
                Told(tuple(row.position), row.database, row.table, row.ddl, commit_ts=row.commit_ts)
                for row in rows
            ],
        )
    for lineage in history.lineages:
        named = said.keys.get(".".join(lineage.intervals[-1].name))
        lineage.key_names = named or lineage.key_names
    return history


def spread_of(changes: DataFrame, statements: Iterable[Any]) -> Spread:
    """In which partitions a feed's rows and statements lie. All of silver is read: only a feed whose
    partitions do not compare needs it.
    """
    place = F.struct(F.col("origin.topic").alias("topic"), F.col("origin.partition").alias("partition"))
    keys = changes.groupBy("database", "table", "key").agg(F.collect_set(place).alias("places"))
    scattered = (F.size("places") > 1) & (F.col("key") != "[]")
    tables = keys.groupBy("database", "table").agg(
        F.array_distinct(F.flatten(F.collect_list("places"))).alias("places"),
        F.count_if(scattered).alias("moved"),
    )
    found = tables.collect()
    return Spread(
        {(row.database, row.table): {tuple(place) for place in row.places} for row in found},
        {(tuple(row.position), row.ddl): (row.origin.topic, row.origin.partition) for row in statements},
        {(row.database, row.table): row.moved for row in found},
    )


def rules_of(log: OpsLog, policies: Iterable[tuple[Name, dict[str, str]]]) -> Rules:
    """What the YAMLs (names with their `on_ddl`) and the operators say of DDLs."""
    decisions = {
        (one.position, one.ddl): Decision(one.decision, one.instead) for one in log.all(DecisionRecord)
    }
    return Rules(dict(policies), decisions)


def is_ordered(done: Done) -> bool:
    """Whether places of different partitions compare: not where order is arrival, and there are several."""
    return not (done.arrival and len({(one.topic, one.partition) for one in done.next}) > 1)


def whole_snapshots(done: Done) -> list[Position]:
    """The places of the snapshots whose last row has arrived."""
    return list(done.transactions.snapshots) if done.transactions else []


class SilverSightings:
    """Sightings from the done record's bounds, and from silver itself where they leave a doubt."""

    def __init__(self, changes: DataFrame, tables: Iterable[TableSize]) -> None:
        self.changes = changes
        self.bounds = {one.name: one for one in tables}
        self.shapes: dict[tuple[Name, Position, Position | None], Shape | None] = {}

    def names(self) -> Iterable[Name]:
        return list(self.bounds)

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        entry = self.bounds.get(name)
        return entry is not None and entry.high > low and (high is None or entry.low < high)

    def key_names(self, name: Name) -> tuple[str, ...]:
        entry = self.bounds.get(name)
        return (entry.keys or ()) if entry else ()

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        if (name, low, high) not in self.shapes:
            self.shapes[name, low, high] = self._shape(name, low, high)
        return self.shapes[name, low, high]

    def _shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        mine = self.changes.where(
            (F.col("database") == name[0]) & (F.col("table") == name[1]) & between(low, high)
        )
        # where a message tells types it names all of its columns: only images that come without are looked
        # into
        names = F.when(F.col("types").isNull(), F.json_object_keys(F.coalesce("after", "before"))).alias(
            "columns"
        )
        told = mine.select("position", "types", "key_names", names).groupBy("types", "key_names", "columns")
        rows = told.agg(F.min("position").alias("first")).orderBy("first", "types").collect()
        return shape_of_rows(
            (
                json.loads(row.types) if row.types else None,
                row.columns or (),
                tuple(row.key_names or ()),
                tuple(row.first),
            )
            for row in rows
        )
