"""What bronze writes: where it stands in topics and storage sinks, what they lost, and what landed late."""

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.events import Position
from lakehouse.ops.progress import NextOffset, OffsetRange, Partition, TopicOffset
from lakehouse.ops.records.record import Name, Record


class Read(Record, frozen=True, kw_only=True):
    """Where bronze stands in its topics: the number of the streaming checkpoint, the topics that it reads,
    and of all topics that were ever read the id, the incarnation and the next offsets. `batch`: the number of
    the checkpoint's last batch, where one is known; `wanted`: a pattern of the topics that are asked for."""

    kind: ClassVar[str] = "read"
    writer: ClassVar[str] = "bronze"
    stream: int
    topics: tuple[str, ...]
    ids: dict[str, str]
    incarnations: dict[str, str]
    next: tuple[TopicOffset, ...]
    batch: int | UnsetType = UNSET
    wanted: str | UnsetType = UNSET


class Partitions(Record, frozen=True, kw_only=True):
    """The partitions that the broker lists, each of which the watermark waits for."""

    kind: ClassVar[str] = "partitions"
    writer: ClassVar[str] = "bronze"
    listed: tuple[Partition, ...]


class Gap(Record, frozen=True, kw_only=True):
    """What a topic lost before bronze read it: OffsetsLost or TopicCreatedAgain."""

    kind: ClassVar[str] = "gap"
    writer: ClassVar[str] = "bronze"
    topic: str
    incarnation: str


class OffsetsLost(Gap, frozen=True, kw_only=True):
    """Of the offsets `first` to `last`, both included, `missing` were deleted before they were read. Where
    `read` is true, they were read, and are not in bronze; where it is false, recordings lack them."""

    partition: int
    first: int
    last: int
    missing: int
    seen_at: int
    read: bool | UnsetType = UNSET


class TopicCreatedAgain(Gap, frozen=True, kw_only=True):
    """The topic was deleted and created again `by` that incarnation; `read` are the offsets, by partition, up
    to which its former life had been read."""

    by: str
    read: dict[str, int]
    seen_at: int


class Backfill(Record, frozen=True, kw_only=True):
    """Ranges in which records land, or have landed, below where bronze ended. Written before and after: a run
    may die in between, and silver may go by."""

    kind: ClassVar[str] = "backfill"
    writer: ClassVar[str] = "bronze"
    ranges: tuple[OffsetRange, ...]


class Scan(Record, frozen=True, kw_only=True):
    """A storage sink's checkpoint-ts up to which all files are landed."""

    kind: ClassVar[str] = "scan"
    writer: ClassVar[str] = "bronze"
    checkpoint: int


class MissingFile(msgspec.Struct, frozen=True):
    """A data file, or the first of several in a row, that a storage sink lacks; its rows lie behind
    `position`. `table` is None where its path does not tell it."""

    path: str
    table: Name | None
    position: Position


class FilesMissing(Record, frozen=True, kw_only=True):
    """All that a storage sink is known to lack from now on. A file that arrives later is no longer in it."""

    kind: ClassVar[str] = "missing"
    writer: ClassVar[str] = "bronze"
    files: tuple[MissingFile, ...]


class Looked(Record, frozen=True, kw_only=True):
    """The offsets up to which bronze's records were searched for the claim-check payloads that they name."""

    kind: ClassVar[str] = "looked"
    writer: ClassVar[str] = "bronze"
    next: tuple[NextOffset, ...]
