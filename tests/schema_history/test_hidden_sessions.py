"""Statements of which a flat message of Canal does not tell the session's database."""

import pytest

from lakehouse.schema_history.rulings import UNPLACED
from lakehouse.sources.recording import read_recording
from tests.support.engine import Memory
from tests.support.paths import DATA


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
