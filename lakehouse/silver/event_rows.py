"""Decoded events as rows of silver: images, keys and types as JSON text.

    message, events ─EventWriter.write─▶ changes, others, and the bytes of images

A change is a tuple in the order of CHANGE_COLUMNS (lakehouse/spark/silver/columns.py), anything else an
OtherRow. Of the others, `kind` is schema_change (`physical_table` its `parts`), watermark, dead_letter;
transaction: the END of one (`key`
its id, `physical_table` its number of rows, `position` that of its BEGIN, or the last of the epoch where its
id does not tell it); transaction_row: a row of one that became no change
(`physical_table` its number; no `key` where the record can't be read so far); snapshot_row: a flag, in `key`,
of a row of a snapshot that became no change; below: a change at or below its
table's retention floor; resume: where the next batch has to begin a partition, to have the parts that wait.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from lakehouse.events import (
    DeadLetter,
    JsonChange,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Stored,
    Watermark,
)
from lakehouse.formats.row import TransactionEnd, Transactions
from lakehouse.formats.wire_json import nests_too_deep
from lakehouse.silver.identity import image_hash, split_keyless
from lakehouse.values.mysql_json import MAX_DEPTH

ChangeRow = tuple[Any, ...]
TYPE_TEXTS = 10_000
_NOWHERE = (2**63 - 1, 0)


class OtherRow(NamedTuple):
    """What is no change, in the order of OTHER_COLUMNS. All but the last six depend on its kind."""

    kind: str
    database: str | None = None
    table: str | None = None
    key: str | None = None
    commit_ts: int | None = None
    position: Position | None = None
    physical_table: int | None = None
    schema_kind: str | None = None
    ddl: str | None = None
    columns: bytes | None = None
    primary_key: tuple[str, ...] | None = None
    resolved_ts: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    topic: str = ""
    incarnation: str = ""
    partition: int = 0
    offset: int = 0
    index: int = 0  # type: ignore[assignment]  # the column's name; a tuple's own `index` is not used
    path: str | None = None


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """What the rows of a source depend on. `tidb`: positions are TiCDC's; `row_ids`: the feed sends row ids
    of tables without a key; `floors`: the retention floors by table.
    """

    tidb: bool
    row_ids: bool = False
    floors: Mapping[tuple[str, str], Position] = field(default_factory=dict)


class EventWriter:
    """Writes events as rows. Holds its settings, and the texts of the types that it has met."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings, self._floors = settings, settings.floors
        self._json = msgspec.json.Encoder().encode
        self._types: dict[int, tuple[Any, bytes]] = {}

    def write(
        self,
        message: Message,
        events: Collection[Stored],
        changes: list[ChangeRow],
        others: list[OtherRow],
    ) -> int:
        """Append the rows of a message's events; returns the bytes of their images. Lists of the caller's,
        since two new ones per message would cost a tenth of decoding it.
        """
        size = 0
        for event in events:
            if type(event) is JsonChange:
                size += self._json_change(changes, others, message, event)
            elif type(event) is RowChange:
                size += self._row_change(changes, others, message, event)
            else:
                others.append(self._other(message, event))
        return size

    def _json_change(
        self, changes: list[ChangeRow], others: list[OtherRow], message: Message, change: JsonChange
    ) -> int:
        """Add a change whose parts are JSON text already; returns the bytes of its images."""
        if self._floors and self._is_below(change):
            others.append(other_row(message, change.index, kind="below"))
            return 0
        before, after = change.before, change.after
        changes.append(
            (
                change.database,
                change.table,
                change.key,
                change.op,
                change.commit_ts,
                change.position,
                before,
                after,
                change.types,
                change.encoding,
                (),
                change.key_names,
                None,
                None,
                None,
                message.topic,
                message.incarnation,
                message.partition,
                message.offset,
                change.index,
                message.path,
            )
        )
        return len(before or b"") + len(after or b"")

    def _row_change(
        self, changes: list[ChangeRow], others: list[OtherRow], message: Message, event: RowChange
    ) -> int:
        """Add all of an event's changes, or a dead letter where a value can't be stored and read again;
        returns the bytes of their images.
        """
        halves = (event,) if event.key_names or not self._settings.tidb else split_keyless(event)
        below: list[RowChange] = []
        if self._floors:
            below = [half for half in halves if self._is_below(half)]
            halves = [half for half in halves if half not in below]
        try:
            rows = [self._change(message, half) for half in halves]
        except RecursionError:
            others.append(_too_deep(message, event))
            return 0
        others += [other_row(message, half.index, kind="below") for half in below]
        size = 0
        for row in rows:
            changes.append(row)
            size += len(row[6] or b"") + len(row[7] or b"")
        return size

    def _is_below(self, change: RowChange | JsonChange) -> bool:
        """Whether a change is at or below its table's retention floor: the floor's rows have it."""
        floor = self._floors.get((change.database, change.table))
        return floor is not None and change.position <= floor

    def _change(self, message: Message, change: RowChange) -> ChangeRow:
        names, before, after = change.key_names, change.before, change.after
        half = row_id = None
        if not names:
            row_id = change.row_id if self._settings.row_ids or change.op == "snapshot" else None
            if self._settings.tidb and row_id is None:
                half = image_hash((before if after is None else after) or {})
        return (
            change.database,
            change.table,
            self._encoded(change.key),
            change.op,
            change.commit_ts,
            change.position,
            None if before is None else self._encoded(before),
            None if after is None else self._encoded(after),
            self._types_text(change.types),
            change.encoding,
            change.flags,
            names,
            row_id,
            change.physical_table,
            half,
            message.topic,
            message.incarnation,
            message.partition,
            message.offset,
            change.index,
            message.path,
        )

    def _encoded(self, value: Any) -> bytes:
        """JSON that every reader takes; RecursionError where it nests too deep."""
        data = self._json(value)
        if len(data) > 2 * MAX_DEPTH and nests_too_deep(data):
            raise RecursionError
        return data

    def _types_text(self, types: dict[str, str] | None) -> bytes | None:
        """Decoders share one types dict among the rows of a schema, so its text is made once."""
        if types is None:
            return None
        encoded = self._types.get(id(types))
        if encoded is None or encoded[0] is not types:
            encoded = self._types[id(types)] = (types, self._json(types))
            if len(self._types) > TYPE_TEXTS:
                self._types.clear()
        return encoded[1]

    def _other(self, message: Message, event: Stored) -> OtherRow:
        match event:
            case SchemaChange():
                try:
                    return self._schema_change(message, event)
                except RecursionError:
                    return _too_deep(message, event)
            case Watermark(position, resolved_ts, index):
                return other_row(message, index, kind="watermark", position=position, resolved_ts=resolved_ts)
            case DeadLetter():
                return _dead_letter(message, event)
        raise AssertionError(f"an event of no known kind: {type(event).__name__}")

    def _schema_change(self, message: Message, event: SchemaChange) -> OtherRow:
        return other_row(
            message,
            event.index,
            kind="schema_change",
            database=event.database,
            table=event.table,
            commit_ts=event.commit_ts,
            position=event.position,
            physical_table=event.parts,
            schema_kind=event.kind,
            ddl=event.ddl,
            primary_key=event.primary_key,
            columns=None if event.columns is None else self._encoded(event.columns),
        )


def other_row(message: Message, index: int, **values: Any) -> OtherRow:
    """A row of a message that is no change."""
    return OtherRow(
        topic=message.topic,
        incarnation=message.incarnation,
        partition=message.partition,
        offset=message.offset,
        index=index,
        path=message.path,
        **values,
    )


def _dead_letter(message: Message, event: DeadLetter) -> OtherRow:
    return other_row(
        message,
        event.index,
        kind="dead_letter",
        database=event.database,
        table=event.table,
        error_code=event.code,
        error_message=event.message,
    )


def _too_deep(message: Message, event: RowChange | SchemaChange) -> OtherRow:
    text = f"values: expected JSON nested at most {MAX_DEPTH} deep, got deeper one"
    return _dead_letter(
        message, DeadLetter("value", text, event.index, database=event.database, table=event.table)
    )


def begin_position(message: Message, end: TransactionEnd) -> Position:
    """Where a transaction began, or the last place of its epoch where its id does not tell it."""
    return (message.epoch, *(end.begin or _NOWHERE), 1, 0, 0)


def transaction_rows(
    transactions: Transactions, message: Message, events: Collection[Stored]
) -> list[OtherRow]:
    """What a record that gave no change says of its transaction: an END that it is one, any other that it is
    a row of it, which the END counts, or of a snapshot, and where in that.
    """
    if not events:
        end = transactions.end(message)
        if end is None:
            return []
        begin = begin_position(message, end)
        values: dict[str, Any] = {"key": end.id, "physical_table": end.event_count, "position": begin}
        return [other_row(message, 0, kind="transaction", **values)]
    row = transactions.row(message)
    if row is None:
        return []
    if row.flags:
        return [other_row(message, 0, kind="snapshot_row", key=f, position=row.position) for f in row.flags]
    values = {"key": row.id, "physical_table": row.number, "position": row.position}
    return [other_row(message, 0, kind="transaction_row", **values)]
