"""RENAME TABLE that takes one table over several names, as TiCDC tells it: a record for each name at one
commit ts, all of them under the table's last one.
"""

import pytest

from lakehouse.sources.recording import read_recording
from tests.support.engine import Memory
from tests.support.paths import DATA

FORMATS = ("ticdc-open", "ticdc-canal-json", "ticdc-debezium")


def _recorded(format_: str) -> Memory:
    """Tables a, b and c with rows, `RENAME a TO x, x TO y`, then swaps of y and b, of c with itself, of three
    tables, and `RENAME c TO q1, q1 TO q2, q2 TO q3`; a row into each table behind each.
    """
    options = {"time_zone": "Asia/Shanghai"}
    return Memory(format_, options).add(read_recording(DATA / format_ / "rename_chain.jsonl.gz"))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_keeps_its_rows_over_the_names_between(format_: str) -> None:
    silver = _recorded(format_)

    rows = silver.tables(silver.reach)

    assert {name: sorted(row["id"] for row in found) for name, found in rows.items()} == {
        "chain.b": [1, 2, 200],
        "chain.q3": [4, 10, 20, 200, 300],
        "chain.y": [1, 2, 3, 5],
    }


@pytest.mark.parametrize("format_", FORMATS)
def test_no_table_stays_under_a_name_between(format_: str) -> None:
    silver = _recorded(format_)
    at = silver.reach

    live = silver.lineages().live(at)

    assert sorted(live) == [("chain", "b"), ("chain", "q3"), ("chain", "y")]
    assert [one.incomplete_at(at) for one in live.values()] == [None] * 3
    assert not silver.lineages().problems
