"""What silver reads of the lake beside a batch's own records: schema files of a storage sink, claim-check
payloads.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.formats.assemble import ATTACHMENT, Beside
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, has_commit_ts, join_schemas
from lakehouse.spark.bronze.recordings import BRONZE_SCHEMA, HEADERS
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver.decode import JOINS_RECORDS

PLACE = ["topic", "incarnation", "partition", "offset"]
NAMES = "topic string, incarnation string, partition int, offset bigint, name string"
_LARGE = ("ticdc-open", "ticdc-canal-json")


def beside(
    spark: SparkSession,
    lake: Lake,
    source: str,
    format: str,
    options: Mapping[str, str],
    ranges: list[dict[str, Any]],
) -> Beside:
    """What the records of these ranges need."""
    if format in JOINS_RECORDS:
        return Beside(
            {(entry["topic"], entry["incarnation"], entry["partition"]): entry["first"] for entry in ranges}
        )
    if format != "ticdc-storage":
        return Beside()
    bronze = lake.read(spark, "bronze", source)
    found = (
        bronze.where(F.regexp_like("path", F.lit(r"(^|/)schema(_[0-9]+_[0-9]+)?\.json$")))
        .select("path", "offset", "value")
        .toArrow()
    )
    newest = {
        row["path"]: row["value"] or b"" for row in sorted(found.to_pylist(), key=lambda row: row["offset"])
    }
    files = ((classify(path, options), value) for path, value in newest.items())
    schemas = join_schemas((file, value) for file, value in files if isinstance(file, SchemaFile))
    return Beside(
        schemas=schemas, dispatchers={} if has_commit_ts(options) else _dispatchers(bronze, options)
    )


def _dispatchers(bronze: DataFrame, options: Mapping[str, str]) -> dict[int, int]:
    """How many dispatchers had written into a file's folder when it landed, by the file's number, where they
    were several.
    """
    writers: dict[str, set[str | None]] = {}
    several = {}
    for row in bronze.select("path", "offset").orderBy("offset").toArrow().to_pylist():
        file = classify(row["path"] or "", options)
        if isinstance(file, DataFile):
            mine = writers.setdefault(file.folder, set())
            mine.add(file.dispatcher)
            if len(mine) > 1:
                several[row["offset"]] = len(mine)
    return several


# Claim check


def has_attachments(format: str, options: Mapping[str, str]) -> bool:
    """Whether records of this feed may name payloads that lie outside."""
    return format in _LARGE and bool(options.get("claim_check"))


def attachments_table(source: str) -> str:
    return f"{source}_attachments"


def named_attachments(bronze: DataFrame, format: str, options: Mapping[str, str]) -> DataFrame:
    """The names of the payloads that records need, with the records' places."""
    frame = bronze.select("topic", "incarnation", "partition", "offset", "key", "value")
    return frame.mapInArrow(_names_worker(format, dict(options)), NAMES)


def _names_worker(
    format: str, options: dict[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.silver.context import names_in

        for batch in batches:
            yield names_in(batch, format, options)

    return work


def names_in(batch: pa.RecordBatch, format: str, options: Mapping[str, str]) -> pa.RecordBatch:
    """One row per name; a record that can't be read names nothing: decoding it says why."""
    from lakehouse.errors import DecodeError
    from lakehouse.events import Message
    from lakehouse.formats.ticdc.large_messages import attachment_names

    rows: list[tuple[Any, ...]] = []
    columns = [batch.column(name).to_pylist() for name in (*PLACE, "key", "value")]
    for topic, incarnation, partition, offset, key, value in zip(*columns, strict=True):
        try:
            names = attachment_names(Message(topic, partition, offset, key, value), format, options)
        except DecodeError:
            continue
        rows += [(topic, incarnation, partition, offset, name) for name in names]
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.string()]
    arrays = [
        pa.array(values, type_)
        for values, type_ in zip(zip(*rows, strict=True) if rows else [[]] * 5, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[*PLACE, "name"])


def with_attachments(
    spark: SparkSession, lake: Lake, source: str, format: str, options: Mapping[str, str], bronze: DataFrame
) -> DataFrame:
    """Bronze records with the payloads that they name as headers, from the lake's own copies."""
    if not has_attachments(format, options):
        return bronze
    copies = lake.read_or_empty(spark, "bronze", attachments_table(source), BRONZE_SCHEMA)
    payloads = copies.select(F.col("path").alias("name"), F.col("value").alias("payload")).dropDuplicates(
        ["name"]
    )
    header = F.struct(F.concat(F.lit(ATTACHMENT), "name").alias("key"), F.col("payload").alias("value"))
    joined = (
        named_attachments(bronze, format, options)
        .join(payloads, "name")
        .groupBy(*PLACE)
        .agg(F.collect_list(header).alias("joined"))
    )
    headers = F.concat(
        F.coalesce("headers", F.array().cast(HEADERS)), F.coalesce("joined", F.array().cast(HEADERS))
    )
    return bronze.join(joined, PLACE, "left").withColumn("headers", headers).drop("joined")
