"""A snapshot's tables as records: rows cut into chunks that depend on nothing but the rows."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from lakehouse.events import SNAPSHOT_TOPIC, Message
from lakehouse.formats.snapshot.records import (
    VERSION,
    Place,
    Record,
    RowsRecord,
    TableRecord,
    TextColumn,
    encode,
)
from lakehouse.schema import Column, TableSchema

# a record holds rows of at most so many bytes, but for one row that is longer, and at most so many rows
CHUNK_BYTES = 1 << 20
CHUNK_ROWS = 5000
Cells = list[bytes | None]


class TableChunks:
    """The records of one table, whose first row has the number `count`. A chunk ends where the way its rows
    are to be read changes.
    """

    def __init__(
        self, place: Place, name: tuple[str, str], schema: TableSchema, *, live: bool = False, count: int = 0
    ) -> None:
        self._place, self.name, self.live = place, name, live
        self._columns = {column.name: text_column(column) for column in schema.columns}
        self._key = key_names(schema)
        self._rows: list[Cells] = []
        self._reading: tuple[tuple[str, ...], str | None, str | None] | None = None
        self._bytes, self.count = 0, count

    def add(
        self, columns: Sequence[str], rows: Iterable[Cells], charset: str | None, zone: str | None
    ) -> Iterator[RowsRecord]:
        """Add rows; gives the chunks that are full."""
        reading = (tuple(columns), charset, zone)
        if self._reading not in (None, reading):
            yield from self.rest()
        self._reading = reading
        for row in rows:
            self._rows.append(row)
            self._bytes += sum(len(cell) for cell in row if cell is not None)
            if self._bytes >= CHUNK_BYTES or len(self._rows) >= CHUNK_ROWS:
                yield from self.rest()
                self._reading = reading

    def rest(self) -> Iterator[RowsRecord]:
        """The rows that are not in a chunk yet."""
        if self._rows and self._reading is not None:
            names, charset, zone = self._reading
            yield RowsRecord(
                place=self._place,
                database=self.name[0],
                table=self.name[1],
                columns=tuple(self._columns[name] for name in names),
                key=self._key if set(self._key) <= set(names) else (),
                charset=charset,
                zone=zone,
                first=self.count,
                rows=self._rows,
                live=self.live,
            )
            self.count += len(self._rows)
        self._rows, self._bytes, self._reading = [], 0, None

    def end(
        self, create: str, until: Place | None = None, rounded: Iterable[str] = ()
    ) -> Iterator[RowsRecord | TableRecord]:
        """The last rows, and the record that ends the table."""
        yield from self.rest()
        yield TableRecord(
            place=self._place,
            database=self.name[0],
            table=self.name[1],
            create=create,
            rows=self.count,
            until=until,
            rounded=tuple(rounded),
        )


def key_names(schema: TableSchema) -> tuple[str, ...]:
    """The columns of the handle key, by name."""
    names = {column.id: column.name for column in schema.columns}
    return tuple(sorted(names[column_id] for column_id in schema.handle_key))


def text_column(column: Column) -> TextColumn:
    """A column as records name it."""
    plain = replace(column.type, members=(), charset=None)
    return TextColumn(column.name, str(plain), column.type.charset or "")


def messages(records: Iterable[Record], incarnation: str) -> Iterator[Message]:
    """The records as messages of bronze."""
    for offset, record in enumerate(records):
        yield Message(SNAPSHOT_TOPIC, 0, offset, key=None, value=encode(record), incarnation=incarnation)


def incarnation_of(place: Place, told: Iterable[object]) -> str:
    """The incarnation of a snapshot: a digest of its position and of what identifies its input."""
    said = msgspec.json.encode([VERSION, CHUNK_BYTES, CHUNK_ROWS, str(place), [str(one) for one in told]])
    return hashlib.blake2b(said, digest_size=12).hexdigest()
