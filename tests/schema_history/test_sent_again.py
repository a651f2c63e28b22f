"""What a Debezium connector that restarts sends again: the same statements, with other columns."""

from typing import Any

from tests.support.feeds import Debezium, place


def renamed(feed: Debezium, old: str, new: str, columns: list[str] | None) -> None:
    """One of the statements into which a connector divides RENAME TABLE t TO _del, _gho TO t."""
    told: list[Any] = []
    if columns is not None:
        table = [{"name": name, "typeName": "INT", "optional": name != "id"} for name in columns]
        shape = {"primaryKeyColumnNames": ["id"], "columns": table}
        told = [{"type": "ALTER", "id": f'"d"."{new}"', "table": shape}]
    source = place(40, 0, 1, "_del,t", "d")
    sql = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    feed.record({"source": source, "ddl": sql, "databaseName": "d", "tableChanges": told}, None)


def test_a_rename_that_is_sent_again_without_columns_is_no_second_rename() -> None:
    """Debezium 3.4 after a restart within an online schema change: its own history is ahead of the binlog."""
    feed = Debezium()
    feed.ddl(10, "CREATE TABLE t (id INT PRIMARY KEY)")
    feed.ddl(20, "CREATE TABLE _gho (id INT PRIMARY KEY, a INT)", table="_gho")
    feed.change(30, "c", None, {"id": 1, "a": 7}, table="_gho")
    renamed(feed, "t", "_del", ["id"])
    renamed(feed, "_gho", "t", ["id", "a"])
    renamed(feed, "t", "_del", ["id", "a"])
    renamed(feed, "_gho", "t", None)

    assert feed.incomplete() is None
    assert feed.tables == {"d._del": [], "d.t": [{"id": 1, "a": 7}]}
