"""The rows of a table that are read again alone, because a comparison has named them.

    rows found to differ ─▶ the buckets that they lie in ─▶ one SELECT of these
                                                          └▶ the rows whose keys were named

Of a key that was named and is not among the rows the source has none: where gold has it, it is gone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lakehouse.errors import DecodeError, LakehouseError
from lakehouse.formats.snapshot.decode import converter
from lakehouse.formats.snapshot.encode import CHUNK_BYTES, CHUNK_ROWS, key_names, text_column
from lakehouse.formats.snapshot.records import PartRecord, Place
from lakehouse.schema import TableSchema
from lakehouse.sources.database import Cells
from lakehouse.sources.live.tables import LiveTable
from lakehouse.values.normal_form import normal_form
from lakehouse.verification.rows import Comparison
from lakehouse.verification.verdict import CHANGED, EXTRA, MISSING, Found

# bytes of cells that a part holds at once
MOST_BYTES = 64 << 20


class WholeOnly(LakehouseError):
    """Why a table can't be read in part: all of it has to be read again."""


class Span(NamedTuple):
    """The place that rows stand at, and where all of what they show had happened (None: there, too)."""

    place: Place
    until: Place | None = None

    def __str__(self) -> str:
        return str(self.place) if self.until is None else f"{self.place} to {self.until}"


class Wanted(NamedTuple):
    """The rows that are to be read: the hashes of their keys, and the buckets that they lie in."""

    keys: frozenset[str]
    buckets: tuple[int, ...]


def wanted(comparison: Comparison | None, found: Sequence[Found], more: int) -> Wanted:
    """What a comparison has named. WholeOnly where that is not all that differs, or names no row."""
    if more:
        raise WholeOnly("more of its rows differ than are named")
    if comparison is None:
        raise WholeOnly("its columns have changed while it was compared")
    if not comparison.keys:
        raise WholeOnly("it has no key that tells its rows")
    if comparison.sample is not None:
        raise WholeOnly("a sample of its rows was compared, of which others may differ too")
    if {one.kind for one in found} - {CHANGED, EXTRA, MISSING}:
        raise WholeOnly("its columns differ, or one key has several rows")
    return Wanted(frozenset(one.key for one in found), tuple(sorted({one.bucket for one in found})))


def reads_alike(known: TableSchema, live: TableSchema) -> bool:
    """Whether rows of the server's table are read by the known schema: its columns, their types and the key
    are the same. Of a charset that no statement has told, the server alone knows.
    """

    def form(schema: TableSchema) -> tuple[object, ...]:
        names = {column.id: column.name for column in schema.columns}
        columns = [(one.name, replace(one.type, charset=None), one.not_null) for one in schema.columns]
        key = [names[one] for one in schema.handle_key]
        return columns, [one.generated for one in schema.columns], key

    pairs = zip(known.columns, live.columns, strict=False)
    told = [pair for pair in pairs if pair[0].type.charset is not None]
    return form(known) == form(live) and all(one.type.charset == other.type.charset for one, other in told)


@dataclass(frozen=True, slots=True)
class Part:
    """Reads the wanted rows of a table as it is now; `number` is that of its records."""

    table: LiveTable
    comparison: Comparison
    wanted: Wanted
    number: int = 1

    @property
    def statement(self) -> str:
        """What the server is asked."""
        return self.table.rows_where(self.comparison.in_buckets_sql(self.wanted.buckets))

    def rows(self, streamed: Iterable[Sequence[Cells]]) -> dict[str, Cells]:
        """The wanted rows among those that the server sends, by the hashes of their keys. WholeOnly where
        they are too many to hold.
        """
        places, read = self._key_places(), self._key_reads()
        found, held = dict[str, Cells](), 0
        for rows in streamed:
            for row in rows:
                key = self._hash([one(row[place]) for one, place in zip(read, places, strict=True)])
                if key in self.wanted.keys:
                    found[key] = row
                    held += sum(len(cell) for cell in row if cell is not None)
                    if held > MOST_BYTES:
                        raise WholeOnly("the rows that differ are too large to be held")
        return found

    def _key_places(self) -> list[int]:
        names = [column.name for column in self.table.schema.columns]
        cells = [self.comparison.cells[place] for place in self.comparison.keys]
        if sorted(cell.name for cell in cells) != list(key_names(self.table.schema)):
            raise WholeOnly("gold tells its rows by another key than the server")
        return [names.index(cell.name) for cell in cells]

    def _key_reads(self) -> list[Any]:
        columns = self.table.schema.columns
        return [
            _reader(text_column(columns[at]), self.table.charset, self.comparison.cells[place].gold.type)
            for at, place in zip(self._key_places(), self.comparison.keys, strict=True)
        ]

    def _hash(self, values: Sequence[Any]) -> str:
        if any(isinstance(value, dict) for value in values):
            raise WholeOnly("a key has text that its charset does not have")
        return self.comparison.key_of(values)

    def gone(self, gold: Mapping[str, Sequence[Any]], rows: Mapping[str, Cells]) -> list[list[Any]]:
        """The keys that gold has and the source has not, their values in the order of the record's key;
        `gold` are the values of the comparison's key by its hash.
        """
        names = [self.comparison.cells[place].name for place in self.comparison.keys]
        order = [names.index(name) for name in key_names(self.table.schema)]
        missing = [gold[key] for key in sorted(gold.keys() - rows.keys())]
        if any(value is None for values in missing for value in values):
            raise WholeOnly("a key of gold has a value that its type can't hold")
        return [[values[place] for place in order] for values in missing]

    def records(self, span: Span, rows: Iterable[Cells], gone: list[list[Any]]) -> Iterator[PartRecord]:
        """The records of what was read."""
        for some in _chunks(rows):
            yield self._record(span, some, [])
        for first in range(0, len(gone), CHUNK_ROWS):
            yield self._record(span, [], gone[first : first + CHUNK_ROWS])

    def _record(self, span: Span, rows: list[list[bytes | None]], gone: list[list[Any]]) -> PartRecord:
        schema, name = self.table.schema, self.table.listed.name
        return PartRecord(
            number=self.number,
            place=span.place,
            until=span.until,
            database=name[0],
            table=name[1],
            columns=tuple(map(text_column, schema.columns)),
            key=key_names(schema),
            charset=self.table.charset,
            zone="+00:00",
            rows=rows,
            gone=gone,
        )


def _reader(column: Any, charset: str | None, gold: Any) -> Any:
    """The function that reads a key's cell as gold has it."""
    read, form = converter(column, charset, "UTC"), normal_form(gold) or (lambda value: value)

    def value(cell: bytes | None) -> Any:
        try:
            return None if cell is None else form(read(cell))
        except (ValueError, DecodeError):
            raise WholeOnly("a key has a value that is not one of its type") from None

    return value


def _chunks(rows: Iterable[Cells]) -> Iterator[list[list[bytes | None]]]:
    some, size = list[list[bytes | None]](), 0
    for row in rows:
        some.append(list(row))
        size += sum(len(cell) for cell in row if cell is not None)
        if size >= CHUNK_BYTES or len(some) >= CHUNK_ROWS:
            yield some
            some, size = [], 0
    if some:
        yield some
