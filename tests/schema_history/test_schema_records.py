"""What rows tell of their table's shape, where nothing else does."""

import json
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.schema_history.schema_records import Shape, shape_of_rows
from tests.support.engine import Memory

FIRST, NEXT = (0, 1, 1, 0, 0, 0), (0, 2, 1, 0, 0, 0)


def test_a_column_whose_type_no_row_tells_is_there_all_the_same_and_where_the_image_has_it() -> None:
    assert shape_of_rows(
        [({"id": "int"}, ["id", "a"], ("id",), FIRST), ({"b": "date"}, ["id", "a", "b"], (), NEXT)]
    ) == Shape({"id": "int", "a": "", "b": "date"}, ("id",), FIRST)
    assert shape_of_rows([({}, ["a"], (), FIRST), ({"a": "int"}, ["a"], (), NEXT)]) == Shape(
        {"a": "int"}, (), FIRST
    )
    assert shape_of_rows([]) is None


def ticdc(ts: int, after: dict[str, Any], schema: dict[str, Any] | None = None) -> Message:
    payload = {
        "op": "c",
        "before": None,
        "after": after,
        "source": {"commit_ts": ts, "db": "d", "table": "t"},
    }
    value = json.dumps({"payload": payload, **({"schema": schema} if schema else {})})
    return Message("topic", 0, ts, b'{"payload":{"id":1}}', value.encode())


def test_a_debezium_feed_without_schemas_and_ddl_loses_no_column_and_says_that_types_are_missing() -> None:
    memory = Memory("ticdc-debezium").add([ticdc(1, {"id": 1, "a": "x", "f": 1.5})])

    assert memory.tables(memory.reach) == {"d.t": [{"id": "1", "a": "x", "f": "1.5"}]}
    assert memory.history().lineages[0].notes == [
        "no CREATE was seen: its schema is inferred from the messages",
        "no message tells the type of id, a, f: text as the wire has it, until a schema is imported",
    ]


def test_a_ticdc_schema_without_tidb_types_tells_what_it_can_and_loses_no_text() -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "a", "type": "string"},
        {"field": "e", "type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "x,y"}},
        {"field": "at", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}

    memory = Memory("ticdc-debezium").add(
        [ticdc(1, {"id": 1, "a": "x", "e": "y", "at": "2024-05-05T23:08:09.123Z"}, schema)]
    )

    assert memory.tables(memory.reach) == {
        "d.t": [{"id": 1, "a": "x", "e": "y", "at": "2024-05-05 23:08:09.123Z"}]
    }
    types = {column.name: str(column.type) for column in memory.history().lineages[0].steps[0].schema.columns}
    assert types == {"id": "int", "a": "", "e": "enum('x','y')", "at": "timestamp"}


def test_a_ddl_that_tells_the_columns_settles_the_types_of_the_rows_before_it() -> None:
    source = {"file": "bin.000001", "db": "d", "table": "t", "snapshot": "false"}
    rows = [
        {"op": "c", "before": None, "after": {"id": 1, "a": 19000}, "source": {**source, "pos": 10}},
        {"op": "c", "before": None, "after": {"id": 2, "a": 19001, "z": 5}, "source": {**source, "pos": 30}},
    ]
    columns = [
        {"name": "id", "typeName": "INT"},
        {"name": "a", "typeName": "DATE"},
        {"name": "z", "typeName": "INT"},
    ]
    change = {
        "type": "ALTER",
        "id": '"d"."t"',
        "table": {"primaryKeyColumnNames": ["id"], "columns": columns},
    }
    ddl = {
        "source": {**source, "pos": 20},
        "ddl": "ALTER TABLE t ADD COLUMN z INT DEFAULT 4",
        "databaseName": "d",
        "tableChanges": [change],
    }
    messages = [
        Message("s", 0, number, b'{"id":1}', json.dumps(body).encode())
        for number, body in enumerate([*rows, ddl])
    ]

    memory = Memory("debezium", tidb=False).add(messages)

    assert memory.tables(memory.reach) == {
        "d.t": [{"id": 1, "a": "2022-01-08", "z": 4}, {"id": 2, "a": "2022-01-09", "z": 5}]
    }


@pytest.mark.parametrize(
    ("told", "both"),
    [
        (("int", "bigint"), "bigint"),
        (("bigint", "int"), "bigint"),
        (("smallint unsigned", "int unsigned"), "int unsigned"),
        (("int unsigned", "int"), "bigint"),
        (("tinyint unsigned", "smallint"), "smallint"),
        (("bigint unsigned", "bigint"), "decimal(20,0)"),
        (("decimal(10,2)", "decimal(12,4)"), "decimal(12,4)"),
        (("decimal(10,4)", "decimal(10,2)"), "decimal(12,4)"),
        (("decimal", "decimal(10,2)"), "decimal"),
        (("enum('a','b')", "enum('a','b','c')"), "enum('a','b','c')"),
        (("enum('a','b')", "enum('b','a','c')"), "enum('a','b')"),
        (("float", "double"), "double"),
        (("datetime", "datetime(3)"), "datetime(3)"),
        (("datetime(6)", "datetime(3)"), "datetime(6)"),
        (("varchar(10)", "varbinary(20)"), "varchar(10)"),
        (("int", "varchar(10)"), "int"),
        (("", "int"), "int"),
    ],
)
def test_a_column_that_a_statement_has_widened_without_a_word_has_the_wider_type(
    told: tuple[str, str], both: str
) -> None:
    rows = [({"a": text}, ["a"], (), place) for text, place in zip(told, (FIRST, NEXT), strict=True)]

    assert shape_of_rows(rows) == Shape({"a": both}, (), FIRST)


@pytest.mark.parametrize(
    ("alter", "told", "rows"),
    [
        ("ADD COLUMN `b` INT", (12, 2), [{"id": 1, "a": "100.50", "b": None}]),
        ("MODIFY COLUMN `a` DECIMAL(12,4)", (12, 4), [{"id": 1, "a": "100.5000"}]),
    ],
)
def test_a_decimal_has_its_digits_once_a_statement_s_message_tells_them(
    alter: str, told: tuple[int, int], rows: list[dict[str, Any]]
) -> None:
    fields = [
        {"type": "int32", "field": "id", "tidb_type": "int"},
        {"type": "double", "field": "a", "tidb_type": "decimal"},
    ]
    schema = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    columns = [
        {"name": "id", "typeName": "INT", "optional": False},
        {"name": "a", "typeName": "DECIMAL", "length": told[0], "scale": told[1]},
    ]
    statement = {
        "source": {"commit_ts": 5, "db": "d", "table": "t"},
        "ddl": f"ALTER TABLE `d`.`t` {alter}",
        "tableChanges": [{"type": "ALTER", "id": '"d"."t"', "table": {"columns": columns}}],
    }
    altered = Message("topic", 0, 5, b"{}", json.dumps({"payload": statement}).encode())

    memory = Memory("ticdc-debezium").add([ticdc(1, {"id": 1, "a": 100.5}, schema), altered])

    assert memory.tables(memory.reach) == {"d.t": rows}
