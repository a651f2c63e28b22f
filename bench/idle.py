"""What a run costs that finds nothing new, or one message, against what there is already:

    python -m bench.idle partitions 10 1000 10000    of one table's feed
    python -m bench.idle tables 10 200               of three partitions
    python -m bench.idle runs 10 10000               that the ops log tells of, of a source of 100 tables

A recording of the feed (TiCDC Open Protocol, one row of each table, or of each partition) goes through all
layers; then come two idle runs and two runs with one message each, of which the second is told: the first one
of its kind warms up. A run with one message applies what has arrived (`consistency: eventual`). Spark jobs
and Delta commits are counted, memory is what this process and its JVM hold after the run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from msgspec.structs import replace

from bench.bench import quiet
from lakehouse.config.load import Config
from lakehouse.config.models import SourceConfig
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.ops.progress import Counts
from lakehouse.ops.records import Done, Manifest, Planned, Record, Run, encode
from lakehouse.sources.recording import write_recording
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import SCHEMA, OpsLog
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session

TS = 470_606_995_725_312_000
HEAD = [
    "| {} | run | seconds | Spark jobs | commits | Python, MiB | JVM, MiB |",
    "|---|---|---|---|---|---|---|",
]


@dataclass
class Feed:
    """Messages of tables over partitions; every partition has its own offsets."""

    tables: int
    partitions: int
    ts: int = TS

    def __post_init__(self) -> None:
        self.offsets = [0] * self.partitions

    def message(self, partition: int, key: dict[str, object], value: object) -> Message:
        self.offsets[partition] += 1
        text = b"" if value is None else json.dumps(value).encode()
        coded = framed([json.dumps(key).encode()], [text])
        return Message("shop", partition, self.offsets[partition] - 1, *coded)

    def everything(self) -> Iterator[Message]:
        for number in range(self.tables):
            self.ts += 1
            key = {"ts": self.ts, "scm": "shop", "tbl": f"t{number}", "t": 2}
            sql = f"CREATE TABLE `shop`.`t{number}` (id INT PRIMARY KEY, v INT)"
            yield self.message(number % self.partitions, key, {"q": sql, "t": 3})
        for number in range(max(self.tables, self.partitions)):
            yield self.row(number)
        self.ts += 1
        for number in range(self.partitions):
            yield self.message(number, {"ts": self.ts, "t": 3}, None)

    def row(self, number: int) -> Message:
        self.ts += 1
        key = {"ts": self.ts, "scm": "shop", "tbl": f"t{number % self.tables}", "t": 1}
        image = {"id": {"t": 3, "h": True, "f": 11, "v": number}, "v": {"t": 3, "f": 64, "v": self.ts % 1000}}
        return self.message(number % self.partitions, key, {"u": image})


@dataclass(frozen=True)
class Place:
    """Where the feed's recording and its lake lie."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def write(self, messages: list[Message]) -> None:
        write_recording(messages, self.folder / "shop.jsonl")

    def run(self) -> None:
        source = SourceConfig(
            format="ticdc-open",
            recording=[str(self.folder / "shop.jsonl")],
            time_zone="UTC",
            tables="auto",
            consistency="eventual",
        )
        run(Config({"shop": source}, {}, {}), ("bronze", "silver", "gold"), True, (), str(self.lake), quiet)

    @property
    def commits(self) -> int:
        return len(list(self.lake.glob("*/*/_delta_log/*.json")))


def jobs() -> int:
    return int(get_session().sparkContext._jsc.sc().dagScheduler().nextJobId())


def memory(pid: int | str) -> int:
    """MiB that a process holds."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) // 1024


def jvm() -> int:
    handle = get_session().sparkContext._jvm.java.lang.ProcessHandle.current()
    return memory(handle.pid())


def measured(place: Place) -> str:
    """One run, as the end of a table's line."""
    began, before, written = time.monotonic(), jobs(), place.commits
    place.run()
    taken = time.monotonic() - began
    counted = f"{taken:.1f} | {jobs() - before} | {place.commits - written}"
    return f"{counted} | {memory('self')} | {jvm()} |"


def lines_of(number: int, feed: Feed, folder: Path, past: int = 0) -> Iterator[str]:
    """The lines of one lake."""
    place = Place(folder / f"n{number}")
    place.folder.mkdir()
    place.write(list(feed.everything()))
    began = time.monotonic()
    place.run()
    told(f"{number}: loaded in {time.monotonic() - began:.0f} s")
    if past:
        add_runs(place, past)
    place.write([])
    for kind in ("idle", "one message"):
        for turn in range(2):
            if kind == "one message":
                place.write([feed.row(0)])
            line = f"| {number:,} | {kind} | {measured(place)}"
            told(f"{turn}: {line}")
        yield line


def add_runs(place: Place, past: int) -> None:
    """Past runs in the log, as if they had been: each with a batch of nothing and a manifest of the same."""
    spark, lake = get_session(), Lake(str(place.lake))
    log = OpsLog(spark, lake, "shop").load()
    planned, done = log.last(Planned), log.last(Done)
    manifest, last = log.last(Manifest), log.last(Run)
    assert planned and done and manifest and last
    records: list[Record] = []
    for number in range(done.batch + 1, done.batch + past + 1):
        records += [replace(planned, batch=number, ranges=()), replace(done, batch=number, counts=Counts())]
        records += [replace(manifest, batch=number), last]
    for first in range(0, len(records), 4_000):
        part = list(enumerate(records[first : first + 4_000], log.seq + 1))
        rows = [{"seq": seq, "kind": one.kind, "at": seq, "body": encode(one)} for seq, one in part]
        lake.append(spark.createDataFrame(pa.Table.from_pylist(rows), SCHEMA).coalesce(1), "ops", log.table)
        log.refresh()
        log.prune()


def told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("against", choices=["partitions", "tables", "runs"])
    parser.add_argument("numbers", type=int, nargs="+")
    given = parser.parse_args()
    get_session(app="bench")
    feeds = {
        "partitions": lambda n: (Feed(1, n), 0),
        "tables": lambda n: (Feed(n, 3), 0),
        "runs": lambda n: (Feed(100, 3), n),
    }
    print(*(line.format(given.against) for line in HEAD), sep="\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="lakehouse-idle-") as folder:
        for number in given.numbers:
            feed, past = feeds[given.against](number)
            for line in lines_of(number, feed, Path(folder), past):
                print(line, flush=True)
    print(f"load average {os.getloadavg()[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
