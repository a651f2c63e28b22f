"""What is asked of the source's server: what kind it is, where it stands, a table's columns, and the ranges
of its primary key in which a table is read.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from lakehouse.events import Position
from lakehouse.formats.binlog import file_number
from lakehouse.lineage import Name
from lakehouse.schema import parse_type
from lakehouse.sources.server_sql import NO_PAD, Asks, end_of_binlog, literal, table_name, text, word
from lakehouse.verification.cells import ServerColumn

ALL = "1 = 1"
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
# types by whose order a key can be read in ranges: the order of a comparison is that of ORDER BY
_NUMBERS, _ORDERED = ("integer", "decimal", "year"), ("text", "binary", "date", "datetime", "timestamp")


class ServerPlace(NamedTuple):
    """A server's place in its binlog: behind all that it has committed."""

    file: str
    offset: int

    def position(self, epoch: int) -> Position:
        """The position that the feed's events from there on lie above."""
        return (epoch, file_number(self.file), self.offset, 0, 0, 0)

    def passed_by(self, watermark: Position) -> bool:
        """Whether a feed that is complete up to `watermark` has told all that lies before the place."""
        return watermark[1:3] >= (file_number(self.file), self.offset)

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


def place_of(server: Asks) -> ServerPlace:
    """Where the server stands. EnvironmentError_ where it has no binlog, or does not tell the account."""
    place = end_of_binlog(server)
    return ServerPlace(place.file, place.offset)


def columns_of(server: Asks, name: Name) -> list[ServerColumn]:
    """A table's columns in their order; none where there is no such table."""
    database, table = map(literal, name)
    rows = server.ask(
        "SELECT column_name, column_type, extra, column_key, collation_name FROM information_schema.columns "
        f"WHERE table_schema = {database} AND table_name = {table} ORDER BY ordinal_position"
    )
    return [
        ServerColumn(
            text(column),
            text(type_),
            virtual="VIRTUAL" in text(extra).upper(),
            in_key=text(key) == "PRI",
            no_pad=NO_PAD in text(collation).lower(),
        )
        for column, type_, extra, key, collation in rows
    ]


def ranges(server: Asks, name: Name, columns: list[ServerColumn], size: int) -> Iterator[str]:
    """Conditions that each row of the table meets exactly one of, whatever is written meanwhile; of about
    `size` rows each, by the first column of the primary key where its order can be told.
    """
    first = _range_column(server, name, columns)
    if first is None:
        yield ALL
        return
    key, family, low = word(first.name), parse_type(first.type).family, ALL
    table = table_name(name)
    while True:
        found = server.ask(f"SELECT {key} FROM {table} WHERE {low} ORDER BY {key} LIMIT 1 OFFSET {size}")
        bound = _value(found[0][0], family) if found else None
        if bound is None:
            yield low
            return
        yield f"{low} AND {key} <= {bound}"
        low = f"{key} > {bound}"


def _range_column(server: Asks, name: Name, columns: list[ServerColumn]) -> ServerColumn | None:
    if not any(column.in_key for column in columns):
        return None
    database, table = map(literal, name)
    rows = server.ask(
        "SELECT column_name FROM information_schema.statistics WHERE index_name = 'PRIMARY' "
        f"AND seq_in_index = 1 AND table_schema = {database} AND table_name = {table}"
    )
    named = {text(row[0]).lower() for row in rows}
    found = next((column for column in columns if column.name.lower() in named), None)
    if found is None or (found.no_pad and parse_type(found.type).base == "char"):
        return None
    return found if parse_type(found.type).family in (*_NUMBERS, *_ORDERED) else None


def _value(cell: bytes | None, family: str) -> str | None:
    """A key's value as SQL; None where it can't be written so that it is compared as the column is."""
    if cell is None:
        return None
    if family in _NUMBERS:
        return cell.decode() if _NUMBER.fullmatch(cell) else None
    data = f"x'{cell.hex()}'" if cell else "''"
    return data if family == "binary" or not cell else f"_utf8mb4 {data}"
