"""One gold table in one run: create it, fold it again, or merge what is new, on the driver or in
Spark jobs.
"""

import functools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.events import Position, just_above
from lakehouse.fold.current_rows import OLD_KEY_UNKNOWN, OLD_ROW_STAYS, Change, Folded, finish, fold, settle
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.gold.columns import GoldColumn, gold_columns, type_rows
from lakehouse.gold.modes import Clock, Mode, own_columns
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.shards import INTEGERS
from lakehouse.lineage import Lineage, key_ids
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between, changes_in, collect_changes, of_lineage
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.gold import modes as gold_modes
from lakehouse.spark.gold.fold_job import fold_frame, look_over, named, typing_of, unknown_names
from lakehouse.spark.gold.layout import hide_key, key_names, show_key
from lakehouse.spark.gold.plan import Outcome, Size, Written
from lakehouse.spark.lake import Lake
from lakehouse.spark.quality.gates import Gate
from lakehouse.spark.session import capabilities, kept


class GoldTable:
    """A lineage at one place, and the Delta table that holds it."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        lineage: Lineage,
        at: Position,
        gold: str,
        silver: DataFrame,
        size: Size,
        upstream: Upstream,
        policies: dict[str, str],
        *,
        virtual: bool,
        options: GoldOptions = PLAIN,
        clock: Clock = Clock(),
    ) -> None:
        self.spark, self.lake, self.lineage, self.at, self.gold, self.silver = (
            spark,
            lake,
            lineage,
            at,
            gold,
            silver,
        )
        self.size, self.upstream = size, upstream
        self.step = lineage.step_at(just_above(at))
        self.options, self.mode = options, Mode(lineage, at, upstream, clock, options)
        self.columns: list[GoldColumn] = gold_columns(
            lineage.steps[self.step].schema, policies, virtual=virtual, options=options
        )
        self.columns += own_columns(options, [column.name for column in self.columns])
        self.ids = key_ids(lineage, self.step)
        self.reads_back = True
        self.is_whole = False  # whether this turn has looked at all of the table's changes
        self.gate: Gate | None = None
        self.read: pa.Table | None = (
            None  # all of silver's changes of the table, where they were read together with others'
        )

    def take(self, columns: list[GoldColumn]) -> None:
        """Take the columns that all shards of the table have. Text instead of a type of its own can't be read
        back.
        """
        own = {column.column.id: column.spark for column in self.columns}
        self.reads_back = all(
            column.spark in (own.get(column.column.id), *INTEGERS)
            for column in columns
            if column.column.id > 0
        )
        self.columns = columns

    @property
    def mine(self) -> DataFrame:
        """All of silver's changes of this lineage up to here."""
        return self.silver.where(of_lineage(self.lineage) & between(None, self.at))

    @property
    def everything(self) -> DataFrame:
        """All of silver's changes of this lineage, above `at` too."""
        return self.silver.where(of_lineage(self.lineage))

    def _told(self, *, count: bool) -> Iterable[Change]:
        """The table's changes up to here, judged where it has a suite."""
        if self.gate is None and self.read is not None:
            return changes_in(self.read, self.lineage, self.at)
        if self.gate is None:
            return (change for _, change, _ in collect_changes(self.mine))
        return self.gate.changes(self.mine, count=count)

    def refold(self, *, exists: bool) -> Written:
        """Fold the whole table from silver and replace it in one commit."""
        self.is_whole = True
        if self.gate is not None:
            self.gate.gates.whole.add(self.lineage.id)
        frame, what = self.whole()
        if self.mode.unknown:
            return Written(-1, "", self.mode.unknown)
        if self.options.primary_key and exists:
            hide_key(self.spark, self.lake, self.gold)
        version = write_gold.replace_frame(
            self.spark,
            self.lake,
            self.gold,
            frame,
            create=not exists,
            options=self.options,
            keys=self.keys,
            rows=self._seen_twice,
        )
        if self.options.primary_key:
            show_key(self.spark, self.lake, self.gold, key_names(self.columns, self.ids))
        return Written(
            version, f"{'folded again' if exists else 'created'}{what}", self.mode.unknown, self.mode.applied
        )

    def whole(self) -> tuple[DataFrame, str]:
        """All rows of the table, from silver, and what they came from."""
        if not self.size.small:
            return self._whole_large()
        rows = self.mode.rows(self._told(count=True))
        return self._frame(rows), f": {len(rows)} rows from {self.mode.applied} changes"

    def apply(self, fresh: list[Change], position_before: Position, version: int) -> Written:
        """Merge what the window's changes make of gold's rows."""
        outcome = self.outcome(fresh, position_before, version)
        if outcome is None:
            return self.refold(exists=True)
        if outcome.unknown or not (outcome.puts or outcome.deletes):
            return Written(version, "", outcome.unknown)
        version = self.write([(self, outcome)], position_before)
        return Written(
            version,
            f"merged {len(outcome.puts)} rows, removed {len(outcome.deletes)}",
            outcome.unknown,
            len(fresh),
        )

    def write(self, outcomes: "list[tuple[GoldTable, Outcome]]", position_before: Position) -> int:
        """Write the outcomes of this table's shards, or of itself, in one commit; returns the version."""
        frames = [
            table._frame(outcome.puts, outcome.deletes, ops=self.mode.word != "append")
            for table, outcome in outcomes
        ]
        frame = functools.reduce(
            lambda one, other: one.unionByName(other, allowMissingColumns=True), frames
        ).coalesce(1)
        if self.mode.word == "append":
            return gold_modes.extend_log(self, frame, position_before)
        return write_gold.merge_frame(
            self.spark, self.lake, self.gold, frame, self.keys, self.options, self.size.rows
        )

    def outcome(self, fresh: list[Change], position_before: Position, version: int) -> "Outcome | None":
        """What the window's changes make of gold's rows: rows that came late or in part are folded anew from
        silver first. None where nothing less than the whole table will do.
        """
        if not self.ids:
            return None
        late = any(self.mode.is_late(change, position_before) for change in fresh)
        if not self.options.plain:
            return self._advanced(fresh, version, late=late)
        folded = self._fold(fresh)
        settle(folded, [column.column.id for column in self.columns if column.column.id > 0])
        if folded.patches or late:
            folded = self._refold_rows(
                {*folded.rows, *folded.deleted, *folded.patches, *folded.refused}, folded.unknown
            )
        deletes = [dict(zip(self.ids, key, strict=True)) | self.mode.tag for key in folded.deleted]
        return Outcome([row | self.mode.tag for row in finish(folded)], deletes, folded.unknown)

    def _advanced(self, fresh: list[Change], version: int, *, late: bool) -> "Outcome | None":
        """Go on from gold's own rows of the touched keys; what is late or can't be found by its key is told
        anew from silver.
        """
        mode, keys = self.mode, self.mode.touched(fresh)
        if keys is None or not mode.advances or not self.reads_back or (late and mode.word == "append"):
            return None
        known, exact = gold_modes.known_rows(self, keys, version)
        if mode.word == "append":
            return Outcome(mode.advance(fresh, known), [], mode.unknown)
        anew = late or not exact
        rows = mode.of_keys(mode.rows(self._told(count=False)), keys) if anew else mode.advance(fresh, known)
        latest = write_gold.version_of(self.spark, self.lake, self.gold)
        # a run that died half-way has written more than gold's own version has
        had = known if latest == version else gold_modes.known_rows(self, keys, latest)[0]
        return Outcome(*mode.differences(had, rows), mode.unknown)

    def _frame(self, puts: list[Row], deletes: list[Row] = [], *, ops: bool = False) -> DataFrame:  # noqa: B006 - never changed
        words = ["put"] * len(puts) + ["delete"] * len(deletes) if ops else None
        return write_gold.frame_of(
            self.spark, type_rows([*puts, *deletes], self.columns), self.columns, words
        ).coalesce(1)

    def apply_large(
        self, window: DataFrame, late: bool, rows: int, position_before: Position, version: int
    ) -> Written:
        """The same where there are many changes: in Spark jobs, or a stretch at a time."""
        if not self.ids or late:
            return self.refold(exists=True)
        mine = window.where(of_lineage(self.lineage))
        if not self.options.plain:
            return self._apply_in_stretches(mine, rows, position_before, version)
        typed, op = self._typed(mine, rows)
        seen = look_over(typed, self.columns, op)
        if unknown := unknown_names(seen.kinds):
            return Written(version, "", unknown)
        if "patch" in seen.kinds:
            return self.refold(exists=True)
        frame = named(typed, self.columns, seen.companions, op)
        version = write_gold.merge_frame(
            self.spark, self.lake, self.gold, frame, self.keys, self.options, self._seen_twice
        )
        return Written(version, f"merged up to {rows} changes", {}, rows)

    @property
    def _seen_twice(self) -> int:
        """The table's rows, for what looks at a frame before it is written; none where a session would fold
        it twice for that.
        """
        return self.size.rows if capabilities(self.spark).persist else 0

    def _apply_in_stretches(
        self, mine: DataFrame, rows: int, position_before: Position, version: int
    ) -> Written:
        """Go on by one stretch of whole commits after another, where that is less than the table's
        whole log.
        """
        if rows * 2 > self.size.rows:
            return self.refold(exists=True)
        for changes in gold_modes.stretches(mine, self.mode.clock.by_commit, limits.GOLD_TABLE_CHANGES):
            outcome = None if not changes else self.outcome(changes, position_before, version)
            if outcome is None:
                return self.refold(exists=True)
            if outcome.unknown:
                return Written(version, "", outcome.unknown)
            if outcome.puts or outcome.deletes:
                version = self.write([(self, outcome)], position_before)
            position_before = changes[-1].position
        return Written(version, f"merged {rows} changes", self.mode.unknown, rows)

    def _typed(self, changes: DataFrame, rows: int) -> tuple[DataFrame, str]:
        whole = frozenset(column.column.id for column in self.columns if column.column.id > 0)
        typing = typing_of(self.columns, write_gold.OP)
        typed = fold_frame(changes, self.lineage, self.at, self.step, self.upstream, rows, whole, typing)
        return kept(typed), write_gold.OP

    def _whole_large(self) -> tuple[DataFrame, str]:
        if self.options.plain:
            typed, op = self._typed(
                self.mine if self.gate is None else self.gate.frame(self.mine), self.size.rows
            )
            seen = look_over(typed, self.columns, op, without="delete")
            self.mode.unknown = unknown_names(seen.kinds)
            typed = typed.where(F.col(op) != "delete")
        else:
            mine = self.mine if self.gate is None else self.gate.frame(self.mine)
            typed = kept(gold_modes.mode_frame(mine, self.mode, self.columns, self.size.rows))
            seen = look_over(typed, self.columns, None)
        self.mode.applied = self.size.rows
        if self.mine.where(F.array_contains("flags", OLD_KEY_UNKNOWN)).limit(1).count():
            self.mode.problems.add(OLD_ROW_STAYS)
        frame = named(typed, self.columns, seen.companions, None)
        for column in self.columns:
            if self.options.plain and column.column.id in self.mode.tag:
                frame = frame.withColumn(column.name, F.lit(self.mode.tag[column.column.id]))
        return frame, f" from {self.size.rows} changes"

    def _fold(self, changes: Iterable[Change]) -> Folded:
        folded = fold(self.lineage, changes, self.at, self.upstream)
        self.mode.problems |= folded.problems
        return folded

    def _refold_rows(self, touched: set[Any], unknown: dict[str, Position]) -> Folded:
        """Fold these rows anew from everything that silver has of them: a deleted row can't come back."""
        folded = self._fold(self._told(count=False))
        folded.rows = {key: row for key, row in folded.rows.items() if key in touched}
        folded.patches = {key: row for key, row in folded.patches.items() if key in touched}
        folded.deleted = {key for key in touched if key not in folded.rows and key not in folded.patches}
        folded.unknown = {**folded.unknown, **unknown}
        return folded

    @property
    def keys(self) -> list[GoldColumn]:
        """What tells gold's rows apart."""
        ids = self.mode.row_ids
        return [column for column_id in ids for column in self.columns if column.column.id == column_id]
