"""Which changes of a batch are kept, which are duplicates, and which contradict what silver has. Needs
Spark's package, but no session.
"""

import json
from typing import Any

import pytest

from lakehouse.silver.batch_summary import summarise
from lakehouse.spark.silver.columns import CHANGE_COLUMNS
from lakehouse.spark.silver.dedupe import known_spans, overlaps
from lakehouse.spark.silver.driver_batch import distinct_rows, identity_of, schema_identity

Row = dict[str, Any]


def change(after: Row | None, *, offset: int = 0, index: int = 0, **more: Any) -> Row:
    """The change of key 1 at commit 7."""
    plain = {
        "kind": "change",
        "database": "d",
        "table": "t",
        "key": b"[1]",
        "position": (0, 7, 1, 0, 0, 0),
        "row_id": None,
        "physical_table": None,
        "topic": "x",
        "incarnation": "",
        "partition": 0,
        "offset": offset,
        "index": index,
        "after": None if after is None else json.dumps(after),
    }
    return {**plain, **more}


def kept(changes: list[Row], known: Row | None = None, order: str = "tidb") -> tuple[list[Any], int, int]:
    """The after-images that are new, how many changes are conflicts, and how many duplicates. `known` is the
    after-image that silver has.
    """
    held: dict[Any, str | None] = {}
    if known is not None:
        held[identity_of(changes[0], order)] = json.dumps(known)
    new, conflicts, duplicates = distinct_rows(changes, held, order)
    assert all((one["kind"], one["error_code"]) == ("dead_letter", "conflict") for one in conflicts)
    return [json.loads(one["after"]) for one in new], len(conflicts), duplicates


def test_a_change_that_comes_again_is_a_duplicate_in_one_batch_and_of_silver() -> None:
    again = [change({"v": 1}, offset=offset) for offset in range(3)]

    assert kept(again) == ([{"v": 1}], 0, 2)
    assert kept(again, known={"v": 1}) == ([], 0, 3)


def test_of_equal_identities_inside_one_message_the_later_row_stands() -> None:
    twice = [change({"v": value}, index=value) for value in range(3)]

    assert kept(twice) == ([{"v": 2}], 0, 2)
    assert kept(twice[::-1]) == ([{"v": 2}], 0, 2)


def test_a_message_with_one_identity_twice_that_comes_again_in_its_batch_is_no_conflict() -> None:
    again = [change({"v": value}, offset=offset, index=value) for offset in range(3) for value in range(2)]

    assert kept(again) == ([{"v": 1}], 0, 5)
    assert kept(again, known={"v": 1}) == ([], 0, 6)
    assert kept([*again, change({"v": 7}, offset=9)]) == ([{"v": 1}], 1, 5)


def test_another_value_of_a_known_change_is_a_conflict_and_the_first_stands() -> None:
    other = [change({"v": 1}), change({"v": 2}, offset=1)]

    assert kept(other) == ([{"v": 1}], 1, 0)
    assert kept(other[1:], known={"v": 1}) == ([], 1, 0)


def test_a_column_that_one_of_two_images_lacks_is_no_conflict() -> None:
    assert kept([change({"v": 1, "w": 2}, offset=1)], known={"v": 1}) == ([], 0, 1)
    assert kept([change({"v": 1}), change({"w": 2}, offset=1)]) == ([{"v": 1}], 0, 1)


def test_a_delete_in_place_of_a_row_is_a_conflict_and_a_delete_that_comes_again_is_none() -> None:
    """As an insert and a delete of one transaction whose rows all have one place in the binlog."""
    assert kept([change(None, offset=1)], known={"v": 1}) == ([], 1, 0)
    assert kept([change({"v": 1}), change(None, offset=1)]) == ([{"v": 1}], 1, 0)
    new, conflicts, duplicates = distinct_rows([change(None), change(None, offset=1)], {}, "tidb")
    assert (len(new), conflicts, duplicates) == (1, [], 1)


@pytest.mark.parametrize(
    "other",
    [
        {"database": "e"},
        {"table": "u"},
        {"key": b"[2]"},
        {"position": (1, 7, 1, 0, 0, 0)},
        {"position": (0, 8, 1, 0, 0, 0)},
        {"position": (0, 7, 0, 0, 0, 0)},
        {"row_id": "a"},
    ],
)
def test_database_table_key_epoch_commit_time_rank_and_row_tell_changes_apart(other: Row) -> None:
    assert kept([change({"v": 1}), change({"v": 2}, offset=1, **other)]) == ([{"v": 1}, {"v": 2}], 0, 0)


def test_equal_rows_without_a_key_in_two_partitions_of_their_table_are_two() -> None:
    """Column selectors may leave out what tells the partitions apart."""
    for key, rows in ((b"[]", [{"v": 1}, {"v": 1}]), (b"[1]", [{"v": 1}])):
        two = [
            change({"v": 1}, key=key, physical_table=5),
            change({"v": 1}, key=key, physical_table=6, offset=1),
        ]
        again = [{**one, "offset": offset} for offset, one in enumerate(two, 2)]

        assert kept([*two, *again])[0] == rows


@pytest.mark.parametrize("other", [{"topic": "y"}, {"partition": 1}, {"incarnation": "b"}])
def test_where_a_message_came_from_is_part_of_the_identity_in_order_of_arrival_alone(other: Row) -> None:
    two = [change({"v": 1}), change({"v": 1}, **other)]

    assert kept(two) == ([{"v": 1}], 0, 1)
    assert kept(two, order="arrival") == ([{"v": 1}, {"v": 1}], 0, 0)


def test_a_batch_above_all_that_silver_has_looks_for_no_duplicates_and_any_other_where_it_overlaps() -> None:
    def summary(*commits: int) -> Any:
        columns: dict[str, list[Any]] = {name: [] for name in CHANGE_COLUMNS}
        for commit in commits:
            for name, values in columns.items():
                values.append({"position": (0, commit, 1, 0, 0, 0), "key_names": ()}.get(name, "t"))
        return summarise(columns, [], len(commits), 0)

    top = (0, 7, 1, 0, 0, 0)
    assert [overlaps(summary(*commits), top) for commits in ((8, 9), (7, 9), (9, 3), ())] == [
        False,
        True,
        True,
        False,
    ]
    assert not overlaps(summary(3), None)
    assert known_spans(summary(8, 9), top) == ()
    assert [(one.low, one.high) for one in known_spans(summary(9, 3), top)] == [(3, 7)]


def test_a_statement_is_one_for_all_its_tables_and_a_schema_record_is_of_one() -> None:
    def told(table: str, ddl: str | None) -> Row:
        place = {"position": (0, 7, 2, 0, 0, 0), "database": "d", "table": table}
        return {**place, "schema_kind": "ddl" if ddl else "schema", "ddl": ddl, "columns": b"[]"}

    drop = "DROP TABLE a, b"
    assert schema_identity(told("a", drop)) == schema_identity(told("b", drop))
    assert schema_identity(told("a", None)) != schema_identity(told("b", None))
