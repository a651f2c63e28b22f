"""The context of a source's run: its log, and the function that writes progress."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunContext:
    """A source's log and the function that takes lines of progress; session, lake and name are the log's."""

    log: OpsLog
    progress: Progress

    @property
    def spark(self) -> SparkSession:
        return self.log.spark

    @property
    def lake(self) -> Lake:
        return self.log.lake

    @property
    def source(self) -> str:
        return self.log.source
