"""What it costs a run to hold the layers against each other (docs/reconciliation.md).

    python -m bench.reconciling [--tables 10 200] [--changes 1 1000] [--rounds 5]

A topic of so many tables with a row each, and runs of all layers in a warm session that each take so many
changed rows. The functions that compare layers are measured while they run (bench/parts.py): CPU seconds of
the whole process tree without the broker, those that read the log or Delta for them included. Medians.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from bench.bench import children, quiet
from bench.growth import Feed, configuration, publish
from bench.parts import NOTHING, Spent, watched
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session

TOPIC = "t"
COMPARING = (
    "bronze: its version before a pass",
    "bronze: hold its rows against the stream's",
    "gold: reconcile the layers",
    "gold: what silver has of each table",
)


def measure(tables: int, changes: int, rounds: int, root: Path) -> list[tuple[Spent, Spent]]:
    """Of each run, what comparing has cost, and what all of it has."""
    get_session(app="bench")
    before = children()
    found: list[tuple[Spent, Spent]] = []

    def keep(parts: dict[str, Spent]) -> None:
        compared = NOTHING
        for label in COMPARING:
            compared = compared.plus(parts.get(f"run: {label}", NOTHING))
        whole = NOTHING
        for spent in parts.values():
            whole = whole.plus(spent)
        found.append((compared, whole))

    with start_broker(root / "broker") as broker:
        brokers, feed = children() - before, Feed(TOPIC, tables, 1)
        config = configuration(broker.bootstrap, TOPIC)
        publish(feed.created(), broker.bootstrap, TOPIC)
        publish(feed.inserts(tables), broker.bootstrap, TOPIC)
        run(config, LAYERS, True, (), str(root / "lake"), quiet)
        for _ in range(rounds + 1):  # the first one warms
            publish(feed.changes(changes, "recent"), broker.bootstrap, TOPIC)
            with watched("run", keep, brokers):
                run(config, LAYERS, True, (), str(root / "lake"), quiet)
    return found[1:]


def told(tables: int, changes: int, found: list[tuple[Spent, Spent]]) -> str:
    shares = [(one.jvm + one.python) / (whole.jvm + whole.python) for one, whole in found]
    compared, whole = (
        [statistics.median(values) for values in zip(*each, strict=True)] for each in zip(*found, strict=True)
    )
    return (
        f"| {tables:,} | {changes:,} | {whole[0]:.1f} | {whole[1] + whole[2]:.1f} | {compared[0]:.2f} "
        f"| {compared[1] + compared[2]:.2f} | {statistics.median(shares):.1%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.reconciling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tables", type=int, nargs="+", default=[10, 200])
    parser.add_argument("--changes", type=int, nargs="+", default=[1, 1_000], help="changed rows a run")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| tables | changed rows | run: s | CPU s | comparing: s | CPU s | share of the CPU |")
    print("|---|---|---|---|---|---|---|")
    for tables in given.tables:
        for changes in given.changes:
            with tempfile.TemporaryDirectory(prefix="lakehouse-reconciling-") as folder:
                print(told(tables, changes, measure(tables, changes, given.rounds, Path(folder))), flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
