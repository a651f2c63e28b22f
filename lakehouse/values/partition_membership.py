"""The partition that a row is in, under RANGE and LIST over plain columns: the rows that TRUNCATE and DROP
PARTITION remove.

HASH, KEY, expressions and bounds that are no literals are not decidable, nor is what the column's collation
would have to say: rows whose text compares one way with case and another way without.
"""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from lakehouse.schema import ColumnType, PartitionRule
from lakehouse.values.convert import UNKNOWABLE
from lakehouse.values.defaults import default_value
from lakehouse.values.normal_form import bytes_of
from lakehouse.values.server_value import NoRule
from lakehouse.values.temporal import read_duration

_Place = Callable[[Sequence[Any]], str | None]
_WHOLE = ColumnType("decimal", 65, 0)
_EXACT = ColumnType("decimal", 65, 30)
_TEXT = ColumnType("longtext")


def decidable(rule: PartitionRule, types: Sequence[ColumnType] | None = None) -> bool:
    """Whether the rule's method and bounds determine each row's partition; exact if the columns' types are
    given.
    """
    if _kind(rule) is None or not rule.columns or not rule.partitions:
        return False
    if types is None:
        types = [_TEXT] * len(rule.columns)
    try:
        _compiled(rule, tuple(types))
    except NoRule:
        return False
    return True


def partition_of(rule: PartitionRule, values: Sequence[Any], types: Sequence[ColumnType]) -> str | None:
    """The partition of a row with these canonical values of the partition columns; None where no partition
    takes it, or it is not determined.
    """
    try:
        places = {place(values) for place in _compiled(rule, tuple(types))}
    except (NoRule, ValueError, TypeError, ArithmeticError):
        return None
    return places.pop() if len(places) == 1 else None


def _kind(rule: PartitionRule) -> str | None:
    kind = rule.method.lower().split(maxsplit=1)[0] if rule.method.strip() else ""
    if kind == "list" and len(rule.columns) > 1:
        return None
    return kind if kind in ("range", "list") else None


@functools.lru_cache(maxsize=1024)
def _compiled(rule: PartitionRule, types: tuple[ColumnType, ...]) -> tuple[_Place, ...]:
    """The rule with case and without: one function where no column is text."""
    kind = _kind(rule)
    if kind is None or len(types) != len(rule.columns):
        raise NoRule(f"partitioning by {rule.method}")
    folds: list[Callable[[str], str]] = (
        [str, _folded] if any(column.family == "text" for column in types) else [str]
    )
    make = _ranges if kind == "range" else _lists
    return tuple(make(rule, types, fold) for fold in folds)


def _folded(text: str) -> str:
    return text.casefold().rstrip(" ")


def _ranges(rule: PartitionRule, types: tuple[ColumnType, ...], fold: Callable[[str], str]) -> _Place:
    """The first partition whose bound lies above the row. NULL lies below every value."""
    bounds = [
        (name, [_bound(text, column, fold) for text, column in zip(texts, types, strict=True)])
        for name, texts in rule.partitions
    ]

    def place(values: Sequence[Any]) -> str | None:
        row = [_comparable(value, column, fold) for value, column in zip(values, types, strict=True)]
        return next((name for name, bound in bounds if row < bound), None)

    return place


def _bound(text: str | None, column: ColumnType, fold: Callable[[str], str]) -> tuple[int, Any]:
    if text is None or text.upper() == "MAXVALUE":
        return (2, 0)
    return _literal(text, column, fold)


def _lists(rule: PartitionRule, types: tuple[ColumnType, ...], fold: Callable[[str], str]) -> _Place:
    (column,) = types
    bounds = [(name, text) for name, texts in rule.partitions for text in texts]
    names = {_literal(text, column, fold): name for name, text in bounds if not _is_default(text)}
    default = next((name for name, text in bounds if _is_default(text)), None)

    def place(values: Sequence[Any]) -> str | None:
        return names.get(_comparable(values[0], column, fold), default)

    return place


def _is_default(text: str | None) -> bool:
    return text is None or text.upper() == "DEFAULT"


def _literal(text: str | None, column: ColumnType, fold: Callable[[str], str]) -> tuple[int, Any]:
    """A bound's value. Numbers keep their own size: a TINYINT column may have the bound 1000."""
    wide = {"integer": _WHOLE, "year": _WHOLE, "bit": _WHOLE, "decimal": _EXACT}.get(column.family, column)
    value = default_value(text, wide, False)
    if value is UNKNOWABLE:
        raise NoRule("a bound that is no literal")
    if wide is _WHOLE and value is not None:
        value = int(value)
    return _comparable(value, column, fold)


def _comparable(value: Any, column: ColumnType, fold: Callable[[str], str]) -> tuple[int, Any]:
    """A value as what orders as the server orders it: (0, 0) for NULL, below every (1, value)."""
    if value is None:
        return (0, 0)
    match column.family:
        case "decimal":
            return (1, Decimal(value))
        case "time":
            return (1, read_duration(value))
        case "binary":
            data = bytes_of(value)
            if data is None:
                raise ValueError("not base64")
            return (1, data)
        case "text":
            return (1, fold(value))
        case _:
            return (1, value)
