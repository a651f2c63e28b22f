"""What a silver batch needs besides its own records: a storage sink's schema files, and claim-check
payloads.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
from msgspec import UNSET, UnsetType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import BatchContext
from lakehouse.formats.ticdc.storage_layout import (
    DataFile,
    SchemaFile,
    classify,
    has_commit_ts,
    join_schemas,
    several_dispatchers,
)
from lakehouse.ops.progress import NextOffset, OffsetRange, Place
from lakehouse.spark.bronze.offsets import within
from lakehouse.spark.column_types import columns
from lakehouse.spark.ops.log import OpsLog


def batch_context(
    log: OpsLog,
    format: str,
    options: Mapping[str, str],
    ranges: Iterable[OffsetRange],
    *,
    files: int | UnsetType = UNSET,
) -> BatchContext:
    """What the records of these ranges need; of a storage sink's schema files the first `files` that have
    landed count.
    """
    row = FORMATS[format]
    if row.parts is not None:
        first: dict[Place, int] = {}
        for one in ranges:
            first[one.place] = min(first.get(one.place, one.first), one.first)
        return BatchContext(first)
    if not row.reads_files:
        return BatchContext()
    bronze = log.lake.read(log.spark, "bronze", log.source)
    schemas = bronze.where(F.regexp_like("path", F.lit(r"(^|/)schema(_[0-9]+_[0-9]+)?\.json$")))
    found = (schemas if files is UNSET else schemas.where(F.col("offset") < files)).select(
        "path", "offset", "value"
    )
    newest = {
        row["path"]: row["value"] or b""
        for row in sorted(found.toArrow().to_pylist(), key=lambda row: row["offset"])
    }
    classified = ((classify(path, options), value) for path, value in newest.items())
    return BatchContext(
        schemas=join_schemas((file, value) for file, value in classified if isinstance(file, SchemaFile)),
        dispatchers={} if has_commit_ts(options) else dispatchers_of(bronze, ranges, options),
    )


def for_workers(beside: BatchContext, records: DataFrame, options: Mapping[str, str]) -> BatchContext:
    """The context for Spark's workers: of all schema files those that these records of bronze need."""
    if beside.schemas is None:
        return beside
    classified = (classify(row.path or "", options) for row in records.select("path").collect())
    files = [file for file in classified if isinstance(file, DataFile | SchemaFile)]
    return replace(beside, schemas=beside.schemas.of(files))


def files_of(format: str, source: str, following: Iterable[NextOffset]) -> int | UnsetType:
    """How many files of a storage sink there are up to these next offsets; unset for any other format."""
    if not FORMATS[format].reads_files:
        return UNSET
    return max((one.offset for one in following if one.topic == source), default=0)


def dispatchers_of(
    bronze: DataFrame, ranges: Iterable[OffsetRange], options: Mapping[str, str]
) -> dict[int, int]:
    """How many dispatchers had written into the folders of these files when each landed, by the file's
    number, where they were several. The driver sees the batch's own paths, and of its folders one path for
    each dispatcher.
    """
    rows = within(bronze, ranges).select("path", "offset").toArrow().to_pylist()
    landed = [(row["path"] or "", row["offset"]) for row in rows]
    folders = {file.folder for path, _ in landed if isinstance(file := classify(path, options), DataFile)}
    first = [(row.path, row.offset) for row in first_files(bronze, folders).collect()] if folders else []
    return several_dispatchers(landed, first, options)


def first_files(bronze: DataFrame, folders: Collection[str]) -> DataFrame:
    """The first file that each dispatcher has written into each of the folders: `path` and `offset`. A file's
    name ends with its number.
    """
    name = F.substring_index("path", "/", -1)
    folder = F.expr("left(path, length(path) - length(substring_index(path, '/', -1)) - 1)")
    # files of other folders are skipped by the statistics of their paths
    near = bronze.where(F.col("path").between(min(folders), max(folders) + "0"))
    found = near.select("path", "offset", folder.alias("folder"), name.alias("name"))
    table = pa.table({"folder": pa.array(sorted(folders), pa.string())})
    wanted = F.broadcast(bronze.sparkSession.createDataFrame(table, columns("folder string")))
    written = found.where(F.col("name").startswith("CDC")).join(wanted, "folder", "left_semi")
    writer = F.regexp_replace("name", r"[0-9]+\.[a-z]+$", "")
    first = written.groupBy("folder", writer).agg(F.min(F.struct("offset", "path")).alias("first"))
    return first.select("first.path", "first.offset")
