"""Random transactions on the tables that there are: inserts, updates, key changes, swaps, deletes, over one
or more tables.
"""

import random

from tests.oracle.database import Cells, Column, Name, Table, quoted, word
from tests.oracle.program import Step
from tests.oracle.runner import State
from tests.oracle.values import INTEGERS, literal, literals

Tables = dict[Name, Table]


class Writer:
    def __init__(self, chance: random.Random, *, strict: bool) -> None:
        self.chance, self.strict = chance, strict

    def transaction(self, tables: State) -> Step:
        chosen = self.chance.sample(sorted(tables), k=min(len(tables), self.chance.choice((1, 1, 1, 2, 3))))
        count = self.chance.choice((1, 1, 2, 3, 5))
        return {"rows": [self.statement(name, tables[name]) for name in chosen for _ in range(count)]}

    def statement(self, name: Name, table: Table) -> str:
        makers = [self.insert, self.insert, self.insert, self.replace]
        if table.rows:
            makers += [
                self.update,
                self.update,
                self.update_key,
                self.shift_key,
                self.delete,
                self.upsert,
                self.swap,
                self.copy,
                self.all_rows,
            ]
        return self.chance.choice(makers)(name, table)

    # --- rows that come

    def insert(self, name: Name, table: Table, word_: str = "INSERT INTO") -> str:
        columns = [
            column for column in table.columns if not column.generated and self.chance.random() < 0.95
        ] or [table.columns[0]]
        rows = [
            f"({', '.join(self.value(column) for column in columns)})"
            for _ in range(self.chance.choice((1, 1, 2, 4)))
        ]
        return (
            f"{word_} {quoted(name)} ({', '.join(word(column.name) for column in columns)}) VALUES "
            f"{', '.join(rows)}"
        )

    def replace(self, name: Name, table: Table) -> str:
        return self.insert(name, table, self.chance.choice(("REPLACE INTO", "INSERT IGNORE INTO")))

    def upsert(self, name: Name, table: Table) -> str:
        column = self.settable(table)
        return (
            f"{self.insert(name, table)} ON DUPLICATE KEY UPDATE {word(column.name)} = {self.value(column)}"
        )

    def copy(self, name: Name, table: Table) -> str:
        """Rows again, where no key forbids it."""
        names = ", ".join(word(column.name) for column in table.columns if not column.generated)
        return (
            f"INSERT IGNORE INTO {quoted(name)} ({names}) SELECT {names} FROM {quoted(name)} LIMIT "
            f"{self.chance.randint(1, 3)}"
        )

    def value(self, column: Column) -> str:
        if self.chance.random() < (0.02 if column.not_null else 0.15):
            return self.chance.choice(("NULL", "DEFAULT"))
        kind = (
            f"{column.type} CHARACTER SET {column.charset}"
            if column.charset in ("latin1", "ascii")
            else column.type
        )
        return self.chance.choice(literals(kind, strict=self.strict))

    # --- rows that change

    def settable(self, table: Table) -> Column:
        return self.chance.choice([column for column in table.columns if not column.generated])

    def update(self, name: Name, table: Table) -> str:
        columns = {self.settable(table).name for _ in range(self.chance.choice((1, 1, 2, 3)))}
        sets = ", ".join(f"{word(text)} = {self.value(table.column(text))}" for text in sorted(columns))
        return f"UPDATE IGNORE {quoted(name)} SET {sets} WHERE {self.where(table)}"

    def all_rows(self, name: Name, table: Table) -> str:
        column = self.settable(table)
        return f"UPDATE IGNORE {quoted(name)} SET {word(column.name)} = {self.value(column)}"

    def update_key(self, name: Name, table: Table) -> str:
        if not table.handle():
            return self.update(name, table)
        column = table.column(self.chance.choice(table.handle()))
        return (
            f"UPDATE {quoted(name)} SET {word(column.name)} = {self.value(column)} WHERE "
            f"{self.where(table)} LIMIT 1"
        )

    def shift_key(self, name: Name, table: Table) -> str:
        keys = [text for text in table.handle() if table.column(text).base in INTEGERS]
        if not keys:
            return self.update_key(name, table)
        key, way = word(self.chance.choice(keys)), self.chance.choice((("+", "DESC"), ("-", "ASC")))
        return (
            f"UPDATE {quoted(name)} SET {key} = {key} {way[0]} 1 ORDER BY {key} {way[1]} LIMIT "
            f"{self.chance.choice((1, 2, 9))}"
        )

    def swap(self, name: Name, table: Table) -> str:
        """Two rows exchange the values of a column, in one statement; keys too where the server can do it
        without a third row.
        """
        column = self.settable(table)
        one, other = (self.chance.choice(table.rows) for _ in range(2))
        first, second = self.this_row(table, one), self.this_row(table, other)
        values = f"CASE WHEN {first} THEN {literal(other[column.name])} ELSE {literal(one[column.name])} END"
        return (
            f"UPDATE IGNORE {quoted(name)} SET {word(column.name)} = {values} WHERE ({first}) OR ({second})"
        )

    def swap_keys(self, name: Name, table: Table) -> list[str]:
        """Two rows exchange their keys by way of a third one, in one transaction."""
        keys = [text for text in table.handle() if table.column(text).base in INTEGERS]
        if len(table.handle()) != 1 or not keys or len(table.rows) < 2:
            return [self.statement(name, table)]
        key = word(keys[0])
        one, other = (row[keys[0]]["value"] for row in self.chance.sample(table.rows, 2))
        moves = ((one, "99"), (other, one), ("99", other))
        return [f"UPDATE {quoted(name)} SET {key} = {new} WHERE {key} = {old}" for old, new in moves]

    def delete(self, name: Name, table: Table) -> str:
        return (
            f"DELETE FROM {quoted(name)} WHERE {self.where(table)} LIMIT {self.chance.choice((1, 1, 2, 50))}"
        )

    # --- which rows

    def where(self, table: Table) -> str:
        if self.chance.random() < 0.85:
            return self.this_row(table, self.chance.choice(table.rows))
        return self.chance.choice(("1 = 1", f"{word(self.chance.choice(table.columns).name)} IS NULL"))

    def this_row(self, table: Table, row: Cells) -> str:
        names = table.handle() or [self.chance.choice(table.columns).name]
        return " AND ".join(f"{word(text)} <=> {literal(row[text])}" for text in names)
