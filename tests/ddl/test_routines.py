"""Routines, triggers, events and views have no effect on tables, whatever their bodies are."""

import pytest

from lakehouse.ddl.edits import DropTable, NoEffect
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.parse.targets import targets
from lakehouse.errors import DdlError
from tests.support.feeds import Debezium

BODIES = (
    "CREATE PROCEDURE p(x INT) IF x < 0 THEN DROP TABLE t; ELSEIF x = 0 THEN SELECT 1; ELSE SELECT 2; END IF",
    "CREATE PROCEDURE p(x INT) WHILE x DO SET x = x - 1; DROP TABLE t; END WHILE",
    "CREATE PROCEDURE p(x INT) l: LOOP IF x = 0 THEN LEAVE l; END IF; DROP TABLE t; END LOOP l",
    "CREATE PROCEDURE p(x INT) REPEAT DROP TABLE t; SET x = x - 1; UNTIL x = 0 END REPEAT",
    "CREATE FUNCTION f() RETURNS INT FOR i IN 1..10 DO RETURN 1; END FOR;",
    "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW IF NEW.a IS NULL THEN SET NEW.a = 1; END IF;",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO CASE WHEN 1 THEN DROP TABLE t; ELSE BEGIN END; END CASE",
    # sql_mode=ORACLE
    "CREATE PROCEDURE p AS a INT := 1; rec t%ROWTYPE; BEGIN rec.a := 1; DROP TABLE t; END;",
    "CREATE PACKAGE k AS PROCEDURE p; FUNCTION f RETURN INT; END;",
    "CREATE PACKAGE BODY k AS a INT := 0; PROCEDURE p AS BEGIN DROP TABLE t; END; BEGIN a := 1; END;",
    "SET STATEMENT sql_mode = '' FOR CREATE PROCEDURE p() BEGIN SELECT 1; DROP TABLE t; END",
    # a server without accounts logs such a definer
    "CREATE DEFINER=`` PROCEDURE `p`() BEGIN SELECT '' AS ``; DROP TABLE t; END",
    "CREATE TRIGGER r BEFORE UPDATE ON t FOR EACH ROW BEGIN SET NEW.end = 1; SET NEW.begin = 2; END",
    "CREATE ALGORITHM=UNDEFINED DEFINER=`` SQL SECURITY DEFINER VIEW `v` AS SELECT 1 AS ``",
)


@pytest.mark.parametrize("sql", BODIES)
def test_a_body_is_no_statement_of_its_own(sql: str) -> None:
    assert [type(statement) for statement in read(sql)] == [NoEffect]
    assert targets(sql) == []


@pytest.mark.parametrize("sql", BODIES)
def test_what_stands_behind_a_routine_is(sql: str) -> None:
    statements = read(f"{sql.removesuffix(';')}; DROP TABLE u; {BODIES[0]}")

    assert [type(statement) for statement in statements] == [NoEffect, DropTable, NoEffect]


def test_a_column_may_be_named_begin() -> None:
    sql = "CREATE PROCEDURE p() l: BEGIN SELECT begin FROM t; DROP TABLE t; END l;"

    assert read(sql) == [NoEffect("PROCEDURE")]
    with pytest.raises(DdlError, match="expected END"):
        read(sql + " DROP TABLE t")


def test_a_routine_that_cannot_be_read_names_no_table_and_stops_no_other_one() -> None:
    feed = Debezium().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").change(2, "c", None, {"id": 1})
    feed.ddl(3, "CREATE PROCEDURE p() BEGIN DROP TABLE t;", table=None)

    ((_, problem),) = feed.memory.history().problems
    assert "expected END of a routine's body" in problem
    assert (feed.table(), feed.lineage().held) == ([{"id": 1}], None)


@pytest.mark.parametrize("sql", ["CREATE TABLE `` (a INT)", "DROP TABLE `d`.``", "ALTER TABLE t DROP ``"])
def test_a_table_and_a_column_have_a_name(sql: str) -> None:
    with pytest.raises(DdlError, match=r"expected a (table|column) name, got ''"):
        read(sql)
