"""A random program, made while it runs: what comes next looks at what the server has by then."""

import random
from collections.abc import Callable, Iterator

from tests.oracle.dances import gh_ost, pt_osc
from tests.oracle.database import Database, Name, quoted, word
from tests.oracle.partitions import Partitioner
from tests.oracle.program import Program, Step
from tests.oracle.runner import Runner
from tests.oracle.shaping import NAMES, Shaper
from tests.oracle.writing import Writer

TABLES = 5
Steps = Iterator[Step]


def generate(database: Database, seed: int, *, name: str = "d", kind: type[Runner] = Runner) -> Runner:
    """The program of a seed, run; its `program` holds the steps that had an effect."""
    chance = random.Random(f"{seed} program")
    strict, raw = chance.random() < 0.5, chance.random() < 0.25
    runner = kind(database, Program(seed, strict, database=name, raw=raw, server=database.dialect.rules))
    maker = Maker(chance, runner)
    for _ in range(chance.choice((8, 15, 25, 40))):
        for step in maker.next():
            runner.step(step)
    return runner


class Maker:
    def __init__(self, chance: random.Random, runner: Runner) -> None:
        self.chance, self.runner = chance, runner
        strict = runner.program.strict
        keyless = chance.random() < 0.6
        self.writer, self.shaper = (
            Writer(chance, strict=strict),
            Shaper(chance, strict=strict, keyless=keyless, dialect=runner.database.dialect),
        )
        self.partitioner = Partitioner(chance)

    def next(self) -> Steps:
        """The steps of one intention; each is made when the one before has been run."""
        tables = self.runner.tables
        if not tables or (len(tables) < 2 and self.chance.random() < 0.5):
            yield self.shaper.create(self.free_name())
        elif self.chance.random() < 0.62:
            yield self.write()
        else:
            yield from self.shape(self.chance.choice(sorted(tables)))

    def write(self) -> Step:
        if self.chance.random() < 0.1:
            name = self.chance.choice(sorted(self.runner.tables))
            return {"rows": self.writer.swap_keys(name, self.runner.tables[name])}
        return self.writer.transaction(self.runner.tables)

    def free_name(self) -> Name:
        database = self.runner.program.database
        free = [(database, text) for text in NAMES if (database, text) not in self.runner.tables]
        free += [
            (f"{database}_2", text) for text in NAMES[:2] if (f"{database}_2", text) not in self.runner.tables
        ]
        return self.chance.choice(free)

    def shape(self, name: Name) -> Steps:
        makers: list[tuple[int, Callable[[Name], Steps]]] = [
            (30, self.alter),
            (5, self.create),
            (3, self.drop),
            (4, self.again),
            (4, self.truncate),
            (3, self.like),
            (2, self.select),
            (4, self.rename),
            (3, self.swap),
            (2, self.chain),
            (3, self.dance),
            (2, self.nothing),
            (4, self.partition),
        ]
        maker = self.chance.choices([maker for _, maker in makers], weights=[weight for weight, _ in makers])[
            0
        ]
        yield from maker(name)

    def alter(self, name: Name) -> Steps:
        step = self.shaper.alter(name, self.runner.tables[name])
        if step:
            yield step

    def create(self, name: Name) -> Steps:
        if len(self.runner.tables) < TABLES:
            yield self.shaper.create(self.free_name())
        else:
            yield self.shaper.create(name, condition=True)

    def drop(self, name: Name) -> Steps:
        others = sorted(self.runner.tables.keys() - {name})
        yield self.shaper.drop(
            [name, *self.chance.sample(others, k=min(len(others), self.chance.choice((0, 0, 1))))]
        )

    def again(self, name: Name) -> Steps:
        """Dropped and created anew under its name, in another shape."""
        yield self.shaper.drop([name])
        if self.chance.random() < 0.3:
            yield self.write() if self.runner.tables else self.shaper.create(self.free_name())
        yield {**self.shaper.create(name), "fresh": True}

    def truncate(self, name: Name) -> Steps:
        yield self.shaper.truncate(name)

    def like(self, name: Name) -> Steps:
        if len(self.runner.tables) < TABLES:
            yield self.shaper.like(name, self.free_name())

    def select(self, name: Name) -> Steps:
        table = self.runner.tables[name]
        able = self.shaper.dialect.selects and not table.unknown
        if len(self.runner.tables) < TABLES and able:
            yield self.shaper.select(name, table, self.free_name())

    def rename(self, name: Name) -> Steps:
        yield self.shaper.rename([(name, self.free_name())])

    def swap(self, name: Name) -> Steps:
        others = sorted(self.runner.tables.keys() - {name})
        if others:
            other, between = self.chance.choice(others), (self.runner.program.database, "tmp")
            yield self.shaper.rename([(name, between), (other, name), (between, other)])

    def chain(self, name: Name) -> Steps:
        """a to a free name, b to a, c to b."""
        others = self.chance.sample(
            sorted(self.runner.tables.keys() - {name}), k=min(2, len(self.runner.tables) - 1)
        )
        pairs, free = [], self.free_name()
        for old in [name, *others]:
            pairs.append((old, free))
            free = old
        yield self.shaper.rename(pairs)

    def dance(self, name: Name) -> Steps:
        table = self.runner.tables[name]
        if table.handle() and not table.unknown:
            yield from self.chance.choice((gh_ost, pt_osc))(self.runner, name, self.shaper, self.writer)

    def partition(self, name: Name) -> Steps:
        step = self.partitioner.step(name, self.runner.tables[name])
        if step:
            yield step

    def nothing(self, name: Name) -> Steps:
        """Statements that change no table."""
        database, table = f"`{name[0]}`", quoted(name)
        sql = self.chance.choice(
            (
                f"CREATE OR REPLACE VIEW {database}.`v_w` AS SELECT 1 AS `one`",
                (
                    f"CREATE INDEX `j{self.chance.randint(1, 99)}` ON {table} "
                    f"({word(self.runner.tables[name].columns[0].name)})"
                ),
                f"DROP TABLE IF EXISTS {database}.`nowhere`",
                f"ANALYZE TABLE {table}",
                f"CREATE TABLE IF NOT EXISTS {table} (`other` int)",
                f"ALTER DATABASE {database} CHARACTER SET utf8mb4",
                *(self.nothing_of_tidb(table) if self.shaper.dialect.is_tidb else ()),
            )
        )
        yield {"ddl": sql, "table": list(name)}

    def nothing_of_tidb(self, table: str) -> tuple[str, ...]:
        return (
            f"ALTER TABLE {table} SHARD_ROW_ID_BITS = 4",
            f"ALTER TABLE {table} AUTO_ID_CACHE 100",
            f"ALTER TABLE {table} SET TIFLASH REPLICA 0",
            f"ALTER TABLE {table} ADD INDEX `ex` ((1 + 1))",
        )
