"""Decodes the records of dead letters again, as silver batches of their own; failures become dead letters
again.

An operator asks for it, and silver by itself where what was wrong is known to be mended: a storage sink's
data file came before its schema file, which is there now. The batch that is done closes the letters, so that
a crash before it leaves them open.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F

from lakehouse.events import SNAPSHOT_TOPIC, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import end_of_parts
from lakehouse.formats.ticdc.storage_layout import DataFile, classify
from lakehouse.ops.progress import OffsetRange
from lakehouse.ops.records.kinds import to_json
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark.bronze.offsets import within
from lakehouse.spark.change_log.dead_letters import closing, is_open
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.silver.columns import INPUT
from lakehouse.spark.silver.context import batch_context, files_of
from lakehouse.spark.silver.decode import messages
from lakehouse.spark.silver.run import is_small, run_batch
from lakehouse.spark.silver.tables import SilverSettings, next_txn, read_silver, refuse_other_reading

# so many ranges of offsets are decoded in one batch: its plan is a record of the ops log, and has them all
RANGES = 5_000
# a message's parts are looked for in so many records behind its first one
PARTS = 100
Json = dict[str, Any]


def decode_again(
    log: OpsLog, feed: SilverSettings, ranges: list[OffsetRange], code: str | None
) -> Counter[str]:
    """The counts of decoding these ranges, which are all that letters of `code` (None: of any) came from. No
    batch may be under way.
    """
    last, done = log.last(Planned), log.last(Done)
    counts: Counter[str] = Counter()
    if last is None or done is None:
        return counts
    refuse_other_reading(log, feed.read_as)
    ranges = [with_parts(log, feed, one, done) for one in ranges]
    parts = [ranges[start : start + RANGES] for start in range(0, len(ranges), RANGES)]
    for number, part in enumerate(parts, 1):
        plan = Planned(
            batch=done.batch + number,
            generation=last.generation,
            small=is_small(log, feed, tuple(part)),
            txn=next_txn(log),
            ranges=tuple(part),
            again=True,
            read_as=feed.read_as,
            requeue=closing(code, done.batch, 0) if number == len(parts) and not counts["below"] else None,
            files=files_of(feed.format, feed.name, done.next),
        )
        log.add(plan)
        counts.update(to_json(run_batch(log, feed, plan)))
    return counts


def with_parts(log: OpsLog, feed: SilverSettings, one: OffsetRange, done: Done) -> OffsetRange:
    """The range with all parts of its messages that were read: a letter names the first one."""
    if FORMATS[feed.format].parts is None or one.topic == SNAPSHOT_TOPIC:
        return one
    read = next((each.offset - 1 for each in done.next if each.place == one.place), one.last)
    near = msgspec.structs.replace(one, last=max(one.last, min(one.last + PARTS, read)))
    records = within(log.lake.read(log.spark, "bronze", log.source), [near]).select(*INPUT)
    found = messages_in(records.toArrow().sort_by("offset"))
    return msgspec.structs.replace(one, last=end_of_parts(found, feed.format, one.last))


def messages_in(records: pa.Table) -> Iterator[Message]:
    """Records of bronze as messages; their epoch is not told."""
    return (message for batch in records.to_batches() for message in messages(batch, ()))


def ranges_of(origins: Iterable[Json]) -> list[OffsetRange]:
    """The records of origins, neighbours as one range."""
    ranges: list[OffsetRange] = []
    for topic, incarnation, partition, offset in sorted(
        {(o["topic"], o.get("incarnation", ""), o["partition"], o["offset"]) for o in origins}
    ):
        offsets = OffsetRange(topic, incarnation, partition, first=offset, last=offset)
        if ranges and ranges[-1].place == offsets.place and ranges[-1].last == offset - 1:
            ranges[-1] = msgspec.structs.replace(ranges[-1], last=offset)
        else:
            ranges.append(offsets)
    return ranges


def decode_late_files(context: RunContext, feed: SilverSettings) -> None:
    """Decode a storage sink's data files again that had no schema file, once one of them has it. To be called
    with all batches done.
    """
    log = context.log
    done = log.last(Done)
    if not FORMATS[feed.format].reads_files or done is None or not done.dead:
        return
    letters = read_silver(log.spark, log.lake, feed.name, "dead_letters").where(
        is_open(log) & (F.col("code") == "schema")
    )
    origins = [row.origin.asDict() for row in letters.select("origin").collect()]
    waiting = {
        file[1:5]
        for origin in origins
        if isinstance(file := classify(origin["path"] or "", feed.options), DataFile)
    }
    files = files_of(feed.format, feed.name, done.next)
    schemas = batch_context(log, feed.format, feed.options, [], files=files).schemas if waiting else None
    if schemas is not None and not waiting.isdisjoint(schemas.known):
        counts = decode_again(log, feed, ranges_of(origins), "schema")
        context.progress(
            f"silver  {feed.name}: schema files have come: {len(origins)} records decoded again, "
            f"{counts['inserted']} changes"
        )
