"""Records of a snapshot to events, for a source of any format with positions of its own.

    rows     one RowChange a row, op `snapshot`, flag `snapshot=table`
    table    one SchemaChange of kind `table`: the table's CREATE TABLE, where its snapshot clears it; and one
             of kind `settled` where a snapshot of a live table has another place from which on it is exact
    part     one RowChange a row, op `snapshot`, and one a key that has none, op `delete`. They clear nothing
             and wait for no end: each is true by itself. Where they may show what happened later, one
             SchemaChange of kind `part` and one of kind `settled` say from where to where

Order: a snapshot of a binlog's position ranks below what was streamed from there on, like Debezium's own
(phase 0); where positions are those of ends of events, above what ends there (phase 2); one of a TSO above
every change and DDL of that commit; one of a topic's offset below the message there. Its `table` stands right
below its rows, those of a part right above them. A row without a key is told from equal ones by its number.
Outcomes: those above, DeadLetter for a row that can't be read, DecodeError for any other bytes. Options:
`time_zone`, where the dump does not say its own.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping

from lakehouse.errors import DecodeError
from lakehouse.events import (
    INCREMENTAL,
    PART,
    SETTLED,
    SNAPSHOT,
    SNAPSHOT_FLAG,
    TABLE_SNAPSHOT,
    DeadLetter,
    Event,
    Image,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Value,
)
from lakehouse.formats.binlog import file_number
from lakehouse.formats.snapshot.records import PartRecord, Place, RowsRecord, TextColumn, read_record
from lakehouse.schema import parse_type
from lakehouse.values.charsets import decode_text
from lakehouse.values.normal_form import bytes_vector, normal_form, vector_text
from lakehouse.values.scalars import base64_text, bit_number, integer, number, timestamp_utc

Convert = Callable[[bytes], Value | dict[str, str]]
_BEFORE, _AFTER = 0, 2
# in place of a row's number in its message: below all of the message at that offset
_BELOW = -1
_FLAGS = ("snapshot", SNAPSHOT_FLAG)
_LIVE = (*_FLAGS, INCREMENTAL)
_PART = ("snapshot", INCREMENTAL)
_PRINTED_VECTOR = re.compile(rb"\[[-+.,\deE ]*\]")


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one record."""
    record = read_record(message.value)
    zone = options.get("time_zone", "UTC")
    if isinstance(record, RowsRecord):
        yield from _rows(record, message.epoch, zone)
        return
    if isinstance(record, PartRecord):
        yield from _part(record, message.epoch, zone)
        yield from _part_ends(record, message.epoch)
        return
    yield SchemaChange(
        TABLE_SNAPSHOT,
        record.database,
        record.table,
        commit_ts=record.place.tso or None,
        position=position(message.epoch, record.place),
        ddl=record.create,
        index=0,
        columns=[{"name": name, "type": "float", "rounded": True} for name in record.rounded] or None,
    )
    if record.until is not None:
        yield SchemaChange(
            SETTLED,
            record.database,
            record.table,
            commit_ts=None,
            position=position(message.epoch, record.until),
            ddl=record.create,  # tells it from that of another table, which may be settled at the same place
            index=1,
        )


def position(epoch: int, place: Place, row: int = 0, half: int = 0) -> Position:
    """The position of a snapshot's `table`, or of one of its rows (half 1)."""
    if place.file:
        phase = _AFTER if place.at_ends else _BEFORE
        return (epoch, file_number(place.file), place.offset, phase, row, half)
    if place.topic:
        return (epoch, place.offset, _BELOW, 0, row, half)
    if not 0 < place.tso < 1 << 63:
        raise DecodeError("position", "snapshot: expected a TSO, a place in a binlog or a topic, got none")
    return (epoch, place.tso, SNAPSHOT, 0, row, half)


def _rows(record: RowsRecord, epoch: int, zone: str) -> Iterator[Event]:
    names = tuple(column.name for column in record.columns)
    converts = _converts(record.columns, record.charset, record.zone or zone)
    keyed, commit_ts = bool(record.key), record.place.tso or None
    shared = position(epoch, record.place, 0, 1)
    for index, row in enumerate(record.rows):
        try:
            after = _image(names, converts, row)
            key = tuple(after[name] for name in record.key)
        except (DecodeError, KeyError) as error:
            yield _unread(record, index, error)
            continue
        yield RowChange(
            record.database,
            record.table,
            "snapshot",
            key,
            key_names=record.key,
            commit_ts=commit_ts,
            position=shared if keyed else position(epoch, record.place, record.first + index, 1),
            before=None,
            after=after,
            index=index,
            flags=_LIVE if record.live else _FLAGS,
            row_id=None if keyed else f"snapshot:{record.first + index}",
        )


def _part(record: PartRecord, epoch: int, zone: str) -> Iterator[Event]:
    names = tuple(column.name for column in record.columns)
    converts = _converts(record.columns, record.charset, record.zone or zone)
    for index, cells in enumerate((*record.rows, *record.gone)):
        is_row = index < len(record.rows)
        try:
            if not is_row and len(cells) != len(record.key):
                raise DecodeError("value", "key: expected its columns, got others")
            image = _image(names, converts, cells) if is_row else dict(zip(record.key, cells, strict=True))
            key = tuple(image[name] for name in record.key)
        except (DecodeError, KeyError) as error:
            yield _unread(record, index, error)
            continue
        yield RowChange(
            record.database,
            record.table,
            "snapshot" if is_row else "delete",
            key,
            key_names=record.key,
            commit_ts=record.place.tso or None,
            position=position(epoch, record.place, record.number, 1),
            before=None if is_row else image,
            after=image if is_row else None,
            index=index,
            flags=_PART,
        )


def _part_ends(record: PartRecord, epoch: int) -> Iterator[Event]:
    """Where the rows of a part stand, and from where on they show nothing later."""
    if record.until is None:
        return
    since, until = position(epoch, record.place, record.number), position(epoch, record.until)
    for index, (kind, place) in enumerate(((PART, since), (SETTLED, until))):
        yield SchemaChange(
            kind, record.database, record.table, commit_ts=None, position=place, ddl=None, index=index
        )


def _unread(record: RowsRecord | PartRecord, index: int, error: DecodeError | KeyError) -> DeadLetter:
    text = str(error) if isinstance(error, DecodeError) else "key: expected its columns, got none"
    return DeadLetter("value", text, index, database=record.database, table=record.table)


def _image(names: tuple[str, ...], converts: tuple[Convert, ...], row: list[bytes | None]) -> Image:
    if len(row) != len(names):
        raise DecodeError("value", f"row: expected {len(names)} values, got {len(row)}")
    image: Image = {}
    for name, convert, cell in zip(names, converts, row, strict=True):
        try:
            image[name] = None if cell is None else convert(cell)
        except ValueError:
            raise DecodeError(
                "value", f"column {name}: expected a value of its type as the server prints it, got another"
            ) from None
    return image


@functools.lru_cache(maxsize=1024)
def _converts(columns: tuple[TextColumn, ...], charset: str | None, zone: str) -> tuple[Convert, ...]:
    return tuple(converter(column, charset, zone) for column in columns)


def converter(column: TextColumn, charset: str | None, zone: str) -> Convert:
    """The function that reads a column's cells as canonical values; it raises ValueError."""
    kind = parse_type(column.type)
    match kind.family:
        case "integer" | "year":
            return lambda cell: integer(cell.decode())
        case "bit":
            return lambda cell: bit_number(cell, "big")
        case "float" | "double":
            return lambda cell: number(cell.decode())
        case "binary" | "geometry":
            return base64_text
        case "vector":
            return _vector
        case "timestamp":
            return lambda cell: timestamp_utc(cell.decode(), zone)
        case "decimal":
            return _decimal
        case "date" | "datetime" | "time":
            return bytes.decode
    form = normal_form(kind) if kind.family == "text" else None
    text = functools.partial(_text, charset=charset or column.charset or "utf8mb4")
    return text if form is None else lambda cell: form(text(cell))


def _text(cell: bytes, charset: str) -> str | dict[str, str]:
    found = decode_text(cell, charset)
    return {"base64": base64_text(cell)} if found is None else found


def _decimal(cell: bytes) -> str:
    """Without the zeros in front that ZEROFILL has printed, which no feed tells: a key would be another."""
    text = cell.decode()
    if text[:1] != "0" or text[1:2] in ("", "."):
        return text
    digits = text.lstrip("0")
    return digits if digits[:1].isdecimal() else f"0{digits}"


def _vector(cell: bytes) -> str:
    """As MySQL and MariaDB store it, or as TiDB prints it. A bracket may be a number's first byte, too."""
    return cell.decode() if _PRINTED_VECTOR.fullmatch(cell) else vector_text(bytes_vector(cell))
