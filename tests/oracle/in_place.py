"""DDL in place against the fold: at each statement that is done in place, the rows right before it, with
what it does to every row, are those that the fold gives right behind it.
"""

from collections import Counter
from typing import Any

from lakehouse.events import Position, just_above, just_below
from lakehouse.gold.columns import GoldColumn, Typed, gold_columns, type_rows
from lakehouse.gold.ddl_in_place import InPlace, in_place
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import PLAIN
from lakehouse.lineage import Lineage
from tests.support.engine import TSO, Memory

Lines = Counter[str]


def check_in_place(silver: Memory) -> int:
    """How many places there were; AssertionError where the two ways differ."""
    history, changes = silver._lineages()
    found = 0
    for lineage in history.lineages:
        mine = changes.get(lineage.id, [])
        for at in sorted({step.position for step in lineage.steps[1:]}):
            found += _is_same(silver, lineage, mine, at)
    return found


def _is_same(silver: Memory, lineage: Lineage, changes: list[Any], at: Position) -> bool:
    virtual = not silver.format.startswith("ticdc")
    below = just_below(at)
    steps = lineage.step_at(just_above(below)), lineage.step_at(just_above(at))
    before, after = (
        gold_columns(lineage.steps[step].schema, virtual=virtual, options=PLAIN) for step in steps
    )
    change = in_place(lineage, steps, (before, after), options=PLAIN, upstream=silver.upstream)
    rows = [Mode(lineage, one, silver.upstream, TSO, PLAIN).rows(changes) for one in (below, at)]
    if change is None or rows[0].problems:
        return False
    typed = [type_rows(folded.rows, columns) for folded, columns in zip(rows, (before, after), strict=True)]
    if {column.companion for column in change.retyped} & typed[0].raw.keys():
        return False
    assert not rows[1].problems, f"{lineage.id} at {at[1]}: in place, and lacking {rows[1].problems}"
    expected, got = _changed(typed[0], change, before), _lines(typed[1], after)
    assert expected == got, f"{lineage.id} at {at[1]}: {change.words}: {expected - got} for {got - expected}"
    return True


def _lines(typed: Typed, columns: list[GoldColumn]) -> Lines:
    """The rows as texts: values, and what they are beside them."""
    nothing = [None] * typed.count
    cells = [(column.name, typed.columns[column.name]) for column in columns]
    cells += [(column.companion, typed.raw.get(column.companion, nothing)) for column in columns]
    return Counter(repr([(name, values[row]) for name, values in cells]) for row in range(typed.count))


def _changed(typed: Typed, change: InPlace, before: list[GoldColumn]) -> Lines:
    """The rows as the statement leaves them."""
    former = {column.column.id: column for column in before}
    fills = {one.column.column.id: one.value for one in change.added}
    rules = {one.new[0].id: one.rule() for one in change.converted}
    values: dict[str, list[Any]] = {}
    raw: dict[str, list[str | None]] = {}
    for column in change.columns:
        old = former.get(column.column.id)
        if old is None:
            values[column.name] = [fills[column.column.id]] * typed.count
            continue
        rule = rules.get(column.column.id, _same)
        values[column.name] = [rule(value) for value in typed.columns[old.name]]
        if old.companion in typed.raw:
            raw[column.companion] = typed.raw[old.companion]
    return _lines(Typed(values, raw, typed.count), list(change.columns))


def _same(value: Any) -> Any:
    return value
