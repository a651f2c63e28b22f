"""What of a YAML does not fit a table's schema. Needs Spark's package, but no session."""

from typing import Any

import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.lineage import key_ids
from lakehouse.spark.gold.layout import misfit, unknown_columns
from tests.support.feeds import TiCDC

NO_SESSION: Any = None
WIDER_KEY = (
    "ALTER TABLE t ADD COLUMN h INT NOT NULL DEFAULT 1",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, h)",
)


def misfit_after(ddl: tuple[str, ...], on_ddl: dict[str, str], options: GoldOptions) -> str | None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    for place, statement in enumerate(ddl, 2):
        feed.ddl(place, statement)
    [lineage] = feed.memory.ruled(Rules({("d", "t"): on_ddl})).history().lineages
    schema = lineage.steps[-1].schema
    assert unknown_columns(options, schema) == []
    columns = gold_columns(schema, virtual=False, options=options)
    return misfit(NO_SESSION, options, schema, columns, ids=key_ids(lineage, len(lineage.steps) - 1))


@pytest.mark.parametrize("mode", ["upsert", "history"])
def test_a_column_of_the_key_that_gold_does_not_show_holds_the_table(mode: str) -> None:
    """Rows whose keys differ in it alone would be one row."""
    ignored = misfit_after(WIDER_KEY, {"add_column": "ignore"}, GoldOptions(mode=mode))

    assert ignored == "on_ddl: add_column: ignore hides h, a column of the key, which tells rows apart"
    assert misfit_after(WIDER_KEY, {}, GoldOptions(mode=mode)) is None
    assert misfit_after(WIDER_KEY, {"add_column": "ignore"}, GoldOptions(mode="append")) is None


def test_a_key_is_hidden_under_the_name_that_gold_keeps() -> None:
    said = GoldOptions(columns={"id": ColumnOptions(exclude=True)})
    renamed = ("ALTER TABLE t RENAME COLUMN id TO i",)

    assert "hides a column of the key" in (misfit_after(renamed, {"rename_column": "ignore"}, said) or "")
