"""The nested parts of silver's records (lakehouse/ops/records/silver.py): the progress of each partition,
and open runs and transactions.

Members have the names that they have in the log. A place is (topic, incarnation, partition): the incarnation
tells the lives of a topic apart that was deleted and created again, and is "" where a source has none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.events import Position

Place = tuple[str, str, int]
Partition = tuple[str, int]
Ranges = tuple[tuple[int, int], ...]
"""Numbers that were seen, as ascending ranges of which both ends are included."""


def ranges_with(seen: Iterable[tuple[int, int]], numbers: set[int]) -> Ranges:
    """Ranges of numbers, with more numbers."""
    ranges: list[tuple[int, int]] = []
    for low, high in sorted([*seen, *((number, number) for number in numbers)]):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], high)
        else:
            ranges.append((low, high))
    return tuple(ranges)


def size_of(seen: Ranges, count: int = 2**63 - 1) -> int:
    """How many numbers from 1 to `count` are in ranges."""
    return sum(max(0, min(high, count) - max(low, 1) + 1) for low, high in seen)


class InPartition(msgspec.Struct, frozen=True):
    """What is said of a partition in one life of its topic."""

    topic: str
    incarnation: str
    partition: int

    @property
    def place(self) -> Place:
        return self.topic, self.incarnation, self.partition


class NextOffset(InPartition, frozen=True):
    """The first offset of a partition that is not done yet."""

    offset: int


class TopicOffset(msgspec.Struct, frozen=True):
    """The first offset of a partition that bronze has not read yet, in the topic's present life."""

    topic: str
    partition: int
    offset: int


class OffsetRange(InPartition, frozen=True, omit_defaults=True):
    """Offsets `first` to `last` of a partition, both included. `context` is the offset from which on parts of
    a message that ends in the range have to be read; None where there are none before it."""

    first: int
    last: int
    context: int | None = None

    @property
    def start(self) -> int:
        """The first offset that has to be read."""
        return self.first if self.context is None else self.context


class Mark(msgspec.Struct, frozen=True):
    """The highest watermark of a partition; partition -1 is the whole source."""

    topic: str
    partition: int
    position: Position


class Disproved(msgspec.Struct, frozen=True):
    """Changes of a table that came although a watermark had passed them: how many, the lowest position and
    its record, and the watermark above which they no longer count."""

    name: tuple[str, str]
    n: int
    position: Position
    place: NextOffset
    until: Position


class DeadCount(msgspec.Struct, frozen=True):
    """How many dead letters silver has of a table; (None, None) is no known table."""

    name: tuple[str | None, str | None]
    n: int


class TableSize(msgspec.Struct, frozen=True):
    """What silver holds of a source table: the lowest and highest position of its changes, the number that
    was decoded, the bytes of their images, the key's columns as messages name them, the topics that they came
    in, and the number of `rows` that were inserted."""

    name: tuple[str, str]
    low: Position
    high: Position
    n: int
    bytes: int = 0
    keys: tuple[str, ...] | None = None
    topics: tuple[str, ...] | UnsetType = UNSET
    rows: int | UnsetType = UNSET


class TopicEnd(msgspec.Struct, frozen=True):
    """A topic whose last table is gone, and where that was: all that it had to send is at or below."""

    topic: str
    position: Position


class Shortfall(InPartition, frozen=True):
    """Records of a partition that are not what their producer, or bronze, has counted: how many, the first
    one's offset, and the batch that met them. `kind` is one of

    skipped   numbers of a sequence that no record has
    cut       records whose value is not as long as what was read
    """

    offset: int
    kind: str
    n: int
    batch: int = 0


class BronzeRows(msgspec.Struct, frozen=True):
    """How many rows bronze is to have at a version of its Delta table, by what its commits say they wrote;
    how many of them silver's batches have read (None: not known); what does not add up, in words."""

    version: int
    rows: int
    read: int | None
    losses: tuple[str, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """What became of a batch's messages: decoded = inserted + duplicate + conflict + below."""

    messages: int = 0
    control: int = 0
    decoded: int = 0
    ddl: int = 0
    watermarks: int = 0
    dead: int = 0
    below: int = 0
    inserted: int = 0
    duplicate: int = 0
    conflict: int = 0
    copies: int = 0
    broken_replays: int = 0


class OpenRun(msgspec.Struct, frozen=True, array_like=True):
    """A run of changes of a keyless table in one partition: its commit_ts, whether a resolved event has ended
    it, and how many equal halves it had, by hash and side."""

    commit_ts: int
    ended: bool
    halves: dict[str, int]


OpenRuns = dict[str, dict[str, OpenRun]]
"""By partition (topic, incarnation and number, joined by NUL) and table (database, name and physical table,
joined by NUL)."""


def run_place(topic: str, incarnation: str, partition: int) -> str:
    """A partition as the key of its open runs."""
    return "\x00".join((topic, incarnation, str(partition)))


class SentState(InPartition, frozen=True):
    """Where a feed in order of arrival stands in a partition: the last offset that was compared with the run
    before it, the last number and time that its messages carry, and whether the feed is sending again what it
    had sent before; then, from which offset on the run is needed that it is compared with."""

    offset: int
    number: int | None
    made: int | None = None
    replaying: bool = False
    since: int | UnsetType = UNSET


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction whose END has not come, or not all of its rows: the numbers of the rows that have, and
    their highest position."""

    seen: Ranges
    last: Position


def id_in_epoch(id_: str, epoch: int) -> str:
    """A transaction's id among those of all epochs: another server may give it again."""
    return f"{epoch}/{id_}" if epoch else id_


def epoch_of_id(id_: str) -> int:
    """The epoch of an id that `id_in_epoch` has made."""
    epoch, slash, _ = id_.partition("/")
    return int(epoch) if slash and epoch.isdecimal() else 0


def parted_id(id_: str) -> tuple[str, int | None]:
    """An id as what is before the number that it ends in, without zeros at its front, and the number."""
    digits = id_[len(id_.rstrip("0123456789")) :][-18:]
    number = digits.lstrip("0") or digits[-1:]
    return id_.removesuffix(number), int(number) if number else None


class LostRows(msgspec.Struct, frozen=True):
    """Records that may be rows of any transaction: how many are not accounted for, and what had been seen of
    the transactions that some were taken to be of."""

    unknown: int = 0
    seen: dict[str, Ranges] = {}


class DividedStatement(msgspec.Struct, frozen=True, order=True):
    """A statement that a connector tells in `parts`, one for each of its tables, all at one position; 0 where
    it does not say how many: those that have come."""

    position: Position
    parts: int
    told: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return 0 < self.parts <= len(self.told)

    def joined(self, other: "DividedStatement | None") -> "DividedStatement":
        """With what else has come at its position."""
        if other is None:
            return self
        parts = self.parts and other.parts and max(self.parts, other.parts)
        return DividedStatement(self.position, parts, tuple(sorted({*self.told, *other.told})))


def joined_parts(
    before: Iterable[DividedStatement], told: Mapping[Position, DividedStatement]
) -> tuple[list[DividedStatement], set[Position]]:
    """What has come of each, in order, and the places of those that are not whole."""
    known = {one.position: one for one in before}
    known |= {place: one.joined(known.get(place)) for place, one in told.items()}
    return sorted(known.values()), {place for place, one in known.items() if not one.is_whole}


class Transactions(msgspec.Struct, frozen=True):
    """How far a Debezium feed is complete (lakehouse/silver/transaction_watermark.py). `closed` and `passed`
    tell the transactions that are whole: ids, and by the part before their number ranges of those that end in
    one. `waiting` are the snapshots whose last row has come, and maybe not all that was sent before it;
    `held` is the end of whole transactions that do not count before one that is under way. `drops`: what
    each snapshot's statements drop. `divided`: statements above `whole` that come in parts."""

    open: dict[str, OpenTransaction] = {}
    ends: tuple[tuple[str, int], ...] = ()
    closed: tuple[str, ...] = ()
    whole: Position | None = None
    snapshots: tuple[Position, ...] = ()
    ddls: tuple[Position, ...] = ()
    lost: LostRows = LostRows()
    begun: tuple[Position, ...] = ()
    waiting: tuple[Position, ...] | UnsetType = UNSET
    held: Position | UnsetType = UNSET
    passed: dict[str, Ranges] | UnsetType = UNSET
    drops: tuple[tuple[Position, tuple[str, ...]], ...] | UnsetType = UNSET
    divided: tuple[DividedStatement, ...] | UnsetType = UNSET


class TableSnapshot(msgspec.Struct, frozen=True, order=True):
    """One table's snapshot: the table, and the position that it is of."""

    database: str
    table: str
    position: Position


class TableSnapshots(msgspec.Struct, frozen=True):
    """The table snapshots that silver has rows of, and those whose last row has arrived."""

    begun: tuple[TableSnapshot, ...] = ()
    whole: tuple[TableSnapshot, ...] = ()

    @property
    def unfinished(self) -> list[TableSnapshot]:
        """Those whose rows do not count: their last one has not arrived, and may never."""
        return sorted(set(self.begun) - set(self.whole))


class BinlogNames(msgspec.Struct, frozen=True):
    """The base names that binlog files had in an epoch; `shard` is "" where a place has one binlog."""

    epoch: int
    shard: str
    names: tuple[str, ...]


class ServerPlace(NamedTuple):
    """A partition, or one shard of it, whose records come in the order of one binlog."""

    topic: str
    incarnation: str
    partition: int
    shard: str


class BinlogPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was streamed at a place: server ids, the last of them, and the highest (file number, offset), ()
    before the first event; `tops`: the highest of each id, which records of an older lakehouse lack."""

    topic: str
    incarnation: str
    partition: int
    shard: str
    epoch: int
    high: tuple[int, ...]
    ids: tuple[int, ...]
    was: int | None
    tops: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def place(self) -> ServerPlace:
        return ServerPlace(self.topic, self.incarnation, self.partition, self.shard)


class ServerChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record from which on the binlog is another server's: its id and that of the server before it, its
    file's base name and number; `beside`: the shard that the feed had before, where it is one of several."""

    topic: str
    incarnation: str
    partition: int
    shard: str
    epoch: int
    offset: int
    was: int | None
    server: int
    base: str
    number: int
    beside: str | None = None


class Servers(msgspec.Struct, frozen=True):
    """The binlog servers that a source's rows come from."""

    names: tuple[BinlogNames, ...] = ()
    places: tuple[BinlogPlace, ...] = ()
    changes: tuple[ServerChange, ...] = ()


def plain(value: Any) -> Any:
    """The value as JSON holds it: dicts, lists and scalars."""
    return msgspec.json.decode(msgspec.json.encode(value))
