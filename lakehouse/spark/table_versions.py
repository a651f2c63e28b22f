"""Versions of a Delta table: the newest one, whether newer ones have the same rows, and the way back."""

import logging
from typing import Any

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


def history_of(spark: SparkSession, ref: str) -> list[Any]:
    """All commits that Delta still knows, newest first: version, timestamp, operation."""
    return list(spark.sql(f"DESCRIBE HISTORY {ref}").select("version", "timestamp", "operation").collect())


def version_of(spark: SparkSession, lake: Lake, table: str) -> int:
    """The newest version of a gold table; -1 where it has none."""
    row = spark.sql(f"DESCRIBE HISTORY {lake.ref('gold', table)} LIMIT 1").select("version").first()
    return int(row[0]) if row is not None else -1


def has_same_rows(spark: SparkSession, ref: str, version: int) -> bool:
    """Whether nothing but maintenance made the versions above this one."""
    return all(row.operation.startswith(SAME_ROWS) for row in history_of(spark, ref) if row.version > version)


def returned_to(spark: SparkSession, lake: Lake, table: str, version: int) -> bool:
    """Make a gold table's rows those of `version`, where others stand in newer versions: a run that died
    before its manifest has written them, or somebody by hand. False where the way back is closed, because
    files of that version are gone.
    """
    ref = lake.ref("gold", table)
    if version_of(spark, lake, table) == version or has_same_rows(spark, ref, version):
        return True
    lake.before_write()
    try:
        spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF {version:d}").collect()
    except Exception as error:  # whatever Delta misses of that version, silver has the rows
        LOG.warning("%s can't be restored to version %d: %s", table, version, type(error).__name__)
        return False
    return True
