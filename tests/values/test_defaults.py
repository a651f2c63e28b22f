"""The value that existing rows get at ADD COLUMN: a MariaDB's own answers, and what no default text
can tell.
"""

import json
from base64 import b64decode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.convert import UNKNOWABLE
from lakehouse.values.defaults import default_reason, default_value
from tests.support.paths import DATA
from tests.support.value_strategies import SERVERS, typed_values

RECORDED = [json.loads(line) for line in (DATA / "defaults.jsonl").read_text().splitlines()]
TYPES = sorted(
    {line["type"] for line in RECORDED}
    | {"json", "vector(2)", "point", "blob", "varchar(3) character set gbk"}
)
EXPRESSIONS = [
    "CURRENT_TIMESTAMP",
    "CURRENT_TIMESTAMP()",
    "CURRENT_TIMESTAMP(6)",
    "NOW()",
    "current_timestamp() ON UPDATE current_timestamp()",
    "UUID()",
    "(UUID_TO_BIN(UUID()))",
    "RAND()",
    "(1 + 2)",
    "AUTO_INCREMENT",
    "NEXT VALUE FOR `s`",
    "(`a` + 1)",
    "('a' || 'b')",
    "(CURDATE())",
    "'open",
]


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"{line['type']} {line['default']}")
def test_existing_rows_read_what_mariadb_gave_them(line: dict) -> None:
    value = default_value(line["default"], parse_type(line["type"]), line["not_null"], server="mariadb")
    assert (value, type(value)) == (line["value"], type(line["value"]))


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("column", ["int", "varchar(9)", "datetime(6)", "binary(16)", "json"])
def test_an_expression_is_unknowable_and_says_so(text: str, column: str) -> None:
    assert default_value(text, parse_type(column), not_null=True) is UNKNOWABLE
    assert (default_reason(text, parse_type(column), not_null=True) or "").startswith(
        "the default is an expression: "
    )


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("varchar(9)", "_UTF8MB4'none'", "none"),
        ("varchar(9)", "_utf8mb4 'a' COLLATE utf8mb4_bin", "a"),
        ("inet4", "0x00000000", "0.0.0.0"),
        ("inet4", "x'7F000001'", "127.0.0.1"),
        ("inet6", "0x00000000000000000000000000000001", "::1"),
        ("uuid", "0x" + "61" * 16, "61616161-6161-6161-6161-616161616161"),
        ("varchar(9)", "('abc')", "abc"),
        ("varchar(9)", "('a)')", "a)"),
        ("varchar(9)", "_latin1 x'E9'", "é"),
        ("varchar(9)", "_latin1'e'", "e"),
        ("varchar(9)", "N'é'", "é"),
        ("varchar(9)", "_binary'é'", "é"),
        ("varbinary(9)", "_latin1'é'", "w6k="),
        ("text", "('')", ""),
        ("json", "(JSON_ARRAY())", "[]"),
        ("json", "(json_object())", "{}"),
        ("json", "('[1]')", "[1]"),
        ("int", "- 1", -1),
        ("int", "TRUE", 1),
        ("decimal(65,30)", "'0.00'", "0." + "0" * 30),
        ("bit(1)", "b'1'", 1),
        ("bit(64)", "b'" + "1" * 64 + "'", 2**64 - 1),
        ("enum('a','b')", "2", "b"),
        ("enum('a','b')", "x'62'", "b"),
        ("set('a','b')", "0x622c61", "a,b"),
        ("int", "'1.5'", 2),
        ("int", "'1e2'", 100),
        ("blob", "('ab')", "YWI="),
        ("blob", "_binary'ab'", "YWI="),
        ("vector(2)", "('[1, 2.5]')", "[1,2.5]"),
        ("datetime", "'2024-01-02 03:04:05'", "2024-01-02 03:04:05"),
        ("timestamp(2)", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00.00"),
        ("year", "'0000'", 0),
    ],
)
def test_a_literal_is_stored_as_the_column_stores_it(column: str, text: str, value: object) -> None:
    for server in SERVERS:
        stored = default_value(text, parse_type(column), not_null=True, server=server)
        assert (stored, type(stored)) == (value, type(value))


@pytest.mark.parametrize("column", TYPES)
def test_a_nullable_column_without_default_is_null(column: str) -> None:
    assert default_value(None, parse_type(column), not_null=False) is None
    assert default_value(" null ", parse_type(column), not_null=False) is None


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("point", None, "geometry has no implicit default"),
        ("vector(2)", None, "vector has no implicit default"),
        ("point", "'x'", "a default of geometry"),
        ("vector(2)", "'x'", "not a vector"),
        ("datetime", "'2024-01-02 03:04:05+08:00'", "a literal with a time zone"),
        ("varchar(3)", "x'FF'", "bytes that are no text of their charset"),
        ("json", "'x'", "text that is not JSON"),
        ("varchar(9)", "_latin1'é'", "text whose bytes are read by another charset than the statement's"),
        ("varchar(9)", "'caf\ufffd'", "characters of its text are lost in the statement's message"),
        ("varchar(9)", "_ucs2'ab'", "text whose bytes are read by another charset than the statement's"),
    ],
)
def test_other_defaults_that_no_rule_decides_say_why(column: str, text: str | None, why: str) -> None:
    assert default_value(text, parse_type(column), not_null=True) is UNKNOWABLE
    assert default_reason(text, parse_type(column), not_null=True) == why


def test_a_timestamp_literal_is_local_time_of_the_zone() -> None:
    column = parse_type("timestamp")
    assert default_value("'2024-05-06 15:08:09'", column, True, "Asia/Shanghai") == "2024-05-06 07:08:09Z"
    assert default_value("'2024-05-06 15:08:09'", column, True, "+08:00") == "2024-05-06 07:08:09Z"
    assert default_value("'2024-05-06 15:08:09'", column, True, None) is UNKNOWABLE
    assert (
        default_reason("'2024-05-06 15:08:09'", column, True, None) == "the session's time zone is not known"
    )


@given(typed_values())
def test_a_quoted_canonical_value_is_its_own_default(pair: tuple[ColumnType, object]) -> None:
    column_type, value = pair
    text = str(value)
    # a quoted 0 is the year 2000; bits, bytes and instants are not written as they are printed
    assume(
        column_type.family not in ("bit", "geometry", "binary", "timestamp")
        and pair != (ColumnType("year"), 0)
        and "\ufffd" not in text
    )
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    # a document is printed in the server's own way
    server = "mariadb" if column_type.family == "json" else "mysql"
    stored = default_value(quoted, column_type, not_null=True, server=server)
    assert stored == (
        value[: column_type.length] if column_type.base == "varchar" and isinstance(value, str) else value
    )


@given(
    st.sampled_from(TYPES),
    st.text()
    | st.sampled_from(EXPRESSIONS)
    | st.from_regex(r"[(]?(_utf8)?[xb]?'[01ab'\\]*'?[)]?", fullmatch=True),
)
def test_any_default_text_is_a_value_or_unknowable(column: str, text: str) -> None:
    for server in SERVERS:
        known = default_value(text, parse_type(column), not_null=True, server=server) is not UNKNOWABLE
        assert known == (default_reason(text, parse_type(column), not_null=True, server=server) is None)


@pytest.mark.parametrize(
    ("server", "text"), [("mysql", "1e20"), ("mariadb", "1e20"), ("tidb", "100000000000000000000")]
)
def test_a_float_fills_text_as_its_server_prints_it(server: str, text: str) -> None:
    assert default_value("1e20", parse_type("varchar(40)"), True, server=server) == text
    assert default_value("1.50", parse_type("varchar(40)"), True, server=server) == "1.50"


@pytest.mark.parametrize(
    ("default", "text"),
    [
        ("'to collate pages'", "to collate pages"),
        ("'a collate b'", "a collate b"),
        ("'a' collate utf8mb4_bin", "a"),
        ("_utf8mb4'a' COLLATE `utf8mb4_bin`", "a"),
        ("'a' collate 'utf8mb4_bin'", "a"),
    ],
)
def test_a_collation_is_none_within_a_string(default: str, text: str) -> None:
    assert default_value(default, parse_type("varchar(40)"), True) == text


@pytest.mark.parametrize(
    ("default", "tidb", "mysql"),
    [
        ("x'41ff'", "41efbfbd", "41ff"),
        ("x'e4b8ff61f09f98'", 3 * "efbfbd" + "61" + 3 * "efbfbd", "e4b8ff61f09f98"),
        ("x'00eda080c0800a'", "00" + 5 * "efbfbd" + "0a", "00eda080c0800a"),
        ("x'c3a9'", "c3a9", "c3a9"),
    ],
)
def test_bytes_of_a_default_that_are_no_utf8_are_lost_in_tidb(default: str, tidb: str, mysql: str) -> None:
    """As SELECTs on a TiDB of 2026 gave them."""
    for server, told in (("tidb", tidb), ("mysql", mysql)):
        filled = default_value(default, parse_type("varbinary(20)"), False, server=server)
        assert b64decode(filled).hex() == told


@pytest.mark.parametrize(("server", "time"), [("mariadb", "10:10:10"), ("mysql", "10:10:11")])
def test_a_number_with_a_fraction_becomes_a_time_as_the_server_has_it(server: str, time: str) -> None:
    """Run on MariaDB 11.4 and MySQL 5.6."""
    assert default_value("101010.6", parse_type("time"), False, server=server) == time
    assert default_value("20200102030405.9", parse_type("datetime"), False, server="mariadb") == (
        "2020-01-02 03:04:05"
    )
