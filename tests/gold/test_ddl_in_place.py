"""What DDL does to a gold table in place, and what becomes of the companions of its columns."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ddl_effects import Retype
from lakehouse.fold.upcast import RowMover, Upstream
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.ddl_in_place import InPlace, in_place
from lakehouse.gold.options import PLAIN
from lakehouse.lineage import Lineage
from lakehouse.schema import ColumnType, parse_type
from lakehouse.spark.gold.layout import alter_clauses, can_alter, constant, kept_companions
from tests.support.feeds import TiCDC
from tests.support.value_strategies import SERVERS, typed_values

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, d DATETIME, v VARCHAR(9), _raw_v INT)"


def change_of(*statements: str) -> InPlace | None:
    """What the statements behind CREATE do in place, all in one window."""
    feed = TiCDC().ddl(1, CREATE)
    for at, statement in enumerate(statements, 2):
        feed.ddl(at, f"ALTER TABLE t {statement}")
    lineage = feed.lineage()
    first, last = 0, len(lineage.steps) - 1
    columns = [gold_columns(lineage.steps[at].schema, virtual=False) for at in (first, last)]
    return in_place(lineage, (first, last), (columns[0], columns[1]), options=PLAIN, upstream=Upstream())


def test_a_companion_of_a_dropped_column_goes_with_it_though_its_name_is_given_again() -> None:
    held = ["id", "d", "v", "_raw_v", "_raw_d"]
    anew = change_of("DROP COLUMN d", "ADD COLUMN d DATETIME DEFAULT '2020-01-01 00:00:00'")
    renamed = change_of("DROP COLUMN d, ADD COLUMN x INT DEFAULT 7", "RENAME COLUMN v TO d")

    assert anew is not None and renamed is not None
    assert kept_companions(anew, held) == []
    assert kept_companions(renamed, held) == []
    assert kept_companions(renamed, [*held, "_raw_v_"]) == [("_raw_v_", "_raw_d")]


def test_a_companion_of_a_column_of_another_type_is_found_under_its_former_name() -> None:
    change = change_of("CHANGE COLUMN v u VARCHAR(20)")

    assert change is not None
    assert can_alter(change, ["id", "d", "v", "_raw_v", "_raw_d"])
    assert not can_alter(change, ["id", "d", "v", "_raw_v", "_raw_v_"])


def test_a_companion_that_has_another_name_by_a_column_that_goes_is_not_renamed_in_place() -> None:
    change = change_of("DROP COLUMN d")

    assert change is not None and alter_clauses(change, ["id", "d", "v", "_raw_v"]) == ["DROP COLUMN `d`"]
    assert change_of("DROP COLUMN _raw_v") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(1000, 1, 1), "1000-01-01 00:00:00"),
        (datetime(2020, 2, 29, 1, 2, 3, 500000), "2020-02-29 01:02:03.500000"),
        (datetime(2020, 2, 29, 1, 2, 3, tzinfo=UTC), "2020-02-29 01:02:03+00:00"),
        (date(1, 1, 2), "0001-01-02"),
    ],
)
def test_a_constant_date_is_text_which_no_zone_of_the_machine_changes(value: date, text: str) -> None:
    assert constant(value) == text


TYPES = (
    *("tinyint", "smallint unsigned", "int", "bigint", "bigint unsigned", "decimal(5,2)", "decimal(30)"),
    *("decimal(60,30)", "char(3)", "varchar(5)", "varchar(200)", "text", "double", "float", "date"),
    *("datetime", "datetime(3)", "datetime(6)", "timestamp", "time", "year", "varbinary(3)", "json"),
    *("enum('1','b')", "varchar(9) charset latin1"),
)
RETYPED = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v INT)").ddl(2, "ALTER TABLE t MODIFY v CHAR")


def retyped(old: ColumnType, new: ColumnType, *, not_null: bool) -> Lineage:
    """A table whose column v was of one type and is of another."""
    lineage, steps = RETYPED.lineage(), []
    for step, kind in zip(lineage.steps, (old, new), strict=True):
        first, column = step.schema.columns
        column = replace(column, type=kind, not_null=not_null and kind is new)
        steps.append(replace(step, schema=replace(step.schema, columns=(first, column)), effects=()))
    steps[1] = replace(steps[1], effects=(Retype(column.id, old, new, not_null),))
    return replace(lineage, steps=steps)


@given(typed_values(), st.sampled_from(TYPES), st.booleans(), st.sampled_from(SERVERS), st.booleans())
def test_a_cell_that_is_converted_in_place_is_what_a_fold_makes_of_it(
    typed: tuple[ColumnType, Any], text: str, not_null: bool, server: str, is_null: bool
) -> None:
    old, value = typed
    lineage, upstream = retyped(old, parse_type(text), not_null=not_null), Upstream(server=server)
    before, after = (gold_columns(step.schema, virtual=False) for step in lineage.steps)
    change = in_place(lineage, (0, 1), (before, after), options=PLAIN, upstream=upstream)
    if change is None or not change.converted:
        return
    place = before[1].column.id
    try:
        held = None if is_null else before[1].to_python(value)
    except ValueError:  # it has a companion, and the table is folded
        assert not can_alter(change, [before[1].companion])
        return
    moved = RowMover(lineage, upstream).move({place: None if is_null else value}, 0, 1)
    assert moved.row is not None and not moved.lost
    cell = moved.row[place]
    assert change.converted[0].rule()(held) == (None if cell is None else after[1].to_python(cell))


@pytest.mark.parametrize(
    ("statement", "is_converted"),
    [
        ("MODIFY v VARCHAR(3)", True),
        ("MODIFY v INT", True),
        ("MODIFY v VARCHAR(9) NOT NULL", True),
        ("MODIFY d DATETIME(3)", True),
        ("MODIFY d DATETIME NOT NULL", False),
        ("MODIFY v DATETIME", False),
        ("MODIFY v VARBINARY(9)", False),
        ("MODIFY id VARCHAR(9)", False),
    ],
)
def test_cells_are_converted_in_place_where_gold_holds_all_that_becomes_of_them(
    statement: str, is_converted: bool
) -> None:
    change = change_of(statement)

    assert (change is not None and bool(change.converted)) == is_converted
