"""Lands Kafka topics in bronze: Structured Streaming, exactly once, in bounded batches, safe to interrupt
anywhere.

A pass takes what the topics hold now and ends. The ops log keeps where each pass ended (`read`), what
retention took before it was read and which topics were created anew (`gap`). A topic that was created anew,
or a checkpoint that is gone, begins a checkpoint of its own where bronze itself ends, so nothing is landed
twice and nothing is left out.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import ConfigError, EnvironmentError_
from lakehouse.ops.progress import Partition
from lakehouse.ops.records.bronze import Partitions, Read, TopicCreatedAgain
from lakehouse.ops.records.record import Record
from lakehouse.reporting.text.values import pace
from lakehouse.sources.kafka_admin import Topic, list_topics, offsets_at
from lakehouse.sources.kafka_offsets import (
    Lost,
    Reading,
    Start,
    advanced,
    backlog,
    begun,
    come_back,
    counted_partitions,
    created_anew,
    deleted,
    first_offsets,
    has_another_id,
    joined,
    pattern_of,
    reading_of,
)
from lakehouse.spark.bronze.epochs import begin_epoch, bronze_ends
from lakehouse.spark.bronze.landed import appended_above, bronze_version, note_lost, now
from lakehouse.spark.bronze.offsets import CONDITIONS
from lakehouse.spark.bronze.table import HEADERS
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.session import many_rows

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# up to so many records a pass is a matter of planning, see `many_rows`
SMALL_BACKLOG = 20_000
# Milliseconds for which a broker keeps a fetch that finds nothing. Spark asks for a partition's offsets after
# each fetch, and the broker answers behind the fetch of what comes next: with Kafka's own 500 that was half a
# second for each partition.
FETCH_WAIT = 20
# A task lands about so many records, and reads about so many partitions: it has a consumer for each of them,
# which all stay open until it ends.
TASK_RECORDS = 1_000
TASK_PARTITIONS = 50
Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """A Kafka source: topic `names` or a `pattern`, and `options` passed to Spark's source as they are."""

    bootstrap: str
    names: list[str] | None = None
    pattern: str | None = None
    starting: Start = "earliest"
    options: dict[str, str] = field(default_factory=dict, repr=False)  # resolved secrets are among them
    max_records: int = 500_000
    partitions: int | None = None
    arrival: bool = False


def listed(kafka: KafkaInput, *, uncommitted: bool = False) -> list[Topic]:
    """The source's topics as the broker lists them now; with `uncommitted` their ends include open
    transactions, else they are where the stream reads up to.
    """
    options = {**kafka.options, "kafka.isolation.level": "read_uncommitted"} if uncommitted else kafka.options
    return list_topics(kafka.bootstrap, options, kafka.names, kafka.pattern)


def land_topics(context: RunContext, kafka: KafkaInput, stopped: Stopped, *, first: bool) -> int:
    """Land what the topics hold now; returns how many records are new. `first`: the checkpoint has not been
    looked at in this run.
    """
    log = context.log
    topics = _settled(kafka, reading_of(log.last(Read)))
    _missing(context.source, kafka, topics, context.progress if first else lambda _: None)
    reading = _reading(context, kafka, topics, first=first)
    landed, after, news = 0, topics, list[Record]()
    if waits := backlog(reading, topics):
        waiting = sum(waits.values())
        # silver and gold may run beside this pass: what a new partition holds back, it does from now on
        for listing in _listing(log, kafka, topics):
            log.add(listing)
        with many_rows(context.spark) if waiting > SMALL_BACKLOG else nullcontext():
            before = bronze_version(context)
            fitted = replace(kafka, max_records=batch_records(waiting, kafka.max_records))
            query = _stream(context, fitted, reading, topics, tasks=tasks_for(len(waits), waiting))
            landed, ends, batch, unlike = _pass(context, query, stopped, waiting)
            if unlike or appended_above(context, before) != landed:
                _note_unlanded(context, kafka, reading, ends)
        after = listed(kafka)
        for found in deleted(reading, after):
            place = found.place[0], found.place[2]
            ends[place] = max(found.end, ends.get(place, 0))
            note_lost(context, found)
        news.append(advanced(reading, ends, batch).record())
    # taken again after the end offsets were fixed: a partition that is new holds the watermark. What has
    # landed counts for that once the reading says so, which is recorded last
    for record in (*_listing(log, kafka, after), *news):
        log.add_along(record)
    return landed


def _listing(log: OpsLog, kafka: KafkaInput, topics: list[Topic]) -> list[Partitions]:
    """The record of the partitions that the broker lists, where they are not those of the last one."""
    partitions = counted_partitions(topics, kafka.partitions)
    known = log.last(Partitions)
    return [] if known is not None and known.listed == partitions else [Partitions(listed=partitions)]


def _missing(name: str, kafka: KafkaInput, topics: list[Topic], progress: Progress) -> None:
    there = {topic.name for topic in topics}
    if not there:
        wanted = ", ".join(kafka.names or []) or kafka.pattern
        raise ConfigError(
            f"{name}: expected topics {wanted} at {kafka.bootstrap}, found none; check kafka.topics"
        )
    for absent in sorted(set(kafka.names or []) - there):
        progress(
            f"warning: {name}: {kafka.bootstrap} has no topic {absent}; it is read as soon as it is there"
        )


def _settled(kafka: KafkaInput, reading: Reading | None) -> list[Topic]:
    """The topics; a log that seems to end too early is looked at again, for a new leader may be a moment
    behind, or what was read of it lies in a transaction that is open.
    """
    topics = listed(kafka)
    for _ in range(3):
        if reading is None or not any(
            not has_another_id(reading, topic)
            for topic in topics
            if topic.name in created_anew(reading, topics)
        ):
            break
        time.sleep(1)
        topics = listed(kafka, uncommitted=True)
    return topics


def _reading(context: RunContext, kafka: KafkaInput, topics: list[Topic], *, first: bool) -> Reading:
    """The reading to go on with, recorded before anything is read with it."""
    log, wanted = context.log, pattern_of(kafka.names, kafka.pattern)
    known = reading_of(log.last(Read))
    anew = created_anew(known, topics)
    if (
        known is not None
        and not anew
        and not come_back(known, topics)
        and (not first or _is_whole(context.spark, _checkpoint(context, known), known.batch))
    ):
        reading = joined(known, topics, wanted)
        if (reading.ids, reading.topics, wanted) == (known.ids, known.topics, known.wanted):
            return reading
    else:
        start = _first(kafka, topics) if known is None or not known.ids else {}
        # the new checkpoint may begin behind what a run that died has landed and not looked at
        for found in deleted(known, topics) if known is not None else ():
            note_lost(context, found)
        ends = bronze_ends(context.spark, context.lake, context.source)
        reading = begun(known, topics, ends, start, wanted=wanted)
        for topic in anew:
            _note_anew(context, topic, known, reading)
        if anew and kafka.arrival:  # offsets are the order of such a feed, and they have begun again
            begin_epoch(log, ends, f"created anew: {', '.join(anew)}", goes_on=True)
    # in one commit with the partitions: a new checkpoint goes on behind what a run that died has landed
    log.add_all([*_listing(log, kafka, topics), reading.record()])
    return reading


def _note_anew(context: RunContext, topic: str, known: Reading | None, reading: Reading) -> None:
    assert known is not None
    ends = {
        str(number): offset for (name, number), offset in sorted(known.following.items()) if name == topic
    }
    was, by = known.incarnations[topic], reading.incarnations[topic]
    context.log.add(TopicCreatedAgain(topic=topic, incarnation=was, by=by, read=ends, seen_at=now()))
    context.progress(
        f"warning: {topic}: the topic was created anew: everything in it is landed; what its former life "
        "held unread is gone"
    )


def _first(kafka: KafkaInput, topics: list[Topic]) -> dict[Partition, int]:
    if isinstance(kafka.starting, str) and kafka.starting.startswith("timestamp:"):
        return offsets_at(kafka.bootstrap, kafka.options, topics, kafka.starting.removeprefix("timestamp:"))
    return first_offsets(kafka.starting, topics)


def _checkpoint(context: RunContext, reading: Reading) -> str:
    return context.lake.checkpoint(f"bronze_{context.source}_{reading.stream}")


def _is_whole(spark: SparkSession, checkpoint: str, batch: int) -> bool:
    """Whether a checkpoint knows itself and its last batch. One that has lost batches would number the next
    ones as those, and Delta would skip what has a number that it has seen.
    """
    if not _files(spark, f"{checkpoint}/metadata"):
        return False
    return all(
        max(map(int, filter(str.isdecimal, _files(spark, f"{checkpoint}/{log}"))), default=-1) >= batch
        for log in ("offsets", "commits")
    )


def _files(spark: SparkSession, path: str) -> list[str]:
    """The names of the files at or in a path; none where it does not exist."""
    try:
        return [file.rpartition("/")[2] for file in spark.read.text(path).inputFiles()]
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []


def _frame(spark: SparkSession, kafka: KafkaInput, reading: Reading, topics: list[Topic]) -> DataFrame:
    """The stream in bronze's columns, of exactly the topics that are known, so that each has its
    incarnation.
    """
    start: dict[str, dict[str, int]] = {}
    for topic in topics:
        start[topic.name] = {str(number): reading.following[topic.name, number] for number in topic.offsets}
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("startingOffsets", json.dumps(start))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", kafka.max_records)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT)
    )
    for name, value in kafka.options.items():
        reader = reader.option(name, value)
    ids = F.create_map(
        *[F.lit(text) for topic in topics for text in (topic.name, reading.incarnations[topic.name])]
    )
    return (
        reader.option("subscribe", ",".join(start))
        .load()
        .select(
            "topic",
            ids[F.col("topic")].alias("incarnation"),
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp"),
            F.col("timestampType").alias("timestamp_type"),
            "key",
            "value",
            F.col("headers").cast(HEADERS).alias("headers"),
            F.lit(None).cast("string").alias("path"),
            F.length("value").cast("bigint").alias("size"),
            F.lit(None).cast("bigint").alias("mtime"),
        )
    )


def batch_records(waiting: int, most: int) -> int:
    """How many records a batch lands of so many: `most`, or up to half as many again where that spares a
    batch. A batch costs about a CPU second, however few records are left for it.
    """
    return max(most, math.ceil(waiting / max(1, round(waiting / most))))


def tasks_for(partitions: int, records: int) -> int:
    """How many tasks land so many records of so many partitions. One for each partition, as Spark has it,
    leaves a file for each of them in every pass, mostly of a record or two. Where they are few, silver skips
    files by their places: a file of several partitions it would have to read again and again.
    """
    if partitions <= CONDITIONS:
        return partitions
    return min(partitions, max(math.ceil(records / TASK_RECORDS), math.ceil(partitions / TASK_PARTITIONS)))


def _stream(
    context: RunContext, kafka: KafkaInput, reading: Reading, topics: list[Topic], *, tasks: int
) -> "StreamingQuery":
    """The stream into bronze, started over what is there."""
    lake, name = context.lake, context.source
    lake.before_write()
    frame = _frame(context.spark, kafka, reading, topics).coalesce(tasks)
    writer = frame.writeStream.format("delta").outputMode("append")
    writer = writer.option("checkpointLocation", _checkpoint(context, reading)).trigger(availableNow=True)
    if lake.catalog is None:
        return writer.start(lake.path("bronze", name))
    return writer.toTable(lake.ref("bronze", name))


def _pass(
    context: RunContext, query: "StreamingQuery", stopped: Stopped, waiting: int
) -> tuple[int, dict[Partition, int], int, bool]:
    """Wait for the stream's end; returns how many records it read, the offsets at which it ended, the number
    of its last batch that read any, and whether one went on by offsets and read none. At most `waiting`
    records are to be read.
    """
    landed, seen, batch, ends, begun = 0, -1, -1, dict[Partition, int](), time.monotonic()
    unlike = False
    try:
        ended = False
        while not ended and not stopped():
            ended = bool(query.awaitTermination(1))
            for report in query.recentProgress:
                if report["batchId"] > seen:
                    told = json.loads(report.json)
                    # a report over Connect has the numbers of its sources, and no sum of them
                    new = sum(source["numInputRows"] for source in told["sources"])
                    seen, landed = report["batchId"], landed + new
                    ends |= _ends(told)
                    unlike = unlike or (not new and _goes_on(told))
                    if new:
                        batch = report["batchId"]
                        rate = pace(landed, time.monotonic() - begun, waiting - landed)
                        context.progress(f"bronze  {context.source}: {landed} new messages{rate}")
    except StreamingQueryException as error:
        raise EnvironmentError_(
            f"{context.source}: expected the stream into bronze to go on, got: {_reason(error)}; run again "
            "to go on"
        ) from error
    finally:
        query.stop()
    return landed, ends, batch, unlike


def _goes_on(report: Mapping[str, Any]) -> bool:
    """Whether a batch ended at other offsets than it began at."""
    return any(source["startOffset"] != source["endOffset"] for source in report["sources"])


def _ends(report: Mapping[str, Any]) -> dict[Partition, int]:
    """Where a batch ended, by partition; over Connect a report has offsets as JSON text."""
    told = [source["endOffset"] for source in report["sources"]]
    found = [json.loads(end) if isinstance(end, str) else end for end in told if end]
    return {
        (topic, int(number)): offset
        for end in found
        for topic, numbers in end.items()
        for number, offset in numbers.items()
    }


def _reason(error: StreamingQueryException) -> str:
    return (
        str(error)
        .partition("terminated with exception: ")[2]
        .partition("\n")[0]
        .partition(" SQLSTATE")[0][:200]
        or type(error).__name__
    )


def _note_unlanded(
    context: RunContext, kafka: KafkaInput, reading: Reading, ends: Mapping[Partition, int]
) -> None:
    """Hold what a pass has read against what bronze has of it, and say of each partition what the broker has
    and bronze has not.
    """
    for place, start in reading.following.items():
        end = ends.get(place, start)
        if place[0] in reading.topics and end > start:
            read = Lost((place[0], reading.incarnations[place[0]], place[1]), start, end)
            note_lost(context, read, _broker_rows(context.spark, kafka, read))


def _broker_rows(spark: SparkSession, kafka: KafkaInput, read: Lost) -> int:
    """How many records the broker has in a range: markers and what was compacted are none."""
    topic, _, number = read.place
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "false")
    for name, value in kafka.options.items():
        reader = reader.option(name, value)
    for name, offset in {"startingOffsets": read.first, "endingOffsets": read.end}.items():
        reader = reader.option(name, json.dumps({topic: {str(number): offset}}))
    return reader.option("assign", json.dumps({topic: [number]})).load().count()
