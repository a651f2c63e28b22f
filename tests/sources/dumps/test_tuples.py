"""Rows of INSERT, as mysqldump and its like write them, read back."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import LakehouseError
from lakehouse.sources.dumps.statements import Comment, Insert, Statement, statements
from lakehouse.sources.dumps.tuples import Row, rows
from lakehouse.sources.dumps.window import Window

ESCAPES = {0: b"\\0", 10: b"\\n", 13: b"\\r", 26: b"\\Z", 34: b'\\"', 39: b"\\'", 92: b"\\\\"}
CELL = st.none() | st.binary(max_size=40) | st.sampled_from((b"'", b"\\", b"\\'", b"),(", b"';", b"\0"))


class Slow:
    """A stream that gives few bytes at a time, so that every token is cut somewhere."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = io.BytesIO(data), size

    def read(self, _: int, /) -> bytes:
        return self.data.read(self.size)


def quoted(cell: bytes | None, way: int) -> bytes:
    """A literal, as mysql_real_escape_string, NO_BACKSLASH_ESCAPES or --hex-blob make it."""
    if cell is None:
        return b"NULL"
    if way == 0:
        return b"'" + b"".join(ESCAPES.get(byte, bytes([byte])) for byte in cell) + b"'"
    if way == 1:
        return b'_binary "' + cell.replace(b"\\", b"\\\\").replace(b'"', b'""') + b'"'
    return b"0x" + cell.hex().upper().encode() if cell else b"x''"


def read(data: bytes, size: int = 1 << 20, *, escapes: bool = True) -> list[Any]:
    window = Window(Slow(data, size), "dump.sql")
    found: list[Any] = []
    for one in statements(window):
        found += list(rows(window, escapes=escapes)) if isinstance(one, Insert) else [one]
    return found


@given(
    table=st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=6)
    ),
    way=st.integers(0, 2),
    size=st.sampled_from((1, 2, 3, 7, 1 << 20)),
)
def test_what_a_dump_escapes_is_read_back_wherever_the_file_is_cut(
    table: list[Row], way: int, size: int
) -> None:
    told = b",\n".join(b"(" + b",".join(quoted(cell, way) for cell in row) + b")" for row in table)

    assert read(b"INSERT INTO `t` VALUES\n" + told + b";\n", size) == table


@given(table=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1), size=st.sampled_from((1, 5, 99)))
def test_without_backslash_escapes_only_quotes_are_doubled(table: list[Row], size: int) -> None:
    def literal(cell: bytes | None) -> bytes:
        return b"NULL" if cell is None else b"'" + cell.replace(b"'", b"''") + b"'"

    told = b",".join(b"(" + b",".join(map(literal, row)) + b")" for row in table)

    assert read(b"INSERT INTO t VALUES " + told + b";", size, escapes=False) == table


@pytest.mark.parametrize(
    ("literal", "cell"),
    [
        (b"12", b"12"),
        (b"-1.5e-10", b"-1.5e-10"),
        (b"+.5", b"+.5"),
        (b"b'101'", b"\x05"),
        (b"0b1", b"\x01"),
        (b"B'100000000'", b"\x01\x00"),
        (b"x'C3a9'", b"\xc3\xa9"),
        (b"0xABC", b"\x0a\xbc"),
        (b"_utf8mb4 'a'", b"a"),
        (b"N'a'", b"a"),
        (b"_binary 0x00", b"\x00"),
        (b"'50\\%'", b"50\\%"),
        (b"''''", b"'"),
        (b"'\"\"'", b'""'),
        (b"\"it's ''\"", b"it's ''"),
        (b"'\\a'", b"a"),
        (b"CONVERT('{\"a\": \\'\\\\n\\'}' USING UTF8MB4)", b"{\"a\": '\\n'}"),
        (b'CONVERT("a)" USING utf8mb4)', b"a)"),
    ],
)
def test_literals(literal: bytes, cell: bytes) -> None:
    assert read(b"INSERT INTO t VALUES ( " + literal + b" );", 1) == [[cell]]


def test_statements_comments_and_what_stands_under_another_delimiter() -> None:
    sql = (
        b"-- MySQL dump 10.13\n--\n/*M!999999\\- enable the sandbox mode */ \n/* plain; */\n# old\n"
        b"/*!40101 SET NAMES utf8mb4 */;\nCREATE TABLE `a;b` (`x` int DEFAULT ';' COMMENT 'it''s; \\'');\n"
        b"DELIMITER ;;\nCREATE TRIGGER t BEGIN SELECT ';'; END ;;\nDELIMITER ;\n"
        b"INSERT IGNORE INTO `d``b`.`t` (`a,b`, c) VALUES (1,2);\nUNLOCK TABLES;"
    )
    for size in (1, 3, 1 << 20):
        window = Window(Slow(sql, size), "dump.sql")
        found: list[Any] = []
        for one in statements(window):
            found.append(one if isinstance(one, Insert) else one._replace(offset=0))
            if isinstance(one, Insert):
                found += list(rows(window))

        assert found == [
            Comment("MySQL dump 10.13", 0),
            Comment("", 0),
            Comment("old", 0),
            Statement(b"/*!40101 SET NAMES utf8mb4 */", 0),
            Statement(b"CREATE TABLE `a;b` (`x` int DEFAULT ';' COMMENT 'it''s; \\'')", 0),
            Insert("d`b", "t", ("a,b", "c")),
            [b"1", b"2"],
            Statement(b"UNLOCK TABLES", 0),
        ]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (b"INSERT INTO t VALUES (now());", "byte 22: expected a literal and a comma or bracket"),
        (b"INSERT INTO t VALUES (1,'secr", "byte 24: expected a literal and a comma or bracket, got the end"),
        (
            b"INSERT INTO t VALUES (1) ON",
            "byte 24: expected a comma or semicolon behind a row, got something",
        ),
        (b"INSERT INTO t VALUES (1)", "byte 24: expected a comma or semicolon behind a row, got the end"),
        (b"INSERT INTO t SELECT 1;", "byte 0: expected INSERT INTO a table, and VALUES"),
        (b"CREATE TABLE t (a int", "byte 0: expected a statement that ends with a semicolon, got the end"),
        (b"DELIMITER ;;\nBEGIN", "expected DELIMITER ;"),
    ],
)
def test_a_file_that_is_cut_or_no_dump_is_refused_with_its_byte(sql: bytes, told: str) -> None:
    for size in (1, 1 << 20):
        with pytest.raises(LakehouseError) as error:
            read(sql, size)

        assert str(error.value).startswith("dump.sql: byte ")
        assert told in str(error.value)
        assert "secr" not in str(error.value)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damage_is_an_error_of_ours_or_other_rows(noise: bytes, at: int) -> None:
    whole = (
        b"-- x\nCREATE TABLE t (a int);\nINSERT INTO `t` (`a`) VALUES (1,'a\\'b',_binary 0xFF),(NULL,'',2);\n"
    )
    damaged = whole[: at % len(whole)] + noise + whole[at % len(whole) :]

    try:
        read(damaged, 7)
    except LakehouseError as error:
        assert str(error).startswith("dump.sql: byte ")
