"""Values from the wire to gold: exact, or NULL with the source's text beside it (T81 to T101)."""

from typing import Any

import pytest

from tests.support.feeds import Canal, Debezium, TiCDC


def gold(declared: str, wire: Any, feed: TiCDC | None = None) -> dict[str, Any]:
    """The row that gold has of one value in column `v`."""
    feed = feed or TiCDC(time_zone="Asia/Shanghai")
    full = isinstance(feed, Canal)  # Canal tells the type with its length, TiCDC the word alone
    word = declared if full else declared.partition("(")[0] + (" unsigned" if "UNSIGNED" in declared else "")
    feed.ddl(1, f"CREATE TABLE t (id INT PRIMARY KEY, v {declared})")
    feed.row(2, "INSERT", {"id": 1, "v": wire}, types={"id": "int", "v": word.lower()})
    (row,) = feed.table()
    return {name: value for name, value in row.items() if name != "id"}


@pytest.mark.parametrize(
    ("declared", "wire", "value"),
    [
        pytest.param("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615, id="T81"),
        pytest.param("BIGINT", "9007199254740993", 9007199254740993, id="T81 beyond a double"),
        pytest.param("DECIMAL(65,30)", "1" * 35 + "." + "2" * 30, "1" * 35 + "." + "2" * 30, id="T82"),
        pytest.param("DECIMAL(38,10)", "-0.0000000001", "-0.0000000001", id="T82 small"),
        pytest.param("FLOAT", "0.1", 0.1, id="T83"),
        pytest.param("FLOAT", "340282350000000000000000000000000000000", 3.4028235e38, id="T83 limit"),
        pytest.param("DOUBLE", "0.1", 0.1, id="T83 double"),
        pytest.param("BIT(64)", "18446744073709551615", 18446744073709551615, id="T84"),
        pytest.param("BIT(1)", "1", 1, id="T84 one"),
        pytest.param("TINYINT(1)", "2", 2, id="T85"),
        pytest.param("ENUM('a','b')", "2", "b", id="T86"),
        pytest.param("SET('a','b','c')", "5", "a,c", id="T86 set"),
        pytest.param("ENUM('a','b')", "0", "", id="T87"),
        pytest.param("SET('a','b')", "0", "", id="T87 set"),
        pytest.param("TIME", "-838:59:59", "-838:59:59", id="T88"),
        pytest.param("TIME(6)", "838:59:59.000000", "838:59:59.000000", id="T88 fraction"),
        pytest.param("TIME(3)", "-00:00:00.100", "-00:00:00.100", id="T88 minus nothing"),
        pytest.param("YEAR", "0", 0, id="T89"),
        pytest.param("YEAR", "2155", 2155, id="T89 limit"),
        pytest.param("DATE", "0001-01-01", "0001-01-01", id="T91"),
        pytest.param(
            "DATETIME(6)",
            "1582-10-10 00:00:00.000001",
            "1582-10-10 00:00:00.000001",
            id="T91 between the calendars",
        ),
        pytest.param("DATETIME", "9999-12-31 23:59:59", "9999-12-31 23:59:59", id="T91 last"),
        pytest.param("TIMESTAMP(3)", "2024-05-05 23:08:09.123", "2024-05-05 15:08:09.123Z", id="T92"),
        pytest.param("TIMESTAMP", "1970-01-01 08:00:01", "1970-01-01 00:00:01Z", id="T92 first"),
        pytest.param("DATETIME", "2024-05-05 23:08:09", "2024-05-05 23:08:09", id="T92 has no zone"),
        pytest.param("VARCHAR(9)", "null", "null", id="T93 the word"),
        pytest.param("VARCHAR(9)", "", "", id="T93 empty"),
        pytest.param("VARCHAR(9)", None, None, id="T93 null"),
        pytest.param("VARBINARY(9)", "\x00\xff\\\"'", "AP9cIic=", id="T96"),
        pytest.param("BINARY(4)", "a\x00\x00\x00", "YQAAAA==", id="T96 padded"),
        pytest.param("VARCHAR(9) CHARACTER SET gbk", "中文", "中文", id="T97"),
        pytest.param(
            "JSON",
            '{"b": 1, "a": 12345678901234567890, "a": 1.0}',
            '{"b": 1, "a": 12345678901234567890, "a": 1.0}',
            id="T98",
        ),
        pytest.param("VARCHAR(9)", "a\0b", "a\0b", id="T99 zero"),
        pytest.param("VARCHAR(9)", "😀\u2028", "😀\u2028", id="T99 beyond the BMP"),
        pytest.param("INT(8) ZEROFILL", "42", 42, id="T101"),
        pytest.param("VECTOR(3)", "[1,2.5,-3]", "[1,2.5,-3]", id="T101 vector"),
    ],
)
def test_t81_to_t101_a_value_of_ticdc_is_in_gold_what_it_is_in_the_source(
    declared: str, wire: Any, value: Any
) -> None:
    found = gold(declared, wire)

    assert found == {"v": value}
    assert type(found["v"]) is type(value)


@pytest.mark.parametrize(
    ("declared", "wire", "value"),
    [
        pytest.param("DECIMAL(10,2)", "11.0", "11.00", id="T82"),
        pytest.param("FLOAT", "3.4028235E38", 3.4028235e38, id="T83"),
        pytest.param("DOUBLE", "1.6777216E7", 16777216.0, id="T83 exponent"),
        pytest.param("BIT(9)", "257", 257, id="T84"),
        pytest.param("ENUM('a','b')", "2", "b", id="T86"),
        pytest.param("TIMESTAMP(3)", "2024-01-01 08:00:00.5", "2024-01-01 00:00:00.500Z", id="T92"),
        pytest.param("BINARY(4)", "a", "YQAAAA==", id="T96"),
        pytest.param("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615, id="T81"),
    ],
)
def test_t81_to_t101_a_value_of_canal_is_in_gold_what_it_is_in_the_source(
    declared: str, wire: Any, value: Any
) -> None:
    assert gold(declared, wire, Canal(time_zone="Asia/Shanghai")) == {"v": value}


@pytest.mark.parametrize(
    ("declared", "wire"),
    [
        ("DATE", "0000-00-00"),
        ("DATE", "2024-05-00"),
        ("DATE", "2024-02-30"),
        ("DATETIME", "0000-00-00 00:00:00"),
        ("DATETIME(3)", "2024-00-01 10:00:00.000"),
        ("TIMESTAMP", "0000-00-00 00:00:00"),
    ],
)
def test_t90_a_date_that_is_none_is_null_with_its_text_beside_it(declared: str, wire: str) -> None:
    assert gold(declared, wire) == {"v": None, "_raw_v": wire}


@pytest.mark.parametrize(
    ("wire", "text"),
    [("2024-11-03 01:30:00", "2024-11-03 05:30:00Z"), ("2024-03-10 02:30:00", "2024-03-10 07:30:00Z")],
)
def test_t92_of_an_hour_that_comes_twice_it_is_the_first(wire: str, text: str) -> None:
    assert gold("TIMESTAMP", wire, TiCDC(time_zone="America/New_York")) == {"v": text}


def test_t86_labels_are_those_of_the_schema_at_the_rows_place() -> None:
    kinds = {"id": "int", "e": "enum"}
    feed = (
        TiCDC()
        .ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'))")
        .row(2, "INSERT", {"id": 1, "e": 2}, types=kinds)
    )
    feed.ddl(3, "ALTER TABLE t MODIFY e ENUM('b','a','c')").row(4, "INSERT", {"id": 2, "e": 2}, types=kinds)

    assert feed.table() == [{"id": 1, "e": "b"}, {"id": 2, "e": "a"}]


def test_t86_an_index_without_labels_is_null_with_the_index_beside_it() -> None:
    feed = TiCDC().row(2, "INSERT", {"id": 1, "e": 2}, types={"id": "int", "e": "enum"})

    assert feed.table() == [{"id": 1, "e": None, "_raw_e": "2"}]


def test_t93_null_absent_the_word_null_and_a_default_are_four_things() -> None:
    feed = TiCDC().ddl(
        1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'd', b VARCHAR(9) DEFAULT 'd')"
    )
    feed.row(2, "INSERT", {"id": 1, "a": None, "b": "null"}).row(
        3, "UPDATE", {"id": 1, "b": None}, {"b": "null"}
    )
    feed.ddl(4, "ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'd'")

    assert feed.table() == [{"id": 1, "a": None, "b": None, "c": "d"}]


def test_t94_a_partial_new_image_keeps_what_it_leaves_out() -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b BLOB)")
    kinds = {"id": "int", "a": "varchar(9)", "b": "blob"}
    feed.row(2, "INSERT", {"id": 1, "a": "q", "b": "zz"}, types=kinds).row(
        3, "UPDATE", {"id": 1, "a": "r"}, {"a": "q"}, types=kinds
    )

    assert feed.table() == [{"id": 1, "a": "r", "b": "eno="}]


def test_t95_columns_in_old_that_have_not_changed_do_no_harm() -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))")
    feed.put(
        2,
        {
            "type": "INSERT",
            "pkNames": ["id"],
            "mysqlType": {},
            "data": [{"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": "x", "b": "y"}],
        },
    )
    data = [{"id": "1", "a": "z", "b": "y"}, {"id": "2", "a": "x", "b": "w"}]
    old = [{"a": "x"}, {"a": "x", "b": "y"}]
    feed.put(3, {"type": "UPDATE", "pkNames": ["id"], "mysqlType": {}, "data": data, "old": old})

    assert feed.table() == [{"id": 1, "a": "z", "b": "y"}, {"id": 2, "a": "x", "b": "w"}]


@pytest.mark.parametrize(
    ("declared", "wire", "options", "value"),
    [
        pytest.param("BIGINT UNSIGNED", -1, {}, 2**64 - 1, id="T81 long"),
        pytest.param("BIGINT UNSIGNED", "AP//////////", {}, 2**64 - 1, id="T81 precise"),
        pytest.param("DECIMAL(10,2)", "BMs=", {}, "12.27", id="T82 precise"),
        pytest.param("DECIMAL(10,2)", "12.27", {"decimal_handling_mode": "string"}, "12.27", id="T82 string"),
        pytest.param("DECIMAL(10,2)", 12.27, {"decimal_handling_mode": "double"}, "12.27", id="T82 double"),
        pytest.param("FLOAT(7,3)", 1.2339999675750732, {}, 1.234, id="T83"),
        pytest.param("BIT(12)", "AQI=", {}, 513, id="T84 little endian"),
        pytest.param("BIT(1)", True, {}, 1, id="T84 boolean"),
        pytest.param("ENUM('with,comma','b')", "with\\,comma", {}, "with,comma", id="T86"),
        pytest.param("ENUM('a','b')", "", {}, "", id="T87"),
        pytest.param("TIME(3)", -43200500000, {}, "-12:00:00.500", id="T88"),
        pytest.param(
            "TIME(3)", 43200500, {"time_precision_mode": "connect"}, "12:00:00.500", id="T88 connect"
        ),
        pytest.param(
            "TIME(3)", "12:00:00.5Z", {"time_precision_mode": "isostring"}, "12:00:00.500", id="T88 isostring"
        ),
        pytest.param("DATE", 19000, {}, "2022-01-08", id="T91"),
        pytest.param("DATE", -719162, {}, "0001-01-01", id="T91 first"),
        pytest.param(
            "DATE", "9999-12-31Z", {"time_precision_mode": "isostring"}, "9999-12-31", id="T91 isostring"
        ),
        pytest.param("DATETIME(6)", 1700000000123456, {}, "2023-11-14 22:13:20.123456", id="T91 micro"),
        pytest.param("DATETIME(3)", -1, {}, "1969-12-31 23:59:59.999", id="T91 before 1970"),
        pytest.param(
            "DATETIME(3)",
            1700000000123,
            {"time_precision_mode": "connect"},
            "2023-11-14 22:13:20.123",
            id="T91 connect",
        ),
        pytest.param("TIMESTAMP(2)", "2024-05-05T23:08:09.12Z", {}, "2024-05-05 23:08:09.12Z", id="T92"),
        pytest.param("VARBINARY(9)", "0001ff", {"binary_handling_mode": "hex"}, "AAH/", id="T96 hex"),
        pytest.param(
            "VARBINARY(9)", "AAH_", {"binary_handling_mode": "base64-url-safe"}, "AAH/", id="T96 url"
        ),
        pytest.param("BINARY(3)", "AAE=", {}, "AAEA", id="T96 padded"),
    ],
)
def test_t81_to_t101_a_schemaless_value_of_debezium_is_read_by_the_tables_schema(
    declared: str, wire: Any, options: dict[str, str], value: Any
) -> None:
    feed = (
        Debezium(**options)
        .ddl(1, f"CREATE TABLE t (id INT PRIMARY KEY, v {declared})")
        .change(10, "c", None, {"id": 1, "v": wire})
    )

    assert feed.table() == [{"id": 1, "v": value}]


@pytest.mark.parametrize(
    ("declared", "wire", "told"),
    [
        pytest.param("DATETIME(6)", 1700000000123, "2023-11-14 22:13:20.123", id="T91 connect"),
        pytest.param("TIME(6)", 43200500, "12:00:00.500000", id="T88 connect"),
    ],
)
def test_t88_t91_what_connect_cuts_is_null_with_its_milliseconds_beside_it(
    declared: str, wire: int, told: str
) -> None:
    feed = (
        Debezium(time_precision_mode="connect")
        .ddl(1, f"CREATE TABLE t (id INT PRIMARY KEY, v {declared})")
        .change(10, "c", None, {"id": 1, "v": wire})
    )

    assert feed.table() == [{"id": 1, "v": None, "_raw_v": told}]


def test_t101_a_geometry_is_its_srid_and_its_wkb() -> None:
    point = {"x": 1.0, "y": 2.0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None}
    feed = (
        Debezium()
        .ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v POINT)")
        .change(10, "c", None, {"id": 1, "v": point})
    )

    assert feed.table() == [{"id": 1, "v": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA=="}]
