"""Silver to gold: fold the log up to the watermark into each table, then publish a manifest.

A run takes B, the last done silver batch, and W, the source's watermark (or all that has arrived, under
`eventual`). Per lineage it applies the changes of batches ≤ B in (W_prev, W], and repairs what is late or
overtaken: late rows are refolded from silver, a table whose schema history changed at or below W_prev is
refolded whole. The manifest is the last write; a crash before it only repeats merges that give the same rows.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakehouse.events import MIN_POSITION, Position, just_above, just_below
from lakehouse.gold.options import GoldOptions, to_plain
from lakehouse.gold.shards import options_for, options_of, split_shards
from lakehouse.lineage import History, Lineage, Name, key_ids, shape_of
from lakehouse.silver.transaction_watermark import aborted
from lakehouse.sources.kafka_offsets import told_loss
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between, changes_in, not_aborted, not_void, of_lineage
from lakehouse.spark.change_log.dead_letters import open_counts, open_losses, server_changes
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.gold.entries import _lacking
from lakehouse.spark.gold.layout import misfit, take_back, unknown_columns
from lakehouse.spark.gold.new_changes import NOTHING, Fresh, Read, Share, begin, look
from lakehouse.spark.gold.plan import THREADS, Group, Progress, Size, Turn, Window, Written
from lakehouse.spark.gold.settings import GoldFeed, asked_of, find_watermark
from lakehouse.spark.gold.shards import bring, group_of
from lakehouse.spark.gold.table import GoldTable
from lakehouse.spark.gold.undeclared_columns import held_of, infer_columns, keep_waiting, waiting
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.gold_names import claim, free_of, plain_name, renamed
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.gates import Gate, open_gates
from lakehouse.spark.session import keeping, many_rows
from lakehouse.spark.silver.tables import read_silver


def run_gold(
    spark: SparkSession,
    lake: Lake,
    feed: GoldFeed,
    log: OpsLog,
    progress: Progress,
    again: frozenset[str] = frozenset(),
) -> dict[str, Any] | None:
    """Publish one manifest, or None where nothing is new. Lineages in `again` are folded anew whatever is
    known of them.
    """
    done, manifest = log.last("done"), log.last("manifest")
    if done is None:
        return None
    infer_columns(log, feed.drift_timeout)
    position, holder = find_watermark(feed, log, done)
    before: tuple[int, Position] = (0, MIN_POSITION)
    if (
        manifest
        and manifest["consistency"] == feed.consistency
        and manifest.get("generation", 1) == log.generation
    ):
        before = (manifest["batch"], tuple(manifest["watermark"]))
    window = Window(done["batch"], max(position, before[1]), *before)
    asked = asked_of(feed, log)
    if (
        manifest
        and (window.batch, window.position) == before
        and manifest.get("asked") == asked
        and not again
    ):
        return None
    history = load_history(spark, lake, feed.name, done, log, {**feed.told, "virtual": feed.virtual})
    run = GoldRun(spark, lake, feed, log, history, window, manifest)
    run.again = again | {
        record["lineage"] for record in log.all("rebuild")[(manifest or {}).get("rebuilds", 0) :]
    }
    tables = run.tables(progress)
    run.gates.finish(tables, history, run.silver, window.position)
    body = {
        "batch": window.batch,
        "watermark": list(window.position),
        "held_by": list(holder) if holder else None,
        "consistency": feed.consistency,
        "auto": feed.tables is None,
        "tables": tables,
        "applied": run.applied,
        "asked": asked,
        "generation": log.generation,
        "rebuilds": len(log.all("rebuild")),
        "problems": [*(text for _, text in history.problems), *run.problems],
    }
    log.add("manifest", body)
    if feed.drift_timeout == 0 and any((entry.get("held") or {}).get("by") == "rows" for entry in tables):
        return run_gold(spark, lake, feed, log, progress) or body
    return body


class GoldRun:
    """One run over one source: which tables there are, what each needs, and what was done."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        feed: GoldFeed,
        log: OpsLog,
        history: History,
        window: Window,
        manifest: dict[str, Any] | None,
    ) -> None:
        self.spark, self.lake, self.feed, self.log, self.history, self.window = (
            spark,
            lake,
            feed,
            log,
            history,
            window,
        )
        self.known: dict[str, dict[str, Any]] = {
            entry["lineage"]: entry for entry in (manifest or {}).get("tables", [])
        }
        self.refresh = manifest is not None and (
            manifest["consistency"] != feed.consistency or manifest.get("generation", 1) != log.generation
        )
        self.silver = read_silver(spark, lake, feed.name, "changes").where(
            (F.col("batch") <= window.batch) & not_void(log) & not_aborted(log)
        )
        self.taken = {entry["gold"].casefold() for entry in self.known.values()}
        self.done = log.last("done") or {}
        self.sizes = {tuple(entry["name"]): entry for entry in self.done["tables"]}
        self.problems = server_changes(log, window.position[0])
        self.dead = open_counts(spark, lake, feed.name, log)
        self.lost = [*self.problems, *map(told_loss, open_losses(log))]
        self.again: frozenset[str] = frozenset()
        self.applied = 0
        self.gates = open_gates(
            spark,
            lake,
            feed.name,
            window.batch,
            feed.suites,
            history,
            log,
            feed.upstream,
            feed.policies,
            feed.virtual,
        )

    def tables(self, progress: Progress) -> list[dict[str, Any]]:
        """Bring every table to the window's end, a few at a time; returns the manifest's entries."""
        self.gates.hold(self.silver, self.known, self._window())
        alone, together = split_shards(self.history.lineages, self.feed.options)
        turns = [turn for lineage in alone if (turn := self._turn(lineage)) is not None]
        groups = [
            group
            for lineages, options in together
            if (group := group_of(self, lineages, options)) is not None
        ]
        self._claim([*turns, *groups])
        turns, groups = [turn for turn in turns if turn.gold], [group for group in groups if group.gold]
        fresh = self._fresh([*turns, *groups])
        for turn in turns:
            turn.whole |= (
                not turn.retired
                and turn.gate is None
                and not self._has_key(turn)
                and self._has_changes(turn.lineage, fresh)
            )
        shares = [self._share(turn, fresh, partial(self._table, turn, fresh, progress)) for turn in turns]
        shares += [
            self._share(group, fresh, partial(bring, self, group, fresh, progress)) for group in groups
        ]
        small = all(self._size(one).small for one in self._touched([*turns, *groups], fresh))
        with nullcontext() if small else many_rows(self.spark), ThreadPoolExecutor(THREADS) as pool:
            return [
                entry
                for future in begin(pool, shares, self._reading)
                if (entry := future.result()) is not None
            ]

    def _share(self, one: "Turn | Group", fresh: Fresh, work: Callable[[Read], Any]) -> Share:
        """How a table comes by its changes: together with others where they are few, else by itself."""
        sizes = [self._size(lineage) if one.whole else fresh.of(lineage).size for lineage in one.lineages]
        alone = (
            one.retired or one.gate is not None or (not one.whole and (fresh.small or isinstance(one, Group)))
        )
        together = (
            not alone
            and all(size.small for size in sizes)
            and (one.whole or any(size.rows for size in sizes))
        )
        total = Size(sum(size.rows for size in sizes), sum(size.bytes for size in sizes))
        return Share(
            one.lineages, (self.silver if one.whole else fresh.frame) if together else None, total, work
        )

    def _reading(self) -> AbstractContextManager[None]:
        """For a look through all of silver."""
        return (
            many_rows(self.spark)
            if sum(entry["n"] for entry in self.sizes.values()) > limits.GOLD_TABLE_CHANGES
            else nullcontext()
        )

    def _touched(self, ones: "Sequence[Turn | Group]", fresh: Fresh) -> list[Lineage]:
        """The lineages that are folded whole, or have changes in the window."""
        every = [(one.whole, lineage) for one in ones for lineage in one.lineages]
        return [lineage for whole, lineage in every if whole or self._has_changes(lineage, fresh)]

    def _has_changes(self, lineage: Lineage, fresh: Fresh) -> bool:
        return lineage.id in fresh.changes or fresh.of(lineage).size.rows > 0

    def _has_key(self, turn: "Turn") -> bool:
        """Without a key nothing less than the whole table is folded."""
        return bool(key_ids(turn.lineage, turn.lineage.step_at(just_above(turn.at))))

    def shadow(self, lineage_id: str, gold: str) -> bool:
        """Fold one table into another Delta table, `gold`; False where it does not live at the
        window's end.
        """
        lineage = next((one for one in self.history.lineages if one.id == lineage_id), None)
        turn = None if lineage is None else self._turn(lineage)
        if turn is None:
            return False
        with many_rows(self.spark):
            self._table(
                replace(turn, gold=gold, known=None, whole=True, retired=False),
                Fresh(self.silver, small=True),
                lambda _: None,
            )
        return True

    def _turn(self, lineage: Lineage) -> "Turn | None":
        """What there is to decide of a lineage before anything is written; None where gold has
        nothing of it.
        """
        if lineage.start > self.window.position or not self._selected(lineage):
            return None
        known = self.known.get(lineage.id)
        keep_waiting(lineage, known)
        at = (
            min(self.window.position, just_below(lineage.held.position))
            if lineage.held
            else self.window.position
        )
        retired = lineage.end is not None and lineage.end <= at
        if retired and known is None:
            return None
        options = options_of(lineage, self.feed.options)
        gold, wanted = self.allocate(known, lineage.name_at(at) or lineage.intervals[-1].name, options)
        gate = self.gates.of(lineage)
        shape = self.whole_shape(lineage, at, options, gate)
        whole = (
            known is None
            or known["shape"] != shape
            or self.refresh
            or lineage.id in self.again
            or (known["state"] == "retired" and not retired)
            or (
                at != tuple(known["since"])
                if known["state"] == "behind"
                else at < self.window.position_before
            )
        )
        return Turn(lineage, at, gold, wanted, shape, known, retired, whole, options, gate)

    def _window(self) -> Column:
        """What came since the last run: late changes, and those above the last watermark."""
        w = self.window
        return ((F.col("batch") > w.batch_before) & between(None, w.position_before)) | between(
            w.position_before, w.position
        )

    def _fresh(self, ones: "Sequence[Turn | Group]") -> Fresh:
        """The window's changes: on the driver where they are few, else as a frame."""
        frame = self.silver.where(self._window())
        if all(one.whole or one.retired for one in ones):
            return Fresh(frame, small=True)
        with self._reading():
            return look(frame, self.history, self.window.position_before)

    def _selected(self, lineage: Lineage) -> bool:
        if self.feed.tables is None:
            return True
        return any(
            options_for(interval.name, self.feed.options) is not None for interval in lineage.intervals
        )

    def _table(
        self, turn: "Turn", fresh: Fresh, progress: Progress, read: Read = NOTHING
    ) -> dict[str, Any] | None:
        """Bring one table to its place; `read` holds the changes that it needs, where they were read together
        with others'.
        """
        if turn.retired:
            return self._retired(turn)
        table = self.table(turn.lineage, turn.at, turn.gold, turn.options)
        table.gate = turn.gate
        schema = turn.lineage.steps[table.step].schema
        wrong = misfit(self.spark, turn.options, schema, table.columns, table.ids)
        if wrong is not None:
            return self._misfit(turn, wrong)
        turn.lineage.notes += [
            f"columns.{name}: the table has no such column" for name in unknown_columns(turn.options, schema)
        ]
        with keeping():
            written = self._write(turn, table, fresh, read)
        if written.unknown:
            turn.lineage.held = waiting(min(written.unknown.values()), tuple(sorted(written.unknown)))
            at = just_below(turn.lineage.held.position)
            shape = self.whole_shape(turn.lineage, at, turn.options, turn.gate)
            return self._table(
                replace(turn, at=at, shape=shape, whole=True),
                fresh,
                progress,
                read if turn.whole else NOTHING,
            )
        self.applied += written.applied
        lacking = _lacking(turn, table)
        turn.lineage.incomplete += [((*since,), text) for text, since in lacking.items()]
        entry = {**self._entry(turn, written.version), "lacking": lacking}
        if written.what:
            progress(f"gold    {entry['database']}.{entry['table']}: {written.what}")
        return entry

    def table(self, lineage: Lineage, at: Position, gold: str, options: GoldOptions) -> GoldTable:
        return GoldTable(
            self.spark,
            self.lake,
            lineage,
            at,
            gold,
            self.silver,
            self._size(lineage),
            self.feed.upstream,
            self.feed.policies,
            virtual=self.feed.virtual,
            options=options,
            clock=self.feed.clock,
        )

    def _size(self, lineage: Lineage) -> Size:
        return Size(
            *(
                sum(self.sizes.get(i.name, {}).get(what, 0) for i in lineage.intervals)
                for what in ("n", "bytes")
            )
        )

    def shape(self, lineage: Lineage, at: Position) -> str:
        restores = [record["restored_to"] for record in self.log.all("epoch")]
        return shape_of(lineage, at, [*restores, *aborted(self.done.get("transactions"))])

    def whole_shape(self, lineage: Lineage, at: Position, options: GoldOptions, gate: Gate | None) -> str:
        """Everything that a table is folded under: schema history, its YAML and its suite."""
        return self.shape(lineage, at) + options.digest() + (gate.judge.mark if gate else "")

    def _write(self, turn: "Turn", table: GoldTable, fresh: Fresh, read: Read) -> Written:
        if turn.whole or turn.known is None:
            table.read = read.get(turn.lineage.id)
            take_back(self.spark, self.lake, turn.gold, turn.known, turn.options)
            return table.refold(
                exists=turn.known is not None or self.lake.exists(self.spark, "gold", turn.gold)
            )
        version = turn.known["version"]
        if turn.gate is not None:
            return self._write_judged(turn.gate, table, fresh, version)
        if fresh.small:
            changes = [
                change for change, _ in fresh.changes.get(turn.lineage.id, []) if change.position <= turn.at
            ]
            return (
                table.apply(changes, self.window.position_before, version)
                if changes
                else Written(version, "", {})
            )
        if turn.lineage.id in read:
            changes = list(changes_in(read[turn.lineage.id], turn.lineage, turn.at))
            return (
                table.apply(changes, self.window.position_before, version)
                if changes
                else Written(version, "", {})
            )
        seen = fresh.of(turn.lineage)
        rows = fresh.frame.where(of_lineage(turn.lineage)).count() if seen.size.rows else 0
        if not rows:
            return Written(version, "", {})
        late = (
            fresh.frame.where(of_lineage(turn.lineage) & between(None, self.window.position_before))
            if seen.late
            else None
        )
        late = late is not None and bool(late.limit(1).count())
        return table.apply_large(
            fresh.frame.where(between(None, turn.at)), late, rows, self.window.position_before, version
        )

    def _misfit(self, turn: "Turn", wrong: str) -> dict[str, Any] | None:
        """A table that its YAML does not fit stays as it was, behind; one that is new waits for a YAML that
        fits.
        """
        if turn.known is None:
            self.problems.append(f"{'.'.join(turn.lineage.intervals[-1].name)}: {wrong}")
            return None
        since = turn.known["since"] if turn.known["state"] == "behind" else list(self.window.position_before)
        # no shape: whatever its YAML becomes, the table is folded anew
        return {
            **turn.known,
            "shape": "",
            "state": "behind",
            "since": since,
            "why": f"held by its YAML: {wrong}",
        }

    def _write_judged(self, gate: Gate, table: GoldTable, fresh: Fresh, version: int) -> Written:
        """The same for a table with a suite: its changes are judged first."""
        window, before = self._window() & between(None, table.at), self.window.position_before
        if fresh.small:
            changes = gate.changes(table.everything, window) if fresh.changes.get(table.lineage.id) else []
            return table.apply(changes, before, version) if changes else Written(version, "", {})
        mine = table.everything.where(window)
        rows = mine.count()
        if not rows:
            return Written(version, "", {})
        late = bool(mine.where(between(None, before)).limit(1).count())
        if not table.ids or late:
            return table.refold(exists=True)
        return table.apply_large(gate.frame(table.everything, window), late, rows, before, version)

    def _retired(self, turn: "Turn") -> dict[str, Any]:
        """A dropped table keeps its Delta data as it was."""
        assert turn.known is not None and turn.lineage.end is not None
        database, table = turn.lineage.intervals[-1].name
        return {
            **turn.known,
            "database": database,
            "table": table,
            "state": "retired",
            "since": list(turn.lineage.end),
        }

    def _entry(self, turn: "Turn", version: int) -> dict[str, Any]:
        database, table = turn.lineage.name_at(turn.at) or turn.lineage.intervals[-1].name
        state, since, why = self.state(turn.lineage, turn.at)
        return {
            "lineage": turn.lineage.id,
            "database": database,
            "table": table,
            "gold": turn.gold,
            "version": version,
            "wanted": turn.wanted,
            "shape": turn.shape,
            "state": state,
            "since": since,
            "why": why,
            "notes": turn.lineage.notes + self._left_out(turn) + renamed(turn.gold, turn.wanted),
            "held": held_of(turn.lineage, self.window.position, turn.known),
            "names": [list(interval.name) for interval in turn.lineage.intervals],
            "options": to_plain(turn.options),
            **({"stopped": turn.gate.judge.stopped} if turn.gate and turn.gate.judge.stopped else {}),
        }

    def _left_out(self, turn: "Turn") -> list[str]:
        """VIRTUAL columns, where no message carries them."""
        columns = turn.lineage.schema_at(just_above(turn.at)).columns
        names = [column.name for column in columns if column.generated == "virtual" and not self.feed.virtual]
        return [f"VIRTUAL columns are in no message and left out: {', '.join(names)}"] if names else []

    def state(self, lineage: Lineage, at: Position) -> tuple[str, list[int] | None, str | None]:
        if lineage.held is not None and lineage.held.position <= self.window.position:
            return (
                "behind",
                list(at),
                lineage.held.why
                if lineage.held.by in ("rows", "quality")
                else f"held by a DDL: {lineage.held.why}",
            )
        begun = max(lineage.start, lineage.cleared_at(at))[0]
        for record in self.log.all("epoch"):
            if (
                record["restored_to"] is None
                and not record.get("goes_on")
                and begun < record["epoch"] <= at[0]
            ):
                return (
                    "incomplete",
                    [record["epoch"], 0, 0, 0, 0, 0],
                    f"epoch {record['epoch']} was raised without a snapshot: {record['why']}",
                )
        missing = lineage.incomplete_at(at)
        if missing is not None:
            return "incomplete", list(missing[0]), missing[1]
        for name in (None, *{interval.name for interval in lineage.intervals}):
            if name in self.dead:
                why = f"{self.dead[name]} dead letters" + ("" if name else " of unknown tables in the source")
                return "incomplete", self._since(lineage), why
        if self.lost:
            return "incomplete", self._since(lineage), self.lost[0]
        return "exact", None, None

    def _since(self, lineage: Lineage) -> list[int]:
        """From where on what is missing may lie: where the table was found incomplete, else behind what was
        published last.
        """
        known = self.known.get(lineage.id)
        return (
            known["since"] if known and known["state"] == "incomplete" else list(self.window.position_before)
        )

    def allocate(self, known: dict[str, Any] | None, name: Name, options: GoldOptions) -> tuple[str, str]:
        """A table's gold name, and the one it would have if that were free: names may differ only in case, or
        in characters that are replaced.
        """
        if known is not None:
            return known["gold"], known.get("wanted", known["gold"])
        wanted = plain_name(name, options.target)
        return free_of(self.taken, chain([wanted], (f"{wanted}_{number}" for number in count(2)))), wanted

    def _claim(self, ones: "Sequence[Turn | Group]") -> None:
        """Make sure of the new tables' names, which other sources of the lake may have. A table that may have
        no other is left out.
        """
        new = [one for one in ones if one.known is None]
        names = claim(
            self.spark,
            self.lake,
            self.feed.name,
            [(one.gold, bool(one.options.target)) for one in new],
            self.taken,
        )
        for one, name in zip(new, names, strict=True):
            if name is None:
                self.problems.append(
                    f"gold.target: {one.gold} is another source's table, or none of lakehouse's; choose "
                    "another name"
                )
            one.gold = name or ""
