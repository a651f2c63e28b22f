"""The peers: how each is started on a topic, and how its rows are read.

All run in a JVM of the same settings (`JVM`), with the same heap, in processes of their own. Each maps a
class archive that a first run has left, as ours does: `archive` is the file, made where it is not there.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench.peers import fetched, flink
from lakehouse.jvm.java import java, java_home
from tests.support.paths import ROOT

JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
MEMORY = "2g"
# Hudi estimates the size of objects by a library that attaches to the JVM from another one, for seconds
_NO_AGENTS = ("-Djol.skipDynamicAttach=true", "-Djol.skipHotspotSAAttach=true")
Done = Callable[[], bool]


class Topic(NamedTuple):
    """A topic of one partition that is full."""

    bootstrap: str
    name: str
    messages: int


class Job(NamedTuple):
    """A process that loads a topic or reads a table."""

    command: Sequence[str]
    environment: dict[str, str]
    done: Done | None = None


class Peer(NamedTuple):
    """`load` and `rows` make the jobs, `table` is the folder of the result in the one that it is given."""

    table: str
    load: Callable[[Topic, Path], Job]
    rows: Callable[[Path, Path], Job]


def environment(**more: str) -> dict[str, str]:
    """This process's, without what it says of a Spark; a child imports the project from this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "FLINK_", "LAKEHOUSE_LAKE"))
    }
    own = {"PYTHONPATH": str(ROOT), "LAKEHOUSE_DRIVER_MEMORY": MEMORY, "TZ": "UTC"}
    return {**kept, **own, **more}


def python_peer(who: str, table: str) -> Peer:
    """Ours, and the notebook: in our session."""
    start = [sys.executable, "-m", "bench.peers.ours", who]
    return Peer(
        table,
        lambda topic, folder: Job([*start, "load", topic.bootstrap, topic.name, str(folder)], environment()),
        lambda folder, target: Job([*start, "rows", str(folder), str(target)], environment()),
    )


def hudi(scratch: Path) -> Peer:
    jars, python = fetched.hudi_jars(), fetched.hudi_python()
    archive = scratch / "hudi.jsa"
    around = environment(JAVA_HOME=str(java_home()), PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")

    def job(*words: str) -> Job:
        return Job(
            [str(python), "-m", "bench.peers.hudi", json.dumps(settings(jars, archive)), *words], around
        )

    return Peer(
        "t0",
        lambda topic, folder: job("load", topic.bootstrap, topic.name, str(folder)),
        lambda folder, target: job("rows", str(folder), str(target)),
    )


def settings(jars: Sequence[Path], archive: Path) -> dict[str, str]:
    """Those of a session of ours, as far as Hudi's Spark has them."""
    return {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join([*JVM, *_NO_AGENTS, *archived(archive), *asked()]),
        "spark.driver.memory": MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def archived(archive: Path) -> list[str]:
    """The options that map a class archive, or write it at the end of the process."""
    used = "SharedArchiveFile" if archive.exists() else "ArchiveClassesAtExit"
    return [f"-XX:{used}={archive}", "-Xshare:auto", "-Xlog:disable"]


def asked() -> list[str]:
    return os.environ.get("LAKEHOUSE_JAVA_OPTIONS", "").split()


def flink_sql(scratch: Path) -> Peer:
    jvm, around = _flink(scratch, "sql")

    def load(topic: Topic, folder: Path) -> Job:
        script, told = folder / "load.sql", flink.loading(topic.bootstrap, topic.name, folder / "warehouse")
        return Job([*jvm(), *flink.run_sql(script, told)], around)

    return Peer("warehouse/bench.db/t0", load, _flink_rows(scratch))


def paimon_action(scratch: Path) -> Peer:
    jvm, around = _flink(scratch, "action")

    def load(topic: Topic, folder: Path) -> Job:
        table = folder / "warehouse"
        # of a run its own: its committed offsets say how far it is
        group = f"{topic.name}-{folder.parent.name}"
        command = flink.action(topic.bootstrap, topic.name, group, table, scratch / "action")
        return Job([*jvm(), *command], around, at_end(topic, group, table / "bench.db/t0/snapshot"))

    return Peer("warehouse/bench.db/t0", load, _flink_rows(scratch))


def _flink(scratch: Path, name: str) -> tuple[Callable[[], list[str]], dict[str, str]]:
    """The beginning of a command of Flink's, and its environment."""
    jars, folder = [*fetched.flink_jars(), fetched.flink_program()], scratch / name
    around = environment(**flink.prepare(folder))
    classes = ["-cp", ":".join(map(str, jars))]

    def jvm() -> list[str]:
        told = [*JVM, *archived(scratch / f"{name}.jsa"), *flink.options(folder), *asked()]
        return [str(java()), f"-Xmx{MEMORY}", *told, *classes]

    return jvm, around


def _flink_rows(scratch: Path) -> Callable[[Path, Path], Job]:
    jvm, around = _flink(scratch, "rows")

    def rows(folder: Path, target: Path) -> Job:
        script, told = folder / "rows.sql", flink.reading(folder / "warehouse", target)
        return Job([*jvm(), *flink.run_sql(script, told, "batch")], around)

    return rows


def at_end(topic: Topic, group: str, snapshots: Path) -> Done:
    """Whether a job without end has done all that there is: it has committed the offsets of the topic's end,
    and has made no snapshot for a second since.
    """
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": group})
    looked = 0.0

    def done() -> bool:
        nonlocal looked
        if time.monotonic() - looked < 0.5:
            return False
        looked = time.monotonic()
        (place,) = consumer.committed([TopicPartition(topic.name, 0)], 10)
        newest = max((path.stat().st_mtime for path in snapshots.glob("snapshot-*")), default=None)
        return place.offset >= topic.messages and newest is not None and time.time() - newest > 1

    return done


PEERS: dict[str, Callable[[Path], Peer]] = {
    "ours": lambda _: python_peer("ours", "gold/bench__t0"),
    "notebook": lambda _: python_peer("notebook", "t0"),
    "hudi": hudi,
    "flink-sql": flink_sql,
    "paimon-action": paimon_action,
}
