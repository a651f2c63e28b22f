"""The rows of a gold table in its mode: from all of a lineage's changes, or on from the rows that gold has.

    changes ──Mode.rows──▶ ModeRows                   all rows of the table
    changes, gold's rows ──Mode.advance──▶ ModeRows   the rows of the changed keys (append: the new rows)

What the changes lack, and the columns that no DDL has declared, are part of the result in every mode.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.continuity import NO_BREAKS, Breaks
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import Change, ChangeReader, image_text, row_key
from lakehouse.fold.row_history import Known, RowHistory, plain, row_history
from lakehouse.fold.steps import moved_keys, rekeyings, target_step
from lakehouse.fold.tracks import Entry, Shown
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.fold.versions import Keeper, Last, Version, last_known, versions
from lakehouse.gold.columns import kept_columns, lacking_cells, needed_cells
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.own_columns import (
    COMMIT_TS,
    COMMITTED_AT,
    CURRENT,
    DELETED,
    DELETED_AT,
    FROM_TS,
    OP,
    POSITION,
    SHARD,
    TO_TS,
    VALID_FROM,
    VALID_TO,
    mode_word,
    source_part,
)
from lakehouse.gold.shown_images import shown_by
from lakehouse.lineage import Lineage, key_ids

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(NamedTuple):
    """The commit times of a feed. `by_commit`: positions are (epoch, commit_ts, rank), and one commit_ts
    is one commit; `tso`: a commit_ts is a TSO, whose upper bits are milliseconds; else it is milliseconds
    itself.
    """

    by_commit: bool = False
    tso: bool = False

    def moment(self, time: int | None) -> datetime | None:
        """The instant, or None where there is none that a TIMESTAMP can hold."""
        if time is None:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=time >> 18 if self.tso else time)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class ModeRows:
    """Rows in a mode, and all that was found with them: `unknown` columns that no DDL has declared, with the
    first position of each, `problems`: what the changes lack to give the source's rows, how many changes were
    `applied`, and the `breaks` between them. `guessed` as in Folded.
    """

    rows: list[Row]
    unknown: dict[str, Position]
    problems: frozenset[str]
    applied: int
    breaks: Breaks = NO_BREAKS
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys that changes are about, as the table has them now. None where a change lies below a statement
    that has emptied the table: what such a change leaves in gold's history is not found by the keys of rows
    that go on. `unknown` and `problems` as in ModeRows.
    """

    keys: frozenset[Any] | None
    unknown: dict[str, Position]
    problems: frozenset[str]


@dataclass(frozen=True)
class Mode:
    """The rows of one gold table at one place, in its mode. `virtual`: rows carry VIRTUAL columns. Holds what
    follows from its fields alone.
    """

    lineage: Lineage
    at: Position
    upstream: Upstream
    clock: Clock
    options: GoldOptions
    virtual: bool = False

    @cached_property
    def word(self) -> str:
        """upsert, soft, history or append."""
        return mode_word(self.options)

    @cached_property
    def target(self) -> int:
        """The step whose schema the rows have."""
        return target_step(self.lineage, self.at)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The source's key, by column id."""
        return key_ids(self.lineage, self.target)

    @cached_property
    def shown(self) -> Shown:
        """What of a row is compared: what gold shows of it."""
        return shown_by(self.lineage.steps[self.target].schema, self.options, virtual=self.virtual)

    @cached_property
    def needed(self) -> dict[int, str]:
        """The columns, with their names, of which every row has to have a cell."""
        return needed_cells(self.lineage.steps[self.target].schema, self.options, virtual=self.virtual)

    @cached_property
    def _needed_at(self) -> Callable[[int], dict[int, str]]:
        """The same of a row in the schema of an earlier step: it has no cell of a later column."""

        @functools.cache
        def needed(step: int) -> dict[int, str]:
            there = needed_cells(self.lineage.steps[step].schema, PLAIN, virtual=self.virtual)
            return {column: name for column, name in self.needed.items() if column in there}

        return needed

    @cached_property
    def _keep(self) -> Keeper:
        return Keeper(self.lineage, self.target, self.upstream)

    @property
    def row_ids(self) -> tuple[int, ...]:
        """What identifies gold's rows: the key, and where a key has several rows, which of them it is."""
        return (*self.ids, *{"history": (FROM_TS,), "append": (POSITION,)}.get(self.word, ()), *self.tag)

    @property
    def tag(self) -> Row:
        """What all rows of a shard have: the shard's name."""
        if not self.options.merged:
            return {}
        return {SHARD: ".".join(self.lineage.name_at(self.at) or self.lineage.intervals[-1].name)}

    @property
    def advances(self) -> bool:
        """Whether gold's own rows are enough to go on from: they are found by a key that gold has
        as it is.
        """
        return bool(self.ids) and all(self._as_it_is.get(key) for key in self.ids)

    @property
    def shows_all(self) -> bool:
        """Whether gold has each cell of a row as it is, so that rows that differ differ there too."""
        return all(self._as_it_is.values())

    @cached_property
    def _as_it_is(self) -> dict[int, bool]:
        """By column, whether gold has its values as they are."""
        kept = kept_columns(self.lineage.steps[self.target].schema, virtual=self.virtual)
        said = {column.id: self.options.column(column.name) for column in kept}
        return {key: not (one.exclude or one.mask or one.hash) for key, one in said.items()}

    @cached_property
    def _moved(self) -> Position | None:
        """Up to where the last row of a log that has a key's values may be of another row of today."""
        return moved_keys(self.lineage, self.target) if rekeyings(self.lineage, self.target) else None

    def rows(self, changes: Iterable[Change]) -> ModeRows:
        """All rows of the table, from all of its changes."""
        if self.word == "upsert":
            folded = fold(self.lineage, changes, self.at, self.upstream)
            rows = finish(folded)
            problems = frozenset(folded.problems) | lacking_cells(rows, self.needed)
            return ModeRows(
                self._tagged(rows),
                folded.unknown,
                problems,
                folded.applied,
                breaks=folded.breaks,
                guessed=folded.guessed,
            )
        history = self._history(changes, (), 0, whole=True)
        if self.word == "append":
            rows = [self._log_row(entry) for entry in history.entries]
        elif self.word == "history":
            rows = list(self._version_rows(versions(history.entries, self.shown, keep=self._keep).values()))
        else:
            rows = self._soft_rows(last_known(history.entries).values())
        return self._result(rows, history)

    def tells_apart(self, known: Sequence[Row]) -> bool:
        """Whether gold's rows of some keys (of a log the last one each) say which row of a key goes on, and
        are found by their own keys. Not where gold's type can't hold a key, nor where rows lived side by side
        that had the same values before a statement made these their key.
        """
        if any(row_key(row, self.row_ids) is None for row in known):
            return False
        if self.word == "append":
            moved = self._moved
            return moved is None or all(_is_live(row) and row[POSITION] > moved for row in known)
        if self.word != "history":
            return True
        lives: dict[Any, list[tuple[int, int | None]]] = defaultdict(list)
        for row in known:
            lives[row_key(row, self.ids)].append((row[FROM_TS], row.get(TO_TS)))
        return all(
            until is not None and since < until <= following
            for told in lives.values()
            for (since, until), (following, _) in pairwise(sorted(told, key=itemgetter(0)))
        )

    def advance(
        self, changes: Iterable[Change], known: Iterable[Row], since: Position | None = None
    ) -> ModeRows:
        """The rows of the changed keys after a window's changes, no DDL lying among them; for `append` the
        new rows alone. `known` are gold's rows of these keys before (for `append` the last one of each), at
        `since`; None: they need not be the source's.
        """
        by_key: dict[Any, list[Row]] = defaultdict(list)
        for row in known:
            by_key[row_key(row, self.ids)].append(row)
        if self.word == "history":
            return self._advance_history(changes, by_key.values(), since)
        last = [rows[-1] for rows in by_key.values()]
        seeds = [Known(self._whole(source_part(row)), _is_live(row)) for row in last]
        history = self._history(changes, seeds, self.target, since)
        if self.word == "append":
            return self._result([self._log_row(entry) for entry in history.entries], history)
        return self._result(list(self._soft_rows_after(history.entries, last)), history)

    def _advance_history(
        self, changes: Iterable[Change], by_key: Iterable[list[Row]], since: Position | None
    ) -> ModeRows:
        known: dict[int, list[Version]] = {}
        for number, rows in enumerate(by_key, 1):
            before = [Version(source_part(row), self.target, row[FROM_TS], row.get(TO_TS)) for row in rows]
            known[number] = sorted(before, key=lambda version: version.since)
        seeds = [Known(self._whole(last.row), last.until is None) for *_, last in known.values()]
        history = self._history(changes, seeds, self.target, since)
        after = versions(history.entries, self.shown, known, keep=self._keep)
        return self._result(list(self._version_rows(after.values())), history)

    def _history(
        self,
        changes: Iterable[Change],
        known: Sequence[Known],
        step: int,
        since: Position | None = None,
        *,
        whole: bool = False,
    ) -> RowHistory:
        return row_history(
            self.lineage,
            changes,
            self.at,
            self.upstream,
            by_commit=self.clock.by_commit,
            shown=self.shown,
            known=known,
            step=step,
            whole=whole,
            since=since,
        )

    def _result(self, rows: list[Row], history: RowHistory) -> ModeRows:
        """Rows with what was found; of every image that was ever there, whether it lacks cells."""
        problems = set(history.problems)
        for step, entries in groupby(history.entries, key=attrgetter("step")):
            images = [entry.after for entry in entries if entry.after is not None]
            problems |= lacking_cells(images, self._needed_at(step))
        return ModeRows(
            self._tagged(rows),
            history.unknown,
            frozenset(problems),
            history.applied,
            breaks=history.breaks,
        )

    def _whole(self, row: Row) -> Row:
        """A row that gold has: a cell that is not there is null, or was found to be lacking before."""
        return {**dict.fromkeys(self.needed), **row}

    def _tagged(self, rows: list[Row]) -> list[Row]:
        return [row | self.tag for row in rows] if self.options.merged else rows

    def touched(self, changes: Iterable[Change]) -> Touched:
        """The keys that the changes are about."""
        edits = ChangeReader(self.lineage, self.target, self.upstream, self.ids).read(changes)
        keys = None if edits.cleared else frozenset(row_key(edit.row, self.ids) for edit in edits.edits)
        return Touched(keys and keys - {None}, edits.unknown, edits.problems)

    def differences(
        self, known: Iterable[Row], rows: Iterable[Row], *, exact: bool = True
    ) -> tuple[list[Row], list[Row]]:
        """What turns the known rows into the others: rows to put, and rows to take away. Not `exact`: some
        values of the known rows are in companions, and NULL here, so that every row is put.
        """
        had = {row_key(row, self.row_ids): plain(row) for row in known}
        has = {row_key(row, self.row_ids): row for row in rows}
        return [row for key, row in has.items() if not exact or had.get(key) != plain(row)], [
            row for key, row in had.items() if key not in has
        ]

    def log_above(self, rows: Iterable[Row], before: Position) -> list[Row]:
        """Those of a log's rows that are above a position."""
        return [row for row in rows if row[POSITION] > before]

    def of_keys(self, rows: Iterable[Row], keys: Iterable[Any]) -> list[Row]:
        """Those of the rows that have one of the keys."""
        wanted = frozenset(keys)
        return [row for row in rows if row_key(row, self.ids) in wanted]

    def is_late(self, change: Change, before: Position) -> bool:
        """Whether gold may have shown the change's commit already: it shows everything up to `before`."""
        if self.clock.by_commit and not self.options.plain:
            return change.position[:2] <= before[:2]
        return change.position <= before

    def _log_row(self, entry: Entry) -> Row:
        row = self._keep(entry.after if entry.after is not None else entry.before or {}, entry.step)
        row[OP], row[COMMIT_TS], row[COMMITTED_AT] = entry.op, entry.time, self.clock.moment(entry.time)
        row[POSITION] = entry.position
        return row

    def _version_rows(self, by_row: Iterable[list[Version]]) -> Iterator[Row]:
        for version in (version for of_row in by_row for version in of_row):
            row = self._keep(version.row, version.step)
            row[VALID_FROM], row[FROM_TS] = self.clock.moment(version.since), version.since
            row[CURRENT] = version.until is None
            row[VALID_TO], row[TO_TS] = self.clock.moment(version.until), version.until
            yield row

    def _soft_rows(self, every: Iterable[Last]) -> list[Row]:
        """One row per key; after a change of the key several may have one, of which the live row is shown,
        else the one that was deleted last.
        """
        found: dict[Any, tuple[Last, Row]] = {}
        rows = []
        for last in every:
            row = self._soft_row(last)
            key = row_key(row, self.ids) if self.ids else None
            if key is None:
                rows.append(row)
            elif key not in found or _standing(last) > _standing(found[key][0]):
                found[key] = last, row
        return [*rows, *(row for _, row in found.values())]

    def _soft_rows_after(self, entries: Iterable[Entry], known: Sequence[Row]) -> Iterator[Row]:
        """One row per key after the entries; `known` are gold's rows before, which stay as they are where
        nothing has changed.
        """
        before = {
            number: Last(source_part(row), self.target, None, _is_live(row))
            for number, row in enumerate(known, 1)
        }
        for number, last in last_known(entries, before).items():
            yield known[number - 1] if last.place is None else self._soft_row(last)

    def _soft_row(self, last: Last) -> Row:
        row = self._keep(last.row, last.step)
        row[DELETED], row[DELETED_AT] = not last.live, self.clock.moment(last.gone)
        return row


def _standing(last: Last) -> tuple[bool, Position, str]:
    """Which of rows with one key is shown: by position, since a clock may run backwards."""
    return last.live, last.place or MIN_POSITION, image_text(last.row)


def _is_live(row: Row) -> bool:
    return not row[DELETED] if DELETED in row else row[OP] != "delete"
