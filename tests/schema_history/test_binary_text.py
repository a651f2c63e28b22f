"""Text in charset binary: Canal goes by its own reading of statements, to which such a column is text, and
sends its bytes so.
"""

import pytest

from lakehouse.events import Message
from lakehouse.lineage import BINARY_TEXT
from tests.support.engine import Memory
from tests.support.wires import dumps

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9){}, b VARBINARY(9)){}"
COMMON = {"isDdl": True, "type": "CREATE", "es": 1000, "database": "d", "table": "t"}


def reasons(*statements: str) -> dict[str, list[str]]:
    """Why each table is incomplete."""
    silver = Memory("canal", tidb=False).add(
        Message("t", 0, place, None, dumps({**COMMON, "id": place, "sql": sql}))
        for place, sql in enumerate(statements, 1)
    )
    live = silver.lineages().live((1, 0, 0, 0, 0, 0))
    return {name[1]: [why for _, why in lineage.incomplete] for name, lineage in live.items()}


@pytest.mark.parametrize(
    "statements",
    [
        [TABLE.format(" CHARACTER SET binary", "")],
        [TABLE.format("", " DEFAULT CHARSET=binary")],
        [TABLE.format("", ""), "ALTER TABLE t CONVERT TO CHARACTER SET 'binary'"],
        [TABLE.format("", ""), "ALTER TABLE t MODIFY v VARCHAR(9) CHARSET binary"],
        ["CREATE DATABASE d CHARACTER SET binary", TABLE.format("", "")],
    ],
)
def test_a_table_with_text_in_charset_binary_is_not_exact(statements: list[str]) -> None:
    found = reasons(*statements, "TRUNCATE t", "CREATE TABLE u LIKE t")

    assert found == {"t": [BINARY_TEXT], "u": [BINARY_TEXT]}


@pytest.mark.parametrize(
    "statements",
    [
        [TABLE.format("", ""), "ALTER TABLE t ADD w INT"],
        [TABLE.format(" BINARY", " COLLATE utf8mb4_bin")],
        [TABLE.format(" COMMENT 'binary'", "")],
        ["CREATE TABLE t (id INT) CHARSET binary"],
    ],
)
def test_binary_columns_are_sent_as_they_are(statements: list[str]) -> None:
    assert reasons(*statements) == {"t": []}
