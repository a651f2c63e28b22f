"""The context of a source's run: its log, and the function that writes progress."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

Progress = Callable[[str], None]


@dataclass(slots=True)
class LandedFiles:
    """What bronze has of a storage sink, as the run has seen it last: size and time by path, the next offset,
    the newest checkpoint's text; and as of which version of bronze's table, made when (None: not seen yet).
    """

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    following: int = 0
    metadata: bytes | None = None
    version: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """A source's log, the function that takes lines of progress, and what the passes of a run need not look
    at again; session, lake and name are the log's.
    """

    log: OpsLog
    progress: Progress
    landed: LandedFiles = field(default_factory=LandedFiles, compare=False)

    @property
    def spark(self) -> SparkSession:
        return self.log.spark

    @property
    def lake(self) -> Lake:
        return self.log.lake

    @property
    def source(self) -> str:
        return self.log.source
