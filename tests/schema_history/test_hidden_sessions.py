"""Statements of which a flat message of Canal does not tell the session's database."""

import pytest

from lakehouse.events import Message
from lakehouse.schema_history.rulings import UNPLACED
from lakehouse.schema_history.statements import DROPPED
from lakehouse.schema_history.table_lives import EMPTY
from lakehouse.sources.recording import read_recording
from tests.support.engine import Memory
from tests.support.paths import DATA
from tests.support.wires import dumps


def recorded(format_: str) -> Memory:
    """The session is in d2: `ALTER TABLE d1.a ADD COLUMN x INT, RENAME b` makes d2.b, and
    `RENAME TABLE d1.c TO d1.d, e TO f` makes d2.f of d2.e.
    """
    return Memory(format_, tidb=False).add(read_recording(DATA / format_ / "hidden_session.jsonl.gz"))


def test_a_rename_that_may_be_into_any_database_holds_the_tables_of_its_names() -> None:
    silver = recorded("canal")
    live = silver.lineages().live(silver.reach)

    held = {".".join(name): lineage.held.why for name, lineage in live.items() if lineage.held}

    assert held == dict.fromkeys(("d1.a", "d1.c", "d1.d", "d2.b", "d2.e", "d2.f"), UNPLACED)


@pytest.mark.parametrize("table", ["d2.b", "d2.f", "d1.d"])
def test_the_packed_form_tells_it(table: str) -> None:
    silver = recorded("canal-protobuf")

    assert all(lineage.held is None for lineage in silver.lineages().live(silver.reach).values())
    assert len(silver.tables(silver.reach)[table]) == 2


def sent(*statements: tuple[str, str]) -> Memory:
    """Flat messages of statements, each with the database that its message has."""
    common = {"isDdl": True, "type": "CREATE", "es": 1000, "table": "x"}
    return Memory("canal", tidb=False).add(
        Message("t", 0, place, None, dumps({**common, "id": place + 1, "database": database, "sql": sql}))
        for place, (database, sql) in enumerate(statements)
    )


EQUALS = (("d1", "CREATE TABLE t (id INT, a INT)"), ("d2", "CREATE TABLE t (id INT, b INT)"))


def test_a_table_made_like_one_that_may_be_of_two_databases_has_the_columns_of_its_rows() -> None:
    """The session is in d2, the message has the new table's database."""
    silver = sent(*EQUALS, ("d1", "CREATE TABLE d1.c LIKE t"))

    lineage = silver.lineages().live(silver.reach)["d1", "c"]

    assert lineage.steps[-1].schema == EMPTY


def test_a_table_made_like_one_of_two_that_are_alike_has_their_columns() -> None:
    silver = sent(EQUALS[0], ("d2", EQUALS[0][1]), ("d1", "CREATE TABLE d1.c LIKE t"))

    lineage = silver.lineages().live(silver.reach)["d1", "c"]

    assert [column.name for column in lineage.steps[-1].schema.columns] == ["id", "a"]
    assert lineage.held is None


@pytest.mark.parametrize(
    ("database", "tables", "live"),
    [
        pytest.param("d1", "d1.u, t", {"d1.t": None, "d2.t": DROPPED}, id="of another than is written"),
        pytest.param("d2", "t, d1.u", {"d1.t": None}, id="of the first name's, which is the session's"),
        pytest.param("d1", "d1.u, d2.t", {"d1.t": None}, id="written"),
    ],
)
def test_a_drop_of_several_tables_ends_those_that_it_names(
    database: str, tables: str, live: dict[str, str | None]
) -> None:
    silver = sent(*EQUALS, ("d1", "CREATE TABLE u (id INT)"), (database, f"DROP TABLE {tables}"))

    found = silver.lineages().live((1, 0, 0, 0, 0, 0)).items()

    told = {".".join(name): [why for _, why in lineage.incomplete] for name, lineage in found}
    assert told == {name: [why] if why else [] for name, why in live.items()}
