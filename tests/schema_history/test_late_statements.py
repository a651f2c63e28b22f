"""Statements below a retention floor: what was known when it was raised counts, what came later does not
(T13, T51).
"""

import pytest

from lakehouse.events import Position
from lakehouse.lineage import History, Interval, Lineage, Step
from lakehouse.schema import make_schema
from lakehouse.schema_history.ordering_problems import RaisedFloor, report_refused, without_late
from lakehouse.schema_history.schema_records import Record

FLOOR = RaisedFloor((0, 200, 2, 0, 0, -1), frozenset({("d", "t")}), batch=3)


def place(at: int) -> Position:
    return (0, at, 2, 0, 0, 0)


def statement(at: int, table: str | None = "t", database: str = "d") -> Record:
    return Record("ddl", database, table, place(at), f"TRUNCATE TABLE {table or 't'}")


def lineage(name: str, low: int, high: int | None) -> Lineage:
    interval = Interval(("d", name), place(low), None if high is None else place(high))
    return Lineage(f"{name}@{low}", [Step(place(low), make_schema([]))], [interval])


def test_a_statement_of_a_later_batch_and_a_lower_place_is_refused() -> None:
    late = statement(150)

    found = without_late([(statement(100), 1), (statement(120), 3), (late, 4), (statement(250), 4)], [FLOOR])

    assert found.refused == [late]
    assert len(found.counted) == 3


def test_statements_of_other_tables_and_databases_count() -> None:
    records = [(statement(150, "u"), 4), (statement(150, "t", "e"), 4), (statement(150, None, "e"), 4)]

    assert without_late(records, [FLOOR]).refused == []


def test_a_statement_of_the_whole_database_is_refused_with_its_tables() -> None:
    dropped = Record("ddl", "d", None, place(150), "DROP DATABASE d")
    unread = Record("ddl", "d", None, place(150), "FROBNICATE")
    other = Record("ddl", "d", None, place(150), "DROP DATABASE e")

    assert without_late([(dropped, 4), (unread, 4), (other, 4)], [FLOOR]).refused == [dropped, unread]


def test_nothing_is_refused_without_a_floor() -> None:
    assert without_late([(statement(150), 4)], []).refused == []


def test_the_table_of_that_place_is_incomplete_since_the_first_of_them() -> None:
    history = History([lineage("t", 10, 170), lineage("t", 170, None), lineage("u", 10, None)])

    report_refused(history, [statement(160), statement(150)])

    why = "below the retention floor: 2 statements that arrived late were refused"
    assert [one.incomplete for one in history.lineages] == [[(place(150), why)], [], []]
    assert history.problems == []


def test_a_statement_of_no_known_table_is_a_problem_of_the_source() -> None:
    history = History([lineage("u", 10, None)])

    report_refused(history, [statement(150)])

    assert [position for position, _ in history.problems] == [place(150)]


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE u TO v, t TO w",
        "RENAME TABLE u TO v, v TO T",
        "DROP TABLE u, d.t",
        "DROP TABLE e.u, t",
        "ALTER TABLE u RENAME TO t",
        "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t",
        "FLASHBACK TABLE u TO t",
        "FLASHBACK TABLE u, t TO TSO 5",
        "FLASHBACK DATABASE d TO TSO 5",
        "FLASHBACK CLUSTER TO TSO 5",
        "DROP VIEW x; TRUNCATE TABLE t",
    ],
)
def test_a_statement_of_several_tables_is_refused_for_each_that_it_names(sql: str) -> None:
    """Its message names one of them."""
    told = Record("ddl", "d", "u", place(150), sql)
    history = History([lineage("t", 10, None), lineage("u", 10, None)])

    found = without_late([(told, 4)], [FLOOR])
    report_refused(history, found.refused)

    assert found.refused == [told]
    assert [len(one.incomplete) for one in history.lineages] == [1, 1]


@pytest.mark.parametrize("sql", ["CREATE VIEW t AS SELECT 1", "CREATE DATABASE d", "ANALYZE TABLE t"])
def test_a_statement_without_effect_is_refused_for_no_table(sql: str) -> None:
    assert without_late([(Record("ddl", "d", None, place(150), sql), 4)], [FLOOR]).refused == []


@pytest.mark.parametrize("ddl", [None, ""])
def test_a_late_record_without_a_statement_is_about_its_table(ddl: str | None) -> None:
    late = Record("schema", "d", "t", place(150), ddl)

    assert without_late([(late, 4)], [FLOOR]).refused == [late]
