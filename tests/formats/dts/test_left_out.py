"""Tencent DTS: a subscription to some tables. Structure updates come of all tables of the instance, rows of
the chosen ones alone.
"""

import pytest

from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.schema_history.table_lives import UNSEEN
from tests.formats.dts.test_subscription import dml, entries, header, number, record
from tests.support.engine import Memory

COLUMNS = [("id", "int", True)]


def statement(position: int, sql: str) -> pb.Entry:
    """As the service sends it: its header names no table."""
    told = pb.Event(ddlEvent=pb.DDLEvent(schemaName="d", sql=sql))
    return pb.Entry(header=header(pb.DDL, position=position, schemaName="", tableName=""), event=told)


def inserted(position: int, table: str, id_: int) -> pb.Entry:
    return dml(pb.INSERT, COLUMNS, ([], [number(id_)]), position=position, tableName=table)


@pytest.mark.parametrize(("ghost", "why"), [([], UNSEEN), ([inserted(400, "_t_gho", 1)], None)])
def test_a_table_of_which_no_row_has_come_takes_a_name_that_had_rows_and_is_incomplete(
    ghost: list[pb.Entry], why: str | None
) -> None:
    """An online schema change: the other table is filled, but is not one of those that were chosen."""
    feed = [
        statement(100, "CREATE TABLE t (id INT PRIMARY KEY)"),
        inserted(200, "t", 1),
        statement(300, "CREATE TABLE _t_gho LIKE t"),
        *ghost,
        statement(500, "RENAME TABLE t TO _t_del, _t_gho TO t"),
        inserted(600, "t", 2),
    ]
    sent = record(pb.Envelope(version=1, total=1, data=entries(*feed).value), 0)
    memory = Memory("tencent-dts", tidb=False).add([sent])

    lineage = memory.lineages().live(memory.reach)["d", "t"]
    assert (lineage.incomplete_at(memory.reach) or (None, None))[1] == why
    assert len(memory.tables(memory.reach)["d.t"]) == 1 + len(ghost)
