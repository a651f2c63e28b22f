"""Brings the tables of a gold run to its watermark, several at once, each by its plan. A table that fails
does not stop the others.

    plan ─table_work─▶ written whole (table.py), merged (window.py), with other shards (shards.py)
         ─▶ TableResult
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

import msgspec
from msgspec import UNSET

from lakehouse.errors import LakehouseError
from lakehouse.events import Position, just_below
from lakehouse.fold.row_edits import Change
from lakehouse.gold.shards import options_of, said_of
from lakehouse.lineage import Lineage
from lakehouse.ops.records.gold import Intent
from lakehouse.reporting.steps import Steps
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between, changes_in, of_lineage
from lakehouse.spark.change_log.undeclared_columns import waiting
from lakehouse.spark.gold.entries import has_key, kept_entry, misfit_entry, retired_entry, table_entry
from lakehouse.spark.gold.layout import misfit, remove_properties, unknown_columns
from lakehouse.spark.gold.merge import replace_frame
from lakehouse.spark.gold.new_changes import (
    NOTHING_READ,
    NewChanges,
    Read,
    TableWork,
    read_window,
    start_all,
)
from lakehouse.spark.gold.plan import (
    GoldRun,
    Plan,
    Progress,
    ShardsPlan,
    TablePlan,
    plan_tables,
    whole_shape,
)
from lakehouse.spark.gold.results import TableResult, Written, total
from lakehouse.spark.gold.settings import under_of
from lakehouse.spark.gold.shards import apply_shards
from lakehouse.spark.gold.table import GoldTable, change_columns, open_table, refold
from lakehouse.spark.gold.window import merge_changes, merge_window
from lakehouse.spark.ops.gold_names import claim
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.gates import Gate
from lakehouse.spark.session import arrow_batches, keeping, many_rows
from lakehouse.spark.table_versions import is_another, is_there, read_published, returned_to, table_id

LOG = logging.getLogger(__name__)
THREADS = 3


def apply_tables(run: GoldRun, log: OpsLog, progress: Progress) -> list[TableResult]:
    """Bring every table to the window's end, a few at a time, after saying in the log which are written."""
    plans, problems = with_claimed_names(run, plan_tables(run))
    new = new_changes(run, plans)
    plans = [whole_without_key(run, plan, new) for plan in plans]
    written = tuple(sorted(plan.gold for plan in plans if is_written(run, plan, new)))
    if written:
        log.add(intent_of(run, written))
    steps = Steps(progress, len(written), "tables")
    works = [table_work(run, plan, new, steps) for plan in plans]
    small = all(run.size(lineage).small for lineage in _touched(plans, new))
    rows = nullcontext() if small else many_rows(run.spark)
    with rows, arrow_batches(run.spark, run.arrow_rows), ThreadPoolExecutor(THREADS) as pool:
        results = [started.result() for started in start_all(pool, works, partial(_reading, run))]
    return [*results, *(TableResult(None, problems=(problem,)) for problem in problems)]


def intent_of(run: GoldRun, written: tuple[str, ...]) -> Intent:
    """What the run is about to publish."""
    window, under = run.window, under_of(run.settings)
    return Intent(batch=window.batch, watermark=window.position, tables=written, under=under)


def is_written(run: GoldRun, plan: Plan, new: NewChanges) -> bool:
    """Whether the run may write to the plan's table."""
    if plan.retired:
        return False
    if (
        plan.whole
        or plan.gold in run.unpublished
        or (isinstance(plan, TablePlan) and (plan.change is not None or plan.lineage.id in run.returned))
    ):
        return True
    return any(new.any_of(one) for one in plan.lineages)


def from_published(run: GoldRun, plan: Plan, new: NewChanges) -> Plan:
    """The plan to go on from the version that the last manifest names: the table is brought back to it, or
    folded whole where it can't be, or is another Delta table, or what was rejected is not known.
    """
    if plan.known is None or plan.whole or not is_written(run, plan, new):
        return plan
    if plan.gate is not None and plan.gold in run.unpublished:
        # a run writes what it has rejected before its manifest: that of one that died may be another suite's
        return replace(plan, whole=True)
    there = is_there(run.spark, run.lake, plan.gold, published=True)
    if not there or is_another(run.spark, run.lake, plan.known):
        LOG.warning("%s was dropped, or another Delta table has its name: it is folded again", plan.gold)
        return replace(plan, whole=True)
    version = returned_to(run.spark, run.lake, plan.gold, plan.known.version)
    if version is None:
        return replace(plan, whole=True)
    return replace(plan, known=msgspec.structs.replace(plan.known, version=version))


def with_claimed_names(run: GoldRun, plans: Sequence[Plan]) -> tuple[list[Plan], list[str]]:
    """The plans with names claimed for new tables, since other sources of the lake may have them; and the
    problems of plans that are left out, because their YAML allows no other name.
    """
    new = [plan for plan in plans if plan.before is None]
    taken = {entry.gold.casefold() for entry in run.entries.values()} | {plan.gold.casefold() for plan in new}
    wanted = [(plan.gold, bool(plan.options.target) and not plan.retired) for plan in new]
    claimed = claim(run.spark, run.lake, run.settings.name, wanted, taken=taken)
    names = dict(zip(map(id, new), claimed, strict=True))
    kept = [replace(plan, gold=names.get(id(plan), plan.gold) or "") for plan in plans]
    problems = [
        f"gold.target: {plan.gold} is another source's table, or none of lakehouse's; choose another name"
        for plan, name in zip(new, claimed, strict=True)
        if name is None
    ]
    return [plan for plan in kept if plan.gold], problems


def new_changes(run: GoldRun, plans: Sequence[Plan]) -> NewChanges:
    """The window's changes: on the driver where they are few, else as a frame."""
    frame = run.silver.where(run.window.condition)
    if all(plan.whole or plan.retired for plan in plans):
        return NewChanges(frame, small=True)
    with _reading(run):
        return read_window(frame, run.history, run.window.position_before)


def whole_without_key(run: GoldRun, plan: Plan, new: NewChanges) -> Plan:
    """A table without a key is folded whole as soon as it has new changes, but for a large one that shows its
    live rows alone, or a log of them, and lacks nothing (window.py).
    """
    if isinstance(plan, ShardsPlan) or plan.retired or plan.gate is not None or has_key(plan):
        return plan
    known, small = plan.known, run.size(plan.lineage).small
    goes_on = plan.options.plain or plan.options.mode == "append"
    if goes_on and not small and known and known.counted is True and not known.lacking:
        return plan
    return replace(plan, whole=plan.whole or new.any_of(plan.lineage))


def table_work(run: GoldRun, plan: Plan, new: NewChanges, steps: Steps) -> TableWork:
    """The work on a table, and whether its changes are read in one query with other small tables' or in its
    own.
    """
    sizes = [run.size(lineage) if plan.whole else new.of(lineage).size for lineage in plan.lineages]
    alone = plan.retired or plan.gate is not None
    if not plan.whole:
        alone = alone or new.small or isinstance(plan, ShardsPlan)
    together = not alone and all(size.small for size in sizes)
    together = together and (plan.whole or any(size.rows for size in sizes))
    frame = (run.silver if plan.whole else new.frame) if together else None

    def work(read: Read) -> TableResult:
        try:
            result = applied(run, plan, new, read)
        except Exception as error:  # whatever it is, the other tables go on
            LOG.debug("%s failed", plan.gold, exc_info=error)
            result = failed_result(run, plan, error)
            with suppress(Exception):  # what failed may be the table itself
                result = put_back(run, result)
            steps.done(f"gold    {plan.gold}: {result.what}")
            return result
        if result.what and result.entry is not None:
            steps.done(f"gold    {plan.options.merged or result.entry.name}: {result.what}")
        return result

    return TableWork(plan.lineages, frame, total(sizes), work)


def applied(run: GoldRun, plan: Plan, new: NewChanges, read: Read, *, again: bool = True) -> TableResult:
    """Bring a plan's table to its position, `again` where somebody has put its files together meanwhile."""
    try:
        base = from_published(run, plan, new)
        # a table that is folded whole after all needs all of its changes, not what was read to merge
        read = read if base.whole == plan.whole else NOTHING_READ
        if isinstance(base, ShardsPlan):
            result = apply_shards(run, base, new, read)
        else:
            result = apply_table(run, base, new, read)
        # one that stays as it was published may have rows of a run that died
        stays = plan.gold in run.unpublished and not result.what
        return with_table_id(run, base, put_back(run, result) if stays else result)
    except Exception as error:
        # Delta's own error, which each kind of session shows in its way
        if not again or "DELTA_CONCURRENT" not in str(error):
            raise
        return applied(run, plan, new, read, again=False)


def put_back(run: GoldRun, result: TableResult) -> TableResult:
    """The result, after the Delta table has gone back to the rows that its entry names, where a run has
    written others that died, or failed half-way.
    """
    entry = result.entry
    there = entry is not None and run.lake.exists(run.spark, "gold", entry.gold)
    if entry is None or not there or is_another(run.spark, run.lake, entry):
        return result
    version = returned_to(run.spark, run.lake, entry.gold, entry.version)
    if version is None:
        return result
    return result._replace(entry=msgspec.structs.replace(entry, version=version))


def with_table_id(run: GoldRun, plan: Plan, result: TableResult) -> TableResult:
    """The result with the id of the Delta table in its entry, looked up where the whole table was written."""
    if result.entry is None:
        return result
    known = plan.before if plan.known is None else plan.known
    told = known.table_id if known is not None and known.gold == result.entry.gold else UNSET
    if result.what and (plan.whole or told is UNSET):
        told = table_id(run.spark, run.lake, result.entry.gold)
    return result._replace(entry=msgspec.structs.replace(result.entry, table_id=told))


def failed_result(run: GoldRun, plan: Plan, error: Exception) -> TableResult:
    """What is published of a table whose run failed: it stays as it was, behind, and is folded whole by the
    next run; a new one is not there yet. The text names the error, and no value that it may quote.
    """
    condition = getattr(error, "getCondition", None)
    said = str(error) if isinstance(error, LakehouseError) else condition() if callable(condition) else None
    named = f"{type(error).__name__}: {said}" if said else type(error).__name__
    why = f"its run failed: {named}; `lakehouse --debug` shows more"
    problems = (f"{plan.options.merged or '.'.join(plan.lineages[-1].intervals[-1].name)}: {why}",)
    stays = plan.known or plan.before
    if stays is None:
        return TableResult(None, why, problems, error=error)
    since = stays.since if stays.state == "behind" else run.window.position_before
    entry = msgspec.structs.replace(stays, shape="", state="behind", since=since, why=why)
    return TableResult(entry, why, problems, error=error)


def _reading(run: GoldRun) -> AbstractContextManager[None]:
    """The session's settings for a query over all of silver."""
    changes = sum(size.rows for size in run.sizes.values())
    return many_rows(run.spark) if changes > limits.GOLD_TABLE_CHANGES else nullcontext()


def _touched(plans: Sequence[Plan], new: NewChanges) -> list[Lineage]:
    """The lineages whose rows are all written, or that have changes in the window."""
    every = [(plan.whole or _rewrites(plan), lineage) for plan in plans for lineage in plan.lineages]
    return [lineage for whole, lineage in every if whole or new.any_of(lineage)]


def _rewrites(plan: Plan) -> bool:
    """Whether DDL has all rows of the table written anew."""
    return isinstance(plan, TablePlan) and plan.change is not None and plan.change.rewrites


def apply_table(run: GoldRun, plan: TablePlan, new: NewChanges, read: Read = NOTHING_READ) -> TableResult:
    """Bring one table to its position; `read` holds the changes that it needs, where they were read together
    with other tables'. Rows with columns that no DDL has declared hold it before the first of them.
    """
    if plan.retired and plan.before is not None:
        return TableResult(retired_entry(plan))
    if plan.retired:
        return put_aside(run, plan)
    if (kept := kept_entry(run, plan)) is not None:
        return TableResult(kept)
    table = open_table(run, plan.lineage, plan.at, plan.gold, options=plan.options, gate=plan.gate)
    if not table.schema.columns and plan.held is not None and plan.before is None:
        why = f"held before any column of it is known: {plan.held.why}"
        return TableResult(None, problems=(f"{'.'.join(plan.made_for)}: {why}",))
    wrong = run.gates.unfit.get(plan.lineage.id)
    wrong = wrong or misfit(run.spark, plan.options, table.schema, table.columns, ids=table.ids)
    stays = plan.known or plan.before
    if wrong is not None and stays is None:
        return TableResult(None, problems=(f"{'.'.join(plan.lineage.intervals[-1].name)}: {wrong}",))
    if wrong is not None and stays is not None:
        return TableResult(misfit_entry(run, stays, wrong))
    with keeping():
        written = write_table(run, plan, table, new, read=read)
    if written.found.unknown:
        return apply_table(run, held_for_rows(run, plan, written), new, read if plan.whole else NOTHING_READ)
    unknown = unknown_columns(said_of(plan.lineage, run.settings.options, plan.at), table.schema)
    notes = [f"columns.{name}: the table has no such column" for name in unknown]
    return TableResult(table_entry(run, plan, written, notes), written.what, found=written.found)


def put_aside(run: GoldRun, plan: TablePlan) -> TableResult:
    """Copy a dropped table as it was published: its Delta table goes on with another one's rows."""
    assert plan.known is not None
    rows = read_published(run.spark, run.lake, plan.known)
    create = not run.lake.exists(run.spark, "gold", plan.gold)
    version = replace_frame(run.spark, run.lake, plan.gold, rows, create=create).version
    entry = msgspec.structs.replace(retired_entry(plan), gold=plan.gold, wanted=plan.gold, version=version)
    return TableResult(entry, f"was dropped, a copy stays as {plan.gold}")


def held_for_rows(run: GoldRun, plan: TablePlan, written: Written) -> TablePlan:
    """The plan of a table that is held before the first row with a column that no DDL has declared."""
    unknown = written.found.unknown
    held = waiting(min(unknown.values()), tuple(sorted(unknown)))
    at = just_below(held.position)
    options = options_of(plan.lineage, run.settings.options, at)
    options = plan.options if options.merged else options
    shape = whole_shape(run, plan.lineage, at, options, gate=plan.gate)
    return replace(plan, held=held, at=at, shape=shape, whole=True, options=options)


def write_table(run: GoldRun, plan: TablePlan, table: GoldTable, new: NewChanges, read: Read) -> Written:
    """Write what is new of the table, or all of it."""
    if plan.whole or plan.known is None:
        # a table that is built again because somebody asked for it may have been dropped by hand
        known = plan.before is not None and plan.lineage.id not in run.rebuild
        exists = is_there(run.spark, run.lake, plan.gold, published=known)
        if exists:
            remove_properties(run.spark, run.lake, plan.gold, plan.before, options=plan.options)
        return refold(replace(table, read=read.get(plan.lineage.id)), exists=exists)
    version = plan.known.version
    if plan.change is None:
        return merge_new(run, plan, table, new, read=read, version=version)
    changed = change_columns(table, plan.change, version)
    if changed is None:
        return refold(table, exists=True)
    written = merge_new(run, plan, table, new, read=read, version=changed)
    return written._replace(what="; ".join(filter(None, (plan.change.words, written.what))))


def merge_new(
    run: GoldRun, plan: TablePlan, table: GoldTable, new: NewChanges, *, read: Read, version: int
) -> Written:
    """Merge the window's changes into the table as it is at `version`."""
    before = run.window.position_before
    if plan.gate is not None:
        return merge_judged(run, plan.gate, table, new, version=version)
    if new.small:
        changes = [change for change in new.changes.get(plan.lineage.id, ()) if change.position <= plan.at]
    elif plan.lineage.id in read:
        changes = list(changes_in(read[plan.lineage.id], plan.lineage, plan.at))
    else:
        return merge_large(run, plan, table, new, version=version)
    return merge_few(table, changes, before, version) if changes else Written(version)


def merge_few(table: GoldTable, changes: list[Change], before: Position, version: int) -> Written:
    """Merge a window's changes on the driver; the result counts them."""
    written = merge_changes(table, changes, before, version)
    return written if written.whole else written._replace(taken=len(changes))


def merge_large(run: GoldRun, plan: TablePlan, table: GoldTable, new: NewChanges, version: int) -> Written:
    """Merge the table's part of a window that is more than the driver holds."""
    seen, before = new.of(plan.lineage), run.window.position_before
    mine = new.frame.where(of_lineage(plan.lineage))
    rows = mine.count() if seen.size.rows else 0
    if not rows:
        return Written(version)
    late = bool(seen.late and mine.where(between(None, before)).limit(1).count())
    window = new.frame.where(between(None, plan.at))
    written = merge_window(table, window, before, version, late=late, rows=rows)
    if written.whole or plan.at == run.window.position:
        return written
    return written._replace(taken=None)


def merge_judged(run: GoldRun, gate: Gate, table: GoldTable, new: NewChanges, version: int) -> Written:
    """Merge what is new of a table with a suite: its changes are judged first."""
    window, before = run.window.condition & between(None, table.at), run.window.position_before
    if new.small:
        if not new.changes.get(table.lineage.id):
            return Written(version)
        changes, verdict = gate.changes(table.all_changes, window)
        written = merge_few(table, changes, before, version) if changes else Written(version)
    else:
        mine = table.all_changes.where(window)
        rows = mine.count()
        if not rows:
            return Written(version)
        if not table.ids or mine.where(between(None, before)).limit(1).count():
            return refold(table, exists=True)
        judged, verdict = gate.frame(table.all_changes, window)
        written = merge_window(table, judged, before, version, late=False, rows=rows)
    if written.whole:
        return written
    return written._replace(found=written.found._replace(verdict=written.found.verdict.plus(verdict)))
