"""What operators have decided, imported and asked for, and the generations of silver that a rebuild makes."""

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from lakehouse.events import Position
from lakehouse.ops.progress import NextOffset
from lakehouse.ops.records.record import Name, Record


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
    """The schema that a table has at a position, from the CREATE TABLE `ddl` that an operator supplied."""

    kind: ClassVar[str] = "imported"
    database: str
    table: str
    position: Position
    columns: tuple[ImportedColumn, ...]
    key: tuple[str, ...]
    ddl: str | UnsetType = UNSET


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
    `place`. `batch` is the last one that silver had done then: statements of later batches came too late.
    `folded`: by lineage what that row depends on beside changes (lakehouse/fold/compaction.py)."""

    kind: ClassVar[str] = "floor"
    generation: int
    place: Position
    names: tuple[Name, ...]
    why: str
    batch: int | UnsetType = UNSET
    folded: dict[str, str] | UnsetType = UNSET


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
