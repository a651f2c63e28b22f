"""Bronze: land bytes with their origin, decode nothing, lose nothing, append only.

A Kafka source lands in Structured Streaming, exactly once; a recording lands its messages that bronze does not have.
Every record has (topic, incarnation, partition, offset): the incarnation tells a topic that was created anew, whose
offsets start again, from the one before.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, _parse_datatype_string

from lakehouse.events import Message
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog

HEADERS = "array<struct<key:string,value:binary>>"
BRONZE_SCHEMA: StructType = _parse_datatype_string(  # type: ignore[assignment]
    f"topic string, incarnation string, partition int, offset bigint, timestamp bigint, timestamp_type int, key binary, value binary,"
    f" headers {HEADERS}, path string, size bigint, mtime bigint"
)
PLACE = ["topic", "incarnation", "partition", "offset"]
CHUNK = 20_000
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """A Kafka source: `subscribe` (comma-joined) or `pattern`, and `options` passed to Spark's source as they are."""

    bootstrap: str
    subscribe: str | None = None
    pattern: str | None = None
    starting: str = "earliest"
    options: dict[str, str] = field(default_factory=dict)
    max_records: int = 500_000


def land_messages(spark: SparkSession, lake: Lake, source: str, messages: Iterable[Message], progress: Progress) -> int:
    """Append the messages that bronze does not have yet; returns how many."""
    landed = 0
    stream = iter(messages)
    while chunk := list(islice(stream, CHUNK)):
        frame = spark.createDataFrame([_row(message) for message in chunk], BRONZE_SCHEMA)
        if lake.exists(spark, "bronze", source):
            offsets = [message.offset for message in chunk]
            known = lake.read(spark, "bronze", source).where(F.col("offset").between(min(offsets), max(offsets))).select(*PLACE)
            frame = frame.join(known, PLACE, "left_anti")
            new = frame.count()
        else:
            new = len(chunk)
        if new:
            lake.append(frame.coalesce(1), "bronze", source)
        landed += new
        progress(f"bronze  {source}: {landed} new messages")
    return landed


def _row(message: Message) -> tuple[Any, ...]:
    value = None if message.value is None else bytearray(message.value)
    key = None if message.key is None else bytearray(message.key)
    headers = [(name, None if data is None else bytearray(data)) for name, data in message.headers] or None
    return (message.topic, message.incarnation, message.partition, message.offset, message.timestamp, None, key, value, headers,
            message.path, None if message.value is None else len(message.value), None)  # fmt: skip


def kafka_frame(spark: SparkSession, source: KafkaInput, incarnations: dict[str, str]) -> DataFrame:
    """The Kafka stream in bronze's columns."""
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("startingOffsets", source.starting)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", source.max_records)
        .option("kafka.isolation.level", "read_committed")
    )
    for name, value in source.options.items():
        reader = reader.option(name, value)
    reader = reader.option("subscribe", source.subscribe) if source.subscribe else reader.option("subscribePattern", source.pattern)
    ids = F.create_map(*[F.lit(text) for pair in incarnations.items() for text in pair]) if incarnations else None
    incarnation = F.coalesce(ids[F.col("topic")], F.lit("")) if ids is not None else F.lit("")
    return reader.load().select(
        "topic", incarnation.alias("incarnation"), "partition", "offset", (F.unix_millis("timestamp")).alias("timestamp"),
        F.col("timestampType").alias("timestamp_type"), "key", "value", F.col("headers").cast(HEADERS).alias("headers"),
        F.lit(None).cast("string").alias("path"), F.length("value").cast("bigint").alias("size"), F.lit(None).cast("bigint").alias("mtime"),
    )  # fmt: skip


def land_kafka(
    spark: SparkSession, lake: Lake, name: str, source: KafkaInput, incarnations: dict[str, str], progress: Progress, *, once: bool = True
) -> Iterator[int]:
    """Run the stream; yields how many records have landed, once a second while it runs and at its end.

    `once` takes what the topic holds now, in bounded batches, and ends; otherwise the stream goes on until it is closed.
    """
    frame = kafka_frame(spark, source, incarnations)
    writer = frame.writeStream.format("delta").outputMode("append").option("checkpointLocation", lake.checkpoint(f"bronze_{name}"))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")
    query = writer.start(lake.path("bronze", name)) if lake.catalog is None else writer.toTable(lake.ref("bronze", name))
    landed, seen = 0, -1
    try:
        while True:
            ended = query.awaitTermination(1)
            for report in query.recentProgress:
                if report["batchId"] > seen:
                    seen = report["batchId"]
                    landed += report["numInputRows"]
                    if report["numInputRows"]:
                        progress(f"bronze  {name}: {landed} new messages")
            yield landed
            if ended:
                return
    finally:
        query.stop()


def offset_gaps(spark: SparkSession, lake: Lake, name: str, log: OpsLog) -> list[dict[str, Any]]:
    """Partitions whose landed offsets have holes that were not known: records that the broker had deleted before they were read."""
    rows = (
        lake.read_or_empty(spark, "bronze", name, BRONZE_SCHEMA)
        .groupBy("topic", "incarnation", "partition")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("n"))
        .where("last - first + 1 > n")
        .collect()
    )
    known = {(gap["topic"], gap["incarnation"], gap["partition"]): gap["missing"] for gap in log.all("gap")}
    found = []
    for row in rows:
        gap = {"topic": row.topic, "incarnation": row.incarnation, "partition": row.partition, "missing": row["last"] - row["first"] + 1 - row.n}
        if known.get((row.topic, row.incarnation, row.partition)) != gap["missing"]:
            log.add("gap", {**gap, "seen_at": int(time.time() * 1000)})
            found.append(gap)
    return found
