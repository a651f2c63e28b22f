"""Native Debezium: tables whose rows the connector leaves out (table.include.list). Their statements come all
the same, unless schema.history.internal.store.only.captured.tables.ddl is set.
"""

from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.schema_history.table_lives import UNSEEN
from tests.support.debezium_records import SOURCE, message, row
from tests.support.engine import Memory


def statement(pos: int, ddl: str, table: str, *columns: str) -> Message:
    told = [{"name": name, "typeName": "INT", "optional": name != "id"} for name in columns]
    shape = {"columns": told, "primaryKeyColumnNames": ["id"]}
    change = {"type": "ALTER", "id": f'"d"."{table}"', "table": shape}
    source = SOURCE | {"pos": pos, "row": 0, "table": table}
    return message({"source": source, "databaseName": "d", "ddl": ddl, "tableChanges": [change]})


def inserted(pos: int, table: str, **columns: Any) -> Message:
    return message(row("c", None, columns, pos=pos, row=0, table=table), {"id": columns["id"]})


def swapped(*ghost: Message) -> Memory:
    """An online schema change: another table is made, filled with `ghost`, and takes the name."""
    feed = [
        statement(100, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "t", "id", "a"),
        inserted(200, "t", id=1, a=1),
        statement(300, "CREATE TABLE _t_gho LIKE t", "_t_gho", "id", "a"),
        statement(400, "ALTER TABLE _t_gho ADD n INT", "_t_gho", "id", "a", "n"),
        *ghost,
        statement(600, "RENAME TABLE t TO _t_del", "_t_del", "id", "a"),
        statement(600, "RENAME TABLE _t_gho TO t", "t", "id", "a", "n"),
        inserted(700, "t", id=2, a=2, n=2),
    ]
    return Memory("debezium", tidb=False).add(feed)


@pytest.mark.parametrize(("ghost", "why"), [([], UNSEEN), ([inserted(500, "_t_gho", id=1, a=1, n=0)], None)])
def test_a_table_of_which_no_row_has_come_takes_a_name_that_had_rows_and_is_incomplete(
    ghost: list[Message], why: str | None
) -> None:
    memory = swapped(*ghost)
    lineage = memory.lineages().live(memory.reach)["d", "t"]

    assert (lineage.incomplete_at(memory.reach) or (None, None))[1] == why
    assert len(memory.tables(memory.reach)["d.t"]) == 1 + len(ghost)
