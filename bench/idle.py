"""What a run costs that has nothing to do, or one message, against what exists: partitions of the topic,
tables, runs that there were.

    python -m bench.idle [--partitions 10 1000 10000] [--tables 10 200 2000] [--runs 10 10000]

Each size is measured in a process of its own, whose session is warm: it creates the tables with one row each,
then runs all layers ROUNDS times without anything new, and as often with one changed row and a resolved event
in each partition. Seconds and CPU are medians, Spark jobs and commits those of the last run, and the memory
is what the JVM's heap holds after a collection at the end, and the resident memory of the Python process. The
result goes to docs/growth.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from bench.bench import children, quiet
from bench.growth import Feed, configuration, count_rows, publish, write_page
from bench.measure import Cost, measured
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.events import Message
from lakehouse.ops.progress import Counts
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Run
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session

ROUNDS = 3
AT_ONCE = 500  # past runs that are recorded in one commit
TOPIC = "t"
ONE_TOPIC, ALL_IN = 1_000, 100  # so many partitions are in one topic; of more, so many are in each


class Size(NamedTuple):
    """What exists."""

    partitions: int
    tables: int
    runs: int


class Measured(NamedTuple):
    """A kind of run: medians of seconds and CPU seconds, the Spark jobs and Delta commits of the last one."""

    wall: float
    cpu: float
    jobs: int
    commits: int


def measure(size: Size, root: Path) -> dict[str, Any]:
    """Create what exists, and measure both kinds of runs over it."""
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "broker") as broker:
        brokers = children() - before
        feed, lake = Feed(TOPIC, size.tables, 1, size.partitions), root / "lake"

        names = topic_names(size.partitions)
        config = configuration(broker.bootstrap, TOPIC, names)

        def tell(messages: Iterator[Message]) -> None:
            publish(spread(messages, names), broker.bootstrap, None, -(-size.partitions // len(names)))

        def changed() -> None:
            tell(feed.changes(1, "recent"))

        def once() -> None:
            run(config, LAYERS, True, (), str(lake), quiet)

        tell(feed.created())
        tell(feed.inserts(size.tables))
        first = cost_of(spark, lake, once, lambda: None, brokers, rounds=1)
        if size.runs:
            add_runs(spark, lake, size.runs)
        changed()
        once()  # warms what only a changed table needs
        idle = cost_of(spark, lake, once, lambda: None, brokers)
        one = cost_of(spark, lake, once, changed, brokers)
        if count_rows(spark, lake, TOPIC, size.tables) != feed.count:
            raise SystemExit(f"idle: gold has not the {feed.count:,} rows of the feed")
    spark.sparkContext._jvm.System.gc()
    heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    used = (heap.totalMemory() - heap.freeMemory()) / 1e6
    return {"first": first, "idle": idle, "one": one, "heap": used, "python": resident() / 1e6}


def topic_names(partitions: int) -> list[str]:
    """One topic, or as many as have ALL_IN partitions each: who has thousands has many topics, and each of
    Spark's consumers asks for all partitions of its topic.
    """
    topics = 1 if partitions <= ONE_TOPIC else -(-partitions // ALL_IN)
    return [TOPIC] if topics == 1 else [f"{TOPIC}{number}" for number in range(topics)]


def spread(messages: Iterator[Message], names: list[str]) -> Iterator[Message]:
    """The messages in their topics; those with DDL in the first one alone."""
    for message in messages:
        topic, partition = divmod(message.partition, ALL_IN) if len(names) > 1 else (0, message.partition)
        if not topic or b'"t":2' not in (message.key or b""):
            yield replace(message, topic=names[topic], partition=partition)


def cost_of(
    spark: Any,
    lake: Path,
    once: Callable[[], None],
    prepare: Callable[[], None],
    brokers: frozenset[int],
    *,
    rounds: int = ROUNDS,
) -> Measured:
    """Run `rounds` times, each time after `prepare`."""
    costs: list[Cost] = []
    jobs = commits = 0
    for _ in range(rounds):
        prepare()
        jobs, commits = jobs_so_far(spark), commits_of(lake)
        with measured(costs.append, brokers):
            once()
        jobs, commits = jobs_so_far(spark) - jobs, commits_of(lake) - commits
    wall, cpu = (statistics.median(values) for values in zip(*(cost[:2] for cost in costs), strict=True))
    return Measured(wall, cpu, jobs, commits)


def jobs_so_far(spark: Any) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def commits_of(lake: Path) -> int:
    return sum(path.stem.isdecimal() for path in lake.glob("*/*/_delta_log/*.json"))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def add_runs(spark: Any, lake: Path, runs: int) -> None:
    """Record so many runs of one message each, as if they had been: what they wrote is what is there."""
    log = OpsLog(spark, Lake(str(lake)), TOPIC).load()
    plan, done, manifest, told = log.last(Planned), log.last(Done), log.last(Manifest), log.last(Run)
    assert plan and done and manifest and told
    batch = done.batch
    for first in range(1, runs + 1, AT_ONCE):
        began, records = log.seq, list[Record]()
        for number in range(batch + first, batch + min(first + AT_ONCE, runs + 1)):
            records += [
                replace(plan, batch=number, ranges=()),
                replace(done, batch=number, counts=Counts()),
                replace(manifest, batch=number),
                told,
            ]
        log.add_all(records)
        log.tidy(began)


def line(label: str, size: int, found: dict[str, Any]) -> str:
    idle, one = Measured(*found["idle"]), Measured(*found["one"])
    return (
        f"| {label} | {size:,} | {idle.wall:.1f} | {idle.cpu:.1f} | {idle.jobs} | {idle.commits} "
        f"| {one.wall:.1f} | {one.cpu:.1f} | {one.jobs} | {one.commits} "
        f"| {found['heap']:.0f} | {found['python']:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.idle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--partitions", type=int, nargs="*", default=[10, 1_000, 10_000])
    parser.add_argument("--tables", type=int, nargs="*", default=[10, 200, 2_000])
    parser.add_argument("--runs", type=int, nargs="*", default=[10, 10_000])
    parser.add_argument("--report", type=Path, default=Path("docs/growth.md"))
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with tempfile.TemporaryDirectory(prefix="lakehouse-idle-") as folder:
            print(json.dumps(measure(Size(*given.one), Path(folder))))
        return
    sizes = [
        *(("partitions", count, Size(count, 10, 0)) for count in given.partitions),
        *(("tables", count, Size(3, count, 0)) for count in given.tables),
        *(("past runs", count, Size(3, 10, count)) for count in given.runs),
    ]
    lines = list(HEADER)
    for label, count, size in sizes:
        command = [sys.executable, "-m", "bench.idle", "--one", *map(str, size)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines.append(line(label, count, json.loads(done.stdout.splitlines()[-1])))
        print(lines[-1], file=sys.stderr, flush=True)
    memory = os.environ.get("LAKEHOUSE_DRIVER_MEMORY")
    said = f"{f'LAKEHOUSE_DRIVER_MEMORY={memory} ' if memory else ''}python -m bench.idle"
    write_page(given.report, "idle", said, lines)


HEADER = (
    "What a run costs that has nothing to do, and one that has one changed row and a resolved event in each"
    " partition, all three layers in a warm session; medians of three.",
    "Ten tables where it says nothing else, three partitions, no past runs. Heap is what the JVM holds after"
    " a collection; Python's memory is resident.",
    "",
    "| of | there are | idle: s | CPU s | jobs | commits | one message: s | CPU s | jobs | commits | heap MB"
    " | Python MB |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)


if __name__ == "__main__":
    main()
