"""The `done` record of a batch: progress, bounds, counts, and the state of a Debezium feed's transactions."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.ops.progress import (
    Counts,
    DeadCount,
    Mark,
    NextOffset,
    OffsetRange,
    OpenRuns,
    Place,
    SentState,
    Shortfall,
    TableSize,
    TableSnapshots,
    id_in_epoch,
)
from lakehouse.ops.records.operators import Floor
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.batch_summary import Summary
from lakehouse.silver.binlog_servers import updated_servers
from lakehouse.silver.identity import with_picked_rows
from lakehouse.silver.transaction_watermark import TransactionEvents, advance
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import count_by_table, read_silver

# the partition of a watermark that speaks of all of the source
WHOLE_SOURCE = -1


class Sent(NamedTuple):
    """Whether the feed is ordered by arrival, or by files, and the last message of each partition."""

    arrival: bool
    states: tuple[SentState, ...]


def transaction_events(changes: DataFrame, others: DataFrame) -> TransactionEvents:
    """The transactions, snapshots and DDLs in a batch of a Debezium feed."""
    told = TransactionEvents()
    ends = (
        others.where(F.col("kind") == "transaction")
        .orderBy("topic", "partition", "offset")
        .select("key", "physical_table", "position")
    )
    for row in ends.collect():
        told.end(row.key, row.physical_table, tuple(row.position))
    flagged = changes.select("position", F.explode("flags").alias("flag"))
    parts = [F.regexp_extract("flag", "^tx=(.*);([0-9]+)$", group) for group in (1, 2)]
    numbered = flagged.where("flag like 'tx=%'").select(
        "position", parts[0].alias("id"), parts[1].cast("bigint").alias("n")
    )
    without_change = others.where("kind = 'transaction_row'").selectExpr(
        "position", "key as id", "physical_table as n"
    )
    seen = numbered.unionByName(without_change).groupBy("id", "position.epoch")
    grouped = seen.agg(
        F.collect_set("n").alias("numbers"), F.max("position").alias("position"), F.count("*").alias("rows")
    )
    for row in grouped.toLocalIterator():
        if row.id is None:
            told.lost += row.rows
        else:
            told.rows[id_in_epoch(row.id, row.epoch)] = (set(row.numbers), tuple(row.position))
    ddls = others.where((F.col("kind") == "schema_change") & (F.col("schema_kind") == "ddl"))
    for row in ddls.select("position", "ddl", "physical_table").distinct().collect():
        told.ddl(tuple(row.position), row.ddl, row.physical_table)
    _add_snapshots(told, flagged, others)
    return told


def _add_snapshots(told: TransactionEvents, flagged: DataFrame, others: DataFrame) -> None:
    """Add the snapshots of a batch, by the flags of their rows, and their statements."""
    of_letters = others.where("kind = 'snapshot_row'").selectExpr("position", "key as flag")
    marked = flagged.unionByName(of_letters).where(
        "flag in ('snapshot=first', 'snapshot=first_in_data_collection', 'snapshot=last')"
    )
    for row in marked.distinct().collect():
        told.row([row.flag], tuple(row.position))
    statements = others.where("kind = 'schema_change' and schema_kind = 'snapshot' and ddl is not null")
    for row in statements.select("position", "ddl").distinct().collect():
        told.snapshot_statement(tuple(row.position), row.ddl)


def done_record(
    plan: Planned, done: Done | None, summary: Summary, runs: OpenRuns, counts: Counts, sent: Sent
) -> Done:
    """The batch's last write: progress, what silver now holds of every table, and its counts."""
    transactions = None
    if summary.told is not None:
        known = done.transactions if done else None
        settled = summary.settled and (plan.whole or plan.again)
        transactions = advance(known, summary.told, complete=plan.whole, settled=settled, again=plan.again)
    marks = _highest_marks(done, summary)
    if transactions is not None and transactions.whole:
        marks = (Mark("", WHOLE_SOURCE, transactions.whole),)
    # out of order: runs of keyless rows and parts that wait are as they were
    stays = done if plan.again else None
    servers = updated_servers(done.servers if done else None, summary.servers)
    return Done(
        transactions=transactions,
        batch=plan.batch,
        runs=with_picked_rows(stays.runs, runs) if stays else runs,
        resume=stays.resume if stays else _resume(plan, done, summary),
        bytes=sum(seen["bytes"] for seen in summary.tables.values()),
        counts=counts,
        top=_higher(done.top if done else None, summary.high),
        reach=_higher(done.reach if done else None, summary.reach),
        next=next_offsets(plan.ranges, done),
        marks=marks,
        dead=_dead_counts(done, summary),
        tables=_tables(done, summary),
        servers=stays.servers if stays else servers,
        snapshots=_snapshots(done, summary),
        arrival=sent.arrival,
        # what was refused below a floor is in no table, though its letter is
        requeued=None if counts.below else plan.requeue,
        sent=sent.states,
        backfills=max(plan.backfills, _backfills(done)),
        low=None if plan.again else summary.low,
        short=_short(plan, done, summary) or UNSET,
        bronze=plan.bronze if plan.bronze is not UNSET or done is None else done.bronze,
    )


def _snapshots(done: Done | None, summary: Summary) -> TableSnapshots | UnsetType:
    """The table snapshots that silver holds after the batch."""
    before = UNSET if done is None else done.snapshots
    if not summary.begun and not summary.whole:
        return before
    known = TableSnapshots() if before is UNSET else before
    return TableSnapshots(
        tuple(sorted({*known.begun, *summary.begun})), tuple(sorted({*known.whole, *summary.whole}))
    )


def _short(plan: Planned, done: Done | None, summary: Summary) -> tuple[Shortfall, ...]:
    """Records that are lacking or cut, one entry for each partition, kind and batch. A batch that reads
    records again finds the cut ones again, so their entries are replaced. It can't find skipped numbers,
    since it reads only some records: those entries stay.
    """
    known = () if done is None or done.short is UNSET else done.short
    ranges: dict[Place, list[OffsetRange]] = {}
    for read in plan.ranges:
        ranges.setdefault(read.place, []).append(read)
    found: dict[tuple[Place, str], Shortfall] = {}
    for one in sorted(summary.short, key=lambda one: one.offset):
        if one.kind == "cut" and not _is_in(one, ranges):
            continue  # read for its part of a message alone: the batch that it is of has met it
        place = (one.topic, one.incarnation, one.partition), one.kind
        first, n = found.get(place, one), found[place].n if place in found else 0
        found[place] = replace(first, n=n + one.n, batch=plan.batch)
    kept = [one for one in known if (plan.again and one.kind == "skipped") or not _is_in(one, ranges)]
    return (*kept, *found.values())


def _is_in(one: Shortfall, ranges: Mapping[Place, Iterable[OffsetRange]]) -> bool:
    own = ranges.get((one.topic, one.incarnation, one.partition), ())
    return any(read.first <= one.offset <= read.last for read in own)


def _backfills(done: Done | None) -> int:
    return done.backfills if done is not None and done.backfills is not UNSET else 0


def next_offsets(ranges: Iterable[OffsetRange], done: Done | None) -> tuple[NextOffset, ...]:
    """Where silver goes on once it has read these ranges."""
    following = {one.place: one.offset for one in (done.next if done else ())}
    for one in ranges:  # a requeued batch reads what is long done
        following[one.place] = max(following.get(one.place, 0), one.last + 1)
    return _offsets(following)


def _resume(plan: Planned, done: Done | None, summary: Summary) -> tuple[NextOffset, ...]:
    resume = {one.place: one.offset for one in (done.resume if done else ())}
    for one in plan.ranges:
        resume.pop(one.place, None)
    return _offsets({**resume, **summary.resume})


def _offsets(offsets: Mapping[Place, int]) -> tuple[NextOffset, ...]:
    return tuple(NextOffset(*place, offset) for place, offset in sorted(offsets.items()))


def _tables(done: Done | None, summary: Summary) -> tuple[TableSize, ...]:
    """What silver holds of every table after the batch."""
    tables = {one.name: one for one in (done.tables if done else ())}
    inserted = summary.inserted or {}
    for name, seen in summary.tables.items():
        keys, topics = seen["keys"] and tuple(seen["keys"]), tuple(sorted(seen["topics"]))
        new = TableSize(
            *(name, seen["low"], seen["high"], seen["n"]),
            bytes=seen["bytes"],
            keys=keys,
            topics=topics,
            rows=inserted.get(name, 0),
        )
        tables[name] = new if name not in tables else _grown(tables[name], new)
    return tuple(tables.values())


def _grown(old: TableSize, new: TableSize) -> TableSize:
    """What silver holds of a table with a batch's changes. What an older lakehouse has not said of its topics
    stays unknown.
    """
    return TableSize(
        old.name,
        min(old.low, new.low),
        max(old.high, new.high),
        old.n + new.n,
        bytes=old.bytes + new.bytes,
        keys=old.keys or new.keys,
        topics=UNSET
        if old.topics is UNSET or new.topics is UNSET
        else tuple(sorted({*old.topics, *new.topics})),
        rows=UNSET if old.rows is UNSET or new.rows is UNSET else old.rows + new.rows,
    )


def _highest_marks(done: Done | None, summary: Summary) -> tuple[Mark, ...]:
    marks = {(one.topic, one.partition): one.position for one in (done.marks if done else ())}
    for place, (position, _, _) in summary.marks.items():
        marks[place] = max(marks.get(place, position), position)
    return tuple(Mark(*place, position) for place, position in sorted(marks.items()))


def _dead_counts(done: Done | None, summary: Summary) -> tuple[DeadCount, ...]:
    counts = {one.name: one.n for one in (done.dead if done else ())}
    for name, number in summary.dead.items():
        counts[name] = counts.get(name, 0) + number
    return tuple(DeadCount(name, number) for name, number in counts.items())


def _higher(known: Position | None, position: Position | None) -> Position | None:
    return max((one for one in (known, position) if one), default=None)


def with_counts(log: OpsLog, done: Done | None) -> Done | None:
    """The last done record with the number of silver's rows of each table, counted where an older lakehouse
    has not, or a retention floor has replaced rows since.
    """
    if done is None or not (any(one.rows is UNSET for one in done.tables) or _has_new_floor(log)):
        return done
    changes = read_silver(log.spark, log.lake, log.source, "changes").where(F.col("batch") <= done.batch)
    found = count_by_table(changes)
    return replace(done, tables=tuple(replace(one, rows=found.get(one.name, 0)) for one in done.tables))


def _has_new_floor(log: OpsLog) -> bool:
    for one in reversed(log.records):
        if isinstance(one.record, Done):
            return False
        if isinstance(one.record, Floor):
            return True
    return False
