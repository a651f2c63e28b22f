"""What names, numbers and keys mean in an opened lake. Needs Spark's package, but no session."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.gold.columns import gold_columns
from lakehouse.lineage import Lineage, key_orders
from lakehouse.spark.api.activity import manifests_frame
from lakehouse.spark.api.named_tables import Tables
from lakehouse.spark.api.row_changes import _by_text
from tests.support.feeds import TiCDC
from tests.support.records import log_of, manifest, table_entry


def test_a_manifest_keeps_its_number_though_maintenance_takes_older_ones() -> None:
    log = log_of(*(manifest(table_entry(version=version)) for version in range(3)))
    whole = [log, log_of(*(one.record for one in log.records[2:] if one.record))]
    held = SimpleNamespace(whole=lambda: whole.pop(0))
    reader: Any = SimpleNamespace(source="shop", log=held, settings=SimpleNamespace(order="tidb"))
    tables = Tables([reader], "lake")

    numbers = list(manifests_frame(tables.manifests, 2)["number"])

    assert numbers == [1, 2]
    assert [tables.of_manifest(number)[1]["d.t"].version for number in numbers] == [1, 2]


def by_text(lineage: Lineage, *values: Any) -> Any:
    columns = gold_columns(lineage.steps[-1].schema, virtual=True)[: len(values)]
    wanted = {column.name: value for column, value in zip(columns, values, strict=True)}
    return _by_text(lineage, columns, wanted)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [("VARCHAR(9)", "INT", 7), ("DECIMAL(9,2)", "INT", 7), ("INT", "DATE", "2026-01-01")],
)
def test_a_row_whose_key_was_of_another_type_is_not_looked_for_by_its_text(
    before: str, after: str, key: Any
) -> None:
    """Messages had '007' or 7.00 where gold has 7: the earlier changes of the row would not be found."""
    feed = TiCDC().ddl(1, f"CREATE TABLE t (id {before} PRIMARY KEY, a INT)")
    feed.ddl(2, f"ALTER TABLE t MODIFY id {after}")

    assert by_text(feed.lineage(), key) is None


def test_a_key_has_as_many_orders_as_its_columns_had_by_name() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (b, a))")
    assert [len(one) for one in key_orders(feed.lineage())] == [2]

    feed.ddl(2, "ALTER TABLE t RENAME COLUMN c TO d")
    assert len(key_orders(feed.lineage())) == 1
    feed.ddl(3, "ALTER TABLE t RENAME COLUMN a TO z")
    (one, other) = key_orders(feed.lineage())
    assert one == other[::-1]
    feed.ddl(4, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (d)")
    assert len(key_orders(feed.lineage())) == 3
