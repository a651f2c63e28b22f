"""What releases of Canal from 1.0.24 on write otherwise than 1.1.7 and 1.1.8."""

from typing import Any

import pytest

from lakehouse.ddl.policy import Decision, Rules
from lakehouse.errors import DecodeError
from lakehouse.events import Message, SchemaChange
from lakehouse.formats.canal.flat_message import decode, logged
from lakehouse.formats.canal.protobuf import decode as decode_packet
from lakehouse.formats.proto import canal_pb2 as wire
from lakehouse.schema import parse_type
from lakehouse.values.decode_with_schema import resolve
from tests.support.engine import Memory
from tests.support.events import changes_of
from tests.support.wires import dumps, packet

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"


def message(offset: int = 9, **members: Any) -> Message:
    whole = {
        "database": "d",
        "table": "t",
        "isDdl": False,
        "type": "INSERT",
        "es": 1000,
        "id": offset + 1,
        "pkNames": ["id"],
        "mysqlType": {"id": "int", "v": "int"},
        "sqlType": {"id": 4, "v": 4},
        "sql": "",
        **members,
    }
    return Message("t", 0, offset, None, dumps(whole))


def flat(**members: Any) -> list[Any]:
    return list(decode(message(**members), {}))


def queried(sql: str, **said: str) -> list[Any]:
    """The events of a QUERY that is not said to be a statement."""
    change = wire.RowChange(eventType="EVENT_QUERY", sql=sql, ddlSchemaName=said.get("session", ""))
    return list(decode_packet(packet(change, said.get("database", ""), table=""), {}))


# Statements: before 1.1.5 a QUERY is never said to be one


@pytest.mark.parametrize(
    ("sql", "database"),
    [
        ("DROP DATABASE d", "d"),
        ("SAVEPOINT a", "d"),
        ("/* a */ -- b\n ALTER TABLE d.t ADD COLUMN c INT INVISIBLE", ""),
        ("create or replace table t (id int)", ""),
        ("SET STATEMENT max_statement_time = 0, sql_mode = 'x' FOR ALTER TABLE d.t ADD c INT", ""),
    ],
)
def test_a_statement_of_which_nothing_says_that_it_is_one_is_read(sql: str, database: str) -> None:
    (event,) = flat(type="QUERY", database=database, table="", sql=sql)
    (packed,) = queried(sql, database=database)

    assert isinstance(event, SchemaChange) and isinstance(packed, SchemaChange)
    assert (event.database, event.ddl) == (packed.database, packed.ddl) == (database, sql)
    told = logged(message(type="QUERY", database=database, table="", sql=sql))
    assert told is not None and told.ddl == sql


def test_a_statement_of_a_session_with_a_database_is_read() -> None:
    (event,) = queried("SAVEPOINT a", session="d")

    assert isinstance(event, SchemaChange) and event.database == "d"


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO d.t VALUES (1)",
        "-- ALTER\nUPDATE t SET a = 1",
        "CREATE TABLE d.t AS\nSELECT 1",
        "/* ** a */" * 100 + "DELETE FROM t",
        "SET STATEMENT sort_buffer_size = 1 FOR DELETE FROM t",
        "SET STATEMENT a = 1 " * 1000,
        "",
    ],
)
def test_the_text_of_a_row_event_is_none(sql: str) -> None:
    assert flat(type="QUERY", database="", table="", sql=sql) == queried(sql) == []
    assert flat(type="QUERY", database="", table="t", sql="CREATE TABLE t AS TABLE u") == []


def test_a_rollback_behind_rows_is_a_dead_letter_there_too() -> None:
    with pytest.raises(DecodeError, match="rolled back"):
        flat(type="QUERY", database="d", table="", sql="ROLLBACK")


@pytest.mark.parametrize("is_ddl", [True, False])
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE T ADD COLUMN c INT SOMETHING NEW",
        "RENAME TABLE t TO d.u",
        "DROP TABLE d.x, t",
        "TRUNCATE t",
    ],
)
def test_a_statement_that_canal_cannot_read_holds_the_tables_that_it_may_mean(sql: str, is_ddl: bool) -> None:
    """Its message names neither a database nor a table."""
    sent = [
        message(0, isDdl=True, type="CREATE", sql=CREATE),
        message(1, isDdl=True, type="CREATE", sql=CREATE.replace("t (", "other ("), table="other"),
        message(2, isDdl=is_ddl, type="QUERY", database="", table="", sql=sql),
    ]

    history = Memory("canal", tidb=False).add(sent).history()

    held = {lineage.name_at(lineage.start): lineage.held for lineage in history.lineages}
    assert held.keys() == {("d", "t"), ("d", "other")}
    assert held["d", "t"] is not None and held["d", "t"].position == (0, 2, 0, 0, 0, 0)
    assert held["d", "other"] is None


@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE t (id INT) NEW", "CREATE TABLE t (id INT)", "ALTER TABLE x DROP v", "GRANT a TO b"],
)
def test_one_of_a_table_that_is_not_there_holds_none(sql: str) -> None:
    sent = [
        message(0, isDdl=True, type="CREATE", sql=CREATE),
        message(1, isDdl=True, type="QUERY", database="", table="", sql=sql),
    ]

    history = Memory("canal", tidb=False).add(sent).history()

    assert [(one.name_at(one.start), one.held) for one in history.lineages] == [(("d", "t"), None)]


def test_an_operator_says_which_table_such_a_statement_is_of() -> None:
    sql = "ALTER TABLE t DROP COLUMN v"
    sent = [
        message(0, isDdl=True, type="CREATE", sql=CREATE),
        message(1, isDdl=True, type="QUERY", database="", table="", sql=sql),
    ]
    memory = Memory("canal", tidb=False).add(sent)

    def columns(decision: Decision) -> list[str]:
        memory.ruled(Rules(decisions={((0, 1, 0, 0, 0, 0), sql): decision}))
        (lineage,) = memory.history().lineages
        assert lineage.held is None
        return [column.name for column in lineage.steps[-1].schema.columns]

    assert columns(Decision("approve", "ALTER TABLE d.t DROP COLUMN v")) == ["id"]
    assert columns(Decision("skip")) == ["id", "v"]


# Rows


def test_the_first_rows_of_an_update_in_which_nothing_has_changed_have_no_old_image() -> None:
    """canal.instance.filter.field leaves out what has changed in them."""
    rows = [{"id": "1", "v": "1"}, {"id": "2", "v": "3"}]

    first, second = flat(type="UPDATE", data=rows, old=[{"v": "2"}])

    assert (first.before, first.after) == ({"id": 1, "v": 1}, {"id": 1, "v": 1})
    assert (second.before, second.after) == ({"id": 2, "v": 2}, {"id": 2, "v": 3})


def test_the_key_that_rds_gives_a_table_had_another_name() -> None:
    name = "#alibaba_rds_row_id#"
    told = {"data": [{"v": "1", name: "7"}], "pkNames": [name], "mysqlType": {"v": "int", name: "bigint"}}

    (event,) = flat(**told)

    assert (event.key, event.key_names, event.after) == ((), (), {"v": 1})


@pytest.mark.parametrize(
    ("type_", "told", "value"),
    [
        ("bit(8)", "-56", 200),
        ("bit(64)", "-56", (1 << 64) - 56),
        ("bit(8)", "200", 200),
        ("set('a','b','c','d','e','f','g','h')", "-127", "a,h"),
        ("set('a','b')", "3", "a,b"),
    ],
)
def test_a_byte_is_signed(type_: str, told: str, value: object) -> None:
    column = wire.Column(index=0, name="v", value=told, mysqlType=type_, sqlType=-7)
    change = wire.RowChange(eventType="EVENT_INSERT", rowDatas=[wire.RowData(afterColumns=[column])])

    (event,) = changes_of(decode_packet(packet(change), {}))

    assert event.after is not None
    assert resolve(event.after["v"], parse_type(type_), event.encoding) == value


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ('{"a": NULL, "b": "NULL", "c": [NULL]}', '{"a": null, "b": "NULL", "c": [null]}'),
        ("NULL", "null"),
        ('{"a": NULL, "b": "x\ny"}', '{"a": null, "b": "x\\u000ay"}'),
        ('{"a\\"b": "c"}', '{"a\\"b": "c"}'),
        ('{"a"b": "c"}', {"text": '{"a"b": "c"}'}),
    ],
)
def test_a_document_that_canal_printed_badly_is_itself_or_unknown(told: str, value: object) -> None:
    types = {"mysqlType": {"id": "int", "j": "json"}, "sqlType": {"id": 4, "j": 12}}

    (event,) = flat(data=[{"id": "1", "j": told}], **types)

    assert event.after["j"] == value
