"""Bronze rows to events inside `mapInArrow`, each record decoded once.

    bronze ──decode──▶ packed: book, hashes, changes, others ──changes / others──▶ rows

A worker packs what it has decoded: changes and everything else (lakehouse/silver/event_rows.py) as one Arrow
stream each, in a single binary value, with a summary of what they hold and a hash of each change's identity.
Spark then keeps and moves a few large values instead of many wide rows, and the driver knows from the
summaries and hashes alone whether anything has to be deduped. Only what is written is unpacked into rows.

The closure carries names and options only; the decoder is imported once per worker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from lakehouse.events import SNAPSHOT_TOPIC, Message, Stored
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import NOTHING, Resume, Skipped, Unjoined, assembled, place_of
from lakehouse.ops.progress import Shortfall
from lakehouse.silver.binlog_servers import Stretches
from lakehouse.silver.event_rows import (
    ChangeRow,
    EventWriter,
    OtherRow,
    WriterSettings,
    other_row,
    transaction_rows,
)
from lakehouse.silver.transaction_order import TransactionOrder
from lakehouse.spark.arrow import Worker
from lakehouse.spark.bronze.epochs import Epochs, epoch_of
from lakehouse.spark.bronze.record_files import RecordFiles
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, INPUT, PACKED, PLACE
from lakehouse.spark.silver.packed import Taken

FLUSH_ROWS = 8192
# rows become columns while they still are in the processor's cache: ten times as quick
COLUMN_ROWS = 512
FLUSH_BYTES = 16 * 1024 * 1024
NO_LIMIT = 2**63

Settings = Mapping[str, Any]
Decode = Callable[[str, Message, Mapping[str, str]], Sequence[Stored]]


def decode(bronze: DataFrame, settings: Settings) -> DataFrame:
    """Decode bronze records, packed. `settings`: format, options, epochs, order, row_ids, beside; files,
    where workers write the changes themselves.
    """
    frame = bronze.select(*INPUT)
    if FORMATS[settings["format"]].parts is not None:
        # the parts of a message follow each other in their partition; one partition needs no shuffle
        is_one = len(settings.get("beside", NOTHING).starts) == 1
        frame = (frame.coalesce(1) if is_one else frame.repartition(*PLACE)).sortWithinPartitions(
            *PLACE, "offset"
        )
    return frame.mapInArrow(_worker(dict(settings)), PACKED)


def decode_files(spark: SparkSession, bronze: RecordFiles, settings: Settings, rows: int) -> DataFrame:
    """The same of records that workers read themselves, so many at once."""
    return bronze.frame(spark, _worker(dict(settings)), PACKED, rows)


def _worker(settings: dict[str, Any]) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.silver.decode import decoded, records_of
        from lakehouse.spark.silver.packed import change_writer, files_row, pack

        cut: list[Shortfall] = []
        with change_writer(settings.get("files")) as files:
            for taken in decoded(records_of(batches, settings["epochs"], cut), settings):
                taken.short += cut
                cut.clear()
                yield pack(taken, settings["order"], files)
            if files is not None:
                yield files_row(files)

    return work


def messages(batch: pa.RecordBatch, epochs: Epochs) -> Iterator[Message]:
    """The records of an Arrow batch of bronze."""
    columns = [_values(batch.column(name)) for name in INPUT if name != "size"]
    for topic, incarnation, partition, offset, timestamp, key, value, headers, path in zip(
        *columns, strict=True
    ):
        pairs = tuple((header["key"], header["value"]) for header in headers) if headers else ()
        epoch = epoch_of(epochs, (topic, incarnation, partition), offset) if epochs else 0
        yield Message(
            topic,
            partition,
            offset,
            key=key,
            value=value,
            headers=pairs,
            timestamp=timestamp,
            incarnation=incarnation,
            epoch=epoch,
            path=path,
        )


def _values(column: pa.Array) -> list[Any]:
    """A column's values; what is NULL in all rows is quicker repeated than read."""
    return [None] * len(column) if column.null_count == len(column) else column.to_pylist()


def records_of(batches: Iterable[pa.RecordBatch], epochs: Epochs, cut: list[Shortfall]) -> Iterator[Message]:
    """The records of Arrow batches of bronze; those that are not as long as their size says go to `cut`."""
    for batch in batches:
        cut += cut_records(batch)
        yield from messages(batch, epochs)


def cut_records(batch: pa.RecordBatch) -> Iterator[Shortfall]:
    """The records of an Arrow batch of bronze whose value is not as long as their size says."""
    is_cut = pc.not_equal(pc.binary_length(batch.column("value")), batch.column("size"))
    for row in batch.select([*PLACE, "offset"]).filter(is_cut).to_pylist():
        yield Shortfall(row["topic"], row["incarnation"], row["partition"], row["offset"], kind="cut", n=1)


def decoded(
    records: Iterable[Message], settings: Settings, *, rows: int = FLUSH_ROWS, size: int = FLUSH_BYTES
) -> Iterator[Taken]:
    """The rows of bronze records, so many rows or bytes of images at a time; the last ones may be none."""
    from lakehouse.formats import decode_stored

    format_, options, beside = settings["format"], settings["options"], settings.get("beside", NOTHING)
    writer = EventWriter(_writer_settings(settings))
    row = FORMATS[format_]
    servers = Stretches(ordered=row.parts is not None) if row.tells_servers else None
    transactions = None if row.transactions is None else row.transactions()
    order = None if row.transactions is None else TransactionOrder()
    held = _Held()
    for found in assembled(_counted(records, beside.starts, held), format_, options, beside):
        if isinstance(found, Resume):
            held.others.append(_resume_row(found))
        elif isinstance(found, Skipped):
            held.short.append(Shortfall(*found.place, found.offset, kind="skipped", n=found.n))
        else:
            message, events = _events(found, decode_stored, format_, options)
            events = events if order is None else order.checked(message, events)
            before = len(held.changes)
            held.bytes += writer.write(message, events, held.changes, held.others)
            held.silent += not events
            of_feed = message.topic != SNAPSHOT_TOPIC
            if transactions is not None and of_feed and found is message and len(held.changes) == before:
                held.others += transaction_rows(transactions, message, events)
            if servers is not None:
                servers.add(message, events)
            if len(held.changes) >= COLUMN_ROWS:
                held.to_columns()
        if held.count >= rows or held.bytes >= size:
            yield held.take(servers)
    yield held.take(servers)


def decode_all(records: Iterable[Message], settings: Settings) -> Taken:
    """The rows of bronze records, all at once."""
    (taken,) = decoded(records, settings, rows=NO_LIMIT, size=NO_LIMIT)
    return taken


def _writer_settings(settings: Settings) -> WriterSettings:
    return WriterSettings(
        settings["order"] == "tidb", settings.get("row_ids", False), settings.get("floors") or {}
    )


def _events(
    found: Message | Unjoined, decode: Decode, format_: str, options: Mapping[str, str]
) -> tuple[Message, Sequence[Stored]]:
    """A record with its events. One that can't be joined is not decoded: it is a dead letter, or has none."""
    if isinstance(found, Message):
        return found, decode(format_, found, options)
    return found.message, [] if found.letter is None else [found.letter]


def _resume_row(resume: Resume) -> OtherRow:
    topic, incarnation, partition = resume.place
    place = Message(topic, partition, resume.offset, key=None, value=None, incarnation=incarnation)
    return other_row(place, 0, kind="resume")


def _counted(
    records: Iterable[Message], starts: Mapping[tuple[str, str, int], int], held: "_Held"
) -> Iterator[Message]:
    """The records, counted as they are in bronze: a message of three parts is three. Those before the batch's
    own are there for their parts only.
    """
    for message in records:
        held.messages += not starts or message.offset >= starts.get(place_of(message), 0)
        yield message


def _no_columns() -> dict[str, list[Any]]:
    return {name: [] for name in CHANGE_COLUMNS}


@dataclass(slots=True)
class _Held:
    """Rows that were written and not yet taken: changes as columns, the latest still as rows."""

    columns: dict[str, list[Any]] = field(default_factory=_no_columns)
    changes: list[ChangeRow] = field(default_factory=list)
    others: list[OtherRow] = field(default_factory=list)
    messages: int = 0
    silent: int = 0
    bytes: int = 0
    in_columns: int = 0
    short: list[Shortfall] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.in_columns + len(self.changes) + len(self.others)

    def to_columns(self) -> None:
        """Move the latest changes to the columns."""
        self.in_columns += len(self.changes)
        for column, values in zip(self.columns.values(), zip(*self.changes, strict=True), strict=False):
            column.extend(values)
        self.changes.clear()

    def take(self, servers: Stretches | None) -> Taken:
        """All rows that are held; none are held afterwards."""
        self.to_columns()
        stretches = servers.take() if servers is not None else []
        taken = Taken(
            self.columns, self.others, self.messages, self.silent, servers=stretches, short=self.short
        )
        self.columns, self.others, self.short = _no_columns(), [], []
        self.messages = self.silent = self.bytes = self.in_columns = 0
        return taken
