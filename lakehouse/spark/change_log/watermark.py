"""The watermark of a source: the smallest over its counting partitions; everything at or below it has
arrived.
"""

from collections.abc import Mapping
from itertools import chain, islice

from msgspec import UNSET
from pyspark.sql import Row
from pyspark.sql import functions as F

from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import History, Name
from lakehouse.ops.progress import NextOffset, Partition, Transactions, epoch_of_id, size_of
from lakehouse.ops.records.bronze import Partitions, Read
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Epoch, Retired
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.reporting.text.values import counted
from lakehouse.silver.partition_lives import (
    Counting,
    Listing,
    Retirement,
    counting,
    is_passed,
    lives_at_source,
    smallest,
    topic_ends,
    with_new_names,
    without_later_marks,
)
from lakehouse.sources.kafka_offsets import has_more, is_read, reading_of
from lakehouse.spark.bronze.epochs import is_void
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from lakehouse.spark.silver.tables import read_schema_changes


def partition_watermarks(done: Done) -> dict[Partition, Position]:
    """The highest watermark of each partition, over all its incarnations, as the done record keeps it."""
    return {(mark.topic, mark.partition): mark.position for mark in done.marks}


def counting_partitions(done: Done | None, log: OpsLog) -> list[Partition]:
    """The partitions that count (lakehouse/silver/partition_lives.py)."""
    return partition_lives(done, log).partitions


def partition_lives(done: Done | None, log: OpsLog) -> Counting:
    """The partitions that count, and which of them count again.

    Where the source has one watermark for all of it, that stands for them.
    """
    if done is not None and any(mark.partition == WHOLE_SOURCE for mark in done.marks):
        return Counting([("", WHOLE_SOURCE)], [])
    return counting(listing(log), done.next if done else (), retirements(log))


def listing(log: OpsLog) -> Listing:
    """What the broker has listed last."""
    listed, read = log.last(Partitions), log.last(Read)
    return Listing(frozenset(listed.listed) if listed else (), read.incarnations if read else {})


def retirements(log: OpsLog) -> list[Retirement]:
    """The partitions that operators have retired, oldest first. A record of an older lakehouse does not say
    how far silver had read: the log's records before it do.
    """
    found: list[Retirement] = []
    for place, one in enumerate(log.records):
        if one.kind != Retired.kind or not isinstance(record := one.record, Retired):
            continue
        for partition in record.partitions:
            known = _read_before(log, place, record, partition) if record.read is UNSET else record.read
            found.append(Retirement((record.topic, partition), _offsets(known, partition)))
    return found


def _read_before(log: OpsLog, place: int, retired: Retired, partition: int) -> tuple[NextOffset, ...]:
    earlier = [one for one in reversed(log.records[:place]) if one.kind in (Done.kind, Read.kind)]
    done = next((one.record for one in earlier if isinstance(one.record, Done)), None)
    listed = next((one.record for one in earlier if isinstance(one.record, Read)), None)
    return read_of(retired.topic, partition, done, listed)


def read_of(topic: str, partition: int, done: Done | None, listed: Read | None) -> tuple[NextOffset, ...]:
    """How far silver has read each incarnation of a partition, the one that is listed now among them."""
    met = [one for one in (done.next if done else ()) if (one.topic, one.partition) == (topic, partition)]
    newest = listed.incarnations.get(topic) if listed else None
    if newest is not None and all(one.incarnation != newest for one in met):
        met.append(NextOffset(topic, newest, partition, 0))
    return tuple(met)


def done_at(log: OpsLog, batch: int) -> Done | None:
    """The done record of a batch, or of the last one before it."""
    return next((one for one in log.newest_first(Done) if one.batch <= batch), None)


def came_back(log: OpsLog, done: Done, last: Manifest | None) -> list[Partition]:
    """The partitions that count again, and did not yet when gold published last."""
    before = done_at(log, last.batch) if last else None
    known = partition_lives(before, log).again if before else []
    return [one for one in partition_lives(done, log).again if one not in known]


def left_open(log: OpsLog, done: Done, watermark: Position, ends: Mapping[str, Position]) -> tuple[str, ...]:
    """The partitions that a watermark went on without, since they were retired or are more than the YAML says
    are written to, which count by now and are not past it, in words: they may have more to send from below
    it. `ends` as in `source_watermark`.
    """
    marks, told = partition_watermarks(done), set(listing(log).partitions)
    topics, lives = {topic for topic, _ in told}, partition_lives(done, log)
    more = {place for place in lives.partitions if place[0] in topics and place not in told}
    return tuple(
        f"{topic}/{number} was left out of the watermark, and counts now: more may come in it from below"
        for topic, number in sorted({*lives.again, *more})
        if topic not in ends and marks.get((topic, number), MIN_POSITION) < watermark
    )


def awaited_rows(done: Done) -> str | None:
    """The transaction of which rows are lacking that hold a Debezium feed's watermark, in words."""
    state = done.transactions
    if state is None or not state.ends:
        return None
    id_, count = state.ends[0]
    seen = size_of(state.open[id_].seen, count) if id_ in state.open else 0
    name = id_.removeprefix(f"{epoch_of_id(id_)}/")
    return f"transaction {name}, of whose {count} rows {seen} have come"


def stopped_watermark(log: OpsLog) -> list[str]:
    """That rows of a transaction hold the watermark of a feed in which nothing is on its way any more."""
    done = log.last(Done)
    rows = None if done is None else awaited_rows(done)
    return [] if rows is None else [f"the watermark is held by {rows}"]


def _offsets(read: tuple[NextOffset, ...], partition: int) -> dict[str, int]:
    return {one.incarnation: one.offset for one in read if one.partition == partition}


def source_watermark(
    done: Done, log: OpsLog, ends: Mapping[str, Position] | None = None
) -> tuple[Position, Partition | None]:
    """W, and the partition that holds it; `ends` are the topics without tables, else those of the last
    manifest.

    The watermarks of records that landed since the broker's partitions were listed do not count yet: rows
    below them may be in a partition that is new. Bronze lists the partitions again once a pass has landed;
    silver and gold may run beside that pass, or after one that has died. Nor does what batches say that have
    left records, where one watermark speaks of all of the source: it may have passed a statement, or the
    beginning of a snapshot, of a topic that was not read so far.
    """
    last, partitions = log.last(Manifest), counting_partitions(done, log)
    is_one = any(mark.partition == WHOLE_SOURCE for mark in done.marks)
    sure = (_leaving_nothing if is_one else _landed_before_listing)(done, log)
    marks = partition_watermarks(done if sure is None else sure)
    known = without_later_marks(published_ends(last), marks) if ends is None else ends
    position, holder = smallest(marks, partitions, known)
    if sure is None:
        position = min(position, MIN_POSITION if last is None else last.watermark)
    return position, holder


def snapshots_above(log: OpsLog) -> list[str]:
    """The tables of which silver has a snapshot that gold has not: what is published last is below it."""
    done, manifest = log.last(Done), log.last(Manifest)
    if done is None or done.snapshots is UNSET:
        return []
    published, epochs = manifest.watermark if manifest else MIN_POSITION, log.all(Epoch)
    above = (one for one in done.snapshots.whole if one.position > published)
    return sorted({f"{one.database}.{one.table}" for one in above if not is_void(one.position, epochs)})


def waiting_transaction(log: OpsLog) -> str | None:
    """The transaction at which a Debezium feed's watermark stands, in words: its END has come, rows of it
    have not, and nothing that has landed since is unread.
    """
    last = list(islice(log.newest_first(Done), 2))
    plans = [one for one in log.gists(Planned) if not one.again]
    if len(last) < 2 or not plans or not plans[-1].whole:
        return None
    now, before = (one.transactions or Transactions() for one in last)
    if not now.ends or now.ends[0] not in before.ends:
        return None
    id_, count = now.ends[0]
    seen = size_of(now.open[id_].seen, count) if id_ in now.open else 0
    name = id_.removeprefix(f"{epoch_of_id(id_)}/")
    lacks = f"{count - seen} of its {counted(count, 'row')} did not come"
    return f"the watermark stands at transaction {name}: {lacks}"


def _landed_before_listing(done: Done, log: OpsLog) -> Done | None:
    """The last batch up to `done` that has no record which landed since the broker's partitions were listed;
    None where every batch has one.
    """
    reading = reading_of(log.last(Read))
    if reading is None:
        return done
    counted = log.newest_first(Done, log.summary.seq)
    batches = chain((done,), (one for one in counted if one.batch < done.batch))
    return next((one for one in batches if not has_more(one.next, reading)), None)


def _leaving_nothing(done: Done, log: OpsLog) -> Done | None:
    """The last batch up to `done` that left no record unread of what had landed, or `done` where the passes
    that have ended since brought no other; None where every batch left some.
    """
    plans = [one for one in log.gists(Planned) if one.batch <= done.batch and not one.again]
    reading = reading_of(log.last(Read))
    if not plans or plans[-1].whole or (reading is not None and is_read(done.next, reading)):
        return done
    whole = max((one.batch for one in plans if one.whole), default=max(log.summary.whole, default=0))
    return next((one for one in log.newest_first(Done, log.summary.seq) if one.batch == whole), None)


def published_ends(manifest: Manifest | None) -> dict[str, Position]:
    """The topics without tables, and where they ended, as of a manifest."""
    ended = UNSET if manifest is None else manifest.ended
    return {} if ended is UNSET else {one.topic: one.position for one in ended}


def find_ends(log: OpsLog, done: Done, history: History, *, settled: bool) -> dict[str, Position]:
    """The topics that are at their end. The last statement of one counts once later batches have what came
    before it in other partitions, at once where nothing is on its way (`settled`) and all is read.
    """
    sent: dict[str, set[Name]] = {}
    for size in done.tables:
        if size.topics is UNSET:
            return {}  # an older lakehouse did not say in which topics they are
        for topic in size.topics:
            sent.setdefault(topic, set()).add(size.name)
    tables = with_new_names(sent, history.lineages)
    intervals = [interval for lineage in history.lineages for interval in lives_at_source(lineage)]
    marks = partition_watermarks(done)
    if not marks or not topic_ends(tables, intervals, marks):
        return {}
    statements = _statements(log, done)
    for row in statements:
        if row.ddl.lstrip()[:6].upper() == "CREATE" and row.topic in tables and row.table:
            tables[row.topic].add((row.database, row.table))
    ends = topic_ends(tables, intervals, marks)
    known = published_ends(log.last(Manifest))
    batches = {tuple(row.position): row.batch for row in statements}
    plans = [one for one in log.gists(Planned) if one.batch <= done.batch]
    whole = {*log.summary.whole, *(one.batch for one in plans if one.whole)}
    settled = settled and next((one.whole for one in reversed(plans) if not one.again), True)
    return {
        topic: end
        for topic, end in ends.items()
        if settled or known.get(topic) == end or is_passed(whole, batches.get(end), done.batch)
    }


def _statements(log: OpsLog, done: Done) -> list[Row]:
    rows = read_schema_changes(log.spark, log.lake, log.source)
    rows = rows.where((F.col("kind") == "ddl") & (F.col("batch") <= done.batch))
    return rows.select("origin.topic", "database", "table", "ddl", "position", "batch").collect()
