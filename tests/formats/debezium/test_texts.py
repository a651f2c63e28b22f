"""Native Debezium: texts that Java's charsets read otherwise than the server, and doubles in documents.

What the charsets have was compared character by character: Java 17's names of MySQL's driver with MariaDB
11.4 and MySQL 5.6.
"""

from decimal import Decimal
from typing import Any

import pytest

from lakehouse.events import DeadLetter, SchemaChange
from lakehouse.formats.debezium.connector import decode
from lakehouse.schema import parse_type
from lakehouse.values.decode_with_schema import resolve
from tests.support.debezium_records import SOURCE, message, one, row
from tests.support.engine import Memory


def with_schema(value: dict[str, Any], **column: str) -> dict[str, Any]:
    fields = [{"field": "id", "type": "int32"}, {"field": "v", "type": "string", **column}]
    struct = {"field": "after", "type": "struct", "fields": fields}
    return {"schema": {"type": "struct", "fields": [struct]}, "payload": value}


def read(wire: str, type_: str, *, embedded: bool, **column: str) -> Any:
    value = row("c", None, {"id": 1, "v": wire})
    event = one(message(with_schema(value, **column) if embedded else value, {"id": 1}))
    return resolve(event.after["v"], parse_type(type_), event.encoding)


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize(
    ("charset", "wire", "value"),
    [
        ("koi8u", "╕ж", "іж"),
        ("sjis", "＼—日", "\\―日"),
        ("ujis", "—", "―"),
        ("eucjpms", "〜−", "～－"),
        ("gbk", "♁—", "⊕—"),
        ("greek", "‘α’", "ʽαʼ"),
        ("hebrew", "¯", "‾"),
        ("cp866", "№", "ⁿ"),
        ("latin1", "—‘é", "—‘é"),
        ("utf8mb4", "╕＼—\ufffd", "╕＼—\ufffd"),
        ("utf16", "—\ufffd", "—\ufffd"),
        ("euckr", "\ufffdA", {"text": "\ufffdA"}),
        ("latin1", "a\ufffd", {"text": "a\ufffd"}),
    ],
)
def test_a_character_that_java_has_in_place_of_the_servers_is_the_servers(
    charset: str, wire: str, value: Any, embedded: bool
) -> None:
    assert read(wire, f"varchar(9) character set {charset}", embedded=embedded) == value


def test_text_of_which_no_charset_is_known_is_as_it_comes() -> None:
    assert (
        read("╕\ufffd", "varchar(9)", embedded=True) == read("╕\ufffd", "text", embedded=False) == "╕\ufffd"
    )


@pytest.mark.parametrize(
    ("connector", "charset", "misread"),
    [
        ("mysql", "swe7", True),
        ("mysql", "cp932", False),
        ("mariadb", "cp932", True),
        ("mysql", "koi8u", False),
    ],
)
def test_a_charset_that_java_does_not_have_is_a_dead_letter_of_its_table(
    connector: str, charset: str, misread: bool
) -> None:
    events = list(decode(created(charset, source={"connector": connector}), {}))
    told = [event for event in events if isinstance(event, SchemaChange | DeadLetter)]
    assert [(type(event), event.database, event.table) for event in told] == [
        (SchemaChange, "d", "t"),
        *[(DeadLetter, "d", "t")] * misread,
    ]


def test_a_snapshots_labels_have_the_character_set_of_their_column() -> None:
    """A binary column takes their bytes in it."""
    source = SOURCE | {"row": 0, "snapshot": "true"}
    schema = created("latin1", {"typeName": "ENUM", "enumValues": ["'é'"]}, source)
    last = message(row("r", None, {"id": 1, "v": "é"}, snapshot="last"), {"id": 1})
    altered = message(
        {
            "source": SOURCE | {"pos": 400},
            "databaseName": "d",
            "ddl": "ALTER TABLE t MODIFY v BLOB",
            "tableChanges": [],
        }
    )
    memory = Memory("debezium", {"server": "mariadb 11.4"}, tidb=False).add([schema, last, altered])
    assert memory.tables(memory.reach) == {"d.t": [{"id": 1, "v": "6Q=="}]}


@pytest.mark.parametrize(
    ("alter", "is_exact"), [("ADD COLUMN w INT", False), ("CHANGE v V VARCHAR(9)", True)]
)
def test_a_column_that_the_connector_does_not_know_leaves_its_table_incomplete(
    alter: str, is_exact: bool
) -> None:
    """Debezium 1.9 loses a column of two that exchange their names, and reads rows by those that are left."""
    feed = [created("utf8mb4"), created("utf8mb4", source={"pos": 400}, ddl=f"ALTER TABLE t {alter}")]
    memory = Memory("debezium", tidb=False).add(feed)
    (lineage,) = memory.history().lineages
    assert (lineage.incomplete_at(memory.reach) is None) == is_exact


_VARCHAR = {"typeName": "VARCHAR", "length": 9}


def created(
    charset: str,
    type_: dict[str, Any] = _VARCHAR,
    source: dict[str, Any] | None = None,
    *,
    ddl: str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))",
) -> Any:
    columns = [
        {"name": "id", "typeName": "INT", "optional": False},
        {"name": "v", "charsetName": charset, "optional": True, **type_},
    ]
    change = {
        "type": "CREATE",
        "id": '"d"."t"',
        "table": {"primaryKeyColumnNames": ["id"], "columns": columns},
    }
    return message(
        {
            "source": SOURCE | {"row": 0} | (source or {}),
            "databaseName": "d",
            "ddl": ddl,
            "tableChanges": [change],
        }
    )


@pytest.mark.parametrize(
    ("told", "charset", "is_exact"),
    [("latin1", "utf8mb4", False), ("utf8mb4", "utf8mb4", True), ("utf8mb3", "utf8mb4", True)],
)
def test_a_column_that_the_connector_still_reads_by_its_former_charset_leaves_its_table_incomplete(
    told: str, charset: str, is_exact: bool
) -> None:
    """Debezium 1.9 and 3.4 do not follow CONVERT TO: what comes behind it is `Ã©` in place of `é`."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) CHARACTER SET latin1"
    alter = f"ALTER TABLE t CONVERT TO CHARACTER SET {charset}"
    feed = [created("latin1", ddl=create), created(told, source={"pos": 400}, ddl=alter)]
    memory = Memory("debezium", tidb=False).add(feed)
    (lineage,) = memory.history().lineages
    assert (lineage.incomplete_at(memory.reach) is None) == is_exact


@pytest.mark.parametrize(
    ("charset", "shown"),
    [("latin1", {"v": None, "_raw_v": "a\ufffd"}), ("utf8mb4", {"v": "a\ufffd"})],
)
def test_the_charset_is_the_databases_where_a_statement_has_none(charset: str, shown: dict[str, Any]) -> None:
    change = message(row("c", None, {"id": 1, "v": "a\ufffd"}, pos=400), {"id": 1})
    memory = Memory("debezium", tidb=False).add([created(charset), change])
    (found,) = memory.tables(memory.reach)["d.t"]
    assert found == {"id": 1} | shown


@pytest.mark.parametrize("embedded", [True, False])
def test_a_double_in_a_document_has_the_digits_that_the_server_prints(embedded: bool) -> None:
    def expanded(number: float) -> str:
        """Java's new BigDecimal(number).toPlainString(), where Double.toString has an exponent."""
        return f"{Decimal(number):f}"

    doubles = [12345678.9, -1700000000.123, 0.0005, 1e-7]
    wire = ",".join(map(expanded, doubles))
    told = f'{{"a":[{wire},12345678901234567890.5,1.5],"b":"\\"{wire}"}}'
    value = read(told, "json", embedded=embedded, name="io.debezium.data.Json")
    plain = "12345678.9,-1700000000.123,0.0005,0.0000001"
    assert value == f'{{"a":[{plain},12345678901234567890.5,1.5],"b":"\\"{wire}"}}'


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ("123456789012345685803008", "1.2345678901234569e23"),
        ("-100000000000000000000", "-1e20"),
        ("18446744073709551615", "18446744073709551615"),
        ("100000000000000000000001", "100000000000000000000001"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_whole_double_that_no_integer_of_a_document_is_has_the_digits_that_the_server_prints(
    wire: str, value: str
) -> None:
    assert read(f'{{"a":{wire}}}', "json", embedded=False) == f'{{"a":{value}}}'


def test_a_column_that_is_read_by_its_former_charset_is_so_behind_a_truncate_too() -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) CHARACTER SET latin1"
    alter = "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"
    truncate = {
        "source": SOURCE | {"pos": 500},
        "databaseName": "d",
        "ddl": "TRUNCATE TABLE t",
        "tableChanges": [],
    }
    feed = [
        created("latin1", ddl=create),
        created("latin1", source={"pos": 400}, ddl=alter),
        message(truncate),
    ]
    memory = Memory("debezium", tidb=False).add(feed)

    (lineage,) = memory.history().lineages

    assert lineage.cleared_at(memory.reach)[2] == 500
    problem = lineage.incomplete_at(memory.reach)
    assert problem is not None and problem[0][2] == 500
