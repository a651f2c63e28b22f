"""Quality in a run of gold: which tables have a judge, where a table stops, what was rejected, and how every
check did.

ops.<source>_rejected   one row per change that a check with action `reject` keeps out: where, why, and its
                        bytes' place
ops.<source>_quality    one row per run, table and check: how many changes it looked at and how many failed
"""

import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import Position
from lakehouse.fold.current_rows import REJECTED, Change
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Held, History, Lineage, Name
from lakehouse.quality.suite import Suite
from lakehouse.spark.change_log.changes import between, named_changes, of_lineage
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake, literal
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.evaluate import FAILED, Judge, check_names, commit_of
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


@dataclass(slots=True)
class Gates:
    """The judges of one run, and what they found."""

    spark: SparkSession
    lake: Lake
    source: str
    batch: int
    judges: dict[str, Judge] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    frames: list[DataFrame] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    results: list[dict[str, Any]] = field(default_factory=list)

    def of(self, lineage: Lineage) -> "Gate | None":
        judge = self.judges.get(lineage.id)
        return None if judge is None else Gate(self, judge)

    def hold(self, silver: DataFrame, known: dict[str, dict[str, Any]], fresh: Any) -> None:
        """Hold every lineage before the first change that fails a check with action `stop`.

        Where the suite is the one that the manifest knows, only `fresh` changes are looked at, and where it
        stopped it stands.
        """
        for judge in self.judges.values():
            if not judge.stops:
                continue
            lineage, entry = judge.lineage, known.get(judge.lineage.id)
            same = entry is not None and entry["shape"].endswith(judge.mark)
            mine = silver.where(of_lineage(lineage))
            first = _first_stop(judge, mine, fresh if same else F.lit(True))
            stopped = [first] if first else []
            if same and entry and entry.get("stopped"):
                stopped.append((tuple(entry["stopped"][0]), entry["stopped"][1]))
            if stopped:
                place, label = judge.stopped = min(stopped)
                if lineage.held is None or place < lineage.held.position:
                    lineage.held = Held(place, f"stopped by quality: {label}", by="quality")

    def finish(
        self, entries: list[dict[str, Any]], history: History, silver: DataFrame, watermark: Position
    ) -> None:
        """Write what was found, and let no table with rejected rows of its own claim to be exact."""
        if not self.judges:
            return
        self._write_rejected()
        if self.results:
            place = dict(zip(("epoch", "p1", "p2", "p3", "p4", "p5"), watermark, strict=True))
            rows = [
                {**row, "at": int(time.time() * 1000), "batch": self.batch, "watermark": place}
                for row in self.results
            ]
            table = pa.Table.from_pylist(rows, schema=to_arrow_schema(RESULTS))
            self.lake.append(
                self.spark.createDataFrame(table, RESULTS).coalesce(1), "ops", f"{self.source}_quality"
            )
        if any(judge.rejects for judge in self.judges.values()):
            lineages = {lineage.id: lineage for lineage in history.lineages}
            for entry in entries:
                if entry["lineage"] in self.judges and entry["state"] == "exact":
                    entry.update(self._missing(lineages[entry["lineage"]], silver, watermark))

    def _write_rejected(self) -> None:
        """MERGE, so that a run that is repeated after a crash adds nothing; a table that was folded whole
        replaces its rows.
        """
        name = f"{self.source}_rejected"
        exists = self.lake.exists(self.spark, "ops", name)
        if not (self.rows or self.frames or (exists and self.whole)):
            return
        rows = self.spark.createDataFrame(
            pa.Table.from_pylist(self.rows, schema=to_arrow_schema(REJECTED_ROWS)), REJECTED_ROWS
        )
        if not exists:
            self.lake.append(rows.limit(0), "ops", name)
        for frame in self.frames:
            rows = rows.unionByName(frame)
        rows = rows.dropDuplicates(["lineage", "key", "position", "origin"])
        view = f"lakehouse_rejected_{self.source}_{id(self)}"
        rows.createOrReplaceTempView(view)
        replaced = ", ".join(sorted(map(literal, self.whole)))
        gone = f" WHEN NOT MATCHED BY SOURCE AND t.lineage IN ({replaced}) THEN DELETE" if replaced else ""
        try:
            self.spark.sql(
                f"MERGE INTO {self.lake.ref('ops', name)} t USING `{view}` s"
                " ON t.lineage = s.lineage AND t.key = s.key AND t.position = s.position AND t.origin <=> "
                "s.origin"
                f" WHEN NOT MATCHED THEN INSERT *{gone}"
            )
        finally:
            self.spark.catalog.dropTempView(view)

    def _missing(self, lineage: Lineage, silver: DataFrame, at: Position) -> dict[str, Any]:
        rows = open_rejections(rejected_rows(self.spark, self.lake, self.source), lineage, silver, at)
        found = rows.agg(F.count("*").alias("n"), F.min("position").alias("first")).first()
        if found is None or not found.n:
            return {}
        return {
            "state": "incomplete",
            "since": list(found.first),
            "why": f"{found.n} rejected rows; `lakehouse rejected list`",
        }


@dataclass(slots=True)
class Gate:
    """One table's judge in a run."""

    gates: Gates
    judge: Judge

    def changes(self, mine: DataFrame, window: Column | None = None, *, count: bool = True) -> list[Change]:
        """The judged changes of the window (default: all of `mine`, which is all that silver has of the
        table), on the driver.
        """
        table = _in(self.judge.frame(_in(mine, window), partial=False), window).toArrow()
        if any(PARTIAL in (flags or ()) for flags in table.column("flags").to_pylist()):
            table = _in(self.judge.frame(mine, partial=True), window).toArrow()
        told = [
            (set(failed), after is not None)
            for failed, after in zip(*(table.column(n).to_pylist() for n in (FAILED, "after")), strict=True)
        ]
        self._keep(table, [bool(failed & set(self.judge.rejects)) for failed, _ in told])
        if count and told:
            self._count(
                sum(is_row for _, is_row in told),
                {i: sum(i in failed for failed, _ in told) for i, _ in self.judge.checks},
            )
        return [change for _, change, _ in named_changes(table)]

    def frame(self, mine: DataFrame, window: Column | None = None) -> DataFrame:
        """The same for more than the driver holds."""
        partial = _in(mine, window).where(F.array_contains("flags", PARTIAL)).limit(1).count() > 0
        judged = _in(self.judge.frame(mine if partial else _in(mine, window), partial=partial), window)
        judged = kept(judged)
        failed = [
            F.count(F.when(F.array_contains(FAILED, i), 1)).alias(f"c{i}") for i, _ in self.judge.checks
        ]
        counts = judged.agg(F.count("after").alias("n"), *failed).first()
        assert counts is not None
        self._count(counts.n, {i: counts[f"c{i}"] for i, _ in self.judge.checks})
        self.gates.frames.append(self._rejected(judged))
        return judged

    def _rejected(self, judged: DataFrame) -> DataFrame:
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

    def _keep(self, table: pa.Table, rejected: list[bool]) -> None:
        labels, now = dict(self.judge.checks), int(time.time() * 1000)
        for row in table.filter(pa.array(rejected, pa.bool_())).to_pylist():
            self.gates.rows.append(
                {
                    **{
                        name: row[name]
                        for name in ("database", "table", "key", "position", "origin", "batch")
                    },
                    "at": now,
                    "lineage": self.judge.lineage.id,
                    "reasons": [labels[i].label for i in row[FAILED] if i in self.judge.rejects],
                }
            )

    def _count(self, checked: int, failed: dict[int, int]) -> None:
        database, table = self.judge.lineage.intervals[-1].name
        for index, check in self.judge.checks:
            self.gates.results.append(
                {
                    "lineage": self.judge.lineage.id,
                    "database": database,
                    "table": table,
                    "expectation": check.label,
                    "action": check.action,
                    "checked": checked,
                    "failed": failed[index],
                }
            )


def _in(frame: DataFrame, window: Column | None) -> DataFrame:
    return frame if window is None else frame.where(window)


def _first_stop(judge: Judge, mine: DataFrame, window: Column) -> tuple[Position, str] | None:
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
    return commit_of(tuple(first.position), judge.upstream), dict(judge.checks)[
        min(set(first[FAILED]) & set(judge.stops))
    ].label


def open_gates(
    spark: SparkSession,
    lake: Lake,
    source: str,
    batch: int,
    suites: dict[Name, Suite],
    history: History,
    log: OpsLog,
    upstream: Upstream,
    policies: dict[str, str],
    virtual: bool,
) -> Gates:
    """The gates of a run; QualityError where a suite does not suit its table, before anything is written."""
    gates = Gates(spark, lake, source, batch)
    accepted = {record["lineage"]: tuple(record["changes"]) for record in log.all("accepted")}
    for name, suite in suites.items():
        mine = [
            lineage
            for lineage in history.lineages
            if any(interval.name == name for interval in lineage.intervals)
        ]
        judges = [
            Judge(lineage, suite, upstream, policies, virtual, accepted.get(lineage.id, ()))
            for lineage in mine
        ]
        check_names(judges, ".".join(name))
        for judge in (judge for judge in judges if judge.checks):
            # a table that was renamed is judged by the suite of its newest name, where that one has a suite
            if judge.lineage.id not in gates.judges or judge.lineage.intervals[-1].name == name:
                judge.check_types()
                gates.judges[judge.lineage.id] = judge
    return gates


def rejected_rows(spark: SparkSession, lake: Lake, source: str) -> DataFrame:
    """Everything that was rejected, whether or not a later change of the row has passed."""
    return lake.read_or_empty(spark, "ops", f"{source}_rejected", REJECTED_ROWS)


def open_rejections(rejected: DataFrame, lineage: Lineage, silver: DataFrame, at: Position) -> DataFrame:
    """The rejected changes that nothing came after: no later change of the same row, and no DDL that cleared
    the table.
    """
    cleared = lineage.cleared_at(at)
    mine = rejected.where((F.col("lineage") == lineage.id) & between(cleared, at))
    keys = mine.where("key <> '[]'").select("key").distinct()
    changes = silver.where(of_lineage(lineage) & between(cleared, at)).join(keys, "key", "left_semi")
    latest = changes.groupBy("key").agg(F.max("position").alias("latest"))
    return mine.join(latest, "key", "left").where("latest IS NULL OR latest <= position").drop("latest")
