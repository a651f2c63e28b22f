"""What a silver batch needs besides its own records: a storage sink's schema files, and claim-check
payloads.
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import BatchContext
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, has_commit_ts, join_schemas
from lakehouse.ops.progress import OffsetRange, Place
from lakehouse.spark.ops.log import OpsLog


def batch_context(
    log: OpsLog, format: str, options: Mapping[str, str], ranges: Iterable[OffsetRange]
) -> BatchContext:
    """What the records of these ranges need."""
    row = FORMATS[format]
    if row.parts is not None:
        first: dict[Place, int] = {}
        for one in ranges:
            first[one.place] = min(first.get(one.place, one.first), one.first)
        return BatchContext(first)
    if not row.reads_files:
        return BatchContext()
    bronze = log.lake.read(log.spark, "bronze", log.source)
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
    return BatchContext(
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
