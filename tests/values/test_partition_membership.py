"""The partition a row lies in, where the rule decides it."""

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.schema import ColumnType, PartitionRule, parse_type
from lakehouse.values.partition_membership import decidable, partition_of

INT, DATE, TEXT = ColumnType("int"), ColumnType("date"), ColumnType("varchar", 20)


def ranges(*bounds: str | None, method: str = "range") -> PartitionRule:
    return PartitionRule(method, (1,), tuple((f"p{number}", (bound,)) for number, bound in enumerate(bounds)))


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=8, unique=True).map(sorted),
    st.none() | st.integers(-1100, 1100),
)
def test_a_range_partition_holds_what_lies_below_its_bound(bounds: list[int], value: int | None) -> None:
    rule = ranges(*map(str, bounds))
    place = 0 if value is None else bisect.bisect_right(bounds, value)
    assert partition_of(rule, [value], [INT]) == (f"p{place}" if place < len(bounds) else None)
    assert partition_of(ranges(*map(str, bounds), None), [value], [INT]) == f"p{place}"


@pytest.mark.parametrize(
    ("column", "bounds", "value", "partition"),
    [
        ("tinyint", ("0", "1000"), 127, "p1"),
        ("bigint unsigned", ("9223372036854775808", None), 9223372036854775807, "p0"),
        ("bigint unsigned", ("9223372036854775808", None), 9223372036854775808, "p1"),
        ("decimal(10,2)", ("'1.5'", "10"), "9.99", "p1"),
        ("date", ("'2024-01-01'", "'2025-01-01'"), "2024-12-31", "p1"),
        ("date", ("'2024-01-01'", "'2025-01-01'"), "0000-00-00", "p0"),
        ("datetime(3)", ("'2024-01-01'", "MAXVALUE"), "2024-01-01 00:00:00.000", "p1"),
        ("time", ("'100:00:00'", None), "99:59:59", "p0"),
        ("time", ("'-01:00:00'", None), "-02:00:00", "p0"),
        ("varchar(9)", ("'m'", None), "abc", "p0"),
        ("varchar(9)", ("'m'", None), "z", "p1"),
        ("varbinary(9)", ("x'80'", None), "/w==", "p1"),
        ("int", ("10", "20"), None, "p0"),
        ("int", ("10", "20"), 20, None),
        ("int", ("10", "20"), "text", None),
    ],
)
def test_ranges_compare_as_the_columns_type_does(
    column: str, bounds: tuple[str | None, ...], value: object, partition: str | None
) -> None:
    assert partition_of(ranges(*bounds, method="range columns"), [value], [parse_type(column)]) == partition


def test_several_range_columns_compare_from_the_left_with_null_lowest() -> None:
    rule = PartitionRule(
        "RANGE COLUMNS", (1, 2), (("a", ("10", "'2024-01-01'")), ("b", ("10", None)), ("c", (None, None)))
    )
    rows = [
        (9, "2030-01-01"),
        (10, "2023-12-31"),
        (10, "2024-01-01"),
        (10, None),
        (None, None),
        (11, "2000-01-01"),
    ]
    assert [partition_of(rule, row, [INT, DATE]) for row in rows] == ["a", "a", "b", "a", "a", "c"]


def test_a_list_partition_holds_its_values_and_null_where_it_is_named() -> None:
    rule = PartitionRule("list", (1,), (("odd", ("1", "3", "NULL")), ("even", ("2", "'4'"))))
    assert [partition_of(rule, [value], [INT]) for value in (1, 2, 3, 4, None, 5)] == [
        "odd",
        "even",
        "odd",
        "even",
        "odd",
        None,
    ]


@pytest.mark.parametrize("rest", [("DEFAULT",), ("7", "DEFAULT"), (None,)])
def test_the_default_partition_of_a_list_holds_what_no_other_names(rest: tuple[str | None, ...]) -> None:
    rule = PartitionRule("list", (1,), (("a", ("1", "2")), ("rest", rest)))
    assert decidable(rule, [INT])
    assert [partition_of(rule, [value], [INT]) for value in (1, 2, 7, 9, None)] == [
        "a",
        "a",
        "rest",
        "rest",
        "rest",
    ]


def test_text_is_placed_only_where_case_does_not_matter() -> None:
    rule = PartitionRule("list columns", (1,), (("x", ("'Berlin'",)), ("y", ("'paris'",))))
    assert partition_of(rule, ["Berlin"], [TEXT]) == "x"
    assert partition_of(rule, ["berlin"], [TEXT]) is None
    assert partition_of(ranges("'M'", None), ["a"], [TEXT]) is None


@pytest.mark.parametrize(
    "rule",
    [
        PartitionRule("hash"),
        PartitionRule("key", (1,)),
        PartitionRule("", (1,)),
        PartitionRule("range", (), (("p0", ("10",)),)),
        PartitionRule("range", (1,)),
        ranges("TO_DAYS('2024-01-01')"),
        PartitionRule("list columns", (1, 2), (("p", ("(1,2)",)),)),
    ],
)
def test_other_methods_expressions_and_bounds_are_not_decidable(rule: PartitionRule) -> None:
    assert not decidable(rule)
    assert partition_of(rule, [1, 1][: len(rule.columns)], [INT, INT][: len(rule.columns)]) is None


def test_plain_ranges_and_lists_are_decidable() -> None:
    assert decidable(ranges("10", None))
    assert decidable(ranges("10", None), [INT])
    assert decidable(PartitionRule("list columns", (1,), (("p", ("'a'", "NULL")),)))
