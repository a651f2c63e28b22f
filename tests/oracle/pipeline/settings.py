"""What the YAMLs of a source and its tables say at each run: the first ones, and what somebody changes
between two runs. A program's tables are kept in one mode; options are a table's own.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.oracle.database import Name
from tests.oracle.pipeline.plan import History, SourcePlan

MODES: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"deletes": "soft"},
    {"mode": "history"},
    {"mode": "append"},
)
# of a column that is no part of a key
COLUMNS: tuple[dict[str, Any], ...] = (
    {"exclude": True},
    {"hash": "sha256"},
    {"mask": "last4"},
    {"rename": "told otherwise"},
)
# the share of programs whose mode, and of tables whose options somebody changes before a run
CHANGES = 0.12


@dataclass(frozen=True)
class Said:
    """The YAMLs at a run: the source's size of a batch, and of each table what it says beside its name."""

    max_records: int | None
    tables: dict[Name, dict[str, Any]]


def told_of(history: History, modes: dict[str, dict[str, str]]) -> dict[Name, dict[str, Any]]:
    """What a source's tables say where each program has but its mode, by its first database."""
    names = {name for _, state in history.states for name in state}
    return {name: _gold(modes[_program(name)]) for name in names}


def changed(first: Said, plan: SourcePlan, runs: int, small: int) -> list[Said]:
    """The YAMLs at every run. Programs take another mode between two, tables other options, the source
    another size of a batch: `small` or none.
    """
    chance = random.Random(f"{plan.name} {plan.seeds} settings")
    free = dict(_free_columns(plan.history))
    said = [first]
    for _ in range(runs - 1):
        tables = dict(said[-1].tables)
        for program in sorted({_program(name) for name in tables}):
            if chance.random() < CHANGES:
                gold = _gold(chance.choice(MODES))
                tables |= {name: gold for name in tables if _program(name) == program}
        for name in sorted(tables):
            if chance.random() < CHANGES:
                tables[name] = {**tables[name], **_options(free.get(name, []), chance)}
        said.append(Said(chance.choice((said[-1].max_records, None, small)), tables))
    return said


def _program(name: Name) -> str:
    return name[0].removesuffix("_2")


def _gold(mode: dict[str, str]) -> dict[str, Any]:
    return {"gold": mode} if mode else {}


def _options(columns: list[str], chance: random.Random) -> dict[str, Any]:
    """Something about one column, or nothing more."""
    if not columns or chance.random() < 0.3:
        return {"columns": {}}
    return {"columns": {chance.choice(columns): chance.choice(COLUMNS)}}


def _free_columns(history: History) -> Iterator[tuple[Name, list[str]]]:
    """Of each table the columns that it ever had under that name and that were never part of a key."""
    seen: dict[Name, set[str]] = {}
    keys: set[str] = set()
    for _, state in history.states:
        for name, table in state.items():
            seen.setdefault(name, set()).update(column.name for column in table.columns)
            keys |= {column.lower() for column in table.handle()}
            keys |= {column.lower() for _, names, unique in table.indexes if unique for column in names}
    for name, columns in seen.items():
        yield name, sorted(column for column in columns if column.lower() not in keys)
