"""Tencent DTS: transactions that were rolled back after their rows had been sent.

    BEGIN  DML d.t  DML d.u  ROLLBACK   ─▶   a dead letter of d.t, one of d.u
           DML d.u  ROLLBACK            ─▶   a dead letter of the source: it began in an earlier message
    BEGIN  ROLLBACK                     ─▶   nothing

Rows of tables with transactions are undone, those of others stay, and nothing tells which they are.
"""

from collections.abc import Sequence

from lakehouse.events import DeadLetter
from lakehouse.formats.binlog import ROLLED_BACK
from lakehouse.formats.proto import subscribe_pb2 as pb


def rolled_back(before: Sequence[pb.Entry], index: int) -> list[DeadLetter]:
    """A dead letter of each table that has rows in the transaction which ends behind these entries, numbered
    from `index` on; one of the source where its beginning is not among them.
    """
    names: dict[tuple[str, str], None] = {}
    kind = None
    for entry in reversed(before):
        kind = entry.header.messageType
        if kind in (pb.BEGIN, pb.COMMIT, pb.ROLLBACK):
            break
        if kind == pb.DML:
            names[entry.header.schemaName, entry.header.tableName] = None
    tables = sorted(names) if kind == pb.BEGIN else [("", "")]
    return [
        DeadLetter("rollback", ROLLED_BACK, number, database=database or None, table=table or None)
        for number, (database, table) in enumerate(tables, index)
    ]
