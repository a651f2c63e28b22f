"""Random programs through a real Debezium connector: what `lakehouse` makes of its records must be the
database.

    python -m tests.producers debezium --programs 20 --seed 1 --release 3.4.0.Final --kind mariadb

A run starts a server, runs the first part of each program, starts a connector whose settings are the seed's
own (tests/producers/debezium_settings.py), and runs the rest, with the connector killed and started on the
way. Gold is compared at every commit behind the snapshot with the whole feed, and at watermarks with what had
come by then.
"""

import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakehouse.events import Message, Position
from lakehouse.formats import FORMATS
from lakehouse.lineage import History, Lineage, Name
from lakehouse.schema_history.build import NO_RECORD
from tests.oracle.check import Judged, compare, options_of, told
from tests.oracle.database import Cells, Database, Table
from tests.oracle.generate import Maker
from tests.oracle.losses import lost
from tests.oracle.program import CHARSET, Program, Step
from tests.oracle.runner import Event, State
from tests.producers.connector import Connector
from tests.producers.debezium_settings import Drawn, drawn
from tests.producers.judging import Place, PlacedRunner, end_of_binlog
from tests.support.engine import Memory


class Playing:
    """A program that is run in parts, interleaved with others. `gaps`: places between which nothing is
    compared, since the connector had died.
    """

    def __init__(self, database: Database, seed: int, release: str) -> None:
        self.release = release
        self.chance = random.Random(f"{seed} program")
        strict, raw = self.chance.random() < 0.5, self.chance.random() < 0.25
        program = Program(seed, strict, database=f"p{seed}", raw=raw, server=database.dialect.rules)
        self.runner = PlacedRunner(database, program)
        self.names = database.names
        self.maker = Maker(self.chance, self.runner)
        self.left = self.chance.choice((8, 15, 25, 40))
        self.ends: list[Place] = []
        self.lives: list[tuple[Place, Place, int, int]] = []

    def play(self, count: int) -> None:
        self.runner.database.resume(self.names, self.runner.program.strict)
        for _ in range(min(count, self.left)):
            for step in self.maker.next():
                self._step(step)
        self.left -= min(count, self.left)

    def _step(self, step: Step) -> None:
        """Without what the connector is known to die of, or to lose."""
        if any(re.search(one, step.get("ddl", ""), re.S | re.I) for one in DEADLY):
            return
        if "rows" in step:
            step = {"rows": [sql for sql in step["rows"] if not re.search(LOST, sql)]}
        self.runner.step(step)
        self.ends.append(end_of_binlog(self.runner.database))

    def snapshot(self) -> None:
        """From here on all cells are told. A snapshot with such values may break off."""
        runner = self.runner
        self.runner.database.resume(self.names, self.runner.program.strict)
        for name, table in runner.tables.items():
            if any(lost_in_snapshot(self.release, row, table) for row in table.rows):
                self._step(self.maker.shaper.drop([name]))
        runner.tables = {
            name: replace(table, unknown=frozenset(), maybe=False, computed=False)
            for name, table in runner.tables.items()
        }
        self.events = len(runner.events)

    def snapshot_at(self, place: Place) -> None:
        """The connector's snapshot is read there."""
        self.place, runner = place, self.runner
        runner.placed.append((place, dict(runner.tables)))
        runner.times[place] = runner.ts
        self.ends.append(place)

    def told_until(self, place: Place) -> None:
        """A connector's life, from its snapshot on, has ended there."""
        self.lives.append((self.place, place, self.events, len(self.runner.events)))

    def states(self) -> list[tuple[Place, State]]:
        """Those that are compared: of each life from the snapshot on, up to the first value that is lost."""
        return [one for life in self.lives for one in self._life(*life)]

    def _life(self, begin: Place, end: Place, first: int, last: int) -> Iterator[tuple[Place, State]]:
        states = [(place, state) for place, state in self.runner.placed if begin <= place <= end]
        if not states or any(
            lost_in_snapshot(self.release, row, table)
            for table in states[0][1].values()
            for row in table.rows
        ):
            return
        cut = [
            event["commit_ts"]
            for event in self.runner.events[first:last]
            if event["kind"] == "row" and lost_of(self.release, event)
        ]
        limit = min(cut, default=2**63)
        for place, state in states:
            if place == begin or self.runner.times[place] < limit:
                yield place, state


def lost_of(release: str, event: Event) -> str | None:
    """What a release loses of a row's event: connectors before 2.6 misread negative times."""
    if release < "2.6":
        for side in ("before", "after"):
            for name, cell in event.get(side, {}).items():
                if event["of"].column(name).base == "time" and str(cell["value"] or "").startswith("-"):
                    return "a negative TIME"
    return lost("debezium", event)


def lost_in_snapshot(release: str, row: Cells, table: Table) -> bool:
    """Values that the connector's query does not read as they are: of a FLOAT six digits come."""
    floats = [row[column.name]["value"] for column in table.columns if column.base == "float"]
    short = all(one is None or float(f"{float(one):.6g}") == float(one) for one in floats)
    return not short or lost_of(release, {"before": row, "of": table}) is not None


# statements that the connector's parser misreads so that it dies at the next row
DEADLY = (r"RENAME COLUMN .*RENAME COLUMN", r"CHANGE .*CHANGE ", r"\bx''")
LOST = r"'0000|-00[-' ]"


class Sure(History):
    """Without tables of which gold says that they may be gone since a snapshot."""

    def live(self, position: Position) -> dict[Name, Lineage]:
        return {
            name: one
            for name, one in super().live(position).items()
            if not any(why == NO_RECORD and since <= position for since, why in one.incomplete)
        }


@dataclass
class Part:
    """What a feed tells of the databases of one program."""

    memory: Memory
    names: Sequence[str]
    problems: dict[str, frozenset[str]] = field(default_factory=dict)
    breaks: dict[str, Any] = field(default_factory=dict)

    @property
    def format(self) -> str:
        return self.memory.format

    @property
    def dead(self) -> list[Any]:
        return [one for one in self.memory.dead if getattr(one, "database", None) in (None, *self.names)]

    def lineages(self) -> History:
        history = self.memory.lineages()
        mine = [one for one in history.lineages if any(i.name[0] in self.names for i in one.intervals)]
        return Sure(mine, history.problems)

    def tables(self, at: Position) -> dict[str, list[dict[str, Any]]]:
        self.memory.breaks, self.memory.problems = {}, {}
        _, changes = self.memory._lineages()
        found = {
            ".".join(name): self.memory.rows(lineage, changes.get(lineage.id, ()), at)
            for name, lineage in self.lineages().live(at).items()
        }
        self.problems, self.breaks = self.memory.problems, self.memory.breaks
        return found


def right_behind(place: Place) -> Position:
    return (0, place[0], place[1], 0, 2**31, 0)


def judge_run(memory: Memory, played: Sequence[Playing]) -> Iterator[tuple[Playing, Judged]]:
    """Each program, at each of its commits."""
    for playing in played:
        judged = Judged()
        part = Part(memory, playing.names)
        with told(judged):
            for place, state in playing.states():
                compare(part, right_behind(place), state, judged)  # type: ignore[arg-type]
        yield playing, judged


def judge_live(memory: Memory, messages: Sequence[Message], cuts: Sequence[int], played: Sequence[Playing]) -> Iterator[tuple[Playing, Judged]]:
    """Each program at the watermarks that the messages so far make."""
    ends = sorted({place for one in played for place in (*one.ends, *(p for p, _ in one.runner.placed))})
    judged = {one.runner.seed: Judged() for one in played}
    before, done = memory.watermark, 0
    for cut in cuts:
        memory.add(messages[done:cut])
        done = cut
        if memory.watermark <= before:
            continue
        before = memory.watermark
        behind = bisect_right(ends, (before[1], before[2]))
        if before[3] == 0:  # a snapshot
            behind -= ends[behind - 1] == before[1:3] if behind else 0
        if behind == len(ends):
            continue
        for playing in played:
            last = max((p for p, _ in playing.runner.placed if p <= ends[behind]), default=None)
            state = dict(playing.states()).get(last) if last else None
            lives = any(low <= ends[behind] <= high for low, high, *_ in playing.lives)
            if state is None or not lives or judged[playing.runner.seed].wrong:
                continue
            with told(judged[playing.runner.seed]):
                compare(Part(memory, playing.names), before, state, judged[playing.runner.seed])
    for playing in played:
        yield playing, judged[playing.runner.seed]
