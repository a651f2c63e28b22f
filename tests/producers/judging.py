"""Programs run on a server with the places of their commits in its binlog, and gold judged against them."""

from pathlib import Path

from tests.oracle.database import Database
from tests.oracle.generate import generate
from tests.oracle.program import Program
from tests.oracle.runner import Runner, State

Place = tuple[int, int]  # number of the binlog's file, offset


class PlacedRunner(Runner):
    """`placed`: [(place, tables)], where the binlog ended when the tables were so; one state per place."""

    def __init__(self, database: Database, program: Program) -> None:
        self.placed: list[tuple[Place, State]] = []
        self.times: dict[Place, int] = {}
        self.begun = end_of_binlog(database)
        super().__init__(database, program)

    def _commit(self) -> None:
        super()._commit()
        place = end_of_binlog(self.database)
        if self.placed and self.placed[-1][0] == place:
            self.placed.pop()
        self.placed.append((place, dict(self.tables)))
        self.times[place] = self.ts


def placed(database: Database, seed: int) -> PlacedRunner:
    """The program of a seed, run in two databases of its own."""
    runner = generate(database, seed, name=f"p{seed}", kind=PlacedRunner)
    assert isinstance(runner, PlacedRunner)
    return runner


def end_of_binlog(database: Database) -> Place:
    name, offset, *_ = database.ask("SHOW MASTER STATUS")[0]
    return int(Path(str(name)).suffix[1:]), int(offset)
