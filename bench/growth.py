"""What grows with the table, and with the number of tables, one command each:

    python -m bench.growth rows     100,000 changes merged into 1 million rows, and into 10 million
    python -m bench.growth tables   2 million changes of one table, and of 200 tables
    python -m bench.growth keys     1,000 changes of 10 million rows with a key, and of as many without one

`rows` loads two lakes (their first rows from a broker of its own, the others written into silver, all folded
by gold) and then gives both the same batches in turn, through all layers: first *recent* ones (six inserts to
four updates of the newest rows), then *scattered* ones (updates of rows anywhere, which leave no file as it
was). Each figure is the median of the rounds, in CPU of the whole process tree, after a batch of each kind
that is not counted. `tables` runs the whole path twice in one session. `keys` loads twins of the second size
as `rows` does, and gives both inserts, updates and deletes of rows anywhere. The result goes to
docs/growth.md, a section per command.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from pyspark.sql import functions as F

from bench.bench import children, quiet
from bench.generate import DATABASE, FIRST_TS, NARROW, PARTITIONS
from bench.measure import Cost, measured
from bench.report import plot
from lakehouse.config.load import Config
from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.ops.records.silver import Done
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session, many_rows

BATCH = 16  # row events a message, TiCDC's max-batch-size by default
CHUNK = 50_000
KINDS = ("recent", "scattered")
KEY_KINDS = ("inserts", "updates", "deletes")
NEWEST = 10_000
FIRST = 2_000  # of the rows that are loaded, so many go through all layers
Costs = dict[tuple[str, ...], list[Cost]]


class Feed:
    """A topic of narrow tables whose rows are a function of their key and version, so that none is kept."""

    def __init__(
        self, topic: str, tables: int, seed: int, partitions: int = PARTITIONS, *, keyed: bool = True
    ) -> None:
        self.keyed, self.deleted = keyed, set[int]()
        self.topic, self.tables, self.chance, self.ts = topic, tables, random.Random(seed), FIRST_TS
        self.offsets, self.count = [0] * partitions, 0
        self.versions: dict[int, int] = {}

    def created(self) -> Iterator[Message]:
        columns = ", ".join(f"`{field.name}` {field.sql}" for field in NARROW)
        columns = columns if self.keyed else columns.replace(" PRIMARY KEY", "")
        for number in range(self.tables):
            self.ts += 1 << 18
            key = f'{{"ts":{self.ts},"scm":"{DATABASE}","tbl":"t{number}","t":2}}'
            yield from self.broadcast(key, f'{{"q":"CREATE TABLE `t{number}` ({columns})","t":3}}')

    def inserts(self, count: int) -> Iterator[Message]:
        return self.told(self.insert() for _ in range(count))

    def changes(self, count: int, kind: str) -> Iterator[Message]:
        """A batch of one kind: `recent`, `scattered`, `in part`, or one of KEY_KINDS."""
        if kind == "in part":
            return self.told(self.part() for _ in range(count))
        if kind in KEY_KINDS:
            one = {"inserts": self.insert, "updates": self.update, "deletes": self.delete}[kind]
            return self.told(one() for _ in range(count))
        return self.told(
            self.insert() if kind == "recent" and self.chance.random() < 0.6 else self.update(kind)
            for _ in range(count)
        )

    def insert(self) -> tuple[int, str]:
        self.count += 1
        return self.count, f'{{"u":{self.image(self.count, 0)}}}'

    def image(self, key: int, version: int) -> str:
        """A row on the wire."""
        text = image(key, version)
        return text if self.keyed else text.replace('"h":true,"f":11', '"f":1')

    def delete(self) -> tuple[int, str]:
        key = self.chance.randint(1, self.count)
        while key in self.deleted:
            key = self.chance.randint(1, self.count)
        self.deleted.add(key)
        return key, f'{{"d":{self.image(key, self.versions.get(key, 0))}}}'

    def update(self, kind: str = "scattered") -> tuple[int, str]:
        lowest = max(1, self.count - NEWEST) if kind == "recent" else 1
        key = self.chance.randint(lowest, self.count)
        old = self.versions.get(key, 0)
        self.versions[key] = old + 1
        return key, f'{{"u":{self.image(key, old + 1)},"p":{self.image(key, old)}}}'

    def part(self) -> tuple[int, str]:
        """An update that tells some columns alone, with the values that they have."""
        key = self.chance.randint(1, self.count)
        cells = json.loads(self.image(key, self.versions.get(key, 0)))
        told = {name: cells[name] for name in ("id", "customer")}
        return key, json.dumps({"u": told, "p": told})

    def told(self, events: Iterable[tuple[int, str]]) -> Iterator[Message]:
        """Row events as messages of some events each, and a resolved event behind them."""
        waiting: list[tuple[list[bytes], list[bytes]]] = [([], []) for _ in self.offsets]
        for key, value in events:
            self.ts += 1 << 10
            keys, values = waiting[key % len(self.offsets)]
            keys.append(f'{{"ts":{self.ts},"scm":"{DATABASE}","tbl":"t{key % self.tables}","t":1}}'.encode())
            values.append(value.encode())
            if len(keys) == BATCH:
                yield self.message(key % len(self.offsets), keys, values)
                waiting[key % len(self.offsets)] = [], []
        yield from (self.message(partition, *rest) for partition, rest in enumerate(waiting) if rest[0])
        self.ts += 1 << 18
        yield from self.broadcast(f'{{"ts":{self.ts},"t":3}}', "")

    def message(self, partition: int, keys: list[bytes], values: list[bytes]) -> Message:
        self.offsets[partition] += 1
        return Message(self.topic, partition, self.offsets[partition] - 1, *framed(keys, values))

    def broadcast(self, key: str, value: str) -> Iterator[Message]:
        return (
            self.message(partition, [key.encode()], [value.encode()])
            for partition in range(len(self.offsets))
        )


def image(key: int, version: int) -> str:
    """A row on the wire."""
    mixed = (key * 2654435761 + version * 40503) & 0xFFFFFFFF
    return (
        f'{{"id":{{"t":8,"h":true,"f":11,"v":{key}}},'
        f'"customer":{{"t":15,"f":64,"v":"{mixed:08x}{mixed * 7:010x}"}},'
        f'"amount":{{"t":246,"f":65,"v":"{mixed % 99999999}.{mixed % 90 + 10}"}},'
        f'"quantity":{{"t":3,"f":65,"v":{mixed >> 1}}},'
        f'"at":{{"t":12,"f":65,"v":"2026-11-{mixed % 28 + 1:02} '
        f'12:30:{mixed % 60:02}.{mixed % 1000000:06}"}}}}'
    )


def publish(
    messages: Iterator[Message], bootstrap: str, topic: str | None, partitions: int = PARTITIONS
) -> None:
    while chunk := list(islice(messages, CHUNK)):
        produce(chunk, bootstrap, topic, quiet, partitions=partitions)


def configuration(bootstrap: str, topic: str, topics: list[str] | None = None) -> Config:
    kafka = KafkaInput(bootstrap_servers=bootstrap, topics=topics or [topic])
    return Config(
        {
            topic: SourceConfig(
                format="ticdc-open", kafka=kafka, time_zone="UTC", tables="auto", consistency="resolved"
            )
        },
        {},
        {},
    )


def passed(
    bootstrap: str, topic: str, lake: Path, costs: Costs, key: tuple[str, ...], brokers: frozenset[int]
) -> None:
    """One pass of each layer over what is new."""
    for layer in LAYERS:
        with measured(costs.setdefault((*key, layer), []).append, brokers):
            run(configuration(bootstrap, topic), (layer,), True, (), str(lake), quiet)
        cost = costs[(*key, layer)][-1]
        print(
            f"{' '.join((*key, layer)):40} {cost.wall:7.1f} s  {cost.cpu:7.1f} CPU s",
            file=sys.stderr,
            flush=True,
        )


def multiply(spark: Any, root: Path, feed: Feed, count: int, began: int) -> None:
    """Write `count` further inserts into silver, as if they had come: what loading is for is to be there, and
    decoding takes an hour.

    `began` is the feed's time before its first insert. The inserts that came are written by the same
    expressions first, and must be equal.
    """
    lake = Lake(str(root))
    changes = lake.read(spark, "silver", f"{feed.topic}_changes")
    template = changes.limit(1)
    held = template.first().asDict(recursive=True)

    def written(first: int, last: int) -> Any:
        key, ts = F.col("id"), F.lit(began) + F.col("id") * 1024
        mixed = F.expr("(id * 2654435761) & 4294967295")
        parts = {
            "key": F.concat(F.lit("["), key, F.lit("]")) if feed.keyed else F.lit("[]"),
            "commit_ts": ts,
            "after": after(key, mixed),
            "position": F.struct(
                *[
                    (ts if name == "p1" else F.lit(value)).alias(name)
                    for name, value in held["position"].items()
                ]
            ),
        }
        others = [column for column in changes.columns if column not in parts]
        numbers = spark.range(first, last + 1, 1, max(2, (last - first) // 500_000))
        frame = numbers.crossJoin(F.broadcast(template.select(*others))).withColumns(parts)
        return frame.select(*[F.col(field.name).cast(field.dataType) for field in changes.schema.fields])

    compared = ["key", "commit_ts", "position", "op", "before", "after", "encoding"]
    if not written(1, feed.count).select(compared).exceptAll(changes.select(compared)).isEmpty():
        raise SystemExit("growth: the silver rows that are written are not those that came")
    with many_rows(spark):
        lake.append(written(feed.count + 1, feed.count + count), "silver", f"{feed.topic}_changes")
    log = OpsLog(spark, lake, feed.topic).load()
    done = log.last(Done)
    assert done is not None
    size = len(held["after"]) + len(held["key"] or "")
    feed.count += count
    feed.ts = began + feed.count * 1024
    tables = tuple(
        replace(
            table,
            n=table.n + count,
            rows=table.rows if table.rows is UNSET else table.rows + count,
            bytes=table.bytes + count * size,
            high=(table.high[0], feed.ts, *table.high[2:]),
        )
        for table in done.tables
    )
    log.add(replace(done, tables=tables))


def after(key: Any, mixed: Any) -> Any:
    """The JSON text of `image(key, 0)` as silver has it."""
    return F.format_string(
        '{"id":%d,"customer":"%08x%010x","amount":"%d.%d","quantity":%d,"at":"2026-11-%02d 12:30:%02d.%06d"}',
        key,
        mixed,
        mixed * 7,
        mixed % 99999999,
        mixed % 90 + 10,
        F.shiftright(mixed, 1),
        mixed % 28 + 1,
        mixed % 60,
        mixed % 1000000,
    )


def count_rows(spark: Any, lake: Path, topic: str, tables: int) -> int:
    return sum(
        spark.read.format("delta").load(f"{lake}/gold/{DATABASE}__t{number}").count()
        for number in range(tables)
    )


def rows(given: argparse.Namespace, root: Path) -> list[str]:
    """The same batches into a small and a large table."""
    costs: Costs = {}
    sizes = {f"{size:,}": size for size in given.sizes}
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "broker") as broker:
        brokers = children() - before
        feeds = {name: Feed(f"r{size}", 1, given.seed) for name, size in sizes.items()}
        for name, feed in feeds.items():
            load(spark, root / feed.topic, feed, broker.bootstrap, size=sizes[name])
            passed(broker.bootstrap, feed.topic, root / feed.topic, costs, ("load", name), brokers)
        for kind in KINDS:
            for number in range(given.rounds + 1):
                for name, feed in feeds.items():
                    publish(feed.changes(given.changes, kind), broker.bootstrap, feed.topic)
                    key = (kind, name) if number else ("warming", kind, name)
                    passed(broker.bootstrap, feed.topic, root / feed.topic, costs, key, brokers)
        for name, feed in feeds.items():
            if count_rows(spark, root / feed.topic, feed.topic, 1) != feed.count:
                raise SystemExit(f"growth: the table of {name} rows has not the source's {feed.count:,}")
    return row_lines(given, costs)


def load(spark: Any, lake: Path, feed: Feed, bootstrap: str, *, size: int) -> None:
    """The table's first rows, as far as silver."""
    publish(feed.created(), bootstrap, feed.topic)
    began = feed.ts
    publish(feed.inserts(FIRST), bootstrap, feed.topic)
    run(configuration(bootstrap, feed.topic), ("bronze", "silver"), True, (), str(lake), quiet)
    multiply(spark, lake, feed, size - FIRST, began)
    feed.ts += 1 << 18
    publish(feed.broadcast(f'{{"ts":{feed.ts},"t":3}}', ""), bootstrap, feed.topic)


def keys(given: argparse.Namespace, root: Path) -> list[str]:
    """The same few changes of a large table with a key, and of one without."""
    costs: Costs = {}
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "broker") as broker:
        brokers = children() - before
        feeds = {word: Feed(word, 1, given.seed, keyed=word == "keyed") for word in ("keyed", "keyless")}
        for word, feed in feeds.items():
            load(spark, root / word, feed, broker.bootstrap, size=given.sizes[1])
            passed(broker.bootstrap, word, root / word, costs, ("load", word), brokers)
        for kind in KEY_KINDS:
            for number in range(given.rounds + 1):
                for word, feed in feeds.items():
                    publish(feed.changes(given.changes, kind), broker.bootstrap, word)
                    key = (kind, word) if number else ("warming", kind, word)
                    passed(broker.bootstrap, word, root / word, costs, key, brokers)
        for word, feed in feeds.items():
            if count_rows(spark, root / word, word, 1) != feed.count - len(feed.deleted):
                raise SystemExit(f"growth: the {word} table has not as many rows as the source")
    lines = ["| changes | layer | key, CPU s | no key, CPU s | ratio |", "|---|---|---|---|---|"]
    for kind in KEY_KINDS:
        for layers in (("gold",), LAYERS):
            one, other = (sum(middle(costs[kind, word, each]) for each in layers) for word in feeds)
            label = layers[0] if len(layers) == 1 else "all"
            lines.append(f"| {kind} | {label} | {one:.1f} | {other:.1f} | {other / one:.2f} |")
    loads = ", ".join(f"{middle(costs['load', word, 'gold']):,.0f} CPU s {word}" for word in feeds)
    about = (
        f"{given.changes:,} changes a batch, median of {given.rounds}, of {given.sizes[1]:,} rows. "
        f"The first fold of the tables: {loads}."
    )
    return [about, "", *lines]


def row_lines(given: argparse.Namespace, costs: Costs) -> list[str]:
    sizes = [f"{size:,}" for size in given.sizes]
    small, large = sizes
    lines = [
        f"| changes | layer | into {small} rows, CPU s | into {large} rows, CPU s | ratio |",
        "|---|---|---|---|---|",
    ]
    bars: dict[str, float] = {}
    for kind in KINDS:
        found = {(name, layer): middle(costs[kind, name, layer]) for name in sizes for layer in LAYERS}
        for layer in (*LAYERS, "all"):
            one, other = (
                sum(found[name, one] for one in (LAYERS if layer == "all" else (layer,))) for name in sizes
            )
            lines.append(f"| {kind} | {layer} | {one:.1f} | {other:.1f} | {other / one:.2f} |")
            if layer in ("gold", "all"):
                bars |= {f"{kind}, {layer}, {small}": one, f"{kind}, {layer}, {large}": other}
    loads = "; ".join(f"{middle(costs['load', name, 'gold']):,.0f} CPU s for {name}" for name in sizes)
    plotted = picture(given.report, "rows", f"{given.changes:,} changes merged", bars)
    about = (
        f"{given.changes:,} changes a batch, median of {given.rounds}. The tables' first fold took "
        f"{loads} rows."
    )
    return [about, "", *lines, *plotted]


def tables(given: argparse.Namespace, root: Path) -> list[str]:
    """The same number of changes over one table and over many."""
    costs: Costs = {}
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "broker") as broker:
        brokers = children() - before
        for label, number, count in (
            ("warming", 1, 20_000),
            ("one", 1, given.changes),
            ("many", given.tables, given.changes),
        ):
            feed = Feed(f"t{label}", number, given.seed)
            publish(feed.created(), broker.bootstrap, feed.topic)
            publish(feed.changes(count, "recent"), broker.bootstrap, feed.topic)
            passed(broker.bootstrap, feed.topic, root / feed.topic, costs, (label,), brokers)
            if count_rows(spark, root / feed.topic, feed.topic, number) != feed.count:
                raise SystemExit(f"growth: {number} tables have not the source's {feed.count:,} rows")
    lines = [f"| layer | 1 table, CPU s | {given.tables} tables, CPU s | ratio |", "|---|---|---|---|"]
    bars: dict[str, float] = {}
    for layer in (*LAYERS, "all"):
        one, many = (
            sum(middle(costs[name, each]) for each in (LAYERS if layer == "all" else (layer,)))
            for name in ("one", "many")
        )
        lines.append(f"| {layer} | {one:.1f} | {many:.1f} | {many / one:.2f} |")
        bars |= {f"{layer}, 1 table": one, f"{layer}, {given.tables} tables": many}
    plotted = picture(
        given.report, "tables", f"{given.changes:,} changes of 1 and of {given.tables} tables", bars
    )
    return [
        f"{given.changes:,} changes on one topic, run once each: six inserts to four updates of recent rows.",
        "",
        *lines,
        *plotted,
    ]


def picture(report: Path, part: str, title: str, bars: dict[str, float]) -> list[str]:
    path = report.with_name(f"growth-{part}.png")
    drawn = plot(path, title, {name: Cost(0.0, cpu, 0.0) for name, cpu in bars.items()})
    return ["", f"![CPU seconds]({path.name})"] if drawn else []


def middle(found: list[Cost]) -> float:
    return statistics.median(cost.cpu for cost in found)


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="lakehouse-growth-", dir=given.folder) as folder:
        lines = PARTS[given.part](given, Path(folder))
    write_page(given.report, given.part, command(given), lines)


def write_page(report: Path, part: str, command: str, lines: list[str]) -> None:
    """The part's section of the page, written anew; the others stay."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}"
    )
    when = f"{time.strftime('%Y-%m-%d')}; {machine}; load average {os.getloadavg()[2]:.1f}."
    sections = read_sections(report)
    sections[part] = "\n".join([f"    {command}", "", when, *lines, ""])
    head = report.read_text(encoding="utf-8").partition("\n## ")[0] if report.exists() else "# What grows\n"
    told = (f"\n## {TITLES[part]}\n\n{sections[part]}" for part in TITLES if part in sections)
    report.write_text(head + "".join(told), encoding="utf-8")


TITLES = {
    "rows": "With the rows of a table",
    "tables": "With the number of tables",
    "keys": "With and without a key",
    "large": "With DDL and late rows",  # bench.large_table
    "idle": "Idle and one-message runs",  # bench.idle
    "log": "With the runs that there were",  # written by hand, from bench.past_runs
    "statements": "With the schema changes that there were",  # written by hand
    "schema_files": "With the schema files of a storage sink",  # written by hand
    "extremes": "With one extreme batch",  # bench.extremes
    "soak": "With time",  # bench.soak
}
PARTS = {"rows": rows, "tables": tables, "keys": keys}
DEFAULT_CHANGES = {"rows": 100_000, "tables": 2_000_000, "keys": 1_000}


def read_sections(report: Path) -> dict[str, str]:
    """The sections that the page has."""
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    parts = re.split(r"^## (.+)\n\n", text, flags=re.M)[1:]
    names = {title: part for part, title in TITLES.items()}
    told = zip(parts[::2], parts[1::2], strict=True)
    return {names[title]: body.rstrip("\n") + "\n" for title, body in told if title in names}


def command(given: argparse.Namespace) -> str:
    memory = os.environ.get("LAKEHOUSE_DRIVER_MEMORY")
    said = (
        f"{f'LAKEHOUSE_DRIVER_MEMORY={memory} ' if memory else ''}python -m bench.growth "
        f"{given.part} --changes {given.changes}"
    )
    return said + (
        f" --sizes {' '.join(map(str, given.sizes))} --rounds {given.rounds}"
        if given.part != "tables"
        else f" --tables {given.tables}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--changes", type=int, default=None, help="changes a batch, or in all")
    parser.add_argument(
        "--sizes", type=int, nargs=2, default=[1_000_000, 10_000_000], help="rows of the two tables"
    )
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where broker and lakes may lie while it runs"
    )
    parser.add_argument("--report", type=Path, default=Path("docs/growth.md"))
    given = parser.parse_args()
    given.changes = given.changes or DEFAULT_CHANGES[given.part]
    return given


if __name__ == "__main__":
    main()
