"""What `lakehouse ddl --table` says a statement would do, against what it does."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.impact import Table, outlook
from lakehouse.ddl.parse.statements import read
from lakehouse.fold.upcast import Carrier
from lakehouse.lineage import Lineage
from tests.support.arrivals import Feed
from tests.support.engine import Memory
from tests.support.examples import QUICK
from tests.support.source_model import History

PARTS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"


def table(
    ddl: str = f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b VARCHAR(20)) {PARTS}", **policy: str
) -> Table:
    (statement,) = read(ddl)
    assert isinstance(statement, CreateTable)
    return Table(("d", "t"), create(statement), policy)


def told(sql: str, **policy: str) -> dict[str, Any]:
    (statement,) = read(sql)
    return outlook(table(**policy), statement)[0]


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("ALTER TABLE t ADD COLUMN c INT", "in_place"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT NULL", "in_place"),
        ("ALTER TABLE t ADD COLUMN c INT NOT NULL", "fill"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 5", "fill"),
        ("ALTER TABLE t ADD COLUMN c DATETIME DEFAULT NOW()", "unknowable"),
        ("ALTER TABLE t RENAME COLUMN a TO z, DROP COLUMN b", "in_place"),
        ("ALTER TABLE t MODIFY a BIGINT FIRST", "in_place"),
        ("ALTER TABLE t MODIFY a TINYINT", "rewrite"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", "rewrite"),
        ("ALTER TABLE t DROP PARTITION p0", "remove"),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u", "unknowable"),
        ("ALTER TABLE t DROP COLUMN nothing", "held"),
        ("ALTER TABLE t COMMENT = 'x'", "nothing"),
        ("ALTER TABLE other.t DROP COLUMN a", "nothing"),
        ("CREATE INDEX i ON t (a)", "nothing"),
        ("RENAME TABLE t TO old_t, new_t TO t", "in_place"),
        ("TRUNCATE TABLE d.t", "remove"),
        ("DROP TABLE u, t", "remove"),
        ("DROP DATABASE d", "remove"),
        ("CREATE TABLE IF NOT EXISTS t (x INT)", "nothing"),
    ],
)
def test_each_kind_of_statement_has_its_word(sql: str, word: str) -> None:
    assert told(sql)["gold"] == word


def test_a_policy_is_part_of_the_answer_edit_by_edit() -> None:
    sql = "ALTER TABLE t ADD COLUMN c INT DEFAULT 5, MODIFY a TINYINT"

    assert told(sql, modify_column="hold") == {"gold": "held", "why": ["on_ddl says hold for modify_column"]}
    assert told(sql, modify_column="ignore", add_column="ignore")["gold"] == "ignored"
    assert told(sql, modify_column="ignore") == {
        "gold": "fill",
        "edits": [
            {"edit": "add_column", "gold": "fill"},
            {"edit": "modify_column", "gold": "ignored", "why": ["on_ddl says ignore for modify_column"]},
        ],
    }


def test_a_table_that_is_created_anew_is_held_where_a_dropped_one_is() -> None:
    sql = "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)"

    assert told(sql, drop_table="hold") == {"gold": "held", "why": ["on_ddl says hold for drop_table"]}
    assert told(sql, drop_table="ignore")["gold"] == "remove"


def test_statements_are_taken_one_after_another_also_under_a_new_name() -> None:
    now, words = table(), []
    for statement in read(
        "ALTER TABLE t ADD c INT; RENAME TABLE t TO u; ALTER TABLE t DROP c; ALTER TABLE u DROP c; "
        "DROP TABLE u; TRUNCATE u"
    ):
        outcome, now = outlook(now, statement)
        words.append(outcome["gold"])

    assert words == ["in_place", "in_place", "nothing", "in_place", "remove", "nothing"]


@QUICK
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_what_is_called_in_place_changes_no_value_of_a_row_and_a_fill_changes_new_ones_alone(
    seed: int, count: int
) -> None:
    history = History(seed, count)
    silver = Memory("ticdc-open").add(
        Feed(history.events, random.Random(seed), 1, "table").arrival(random.Random(seed))
    )
    lineages, changes = silver._lineages()
    for lineage in lineages.lineages:
        images = [
            image
            for change in changes.get(lineage.id, ())
            for image in (change.before, change.after)
            if image is not None
        ]
        for index in range(1, len(lineage.steps)):
            check_step(silver, lineage, index, images)


def check_step(silver: Memory, lineage: Lineage, index: int, images: list[dict[str, Any]]) -> None:
    before, after = lineage.steps[index - 1], lineage.steps[index]
    (statement,) = read(after.ddl or "")
    name = lineage.name_at((*after.position[:2], 1, 0, 0, 0))
    assert name is not None
    outcome, behind = outlook(Table(name, before.schema, {}, silver.upstream.server), statement)
    assert behind.schema == after.schema
    stay = Carrier(lineage, index - 1, index - 1, "canonical", silver.upstream)
    move = Carrier(lineage, index - 1, index, "canonical", silver.upstream)
    for image in images:
        row, moved = stay(image), move(image)
        assert row is not None
        if outcome["gold"] in ("nothing", "in_place", "fill"):
            assert moved is not None
            both = {column.id for column in after.schema.columns} & {
                column.id for column in before.schema.columns
            }
            assert {key: row.get(key) for key in both} == {key: moved.get(key) for key in both}
            new = {column.id for column in after.schema.columns} - both
            assert outcome["gold"] == "fill" or {moved.get(key) for key in new} <= {None}
