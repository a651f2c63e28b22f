"""What `lakehouse ddl --json` says of recorded statements, and of text in any form."""

import json

import pytest

from lakehouse.ddl.explain import answers, expect_form
from lakehouse.ddl.parse.statements import read
from tests.support.ddl_cases import cases, form


@pytest.mark.parametrize("name", ["statements", "mariadb", "refused", "grammar"])
def test_every_statement_means_what_its_server_says(name: str) -> None:
    wanted = cases(name)

    got = list(answers(json.dumps(case) for case in wanted))

    assert [answer["sql"] for answer in got] == [case["sql"] for case in wanted]
    wrong = [
        (case["sql"], answer["expect"])
        for case, answer in zip(wanted, got, strict=True)
        if form(answer["expect"]) != form(case["expect"])
    ]
    assert wrong == []


def test_plain_text_is_answered_statement_by_statement_and_one_refusal_stops_no_other() -> None:
    text = [
        "-- deploy\nDROP TABLE a; ALTER TABLE b FROBNICATE;\n",
        "DELIMITER $$\nCREATE TRIGGER t BEFORE INSERT ON b FOR EACH ROW BEGIN SET @x = 1; END$$\n",
        "DELIMITER ;\nTRUNCATE c",
    ]

    got = list(answers(text))

    assert [(answer["sql"][:12], answer["expect"][0]["kind"]) for answer in got] == [
        ("DROP TABLE a", "drop_table"),
        ("ALTER TABLE ", "error"),
        ("CREATE TRIGG", "no_effect"),
        ("TRUNCATE c", "truncate_table"),
    ]
    assert got[1]["expect"][0]["error"] == "character 39: expected a clause of ALTER TABLE, got 'FROBNICATE'"


@pytest.mark.parametrize("line", ["{", '{"sql": 5}', '{"name": "x"}', "{}"])
def test_a_json_line_without_a_statement_is_an_error_in_its_place(line: str) -> None:
    got = [answer["expect"][0]["kind"] for answer in answers([line, '{"sql": "DROP TABLE a"}'])]

    assert got == ["error", "drop_table"]


def test_empty_text_has_no_answers() -> None:
    assert list(answers([])) == []
    assert list(answers(["\n", "-- nothing\n"])) == []


def test_conditions_stay_with_what_they_condition() -> None:
    sql = (
        "CREATE TABLE IF NOT EXISTS t (a INT); DROP TABLE IF EXISTS t; RENAME TABLE IF EXISTS a TO "
        "b; DROP DATABASE IF EXISTS d;"
        "ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS b INT, DROP COLUMN IF EXISTS c, MODIFY "
        "COLUMN IF EXISTS d INT"
    )

    got = [expect_form(statement) for statement in read(sql)]

    assert [meaning.get("if_exists") or meaning.get("if_not_exists") for meaning in got] == [True] * 5
    assert [edit.get("if_exists") or edit.get("if_not_exists") for edit in got[4]["edits"]] == [True] * 3


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("CREATE TABLE t (a ENUM('x  ','y') NOT NULL)", "enum('x','y')"),
        ("CREATE TABLE t (a TEXT CHARACTER SET utf8mb3)", "text character set utf8"),
    ],
)
def test_a_type_is_spelled_as_tidbs_parser_spells_it(sql: str, type_: str) -> None:
    (meaning,) = [expect_form(statement) for statement in read(sql)]

    assert meaning["columns"][0]["type"] == type_


def test_a_check_in_a_list_of_columns_is_a_clause_without_effect() -> None:
    sql = "ALTER TABLE t ADD (a INT, CHECK (a > 0), FOREIGN KEY (a) REFERENCES p (a))"
    (meaning,) = [expect_form(statement) for statement in read(sql)]

    assert [edit["edit"] for edit in meaning["edits"]] == ["add_column", "no_effect", "no_effect"]
