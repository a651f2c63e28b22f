"""Gold's types: what holds what, the way there and back, and what no type can hold."""

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.gold_types import spark_type, to_canonical, to_python
from tests.support.value_strategies import as_single, typed_values

SPARK = {
    "tinyint": "TINYINT",
    "tinyint(1)": "TINYINT",
    "tinyint unsigned": "SMALLINT",
    "smallint unsigned": "INT",
    "mediumint": "INT",
    "mediumint unsigned": "INT",
    "int": "INT",
    "int unsigned": "BIGINT",
    "bigint": "BIGINT",
    "bigint unsigned": "DECIMAL(20,0)",
    "decimal(38,10)": "DECIMAL(38,10)",
    "decimal(10)": "DECIMAL(10,0)",
    "decimal(39,10)": "STRING",
    "decimal": "STRING",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bit(1)": "BIGINT",
    "bit(63)": "BIGINT",
    "bit(64)": "DECIMAL(20,0)",
    "varchar(3)": "STRING",
    "longtext": "STRING",
    "binary(3)": "BINARY",
    "longblob": "BINARY",
    "point": "BINARY",
    "date": "DATE",
    "datetime(6)": "TIMESTAMP_NTZ",
    "timestamp": "TIMESTAMP",
    "year": "INT",
    "time(3)": "STRING",
    "enum('a')": "STRING",
    "set('a')": "STRING",
    "json": "STRING",
    "vector(3)": "ARRAY<FLOAT>",
    "sdo_geometry": "STRING",
}
POLICY_TYPES = [
    ("time", "microseconds", "BIGINT"),
    ("bit(1)", "boolean", "BOOLEAN"),
    ("decimal(10,2)", "string", "STRING"),
    ("vector(3)", "string", "STRING"),
]
UNHOLDABLE = [
    ("date", "0000-00-00"),
    ("date", "2024-05-00"),
    ("date", "2024-02-30"),
    ("date", "20240230"),
    ("date", "2024-W01-1"),
    ("date", 19000),
    ("datetime", "0000-00-00 00:00:00"),
    ("datetime", "2024-05-00 10:00:00"),
    ("datetime", "2024-05-01"),
    ("datetime", "2024-05-01 10:00:00Z"),
    ("datetime", 1714550400000),
    ("timestamp", "0000-00-00 00:00:00"),
    ("timestamp", "2024-05-01 10:00:00"),
    ("decimal(5,2)", "1234.00"),
    ("decimal(5,2)", "1.234"),
    ("decimal(5,2)", "AfQ="),
    ("decimal(5,2)", "NaN"),
    ("decimal(5,2)", 1.5),
    ("decimal(5,0)", "123456"),
    ("bigint unsigned", -(10**20)),
    ("bigint unsigned", "12"),
    ("tinyint", 128),
    ("int", "12"),
    ("int", True),
    ("int", 1.5),
    ("float", 1e39),
    ("double", "1.5"),
    ("varchar(3)", "\ud800"),
    ("varchar(3)", 5),
    ("enum('a')", 2),
    ("set('a')", 2),
    ("binary(3)", "QUJ"),
    ("blob", "not base64"),
    ("blob", 5),
    ("vector(2)", "[1,x]"),
    ("vector(2)", "5"),
    ("vector(2)", '["a"]'),
    ("sdo_geometry", "\udfff"),
]


@pytest.mark.parametrize(("text", "spark"), SPARK.items())
def test_every_type_has_a_gold_type(text: str, spark: str) -> None:
    assert spark_type(parse_type(text)) == spark


@pytest.mark.parametrize(("text", "policy", "spark"), POLICY_TYPES)
def test_a_policy_chooses_another_type(text: str, policy: str, spark: str) -> None:
    name = "bit1" if text == "bit(1)" else parse_type(text).family
    assert spark_type(parse_type(text), {name: policy}) == spark


@given(typed_values())
def test_a_value_comes_back_from_gold_as_it_went_in(pair: tuple[ColumnType, object]) -> None:
    column_type, value = pair
    assert to_canonical(column_type)(to_python(column_type, spark_type(column_type))(value)) == value


@given(typed_values())
def test_a_value_comes_back_under_every_policy(pair: tuple[ColumnType, object]) -> None:
    column_type, value = pair
    for policies in (
        {"time": "microseconds", "bit1": "boolean"},
        {"decimal": "string", "vector": "string"},
    ):
        python = to_python(column_type, spark_type(column_type, policies))(value)
        assert to_canonical(column_type)(python) == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float_reads_as_its_shortest_number(value: float) -> None:
    printed = to_canonical(ColumnType("float"))(value)
    assert as_single(printed) == value
    assert len(repr(printed)) <= len(repr(value))


@pytest.mark.parametrize(("text", "value"), UNHOLDABLE)
def test_what_gold_cannot_hold_is_a_value_error_without_the_value(text: str, value: object) -> None:
    column_type = parse_type(text)
    with pytest.raises(ValueError) as error:
        to_python(column_type, spark_type(column_type))(value)
    assert str(value) not in str(error.value).split()


JSON_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)


@given(st.sampled_from(sorted(SPARK)), JSON_VALUES)
def test_any_json_value_is_held_or_a_value_error(text: str, value: object) -> None:
    column_type = parse_type(text)
    for policies in (
        {},
        {"time": "microseconds", "bit1": "boolean"},
    ):
        try:
            to_python(column_type, spark_type(column_type, policies))(value)
        except ValueError:
            continue


def test_values_have_the_python_types_that_arrow_takes() -> None:
    held = {
        text: to_python(parse_type(text), spark_type(parse_type(text)))(value)
        for text, value in [
            ("bigint unsigned", 2**64 - 1),
            ("decimal(5,2)", "1.50"),
            ("date", "2024-05-01"),
            ("datetime(3)", "2024-05-01 10:00:00.120"),
            ("binary(3)", "QUJD"),
            ("vector(2)", "[1,2.5]"),
        ]
    }
    assert held == {
        "bigint unsigned": Decimal(2**64 - 1),
        "decimal(5,2)": Decimal("1.50"),
        "date": date(2024, 5, 1),
        "datetime(3)": datetime(2024, 5, 1, 10, 0, 0, 120000),
        "binary(3)": b"ABC",
        "vector(2)": [1.0, 2.5],
    }


def test_time_is_text_or_microseconds() -> None:
    time = ColumnType("time", 1)
    assert to_python(time, "STRING")("-838:59:59.5") == "-838:59:59.5"
    assert to_python(time, "BIGINT")("-838:59:59.5") == -3020399500000


def test_an_instant_reads_back_in_utc_whatever_its_zone() -> None:
    read = to_canonical(ColumnType("timestamp", 3))
    assert read(datetime.fromisoformat("2024-05-05T23:08:09.120+08:00")) == "2024-05-05 15:08:09.120Z"
    assert read(datetime(2024, 5, 5, 15, 8, 9)) == "2024-05-05 15:08:09.000Z"
