"""Feeds in arrival order over several partitions: what their order can't tell is reported, not guessed.

An offset orders rows within its partition alone. A key whose changes stay in one partition is exact. What is not:
a statement that changes rows which lie in other partitions than it does, a name that two tables had, and keys of which changes came
in several partitions (an update of the key goes to the new key's partition, and deletes the old one from there).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakehouse.events import Position
from lakehouse.lineage import History, Lineage, Name, Step

Place = tuple[str, int]
STATEMENT = "a statement came in another partition than rows that it changes: which came first is not known"
NAME = "another table had its name, and rows of the two came in other partitions than the statements: which are whose is not known"


@dataclass(frozen=True, slots=True)
class Spread:
    """Where a feed's rows and statements lie: partitions by table, and by a statement's place and text; `moved` counts the keys of a
    table whose changes came in several partitions."""

    rows: Mapping[Name, set[Place]] = field(default_factory=dict)
    statements: Mapping[tuple[Position, str | None], Place] = field(default_factory=dict)
    moved: Mapping[Name, int] = field(default_factory=dict)


def report_disorder(history: History, spread: Spread) -> None:
    """Mark the lineages of which something depends on an order that the feed does not tell."""
    owners = Counter(name for lineage in history.lineages for name in {interval.name for interval in lineage.intervals})
    for lineage in history.lineages:
        names = {interval.name for interval in lineage.intervals}
        shared = {name for name in names if owners[name] > 1}
        lineage.incomplete += _found(lineage, names, shared, spread)


def _found(lineage: Lineage, names: set[Name], shared: set[Name], spread: Spread) -> Iterable[tuple[Position, str]]:
    rows = set().union(*(spread.rows.get(name, set()) for name in names))
    for before, step in zip(lineage.steps, lineage.steps[1:], strict=False):
        if rows - {spread.statements.get((step.position, step.ddl))} and _changes_rows(before, step):
            yield step.position, STATEMENT
    if shared and len(rows | set(spread.statements.values())) > 1:
        yield lineage.start, NAME
    if moved := sum(spread.moved.get(name, 0) for name in names):
        yield lineage.start, f"changes of {moved} keys came in several partitions, whose order is not known"


def _changes_rows(before: Step, step: Step) -> bool:
    """Even a new column that is NULL at first: rows behind it may be read by the schema before it."""
    return bool(step.effects) or before.schema.columns != step.schema.columns
