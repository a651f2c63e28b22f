"""The benchmark, one command: `python -m bench.bench --messages 20000 --tables 1 --narrow`.

Generates seeded Open Protocol messages, publishes them to a broker of its own, and runs bronze, silver and
gold next to their baselines, all in one session, after one small round that warms it; each figure is the
median of the rounds. The result goes to docs/bench.md, into the section of its size, and as a plot beside it
where matplotlib is installed.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench import baselines
from bench.generate import NARROW, TOPIC, WIDE, generate
from bench.measure import Cost, measured
from bench.parts import Spent, watched
from bench.report import FLOORS, write
from lakehouse.config.load import Config
from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.events import Message
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.bronze.kafka import SMALL_BACKLOG
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session, many_rows

# the warming round takes the same way through the layers as the measured one: a few messages are decoded on
# the driver
WARM_FEW, WARM_MANY = 500, SMALL_BACKLOG + 5_000
Costs = dict[str, list[Cost]]
Parts = dict[str, list[Spent]]


def main() -> None:
    given = arguments()
    fields = WIDE if given.wide else NARROW
    messages = list(generate(given.messages, given.tables, fields, given.seed))
    spark = get_session(app="bench")
    costs: Costs = {}
    parts: Parts = {}
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as scratch:
        root = Path(scratch)
        warm = WARM_MANY if given.messages > SMALL_BACKLOG else WARM_FEW
        rounds = [(list(generate(warm, given.tables, fields)), 1), (messages, given.rounds)]
        for part, (load, times) in enumerate(rounds):
            costs, parts = {}, {}
            before = children()
            with start_broker(root / f"broker{part}") as broker:
                brokers = children() - before
                produce(load, broker.bootstrap, TOPIC, quiet)
                for number in range(times):
                    folder, many = root / f"{part}-{number}", len(load) > SMALL_BACKLOG
                    one_round(
                        spark,
                        broker.bootstrap,
                        folder,
                        given.tables,
                        fields,
                        costs,
                        parts,
                        brokers,
                        many,
                        given.only,
                    )
    rows = sum(b'"t":1' in (message.key or b"") for message in messages)
    about = describe(given, rows, messages)
    write(
        given.report,
        about,
        {name: median(found) for name, found in costs.items()},
        rows,
        size(messages),
        medians(parts),
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.bench", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000, help="row messages")
    parser.add_argument("--tables", type=int, default=1)
    width = parser.add_mutually_exclusive_group()
    width.add_argument("--wide", action="store_true", help="40 columns")
    width.add_argument("--narrow", dest="wide", action="store_false", help="5 columns (default)")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only",
        choices=list(FLOORS),
        help="this layer and its floor alone, with what it needs; default: all, and the notebook",
    )
    parser.add_argument("--report", type=Path, default=Path("docs/bench.md"))
    return parser.parse_args()


def one_round(
    spark: Any,
    bootstrap: str,
    folder: Path,
    tables: int,
    fields: Any,
    costs: Costs,
    parts: Parts,
    brokers: frozenset[int],
    many: bool,
    only: str | None,
) -> None:
    """Every layer and every baseline once, in folders of their own. Baselines have the settings that the
    layers choose by `many`.
    """
    lake = folder / "lake"
    config = configuration(bootstrap)
    steps: dict[str, Callable[[], Any]] = {
        "copy of the topic": lambda: baselines.copy_topic(spark, bootstrap, folder / "topic"),
        "bronze": lambda: run(config, ("bronze",), True, (), str(lake), quiet),
        "copy of bronze": lambda: baselines.copy_table(spark, lake / "bronze/bench", folder / "bronze"),
        "silver": lambda: run(config, ("silver",), True, (), str(lake), quiet),
        "copy of silver": lambda: baselines.copy_table(
            spark, lake / "silver/bench_changes", folder / "silver"
        ),
        "gold": lambda: run(config, ("gold",), True, (), str(lake), quiet),
        "notebook": lambda: baselines.notebook(spark, bootstrap, folder / "notebook", tables, fields),
    }
    if only is not None:
        steps = {name: steps[name] for name in [*LAYERS[: LAYERS.index(only)], FLOORS[only], only]}
    for name, step in steps.items():
        settings = many_rows(spark) if many and name not in LAYERS else nullcontext()
        told = name in LAYERS and not (name == "gold" and tables > 1)
        apart = watched(name, lambda spent: add(parts, spent), brokers) if told else nullcontext()
        with settings, measured(costs.setdefault(name, []).append, brokers), apart:
            step()
        print(
            f"{name:18} {costs[name][-1].wall:7.1f} s  {costs[name][-1].cpu:7.1f} CPU s",
            file=sys.stderr,
            flush=True,
        )
    if only is None:
        check(spark, lake, folder / "notebook", tables)


def check(spark: Any, lake: Path, folder: Path, tables: int) -> None:
    """Both ways must have the same rows: a fast wrong answer is no figure."""
    for number in range(tables):
        ours, theirs = (
            spark.read.format("delta").load(str(path))
            for path in (lake / f"gold/bench__t{number}", folder / f"t{number}")
        )
        names = [f"`{name}`" for name in theirs.columns]
        if ours.count() != theirs.count() or not ours.select(names).exceptAll(theirs.select(names)).isEmpty():
            raise SystemExit(f"bench: gold and notebook differ in table t{number}")


def configuration(bootstrap: str) -> Config:
    kafka = KafkaInput(bootstrap_servers=bootstrap, topics=[TOPIC])
    source = SourceConfig(
        format="ticdc-open", kafka=kafka, time_zone="UTC", tables="auto", consistency="resolved"
    )
    return Config(sources={"bench": source}, tables={}, documents={})


def children() -> frozenset[int]:
    """The processes that this one has started and that live."""
    return frozenset(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def add(parts: Parts, spent: dict[str, Spent]) -> None:
    for label, one in spent.items():
        parts.setdefault(label, []).append(one)


def medians(parts: Parts) -> dict[str, Spent]:
    return {
        label: Spent(*(statistics.median(values) for values in zip(*found, strict=True)))
        for label, found in parts.items()
    }


def median(found: list[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*found, strict=True)))


def size(messages: list[Message]) -> int:
    return sum(len(message.key or b"") + len(message.value or b"") for message in messages)


def describe(given: argparse.Namespace, rows: int, messages: list[Message]) -> dict[str, str]:
    width = "wide" if given.wide else "narrow"
    command = (
        f"python -m bench.bench --messages {given.messages} --tables {given.tables} --{width} "
        f"--rounds {given.rounds} --seed {given.seed}"
    ) + (f" --only {given.only}" if given.only else "")
    tables = "table" if given.tables == 1 else "tables"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "title": ", ".join(
            filter(None, (f"{given.tables} {width} {tables}", f"{given.messages:,} row messages", given.only))
        ),
        "command": command,
        "rounds": str(given.rounds),
        "input": (
            f"{rows:,} row events of {size(messages) / max(len(messages), 1):.0f} bytes on average, "
            f"{size(messages) / 1e6:.1f} MB"
        ),
        "machine": (
            f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}"
        ),
        "load": f"{os.getloadavg()[1]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }


def quiet(_: str) -> None:
    """Progress that nobody reads."""


if __name__ == "__main__":
    main()
