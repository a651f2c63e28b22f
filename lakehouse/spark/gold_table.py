"""One gold table in one run: create it, fold it again, or merge what is new, on the driver or in Spark jobs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.carry import Upstream
from lakehouse.events import Position
from lakehouse.fold import Change, Folded, finish, fold, key_ids, settle
from lakehouse.lineage import Lineage
from lakehouse.spark import write_gold
from lakehouse.spark.changes import between, collect_changes, of_lineage
from lakehouse.spark.fold_frame import fold_frame, named, needed_companions, typed_frame
from lakehouse.spark.lake import Lake
from lakehouse.spark.session import capabilities
from lakehouse.typed import GoldColumn, gold_columns

# up to this many changes a table is folded on the driver; a Spark job would cost more than the fold
SMALL_CHANGES = 50_000
SMALL_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Size:
    """How much silver holds of something."""

    rows: int
    bytes: int

    @property
    def small(self) -> bool:
        return self.rows <= SMALL_CHANGES and self.bytes <= SMALL_BYTES


@dataclass(slots=True)
class Written:
    """What a table's turn came to: its version, what was done (empty: nothing), and what the fold found."""

    version: int
    what: str
    unknown: set[str]
    applied: int = 0


class GoldTable:
    """A lineage at one place, and the Delta table that holds it."""

    def __init__(self, spark: SparkSession, lake: Lake, lineage: Lineage, at: Position, gold: str, silver: DataFrame, size: Size,
                 upstream: Upstream, policies: dict[str, str], *, virtual: bool) -> None:  # fmt: skip
        self.spark, self.lake, self.lineage, self.at, self.gold, self.silver = spark, lake, lineage, at, gold, silver
        self.size, self.upstream = size, upstream
        self.step = lineage.step_at((*at[:5], at[5] + 1))
        self.columns: list[GoldColumn] = gold_columns(lineage.steps[self.step].schema, policies, virtual=virtual)
        self.ids = key_ids(lineage, self.step)

    @property
    def mine(self) -> DataFrame:
        """All of silver's changes of this lineage up to here."""
        return self.silver.where(of_lineage(self.lineage) & between(None, self.at))

    def refold(self, *, exists: bool) -> Written:
        """Fold the whole table from silver and replace it in one commit."""
        if not self.size.small:
            return self._refold_large(exists=exists)
        folded = self._fold(change for _, change, _ in collect_changes(self.mine))
        rows = finish(folded)
        version = write_gold.replace(self.spark, self.lake, self.gold, rows, self.columns, create=not exists)
        return Written(
            version,
            f"{'folded again' if exists else 'created'}: {len(rows)} rows from {folded.applied} changes",
            folded.unknown,
            folded.applied,
        )

    def apply(self, fresh: list[Change], position_before: Position, version: int) -> Written:
        """Net the window's changes and merge them; rows that came late or in part are folded anew from silver first."""
        if not self.ids:
            return self.refold(exists=True)
        folded = self._fold(fresh)
        settle(folded, [column.column.id for column in self.columns])
        if folded.patches or any(change.position <= position_before for change in fresh):
            folded = self._refold_rows({*folded.rows, *folded.deleted, *folded.patches}, folded.unknown)
        puts = finish(folded)
        deletes = [dict(zip(self.ids, key, strict=True)) for key in folded.deleted]
        if not puts and not deletes:
            return Written(version, "", folded.unknown)
        version = write_gold.merge(self.spark, self.lake, self.gold, puts, deletes, self.columns, self._keys())
        return Written(version, f"merged {len(puts)} rows, removed {len(deletes)}", folded.unknown, len(fresh))

    def apply_large(self, window: DataFrame, late: bool, rows: int) -> Written:
        """The same in Spark jobs."""
        if not self.ids or late:
            return self.refold(exists=True)
        mine = window.where(of_lineage(self.lineage))
        typed, op = self._typed(mine, rows)
        if typed.where(F.col(op) == "patch").limit(1).count():
            return self.refold(exists=True)
        frame = named(typed, self.columns, needed_companions(typed, self.columns), op)
        version = write_gold.merge_frame(self.spark, self.lake, self.gold, frame, self._keys())
        return Written(version, f"merged up to {rows} changes", set(), rows)

    def _typed(self, changes: DataFrame, rows: int) -> tuple[DataFrame, str]:
        whole = frozenset(column.column.id for column in self.columns)
        netted = fold_frame(changes, self.lineage, self.at, self.step, self.upstream, rows, whole)
        typed, _ = typed_frame(netted, self.columns, write_gold.OP)
        return (typed.persist() if capabilities(self.spark).persist else typed), write_gold.OP

    def _refold_large(self, *, exists: bool) -> Written:
        typed, op = self._typed(self.mine, self.size.rows)
        typed = typed.where(F.col(op) != "delete")
        frame = named(typed, self.columns, needed_companions(typed, self.columns), None)
        version = write_gold.replace_frame(self.spark, self.lake, self.gold, frame, create=not exists)
        return Written(version, f"{'folded again' if exists else 'created'} from {self.size.rows} changes", set(), self.size.rows)

    def _fold(self, changes: Iterable[Change]) -> Folded:
        return fold(self.lineage, changes, self.at, self.upstream)

    def _refold_rows(self, touched: set[Any], unknown: set[str]) -> Folded:
        """Fold these rows anew from everything that silver has of them: a deleted row can't come back."""
        folded = self._fold(change for _, change, _ in collect_changes(self.mine))
        folded.rows = {key: row for key, row in folded.rows.items() if key in touched}
        folded.patches = {key: row for key, row in folded.patches.items() if key in touched}
        folded.deleted = {key for key in touched if key not in folded.rows and key not in folded.patches}
        folded.unknown |= unknown
        return folded

    def _keys(self) -> list[GoldColumn]:
        return [column for column_id in self.ids for column in self.columns if column.column.id == column_id]
