"""Lands recordings in bronze: bytes with their origin, append only, nothing decoded.

A recording lands the messages that bronze does not have. Every record has (topic, incarnation, partition,
offset): the incarnation tells a topic that was created anew, whose offsets start again, from the one before.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.ops.progress import Place
from lakehouse.ops.records.bronze import Backfill, Partitions, Read
from lakehouse.ops.records.record import Record as OpsRecord
from lakehouse.silver.backfill import Record, is_half_told, landed_below
from lakehouse.sources.kafka_offsets import Reading, reading_of
from lakehouse.spark.bronze.epochs import bronze_ends
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.commit_files import newest_commits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.run_context import RunContext

PLACE = ["topic", "incarnation", "partition", "offset"]
# a commit has at most so many messages, and no more once they have so many bytes: the driver holds them
CHUNK = 20_000
CHUNK_BYTES = 32 * 1024 * 1024


def land_recordings(
    context: RunContext,
    recordings: Sequence[Callable[[], Iterable[Message]]],
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Land the messages of recordings, which are read from their starts, that bronze does not have yet;
    returns how many.
    """
    several = is_several(recordings)
    ended = begin_pass(context, recordings) if several or context.log.last(Read) is not None else None
    landed = sum(land_messages(context, read()) for read in recordings if not stopped())
    if ended is not None and ended != reading_of(context.log.last(Read)) and not stopped():
        context.log.add_along(ended.record())
    return landed


def is_several(recordings: Sequence[Callable[[], Iterable[Message]]]) -> bool:
    """Whether recordings are landed in several commits."""
    commits = islice((chunk for read in recordings for chunk in chunks(read())), 2)
    return sum(1 for _ in commits) > 1


def begin_pass(context: RunContext, recordings: Sequence[Callable[[], Iterable[Message]]]) -> Reading:
    """Record the partitions of recordings that are landed in several commits, and where bronze stands before
    the first of them: while some are missing, which a run that dies leaves out, no watermark passes their
    partitions, nor, where one speaks of all of the source, what has landed. Returns where bronze stands after
    the last one.
    """
    found: dict[Place, int] = {}
    for read in recordings:
        for message in read():
            place = (message.topic, message.incarnation, message.partition)
            found[place] = max(found.get(place, 0), message.offset + 1)
    log, news = context.log, list[OpsRecord]()
    known, before = log.last(Partitions), reading_of(log.last(Read))
    there = {(topic, partition) for topic, _, partition in found}
    listed = tuple(sorted(there.union(known.listed if known is not None else ())))
    if known is None or known.listed != listed:
        news.append(Partitions(listed=listed))
    if before is None:
        ends = bronze_ends(context.spark, context.lake, context.source)
        before = read_up_to(Reading(), {place: ends.get(place, 0) for place in found})
        news.append(before.record())
    if news:
        log.add_all(news)
    return read_up_to(before, found)


def read_up_to(reading: Reading, ends: Mapping[Place, int]) -> Reading:
    """The reading with other partitions, or behind more records of those that it has: of a topic's newest
    incarnation. It has no id, as a topic of a broker has.
    """
    incarnations, following, ids = dict(reading.incarnations), dict(reading.following), dict(reading.ids)
    for (topic, incarnation, partition), end in sorted(ends.items()):
        if incarnations.setdefault(topic, incarnation) != incarnation:
            incarnations[topic] = incarnation
            ids.pop(topic, None)
            following = {place: end for place, end in following.items() if place[0] != topic}
        following[topic, partition] = max(following.get((topic, partition), 0), end)
    topics = tuple(sorted({*reading.topics, *incarnations}))
    return replace(reading, topics=topics, ids=ids, incarnations=incarnations, following=following)


def chunks(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages of each commit."""
    chunk, size = list[Message](), 0
    for message in messages:
        chunk.append(message)
        size += len(message.key or b"") + len(message.value or b"")
        if len(chunk) >= CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def land_messages(context: RunContext, messages: Iterable[Message]) -> int:
    """Append the messages that bronze does not have yet; returns how many."""
    spark, lake, source = context.spark, context.lake, context.source
    told = context.log.all(Backfill)
    if is_half_told([one.ranges for one in told]):  # what it tells of has landed, or lands now and is told
        context.log.add(told[-1])
    landed, ends = 0, dict[Place, int]()
    for told_at_once in chunks(messages):
        chunk = _unknown(spark, lake, source, told_at_once)
        if chunk:
            ends = ends or bronze_ends(spark, lake, source)
            append_messages(context, chunk, ends)
        landed += len(chunk)
        context.progress(f"bronze  {source}: {landed} new messages")
    return landed


def append_messages(context: RunContext, chunk: list[Message], ends: dict[Place, int]) -> None:
    """Append new messages to bronze, and move `ends` on. Silver has to be told of those that lie below:
    before, for the run may die, and after, for silver may have looked in between.
    """
    places = [(m.topic, m.incarnation, m.partition, m.offset) for m in chunk]
    below = landed_below(places, ends)
    if below:
        context.log.add(Backfill(ranges=below))
    append_whole(context, [_row(message) for message in chunk])
    if below:
        context.log.add(Backfill(ranges=below))
    for topic, incarnation, partition, offset in places:
        place = (topic, incarnation, partition)
        ends[place] = max(ends.get(place, 0), offset + 1)


def append_whole(context: RunContext, rows: list[dict[str, Any]]) -> None:
    """Append to bronze. LakehouseError where nothing is there then: a stream of topics that lands beside an
    import takes no turns, and on a machine's own file system one of two that commit at once replaces what the
    other has written (lakehouse/ops/file_lock.py).
    """
    folder, mark = context.lake.folder(context.spark, "bronze", context.source), uuid.uuid4().hex
    before = -1 if folder is None else next((one.version for one in newest_commits(folder)), -1)
    context.lake.append_rows(context.spark, "bronze", context.source, rows, schema=BRONZE_SCHEMA, mark=mark)
    if folder is None:
        return
    new = takewhile(lambda one: one.version > before, newest_commits(folder))
    if all(one.info.get("userMetadata") != mark for one in new):
        raise LakehouseError(
            f"{context.source}: another process has written over a commit of bronze, whose records are lost: "
            "run the command again"
        )


def _unknown(spark: SparkSession, lake: Lake, source: str, chunk: list[Message]) -> list[Message]:
    """The messages that bronze does not have, each once. LakehouseError where it has one of another size in
    the place of one of them: two recordings that are not of the same topic.
    """
    known = _sizes(lake.read(spark, "bronze", source), chunk) if lake.exists(spark, "bronze", source) else {}
    new: dict[Record, Message] = {}
    for m in chunk:
        place = (m.topic, m.incarnation, m.partition, m.offset)
        size = None if m.value is None else len(m.value)
        if place not in known:
            known[place], new[place] = size, m
        elif known[place] not in (size, None):
            raise LakehouseError(
                f"{source}: {m.topic}/{m.partition}: expected the message that was read at offset {m.offset} "
                "before, got another one: a recording of another topic, or of one that was created anew, "
                "takes another `topic`, or a source of its own"
            )
    return list(new.values())


def _sizes(bronze: DataFrame, chunk: list[Message]) -> dict[Record, int | None]:
    """The sizes of the values that bronze has near these messages: to read the values themselves would cost
    as much as to land them. None: there is no value, or an older lakehouse did not say.
    """
    offsets = [message.offset for message in chunk]
    near = bronze.where(F.col("offset").between(min(offsets), max(offsets)))
    rows = near.select(*PLACE, "size").toArrow()
    topics, lives, partitions, numbers, sizes = (column.to_pylist() for column in rows.columns)
    return dict(zip(zip(topics, lives, partitions, numbers, strict=True), sizes, strict=True))


def _row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "incarnation": message.incarnation,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": message.key,
        "value": message.value,
        "path": message.path,
        "headers": [{"key": name, "value": data} for name, data in message.headers] or None,
        "size": None if message.value is None else len(message.value),
    }
