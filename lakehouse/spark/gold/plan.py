"""What is decided before anything is written to gold: which tables, up to where, how large."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.upcast import Row
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.lineage import Lineage
from lakehouse.spark import limits
from lakehouse.spark.quality.gates import Gate

THREADS = 3
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much silver holds of something."""

    rows: int
    bytes: int

    @property
    def small(self) -> bool:
        return self.rows <= limits.GOLD_TABLE_CHANGES and self.bytes <= limits.GOLD_TABLE_BYTES


@dataclass(slots=True)
class Written:
    """What a table's turn came to: its version, what was done (empty: nothing), and what the fold found."""

    version: int
    what: str
    unknown: dict[str, Position]
    applied: int = 0


class Outcome(NamedTuple):
    """What a window makes of gold's rows: rows to put, rows to take away (a log's rows are all put), and
    names that no DDL has told.
    """

    puts: list[Row]
    deletes: list[Row]
    unknown: dict[str, Position]


@dataclass(slots=True)
class Turn:
    """One lineage in one run: up to where, which Delta table, and whether it is folded whole."""

    lineage: Lineage
    at: Position
    gold: str
    wanted: str
    shape: str
    known: dict[str, Any] | None
    retired: bool
    whole: bool
    options: GoldOptions = PLAIN
    gate: Gate | None = None

    @property
    def lineages(self) -> list[Lineage]:
        return [self.lineage]


@dataclass(slots=True)
class Window:
    """The changes a run looks at, and the two places before and after it."""

    batch: int
    position: Position
    batch_before: int
    position_before: Position


@dataclass(slots=True)
class Group:
    """The live shards of one table, up to where they are shown, and whether they are folded whole."""

    lineages: list[Lineage]
    at: Position
    gold: str
    wanted: str
    shape: str
    known: dict[str, Any] | None
    whole: bool
    options: GoldOptions
    gate: None = None

    @property
    def retired(self) -> bool:
        return not self.lineages
