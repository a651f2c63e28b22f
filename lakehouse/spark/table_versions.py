"""Versions of a Delta table: the newest one, whether newer ones have the same rows, and the way back."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from lakehouse.ops.records.gold import TableEntry
from lakehouse.spark.commit_files import newest_commits
from lakehouse.spark.lake import Lake

LOG = logging.getLogger(__name__)
# the operations, by how Delta's history names them, that leave a table's rows as they are
SAME_ROWS = (
    "OPTIMIZE",
    "VACUUM",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "CLUSTER BY",
    "REORG",
    "ADD DELETION VECTORS TOMBSTONES",
)
# so many commits are asked for, and where these are not all, so many more
FEW, MANY = 16, 100_000
# above every version of a table
NEWEST = 2**62
TableName = tuple[str, str]
COMMIT = ("version", "timestamp", "operation", "operationParameters", "operationMetrics")


def history_of(spark: SparkSession, ref: str) -> list[Any]:
    """All commits that Delta still knows, newest first: version, timestamp, operation."""
    return list(spark.sql(f"DESCRIBE HISTORY {ref}").select("version", "timestamp", "operation").collect())


class Commit(NamedTuple):
    """A commit of a Delta table; `written`: how many rows it has written, `appended`: how many of them it has
    added to those that were there (None: Delta does not say), `takes`: it may have taken some; `at`: when it
    was made, in milliseconds.
    """

    version: int
    operation: str
    written: int | None
    appended: int | None
    takes: bool
    at: int = 0

    @property
    def keeps_rows(self) -> bool:
        """Whether the table's rows are those that were there before."""
        return self.operation.startswith(SAME_ROWS)


def commits_above(
    spark: SparkSession, lake: Lake, table: TableName, version: int, *, few: int = FEW
) -> list[Commit]:
    """The commits above a version that Delta still knows, and the newest one in any case, newest first; of
    Delta's history `few` are asked for at first.
    """
    folder = lake.folder(spark, *table)
    if folder is not None:
        found = local_commits(folder, version)
        if found:
            return found
    return told_commits(spark, lake.ref(*table), version, few=few)


def local_commits(folder: Path, version: int) -> list[Commit]:
    """The same, of a table on this machine's disk."""
    found: list[Commit] = []
    for one in newest_commits(folder):
        if found and one.version <= version:
            break
        info = one.info
        operation, parameters = info.get("operation", ""), info.get("operationParameters", {})
        found.append(_commit(one.version, operation, parameters, info.get("operationMetrics", {}), at=one.at))
    return found


def told_commits(spark: SparkSession, ref: str, version: int, *, few: int = FEW) -> list[Commit]:
    """The same, of any table, as DESCRIBE HISTORY tells it."""
    for limit in (few, MANY):
        rows = spark.sql(f"DESCRIBE HISTORY {ref} LIMIT {limit}").select(*COMMIT).collect()
        if len(rows) < limit or rows[-1].version <= version + 1:
            break
    return [
        _commit(
            row.version,
            row.operation,
            row.operationParameters or {},
            row.operationMetrics or {},
            at=round(row.timestamp.timestamp() * 1000),
        )
        for number, row in enumerate(rows)
        if row.version > version or not number
    ]


def _commit(
    version: int, operation: str, parameters: Mapping[str, str], metrics: Mapping[str, str], *, at: int
) -> Commit:
    told = metrics.get("numOutputRows")
    written = None if told is None else int(told)
    if operation.startswith(SAME_ROWS):
        return Commit(version, operation, written, 0, takes=False, at=at)
    is_append = "Append" in (parameters.get("mode"), parameters.get("outputMode"))
    appended = written if is_append else 0
    return Commit(version, operation, written, appended, takes=not is_append, at=at)


def version_of(spark: SparkSession, lake: Lake, table: str) -> int:
    """The newest version of a gold table."""
    return commits_above(spark, lake, ("gold", table), NEWEST, few=1)[0].version


def newest_alike(spark: SparkSession, lake: Lake, table: str, version: int) -> int | None:
    """The newest version of a gold table where nothing but maintenance made those above this one; None where
    something else has, or Delta does not know all of them.
    """
    commits = commits_above(spark, lake, ("gold", table), version)
    above = [one for one in commits if one.version > version]
    is_known = len(above) == commits[0].version - version
    return commits[0].version if is_known and all(one.keeps_rows for one in above) else None


def has_same_rows(spark: SparkSession, lake: Lake, table: str, version: int) -> bool:
    """Whether nothing but maintenance made the versions of a gold table above this one."""
    return newest_alike(spark, lake, table, version) is not None


def read_published(spark: SparkSession, lake: Lake, entry: TableEntry) -> DataFrame:
    """The rows of a gold table as its manifest names them. Where only maintenance has come since, those of
    the newest version: a VACUUM leaves its files alone.
    """
    version = newest_alike(spark, lake, entry.gold, entry.version)
    return lake.read(spark, "gold", entry.gold, entry.version if version is None else version)


def returned_to(spark: SparkSession, lake: Lake, table: str, version: int) -> int | None:
    """Make a gold table's rows those of `version`, where others stand in newer versions: a run that died
    before its manifest has written them, or somebody by hand. Returns the version to go on from: the newest
    one with the same rows, or that of the way back; None where that is closed, because files of `version` are
    gone.
    """
    alike = newest_alike(spark, lake, table, version)
    if alike is not None:
        return alike
    ref = lake.ref("gold", table)
    lake.before_write()
    try:
        spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF {version:d}").collect()
    except Exception as error:  # whatever Delta misses of that version, silver has the rows
        LOG.warning("%s can't be restored to version %d: %s", table, version, type(error).__name__)
        return None
    commits = commits_above(spark, lake, ("gold", table), version)
    return next((one.version for one in commits if one.operation.startswith("RESTORE")), version)
