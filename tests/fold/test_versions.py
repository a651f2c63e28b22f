"""Every mode of a gold table against the source's own states: what was true at each commit, and when.

A seeded source (source_model) does random things, arrivals sends them as TiCDC would; the entries of
lakehouse/fold/row_history.py and the versions made of them are held to the fold, which other properties hold
to the source.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.events import Position
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import Change, image_text, row_key
from lakehouse.fold.row_history import row_history
from lakehouse.fold.steps import rekeyings, target_step
from lakehouse.fold.tracks import Entry
from lakehouse.fold.upcast import Row
from lakehouse.fold.versions import Keeper, Version, last_known, versions
from lakehouse.lineage import Lineage, key_ids
from tests.support.arrivals import DISPATCHERS, Feed
from tests.support.engine import Memory
from tests.support.source_model import History

OPTIONS = {"time_zone": "Asia/Shanghai"}
QUICK = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
steps = st.integers(0, 20)


def place(at: int) -> Position:
    return (0, at, 2, 0, 0, 0)


def told(history: History, chance: int, *, restarts: int = 0) -> Memory:
    rand = random.Random(chance)
    feed = Feed(history.events, rand, rand.choice((1, 2, 3)), rand.choice(DISPATCHERS))
    for _ in range(restarts):
        feed.restart(at_resolved=True)
    return Memory("ticdc-open", OPTIONS).add(feed.arrival(rand))


def lineages(silver: Memory) -> Iterator[tuple[Lineage, list[Change]]]:
    history, changes = silver._lineages()
    for lineage in history.lineages:
        yield lineage, changes.get(lineage.id, [])


def entries_of(silver: Memory, lineage: Lineage, changes: Iterable[Change], at: Position) -> list[Entry]:
    return row_history(lineage, changes, at, silver.upstream, by_commit=True).entries


def bag(rows: Iterable[Row]) -> Counter[str]:
    return Counter(
        image_text({name: value for name, value in row.items() if value is not None}) for row in rows
    )


def ends(silver: Memory, lineage: Lineage, history: History) -> list[int]:
    """The moments at which the table is there."""
    return [at for at, _ in history.states if lineage.name_at(place(at)) is not None]


def scd1(silver: Memory, lineage: Lineage, changes: list[Change], at: int) -> list[Row]:
    return finish(fold(lineage, changes, place(at), silver.upstream))


def current(found: dict[int, list[Version]]) -> list[Version]:
    return [told[-1] for told in found.values() if told and told[-1].until is None]


@QUICK
@given(seeds, steps, seeds, st.booleans())
def test_the_current_versions_are_the_table_at_every_commit(
    seed: int, count: int, chance: int, raw: bool
) -> None:
    history = History(seed, count, raw_updates=raw)
    silver = told(history, chance)

    for lineage, changes in lineages(silver):
        for at in ends(silver, lineage, history):
            found = versions(entries_of(silver, lineage, changes, place(at)))
            keep = Keeper(lineage, target_step(lineage, place(at)), silver.upstream)
            assert bag(keep(version.row, version.step) for version in current(found)) == bag(
                scd1(silver, lineage, changes, at)
            )


@QUICK
@given(seeds, steps, seeds)
def test_the_versions_that_hold_at_a_moment_are_the_table_of_that_moment(
    seed: int, count: int, chance: int
) -> None:
    history = History(seed, count)
    silver = told(history, chance)

    for lineage, changes in lineages(silver):
        moments = ends(silver, lineage, history)
        target = target_step(lineage, place(moments[-1] if moments else 0))
        keep = Keeper(lineage, target, silver.upstream)
        found = versions(entries_of(silver, lineage, changes, place(moments[-1] if moments else 0)))
        for at in moments:
            held = [
                v
                for told in found.values()
                for v in told
                if v.since <= at and (v.until is None or at < v.until)
            ]
            then = target_step(lineage, place(at))
            table = [keep(row, then) for row in scd1(silver, lineage, changes, at)]
            assert bag(keep(version.row, version.step) for version in held) == bag(table)


@QUICK
@given(seeds, steps, seeds, st.integers(0, 3))
def test_intervals_are_never_empty_never_overlap_and_never_meet_alike(
    seed: int, count: int, chance: int, slow: int
) -> None:
    history = History(seed, count)
    silver = told(history, chance)
    rand = random.Random(chance)

    for lineage, changes in lineages(silver):
        # a clock that runs backwards, as a binlog's does, and a second that holds many commits
        changes = [
            change._replace(commit_ts=(change.commit_ts or 0) // 10**slow - rand.randrange(3))
            for change in changes
        ]
        found = row_history(lineage, changes, silver.reach, silver.upstream, by_commit=slow == 0)
        for stretch in versions(found.entries).values():
            for version in stretch[:-1]:
                assert version.until is not None
            assert all(version.until is None or version.since < version.until for version in stretch)
            for one, other in pairwise(stretch):
                assert one.until is not None and one.until <= other.since
                assert one.until < other.since or one.step != other.step or bag([one.row]) != bag([other.row])


@QUICK
@given(seeds, steps, seeds)
def test_the_change_log_folded_is_the_table(seed: int, count: int, chance: int) -> None:
    history = History(seed, count)
    silver = told(history, chance)

    for lineage, changes in lineages(silver):
        for at in ends(silver, lineage, history)[-3:]:
            target = target_step(lineage, place(at))
            if rekeyings(lineage, target):
                continue
            keep, ids = Keeper(lineage, target, silver.upstream), key_ids(lineage, target)
            log = [
                (entry.op, keep(entry.after or entry.before or {}, entry.step))
                for entry in entries_of(silver, lineage, changes, place(at))
            ]
            assert bag(folded_log(log, ids)) == bag(scd1(silver, lineage, changes, at))


def folded_log(log: list[tuple[str, Row]], ids: tuple[int, ...]) -> list[Row]:
    """As anybody would fold it: the last row per key, or one more and one less per image."""
    if not ids:
        counts: Counter[str] = Counter()
        rows = {}
        for op, row in log:
            text = next(iter(bag([row])))
            counts[text] += -1 if op == "delete" else 1
            rows[text] = row
        return [rows[text] for text, count in counts.items() for _ in range(count)]
    last = {row_key(row, ids): (op, row) for op, row in log}
    return [row for op, row in last.values() if op != "delete"]


@QUICK
@given(seeds, steps, seeds, seeds, st.integers(0, 2))
def test_no_arrival_and_no_replay_changes_any_version(
    seed: int, count: int, chance: int, other: int, restarts: int
) -> None:
    history = History(seed, count)
    one, two = told(history, chance), told(history, other, restarts=restarts)

    for (lineage, changes), (_, again) in zip(lineages(one), lineages(two), strict=True):
        assert listed(versions(entries_of(one, lineage, changes, one.reach))) == listed(
            versions(entries_of(two, lineage, again, one.reach))
        )


def listed(found: dict[int, list[Version]]) -> list[str]:
    return sorted(
        f"{image_text(version.row)} {version.step} {version.since} {version.until}"
        for told in found.values()
        for version in told
    )


@QUICK
@given(seeds, steps, seeds)
def test_every_row_that_ever_was_is_there_once_and_the_live_ones_are_the_table(
    seed: int, count: int, chance: int
) -> None:
    history = History(seed, count, keyless=False)
    silver = told(history, chance)

    for lineage, changes in lineages(silver):
        for at in ends(silver, lineage, history)[-3:]:
            target = target_step(lineage, place(at))
            keep, ids = Keeper(lineage, target, silver.upstream), key_ids(lineage, target)
            known = last_known(entries_of(silver, lineage, changes, place(at)))
            rows = [(keep(last.row, last.step), last.live) for last in known.values()]
            assert bag(row for row, live in rows if live) == bag(scd1(silver, lineage, changes, at))
            keys = Counter(str(row_key(row, ids)) for row, _ in rows)
            assert rekeyings(lineage, target) or max(keys.values(), default=1) == 1


def change(position: int, op: str, after: Any, before: Any = None, time: int | None = None) -> Change:
    return Change(
        (0, position, 1 if after is not None else 0, 0, 0, 0),
        op,
        before,
        after,
        "canonical",
        (),
        time or position,
    )
