"""A backlog through a small driver, one command: `python -m bench.backlog --megabytes 2048`.

Publishes seeded Open Protocol messages of that size to a broker of its own, runs `lakehouse run all --once`
with a driver of 2 GB, and samples the memory of its whole process tree (Python, JVM, Python workers; without
the broker). Memory that grows with the backlog would show in the second half of the run: its peak may be at
most 1.1 times that of the first. `--report FILE` writes the result as a page. Exit code 1 when it is
exceeded, or when a row is missing at the end.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing import Process
from pathlib import Path
from threading import Thread
from typing import Any

from bench.generate import DATABASE, FIRST_TS, PARTITIONS, RESOLVED_EVERY, TOPIC, WIDE, Topic, image
from bench.measure import proportional
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.events import Message
from lakehouse.sources.kafka_admin import list_topics
from lakehouse.sources.kafka_produce import produce

CHUNK = 20_000
RECENT = 1_000
LIMIT = 1.1
SOURCE = (
    "format: ticdc-open\nkafka: {{bootstrap_servers: '{bootstrap}', topics: "
    "[{topic}]}}\ntime_zone: UTC\ntables: auto\n"
)
Sample = tuple[float, int]


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="lakehouse-backlog-", dir=given.folder) as folder:
        root = Path(folder)
        with start_broker(root / "broker") as broker:
            publisher = Process(
                target=publish, args=(broker.bootstrap, given.megabytes * 10**6, given.tables, given.seed)
            )
            publisher.start()
            publisher.join()
            if publisher.exitcode:
                sys.exit("backlog: the messages could not be published")
            messages = sum(
                end - first
                for topic in list_topics(broker.bootstrap, {}, [TOPIC], None)
                for first, end in topic.offsets.values()
            )
            run = Run(root, broker.bootstrap, given.memory)
            run.go()
    found = {"messages": messages, **run.result()}
    text = report(given, found)
    print(text)
    if given.report:
        given.report.write_text(text)
    sys.exit(0 if found["whole"] and found["ratio"] <= LIMIT else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.backlog", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048, help="the size of the backlog")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--memory", default="2g", help="the driver's memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where broker and lake may lie while it runs"
    )
    parser.add_argument("--report", type=Path, default=None, help="the file to write, such as backlog.md")
    return parser.parse_args()


def publish(bootstrap: str, size: int, tables: int, seed: int) -> None:
    """Publish messages of `size` bytes, in a process of its own whose memory nobody counts."""
    stream = generate(size, tables, seed)
    while chunk := list(islice(stream, CHUNK)):
        produce(chunk, bootstrap, TOPIC, partitions=PARTITIONS)


def generate(size: int, tables: int, seed: int) -> Iterator[Message]:
    """Wide rows of some tables: six inserts to three updates to one delete, updates and deletes of recent
    rows.
    """
    chance, topic, ts, made = random.Random(seed), Topic(), FIRST_TS, 0
    columns = ", ".join(f"`{field.name}` {field.sql}" for field in WIDE)
    for number in range(tables):
        ts += 1 << 18
        key = {"ts": ts, "scm": DATABASE, "tbl": f"t{number}", "t": 2}
        yield from topic.broadcast(key, {"q": f"CREATE TABLE `t{number}` ({columns})", "t": 3})
    recent: list[dict[int, dict[str, Any]]] = [{} for _ in range(tables)]
    number = 0
    while made < size:
        ts += chance.randrange(1, 1 << 20)
        table = number % tables
        row, value = change(chance, recent[table], number)
        message = topic.message(
            row % PARTITIONS, {"ts": ts, "scm": DATABASE, "tbl": f"t{table}", "t": 1}, value
        )
        made += len(message.key or b"") + len(message.value or b"")
        yield message
        number += 1
        if number % RESOLVED_EVERY == 0:
            yield from topic.broadcast({"ts": ts, "t": 3}, None)
    yield from topic.broadcast({"ts": ts + 1, "t": 3}, None)


def change(
    chance: random.Random, recent: dict[int, dict[str, Any]], number: int
) -> tuple[int, dict[str, Any]]:
    """One change; `recent` keeps the images of the last rows alone."""
    dice = chance.random()
    if len(recent) < RECENT or dice < 0.6:
        recent[number] = image(chance, number, WIDE)
        if len(recent) > RECENT:
            recent.pop(next(iter(recent)))
        return number, {"u": recent[number]}
    key = next(islice(recent, chance.randrange(RECENT // 2), None))
    if dice < 0.9:
        old, recent[key] = recent[key], image(chance, key, WIDE)
        return key, {"u": recent[key], "p": old}
    return key, {"d": recent.pop(key)}


class Run:
    """One `run all --once` as a process of its own, its progress with the time of each line, and
    its memory.
    """

    def __init__(self, root: Path, bootstrap: str, memory: str) -> None:
        self.lake = root / "lake"
        (root / "configs/sources").mkdir(parents=True)
        (root / "configs/sources/backlog.yml").write_text(SOURCE.format(bootstrap=bootstrap, topic=TOPIC))
        self.command = [
            sys.executable,
            "-m",
            "lakehouse.cli.main",
            "run",
            "all",
            "--once",
            "--json",
            "--configs",
            str(root / "configs"),
            "--lake",
            str(self.lake),
        ]
        self.environment = {**os.environ, "LAKEHOUSE_DRIVER_MEMORY": memory}
        self.samples: list[Sample] = []
        self.lines: list[tuple[float, str]] = []
        self.outcome: dict[str, Any] = {}

    def go(self) -> None:
        begun = time.monotonic()
        with subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            listener = Thread(target=self._listen, args=(process.stderr, begun))
            listener.start()
            while process.poll() is None:
                self.samples.append((time.monotonic() - begun, proportional(process.pid)))
                time.sleep(0.5)
            listener.join()
            said = process.stdout.read() if process.stdout else ""
        if process.returncode:
            sys.exit(f"backlog: the run failed: {self.lines[-1][1] if self.lines else 'no word'}")
        self.outcome = json.loads(said.splitlines()[-1])

    def _listen(self, stream: Any, begun: float) -> None:
        for line in stream:
            self.lines.append((time.monotonic() - begun, line.rstrip()))
            print(f"{self.lines[-1][0]:8.1f} s  {self.lines[-1][1]}", file=sys.stderr, flush=True)

    def result(self) -> dict[str, Any]:
        first, second = halves(self.samples, 0, self.samples[-1][0])
        tables = self.outcome["tables"]
        return {
            "wall": self.samples[-1][0],
            "first": first,
            "second": second,
            "ratio": second / first,
            "layers": {
                name: (end - begin, *halves(self.samples, begin, end)) for name, begin, end in self.layers()
            },
            "landed": self.outcome["new_messages"],
            "batches": self.outcome["silver_batches"],
            "tables": len(tables),
            "whole": bool(tables) and all(table["state"] == "exact" for table in tables),
        }

    def layers(self) -> Iterator[tuple[str, float, float]]:
        """When each layer worked: it says a line at the end of each of its batches."""
        begin = 0.0
        for name in ("bronze", "silver", "gold"):
            ends = [at for at, line in self.lines if line.startswith(name)]
            if ends:
                yield name, begin, ends[-1]
                begin = ends[-1]


def halves(samples: list[Sample], begin: float, end: float) -> tuple[float, float]:
    """The peak in MB before and after the middle of a stretch of time."""
    middle = (begin + end) / 2
    parts = [
        [size for at, size in samples if low <= at <= high] for low, high in ((begin, middle), (middle, end))
    ]
    first, second = (max(part, default=0) / 1e6 for part in parts)
    return first, second


def report(given: argparse.Namespace, found: dict[str, Any]) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    rows = [("**the whole run**", found["wall"], found["first"], found["second"])]
    rows += [(name, *figures) for name, figures in found["layers"].items()]
    lines = [
        "# A backlog through a small driver",
        "",
        (
            f"    python -m bench.backlog --megabytes {given.megabytes} --tables {given.tables} "
            f"--memory {given.memory} --seed {given.seed}"
        ),
        "",
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} "
        f"{platform.machine()}, Python"
        f" {platform.python_version()}; load average {os.getloadavg()[2]:.1f}.",
        f"`lakehouse run all --once` with a driver of {given.memory}: {given.megabytes:,} MB of "
        f"Open Protocol messages in {given.tables}"
        " wide tables (40 columns),",
        f"{found['messages']:,} messages; {found['landed']:,} landed, {found['batches']} silver "
        f"batches, {found['tables']} gold tables,"
        f" {'all exact' if found['whole'] else 'NOT all exact'}.",
        "",
        (
            "Peak of the memory of the process tree (Python, JVM, Python workers; pages that processes "
            "share are divided among them), in MB:"
        ),
        "",
        "| | wall s | first half | second half |",
        "|---|---|---|---|",
        *[f"| {name} | {wall:,.0f} | {first:,.0f} | {second:,.0f} |" for name, wall, first, second in rows],
        "",
        f"The second half's peak is {found['ratio']:.2f} times the first's; at most {LIMIT} was asked for.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
