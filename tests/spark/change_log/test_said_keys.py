"""Keys that YAMLs say of tables whose messages and DDL tell none. Needs Spark's package, but no session."""

import pytest

from lakehouse.lineage import key_ids
from lakehouse.spark.change_log.schema_history import take_said_keys
from tests.support.feeds import TiCDC, Values

CREATE = "CREATE TABLE t (id INT, a VARCHAR(9))"


def told() -> TiCDC:
    """A row that is changed, by messages that do not tell what it was."""
    feed = TiCDC().ddl(1, CREATE)
    return feed.row(2, "INSERT", {"id": 1, "a": "x"}, key=()).row(3, "UPDATE", {"id": 1, "a": "y"}, key=())


def tables(feed: TiCDC, keys: dict[str, tuple[str, ...]]) -> dict[str, list[Values]]:
    """The feed's tables; nothing of them is lacking."""
    memory = feed.memory
    take_said_keys(memory.lineages(), keys)
    found = memory.tables(memory.reach)
    assert not any(memory.problems.values())
    return found


def test_a_table_keeps_the_key_that_its_yaml_says_under_a_new_name() -> None:
    feed = told().ddl(9, "RENAME TABLE t TO u", table="u")

    assert tables(feed, {"d.t": ("id",)}) == {"d.u": [{"id": 1, "a": "y"}]}
    assert tables(feed, {"d.t": ("a",), "d.u": ("id",)}) == {"d.u": [{"id": 1, "a": "y"}]}


@pytest.mark.parametrize("name", ["id", "uid"])
def test_a_key_that_its_yaml_says_is_the_same_column_under_each_of_its_names(name: str) -> None:
    feed = told().ddl(9, "ALTER TABLE t RENAME COLUMN id TO uid")
    feed.row(12, "UPDATE", {"uid": 1, "a": "z"}, key=(), types={"uid": "int", "a": "varchar"})

    assert tables(feed, {"d.t": (name,)}) == {"d.t": [{"uid": 1, "a": "z"}]}


def test_a_new_column_of_the_keys_name_is_the_key_from_there_on() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(2, "ALTER TABLE t RENAME COLUMN id TO old")
    (lineage,) = feed.ddl(3, "ALTER TABLE t ADD COLUMN id INT").memory.history().lineages
    lineage.key_names = ("id",)

    assert [key_ids(lineage, step) for step in range(3)] == [(1,), (1,), (3,)]
    lineage.key_names = ("id", "b")
    assert [key_ids(lineage, step) for step in range(3)] == [()] * 3
