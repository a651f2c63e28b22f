"""The long run: tables of a database that is written to are snapshotted again and again while the snapshot,
the pipeline and the broker are killed, until both are the same.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from lakehouse.demo.kafka_broker import start_broker
from lakehouse.spark.session import get_session
from tests.adopt.world import World, kill, wait_until
from tests.servers.mariadb import start_mariadb
from tests.servers.mysql import start_mysql
from tests.support.live_feed import BINLOG

# seconds that a command may take to make its next commit
COMMITS_WITHIN = 600.0


class Round:
    """One round: a snapshot beside a continuous run, which die at times that chance says."""

    def __init__(self, world: World, chance: random.Random, kills: int, rows_per_second: int) -> None:
        self.world, self.chance, self.kills, self.rows_per_second = world, chance, kills, rows_per_second
        self.killed = {"snapshot": 0, "run": 0, "broker": 0, "producer": 0}

    def play(self) -> None:
        """Kill until enough has died, then let the snapshot come to its end."""
        snapshot, run = self._snapshot("--again"), self._run()
        for number in range(self.kills):
            begun = self.world.commits()
            wait_until(lambda begun=begun: self.world.commits() > begun + 1, COMMITS_WITHIN, run)
            time.sleep(self.chance.uniform(5, 30))
            with self.world.broker_killed():
                self.killed["snapshot"] += kill(snapshot)
            self.killed["broker"] += 1
            self.killed["producer"] += self.world.feed.kill()
            if number % 2:
                self.killed["run"] += kill(run)
                run = self._run()
            snapshot = self._snapshot()
        wait_until(lambda: snapshot.poll() == 0, COMMITS_WITHIN * 4, run, snapshot)
        kill(run)
        self.killed["run"] += 1

    def _snapshot(self, *more: str) -> subprocess.Popen[bytes]:
        words = ("--parallel", "4", "--rows-per-second", str(self.rows_per_second), *more)
        return self.world.begin("snapshot", "shop", *words, small=False)

    def _run(self) -> subprocess.Popen[bytes]:
        return self.world.begin("run", "all", "--continuous", small=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 where every round ended without a difference."""
    given = _options(arguments)
    start = start_mysql if given.feed == "canal" else start_mariadb
    with (
        tempfile.TemporaryDirectory(prefix="lakehouse-adopt-") as folder,
        start(Path(folder) / "server", *BINLOG) as server,
        start_broker(Path(folder) / "broker") as broker,
    ):
        world = World(Path(folder), server, broker, tables=given.tables, rows=given.rows, kind=given.feed)
        with closing(world):
            world.busy.large = 2000
            world.busy.transact()
            world.run()
            wrong = [_round(world, given, number) for number in range(given.rounds)]
    return 1 if any(wrong) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.adopt", description=__doc__)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the one big table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=3, help="a round")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two transactions")
    parser.add_argument("--seed", type=int, default=1)
    feeds = parser.add_mutually_exclusive_group()
    for feed, more in (
        ("debezium", "a real connector, killed as well, streams the feed"),
        ("canal", "a real Canal, killed as well, reads a MySQL 5.6"),
    ):
        feeds.add_argument(f"--{feed}", action="store_const", dest="feed", const=feed, help=more)
    parser.set_defaults(feed="encoder")
    return parser.parse_args(arguments)


def _round(world: World, given: argparse.Namespace, number: int) -> bool:
    """Play a round and say how it ended; whether something differs."""
    # a snapshot takes longer than until it is killed
    one = Round(world, random.Random(given.seed + number), given.kills, max(1, given.rows // 90))
    begun = time.monotonic()
    with world.writing(given.pause):
        one.play()
    world.busy.transact()
    world.run()
    read = time.monotonic() - begun
    found = world.verify()
    different = {name: entry for name, entry in found.items() if entry["different"] or entry["undecided"]}
    states, waits = world.states(get_session()), sum(world.waits().values())
    print(
        f"round {number + 1}: {len(found)} tables, {sum(entry['rows'] for entry in found.values()):,} rows, "
        f"{world.busy.transactions:,} transactions so far; killed {one.killed}; {read:.0f} s, verify "
        f"{time.monotonic() - begun - read:.0f} s: {len(different)} tables differ, {len(states)} are not "
        f"exact, {waits} waits for locks",
        flush=True,
    )
    for name, entry in different.items():
        print(f"  {name}: {entry}", file=sys.stderr)
    for name, why in states.items():
        print(f"  {name}: {why}", file=sys.stderr)
    return bool(different or states or waits)
