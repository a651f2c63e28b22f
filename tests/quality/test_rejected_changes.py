"""Rejected changes in the fold: gold holds, per row, its newest state that passes, however the changes are
cut into batches.
"""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.current_rows import finish, fold, settle
from lakehouse.fold.row_edits import REJECTED, Change
from lakehouse.fold.row_history import row_history
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.quality.row_states import States
from lakehouse.schema import Column, make_schema, parse_type

COLUMNS = ("id", "v", "w")
KEYED = make_schema([Column(0, name, parse_type("int")) for name in COLUMNS], ("id",))
KEYLESS = make_schema([Column(0, name, parse_type("int")) for name in COLUMNS], ())
ID = {column.name: column.id for column in KEYED.columns}
Row = dict[str, int]

keys = st.integers(1, 3)
values = st.integers(-2, 2)
steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "patch", "patch", "move", "delete"]), keys, values, values),
    max_size=25,
)
# where the batches end, as shares of the changes
cuts = st.lists(st.floats(0, 1), max_size=4)


def lineage(schema: Any = KEYED) -> Lineage:
    return Lineage("t", [Step(MIN_POSITION, schema)], [Interval(("d", "t"), MIN_POSITION, None)])


def place(number: int) -> Position:
    return (0, number, 1, 0, 0, 0)


def passes(row: Row) -> bool:
    return row["v"] + row["w"] >= 0


def played(told: list[tuple[str, int, int, int]]) -> tuple[list[Change], list[dict[int, Row]]]:
    """The changes of a source that does these things, and after each of them what gold must hold."""
    source: dict[int, Row] = {}
    standing: dict[int, Row] = {}
    changes, states = [], []
    for number, (kind, key, v, w) in enumerate(told, 1):
        old = source.get(key)
        if old is None or kind == "delete":
            if (change := _came_or_went(number, kind, old, {"id": key, "v": v, "w": w})) is None:
                continue
        elif kind == "patch":
            change = Change(
                place(number),
                "update",
                {"id": key},
                {"id": key, "v": v},
                "canonical",
                ("partial_before", "partial_after"),
            )
        else:
            new = {"id": key % 3 + 1 if kind == "move" else key, "v": v, "w": w}
            if new["id"] != key and new["id"] in source:
                continue
            change = Change(place(number), "update", old, new, "canonical")
        _happen(source, standing, key, change)
        changes.append(change)
        states.append({key: dict(row) for key, row in standing.items()})
    return changes, states


def _came_or_went(number: int, kind: str, old: Row | None, new: Row) -> Change | None:
    if kind == "delete":
        return None if old is None else Change(place(number), "delete", old, None, "canonical")
    return Change(place(number), "insert", None, new, "canonical")


def _happen(source: dict[int, Row], standing: dict[int, Row], key: int, change: Change) -> None:
    old = source.pop(key, {})
    if change.after is None or change.after["id"] != key:
        standing.pop(key, None)
    if change.after is not None:
        row = {**old, **change.after}
        source[row["id"]] = row
        if passes(row):
            standing[row["id"]] = row


def judged(changes: list[Change], schema: Any = KEYED) -> Iterator[Change]:
    """As lakehouse/spark/quality/evaluate.py does it: each change completed, and refused where the row after
    it does not pass.
    """
    states = States(lineage(schema), Upstream(), remember=True)
    for change in changes:
        step, before, after = states.after(change)
        full = states.completed(step, change, before, after)
        refused = after is not None and not passes({name: after[ID[name]] for name in COLUMNS})
        yield full._replace(flags=(*full.flags, REJECTED)) if refused else full


def named(rows: Any) -> list[Row]:
    return [{name: row[ID[name]] for name in COLUMNS} for row in rows]


@given(steps, cuts)
def test_gold_holds_the_newest_state_that_passes_of_every_row_whatever_the_batches(
    told: Any, shares: list[float]
) -> None:
    changes, states = played(told)
    ready = list(judged(changes))
    gold: dict[int, Row] = {}

    ends = sorted({round(share * len(ready)) for share in shares} | {len(ready)})
    for start, end in zip([0, *ends], ends, strict=False):
        batch = fold(lineage(), ready[start:end], place(10**6))
        settle(batch, ID.values())
        assert batch.patches == {}
        for key in batch.deleted:
            gold.pop(key[0], None)
        gold.update({row["id"]: row for row in named(finish(batch))})
        assert gold == (states[end - 1] if end else {})
    whole = fold(lineage(), ready[::-1], place(10**6))
    assert {row["id"]: row for row in named(finish(whole))} == gold


def came_and_went(images: list[tuple[int, int]], data: Any) -> tuple[list[Change], list[Row]]:
    """Inserts of these images and deletes of some of them, and the rows that pass and stay."""
    rows = [{"id": 0, "v": v, "w": w} for v, w in images]
    gone = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.just([]))
    inserts = [Change(place(number), "insert", None, row, "canonical") for number, row in enumerate(rows, 1)]
    deletes = [
        Change(place(100 + number), "delete", rows[index], None, "canonical")
        for number, index in enumerate(gone)
    ]
    return [*inserts, *deletes], [row for index, row in enumerate(rows) if index not in gone and passes(row)]


@given(st.lists(st.tuples(values, values), max_size=12), st.data())
def test_a_table_without_a_key_counts_only_rows_that_pass_and_no_delete_of_a_refused_one(
    images: Any, data: Any
) -> None:
    changes, kept = came_and_went(images, data)

    folded = fold(lineage(KEYLESS), judged(changes, KEYLESS), place(10**6))

    assert sorted(map(str, named(folded.keyless))) == sorted(map(str, kept))
    assert folded.problems == set()


@given(steps)
def test_a_history_has_no_version_that_is_refused_and_ends_with_the_newest_states_that_pass(
    told: Any,
) -> None:
    changes, states = played(told)

    history = row_history(lineage(), judged(changes), place(10**6), by_commit=True)

    assert sorted(named(history.rows), key=str) == sorted((states or [{}])[-1].values(), key=str)
    assert all(
        passes(row) for row in named(entry.after for entry in history.entries if entry.after is not None)
    )
    assert history.problems == frozenset()


@given(st.lists(st.tuples(values, values), max_size=12), st.data())
def test_a_history_without_a_key_ends_no_row_that_was_refused(images: Any, data: Any) -> None:
    changes, kept = came_and_went(images, data)

    history = row_history(lineage(KEYLESS), judged(changes, KEYLESS), place(10**6), by_commit=True)

    assert sorted(map(str, named(history.rows))) == sorted(map(str, kept))
    assert history.problems == frozenset()
