"""The records of a source's ops log: one frozen struct for each kind.

    silver       planned → done           a batch before and after its writes
    bronze       read, partitions, gap    Kafka topics; backfill: recordings; scan, missing: a storage sink;
                 looked                   claim checks
    gold         intent → manifest        what is about to be published, and what is published
                 inferred                 columns that rows have and no DDL has added
                 lineages                 the ids that tables' lives were given
                 sightings                the shapes of rows from which schemas are inferred
    operators    epoch, retired, dismissed, decision, imported, rebuild, accepted, floor, verified
    rebuilding   rebuilding, generation   a generation of silver that is begun, and one that counts now
    all          run                      what a run did
                 summary                  what the records of old batches said, which are no longer in the log

A record is stored as a JSON object under its `kind`. Its members are the struct's fields, under their own
names but where `rename` says otherwise, in the struct's order. A field with a default may be missing in the
records of older lakes. One that is UNSET, or of a struct with `omit_defaults`, is stored only where it says
something. Members that a newer lakehouse has added are ignored.

Times are milliseconds since 1970, positions six integers (lakehouse/events.py), `why` is the operator's own
words.
"""

import json
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.errors import LakehouseError
from lakehouse.events import Position
from lakehouse.ops.progress import (
    BronzeRows,
    Counts,
    DeadCount,
    Disproved,
    Mark,
    NextOffset,
    OffsetRange,
    OpenRuns,
    Partition,
    SentState,
    Servers,
    Shortfall,
    TableSize,
    TableSnapshots,
    TopicEnd,
    TopicOffset,
    Transactions,
    plain,
)

Name = tuple[str, str]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the log. `writer` is the layer whose runs alone write this kind, one run at a time; "":
    any process may write it at any time."""

    kind: ClassVar[str]
    writer: ClassVar[str] = ""


# --- silver ---


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
    milliseconds; unset where records are left."""

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
    read_as: dict[str, str] = {}
    bronze: tuple[int, int] | UnsetType = UNSET

    @property
    def takes_all(self) -> bool:
        """Whether the batch takes all that bronze had."""
        return self.small and not self.again

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
    runs: OpenRuns = {}
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


# --- gold ---


class HeldAt(msgspec.Struct, frozen=True):
    """What a table waits for: a DDL (`by` is "reader", "hold" or "reject"), its rows' undeclared columns
    ("rows"), or a failed check ("quality"). `seen` is when that was found."""

    position: Position
    ddl: str | None
    by: str
    columns: tuple[str, ...]
    seen: int


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A gold table in a manifest.

    lineage            the id of the source table's life, or `shards of …`
    database, table    the source table's name at the watermark
    gold, version      the Delta table, and its version that is published
    wanted             the gold name that it would have if that were free
    made_for           the source table's name that the Delta table was made for
    shape              a digest of all that the table is folded under; another one folds it whole
    state, since, why  "exact", "incomplete", "behind" or "retired"; from which position on, and the reason
    notes              what else is to be known, as sentences
    held               what the table waits for
    names              all names of the source table, in order
    options            its YAML, as lakehouse/gold/options.py reads it
    stopped            where a check with action `stop` stops it, and that check
    lacking            what changes are known to lack, and since when; not of merged tables
    shards             the lineages of a merged table
    collided           the note on keys that more than one shard has
    changes            how many of silver's changes it was made of, and how many silver has under its names
                       that are not its own; only where they were counted
    """

    lineage: str
    database: str
    table: str
    gold: str
    version: int
    wanted: str = ""
    shape: str
    state: str
    since: Position | None
    why: str | None = None
    notes: tuple[str, ...]
    held: HeldAt | None = None
    names: tuple[Name, ...]
    options: dict[str, object] | None = None
    stopped: tuple[Position, str] | UnsetType = UNSET
    lacking: dict[str, Position] | UnsetType = UNSET
    shards: tuple[str, ...] | UnsetType = UNSET
    collided: tuple[str, ...] | UnsetType = UNSET
    made_for: Name | UnsetType = UNSET
    changes: tuple[int, int] | UnsetType = UNSET

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def lineages(self) -> tuple[str, ...]:
        """The lineages whose rows it has."""
        return (self.lineage,) if self.shards is UNSET or not self.shards else self.shards


class Manifest(Record, frozen=True, kw_only=True):
    """One published state of gold.

    batch, watermark   up to which batch and position silver's changes are in it
    held_by            the partition that holds the watermark
    consistency        "resolved" or "eventual"
    auto               gold takes all tables, not those alone that have a YAML
    applied            how many changes the run applied
    asked              a digest of what YAMLs and operators asked of gold
    generation         of silver
    rebuilds           how many requests to rebuild a table are done
    problems           what is wrong with the source, as sentences
    ended              the topics without tables, which the watermark does not wait for
    disproved          the tables with changes that came after a watermark had passed them
    silver_rows        how many rows silver's changes are to have up to `batch`
    bronze             how many rows bronze is to have, and how many of them silver has read up to `batch`
    """

    kind: ClassVar[str] = "manifest"
    writer: ClassVar[str] = "gold"
    batch: int
    watermark: Position
    held_by: Partition | None = None
    consistency: str
    auto: bool = False
    tables: tuple[TableEntry, ...]
    applied: int = 0
    asked: str | None = None
    generation: int = 1
    rebuilds: int = 0
    problems: tuple[str, ...] = ()
    ended: tuple[TopicEnd, ...] | UnsetType = UNSET
    disproved: tuple[Disproved, ...] | UnsetType = UNSET
    silver_rows: int | UnsetType = UNSET
    bronze: BronzeRows | UnsetType = UNSET

    def position_of(self, entry: TableEntry) -> Position:
        """Up to where a table's changes are in it: a table that is behind stands before the watermark."""
        return entry.since if entry.state == "behind" and entry.since else self.watermark


class Intent(Record, frozen=True, kw_only=True):
    """What a run is about to publish, before its first write to gold: up to which batch and position, and
    the gold tables that it writes. Without a manifest after it the run has died, and these tables may have
    rows that no manifest names."""

    kind: ClassVar[str] = "intent"
    writer: ClassVar[str] = "gold"
    batch: int
    watermark: Position
    tables: tuple[str, ...]


class InferredColumn(msgspec.Struct, frozen=True):
    """A column and its type as rows tell it; "" where they tell none."""

    name: str
    type: str


class Inferred(Record, frozen=True, kw_only=True):
    """Columns that rows of a table have from `position` on and no DDL has added. Written by gold after
    `drift_timeout`."""

    kind: ClassVar[str] = "inferred"
    writer: ClassVar[str] = "gold"
    database: str
    table: str
    position: Position
    columns: tuple[InferredColumn, ...]


class Beginning(msgspec.Struct, frozen=True):
    """A lineage's id, and where it was first seen to begin: its name there, and the position of its CREATE,
    or else of its first row."""

    lineage: str
    database: str
    table: str
    position: Position


class Lineages(Record, frozen=True, kw_only=True):
    """Ids that were given to lineages, each once and for good. Written by gold before it writes their
    tables."""

    kind: ClassVar[str] = "lineages"
    writer: ClassVar[str] = "gold"
    begun: tuple[Beginning, ...]


class RowShape(msgspec.Struct, frozen=True):
    """What one or more rows tell of their table: types (JSON, as silver has it) or column names, and the
    key's names; `first` is the lowest position of such a row, `rows` their number."""

    types: str | None
    columns: tuple[str, ...]
    key_names: tuple[str, ...]
    first: Position
    rows: int


class Sighted(msgspec.Struct, frozen=True):
    """The shapes of a table's rows between two positions, `low` excluded."""

    database: str
    table: str
    low: Position
    high: Position | None
    shapes: tuple[RowShape, ...]


class Sightings(Record, frozen=True, kw_only=True):
    """The shapes of rows of tables whose schema no statement tells, of batches up to `batch`, so that
    later runs look at newer batches alone. `under` is a digest of what decides which rows count. Written by
    gold; a lake without it, or with another digest, is looked through again."""

    kind: ClassVar[str] = "sightings"
    writer: ClassVar[str] = "gold"
    batch: int
    under: str
    tables: tuple[Sighted, ...]


# --- bronze ---


class Read(Record, frozen=True, kw_only=True):
    """Where bronze stands in its topics: the number of the streaming checkpoint, the topics that it reads,
    and of all topics that were ever read the id, the incarnation and the next offsets. `batch`: the number of
    the checkpoint's last batch, where one is known."""

    kind: ClassVar[str] = "read"
    writer: ClassVar[str] = "bronze"
    stream: int
    topics: tuple[str, ...]
    ids: dict[str, str]
    incarnations: dict[str, str]
    next: tuple[TopicOffset, ...]
    batch: int | UnsetType = UNSET


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
    `read`, they were read, and are not in bronze."""

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


# --- operators ---


class Epoch(Record, frozen=True, kw_only=True):
    """What lies at or behind `places`, and all partitions that are not among them, belongs to this epoch.
    `restored_to`: changes of the epochs before it above that TSO are void. `goes_on`: the upstream is the
    same, so that no table misses anything by it."""

    kind: ClassVar[str] = "epoch"
    epoch: int
    places: tuple[NextOffset, ...] = msgspec.field(name="from")
    restored_to: int | None = None
    why: str
    goes_on: bool = False


class Retired(Record, frozen=True, kw_only=True):
    """Partitions that the watermark no longer waits for, until something arrives in them behind `read`: how
    far silver had read each of their incarnations."""

    kind: ClassVar[str] = "retired"
    topic: str
    partitions: tuple[int, ...]
    why: str
    read: tuple[NextOffset, ...] | UnsetType = UNSET


class Dismissed(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Dead letters and losses that an operator has given up; the first three fields are those of Closing.
    `files` are paths that a storage sink lacks."""

    kind: ClassVar[str] = "dismissed"
    code: str | None
    batch: int
    gaps: int
    why: str
    files: tuple[str, ...] = ()


class Decision(Record, frozen=True, kw_only=True):
    """The DDL at `position` is to be applied ("approve", with the statement `instead` of it where there is
    one) or left out ("skip")."""

    kind: ClassVar[str] = "decision"
    decision: str
    instead: str | None = None
    table: str
    position: Position
    ddl: str
    why: str


class ImportedColumn(msgspec.Struct, frozen=True):
    """A column of an imported CREATE TABLE, in MySQL's words."""

    name: str
    type: str
    not_null: bool
    default: str | None
    generated: str | None


class Imported(Record, frozen=True, kw_only=True):
    """The schema that a table has at a position, from a CREATE TABLE that an operator supplied."""

    kind: ClassVar[str] = "imported"
    database: str
    table: str
    position: Position
    columns: tuple[ImportedColumn, ...]
    key: tuple[str, ...]


class Rebuild(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A gold table is to be folded again from silver; `published`: its rows are to be those that the last
    manifest has published, whatever others have written since."""

    kind: ClassVar[str] = "rebuild"
    lineage: str
    why: str
    published: bool = False


class Accepted(Record, frozen=True, kw_only=True):
    """All changes of a table that pass although checks fail them: key, position and place of each as one
    text."""

    kind: ClassVar[str] = "accepted"
    lineage: str
    changes: tuple[str, ...]
    why: str


class Floor(Record, frozen=True, kw_only=True):
    """Silver, in this generation, has one row per live row in place of the log of these tables up to
    `place`. `batch` is the last one that silver had done then: statements of later batches came too late."""

    kind: ClassVar[str] = "floor"
    generation: int
    place: Position
    names: tuple[Name, ...]
    why: str
    batch: int | UnsetType = UNSET


class VerifiedTable(msgspec.Struct, frozen=True):
    """A table after it was compared with the source's: how many rows differ, and of how many that can't be
    said."""

    database: str
    table: str
    different: int = 0
    undecided: int = 0

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


class Verified(Record, frozen=True, kw_only=True):
    """Tables that were compared with the source's server. `sample`: the share of their rows."""

    kind: ClassVar[str] = "verified"
    tables: tuple[VerifiedTable, ...]
    sample: float = 1.0


class Rebuilding(Record, frozen=True, kw_only=True):
    """A generation of silver that is begun in tables of its own."""

    kind: ClassVar[str] = "rebuilding"
    number: int


class Generation(Record, frozen=True, kw_only=True):
    """The generation of silver that counts from now on; without a record it is 1."""

    kind: ClassVar[str] = "generation"
    number: int
    why: str = ""


# --- runs ---


class RunInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What bronze reads: brokers and topics, or paths."""

    bootstrap: str | None = None
    topics: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Run(Record, frozen=True, kw_only=True):
    """A run that did something or failed. `landed` records, `batches` of silver, `published` manifests;
    `seconds` by layer; `error` is one sentence, or the type of an error that is not ours."""

    kind: ClassVar[str] = "run"
    layers: tuple[str, ...]
    read: RunInput = RunInput()
    begun: int
    ended: int
    landed: int
    batches: int
    published: int
    seconds: dict[str, float]
    error: str | None


class Summary(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the records of batches said that stood below `seq` in the log and were taken out of it
    (lakehouse/ops/pruning.py). Of two, the one with the greater `seq` counts.

    generation   of silver, whose batches they are
    batch        the last of them
    ranges       from the first to the last offset that they have read of each partition, and how many
                 `messages` they counted there
    counts       of all of them, batches that decoded dead letters again among them
    inserted     how many rows the batches above `above` have inserted: a retention floor has replaced the
                 others' rows
    closed       the dead letters that they have closed, by code
    whole        the last two of them that took all that bronze had
    """

    kind: ClassVar[str] = "summary"
    seq: int
    generation: int = 1
    batch: int = 0
    ranges: tuple[OffsetRange, ...] = ()
    messages: int = 0
    counts: Counts = Counts()
    above: int = 0
    inserted: int = 0
    closed: tuple[Closing, ...] = ()
    whole: tuple[int, ...] = ()


# --- reading and writing ---

KINDS: dict[str, type[Record]] = {
    one.kind: one
    for one in (
        Planned,
        Done,
        Intent,
        Manifest,
        Inferred,
        Lineages,
        Sightings,
        Read,
        Partitions,
        Gap,
        Backfill,
        Scan,
        FilesMissing,
        Looked,
        Epoch,
        Retired,
        Dismissed,
        Decision,
        Imported,
        Rebuild,
        Accepted,
        Floor,
        Verified,
        Rebuilding,
        Generation,
        Run,
        Summary,
    )
}


def decode(kind: str, text: str) -> Record | None:
    """The record that is stored as `text`; None for a kind that only a newer lakehouse knows. LakehouseError
    where it is no record."""
    stored = KINDS.get(kind)
    if stored is None:
        return None
    try:
        if stored is Gap:
            stored = TopicCreatedAgain if "by" in json.loads(text) else OffsetsLost
        return msgspec.json.decode(text, type=stored)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LakehouseError(f"ops log: expected a record of kind {kind}, got: {error}") from error


def encode(record: Record) -> str:
    """The record as it is stored."""
    return json.dumps(msgspec.to_builtins(record))


def to_json(value: msgspec.Struct) -> dict[str, Any]:
    """A record, or a part of one, as the plain data that commands print."""
    members = plain(value)
    assert isinstance(members, dict)
    return members
