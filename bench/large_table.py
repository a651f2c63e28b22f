"""What statements and late rows cost in a large table, against a small one:

    python -m bench.large_table [--sizes 1000000 10000000] [--rounds 3] [--changes 1000]

Both tables are loaded as `bench.growth rows` loads them. Then each gets, in turn, batches of updates of rows
anywhere, as many late ones (at commit_ts that a published watermark had passed), as many whose images tell
two of five columns, and one DDL after another, each with nothing but a resolved event behind it. *Copy* is
Spark's own: the Delta table read and written once in the same session. Seconds and CPU seconds are gold's
alone, of the whole process tree, medians of the rounds for rows; a DDL is run once. The result goes to
docs/growth.md.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bench import children, quiet
from bench.generate import DATABASE
from bench.growth import Feed, configuration, count_rows, load, publish, write_page
from bench.measure import Cost, measured
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session, many_rows

GAP = 1 << 40  # commit_ts that no row has, below a published watermark
STATEMENTS = {
    "ADD COLUMN, NULL": "ADD COLUMN note VARCHAR(20)",
    "RENAME COLUMN": "RENAME COLUMN note TO remark",
    "INT to BIGINT": "MODIFY COLUMN quantity BIGINT",
    "DROP COLUMN": "DROP COLUMN remark",
    "ADD COLUMN, a constant": "ADD COLUMN state INT NOT NULL DEFAULT 7",
    "DECIMAL(12,2) to (12,1)": "MODIFY COLUMN amount DECIMAL(12,1)",
}
Costs = dict[tuple[str, str], list[Cost]]


class Table:
    """A table of some rows, its feed and its lake."""

    def __init__(self, spark: Any, root: Path, bootstrap: str, size: int) -> None:
        self.name, self.bootstrap, self.feed = f"{size:,}", bootstrap, Feed(f"r{size}", 1, 1)
        self.spark, self.lake = spark, root / self.feed.topic
        self.low = 0  # where late rows come
        load(spark, self.lake, self.feed, bootstrap, size=size)

    def normal(self, count: int, kind: str = "scattered") -> None:
        publish(self.feed.changes(count, kind), self.bootstrap, self.feed.topic)

    def rise(self) -> None:
        """The watermark passes a stretch without rows."""
        self.low = self.feed.ts
        self.feed.ts += GAP
        self.resolve()

    def late(self, count: int) -> None:
        """Rows in that stretch, and a watermark behind it."""
        high, self.feed.ts = self.feed.ts, self.low
        rows = list(self.feed.changes(count, "scattered"))[: -len(self.feed.offsets)]
        self.low, self.feed.ts = self.feed.ts, high
        for partition in range(len(self.feed.offsets)):
            self.feed.offsets[partition] -= 1  # of the resolved event that is left out
        publish(iter(rows), self.bootstrap, self.feed.topic)
        self.resolve()

    def resolve(self) -> None:
        self.feed.ts += 1 << 18
        publish(self.feed.broadcast(f'{{"ts":{self.feed.ts},"t":3}}', ""), self.bootstrap, self.feed.topic)

    def alter(self, clause: str) -> None:
        self.feed.ts += 1 << 18
        key = f'{{"ts":{self.feed.ts},"scm":"{DATABASE}","tbl":"t0","t":2}}'
        told = self.feed.broadcast(key, f'{{"q":"ALTER TABLE `t0` {clause}","t":5}}')
        publish(told, self.bootstrap, self.feed.topic)
        self.resolve()

    def run(self, *layers: str) -> None:
        run(configuration(self.bootstrap, self.feed.topic), layers, True, (), str(self.lake), quiet)

    def copy(self) -> None:
        frame = self.spark.read.format("delta").load(f"{self.lake}/gold/{DATABASE}__t0")
        with many_rows(self.spark):
            frame.write.format("delta").mode("overwrite").save(f"{self.lake}/copy")


def measure(sizes: list[int], changes: int, rounds: int, root: Path) -> tuple[list[str], Costs]:
    """Everything in turn; rows are counted at the end."""
    costs: Costs = {}
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "broker") as broker:
        brokers = children() - before
        tables = [Table(spark, root, broker.bootstrap, size) for size in sizes]

        def step(label: str, table: Table, work: Callable[[], None]) -> None:
            with measured(costs.setdefault((label, table.name), []).append, brokers):
                work()
            cost = costs[label, table.name][-1]
            told = f"{label:26} {table.name:>12} {cost.wall:7.1f} s {cost.cpu:7.1f} CPU s"
            print(told, file=sys.stderr, flush=True)

        def passed(label: str, table: Table) -> None:
            table.run("bronze", "silver")
            step(label, table, lambda: table.run("gold"))

        for table in tables:
            passed("first fold", table)
        for number in range(rounds + 1):
            for table in tables:
                table.normal(changes)
                passed("updates" if number else "warming", table)
        for table in tables:
            table.rise()
            passed("warming", table)
        for number in range(rounds + 1):
            for table in tables:
                table.late(changes)
                passed("late updates" if number else "warming", table)
        for table in tables:  # a later watermark settles what late rows leave open
            table.normal(changes)
            passed("warming", table)
        for number in range(rounds + 1):
            for table in tables:
                table.normal(changes, "in part")
                passed("updates in part" if number else "warming", table)
        for table in tables:
            step("warming", table, table.copy)
            step("copy", table, table.copy)
        for label, clause in STATEMENTS.items():
            for table in tables:
                table.alter(clause)
                passed(label, table)
        for table in tables:
            if count_rows(spark, table.lake, table.feed.topic, 1) != table.feed.count:
                raise SystemExit(f"large_table: the table of {table.name} rows has not as many")
    return [table.name for table in tables], costs


def report(names: list[str], costs: Costs) -> list[str]:
    small, large = names
    lines = [
        f"| gold of | {small} rows: s | CPU s | {large} rows: s | CPU s | ratio of CPU |",
        "|---|---|---|---|---|---|",
    ]
    for label in ("copy", "updates", "late updates", "updates in part", *STATEMENTS):
        walls, cpus = (
            [statistics.median(cost[field] for cost in costs[label, name]) for name in names]
            for field in (0, 1)
        )
        lines.append(
            f"| {label} | {walls[0]:.1f} | {cpus[0]:.1f} | {walls[1]:.1f} | {cpus[1]:.1f} "
            f"| {cpus[1] / cpus[0]:.2f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.large_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", type=int, nargs=2, default=[1_000_000, 10_000_000])
    parser.add_argument("--changes", type=int, default=1_000, help="rows a batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", type=Path, default=Path("docs/growth.md"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-large-") as folder:
        names, costs = measure(given.sizes, given.changes, given.rounds, Path(folder))
    said = f"python -m bench.large_table --changes {given.changes} --rounds {given.rounds}"
    about = f"Batches of {given.changes:,} rows: medians of {given.rounds} rounds; each statement once."
    write_page(given.report, "large", said, [about, "", *report(names, costs)])


if __name__ == "__main__":
    main()
