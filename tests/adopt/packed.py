"""What Canal would send of the writer's changes, in protobuf, as our encoder writes it."""

from lakehouse.ddl import edits
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.events import Message
from lakehouse.schema import TableSchema
from tests.adopt.feed import Encoded
from tests.support.busy_server import CREATE, TABLES, BusyServer, Placed, Row, kind_of
from tests.support.encode_binlog import Logged, canal_entry, canal_packet
from tests.support.encode_open import Cells

_OPS = {"c": "insert", "u": "update", "d": "delete"}


class Packed(Encoded):
    """A packet for each transaction, whose events lie behind its place in the server's own binlog."""

    format, topics, options = "canal-protobuf", "packets", "{server: mariadb}"

    def __init__(self, busy: BusyServer) -> None:
        super().__init__(busy)
        self._sent, self._packets = 0, list[Message]()
        self._shapes = {table: _shape_of(table) for table in busy.tables}

    def told(self) -> list[Message]:
        """Messages that have not been forgotten."""
        self._busy.messages.clear()
        new = self._busy.placed[self._sent :]
        for number, transaction in enumerate(new, self._sent):
            value = canal_packet(map(canal_entry, self._events(transaction)), number + 1)
            self._packets.append(Message("packets", 0, number, None, value))
        self._sent += len(new)
        return list(self._packets)

    def forget(self, count: int) -> None:
        """The first ones are in the broker."""
        del self._packets[:count]

    def _events(self, one: Placed) -> list[Logged]:
        file, time = int(one.file.rpartition(".")[2]), 1_700_000_000 + one.number

        def event(op: str, place: int) -> Logged:
            return Logged(op, file, one.offset + place, time, one.number)

        rows = [
            event(_OPS[op], place)._replace(
                schema="shop",
                table=table,
                pairs=((_cells(old, self._shapes[table]), _cells(new, self._shapes[table])),),
                shape=self._shapes[table],
            )
            for place, (table, (op, old, new)) in enumerate(one.changes, 1)
        ]
        return [event("begin", 0), *rows, event("commit", len(rows) + 1)]


def _shape_of(table: str) -> TableSchema:
    statement = read(CREATE[TABLES.index(kind_of(table))].format(table))[0]
    assert isinstance(statement, edits.CreateTable)
    return create(statement)


def _cells(row: Row | None, shape: TableSchema) -> Cells | None:
    if row is None:
        return None
    return {
        column.name: {
            "type": str(column.type),
            "value": None if row[column.name] is None else str(row[column.name]),
        }
        for column in shape.columns
    }
