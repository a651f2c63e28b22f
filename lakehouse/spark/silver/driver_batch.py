"""A small silver batch on the driver: the same steps as in lakehouse/spark/silver/spark_batch.py, without
Spark jobs.

Most batches of a scheduled feed are small, and for them the fixed cost of a job is all there is. Both ways
call the same pure functions and write the same rows; a test holds them equal.
"""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from lakehouse.events import WRITTEN_AGAIN, Position, position_struct
from lakehouse.formats import FORMATS
from lakehouse.ops.progress import OpenRuns, Shortfall, run_place
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.batch_summary import Summary
from lakehouse.silver.identity import RunCounter, resolved_runs
from lakehouse.silver.position_spans import spans_of
from lakehouse.silver.transaction_watermark import TransactionEvents
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, ORIGIN, OTHER_COLUMNS, PLACE, RECORD
from lakehouse.spark.silver.decode import decode_all, records_of
from lakehouse.spark.silver.dedupe import (
    CONFLICT,
    EQUAL_ROW,
    disagree,
    highest_known,
    in_spans,
    known_afters,
    overlaps,
    physical_table_of,
)
from lakehouse.spark.silver.tables import (
    PROPERTIES,
    SilverSettings,
    read_schema_changes,
    silver_schema,
    transaction_of,
)

Event = dict[str, Any]
_CHANGE_NAMES = ["kind", *CHANGE_COLUMNS]
_OTHER_NAMES = list(OTHER_COLUMNS)


def decode_rows(table: pa.Table, settings: dict[str, Any]) -> tuple[list[Event], Summary]:
    """The events of bronze records, changes before the others, each in arrival order; and their summary."""
    if FORMATS[settings["format"]].parts is not None:
        table = table.sort_by([(name, "ascending") for name in RECORD])
    cut: list[Shortfall] = []
    taken = decode_all(records_of(table.to_batches(), settings["epochs"], cut), settings)
    taken.short += cut
    events = [
        dict(zip(_CHANGE_NAMES, ("change", *values), strict=True))
        for values in zip(*taken.changes.values(), strict=True)
    ]
    events += [dict(zip(_OTHER_NAMES, values, strict=True)) for values in taken.others]
    return events, taken.summary()


def transaction_events_of_rows(events: list[Event]) -> TransactionEvents:
    """What `transaction_events` (lakehouse/spark/silver/done_record.py) finds, in Python."""
    told = TransactionEvents()
    for event in sorted(events, key=itemgetter("topic", "partition", "offset")):
        if event["kind"] == "transaction":
            told.end(_text(event["key"]) or "", event["physical_table"], event["position"])
        elif event["kind"] == "transaction_row":
            told.row_without_change(_text(event["key"]), event["physical_table"], event["position"])
        elif event["kind"] == "snapshot_row":
            told.row([_text(event["key"]) or ""], event["position"])
        elif event["kind"] == "change":
            told.row(event["flags"] or (), event["position"])
        elif event["kind"] == "schema_change" and event["schema_kind"] == "ddl":
            told.ddl(event["position"], event["ddl"], event["physical_table"])
        elif event["kind"] == "schema_change" and event["schema_kind"] == "snapshot":
            told.snapshot_statement(event["position"], event["ddl"])
    return told


def number_rows(events: list[Event], runs: OpenRuns, *, files: bool = False) -> OpenRuns:
    """Set `row_id` on keyless halves, in arrival order; returns the runs that stay open. `files`: records are
    files.
    """
    counters: dict[str, RunCounter] = {}
    for event in sorted(events, key=itemgetter(*RECORD, "index")):
        place = run_place(event["topic"], event["incarnation"], event["partition"])
        if event["kind"] == "watermark":
            counters.setdefault(place, RunCounter(runs.get(place))).resolved(event["resolved_ts"] or 0)
        elif event.get("half") is not None:
            table = "\x00".join(
                (
                    event["database"],
                    event["table"],
                    "" if event["physical_table"] is None else str(event["physical_table"]),
                )
            )
            counter = counters.setdefault(place, RunCounter(runs.get(place)))
            half, file = f"{event['position'][2]}:{event['half']}", event["offset"] if files else None
            n, again = counter.number(table, event["commit_ts"], half, file)
            event["row_id"] = f"{event['half']}:{n}"
            if again:
                event["flags"] = [*(event["flags"] or ()), WRITTEN_AGAIN]
    return {**runs, **{place: counter.runs for place, counter in counters.items()}}


def runs_before(plan: Planned, done: Done | None) -> OpenRuns:
    """The runs that a batch goes on from. Records that are decoded again have runs of their own, so that
    their rows that silver has get the same numbers.
    """
    return {} if done is None or plan.is_repeat else done.runs


def resolved_events(events: Iterable[Event]) -> list[tuple[str, int]]:
    """The partition and resolved_ts of each resolved event, in arrival order."""
    marks = [one for one in events if one["kind"] == "watermark" and one["resolved_ts"] is not None]
    marks.sort(key=itemgetter(*RECORD, "index"))
    return [(run_place(*(one[name] for name in PLACE)), one["resolved_ts"]) for one in marks]


def identity_of(event: Event, order: str) -> tuple[Any, ...]:
    base = (
        event["database"],
        event["table"],
        _text(event["key"]),
        tuple(event["position"]),
        event["row_id"] or "",
        physical_table_of(event),
    )
    return (*base, *(event[name] for name in PLACE)) if order == "arrival" else base


def distinct_rows(
    changes: list[Event], known: dict[tuple[Any, ...], str | None], order: str
) -> tuple[list[Event], list[Event], int]:
    """(new changes, conflicts as dead letters, how many duplicates). `known` maps identities that silver has
    to after-images.

    Of equal identities the first to arrive counts, inside one message the later row, even if the message had
    arrived before. Silver's change counts, else the batch's first; every other message is compared with it.
    """
    twins: dict[tuple[Any, ...], list[Event]] = {}
    for event in sorted(changes, key=lambda event: (*(event[name] for name in RECORD), -event["index"])):
        mine = twins.setdefault(identity_of(event, order), [])
        if not mine or not _one_message(mine[-1], event):
            mine.append(event)
    new, conflicts = [], []
    for identity, (first, *rest) in twins.items():
        standing = known[identity] if identity in known else _text(first["after"])
        suspects = [first, *rest] if identity in known else rest
        conflicts += [
            conflict_letter(event) for event in suspects if disagree(standing, _text(event["after"]))
        ]
        if identity not in known:
            new.append(first)
    return new, conflicts, len(changes) - len(new) - len(conflicts)


def _one_message(one: Event, other: Event) -> bool:
    """Of equal identities inside one message the later row stands."""
    return all(one[name] == other[name] for name in RECORD)


def conflict_letter(event: Event) -> Event:
    return {**event, "kind": "dead_letter", "error_code": "conflict", "error_message": CONFLICT}


def equal_rows(log: OpsLog, feed: SilverSettings, changes: list[Event], *, batch: int) -> list[Event]:
    """The rows without a key that silver has from another record of their partition, as dead letters: in a
    batch of records that were picked out they may be rows of their own.
    """
    halves = [event for event in changes if event["half"] is not None]
    known = {}
    for row in known_afters(log, feed, halves, batch=batch):
        identity = identity_of({**row, "position": tuple(row["position"].values())}, feed.order)
        known[identity] = row
    return [
        {**event, "kind": "dead_letter", "error_code": "equal_row", "error_message": EQUAL_ROW}
        for event in halves
        if (same := known.get(identity_of(event, feed.order))) is not None
        and all(same[name] == event[name] for name in PLACE)
        and same["offset"] != event["offset"]
    ]


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def schema_identity(row: Any) -> tuple[Any, ...]:
    """What makes two schema changes one. A statement may be told once for each table that it names; a record
    without one is its table's: a storage sink begins with those of all tables at one position.
    """
    table = row["table"] if row["ddl"] is None else None
    told = row["ddl"], _text(row["columns"]), table
    return (tuple(row["position"]), row["database"], row["schema_kind"], *told)


def new_schema_rows(log: OpsLog, feed: SilverSettings, events: list[Event], batch: int) -> list[Event]:
    """Schema changes that silver does not have: broadcast and replayed ones are one."""
    fresh = {schema_identity(event): event for event in reversed(events) if event["kind"] == "schema_change"}
    if not fresh:
        return []
    table = read_schema_changes(log.spark, log.lake, feed.name).where(F.col("batch") < batch)
    table = table.where(in_spans(spans_of((position, position) for position, *_ in fresh)))
    for row in (
        table.select("position", "database", "table", F.col("kind").alias("schema_kind"), "ddl", "columns")
        .toArrow()
        .to_pylist()
    ):
        fresh.pop(schema_identity({**row, "position": row["position"].values()}), None)
    return list(reversed(fresh.values()))


def run_local_batch(
    log: OpsLog,
    feed: SilverSettings,
    table: pa.Table,
    settings: dict[str, Any],
    *,
    plan: Planned,
    done: Done | None,
) -> tuple[Summary, OpenRuns, dict[str, int]]:
    """Decode and write one small batch; returns its summary, open runs and counts."""
    events, summary = decode_rows(table, settings)
    if FORMATS[feed.format].transactions is not None:
        summary.told, summary.settled = transaction_events_of_rows(events), feed.settled
    runs = runs_before(plan, done)
    if summary.keyless:
        runs = number_rows(events, runs, files=FORMATS[feed.format].reads_files)
    else:
        runs = resolved_runs(runs, resolved_events(events))
    changes = [event for event in events if event["kind"] == "change"]
    top = highest_known(feed.order, plan, done.top if done else None)
    known = stored_images(log, feed, changes, top, batch=plan.batch) if overlaps(summary, top) else {}
    new, conflicts, duplicates = distinct_rows(changes, known, feed.order)
    if plan.again and summary.keyless and known:
        equal = equal_rows(log, feed, changes, batch=plan.batch)
        conflicts, duplicates = [*conflicts, *equal], duplicates - len(equal)
    summary.inserted = dict(Counter((event["database"], event["table"]) for event in new))
    for letter in conflicts:
        name = (letter["database"], letter["table"])
        summary.dead[name] = summary.dead.get(name, 0) + 1
    writes = {
        "changes": new,
        "schema_changes": new_schema_rows(log, feed, events, plan.batch),
        "dead_letters": [event for event in events if event["kind"] == "dead_letter"] + conflicts,
        "watermarks": risen(summary, done),
    }
    write_rows(log, feed, plan, writes)
    counts = {"inserted": len(new), "duplicate": duplicates, "conflict": len(conflicts)}
    return summary, runs, {**summary.counts, **counts}


def stored_images(
    log: OpsLog, feed: SilverSettings, changes: list[Event], top: Position | None, *, batch: int
) -> dict[tuple[Any, ...], str | None]:
    """The after-images that silver has of those changes that lie at or below its highest position, by the
    changes' identity.
    """
    below = [event for event in changes if top is not None and tuple(event["position"]) <= top]
    known = {}
    for row in known_afters(log, feed, below, batch=batch):
        identity = identity_of({**row, "position": tuple(row["position"].values())}, feed.order)
        known[identity] = row["after"]
    return known


def write_rows(log: OpsLog, feed: SilverSettings, plan: Planned, tables: dict[str, list[Event]]) -> None:
    """Append to several of silver's tables at a time."""
    with ThreadPoolExecutor(4) as pool:
        for written in [
            pool.submit(append_rows, log, feed, plan, name=name, events=rows)
            for name, rows in tables.items()
            if rows
        ]:
            written.result()


def risen(summary: Summary, done: Done | None) -> list[Event]:
    """One watermark per partition whose resolved position rises."""
    before = {(mark.topic, mark.partition): mark.position for mark in (done.marks if done else ())}
    return [
        {
            "topic": place[0],
            "incarnation": incarnation,
            "partition": place[1],
            "position": position,
            "resolved_ts": resolved_ts,
        }
        for place, (position, resolved_ts, incarnation) in summary.marks.items()
        if position > before.get(place, ())
    ]


def append_rows(log: OpsLog, feed: SilverSettings, plan: Planned, *, name: str, events: list[Event]) -> None:
    """Append events, if there are any, to a silver table under the plan's transaction."""
    if not events:
        return
    log.lake.append_rows(
        log.spark,
        "silver",
        f"{feed.name}_{name}",
        [_silver_row(feed, plan.batch, name, event) for event in events],
        schema=silver_schema(name),
        txn=transaction_of(feed.name, plan, name),
        properties=PROPERTIES.get(name),
    )


def _silver_row(feed: SilverSettings, batch: int, name: str, event: Event) -> dict[str, Any]:
    row = {column: _text(value) if isinstance(value, bytes) else value for column, value in event.items()}
    if event.get("position") is not None:
        row["position"] = position_struct(event["position"])
    row["origin"] = {name: event.get(name) for name in ORIGIN}
    row["source"], row["batch"] = feed.name, batch
    if name == "schema_changes":
        row["kind"] = event["schema_kind"]
    if name == "dead_letters":
        row["code"], row["message"] = event["error_code"], event["error_message"]
    return row
