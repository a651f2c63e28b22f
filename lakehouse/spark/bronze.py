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

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.events import Message
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.type_text import columns

HEADERS = "array<struct<key:string,value:binary>>"
BRONZE_SCHEMA: StructType = columns(
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
    options: dict[str, str] = field(default_factory=dict, repr=False)  # resolved secrets are among them
    max_records: int = 500_000


def land_messages(spark: SparkSession, lake: Lake, source: str, messages: Iterable[Message], progress: Progress) -> int:
    """Append the messages that bronze does not have yet; returns how many."""
    landed = 0
    stream = iter(messages)
    while chunk := list(islice(stream, CHUNK)):
        chunk = _unknown(spark, lake, source, chunk)
        if chunk:
            rows = pa.Table.from_pylist([_row(message) for message in chunk], schema=to_arrow_schema(BRONZE_SCHEMA))
            lake.append(spark.createDataFrame(rows, BRONZE_SCHEMA).coalesce(1), "bronze", source)
        landed += len(chunk)
        progress(f"bronze  {source}: {landed} new messages")
    return landed


def _unknown(spark: SparkSession, lake: Lake, source: str, chunk: list[Message]) -> list[Message]:
    """The messages that bronze does not have, each once."""
    if not lake.exists(spark, "bronze", source):
        return list({(m.topic, m.incarnation, m.partition, m.offset): m for m in chunk}.values())
    offsets = [message.offset for message in chunk]
    frame = lake.read(spark, "bronze", source).where(F.col("offset").between(min(offsets), max(offsets)))
    table = frame.select(*PLACE).toArrow()
    known = set(zip(*[table[name].to_pylist() for name in PLACE], strict=True)) if table.num_rows else set()
    return list({place: m for m in chunk if (place := (m.topic, m.incarnation, m.partition, m.offset)) not in known}.values())


def _row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic, "incarnation": message.incarnation, "partition": message.partition, "offset": message.offset,
        "timestamp": message.timestamp, "key": message.key, "value": message.value, "path": message.path,
        "headers": [{"key": name, "value": data} for name, data in message.headers] or None,
        "size": None if message.value is None else len(message.value),
    }  # fmt: skip


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
        gap = {
            "topic": row.topic,
            "incarnation": row.incarnation,
            "partition": row.partition,
            "missing": row["last"] - row["first"] + 1 - row.n,
        }
        if known.get((row.topic, row.incarnation, row.partition)) != gap["missing"]:
            log.add("gap", {**gap, "seen_at": int(time.time() * 1000)})
            found.append(gap)
    return found
