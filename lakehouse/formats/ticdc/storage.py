r"""TiCDC storage sink: one message per file, its `path` relative to the sink's root, its schema file joined
as a header.

    metadata                           {"checkpoint-ts": N}: a watermark, where rows carry commit ts
    …/meta/schema_{v}_{checksum}.json  {"Query", "TableColumns", …}: a DDL, or a schema record if Query is ""
    …/{v}/…/CDC{n}.csv                 op, table, schema, [commit ts], [is-update], [handle key], columns
                                       (storage_csv.py)
    …/{v}/…/CDC{n}.json                one canal-json object per line (canal_json.py)

Producers: TiCDC 6.5 to 8.5 (classic) and the new architecture. Specification: docs.pingcap.com, "Sync data to
storage services", "CSV". Options are named as the sink's settings are (lakehouse.formats.options.STORAGE).

Headers, which all schema files together give (storage_layout.Schemas):

    name         JSON [database, table]: how the table's rows spell it, where path and content do otherwise
    schema       of a data file: its schema file's bytes
    virtual      of a data file: a JSON list of VIRTUAL columns
    sharers      of a data file in its table's id: the names of the tables that have had the id at its version
    orders       of a CSV file: the orders that its columns have had, where rows may be older or newer than
                 its folder
    emptied      of a data file: its folder may have rows of before a statement that empties the table, or
                 gives it former columns back, and of behind it
    statements   of a canal-json file: the versions that statements have made, up to its own
    unsplit      of a data file: its producer may send an UPDATE that changes the key in one piece
    dispatchers  of a data file: how many write into its folder

Order: with commit ts (include-commit-ts, enable-tidb-extension) positions are (epoch, commit ts, rank).
Without, they are (epoch, table version, date, file number, row * 2 + half), a DDL's (epoch, table version):
it comes before its version's rows. Several dispatchers have no order then and are refused, and `metadata`
gives no event.

`index` is the row's number in its file (canal-json: the event's). A row that can't be read is a DeadLetter of
its number. A file without a schema file, or whose first rows do not have the fields that it and the settings
say, is one DeadLetter: all its rows would be wrong.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DDL,
    DeadLetter,
    Event,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Watermark,
)
from lakehouse.formats.invalid_text import decode_again
from lakehouse.formats.ticdc.canal_json import decode as decode_line
from lakehouse.formats.ticdc.storage_csv import Broken, read_settings, split
from lakehouse.formats.ticdc.storage_layout import (
    Checkpoint,
    DataFile,
    Index,
    SchemaFile,
    classify,
    has_commit_ts,
    read_checkpoint,
    setting,
    virtual_columns,
)
from lakehouse.formats.ticdc.storage_rows import Place, csv_rows
from lakehouse.formats.ticdc.storage_schema import TableDefinition, column_record, is_hidden, read_definition

_Version = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LOGICAL = 18  # the bits of a TSO below its milliseconds


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one file."""
    if message.path is None or message.value is None:
        raise DecodeError("path", "message: expected a file's path and bytes, got none")
    match classify(message.path, options):
        case DataFile() as file:
            yield from _data(file, message, message.value, options)
        case SchemaFile() as file:
            yield _schema_change(file, read_definition(message.value), message, options)
        case Checkpoint():
            checkpoint = read_checkpoint(message.value)
            if has_commit_ts(options):
                yield Watermark((message.epoch, checkpoint, DDL, 0, 0, 0), checkpoint, 0)
        case Index():
            return
        case other:
            raise DecodeError("path", f"path: expected a file of the storage sink, got {other.why}")


def _schema_change(
    file: SchemaFile, definition: TableDefinition, message: Message, options: Mapping[str, str]
) -> SchemaChange:
    """A DDL, or a schema record."""
    database, table = _name(file, definition, message)
    commit_ts = definition.table_version or file.version
    seen = (column for column in definition.columns if not is_hidden(column.column_name))
    virtual = virtual_columns(options, database, table or "")
    columns = [column_record(column, virtual) for column in seen] if table else None
    primary_key = definition.primary_key if table else None
    position = (message.epoch, commit_ts, DDL if has_commit_ts(options) else 0, 0, 0, 0)
    return SchemaChange(
        "ddl" if definition.query else "schema",
        database,
        table,
        commit_ts=commit_ts,
        position=position,
        ddl=definition.query or None,
        index=0,
        columns=columns,
        primary_key=primary_key,
    )


def _name(
    file: SchemaFile | DataFile, definition: TableDefinition, message: Message
) -> tuple[str, str | None]:
    """Names come from the path, where it has them: the file's own were seen exchanged."""
    told = dict(message.headers).get("name")
    if told is not None:
        return msgspec.json.decode(told, type=tuple[str, str])
    database = definition.schema if file.schema is None else file.schema
    return database, file.table if file.schema is not None else definition.table or None


# Data files


def _data(file: DataFile, message: Message, data: bytes, options: Mapping[str, str]) -> Iterator[Event]:
    joined = dict(message.headers)
    schema = joined.get("schema")
    if schema is None:
        yield DeadLetter(
            "schema",
            "data file: expected its schema file beside it, got none",
            0,
            database=file.schema,
            table=file.table,
        )
        return
    definition = read_definition(schema)
    database, table = _name(file, definition, message)
    place = Place(
        database,
        table or "",
        file,
        message.epoch,
        by_commit_ts=has_commit_ts(options),
        unsplit="unsplit" in joined,
        statements=tuple(msgspec.json.decode(joined.get("statements") or b"[]", type=list[_Version])),
    )
    if not place.by_commit_ts and (letter := _unordered(place, joined)) is not None:
        yield letter
        return
    if file.extension == "json":
        yield from _json_rows(place, message, data, options)
        return
    try:
        place = _of_its_rows(place, joined.get("sharers"), data, options)
        yield from csv_rows(place, joined, data, options=options)
    except DecodeError as error:
        yield DeadLetter(error.code, str(error), 0, database=place.database, table=place.table)


def _unordered(place: Place, joined: Mapping[str, bytes | None]) -> DeadLetter | None:
    """What a file's rows are where nothing but a commit ts, which they lack, could order them."""
    named = {"database": place.database, "table": place.table}
    if int(joined.get("dispatchers") or b"1") > 1:
        text = "one dispatcher in its folder, got several, which only commit ts could order"
        return DeadLetter("dispatchers", f"data file: expected {text}", 0, **named)
    if "emptied" in joined:
        text = (
            "rows of one side of a statement that empties the table or gives it former columns back, got a "
            "folder of both sides, which only commit ts tells apart"
        )
        return DeadLetter("statements", f"data file: expected {text}", 0, **named)
    return None


def _of_its_rows(place: Place, sharers: bytes | None, data: bytes, options: Mapping[str, str]) -> Place:
    """The place, whose table is that of its first row where its id has had several."""
    if sharers is None:
        return place
    names = msgspec.json.decode(sharers, type=list[tuple[str, str]])
    dialect, position = read_settings(options).dialect, 0
    for _ in range(2):  # the first record may be a header
        row, behind = split(data, position, dialect)
        for database, table in names:
            if not isinstance(row, Broken) and row[1:3] == (table.encode(), database.encode()):
                return place._replace(database=database, table=table)
        if behind is None or behind >= len(data):
            break
        position = behind
    return place


# canal-json


def _json_rows(place: Place, message: Message, data: bytes, options: Mapping[str, str]) -> Iterator[Event]:
    index = 0
    for row, line in enumerate(_lines(data, setting(options, "terminator").encode())):
        try:
            if isinstance(line, Broken):
                raise DecodeError(*line)
            events = _json_events(
                msgspec.structs.replace(message, value=line, headers=(), path=None), options
            )
            for half, event in enumerate(events, 2 - len(events)):
                _put(event, place, row, half)
        except DecodeError as error:
            events = [DeadLetter(error.code, str(error), 0, database=place.database, table=place.table)]
        for event in events:
            event.index = index
            index += 1
            yield event


def _json_events(line: Message, options: Mapping[str, str]) -> list[Event]:
    try:
        return list(decode_line(line, options))
    except DecodeError as error:
        again = decode_again(decode_line, line, options, "ticdc-canal-json") if error.code == "json" else None
        if again is None:
            raise
        return again


def _put(event: Event, place: Place, row: int, half: int) -> None:
    """The event of one line where files and rows are the order, and in the partition that its folder is."""
    if isinstance(event, RowChange):
        if place.by_commit_ts and event.position[1] != event.commit_ts:
            raise DecodeError(
                "commit-ts", "row: expected _tidb.commitTs, as enable-tidb-extension says, got none"
            )
        if not place.by_commit_ts:
            event.position = _file_position(event, place, row, half)
        event.physical_table = place.file.physical_id


def _file_position(event: RowChange, place: Place, row: int, half: int) -> Position:
    """A row's place by files. One that is older than its folder was sent again: it stands right before the
    first statement that is younger, which may have emptied the table.
    """
    position = place.position(None, 0, row, half)
    latest = (event.commit_ts or 0) | (1 << _LOGICAL) - 1
    if not place.statements or place.statements[-1] <= latest:
        return position
    younger = place.statements[bisect_right(place.statements, latest)]
    return (position[0], younger - 1, *position[2:5], place.file.version)


def _lines(data: bytes, terminator: bytes) -> Iterator[bytes | Broken]:
    """A JSON text holds no control character: a terminator with one can't be inside it. Any other is looked
    for outside strings.
    """
    if min(terminator, default=0) < 0x20:
        *lines, rest = data.split(terminator or b"\r\n")
        yield from lines
    else:
        position = 0
        while found := _json_line(terminator).match(data, position):
            yield found[1]
            position = found.end()
        rest = data[position:]
    if rest:
        yield Broken("truncated", "row: expected the terminator at its end, got the end of the file")


@functools.lru_cache(maxsize=16)
def _json_line(terminator: bytes) -> re.Pattern[bytes]:
    end, first = re.escape(terminator), re.escape(terminator[:1])
    return re.compile(rb'((?:"(?:[^"\\]++|\\.)*+"|(?!%s)%s|[^"%s])*+)%s' % (end, first, first, end), re.S)
