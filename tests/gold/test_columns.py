"""Gold's columns and their companions (T77, T90)."""

from lakehouse.gold.columns import companion_names, gold_columns
from lakehouse.spark.gold.merge import merge_sql
from tests.support.feeds import TiCDC


def test_a_companion_has_its_columns_name_unless_the_source_has_a_column_of_that_name() -> None:
    assert companion_names(["a", "b"]) == {"a": "_raw_a", "b": "_raw_b"}
    assert companion_names(["a", "_RAW_A", "_raw_a_"]) == {
        "a": "_raw_a__",
        "_RAW_A": "_raw__RAW_A",
        "_raw_a_": "_raw__raw_a_",
    }


def test_a_source_column_named_like_a_companion_keeps_its_values() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a DATE, _raw_a VARCHAR(9))")
    feed.row(
        2,
        "INSERT",
        {"id": 1, "a": "0000-00-00", "_raw_a": "mine"},
        types={"id": "int", "a": "date", "_raw_a": "varchar"},
    )

    assert feed.table() == [{"id": 1, "a": None, "_raw_a": "mine", "_raw_a_": "0000-00-00"}]


def test_keys_that_gold_cannot_hold_are_matched_by_their_text() -> None:
    lineage = TiCDC().ddl(1, "CREATE TABLE t (d DATE PRIMARY KEY, _raw_x INT)").lineage()
    keys = gold_columns(lineage.steps[0].schema, virtual=False)[:1]

    with_companion = merge_sql("gold.t", "v", ["d", "_raw_x", "_raw_d"], ["d", "_raw_x"], keys)
    without = merge_sql("gold.t", "v", ["d", "_raw_x"], ["d", "_raw_x"], keys)

    assert " ON t.`d` <=> s.`d` AND t.`_raw_d` <=> NULL WHEN " in with_companion
    assert " ON t.`d` <=> s.`d` WHEN " in without
