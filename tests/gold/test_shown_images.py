"""What of a change's image a reader of gold may see, under the names of its time."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.shown_images import shown_image
from lakehouse.lineage import Lineage, Step
from lakehouse.schema import TableSchema


def table() -> TableSchema:
    statement = next(iter(read("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY, `mail` VARCHAR(30), `n` INT)")))
    assert isinstance(statement, E.CreateTable)
    return create(statement)


OLD = table()
# the same columns, of which one was renamed
NEW = replace(
    OLD, columns=tuple(replace(one, name="email") if one.name == "mail" else one for one in OLD.columns)
)
LINEAGE = Lineage("d.t", [Step((0, 1, 0, 0, 0, 0), OLD), Step((0, 2, 0, 0, 0, 0), NEW)], [])
ROW = dict(zip((column.id for column in OLD.columns), (1, "ann@example.com", 7), strict=True))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, {"id": 1, "mail": "ann@example.com", "n": 7}),
        ({"mail": ColumnOptions(mask="redact")}, {"id": 1, "mail": "***", "n": 7}),
        ({"EMAIL": ColumnOptions(mask="last4")}, {"id": 1, "mail": "***********.com", "n": 7}),
        ({"email": ColumnOptions(mask="nullify")}, {"id": 1, "mail": None, "n": 7}),
        ({"email": ColumnOptions(exclude=True)}, {"id": 1, "n": 7}),
        ({"n": ColumnOptions(rename="number")}, {"id": 1, "mail": "ann@example.com", "n": 7}),
    ],
)
def test_a_column_is_hidden_under_each_name_that_it_ever_had(
    options: dict[str, ColumnOptions], shown: dict[str, Any]
) -> None:
    assert shown_image(LINEAGE, GoldOptions(columns=options))(OLD, ROW) == shown


def test_a_hashed_value_is_no_value_and_what_is_null_stays_null() -> None:
    show = shown_image(LINEAGE, GoldOptions(columns={"mail": ColumnOptions(hash="sha256")}))

    assert len(show(NEW, ROW)["email"]) == 64
    assert show(NEW, {**ROW, OLD.columns[1].id: None})["email"] is None


def test_what_was_not_sent_and_what_no_statement_declared_is_not_shown() -> None:
    first = OLD.columns[0].id

    assert shown_image(LINEAGE, GoldOptions())(NEW, {first: 1, 99: "undeclared"}) == {"id": 1}
