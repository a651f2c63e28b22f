"""Ours and its peers over one topic, one command: `python -m bench.peers --messages 300000 --rounds 3`.

Seeded flat messages of Canal, of one narrow table, are published to a broker of its own. Each peer loads them
in a process of its own, and at the end of each round the rows of each are compared with those that the feed
tells: where they differ it has no figures. Start is the same run over a topic of ten messages. CPU is that of
the whole process tree without the broker, from start to end. The result goes to docs/bench-peers.md, between
its marks. Needs a checkout: the encoder is the tests'. Peers are fetched at the first run.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.bench import quiet
from bench.peers.contestants import PEERS, Job, Peer, Topic
from bench.peers.feed import Cells, changes_in, messages, rows_at_end
from bench.peers.process import Failed, measured_run
from bench.peers.report import (
    Found,
    Result,
    differences,
    keep,
    kept,
    place_figures,
    read_rows,
    size_of,
)
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.errors import EnvironmentError_
from lakehouse.sources.kafka_produce import produce

FEW = 10


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="lakehouse-peers-") as folder:
        root = Path(folder)
        feed = list(messages(given.messages, "many", given.seed))
        right = rows_at_end(feed)
        size = sum(len(one.value or b"") for one in feed)
        results = {name: Result() for name in given.peers}
        found = kept(given.kept, Found(results, changes_in(feed), len(right), size, given.seed))
        peers = prepared(given.peers, root, found)
        with start_broker(root / "broker") as broker:
            few = list(messages(FEW, "few", given.seed))
            for name, load in (("few", few), ("many", feed)):
                produce(load, broker.bootstrap, name, quiet)
            topics = [Topic(broker.bootstrap, "few", len(few)), Topic(broker.bootstrap, "many", len(feed))]
            del feed
            first = Round(root / "first", found)
            for name, peer in peers.items():  # leaves what later runs start from, as class archives
                first.load(name, peer, topics[0])
            for number in range(given.rounds):
                one = Round(root / f"round{number}", found)
                for name, peer in peers.items():
                    one.measure(name, peer, topics, right)
                keep(given.kept, found)
    place_figures(given, found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000, help="messages of rows")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kept", type=Path, help="a file that keeps the rounds: a later run of the same feed adds to them"
    )
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--report", type=Path, default=Path("docs/bench-peers.md"))
    return parser.parse_args()


def prepared(names: list[str], root: Path, found: Found) -> dict[str, Peer]:
    """The peers that can be had."""
    peers = {}
    for name in names:
        try:
            peers[name] = PEERS[name](root)
        except EnvironmentError_ as error:
            found.results[name].failure = f"could not be fetched: {error}"
            say(f"{name}: {found.results[name].failure}")
    return peers


class Round:
    """One round's folders; a peer that has failed once is left out from then on."""

    def __init__(self, folder: Path, found: Found) -> None:
        self.folder, self.found = folder, found

    def measure(self, name: str, peer: Peer, topics: list[Topic], right: Mapping[int, Cells]) -> None:
        for topic in topics:
            self.load(name, peer, topic, keep=True)
        result = self.found.results[name]
        if result.failure:
            return
        folder = self.place(name, topics[-1])
        result.sizes.append((size_of(folder / peer.table), size_of(folder)))
        try:
            self._run(peer.rows(folder, folder / "rows"), folder)
            told = read_rows(folder / "rows")
        except (Failed, OSError) as error:
            result.failure = f"its rows could not be read: {error}"
        else:
            result.failure = differences(told, right)
        if result.failure:
            say(f"{name}: {result.failure}")

    def load(self, name: str, peer: Peer, topic: Topic, keep: bool = False) -> None:
        result, folder = self.found.results[name], self.place(name, topic)
        if result.failure:
            return
        folder.mkdir(parents=True)
        job = peer.load(topic, folder)
        try:
            cost = measured_run(job.command, job.environment, folder.with_suffix(".log"), job.done)
        except Failed as error:
            result.failure = f"failed: {error}"
            say(f"{name}: {result.failure}")
            return
        say(f"{name:14} {topic.name:5} {cost.wall:7.1f} s {cost.cpu:7.1f} CPU s {cost.peak:8,.0f} MB")
        if keep:
            result.costs.setdefault(topic.name, []).append(cost)

    def place(self, name: str, topic: Topic) -> Path:
        return self.folder / f"{name}-{topic.name}"

    def _run(self, job: Job, folder: Path) -> None:
        measured_run(job.command, job.environment, folder.with_suffix(".rows.log"), job.done)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
