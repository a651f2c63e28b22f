"""Bronze records as messages: for inspecting them, or for writing them to a recording, a topic or a sink's
folder.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.discovery.inspect import events_json
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Event, Message
from lakehouse.formats import FORMATS, decode_message
from lakehouse.formats.assemble import BatchContext, Unjoined, assembled
from lakehouse.sources.recording import write_recording
from lakehouse.spark.bronze.claim_checks import has_attachments, with_attachments
from lakehouse.spark.bronze.epochs import Epochs, epoch_of, epochs_of
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import opened
from lakehouse.spark.silver.columns import INPUT
from lakehouse.spark.silver.context import batch_context

# Parts of one message lie side by side: this many records around the wanted ones hold the others.
_AROUND = 500
_ORDER = ["topic", "incarnation", "partition", "offset"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which records: what is None is not asked about; offsets are inclusive."""

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    incarnation: str | None = None

    def has(self, offset: int) -> bool:
        """Whether an offset is one of them."""
        return self.first is None or (self.first <= offset and (self.last is None or offset <= self.last))

    def __str__(self) -> str:
        words = [f"{self.topic or '*'}/{'*' if self.partition is None else self.partition}"]
        if self.first is not None:
            words.append(
                f"@{self.first}"
                if self.first == self.last
                else f"@{self.first}-{'' if self.last is None else self.last}"
            )
        return "".join(words)


def chosen_records(
    topic: str | None, partition: int | None, offset: str | None, incarnation: str | None = None
) -> Chosen:
    """`offset` is one, such as 7, or a range, such as 7-20 or 7-."""
    if offset is None:
        return Chosen(topic, partition, incarnation=incarnation)
    first, dash, last = offset.partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        raise ConfigError(f"--offset {offset}: expected an offset such as 7, or a range such as 7-20")
    return Chosen(
        topic,
        partition,
        int(first),
        int(last) if last else None if dash else int(first),
        incarnation=incarnation,
    )


def inspect_bronze(
    root: str, source: str, chosen: Chosen, *, dumps: bool = False
) -> Iterator[dict[str, Any]]:
    """The events of bronze records, as `inspect --json` has them; with `dumps` dead letters have the
    beginnings of their bytes. LakehouseError where there is no such record.
    """
    log, settings = opened(root, source)
    spark, lake = log.spark, log.lake
    format, options = settings.format, settings.options
    if not records(spark, lake, source, chosen).limit(1).count():
        raise LakehouseError(
            f"{source}: expected bronze to have {chosen}, found no such record; {extent(spark, lake, source)}"
        )
    joins = FORMATS[format].parts is not None
    bronze = records(spark, lake, source, _widened(chosen) if joins else chosen)
    if has_attachments(format, options):
        bronze = with_attachments(log, format, options, bronze)
    needed = BatchContext(final=True) if joins else batch_context(log, format, options, [])
    found = _events(stream(bronze, epochs_of(log)), format, options, needed)
    wanted = (one for one in found if chosen.has(one[0].offset))
    yield from events_json(wanted, dumps=dumps)


def _events(
    messages: Iterator[Message], format: str, options: Mapping[str, str], needed: BatchContext
) -> Iterator[tuple[Message, Event]]:
    for item in assembled(messages, format, options, needed):
        if isinstance(item, Message):
            yield from ((item, event) for event in decode_message(format, item, options))
        elif isinstance(item, Unjoined) and item.letter is not None:
            yield item.message, item.letter


def _widened(chosen: Chosen) -> Chosen:
    first = None if chosen.first is None else max(0, chosen.first - _AROUND)
    return Chosen(
        chosen.topic,
        chosen.partition,
        first,
        None if chosen.last is None else chosen.last + _AROUND,
        incarnation=chosen.incarnation,
    )


def extent(spark: SparkSession, lake: Lake, source: str) -> str:
    """What bronze has, for whoever asked for something else."""
    grouped = lake.read(spark, "bronze", source).groupBy("topic", "partition")
    rows = (
        grouped.agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
        .orderBy("topic", "partition")
        .limit(20)
        .collect()
    )
    return "it has " + (
        ", ".join(f"{row.topic}/{row.partition}@{row['first']}-{row['last']}" for row in rows) or "nothing"
    )


def records(spark: SparkSession, lake: Lake, source: str, chosen: Chosen) -> DataFrame:
    """The chosen records, in no order."""
    frame = lake.read(spark, "bronze", source)
    for column, value in (
        ("topic", chosen.topic),
        ("partition", chosen.partition),
        ("incarnation", chosen.incarnation),
    ):
        if value is not None:
            frame = frame.where(F.col(column) == value)
    if chosen.first is not None:
        frame = frame.where(F.col("offset") >= chosen.first)
    return frame if chosen.last is None else frame.where(F.col("offset") <= chosen.last)


def stream(bronze: DataFrame, epochs: Epochs) -> Iterator[Message]:
    """Records as messages in the order of topic, incarnation, partition and offset; a part of them in memory
    at a time.
    """
    for row in bronze.select(*INPUT).orderBy(*_ORDER).toLocalIterator():
        yield _message(row, epochs)


def _message(row: Row, epochs: Epochs) -> Message:
    headers = tuple(
        (header.key, None if header.value is None else bytes(header.value)) for header in row.headers or ()
    )
    epoch = epoch_of(epochs, (row.topic, row.incarnation, row.partition), row.offset) if epochs else 0
    key, value = (None if data is None else bytes(data) for data in (row.key, row.value))
    return Message(
        row.topic,
        row.partition,
        row.offset,
        key=key,
        value=value,
        headers=headers,
        timestamp=row.timestamp,
        incarnation=row.incarnation,
        epoch=epoch,
        path=row.path,
    )


# Replay


def replay(
    root: str,
    source: str,
    chosen: Chosen,
    to: Path | None,
    servers: str | None,
    to_topic: str | None,
    options: Mapping[str, str],
) -> dict[str, Any]:
    """Give records of bronze back, bytes and order unchanged: as a recording, into a topic, or as the files
    of a storage sink.

    Nothing in the lake changes. A recording that is tried or run anew, in another lake, gives the same
    tables.
    """
    log, _ = opened(root, source)
    spark, lake = log.spark, log.lake
    bronze = records(spark, lake, source, chosen)
    _one_incarnation(bronze, source)
    found = stream(bronze, {})
    first = next(found, None)
    if first is None:
        raise LakehouseError(
            f"{source}: expected bronze to have {chosen}, found no such record; {extent(spark, lake, source)}"
        )
    messages = chain([first], found)
    if first.path is not None:
        if to is None:
            raise ConfigError(f"{source}: its bronze holds files of a storage sink; expected --to FOLDER")
        return {"source": source, "files": write_files(messages, to), "to": str(to)}
    if to is not None:
        return {"source": source, "messages": write_recording(messages, to), "to": str(to)}
    return _to_topic(messages, source, servers or "", to_topic, options=options)


def _one_incarnation(bronze: DataFrame, source: str) -> None:
    """Offsets of a topic that was created anew begin again: two of its lives can't stand in one recording."""
    rows = bronze.select("topic", "incarnation").distinct().orderBy("topic", "incarnation").collect()
    for topic in {row.topic for row in rows}:
        lives = [row.incarnation for row in rows if row.topic == topic]
        if len(lives) > 1 and topic == SNAPSHOT_TOPIC:
            raise LakehouseError(
                f"{source}: its bronze holds {len(lives)} snapshots of tables, which do not stand in "
                "one recording; replay the feed's topics one by one, --topic NAME, and read the tables again"
            )
        if len(lives) > 1:
            raise LakehouseError(
                f"{source}: {topic} was created {len(lives)} times; expected --incarnation, one of "
                f"{', '.join(lives)}"
            )


def _to_topic(
    messages: Iterator[Message], source: str, servers: str, topic: str | None, options: Mapping[str, str]
) -> dict[str, Any]:
    from lakehouse.sources.kafka_produce import produce

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.jsonl"
        write_recording(messages, path)
        return {"source": source, **produce(path, servers, topic, options=options)}


def write_files(messages: Iterator[Message], folder: Path) -> int:
    """The files of a storage sink below `folder`, each as it landed last, with its time. Returns how many."""
    written = set()
    for message in messages:
        path = folder / (message.path or "")
        if not path.resolve().is_relative_to(folder.resolve()):
            raise LakehouseError(
                f"{message.path}: expected a path below the sink's root, got one that leads out of it"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(message.value or b"")
        if message.timestamp is not None:
            os.utime(path, (message.timestamp / 1000, message.timestamp / 1000))
        written.add(path)
    return len(written)
