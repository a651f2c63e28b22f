"""Loads a source's schema history: schema records from silver, and schemas inferred from silver's rows where
there is no DDL.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import functions as F

from lakehouse.ddl.policy import Decision, Rules
from lakehouse.events import READINGS, SNAPSHOT_TOPIC, Position
from lakehouse.lineage import History, Lineage
from lakehouse.ops.progress import plain
from lakehouse.ops.records.gold import Inferred, Lineages
from lakehouse.ops.records.operators import Decision as DecisionRecord
from lakehouse.ops.records.operators import Epoch, Imported
from lakehouse.ops.records.silver import Done
from lakehouse.schema_history.created_schemas import imported_records
from lakehouse.schema_history.identity import beginning_of, with_known_ids
from lakehouse.schema_history.ordering_problems import (
    SentStatement,
    report_disorder,
    report_refused,
    report_repeats,
    without_late,
)
from lakehouse.schema_history.readings import leave_unsettled
from lakehouse.schema_history.reuse import built
from lakehouse.schema_history.schema_records import Record
from lakehouse.spark.bronze.epochs import is_void
from lakehouse.spark.change_log.changes import counted_changes, not_void
from lakehouse.spark.change_log.sightings import SilverSightings
from lakehouse.spark.change_log.spread import spreading
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import raised_floors
from lakehouse.spark.silver.tables import read_schema_changes


class Said(NamedTuple):
    """What the schema history needs of YAMLs: the rules of DDLs, without operators' decisions; the `keys` of
    tables whose messages and DDL tell none, by their names; and `virtual`: rows carry VIRTUAL columns.
    """

    rules: Rules = Rules()
    keys: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    virtual: bool = False


NOTHING_SAID = Said()


def load_history(log: OpsLog, done: Done, said: Said = NOTHING_SAID, *, keep: bool = False) -> History:
    """The lineages of a source as of a done batch, under the ids that they were given. With `keep` the ops
    log keeps what was found in silver's rows.
    """
    rows = (
        read_schema_changes(log.spark, log.lake, log.source)
        .where((F.col("batch") <= done.batch) & not_void(log))
        .collect()
    )
    rows.sort(key=lambda row: row.batch)  # of a statement that was sent again the first counts
    told = without_late(((_record(row), row.batch) for row in rows), raised_floors(log))
    records = [*told.counted, *recorded(log)]
    changes = counted_changes(log, done.batch)
    sightings = SilverSightings(log, done, changes, {(one.database, one.table) for one in records})
    rules, ordered = rules_of(log, said.rules), is_ordered(done)
    history = built(
        log.lake.path("ops", log.table),
        records,
        sightings,
        rules,
        snapshots=whole_snapshots(done),
        ordered=ordered,
        virtual=said.virtual,
    )
    if keep:
        sightings.record(log, done)
    report_refused(history, told.refused)
    leave_unsettled(history, log.all(Epoch))
    if not ordered:
        found = spreading(log, done, changes)
        report_disorder(history, found.of(rows))
        if keep:
            found.record(log, done)
    if done.arrival:
        sent = [row for row in rows if row.kind not in READINGS]
        report_repeats(history, list(map(_statement, sent)))
    take_said_keys(history, said.keys)
    return with_known_ids(history, (one for record in log.all(Lineages) for one in record.begun))


def take_said_keys(history: History, keys: Mapping[str, tuple[str, ...]]) -> None:
    """Give the lineages the keys that YAMLs say, by their names: each that of the newest of its names that
    has one.
    """
    for lineage in history.lineages:
        names = (".".join(interval.name) for interval in reversed(lineage.intervals))
        lineage.key_names = next((keys[name] for name in names if name in keys), lineage.key_names)


def recorded(log: OpsLog) -> list[Record]:
    """The schemas that operators have imported, and the columns that were inferred from rows, if these rows
    still count.
    """
    epochs = log.all(Epoch)
    return imported_records(log.all(Imported)) + [
        Record("inferred", one.database, one.table, one.position, ddl=None, columns=plain(one.columns))
        for one in log.all(Inferred)
        if not is_void(one.position, epochs)
    ]


def record_ids(log: OpsLog, lineages: Iterable[Lineage]) -> None:
    """Keep the ids of those lineages that have none on record yet, with the next record of the log."""
    known = {one.lineage for record in log.all(Lineages) for one in record.begun}
    new = tuple(beginning_of(lineage) for lineage in lineages if lineage.id not in known)
    if new:
        log.add_along(Lineages(begun=new))


def _record(row: Any) -> Record:
    """A row of silver's schema_changes."""
    return Record(
        row.kind,
        row.database,
        row.table,
        tuple(row.position),
        ddl=row.ddl,
        columns=json.loads(row.columns) if row.columns else None,
        primary_key=tuple(row.primary_key) if row.primary_key else None,
        commit_ts=row.commit_ts,
    )


def _statement(row: Any) -> SentStatement:
    return SentStatement(tuple(row.position), row.database, row.table, row.ddl, commit_ts=row.commit_ts)


def rules_of(log: OpsLog, said: Rules) -> Rules:
    """What the YAMLs and the operators say of DDLs."""
    decisions = {
        (one.position, one.ddl): Decision(one.decision, one.instead) for one in log.all(DecisionRecord)
    }
    return replace(said, decisions=decisions)


def is_ordered(done: Done) -> bool:
    """Whether places of different partitions compare: not where order is arrival, and there are several."""
    sent = {(one.topic, one.partition) for one in done.next if one.topic != SNAPSHOT_TOPIC}
    return not (done.arrival and len(sent) > 1)


def whole_snapshots(done: Done) -> list[Position]:
    """The positions of the snapshots whose last row has arrived."""
    return list(done.transactions.snapshots) if done.transactions else []
