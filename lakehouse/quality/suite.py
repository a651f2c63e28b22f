"""Expectations: the supported ones, the suite of a table, and the same suite in the format of Great
Expectations.

    table YAML `quality:` ─▶ Check … ─▶ Suite ─┬─▶ columns over a batch, which judge each row before gold
                                               │   (lakehouse/spark/quality/expectations.py)
                                               └─▶ a GX suite (JSON) that people open, run and edit, and that
                                                   Data Docs show

An expectation of ROWS says something of one row by itself, so that its verdict depends on nothing but the
row: it may reject a row or stop a table. One of TABLES needs the whole table; it can only warn, and is
checked on gold by a run of GX. Both lists are GX's own (a test holds them to the installed version). No Spark
and no GX here: `validate` reads this.
"""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

_NAMESPACE = uuid.UUID("5b0c0f53-7f4c-4f0e-9d6a-3f1b8b0f7f01")


class Form(NamedTuple):
    """The arguments of an expectation: how it names its columns, the required and the optional ones."""

    columns: tuple[str, ...]
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


_BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")
_FILTER = ("row_condition", "condition_parser")
_ONE, _PAIR, _MANY = ("column",), ("column_A", "column_B"), ("column_list",)


def _row(
    columns: tuple[str, ...],
    needed: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    one_of: tuple[str, ...] = (),
) -> Form:
    ignore = () if columns == _ONE else ("ignore_row_if",)
    return Form(columns, needed, (*optional, *one_of, *ignore, *_FILTER), one_of)


ROWS: Mapping[str, Form] = MappingProxyType(
    {
        "expect_column_values_to_not_be_null": _row(_ONE),
        "expect_column_values_to_be_null": _row(_ONE),
        "expect_column_values_to_be_in_set": _row(_ONE, ("value_set",)),
        "expect_column_values_to_not_be_in_set": _row(_ONE, ("value_set",)),
        "expect_column_values_to_be_between": _row(
            _ONE, (), ("strict_min", "strict_max"), ("min_value", "max_value")
        ),
        "expect_column_value_lengths_to_be_between": _row(
            _ONE, (), ("strict_min", "strict_max"), ("min_value", "max_value")
        ),
        "expect_column_value_lengths_to_equal": _row(_ONE, ("value",)),
        "expect_column_values_to_match_regex": _row(_ONE, ("regex",)),
        "expect_column_values_to_not_match_regex": _row(_ONE, ("regex",)),
        "expect_column_values_to_match_regex_list": _row(_ONE, ("regex_list",), ("match_on",)),
        "expect_column_values_to_not_match_regex_list": _row(_ONE, ("regex_list",)),
        "expect_column_pair_values_to_be_equal": _row(_PAIR),
        "expect_column_pair_values_a_to_be_greater_than_b": _row(_PAIR, (), ("or_equal",)),
        # no condition: GX counts its rows under the condition and its failing rows without it, and stops at
        # the contradiction
        "expect_column_pair_values_to_be_in_set": Form(_PAIR, ("value_pairs_set",), ("ignore_row_if",)),
        "expect_multicolumn_sum_to_equal": _row(_MANY, ("sum_total",)),
        "expect_select_column_values_to_be_unique_within_record": _row(_MANY),
    }
)
TABLES: Mapping[str, Form] = MappingProxyType(
    {
        "expect_column_values_to_be_unique": Form(_ONE, (), ("mostly", *_FILTER)),
        "expect_compound_columns_to_be_unique": Form(_MANY, (), ("mostly", "ignore_row_if", *_FILTER)),
        "expect_column_distinct_values_to_be_in_set": Form(_ONE, ("value_set",), _FILTER),
        "expect_column_distinct_values_to_contain_set": Form(_ONE, ("value_set",), _FILTER),
        "expect_column_distinct_values_to_equal_set": Form(_ONE, ("value_set",), _FILTER),
        "expect_column_min_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_max_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_mean_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_median_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_stdev_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_sum_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_proportion_of_unique_values_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_unique_value_count_to_be_between": Form(_ONE, (), (*_BOUNDS, *_FILTER)),
        "expect_column_to_exist": Form(_ONE, (), ("column_index",)),
        "expect_table_column_count_to_equal": Form((), ("value",)),
        "expect_table_row_count_to_be_between": Form((), (), (*_BOUNDS, *_FILTER)),
        "expect_table_row_count_to_equal": Form((), ("value",), _FILTER),
    }
)
FORMS: Mapping[str, Form] = MappingProxyType({**ROWS, **TABLES})


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation with all its arguments, columns among them, and what a row that fails it comes to."""

    expect: str
    args: dict[str, Any]
    action: str = "warn"

    @property
    def of_rows(self) -> bool:
        return self.expect in ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it names, as the YAML spells them."""
        form = FORMS[self.expect]
        named = [self.args[name] for name in form.columns if name in self.args]
        return tuple(name for value in named for name in (value if isinstance(value, list) else [value]))

    @property
    def label(self) -> str:
        """How reports and rejected rows name it; it holds no value."""
        return f"{self.expect}({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one table."""

    checks: tuple[Check, ...]

    @property
    def digest(self) -> str:
        """Equal for suites that judge every row alike: checks that only warn, or look at the whole table, are
        not in it.
        """
        judging = [
            (check.expect, check.args, check.action)
            for check in self.checks
            if check.of_rows and check.action != "warn"
        ]
        text = msgspec.json.encode(sorted(judging, key=repr), order="deterministic")
        return hashlib.blake2b(text, digest_size=8).hexdigest() if judging else ""

    def plain(self) -> list[dict[str, Any]]:
        """The suite as plain data, which `suite_of` reads."""
        return [{"expect": check.expect, "args": check.args, "action": check.action} for check in self.checks]


def suite_of(entries: Any) -> Suite:
    """The suite of `quality:` entries, or of `plain`'s data: `column` is one more argument."""
    return Suite(tuple(_check(entry) for entry in entries))


def _check(entry: Mapping[str, Any]) -> Check:
    column = {"column": entry["column"]} if entry.get("column") else {}
    return Check(entry["expect"], {**column, **entry.get("args", {})}, entry.get("action", "warn"))


def gx_suite(name: str, suite: Suite) -> dict[str, Any]:
    """The suite as GX writes one to a file. Its ids come from what it says, so that an unchanged suite is an
    unchanged file.
    """
    return {
        "name": name,
        "id": str(uuid.uuid5(_NAMESPACE, name)),
        "expectations": [
            {
                "type": check.expect,
                "id": str(uuid.uuid5(_NAMESPACE, f"{name}/{index}/{check.label}")),
                "kwargs": check.args,
                "meta": {"lakehouse": {"action": check.action}},
                "severity": "critical"
                if check.action == "stop"
                else "warning"
                if check.action == "reject"
                else "info",
            }
            for index, check in enumerate(suite.checks)
        ],
        "meta": {"lakehouse": {"digest": suite.digest}},
        "notes": None,
    }


def from_gx(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The `quality:` entries of a suite that was edited in GX; what lakehouse did not write there warns."""
    return [_entry(expectation) for expectation in document["expectations"]]


def _entry(expectation: Mapping[str, Any]) -> dict[str, Any]:
    args = {
        name: value
        for name, value in expectation.get("kwargs", {}).items()
        if value is not None and name != "batch_id"
    }
    column = args.pop("column", None)
    action = ((expectation.get("meta") or {}).get("lakehouse") or {}).get("action", "warn")
    return {
        "expect": expectation["type"],
        **({"column": column} if column else {}),
        **({"args": args} if args else {}),
        **({"action": action} if action != "warn" else {}),
    }
