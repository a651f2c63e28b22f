"""Bronze rows to events inside `mapInArrow`, each record decoded once.

    bronze ──decode──▶ packed: book, hashes, changes, others ──changes / others──▶ rows

A worker packs what it has decoded: changes and everything else as one Arrow stream each, in a single binary
value, with a book of what they hold and a hash of each change's identity. Spark then keeps and moves a few
large values instead of many wide rows, and the driver knows from the books and hashes alone whether anything
has to be deduped. Only what is written is unpacked into rows.

Of the others, `kind` is schema_change, watermark, dead_letter; transaction: the END of one (`key` its id,
`physical_table` its number of rows); transaction_row: a row of one that became no change (`physical_table`
its number; no `key` where the record can't be read so far); resume: where the next batch has to begin a
partition, to have the parts that wait.

The closure carries names and options only; the decoder is imported once per worker.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.events import DeadLetter, JsonChange, Message, RowChange, SchemaChange, Stored, Watermark
from lakehouse.formats import FORMATS, decode_stored
from lakehouse.formats.assemble import NOTHING, Resume, Unjoined, assembled, place_of
from lakehouse.formats.row import Transactions
from lakehouse.formats.wire_json import nests_too_deep
from lakehouse.silver.binlog_servers import Stretches
from lakehouse.spark.bronze.epochs import Epochs, epoch_of
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, INPUT, OTHER_COLUMNS, PACKED, PLACE
from lakehouse.spark.silver.packed import Taken
from lakehouse.values.mysql_json import MAX_DEPTH

FLUSH_ROWS = 8192
# rows become columns while they still are in the processor's cache: ten times as quick
TURNED_ROWS = 512
FLUSH_BYTES = 16 * 1024 * 1024
_OTHER_NAMES = list(OTHER_COLUMNS)

Settings = Mapping[str, Any]


def decode(bronze: DataFrame, settings: Settings) -> DataFrame:
    """Decode bronze records, packed. `settings`: format, options, epochs, order, row_ids, beside."""
    frame = bronze.select(*INPUT)
    if FORMATS[settings["format"]].parts is not None:
        # parts of one message lie one after another in their partition; what is of one partition alone need
        # not be shuffled for that
        is_one = len(settings.get("beside", NOTHING).starts) == 1
        frame = (frame.coalesce(1) if is_one else frame.repartition(*PLACE)).sortWithinPartitions(
            *PLACE, "offset"
        )
    return frame.mapInArrow(_worker(dict(settings)), PACKED)


def _worker(settings: dict[str, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.silver.decode import FLUSH_BYTES, FLUSH_ROWS, Rows
        from lakehouse.spark.silver.packed import pack

        rows = Rows(settings)
        for _ in rows.read(message for batch in batches for message in messages(batch, settings["epochs"])):
            if rows.count >= FLUSH_ROWS or rows.bytes >= FLUSH_BYTES:
                yield pack(rows.take(), settings["order"])
        yield pack(rows.take(), settings["order"])

    return work


def messages(batch: pa.RecordBatch, epochs: Epochs) -> Iterator[Message]:
    """The records of an Arrow batch of bronze."""
    columns = [batch.column(name).to_pylist() for name in INPUT]
    for topic, incarnation, partition, offset, timestamp, key, value, headers, path in zip(
        *columns, strict=True
    ):
        pairs = tuple((header["key"], header["value"]) for header in headers) if headers else ()
        epoch = epoch_of(epochs, (topic, incarnation, partition), offset) if epochs else 0
        yield Message(topic, partition, offset, key, value, pairs, timestamp, incarnation, epoch, path)


class Rows:
    """Collects events as rows, and makes columns of them."""

    def __init__(self, settings: Settings) -> None:
        import msgspec

        from lakehouse.silver.identity import image_hash, split_keyless

        self._decode, self._format, self._options = decode_stored, settings["format"], settings["options"]
        row = FORMATS[self._format]
        self._transactions = None if row.transactions is None else row.transactions()
        self._beside = settings.get("beside", NOTHING)
        self._split, self._hash, self._row_ids = split_keyless, image_hash, settings.get("row_ids", False)
        self._tidb = settings["order"] == "tidb"
        self._floors = settings.get("floors") or {}
        self._json = msgspec.json.Encoder().encode
        self._types: dict[int, tuple[Any, bytes]] = {}
        self._servers = Stretches(ordered=row.parts is not None) if row.tells_servers else None
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in CHANGE_COLUMNS}
        self._changes: list[tuple[Any, ...]] = []  # those that are not yet in columns
        self._others: list[tuple[Any, ...]] = []
        self.messages = self.silent = self.bytes = 0

    @property
    def count(self) -> int:
        return len(self._columns["key"]) + len(self._changes) + len(self._others)

    def take(self) -> Taken:
        """What was collected; starts anew."""
        self._turn()
        taken = Taken(
            self._columns,
            self._others,
            self.messages,
            self.silent,
            self._servers.take() if self._servers else [],
        )
        self._clear()
        return taken

    def _turn(self) -> None:
        for column, values in zip(self._columns.values(), zip(*self._changes, strict=True), strict=False):
            column.extend(values)
        self._changes.clear()

    def read(self, messages: Iterable[Message]) -> Iterator[None]:
        """Add the events of bronze records; yields after each, so that a caller can take what there is."""
        for found in assembled(self._counted(messages), self._format, self._options, self._beside):
            match found:
                case Message():
                    self._message(found)
                case Unjoined(message, letter):
                    self._add(message, [] if letter is None else [letter])
                case Resume((topic, incarnation, partition), offset):
                    self._row(
                        Message(topic, partition, offset, None, None, incarnation=incarnation),
                        0,
                        kind="resume",
                    )
            yield

    def _message(self, message: Message) -> None:
        events, changes = self._decode(self._format, message, self._options), len(self._changes)
        self._add(message, events)
        if self._transactions is not None and len(self._changes) == changes:
            self._transaction(self._transactions, message, events)
        if len(self._changes) >= TURNED_ROWS:
            self._turn()

    def _transaction(self, transactions: Transactions, message: Message, events: Collection[Stored]) -> None:
        """What a record that gave no change tells of its transaction."""
        if not events and (end := transactions.end(message)) is not None:
            self._row(message, 0, kind="transaction", key=end.id, physical_table=end.event_count)
        elif events and (row := transactions.row(message)) is not None:
            self._row(
                message,
                0,
                kind="transaction_row",
                key=row.id,
                physical_table=row.number,
                position=row.position,
            )

    def _counted(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The book counts records, as they lie in bronze: a message of three parts is three."""
        starts = self._beside.starts
        for message in messages:
            self.messages += not starts or message.offset >= starts.get(place_of(message), 0)
            yield message

    def _add(self, message: Message, events: Collection[Stored]) -> None:
        self.silent += not events
        if self._servers is not None:
            self._servers.add(message, events)
        place = (message.topic, message.incarnation, message.partition, message.offset)
        for event in events:
            if type(event) is JsonChange:
                self._json_change(message, place, event)
                continue
            match event:
                case RowChange() | SchemaChange():
                    self._stored(message, event)
                case Watermark():
                    self._row(
                        message,
                        event.index,
                        kind="watermark",
                        position=event.position,
                        resolved_ts=event.resolved_ts,
                    )
                case DeadLetter():
                    self._row(
                        message,
                        event.index,
                        kind="dead_letter",
                        database=event.database,
                        table=event.table,
                        error_code=event.code,
                        error_message=event.message,
                    )

    def _stored(self, message: Message, event: RowChange | SchemaChange) -> None:
        """An event whose values can be stored and read again, else a dead letter."""
        try:
            if isinstance(event, RowChange):
                self._change(message, event)
            else:
                self._schema_change(message, event)
        except RecursionError:
            self._row(
                message,
                event.index,
                kind="dead_letter",
                database=event.database,
                table=event.table,
                error_code="value",
                error_message=f"values: expected JSON nested at most {MAX_DEPTH} deep, got deeper one",
            )

    def _encoded(self, value: Any) -> bytes:
        """JSON that every reader takes; RecursionError where it nests too deep."""
        data = self._json(value)
        if len(data) > 2 * MAX_DEPTH and nests_too_deep(data):
            raise RecursionError
        return data

    def _change(self, message: Message, event: RowChange) -> None:
        """All of an event's changes, or none where a value can't be stored."""
        found, below = [], []
        for change in self._split(event) if self._tidb and not event.key_names else (event,):
            floor = self._floors.get((change.database, change.table)) if self._floors else None
            if floor is not None and change.position <= floor:
                below.append(change.index)
                continue
            names, before, after = change.key_names, change.before, change.after
            half = row_id = None
            if not names:
                row_id = change.row_id if self._row_ids else None
                if self._tidb and row_id is None:
                    half = self._hash((before if after is None else after) or {})
            found.append(
                (
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
            )
        for row in found:
            self.bytes += len(row[6] or b"") + len(row[7] or b"")
        self._changes += found
        for index in below:
            self._row(message, index, kind="below")

    def _json_change(self, message: Message, place: tuple[str, str, int, int], change: JsonChange) -> None:
        floor = self._floors.get((change.database, change.table)) if self._floors else None
        if floor is not None and change.position <= floor:
            self._row(message, change.index, kind="below")
            return
        before, after = change.before, change.after
        topic, incarnation, partition, offset = place
        self.bytes += len(before or b"") + len(after or b"")
        self._changes.append(
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
                "canonical",
                (),
                change.key_names,
                None,
                None,
                None,
                topic,
                incarnation,
                partition,
                offset,
                change.index,
                message.path,
            )
        )

    def _types_text(self, types: dict[str, str] | None) -> bytes | None:
        """Decoders share one types dict among the rows of a shape, so its text is made once."""
        if types is None:
            return None
        found = self._types.get(id(types))
        if found is None or found[0] is not types:
            found = self._types[id(types)] = (types, self._json(types))
            if len(self._types) > 10_000:
                self._types.clear()
        return found[1]

    def _schema_change(self, message: Message, event: SchemaChange) -> None:
        self._row(
            message,
            event.index,
            kind="schema_change",
            database=event.database,
            table=event.table,
            commit_ts=event.commit_ts,
            position=event.position,
            schema_kind=event.kind,
            ddl=event.ddl,
            primary_key=event.primary_key,
            columns=None if event.columns is None else self._encoded(event.columns),
        )

    def _row(self, message: Message, index: int, **values: Any) -> None:
        origin = {
            "topic": message.topic,
            "incarnation": message.incarnation,
            "partition": message.partition,
            "offset": message.offset,
            "index": index,
            "path": message.path,
        }
        values = {**origin, **values}
        self._others.append(tuple(values.get(name) for name in _OTHER_NAMES))
