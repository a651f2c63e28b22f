"""Runs a program on the server, step by step, and tells what a change feed would: events, and the truth after
every commit.

Rows' changes are the difference between two states of the database, told in one of the ways in which TiCDC
may tell it. A statement that the server refuses is no part of the history.
"""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.database import Cells, Database, Name, Table, quoted
from tests.oracle.program import Program, Step

Event = dict[str, Any]
Pair = tuple[Cells | None, Cells | None]
State = dict[Name, Table]


class Runner:
    """`events` as tests/support/encode_open.py takes them; `states` [(commit_ts, tables)]; `refused` counts
    statements that had no effect.

    For feeds of a binlog a row's event has `virtual before` and `virtual after`, the cells that TiCDC leaves
    out, and the first of a statement's events has `run`: [database, table, statement, the session's database]
    as it was run; the others have none.
    """

    def __init__(self, database: Database, program: Program) -> None:
        self.database, self.seed, self.raw = database, program.seed, program.raw
        self.chance = random.Random(f"{program.seed} runner")
        self.program = replace(program, steps=[])
        self.events: list[Event] = []
        self.tables: State = {}
        self.ts = 400000000000000000 + (program.seed % 1000) * (1 << 30)
        self.states: list[tuple[int, State]] = [(self.ts, {})]
        self.refused = self.statements = self.identity = 0
        self.why = ""
        self.jobs: list[tuple[int, str, str]] = []
        database.begin(program.database, program.strict)

    def run(self, steps: Iterable[Step]) -> "Runner":
        for step in steps:
            self.step(step)
        return self

    def step(self, step: Step) -> bool:
        """Whether it had an effect; then it is a step of `program`."""
        done = self._transaction(step["rows"]) if "rows" in step else self._ddl(step)
        if done:
            self.program.steps.append(step)
        return done

    # --- rows

    def _transaction(self, statements: list[str]) -> bool:
        self.database.run("BEGIN")
        for sql in statements:
            self._run(sql)
        self.database.run("COMMIT")
        after = {
            name: replace(table, rows=self.database.rows(name, table)) for name, table in self.tables.items()
        }
        return self._changed(after)

    def _run(self, sql: str) -> bool:
        self.statements += 1
        why = self.database.run(sql)
        self.why = why or ""
        self.refused += why is not None
        return why is None

    def _changed(self, after: State) -> bool:
        """Tell the difference as one transaction."""
        pairs = [
            (name, pair) for name, table in after.items() for pair in self._pairs(self.tables[name], table)
        ]
        self.tables = after
        if not pairs:
            return False
        self._tick()
        if self.chance.random() < 0.3:
            self.chance.shuffle(pairs)
        self.events += [self._row(name, after[name], pair) for name, pair in pairs]
        self._commit()
        return True

    def _pairs(self, old: Table, new: Table) -> list[Pair]:
        if old.rows == new.rows:
            return []
        pairs = self._keyed(old, new) if new.handle() else self._counted(old, new)
        return sorted(pairs, key=lambda pair: (pair[0] is None, pair[1] is not None))

    def _keyed(self, old: Table, new: Table) -> list[Pair]:
        before, after = _by_key(old), _by_key(new)
        gone: list[Pair] = [(row, None) for key, row in before.items() if key not in after]
        come: list[Pair] = [(None, row) for key, row in after.items() if key not in before]
        same: list[Pair] = []
        for key in sorted(
            before.keys() & after.keys(), key=repr
        ):  # chance is asked: in one order, whatever the hash seed
            old_row, new_row = before[key], after[key]
            if old_row != new_row and self.chance.random() < 0.15:
                gone, come = (
                    [*gone, (old_row, None)],
                    [*come, (None, new_row)],
                )  # its other unique key changed
            elif old_row != new_row or self.chance.random() < 0.03:
                same.append((old_row, new_row))
        return self._moved(gone, come) + sorted(same, key=repr)

    def _moved(self, gone: list[Pair], come: list[Pair]) -> list[Pair]:
        """Old and new rows in one piece, as key changes that are not split."""
        gone, come = sorted(gone, key=repr), sorted(come, key=repr)
        count = min(len(gone), len(come)) if self.raw else 0
        self.chance.shuffle(come)
        moved: list[Pair] = [(old[0], new[1]) for old, new in zip(gone[:count], come[:count], strict=True)]
        return moved + gone[count:] + come[count:]

    def _counted(self, old: Table, new: Table) -> list[Pair]:
        """Without a key: rows are told by their count. Some that went and came are updates."""
        texts = {repr(row): row for row in (*old.rows, *new.rows)}
        before, after = Counter(map(repr, old.rows)), Counter(map(repr, new.rows))
        gone = sorted((before - after).elements())
        come = sorted((after - before).elements())
        self.chance.shuffle(come)
        count = self.chance.randint(0, min(len(gone), len(come)))
        pairs: list[Pair] = [
            (texts[one], texts[other]) for one, other in zip(gone[:count], come[:count], strict=True)
        ]
        return (
            pairs
            + [(texts[one], None) for one in gone[count:]]
            + [(None, texts[other]) for other in come[count:]]
        )

    def _row(self, name: Name, table: Table, pair: Pair) -> Event:
        self.identity += 1
        event: Event = {
            "kind": "row",
            "schema": name[0],
            "table": name[1],
            "commit_ts": self.ts,
            "row_id": self.identity,
            "shape": table.shape(),
            "of": replace(table, rows=()),
        }
        sent = {column.name for column in table.sent()}
        for side, row in zip(("before", "after"), pair, strict=True):
            if row is not None:
                event[side] = {column: cell for column, cell in row.items() if column in sent}
                if len(event[side]) < len(row):
                    event[f"virtual {side}"] = {
                        column: cell for column, cell in row.items() if column not in sent
                    }
        return event

    # --- DDL

    def _ddl(self, step: Step) -> bool:
        if not self._executed(step["ddl"]):
            return False
        if not self.events or self.events[-1]["kind"] != "row" or self.chance.random() < 0.8:
            self._tick()
        shapes = self.database.shapes()
        feed = self._feed(step)
        if step.get("select"):
            feed = [[*step["table"], self._created(tuple(step["table"]))]]
        self._sent(feed)
        # TiCDC sends a statement for each of its tables; a binlog has it once, as it was run
        for event in self.events[-len(feed) :]:
            event["run"] = None
        created = [*feed[0], step["table"][0]] if step.get("select") else None
        self.events[-len(feed)]["run"] = created or [*step["table"], step["ddl"], self.program.database]
        told = self._traced(step)
        after = {name: self._next(name, shape, told.get(name)) for name, shape in shapes.items()}
        self._doubt(step, after, told.get(tuple(step["table"])))
        if step.get("select"):
            return self._selected(after, tuple(step["table"]))
        self.tables = after
        self._commit()
        return True

    def _executed(self, sql: str) -> bool:
        """Whether a statement did something. TiDB has a job for what it does, also where it then refuses the
        rest of a DROP TABLE.
        """
        if not self.database.dialect.is_tidb:
            return self._run(sql)
        last = self.database.last_job()
        self._run(sql)
        self.jobs = self.database.jobs(last)
        return bool(self.jobs)

    def _feed(self, step: Step) -> list[list[str]]:
        """What is sent of a statement. TiDB drops several tables one by one, in the statement's order."""
        feed: list[list[str]] = step.get("feed") or [[*step["table"], step["ddl"]]]
        if not self.jobs or not step["ddl"].startswith("DROP TABLE"):
            return feed
        named = {(db, table.lower()): [db, table, sql] for db, table, sql in feed}
        told = [named[db, table] for _, db, table in self.jobs]
        for db, table, sql in told[:-1]:
            self._dropped((db, table), sql)
        return told[-1:]

    def _dropped(self, name: Name, sql: str) -> None:
        """A table's own commit, of a statement that drops several."""
        self._sent([[*name, sql]])
        self.events[-1]["run"] = None
        self.tables = {other: table for other, table in self.tables.items() if other != name}
        self._commit()
        self._tick()

    def _sent(self, feed: list[list[str]]) -> None:
        self.events += [
            {"kind": "ddl", "schema": db, "table": table, "commit_ts": self.ts, "query": sql}
            for db, table, sql in feed
        ]

    def _created(self, name: Name) -> str:
        """What a log has of a table made by a query: its shape, JSON being JSON."""
        text = str(self.database.ask(f"SHOW CREATE TABLE {quoted(name)}")[0][1])
        return re.sub(
            (
                r"^(\s*`(?:[^`]|``)*`) longtext((?: CHARACTER SET \w+)?(?: COLLATE \w+)?)( NOT NULL)?.* "
                r"CHECK \(json_valid\(.*\)\)"
            ),
            lambda found: f"{found[1]} json{found[3] or ''}",
            text,
            flags=re.M,
        )

    def _selected(self, after: State, name: Name) -> bool:
        self.tables = {**after, name: replace(after[name], rows=())}
        self._commit()
        self._changed(after)
        return True

    def _traced(self, step: Step) -> dict[Name, Table]:
        """The tables as they were, under the names that they have now."""
        told = dict(self.tables)
        for old, new in step.get("renamed", ()):
            if tuple(old) in told:
                told[tuple(new)] = told.pop(tuple(old))
        if "like" in step:
            told[tuple(step["like"][1])] = replace(
                told[tuple(step["like"][0])], unknown=frozenset(), maybe=False, computed=False
            )
        elif step.get("fresh"):
            told.pop(tuple(step["table"]), None)
        return told

    def _next(self, name: Name, shape: Table, before: Table | None) -> Table:
        """The table after a DDL. An index keeps its place by age, which the lists of servers but TiDB
        don't tell.
        """
        table = self.database.full(name, shape)
        if before is None:
            return table
        indexes = table.indexes if self.database.dialect.is_tidb else _by_age(before, table)
        computed = before.computed or (
            before.columns != table.columns and any(column.generated == "virtual" for column in table.columns)
        )
        unknown = before.unknown if table.rows else frozenset()
        return replace(table, indexes=indexes, unknown=unknown, maybe=before.maybe, computed=computed)

    def _doubt(self, step: Step, after: State, before: Table | None) -> None:
        """Which cells no message tells."""
        name = tuple(step["table"])
        if name not in after:
            return
        table, moved = after[name], step.get("columns", {})
        names = {column.name for column in table.columns}
        unknown = {moved.get(column, column) for column in table.unknown} & {*names, "rows"}
        named = set(step.get("unknown", ()))
        unknown |= named if before is None or before.rows else set()
        computed = [] if before is None else _recomputed(before, table, moved)
        unknown |= {column for column, other in computed if other}
        unknown |= set() if before is None else set(_by_collation(before, table, moved))
        if unknown & set(table.handle()):
            unknown = {"rows"}
        maybe = table.maybe or bool(unknown | named) or bool(computed) or bool(step.get("maybe"))
        if step.get("clears"):
            after[name] = replace(table, unknown=frozenset(), maybe=False, computed=False)
        else:
            after[name] = replace(table, unknown=frozenset(unknown), maybe=maybe)

    # --- time

    def _tick(self) -> None:
        self.ts += self.chance.choice((1, 2, 262144))

    def _commit(self) -> None:
        if self.states[-1][0] == self.ts:
            self.states.pop()
        self.states.append((self.ts, dict(self.tables)))


def _by_key(table: Table) -> dict[tuple[Any, ...], Cells]:
    names = table.handle()
    return {tuple(row[name]["value"] for name in names): row for row in table.rows}


def _by_age(before: Table, table: Table) -> tuple[Any, ...]:
    ages = {index[0]: age for age, index in enumerate(before.indexes)}
    by_columns = {index[1:]: age for age, index in enumerate(before.indexes)}
    return tuple(
        sorted(table.indexes, key=lambda index: ages.get(index[0], by_columns.get(index[1:], len(ages))))
    )


def _recomputed(before: Table, after: Table, moved: dict[str, str]) -> list[tuple[str, bool]]:
    """Stored columns that may have been computed anew, and whether some value is another now."""
    now = {column.name: column for column in after.columns}
    pairs = [
        (column, now[moved.get(column.name, column.name)])
        for column in before.columns
        if moved.get(column.name, column.name) in now
    ]
    if all(
        (one.type, one.not_null, one.charset) == (other.type, other.not_null, other.charset)
        for one, other in pairs
    ):
        return []
    stored = [(one.name, other.name) for one, other in pairs if one.generated == other.generated == "stored"]
    return [(new, _values(before, old) != _values(after, new)) for old, new in stored]


def _by_collation(before: Table, after: Table, moved: dict[str, str]) -> Iterator[str]:
    """Columns that became ENUM or SET of text that only some collations take for one of the labels."""
    now = {column.name: column for column in after.columns}
    for old in before.columns:
        new = now.get(moved.get(old.name, old.name))
        if new is None or new.base not in ("enum", "set") or new.type == old.type:
            continue
        labels = {one.replace("''", "'") for one in re.findall(r"'((?:[^']|'')*)'", new.type)}
        folded = {_folded(label) for label in labels}
        texts = {str(row[old.name]["value"]) for row in before.rows if row[old.name]["value"] is not None}
        split = (text.split(",") if new.base == "set" else [text] for text in texts)
        words = {word.rstrip(" ") for found in split for word in found}
        if any(word not in labels and _folded(word) in folded for word in words):
            yield new.name


def _folded(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part)).rstrip(" ")


def _values(table: Table, column: str) -> Counter[str]:
    return Counter(str(row[column]["value"]) for row in table.rows)
