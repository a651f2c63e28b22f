"""Gold's rows in each mode, with the columns that are gold's own: from all of a lineage's changes, or on from
what gold has.

    soft      _deleted, _deleted_at
    history   _valid_from, _valid_to, _current, and the exact bounds _from_ts and _to_ts, in the feed's own
              commit times
    append    _op, _commit_ts, _committed_at, _position

Own columns have negative ids, so that rows, typing and merging treat them as any other. Where the source has
a column of that name, the own one has an underscore more.
"""

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.current_rows import finish, fold, target_step
from lakehouse.fold.row_edits import Change, ChangeReader, row_key
from lakehouse.fold.row_history import Known, plain, row_history
from lakehouse.fold.tracks import Entry, Shown
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.fold.versions import Keeper, Last, Version, last_known, versions
from lakehouse.gold.columns import GoldColumn, gold_column
from lakehouse.gold.masks import Mask, Masked, mask_of
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage, key_ids
from lakehouse.schema import Column, TableSchema, parse_type

DELETED, DELETED_AT = -1, -2
VALID_FROM, VALID_TO, CURRENT, FROM_TS, TO_TS = -3, -4, -5, -6, -7
OP, COMMIT_TS, COMMITTED_AT, POSITION = -8, -9, -10, -11
SHARD, COMPUTED = -12, -13
PARTS = ("epoch", "p1", "p2", "p3", "p4", "p5")
_TYPES = {
    DELETED: ("_deleted", "BOOLEAN"),
    DELETED_AT: ("_deleted_at", "TIMESTAMP"),
    VALID_FROM: ("_valid_from", "TIMESTAMP"),
    VALID_TO: ("_valid_to", "TIMESTAMP"),
    CURRENT: ("_current", "BOOLEAN"),
    FROM_TS: ("_from_ts", "BIGINT"),
    TO_TS: ("_to_ts", "BIGINT"),
    OP: ("_op", "STRING"),
    COMMIT_TS: ("_commit_ts", "BIGINT"),
    COMMITTED_AT: ("_committed_at", "TIMESTAMP"),
    POSITION: ("_position", f"STRUCT<{', '.join(f'{part}: BIGINT' for part in PARTS)}>"),
    SHARD: ("_shard", "STRING"),
}
_OF_MODE = {
    "soft": (DELETED, DELETED_AT),
    "history": (VALID_FROM, VALID_TO, CURRENT, FROM_TS, TO_TS),
    "append": (OP, COMMIT_TS, COMMITTED_AT, POSITION),
    "upsert": (),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(NamedTuple):
    """What a feed's commit times are. `by_commit`: positions are (epoch, commit_ts, rank), and one commit_ts
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


def mode_word(options: GoldOptions) -> str:
    return "soft" if options.mode == "upsert" and options.deletes == "soft" else options.mode


def own_columns(options: GoldOptions, taken: Iterable[str]) -> list[GoldColumn]:
    """The columns that the mode adds, behind the source's, whose names are `taken`."""
    names = {name.casefold() for name in taken}
    ids = [*_OF_MODE[mode_word(options)], *([SHARD] if options.merged else [])]
    return [own_column(column_id, names) for column_id in ids]


def own_column(column_id: int, taken: set[str]) -> GoldColumn:
    name, spark = _TYPES[column_id]
    while name.casefold() in taken:
        name = f"_{name}"
    base = "timestamp(3)" if spark == "TIMESTAMP" else "varchar(64)"
    column = Column(column_id, name, parse_type(base))
    to_python = (lambda value: dict(zip(PARTS, value, strict=True))) if column_id == POSITION else _same
    return GoldColumn(column, spark, to_python, _PRINTED.get(spark[:6], _same), "")


def remade(column: Column, spark: str, companion: str, mask: str | None) -> GoldColumn:
    """A gold column from what is plain data, so that workers can make it."""
    if column.id > 0:
        return gold_column(column, spark, companion, mask)
    return replace(own_column(column.id, set()), column=column)


def computed_column(name: str) -> GoldColumn:
    """A column that Spark computes, as it is printed: whatever JSON has no word for, as text."""
    return GoldColumn(Column(COMPUTED, name, parse_type("varchar(64)")), "", _same, _printed_value, "")


def _printed_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None)}Z"
    if isinstance(value, list):
        return [_printed_value(item) for item in value]
    if isinstance(value, dict):
        return {name: _printed_value(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _same(value: Any) -> Any:
    return value


def _printed_moment(value: datetime) -> str:
    text = value.astimezone(UTC) if value.tzinfo else value
    return f"{text:%Y-%m-%d %H:%M:%S}.{text.microsecond // 1000:03d}Z"


_PRINTED: Mapping[str, Callable[[Any], Any]] = {
    "TIMEST": _printed_moment,
    "STRUCT": lambda value: [value[part] for part in PARTS],
}


class Mode:
    """The rows of one gold table at one place, in its mode."""

    def __init__(
        self, lineage: Lineage, at: Position, upstream: Upstream, clock: Clock, options: GoldOptions
    ) -> None:
        self.lineage, self.at, self.upstream, self.clock, self.options = lineage, at, upstream, clock, options
        self.word = mode_word(options)
        self.target = target_step(lineage, at)
        self.ids = key_ids(lineage, self.target)
        self.shown = shown_by(lineage.steps[self.target].schema, options)
        self.keep = Keeper(lineage, self.target, upstream)
        self.unknown: dict[str, Position] = {}
        self.problems: set[str] = set()
        self.applied = 0

    @property
    def row_ids(self) -> tuple[int, ...]:
        """What tells gold's rows apart: the key, and where a row has several, which of them it is."""
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
        schema = self.lineage.steps[self.target].schema
        names = [column.name for key in self.ids if (column := schema.by_id(key)) is not None]
        said = [self.options.column(name) for name in names]
        return bool(names) and not any(option.exclude or option.mask or option.hash for option in said)

    def rows(self, changes: Iterable[Change]) -> list[Row]:
        """All rows of the table, from all of its changes."""
        return [row | self.tag for row in self._rows(changes)] if self.options.merged else self._rows(changes)

    def _rows(self, changes: Iterable[Change]) -> list[Row]:
        if self.word == "upsert":
            folded = fold(self.lineage, changes, self.at, self.upstream)
            self.unknown, self.applied = folded.unknown, folded.applied
            self.problems |= folded.problems
            return finish(folded)
        entries = self._entries(changes)
        if self.word == "append":
            return [self._log_row(entry) for entry in entries]
        if self.word == "history":
            return [
                self._version_row(version)
                for told in versions(entries, self.shown).values()
                for version in told
            ]
        return self._soft_rows(last_known(entries).values())

    def advance(self, changes: Iterable[Change], known: Iterable[Row]) -> list[Row]:
        """The rows of the touched keys after a window's changes, none of which lies beside a DDL; for
        `append` the new rows alone. `known` are gold's rows of these keys before (for `append` the last one
        of each).
        """
        return [row | self.tag for row in self._advance(changes, known)]

    def _advance(self, changes: Iterable[Change], known: Iterable[Row]) -> list[Row]:
        by_key: dict[Any, list[Row]] = defaultdict(list)
        for row in known:
            by_key[row_key(row, self.ids)].append(row)
        if self.word == "history":
            return self._advance_history(changes, by_key)
        seeded = {number: rows[-1] for number, rows in enumerate(by_key.values(), 1)}
        entries = self._entries(
            changes, [Known(source_part(row), self._is_live(row)) for row in seeded.values()], self.target
        )
        if self.word == "append":
            return [self._log_row(entry) for entry in entries]
        before = {
            number: Last(source_part(row), self.target, None, self._is_live(row))
            for number, row in seeded.items()
            if DELETED in row
        }
        after = last_known(entries, before)
        rows = []
        for number, last in after.items():
            unchanged = number in seeded and before.get(number) == last
            rows.append(seeded[number] if unchanged else self._soft_row(last))
        return rows

    def _advance_history(self, changes: Iterable[Change], by_key: dict[Any, list[Row]]) -> list[Row]:
        known: dict[int, list[Version]] = {}
        for number, rows in enumerate(by_key.values(), 1):
            told = [Version(source_part(row), self.target, row[FROM_TS], row.get(TO_TS)) for row in rows]
            known[number] = sorted(told, key=lambda version: version.since)
        last = [Known(told[-1].row, told[-1].until is None) for told in known.values()]
        entries = self._entries(changes, last, self.target)
        return [
            self._version_row(version)
            for told in versions(entries, self.shown, known).values()
            for version in told
        ]

    def differences(self, known: Iterable[Row], rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
        """What makes the known rows the others: rows to put, and rows to take away."""
        had = {row_key(row, self.row_ids): plain(row) for row in known}
        has = {row_key(row, self.row_ids): row for row in rows}
        return [row for key, row in has.items() if had.get(key) != plain(row)], [
            row for key, row in had.items() if key not in has
        ]

    def of_keys(self, rows: Iterable[Row], keys: set[Any]) -> list[Row]:
        return [row for row in rows if row_key(row, self.ids) in keys]

    def is_late(self, change: Change, before: Position) -> bool:
        """Whether gold may have told of the change's commit already: it has told of everything up to
        `before`.
        """
        return (
            change.position[:2] <= before[:2]
            if self.clock.by_commit and not self.options.plain
            else change.position <= before
        )

    def touched(self, changes: Iterable[Change]) -> set[Any] | None:
        """The keys that the changes speak of, as the table has them now. None where one lies below a
        statement that has emptied the table: what it leaves in gold's history is not found by the keys of
        rows that go on.
        """
        found = ChangeReader(self.lineage, self.target, self.upstream, self.ids).read(changes)
        self.unknown = {**found.unknown, **self.unknown}
        self.problems |= found.problems
        return None if found.cleared else {row_key(edit.row, self.ids) for edit in found.edits} - {None}

    def _entries(self, changes: Iterable[Change], known: Sequence[Known] = (), step: int = 0) -> list[Entry]:
        history = row_history(
            self.lineage,
            changes,
            self.at,
            self.upstream,
            by_commit=self.clock.by_commit,
            shown=self.shown,
            known=known,
            step=step,
        )
        self.unknown = {**history.unknown, **self.unknown}
        self.applied += history.applied
        return history.entries

    def _is_live(self, row: Row) -> bool:
        return not row[DELETED] if DELETED in row else row[OP] != "delete"

    def _log_row(self, entry: Entry) -> Row:
        row = self.keep(entry.after if entry.after is not None else entry.before or {}, entry.step)
        row[OP], row[COMMIT_TS], row[COMMITTED_AT] = entry.op, entry.time, self.clock.moment(entry.time)
        row[POSITION] = entry.position
        return row

    def _version_row(self, version: Version) -> Row:
        row = self.keep(version.row, version.step)
        row[VALID_FROM], row[FROM_TS], row[CURRENT] = (
            self.clock.moment(version.since),
            version.since,
            version.until is None,
        )
        row[VALID_TO], row[TO_TS] = self.clock.moment(version.until), version.until
        return row

    def _soft_rows(self, told: Iterable[Last]) -> list[Row]:
        """One row per key; after a change of the key several may have one, of which the live one stands."""
        found: dict[Any, Row] = {}
        rows = []
        for last in sorted(told, key=lambda last: last.live):
            row = self._soft_row(last)
            key = row_key(row, self.ids) if self.ids else None
            if key is None:
                rows.append(row)
            else:
                found[key] = row
        return [*rows, *found.values()]

    def _soft_row(self, last: Last) -> Row:
        row = self.keep(last.row, last.step)
        row[DELETED], row[DELETED_AT] = not last.live, self.clock.moment(last.gone)
        return row


def source_part(row: Row) -> Row:
    """A row of gold without gold's own columns."""
    return {column_id: value for column_id, value in row.items() if column_id > 0}


def shown_by(schema: TableSchema, options: GoldOptions) -> Shown:
    """What of a row is compared: what gold shows of it."""
    said = {column.id: (options.column(column.name), column.type) for column in schema.columns}
    hidden = {column_id for column_id, (option, _) in said.items() if option.exclude}
    masks: dict[int, Mask] = {}
    for column_id, (option, column_type) in said.items():
        if word := "sha256" if option.hash else option.mask:
            masks[column_id] = mask_of(word, column_type)
    if not hidden and not masks:
        return plain

    def shown(row: Row) -> Any:
        seen = {
            name: masks[name](value) if name in masks else value
            for name, value in plain(row).items()
            if name not in hidden
        }
        return plain(seen)

    return shown


def canonical_rows(columns: list[GoldColumn], values: Mapping[str, list[Any]], count: int) -> list[Row]:
    """Rows of a gold table, told column by column, as rows by id again. Values that a mask made are known as
    such.
    """
    read = [(column, values[column.name]) for column in columns if column.name in values]
    return [
        {column.column.id: _read(column, told[index]) for column, told in read if told[index] is not None}
        for index in range(count)
    ]


def _read(column: GoldColumn, value: Any) -> Any:
    if column.column.id == POSITION:
        return tuple(value[part] for part in PARTS)
    if column.column.id < 0:
        return value
    return Masked(value) if column.mask is not None else column.to_canonical(value)
