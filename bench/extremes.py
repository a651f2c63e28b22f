"""What a small driver holds when one batch is extreme, one command:

    LAKEHOUSE_DRIVER_MEMORY=1g python -m bench.extremes [--only hot_key …] [--scale 1.0] [--report FILE]

Each case is a process of its own: a first run creates the table, and a second one takes the extreme batch
through all layers. The memory is the peak of the second run, sampled: the Python driver's, the JVM's, and
that of Python workers together. A case whose memory follows its size shows it against `--scale 0.1`.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.growth import write_page
from bench.measure import tree
from lakehouse.config.load import Config
from lakehouse.config.models import SourceConfig
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.recording import write_recording
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session

T = 470_606_995_725_312_000
ROWS_A_MESSAGE = 100
ID = '"id":{{"t":8,"h":true,"f":11,"v":{}}}'
Event = tuple[bytes, bytes]


def row(ts: int, image: str, old: str = "") -> Event:
    """A row event of the table d.t."""
    before = f',"p":{{{old}}}' if old else ""
    return f'{{"ts":{T + ts},"scm":"d","tbl":"t","t":1}}'.encode(), f'{{"u":{{{image}}}{before}}}'.encode()


def ddl(ts: int, query: str, table: str = "t") -> Event:
    key = f'{{"ts":{T + ts},"scm":"d","tbl":"{table}","t":2}}'
    return key.encode(), json.dumps({"q": query, "t": 3}).encode()


def resolved(ts: int) -> Event:
    return f'{{"ts":{T + ts},"t":3}}'.encode(), b""


def hot_key(count: int) -> Iterator[Event]:
    """One key, with so many versions."""
    for n in range(count):
        image, old = (f'{ID.format(1)},"v":{{"t":3,"f":1,"v":{v}}}' for v in (n + 1, n))
        yield row(100 + n, image, old)


def transaction(count: int) -> Iterator[Event]:
    """One commit of so many rows."""
    return (row(100, f'{ID.format(n + 2)},"v":{{"t":3,"f":1,"v":{n}}}') for n in range(count))


def equal_rows(count: int) -> Iterator[Event]:
    """So many equal rows of a table without a key."""
    return (row(100 + n // 50_000, '"a":{"t":3,"f":1,"v":7}') for n in range(count))


def large_rows(count: int) -> Iterator[Event]:
    """Few rows of many bytes, which the feed sends as base64."""
    body = "eHh4" * 20_000
    return (
        row(100 + n, f'{ID.format(n + 2)},"v":{{"t":252,"f":64,"v":"{_base64(n)}{body}"}}')
        for n in range(count)
    )


def _base64(n: int) -> str:
    return base64.b64encode(f"{n:06}".encode()).decode()


def ddl_storm(count: int) -> Iterator[Event]:
    """DDLs that add columns, rename one and drop them again, with a row now and then."""
    for n in range(count):
        kinds = f"ADD COLUMN c{n} INT", f"RENAME COLUMN c{n - 1} TO r{n}", f"DROP COLUMN r{n - 1}"
        yield ddl(100 + 2 * n, f"ALTER TABLE t {kinds[n % 3]}")
        if n % 30 == 29:
            yield row(101 + 2 * n, f'{ID.format(n)},"v":{{"t":3,"f":1,"v":{n}}}')


def wide(count: int) -> Iterator[Event]:
    """Rows of a table with a thousand columns."""
    for n in range(count):
        cells = ",".join(f'"c{number}":{{"t":3,"f":1,"v":{n + number}}}' for number in range(1000))
        yield row(100 + n, f"{ID.format(n + 2)},{cells}")


def garbage(count: int) -> Iterator[Event]:
    """Row events that can't be decoded."""
    return ((f'{{"ts":{T + 100 + n},"scm":"d","tbl":"t","t":1}}'.encode(), b'{"u":[') for n in range(count))


KEYED = "CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)"
WIDE = ", ".join(f"c{number} INT" for number in range(1000))
# by name: the events, how many, the CREATE, rows in a message
CASES: dict[str, tuple[Callable[[int], Iterator[Event]], int, str, int]] = {
    "hot_key": (hot_key, 200_000, KEYED, ROWS_A_MESSAGE),
    "dead_letters": (garbage, 100_000, KEYED, 1),
    "equal_rows": (equal_rows, 1_000_000, "CREATE TABLE t (a INT)", ROWS_A_MESSAGE),
    "transaction": (transaction, 1_000_000, KEYED, ROWS_A_MESSAGE),
    "ddl_storm": (ddl_storm, 2_000, KEYED, 1),
    "thousand_columns": (wide, 5_000, f"CREATE TABLE t (id BIGINT PRIMARY KEY, {WIDE})", 5),
    "large_rows": (large_rows, 20_000, "CREATE TABLE t (id BIGINT PRIMARY KEY, v LONGTEXT)", 5),
}


def messages(events: Iterator[Event], size: int, begin: int) -> Iterator[Message]:
    offset = begin
    while some := list(islice(events, size)):
        yield Message("t", 0, offset, *framed([key for key, _ in some], [value for _, value in some]))
        offset += 1


class Memory:
    """The peak of each kind of process, in MB."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        me = os.getpid()
        while not self.ended.wait(0.2):
            sums: dict[str, float] = {}
            for (pid, _), program, _, resident in tree(me, frozenset()):
                kind = "driver" if pid == me else "jvm" if program == "java" else "workers"
                sums[kind] = sums.get(kind, 0) + resident / 1e6
            self.peaks |= {kind: max(size, self.peaks.get(kind, 0)) for kind, size in sums.items()}

    def __enter__(self) -> "Memory":
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.watcher.join()


def measure(name: str, scale: float, root: Path) -> dict[str, Any]:
    """Run one case."""
    make, number, create, size = CASES[name]
    count = int(number * scale)
    first, second, last = root / "first.jsonl", root / "second.jsonl", root / "last.jsonl"
    begun = [ddl(1, create)]
    write_recording(messages(iter([*begun, resolved(3)]), 1, 0), first)
    written = write_recording(messages(make(count), size, 3), second)
    write_recording(messages(iter([resolved(10_000_000)]), 1, 3 + written), last)

    def say(line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    def once(paths: list[Path]) -> None:
        source = SourceConfig(
            format="ticdc-open",
            recording=list(map(str, paths)),
            time_zone="UTC",
            tables="auto",
            consistency="resolved",
        )
        run(Config({"s": source}, {}, {}), LAYERS, True, (), str(root / "lake"), say)

    once([first])
    with Memory() as memory:
        begun_at = time.monotonic()
        once([first, second, last])
        wall = time.monotonic() - begun_at
    manifest = OpsLog(get_session(), Lake(str(root / "lake")), "s").load().last(Manifest)
    states = [f"{one.name} {one.state} {one.why or ''}"[:120] for one in manifest.tables] if manifest else []
    rows = get_session().read.format("delta").load(str(root / "lake/gold/d__t")).count()
    return {"case": name, "count": count, "wall": wall, "rows": rows, "states": states, **memory.peaks}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.extremes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the counts of rows, letters and DDLs")
    parser.add_argument("--report", type=Path, default=None, help="the page to write to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with tempfile.TemporaryDirectory(prefix="lakehouse-extremes-") as folder:
            print(json.dumps(measure(given.one, given.scale, Path(folder))))
        return
    lines = list(HEADER)
    for name in given.only:
        command = [sys.executable, "-m", "bench.extremes", "--one", name, "--scale", str(given.scale)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        label = name.replace("_", " ")
        lines.append(
            f"| {label} | failed | | | | | |"
            if done.returncode
            else line(label, json.loads(done.stdout.splitlines()[-1]))
        )
        print(lines[-1], flush=True)
    if given.report:
        memory = os.environ.get("LAKEHOUSE_DRIVER_MEMORY", "2g")
        write_page(
            given.report, "extremes", f"LAKEHOUSE_DRIVER_MEMORY={memory} python -m bench.extremes", lines
        )


def line(label: str, found: dict[str, Any]) -> str:
    return (
        f"| {label} | {found['count']:,} | {found['wall']:.0f} | {found['rows']:,} "
        f"| {found.get('driver', 0):.0f} | {found.get('jvm', 0):.0f} | {found.get('workers', 0):.0f} |"
    )


HEADER = (
    "One batch through all layers, after a first run that created its table. Memory is the highest resident"
    " memory of the Python driver, of the JVM, and of Python's workers together.",
    "",
    "| in one batch | of it | s | rows in gold | driver MB | JVM MB | workers MB |",
    "|---|---|---|---|---|---|---|",
)


if __name__ == "__main__":
    main()
