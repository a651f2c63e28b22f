"""What gold writes: what is about to be published, what is published, and what it has found on the way."""

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.events import Position
from lakehouse.ops.progress import BronzeRows, Disproved, Partition, TopicEnd
from lakehouse.ops.records.record import Name, Record

Lacking = dict[str, Position]
"""What changes are known to lack, in words, and since when."""


class HeldAt(msgspec.Struct, frozen=True):
    """What a table waits for: a DDL (`by` is "reader", "hold" or "reject"), its rows' undeclared columns
    ("rows"), a failed check ("quality"), or the decision on the table that has its name ("name"). `seen` is
    when that was found; `shard` the table that is held, of a merged one."""

    position: Position
    ddl: str | None
    by: str
    columns: tuple[str, ...]
    seen: int
    shard: Name | UnsetType = UNSET


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
    lacking            what changes are known to lack, and since when
    shards             the lineages of a merged table
    collided           the note on keys that more than one shard has
    changes            how many of silver's changes it was made of, and how many silver has under its names
                       that are not its own; only where they were counted
    counted            a table without a key, in which each delete has found a row of its image
    table_id           how the id begins that Delta gave the table; older lakes do not tell it
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
    lacking: Lacking | UnsetType = UNSET
    shards: tuple[str, ...] | UnsetType = UNSET
    collided: tuple[str, ...] | UnsetType = UNSET
    made_for: Name | UnsetType = UNSET
    changes: tuple[int, int] | UnsetType = UNSET
    counted: bool | UnsetType = UNSET
    table_id: str | UnsetType = UNSET

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
    dismissals         how many dismissals by operators its run had read
    lacking            what the tables that gold has no more lack below a retention floor, by lineage
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
    dismissals: int | UnsetType = UNSET
    lacking: dict[str, Lacking] | UnsetType = UNSET

    def position_of(self, entry: TableEntry) -> Position:
        """Up to where a table's changes are in it: a table that is behind stands before the watermark."""
        return entry.since if entry.state == "behind" and entry.since else self.watermark


class Intent(Record, frozen=True, kw_only=True):
    """What a run is about to publish, before its first write to gold: up to which batch and position, and
    the gold tables that it writes. Without a manifest after it the run has died, and these tables may have
    rows that no manifest names. `under` is a digest of the decoder's options that silver was decoded with,
    of the rules of the source's server, and of the YAMLs; "" in a record of an older lakehouse."""

    kind: ClassVar[str] = "intent"
    writer: ClassVar[str] = "gold"
    batch: int
    watermark: Position
    tables: tuple[str, ...]
    under: str = ""


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


class TableSpread(msgspec.Struct, frozen=True):
    """The partitions that a table's changes came in, and how many of its keys came in several."""

    database: str
    table: str
    places: tuple[Partition, ...]
    moved: int


class Spreads(Record, frozen=True, kw_only=True):
    """In which partitions the rows of batches up to `batch` lie, of a feed whose partitions do not compare.
    `under` as in Sightings. Written by gold; a lake without it is looked through again."""

    kind: ClassVar[str] = "spreads"
    writer: ClassVar[str] = "gold"
    batch: int
    under: str
    tables: tuple[TableSpread, ...]
