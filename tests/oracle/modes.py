"""The modes of a gold table over a program's feed: at some of its states the current versions, the soft rows
that are not deleted and the folded change log are the table, and the versions of the end that hold at a state
are the table of that state.
"""

import random
from collections import Counter
from typing import Any

from lakehouse.ddl_effects import NullsLost, Retype, Unknowable, UnknownFill
from lakehouse.events import Position
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import Change, image_text, row_key
from lakehouse.fold.row_history import plain, row_history
from lakehouse.fold.steps import rekeyings, target_step
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.fold.versions import Keeper, versions
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.own_columns import CURRENT, DELETED, OP, POSITION, source_part
from lakehouse.lineage import Lineage
from tests.oracle.check import place, same
from tests.oracle.runner import Runner
from tests.support.engine import TSO, Memory

HISTORY, SOFT, LOG = GoldOptions(mode="history"), GoldOptions(deletes="soft"), GoldOptions(mode="append")
SAMPLE = 3


def check_modes(silver: Memory, runner: "Runner | Any") -> None:
    """An AssertionError where a mode disagrees with the table, whose own states the oracle judges beside, or
    says that its changes lack something.
    """
    history, changes = silver._lineages()
    chance = random.Random(runner.seed)
    for lineage in history.lineages:
        mine = changes.get(lineage.id, [])
        # of a table that gold calls incomplete the modes may each know other rows, and a log stays so
        # where a TRUNCATE mends the table
        there = [
            ts
            for ts, _ in runner.states
            if lineage.name_at(place(ts)) is not None
            and lineage.incomplete_at(place(ts)) is None
            and not _was_unknowable(lineage, place(ts), silver.upstream)
        ]
        for ts in {*chance.sample(there, k=min(SAMPLE, len(there))), *there[-1:]}:
            _at(silver, lineage, mine, place(ts))
        if there:
            _as_of(silver, lineage, mine, there, chance)


def _was_unknowable(lineage: Lineage, at: Position, upstream: Upstream) -> bool:
    effects = [effect for step in lineage.steps if step.position <= at for effect in step.effects]
    return any(
        effect.unknown(upstream.server, upstream.version) is not None
        if isinstance(effect, NullsLost)
        else isinstance(effect, Unknowable | UnknownFill)
        for effect in effects
    )


def _at(silver: Memory, lineage: Lineage, changes: list[Change], at: Position) -> None:
    table = _bag(finish(fold(lineage, changes, at, silver.upstream)))
    told = {
        word: _mode(silver, lineage, at, said)
        for word, said in (("history", HISTORY), ("soft", SOFT), ("log", LOG))
    }
    found = {word: mode.rows(changes) for word, mode in told.items()}
    rows = {word: each.rows for word, each in found.items()}
    what = f"{lineage.id} at {at[1]}"
    lacking = {problem for each in found.values() for problem in each.problems}
    same(f"what the changes of {what} lack", lacking, set())
    broken = {str(each.breaks.first) for each in found.values() if each.breaks.first is not None}
    same(f"the changes of {what} that do not fit", broken, set())
    same(f"current versions of {what}", _bag(row for row in rows["history"] if row[CURRENT]), table)
    same(f"soft rows of {what}", _bag(row for row in rows["soft"] if not row[DELETED]), table)
    if not rekeyings(lineage, told["log"].target) and not _retypes_key(lineage, told["log"]):
        same(f"the folded log of {what}", _bag(_folded(rows["log"], told["log"].ids)), table)


def _retypes_key(lineage: Lineage, log: Mode) -> bool:
    """Whether a DDL gave keys other values: the log keeps those of their time, so no one can fold it by key
    across that.
    """
    effects = [effect for step in lineage.steps[: log.target + 1] for effect in step.effects]
    return any(
        isinstance(effect, Retype) and effect.old != effect.new and effect.column_id in log.ids
        for effect in effects
    )


def _as_of(
    silver: Memory, lineage: Lineage, changes: list[Change], there: list[int], chance: random.Random
) -> None:
    target = target_step(lineage, place(there[-1]))
    keep = Keeper(lineage, target, silver.upstream)
    history = row_history(lineage, changes, place(there[-1]), silver.upstream, by_commit=True)
    found = versions(history.entries)
    told = [version for stretch in found.values() for version in stretch]
    assert all(v.until is None or v.since < v.until for v in told), f"an empty interval in {lineage.id}"
    for ts in chance.sample(there, k=min(SAMPLE, len(there))):
        held = [keep(v.row, v.step) for v in told if v.since <= ts and (v.until is None or ts < v.until)]
        then = target_step(lineage, place(ts))
        table = [keep(row, then) for row in finish(fold(lineage, changes, place(ts), silver.upstream))]
        same(f"versions of {lineage.id} that hold at {ts}", _bag(held), _bag(table))


def _mode(silver: Memory, lineage: Lineage, at: Position, said: GoldOptions) -> Mode:
    return Mode(lineage, at, silver.upstream, TSO, said)


def _bag(rows: Any) -> Counter[str]:
    return Counter(image_text(plain(source_part(row))) for row in rows)


def _folded(log: list[Row], ids: tuple[int, ...]) -> list[Row]:
    """As anybody would fold it: the last row per key, or one more and one less per image."""
    log = sorted(log, key=lambda row: row[POSITION])
    if ids:
        return [row for row in {row_key(row, ids): row for row in log}.values() if row[OP] != "delete"]
    counts: Counter[str] = Counter()
    images = {}
    for row in log:
        text = image_text(plain(source_part(row)))
        counts[text] += -1 if row[OP] == "delete" else 1
        images[text] = row
    return [images[text] for text, count in counts.items() for _ in range(count)]
