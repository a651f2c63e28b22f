"""A live table as records of a snapshot: its rows in chunks by key, each chunk of a moment of its own.

    place       of the first moment. All rows stand there, below what was streamed from there on: what they
                show of later, the stream tells once more
    until       of the last moment, or of one after it: from there on the table is exact

Each record carries a mark of how far its table has come, so that a run which died goes on behind it. While a
chunk is read, those behind it may be, on connections that no other table has (ahead.py); they become records
in the order of the key.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Message
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.encode import TableChunks
from lakehouse.formats.snapshot.records import Place, RowsRecord, TableRecord, encode
from lakehouse.lineage import Name
from lakehouse.sources.database import Cells, Database, DatabaseError
from lakehouse.sources.dumps.records import Place as ServerPlace
from lakehouse.sources.live.ahead import Chunk, Connections, rows_held
from lakehouse.sources.live.servers import Moment, Server
from lakehouse.sources.live.tables import Key, Listed, LiveTable, described
from lakehouse.sources.server_sql import server_time

# rows of one SELECT
CHUNK_ROWS = 50_000
# a table whose definition changes while it is read is read so many times
TRIES = 3
_CHANGED, _NO_TABLE, _NO_COLUMN = 1412, 1146, 1054


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a table has come at a record: `rows` so far, `last` the key of the last one, `done`: it is
    complete. `run` is when its run began, and in which epoch; `tables` how many that reads; `attempt` when
    the process began that has read its first row.
    """

    run: str
    tables: int
    database: str
    table: str
    place: Place
    rows: int
    last: list[bytes | None] = []
    done: bool = False
    epoch: int = 0
    attempt: str = ""

    @property
    def name(self) -> Name:
        return self.database, self.table


_encode_mark = msgspec.json.Encoder().encode
_decode_mark = msgspec.json.Decoder(Mark).decode


def mark_of(key: bytes | None) -> Mark | None:
    """The mark of a record of bronze; None for one of a dump."""
    return None if key is None else _decode_mark(bytes(key))


@dataclass(frozen=True, slots=True)
class Begun:
    """A table that a run which died has begun: its incarnation, the next offset in it, and its last mark."""

    incarnation: str
    offset: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Ending:
    """A table whose rows and definition have been read, with the place that the rows stand at, and the
    server's clock. `records` gives its last record, by the place from which on it is exact.
    """

    table: Listed
    place: Place
    time: int
    records: Callable[[Place], Iterator[Message]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What all tables of a run are read with. `placed` gives a server's place in the source's order; `paced`
    waits where rows come too fast; `begun` are the tables that are not complete. `ending` takes the ends of
    tables where it is seen later from which place on they are exact. `attempt` is the process's own: tables
    that it reads from their first row have other records than an earlier one's, also at the same place.
    `free` are the connections on which chunks are read ahead.
    """

    run: str
    tables: int
    epoch: int
    placed: Callable[[ServerPlace], Place]
    paced: Callable[[int], None] = field(default=lambda rows: None)
    begun: dict[Name, Begun] = field(default_factory=dict)
    chunk_rows: int = CHUNK_ROWS
    ending: Callable[[Ending], None] | None = None
    attempt: str = ""
    free: Connections | None = None


class TableGone(LakehouseError):
    """A table was dropped or renamed before it had been read."""


def table_messages(database: Database, server: Server, table: Listed, reading: Reading) -> Iterator[Message]:
    """A table's records. It is read again from its first row where its definition changes meanwhile.
    TableGone, LakehouseError with what to do.
    """
    for _ in range(TRIES):
        try:
            found = described(database, table, tidb=server.name == "TiDB")
            yield from _TableRead(database, server, found, reading).messages()
            return
        except _DefinitionChanged:
            continue
        except DatabaseError as error:
            if error.code == _NO_TABLE:
                raise TableGone(f"{'.'.join(table.name)}: was dropped or renamed") from None
            if error.code not in (_CHANGED, _NO_COLUMN):
                raise
    raise changed_definition(table.name)


def changed_definition(name: Name) -> LakehouseError:
    """The error of a table that was read in vain so many times."""
    return LakehouseError(
        f"{'.'.join(name)}: expected a table whose definition stays while it is read, got DDLs on it "
        f"{TRIES} times; run the command again when they are done"
    )


class _DefinitionChanged(Exception):
    """The table's definition is not what it was when its first row was read."""


class _TableRead:
    """One table read once, from its first row or from where a run that died had come to."""

    def __init__(self, database: Database, server: Server, table: LiveTable, reading: Reading) -> None:
        self.database, self.server, self.table, self.reading = database, server, table, reading
        self.name = table.listed.name
        self.columns = tuple(column.name for column in table.schema.columns)
        self.offset, self.incarnation, self.attempt = 0, "", reading.attempt
        self.last: list[bytes | None] | None = None
        self.chunks: TableChunks | None = None
        self.place = self.latest = Place()
        self.exact, self.is_read = True, False
        self.session = (f"SET SESSION character_set_results = {table.charset or 'NULL'}",)
        listed = table.listed
        self.rows = rows_held(listed.size, listed.rows, reading.chunk_rows)

    def messages(self) -> Iterator[Message]:
        self._go_on()
        for statement in self.session:
            self.database.execute(statement)
        while not self.is_read:
            yield from self._some()
        if not self.exact and self.reading.ending is None:
            with self.server.moment(self.database, first=False) as moment:
                self._take(moment)
        yield from self._end()

    def _some(self) -> Iterator[Message]:
        """One chunk, and those that others read meanwhile."""
        with self.server.moment(self.database, first=self.chunks is None) as moment:
            self._at(moment)
            bounds = self._bounds()
            spans = list(pairwise([*bounds, None]))
            ahead = [self._ahead(after, last) for after, last in spans]
            own = bounds[0] if bounds else None
            count = yield from self._own(own)
        yield from self._chunk_ends(count, own)
        for (_, last), chunk in zip(spans, ahead, strict=True):
            yield from self._read_ahead(chunk.result(), last)

    def _bounds(self) -> list[Key]:
        """The keys at which the next chunks end that are followed by one which a free connection reads."""
        bounds, free, low = list[Key](), self.reading.free, self.last
        while free is not None and self.table.key and free.take():
            found = list[Key]()
            try:
                found += self.database.ask(self.table.key_after(low, self.rows))
            finally:
                if not found:
                    free.give()
            if not found:
                break
            bounds.append(found[0])
            low = list(found[0])
        return bounds

    def _ahead(self, after: Key | None, last: Key | None) -> Future[Chunk]:
        assert self.reading.free is not None
        return self.reading.free.read(self.server, self.session, self._statement(after, last))

    def _statement(self, after: Key | None, last: Key | None) -> str:
        """A chunk's rows, up to a key, or so many."""
        table = self.table
        return table.rows_after(after, self.rows) if last is None else table.rows_between(after, last)

    def _own(self, last: Key | None) -> Generator[Message, None, int]:
        """Read the next chunk, up to a key (None: so many rows), in the moment that was taken. Returns the
        number of rows.
        """
        count = 0
        for rows in self.database.stream(self._statement(self.last, last)):
            count += len(rows)
            yield from self._rows(rows)
        return count

    def _read_ahead(self, chunk: Chunk, last: Key | None) -> Iterator[Message]:
        """Take a chunk that was read ahead, and read what it lacks."""
        self._at(chunk.moment)
        for rows in chunk.rows:
            yield from self._rows(rows)
        count = sum(map(len, chunk.rows))
        if not chunk.is_whole:
            yield from self._records(self._chunks().rest())
            with self.server.moment(self.database, first=False) as moment:
                self._at(moment)
                count = yield from self._own(last)
        yield from self._chunk_ends(count, last)

    def _chunk_ends(self, count: int, last: Key | None) -> Iterator[Message]:
        """No moment lasts while its last record is taken: a DDL on the table would wait for it."""
        yield from self._records(self._chunks().rest())
        self.is_read = last is None and (not self.table.key or count < self.rows)

    def _go_on(self) -> None:
        """Go on behind what was landed of the same table, where it can be."""
        begun = self.reading.begun.get(self.name)
        if begun is None or not self.table.key:
            return
        mark = begun.mark
        if begun.incarnation != self._incarnation(mark.place, mark.attempt):
            return
        self.place, self.incarnation, self.offset = mark.place, begun.incarnation, begun.offset
        self.last, self.attempt = mark.last, mark.attempt
        self.chunks = TableChunks(self.place, self.name, self.table.schema, live=True, count=mark.rows)

    def _take(self, moment: Moment) -> Place:
        """The place of a moment; chunks that were read ahead are of earlier ones than the newest."""
        place = self.reading.placed(moment.place)
        if self.latest == Place() or position(0, place) > position(0, self.latest):
            self.latest = place
        return place

    def _at(self, moment: Moment) -> None:
        """Take the moment of the rows that come next: the first one is the table's place."""
        place, exact = self._take(moment), moment.exact and self.table.listed.is_transactional
        self.exact = self.exact and exact
        if self.chunks is None:
            self.place = place
            self._refuse_without_key(exact)
            self.incarnation = self._incarnation(self.place, self.attempt)
            self.chunks = TableChunks(self.place, self.name, self.table.schema)
        self.chunks.live = not exact or place != self.place

    def _refuse_without_key(self, exact: bool) -> None:
        """Rows that can't be told from each other count once each: they must be of one moment."""
        if not exact and not self.table.has_key:
            raise LakehouseError(
                f"{'.'.join(self.name)}: expected a key, for {self._without_places()}, or leave it out with "
                "--tables"
            )

    def _without_places(self) -> str:
        """Why rows are of no known place, and what to do."""
        if self.place.topic:
            return (
                "the messages of the feed tell no place in the binlog, and rows that they tell too would "
                "count twice, got none; use Canal's protobuf"
            )
        return (
            f"{self.server.name} does not tell of which place in its binlog the rows of a SELECT are, got "
            "none; import a dump of it (mysqldump --single-transaction --source-data=2)"
        )

    def _incarnation(self, place: Place, attempt: str) -> str:
        told = [self.reading.run, self.reading.epoch, str(place), *self.name, self.table.state]
        if place.time:  # until the topic's next message, reads of different moments have one place
            told.append(str(place.time))
        if attempt:  # marks of older versions have none
            told.append(attempt)
        return hashlib.blake2b(msgspec.json.encode(told), digest_size=12).hexdigest()

    def _chunks(self) -> TableChunks:
        assert self.chunks is not None
        return self.chunks

    def _rows(self, rows: Sequence[Cells]) -> Iterator[Message]:
        self.reading.paced(len(rows))
        self.last = self.table.key_of(rows[-1]) if self.table.key else None
        found = self._chunks().add(self.columns, map(list, rows), self.table.charset, "+00:00")
        yield from self._records(found)

    def _end(self) -> Iterator[Message]:
        """The record that makes the table complete, if it is still what it was."""
        self.database.execute("SET SESSION character_set_results = utf8mb4")
        now = described(self.database, self.table.listed, tidb=self.server.name == "TiDB")
        if now.state != self.table.state:
            raise _DefinitionChanged
        if self.reading.ending is not None:
            self.reading.ending(
                Ending(self.table.listed, self.place, server_time(self.database), self._ended)
            )
        else:
            yield from self._ended(self.latest)

    def _ended(self, until: Place) -> Iterator[Message]:
        settled = None if until == self.place else until
        yield from self._records(self._chunks().end(self.table.create, settled))

    def _records(self, records: Iterator[RowsRecord | TableRecord]) -> Iterator[Message]:
        for record in records:
            done = isinstance(record, TableRecord)
            rows = record.rows if isinstance(record, TableRecord) else record.first + len(record.rows)
            last = [] if isinstance(record, TableRecord) else self.table.key_of(record.rows[-1])
            mark = Mark(
                run=self.reading.run,
                tables=self.reading.tables,
                database=self.name[0],
                table=self.name[1],
                place=self.place,
                rows=rows,
                last=last if self.table.key else [],
                done=done,
                epoch=self.reading.epoch,
                attempt=self.attempt,
            )
            yield Message(
                SNAPSHOT_TOPIC,
                0,
                self.offset,
                key=_encode_mark(mark),
                value=encode(record),
                incarnation=self.incarnation,
            )
            self.offset += 1
