"""Cells stored into columns of numbers, and of years."""

import math
import re
from decimal import Decimal

from lakehouse.schema import INTEGER_BITS
from lakehouse.values.normal_form import single
from lakehouse.values.server_value import (
    WIDE,
    Bits,
    Cell,
    Dated,
    Document,
    NoRule,
    Single,
    Span,
    as_decimal,
    as_integer,
    as_real,
    as_text,
    scalar,
)
from lakehouse.values.store_assignment.target import Target

_NUMBER = re.compile(r" *[+-]?\.?\d", re.ASCII)
_MAX_SINGLE = 3.4028234663852886e38


def store_integer(cell: Cell, target: Target) -> int:
    """Within the column's range; a negative number is 0 in an unsigned one, for which TiDB rounds the digits
    of a date and time, not its seconds (23:59:59.9 is 235960).
    """
    if isinstance(cell, Dated | Span) and target.server == "tidb" and target.type.unsigned:
        cell = as_decimal(cell)
    bits = INTEGER_BITS[target.type.base]
    low, high = (0, (1 << bits) - 1) if target.type.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)
    number = as_integer(cell, target.server)
    told = scalar(cell) if isinstance(cell, Document) and target.server == "tidb" else None
    if isinstance(told, str) and not low <= number <= high:
        raise NoRule("a number in a JSON string, beyond the column's range")
    return int(max(low, min(number, high)))


def store_bit(cell: Cell, target: Target) -> int:
    """All ones for a number that doesn't fit, negative ones too; MariaDB takes a negative DECIMAL for 0, TiDB
    a FLOAT and DOUBLE too. Text gives its whole digits, as a signed number of 64 bits.
    """
    width = target.type.length or 1
    number = as_integer(cell, "mariadb" if isinstance(cell, str | bytes) else target.server)
    zeroed = {"mariadb": (Decimal,), "tidb": (Decimal, float)}.get(target.server)
    if number < 0 and zeroed and isinstance(cell, zeroed):
        return 0
    if number < 0:
        number += 1 << 64
    return int(min(number, (1 << width) - 1))


def store_decimal(cell: Cell, target: Target) -> str:
    """Rounded half away from zero to the column's scale, then clipped to its precision."""
    precision, scale = target.type.length or 10, target.type.scale or 0
    unit = Decimal((0, (1,), -scale))
    bound = Decimal((0, (9,) * precision, -scale))
    number = max(bound.copy_negate(), min(as_decimal(cell), bound)).quantize(unit, context=WIDE)
    if number < 0 and target.type.unsigned:
        number = number.copy_abs() * 0
    return f"{number.quantize(unit, context=WIDE) if number else abs(number):f}"


def store_real(cell: Cell, target: Target) -> float:
    """FLOAT and DOUBLE, with the digits and the bound of an old-style (M,D). MySQL and MariaDB copy the bytes
    of the same type, beyond that bound too. MariaDB reads 64 bits as a signed number here, and nowhere else.
    """
    column = target.type
    number = as_real(cell)
    if isinstance(cell, Bits) and target.server == "mariadb" and cell.value >> 63:
        number = float(cell.value - (1 << 64))
    if column.length is not None and column.scale is not None:
        is_copied = type(cell) is (float if column.family == "double" else Single) and not column.unsigned
        clipped = _to_scale(number, column.length, column.scale)
        beyond = is_copied and target.server != "tidb" and abs(number - clipped) > 0.51 / 10.0**column.scale
        number = round(number, column.scale) if beyond else clipped
    if column.unsigned:
        number = max(number, 0.0)
    if column.family == "double":
        return max(-1.7976931348623157e308, min(number, 1.7976931348623157e308)) + 0.0
    return single(max(-_MAX_SINGLE, min(number, _MAX_SINGLE)))


def _to_scale(number: float, digits: int, scale: int) -> float:
    factor = 10.0**scale
    bound = 10.0 ** (digits - scale) - 1.0 / factor
    if abs(number) < bound:
        whole = math.floor(number)
        number = round(whole + round((number - whole) * factor) / factor, scale)
    return max(-bound, min(number, bound))


def store_year(cell: Cell, target: Target) -> int:
    """0, 1901…2155; numbers below 100 are years of this century or the last. TiDB clips what lies outside."""
    mariadb, tidb = target.server == "mariadb", target.server == "tidb"
    if isinstance(cell, Dated) and mariadb:
        return cell.moment.year if 1901 <= cell.moment.year <= 2155 else 0
    if isinstance(cell, Span) and mariadb:
        return 0
    told = cell.lstrip() if isinstance(cell, str) and mariadb else cell
    if isinstance(cell, Dated) and tidb:
        told = cell.moment.year
    number = int(cell) if isinstance(cell, float) and mariadb else as_integer(told, "mysql")
    if number == 0 and isinstance(cell, str | bytes) and len(cell) != 4:
        text = as_text(cell, target.server)
        if text.lstrip().startswith("0") if tidb else _NUMBER.match(text):
            return 2000
    if 1 <= number <= 99:
        number += 2000 if number < 70 else 1900
    if tidb and 0 < number < 1 << 63:
        return int(max(1901, min(number, 2155)))
    return int(number) if 1901 <= number <= 2155 else 0
