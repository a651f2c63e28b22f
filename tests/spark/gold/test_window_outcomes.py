"""Windows merged by lakehouse/spark/gold/window.py, one after another, against a fold of everything: the same
rows, and no loss that the windows pass over. Needs Spark's package, but no session.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.continuity import Continuity
from lakehouse.fold.current_rows import finish, fold, settle
from lakehouse.fold.row_ddl import untimed, with_times
from lakehouse.fold.row_edits import Change, image_text, row_key
from lakehouse.fold.steps import target_step
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.formats.snapshot.encode import messages
from lakehouse.formats.snapshot.records import Place
from lakehouse.gold.columns import GoldColumn, gold_columns, lacking_cells, type_rows
from lakehouse.gold.ddl_in_place import in_place
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.own_columns import POSITION, own_columns
from lakehouse.lineage import Lineage, key_ids
from lakehouse.spark.change_log.changes import FOLD_COLUMNS
from lakehouse.spark.change_log.key_changes import may_be_of
from lakehouse.spark.gold import merge, window
from lakehouse.spark.gold import table as gold_table
from lakehouse.spark.gold.layout import alter_clauses, can_alter
from lakehouse.spark.gold.results import MISFITS, Found, Outcome, Size, Written
from lakehouse.spark.gold.table import GoldTable, findings_of
from lakehouse.spark.quality.gates import NO_VERDICT
from tests.fold.test_continuity import refused
from tests.fold.test_versions import lineages, told
from tests.formats.snapshot.test_snapshot import LIVE, chunks, part
from tests.gold.test_modes import MODES, TSO, listed, merged, through_gold
from tests.spark.fold.test_fold_job import silver_row
from tests.spark.fold.test_fold_workers import FOLDED
from tests.support.damage import damaged
from tests.support.engine import Memory
from tests.support.source_model import History

seeds = st.integers(0, 2**32 - 1)
EVERY = {
    "upsert": GoldOptions(),
    **MODES,
    "masked soft": GoldOptions(deletes="soft", columns={"a": ColumnOptions(mask="nullify")}),
}
SMALL, LARGE = Size(0, 0), Size(1 << 60, 0)


class Table(GoldTable):
    """A table whose changes are in memory."""

    @property
    def own_changes(self) -> Any:
        return self.changes_above(None)

    def changes_above(self, low: Any) -> Any:
        above = MIN_POSITION if low is None else low
        silver: Any = self.run.silver
        return [change for change in silver if above < change.position <= self.at]


@dataclass
class Gold:
    """A gold table in memory: its rows, what they are known to lack, and how its windows were merged."""

    rows: list[Row] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    before: Position = MIN_POSITION
    whole: int = 0
    merged: int = 0
    altered: int = 0
    keyed: bool = True
    guessed: bool = False

    def find(self, found: Found, *, whole: bool) -> None:
        """What lakehouse/spark/gold/entries.py makes of what was found."""
        if whole:
            self.lacking.clear()
            self.guessed = found.guessed
        if found.all_changes:
            self.lacking -= {MISFITS}
        self.lacking |= found.problems | ({MISFITS} if found.breaks.total else set())
        self.unknown = set(found.unknown)


def opened(lineage: Lineage, at: Position, options: GoldOptions, run: Any, *, gate: Any) -> Table:
    step = target_step(lineage, at)
    columns = gold_columns(lineage.steps[step].schema, virtual=False, options=options)
    columns += own_columns(options, [column.name for column in columns])
    return Table(run, lineage, at, "d__t", options, step, columns, key_ids(lineage, step), gate=gate)


def fold_whole(table: Table, gold: Gold) -> None:
    found = table.mode.rows(table.own_changes)
    gold.rows, gold.whole = found.rows, gold.whole + 1
    gold.find(findings_of(found), whole=True)


def altered(table: Table, gold: Gold) -> bool:
    """Do what DDL does in place, as lakehouse/spark/gold/plan.py decides: whether it could be done."""
    lineage, step = table.lineage, target_step(table.lineage, gold.before)
    if table.gate or gold.lacking or gold.unknown:
        return False
    before = gold_columns(lineage.steps[step].schema, virtual=False, options=table.options)
    upstream = table.run.settings.upstream
    change = in_place(
        lineage, (step, table.step), (before, table.columns), options=table.options, upstream=upstream
    )
    if change is None:
        return False
    typed = type_rows(gold.rows, before)
    held = [*typed.columns, *typed.raw]
    if not can_alter(change, held):
        return False
    names = done(alter_clauses(change, held), held)
    assert names[: len(change.order)] == list(change.order) and len(names) == len(set(names))
    rules = {one.new[0].id: one.rule() for one in change.converted}
    kept = {
        new.column.id: (new, old, rules.get(new.column.id))
        for old in before
        for new in change.columns
        if new.column.id == old.column.id
    }
    gold.rows = [
        {key: cell(*kept[key], value) for key, value in row.items() if key in kept}
        | {
            one.column.column.id: one.column.to_canonical(one.value)
            for one in change.added
            if one.value is not None
        }
        | {one.column.column.id: None for one in change.added if one.value is None}
        for row in gold.rows
    ]
    gold.altered += 1
    return True


def cell(new: GoldColumn, old: GoldColumn, rule: Callable[[Any], Any] | None, value: Any) -> Any:
    """A source's value that Delta has as one type, as the wider one gives it back, or converted."""
    if rule is not None:
        became = rule(None if value is None else old.to_python(value))
        return None if became is None else new.to_canonical(became)
    try:
        return value if value is None else new.to_canonical(old.to_python(value))
    except ValueError:
        return value


def done(clauses: list[str], held: list[str]) -> list[str]:
    """The names of a table's columns after clauses of ALTER TABLE, which Delta would take."""
    names = list(held)
    for clause in clauses:
        words = re.findall(r"`([^`]*)`", clause)
        assert clause.startswith("ADD") or words[0] in names, clause
        if clause.startswith("DROP"):
            names.remove(words[0])
        elif clause.startswith("RENAME"):
            names[names.index(words[0])] = words[1]
        elif clause.startswith("ADD"):
            names.append(words[0])
        elif clause.endswith("FIRST") or "AFTER" in clause:
            names.remove(words[0])
            names.insert(names.index(words[1]) + 1 if words[1:] else 0, words[0])
        assert len({name.lower() for name in names}) == len(names), clause
    return names


class Frame(list[Change]):
    """Changes in memory as a DataFrame of silver's, whose conditions are functions."""

    def where(self, kept: Callable[[Change], bool]) -> "Frame":
        return Frame(filter(kept, self))


def between(low: Position | None, high: Position | None) -> Callable[[Change], bool]:
    """As lakehouse.spark.change_log.changes.between."""
    return lambda change: (low is None or low < change.position) and (high is None or change.position <= high)


def fold_changes(table: Table, changes: list[Change], _: int, above: Position) -> Any:
    """As lakehouse.spark.gold.table.fold_changes, which may read the changes above a position anew."""
    assert all(change.position > above for change in changes)
    folded = fold(table.lineage, changes, table.at, table.run.settings.upstream, whole=False)
    settle(folded, [column.column.id for column in table.columns if column.column.id > 0])
    kinds = {"patch"} if folded.patches else set()
    puts = [] if kinds else finish(folded)
    deletes = [dict(zip(table.ids, key, strict=True)) for key in folded.deleted]
    problems = frozenset(folded.problems) | lacking_cells(puts, table.mode.needed)
    return SimpleNamespace(
        unknown=folded.unknown,
        kinds=kinds,
        frame=(puts, deletes),
        companions=[],
        problems=problems,
        breaks=folded.breaks,
        taken=len(changes),
    )


def merge_in(
    monkeypatch: pytest.MonkeyPatch, table: Table, gold: Gold, fresh: list[Change], *, in_jobs: bool
) -> None:
    """One window by `merge_changes`, or `in_jobs` by `merge_window`, with gold's rows in memory."""

    def known_rows(*_: Any, mode: Mode, columns: Any, keys: Any) -> merge.Known:
        mine = [row for row in gold.rows if row_key(row, mode.ids) in keys]
        if mode.word == "append":
            last = {row_key(row, mode.ids): row for row in sorted(mine, key=lambda row: row[POSITION])}
            mine = list(last.values())
        return merge.Known(*through_gold(mode, mine))

    def equal_rows(*_: Any, columns: Any, rows: list[Row]) -> merge.Equal:
        there = Counter(map(image_text, gold.rows))
        return merge.Equal([there[image_text(row)] for row in rows])

    def write(outcomes: list[tuple[Table, Outcome]], before: Position) -> merge.Merged:
        [(of, outcome)] = outcomes
        if not of.ids and of.options.plain:
            gone = set(map(image_text, outcome.deletes))
            kept = [row for row in gold.rows if image_text(row) not in gone]
            matched = len(gold.rows) - len(kept)
            gold.rows = [*kept, *outcome.puts]
            return merge.Merged(1, matched)
        if of.mode.word == "append":
            gold.rows = [row for row in gold.rows if not row[POSITION] > before] + outcome.puts
            return merge.Merged(1)
        ids = of.mode.row_ids
        held = {row_key(row, ids) for row in gold.rows}
        matched = sum(row_key(row, ids) in held for row in [*outcome.puts, *outcome.deletes])
        gold.rows = merged(of.mode, gold.rows, outcome.puts, outcome.deletes)
        return merge.Merged(1, matched)

    def of_keys(changes: list[Change], reading: Any, keys: Any) -> Any:
        kept = may_be_of(reading, changes, keys)
        rows = [
            {**dict.fromkeys(FOLD_COLUMNS), **silver_row(change)}
            for change, is_kept in zip(changes, kept, strict=True)
            if is_kept
        ]
        return pa.Table.from_pylist(rows, FOLDED)

    lacking = dict.fromkeys(gold.lacking, MIN_POSITION)
    table.run.entries[table.lineage.id] = SimpleNamespace(  # type: ignore[index]
        lacking=lacking, counted=not gold.guessed, state="incomplete" if lacking else "exact"
    )
    monkeypatch.setattr(merge, "known_rows", known_rows)
    monkeypatch.setattr(merge, "equal_rows", equal_rows)
    monkeypatch.setattr(window, "write_outcomes", write)
    monkeypatch.setattr(gold_table, "of_keys", of_keys)
    for module in (gold_table, window):
        monkeypatch.setattr(module, "few_changes", lambda frame, rows, size: frame)
    monkeypatch.setattr(window, "named_changes", lambda rows: [(None, change, 0) for change in rows])
    monkeypatch.setattr(window, "of_lineage", lambda _: between(None, None))
    monkeypatch.setattr(window, "between", between)
    monkeypatch.setattr(window, "fold_changes", fold_changes)
    monkeypatch.setattr(window, "named", lambda frame, *_: frame)
    monkeypatch.setattr(
        window, "_merged", lambda of, frame, _, here: write([(of, Outcome(*frame))], gold.before)
    )
    monkeypatch.setattr(window, "timed", timed)
    monkeypatch.setattr(gold_table, "judged_changes", lambda of, count: (of.own_changes, NO_VERDICT))
    monkeypatch.setattr(window, "refold", lambda of, exists: Written(-1, "whole"))
    monkeypatch.setattr(window, "commits", by_commits)
    late = any(change.position <= gold.before for change in fresh)
    if in_jobs and not (table.size.small or table.gate):
        changes: Any = Frame(fresh)
        written = window.merge_window(table, changes, gold.before, 1, late=late, rows=len(fresh))
    elif table.options.plain or late or table.size.small or not table.ids:
        written = window.merge_changes(table, fresh, gold.before, 1)
    else:
        written = window._merge_by_commits(table, fresh, gold.before, 1, rows=len(fresh))  # type: ignore[arg-type]
    if written.what == "whole":
        fold_whole(table, gold)
    else:
        gold.merged += 1
        gold.find(written.found, whole=False)


def by_commits(changes: list[Change], by_commit: bool, most: int) -> Iterator[list[Change]]:
    """As lakehouse.spark.fold.modes.commits, a commit at a time."""
    ordered = sorted(changes, key=lambda change: change.position)
    for _, one in groupby(ordered, key=lambda change: change.position[: 2 if by_commit else 6]):
        yield list(one)


def timed(changes: list[Change], mode: Mode) -> Mode:
    """As lakehouse.spark.fold.modes.timed."""
    last: dict[Position, tuple[Position, int]] = {}
    for place in untimed(mode.lineage, mode.at):
        below = [
            (one.position, one.commit_ts)
            for one in changes
            if one.commit_ts is not None and one.position < place
        ]
        if below:
            last[place] = max(below)
    return replace(mode, lineage=with_times(mode.lineage, last))


def run_of(upstream: Upstream, silver: list[Change], size: Size) -> Any:
    clock = TSO if upstream.continuity.by_commit else Clock()
    settings_ = SimpleNamespace(upstream=upstream, clock=clock, virtual=False)
    lake = SimpleNamespace(read=lambda *_: None)
    return SimpleNamespace(
        settings=settings_, silver=silver, size=lambda _: size, lake=lake, spark=None, entries={}
    )


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("word", EVERY)
@settings(max_examples=int(os.environ.get("LAKEHOUSE_EXAMPLES") or 8), deadline=None)
@given(
    seed=seeds,
    count=st.integers(0, 40),
    chance=seeds,
    large=st.booleans(),
    binlog=st.none() | st.integers(0, 6),
)
def test_windows_give_the_rows_and_losses_of_a_whole_fold(
    word: str, loses: bool, seed: int, count: int, chance: int, large: bool, binlog: int | None
) -> None:
    rand = random.Random(chance)
    memory = told(History(seed, count, raw_updates=chance % 3 == 0), chance)
    ordered = chance % 5 > 0 or word not in ("upsert", "append")
    continuity = Continuity(rows=ordered, inserts=ordered and chance % 2 == 0, by_commit=binlog is None)
    upstream = memory.upstream._replace(continuity=continuity)
    for lineage, every in lineages(memory):
        every = every if binlog is None else by_file(every, rand, binlog)
        if chance % 2:
            every = [in_part(lineage, one, rand) for one in every]
        if loses:
            every = [refused(one, rand) for one in damaged(every, rand)]
        gate = object() if loses and rand.random() < 0.5 else None
        if gate is None:
            every = [one._replace(flags=tuple(f for f in one.flags if f != "rejected")) for one in every]
        check(lineage, every, upstream, EVERY[word], rand=rand, large=large, gate=gate, loses=loses)


def in_part(lineage: Lineage, change: Change, rand: random.Random) -> Change:
    """An update as a server with binlog_row_image=MINIMAL tells it: without some of the cells that stay."""
    before, after = change.before, change.after
    if change.op != "update" or before is None or after is None:
        return change
    step = lineage.step_at(change.position)
    names = {column.id: column.name for column in lineage.steps[step].schema.columns}
    keys = {names.get(one) for one in key_ids(lineage, step)}
    same = [name for name in after if name in before and after[name] == before[name] and name not in keys]
    left = set(rand.sample(same, rand.randrange(len(same) + 1))) if keys else set()
    before, after = ({name: image[name] for name in image if name not in left} for image in (before, after))
    return change._replace(before=before, after=after)


def by_file(changes: list[Change], rand: random.Random, slow: int) -> list[Change]:
    """The changes as those of a binlog: each has a place of its own, and its clock stands still and runs
    backwards.
    """
    return [
        change._replace(
            position=(*change.position[:3], number, 0, 0),
            commit_ts=(change.commit_ts or 0) // 10**slow - rand.randrange(3),
        )
        for number, change in enumerate(sorted(changes, key=lambda one: one.position), 1)
    ]


def check(
    lineage: Lineage,
    every: list[Change],
    upstream: Upstream,
    options: GoldOptions,
    *,
    rand: random.Random,
    large: bool,
    gate: Any,
    loses: bool,
) -> None:
    places = sorted({change.position for change in every} | {step.position for step in lineage.steps[1:]})
    places = places if rand.randrange(2) else sorted(rand.sample(places, k=min(len(places), 6)))
    slow = {id(change) for change in every if not rand.randrange(3)} if rand.randrange(3) else set()
    here: list[Change] = []
    gold, ever = Gold(), set[str]()
    for at in places:
        late = [c for c in every if id(c) in slow and c.position <= gold.before and rand.randrange(2)]
        slow -= set(map(id, late))
        late = [c for c in late if not any(c is one for one in here)]
        fresh = [c for c in every if gold.before < c.position <= at and id(c) not in slow]
        here += late + fresh
        table = opened(lineage, at, options, run_of(upstream, here, LARGE if large else SMALL), gate=gate)
        goes_on = table.step == target_step(lineage, gold.before) and not gold.unknown
        if gold.merged + gold.whole == 0 or not (goes_on or altered(table, gold)):
            fold_whole(table, gold)
        elif late + fresh:
            with pytest.MonkeyPatch.context() as patched:
                merge_in(patched, table, gold, late + fresh, in_jobs=bool(rand.randrange(2)))
        gold.before, gold.keyed = at, bool(table.ids)
        whole = table.mode.rows(here)
        ever |= whole.problems | ({MISFITS} if loses or slow or late else set())
        assert bool(gold.unknown) == bool(whole.unknown)
        if not gold.unknown:
            assert listed(table.mode, gold.rows) == listed(table.mode, whole.rows)
            # cells are not held against gold's (docs/continuity.md)
            assert whole.problems <= gold.lacking <= ever
    key = "key" if gold.keyed else "no key"
    event(f"{key}: whole {gold.whole}, merged {gold.merged}, altered {gold.altered}")


@pytest.mark.parametrize("word", ["upsert", "soft", "history", "append"])
def test_rows_that_were_read_while_they_changed_are_no_loss_to_the_windows_behind(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An insert of a row that was read before it: the watermark stands between the two."""
    sql = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(9) CHARSET latin1)"
    memory = Memory("debezium", tidb=False).add(messages(chunks(sql, LIVE).end(sql), "whole"))
    memory.add(part([b"1", b"a"], place=Place(file="b.000001", offset=200)))
    history, changes = memory._lineages()
    (lineage,) = history.lineages
    insert = Change((0, 1, 350, 1, 0, 0), "insert", None, {"id": 1, "v": "a"}, "canonical", commit_ts=5)
    silver, breaks = [*changes[lineage.id], insert], {}

    for settled in (300, 400):
        lineage.unsettled = {(0, 1, 200, 0, 1, 0): (0, 1, settled, 0, 0, 0)}
        run = run_of(memory.upstream, silver, SMALL)
        gold = Gold()
        fold_whole(opened(lineage, (0, 1, 300, 1, 0, 0), EVERY[word], run, gate=None), gold)
        gold.before = (0, 1, 300, 1, 0, 0)
        merge_in(
            monkeypatch,
            opened(lineage, insert.position, EVERY[word], run, gate=None),
            gold,
            [insert],
            in_jobs=False,
        )
        assert gold.merged == 1
        breaks[settled] = MISFITS in gold.lacking

    assert breaks == {300: True, 400: False}
