"""Merges a window of changes into one gold table, on the driver or in Spark jobs."""

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.events import Position, just_above, just_below
from lakehouse.fold.continuity import NO_BREAKS, Breaks, Claim, begun_at
from lakehouse.fold.current_rows import Folded, breaks_among, finish, fold, settle
from lakehouse.fold.keyless import counted
from lakehouse.fold.row_edits import Change, Key, row_key
from lakehouse.fold.steps import last_cut
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import lacking_cells
from lakehouse.lineage import StepIndex
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between, few_changes, named_changes, of_lineage
from lakehouse.spark.fold.modes import commits, timed
from lakehouse.spark.fold.typed_rows import OP
from lakehouse.spark.gold import merge
from lakehouse.spark.gold.layout import named
from lakehouse.spark.gold.results import NOTHING_FOUND, Found, Outcome, Written
from lakehouse.spark.gold.table import (
    GoldTable,
    KeyChanges,
    findings_of,
    fold_changes,
    frame_of,
    key_changes,
    merged_here,
    refold,
)
from lakehouse.spark.quality.gates import NO_VERDICT


def merge_changes(table: GoldTable, changes: list[Change], before: Position, version: int) -> Written:
    """Merge what a window's changes make of gold's rows at `version`; `before` is the window's beginning."""
    outcome = outcome_of(table, changes, before, version)
    if outcome is None:
        return refold(table, exists=True)
    if outcome.found.unknown or not (outcome.puts or outcome.deletes):
        return Written(version, "", outcome.found)
    merged = write_outcomes([(table, outcome)], before)
    if not is_met(table, outcome, merged):
        return refold(table, exists=True)
    what = f"merged {len(outcome.puts)} rows, removed {len(outcome.deletes)}"
    found = outcome.found._replace(applied=len(changes))
    found = found.plus(Found(problems=merged.lacking(len(outcome.puts))))
    settled = not table.lineage.is_unsettled_at(before)
    if settled and is_met_otherwise(table, changes, outcome, merged.matched):
        found = found._replace(breaks=breaks_with_gold(table, changes, before, version=version))
    return Written(merged.version, what, found)


def is_met_otherwise(table: GoldTable, changes: list[Change], outcome: Outcome, matched: int | None) -> bool:
    """Whether a merge has met other rows than the window's changes say: fewer, where the table's beginning is
    known, or more, where inserts are of new rows alone. Gold's rows are to be the source's, and found by
    their keys.
    """
    continuity, first = table.run.settings.upstream.continuity, outcome.first
    if first is None or matched is None or table.gate or not (continuity.rows and table.reads_back):
        return False
    if not table.mode.advances or table.lineage.overruled:
        return False
    if matched < len(first):
        return begun_at(table.lineage, 0, table.step, whole=True) is not None
    return matched > len(first) and continuity.inserts and all(change.op != "snapshot" for change in changes)


def breaks_with_gold(table: GoldTable, changes: list[Change], before: Position, *, version: int) -> Breaks:
    """The window's changes that do not fit, held against gold's rows at the version before them."""
    touched, upstream = table.mode.touched(changes).keys, table.run.settings.upstream
    rows, exact, _ = _known_rows(table, version, touched or ())
    if not (touched and exact):
        return NO_BREAKS
    begun = begun_at(table.lineage, 0, table.step, whole=True) is not None
    known = {key: Claim(before, None, after=False) for key in touched} if begun else {}
    there = {key for row in rows if (key := row_key(row, table.ids)) is not None}
    known |= {key: Claim(before, None, after=True) for key in there}
    return breaks_among(
        table.lineage, changes, table.at, upstream, keys=set(touched), whole=False, known=known
    )


def _known_rows(table: GoldTable, version: int, keys: Collection[Key]) -> merge.Known:
    """The table's rows of some keys at a version."""
    of, run, columns = table.mode, table.run, table.columns
    return merge.known_rows(run.spark, run.lake, table.gold, version, mode=of, columns=columns, keys=keys)


def write_outcomes(outcomes: Sequence[tuple[GoldTable, Outcome]], before: Position) -> merge.Merged:
    """Write the outcomes of a table's shards, or of the table itself, in one commit."""
    table = outcomes[0][0]
    run, mode = table.run, table.mode
    if len(outcomes) == 1 and (here := merged_here(table, outcomes[0][1])) is not None:
        return here
    frames = [
        frame_of(shard, outcome.puts, outcome.deletes, ops=mode.word != "append")
        for shard, outcome in outcomes
    ]
    frame = functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    frame = frame.coalesce(1)
    if mode.word == "append":
        version = merge.extend_log(
            run.spark, run.lake, table.gold, frame, columns=table.columns, options=table.options, above=before
        )
        return merge.Merged(version)
    if not (table.ids or outcomes[0][1].deletes):
        return merge.append_rows(run.spark, run.lake, table.gold, frame.drop(OP), options=table.options)
    return _merged(table, frame, table.size.rows)


def _merged(table: GoldTable, frame: DataFrame, rows: int, *, here: bool = False) -> merge.Merged:
    """MERGE a frame, which the driver may hold, into a table of about so many rows."""
    run = table.run
    return merge.merge_frame(
        run.spark,
        run.lake,
        table.gold,
        frame,
        keys=table.keys or table.columns,
        options=table.options,
        rows=rows,
        keyless=not table.ids,
        here=here,
    )


def outcome_of(table: GoldTable, changes: list[Change], before: Position, version: int) -> Outcome | None:
    """What a window's changes make of gold's rows: rows that came late or in part are folded again from
    silver first. None where nothing less than the whole table will do.
    """
    if not table.ids:
        return _counted_outcome(table, changes, before, version)
    mode, cut = table.mode, last_cut(table.lineage, table.step, table.run.settings.upstream)
    if any(change.position < cut for change in changes):
        return None
    late = min((change.position for change in changes if mode.is_late(change, before)), default=None)
    if not table.options.plain:
        return _advanced(table, changes, before, version=version, late=late is not None)
    folded = fold(table.lineage, changes, table.at, table.run.settings.upstream, whole=False)
    found = Found(folded.unknown, frozenset(folded.problems))
    settle(folded, [column.column.id for column in table.columns if column.column.id > 0])
    completed = _completed(table, folded, version) if late is None and folded.patches else None
    if late is None and not folded.patches:
        deletes = [dict(zip(table.ids, key, strict=True)) | mode.tag for key in folded.deleted]
        puts, hits = [row | mode.tag for row in finish(folded)], completed.hits if completed else None
        found = found.plus(Found({}, lacking_cells(puts, mode.needed), breaks=folded.breaks))
        return Outcome(puts, deletes, found, frozenset(folded.first), hits=hits)
    touched = {*folded.rows, *folded.deleted, *folded.patches, *folded.refused}
    if late is not None and (outcome := _later_outcome(table, touched, late)) is not None:
        return outcome._replace(found=found.plus(outcome.found))
    known = key_changes(table, touched)
    if known is None:
        return None
    puts, deletes, again = _refolded_rows(table, touched, known)
    return Outcome(puts, deletes, found.plus(again))


def _completed(table: GoldTable, folded: Folded, version: int) -> merge.Known | None:
    """Complete all images told in part by gold's rows at `version`; None where these are not the source's."""
    entry = table.run.entries.get(table.lineage.id)
    if table.size.small or entry is None or entry.state != "exact" or table.gate or not table.reads_back:
        return None
    if entry.lacking or folded.refused or folded.unknown or folded.problems:
        return None
    gold = _known_rows(table, version, folded.patches)
    empty = dict.fromkeys(column.column.id for column in table.columns if column.column.id > 0)
    known = {row_key(row, table.ids): empty | row for row in gold.rows}
    if not gold.exact or not folded.patches.keys() <= known.keys():
        return None
    folded.rows |= {key: known[key] | folded.patches[key] for key in folded.patches}
    folded.patches.clear()
    return gold


def _later_outcome(table: GoldTable, touched: set[Key], first: Position) -> Outcome | None:
    """What changes of these rows from the first late one on make of them, where each of them is told whole:
    what came before says nothing of the row then. None where all changes of the rows are needed.
    """
    known = None if table.size.small else key_changes(table, touched, since=just_below(first))
    if known is None:
        return None
    folded = fold(table.lineage, known.changes, table.at, table.run.settings.upstream, whole=False)
    settle(folded, [column.column.id for column in table.columns if column.column.id > 0])
    if folded.unknown or folded.problems or not touched <= {*folded.rows, *folded.deleted}:
        return None
    puts = [folded.rows[key] | table.mode.tag for key in touched if key in folded.rows]
    gone = [dict(zip(table.ids, key, strict=True)) | table.mode.tag for key in touched & folded.deleted]
    found = Found(problems=lacking_cells(puts, table.mode.needed), breaks=folded.breaks)
    return Outcome(puts, gone, found)


def _counted_outcome(
    table: GoldTable, changes: list[Change], before: Position, version: int
) -> Outcome | None:
    """The same of a table without a key, whose rows are counted. What deletes take has to be there: gold's
    rows are looked at where a window's own inserts are not enough.
    """
    run, mode, entry = table.run, table.mode, table.run.entries.get(table.lineage.id)
    is_known = entry is not None and entry.counted is True and not entry.lacking
    if not is_known or table.gate is not None or table.options.merged:
        return None
    if not table.options.plain:
        return _logged_outcome(table, changes, before)
    images = counted(table.lineage, changes, run.settings.upstream, step=table.step, before=before)
    if images is None:
        return None
    taken = [image for image in images if image.least]
    held: merge.Equal | None = merge.Equal([])
    if taken:
        if not (table.reads_back and mode.shows_all):
            return None
        rows = [image.row for image in taken]
        held = merge.equal_rows(run.spark, run.lake, table.gold, version, columns=table.columns, rows=rows)
    if held is None or any(count < image.least for count, image in zip(held.counts, taken, strict=True)):
        return None
    puts = [image.row for image in images for _ in range(image.more)]
    gone = [(count, image) for count, image in zip(held.counts, taken, strict=True) if image.more < 0]
    meets = sum(count for count, _ in gone)
    if meets > len(changes) + limits.GOLD_TABLE_CHANGES:
        return None
    puts += [image.row for count, image in gone for _ in range(count + image.more)]
    found = Found(problems=lacking_cells(puts, mode.needed))
    return Outcome(puts, [image.row for _, image in gone], found, meets=meets, hits=held.hits)


def _logged_outcome(table: GoldTable, changes: list[Change], before: Position) -> Outcome | None:
    """The same of a log of a table without a key, where rows are only inserted."""
    mode, step_at = table.mode, StepIndex(table.lineage)
    if mode.word != "append":
        return None
    for change in changes:
        if change.op != "insert" or step_at(change.position) != table.step or mode.is_late(change, before):
            return None
    added = mode.advance(changes, ())
    if added.unknown or added.problems:
        return None
    return Outcome(mode.log_above(added.rows, before), [], findings_of(added)._replace(applied=0))


def is_met(table: GoldTable, outcome: Outcome, merged: merge.Merged) -> bool:
    """Whether deletes in a table without a key have taken as many rows as were found."""
    return bool(table.ids) or table.mode.word == "append" or merged.matched == outcome.meets


def _refolded_rows(
    table: GoldTable, touched: set[Any], known: KeyChanges
) -> tuple[list[Row], list[Row], Found]:
    """These rows, folded again from everything that silver has of them: a deleted row can't come back."""
    tag = table.mode.tag
    folded = fold(table.lineage, known.changes, table.at, table.run.settings.upstream)
    there = {**folded.patches, **folded.rows}
    puts = [there[key] | tag for key in touched if key in there]
    gone = [dict(zip(table.ids, key, strict=True)) | tag for key in touched if key not in there]
    problems = frozenset(folded.problems) | lacking_cells(puts, table.mode.needed)
    found = Found(folded.unknown, problems, 0, known.verdict, breaks=folded.breaks, all_changes=known.is_all)
    return puts, gone, found


def _advanced(
    table: GoldTable, changes: list[Change], before: Position, *, version: int, late: bool
) -> Outcome | None:
    """Update the changed keys from gold's rows; recompute them from silver when a change is late or a key
    can't be matched.
    """
    mode, touched = table.mode, table.mode.touched(changes)
    # rows that an expectation refused are the source's, and not gold's; rows that were read while the table
    # changed may be of a later time
    since = before if table.gate is None and not table.lineage.is_unsettled_at(before) else None
    keys, found = touched.keys, Found(touched.unknown, touched.problems)
    if keys is None or not mode.advances or not table.reads_back or (late and mode.word == "append"):
        return None
    known, exact, hits = _known_rows(table, version, keys)
    if not mode.tells_apart(known):
        return None
    verdict, is_all = NO_VERDICT, False
    if late or not exact:
        told = key_changes(table, keys)
        if told is None:
            return None
        folding = mode if told.is_all else timed(table.own_changes, mode)
        again, verdict, is_all = folding.rows(told.changes), told.verdict, told.is_all
        rows = mode.of_keys(again.rows, keys)
    else:
        again = mode.advance(changes, known, since)
        rows = again.rows
    found = found.plus(findings_of(again, verdict)._replace(all_changes=is_all))._replace(applied=0)
    if mode.word == "append":
        return Outcome(mode.log_above(rows, before), [], found)
    return Outcome(*mode.differences(known, rows, exact=exact), found, hits=hits)


def merge_window(
    table: GoldTable, window: DataFrame, before: Position, version: int, *, late: bool, rows: int
) -> Written:
    """Merge a window of many changes: in Spark jobs, or some commits at a time; those that came late before
    the others. The result counts them.
    """
    changes, found = window.where(of_lineage(table.lineage)), NOTHING_FOUND
    if late:
        first = _merge_late(table, changes, before, version)
        if first is None:
            return refold(table, exists=True)
        version, found, changes = first.version, first.found, changes.where(between(before, None))
    if found.unknown:
        return Written(version, "", found, taken=rows)
    if not (table.options.plain and table.ids):
        return _with(found, _merge_by_commits(table, changes, before, version, rows=rows), rows)
    large = fold_changes(table, changes, rows, above=before)
    if large.unknown:
        return Written(version, "", found.plus(Found(large.unknown, large.problems)), taken=rows)
    if "patch" in large.kinds:
        entry = table.run.entries.get(table.lineage.id)
        # gold's rows complete images in part; where it may lack some, each part would read all of silver
        if entry is None or entry.state != "exact" or not _has_one_step(table, before):
            return refold(table, exists=True)
        written = _merge_by_commits(table, changes, before, version, rows=rows)
        # of a whole window, where parts tell what does not fit within each
        breaks = max(large.breaks, written.found.breaks, key=lambda one: one.total)
        return _with(found, written._replace(found=written.found._replace(breaks=breaks)), rows)
    frame = named(large.frame, table.columns, large.companions, OP)
    is_held = rows * table.size.bytes <= limits.GOLD_TABLE_BYTES * max(1, table.size.rows)
    version = _merged(table, frame, table.ordered_rows, here=is_held).version
    found = found.plus(Found({}, large.problems, breaks=large.breaks))._replace(applied=rows)
    # those that came late, and those that a suite has rejected, are not among the fold's
    is_told = large.taken is not None and not late and table.gate is None
    return Written(version, f"merged up to {rows} changes", found, taken=large.taken if is_told else rows)


def _with(late: Found, rest: Written, rows: int) -> Written:
    """The rest of a window of `rows` changes, with what those that came late before it have found; a fold of
    all has found that too.
    """
    if rest.whole:
        return rest
    return rest._replace(found=late.plus(rest.found)._replace(applied=rows), taken=rows)


def _has_one_step(table: GoldTable, before: Position) -> bool:
    """Whether the table has the schema that it had at the window's beginning."""
    return table.lineage.step_at(just_above(before)) == table.step


def _merge_late(table: GoldTable, changes: DataFrame, before: Position, version: int) -> Written | None:
    """Merge a large window's changes that came late, as if the window ended where it begins. None where these
    are more than the driver holds, or where nothing less than a fold of the whole table will do. A table that
    is held stays where it is.
    """
    until = replace(table, at=min(before, table.at))
    if table.size.small or not _has_one_step(table, until.at):
        return None
    rows = few_changes(
        changes.where(between(None, before)), limits.GOLD_TABLE_CHANGES, limits.GOLD_TABLE_BYTES
    )
    if rows is None:
        return None
    outcome = outcome_of(until, [change for _, change, _ in named_changes(rows)], before, version)
    if outcome is None:
        return None
    if outcome.found.unknown or not (outcome.puts or outcome.deletes):
        return Written(version, "", outcome.found)
    put = write_outcomes([(table, outcome)], before)
    if not is_met(table, outcome, put):
        return None
    return Written(put.version, "", outcome.found.plus(Found(problems=put.lacking(len(outcome.puts)))))


def _merge_by_commits(
    table: GoldTable, changes: DataFrame, before: Position, version: int, *, rows: int
) -> Written:
    """Merge whole commits, as many at a time as the driver holds, where that is less than the table's whole
    log.
    """
    if rows * 2 > table.size.rows:
        return refold(table, exists=True)
    found = NOTHING_FOUND
    each = max(1, table.size.bytes // max(1, table.size.rows))
    most = max(1, min(limits.GOLD_TABLE_CHANGES, limits.GOLD_TABLE_BYTES // each))
    for part in commits(changes, table.mode.clock.by_commit, most):
        # what is folded again from silver ends where the part does
        until = replace(table, at=part[-1].position) if part else table
        outcome = outcome_of(until, part, before, version) if part else None
        if outcome is None:
            return refold(table, exists=True)
        found = found.plus(outcome.found)
        if found.unknown:
            return Written(version, "", found)
        if outcome.puts or outcome.deletes:
            put = write_outcomes([(table, outcome)], before)
            if not is_met(table, outcome, put):
                return refold(table, exists=True)
            found = found.plus(Found(problems=put.lacking(len(outcome.puts))))
            version = put.version
        before = part[-1].position
    return Written(version, f"merged {rows} changes", found._replace(applied=rows))
