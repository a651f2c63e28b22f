"""Versions of a Delta table: the newest one, whether newer ones have the same rows, and the way back."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import TableEntry
from lakehouse.spark.commit_files import metadata_id, newest_commits
from lakehouse.spark.lake import Lake

LOG = logging.getLogger(__name__)
# the operations, by how Delta's history names them, that leave a table's rows as they are. Some a platform
# does by itself: predictive optimization puts files together, vacuums, and computes statistics
SAME_ROWS = (
    "OPTIMIZE",
    "VACUUM",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "CLUSTER BY",
    "REORG",
    "ADD DELETION VECTORS TOMBSTONES",
    "COMPUTE STATS",
    "ROW TRACKING",
    "UPGRADE PROTOCOL",
    "DROP FEATURE",
)
# so many commits are asked for, and where these are not all, so many more
FEW, MANY = 16, 100_000
# so much of a table's id is recorded: there is one for each table in each manifest
ID_LENGTH = 8
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
    for limit in sorted({few, FEW, MANY}):
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


class Newer(NamedTuple):
    """The newest version of a gold table; whether Delta knows all commits behind some version, and whether
    nothing but maintenance made them.
    """

    version: int
    is_known: bool
    is_alike: bool


def newer_than(spark: SparkSession, lake: Lake, table: str, version: int) -> Newer:
    """What came behind a version of a gold table, which mostly is the newest one."""
    commits = commits_above(spark, lake, ("gold", table), version, few=1)
    above = [one for one in commits if one.version > version]
    is_known = len(above) == commits[0].version - version
    is_alike = is_known and all(one.keeps_rows for one in above)
    return Newer(commits[0].version, is_known=is_known, is_alike=is_alike)


def newest_alike(spark: SparkSession, lake: Lake, table: str, version: int) -> int | None:
    """The newest version of a gold table where nothing but maintenance made those above this one; None where
    something else has, or Delta does not know all of them.
    """
    newer = newer_than(spark, lake, table, version)
    return newer.version if newer.is_alike else None


def table_id(spark: SparkSession, lake: Lake, table: str) -> str:
    """How the id begins that Delta gave a gold table when it was made: one that was dropped and made again
    has another.
    """
    folder = lake.folder(spark, "gold", table)
    found = None if folder is None else metadata_id(folder)
    if found is None:
        row = spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', table)}").select("id").first()
        found = "" if row is None else str(row[0])
    return found[:ID_LENGTH]


def is_there(spark: SparkSession, lake: Lake, table: str, *, published: bool) -> bool:
    """Whether there is a gold table of this name. One that was `published` is taken to be there, but where
    its folder on this machine is seen to be gone: somebody has dropped it.
    """
    folder = lake.folder(spark, "gold", table)
    if published and (folder is None or (folder / "_delta_log").is_dir()):
        return True
    return lake.exists(spark, "gold", table)


def is_another(spark: SparkSession, lake: Lake, entry: TableEntry) -> bool:
    """Whether the Delta table is not the one that was published: somebody has dropped it, and made one of its
    name, whose versions and rows are others.
    """
    return entry.table_id is not UNSET and table_id(spark, lake, entry.gold) != entry.table_id


def why_out_of_reach(spark: SparkSession, lake: Lake, entry: TableEntry) -> str | None:
    """Why Delta no longer has the version of a gold table that was published; None where it has."""
    if not lake.exists(spark, "gold", entry.gold):
        return "it was dropped"
    if is_another(spark, lake, entry):
        return "it was dropped, and another Delta table has its name"
    newer = newer_than(spark, lake, entry.gold, entry.version)
    if newer.is_known:
        return None
    if newer.version < entry.version:
        return f"it was put back from an older copy: its newest version is {newer.version}"
    return "Delta has cleaned up the log of that version, while others made newer ones"


def has_same_rows(spark: SparkSession, lake: Lake, table: str, version: int) -> bool:
    """Whether nothing but maintenance made the versions of a gold table above this one."""
    return newest_alike(spark, lake, table, version) is not None


def read_published(spark: SparkSession, lake: Lake, entry: TableEntry) -> DataFrame:
    """The rows of a gold table as its manifest names them. Where only maintenance has come since, those of
    the newest version: a VACUUM leaves its files alone.
    """
    newer = newer_than(spark, lake, entry.gold, entry.version)
    is_local = lake.folder(spark, "gold", entry.gold) is not None  # where it costs no query
    if (is_local and is_another(spark, lake, entry)) or not newer.is_known:
        raise LakehouseError(
            f"gold.{entry.gold}: expected version {entry.version}, which was published, got none: "
            f"{why_out_of_reach(spark, lake, entry)}; `lakehouse maintain` has the next run fold it again"
        )
    return lake.read(spark, "gold", entry.gold, newer.version if newer.is_alike else entry.version)


def read_version(spark: SparkSession, lake: Lake, entry: TableEntry) -> DataFrame:
    """The rows of a gold table as a manifest names them, which need not be the last one."""
    if is_another(spark, lake, entry):
        raise LakehouseError(
            f"gold.{entry.gold}: expected the Delta table that was published as version {entry.version}, got "
            "another one: it was dropped since, and made again; a moment of the source folds its rows"
        )
    return lake.read(spark, "gold", entry.gold, entry.version)


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
