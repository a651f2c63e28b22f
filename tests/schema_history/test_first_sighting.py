"""Rows and DDL that come before the CREATE which explains them: at the watermark below them there is no such
table yet.
"""

from lakehouse.events import Message, Position
from lakehouse.schema import Column, make_schema, parse_type
from tests.support.encode_open import encode, message
from tests.support.engine import Memory

SHAPE = make_schema([Column(0, "id", parse_type("int"), True)], ("id",))


def at(ts: int) -> Position:
    return (0, ts, 2, 0, 0, 0)


def sent(
    partition: int, offset: int, ts: int, table: str, id_: int | None = None, query: str | None = None
) -> Message:
    cell = {"id": {"type": "int", "value": str(id_)}}
    event = {
        "schema": "d",
        "table": table,
        "commit_ts": ts,
        "kind": "ddl" if query else "row",
        "query": query,
        "after": cell,
    }
    return message([encode(event, None if query else SHAPE)], "t", partition, offset)


def resolved(partition: int, offset: int, ts: int) -> Message:
    return message([encode({"kind": "resolved", "commit_ts": ts})], "t", partition, offset)


def test_a_table_whose_rows_come_before_its_create_is_not_there_below_them() -> None:
    silver = Memory("ticdc-open").add([resolved(0, 0, 10), resolved(1, 0, 10), sent(1, 1, 30, "new", 1)])

    assert silver.tables(at(10)) == {}

    silver.add(
        [
            sent(0, 1, 20, "new", query="CREATE TABLE `new` (`id` INT PRIMARY KEY)"),
            resolved(0, 2, 40),
            resolved(1, 2, 40),
        ]
    )
    assert silver.tables(at(10)) == {}
    assert silver.tables(at(20)) == {"d.new": []}
    assert silver.tables(at(40)) == {"d.new": [{"id": 1}]}
    assert len(silver.history().lineages) == 1


def test_a_dropped_table_is_not_back_because_rows_of_its_successor_came_first() -> None:
    begin = [
        sent(0, 0, 5, "t", query="CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        sent(0, 1, 6, "t", 1),
        sent(0, 2, 7, "t", query="DROP TABLE `t`"),
    ]
    silver = Memory("ticdc-open").add(
        [*begin, resolved(0, 3, 10), resolved(1, 0, 10), sent(1, 1, 30, "t", 2)]
    )

    assert silver.tables(at(6)) == {"d.t": [{"id": 1}]}
    assert silver.tables(at(10)) == {}
    assert silver.tables(at(30)).keys() == {"d.t"}


def test_a_table_that_only_a_rename_has_told_of_is_there_from_the_rename_on() -> None:
    silver = Memory("ticdc-open").add(
        [
            resolved(0, 0, 10),
            sent(0, 1, 20, "b", query="RENAME TABLE `d`.`a` TO `d`.`b`"),
            sent(0, 2, 21, "b", 1),
        ]
    )

    assert silver.tables(at(10)) == {}
    assert silver.tables(at(21)) == {"d.b": [{"id": 1}]}
