"""Money that moves between three tables: the sum over all of them is the same at every commit."""

import random

from tests.oracle.database import Database
from tests.oracle.program import Program, Step
from tests.oracle.runner import Runner

TABLES = ("cash", "savings", "loans")
ACCOUNTS, START = 4, 1000


def transfers(database: Database, seed: int, count: int = 60) -> tuple[Runner, int]:
    """A run of transfers, some with DDL in between that moves no money, and the sum that must stand."""
    chance = random.Random(seed)
    runner = Runner(database, Program(seed, strict=True))
    for table in TABLES:
        runner.step(
            {
                "ddl": (
                    f"CREATE TABLE `{table}` (`id` int NOT NULL, `cents` bigint NOT NULL, PRIMARY KEY (`id`))"
                ),
                "table": ["d", table],
            }
        )
    runner.step(
        {
            "rows": [
                f"INSERT INTO `{table}` (`id`, `cents`) VALUES ({id_}, {START})"
                for table in TABLES
                for id_ in range(ACCOUNTS)
            ]
        }
    )
    for number in range(count):
        runner.step(_harmless(chance, number) if chance.random() < 0.1 else _transfer(chance))
    return runner, len(TABLES) * ACCOUNTS * START


def _transfer(chance: random.Random) -> Step:
    moved = chance.randint(1, 500)
    (one, other), (first, second) = chance.choices(TABLES, k=2), chance.choices(range(ACCOUNTS), k=2)
    return {
        "rows": [
            f"UPDATE `{one}` SET `cents` = `cents` - {moved} WHERE `id` = {first}",
            f"UPDATE `{other}` SET `cents` = `cents` + {moved} WHERE `id` = {second}",
        ]
    }


def _harmless(chance: random.Random, number: int) -> Step:
    table = chance.choice(TABLES)
    return {
        "ddl": f"ALTER TABLE `{table}` ADD COLUMN `n{number}` varchar(5) DEFAULT 'x' FIRST",
        "table": ["d", table],
    }
