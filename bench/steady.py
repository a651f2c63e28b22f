"""What few changes in many tables cost, next to the notebook of bench.baselines:

    python -m bench.steady [--tables 200] [--rounds 5]

Many tables exist with a few rows each, in a lake of ours and as the notebook has them, and one table in a
second lake. Then come, in turn, batches of ten updates in each of a quarter of the tables, and batches of one
update in one table; the notebook merges into those tables alone that a batch has changes of. All are in one
session, after a batch of each kind that warms it; seconds and CPU seconds are those of the whole process tree
without the broker, medians of the rounds. At the end all must have the same rows. The result goes to
docs/growth.md.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import baselines
from bench.bench import check, children, configuration, quiet
from bench.generate import DATABASE, FIRST_TS, NARROW, PARTITIONS, TOPIC, Topic, image, table_names
from bench.measure import Cost, measured
from bench.report import replaced
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.events import Message
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session

ROWS, EACH = 20, 10  # rows of a table, and updates of a table in a batch of many
TITLE = "Few changes in many tables"
Costs = dict[tuple[str, str], list[Cost]]


class Feed:
    """A topic of so many tables, whose rows are updated from then on."""

    def __init__(self, tables: int) -> None:
        self.topic, self.chance, self.ts = Topic(), random.Random(1), FIRST_TS
        self.names = table_names(tables)
        self.rows = {
            name: {key: image(self.chance, key, NARROW) for key in range(ROWS)} for name in self.names
        }

    def begin(self) -> Iterator[Message]:
        for name in self.names:
            self.ts += 1 << 18
            columns = ", ".join(f"`{field.name}` {field.sql}" for field in NARROW)
            yield from self.topic.broadcast(
                {"ts": self.ts, "scm": DATABASE, "tbl": name, "t": 2},
                {"q": f"CREATE TABLE `{name}` ({columns})", "t": 3},
            )
        for name in self.names:
            for key, row in self.rows[name].items():
                yield self.told(name, key, {"u": row})
        yield from self.resolved()

    def updates(self, names: Sequence[str], each: int) -> Iterator[Message]:
        for name in names:
            for key in self.chance.sample(range(ROWS), each):
                old, new = self.rows[name][key], image(self.chance, key, NARROW)
                self.rows[name][key] = new
                yield self.told(name, key, {"u": new, "p": old})
        yield from self.resolved()

    def told(self, name: str, key: int, value: dict[str, Any]) -> Message:
        self.ts += 1 << 10
        row = {"ts": self.ts, "scm": DATABASE, "tbl": name, "t": 1}
        return self.topic.message(key % PARTITIONS, row, value)

    def resolved(self) -> Iterator[Message]:
        self.ts += 1 << 18
        return self.topic.broadcast({"ts": self.ts, "t": 3}, None)


def measure(tables: int, rounds: int, root: Path) -> Costs:
    costs: Costs = {}
    spark, before = get_session(app="bench"), children()
    with start_broker(root / "many") as many, start_broker(root / "one") as one:
        brokers = children() - before
        feeds = {many.bootstrap: Feed(tables), one.bootstrap: Feed(1)}
        for bootstrap, feed in feeds.items():
            produce(list(feed.begin()), bootstrap, TOPIC, quiet)

        def ours(bootstrap: str) -> None:
            lake = root / ("lake" if bootstrap == many.bootstrap else "lake of one")
            run(configuration(bootstrap), LAYERS, True, (), str(lake), quiet)

        def theirs(_: str) -> None:
            baselines.merge_new(spark, many.bootstrap, root / "notebook", NARROW)

        def step(kind: str, who: str, work: Callable[[str], None], bootstrap: str) -> None:
            with measured(costs.setdefault((kind, who), []).append, brokers):
                work(bootstrap)
            cost = costs[kind, who][-1]
            print(f"{kind:24} {who:16} {cost.wall:7.1f} s {cost.cpu:7.1f} CPU s", file=sys.stderr, flush=True)

        def passed(kind: str, names: Sequence[str], each: int) -> None:
            produce(list(feeds[many.bootstrap].updates(names, each)), many.bootstrap, TOPIC, quiet)
            step(kind, "ours", ours, many.bootstrap)
            step(kind, "notebook", theirs, many.bootstrap)

        baselines.create_tables(spark, root / "notebook", tables, NARROW)
        step("first", "ours", ours, many.bootstrap)
        step("first", "notebook", theirs, many.bootstrap)
        step("first", "one table", ours, one.bootstrap)
        chance = random.Random(2)
        names = feeds[many.bootstrap].names
        for number in range(rounds + 1):
            word = "" if number else "warming "
            passed(f"{word}ten in a quarter", sorted(chance.sample(names, tables // 4)), EACH)
            passed(f"{word}one in one", [chance.choice(names)], 1)
            produce(list(feeds[one.bootstrap].updates(["t0"], 1)), one.bootstrap, TOPIC, quiet)
            step(f"{word}one in one", "one table", ours, one.bootstrap)
        check(spark, root / "lake", root / "notebook", tables)
    return costs


def section(tables: int, rounds: int, costs: Costs) -> str:
    def told(kind: str, who: str) -> Cost:
        return Cost(*(statistics.median(values) for values in zip(*costs[kind, who], strict=True)))

    few = (f"{EACH} changes in each of {tables // 4} of {tables} tables", "ten in a quarter")
    single = (f"one change in one of {tables} tables", "one in one")
    lines = [
        f"    python -m bench.steady --tables {tables} --rounds {rounds}",
        "",
        f"{time.strftime('%Y-%m-%d')}; medians of {rounds}; {ROWS} rows a table; ours are all three layers.",
        "",
        "| batch | ours: s | CPU s | notebook: s | CPU s | CPU against the notebook |",
        "|---|---|---|---|---|---|",
    ]
    for label, kind in (few, single):
        ours, theirs = told(kind, "ours"), told(kind, "notebook")
        lines.append(
            f"| {label} | {ours.wall:.1f} | {ours.cpu:.1f} | {theirs.wall:.1f} | {theirs.cpu:.1f} "
            f"| {ours.cpu / theirs.cpu:.2f} × |"
        )
    one, of_many = told("one in one", "one table"), told("one in one", "ours")
    lines += [
        "",
        f"One change in a lake of one table takes {one.wall:.1f} s and {one.cpu:.1f} CPU s: in one of "
        f"{tables} it costs {of_many.cpu / one.cpu:.2f} × that.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.steady",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", type=Path, default=Path("docs/growth.md"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-steady-") as folder:
        costs = measure(given.tables, given.rounds, Path(folder))
    text = given.report.read_text(encoding="utf-8")
    given.report.write_text(
        replaced(text, TITLE, section(given.tables, given.rounds, costs)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
