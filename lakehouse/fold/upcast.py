"""Taking a row's image from the schema at its own position to a later one, by column ids.

An image comes from silver as {name: value}. Here it becomes {column id: canonical value}: names are looked up
and values resolved by the schema in force at the row's position, then the effects of every later DDL are
applied in order. Renames and reorders are nothing, since ids stay.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from lakehouse.ddl_effects import Clear, Drop, Effect, Fill, Forget, RemoveRows, Retype
from lakehouse.lineage import Lineage
from lakehouse.schema import ColumnType, TableSchema
from lakehouse.values.convert import UNKNOWABLE, compile_convert
from lakehouse.values.decode_with_schema import resolver
from lakehouse.values.defaults import default_value, zero_value
from lakehouse.values.gold_types import spark_type, to_canonical, to_python
from lakehouse.values.partition_membership import decidable, partition_of

Row = dict[int, Any]
Move = Callable[[Row], Row | None]


class Was(str):
    """The text of a value that its column's type of today can't hold: it stands in the raw companion."""

    __slots__ = ()


class Upstream(NamedTuple):
    """What values depend on beside their types: the zone of TIMESTAMP text in DDL, and whose conversion rules
    hold (mysql, mariadb or tidb).
    """

    zone: str = "UTC"
    server: str = "mysql"


class Carrier:
    """Carries images of one step of a lineage, in one encoding, to a target step. Compiled once, applied per
    row.

    `unknown` are the names that were looked up since `take_unknown`, and that the schema does not have: a DDL
    that is still to come, or was filtered upstream. Each name is looked up once.
    """

    def __init__(self, lineage: Lineage, source: int, target: int, encoding: str, upstream: Upstream) -> None:
        self.unknown: set[str] = set()
        self._schema = lineage.steps[source].schema
        self._gone: Row = dict.fromkeys(column.id for column in self._schema.keeps.dropped)
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
        return self.move(row)

    def take_unknown(self) -> set[str]:
        """The unknown names of the images since the last call: each name is given out once."""
        taken, self.unknown = self.unknown, set()
        return taken

    def move(self, row: Row) -> Row | None:
        """Apply the effects between source and target to a row that is already by id."""
        moved: Row | None = row
        for step in self._moves:
            moved = step(row)
            if moved is None:
                return None
            row = moved
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
        case Drop() | Forget():
            return _drop(effect.column_id)
        case Retype():
            return _retype(effect, upstream)
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


def _drop(column_id: int) -> Move:
    def move(row: Row) -> Row:
        row.pop(column_id, None)
        return row

    return move


def _retype(effect: Retype, upstream: Upstream) -> Move | None:
    change = compile_convert(effect.old, effect.new, server=upstream.server, zone=upstream.zone)
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
            row[effect.column_id] = None if new is UNKNOWABLE else new
        return row

    return move


def _remove_rows(effect: RemoveRows, before: TableSchema) -> Move | None:
    if not decidable(effect.rule):
        return None
    columns = [column for key in effect.rule.columns if (column := before.by_id(key)) is not None]
    types = [column.type for column in columns]

    def move(row: Row) -> Row | None:
        values = [row.get(column.id) for column in columns]
        return None if partition_of(effect.rule, values, types) in effect.partitions else row

    return move


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
    """The source's text of a canonical value; bytes that are no text of their charset as base64."""
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return str(value["base64"])
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
