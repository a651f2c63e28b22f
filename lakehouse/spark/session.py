"""The Spark session for each environment: Databricks, Spark Connect, spark-submit on a cluster, or this
machine.

A session that is there already is used as it is. Otherwise a local one is made for small data, from the jars
of the cache. Nobody else asks where it runs; what differs is in `capabilities`.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyspark
from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from lakehouse.jvm.class_archive import archive_options
from lakehouse.jvm.jars import spark_jars
from lakehouse.jvm.java import java_home

# a batch of Arrow has at most so many rows, or fewer of about so many bytes together
ARROW_ROWS = 10_000
ARROW_BYTES = 64 * 1024 * 1024
_LOG = Path(__file__).with_name("log4j2.properties")

# Measured on two cores, CPU seconds to start, append ten times, merge and read five times, all small and
# cold: 52, with a class archive 35. On top of it made no difference beyond noise, or a worse one: 1 partition
# for 2, no code generation. Without AQE, without statistics and on the raw local file system it ran only
# while the machine was busy: undecided, so Spark's defaults. Spark's default of 200 partitions makes a merge
# three times as slow.
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    # the largest number means no limit: with any other Spark measures each column again after every row
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # a checksum file lists all files of its table else, for which a new table takes a Spark job more
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # of a window Spark holds so many rows (4,096 by default) outside of the memory that it manages: rows with
    # large images fill the heap. What is beyond can be spilled
    "spark.sql.windowExec.buffer.in.memory.threshold": "64",
    # so many rows are read at once (4,096 by default), which fill the heap where they are large; to read
    # 600,000 narrow ones took the same CPU seconds with 64 as with 4,096
    "spark.sql.parquet.columnarReaderBatchSize": "64",
    "spark.python.daemon.module": "lakehouse.spark.pipeline.worker_daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# Delta keeps the snapshots of tables, with the plans that made them, for an hour: 1.5 to 2 MB a table, of up
# to 10,000. 2,000 of them fill a heap of 4 GiB; so many of each GiB leave room for what is done with them.
_SNAPSHOTS_A_GIB = 128
_UNITS = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
# The work on few rows is planning, and most of that the code that is made for each plan and used once: a pass
# over a small feed takes 18 CPU seconds without it, 32 with it (26 passes in turn, one session). Plans that
# adapt are cut into more jobs. Each setting has two values: for few rows, which a session of this machine
# begins with, and for many, see `many_rows`.
_BY_ROWS = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
}
# Without the second stage of the compiler a small session takes 60 % of the CPU; writing, grouping and
# merging 1.5 million rows takes 20 % more. For long loads set LAKEHOUSE_JAVA_OPTIONS=-XX:TieredStopAtLevel=4.
_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # without the second stage the JVM reserves 48 MB for code, which a session fills in minutes: from then on
    # its sweeper throws away what the compiler made
    "-XX:ReservedCodeCacheSize=256m",
    # Arrow checks the bounds of every single value else, which is most of what handing rows to Python and
    # back costs
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a session can do: keep a DataFrame between two uses, run a stream without end, declare keys in its
    catalog; and whether it speaks Connect.
    """

    persist: bool
    continuous: bool
    connect: bool
    keys: bool


def capabilities(spark: SparkSession) -> Capabilities:
    """What this session can do; serverless compute can neither persist nor run for ever."""
    serverless = _serverless()
    databricks = serverless or bool(os.environ.get("DATABRICKS_RUNTIME_VERSION"))
    return Capabilities(
        persist=not serverless,
        continuous=not serverless,
        connect=".connect." in type(spark).__module__,
        keys=databricks,
    )


def reads_own_files(spark: SparkSession) -> bool:
    """Whether the session's paths are files of this machine, as this process sees them: not on clusters, nor
    behind Connect, nor where paths without a scheme are another file system's.
    """
    if capabilities(spark).connect or os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return False
    context = getattr(spark, "sparkContext", None)
    if context is None or not context.master.startswith("local"):
        return False
    return str(context._jsc.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")


ONE_DRIVER = (
    "on S3 Delta's own log store loses a commit where two drivers make one at once: let one process alone "
    "write to this lake, or set spark.delta.logStore.<scheme>.impl (docs/how-to/scale-out.md)"
)


def keeps_drivers_apart(spark: SparkSession, root: str) -> bool:
    """Whether of commits that several drivers make at once to a table below a root one is refused. On S3 only
    with a log store of its own: Delta's knows its own driver alone, and the second commit replaces the first.
    """
    scheme = root.partition("://")[0]
    if scheme not in ("s3", "s3a", "s3n") or capabilities(spark).keys:
        return True
    store = spark.conf.get(f"spark.delta.logStore.{scheme}.impl", None)
    return store is not None and not store.endswith(".S3SingleDriverLogStore")


_SCOPE = threading.local()


@contextmanager
def keeping() -> Iterator[None]:
    """What is `kept` in here, by this thread, is let go at the end: Spark itself never forgets a frame that
    is persisted.
    """
    outer, _SCOPE.frames = getattr(_SCOPE, "frames", None), []
    try:
        yield
    finally:
        for frame in _SCOPE.frames:
            frame.unpersist()
        _SCOPE.frames = outer


def kept(frame: DataFrame) -> DataFrame:
    """The frame, computed once until `keeping` ends, where the platform can keep it; else again at each use.

    It is kept on disk: what is kept are whole tables and batches, several at once, which would fill the
    memory of a small driver.
    """
    if not capabilities(frame.sparkSession).persist:
        return frame
    frames = getattr(_SCOPE, "frames", None)
    if frames is None:
        raise RuntimeError("kept: expected to be called within keeping()")
    frames.append(frame.persist(StorageLevel.DISK_ONLY))
    return frame


@contextmanager
def many_rows(spark: SparkSession) -> Iterator[None]:
    """A session of this machine, which is made for few rows, has its plans compiled in here; others always
    have.
    """
    if capabilities(spark).connect or any(spark.conf.get(name) != few for name, (few, _) in _BY_ROWS.items()):
        yield
        return
    for name, (_, many) in _BY_ROWS.items():
        spark.conf.set(name, many)
    try:
        yield
    finally:
        for name, (few, _) in _BY_ROWS.items():
            spark.conf.set(name, few)


def arrow_rows_of(mean: float) -> int:
    """How many rows of `mean` bytes are handed to a Python worker at once."""
    return max(1, min(ARROW_ROWS, int(ARROW_BYTES / max(mean, 1))))


@contextmanager
def arrow_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """At most so many rows for a Python worker at once, where the platform lets it be set: rows may be files
    of 64 MB.
    """
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    if rows >= ARROW_ROWS or not capabilities(spark).persist:
        yield
        return
    before = spark.conf.get(name)
    spark.conf.set(name, str(rows))
    try:
        yield
    finally:
        spark.conf.set(name, before)


def get_session(*, app: str = "lakehouse") -> SparkSession:
    """The active session, else a new one; `app` is the name of a local one."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        with _own_interrupt(), _starting():
            return SparkSession.builder.getOrCreate() if _provided() else _local(app)


_STARTS = threading.Event()


def is_starting() -> bool:
    """Whether a session is being made, which takes seconds in which nothing else can be told."""
    return _STARTS.is_set()


@contextmanager
def _starting() -> Iterator[None]:
    _STARTS.set()
    try:
        yield
    finally:
        _STARTS.clear()


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """A handler of Ctrl-C that the program has set stays: PySpark sets one of its own, which calls Java in
    the middle of another call and fails.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def leave_call() -> None:
    """Close this thread's connection to Java, for an exception that may be raised in the middle of a call:
    the next call takes a connection of its own, and not the answer to that one. Jobs are ended, for it would
    wait behind them; so is the one that the call submits when its plan is made.
    """
    context = SparkContext._active_spark_context
    client = getattr(context and context._gateway, "_gateway_client", None)
    connection = client and client.get_thread_connection()
    if connection is not None:
        connection.close()
    if context is not None:
        with suppress(Exception):  # of a context that is half made, or whose Java has ended
            context.cancelAllJobs()
            context._jsc.sc().cancelJobGroupAndFutureJobs(_CALLS)  # a platform may forbid it


def _provided() -> bool:
    """Databricks, databricks-connect, a Connect server or spark-submit have said already what to run on."""
    with suppress(ModuleNotFoundError):
        if find_spec("databricks.connect"):
            return True
    return any(
        os.environ.get(name)
        for name in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")
    )


def _serverless() -> bool:
    """What serverless compute says of itself, and what a databricks-connect that asks for it says."""
    says = os.environ.get
    runtime = says("DATABRICKS_RUNTIME_VERSION", "")
    return (
        says("IS_SERVERLESS", "").lower() == "true"
        or runtime.startswith("client.")
        or bool(says("DATABRICKS_SERVERLESS_COMPUTE_ID"))
    )


def local_settings(memory: str | None = None) -> dict[str, str]:
    """The settings of a Spark on this machine: a session of its own, or a server that the tests start."""
    home, jars = java_home(), spark_jars()
    memory = memory or os.environ.get("LAKEHOUSE_DRIVER_MEMORY") or "2g"
    return {
        **_SETTINGS,
        **{name: few for name, (few, _) in _BY_ROWS.items()},
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in jars),
        "spark.driver.memory": memory,
        "spark.databricks.delta.delta.log.cacheSize": str(_snapshots_kept(memory)),
        "spark.driver.extraJavaOptions": _java_options(home, jars),
    }


def _snapshots_kept(memory: str) -> int:
    """How many tables' snapshots Delta may keep in a driver of that memory, in the JVM's words. Words that
    Spark will refuse count as 1 GiB.
    """
    told = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    mib = int(told[1]) * _UNITS[told[2]] if told else 1024
    return max(16, int(mib * _SNAPSHOTS_A_GIB / 1024))


def _local(app: str) -> SparkSession:
    builder = SparkSession.builder.master("local[*]").appName(app)
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    own = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with _environment(**own), _stdout_is_stderr():
        session = builder.getOrCreate()
    session.sparkContext.setLocalProperty("spark.jobGroup.id", _CALLS)
    return session


# The group of the jobs that this thread's calls submit; behind a closed connection Spark has no group.
_CALLS = "lakehouse"


def _java_options(home: Path, jars: list[Path]) -> str:
    own = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    options = [*_JVM, f"-Dlog4j2.configurationFile={_LOG.as_uri()}", *archive_options(home, [*own, *jars])]
    quoted = [f'"{option}"' if " " in option else option for option in options]
    return " ".join([*quoted, os.environ.get("LAKEHOUSE_JAVA_OPTIONS", "")]).strip()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables for what starts in here, and put the old ones back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _stdout_is_stderr() -> Iterator[None]:
    """What starts in here writes to stderr alone: Delta's VACUUM prints to Java's stdout, which would stand
    among a command's results.
    """
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # a process without one of them
        yield
        return
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
