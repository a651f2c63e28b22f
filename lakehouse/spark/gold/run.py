"""Silver to gold: fold the log up to the watermark into each table, then publish a manifest.

A run takes B, the last done silver batch, and W, the source's watermark (or all that has arrived, under
`eventual`). Per lineage it applies the changes of batches ≤ B in (W_prev, W], and repairs what is late or
overtaken: late rows are folded again from silver, a table whose schema history changed at or below W_prev is
folded whole. The manifest is the last write; a crash before it only repeats merges that give the same rows.

    open_run ─▶ plan_tables (plan.py) ─▶ apply_tables (tables.py) ─▶ manifest_of ─▶ Manifest
"""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from msgspec import UNSET
from pyspark.sql import DataFrame

from lakehouse.events import MIN_POSITION, Position
from lakehouse.gold.shards import misspelled
from lakehouse.gold.table_names import names_held
from lakehouse.lineage import History, Lineage, Name, shape_of
from lakehouse.ops.progress import Disproved, Partition, TopicEnd
from lakehouse.ops.records.gold import Intent, Manifest, TableEntry
from lakehouse.ops.records.operators import Epoch, Rebuild
from lakehouse.ops.records.silver import Done
from lakehouse.silver.disproved_watermarks import disproved_text
from lakehouse.silver.transaction_watermark import aborted
from lakehouse.sources.kafka_offsets import loss_text
from lakehouse.spark.change_log.change_counts import NO_COUNTS, ChangeCounts, change_counts
from lakehouse.spark.change_log.changes import all_count, counted_changes
from lakehouse.spark.change_log.dead_letters import missing_files, open_counts, open_losses, server_changes
from lakehouse.spark.change_log.late_changes import disproved
from lakehouse.spark.change_log.reconcile import Reconciled, is_counted, reconciled
from lakehouse.spark.change_log.schema_history import load_history, record_ids
from lakehouse.spark.change_log.undeclared_columns import infer_columns
from lakehouse.spark.change_log.watermark import came_back, done_at, find_ends, left_open, stopped_watermark
from lakehouse.spark.fold.silver_files import SilverFiles
from lakehouse.spark.gold.new_changes import NewChanges
from lakehouse.spark.gold.plan import GoldRun, Progress, plan_table, shards_plan
from lakehouse.spark.gold.results import NOTHING_FOUND, Size, TableResult, Window
from lakehouse.spark.gold.settings import GoldSettings, asked_of, find_watermark, is_selected, under_of
from lakehouse.spark.gold.shards import apply_shards
from lakehouse.spark.gold.tables import apply_table, apply_tables
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import below_floors, left_lacking
from lakehouse.spark.quality.gates import Gates, Stop, open_gates
from lakehouse.spark.session import arrow_batches, many_rows
from lakehouse.spark.silver.tables import refuse_other_reading

# seconds between two tries of a table that fails, where runs come one after another
RETRY = 60


def run_gold(
    settings: GoldSettings,
    log: OpsLog,
    progress: Progress,
    again: frozenset[str] = frozenset(),
    *,
    unread: bool = False,
    patient: bool = False,
) -> Manifest | None:
    """Publish one manifest, or None where nothing is new. Lineages in `again` are folded again whatever is
    known of them. `unread`: records have landed that silver has not taken, which is something new. `patient`:
    the next run comes at once, so that a table that has failed waits for RETRY seconds. LakehouseError where
    silver was decoded under other options than the present ones.
    """
    refuse_other_reading(log, settings.read_as)
    with log.gathering():
        # an append may bring the records of a batch that is done meanwhile, whose changes this run leaves out
        infer_columns(log, settings.drift_timeout)
        done = log.last(Done)
        if done is None:
            return None
        if patient and not again and not unread and waits_for_retry(log, settings, done):
            return None
        manifest = publish_next(settings, log, done, progress=progress, again=again, unread=unread)
        if manifest is None or settings.drift_timeout != 0 or not _waits_for_columns(manifest):
            return manifest
        return run_gold(settings, log, progress) or manifest


def waits_for_retry(log: OpsLog, settings: GoldSettings, done: Done) -> bool:
    """Whether nothing is new but a table that has failed, a short while ago."""
    dated = next(((one.at, one.record) for one in reversed(log.records) if one.kind == Manifest.kind), None)
    if dated is None or not isinstance(last := dated[1], Manifest) or last.asked is not None:
        return False
    is_new = not is_published(settings, log, done, asked=None, last=last)
    return not is_new and time.time() * 1000 - dated[0] < RETRY * 1000


def _waits_for_columns(manifest: Manifest) -> bool:
    return any(entry.held is not None and entry.held.by == "rows" for entry in manifest.tables)


def publish_next(
    settings: GoldSettings,
    log: OpsLog,
    done: Done,
    *,
    progress: Progress,
    again: frozenset[str],
    unread: bool,
) -> Manifest | None:
    """Bring gold to the watermark of silver's batches up to `done`, and publish it; None where nothing is
    new.
    """
    last = log.last(Manifest)
    asked = asked_of(settings, log)
    # what a run has written that died is taken back though nothing is asked any more of what it was to do
    is_news = again or unread or unpublished(log)
    if not is_news and is_published(settings, log, done, asked=asked, last=last):
        return None
    tell_other_rules(settings, log, progress)
    ready = prepared(settings, log, done, progress=progress, again=again)
    results = apply_tables(ready.run, log, progress)
    # a table that failed is tried again by the next run, whether or not there is something new
    failed = any(result.error for result in results)
    manifest = manifest_of(log, ready, results, asked=None if failed else asked)
    log.add_along(manifest)
    return manifest


class Prepared(NamedTuple):
    """A run that knows all that it needs before it writes: the partition that holds the watermark back, where
    topics without tables have ended, how many requests to rebuild there are, and what the layers have and
    lack.
    """

    run: GoldRun
    held_by: Partition | None
    ended: Mapping[str, Position]
    rebuilds: int
    layers: Reconciled


def prepared(
    settings: GoldSettings, log: OpsLog, done: Done, *, progress: Progress, again: frozenset[str]
) -> Prepared:
    """The run over silver's batches up to `done`. Lineages get their ids here."""
    last = log.last(Manifest)
    for topic, number in came_back(log, done, last):
        progress(f"warning: {topic}/{number} was retired, and counts again: something has arrived in it")
    requests = log.all(Rebuild)
    new = requests[last.rebuilds if last is not None else 0 :]
    returned = frozenset(request.lineage for request in new if request.published)
    rebuild = again | {request.lineage for request in new if not request.published}
    history = load_history(log, done, settings.said, keep=True)
    ends = find_ends(log, done, history, settled=settings.settled)
    position, holder = find_watermark(settings, log, done, ends)
    window = window_of(settings, log, done.batch, position, last=last)
    promising = last if settings.consistency != "eventual" else None
    goes_on = window.position_before > MIN_POSITION
    late = disproved(log, promising, window.position, progress, goes_on=goes_on)
    begun = (one for one in history.lineages if one.start <= window.position)
    record_ids(log, (one for one in begun if is_selected(settings, one)))
    layers = reconciled(log, last, done)
    if promising is not None:
        left = left_open(log, done, window.position, ends)
        layers = layers._replace(losses=(*layers.losses, *left))
    run = open_run(
        log,
        settings,
        history,
        window,
        last=last,
        rebuild=rebuild,
        returned=returned,
        stops=True,
        disproved=late,
        losses=layers.losses,
    )
    return Prepared(run, holder, ended=ends, rebuilds=len(requests), layers=layers)


def is_published(
    settings: GoldSettings, log: OpsLog, done: Done, asked: str | None, last: Manifest | None
) -> bool:
    """Whether the last manifest says all that a new one would say."""
    if last is None or last.asked != asked:
        return False
    position, _ = find_watermark(settings, log, done)
    window = window_of(settings, log, done.batch, position, last=last)
    return (window.batch, window.position) == (window.batch_before, window.position_before)


def manifest_of(
    log: OpsLog, ready: Prepared, results: Sequence[TableResult], *, asked: str | None
) -> Manifest:
    """The manifest of what the run has written. Raises the tables' error where all of them failed: it is no
    fault of a table.
    """
    errors = [result.error for result in results if result.error is not None]
    if errors and len(errors) == len(results):
        raise errors[0]
    run, layers = ready.run, ready.layers
    late, tables = tuple(run.disproved.values()), finished(run, results)
    is_resolved = run.settings.consistency != "eventual"
    left = left_lacking(run.floors, run.history.lineages, run.entries.values(), tables)
    return Manifest(
        batch=run.window.batch,
        watermark=run.window.position,
        held_by=ready.held_by,
        consistency=run.settings.consistency,
        auto=run.settings.tables is None,
        tables=tables,
        applied=sum(result.found.applied for result in results),
        asked=asked,
        generation=log.generation,
        rebuilds=ready.rebuilds,
        problems=(
            *(text for _, text in run.history.problems),
            *misspelled(run.settings.options, names_of(run.history)),
            *server_changes(log, run.window.position[0]),
            *(stopped_watermark(log) if is_resolved and run.settings.settled else ()),
            *layers.losses,
            *(f"{'.'.join(one.name)}: {disproved_text(one)}" for one in late),
            *(problem for result in results for problem in result.problems),
        ),
        ended=tuple(TopicEnd(*one) for one in sorted(ready.ended.items())) or UNSET,
        disproved=late or UNSET,
        silver_rows=layers.silver_rows,
        bronze=layers.bronze,
        dismissals=layers.dismissals,
        lacking=left or UNSET,
    )


def names_of(history: History) -> Iterator[Name]:
    """The names that the source's tables have, or had."""
    return (interval.name for lineage in history.lineages for interval in lineage.intervals)


def window_of(
    settings: GoldSettings, log: OpsLog, batch: int, position: Position, last: Manifest | None
) -> Window:
    """What a run looks at: from the last manifest on, or all where it was made under another consistency, or
    of another generation of silver. The watermark never goes back.
    """
    if last is None or not is_of_same_kind(log, settings, last):
        return Window(batch, max(position, MIN_POSITION), 0, MIN_POSITION)
    return Window(batch, max(position, last.watermark), last.batch, last.watermark)


def is_of_same_kind(log: OpsLog, settings: GoldSettings, last: Manifest) -> bool:
    """Whether a manifest was made under the same consistency, and of the same generation of silver."""
    return last.consistency == settings.consistency and last.generation == log.generation


def open_run(
    log: OpsLog,
    settings: GoldSettings,
    history: History,
    window: Window,
    last: Manifest | None,
    *,
    rebuild: frozenset[str] = frozenset(),
    returned: frozenset[str] = frozenset(),
    stops: bool,
    disproved: tuple[Disproved, ...] = (),
    losses: tuple[str, ...] = (),
) -> GoldRun:
    """All that a run knows before it decides; with `stops` it looks where expectations stop tables. `losses`:
    what the whole source is known to lack, in words, besides what the log says.
    """
    done, epochs = log.last(Done), tuple(log.all(Epoch))
    silver, gates = counted_changes(log, window.batch), gates_of(log, settings, history, window)
    return GoldRun(
        spark=log.spark,
        lake=log.lake,
        settings=settings,
        history=history,
        window=window,
        silver=silver,
        files=_silver_files(log, window),
        sizes={table.name: Size(table.n, table.bytes) for table in (done.tables if done else ())},
        entries={entry.lineage: entry for entry in (last.tables if last is not None else ())},
        refresh=last is not None and not is_of_same_kind(log, settings, last),
        rebuild=rebuild,
        returned=returned,
        epochs=epochs,
        void=void_of(log),
        dead=open_counts(log),
        losses=(*losses, *server_changes(log, window.position[0]), *map(loss_text, open_losses(log))),
        disproved={one.name: one for one in disproved},
        missing=tuple(missing_files(log)),
        floors=below_floors(log, last),
        gates=gates,
        stops=stops_of(log, gates, silver, window) if stops else {},
        unpublished=unpublished(log),
        counts=counts_of(log, window, last, silver) if stops else NO_COUNTS,
    )


def _silver_files(log: OpsLog, window: Window) -> SilverFiles | None:
    """Where silver's changes lie; None where Spark alone can read them, or has to leave some out."""
    folder = log.lake.folder(log.spark, "silver", f"{log.source}_changes")
    return None if folder is None or not all_count(log) else SilverFiles(folder, window.batch)


def void_of(log: OpsLog) -> tuple[int | Position | None, ...]:
    """Restores of the upstream, and snapshots that were broken off."""
    done = log.last(Done)
    return (*(one.restored_to for one in log.all(Epoch)), *aborted(done.transactions if done else None))


def stops_of(log: OpsLog, gates: Gates, silver: DataFrame, window: Window) -> dict[str, Stop]:
    """Where checks stop tables in the window behind the last manifest."""
    last, void = log.last(Manifest), list(void_of(log))

    def is_alike(lineage: Lineage, entry: TableEntry) -> bool:
        """Whether the schema history is that under which the manifest has the table."""
        return last is not None and entry.shape.startswith(shape_of(lineage, last.position_of(entry), void))

    entries = {entry.lineage: entry for entry in (last.tables if last is not None else ())}
    return gates.stops(silver, entries, window.condition, tuple(log.all(Epoch)), is_alike=is_alike)


def counts_of(log: OpsLog, window: Window, last: Manifest | None, silver: DataFrame) -> ChangeCounts:
    """How many changes silver has, to compare with those that the last manifest counted, where it did."""
    goes_on = last is not None and is_counted(log, last)
    return change_counts(done_at(log, window.batch), silver, window.position, goes_on=goes_on)


def gates_of(log: OpsLog, settings: GoldSettings, history: History, window: Window) -> Gates:
    """The suites that judge the run's changes."""
    return open_gates(
        log,
        window.batch,
        history,
        settings.suites,
        upstream=settings.upstream,
        virtual=settings.virtual,
    )


def finished(run: GoldRun, results: Sequence[TableResult]) -> tuple[TableEntry, ...]:
    """The manifest's entries, after what expectations found is written: no table with rejected rows of its
    own claims to be exact.
    """
    found = functools.reduce(lambda one, other: one.plus(other.found), results, NOTHING_FOUND)
    run.gates.write(found.verdict, run.window.position)
    lineages = {lineage.id: lineage for lineage in run.history.lineages}
    entries = [result.entry for result in results if result.entry is not None]
    return tuple(
        run.gates.checked(entry, lineages[entry.lineage], run.silver, run.window.position)
        if entry.lineage in lineages
        else entry
        for entry in entries
    )


def unpublished(log: OpsLog) -> frozenset[str]:
    """The gold tables that runs have written to since the last manifest, all of which have died."""
    return frozenset(name for one in cut_short(log) for name in one.tables)


def cut_short(log: OpsLog) -> list[Intent]:
    """What runs since the last manifest were about to publish, all of which have died."""
    since = takewhile(lambda one: one.kind != Manifest.kind, reversed(log.records))
    return [one.record for one in since if isinstance(one.record, Intent)]


def tell_other_rules(settings: GoldSettings, log: OpsLog, progress: Progress) -> None:
    """Say that a run has died which wrote under others than the present options, rules and YAMLs. What it
    wrote is taken back, as that of each run that has died.
    """
    if any(one.under not in ("", under_of(settings)) for one in cut_short(log)):
        progress(
            f"warning: {log.source}: a run has died that wrote under other options, rules or YAMLs: its "
            "tables go back to what is published"
        )


def fold_shadow(run: GoldRun, lineage_id: str, gold: str) -> TableResult | None:
    """Fold one table, which may be merged of several, into another Delta table, `gold`; None where it does
    not live at the window's end. The result's entry says what a run would publish of it.
    """
    new = NewChanges(run.silver, small=True)
    shards = shards_plan(run, lineage_id)
    if shards is not None and shards.lineages:
        with many_rows(run.spark), arrow_batches(run.spark, run.arrow_rows):
            return apply_shards(run, replace(shards, gold=gold, known=None, whole=True), new, {})
    lineage = next((one for one in run.history.lineages if one.id == lineage_id), None)
    names = names_held(run.history.lineages, run.window.position, run.entries)
    plan = None if lineage is None else plan_table(run, lineage, names.waits.get(lineage_id))
    if plan is None:
        return None
    run.gates.fit(plan.lineage)
    plan = replace(plan, gold=gold, known=None, before=None, whole=True, retired=False)
    with many_rows(run.spark), arrow_batches(run.spark, run.arrow_rows):
        return apply_table(run, plan, new)
