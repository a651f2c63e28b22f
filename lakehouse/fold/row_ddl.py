"""The effect of a DDL on the rows of a history: decided, then done to the tracks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lakehouse.ddl_effects import Clear
from lakehouse.events import Position
from lakehouse.fold.row_edits import NO_KEY, ONE_KEY
from lakehouse.fold.steps import changes_key
from lakehouse.fold.tracks import Done, Entry, Shown, Track, Tracks, Unmatched, apply_moves, key_by
from lakehouse.fold.upcast import Move, Upstream, compile_kept, compile_moves
from lakehouse.lineage import Lineage, key_ids


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """What the DDL of a step does to the rows: `live` to those that are there, `kept` to the last images of
    those that are gone. `snapshot`: it is no DDL, but the beginning of a complete snapshot, which may send
    rows of the `columns` again.
    """

    step: int
    position: Position
    time: int | None
    live: list[Move]
    kept: list[Move]
    rekeyed: bool
    snapshot: bool
    columns: frozenset[int]
    ids: tuple[int, ...]


def ddl_plan(lineage: Lineage, index: int, upstream: Upstream, time: int | None) -> DdlPlan:
    """The effect of the DDL of a step on the rows; `time` is that of the commit before it."""
    step = lineage.steps[index]
    told = lineage.times.get(step.position)
    return DdlPlan(
        index,
        step.position,
        told if told is not None else time,
        compile_moves(lineage, index - 1, index, upstream),
        kept=compile_kept(lineage, index - 1, index, upstream),
        rekeyed=changes_key(lineage, index),
        snapshot=step.ddl is None and any(isinstance(effect, Clear) for effect in step.effects),
        columns=frozenset(column.id for column in step.schema.columns),
        ids=key_ids(lineage, index),
    )


def untimed(lineage: Lineage, at: Position) -> list[Position]:
    """Where statements and snapshots up to `at` that do something to rows have no time of their own: theirs
    is that of the table's last commit before them.
    """
    places = (step.position for step in lineage.steps[1:] if step.effects)
    return [place for place in places if place <= at and place not in lineage.times]


def with_times(lineage: Lineage, last: Mapping[Position, tuple[Position, int]]) -> Lineage:
    """The lineage with a time for each of those: so rows of some keys are folded as all rows are. `last`: by
    their places, the place and time of the table's last change before that has a time.
    """
    times = dict(lineage.times)
    carried: tuple[Position, int] | None = None
    for step in lineage.steps[1:]:
        before = [one for one in (carried, last.get(step.position)) if one is not None]
        if step.effects and step.position not in times and before:
            times[step.position] = max(before)[1]
        if step.position in times:
            carried = step.position, times[step.position]
    return replace(lineage, times=times)


def apply_ddl(tracks: Tracks, unmatched: Unmatched, plan: DdlPlan, shown: Shown) -> Done:
    """Take all rows over a DDL: those that are there, and the last images of those that are gone, so that a
    row that comes back is compared with what it would be today.
    """
    done = Done([*tracks.close_all(plan.step - 1)], set(), set())
    every = tracks.all()
    if plan.snapshot:
        _open(every, plan)
    elif plan.live or plan.kept:
        for track in every:
            done.entries.extend(_move(track, plan, shown, done.problems))
    if plan.rekeyed or plan.live or plan.kept:
        # what is unmatched is found by its image, so it goes on only where rows do
        unmatched.move([] if plan.rekeyed or plan.snapshot else plan.live)
        tracks.rekey(every, key_by(plan.ids))
    if plan.rekeyed and plan.ids and not plan.snapshot:
        done.problems.update([ONE_KEY] if any(len(same) > 1 for same in tracks.live.values()) else [])
        done.problems.update([NO_KEY] if tracks.live.get(None) else [])
    return done


def _open(tracks: Iterable[Track], plan: DdlPlan) -> None:
    """A complete snapshot begins: every row is open, until the snapshot has sent it again."""
    for track in tracks:
        track.last = {key: value for key, value in track.last.items() if key in plan.columns}
        if track.row is not None:
            track.row, track.open_since = track.last, (plan.position, plan.time)


def _move(track: Track, plan: DdlPlan, shown: Shown, problems: set[str]) -> Iterator[Entry]:
    """Take one row over a DDL; an entry where that changes what is shown of it. What no rule has converted is
    added to the problems.
    """
    before = apply_moves(plan.kept, track.last).row
    assert before is not None
    if track.row is None:
        track.last = before
        return
    after, lost = apply_moves(plan.live, track.row)
    problems |= lost
    number, position, time, step = track.number, plan.position, plan.time, plan.step
    if after is None:
        yield Entry(number, position, time, "delete", before=before, after=None, step=step)
    elif shown(before) != shown(after) and plan.ids:
        yield Entry(number, position, time, "update", before=before, after=after, step=step)
    elif shown(before) != shown(after):
        yield Entry(number, position, time, "delete", before=before, after=None, step=step)
        yield Entry(number, position, time, "insert", before=None, after=after, step=step)
    track.row, track.last = after, after if after is not None else before
