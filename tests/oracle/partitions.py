"""Partitioned tables: rules, and the DDL that takes rows away partition by partition."""

import random

from tests.oracle.database import Name, Table, quoted, word
from tests.oracle.program import Step
from tests.oracle.values import INTEGERS


class Partitioner:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.rules: dict[Name, str] = {}

    def step(self, name: Name, table: Table) -> Step | None:
        """A rule for a table that can have one, or something done to its partitions."""
        able = [text for text in table.primary if table.column(text).base in INTEGERS]
        unique = [set(names) for _, names, unique in table.indexes if unique]
        able = [text for text in able if all(text in names for names in unique)]
        if not able or table.unknown:
            return None
        clause = self.chance.choice(
            (
                self.by_range,
                self.by_range,
                self.by_list,
                self.by_hash,
                self.taken,
                self.taken,
                self.taken,
                self.other,
            )
        )(able[0])
        return {"ddl": f"ALTER TABLE {quoted(name)} {clause}", "table": list(name)}

    def by_range(self, column: str) -> str:
        kind = self.chance.choice(("RANGE", "RANGE COLUMNS"))
        last = self.chance.choice(("", ", PARTITION p9 VALUES LESS THAN (MAXVALUE)"))
        bounds = ((0, 0), (1, 3), (2, 70), (3, 1000), (4, 9223372036854775807))
        parts = ", ".join(f"PARTITION p{number} VALUES LESS THAN ({bound})" for number, bound in bounds)
        return f"PARTITION BY {kind} ({word(column)}) ({parts}{last})"

    def by_list(self, column: str) -> str:
        parts = (
            "PARTITION p0 VALUES IN (0, 1, 2), PARTITION p1 VALUES IN (3, -1, 4, 5), PARTITION p2 "
            "VALUES IN (7, 70, 101)"
        )
        return (
            f"PARTITION BY LIST ({word(column)}) "
            f"({parts}{self.chance.choice(('', ', PARTITION p3 DEFAULT'))})"
        )

    def by_hash(self, column: str) -> str:
        # names that no TRUNCATE of a program has: no rule tells which rows such a partition holds
        return f"PARTITION BY HASH ({word(column)}) (PARTITION h0, PARTITION h1, PARTITION h2)"

    def taken(self, column: str) -> str:
        name = self.chance.choice(("p0", "p1", "p2", "p1, p2"))
        return f"{self.chance.choice(('TRUNCATE', 'DROP'))} PARTITION {name}"

    def other(self, column: str) -> str:
        split = "PARTITION p1a VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (3)"
        more = "PARTITION p7 VALUES LESS THAN (99999)"
        return self.chance.choice(
            (
                "REMOVE PARTITIONING",
                f"REORGANIZE PARTITION p1 INTO ({split})",
                "TRUNCATE PARTITION ALL",
                f"ADD PARTITION ({more})",
                "COALESCE PARTITION 1",
            )
        )
