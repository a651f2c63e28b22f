"""The history of a table's rows: the effect of each commit, and of each DDL, on each row.

    changes ─row_history─▶ entries     one per row and commit: its image before and after

Unlike the fold to the current rows (current_rows.py), which only wants the last state, this goes through all
of them: the live rows are taken through every DDL at its place, and an entry says where that changes a value
or removes a row. So the rows that the entries leave are those of the fold, and the entries up to any moment
leave the rows of that moment.

At TiCDC the changes of one row at one commit_ts are netted into one entry, however they were cut: a
transaction that updates a row twice, and a replay that is cut in between, must give the same entries.
Elsewhere each change is one. Rows of a table without a key are counted per image, the oldest of equal ones
goes first.

Each part is there for a sequence of changes that the simpler form gets wrong:

    DELETE 1, ADD COLUMN, INSERT 1    the last images of rows that are gone go through DDL too: else the row
                                      that comes back is compared with one of the old schema
    MODIFY of the key's type          a row keeps its number while its key becomes another one, so that its
                                      versions are still those of one row
    a snapshot sends rows again       TRUNCATE ends every row, a snapshot only opens them: a row that it
                                      sends again was never away, and gets no new version
    no key: DELETE, then its INSERT   where partitions are read one after another: what a delete owes is
                                      remembered, and the insert that comes later adds no row
    no key: INSERT refused, DELETE    the delete is of the refused image, not of an equal row that passed

Each step of a lineage is decided first, by pure functions: what its DDL is (`ddl_plan`), which commits follow
it (`commits_of`), what a commit makes of one row (`net_edits`). Then it is done to the tracks (tracks.py),
and what was done is returned.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.continuity import NO_BREAKS, Breaks, Claim, begun_at
from lakehouse.fold.current_rows import Watch, breaks_among, is_odd
from lakehouse.fold.keyless import Finder
from lakehouse.fold.row_commits import Commit, commits_of, net_edits
from lakehouse.fold.row_ddl import apply_ddl, ddl_plan
from lakehouse.fold.row_edits import (
    DELETE,
    NEVER_INSERTED,
    NO_KEY,
    REFUSE,
    UPSTREAM,
    Change,
    ChangeReader,
    Key,
    RowEdit,
    image_text,
    in_order,
    row_key,
)
from lakehouse.fold.steps import target_step
from lakehouse.fold.tracks import (
    Done,
    Entry,
    KeyOf,
    Shown,
    Track,
    Tracks,
    Unmatched,
    add_one,
    key_by,
    take_one,
)
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.lineage import Lineage, StepIndex, key_ids


class Known(NamedTuple):
    """A row before the changes: present or deleted."""

    row: Row
    live: bool


@dataclass(frozen=True, slots=True)
class RowHistory:
    """What changes made of a table's rows, and all that was found on the way.

    `entries` are in position order, `rows` are there in the end. `unknown` are column names that the schema
    at their position lacks, with the first such position, `problems` say what the changes lack to give the
    source's rows, `applied` counts the changes that edit a row, `breaks` are the changes that do not fit
    those before them.
    """

    entries: list[Entry]
    rows: list[Row]
    unknown: dict[str, Position]
    problems: frozenset[str]
    applied: int
    breaks: Breaks = NO_BREAKS


def plain(row: Row) -> Any:
    """The part of a row that is compared, where all of it is shown: an absent column is null."""
    return {column_id: value for column_id, value in row.items() if value is not None}


def row_history(
    lineage: Lineage,
    changes: Iterable[Change],
    at: Position,
    upstream: Upstream = UPSTREAM,
    *,
    by_commit: bool,
    shown: Shown = plain,
    known: Sequence[Known] = (),
    step: int = 0,
    whole: bool = True,
    since: Position | None = None,
) -> RowHistory:
    """The history of a lineage's rows up to `at`. Changes come in any order. `by_commit`: positions are
    TiCDC's. `known` are the rows at `step`, from where it goes on; their numbers in the entries count from 1.
    Not `whole`: there are changes before these. `since`: the source had the known rows, and of the changed
    ones no others, at this place; None: it may have had others.
    """
    changes = list(changes)
    is_known = whole or since is not None
    began = begun_at(lineage, 0, max(target_step(lineage, at), step), whole=is_known)
    watch = Watch(began is not None, upstream.continuity.inserts)
    tracks = _seeded(known, key_by(key_ids(lineage, step)))
    unmatched = Unmatched(is_known and upstream.continuity.rows)
    time: int | None = None
    unknown: dict[str, Position] = {}
    total, applied = Done([], set(), set()), 0
    for index, stretch in _stretches(lineage, changes, at, step, upstream=upstream):
        if index > step:
            plan = ddl_plan(lineage, index, upstream, time)
            time = plan.time
            total.add(apply_ddl(tracks, unmatched, plan, shown))
        ids = key_ids(lineage, index)
        found = ChangeReader(lineage, index, upstream, ids).read(stretch)
        commits, time = commits_of(stretch, found.edits, by_commit, time)
        total.add(_apply_commits(tracks, unmatched, commits, index, ids=ids, watch=watch))
        total.problems.update(found.problems)
        unknown = {**found.unknown, **unknown}
        applied += found.applied
    total.entries.extend(tracks.close_all(max(target_step(lineage, at), step)))
    met = _met(known, key_ids(lineage, step), total.odd, since=since, begun=began is not None)
    breaks = breaks_among(lineage, changes, at, upstream, keys=total.odd, whole=whole, known=met)
    entries, problems = sorted(total.entries, key=attrgetter("position")), frozenset(total.problems)
    return RowHistory(entries, tracks.rows(), unknown, problems, applied=applied, breaks=breaks)


def _met(
    known: Iterable[Known], ids: tuple[int, ...], keys: Iterable[Key], *, since: Position | None, begun: bool
) -> dict[Key, Claim]:
    """What is known at a place of the rows that changes meet; `begun`: other rows were not there."""
    if since is None:
        return {}
    found = {key: Claim(since, None, after=False) for key in keys} if begun else {}
    there = {row_key(row, ids): live for row, live in known}
    return found | {key: Claim(since, None, after=live) for key, live in there.items() if key is not None}


def _seeded(known: Iterable[Known], key_of: KeyOf) -> Tracks:
    tracks = Tracks()
    for row, live in known:
        tracks.add(key_of(row), row if live else None, row)
    return tracks


def _stretches(
    lineage: Lineage, changes: Iterable[Change], at: Position, first: int, *, upstream: Upstream
) -> Iterator[tuple[int, list[Change]]]:
    """Each step from the first to the one in force at `at`, with its changes in position order; changes of
    steps before the first are with it.
    """
    step_at = StepIndex(lineage)
    by_step: dict[int, list[Change]] = {}
    for change in changes:
        if change.position <= at:
            by_step.setdefault(max(step_at(change.position), first), []).append(change)
    for index in range(first, max(target_step(lineage, at), first) + 1):
        yield index, in_order(lineage, by_step.get(index, ()), upstream)


# --- the commits of a step


def _apply_commits(
    tracks: Tracks,
    unmatched: Unmatched,
    commits: Iterable[Commit],
    step: int,
    *,
    ids: tuple[int, ...],
    watch: Watch,
) -> Done:
    """Apply the commits of a step; `ids` are the columns of its key."""
    if ids:
        return _apply_keyed(tracks, commits, step, ids, watch=watch)
    return _apply_counted(tracks, unmatched, commits, step)


def _apply_keyed(
    tracks: Tracks, commits: Iterable[Commit], step: int, ids: tuple[int, ...], *, watch: Watch
) -> Done:
    """Apply the commits of a table with a key."""
    done = Done([], set(), set())
    for time, edits in commits:
        by_key: dict[Any, list[RowEdit]] = {}
        for edit in edits:
            key = row_key(edit.row, ids)
            if key is None:
                done.problems.add(NO_KEY)
            elif edit.kind != REFUSE:
                # a refused row stays as it was; an update that changed its key has ended the old one
                by_key.setdefault(key, []).append(edit)
            else:
                if (
                    key in tracks.refused
                    or tracks.of_key(key) is not None
                    or (watch.begun and edit.op == "update")
                ):
                    done.odd.add(key)
                tracks.refused.add(key)
        for key, same in by_key.items():
            track = tracks.of_key(key)
            there = track is not None and track.open_since is None
            earlier = track.row if track is not None and there else None
            if key in tracks.refused or is_odd(earlier, same[0], watch, was_there=track is not None):
                done.odd.add(key)
            done.entries.extend(_apply_row(tracks, key, same, track, time=time, step=step))
    return done


def _apply_row(
    tracks: Tracks, key: Any, edits: list[RowEdit], track: Track | None, *, time: int | None, step: int
) -> Iterator[Entry]:
    """Apply one row's edits of a commit; `track` is that of its key."""
    if track is not None and track.open_since is not None:
        # a snapshot sends the row again: it has never been away. Any other change comes after the snapshot,
        # so that it was not in it
        if edits[0].op == "snapshot":
            track.open_since = None
        else:
            yield tracks.close(key, track, step)
    net = net_edits(None if track is None else track.row, edits)
    if net is None:
        return
    if track is None:
        track = tracks.add(key, None, net.row or net.before or {})
    if net.row is not None:
        tracks.put(key, track, net.row)
    elif track.row is not None:
        tracks.end(key, track)
    yield Entry(track.number, net.position, time, net.op, before=net.before, after=net.row, step=step)


def _apply_counted(tracks: Tracks, unmatched: Unmatched, commits: Iterable[Commit], step: int) -> Done:
    """Apply the commits of a table without a key: of each image as many more or fewer rows as the commit's
    edits say.
    """
    done = Done([], set(), set())
    finder = Finder(tracks)
    for time, edits in commits:
        counts = Counter[str]()
        last: dict[str, RowEdit] = {}
        for told in edits:
            whole, problems = finder.whole_edits(told, counts, last)
            done.problems.update(problems)
            for edit in whole:
                text = image_text(edit.row)
                if edit.kind == REFUSE:
                    add_one(unmatched.refused, text, edit.row)
                elif edit.kind != DELETE or not take_one(unmatched.refused, text):
                    if edit.kind == DELETE and unmatched.ordered and tracks.settled(text) + counts[text] < 1:
                        done.problems.add(NEVER_INSERTED)
                        continue
                    counts[text] += -1 if edit.kind == DELETE else 1
                    last[text] = edit
        for text, count in counts.items():
            change = _one_more if count > 0 else _one_less
            for _ in range(abs(count)):
                change(done, tracks, unmatched, text, edit=last[text], time=time, step=step)
    return done


def _one_more(
    done: Done, tracks: Tracks, unmatched: Unmatched, text: str, edit: RowEdit, time: int | None, step: int
) -> None:
    live, gone = tracks.live[text], tracks.gone[text]
    if take_one(unmatched.owed, text):
        return
    if edit.op == "snapshot" and live and live[0].open_since is not None:
        live[0].open_since = None
        live.rotate(-1)
        return
    # the one that went last comes back: a row that is deleted and inserted at one moment has not changed
    track = gone[-1] if gone else tracks.add(text, None, edit.row)
    tracks.put(text, track, edit.row)
    op = "snapshot" if edit.op == "snapshot" else "insert"
    done.entries.append(Entry(track.number, edit.position, time, op, before=None, after=edit.row, step=step))


def _one_less(
    done: Done, tracks: Tracks, unmatched: Unmatched, text: str, edit: RowEdit, time: int | None, step: int
) -> None:
    track = next((track for track in tracks.live[text] if track.open_since is None), None)
    if track is None:
        done.problems.add(NEVER_INSERTED)
        add_one(unmatched.owed, text, edit.row)
        return
    done.entries.append(
        Entry(track.number, edit.position, time, "delete", before=track.row, after=None, step=step)
    )
    tracks.end(text, track)
