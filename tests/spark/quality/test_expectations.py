"""The contract: a compiled check fails the rows that Great Expectations itself fails, on random rows and
random arguments.
"""

import inspect
import os
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakehouse.errors import QualityError
from lakehouse.quality.suite import FORMS, ROWS, Check, Suite, from_gx, gx_suite, suite_of
from lakehouse.spark.column_types import columns
from lakehouse.spark.operations.data_docs import gx_failures
from lakehouse.spark.quality.expectations import Fields, failing

TYPES = {
    "id": "INT",
    "i": "BIGINT",
    "j": "BIGINT",
    "d": "DECIMAL(10,2)",
    "f": "DOUBLE",
    "s": "STRING",
    "t": "STRING",
    "day": "DATE",
}
FIELDS = Fields({name: name for name in TYPES}, TYPES)
NUMBERS = st.integers(-3, 3)
TEXTS = st.sampled_from(["", "a", "ab", "B", "é", "a1", "x-y"])
DAYS = st.sampled_from([date(2024, 2, day) for day in (1, 28, 29)])
ROW = st.fixed_dictionaries(
    {
        "i": st.none() | NUMBERS,
        "j": st.none() | NUMBERS,
        "d": st.none() | st.sampled_from([Decimal(text) for text in ("-1.50", "0.00", "0.01", "2.00")]),
        "f": st.none() | st.sampled_from([-1.5, 0.0, 0.1, 2.0]),
        "s": st.none() | TEXTS,
        "t": st.none() | TEXTS,
        "day": st.none() | DAYS,
    }
)
REGEXES = st.sampled_from(["^a", "[0-9]", "b$", "^.$", "x-"])
PAIR_IGNORES = st.sampled_from(["both_values_are_missing", "either_value_is_missing", "neither"])
MANY_IGNORES = st.sampled_from(["all_values_are_missing", "any_value_is_missing", "never"])
NO_MORE: Any = st.just({})
CONDITIONS = st.sampled_from([{}, {"row_condition": "i > 0 OR s = 'a'", "condition_parser": "spark"}])


def bounds(values: Any) -> Any:
    """min_value <= max_value, or one of them alone."""
    both = (
        st.tuples(values, values).map(sorted).map(lambda pair: {"min_value": pair[0], "max_value": pair[1]})
    )
    one = values.map(lambda value: {"min_value": value}) | values.map(lambda value: {"max_value": value})
    return st.tuples(both | one, st.booleans(), st.booleans()).map(
        lambda t: {**t[0], "strict_min": t[1], "strict_max": t[2]}
    )


def sets(values: Any) -> Any:
    return st.lists(values, min_size=1, max_size=3, unique=True)


def about(name: str, bounds: Any = NO_MORE, **args: Any) -> Any:
    """Checks of one expectation: its arguments drawn, some with a condition where it takes one."""
    drawn = st.fixed_dictionaries(
        {
            key: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for key, value in args.items()
        }
    )
    conditions = CONDITIONS if "row_condition" in FORMS[name].optional else NO_MORE
    return st.tuples(drawn, bounds, conditions).map(
        lambda parts: Check(name, {key: part[key] for part in parts for key in part}, "reject")
    )


ONE_OF_EACH = st.tuples(
    about("expect_column_values_to_not_be_null", column="s"),
    about("expect_column_values_to_be_null", column="d"),
    about("expect_column_values_to_be_in_set", column="i", value_set=sets(NUMBERS)),
    about("expect_column_values_to_be_in_set", column="s", value_set=sets(TEXTS)),
    about("expect_column_values_to_not_be_in_set", column="j", value_set=sets(NUMBERS)),
    about("expect_column_values_to_be_between", column="i", bounds=bounds(NUMBERS)),
    about(
        "expect_column_values_to_be_between", column="f", bounds=bounds(st.sampled_from([-1.5, 0.05, 2.0]))
    ),
    about("expect_column_values_to_be_between", column="day", bounds=bounds(DAYS.map(str))),
    about("expect_column_value_lengths_to_be_between", column="s", bounds=bounds(st.integers(0, 3))),
    about("expect_column_value_lengths_to_equal", column="t", value=st.integers(0, 3)),
    about("expect_column_values_to_match_regex", column="s", regex=REGEXES),
    about("expect_column_values_to_not_match_regex", column="s", regex=REGEXES),
    about(
        "expect_column_values_to_match_regex_list",
        column="s",
        regex_list=sets(REGEXES),
        match_on=st.sampled_from(["any", "all"]),
    ),
    about("expect_column_values_to_not_match_regex_list", column="s", regex_list=sets(REGEXES)),
    about("expect_column_pair_values_to_be_equal", column_A="s", column_B="t", ignore_row_if=PAIR_IGNORES),
    about(
        "expect_column_pair_values_a_to_be_greater_than_b",
        column_A="i",
        column_B="j",
        or_equal=st.booleans(),
        ignore_row_if=PAIR_IGNORES,
    ),
    about(
        "expect_column_pair_values_to_be_in_set",
        column_A="i",
        column_B="j",
        ignore_row_if=PAIR_IGNORES,
        value_pairs_set=sets(st.tuples(NUMBERS, NUMBERS)).map(lambda pairs: [list(pair) for pair in pairs]),
    ),
    about(
        "expect_multicolumn_sum_to_equal",
        column_list=["i", "j"],
        sum_total=NUMBERS,
        ignore_row_if=MANY_IGNORES,
    ),
    about(
        "expect_select_column_values_to_be_unique_within_record",
        column_list=["i", "j"],
        ignore_row_if=MANY_IGNORES,
    ),
)


def frame(spark: Any, rows: list[dict[str, Any]]) -> Any:
    schema = columns(", ".join(f"{name} {type_}" for name, type_ in TYPES.items()))
    return spark.createDataFrame(
        [(index, *[row.get(name) for name in list(TYPES)[1:]]) for index, row in enumerate(rows)], schema
    )


def failures(rows: Any, checks: list[Check]) -> list[set[int]]:
    """The ids of the rows that each compiled check fails, in one pass."""
    told = rows.select(
        "id", *[failing(check, FIELDS).alias(f"c{index}") for index, check in enumerate(checks)]
    ).collect()
    return [{row.id for row in told if row[f"c{index}"]} for index in range(len(checks))]


# GX takes long for one example: the first that fails is told as it is
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(ROW, min_size=25, max_size=40), ONE_OF_EACH)
def test_a_compiled_check_fails_the_rows_that_great_expectations_fails(
    spark: Any, rows: list[dict[str, Any]], checks: tuple[Check, ...]
) -> None:
    given_rows = frame(spark, rows).persist()

    assert failures(given_rows, list(checks)) == gx_failures(spark, given_rows, Suite(checks), "id")
    assert {check.expect for check in checks} == set(ROWS)
    given_rows.unpersist()


def test_bounds_are_exact_where_a_double_is_not(spark: Any) -> None:
    rows = frame(spark, [{"i": 2**53}, {"i": 2**53 + 1}, {"i": 2**53 + 2}])
    high = Check("expect_column_values_to_be_between", {"column": "i", "max_value": 2**53}, "reject")
    beyond = Check("expect_column_values_to_be_between", {"column": "i", "max_value": 2**80}, "reject")

    assert failures(rows, [high, beyond]) == [{1, 2}, set()]


def test_a_decimal_is_compared_as_a_decimal(spark: Any) -> None:
    rows = frame(spark, [{"d": Decimal("0.10")}, {"d": Decimal("0.11")}, {"d": None}])
    tenth = Check("expect_column_values_to_be_in_set", {"column": "d", "value_set": [0.1]}, "reject")

    assert failures(rows, [tenth]) == [{1}]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            Check("expect_column_values_to_be_in_set", {"column": "s", "value_set": [1]}),
            "expected values of type STRING, got a int",
        ),
        (
            Check("expect_column_values_to_be_between", {"column": "day", "min_value": "soon"}),
            "expected values of type DATE, got a str",
        ),
        (
            Check("expect_column_values_to_be_between", {"column": "i", "min_value": "1"}),
            "expected values of type BIGINT, got a str",
        ),
        (
            Check("expect_column_value_lengths_to_equal", {"column": "i", "value": 1}),
            "expected a column of type STRING or BINARY, got BIGINT",
        ),
        (
            Check("expect_column_pair_values_to_be_equal", {"column_A": "i", "column_B": "s"}),
            "expected two columns that compare, got STRING and a number",
        ),
        (
            Check("expect_multicolumn_sum_to_equal", {"column_list": ["i", "s"], "sum_total": 1}),
            "expected columns of numbers, got BIGINT, STRING",
        ),
    ],
)
def test_a_check_that_does_not_suit_its_columns_is_told_before_any_row_is_seen(
    spark: Any, check: Check, message: str
) -> None:
    with pytest.raises(QualityError) as refused:
        failing(check, FIELDS)

    assert str(refused.value) == f"{check.label}: {message}"


def classes() -> Iterator[Any]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations.expectations as gxe

    return (found for name, found in inspect.getmembers(gxe, inspect.isclass) if name.startswith("Expect"))


def test_the_expectations_and_their_arguments_are_those_of_the_installed_great_expectations() -> None:
    known = {found.expectation_type: found for found in classes() if getattr(found, "expectation_type", None)}

    assert set(FORMS) <= set(known)
    for name, form in FORMS.items():
        fields = known[name].__fields__
        assert {*form.columns, *form.needed, *form.optional} <= set(fields), name
        assert {field for field, told in fields.items() if told.required} <= {*form.columns, *form.needed}, (
            name
        )


def test_a_suite_goes_to_great_expectations_and_comes_back_the_same() -> None:
    entries = [
        {
            "expect": "expect_column_values_to_be_between",
            "column": "total",
            "args": {"min_value": 0},
            "action": "reject",
        },
        {
            "expect": "expect_column_pair_values_to_be_equal",
            "args": {"column_A": "a", "column_B": "b"},
            "action": "stop",
        },
        {"expect": "expect_column_values_to_not_be_null", "column": "note"},
    ]
    suite = suite_of(entries)

    document = gx_suite("shop.orders", suite)

    assert from_gx(document) == entries
    assert gx_suite("shop.orders", suite_of(from_gx(document))) == document
    assert suite_of(suite.plain()) == suite
