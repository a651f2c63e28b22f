"""Upcasting: a row's image from the schema at its own position to a later one, by column ids.

An image comes from silver as {name: value}. Here it becomes {column id: canonical value}: names are looked up
and values resolved by the schema in force at the row's position, then the effects of every later DDL are
applied in order. Renames and reorders are nothing, since ids stay.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from lakehouse.ddl_effects import (
    Clear,
    Drop,
    Effect,
    Fill,
    Forget,
    ImpliedFill,
    NullsLost,
    Numbered,
    RemoveRows,
    Retype,
    UnknownFill,
)
from lakehouse.events import Position
from lakehouse.fold.continuity import Continuity
from lakehouse.lineage import Lineage
from lakehouse.schema import ColumnType, TableSchema
from lakehouse.values.convert import UNKNOWABLE, compile_convert, may_be_unknowable, reason
from lakehouse.values.decode_with_schema import resolver
from lakehouse.values.defaults import default_value, zero_value
from lakehouse.values.gold_types import spark_type, to_canonical, to_python
from lakehouse.values.partition_membership import decidable, partition_of

Row = dict[int, Any]
Move = Callable[[Row], Row | None]
# where a move leaves what it could not convert or decide, in words. No column has this id
LOST = 0


class Was(str):
    """The text of a value that its column's present type can't hold, for the companion column."""

    __slots__ = ()


class Upstream(NamedTuple):
    """What values depend on beside their types: the zone of TIMESTAMP text in DDL, and whose conversion rules
    hold (mysql, mariadb or tidb), of which version where that is said (`10.6` is (10, 6)). `continuity`: what
    changes say of the rows before them, on which no value depends. `charset`: the server's default, which
    columns have whose database and statements name none. `mixes_names`: the producer may mix up columns that
    exchange their names; `hides_sessions`: it does not tell the database of a statement's session.
    """

    zone: str = "UTC"
    server: str = "mysql"
    version: tuple[int, ...] = ()
    continuity: Continuity = Continuity()
    charset: str | None = None
    mixes_names: bool = False
    hides_sessions: bool = False

    @property
    def mark(self) -> str:
        """What of it a table is folded again for: "" where the zone is UTC, nobody has said whose rules hold,
        and the topic is not compacted, as older lakes have it.
        """
        said = self.server == "mariadb" or self.version
        zone = "" if self.zone == "UTC" else f" {self.zone}"
        compacted = " compacted" if self.continuity.compacted else ""
        charset = f" {self.charset}" if self.charset else ""
        return (f" {self.server}{self.version}" if said else "") + zone + compacted + charset


class Carrier:
    """Carries images of one step of a lineage, in one encoding, to a target step. Compiled once, applied per
    row.

    `unknown` are the names that were looked up since `take_unknown`, and that the schema does not have: a DDL
    that is still to come, or was filtered upstream. Each name is looked up once. `lost` says which values no
    rule has converted since `take_lost`: their cells are NULL. `nulls` are the names of text, binary and JSON
    columns that are NOT NULL and have come as NULL: what was there, some producers write so.
    """

    def __init__(self, lineage: Lineage, source: int, target: int, encoding: str, upstream: Upstream) -> None:
        self.unknown: set[str] = set()
        self.lost: set[str] = set()
        self.nulls: set[str] = set()
        self._schema = lineage.steps[source].schema
        self._gone: Row = dict.fromkeys(column.id for column in self._schema.keeps.dropped)
        self._sent = frozenset(c.id for c in self._schema.columns if c.generated != "virtual")
        self._never_null = frozenset(c.id for c in self._schema.columns if c.is_never_null)
        self._encoding = encoding
        self._columns: dict[str, tuple[int, Callable[[Any], Any] | None] | None] = {}
        self._moves = compile_moves(lineage, source, target, upstream)

    def __call__(self, image: Mapping[str, Any]) -> Row | None:
        """The image at the target, or None where a DDL in between removed the row."""
        row: Row = self._gone.copy()
        columns = self._columns
        for name, value in image.items():
            try:
                found = columns[name]
            except KeyError:
                found = self._look_up(name)
            if found is not None:
                column_id, resolve = found
                row[column_id] = value if resolve is None or value is None else resolve(value)
                if value is None and column_id in self._never_null:
                    self.nulls.add(name)
        return self.move(row)

    def tells_all(self, image: Mapping[str, Any]) -> bool:
        """Whether an image that was carried has every column of its schema; VIRTUAL ones are in no log."""
        found = (self._columns.get(name) for name in image)
        return self._sent <= {column[0] for column in found if column is not None}

    def take_unknown(self) -> set[str]:
        """The unknown names in the images since the last call; each name is returned once."""
        taken, self.unknown = self.unknown, set()
        return taken

    def take_lost(self) -> frozenset[str]:
        """What no rule has converted in the images since the last call."""
        taken, self.lost = frozenset(self.lost), set()
        return taken

    def move(self, row: Row) -> Row | None:
        """Apply the effects between source and target to a row that is already by id."""
        moved: Row | None = row
        for step in self._moves:
            moved = step(row)
            if moved is None:
                return None
            row = moved
        if LOST in row:
            self.lost |= row.pop(LOST)
        return row

    def _look_up(self, name: str) -> tuple[int, Callable[[Any], Any] | None] | None:
        column = self._schema.column(name)
        found = None if column is None else (column.id, resolver(column.type, self._encoding))
        if column is None:
            self.unknown.add(name)
        self._columns[name] = found
        return found


def compile_moves(lineage: Lineage, source: int, target: int, upstream: Upstream) -> list[Move]:
    """The effects of the steps source+1 … target, as functions over rows."""
    moves = []
    for index in range(source + 1, target + 1):
        before = lineage.steps[index - 1].schema
        moves += [
            move
            for effect in lineage.steps[index].effects
            if (move := _move(effect, before, upstream)) is not None
        ]
    return moves


def _move(effect: Effect, before: TableSchema, upstream: Upstream) -> Move | None:
    match effect:
        case Fill():
            return _fill(effect, upstream)
        case ImpliedFill() | NullsLost():
            return _by_server(effect, upstream)
        case Drop() | Forget():
            return _drop(effect.column_id)
        case Retype():
            return _retype(effect, before, upstream)
        case Numbered():
            return _marking(effect.problem, lambda row: row.get(effect.column_id) == 0)
        case UnknownFill():
            return _marking(effect.problem, lambda row: effect.column_id not in row)
        case RemoveRows():
            return _remove_rows(effect, before)
        case Clear():
            return lambda row: None
        case _:
            return None


def _fill(effect: Fill, upstream: Upstream) -> Move:
    value = default_value(effect.default, effect.type, effect.not_null, upstream.zone, server=upstream.server)
    if value is UNKNOWABLE:
        return lambda row: row  # the cell stays absent: not known is another thing than NULL

    def move(row: Row) -> Row:
        # TiCDC writes old images in the new shape, so the column may be there already
        row.setdefault(effect.column_id, value)
        return row

    return move


def _by_server(effect: ImpliedFill | NullsLost, upstream: Upstream) -> Move | None:
    why, column = effect.unknown(upstream.server, upstream.version), effect.column_id
    if why is None:
        if isinstance(effect, NullsLost):
            return None
        return _fill(effect.fill(upstream.server, upstream.version), upstream)
    sought = UNKNOWABLE if isinstance(effect, ImpliedFill) else None  # no cell, or a NULL in it
    return _marking(f"{effect.about}{why}", lambda row: row.get(column, UNKNOWABLE) is sought)


def _marking(problem: str, is_about: Callable[[Row], bool]) -> Move:
    """Mark the rows that a problem is about."""
    lost = frozenset({problem})

    def move(row: Row) -> Row:
        if is_about(row):
            row[LOST] = row.get(LOST, frozenset()) | lost
        return row

    return move


def _drop(column_id: int) -> Move:
    def move(row: Row) -> Row:
        row.pop(column_id, None)
        return row

    return move


def _retype(effect: Retype, before: TableSchema, upstream: Upstream) -> Move | None:
    change = compile_convert(effect.old, effect.new, server=upstream.server, zone=upstream.zone)
    what = retyping(effect, before)
    zero = zero_value(effect.new, server=upstream.server) if effect.not_null else None
    if change is None and zero is None:
        return None

    def move(row: Row) -> Row:
        if effect.column_id not in row:
            return row
        value = row[effect.column_id]
        if value is None:
            row[effect.column_id] = zero
        elif change is not None:
            new = change(value)
            row[effect.column_id] = None if new is UNKNOWABLE else zero if new is None else new
            if new is UNKNOWABLE:
                why = reason(value, effect.old, effect.new, server=upstream.server, zone=upstream.zone)
                row[LOST] = row.get(LOST, frozenset()) | {f"{what}: {why}"}
        return row

    return move


def retyping(effect: Retype, before: TableSchema) -> str:
    """The column and the types of a conversion, in words."""
    column = before.by_id(effect.column_id)
    name = str(effect.column_id) if column is None else column.name
    return f"column {name}, {effect.old} to {effect.new}"


def may_lose(lineage: Lineage, index: int, upstream: Upstream) -> bool:
    """Whether the DDL of a step may find values that no rule converts, or rows of which it is not known
    whether it removes them. What it makes of a row that is gone by then must count for nothing, and a row
    goes with its partition by what it is then, not by an image that it had: rows are folded up to it first.
    """
    return any(_may_lose(effect, upstream) for effect in lineage.steps[index].effects)


def _may_lose(effect: Effect, upstream: Upstream) -> bool:
    if isinstance(effect, ImpliedFill | NullsLost):
        return effect.unknown(upstream.server, upstream.version) is not None
    if isinstance(effect, Retype):
        return may_be_unknowable(effect.old, effect.new, server=upstream.server)
    return isinstance(effect, RemoveRows | Numbered | UnknownFill)


def lost_since(lineage: Lineage, problem: str, at: Position) -> Position | None:
    """The DDL whose effect on rows a problem at `at` is about, None where it is about something else: the
    first one since the table was emptied last, for what was there before is told no more.
    """
    places = [
        step.position
        for before, step in pairwise(lineage.steps)
        for effect in step.effects
        if step.position <= at and _is_about(effect, before.schema, problem)
    ]
    cleared = lineage.cleared_at(at)
    return min((place for place in places if place > cleared), default=min(places, default=None))


def _is_about(effect: Effect, before: TableSchema, problem: str) -> bool:
    match effect:
        case RemoveRows():
            return problem == unknown_members(effect)
        case Numbered() | UnknownFill():
            return problem == effect.problem
        case Retype():
            return problem.startswith(f"{retyping(effect, before)}: ")
        case ImpliedFill() | NullsLost():
            return problem.startswith(effect.about)
    return False


def _remove_rows(effect: RemoveRows, before: TableSchema) -> Move | None:
    if not decidable(effect.rule):
        return None
    columns = [column for key in effect.rule.columns if (column := before.by_id(key)) is not None]
    types = [column.type for column in columns]

    def move(row: Row) -> Row | None:
        if any(column.id not in row for column in columns):
            row[LOST] = row.get(LOST, frozenset()) | {unknown_members(effect)}
            return row  # whether it was there is not known
        values = [row[column.id] for column in columns]
        return None if partition_of(effect.rule, values, types) in effect.partitions else row

    return move


def unknown_members(effect: RemoveRows) -> str:
    """What is wrong where nothing tells which rows a statement has removed."""
    return f"partition {', '.join(effect.partitions)}: no message tells whether some rows were in it"


class Moved(NamedTuple):
    """A row after some moves, None where one of them has removed it, and what of it no rule has decided."""

    row: Row | None
    lost: frozenset[str] = frozenset()


class RowMover:
    """Takes whole rows, not images, from one step of a lineage to a later one. Holds what it has compiled."""

    def __init__(self, lineage: Lineage, upstream: Upstream) -> None:
        self._lineage, self._upstream = lineage, upstream
        self._carriers: dict[tuple[int, int], Carrier] = {}

    def move(self, row: Row, source: int, target: int) -> Moved:
        """The row at the target step; the given one is changed."""
        carrier = self._carriers.get((source, target))
        if carrier is None:
            carrier = Carrier(self._lineage, source, target, "canonical", upstream=self._upstream)
            self._carriers[source, target] = carrier
        return Moved(carrier.move(row), carrier.take_lost())


def compile_kept(lineage: Lineage, source: int, target: int, upstream: Upstream) -> list[Move]:
    """What the steps source+1 … target make of an image of the past, which stays what it was: dropped columns
    go, a column that came later is absent, and a value whose conversion loses something is kept as it is, or
    as its text.
    """
    effects = [effect for index in range(source + 1, target + 1) for effect in lineage.steps[index].effects]
    moves: list[Move] = []
    for effect in effects:
        if isinstance(effect, Drop):
            moves.append(_drop(effect.column_id))
        elif isinstance(effect, Retype) and (move := _kept_retype(effect, upstream)) is not None:
            moves.append(move)
    return moves


def _kept_retype(effect: Retype, upstream: Upstream) -> Move | None:
    change = compile_convert(effect.old, effect.new, server=upstream.server, zone=upstream.zone)
    if change is None:
        return None
    back = compile_convert(effect.new, effect.old, server=upstream.server, zone=upstream.zone)

    def move(row: Row) -> Row:
        value = row.get(effect.column_id)
        if value is None or isinstance(value, Was):
            return row
        new = change(value)
        if new is not UNKNOWABLE and (new if back is None else back(new)) == value:
            row[effect.column_id] = new
        elif not _holds(effect.new, value):
            row[effect.column_id] = Was(source_text(value))
        return row

    return move


def _holds(column_type: ColumnType, value: Any) -> bool:
    """Whether gold's type has exactly this value."""
    try:
        return bool(
            to_canonical(column_type)(to_python(column_type, spark_type(column_type))(value)) == value
        )
    except ValueError:
        return False


def source_text(value: Any) -> str:
    """The source's text of a canonical value, or of what may be one; bytes that are no text of their charset
    as base64.
    """
    if isinstance(value, dict) and (value.keys() == {"base64"} or value.keys() == {"text"}):
        return str(*value.values())
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
