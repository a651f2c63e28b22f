"""Schemas that operators import: all that their CREATE TABLE says counts, and what was said last (6.20)."""

from msgspec import UNSET

from lakehouse.ddl_effects import Forget
from lakehouse.lineage import Lineage
from lakehouse.ops.records.operators import Imported, ImportedColumn
from lakehouse.schema_history.created_schemas import imported_records
from tests.support.feeds import TiCDC

PARTS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
CREATE = f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED) {PARTS}"
TYPES = {"id": "int", "a": "int", "g": "int"}


def imported(ddl: str | None, *names: str, type_: str = "int") -> Imported:
    columns = tuple(
        ImportedColumn(name, type_, not_null=False, default=None, generated="stored" if name == "g" else None)
        for name in names
    )
    told = UNSET if ddl is None else ddl
    place = (0, 3, 2, 0, 0, 0)
    return Imported(database="d", table="t", position=place, columns=columns, key=("id",), ddl=told)


def lineage(feed: TiCDC, *imports: Imported) -> Lineage:
    memory = feed.memory
    memory.records.update(enumerate(imported_records(imports)))
    return memory.history().lineages[0]


def rows() -> TiCDC:
    return TiCDC().row(2, "INSERT", {"id": 1, "a": 5, "g": 6}, types=TYPES)


def test_partitions_of_an_imported_table_decide_what_a_drop_removes() -> None:
    feed = rows().ddl(4, "ALTER TABLE t DROP PARTITION p0")

    found = lineage(feed, imported(CREATE, "id", "a", "g"))

    assert found.incomplete_at(feed.memory.reach) is None


def test_generated_columns_of_an_imported_table_are_computed_anew() -> None:
    """Also where an older lake has imported it without the expression."""
    feed = rows().ddl(4, "ALTER TABLE t MODIFY a TINYINT")

    added = rows().ddl(4, "ALTER TABLE t ADD b INT")

    for ddl in (CREATE, None):
        assert Forget(3) in lineage(feed, imported(ddl, "id", "a", "g")).steps[-1].effects
        assert Forget(3) not in lineage(added, imported(ddl, "id", "a", "g")).steps[-1].effects


def test_of_two_schemas_that_were_imported_at_one_place_the_last_one_counts() -> None:
    wrong, right = imported(None, "id", "a"), imported(None, "id", "a", type_="bigint")

    found = lineage(rows().ddl(4, "TRUNCATE TABLE t"), wrong, right)

    assert [str(column.type) for column in found.steps[-1].schema.columns] == ["bigint", "bigint"]
