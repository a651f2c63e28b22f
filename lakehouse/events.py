"""Messages and the events that a decoder makes of them: the values passed between the layers.

    Message ──decode──▶ RowChange | SchemaChange | Watermark | DeadLetter

A position is six integers, epoch first, padded with 0, so that every family's order is one total order that
Python (tuples) and Spark (structs) share:

    TiCDC     (epoch, commit_ts, rank)                        rank: delete 0, upsert 1, DDL 2, snapshot 3
    binlog    (epoch, file number, offset, phase, row, half)  phase: snapshot 0, streamed 1
    arrival   (epoch, Kafka offset, row, half)
    files     (epoch, table version, date, file number, row)

An image maps a column's name to its canonical value. A column that is absent was not sent, which is not null.
"""

from collections.abc import Collection
from typing import Any

import msgspec

Position = tuple[int, int, int, int, int, int]
# its integers by name, as silver and gold store it in a struct
POSITION_PARTS = ("epoch", "p1", "p2", "p3", "p4", "p5")
Value = str | int | float | bool | None
Image = dict[str, Any]

DELETE, UPSERT, DDL, SNAPSHOT = 0, 1, 2, 3
# Records of table snapshots, which join any source (lakehouse/formats/snapshot). No broker allows such a
# name.
SNAPSHOT_TOPIC = "lakehouse:snapshot"
# the flag of their rows
SNAPSHOT_FLAG = "snapshot=table"
# the kinds of their schema changes, none of which is a statement of the feed: where a table's snapshot, or
# rows that were read again stand, and from where on they are exact, if the table changed meanwhile
TABLE_SNAPSHOT, PART, SETTLED = READINGS = "table", "part", "settled"
# rows that show a later state than that of their position
INCREMENTAL = "snapshot=incremental"
# the flag of a row whose feed sends no deletes
DELETES_HIDDEN = "deletes_hidden"
# the flag of a row without a key that may have been written again, by a sink that was restarted
WRITTEN_AGAIN = "written_again"
# flags of TiCDC's rows whose message says that their table has no handle key, or no primary key
NO_HANDLE, NO_PRIMARY_KEY = "no_handle", "no_primary_key"
MIN_POSITION: Position = (0, 0, 0, 0, 0, 0)


class Message(msgspec.Struct, frozen=True, gc=False):
    """A record of a feed as decoders take it: parts are joined and compression is undone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    incarnation: str = ""
    epoch: int = 0
    path: str | None = None


class RowChange(msgspec.Struct, gc=False, omit_defaults=True):
    """One change of one row.

    `key` holds the handle key's values in the order of `key_names`, which is name order; both are empty where
    the message knows no key. `op` is insert, update, delete or snapshot. `encoding` is "canonical", or the
    wire family whose values the schema has yet to resolve. `types` maps columns to the SQL type text that the
    message carried, "" where it has none; it is None where the message tells no types at all. `row_id` tells
    equal rows of keyless tables apart; `physical_table` is the partition's own id, where sent. `server` says
    whose binlog a streamed change was read from (lakehouse/silver/binlog_servers.py).
    """

    database: str
    table: str
    op: str
    key: tuple[Any, ...]
    key_names: tuple[str, ...]
    commit_ts: int | None
    position: Position
    before: Image | None
    after: Image | None
    index: int
    encoding: str = "canonical"
    types: dict[str, str] | None = None
    flags: tuple[str, ...] = ()
    row_id: str | None = None
    physical_table: int | None = None
    server: tuple[int, str] | None = None


class JsonChange(msgspec.Struct, gc=False):
    """A RowChange as silver stores it: key, images and types are JSON text, which some decoders make faster
    than values.

    Without flags, and none of the parts that it does not name.
    """

    database: str
    table: str
    op: str
    key: bytes
    key_names: tuple[str, ...]
    commit_ts: int
    position: Position
    before: bytes | None
    after: bytes | None
    index: int
    types: bytes
    server: tuple[int, str] | None
    encoding: str = "canonical"


class SchemaChange(msgspec.Struct, omit_defaults=True):
    """One DDL statement as received, or one schema record (`kind` schema or snapshot), which never drops
    anything. `kind` table is the end of a table's snapshot: `ddl` is its CREATE TABLE; `part` stands below
    some rows that were read again while the table changed; `settled` where all of what either shows has
    happened (`ddl` is the snapshot's CREATE TABLE, None for a part).

    `columns` and `primary_key` come from schema records; `columns` is a list of `{"name", "type", …}`.
    `parts`: into how many statements at this position the producer has divided the one that ran, each with an
    event of its own; 0 where that is not known. `table` is empty where the producer could not read the
    statement.
    """

    kind: str
    database: str
    table: str | None
    commit_ts: int | None
    position: Position
    ddl: str | None
    index: int
    columns: list[dict[str, Any]] | None = None
    primary_key: tuple[str, ...] | None = None
    server: tuple[int, str] | None = None
    parts: int = 1


class Watermark(msgspec.Struct):
    """Every change of this partition at or below `position` has been delivered before it."""

    position: Position
    resolved_ts: int | None
    index: int


class DeadLetter(msgspec.Struct, omit_defaults=True):
    """A message, or one row of it, that could not be decoded. `database` and `table` where they are known."""

    code: str
    message: str
    index: int
    database: str | None = None
    table: str | None = None


Event = RowChange | SchemaChange | Watermark | DeadLetter
Stored = Event | JsonChange


def opened(change: JsonChange) -> RowChange:
    """The change with its JSON text parsed to values."""
    key, types = tuple(msgspec.json.decode(change.key)), msgspec.json.decode(change.types)
    before, after = (
        None if image is None else msgspec.json.decode(image) for image in (change.before, change.after)
    )
    return RowChange(
        change.database,
        change.table,
        change.op,
        key,
        key_names=change.key_names,
        commit_ts=change.commit_ts,
        position=change.position,
        before=before,
        after=after,
        index=change.index,
        types=types,
        server=change.server,
    )


def tidb_position(epoch: int, commit_ts: int, rank: int) -> Position:
    """The position of a TiCDC change."""
    return (epoch, commit_ts, rank, 0, 0, 0)


def just_below(position: Position) -> Position:
    return (*position[:5], position[5] - 1)


def just_above(position: Position) -> Position:
    """The position right above `position`: rows there are read under every DDL at or below it."""
    return (*position[:5], position[5] + 1)


def position_struct(position: Position) -> dict[str, int]:
    """A position as silver and gold store it."""
    return dict(zip(POSITION_PARTS, position, strict=True))


def key_order(image: Image, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The key values of an image, in the order of `names`."""
    return tuple(image[name] for name in names)


def dropped(statement: str | None) -> str:
    """What a statement drops: TABLE, DATABASE or SCHEMA; nothing for any other one."""
    words = (statement or "").upper().split(None, 2)
    return words[1] if len(words) > 1 and words[0] == "DROP" else ""


def is_of_some_tables(drops: Collection[str]) -> bool:
    """Whether a snapshot whose statements drop this is one that a signal asked for while streaming
    (`execute-snapshot`, type `blocking`): it holds the tables that the signal names, and of them what its
    conditions let through, so its rows clear nothing. Its records drop those tables alone; a full snapshot's
    drop their databases too.
    """
    return "TABLE" in drops and "DATABASE" not in drops and "SCHEMA" not in drops
