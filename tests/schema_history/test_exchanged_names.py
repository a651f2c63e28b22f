"""An ALTER that exchanges names of columns: Canal's parsers apply its clauses in turn, and some releases then
send values under the wrong names.
"""

import pytest

from lakehouse.events import Message
from lakehouse.lineage import NAMES_MIXED
from lakehouse.sources.recording import read_recording
from tests.support.engine import Memory
from tests.support.paths import DATA
from tests.support.wires import dumps

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"


@pytest.mark.parametrize("format_", ["canal", "canal-protobuf"])
def test_a_table_is_incomplete_once_canal_may_have_mixed_up_its_columns(format_: str) -> None:
    silver = Memory(format_, tidb=False).add(read_recording(DATA / format_ / "exchanged_names.jsonl.gz"))

    live, rows = silver.lineages().live(silver.reach), silver.tables(silver.reach)

    # the server has a = 22: the TRUNCATE in between mends nothing, for the names stay mixed up
    assert rows["e.a"] == [{"id": 3, "a": 11, "b": 22}]
    problem = live["e", "a"].incomplete_at(silver.reach)
    assert problem is not None
    assert problem[1] == NAMES_MIXED
    assert rows["e.b"] == [{"id": 2, "a": 22}]
    assert live["e", "b"].incomplete_at(silver.reach) is None


def test_a_copy_of_such_a_table_is_incomplete_too() -> None:
    """gh-ost's table, of whose columns Canal has the same idea."""
    exchange = "ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN a TO b"
    told = [
        ("t", CREATE),
        ("t", exchange),
        ("u", "CREATE TABLE u LIKE t"),
        ("v", CREATE.replace(" t ", " v ")),
    ]
    said = [
        {"database": "d", "table": table, "type": "ALTER", "isDdl": True, "es": number, "sql": sql}
        for number, (table, sql) in enumerate(told)
    ]
    silver = Memory("canal", tidb=False).add(
        Message("c", 0, offset, None, dumps(one)) for offset, one in enumerate(said)
    )

    live = silver.lineages().live(silver.reach)
    doubted = [name[1] for name, one in live.items() if one.incomplete_at(silver.reach) is not None]

    assert sorted(doubted) == ["t", "u"]
