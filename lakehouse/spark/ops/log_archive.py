"""The archive of an ops log, `ops.<source>_log_archive`: records that runs no longer need, in the log's
schema, for whoever looks at a former state of gold.

A record is put in before it is taken out of the log, so that it is always in one of them; it may be in both,
after a run that died in between.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.spark.lake import Lake


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of the log in the table `log`."""

    spark: SparkSession
    lake: Lake
    log: str

    @property
    def table(self) -> str:
        return f"{self.log}_archive"

    @property
    def exists(self) -> bool:
        return self.lake.exists(self.spark, "ops", self.table)

    def read(self) -> DataFrame:
        return self.lake.read(self.spark, "ops", self.table)

    def put(self, condition: str) -> None:
        """Copy the log's records of a condition, but for those that it has."""
        rows = self.lake.read(self.spark, "ops", self.log).where(condition)
        if self.exists:
            rows = rows.join(self.read().select("seq", "at"), ["seq", "at"], "left_anti")
            rows = rows.select("seq", "kind", "at", "body")
        self.lake.append(rows.coalesce(1), "ops", self.table)

    def take_out(self, condition: str) -> None:
        """Take the records of a condition out of the log."""
        with self.lake.committing("ops", self.log):
            self.spark.sql(f"DELETE FROM {self.lake.ref('ops', self.log)} WHERE {condition}").collect()

    def rows(self) -> list[dict[str, Any]]:
        """All of its records."""
        return list(self.read().toArrow().to_pylist()) if self.exists else []

    def forget(self, before: int) -> None:
        """Delete the records from before a moment (milliseconds), but for the last manifest before it, which
        was in force then.
        """
        if not self.exists:
            return
        old = self.read().where((F.col("kind") == "manifest") & (F.col("at") < before))
        last = old.agg(F.max("seq").alias("seq")).first()
        kept = -1 if last is None or last.seq is None else last.seq
        ref = self.lake.ref("ops", self.table)
        with self.lake.committing("ops", self.table):
            self.spark.sql(f"DELETE FROM {ref} WHERE at < {before:d} AND seq <> {kept:d}").collect()
