"""A history is built again only where something differs that it depends on."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import History, Name, shape_of
from lakehouse.schema import Column
from lakehouse.schema_history import reuse
from lakehouse.schema_history.build import build
from lakehouse.schema_history.schema_records import Record, Shape

END = (0, 1000, 0, 0, 0, 0)


def at(place: int) -> Position:
    return (0, place, 0, 0, 0, 0)


def ddl(place: int, table: str, text: str) -> Record:
    return Record("ddl", "d", table, at(place), ddl=text, columns=None, commit_ts=place)


RECORDS = (
    ddl(10, "a", "CREATE TABLE a (id INT PRIMARY KEY, v INT)"),
    ddl(20, "a", "ALTER TABLE a ADD COLUMN w INT DEFAULT 1"),
    ddl(30, "b", "RENAME TABLE b TO c"),
    Record("schema", "d", "e", at(40), ddl=None, columns=[{"name": "id", "type": "int"}]),
)


@dataclass
class Rows:
    """The rows of tables, each with the places of its first and last row."""

    found: dict[Name, tuple[int, int]]
    types: dict[str, str] = field(default_factory=lambda: {"id": "int", "v": "text"})
    key: tuple[str, ...] = ("id",)
    looks: int = 0

    def names(self) -> list[Name]:
        return list(self.found)

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        first, last = self.found.get(name, (0, 0))
        return name in self.found and at(last) > low and (high is None or at(first) < high)

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        self.looks += 1
        return Shape(self.types, self.key, max(at(self.found[name][0]), low or MIN_POSITION))

    def key_names(self, name: Name) -> tuple[str, ...]:
        return self.key


ROWS = {("d", "a"): (11, 25), ("d", "b"): (12, 29), ("d", "f"): (50, 60)}


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a history was built; none is kept before and after the test."""
    found: list[int] = []

    def counted(*given: Any, **more: Any) -> History:
        found.append(1)
        return build(*given, **more)

    monkeypatch.setattr(reuse, "build", counted)
    monkeypatch.setattr(reuse, "_kept", {})
    yield found


def built(rows: Rows, records: tuple[Record, ...] = RECORDS, **given: Any) -> History:
    return reuse.built("lake", records, rows, given.pop("rules", Rules()), **given)


def test_rows_that_change_no_answer_leave_the_history_as_it_was(builds: list[int]) -> None:
    first, later = Rows(dict(ROWS)), Rows({**ROWS, ("d", "a"): (11, 900), ("d", "f"): (50, 901)})

    assert built(first) == built(later, RECORDS[::-1]) == build(RECORDS, later, Rules())
    assert len(builds) == 1
    assert later.looks == 2 * first.looks, "what was asked is asked again, for whoever keeps the answers"


@pytest.mark.parametrize(
    "given",
    [
        {"rows": Rows({**ROWS, ("d", "g"): (70, 80)})},
        {"rows": Rows({**ROWS, ("d", "b"): (31, 99)})},
        {"rows": Rows(dict(ROWS), types={"id": "int", "v": "json"})},
        {"rows": Rows(dict(ROWS), types={"v": "text", "id": "int"})},
        {"rows": Rows(dict(ROWS), key=("v",))},
        {"records": (*RECORDS, ddl(90, "a", "DROP TABLE a"))},
        {"records": (*RECORDS[:1], replace(RECORDS[1], ddl="ALTER TABLE a ADD w TEXT"), *RECORDS[2:])},
        {"records": (*RECORDS[:3], replace(RECORDS[3], columns=[{"name": "id", "type": "\ud800"}]))},
        {"rules": Rules({("d", "a"): {"add_column": "ignore"}})},
        {"rules": Rules(charset="latin1")},
        {"snapshots": [at(40)]},
        {"ordered": False},
        {"virtual": True},
    ],
)
def test_a_history_is_built_again_where_something_differs(given: dict[str, Any], builds: list[int]) -> None:
    built(Rows(dict(ROWS)))
    given = {"rows": Rows(dict(ROWS)), **given}
    rows, records, rules = given.pop("rows"), given.pop("records", RECORDS), given.pop("rules", Rules())

    found = built(rows, records, rules=rules, **given)

    assert len(builds) == 2
    assert found == build(records, rows, rules, given.pop("snapshots", ()), **given)


def test_what_is_done_to_a_history_is_not_in_the_next_one(builds: list[int]) -> None:
    first, expected = built(Rows(dict(ROWS))), build(RECORDS, Rows(dict(ROWS)), Rules())

    first.problems.append((END, "x"))
    for lineage in first.lineages:
        lineage.id, lineage.key_names = "x", ("x",)
        for found in (lineage.steps, lineage.intervals, lineage.incomplete, lineage.notes):
            found.clear()
        lineage.times[END] = lineage.unsettled[END] = 1  # type: ignore[assignment]
    first.lineages.clear()

    assert built(Rows(dict(ROWS))) == expected
    assert len(builds) == 1


def test_no_more_steps_are_kept_than_fit(builds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*places: str) -> int:
        before = len(builds)
        for place in places:
            reuse.built(place, RECORDS[:2], Rows({}), Rules())
        return len(builds) - before

    monkeypatch.setattr(reuse, "STEPS", 4)

    assert asked("x", "y", "x", "z", "x", "y") == 4, "of three sources with two steps each two are kept"


def test_a_digest_of_steps_is_that_of_their_text_and_computed_once(
    builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests have it: another one for the same steps would fold all tables again."""
    texts: list[Column] = []
    plain = Column.__repr__

    def text(column: Column) -> str:
        texts.append(column)
        return plain(column)

    monkeypatch.setattr(Column, "__repr__", text)
    found = []
    for place in (at(15), END, at(15)):
        lineage = built(Rows(dict(ROWS))).lineages[0]
        steps = [
            (step.position, repr(step.schema), repr(step.effects))
            for step in lineage.steps
            if step.position <= place
        ]
        told = (steps, [(one.name, one.low) for one in lineage.intervals], lineage.key_names, [7])
        assert (
            shape_of(lineage, place, [7]) == hashlib.blake2b(repr(told).encode(), digest_size=12).hexdigest()
        )
        found.append(shape_of(lineage, place, [7]))
        texts.clear()
    assert found[0] == found[2] != found[1]
    assert shape_of(lineage, END, [7]) == found[1]
    assert not texts

    other = built(Rows(dict(ROWS))).lineages[0]
    other.steps[0] = replace(other.steps[0], schema=replace(other.steps[0].schema, charset="latin1"))
    assert shape_of(other, END, [7]) != shape_of(lineage, END, [7])
