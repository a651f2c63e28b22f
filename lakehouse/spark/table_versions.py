"""Versions of a Delta table: the newest one, whether newer ones have the same rows, and the way back."""

import logging
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

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


def commits_above(spark: SparkSession, ref: str, version: int, *, few: int = FEW) -> list[Commit]:
    """The commits above a version that Delta still knows, and the newest one in any case, newest first; `few`
    are asked for at first.
    """
    for limit in (few, MANY):
        rows = spark.sql(f"DESCRIBE HISTORY {ref} LIMIT {limit}").select(*COMMIT).collect()
        if len(rows) < limit or rows[-1].version <= version + 1:
            break
    return [_commit(row) for number, row in enumerate(rows) if row.version > version or not number]


def _commit(row: Any) -> Commit:
    parameters, metrics = row.operationParameters or {}, row.operationMetrics or {}
    at = round(row.timestamp.timestamp() * 1000)
    told = metrics.get("numOutputRows")
    written = None if told is None else int(told)
    if row.operation.startswith(SAME_ROWS):
        return Commit(row.version, row.operation, written, 0, takes=False, at=at)
    is_append = "Append" in (parameters.get("mode"), parameters.get("outputMode"))
    appended = written if is_append else 0
    return Commit(row.version, row.operation, written, appended, takes=not is_append, at=at)


def version_of(spark: SparkSession, lake: Lake, table: str) -> int:
    """The newest version of a gold table; -1 where it has none."""
    row = spark.sql(f"DESCRIBE HISTORY {lake.ref('gold', table)} LIMIT 1").select("version").first()
    return int(row[0]) if row is not None else -1


def has_same_rows(spark: SparkSession, ref: str, version: int) -> bool:
    """Whether nothing but maintenance made the versions above this one."""
    return all(row.operation.startswith(SAME_ROWS) for row in history_of(spark, ref) if row.version > version)


def returned_to(spark: SparkSession, lake: Lake, table: str, version: int) -> int | None:
    """Make a gold table's rows those of `version`, where others stand in newer versions: a run that died
    before its manifest has written them, or somebody by hand. Returns the version to go on from: the same, or
    that of the way back; None where that is closed, because files of `version` are gone.
    """
    ref = lake.ref("gold", table)
    if version_of(spark, lake, table) == version or has_same_rows(spark, ref, version):
        return version
    lake.before_write()
    try:
        spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF {version:d}").collect()
    except Exception as error:  # whatever Delta misses of that version, silver has the rows
        LOG.warning("%s can't be restored to version %d: %s", table, version, type(error).__name__)
        return None
    commits = commits_above(spark, ref, version)
    return next((one.version for one in commits if one.operation.startswith("RESTORE")), version)
