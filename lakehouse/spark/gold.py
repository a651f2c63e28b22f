"""Silver to gold: fold the log up to the watermark into each table, then publish a manifest.

A run takes B, the last done silver batch, and W, the source's watermark (or all that has arrived, under `eventual`).
Per lineage it applies the changes of batches ≤ B in (W_prev, W], and repairs what is late or overtaken: late rows are
refolded from silver, a table whose schema history changed at or below W_prev is refolded whole. The manifest is the last
write; a crash before it only repeats merges that give the same rows.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold import Change, finish, fold, key_ids, row_key, settle
from lakehouse.lineage import History, Lineage, Name
from lakehouse.spark.changes import between, by_lineage, collect_changes, of_lineage
from lakehouse.spark.history import load_history
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.silver import read_silver
from lakehouse.spark.watermark import counting_partitions, partition_watermarks, source_watermark
from lakehouse.spark.write_gold import merge, replace, table_id
from lakehouse.typed import GoldColumn, gold_columns

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GoldFeed:
    """What gold needs to know of a source. `tables` is None for all, else the selected names."""

    name: str
    zone: str = "UTC"
    consistency: str = "resolved"
    virtual: bool = False
    tables: dict[Name, dict[str, Any]] | None = None
    policies: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Window:
    """The changes a run looks at, and the two places before and after it."""

    batch: int
    position: Position
    batch_before: int
    position_before: Position


def run_gold(spark: SparkSession, lake: Lake, feed: GoldFeed, log: OpsLog, progress: Progress) -> dict[str, Any] | None:
    """Publish one manifest, or None where nothing is new."""
    done, manifest = log.last("done"), log.last("manifest")
    if done is None:
        return None
    position, holder = find_watermark(feed, log, done)
    if manifest and manifest["consistency"] != feed.consistency:
        before: tuple[int, Position] = (0, MIN_POSITION)
    else:
        before = _before(manifest)
    window = Window(done["batch"], max(position, before[1]), *before)
    if manifest and (window.batch, window.position) == before:
        return None
    history = load_history(spark, lake, feed.name, done, log)
    run = GoldRun(spark, lake, feed, log, history, window, manifest)
    tables = run.tables(progress)
    body = {"batch": window.batch, "watermark": list(window.position), "held_by": list(holder) if holder else None,
            "consistency": feed.consistency, "tables": tables, "rows": run.rows, "problems": [text for _, text in history.problems]}  # fmt: skip
    log.add("manifest", body)
    return body


def _before(manifest: dict[str, Any] | None) -> tuple[int, Position]:
    if manifest is None:
        return 0, MIN_POSITION
    return manifest["batch"], tuple(manifest["watermark"])  # type: ignore[return-value]


def find_watermark(feed: GoldFeed, log: OpsLog, done: dict[str, Any]) -> tuple[Position, Any]:
    """W and the partition that holds it; under `eventual` everything that has arrived."""
    if feed.consistency == "eventual":
        return tuple(done["reach"] or MIN_POSITION), None  # type: ignore[return-value]
    marks = partition_watermarks(done)
    return source_watermark(marks, counting_partitions(done, log))


class GoldRun:
    """One run over one source: which tables there are, what each needs, and what was done."""

    def __init__(self, spark: SparkSession, lake: Lake, feed: GoldFeed, log: OpsLog, history: History, window: Window, manifest: dict[str, Any] | None) -> None:
        self.spark, self.lake, self.feed, self.log, self.history, self.window = spark, lake, feed, log, history, window
        self.known: dict[str, dict[str, Any]] = {entry["lineage"]: entry for entry in (manifest or {}).get("tables", [])}
        self.refresh = manifest is not None and manifest["consistency"] != feed.consistency
        self.silver = read_silver(spark, lake, feed.name, "changes").where(F.col("batch") <= window.batch)
        self.taken = {entry["gold"].casefold() for entry in self.known.values()}
        self.dead = self._dead_letters()
        self.rows = 0

    def tables(self, progress: Progress) -> list[dict[str, Any]]:
        """Bring every table to the window's end; returns the manifest's entries."""
        fresh = self._window_changes()
        entries = []
        for lineage in self.history.lineages:
            if lineage.start > self.window.position or not self._selected(lineage):
                continue
            entry = self._table(lineage, fresh.get(lineage.id, []))
            if entry is not None:
                entries.append(entry)
                if entry.pop("_written", None):
                    progress(f"gold    {entry['database']}.{entry['table']}: {entry.pop('_what')}")
                entry.pop("_what", None)
        return entries

    def _window_changes(self) -> dict[str, list[tuple[Change, int]]]:
        w = self.window
        late = (F.col("batch") > w.batch_before) & between(None, w.position_before)
        current = between(w.position_before, w.position)
        found, _ = by_lineage(self.history, collect_changes(self.silver.where(current | late)))
        return found

    def _selected(self, lineage: Lineage) -> bool:
        if self.feed.tables is None:
            return True
        return any(interval.name in self.feed.tables for interval in lineage.intervals)

    def _table(self, lineage: Lineage, fresh: list[tuple[Change, int]]) -> dict[str, Any] | None:
        known = self.known.get(lineage.id)
        at = min(self.window.position, _just_below(lineage.held[0])) if lineage.held else self.window.position
        if lineage.end is not None and lineage.end <= at:
            return self._retired(lineage, known, at)
        if known and known["state"] == "retired" and lineage.end is None:
            known = {**known, "shape": ""}
        shape = shape_of(lineage, at)
        columns = gold_columns(lineage.schema_at(_just_above(at)), self.feed.policies, virtual=self.feed.virtual)
        gold = known["gold"] if known else self._allocate(lineage.name_at(at) or lineage.intervals[-1].name)
        if known is None or known["shape"] != shape or self.refresh:
            version, what = self._refold(lineage, at, gold, columns, create=known is None)
        elif fresh:
            version, what = self._apply(lineage, at, gold, columns, fresh)
        else:
            version, what = known["version"], ""
        return self._entry(lineage, at, gold, version, shape, known, what)

    def _retired(self, lineage: Lineage, known: dict[str, Any] | None, at: Position) -> dict[str, Any] | None:
        """A dropped table keeps its Delta data as it was; one that was never written has none."""
        if known is None:
            return None
        assert lineage.end is not None
        database, table = lineage.intervals[-1].name
        return {**known, "database": database, "table": table, "state": "retired", "since": list(lineage.end)}

    def _refold(self, lineage: Lineage, at: Position, gold: str, columns: list[GoldColumn], *, create: bool) -> tuple[int, str]:
        """Fold the whole table from silver and replace it in one commit."""
        changes = (change for _, change, _ in collect_changes(self.silver.where(of_lineage(lineage) & between(None, at))))
        folded = fold(lineage, changes, at, self.feed.zone)
        self._note(lineage, folded.unknown, at)
        rows = finish(folded)
        self.rows += folded.applied
        exists = not create or self.lake.exists(self.spark, "gold", gold)
        version = replace(self.spark, self.lake, gold, rows, columns, create=not exists)
        return version, f"{'created' if create else 'folded again'}, {len(rows)} rows from {folded.applied} changes"

    def _apply(self, lineage: Lineage, at: Position, gold: str, columns: list[GoldColumn], fresh: list[tuple[Change, int]]) -> tuple[int, str]:
        """Net the window's changes and merge them; rows that came late or in part are refolded from silver first."""
        step = lineage.step_at(_just_above(at))
        ids = key_ids(lineage, step)
        if not ids:
            return self._refold(lineage, at, gold, columns, create=False)
        changes = [change for change, _ in fresh if change.position <= at]
        folded = fold(lineage, changes, at, self.feed.zone)
        settle(folded, [column.column.id for column in columns])
        self._note(lineage, folded.unknown, at)
        late = any(change.position <= self.window.position_before for change in changes)
        if late or folded.patches:
            touched = {*folded.rows, *folded.deleted, *folded.patches}
            folded = self._refold_rows(lineage, at, touched, ids)
        self.rows += folded.applied
        puts, deletes = finish(folded), [dict(zip(ids, key, strict=True)) for key in folded.deleted]
        if not puts and not deletes:
            return self.known[lineage.id]["version"], ""
        names = [column.name for column_id in ids for column in columns if column.column.id == column_id]
        version = merge(self.spark, self.lake, gold, puts, deletes, columns, names)
        return version, f"merged {len(puts)} rows, removed {len(deletes)}"

    def _refold_rows(self, lineage: Lineage, at: Position, touched: set[Any], ids: tuple[int, ...]) -> Any:
        """Fold these rows anew from everything that silver has of them."""
        changes = (change for _, change, _ in collect_changes(self.silver.where(of_lineage(lineage) & between(None, at))))
        folded = fold(lineage, changes, at, self.feed.zone)
        rows = {key: row for key, row in folded.rows.items() if key in touched}
        patches = {key: row for key, row in folded.patches.items() if key in touched}
        folded.rows, folded.patches = rows, patches
        folded.deleted = {key for key in touched if key not in rows and key not in patches}
        return folded

    def _note(self, lineage: Lineage, unknown: set[str], at: Position) -> None:
        if unknown:
            names = ", ".join(sorted(unknown))
            lineage.incomplete.append((at, f"rows have columns that no DDL has added: {names}"))

    def _entry(self, lineage: Lineage, at: Position, gold: str, version: int, shape: str, known: dict[str, Any] | None, what: str) -> dict[str, Any]:
        database, table = lineage.name_at(at) or lineage.intervals[-1].name
        state, since, why = self._state(lineage, at)
        delta = known["delta"] if known else table_id(self.spark, self.lake, gold)
        return {
            "lineage": lineage.id, "database": database, "table": table, "gold": gold, "delta": delta, "version": version, "shape": shape,
            "state": state, "since": since, "why": why, "notes": lineage.notes, "_written": bool(what), "_what": what,
        }  # fmt: skip

    def _state(self, lineage: Lineage, at: Position) -> tuple[str, list[int] | None, str | None]:
        if lineage.held is not None and lineage.held[0] <= self.window.position:
            return "behind", list(at), f"held by a DDL: {lineage.held[1]}"
        missing = lineage.incomplete_at(at)
        if missing is not None:
            return "incomplete", list(missing[0]), missing[1]
        for name in (None, *{interval.name for interval in lineage.intervals}):
            if name in self.dead:
                return "incomplete", list(at), f"{self.dead[name]} dead letters" + ("" if name else " of unknown tables in the source")
        return "exact", None, None

    def _dead_letters(self) -> dict[Name | None, int]:
        """Dead letters that nobody dismissed, by table; None: of no known table."""
        done = self.log.last("done") or {"dead": []}
        dismissed = {tuple(entry["name"]): entry["n"] for record in self.log.all("dismissed") for entry in record["dead"]}
        left = {tuple(entry["name"]): entry["n"] - dismissed.get(tuple(entry["name"]), 0) for entry in done["dead"]}
        return {(name if name[1] is not None else None): number for name, number in left.items() if number > 0}  # type: ignore[misc]

    def _allocate(self, name: Name) -> str:
        """A table name of its own: one-to-one, also where names differ only in case or in characters that are replaced."""
        plain = "".join(char if char.isalnum() or char == "_" else "_" for char in f"{name[0]}__{name[1]}")
        free, number = plain, 2
        while free.casefold() in self.taken:
            free, number = f"{plain}_{number}", number + 1
        self.taken.add(free.casefold())
        return free


def shape_of(lineage: Lineage, at: Position) -> str:
    """A digest of the schema history up to `at`: what was folded under another one must be folded again."""
    steps = [(step.position, repr(step.schema), repr(step.effects)) for step in lineage.steps if step.position <= at]
    names = [(interval.name, interval.low) for interval in lineage.intervals if interval.low <= at]
    return hashlib.blake2b(repr((steps, names, lineage.key_names)).encode(), digest_size=12).hexdigest()


def _just_below(position: Position) -> Position:
    return (*position[:5], position[5] - 1)


def _just_above(position: Position) -> Position:
    """Where rows see every DDL at or below `position`."""
    return (*position[:5], position[5] + 1)


__all__ = ["GoldFeed", "GoldRun", "row_key", "run_gold"]
