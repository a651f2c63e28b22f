"""Where lives of tables begin, go on and end: CREATE on a name that is in use, rows after a DROP, a RENAME
that brings a table of which the feed has told nothing (T66, T67, T68).
"""

from typing import Any

import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.ddl_effects import VERSIONED
from lakehouse.schema_history.table_lives import MAYBE_OLDER, SEQUENCE, UNSEEN
from tests.support.feeds import Canal, Debezium, TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
X: dict[str, Any] = {"id": 1, "a": "x"}


def created() -> TiCDC:
    """A table with a row."""
    return TiCDC().ddl(1, CREATE).insert(2, **X)


def notes(feed: TiCDC) -> list[list[str]]:
    return [one.notes for one in feed.memory.history().lineages]


def test_a_create_of_a_name_that_is_in_use_ends_its_table_and_says_so() -> None:
    feed = created().ddl(3, "CREATE TABLE t (id INT PRIMARY KEY)").row(4, "INSERT", {"id": 3})

    assert feed.table() == [{"id": 3}]
    assert notes(feed) == [["it was created again without a DROP that the feed has shown"], []]


def test_a_create_if_not_exists_of_a_table_that_is_there_has_no_effect() -> None:
    feed = created().ddl(3, "CREATE TABLE IF NOT EXISTS t (other INT)").insert(4, id=2, a="y")

    assert feed.table() == [X, {"id": 2, "a": "y"}]
    assert len(feed.memory.history().lineages) == 1
    assert (feed.incomplete(), feed.lineage().held) == (None, None)


def test_a_drop_if_exists_of_a_table_that_is_not_there_has_no_effect() -> None:
    feed = created().ddl(3, "DROP TABLE IF EXISTS u", table="u")

    assert (feed.tables, feed.memory.history().problems) == ({"d.t": [X]}, [])


def test_rows_that_come_after_a_drop_reopen_the_table_which_is_incomplete() -> None:
    feed = created().ddl(3, "DROP TABLE t").insert(5, id=2, a="y")

    assert feed.table() == [X, {"id": 2, "a": "y"}]
    assert feed.incomplete() == "rows came after its DROP: it was recovered upstream"
    assert feed.memory.tables((0, 3, 2, 0, 0, 0)) == {}
    assert len(feed.memory.history().lineages) == 1


def test_a_log_that_goes_on_has_no_row_whose_virtual_column_the_create_would_compute_anew() -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v INT AS (id + {}) VIRTUAL)"
    feed = Canal().ddl(1, create.format(1)).insert(2, id=1, v=2)
    feed.ddl(3, "DROP TABLE t").ddl(4, create.format(2)).insert(5, id=1, v=3)
    memory = feed.memory.ruled(Rules(logs=frozenset({("d", "t")})))
    [lineage] = memory.history().lineages

    assert len(lineage.steps) > 1
    assert lineage.incomplete_at(memory.reach) is None


def swapped(feed: TiCDC) -> TiCDC:
    """The swap of an online schema change whose ghost table the feed leaves out."""
    feed.ddl(6, "RENAME TABLE `d`.`t` TO `d`.`_t_del`", table="_t_del")
    feed.ddl(6, "RENAME TABLE `d`.`_t_gho` TO `d`.`t`")
    return feed.row(7, "UPDATE", {"id": 2, "a": "z"}, {"id": 2, "a": "y"})


def test_a_table_that_no_message_has_told_of_takes_a_known_ones_name_and_is_incomplete() -> None:
    feed = swapped(created().insert(3, id=2, a="y"))

    assert feed.incomplete() == UNSEEN
    assert feed.incomplete("d._t_del") is None
    assert feed.tables["d._t_del"] == [X, {"id": 2, "a": "y"}]
    in_place = created().ddl(5, "DROP TABLE t").ddl(6, "RENAME TABLE `_t_gho` TO `t`")
    assert in_place.insert(7, id=2, a="z").incomplete() == UNSEEN


def test_it_is_complete_again_once_it_is_emptied_and_where_its_create_comes_late() -> None:
    assert swapped(created()).ddl(8, "TRUNCATE TABLE t").incomplete() is None
    late = swapped(created()).ddl(3, "CREATE TABLE _t_gho LIKE t", table="_t_gho")
    assert late.incomplete() is None


def test_a_name_that_no_table_is_known_to_have_had_can_be_taken_by_any_table() -> None:
    unknown = TiCDC().insert(2, **X).ddl(3, "RENAME TABLE `t` TO `u`", table="u")

    assert unknown.row(4, "INSERT", {"id": 2, "a": "y"}, table="u").incomplete("d.u") is None


def test_the_columns_of_a_table_are_those_that_its_rows_have_where_no_statement_tells_them() -> None:
    """A feed without DDL: what rows bring is added, what they leave out stays."""
    feed = Canal().row(1, "INSERT", X).row(2, "INSERT", {"id": 2, "a": "y", "b": "new"})
    feed.row(3, "INSERT", {"id": 3, "b": "z"})

    assert feed.table() == [
        {**X, "b": None},
        {"id": 2, "a": "y", "b": "new"},
        {"id": 3, "a": None, "b": "z"},
    ]


def test_a_key_that_is_said_of_a_table_identifies_its_rows() -> None:
    """A table's YAML says it where neither messages nor statements tell one."""
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT, a VARCHAR(10))").row(2, "INSERT", X, key=())
    memory = feed.row(3, "UPDATE", {"id": 1, "a": "y"}, key=()).memory
    keyless = memory.tables(memory.reach)

    (lineage,) = memory.lineages().lineages
    lineage.key_names = ("id",)

    assert keyless == {"d.t": [X, {"id": 1, "a": "y"}]}
    assert memory.tables(memory.reach) == {"d.t": [{"id": 1, "a": "y"}]}


@pytest.mark.parametrize("sql", ["ALTER TABLE t COMMENT ''", "TRUNCATE TABLE t"])
def test_a_table_that_keeps_its_history_is_incomplete_emptied_too(sql: str) -> None:
    feed = TiCDC().ddl(1, f"{CREATE} WITH SYSTEM VERSIONING").insert(2, **X).ddl(3, sql).insert(4, id=2)

    assert feed.incomplete() == VERSIONED


def test_a_table_is_complete_that_is_emptied_once_it_keeps_no_history() -> None:
    feed = created().ddl(3, "ALTER TABLE t ADD SYSTEM VERSIONING").insert(4, id=2, a="y")
    feed.ddl(5, "ALTER TABLE t DROP SYSTEM VERSIONING")

    assert feed.incomplete() == VERSIONED
    assert feed.ddl(6, "TRUNCATE TABLE t").insert(7, **X).incomplete() is None


def test_a_rename_if_exists_of_a_table_that_is_not_there_has_no_effect() -> None:
    feed = created().ddl(3, "RENAME TABLE IF EXISTS `u` TO `t`").insert(4, id=2, a="y")

    assert feed.tables == {"d.t": [X, {"id": 2, "a": "y"}]}
    assert (len(feed.memory.history().lineages), feed.incomplete()) == (1, None)


def test_a_rename_if_exists_of_a_table_that_is_there_renames_it() -> None:
    seen = TiCDC().insert(2, **X).ddl(3, "RENAME TABLE IF EXISTS `t` TO `u`", table="u")

    assert created().ddl(3, "RENAME TABLE IF EXISTS `t` TO `u`", table="u").tables == {"d.u": [X]}
    assert seen.tables == {"d.u": [X]}


def test_a_name_that_a_rename_takes_twice_is_a_session_s_own_table_s_first() -> None:
    """As MariaDB logs it: the temporary table t hides the other one until it has another name."""
    feed = Debezium().ddl(1, CREATE).change(2, "c", None, X)
    feed.ddl(3, "RENAME TABLE t TO own, t TO u, u TO v")

    assert feed.tables == {"d.v": [X]}
    assert feed.memory.history().problems == []


def test_a_sequence_of_mariadb_whose_rows_a_feed_has_is_incomplete() -> None:
    """Each block of its numbers is logged as an INSERT (run on MariaDB 10.11)."""
    names = "next_not_cached_value minimum_value maximum_value start_value increment cache_size cycle_option"
    values: dict[str, Any] = {**dict.fromkeys(names.split(), "1"), "cycle_count": "0"}
    feed = Canal().ddl(1, "CREATE SEQUENCE t").row(2, "INSERT", values, types={}, key=())
    feed.row(3, "INSERT", {**values, "next_not_cached_value": "4"}, types={}, key=())

    assert len(feed.table()) == 2
    assert feed.incomplete() == SEQUENCE


def test_a_table_of_which_a_binlog_tells_a_create_if_not_exists_first_may_be_older_than_the_feed() -> None:
    create = CREATE.replace("TABLE t", "TABLE IF NOT EXISTS t")

    assert notes(Canal().ddl(1, create).insert(2, **X))[0][0] == MAYBE_OLDER
    assert MAYBE_OLDER not in notes(Canal().ddl(1, CREATE).ddl(2, "DROP TABLE t").ddl(3, create))[1]
    assert notes(TiCDC().ddl(1, create).insert(2, **X)) == [[]], "TiDB tells no statement without effect"


@pytest.mark.parametrize(
    "clause", ["PARTITION p0 TO TABLE u", "TABLE u TO PARTITION p1 VALUES LESS THAN (9)"]
)
def test_a_table_that_a_partition_becomes_or_was_is_held_with_the_partitioned_one(clause: str) -> None:
    feed = created().ddl(2, CREATE.replace("TABLE t", "TABLE u"), table="u")
    feed.ddl(3, f"ALTER TABLE t CONVERT {clause}")

    assert feed.lineage("d.t").held is not None
    assert feed.lineage("d.u").held is not None


@pytest.mark.parametrize("sql", ["CREATE TABLE t (id INT PRIMARY KEY, e {})", "ALTER TABLE t ADD e {}"])
def test_labels_that_the_reader_of_a_binlog_could_not_decode_leave_a_table_incomplete(sql: str) -> None:
    """A connector takes the text of a session in latin1 or gbk for UTF-8."""
    begun = Debezium() if sql.startswith("CREATE") else Debezium().ddl(1, CREATE)

    assert begun.ddl(2, sql.format("ENUM('caf\ufffd')")).incomplete() == (
        "column e: characters of its labels are lost in the statement's message"
    )
