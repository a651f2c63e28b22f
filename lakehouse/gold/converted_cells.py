"""What a column's cells in gold become by a DDL that converts them: by the rules of `lakehouse/values`, value
by value, and for numbers and shortened text as one expression of Spark SQL, which costs a fraction of that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from lakehouse.ddl_effects import Retype
from lakehouse.fold.upcast import LOST, Row, Upstream, compile_moves
from lakehouse.gold.columns import gold_column
from lakehouse.lineage import Lineage
from lakehouse.schema import INTEGER_BITS, Column, ColumnType
from lakehouse.values.convert import is_identity
from lakehouse.values.gold_types import spark_type
from lakehouse.values.normal_form import PRINTED

# so many values of a column are converted once, wherever they are
_CELLS = 1 << 16
# digits of Spark's widest DECIMAL
_DIGITS = 38
_NUMBERS = ("integer", "decimal")
# each statement on a number repeats the expression that it converts
_LONGEST = 4_000
# digits of the types that gold has for integers
_HELD_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19, "DECIMAL(20,0)": 20}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A column whose cells the statements of some steps convert: the column and gold's type before and after.
    It is plain data, so that workers can make its rule.
    """

    lineage: Lineage
    steps: tuple[int, int]
    upstream: Upstream
    old: tuple[Column, str]
    new: tuple[Column, str]

    def rule(self) -> Callable[[Any], Any]:
        """What gold has of a cell after the statements, by what it has before. ValueError where it can't hold
        that.
        """
        moves = compile_moves(self.lineage, *self.steps, self.upstream)
        old, new = (gold_column(*told, companion="") for told in (self.old, self.new))
        place = old.column.id

        def convert(value: Any) -> Any:
            row: Row = {place: old.to_canonical(value)}
            for move in moves:
                moved = move(row)
                if moved is None or LOST in moved:
                    raise ValueError("a cell that no rule converts")
                row = moved
            return None if row[place] is None else new.to_python(row[place])

        return lru_cache(_CELLS)(convert)

    def sql(self, cell: str) -> str | None:
        """The same in Spark SQL, of the expression `cell`; None where none is known that gives what `rule`
        gives.
        """
        (column, held), (_, wanted) = self.old, self.new
        told = Typed(cell, held)
        for step in self.lineage.steps[self.steps[0] + 1 : self.steps[1] + 1]:
            for effect in step.effects:
                if not (isinstance(effect, Retype) and effect.column_id == column.id):
                    continue
                found = _converted(told, effect, self.upstream.server)
                if found is None or len(found.text) > _LONGEST:
                    return None
                told = found
        # where gold has a number as text, that is no text of the source's
        is_held = [(kind == "STRING") == (one.type.family == "text") for one, kind in (self.old, self.new)]
        return f"CAST({told.text} AS {wanted})" if all(is_held) else None


class Typed(NamedTuple):
    """An expression and its type."""

    text: str
    type: str


def _converted(cell: Typed, effect: Retype, server: str) -> Typed | None:
    """A cell behind one statement; None where no expression is known."""
    old, new = effect.old, effect.new
    if {old.base, new.base} & PRINTED.keys():
        return None
    found: Typed | None = None
    if old.family in _NUMBERS and new.family in _NUMBERS:
        found = cell if is_identity(old, new) else _number(cell.text, old, new, server)
    elif old.family == new.family == "text":
        found = cell if is_identity(old, new) else _text(cell.text, new)
    if found is None or not effect.not_null:
        return found
    zero = "0" if new.family in _NUMBERS else "''"
    # of the same type: an integer beside a decimal would take digits from it
    return Typed(f"coalesce({found.text}, CAST({zero} AS {found.type}))", found.type)


def _number(cell: str, old: ColumnType, new: ColumnType, server: str) -> Typed | None:
    """Rounded half away from zero to the new type's scale, and clipped to its range
    (lakehouse/values/store_assignment/numbers.py): in a type that holds both types' values.
    """
    (low, high), scale = _range(new), _scale(new)
    if old.family == "decimal" and new.family == "integer" and server == "mysql":
        low, high = max(low, Decimal(-1 << 63)), min(high, Decimal((1 << 63) - 1))
    fraction = max(_scale(old), scale)
    digits = max(_whole_digits(old), _whole_digits(new)) + 1 + fraction  # 9.9 may become 10
    if digits > _DIGITS:
        return None
    wide = f"DECIMAL({digits},{fraction})"
    told = f"CAST({cell} AS {wide})"
    rounded = f"CAST(round({told}, {scale}) AS {wide})" if scale < _scale(old) else told
    least, most = (f"CAST({bound:f}BD AS {wide})" for bound in (low, high))
    # these two pass over NULL
    return Typed(f"if({cell} IS NULL, NULL, least(greatest({rounded}, {least}), {most}))", wide)


def _scale(type_: ColumnType) -> int:
    return (type_.scale or 0) if type_.family == "decimal" else 0


def _whole_digits(type_: ColumnType) -> int:
    """The most digits in front of the point that gold's type has: messages may tell more than the source's
    own type allows.
    """
    if type_.family == "integer":
        return _HELD_DIGITS[spark_type(type_)]
    return (type_.length or 10) - _scale(type_)


def _range(type_: ColumnType) -> tuple[Decimal, Decimal]:
    """The least and the largest value of an integer or decimal type."""
    if type_.family == "integer":
        bits = INTEGER_BITS[type_.base] - (not type_.unsigned)
        return Decimal(0 if type_.unsigned else -1 << bits), Decimal((1 << bits) - 1)
    most = Decimal((0, (9,) * (type_.length or 10), -_scale(type_)))
    return Decimal(0) if type_.unsigned else most.copy_negate(), most


def _text(cell: str, new: ColumnType) -> Typed | None:
    """Cut at the new type's length, in characters; CHAR drops its last spaces."""
    if new.base not in ("char", "varchar") or new.charset != "utf8mb4":
        return None
    cut = f"substring({cell}, 1, {new.size})"
    return Typed(f"rtrim({cut})" if new.base == "char" else cut, "STRING")
