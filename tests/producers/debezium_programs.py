"""Random programs that are run in parts beside a connector, and what it is known to lose of them."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.oracle.database import Cells, Database, Table
from tests.oracle.generate import Maker
from tests.oracle.losses import lost
from tests.oracle.program import Program, Step
from tests.oracle.runner import Event, State
from tests.producers.judging import Place, PlacedRunner, end_of_binlog


class Playing:
    """A program that is run in parts, interleaved with others. `gaps`: places between which nothing is
    compared, since the connector had died.
    """

    def __init__(self, database: Database, seed: int, release: str, without: Sequence[str] = ()) -> None:
        self.release, self.without = release, (*DEADLY, *without)
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
        if any(re.search(one, step.get("ddl", ""), re.S | re.I) for one in self.without):
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
