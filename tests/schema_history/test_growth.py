"""What the schema history costs follows the number of tables, of statements and of a column list; counted in
lines of Python that run.
"""

from collections.abc import Iterable
from functools import partial

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.schema import alter_by_edit, create
from lakehouse.ddl.parse.statements import read
from lakehouse.lineage import Name
from lakehouse.schema import TableSchema
from lakehouse.schema_history.build import build
from lakehouse.schema_history.identity import beginning_of, with_known_ids
from lakehouse.schema_history.name_matching import LiveTables, Spelling
from lakehouse.schema_history.named_tables import statements_of
from lakehouse.schema_history.schema_records import Record
from tests.support.work import lines_run


class NoRows:
    """Silver without any row."""

    def names(self) -> Iterable[Name]:
        return []

    def maybe(self, *_: object) -> bool:
        return False

    def shape(self, *_: object) -> None:
        return None

    def key_names(self, _: Name) -> tuple[str, ...]:
        return ()


def created(number: int) -> Record:
    ddl = f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, v INT)"
    return Record("ddl", "d", f"t{number}", (0, 1, 0, 0, 0, 0), ddl=ddl, columns=None)


def table(columns: int) -> TableSchema:
    (statement,) = read(f"CREATE TABLE t ({', '.join(f'c{number} INT' for number in range(columns))})")
    assert isinstance(statement, e.CreateTable)
    return create(statement)


def test_many_tables_at_one_position_cost_as_much_each_as_few() -> None:
    few, many = ([created(number) for number in range(count)] for count in (50, 200))
    build(many, NoRows())  # statements are parsed once

    lines = [lines_run(partial(build, records, NoRows())) for records in (few, many)]

    assert lines[1] < 5 * lines[0]


def test_a_statement_on_a_name_that_is_free_costs_the_same_beside_many_tables() -> None:
    dropped = Record("ddl", "d", "s", (0, 2, 0, 0, 0, 0), ddl="DROP TABLE IF EXISTS s", columns=None)
    few, many = (LiveTables(), LiveTables())
    for tables, count in ((few, 50), (many, 200)):
        for lineage in build([created(number) for number in range(count)], NoRows()).lineages:
            tables[lineage.intervals[0].name] = lineage
    spelling = Spelling([], [], lambda *_: False)

    lines = [lines_run(partial(spelling.existing, dropped, (None, "s"), tables)) for tables in (few, many)]

    assert lines[1] < 2 * lines[0]
    assert spelling.existing(dropped, (None, "T7"), many) == ("d", "t7")
    many["d", "T7"] = many["d", "t7"]
    assert spelling.existing(dropped, ("D", "t7"), many) == ("D", "t7"), "it may mean either"
    many.take(("d", "t7"))
    assert spelling.existing(dropped, ("D", "t7"), many) == ("d", "T7")


def test_the_statements_of_two_thousand_tables_are_parsed_once() -> None:
    texts = [f"DROP TABLE t{number}" for number in range(10_000)]

    for text in texts:
        statements_of(text)
    before = statements_of.cache_info().misses
    for text in texts:
        statements_of(text)

    assert statements_of.cache_info().misses == before


def test_each_of_many_tables_is_known_again_at_the_cost_of_one_of_few() -> None:
    histories = [build([created(number) for number in range(count)], NoRows()) for count in (50, 200)]
    begun = [[beginning_of(lineage) for lineage in history.lineages] for history in histories]

    lines = [lines_run(partial(with_known_ids, *told)) for told in zip(histories, begun, strict=True)]

    assert lines[1] < 5 * lines[0]


@pytest.mark.parametrize("clause", ["ADD COLUMN d INT", "DROP COLUMN c1", "MODIFY c1 BIGINT NOT NULL"])
def test_a_statement_costs_as_much_for_each_column_of_a_wide_table_as_of_a_narrow_one(clause: str) -> None:
    (statement,) = read(f"ALTER TABLE t {clause}")
    assert isinstance(statement, e.AlterTable)
    edits = statement.edits

    lines = [lines_run(partial(alter_by_edit, table(n), edits)) for n in (100, 400)]

    assert lines[1] < 5 * lines[0]
    assert lines[1] < 45 * 400, "columns that a statement leaves as they are cost little"
