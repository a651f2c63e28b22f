"""Columns whose statements name no charset have the database's, as far as the feed or an option tells it."""

import json

import pytest

from lakehouse.events import Message
from tests.support.engine import Memory

TEXT = "caf\ufffd"


def feed(*statements: str, **options: str) -> Memory:
    """Canal's messages: the statements, and a row with U+FFFD in the table d.t that the last one creates."""
    bodies: list[dict[str, object]] = [
        {"type": "QUERY", "isDdl": True, "sql": sql, "table": "", "data": None, "mysqlType": None}
        for sql in statements
    ]
    row: dict[str, object] = {
        "type": "INSERT",
        "isDdl": False,
        "sql": "",
        "table": "t",
        "pkNames": ["id"],
        "data": [{"id": "1", "v": TEXT}],
        "mysqlType": {"id": "int", "v": "varchar(9)"},
        "sqlType": {"id": 4, "v": 12},
    }
    values = [
        json.dumps({"database": "d", "id": number, "es": number, "ts": number, **body}).encode()
        for number, body in enumerate([*bodies, row], 1)
    ]
    messages = [Message("c", 0, offset, None, value) for offset, value in enumerate(values)]
    return Memory("canal", options, tidb=False).add(messages)


def shown(memory: Memory) -> object:
    (row,) = memory.tables(memory.reach)["d.t"]
    return row["v"] if row["v"] is not None else row


CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"
LOST = {"id": 1, "v": None, "_raw_v": "caf\ufffd"}


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE DATABASE d CHARACTER SET utf8mb4"],
        ["CREATE SCHEMA `d` DEFAULT CHARSET = 'utf8mb3' COLLATE utf8mb3_bin"],
        ["create database D collate = utf8mb4_bin"],
        ["CREATE DATABASE d CHARSET latin1", "ALTER DATABASE d COMMENT = 'c' CHARACTER SET utf8mb4"],
        ["CREATE DATABASE d CHARSET latin1", "ALTER DATABASE COLLATE utf8mb4_bin"],
        ["DROP DATABASE d", "CREATE DATABASE IF NOT EXISTS d CHARSET utf8mb4"],
    ],
)
def test_text_of_a_database_in_utf_8_may_hold_the_replacement_character(statements: list[str]) -> None:
    assert shown(feed(*statements, CREATE)) == TEXT
    assert shown(feed(*statements, CREATE, charset="latin1")) == TEXT


@pytest.mark.parametrize(
    "statements",
    [
        [],
        ["CREATE DATABASE d"],
        ["CREATE DATABASE d CHARACTER SET latin1"],
        ["CREATE DATABASE other CHARACTER SET utf8mb4"],
        ["CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4"],
        ["CREATE DATABASE d CHARSET utf8mb4", "DROP DATABASE d"],
        ["CREATE DATABASE d CHARSET utf8mb4", "ALTER DATABASE d CHARACTER SET gbk"],
        ["CREATE DATABASE d CHARSET gbk", "CREATE DATABASE IF NOT EXISTS d CHARSET utf8mb4"],
        ["CREATE OR REPLACE DATABASE d CHARACTER SET latin1"],
    ],
)
def test_elsewhere_its_bytes_may_be_lost(statements: list[str]) -> None:
    assert shown(feed(*statements, CREATE)) == LOST


@pytest.mark.parametrize("statements", [[], ["CREATE DATABASE d"], ["CREATE DATABASE IF NOT EXISTS d"]])
def test_a_source_says_the_charset_of_its_server(statements: list[str]) -> None:
    assert shown(feed(*statements, CREATE, charset="utf8mb4")) == TEXT
    assert shown(feed(*statements, f"{CREATE} CHARSET latin1", charset="utf8mb4")) == LOST
    assert shown(feed(*statements, CREATE, charset="latin1")) == LOST


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE DATABASE d CHARSET latin1",
        "CREATE DATABASE IF NOT EXISTS d CHARSET latin1",
        "CREATE OR REPLACE DATABASE d CHARACTER SET latin1",
    ],
)
def test_a_database_has_not_its_server_s_charset_where_a_statement_says_another(statement: str) -> None:
    assert shown(feed(statement, CREATE, charset="utf8mb4")) == LOST


def test_a_column_that_is_added_has_the_database_s_charset_too() -> None:
    memory = feed(
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN v VARCHAR(9)",
    )

    assert shown(memory) == TEXT


def test_a_table_is_converted_to_the_database_s_charset_where_it_says_default() -> None:
    """A lax server writes `?` for what that lacks (run on MariaDB 10.11)."""
    create, convert = f"{CREATE} CHARSET utf8mb4", "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT"

    def converted(*databases: str) -> str | None:
        lineages = feed(*databases, create, convert).history().lineages
        return lineages[0].steps[-1].schema.columns[1].type.charset

    assert converted("CREATE DATABASE d CHARSET latin1") == "latin1"
    assert converted("CREATE DATABASE d CHARSET latin1", "ALTER DATABASE d CHARSET gbk") == "gbk"
    assert converted() is None
