"""Which TEXT and BLOB a column has: by its length, and behind CONVERT TO CHARACTER SET. Run on
MariaDB 11.4.
"""

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from tests.support.ddl_cases import alter


def base_of(sql: str, *clauses: str) -> str:
    """The type of a table's one column, behind these clauses of ALTER TABLE."""
    (statement,) = read(
        f"CREATE TABLE t ({sql}) CHARSET utf8mb4" if not clauses else f"CREATE TABLE t ({sql})"
    )
    assert isinstance(statement, e.CreateTable)
    schema = create(statement)
    for clause in clauses:
        (changed,) = read(f"ALTER TABLE t {clause}")
        assert isinstance(changed, e.AlterTable)
        schema, _ = alter(schema, changed.edits)
    return schema.columns[0].type.base


@pytest.mark.parametrize(
    ("sql", "base"),
    [
        ("TEXT", "text"),
        ("TEXT(0)", "text"),
        ("TEXT(63)", "tinytext"),
        ("TEXT(64)", "text"),
        ("TEXT(255) CHARACTER SET latin1", "tinytext"),
        ("TEXT(256) CHARACTER SET latin1", "text"),
        ("TEXT(21845) CHARACTER SET utf8mb3", "text"),
        ("TEXT(21846) CHARACTER SET utf8mb3", "mediumtext"),
        ("TEXT(70000)", "mediumtext"),
        ("TEXT(255) CHARACTER SET binary", "tinyblob"),
        ("BLOB(255)", "tinyblob"),
        ("BLOB(70000)", "mediumblob"),
        ("BLOB(20000000)", "longblob"),
        # a lax server makes text of what is too long for a VARCHAR; a strict one refuses it
        ("VARCHAR(16383)", "varchar"),
        ("VARCHAR(16384)", "mediumtext"),
        ("VARCHAR(65530) CHARACTER SET utf8mb3", "mediumtext"),
        ("VARCHAR(65535) CHARACTER SET latin1", "varchar"),
        ("VARBINARY(65535)", "varbinary"),
        ("VARBINARY(65536)", "mediumblob"),
    ],
)
def test_text_of_a_length_is_the_smallest_type_that_holds_it(sql: str, base: str) -> None:
    assert base_of(f"a {sql}") == base


def test_a_decimal_of_no_digits_has_ten() -> None:
    (statement,) = read("CREATE TABLE t (a DECIMAL(0), b DECIMAL(0, 0), c DECIMAL(5))")
    assert isinstance(statement, e.CreateTable)

    assert [str(column.type) for column in create(statement).columns] == [
        "decimal(10,0)",
        "decimal(10,0)",
        "decimal(5,0)",
    ]


@pytest.mark.parametrize(
    ("old", "charset", "new"),
    [
        ("TINYTEXT CHARACTER SET latin1", "utf8mb3", "text"),
        ("TEXT CHARACTER SET utf8mb3", "utf8mb4", "mediumtext"),
        ("MEDIUMTEXT CHARACTER SET latin1", "utf8mb3", "longtext"),
        ("LONGTEXT CHARACTER SET latin1", "utf8mb4", "longtext"),
        ("TEXT CHARACTER SET utf8mb4", "latin1", "text"),
        ("TEXT CHARACTER SET latin1", "binary", "blob"),
        ("TEXT", "utf8mb4", "text"),
        ("VARCHAR(20000) CHARACTER SET latin1", "utf8mb4", "mediumtext"),
        ("VARCHAR(20000)", "utf8mb3", "varchar"),
    ],
)
def test_convert_to_a_charset_widens_text_that_might_not_fit(old: str, charset: str, new: str) -> None:
    assert base_of(f"a {old}", f"CONVERT TO CHARACTER SET {charset}") == new


@pytest.mark.parametrize(
    ("definition", "base"),
    [
        ("TEXT", "text"),
        ("TEXT CHARACTER SET latin1", "text"),
        ("TINYTEXT CHARACTER SET latin1", "tinytext"),
        ("TEXT(20000) CHARACTER SET latin1", "mediumtext"),
        ("VARCHAR(20000) CHARACTER SET latin1", "mediumtext"),
    ],
)
def test_convert_widens_no_type_that_the_statement_itself_gives(definition: str, base: str) -> None:
    clause = f"MODIFY a {definition}, CONVERT TO CHARACTER SET utf8mb4"

    assert base_of("a TEXT CHARACTER SET latin1", clause) == base
