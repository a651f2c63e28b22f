"""RENAME TABLE that takes one table over several names, as TiCDC tells it: a record for each name at one
commit ts, all of them under the table's last one.
"""

import pytest

from lakehouse.schema_history.build import MAY_BE_GONE, ORIGIN
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_tree import read_tree
from tests.support.engine import Memory
from tests.support.paths import DATA

TREE = DATA / "storage" / "csv-rename-chain"
FORMATS = ("ticdc-open", "ticdc-canal-json")


def _recorded(format_: str) -> Memory:
    """Tables a, b and c with rows, `RENAME a TO x, x TO y`, then swaps of y and b, of c with itself, of three
    tables, and `RENAME c TO q1, q1 TO q2, q2 TO q3`; a row into each table behind each.
    """
    options = {"time_zone": "Asia/Shanghai"}
    return Memory(format_, options).add(read_recording(DATA / "rename-chain" / f"{format_}.jsonl.gz"))


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


def _stored() -> Memory:
    """The same statements in the tree of a storage sink, which keeps one file of each table's steps."""
    options = {"protocol": "csv", "include-commit-ts": "true", "output-old-value": "true"}
    return Memory("ticdc-storage", options).add(read_tree(TREE / "data", options))


def test_tables_that_exchange_names_keep_their_rows_though_a_step_of_theirs_is_lost() -> None:
    silver = _stored()
    at = (0, 470719146007199744, 2, 0, 0, 0)  # RENAME c TO d, d TO c

    rows = silver.tables(at)

    assert sorted(row["id"] for row in rows["chain.c"]) == [1]
    assert silver.lineages().live(at)["chain", "c"].incomplete_at(at) is None


def test_a_table_of_which_only_the_last_step_is_told_is_incomplete_and_so_is_what_it_may_have_been() -> None:
    silver = _stored()

    live = silver.lineages().live(silver.watermark)
    told = {name[1]: one.incomplete_at(silver.watermark) for name, one in live.items()}

    assert {name: one and one[1] for name, one in told.items()} == {
        "a": MAY_BE_GONE,
        "b": None,
        "c": MAY_BE_GONE,
        "q3": ORIGIN,
        "y": ORIGIN,
    }
