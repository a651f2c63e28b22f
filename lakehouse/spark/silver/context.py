"""What a silver batch needs besides its own records: a storage sink's schema files, and claim-check
payloads.

Bronze has a sink's schema files among its data files, terabytes of them. Paths and offsets of all records are
read, and the bytes of the schema files alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from msgspec import UNSET, UnsetType
from pyspark.sql import Column, DataFrame
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
from lakehouse.spark.bronze.storage import SCHEMA_PATH
from lakehouse.spark.column_types import columns
from lakehouse.spark.ops.log import OpsLog

# a condition has so many ranges of offsets: by each of them Delta and Parquet skip what lies outside
RANGES = 64
Landed = Sequence[tuple[str, int]]


def batch_context(
    log: OpsLog,
    format: str,
    options: Mapping[str, str],
    ranges: Iterable[OffsetRange],
    *,
    files: int | UnsetType = UNSET,
    records: pa.Table | DataFrame | None = None,
) -> BatchContext:
    """What the records of these ranges need; of a storage sink's schema files the first `files` that have
    landed count. `records` has the columns `path` and `offset` of these records; without it all schema files
    are given.
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
    if records is None:
        return BatchContext(schemas=join_schemas(schema_files(bronze, options, files)))
    found = records.select(["path", "offset"])
    told = found if isinstance(found, pa.Table) else found.toArrow()
    landed = [(path or "", offset) for path, offset in zip(*_columns(told), strict=True)]
    if next(sink_files(landed, options), None) is None:  # the checkpoint alone
        return BatchContext()
    return BatchContext(
        schemas=join_schemas(schema_files(bronze, options, files)).of(sink_files(landed, options)),
        dispatchers={} if has_commit_ts(options) else dispatchers_of(bronze, landed, options),
    )


def sink_files(landed: Landed, options: Mapping[str, str]) -> Iterator[DataFile | SchemaFile]:
    """The data and schema files among paths that have landed."""
    classified = (classify(path, options) for path, _ in landed)
    return (file for file in classified if isinstance(file, DataFile | SchemaFile))


def schema_files(
    bronze: DataFrame, options: Mapping[str, str], files: int | UnsetType
) -> Iterator[tuple[SchemaFile, bytes]]:
    """The schema files among the first `files` that have landed, each as it landed last."""
    told = bronze.where(F.regexp_like("path", F.lit(SCHEMA_PATH)))
    told = told if files is UNSET else told.where(F.col("offset") < files)
    found = told.select("path", "offset").toArrow().sort_by("offset")
    newest = dict(zip(*_columns(found), strict=True))
    offsets = sorted(newest.values())
    values: dict[int, bytes] = {}
    for condition in conditions(offsets):
        rows = told.where(condition).select("offset", "value").toArrow()
        values |= zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True)
    classified = ((classify(path, options), values[offset] or b"") for path, offset in newest.items())
    return ((file, value) for file, value in classified if isinstance(file, SchemaFile))


def conditions(offsets: Sequence[int]) -> Iterator[Column]:
    """Conditions that together choose these offsets, which are in order, by ranges of neighbours."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    for first in range(0, len(ranges), RANGES):
        condition = F.lit(False)
        for low, high in ranges[first : first + RANGES]:
            condition = condition | F.col("offset").between(low, high)
        yield condition


def files_of(format: str, source: str, following: Iterable[NextOffset]) -> int | UnsetType:
    """How many files of a storage sink there are up to these next offsets; unset for any other format."""
    if not FORMATS[format].reads_files:
        return UNSET
    return max((one.offset for one in following if one.topic == source), default=0)


def dispatchers_of(bronze: DataFrame, landed: Landed, options: Mapping[str, str]) -> dict[int, int]:
    """How many dispatchers had written into the folders of these files when each landed, by the file's
    number, where they were several. The driver sees the batch's own paths, and of its folders one path for
    each dispatcher.
    """
    folders = {file.folder for file in sink_files(landed, options) if isinstance(file, DataFile)}
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


def _columns(records: pa.Table) -> tuple[list[str], list[int]]:
    return records["path"].to_pylist(), records["offset"].to_pylist()
