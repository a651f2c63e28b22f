"""Random programs through a real Debezium connector: what `lakehouse` makes of its records must be the
database.

    python -m tests.producers debezium --programs 20 --seed 1 --release 3.4.0.Final --kind mariadb
    python -m tests.producers debezium --release 1.9.7.Final --kind mysql --server mysql --restarts

A run starts a server, runs the first part of each program, starts a connector whose settings are the seed's
own (debezium_settings.py), and runs the rest. With --restarts the connector is stopped or killed on the way.
One that dies of a statement begins anew with a snapshot, without its offsets. Gold is compared at every
commit behind a snapshot with the whole feed, and at watermarks with the records that had come by then: a
table that is called exact is the database's, and one that is not has a true reason.

What the connector sent stays in the folder --work, with the truth (run.pickle).
"""

import argparse
import pickle
import random
import re
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message, Position
from lakehouse.lineage import History, Lineage, Name
from tests.oracle.check import Judged, compare, told
from tests.oracle.database import Database
from tests.oracle.program import CHARSET, ZONE
from tests.oracle.runner import State
from tests.producers.connector import Connector
from tests.producers.debezium_programs import Playing
from tests.producers.debezium_settings import Drawn, drawn, required
from tests.producers.debezium_signals import KINDS, Signals
from tests.producers.judging import Place, end_of_binlog
from tests.producers.live_snapshot import LiveSnapshot
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.servers.mysql import start_mysql
from tests.support.engine import Memory

SERVERS = {"mariadb": start_mariadb, "mysql": start_mysql}
BINLOG = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")


# what a connector's own mistakes leave open
TRUE_REASONS = re.compile(
    r"a later full snapshot .* has nothing|the connector reads its (text|rows)|rows of a snapshot"
    r"|a snapshot was taken of it while"
)


class Sure(History):
    """Without tables of which gold is not sure with reason."""

    unsure: frozenset[Name] = frozenset()

    def live(self, position: Position) -> dict[Name, Lineage]:
        found = super().live(position)
        return {name: one for name, one in found.items() if name not in self.unsure}


@dataclass
class Part:
    """What a feed tells of the databases of one program."""

    memory: Memory
    names: Sequence[str]
    problems: dict[str, frozenset[str]] = field(default_factory=dict)
    breaks: dict[str, Any] = field(default_factory=dict)
    unsure: frozenset[Name] = frozenset()

    @property
    def format(self) -> str:
        return self.memory.format

    @property
    def dead(self) -> list[Any]:
        return [one for one in self.memory.dead if getattr(one, "database", None) in (None, *self.names)]

    def lineages(self) -> History:
        history = self.memory.lineages()
        mine = [one for one in history.lineages if any(i.name[0] in self.names for i in one.intervals)]
        found = Sure(mine, history.problems)
        found.unsure = self.unsure
        return found

    def tables(self, at: Position) -> dict[str, list[dict[str, Any]]]:
        self.memory.breaks, self.memory.problems = {}, {}
        _, changes = self.memory._lineages()
        found = {
            ".".join(name): self.memory.rows(lineage, changes.get(lineage.id, ()), at)
            for name, lineage in self.lineages().live(at).items()
        }
        self.problems, self.breaks = self.memory.problems, self.memory.breaks
        return found

    def sure_of(self, at: Position, state: State, *, lossy: bool) -> State:
        """The state without tables of which gold is not sure with reason, which are left out here too.
        `lossy`: any reason will do.
        """
        self.unsure = frozenset()
        live = self.lineages().live(at)
        why = {name: {what for since, what in one.incomplete if since <= at} for name, one in live.items()}
        self.tables(at)
        why = {name: one | self.problems.get(".".join(name), frozenset()) for name, one in why.items()}
        doubts = {name for name, told in why.items() if any(map(TRUE_REASONS.search, told))}
        if lossy:
            doubts |= {name for name in live if ".".join(name) in {*self.problems, *self.breaks}}
            doubts |= {name for name, one in live.items() if one.incomplete_at(at)}
        self.unsure = frozenset(doubts)
        return {name: table for name, table in state.items() if name not in doubts}


def right_behind(place: Place) -> Position:
    return (0, place[0], place[1], 0, 2**31, 0)


def judge_run(
    memory: Memory, played: Sequence[Playing], *, lossy: bool = False
) -> Iterator[tuple[Playing, Judged]]:
    """Each program, at each of its commits."""
    for playing in played:
        judged = Judged()
        part = Part(memory, playing.names)
        with told(judged):
            for place, state in playing.states():
                state = part.sure_of(right_behind(place), state, lossy=lossy)
                compare(part, right_behind(place), state, judged)  # type: ignore[arg-type]
        if judged.wrong:
            judged.wrong = f"{place}: {judged.wrong}"
        yield playing, judged


def judge_live(
    memory: Memory, messages: Sequence[Message], cuts: Sequence[int], run: "Run"
) -> Iterator[tuple[Playing, Judged]]:
    """Each program at the watermarks that the messages so far make."""
    played = run.played
    ends = sorted({*run.ends, *(place for one in played for place in (*one.ends, *one.runner.times))})
    judged = {one.runner.seed: Judged() for one in played}
    before, done, signalled = memory.watermark, 0, run.signals.places(messages)
    for cut in cuts:
        memory.add(messages[done:cut])
        done = cut
        if memory.watermark <= before:
            continue
        before = memory.watermark
        if before[1:3] in signalled or (before[3] == 0 and before[1:3] not in ends):
            continue  # the connector's own, which tells nothing of the programs' commits around it
        behind = bisect_right(ends, before[1:3]) - (before[3] == 0)
        for playing in played:
            state = state_at(playing, ends[behind])
            if state is not None and not judged[playing.runner.seed].wrong:
                with told(judged[playing.runner.seed]):
                    part = Part(memory, playing.names)
                    state = part.sure_of(before, state, lossy=run.lossy)
                    compare(part, before, state, judged[playing.runner.seed])  # type: ignore[arg-type]
    for playing in played:
        yield playing, judged[playing.runner.seed]


def state_at(playing: Playing, end: Place) -> State | None:
    """The program's tables where the binlog ended there; None where nothing is compared."""
    last = max((place for place, _ in playing.runner.placed if place <= end), default=None)
    lives = any(low <= end <= high for low, high, *_ in playing.lives)
    return dict(playing.states()).get(last) if lives and last is not None else None


class Run:
    """Programs and a connector beside them, on one server."""

    def __init__(self, server: MariaDb, folder: Path, told: argparse.Namespace, settings: Drawn) -> None:
        self.database, self.folder = Database(server.port), folder
        self.chance, self.restarts = random.Random(f"{told.seed} run"), told.restarts
        self.lossy = told.lossy
        self.takes_over, self.port, self.read = told.take_over, server.port, list[Message]()
        self.marks = 0
        for name in ("sent.txt", "offsets", "history"):
            (folder / name).unlink(missing_ok=True)
        self.database.run("CREATE DATABASE marks")
        self.database.run("CREATE TABLE marks.m (n INT PRIMARY KEY, t VARCHAR(50))")
        needed = required(folder, server.port, told.kind, told.release)
        self.signals = Signals(self.database, folder, told.seed, told.signals)
        if told.signals:
            needed |= self.signals.settings(settings.settings)
        self.connector = Connector(folder, told.release, told.kind, {**needed, **settings.settings})
        seeds = range(told.seed, told.seed + told.programs)
        self.played = [Playing(self.database, seed, told.release, told.without) for seed in seeds]
        self.ends: list[Place] = []

    def play(self) -> None:
        for one in self.played:
            one.play(one.left // 3)
        reached = self._begin()
        while any(one.left for one in self.played):
            for one in self.played:
                one.play(self.chance.choice((1, 2, 4)))
                self.signals.maybe(self.played, self.connector.release)
            mark = self._mark()
            try:
                self.connector.wait(mark)
            except EnvironmentError_ as died:
                self._died(died, reached)
                reached = self._begin()
                continue
            reached = end_of_binlog(self.database)
            self.signals.is_blocked = False
            if self.restarts and self.chance.random() < 0.3:
                self.connector.stop(at_once=self.chance.random() < 0.7)
                self.connector.start()
        if self.signals.kinds:
            reached = self._settled()
        for one in self.played:
            one.told_until(reached)
        self.connector.stop()
        self.connector.sent += self.read

    def _take_over(self) -> Place:
        """A connector's start without rows, which `lakehouse snapshot` reads while programs write; behind
        both.
        """
        self.connector.start()
        self._find()
        names = {name for one in self.played for name in one.names}
        snapshot = LiveSnapshot(self.port, names, str(self.marks))
        snapshot.start()
        while snapshot.is_running:
            for one in self.played:
                one.play(1)
        self.read += snapshot.result()
        print(f"    read live: {len(self.read)} records, left: {snapshot.left or 'none'}", flush=True)
        for one in self.played:
            one.snapshot()
        mark = self._mark()
        for one in self.played:
            one.snapshot_at(self.ends[-1])
        self.connector.wait(mark)
        return self.ends[-1]

    def _find(self) -> None:
        """Wait for the first row that is streamed."""
        for _ in range(30):
            try:
                self.connector.wait(self._mark(), 2)
            except EnvironmentError_:
                continue
            return
        self.connector.wait(self._mark())

    def _settled(self) -> Place:
        """Wait until the connector is through with what it was told to read."""
        self.signals.resume()
        for _ in range(10):
            time.sleep(0.5)
            self.connector.wait(self._mark())
        return self.ends[-1]

    def _mark(self) -> bytes:
        """A row that tells how far the connector has come."""
        self.marks += 1
        self.database.run(f"INSERT INTO marks.m VALUES ({self.marks}, 'mark-{self.marks}-')")
        self.ends.append(end_of_binlog(self.database))
        return f"mark-{self.marks}-".encode()

    def _begin(self) -> Place:
        """A connector's start with a snapshot, behind which it has come."""
        if self.takes_over:
            return self._take_over()
        for one in self.played:
            one.snapshot()
        mark = self._mark()
        for one in self.played:
            one.snapshot_at(self.ends[-1])
        self.connector.start()
        self.connector.wait(mark)
        self.connector.wait(self._mark())
        return self.ends[-1]

    def _died(self, error: EnvironmentError_, reached: Place) -> None:
        """What it was, for the log; nothing is compared between there and the next snapshot."""
        text = (self.folder / "connector.log").read_text(errors="replace")
        causes = re.findall("Caused by: .*", text) or [str(error)]
        print(f"    the connector died: {causes[-1][:300]}", flush=True)
        for one in self.played:
            one.told_until(reached)
        self.connector.stop()
        for name in ("connector.log", "offsets", "history"):
            (self.folder / name).rename(self.folder / f"{name}.{self.marks}")


def main(arguments: Sequence[str]) -> int:
    """The number of programs that are wrong."""
    told = _options(arguments)
    settings = drawn(random.Random(told.seed), told.kind, told.release, told.server)
    for name, value in (one.split("=", 1) for one in told.set):
        settings.settings[name] = value
    settings.options.update(one.split("=", 1) for one in told.option)
    if told.take_over:
        settings.settings["snapshot.mode"] = "no_data"
    # between two chunks the connector may keep locks that a program's ALTER waits for
    settings.server += [*(["--lock-wait-timeout=2"] if told.signals else []), *told.mysqld]
    print(f"{told.kind} {told.release} on {told.server}: {settings}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        server = SERVERS[told.server](
            Path(folder) / "server", *BINLOG, "--skip-grant-tables=0", *settings.server
        )
        with server as started:
            run = Run(started, told.work or Path(folder) / "connector", told, settings)
            run.play()
            options = {"time_zone": ZONE, "server": run.database.dialect.rules, "charset": CHARSET}
        return judged(run, {**options, **settings.options})


def judged(run: Run, options: dict[str, str]) -> int:
    """Print what is wrong, and how much was compared."""
    sent = run.connector.sent
    states = [(one.runner.seed, one.names, one.states(), one.ends, one.lives) for one in run.played]
    (run.folder / "run.pickle").write_bytes(pickle.dumps((sent, options, states)))
    cuts = [*sorted(run.chance.sample(range(1, len(sent)), min(25, len(sent) - 1))), len(sent)]
    whole = Memory("debezium", options, tidb=False).add(sent)
    live = () if run.takes_over else judge_live(Memory("debezium", options, tidb=False), sent, cuts, run)
    wrong = set()
    for what, found in (("whole", list(judge_run(whole, run.played, lossy=run.lossy))), ("live", list(live))):
        for playing, one in found:
            if one.wrong:
                wrong.add(playing.runner.seed)
                print(f"    {what}: program {playing.runner.seed}: {one.wrong[:900]}")
        moments, tables = sum(one.watermarks for _, one in found), sum(one.tables for _, one in found)
        print(f"    {what}: {moments:,} moments, {tables:,} tables compared")
    print(f"    {len(run.played)} programs, {len(sent):,} records, wrong: {sorted(wrong) or 'none'}")
    return len(wrong)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.producers debezium", description=__doc__)
    parser.add_argument("--programs", type=int, default=20, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the first one, and of the settings")
    parser.add_argument("--release", default="3.4.0.Final", help="of the connector")
    parser.add_argument("--kind", choices=("mysql", "mariadb"), default="mariadb", help="of the connector")
    parser.add_argument("--server", choices=tuple(SERVERS), default="mariadb")
    parser.add_argument("--restarts", action="store_true", help="stop and kill the connector on the way")
    parser.add_argument(
        "--signals", action="append", default=[], choices=KINDS, help="snapshots while it streams"
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="rows of before come by `lakehouse snapshot` while programs write",
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="REGEX", help="statements to leave out"
    )
    parser.add_argument(
        "--lossy", action="store_true", help="the settings lose data: judge tables that are called exact"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the connector")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the source")
    parser.add_argument("--mysqld", action="append", default=[], metavar="--NAME=VALUE", help="of the server")
    parser.add_argument("--work", type=Path, help="a folder that keeps what the connector wrote")
    return parser.parse_args(arguments)
