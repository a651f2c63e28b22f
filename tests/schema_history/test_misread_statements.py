"""Statements that Canal reads otherwise than the server, or not at all (its own MemoryTableMeta of 1.1.7 and
1.1.8, run): the values of rows that follow come under the columns that it takes the table to have.
"""

from collections.abc import Callable

import pytest

from lakehouse.events import Message
from lakehouse.formats.proto import canal_pb2 as wire
from lakehouse.lineage import READ_OTHERWISE
from tests.support.engine import Memory
from tests.support.wires import dumps

Feed = Callable[..., Memory]
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"
UNREAD = {
    "ALTER TABLE t MODIFY COLUMN b INT INVISIBLE AFTER id": True,
    "ALTER TABLE t DROP COLUMN IF EXISTS a": True,
    "ALTER TABLE t MODIFY COLUMN IF EXISTS b INT UNSIGNED": True,
    "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, b INT, a INT)": True,
    # the rows' places are those that Canal knows of
    "ALTER TABLE t DROP COLUMN IF EXISTS b": False,
    "ALTER TABLE t MODIFY COLUMN IF EXISTS b BIGINT": False,
    "ALTER TABLE t ALTER COLUMN b SET INVISIBLE": False,
    "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT)": False,
    # Canal stops at a row of more columns than it knows of
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT AFTER id": False,
}
AGAIN = {
    "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, b INT, a INT)": True,
    "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, c INT, a INT, b INT)": True,
    "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, a INT, b INT, c INT)": False,
    "CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, a INT, b INT)": False,
    "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, b INT)": False,
}


def flat(*statements: tuple[str, bool]) -> Memory:
    """A feed of statements, each with whether Canal could read it: the others name no table."""
    return Memory("canal", tidb=False).add(
        Message("c", 0, place, None, dumps(_flat(place, sql, read=read)))
        for place, (sql, read) in enumerate(statements)
    )


def _flat(place: int, sql: str, *, read: bool) -> dict[str, object]:
    named = {"database": "d", "table": "t", "type": "ALTER"}
    told = named if read else {"database": "", "table": "", "type": "QUERY"}
    return {**told, "id": place + 1, "isDdl": True, "es": 1000 * place, "sql": sql, "data": None}


def protobuf(*statements: tuple[str, bool]) -> Memory:
    """The same in the packed form, which has the session's database of each."""
    return Memory("canal-protobuf", tidb=False).add(
        _packed(place, _entry(100 + place, sql, read=read)) for place, (sql, read) in enumerate(statements)
    )


def _entry(offset: int, sql: str, *, read: bool, database: str = "d", session: str = "d") -> wire.Entry:
    kind = wire.EVENT_ALTER if read else wire.EVENT_QUERY
    change = wire.RowChange(eventType=kind, isDdl=True, sql=sql, ddlSchemaName=session)
    header = wire.Header(
        logfileName="mysql-bin.000001",
        logfileOffset=offset,
        serverId=1,
        schemaName=database if read else "",
        tableName="t" if read else "",
        eventType=kind,
    )
    return wire.Entry(header=header, entryType=wire.ENTRY_ROWDATA, storeValue=change.SerializeToString())


def _packed(place: int, entry: wire.Entry) -> Message:
    body = wire.Messages(messages=[entry.SerializeToString()]).SerializeToString()
    value = wire.Packet(type=wire.PACKET_MESSAGES, body=body).SerializeToString()
    return Message("c", 0, place, None, value)


def doubted(silver: Memory) -> list[str]:
    lineage = silver.lineages().live(silver.reach)["d", "t"]
    return [why for _, why in lineage.incomplete]


@pytest.mark.parametrize(("statement", "is_misread"), UNREAD.items())
def test_a_statement_that_canal_could_not_read_leaves_its_columns_as_they_were(
    statement: str, is_misread: bool
) -> None:
    written = statement.replace(" t ", " d.t ", 1)

    assert doubted(protobuf((CREATE, True), (statement, False))) == [READ_OTHERWISE] * is_misread
    assert doubted(flat((CREATE, True), (written, False))) == [READ_OTHERWISE] * is_misread


@pytest.mark.parametrize("statement", UNREAD)
def test_one_that_it_could_read_leaves_nothing_in_doubt(statement: str) -> None:
    assert doubted(protobuf((CREATE, True), (statement, True))) == []
    assert doubted(flat((CREATE, True), (statement, True))) == []


def test_so_does_one_that_is_run_in_another_database() -> None:
    moved = "ALTER TABLE d.t MODIFY COLUMN b INT AFTER id"
    entries = [_entry(100, CREATE, read=True), _entry(101, moved, read=True, session="other")]
    silver = Memory("canal-protobuf", tidb=False)

    silver.add(_packed(place, entry) for place, entry in enumerate(entries))

    assert doubted(silver) == []


@pytest.mark.parametrize(("statement", "is_misread"), AGAIN.items())
@pytest.mark.parametrize("feed", [flat, protobuf])
def test_columns_of_a_create_if_not_exists_may_be_taken_for_those_of_the_table_that_is_there(
    feed: Feed, statement: str, is_misread: bool
) -> None:
    silver = feed((CREATE, True), (statement, True), (statement, True))

    assert doubted(silver) == [READ_OTHERWISE] * is_misread


@pytest.mark.parametrize("feed", [flat, protobuf])
def test_so_may_those_of_the_table_that_it_is_made_like(feed: Feed) -> None:
    other = CREATE.replace(" t ", " u ").replace("a INT, b INT", "b INT, a INT")

    silver = feed((CREATE, True), (other, True), ("CREATE TABLE IF NOT EXISTS t LIKE u", True))

    assert doubted(silver) == [READ_OTHERWISE]


def test_a_table_that_is_created_anew_is_whole() -> None:
    moved = ("ALTER TABLE t MODIFY COLUMN b INT INVISIBLE AFTER id", False)

    silver = protobuf((CREATE, True), moved, ("TRUNCATE TABLE t", True))
    assert silver.lineages().live(silver.reach)["d", "t"].incomplete_at(silver.reach) is not None

    assert doubted(protobuf((CREATE, True), moved, ("DROP TABLE t", True), (CREATE, True))) == []
