"""What a column's cells in gold become by a DDL that converts them: by the rules of `lakehouse/values`, value
by value, and for numbers and shortened text as one expression of Spark SQL, which costs a fraction of that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

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
        if (held == "STRING") != (column.type.family == "text"):  # a number as text
            return None
        first, last = self.steps
        found: str | None = cell
        for step in self.lineage.steps[first + 1 : last + 1]:
            for effect in step.effects:
                if isinstance(effect, Retype) and effect.column_id == column.id and found is not None:
                    found = _converted(found, effect, self.upstream.server)
        is_held = wanted != "STRING" or self.new[0].type.family == "text"
        return f"CAST({found} AS {wanted})" if found is not None and is_held else None


def _converted(cell: str, effect: Retype, server: str) -> str | None:
    """A cell behind one statement, as an expression; None where no expression is known."""
    old, new = effect.old, effect.new
    zero = {"integer": "0", "decimal": "0", "text": "''"}.get(new.family)
    found: str | None = None
    if zero is None:
        return None
    if is_identity(old, new):
        found = cell
    elif old.family in _NUMBERS and new.family in _NUMBERS:
        found = _number(cell, old, new, server)
    elif old.family == new.family == "text":
        found = _text(cell, old, new)
    return f"coalesce({found}, {zero})" if found is not None and effect.not_null else found


def _number(cell: str, old: ColumnType, new: ColumnType, server: str) -> str | None:
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
    return f"if({cell} IS NULL, NULL, least(greatest({rounded}, {least}), {most}))"


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


def _text(cell: str, old: ColumnType, new: ColumnType) -> str | None:
    """Cut at the new type's length, in characters; CHAR drops its last spaces."""
    if old.base in PRINTED or new.base not in ("char", "varchar") or new.charset != "utf8mb4":
        return None
    cut = f"substring({cell}, 1, {new.length or 1})"
    return f"rtrim({cut})" if new.base == "char" else cut
