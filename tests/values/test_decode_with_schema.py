"""Wire values that a schema makes canonical, and the normal form that makes equal values equal."""

import base64
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.decode_with_schema import resolve, resolver
from lakehouse.values.normal_form import normal_form, single
from tests.support.value_strategies import as_single, binaries, decimals, enums, sets, typed_values

ENCODINGS = (
    "canonical",
    "ticdc-open",
    "ticdc-canal-json",
    "canal",
    "canal-protobuf",
    "ticdc-debezium",
    "debezium",
    "tencent-dts",
)
LABELS = "enum('new','paid','with,comma')"
RESOLVED = [
    (LABELS, "ticdc-open", 2, "paid"),
    (LABELS, "ticdc-open", 0, ""),
    (LABELS, "ticdc-canal-json", "paid", "paid"),
    (LABELS, "ticdc-open", 4, 4),
    (LABELS, "canal", "3", "with,comma"),
    (LABELS, "debezium", "with\\,comma", "with,comma"),
    ("enum('1','2')", "canal", "2", "2"),
    ("enum", "ticdc-open", 2, 2),
    ("text", "ticdc-open-legacy", "c2ln0LY=", "sigж"),
    ("inet6", "canonical", "2001:db8::1", "2001:db8::1"),
    ("inet4", "tencent-dts", "\n\0\0\x01", {"base64": "CgAAAQ=="}),
    ("uuid", "canonical", "0123456789abcdef", {"base64": "MDEyMzQ1Njc4OWFiY2RlZg=="}),
    ("text", "ticdc-open-legacy", "/w==", {"base64": "/w=="}),
    ("text", "ticdc-open-legacy", "no base64", "no base64"),
    ("blob", "ticdc-open-legacy", "c2ln", "c2ln"),
    ("varchar(9)", "ticdc-open-legacy", "c2ln", "c2ln"),
    ("set('x','y','z')", "ticdc-open", 5, "x,z"),
    ("set('x','y','z')", "ticdc-open", 0, ""),
    ("set('x','y','z')", "canal", "6", "y,z"),
    ("set('x','y','z')", "ticdc-open", 8, 8),
    ("decimal(10,2)", "canal", "11.0", "11.00"),
    ("decimal(10,2)", "canal", "-0.0", "0.00"),
    ("decimal(10,2)", "canal", "11", "11.00"),
    ("decimal(10,0)", "canal", "11.0", "11"),
    ("decimal(30,2)", "canal", "1E+20", "100000000000000000000.00"),
    ("decimal(10,2)", "canal", "11.005", "11.005"),
    ("decimal(10,2)", "canal", "none", "none"),
    ("float", "canal", "3.4028235E38", 3.4028235e38),
    ("float", "canal", "1.6777216E7", 16777216.0),
    ("float", "debezium", 1.100000023841858, 1.1),
    ("double", "canal", "1.0E10", 1e10),
    ("double", "debezium", 3, 3.0),
    ("double", "canal", "nan", "nan"),
    ("datetime(3)", "canal", "2024-01-01 10:00:00.5", "2024-01-01 10:00:00.500"),
    ("datetime", "canal", "2024-01-01 10:00:00.0", "2024-01-01 10:00:00"),
    ("datetime(3)", "canal", "2024-01-01 10:00:00.123456", "2024-01-01 10:00:00.123456"),
    ("timestamp(2)", "canal", "2024-01-01 10:00:00Z", "2024-01-01 10:00:00.00Z"),
    ("timestamp(2)", "canal", "0000-00-00 00:00:00", "0000-00-00 00:00:00.00"),
    ("time(1)", "canal", "-838:59:59", "-838:59:59.0"),
    ("bit(8)", "canal", "255", 255),
    ("year", "canal", "2024", 2024),
    ("bigint unsigned", "canal-protobuf", "18446744073709551615", 18446744073709551615),
    ("binary(4)", "canal", "QUI=", "QUIAAA=="),
    ("binary(4)", "canal", "", "AAAAAA=="),
    ("varbinary(4)", "canal", "QUI=", "QUI="),
    ("bigint unsigned", "ticdc-debezium", -1, 18446744073709551615),
    ("bigint", "ticdc-debezium", -1, -1),
    ("int unsigned", "debezium", 4294967295, 4294967295),
    ("bigint unsigned", "debezium", "AP//////////", 18446744073709551615),
    ("tinyint(1)", "debezium", True, 1),
    ("decimal(10,2)", "ticdc-debezium", 100.5, "100.50"),
    ("decimal(10,2)", "ticdc-debezium", 100, "100.00"),
    ("decimal", "ticdc-debezium", 12.5, "12.5"),
    ("decimal", "ticdc-debezium", 1e22, "10000000000000000000000"),
    ("decimal(20,4)", "ticdc-debezium", 123456789012.3456, "123456789012.3456"),
    ("decimal(30,2)", "ticdc-debezium", 12345678901234567.89, {"double": 12345678901234568.0}),
    ("decimal(20,0)", "ticdc-debezium", 4503599627370497, "4503599627370497"),
    ("decimal(20,0)", "ticdc-debezium", 12345678901234567000, {"double": 12345678901234567000}),
    ("decimal(20,0)", "ticdc-debezium", 10**400 + 1, {"double": 10**400 + 1}),
    ("decimal", "ticdc-debezium", 0.1 + 0.2, {"double": 0.1 + 0.2}),
    ("decimal unsigned", "ticdc-debezium", 0.0, "0"),
    ("decimal", "ticdc-open", "12.50", "12.50"),
    (
        "decimal(65,30)",
        "ticdc-debezium",
        1e34,
        "10000000000000000000000000000000000.000000000000000000000000000000",
    ),
    ("decimal(65,30)", "ticdc-debezium", 1e35, {"double": 1e35}),  # 35 nines before the point and 30 behind
    ("decimal(10,2)", "debezium", "AfQ=", "5.00"),
    ("decimal(10,2)", "debezium", "/gw=", "-5.00"),
    ("decimal(10,4)", "debezium", "BQ==", "0.0005"),
    ("decimal(10,0)", "debezium", "AfQ=", "500"),
    ("decimal(10,0)", "debezium", "1234", "-2658824"),
    ("decimal(10,0)", "debezium/decimal.handling.mode=string", "1234", "1234"),
    ("decimal(10,0)", "debezium", "-1234", "-1234"),
    ("decimal(10,2)", "debezium", "1234567.80", "1234567.80"),
    ("decimal(10,2)", "debezium", {"scale": 1, "value": "BQ=="}, "0.50"),
    ("bit(1)", "debezium", True, 1),
    ("bit(16)", "ticdc-debezium", "AQI=", 513),
    ("date", "debezium", 19000, "2022-01-08"),
    ("date", "debezium", -719162, "0001-01-01"),
    ("date", "debezium", 2932897, 2932897),
    ("date", "debezium", "2022-01-08Z", "2022-01-08"),
    ("datetime(3)", "debezium", 1700000000123, "2023-11-14 22:13:20.123"),
    ("datetime", "ticdc-debezium", 1700000000000, "2023-11-14 22:13:20"),
    ("datetime(6)", "debezium", -1, "1969-12-31 23:59:59.999999"),
    ("datetime(3)", "debezium/time.precision.mode=connect", 1700000000123, "2023-11-14 22:13:20.123"),
    (
        "datetime(6)",
        "debezium/time.precision.mode=connect",
        1700000000123,
        {"text": "2023-11-14 22:13:20.123"},
    ),
    ("datetime(4)", "debezium", {"milliseconds": 1700000000123}, {"text": "2023-11-14 22:13:20.123"}),
    ("datetime(3)", "debezium", {"milliseconds": 1700000000123}, "2023-11-14 22:13:20.123"),
    ("time(6)", "debezium/time.precision.mode=connect", 3600000, {"text": "01:00:00"}),
    ("time(4)", "debezium", {"milliseconds": 3600000}, {"text": "01:00:00"}),
    ("time(3)", "debezium", {"milliseconds": 3600000}, "01:00:00.000"),
    (
        "datetime(6)",
        "debezium/time.precision.mode=isostring",
        "2023-11-14T22:13:20.123Z",
        "2023-11-14 22:13:20.123000",
    ),
    ("datetime(6)", "debezium", 10**20, 10**20),
    ("timestamp(3)", "debezium", "2024-05-05T23:08:09.123Z", "2024-05-05 23:08:09.123Z"),
    ("timestamp", "debezium", "2024-05-05T23:08:09+08:00", "2024-05-05 15:08:09Z"),
    ("timestamp(3)", "debezium", "1970-01-01T00:00:00Z", "0000-00-00 00:00:00.000"),
    ("timestamp(3)", "debezium", "1970-01-01T00:00:00.5Z", "1970-01-01 00:00:00.500Z"),
    ("year", "debezium", 1900, 0),
    ("year", "debezium", 1901, 1901),
    ("time(6)", "debezium", -3020399000000, "-838:59:59.000000"),
    ("time", "debezium/time.precision.mode=connect", 3600000, "01:00:00"),
    ("time(2)", "debezium/time.precision.mode=adaptive", 3600010, "01:00:00.01"),
    ("time(3)", "debezium/time.precision.mode=nanoseconds", -1500000000, "-00:00:01.500"),
    ("blob", "debezium/binary.handling.mode=hex", "414243", "QUJD"),
    ("blob", "debezium/binary.handling.mode=base64-url-safe", "-_-_", "+/+/"),
    ("point", "debezium", {"x": 1.0, "y": 2.0, "wkb": "AQE=", "srid": None}, "AAAAAAEB"),
    ("geometry", "debezium", {"wkb": "AQE=", "srid": 4326}, "5hAAAAEB"),
    ("vector(2)", "debezium", [1.0, 2.5], "[1,2.5]"),
    ("varchar(3)", "debezium", "AfQ=", "AfQ="),
    ("json", "canal", '{"a":1}', '{"a":1}'),
]


@pytest.mark.parametrize(("text", "encoding", "wire", "value"), RESOLVED)
def test_a_wire_value_becomes_canonical_by_its_column_type(
    text: str, encoding: str, wire: object, value: object
) -> None:
    resolved = resolve(wire, parse_type(text), encoding)
    assert (resolved, type(resolved)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["int", "bigint unsigned", "varchar(3)", "json", "date", "year", "blob", "vector(3)", "enum"]
)
def test_canonical_values_of_these_types_cost_nothing(text: str) -> None:
    assert resolver(parse_type(text), "canonical") is None


@given(typed_values(), st.sampled_from(ENCODINGS[:5]))
def test_a_canonical_value_is_its_own_resolution(pair: tuple[ColumnType, object], encoding: str) -> None:
    column_type, value = pair
    if column_type.family in ("enum", "set") and encoding == "canal":
        return
    resolved = resolve(value, column_type, encoding)
    assert (resolved, type(resolved)) == (value, type(value))


@given(enums())
def test_an_enum_index_is_the_label_at_that_place(pair: tuple[ColumnType, str]) -> None:
    column_type, label = pair
    index = column_type.members.index(label) + 1 if label else 0
    assert resolve(index, column_type, "ticdc-open") == label


@given(sets())
def test_a_set_mask_is_its_labels_in_member_order(pair: tuple[ColumnType, str]) -> None:
    column_type, labels = pair
    mask = sum(1 << column_type.members.index(label) for label in labels.split(",") if label)
    assert resolve(mask, column_type, "ticdc-open") == labels


@given(decimals())
def test_debezium_decimals_are_unscaled_twos_complement(pair: tuple[ColumnType, str]) -> None:
    column_type, text = pair
    unscaled = (
        int(Decimal(text).scaleb(column_type.scale or 0).to_integral_exact())
        if len(text) < 28
        else int(text.replace(".", ""))
    )
    wire = base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    assert resolve(wire, column_type, "debezium") == text


@given(decimals())
def test_a_decimal_gets_its_scale_back_when_zeros_were_cut(pair: tuple[ColumnType, str]) -> None:
    column_type, text = pair
    cut = text.rstrip("0").rstrip(".") if "." in text else text
    assert resolve(cut, column_type, "canal") == text


@given(binaries())
def test_zero_bytes_that_a_binlog_cut_are_put_back(pair: tuple[ColumnType, str]) -> None:
    column_type, text = pair
    if column_type.base == "binary":
        cut = base64.b64encode(base64.b64decode(text).rstrip(b"\0")).decode()
        assert resolve(cut, column_type, "canal") == text


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_two_prints_of_one_float_are_equal(value: float) -> None:
    assert single(value) == single(single(value)) == resolve(repr(value), ColumnType("float"), "canal")
    assert as_single(single(value)) == value


@given(st.dates(), st.datetimes(datetime(1, 1, 1)), st.integers(-3020399 * 10**6, 3020399 * 10**6))
def test_debezium_numbers_are_days_and_microseconds_since_the_epoch(
    day: date, moment: datetime, micros: int
) -> None:
    since = moment - datetime(1970, 1, 1)
    assert resolve((day - date(1970, 1, 1)).days, ColumnType("date"), "debezium") == day.isoformat()
    assert resolve(
        since // timedelta(microseconds=1), ColumnType("datetime", 6), "debezium"
    ) == moment.isoformat(" ", "microseconds")
    text = resolve(micros, ColumnType("time", 6), "debezium")
    hours, minutes, seconds = text.removeprefix("-").split(":")
    total = (int(hours) * 60 + int(minutes)) * 60 + Decimal(seconds)
    assert (-total if text.startswith("-") else total) == Decimal(micros).scaleb(-6)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["wkb", "srid", "scale", "value", "x"]), inner, max_size=3)
    ),
)
TYPES = sorted({text for text, *_ in RESOLVED})


@given(
    st.sampled_from(TYPES),
    st.sampled_from([*ENCODINGS, *{encoding for _, encoding, *_ in RESOLVED}]),
    JSON_VALUES,
)
def test_no_json_value_makes_a_resolver_fail(text: str, encoding: str, value: object) -> None:
    rule = resolver(parse_type(text), encoding)
    first = resolve(value, parse_type(text), encoding)
    again = value if rule is None else rule(value)
    assert repr(first) == repr(again)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TYPES)
def test_null_stays_null(text: str, encoding: str) -> None:
    assert resolve(None, parse_type(text), encoding) is None


def test_fraction_digits_of_an_inferred_type_are_those_that_say_something() -> None:
    form = normal_form(ColumnType("datetime"))
    assert form is not None
    assert [form(f"2024-01-01 10:00:00{tail}") for tail in ("", ".000", ".120", ".5")] == [
        "2024-01-01 10:00:00",
        "2024-01-01 10:00:00",
        "2024-01-01 10:00:00.12",
        "2024-01-01 10:00:00.5",
    ]


def test_a_geometry_is_its_srid_in_four_bytes_and_its_wkb() -> None:
    wire = {"wkb": base64.b64encode(b"\1\1").decode(), "srid": 3857}
    assert (
        base64.b64decode(resolve(wire, ColumnType("point"), "debezium")) == struct.pack("<I", 3857) + b"\1\1"
    )


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("binary(999999999)", "QQ=="),
        ("decimal(65,999999999)", "1.5"),
        ("datetime(999999999)", "2024-05-05 01:02:03.5"),
        ("time(999999999)", "01:02:03.5"),
    ],
)
def test_a_size_that_no_server_has_fills_no_memory(word: str, value: str) -> None:
    assert parse_type(word).length is None
    assert resolve(value, parse_type(word), "canonical") == value


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("NATIONAL VARCHAR(10)", "varchar(10)"),
        ("national character varying(4)", "varchar(4)"),
        ("nchar varchar(3)", "varchar(3)"),
        ("NATIONAL CHARACTER(2)", "char(2)"),
        ("SERIAL", "bigint unsigned"),
        ("enum('a national b')", "enum('a national b')"),
    ],
)
def test_a_type_is_the_same_in_each_of_its_names(spelled: str, plain: str) -> None:
    """Canal and Debezium spell a type as its statement does."""
    assert parse_type(spelled) == parse_type(plain)


@pytest.mark.parametrize("told", ["a\\b,c", "a\\b\\,c", "a\\\\b,c", "a\\\\b\\,c"])
def test_a_label_is_the_same_however_its_escapes_are_spelled(told: str) -> None:
    """Debezium's stream has `a\\\\b\\,c`, for it reads a statement; its snapshot has the label."""
    type_ = parse_type("enum('x','a\\\\b,c')")

    assert type_.members == ("x", "a\\b,c")
    assert resolve(told, type_, "debezium") == "a\\b,c"


def test_the_labels_of_a_set_are_the_same_however_their_escapes_are_spelled() -> None:
    type_ = parse_type("set('x','a\\\\b')")

    assert [resolve(told, type_, "debezium") for told in ("x,a\\\\b", "x,a\\b", "", 3)] == [
        "x,a\\b",
        "x,a\\b",
        "",
        "x,a\\b",
    ]
