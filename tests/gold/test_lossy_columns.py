"""The fidelity report's words, column by column."""

import pytest

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.parse.statements import read
from lakehouse.gold.columns import GoldColumn, gold_columns, type_rows
from lakehouse.gold.lossy_columns import as_text, beyond, left_out
from lakehouse.schema import Column, ColumnType, TableSchema, make_schema


def table(columns: str) -> tuple[TableSchema, dict[str, GoldColumn]]:
    (statement,) = read(f"CREATE TABLE d.t (id INT PRIMARY KEY, {columns})")
    assert isinstance(statement, CreateTable)
    schema = create(statement)
    return schema, {column.name: column for column in gold_columns(schema, virtual=False)}


@pytest.mark.parametrize(
    ("definition", "value", "word"),
    [
        ("c DATE", "0000-00-00", "zero and partial dates"),
        ("c DATETIME(6)", "2024-00-10 00:00:00.000000", "zero and partial dates"),
        ("c TIMESTAMP NULL", "0000-00-00 00:00:00", "zero timestamps"),
        ("c VARCHAR(9)", {"base64": "/w=="}, "bytes that are no text of its charset, as base64"),
        ("c BIGINT UNSIGNED", 18446744073709551615, None),
        ("c DECIMAL(65,30)", "1" * 35 + "." + "2" * 30, None),
        ("c ENUM('a','b')", "a", None),
        ("c TIME", "-838:59:59", None),
        ("c BLOB", "AAEC", None),
    ],
)
def test_what_is_said_to_be_beyond_a_column_goes_to_its_companion_and_nothing_else_does(
    definition: str, value: object, word: str | None
) -> None:
    schema, columns = table(definition)
    column = columns["c"]

    assert beyond(column, schema) == word
    assert bool(type_rows([{column.column.id: value}], [column]).raw) == (word is not None)


def test_why_a_column_is_text_or_left_out() -> None:
    schema, columns = table("a DECIMAL(65,0), j JSON, t TIME, n INT, v INT AS (n + 1) VIRTUAL")

    assert {name: as_text(column) for name, column in columns.items()} == {
        "id": None,
        "a": "more digits than a Delta decimal has",
        "j": "its own text form",
        "t": "its own text form",
        "n": None,
    }
    assert left_out(schema, columns.values()) == {"v": "VIRTUAL: no message carries it"}


def test_what_no_schema_has_told() -> None:

    schema = make_schema(
        [
            Column(0, "e", ColumnType("enum")),
            Column(0, "d", ColumnType("decimal")),
            Column(0, "x", ColumnType("")),
        ],
        inferred=True,
    )
    columns = gold_columns(schema, virtual=True)

    assert [beyond(column, schema) for column in columns] == [
        "numbers whose labels no schema has told",
        None,
        None,
    ]
    assert [as_text(column) for column in columns] == [
        None,
        "no message tells its precision",
        "no message tells its type",
    ]
