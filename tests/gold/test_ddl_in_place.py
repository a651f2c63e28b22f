"""What DDL does to a gold table in place, and what becomes of the companions of its columns."""

from datetime import UTC, date, datetime

import pytest

from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.ddl_in_place import InPlace, in_place
from lakehouse.gold.options import PLAIN
from lakehouse.spark.gold.layout import alter_clauses, can_alter, constant, kept_companions
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, d DATETIME, v VARCHAR(9), _raw_v INT)"


def change_of(*statements: str) -> InPlace | None:
    """What the statements behind CREATE do in place, all in one window."""
    feed = TiCDC().ddl(1, CREATE)
    for at, statement in enumerate(statements, 2):
        feed.ddl(at, f"ALTER TABLE t {statement}")
    lineage = feed.lineage()
    first, last = 0, len(lineage.steps) - 1
    columns = [gold_columns(lineage.steps[at].schema, {}, virtual=False) for at in (first, last)]
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
