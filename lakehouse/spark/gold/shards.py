"""Writes a gold table that several lineages make up (lakehouse/gold/shards.py): in one commit, up to one
position.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from lakehouse.gold.own_columns import CURRENT, DELETED, SHARD
from lakehouse.gold.shards import aligned, shards_id
from lakehouse.lineage import Held
from lakehouse.spark.change_log.changes import between, of_any
from lakehouse.spark.change_log.undeclared_columns import waiting
from lakehouse.spark.gold import merge
from lakehouse.spark.gold.entries import kept_entry, misfit_entry, shards_entry, without_shards
from lakehouse.spark.gold.layout import misfit, remove_properties
from lakehouse.spark.gold.new_changes import NOTHING_READ, NewChanges, Read
from lakehouse.spark.gold.plan import GoldRun, ShardsPlan, shards_plan
from lakehouse.spark.gold.results import NOTHING_FOUND, Found, Outcome, TableResult, Written
from lakehouse.spark.gold.table import GoldTable, open_table, whole_table
from lakehouse.spark.gold.window import outcome_of, write_outcomes
from lakehouse.spark.lake import quote
from lakehouse.spark.session import keeping
from lakehouse.spark.table_versions import is_there


def apply_shards(run: GoldRun, plan: ShardsPlan, new: NewChanges, read: Read) -> TableResult:
    """Bring the table to the window's end. `read` holds the shards' changes where it is folded whole and they
    were read together with other tables'.
    """
    if plan.retired:
        return TableResult(without_shards(run, plan))
    if (kept := kept_entry(run, plan)) is not None:
        return TableResult(kept)
    tables, notes = open_shards(run, plan, read)
    for table in tables:
        wrong = misfit(run.spark, plan.options, table.schema, table.columns, ids=table.ids)
        if wrong is not None and plan.known is None:
            return TableResult(None, problems=(f"{plan.options.merged}: {wrong}",))
        if wrong is not None and plan.known is not None:
            return TableResult(misfit_entry(run, plan.known, wrong))
    with keeping():
        written = write_shards(run, plan, tables, new)
    if not isinstance(written, Written):
        again = held_for_rows(run, plan, written)
        if again is None:
            why = "rows have columns that no DDL has added, before any row that has none"
            return TableResult(None, problems=(f"{plan.options.merged}: {why}",))
        return apply_shards(run, again, new, read if plan.whole else NOTHING_READ)
    collided = (plan.known.collided or ()) if plan.known is not None else ()
    if written.what:
        collided = collisions(run, plan, tables[0], written.version)
    return TableResult(
        shards_entry(run, plan, written, notes, collided=collided), written.what, found=written.found
    )


def open_shards(run: GoldRun, plan: ShardsPlan, read: Read) -> tuple[list[GoldTable], list[str]]:
    """The shards as tables with the same columns, and notes on how they differ."""
    opened = [open_table(run, lineage, plan.at, plan.gold, options=plan.options) for lineage in plan.lineages]
    columns, notes = aligned({shard(table): table.columns for table in opened})
    aligned_tables = [table.with_columns(columns[shard(table)]) for table in opened]
    return [replace(table, read=read.get(table.lineage.id)) for table in aligned_tables], notes


def shard(table: GoldTable) -> str:
    """The name that tells a shard's rows from the others'."""
    return str(table.mode.tag[SHARD])


def held_for_rows(run: GoldRun, plan: ShardsPlan, waits: Mapping[str, Held]) -> ShardsPlan | None:
    """The plan of a table that is held before the first row, of any shard, with a column that no DDL has
    declared; None where nothing of it is there before.
    """
    again = shards_plan(run, shards_id(plan.options), waits)
    return None if again is None else replace(again, gold=plan.gold, wanted=plan.wanted, whole=True)


def waits_of(found: Iterable[tuple[GoldTable, Found]]) -> dict[str, Held]:
    """What holds the shards that have rows with columns that no DDL has declared."""
    return {
        table.lineage.id: waiting(min(mine.unknown.values()), tuple(sorted(mine.unknown)))
        for table, mine in found
        if mine.unknown
    }


def write_shards(
    run: GoldRun, plan: ShardsPlan, tables: list[GoldTable], new: NewChanges
) -> Written | dict[str, Held]:
    """Merge what is new of each shard, or fold all of them again; or nothing, and what holds shards."""
    keys = {tuple(column.name for column in table.keys) for table in tables}
    if plan.whole or plan.known is None or len(keys) > 1:
        return refold_shards(run, plan, tables)
    version = plan.known.version
    if not new.small:
        return refold_shards(run, plan, tables) if _any_new(plan, tables, new) else Written(version)
    outcomes, taken = [], 0
    for table in tables:
        changes = [change for change in new.changes.get(table.lineage.id, ()) if change.position <= plan.at]
        before = run.window.position_before
        outcome = outcome_of(table, changes, before, version) if changes else Outcome([], [])
        if outcome is None:
            return refold_shards(run, plan, tables)
        outcomes.append((table, outcome))
        taken += len(changes)
    if waits := waits_of((table, outcome.found) for table, outcome in outcomes):
        return waits
    return _write_all(run, outcomes, version)._replace(taken=taken)


def _any_new(plan: ShardsPlan, tables: list[GoldTable], new: NewChanges) -> bool:
    """Whether a large window has a change of any shard."""
    if not any(new.of(table.lineage).size.rows for table in tables):
        return False
    mine = of_any(table.lineage for table in tables)
    return bool(new.frame.where(mine & between(None, plan.at)).limit(1).count())


def _write_all(run: GoldRun, outcomes: list[tuple[GoldTable, Outcome]], version: int) -> Written:
    found = functools.reduce(lambda one, other: one.plus(other[1].found), outcomes, NOTHING_FOUND)
    puts = sum(len(outcome.puts) for _, outcome in outcomes)
    deletes = sum(len(outcome.deletes) for _, outcome in outcomes)
    if not (puts or deletes):
        return Written(version, "", found)
    put = write_outcomes(outcomes, run.window.position_before)
    found = found.plus(Found(problems=put.lacking(puts)))
    return Written(
        put.version, f"merged {puts} rows, removed {deletes}", found._replace(applied=puts + deletes)
    )


def refold_shards(run: GoldRun, plan: ShardsPlan, tables: list[GoldTable]) -> Written | dict[str, Held]:
    """Fold all shards from silver, and replace the table in one commit; or nothing, as `write_shards`."""
    wholes = [whole_table(table) for table in tables]
    if waits := waits_of((table, whole.found) for table, whole in zip(tables, wholes, strict=True)):
        return waits
    # as a table of one lineage (tables.py)
    known = plan.known is not None and plan.known.lineage not in run.rebuild
    exists = is_there(run.spark, run.lake, plan.gold, published=known)
    if exists:
        remove_properties(run.spark, run.lake, plan.gold, plan.known, options=plan.options)
    frame = functools.reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [whole.frame(table) for table, whole in zip(tables, wholes, strict=True)],
    )
    found = functools.reduce(lambda one, other: one.plus(other.found), wholes, NOTHING_FOUND)
    put = merge.replace_frame(run.spark, run.lake, plan.gold, frame, create=not exists, options=plan.options)
    found = found.plus(Found(problems=put.lacking(sum(whole.number for whole in wholes))))
    done = "folded again" if exists else "created"
    what = f"{done} from {len(tables)} shards, {found.applied} changes"
    taken = [whole.taken for whole in wholes]
    counted = None if None in taken else sum(one or 0 for one in taken)
    return Written(put.version, what, found, whole=True, taken=counted)


def collisions(run: GoldRun, plan: ShardsPlan, table: GoldTable, version: int) -> tuple[str, ...]:
    """How many keys more than one shard has; of a history the current versions count. A log has none."""
    ids = set(table.ids)
    names = [column.name for column in table.columns if column.column.id in ids]
    if plan.options.mode == "append" or not names:
        return ()
    own = {column.column.id: F.col(quote(column.name)) for column in table.columns if column.column.id < 0}
    rows = run.lake.read(run.spark, "gold", plan.gold, version)
    if CURRENT in own:
        rows = rows.where(own[CURRENT])
    elif DELETED in own:
        rows = rows.where(~own[DELETED])
    several = (
        rows.groupBy(*[F.col(quote(name)) for name in names])
        .agg(F.count_distinct(own[SHARD]).alias("shards"))
        .where("shards > 1")
    )
    found = several.count()
    return (f"{found} keys are in more than one shard: _shard tells their rows apart",) if found else ()
