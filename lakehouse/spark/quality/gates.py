"""Quality in a run of gold: which changes are rejected, where a table stops, and the results of every check.

ops.<source>_rejected   one row per change that a check with action `reject` keeps out: its place, and why
ops.<source>_quality    one row per run, table and check: how many changes it evaluated, how many failed
"""

import functools
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import QualityError
from lakehouse.events import Position, position_struct
from lakehouse.fold.row_edits import REJECTED, Change
from lakehouse.fold.steps import key_turns, target_step
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Held, History, Lineage, Name
from lakehouse.ops.records.gold import TableEntry
from lakehouse.ops.records.operators import Accepted, Epoch
from lakehouse.quality.suite import Suite
from lakehouse.spark.arrow import rows_frame
from lakehouse.spark.bronze.epochs import is_void
from lakehouse.spark.change_log.changes import between, named_changes, of_lineage, position_literal
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake, literal, quote
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.evaluate import FAILED, SuiteEvaluator, commit_of, unknown_names
from lakehouse.spark.session import kept
from lakehouse.spark.silver.columns import POSITION

PARTIAL = "partial_after"
ORIGIN = "struct<topic:string,incarnation:string,partition:int,offset:bigint,index:int,path:string>"
REJECTED_ROWS = columns(
    f"lineage string, database string, `table` string, key string, position {POSITION}, reasons "
    "array<string>, "
    f"origin {ORIGIN}, batch bigint, at bigint"
)
RESULTS = columns(
    "at bigint, lineage string, database string, `table` string, expectation string, action string, checked "
    "bigint, "
    f"failed bigint, batch bigint, watermark {POSITION}"
)


class Stop(NamedTuple):
    """The first change that fails a check with action `stop`, and that check's label."""

    position: Position
    label: str

    @property
    def held(self) -> Held:
        """How a lineage is held before that change."""
        return Held(self.position, f"stopped by quality: {self.label}", by="quality")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judging of one table's changes came to, for the ops tables: rejected changes, as rows and as
    frames, how each check did, and the lineages all of whose changes were judged.
    """

    rows: tuple[dict[str, Any], ...] = ()
    frames: tuple[DataFrame, ...] = ()
    results: tuple[dict[str, Any], ...] = ()
    whole: frozenset[str] = frozenset()

    def plus(self, other: "Verdict") -> "Verdict":
        """Both verdicts as one."""
        return Verdict(
            self.rows + other.rows,
            self.frames + other.frames,
            self.results + other.results,
            self.whole | other.whole,
        )


NO_VERDICT = Verdict()


@dataclass(frozen=True, slots=True)
class Gates:
    """The judges of one run, by lineage; `unfit`: why the suites of others do not suit their tables."""

    spark: SparkSession
    lake: Lake
    source: str
    batch: int
    judges: Mapping[str, SuiteEvaluator]
    unfit: Mapping[str, str] = field(default_factory=dict)

    def fit(self, lineage: Lineage) -> "Gate | None":
        """The same as `of`; QualityError where the suite does not suit the table."""
        if (why := self.unfit.get(lineage.id)) is not None:
            raise QualityError(f"{'.'.join(lineage.intervals[-1].name)}: {why}")
        return self.of(lineage)

    def of(self, lineage: Lineage) -> "Gate | None":
        """The gate of a lineage's changes; None where no suite is about it."""
        judge = self.judges.get(lineage.id)
        return None if judge is None else Gate(judge)

    def stops(
        self,
        silver: DataFrame,
        entries: Mapping[str, TableEntry],
        window: Column,
        epochs: tuple[Epoch, ...] = (),
        *,
        is_alike: Callable[[Lineage, TableEntry], bool],
    ) -> dict[str, Stop]:
        """Where lineages stop: before the first change that fails a check with action `stop`.

        Where the suite is the one that the manifest knows, and the schema history still is (`is_alike`), only
        the window's changes are looked at, and where it stopped before it still does, unless one of the
        `epochs` has made that void.
        """
        found = {}
        for judge in self.judges.values():
            if not judge.stops:
                continue
            entry = entries.get(judge.lineage.id)
            same = entry is not None and entry.shape.endswith(judge.mark) and is_alike(judge.lineage, entry)
            changes = silver.where(of_lineage(judge.lineage))
            first = _first_stop(judge, changes, window if same else F.lit(True))
            stops = [first] if first is not None else []
            if same and entry is not None and entry.stopped is not UNSET:
                known = Stop(*entry.stopped)
                stops += [] if is_void(known.position, epochs) else [known]
            if stops:
                found[judge.lineage.id] = min(stops)
        return found

    def write(self, verdict: Verdict, watermark: Position) -> None:
        """Write what was found to ops.<source>_rejected and ops.<source>_quality."""
        if not self.judges:
            return
        self._write_rejected(verdict)
        if verdict.results:
            place = position_struct(watermark)
            now = int(time.time() * 1000)
            rows = [{**row, "at": now, "batch": self.batch, "watermark": place} for row in verdict.results]
            self.lake.append_rows(self.spark, "ops", f"{self.source}_quality", rows, schema=RESULTS)

    def _write_rejected(self, verdict: Verdict) -> None:
        """MERGE, so that a run that is repeated after a crash adds nothing; a table that was folded whole
        replaces its rows.
        """
        name = f"{self.source}_rejected"
        exists = self.lake.exists(self.spark, "ops", name)
        if not (verdict.rows or verdict.frames or (exists and verdict.whole)):
            return
        rows = rows_frame(self.spark, verdict.rows, REJECTED_ROWS)
        if not exists:
            self.lake.append(rows.limit(0), "ops", name)
        for frame in verdict.frames:
            rows = rows.unionByName(frame)
        rows = rows.dropDuplicates(["lineage", "key", "position", "origin"])
        view = f"lakehouse_rejected_{self.source}_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        replaced = ", ".join(sorted(map(literal, verdict.whole)))
        gone = f" WHEN NOT MATCHED BY SOURCE AND t.lineage IN ({replaced}) THEN DELETE" if replaced else ""
        try:
            with self.lake.committing("ops", name):
                self.spark.sql(
                    f"MERGE INTO {self.lake.ref('ops', name)} t USING {quote(view)} s"
                    " ON t.lineage = s.lineage AND t.key = s.key AND t.position = s.position"
                    f" AND t.origin <=> s.origin WHEN NOT MATCHED THEN INSERT *{gone}"
                )
        finally:
            self.spark.catalog.dropTempView(view)

    def checked(self, entry: TableEntry, lineage: Lineage, silver: DataFrame, at: Position) -> TableEntry:
        """The entry of a table that has rejected rows of its own: it does not claim to be exact."""
        if lineage.id not in self.judges or entry.state != "exact":
            return entry
        if not any(judge.rejects for judge in self.judges.values()):
            return entry
        rejected = rejected_rows(self.spark, self.lake, self.source)
        rows = open_rejections(rejected, lineage, silver, at)
        totals = rows.agg(F.count("*").alias("n"), F.min("position").alias("first")).first()
        if totals is None or not totals.n:
            return entry
        why = f"{totals.n} rejected rows; `lakehouse rejected list`"
        return msgspec.structs.replace(entry, state="incomplete", since=tuple(totals.first), why=why)


@dataclass(frozen=True, slots=True)
class Gate:
    """One table's judge in a run."""

    judge: SuiteEvaluator

    def changes(
        self, mine: DataFrame, window: Column | None = None, *, count: bool = True
    ) -> tuple[list[Change], Verdict]:
        """The judged changes of the window (default: all of `mine`, which is all that silver has of the
        table), on the driver; without `count` the verdict does not say how the checks did.
        """
        table = _in(self.judge.frame(_in(mine, window), partial=False), window).toArrow()
        if any(PARTIAL in (flags or ()) for flags in table.column("flags").to_pylist()):
            table = _in(self.judge.frame(mine, partial=True), window).toArrow()
        failed = [set(found) for found in table.column(FAILED).to_pylist()]
        rejected = [bool(found & set(self.judge.rejects)) for found in failed]
        verdict = Verdict(rows=tuple(self._rejected_rows(table, rejected)))
        if count and failed:
            checked = table.num_rows - table.column("after").null_count
            by_check = {i: sum(i in found for found in failed) for i, _ in self.judge.checks}
            verdict = verdict.plus(Verdict(results=tuple(self._results(checked, by_check))))
        return [change for _, change, _ in named_changes(table)], verdict

    def frame(self, mine: DataFrame, window: Column | None = None) -> tuple[DataFrame, Verdict]:
        """The same for more than the driver holds."""
        partial = _in(mine, window).where(F.array_contains("flags", PARTIAL)).limit(1).count() > 0
        judged = _in(self.judge.frame(mine if partial else _in(mine, window), partial=partial), window)
        judged = kept(judged)
        failed = [
            F.count(F.when(F.array_contains(FAILED, i), 1)).alias(f"c{i}") for i, _ in self.judge.checks
        ]
        counts = judged.agg(F.count("after").alias("n"), *failed).first()
        assert counts is not None
        results = self._results(counts.n, {i: counts[f"c{i}"] for i, _ in self.judge.checks})
        return judged, Verdict(frames=(self._rejected_frame(judged),), results=tuple(results))

    def _rejected_frame(self, judged: DataFrame) -> DataFrame:
        labels = [
            F.when(F.array_contains(FAILED, i), F.lit(check.label))
            for i, check in self.judge.checks
            if i in self.judge.rejects
        ]
        return judged.where(F.array_contains("flags", REJECTED)).select(
            F.lit(self.judge.lineage.id).alias("lineage"),
            "database",
            "table",
            "key",
            "position",
            F.array_compact(F.array(*labels, F.lit(None).cast("string"))).alias("reasons"),
            "origin",
            "batch",
            F.lit(int(time.time() * 1000)).alias("at"),
        )

    def _rejected_rows(self, table: pa.Table, rejected: list[bool]) -> Iterator[dict[str, Any]]:
        labels, now = dict(self.judge.checks), int(time.time() * 1000)
        for row in table.filter(pa.array(rejected, pa.bool_())).to_pylist():
            yield {
                **{name: row[name] for name in ("database", "table", "key", "position", "origin", "batch")},
                "at": now,
                "lineage": self.judge.lineage.id,
                "reasons": [labels[i].label for i in row[FAILED] if i in self.judge.rejects],
            }

    def _results(self, checked: int, failed: Mapping[int, int]) -> Iterator[dict[str, Any]]:
        database, table = self.judge.lineage.intervals[-1].name
        for index, check in self.judge.checks:
            yield {
                "lineage": self.judge.lineage.id,
                "database": database,
                "table": table,
                "expectation": check.label,
                "action": check.action,
                "checked": checked,
                "failed": failed[index],
            }


def _in(frame: DataFrame, window: Column | None) -> DataFrame:
    return frame if window is None else frame.where(window)


def _first_stop(judge: SuiteEvaluator, mine: DataFrame, window: Column) -> Stop | None:
    """The first change that fails a check with action `stop`, and that check."""
    partial = mine.where(window).where(F.array_contains("flags", PARTIAL)).limit(1).count() > 0
    judged = judge.frame(mine if partial else mine.where(window), partial=partial).where(window)
    stopping = F.array(*[F.lit(index) for index in judge.stops])
    first = (
        judged.where(F.arrays_overlap(FAILED, stopping))
        .orderBy("position")
        .select("position", FAILED)
        .first()
    )
    if first is None:
        return None
    check = dict(judge.checks)[min(set(first[FAILED]) & set(judge.stops))]
    return Stop(commit_of(tuple(first.position), judge.upstream), check.label)


def open_gates(
    log: OpsLog,
    batch: int,
    history: History,
    suites: Mapping[Name, Suite],
    *,
    upstream: Upstream,
    virtual: bool,
) -> Gates:
    """The gates of a run, and the tables that their suites do not suit: a statement may have changed them."""
    evaluators: dict[str, SuiteEvaluator] = {}
    unfit: dict[str, str] = {}
    accepted = accepted_changes(log)
    for name, suite in suites.items():
        lineages = [
            lineage
            for lineage in history.lineages
            if any(interval.name == name for interval in lineage.intervals)
        ]
        judges = [
            SuiteEvaluator(lineage, suite, upstream, virtual=virtual, accepted=accepted.get(lineage.id, ()))
            for lineage in lineages
        ]
        unknown = unknown_names(judges)
        for judge in (judge for judge in judges if judge.checks):
            # a table that was renamed is judged by the suite of its newest name, where that one has a suite
            lineage = judge.lineage
            if lineage.id not in evaluators.keys() | unfit.keys() or lineage.intervals[-1].name == name:
                evaluators.pop(lineage.id, None)
                unfit.pop(lineage.id, None)
                if why := unknown or judge.misfit:
                    unfit[lineage.id] = why
                else:
                    evaluators[lineage.id] = judge
    return Gates(log.spark, log.lake, log.source, batch, judges=evaluators, unfit=unfit)


def accepted_changes(log: OpsLog) -> dict[str, tuple[str, ...]]:
    """The changes that operators let pass, by lineage. A record has those of the one before it too, but of
    two that were written at one time neither has the other's.
    """
    found = defaultdict[str, set[str]](set)
    for record in log.all(Accepted):
        found[record.lineage].update(record.changes)
    return {lineage: tuple(sorted(changes)) for lineage, changes in found.items()}


def rejected_rows(spark: SparkSession, lake: Lake, source: str) -> DataFrame:
    """Everything that was rejected, whether or not a later change of the row has passed."""
    return lake.read_or_empty(spark, "ops", f"{source}_rejected", REJECTED_ROWS)


def open_rejections(rejected: DataFrame, lineage: Lineage, silver: DataFrame, at: Position) -> DataFrame:
    """The rejected changes that nothing came after: no later change of the same row, and no DDL that cleared
    the table. Behind a statement that changes the key, silver's keys are no longer those of the same rows.
    """
    cleared, turns = lineage.cleared_at(at), key_turns(lineage, target_step(lineage, at))
    passed = [F.when(F.col("position") > position_literal(turn), 1).otherwise(0) for turn in turns]
    keyed = functools.reduce(lambda one, other: one + other, passed, F.lit(0)).alias("keyed")
    mine = rejected.where((F.col("lineage") == lineage.id) & between(cleared, at))
    rejections = mine.select("*", keyed)
    keys = rejections.where("key <> '[]'").select("key").distinct()
    changes = silver.where(of_lineage(lineage) & between(cleared, at)).join(keys, "key", "left_semi")
    latest = changes.groupBy("key", keyed).agg(F.max("position").alias("latest"))
    found = rejections.join(latest, ["key", "keyed"], "left").where("latest IS NULL OR latest <= position")
    return found.select(*mine.columns)
