"""What a silver batch needs besides its own records: a storage sink's schema files, and claim-check
payloads.
"""

from collections.abc import Iterable, Mapping

from msgspec import UNSET, UnsetType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import BatchContext
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, has_commit_ts, join_schemas
from lakehouse.ops.progress import NextOffset, OffsetRange, Place
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
        dispatchers={} if has_commit_ts(options) else _dispatchers(bronze, options),
    )


def files_of(format: str, source: str, following: Iterable[NextOffset]) -> int | UnsetType:
    """How many files of a storage sink there are up to these next offsets; unset for any other format."""
    if not FORMATS[format].reads_files:
        return UNSET
    return max((one.offset for one in following if one.topic == source), default=0)


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
