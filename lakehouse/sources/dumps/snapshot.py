"""A dump as a snapshot of a source: its position in the source's order, its tables as records of bronze."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.formats import FORMATS
from lakehouse.formats.binlog import file_number
from lakehouse.formats.snapshot.encode import TableChunks, incarnation_of, messages
from lakehouse.formats.snapshot.records import Place as RecordPlace
from lakehouse.formats.snapshot.records import RowsRecord, TableRecord
from lakehouse.lineage import Name
from lakehouse.schema import Column, TableSchema
from lakehouse.sources.dumps.read import Dump
from lakehouse.sources.dumps.records import (
    TRANSACTIONAL,
    BinlogPlace,
    DumpEvent,
    Place,
    Rows,
    TableBegins,
    TableEnds,
    TopicPlace,
    Tso,
)

# servers' own databases, which no feed carries
_SYSTEM = frozenset({"information_schema", "metrics_schema", "mysql", "performance_schema", "sys"})
_NOT_ZERO = re.compile(rb"[1-9]")
_ENGINE = re.compile(r"^\)[^\n]*?\bENGINE\s*=\s*(\w+)", re.M | re.I)
# Unicode's basic plane alone, and the charsets that have more
_BASIC = frozenset({"utf8", "utf8mb3"})
_BEYOND_BASIC = frozenset({"gb18030", "utf16", "utf16le", "utf32", "utf8mb4"})


@dataclass(slots=True)
class TableFound:
    """A table of a dump, as far as it has been read, and what its rows lack. `rounded`: the FLOAT columns
    that have lost digits.
    """

    name: Name
    rows: int = 0
    notes: tuple[str, ...] = ()
    rounded: tuple[str, ...] = ()


@dataclass(slots=True)
class Found:
    """The tables that a dump has been found to have so far. `tidb`: it is a TiDB's, which prints all digits
    of a FLOAT that it prints without an exponent.
    """

    tidb: bool = False
    tables: list[TableFound] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


def place_in(format: str, order: str, place: Place | None, name: str) -> RecordPlace:
    """The position of a dump in a source's order. LakehouseError where it has none there, with what to do."""
    if order == "arrival" and isinstance(place, TopicPlace):
        return RecordPlace(topic=place.topic, partition=place.partition, offset=place.offset, time=place.time)
    if order not in ("tidb", "binlog"):
        raise LakehouseError(
            f"{name}: expected a feed with positions of the source, got one in order of arrival: a dump's "
            "place among its messages can't be told; set enable-tidb-extension=true (TiCDC), or use Canal's "
            "protobuf, and begin anew"
        )
    if place is None:
        raise LakehouseError(
            f"{name}: expected a dump that tells its position, got none; dump again with --master-data=2 or "
            "--source-data=2 (mysqldump), or say it: --at TSO, --at FILE:OFFSET"
        )
    if isinstance(place, Tso):
        if order == "tidb":
            return RecordPlace(tso=place.tso)
    elif order == "binlog" and isinstance(place, BinlogPlace):
        file_number(place.file)
        return RecordPlace(file=place.file, offset=place.offset, at_ends=FORMATS[format].tells_ends)
    wanted = "a TSO" if order == "tidb" else "a place in a binlog"
    raise LakehouseError(
        f"{name}: expected {wanted}, as the source's feed has, got {place}: is it another server's?"
    )


def snapshot_messages(dump: Dump, place: RecordPlace, found: Found) -> Iterator[Message]:
    """The dump as messages of bronze, the same each time it is read; `found` tells what has been read."""
    found.tidb = bool(place.tso)
    told = [dump.path or "", dump.zone or "", *((info.path, info.size) for info in dump.files.paths())]
    yield from messages(_records(dump, place, found), incarnation_of(place, told))


def _records(dump: Dump, place: RecordPlace, found: Found) -> Iterator[RowsRecord | TableRecord]:
    chunks: TableChunks | None = None
    create = ""
    for event in checked(dump, found):
        match event:
            case TableBegins(name, create, schema):
                chunks = TableChunks(place, name, _latin1_as_utf8(schema) if found.tidb else schema)
            case Rows(columns, rows, charset, zone) if chunks is not None:
                yield from chunks.add(columns, rows, charset, zone)
            case TableEnds() if chunks is not None:
                mine = next(table for table in reversed(found.tables) if table.name == chunks.name)
                yield from chunks.end(create, rounded=mine.rounded)


def _latin1_as_utf8(schema: TableSchema) -> TableSchema:
    """The columns as a TiDB has their text, where it is told as it is stored: latin1 is UTF-8 there, with any
    character.
    """
    columns = (
        replace(one, type=replace(one.type, charset="utf8mb4")) if one.type.charset == "latin1" else one
        for one in schema.columns
    )
    return replace(schema, columns=tuple(columns))


def checked(dump: Dump, found: Found) -> Iterator[DumpEvent]:
    """The events of the tables that a feed can have, counted in `found`. LakehouseError where a table comes
    twice or without its rows, no table has any, or nothing tells the zone of its TIMESTAMPs.
    """
    held, is_told = list[DumpEvent](), False
    for event in _checked(dump, found):
        held.append(event)
        # tables without rows wait for those of another one: a dump of schemas alone has none
        if is_told or isinstance(event, Rows) or (isinstance(event, TableEnds) and not event.untold):
            is_told = True
            yield from held
            held = []
    if held:
        raise LakehouseError(
            f"{dump.files.name}: expected rows of some table, got schemas alone: all tables would count as "
            "empty; dump again without --no-data, or with comments, which tell that tables have no rows "
            "(without --compact and --skip-comments)"
        )


def _checked(dump: Dump, found: Found) -> Iterator[DumpEvent]:
    names: set[Name] = set()
    passing, schema = False, TableSchema(())
    for event in dump.events():
        if isinstance(event, TableBegins):
            passing, schema = event.name[0].lower() in _SYSTEM, event.schema
            if not passing and event.name in names:
                raise LakehouseError(f"{'.'.join(event.name)}: expected its rows in one place, got it twice")
            names.add(event.name)
            if not passing:
                found.tables.append(TableFound(event.name, notes=_unlocked(event.create)))
        elif isinstance(event, Rows) and not passing:
            table = found.tables[-1]
            if not table.rows:
                table.notes += _left_out(schema, event.columns)
            table.rows += len(event.rows)
            table.rounded = _rounded(table.rounded, event, schema, tidb=found.tidb)
            _refuse_lossy_charset(event, table.name, schema)
            event = _zoned(event, table.name, schema, dump)
        elif isinstance(event, TableEnds) and not passing:
            if event.left_out:
                _refuse_left_out(found.tables[-1].name)
            found.tables[-1].notes += _short_floats(found.tables[-1])
        if not passing:
            yield event


def _refuse_left_out(name: Name) -> None:
    raise LakehouseError(
        f"{'.'.join(name)}: expected its rows, got its CREATE TABLE alone: it would count as empty; dump "
        "again with its rows (without --no-data and --ignore-table-data), or without the table "
        "(--ignore-table; a MERGE table has no rows of its own)"
    )


def _zoned(rows: Rows, name: Name, schema: TableSchema, dump: Dump) -> Rows:
    """The rows with the zone that an operator says, where the dump tells none."""
    if rows.zone is not None:
        return rows
    columns = [schema.column(column) for column in rows.columns]
    if dump.zone is None and any(column and column.type.family == "timestamp" for column in columns):
        raise LakehouseError(
            f"{'.'.join(name)}: expected a dump that tells the zone of TIMESTAMP text, got none; say it: "
            "--time-zone, with the zone of the session that dumped (Dumpling: the server's time_zone), such "
            "as +08:00"
        )
    return rows._replace(zone=dump.zone)


def _refuse_lossy_charset(rows: Rows, name: Name, schema: TableSchema) -> None:
    """LakehouseError where the client's charset lacks characters that a column's has: servers write `?`."""
    if rows.charset in (None, "utf8mb4"):
        return
    for column in schema.columns:
        if column.name in rows.columns and column.type.family in ("text", "enum", "set", "json"):
            own = column.type.charset or "utf8mb4"
            fits = own in (rows.charset, "ascii") or (rows.charset in _BASIC and own not in _BEYOND_BASIC)
            if not fits:
                raise LakehouseError(
                    f"{'.'.join(name)}: expected SET NAMES utf8mb4, got {rows.charset}, which lacks "
                    f"characters that {column.name} may have ({own}): they are lost; dump again with "
                    "--default-character-set=utf8mb4"
                )


def _rounded(before: tuple[str, ...], rows: Rows, schema: TableSchema, *, tidb: bool) -> tuple[str, ...]:
    """The FLOAT columns with a value of which the server may not have printed all digits; `before`: those of
    the rows before.
    """
    columns = [(place, schema.column(name)) for place, name in enumerate(rows.columns) if name not in before]
    places = [place for place, column in columns if _may_be_cut(column, tidb)]
    is_cut = _has_exponent if tidb else _is_cut
    found = (rows.columns[place] for place in places if any(is_cut(row[place]) for row in rows.rows))
    return (*before, *found)


def _short_floats(table: TableFound) -> tuple[str, ...]:
    names = ", ".join(table.rounded)
    return (f"FLOAT has six digits in a dump, so that it is incomplete: {names}",) if names else ()


def _may_be_cut(column: Column | None, tidb: bool) -> bool:
    """MySQL and MariaDB print all D decimals of a FLOAT(M,D); TiDB does without an exponent alone."""
    return column is not None and column.type.family == "float" and (tidb or column.type.scale is None)


def _has_exponent(cell: bytes | None) -> bool:
    """TiDB prints a FLOAT from 1e15 on, or below 1e-15, with six digits and an exponent, others whole
    (pkg/server/internal/util, AppendFormatFloat).
    """
    return b"e" in (cell or b"").lower()


def _is_cut(cell: bytes | None) -> bool:
    """Whether the text may be that of several FLOATs. Servers round to six digits and leave out the zeros at
    the end: 1.0000001 is printed as 1, and 0.10000001 as 0.1. Nothing but 0 is printed as 0.
    """
    return _NOT_ZERO.search((cell or b"").lower().partition(b"e")[0]) is not None


def _unlocked(create: str) -> tuple[str, ...]:
    """An engine without transactions shows what is written while it is dumped, unless nobody can write."""
    engine = _ENGINE.search(create)
    if engine is None or engine[1].lower() in TRANSACTIONAL:
        return ()
    return (
        f"{engine[1]} has no transactions: a dump that let others write has rows of later than its place",
    )


def _left_out(schema: TableSchema, columns: tuple[str, ...]) -> tuple[str, ...]:
    there = set(columns)
    names = [column.name for column in schema.columns if column.name not in there]
    return (f"columns that the dump's rows lack: {', '.join(names)}",) if names else ()
