"""Deletes, truncates and keys (T26 to T46)."""

from typing import Any

import pytest

from lakehouse.events import Message
from tests.support.feeds import Canal, Debezium, TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
INTS = {"id": "int", "a": "int", "b": "int"}
X = {"id": 1, "a": "x"}


def test_t25_t26_t27_a_place_between_two_commits_shows_all_of_the_first_and_nothing_of_the_second() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("TABLE t", "TABLE u"), table="u")
    for number in range(5000):
        feed.row(2, "INSERT", {"id": number, "a": "x"}, table="t" if number % 2 else "u")
    feed.row(3, "DELETE", {"id": 1, "a": "x"})

    tables = feed.memory.tables((0, 2, 2, 0, 0, 0))

    assert {name: len(rows) for name, rows in tables.items()} == {"d.t": 2500, "d.u": 2500}
    assert len(feed.table()) == 2499


def test_t33_a_first_update_is_the_row_and_a_first_delete_is_none() -> None:
    feed = (
        TiCDC().ddl(1, CREATE).row(2, "UPDATE", {"id": 1, "a": "y"}, X).row(3, "DELETE", {"id": 2, "a": "q"})
    )

    assert feed.table() == [{"id": 1, "a": "y"}]


def test_t34_a_tombstone_is_no_data() -> None:
    feed = Debezium().ddl(1, CREATE).change(10, "c", None, X).change(20, "d", X, None)
    feed.messages.append(Message("topic", 0, 9, b'{"id":1}', None))

    assert feed.table() == []


def test_t35_a_delete_that_carries_the_key_alone_removes_the_row() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, **X).insert(2, id=2, a="y").row(3, "DELETE", {"id": 1})

    assert feed.table() == [{"id": 2, "a": "y"}]


def test_t36_a_delete_of_an_unknown_key_makes_no_row_and_is_remembered() -> None:
    feed = TiCDC().ddl(1, CREATE).row(5, "DELETE", X).insert(3, **X)

    assert feed.table() == []


def test_t38_a_truncate_takes_the_rows_below_it_and_leaves_those_above_it_in_any_arrival() -> None:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(5, id=3, a="after")
        .ddl(4, "TRUNCATE TABLE t")
        .insert(4, id=2, a="with it")
        .insert(2, **X)
    )

    assert feed.table() == [{"id": 3, "a": "after"}]
    assert Debezium().ddl(1, CREATE).change(9, "c", None, X).change(10, "t", None, None).table() == []


@pytest.mark.parametrize("clause", ["TRUNCATE PARTITION p0", "DROP PARTITION p0"])
def test_t39_a_partition_that_a_rule_describes_takes_its_rows_along(clause: str) -> None:
    rule = (
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS "
        "THAN (MAXVALUE))"
    )
    feed = (
        TiCDC()
        .ddl(1, f"{CREATE} {rule}")
        .insert(2, **X)
        .insert(2, id=10, a="y")
        .ddl(3, f"ALTER TABLE t {clause}")
    )

    assert feed.table() == [{"id": 10, "a": "y"}]
    assert feed.incomplete() is None


def test_t39_what_an_exchange_moved_is_not_known_of_either_table() -> None:
    rule = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))"
    feed = (
        TiCDC().ddl(1, CREATE).ddl(1, f"CREATE TABLE p (id INT PRIMARY KEY, a VARCHAR(10)) {rule}", table="p")
    )
    feed.row(2, "INSERT", {"id": 1, "a": "x"}, table="p").ddl(
        3, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t", table="p"
    )

    assert feed.incomplete("d.p") == "EXCHANGE PARTITION p0: no message tells the rows that came"
    assert feed.incomplete("d.t") == "EXCHANGE PARTITION moved rows that no change tells"


def test_t39_a_partition_that_no_plain_rule_describes_leaves_the_table_incomplete() -> None:
    feed = (
        TiCDC()
        .ddl(1, f"{CREATE} PARTITION BY HASH (id) PARTITIONS 4")
        .insert(2, **X)
        .ddl(3, "ALTER TABLE t TRUNCATE PARTITION p1")
    )

    assert feed.table() == [X]
    assert feed.incomplete() == "partition p1: no rule over plain columns tells which rows it held"


def test_t40_t44_a_key_is_one_value_however_it_is_written() -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id DECIMAL(10,2) PRIMARY KEY, a VARCHAR(9))")
    kinds = {"id": "decimal(10,2)", "a": "varchar(9)"}
    feed.row(2, "INSERT", {"id": "11.0", "a": "x"}, types=kinds).row(
        3, "UPDATE", {"id": "11.00", "a": "y"}, {"a": "x"}, types=kinds
    )
    unsigned = TiCDC().ddl(1, "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY)")
    for at, kind in ((2, "INSERT"), (3, "DELETE")):
        unsigned.row(at, kind, {"id": 2**64 - 1}, types={"id": "bigint unsigned"})

    assert feed.table() == [{"id": "11.00", "a": "y"}]
    assert unsigned.table() == []


def test_t44_binary_keys_are_their_bytes_with_the_zero_bytes_that_canal_cuts() -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id BINARY(4) PRIMARY KEY, a INT)")
    kinds = {"id": "binary(4)", "a": "int"}
    feed.row(2, "INSERT", {"id": "a\0b", "a": 1}, types=kinds).row(
        3, "UPDATE", {"id": "a\0b\0", "a": 2}, {"a": 1}, types=kinds
    )

    assert feed.table() == [{"id": "YQBiAA==", "a": 2}]


def test_t41_a_unique_key_with_null_names_no_row_and_equal_rows_go_one_by_one() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT, a INT, UNIQUE KEY k (id, a))")
    for at, kind in ((2, "INSERT"), (2, "INSERT"), (3, "DELETE")):
        feed.row(at, kind, {"id": None, "a": 7}, types=INTS, key=())

    assert feed.table() == [{"id": None, "a": 7}]


def test_t42_a_delete_takes_one_of_several_equal_rows() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT, a INT)")
    for at, kind in ((2, "INSERT"), (2, "INSERT"), (3, "DELETE"), (4, "INSERT")):
        feed.row(at, kind, {"id": 1, "a": 7}, types=INTS, key=())

    assert feed.table() == [{"id": 1, "a": 7}, {"id": 1, "a": 7}]


def test_t43_a_key_that_changes_in_case_alone_is_one_row_with_the_new_text() -> None:
    create = "CREATE TABLE t (id VARCHAR(5) COLLATE utf8mb4_general_ci PRIMARY KEY, a INT)"
    kinds = {"id": "varchar", "a": "int"}
    split = TiCDC().ddl(1, create).row(2, "INSERT", {"id": "a", "a": 1}, types=kinds)
    split.row(3, "DELETE", {"id": "a", "a": 1}, types=kinds).row(
        3, "INSERT", {"id": "A", "a": 1}, types=kinds
    )
    whole = TiCDC().ddl(1, create).row(2, "INSERT", {"id": "a", "a": 1}, types=kinds)
    whole.row(3, "UPDATE", {"id": "A", "a": 1}, {"id": "a", "a": 1}, types=kinds)

    assert split.table() == whole.table() == [{"id": "A", "a": 1}]


def rekeyed(*statements: str) -> TiCDC:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT NOT NULL, a INT NOT NULL, b INT, PRIMARY KEY (id))")
    feed.row(2, "INSERT", {"id": 1, "a": 7, "b": 1}, types=INTS)
    for at, statement in enumerate(statements, 3):
        feed.ddl(at, statement)
    return feed


def test_t45_rows_are_those_of_the_new_key_from_its_ddl_on() -> None:
    new, old = {"id": 9, "a": 7, "b": 2}, {"id": 1, "a": 7, "b": 1}

    other = rekeyed("ALTER TABLE t DROP PRIMARY KEY", "ALTER TABLE t ADD PRIMARY KEY (a)")
    other.row(5, "UPDATE", new, old, types=INTS, key=("a",))
    extended = rekeyed("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)")
    extended.row(5, "INSERT", {"id": 1, "a": 8, "b": 3}, types=INTS, key=("id", "a"))
    keyless = rekeyed("ALTER TABLE t DROP PRIMARY KEY").row(5, "INSERT", old, types=INTS, key=())

    assert other.table() == [new]
    assert extended.table() == [old, {"id": 1, "a": 8, "b": 3}]
    assert keyless.table() == [old, old]


def test_t46_a_primary_key_takes_over_from_the_unique_key_that_was_the_handle() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT NOT NULL, a INT NOT NULL, UNIQUE KEY k (id))")
    feed.row(2, "INSERT", {"id": 1, "a": 7}, types=INTS, key=()).row(
        3, "UPDATE", {"id": 2, "a": 7}, {"id": 1, "a": 7}, types=INTS, key=()
    )
    feed.ddl(4, "ALTER TABLE t ADD PRIMARY KEY (a)").row(
        5, "UPDATE", {"id": 3, "a": 7}, {"id": 2, "a": 7}, types=INTS, key=("a",)
    )

    assert feed.table() == [{"id": 3, "a": 7}]


def test_a_key_whose_column_changes_its_type_is_the_same_row() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, **X).ddl(3, "ALTER TABLE t MODIFY id VARCHAR(20)")
    kinds: dict[str, Any] = {"id": "varchar", "a": "varchar"}
    feed.row(4, "UPDATE", {"id": "1", "a": "y"}, {"id": "1", "a": "x"}, types=kinds)

    assert feed.table() == [{"id": "1", "a": "y"}]


def test_rows_of_one_canal_message_may_hold_one_key_twice_or_a_chain_of_keys() -> None:
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", X).row(2, "INSERT", {"id": 2, "a": "y"})
    chain = {"type": "UPDATE", "pkNames": ["id"], "mysqlType": {"id": "int", "a": "varchar"}}
    data = [{"id": "3", "a": "y"}, {"id": "2", "a": "x"}, {"id": "2", "a": "z"}]
    feed.put(3, {**chain, "data": data, "old": [{"id": "2"}, {"id": "1"}, {"a": "x"}]})

    assert feed.table() == [{"id": 2, "a": "z"}, {"id": 3, "a": "y"}]
