"""What silver writes: a batch before and after its writes."""

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.events import Position
from lakehouse.ops.progress import (
    Counts,
    DeadCount,
    Mark,
    NextOffset,
    OffsetRange,
    OpenRuns,
    SentState,
    Servers,
    Shortfall,
    TableSize,
    TableSnapshots,
    Transactions,
)
from lakehouse.ops.records.record import Record


class Closing(msgspec.Struct, frozen=True):
    """Closes the dead letters of `code` (None: of any code) of batches up to `batch`, and the first `gaps`
    losses of topics."""

    code: str | None
    batch: int
    gaps: int


class Planned(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A batch of silver, written before anything of it. `generation` names the series of Delta transactions
    that it belongs to, `small` says that the driver decodes it by itself, `arrow_rows` how many records a
    Python worker takes at once.

    `again`: the records lie below what was read. They have been in a batch before, and are decoded again for
    the dead letters that `requeue` closes; or they have landed since. With the batch, the first `backfills`
    of the records that tell of the latter are done.

    `read_as`: what the batch's events depend on besides its bytes (lakehouse/silver/read_as.py).
    `bronze`: the version of bronze's table that has nothing else to read, and when it was made, in
    milliseconds; unset where records are left. `whole`: none are, and no pass over topics was under way
    that has landed a part of what it lands. Such a batch may be of no record.
    `files`: how many files of a storage sink had landed: done again, the batch knows no schema file that came
    later, with which its files may be read otherwise than they were written."""

    kind: ClassVar[str] = "planned"
    writer: ClassVar[str] = "silver"
    batch: int
    generation: str
    small: bool
    arrow_rows: int | None = None
    ranges: tuple[OffsetRange, ...]
    again: bool = False
    requeue: Closing | None = None
    backfills: int = 0
    read_as: dict[str, str] = msgspec.field(default_factory=dict)
    bronze: tuple[int, int] | UnsetType = UNSET
    whole: bool = False
    files: int | UnsetType = UNSET

    @property
    def is_repeat(self) -> bool:
        """Whether all of its records have been in a batch before; only the last batch of those that an
        operator asks for closes dead letters.
        """
        return self.again and not self.backfills


class Done(Record, frozen=True, kw_only=True):
    """A batch after its last write, and what silver holds with it.

    transactions   of a Debezium feed, how far it is complete
    runs           open runs of keyless tables
    resume         where partitions have to be read again, whose last messages lack parts
    bytes          of the images of the batch's changes
    counts         of the batch
    top, reach     the highest position of all changes, and of all changes and DDLs
    next           where each partition goes on
    marks          the watermarks
    dead, tables   what silver holds by table
    servers        of a binlog feed
    snapshots      of tables, that join the feed; unset where there are none
    arrival        positions are offsets or files, which have an order within a partition only
    requeued       the dead letters that the batch closes
    sent           of a feed in order of arrival, for finding what it sends again
    backfills      how many of the Backfill records are done
    low            the lowest position of the batch's changes; None where it has none, or decodes them again
    short          the records that are known to be lacking, or to be cut, by what numbers and sizes say
    bronze         a version of bronze's table of which all records are read, and when it was made, in
                   milliseconds: a table that was put back from a copy may reach the same number again
    """

    kind: ClassVar[str] = "done"
    writer: ClassVar[str] = "silver"
    transactions: Transactions | None = None
    batch: int
    runs: OpenRuns = msgspec.field(default_factory=dict)
    resume: tuple[NextOffset, ...] = ()
    bytes: int = 0
    counts: Counts
    top: Position | None
    reach: Position | None
    next: tuple[NextOffset, ...]
    marks: tuple[Mark, ...]
    dead: tuple[DeadCount, ...]
    tables: tuple[TableSize, ...]
    servers: Servers | None = None
    snapshots: TableSnapshots | UnsetType = UNSET
    arrival: bool = False
    requeued: Closing | None = None
    sent: tuple[SentState, ...] = ()
    backfills: int | UnsetType = UNSET
    low: Position | UnsetType | None = UNSET
    short: tuple[Shortfall, ...] | UnsetType = UNSET
    bronze: tuple[int, int] | UnsetType = UNSET
