"""Expectations as Spark columns: true where a row fails, false where it passes or the expectation does not
apply, never null.

What GX computes per expectation in a job of its own is here one column each over one pass, with GX's own
rules for nulls (tests/spark/quality/test_expectations.py holds both to the same rows, on random data). Values
are compared in the column's type, so that bounds are exact above 2^53 and on decimals, where GX goes through
a double.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.errors import QualityError
from lakehouse.quality.suite import Check
from lakehouse.spark.lake import quote

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class Fields:
    """A batch's columns: by the name that a check uses, the name that the batch has and the type."""

    names: Mapping[str, str]
    types: Mapping[str, str]

    def type(self, name: str) -> str:
        return self.types[self.names[name]]

    def column(self, name: str) -> Column:
        return F.col(quote(self.names[name]))


def failing(check: Check, fields: Fields) -> Column:
    """Whether a row fails the check; QualityError where the check does not suit the columns' types."""
    fails = _RULES[check.expect](check, fields)
    if check.args.get("row_condition"):
        fails = F.coalesce(F.expr(check.args["row_condition"]), F.lit(False)) & fails
    return F.coalesce(fails, F.lit(False))


def _not_null(check: Check, fields: Fields) -> Column:
    return fields.column(check.args["column"]).isNull()


def _null(check: Check, fields: Fields) -> Column:
    return fields.column(check.args["column"]).isNotNull()


def _in_set(check: Check, fields: Fields) -> Column:
    name = check.args["column"]
    return ~fields.column(name).isin(
        [literal(value, fields.type(name), check) for value in check.args["value_set"]]
    )


def _not_in_set(check: Check, fields: Fields) -> Column:
    return ~_in_set(check, fields)


def _between(check: Check, fields: Fields) -> Column:
    name = check.args["column"]
    return _outside(fields.column(name), check, lambda value: literal(value, fields.type(name), check))


def _outside(column: Column, check: Check, bound: Callable[[Any], Column]) -> Column:
    low, high = check.args.get("min_value"), check.args.get("max_value")
    parts = []
    if low is not None:
        parts.append(column <= bound(low) if check.args.get("strict_min") else column < bound(low))
    if high is not None:
        parts.append(column >= bound(high) if check.args.get("strict_max") else column > bound(high))
    return reduce(or_, parts)


def _lengths(check: Check, fields: Fields) -> Column:
    return _outside(_length(check, fields), check, lambda value: literal(value, "BIGINT", check))


def _length_equals(check: Check, fields: Fields) -> Column:
    return _length(check, fields) != literal(check.args["value"], "BIGINT", check)


def _length(check: Check, fields: Fields) -> Column:
    return F.length(_of_type(check.args["column"], ("STRING", "BINARY"), check, fields))


def _regex(check: Check, fields: Fields) -> Column:
    return ~_text(check, fields).rlike(check.args["regex"])


def _not_regex(check: Check, fields: Fields) -> Column:
    return _text(check, fields).rlike(check.args["regex"])


def _regex_list(check: Check, fields: Fields) -> Column:
    matches = [_text(check, fields).rlike(regex) for regex in check.args["regex_list"]]
    return ~reduce(and_ if check.args.get("match_on") == "all" else or_, matches)


def _not_regex_list(check: Check, fields: Fields) -> Column:
    return reduce(or_, [_text(check, fields).rlike(regex) for regex in check.args["regex_list"]])


def _text(check: Check, fields: Fields) -> Column:
    return _of_type(check.args["column"], ("STRING",), check, fields)


def _of_type(name: str, words: tuple[str, ...], check: Check, fields: Fields) -> Column:
    if fields.type(name) not in words:
        raise QualityError(
            f"{check.label}: expected a column of type {' or '.join(words)}, got {fields.type(name)}"
        )
    return fields.column(name)


def _pair(check: Check, fields: Fields) -> tuple[Column, Column, Column]:
    """The two columns, and whether a row is looked at."""
    a, b = fields.column(check.args["column_A"]), fields.column(check.args["column_B"])
    how = check.args.get("ignore_row_if", "both_values_are_missing")
    seen = {
        "both_values_are_missing": a.isNotNull() | b.isNotNull(),
        "either_value_is_missing": a.isNotNull() & b.isNotNull(),
    }
    return a, b, seen.get(how, F.lit(True))


def _pair_equal(check: Check, fields: Fields) -> Column:
    a, b, seen = _comparable(check, fields)
    return seen & ~a.eqNullSafe(b)


def _pair_greater(check: Check, fields: Fields) -> Column:
    a, b, seen = _comparable(check, fields)
    return seen & ~((a >= b) | a.eqNullSafe(b) if check.args.get("or_equal") else a > b)


def _comparable(check: Check, fields: Fields) -> tuple[Column, Column, Column]:
    kinds = {_kind(fields.type(check.args[name])) for name in ("column_A", "column_B")}
    if len(kinds) > 1:
        raise QualityError(
            f"{check.label}: expected two columns that compare, got {' and '.join(sorted(kinds))}"
        )
    return _pair(check, fields)


def _kind(type_: str) -> str:
    return "a number" if type_ in (*_INTEGERS, *_FLOATS) or type_.startswith("DECIMAL") else type_


def _pair_in_set(check: Check, fields: Fields) -> Column:
    a, b, seen = _pair(check, fields)
    types = [fields.type(check.args[name]) for name in ("column_A", "column_B")]
    found = [
        a.eqNullSafe(literal(x, types[0], check)) & b.eqNullSafe(literal(y, types[1], check))
        for x, y in check.args["value_pairs_set"]
    ]
    return seen & ~reduce(or_, found)


def _sum_equals(check: Check, fields: Fields) -> Column:
    names = check.args["column_list"]
    types = [fields.type(name) for name in names]
    if any(_kind(type_) != "a number" for type_ in types):
        raise QualityError(f"{check.label}: expected columns of numbers, got {', '.join(sorted(set(types)))}")
    parts = [
        F.coalesce(
            fields.column(name).cast("decimal(38,0)") if type_ in _INTEGERS else fields.column(name), F.lit(0)
        )
        for name, type_ in zip(names, types, strict=True)
    ]
    total = literal(
        check.args["sum_total"],
        "DOUBLE" if any(type_ in _FLOATS for type_ in types) else "DECIMAL(38,18)",
        check,
    )
    return _seen(check, fields) & (reduce(lambda a, b: a + b, parts) != total)


def _unique_within(check: Check, fields: Fields) -> Column:
    columns = [fields.column(name) for name in check.args["column_list"]]
    pairs = [a.eqNullSafe(b) for index, a in enumerate(columns) for b in columns[index + 1 :]]
    return _seen(check, fields) & reduce(or_, pairs, F.lit(False))


def _seen(check: Check, fields: Fields) -> Column:
    """Whether a row with several columns is looked at."""
    present = [fields.column(name).isNotNull() for name in check.args["column_list"]]
    how = check.args.get("ignore_row_if", "all_values_are_missing")
    return {
        "all_values_are_missing": reduce(or_, present),
        "any_value_is_missing": reduce(and_, present),
    }.get(how, F.lit(True))


def literal(value: Any, type_: str, check: Check) -> Column:
    """A value of the suite in a column's type; QualityError where it is none. The error does not hold the
    value.
    """
    try:
        return _literal(value, type_)
    except (ValueError, TypeError, InvalidOperation):
        raise QualityError(
            f"{check.label}: expected values of type {type_}, got a {type(value).__name__}"
        ) from None


def _literal(value: Any, type_: str) -> Column:
    if value is None:
        return F.lit(None)
    if type_ in ("STRING", "BOOLEAN"):
        if type(value) is not (str if type_ == "STRING" else bool):
            raise ValueError(type_)
        return F.lit(value)
    if type_ == "DATE":
        return F.lit(date.fromisoformat(value))
    if type_ in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _instant(value, type_)
    is_text = isinstance(value, str) and not type_.startswith(
        "DECIMAL"
    )  # YAML has no exact decimals but as text
    if is_text or isinstance(value, bool) or _kind(type_) != "a number":
        raise ValueError(type_)
    if type_ in _FLOATS:
        return F.lit(float(value))
    return F.lit(value) if isinstance(value, int) and abs(value) < 2**63 else F.lit(Decimal(str(value)))


def _instant(value: str, type_: str) -> Column:
    """A moment as text with its zone, UTC where none is said: a naive Python datetime would be the driver's
    local time.
    """
    moment = datetime.fromisoformat(value)
    if type_ == "TIMESTAMP_NTZ":
        return F.lit(moment.replace(tzinfo=None).isoformat(" ")).cast("timestamp_ntz")
    return F.lit(moment.isoformat(" ") + ("" if moment.tzinfo else "+00:00")).cast("timestamp")


_RULES: dict[str, Callable[[Check, Fields], Column]] = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_null": _null,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _not_in_set,
    "expect_column_values_to_be_between": _between,
    "expect_column_value_lengths_to_be_between": _lengths,
    "expect_column_value_lengths_to_equal": _length_equals,
    "expect_column_values_to_match_regex": _regex,
    "expect_column_values_to_not_match_regex": _not_regex,
    "expect_column_values_to_match_regex_list": _regex_list,
    "expect_column_values_to_not_match_regex_list": _not_regex_list,
    "expect_column_pair_values_to_be_equal": _pair_equal,
    "expect_column_pair_values_a_to_be_greater_than_b": _pair_greater,
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
    "expect_multicolumn_sum_to_equal": _sum_equals,
    "expect_select_column_values_to_be_unique_within_record": _unique_within,
}
