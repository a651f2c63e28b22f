"""Random programs through a real Canal server: what `lakehouse` makes of its messages must be the database.

    python -m tests.producers canal --programs 20 --seed 1 --server mysql
    python -m tests.producers canal --set tsdb=off --mysqld=--binlog-row-image=MINIMAL

One Canal reads one server; each program runs in two databases of its own. Canal's messages go to outputs as
different settings of canal.mq would send them (OUTPUTS), each is read as a source, and gold is compared at
every commit: a table that is called exact is the database's, and one that is not has a true reason. A row
that Canal can't read (it knows another shape of its table) stops it: what came before is compared, and it is
started behind the program.
"""

import argparse
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from lakehouse.events import Position
from lakehouse.gold.columns import gold_columns
from lakehouse.lineage import NAMES_MIXED, READ_OTHERWISE, History, Lineage, Name
from lakehouse.schema_history.rulings import UNPLACED
from lakehouse.schema_history.statements import DROPPED, MOVED
from tests.oracle.check import _columns, _rows, told
from tests.oracle.database import Database, Table
from tests.oracle.formats import carried
from tests.oracle.generate import generate
from tests.oracle.program import CHARSET, Step
from tests.oracle.runner import State
from tests.producers.canal_server import Canal, Sent, start_canal
from tests.producers.judging import Place, PlacedRunner, end_of_binlog
from tests.servers.mariadb import start_mariadb
from tests.servers.mysql import start_mysql
from tests.support.engine import Memory

PACKED, THREE = {"flat": "false"}, {"partitionsNum": "3"}
BY_KEY, BY_TABLE, TOPICS = (
    {"partitionHash": r".*\..*:$pk$"},
    {"partitionHash": r".*\..*"},
    {"dynamicTopic": r".*\..*"},
)
OUTPUTS: dict[str, dict[str, str]] = {
    "flat": {},
    "proto": PACKED,
    "proto-tx": PACKED | {"filterTransactionEntry": "false"},
    "proto-pk": PACKED | THREE | BY_KEY,
    "proto-table": PACKED | THREE | BY_TABLE,
    "proto-topics": PACKED | TOPICS,
    "flat-pk": THREE | BY_KEY,
    "flat-table": THREE | BY_TABLE,
    "flat-topics": TOPICS,
}
# flat messages in several partitions or topics have no order: most tables are not sure of themselves
UNORDERED = frozenset(name for name in OUTPUTS if name.startswith("flat-"))
# what a statement does not tell that Canal could not read or that has names without a database
REASONS = (NAMES_MIXED, READ_OTHERWISE, DROPPED, MOVED, UNPLACED)
JVM_ZONE = "GMT+8"
_STARTED = {"mariadb": start_mariadb, "mysql": start_mysql}
# MariaDB 11.4 writes no places of the events inside a transaction, unless it is told to
_SERVER_OPTIONS = {"mariadb": ("--binlog-legacy-event-pos=1",), "mysql": ()}


class Paced(PlacedRunner):
    """Its steps are a second apart: a statement that is run twice is not one that was sent twice."""

    clock = 1700000000

    def step(self, step: Step) -> bool:
        self.clock += 1
        self.database.run(f"SET timestamp={self.clock}")
        return super().step(step)


@dataclass
class Verdict:
    """Of one program in one output: the moments and the exact tables compared, why tables were not exact, the
    first difference.
    """

    seed: int
    output: str
    messages: int = 0
    moments: int = 0
    tables: int = 0
    cut: str | None = None
    stalled: bool = False
    doubts: Counter[str] = field(default_factory=Counter)
    wrong: str | None = None


@dataclass(frozen=True)
class Asked:
    seeds: Sequence[int]
    outputs: Sequence[str]
    settings: Mapping[str, str]
    crashes: int = 0


def verdicts(database: Database, port: int, folder: Path, asked: Asked) -> Iterator[Verdict]:
    """Every program in every output."""
    with start_canal(folder, port, settings_of(database, asked), JVM_ZONE) as canal:
        for seed in asked.seeds:
            crash = asked.crashes > 0 and seed % asked.crashes == 0
            runner, whole = played(database, canal, seed, crash=crash)
            end = end_of_binlog(database)
            stalled = None if whole else canal.last
            for output in asked.outputs:
                sent = [one for one in canal.sent(output) if runner.begun <= one.place < end]
                yield judged(runner, output, sent, stalled)
            if not whole:
                canal.stop(at_once=True)
                canal.start_at(end)


def settings_of(database: Database, asked: Asked) -> dict[str, str]:
    """The driver's properties: where Canal begins, and its outputs."""
    name, offset, *_ = database.ask("SHOW MASTER STATUS")[0]
    settings = {
        "canal.instance.master.journal.name": str(name),
        "canal.instance.master.position": str(offset),
        "outputs": ",".join(asked.outputs),
    }
    for output in asked.outputs:
        for key, value in {"flat": "true", **OUTPUTS[output]}.items():
            settings[f"{output}.{key}"] = value
    return {**settings, **asked.settings}


def played(database: Database, canal: Canal, seed: int, *, crash: bool) -> tuple[PlacedRunner, bool]:
    """The program of a seed, run, and whether Canal has sent all of it. A crash: it dies behind the program
    and starts from its own cursor, which may be far behind what it has sent.
    """
    runner = generate(database, seed, name=f"p{seed}", kind=Paced)
    assert isinstance(runner, PlacedRunner)
    if crash:
        canal.wait(end_of_binlog(database), behind=False)
        canal.stop(at_once=True)
        canal.start()
    last = end_of_binlog(database)
    database.run(f"CREATE DATABASE IF NOT EXISTS zz{seed}")  # its message ends the wait, and is of no table
    return runner, canal.wait(last)


def judged(runner: PlacedRunner, output: str, sent: list[Sent], stalled: Place | None) -> Verdict:
    """The output as a source, against the database."""
    verdict = Verdict(runner.seed, output, messages=len(sent), stalled=stalled is not None)
    with told(verdict):  # type: ignore[arg-type]
        _judge(runner, sent, stalled, verdict)
    return verdict


def _judge(runner: PlacedRunner, sent: list[Sent], stalled: Place | None, verdict: Verdict) -> None:
    format_ = "canal" if verdict.output.startswith("flat") else "canal-protobuf"
    _, states, verdict.cut = carried(runner, format_)
    known = {ts for ts, _ in states}
    moments = [one for one in runner.placed if runner.times[one[0]] in known]
    moments = [one for one in moments if stalled is None or one[0] <= stalled]
    if not moments:
        return
    if format_ == "canal":  # a message of several entries may reach behind the last moment
        sent = [one for one in sent if one.place < moments[-1][0]]
    options = {"time_zone": "Etc/GMT-8", "server": runner.program.server, "charset": CHARSET}
    silver = Memory(format_, options, tidb=False).add([one.message for one in sent])
    if verdict.cut and format_ != "canal":
        silver.dead = []  # of what is behind the cut
    again = any(one.place <= before.place for before, one in pairwise(sent))
    unordered = verdict.output in UNORDERED or (format_ == "canal" and again)
    for place, state in moments[-1:] if unordered else moments:
        at = silver.reach if unordered else position(format_, sent, place)
        if at is not None:
            compare(silver, at, state, runner.program.database, verdict, doubted=unordered)


def position(format_: str, sent: list[Sent], place: Place) -> Position | None:
    """Where the feed is when it has sent all before a place in the binlog."""
    if format_ == "canal-protobuf":
        return (0, place[0], place[1] - 1, 1, 2**31, 1)
    before = [one.message.offset for one in sent if one.place < place]
    return (0, before[-1], 2**31, 1, 0, 0) if before else None


def compare(
    silver: Memory, at: Position, state: State, database: str, verdict: Verdict, *, doubted: bool
) -> None:
    """Each table of the program's databases. Where the feed is `doubted`, any reason will do."""
    history = silver.lineages()
    dead = [one for one in silver.dead if (one.database, one.table) not in _mixed(history)]
    assert not dead or doubted, f"dead letter: {dead[0]}"
    assert not history.problems, f"problem: {history.problems[0]}"
    names = (database, f"{database}_2")
    live = {name: lineage for name, lineage in history.live(at).items() if name[0] in names}
    rows = silver.tables(at)
    for name in sorted(live.keys() | state.keys()):
        why, table = doubt(silver, name, live.get(name), at), state.get(name)
        if why is None:
            lines = rows[".".join(name)]
            _exact(name, live[name], table, lines, at)
            verdict.tables += 1
            continue
        assert doubted or _is_true(why, table), (
            f"{name} at {at[1:3]} is not sure of itself for no reason: {why}"
        )
        verdict.doubts[re.sub(r"[0-9(), ]+", " ", why)[:90]] += 1
    verdict.moments += 1


def _mixed(history: History) -> set[Name]:
    """The tables of which Canal may give a column another one's values, which may be none of its type."""
    found = [one for one in history.lineages if any(why == NAMES_MIXED for _, why in one.incomplete)]
    return {interval.name for one in found for interval in one.intervals}


def doubt(silver: Memory, name: Name, lineage: Lineage | None, at: Position) -> str | None:
    """Why gold does not call a table exact."""
    if lineage is None:
        return "it is not there"
    if lineage.held and lineage.held[0] <= at:
        return lineage.held.why
    full = ".".join(name)
    missing = lineage.incomplete_at(at, [(at, one) for one in silver.problems.get(full, ())])
    broken = silver.breaks.get(full)
    return missing[1] if missing else str(broken) if broken else None


def _is_true(why: str, table: Table | None) -> bool:
    return why in REASONS or (table is not None and (table.maybe or table.computed))


def _exact(
    name: Name, lineage: Lineage, table: Table | None, lines: list[dict[str, Any]], at: Position
) -> None:
    assert table is not None, f"{name} at {at[1:3]} is no table of the source, and is called exact"
    assert not table.unknown, f"{name} claims to be exact, but no message tells {sorted(table.unknown)}"
    columns = gold_columns(lineage.schema_at((*at[:5], at[5] + 1)), virtual=True)
    _columns(name, columns, table.columns, at)
    _rows(name, lines, table, table.columns, at=at, sure=True)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    settings = dict(one.split("=", 1) for one in options.set)
    seeds = range(options.seed, options.seed + options.programs)
    asked = Asked(seeds, options.outputs, settings, options.crashes)
    found: dict[str, list[Verdict]] = defaultdict(list)
    begun = time.monotonic()
    with _server(options.server, options.mysqld) as (database, port, folder):
        for verdict in verdicts(database, port, folder / "canal", asked):
            found[verdict.output].append(verdict)
            if verdict.wrong:
                print(f"seed {verdict.seed}, {verdict.output}: {verdict.wrong[:700]}", flush=True)
    for output, every in found.items():
        print(summary(output, every, options.why))
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if any(one.wrong for every in found.values() for one in every) else 0


def summary(output: str, every: list[Verdict], why: int) -> str:
    """One line per output, and the most frequent reasons for tables that are not exact."""
    doubts = sum((one.doubts for one in every), Counter[str]())
    wrong = sum(one.wrong is not None for one in every) or "none"
    text = (
        f"{output:13} {len(every)} programs, {sum(one.messages for one in every):,} messages, "
        f"{sum(one.moments for one in every):,} moments, {sum(one.tables for one in every):,} exact tables, "
        f"{doubts.total():,} not; {sum(one.cut is not None for one in every)} cut, "
        f"{sum(one.stalled for one in every)} stalled, {wrong} wrong"
    )
    return "\n".join([text, *(f"    {count:6,} {reason}" for reason, count in doubts.most_common(why))])


@contextmanager
def _server(kind: str, more: Sequence[str]) -> Iterator[tuple[Database, int, Path]]:
    options = ("--log-bin=b", "--server-id=1", "--binlog-format=ROW", *_SERVER_OPTIONS[kind], *more)
    with tempfile.TemporaryDirectory() as folder, _STARTED[kind](Path(folder) / "db", *options) as server:
        yield Database(server.port), server.port, Path(folder)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.producers canal")
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--server",
        choices=tuple(_STARTED),
        default="mysql",
        help="Canal 1.1.7 can't read MariaDB 11.4: $CANAL_CLASSES names the classes of a later one",
    )
    parser.add_argument("--outputs", nargs="+", choices=tuple(OUTPUTS), default=tuple(OUTPUTS))
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of Canal's settings"
    )
    parser.add_argument("--mysqld", action="append", default=[], metavar="OPTION", help="of the server")
    parser.add_argument("--crashes", type=int, default=0, help="Canal dies behind every n-th program")
    parser.add_argument("--why", type=int, default=3, help="so many reasons of tables that are not exact")
    return parser.parse_args(arguments)
