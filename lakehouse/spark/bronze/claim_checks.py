"""Lands claim-check payloads in `bronze.<source>_attachments`: one row per file, when a record that names it
is first landed.

Payloads expire at their storage; decoding reads the lake's copies alone, so that silver can be built again.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.events import SNAPSHOT_TOPIC
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import ATTACHMENT, attachment_names
from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.ops.records.bronze import Looked
from lakehouse.sources.file_systems import LocalFiles
from lakehouse.spark.arrow import Worker, rows_frame
from lakehouse.spark.bronze.offsets import unread, within
from lakehouse.spark.bronze.storage import escaped
from lakehouse.spark.bronze.table import BRONZE_SCHEMA, HEADERS
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext

CHUNK = 32


def land_attachments(context: RunContext, format: str, options: Mapping[str, str]) -> int:
    """Copy the payloads that records of bronze name for the first time; returns how many.

    One that is not there is not waited for.
    """
    spark, lake, log, source = context.spark, context.lake, context.log, context.source
    if not has_attachments(format, options) or not lake.exists(spark, "bronze", source):
        return 0
    bronze = lake.read(spark, "bronze", source)
    looked = log.last(Looked)
    fresh = unread(bronze, looked.next) if looked else bronze
    ends = (
        fresh.groupBy("topic", "incarnation", "partition")
        .agg((F.max("offset") + 1).alias("offset"))
        .toArrow()
        .to_pylist()
    )
    if not ends:
        return 0
    names, landed = _copy(log, fresh, format, options)
    if names:
        context.progress(f"bronze  {source}: {names} claim-check payloads asked for")
    known = {one.place: one for one in (looked.next if looked else ())}
    known |= {one.place: one for one in (NextOffset(**row) for row in ends)}
    log.add_along(Looked(next=tuple(known.values())))
    return landed


def begin_looking(log: OpsLog, format: str, options: Mapping[str, str]) -> None:
    """Say, before the first record lands, that none has been searched: silver may run beside this pass."""
    if has_attachments(format, options) and log.last(Looked) is None:
        log.add(Looked(next=()))


def searched(landed: OpsLog, format: str, options: Mapping[str, str], bronze: DataFrame) -> DataFrame:
    """The records whose payloads were copied, as far as they were there. Where silver runs beside bronze, or
    after a pass that has died, the others wait: without its payload a message is a dead letter. `landed` is
    the log that says what bronze holds; that of an older lakehouse may say nothing.
    """
    looked = landed.last(Looked) if has_attachments(format, options) else None
    if looked is None:
        return bronze
    ranges = [OffsetRange(*one.place, first=0, last=one.offset - 1) for one in looked.next]
    snapshots = bronze.where(F.col("topic") == SNAPSHOT_TOPIC)
    return within(bronze.where(F.col("topic") != SNAPSHOT_TOPIC), ranges).unionByName(snapshots)


def is_searched(landed: OpsLog, format: str, options: Mapping[str, str]) -> bool:
    """Whether `searched` leaves no record out."""
    looked = landed.last(Looked) if has_attachments(format, options) else None
    if looked is None:
        return True
    bronze = landed.lake.read(landed.spark, "bronze", landed.source)
    return not unread(bronze.where(F.col("topic") != SNAPSHOT_TOPIC), looked.next).limit(1).count()


def land_named(log: OpsLog, format: str, options: Mapping[str, str], ranges: Collection[OffsetRange]) -> None:
    """Copy the payloads that these records name and the lake does not have: their storage may have them by
    now.
    """
    if ranges and has_attachments(format, options):
        bronze = log.lake.read(log.spark, "bronze", log.source)
        _copy(log, within(bronze, ranges), format, options)


def _copy(log: OpsLog, records: DataFrame, format: str, options: Mapping[str, str]) -> tuple[int, int]:
    """(payloads that were asked for, payloads that were there)."""
    spark, lake, source = log.spark, log.lake, log.source
    copies = lake.read_or_empty(spark, "bronze", attachments_table(source), BRONZE_SCHEMA).select(
        F.col("path").alias("name")
    )
    wanted = (
        named_attachments(records, format, options)
        .select("name")
        .distinct()
        .join(copies, "name", "left_anti")
    )
    names = sorted(row.name for row in wanted.collect())
    landed = 0
    for start in range(0, len(names), CHUNK):
        frame = _payloads(spark, options["claim_check"], names[start : start + CHUNK])
        lake.append(frame, "bronze", attachments_table(source))
        landed += min(CHUNK, len(names) - start)
    return len(names), landed


def _payloads(spark: SparkSession, folder: str, names: list[str]) -> DataFrame:
    """The files of a folder in bronze's columns: a local one is read here, any other by Spark's binary
    reader.
    """
    if "://" not in folder and not folder.startswith(("dbfs:", "/Volumes/")):
        return rows_frame(spark, list(_local(folder, names)), BRONZE_SCHEMA).coalesce(1)
    wanted = ",".join(escaped(name).replace(",", "\\,") for name in names)
    reader = spark.read.format("binaryFile").option("pathGlobFilter", f"{{{wanted}}}")
    try:
        files = reader.load(escaped(folder))
        _ = files.schema  # over Connect nothing is looked for before it is used
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        # an object store has no folder once its last file has expired
        return rows_frame(spark, [], BRONZE_SCHEMA)
    told = {
        "path": F.element_at(F.split("path", "/"), -1),
        "value": F.col("content"),
        "size": F.col("length"),
        "mtime": F.unix_millis("modificationTime"),
    }
    empty = {field.name: F.lit(None).cast(field.dataType) for field in BRONZE_SCHEMA.fields}
    chosen = [column.alias(name) for name, column in {**empty, **told}.items()]
    return files.where("length > 0").select(*chosen)


def _local(folder: str, names: list[str]) -> Iterator[dict[str, object]]:
    """The files that are there. One that can't be read now, or not to its end, is none: a copy stays."""
    files = LocalFiles(folder)
    for name in names:
        info = files.stat(name)
        data = files.read(name) if info is not None and not info.is_dir else b""
        if info is not None and data and len(data) == info.size:
            yield {"path": name, "value": data, "size": info.size, "mtime": info.mtime}


PLACE = ["topic", "incarnation", "partition", "offset"]


NAMES = "topic string, incarnation string, partition int, offset bigint, name string"


def has_attachments(format: str, options: Mapping[str, str]) -> bool:
    """Whether records of this feed may name payloads in other storage."""
    return "claim_check" in FORMATS[format].options and bool(options.get("claim_check"))


def attachments_table(source: str) -> str:
    return f"{source}_attachments"


def named_attachments(bronze: DataFrame, format: str, options: Mapping[str, str]) -> DataFrame:
    """The names of the payloads that records need, with the records' places."""
    feed = bronze.where(F.col("topic") != SNAPSHOT_TOPIC)
    frame = feed.select("topic", "incarnation", "partition", "offset", "key", "value")
    return frame.mapInArrow(_names_worker(format, dict(options)), NAMES)


def _names_worker(format: str, options: dict[str, str]) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:

        for batch in batches:
            yield names_in(batch, format, options)

    return work


def names_in(batch: pa.RecordBatch, format: str, options: Mapping[str, str]) -> pa.RecordBatch:
    """One row per payload name in a batch; a record that can't be read has none, and its decoding reports
    why.
    """
    from lakehouse.errors import DecodeError
    from lakehouse.events import Message

    rows: list[tuple[Any, ...]] = []
    columns = [batch.column(name).to_pylist() for name in (*PLACE, "key", "value")]
    for topic, incarnation, partition, offset, key, value in zip(*columns, strict=True):
        try:
            names = attachment_names(Message(topic, partition, offset, key=key, value=value), format, options)
        except DecodeError:
            continue
        rows += [(topic, incarnation, partition, offset, name) for name in names]
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.string()]
    arrays = [
        pa.array(values, type_)
        for values, type_ in zip(zip(*rows, strict=True) if rows else [[]] * 5, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[*PLACE, "name"])


def with_attachments(log: OpsLog, format: str, options: Mapping[str, str], bronze: DataFrame) -> DataFrame:
    """Bronze records with the payloads that they name as headers, from the lake's own copies."""
    if not has_attachments(format, options):
        return bronze
    copies = log.lake.read_or_empty(log.spark, "bronze", attachments_table(log.source), BRONZE_SCHEMA)
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
