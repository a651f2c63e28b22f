"""The records of a snapshot as bronze keeps them: MessagePack, one map a record.

    rows     some rows of one table, as the server's own text, with what is needed to read them
    table    one table's end: its CREATE TABLE, and how many rows it had. It comes last of its table, so that
             the table's snapshot is whole once it has been read
    part     some rows of one table as they were at the place, or as they were while it changed, and keys of
             which it had no row there. Each says what its row was, whatever else has been read

They lie under a topic that no broker can have, in one partition; the incarnation is that of the snapshot, the
offsets count its records. Reading the same dump again gives the same records.
"""

from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError

VERSION = 1


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source's position that a snapshot is of: a TSO, a binlog's file and the offset in it, or an offset
    of the topic. `at_ends`: the source's own positions are those of the ends of events. `time`: the server's
    clock at an offset of the topic, in milliseconds.
    """

    tso: int = 0
    file: str = ""
    offset: int = 0
    at_ends: bool = False
    topic: str = ""
    partition: int = 0
    time: int = 0

    def __str__(self) -> str:
        if self.topic:
            return f"{self.topic}/{self.partition} offset {self.offset}"
        return f"{self.file}:{self.offset}" if self.file else f"TSO {self.tso}"


class TextColumn(NamedTuple):
    """A column of the rows: its name, its type without labels, and the charset of its text ("" where it has
    none).
    """

    name: str
    type: str
    charset: str = ""


class _Rows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of one table. `key` are the columns of its handle key, by name; `charset` is that of text (None:
    each column's own), `zone` that of TIMESTAMP (None: the source's option).
    """

    version: int = VERSION
    place: Place
    database: str
    table: str
    columns: tuple[TextColumn, ...]
    key: tuple[str, ...]
    charset: str | None
    zone: str | None


class RowsRecord(_Rows, frozen=True, kw_only=True, omit_defaults=True, tag="rows", tag_field="record"):
    """Rows of one table's snapshot; `first` is the number of the first row in the table. `live`: the rows may
    show what happened after the place.
    """

    first: int
    rows: list[list[bytes | None]]
    live: bool = False


class PartRecord(_Rows, frozen=True, kw_only=True, omit_defaults=True, tag="part", tag_field="record"):
    """Some rows of one table that are of this place, or show more, which had all happened at `until`. `gone`
    are the canonical values of keys, in the order of `key`, of which the table had no row. `number`: of parts
    of one place the later one has the greater number, for what is not logged moves no place.
    """

    number: int = 1
    rows: list[list[bytes | None]]
    gone: list[list[Any]] = []
    until: Place | None = None


class TableRecord(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="table", tag_field="record"
):
    """The end of a table: what SHOW CREATE TABLE printed, and how many rows came before. `until`: the place
    before which all happened that the rows show, where that is another one. `rounded`: the FLOAT columns that
    the server has printed with fewer digits than they may have.
    """

    version: int = VERSION
    place: Place
    database: str
    table: str
    create: str
    rows: int
    until: Place | None = None
    rounded: tuple[str, ...] = ()


Record = RowsRecord | TableRecord | PartRecord
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


def read_record(value: bytes | None) -> Record:
    """A record; DecodeError for bytes that are none, or of a newer lakehouse."""
    try:
        record: Record = _decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DecodeError(
            "message", "snapshot: expected a record of rows or of a table, got neither"
        ) from None
    if record.version != VERSION:
        raise DecodeError(
            "version", f"snapshot: expected a record of version {VERSION}, got version {record.version}"
        )
    return record
