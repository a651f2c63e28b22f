"""A soak, one command: `python -m bench.soak --minutes 60 --tables 200 --partitions 300`.

Runs `lakehouse run all --continuous` as one process over a broker of its own, to which it publishes changes,
DDL and garbage all the time, and which it restarts. At the end gold is compared with a model of the tables,
row by row, the dead letters are dismissed, and every table is to be exact.

Every half a minute the JVM is made to collect its heap (with the jcmd of its JDK), and what is left of it,
its other memory and that of the Python processes are sampled. At the end of each quarter of the time nothing
is published until the run has caught up, and one more sample is taken: what is in the middle of a batch holds
hundreds of MB more. What may grow by a tenth after the second quarter are the heap's live objects and the
Python driver at these moments of rest; resident memory follows -Xmx, whatever lives.

Exit code 1 when they grew by more, or when a table differs. `--report FILE` writes the result as a section of
that page, such as docs/growth.md.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

from bench.growth import write_page
from bench.measure import proportional
from bench.memory import NATIVE, Sample, grown, sample
from lakehouse.demo.kafka_broker import Broker, start_broker
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.commit_files import small_table
from lakehouse.spark.session import get_session

DATABASE, TOPIC = "soak", "soak"
FIRST_TS = 470_606_995_725_312_000
LIMIT = 1.1
COLLECTED_EVERY = 30.0  # seconds
QUARTERS = 4
# how many seconds a run may take to publish all that it was sent, how many more pass before a sample, and of
# how many the least counts: a published run is not over, and tasks of the next one hold whole pages
CATCH_UP, IDLE, LOOKS = 1800.0, 20.0, 4
SOURCE = """format: ticdc-open
kafka: {{bootstrap_servers: '{bootstrap}', topics: [{topic}]}}
time_zone: UTC
tables: auto
"""
Row = dict[str, int | None]


class Model:
    """The tables as their source has them, and the messages that tell of each change."""

    def __init__(self, tables: int, partitions: int, seed: int) -> None:
        self.chance, self.ts, self.made = random.Random(seed), FIRST_TS, 0
        self.offsets = [0] * partitions
        self.columns: list[list[str]] = [["v"] for _ in range(tables)]
        self.rows: list[dict[int, Row]] = [{} for _ in range(tables)]

    def created(self) -> Iterator[Message]:
        for table in range(len(self.rows)):
            yield from self.ddl(table, f"CREATE TABLE `t{table}` (`id` BIGINT PRIMARY KEY, `v` INT)")

    def burst(self, count: int) -> Iterator[Message]:
        """So many changes of rows, and what lets them count."""
        for _ in range(count):
            yield self.change()
        yield from self.resolved()

    def change(self) -> Message:
        table = self.chance.randrange(len(self.rows))
        rows, dice = self.rows[table], self.chance.random()
        if len(rows) < 5 or dice < 0.4:
            self.made += 1
            rows[self.made] = self.drawn(table)
            return self.told(table, self.made, {"u": self.image(self.made, rows[self.made])})
        key = self.chance.choice(list(rows))
        old = self.image(key, rows[key])
        if dice < 0.8:
            rows[key] = self.drawn(table)
            return self.told(table, key, {"u": self.image(key, rows[key]), "p": old})
        del rows[key]
        return self.told(table, key, {"d": old})

    def drawn(self, table: int) -> Row:
        return {
            name: self.chance.choice([None, self.chance.randrange(10**6)]) for name in self.columns[table]
        }

    def image(self, key: int, row: Row) -> dict[str, Any]:
        cells = {name: {"t": 3, "f": 64, "v": value} for name, value in row.items()}
        return {"id": {"t": 8, "h": True, "f": 11, "v": key}, **cells}

    def altered(self) -> Iterator[Message]:
        """One DDL: a column more or less, another name, an empty table."""
        table = self.chance.randrange(len(self.rows))
        columns, rows, name = self.columns[table], self.rows[table], f"`t{table}`"
        dice = self.chance.random()
        if dice < 0.1:
            rows.clear()
            yield from self.ddl(table, f"TRUNCATE TABLE {name}")
        elif dice < 0.6 or len(columns) < 3:
            self.made += 1
            columns.append(f"c{self.made}")
            for row in rows.values():
                row[columns[-1]] = 7
            yield from self.ddl(table, f"ALTER TABLE {name} ADD COLUMN `{columns[-1]}` INT DEFAULT 7")
        elif dice < 0.8:
            gone = columns.pop()
            for row in rows.values():
                del row[gone]
            yield from self.ddl(table, f"ALTER TABLE {name} DROP COLUMN `{gone}`")
        else:
            self.made += 1
            old, columns[-1] = columns[-1], f"r{self.made}"
            for row in rows.values():
                row[columns[-1]] = row.pop(old)
            yield from self.ddl(table, f"ALTER TABLE {name} RENAME COLUMN `{old}` TO `{columns[-1]}`")

    def garbage(self) -> Message:
        return self.message(self.chance.randrange(len(self.offsets)), b'{"ts":', b"\x00garbage")

    def told(self, table: int, key: int, value: dict[str, Any]) -> Message:
        return self.message(
            key % len(self.offsets), self.key(t=1, tbl=f"t{table}"), json.dumps(value).encode()
        )

    def ddl(self, table: int, query: str) -> Iterator[Message]:
        return self.broadcast(self.key(t=2, tbl=f"t{table}"), json.dumps({"q": query, "t": 3}).encode())

    def resolved(self) -> Iterator[Message]:
        return self.broadcast(self.key(t=3), b"")

    def key(self, **more: Any) -> bytes:
        self.ts += 1 << 10
        return json.dumps({"ts": self.ts, "scm": DATABASE, **more}).encode()

    def broadcast(self, key: bytes, value: bytes) -> Iterator[Message]:
        return (self.message(partition, key, value) for partition in range(len(self.offsets)))

    def message(self, partition: int, key: bytes, value: bytes) -> Message:
        self.offsets[partition] += 1
        return Message(TOPIC, partition, self.offsets[partition] - 1, *framed([key], [value]))


class Run:
    """`run all --continuous` as a process, and its memory over time."""

    def __init__(self, root: Path, bootstrap: str, memory: str) -> None:
        self.root, self.begun = root, time.monotonic()
        (root / "configs/sources").mkdir(parents=True)
        (root / "configs/sources/soak.yml").write_text(SOURCE.format(bootstrap=bootstrap, topic=TOPIC))
        self.environment = {
            **os.environ,
            "LAKEHOUSE_DRIVER_MEMORY": memory,
            "LAKEHOUSE_JAVA_OPTIONS": NATIVE,
        }
        self.peaks: list[tuple[float, float]] = []  # when, and MB of the process tree
        self.samples: list[Sample] = []
        self.rests: list[Sample] = []  # when it had caught up, at the end of each quarter
        self.log = (root / "run.log").open("wb")
        self.process = subprocess.Popen(
            self.command("run", "all", "--continuous"), env=self.environment, stdout=self.log, stderr=self.log
        )
        self.watcher = Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def command(self, *words: str) -> list[str]:
        where = ["--configs", str(self.root / "configs"), "--lake", str(self.root / "lake")]
        return [sys.executable, "-m", "lakehouse.cli.main", *words, *where]

    def _watch(self) -> None:
        due = COLLECTED_EVERY
        while self.process.poll() is None:
            now = time.monotonic() - self.begun
            self.peaks.append((now, proportional(self.process.pid) / 1e6))
            if now >= due:
                due = now + COLLECTED_EVERY
                if found := sample(self.process.pid, now):
                    self.samples.append(found)
                    print(described(found), file=sys.stderr, flush=True)
            time.sleep(2)

    def rest(self, ts: int) -> None:
        """Wait until gold's watermark is at a commit ts, and take the least of some samples."""
        ends = time.monotonic() + CATCH_UP
        while self.published() < ts:
            if time.monotonic() > ends or self.process.poll() is not None:
                said = (self.root / "run.log").read_text()[-2000:]
                sys.exit(f"soak: the run does not catch up: {said}")
            time.sleep(1)
        looks = []
        for _ in range(LOOKS):
            time.sleep(IDLE)
            looks.append(sample(self.process.pid, time.monotonic() - self.begun))
        found = min((look for look in looks if look is not None), key=lambda look: look.verdict, default=None)
        if found is None:
            sys.exit("soak: no sample of the heap: is there a jcmd beside java?")
        self.rests.append(found)
        print(f"at rest, {described(found)}", file=sys.stderr, flush=True)

    def published(self) -> int:
        """The commit ts of the newest manifest's watermark."""
        table = small_table(self.root / "lake/ops/soak_log", ["seq", "kind", "body"])
        rows = () if table is None else table.to_pylist()
        manifests = [(row["seq"], row["body"]) for row in rows if row["kind"] == "manifest"]
        return json.loads(max(manifests)[1])["watermark"][1] if manifests else 0

    def stop(self) -> None:
        if self.process.poll() is not None:
            sys.exit(f"soak: the run ended by itself: {(self.root / 'run.log').read_text()[-2000:]}")
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(600)
        self.watcher.join()
        self.log.close()

    def finished(self) -> dict[str, Any]:
        """Run to the end, dismiss the letters, run once more, and return what that says of the tables."""
        once = self.command("run", "all", "--once", "--json")
        subprocess.run(once, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        words = ["dead-letters", "dismiss", TOPIC, "--why", "garbage", "--lake", str(self.root / "lake")]
        dismiss = [sys.executable, "-m", "lakehouse.cli.main", *words]
        subprocess.run(dismiss, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        said = subprocess.run(once, env=self.environment, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
        return found


def publish(model: Model, broker: Broker, run: Run, given: argparse.Namespace) -> dict[str, int]:
    """Publish until the time is over, with a rest at the end of each quarter; returns how much of what."""
    counts = {"changes": 0, "DDL": 0, "garbage": 0, "restarts": 0}
    length = 60 * given.minutes / QUARTERS
    for quarter in range(1, QUARTERS + 1):
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < length:
            produce(changes(model, counts, given), broker.bootstrap, TOPIC, partitions=given.partitions)
            if passed > length / 2 and counts["restarts"] < given.restarts * quarter // QUARTERS:
                broker.restart()
                counts["restarts"] += 1
            time.sleep(max(0.0, begun + passed + 1 - time.monotonic()))
        produce(list(model.resolved()), broker.bootstrap, TOPIC, partitions=given.partitions)
        run.rest(model.ts)
    return counts


def changes(model: Model, counts: dict[str, int], given: argparse.Namespace) -> list[Message]:
    """What is published in a second."""
    told = list(model.burst(given.rate))
    counts["changes"] += given.rate
    if model.chance.random() < 1 / given.ddl_every:
        told += model.altered()
        counts["DDL"] += 1
    if model.chance.random() < 1 / given.garbage_every:
        told.append(model.garbage())
        counts["garbage"] += 1
    return told


def differing(model: Model, lake: Path) -> list[str]:
    """The tables whose rows in gold are not the model's."""
    spark = get_session(app="bench")
    wrong = []
    for table, rows in enumerate(model.rows):
        held = spark.read.format("delta").load(f"{lake}/gold/{DATABASE}__t{table}").toArrow().to_pylist()
        names = {"id", *model.columns[table]}
        mine = {row["id"]: {name: row[name] for name in names - {"id"}} for row in held if names <= set(row)}
        if mine != rows or len(held) != len(rows):
            wrong.append(f"t{table}: gold has {len(held)} rows, the model {len(rows)}")
    return wrong


def described(found: Sample) -> str:
    figures = (f"{name} {getattr(found, name):,.0f}" for name in found._fields[1:-1])
    return f"{found.at:,.0f} s: {', '.join(figures)} MB"


def quarters(run: Run) -> list[list[Sample]]:
    """The samples of each quarter, with that of the rest which ends it."""
    begins = [0.0, *(rest.at for rest in run.rests)]
    return [
        [*(one for one in run.samples if begin < one.at < rest.at), rest]
        for begin, rest in zip(begins, run.rests, strict=False)
    ]


def growth(rests: list[Sample]) -> float:
    """How many times what it had after the second quarter what must not grow has after a later one."""
    second, *later = (one.verdict for one in rests[1:])
    return max(later) / second


def report(given: argparse.Namespace, run: Run, counts: dict[str, int], wrong: list[str]) -> list[str]:
    """The result as a table of quarters, and the classes that grew."""
    lines = [
        f"{given.tables} tables, {given.partitions} partitions, {given.minutes:g} minutes, a driver of"
        f" {given.memory}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}."
        f" {'; '.join(wrong) or 'Every table has the rows of the model, and is exact.'}",
        "In MB, each sample after a forced collection. At rest is when the run had caught up, at the end of"
        " a quarter; of the Python driver what it has allocated, without the pages of libraries, which it"
        " shares with what else runs; the highest live heap is of the middle of a batch; peak is the highest"
        " memory of the process tree, however much of it was garbage.",
        "",
        "| quarter | at rest: live heap | Python driver | Python workers | metaspace | code | other native"
        " | JVM resident | highest live heap | peak |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = ("live", "driver", "workers", "metaspace", "code", "native", "jvm")
    for number, part in enumerate(quarters(run), 1):
        rest, begun = part[-1], part[0].at
        cells = [getattr(rest, name) for name in names]
        cells.append(max(one.live for one in part))
        cells.append(max(size for at, size in run.peaks if begun - COLLECTED_EVERY <= at <= rest.at))
        lines.append(f"| {number} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |")
    ratio = f"{growth(run.rests):.2f} times; at most {LIMIT} was asked for."
    lines += [
        "",
        f"Live heap and Python driver at rest in the second half, against the second quarter: {ratio}",
    ]
    classes = grown(run.rests[1].classes, run.rests[3].classes, 8)
    told = (f"`{name}` {before / 1e6:.1f} to {after / 1e6:.1f}" for name, before, after in classes)
    return [*lines, "", f"What grew of the live heap, in MB: {'; '.join(told) or 'nothing'}."]


def said(given: argparse.Namespace) -> str:
    """The command that gives this result."""
    words = f"--minutes {given.minutes:g} --tables {given.tables} --partitions {given.partitions}"
    return f"python -m bench.soak {words} --rate {given.rate} --memory {given.memory}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--rate", type=int, default=40, help="changes a second")
    parser.add_argument("--ddl-every", type=float, default=15, help="seconds, on average")
    parser.add_argument("--garbage-every", type=float, default=30, help="seconds, on average")
    parser.add_argument("--restarts", type=int, default=2, help="of the broker")
    parser.add_argument("--memory", default="2g", help="the driver's memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histograms", type=Path, default=None, help="a file for all samples, as JSON")
    parser.add_argument("--report", type=Path, default=None, help="the page to write to")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    with (
        tempfile.TemporaryDirectory(prefix="lakehouse-soak-") as folder,
        start_broker(Path(folder) / "broker") as broker,
    ):
        model = Model(given.tables, given.partitions, given.seed)
        produce(list(model.created()), broker.bootstrap, TOPIC, partitions=given.partitions)
        run = Run(Path(folder), broker.bootstrap, given.memory)
        try:
            counts = publish(model, broker, run, given)
        finally:
            run.stop()
        tables = run.finished()["tables"]
        wrong = differing(model, run.root / "lake")
        wrong += [f"{one['table']}: {one['why']}" for one in tables if one["state"] != "exact"]
        if given.histograms:
            given.histograms.write_text("".join(json.dumps(one) + "\n" for one in (*run.samples, *run.rests)))
        lines = report(given, run, counts, wrong)
    print("\n".join(lines))
    if given.report:
        write_page(given.report, "soak", said(given), lines)
    sys.exit(1 if wrong or growth(run.rests) > LIMIT else 0)


if __name__ == "__main__":
    main()
