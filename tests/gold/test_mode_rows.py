"""What a row of gold is in each mode, case by case: deletes, truncates, changes of one commit, DDL between
versions, snapshots.
"""

import json
from typing import Any

import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.events import Message
from lakehouse.fold.row_edits import OLD_ROW_STAYS, Change
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.gold.own_columns import mode_word
from tests.support.engine import TSO, Memory
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(20))"
KEYLESS = "CREATE TABLE `t` (`a` VARCHAR(20))"
Rows = list[tuple[Any, ...]]


def at(tick: int) -> int:
    """A TSO whose physical part is so many milliseconds."""
    return tick << 18


def feed(create: str = CREATE) -> TiCDC:
    return TiCDC().ddl(at(1), create)


def shown(told: TiCDC, options: GoldOptions, tick: int | None = None) -> list[dict[str, Any]]:
    memory = told.memory
    place = memory.reach if tick is None else (0, at(tick), 2, 0, 0, 0)
    return memory.tables(place, {("d", "t"): options}, TSO)["d.t"]


def history(told: TiCDC, **columns: ColumnOptions) -> Rows:
    """(from, to, the source's columns…) in ticks, in time order."""
    rows = shown(told, GoldOptions(mode="history", columns=columns))
    assert all(row["_current"] == (row["_to_ts"] is None) for row in rows)
    return sorted((tick(row["_from_ts"]), tick(row["_to_ts"]), *values(row)) for row in rows)


def log(told: TiCDC) -> Rows:
    rows = shown(told, GoldOptions(mode="append"))
    rows.sort(key=lambda row: (row["_position"], row["_op"]))
    return [(tick(row["_commit_ts"]), row["_op"], *values(row)) for row in rows]


def tick(time: int | None) -> int:
    return -1 if time is None else time >> 18


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name.startswith("_raw") or not name.startswith("_"))


def update(told: TiCDC, tick: int, new: dict[str, Any], old: dict[str, Any]) -> TiCDC:
    return told.row(at(tick), "UPDATE", new, old)


def delete(told: TiCDC, tick: int, row: dict[str, Any]) -> TiCDC:
    return told.row(at(tick), "DELETE", row)


def test_a_version_ends_where_the_next_begins_and_a_delete_leaves_a_gap() -> None:
    told = feed().insert(at(2), id=1, a="x")
    update(told, 4, {"id": 1, "a": "y"}, {"a": "x"})
    delete(told, 6, {"id": 1, "a": "y"}).insert(at(9), id=1, a="z")

    assert history(told) == [(2, 4, 1, "x"), (4, 6, 1, "y"), (9, -1, 1, "z")]


def test_a_delete_and_an_insert_of_one_commit_are_one_update() -> None:
    told = delete(feed().insert(at(2), id=1, a="x").insert(at(4), id=1, a="y"), 4, {"id": 1, "a": "x"})

    assert history(told) == [(2, 4, 1, "x"), (4, -1, 1, "y")]
    assert log(told) == [(2, "insert", 1, "x"), (4, "update", 1, "y")]


def test_a_change_that_changes_nothing_is_in_the_log_and_makes_no_version() -> None:
    told = update(feed().insert(at(2), id=1, a="x"), 4, {"id": 1, "a": "x"}, {"a": "x"})

    assert history(told) == [(2, -1, 1, "x")]
    assert log(told) == [(2, "insert", 1, "x"), (4, "update", 1, "x")]


def test_a_delete_of_a_row_that_nothing_else_tells_of_is_logged_and_makes_no_version_and_no_soft_row() -> (
    None
):
    told = delete(feed(), 4, {"id": 1, "a": "x"})

    assert history(told) == []
    assert log(told) == [(4, "delete", 1, "x")]
    assert shown(told, GoldOptions(deletes="soft")) == []


def test_a_truncate_ends_every_version_and_logs_every_row_that_went() -> None:
    told = (
        feed()
        .insert(at(2), id=1, a="x")
        .insert(at(2), id=2, a="y")
        .ddl(at(5), "TRUNCATE TABLE `t`")
        .insert(at(7), id=1, a="z")
    )

    assert history(told) == [(2, 5, 1, "x"), (2, 5, 2, "y"), (7, -1, 1, "z")]
    assert log(told)[2:] == [(5, "delete", 1, "x"), (5, "delete", 2, "y"), (7, "insert", 1, "z")]


def test_a_new_column_is_null_in_versions_before_it_and_its_default_makes_a_version() -> None:
    told = update(feed().insert(at(2), id=1, a="x"), 3, {"id": 1, "a": "y"}, {"a": "x"})
    told.ddl(at(5), "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 7").insert(at(6), id=2, a="n")

    assert history(told) == [
        (2, 3, 1, "x", None),
        (3, 5, 1, "y", None),
        (5, -1, 1, "y", 7),
        (6, -1, 2, "n", None),
    ]


def test_a_new_column_without_a_default_makes_no_version() -> None:
    told = feed().insert(at(2), id=1, a="x").ddl(at(5), "ALTER TABLE `t` ADD COLUMN `c` INT")

    assert history(told) == [(2, -1, 1, "x", None)]


def test_a_retype_that_loses_nothing_makes_no_version_and_one_that_does_leaves_the_old_text() -> None:
    told = feed().insert(at(2), id=1, a="12").insert(at(2), id=2, a="1.6").insert(at(2), id=3, a="long")
    wider = feed().insert(at(2), id=1, a="12").ddl(at(5), "ALTER TABLE `t` MODIFY COLUMN `a` VARCHAR(200)")
    told.ddl(at(5), "ALTER TABLE `t` MODIFY COLUMN `a` INT")

    assert history(wider) == [(2, -1, 1, "12")]
    assert history(told) == [
        (2, -1, 1, 12),
        (2, 5, 2, None, "1.6"),
        (2, 5, 3, None, "long"),
        (5, -1, 2, 2),
        (5, -1, 3, 0),
    ]


def test_a_text_that_is_cut_short_stays_whole_in_the_past() -> None:
    told = feed().insert(at(2), id=1, a="abcdef").ddl(at(5), "ALTER TABLE `t` MODIFY COLUMN `a` VARCHAR(3)")

    assert history(told) == [(2, 5, 1, "abcdef"), (5, -1, 1, "abc")]


def test_dropped_columns_are_gone_from_every_version_and_no_version_is_lost() -> None:
    told = update(feed().insert(at(2), id=1, a="x"), 3, {"id": 1, "a": "y"}, {"a": "x"}).ddl(
        at(5), "ALTER TABLE `t` DROP COLUMN `a`"
    )

    assert history(told) == [(2, 3, 1), (3, -1, 1)]


def test_a_key_that_is_renamed_or_extended_keeps_the_row() -> None:
    told = feed().insert(at(2), id=1, a="x").ddl(at(3), "ALTER TABLE `t` RENAME COLUMN `id` TO `k`")
    told.ddl(
        at(4),
        "ALTER TABLE `t` MODIFY COLUMN `a` VARCHAR(20) NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY(`k`, `a`)",
    )
    told.row(at(6), "DELETE", {"k": 1, "a": "x"}, key=("a", "k"), types={"k": "int", "a": "varchar"})

    assert history(told) == [(2, 6, 1, "x")]


def test_equal_rows_of_a_keyless_table_have_a_version_each_and_the_oldest_goes_first() -> None:
    told = feed(KEYLESS)
    for when, kind in ((2, "INSERT"), (3, "INSERT"), (5, "DELETE"), (7, "DELETE"), (9, "INSERT")):
        told.row(at(when), kind, {"a": "x"}, key=())

    assert history(told) == [(2, 5, "x"), (3, 7, "x"), (9, -1, "x")]


def test_a_keyless_table_logs_what_a_ddl_does_as_a_delete_and_an_insert() -> None:
    told = (
        feed(KEYLESS)
        .row(at(2), "INSERT", {"a": "x"}, key=())
        .ddl(at(4), "ALTER TABLE `t` ADD COLUMN `c` INT NOT NULL DEFAULT 7")
    )

    assert log(told) == [(2, "insert", "x", None), (4, "delete", "x", None), (4, "insert", "x", 7)]


def test_a_soft_deleted_row_keeps_its_values_and_comes_back_whole() -> None:
    told = delete(feed().insert(at(2), id=1, a="x").insert(at(2), id=2, a="y"), 86_400_004, {"id": 1})
    soft = GoldOptions(deletes="soft")

    assert shown(told, soft) == [
        {"id": 1, "a": "x", "_deleted": True, "_deleted_at": "1970-01-02 00:00:00.004Z"},
        {"id": 2, "a": "y", "_deleted": False, "_deleted_at": None},
    ]
    told.insert(at(86_400_009), id=1, a=None)
    assert shown(told, soft)[0] == {"id": 1, "a": None, "_deleted": False, "_deleted_at": None}


def test_a_truncate_marks_every_row_as_deleted() -> None:
    told = feed().insert(at(2), id=1, a="x").ddl(at(5), "TRUNCATE TABLE `t`").insert(at(7), id=2, a="y")

    assert [(row["id"], row["_deleted"]) for row in shown(told, GoldOptions(deletes="soft"))] == [
        (1, True),
        (2, False),
    ]


def test_the_table_of_any_moment_can_be_told_from_its_history() -> None:
    told = update(feed().insert(at(2), id=1, a="x"), 4, {"id": 1, "a": "y"}, {"a": "x"})

    assert [row["a"] for row in shown(told, GoldOptions(mode="history"), 3)] == ["x"]
    assert shown(told, GoldOptions(mode="history"), 3)[0]["_current"] is True


def test_own_columns_make_way_for_the_sources() -> None:
    told = feed("CREATE TABLE `t` (`id` INT PRIMARY KEY, `_Current` INT)")
    told.row(at(2), "INSERT", {"id": 1, "_Current": 5}, types={"id": "int", "_Current": "int"})

    row = shown(told, GoldOptions(mode="history"))[0]

    assert (row["_Current"], row["__current"]) == (5, True)


# --- columns ---


def test_columns_are_left_out_renamed_masked_and_hashed() -> None:
    told = TiCDC().ddl(
        at(1),
        (
            "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(20), `b` VARCHAR(20), `c` INT, `d` "
            "VARCHAR(9), `e` INT)"
        ),
    )
    told.row(at(2), "INSERT", {"id": 1, "a": "secret", "b": "4111111111111111", "c": 5, "d": "x", "e": 6})
    columns = {
        "A": ColumnOptions(hash="sha256"),
        "b": ColumnOptions(mask="last4", rename="card"),
        "c": ColumnOptions(mask="redact"),
        "d": ColumnOptions(exclude=True),
        "e": ColumnOptions(mask="nullify"),
    }

    assert shown(told, GoldOptions(columns=columns)) == [
        {
            "id": 1,
            "a": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
            "card": "************1111",
            "c": "***",
            "e": None,
        }
    ]


def test_a_masked_value_has_no_companion_and_a_short_one_shows_nothing() -> None:
    told = TiCDC().ddl(at(1), "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` DATE, `b` VARCHAR(20))")
    told.row(
        at(2),
        "INSERT",
        {"id": 1, "a": "0000-00-00", "b": "abcd"},
        types={"id": "int", "a": "date", "b": "varchar"},
    )
    plain = shown(told, GoldOptions())
    masked = shown(
        told, GoldOptions(columns={"a": ColumnOptions(mask="redact"), "b": ColumnOptions(mask="last4")})
    )

    assert plain == [{"id": 1, "a": None, "b": "abcd", "_raw_a": "0000-00-00"}]
    assert masked == [{"id": 1, "a": "***", "b": "****"}]


def test_a_change_of_a_column_that_gold_does_not_show_makes_no_version() -> None:
    told = update(feed().insert(at(2), id=1, a="x"), 4, {"id": 1, "a": "y"}, {"a": "x"})

    assert history(told, a=ColumnOptions(exclude=True)) == [(2, -1, 1)]
    assert history(told, a=ColumnOptions(mask="redact")) == [(2, -1, 1, "***")]


def test_a_new_column_of_the_source_gives_way_to_a_renamed_one() -> None:
    told = feed().insert(at(2), id=1, a="x").ddl(at(3), "ALTER TABLE `t` ADD COLUMN `label` INT DEFAULT 3")

    assert shown(told, GoldOptions(columns={"a": ColumnOptions(rename="label")})) == [
        {"id": 1, "label": "x", "label_2": 3}
    ]


def test_a_type_is_chosen_per_column() -> None:
    told = TiCDC().ddl(at(1), "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` TIME, `b` DECIMAL(5,2))")
    told.row(
        at(2),
        "INSERT",
        {"id": 1, "a": "10:00:00", "b": "1.50"},
        types={"id": "int", "a": "time", "b": "decimal"},
    )

    # printed alike: the value encoding does not depend on what holds the value
    assert shown(
        told,
        GoldOptions(columns={"a": ColumnOptions(type="microseconds"), "b": ColumnOptions(type="string")}),
    ) == [{"id": 1, "a": "10:00:00", "b": "1.50"}]


# --- a binlog, whose clock is coarse and may run backwards ---


def binlog(*rows: tuple[str, int, int, str | None, str]) -> list[Message]:
    """Debezium's records of d.t: (op, binlog position, time, value, snapshot)."""
    columns = [
        {"name": "id", "typeName": "INT", "optional": False},
        {"name": "v", "typeName": "VARCHAR", "length": 9, "optional": True},
    ]
    messages: list[Message] = []

    def add(topic: str, body: dict[str, Any]) -> None:
        messages.append(
            Message(topic, 0, len(messages), json.dumps({"id": 1}).encode(), json.dumps(body).encode())
        )

    for op, position, time, value, snapshot in rows:
        source = {
            "db": "d",
            "table": "t",
            "file": "b.000001",
            "pos": position,
            "row": 0,
            "ts_ms": time,
            "snapshot": snapshot,
            "server_id": 1,
        }
        if op == "schema":
            change = {
                "type": "CREATE",
                "id": '"d"."t"',
                "table": {"columns": columns, "primaryKeyColumnNames": ["id"]},
            }
            add(
                "schema",
                {"source": source, "databaseName": "d", "ddl": "CREATE TABLE t", "tableChanges": [change]},
            )
        else:
            image = {"id": 1, "v": value}
            add(
                "t",
                {
                    "op": op,
                    "source": source,
                    "before": image if op == "d" else None,
                    "after": None if op == "d" else image,
                },
            )
    return messages


def binlog_history(*rows: tuple[str, int, int, str | None, str]) -> Rows:
    memory = Memory("debezium", tidb=False).add(binlog(*rows))
    assert memory.dead == []
    told = memory.tables(memory.reach, {("d", "t"): GoldOptions(mode="history")}, Clock())["d.t"]
    return sorted((row["_from_ts"], row["_to_ts"] or -1, row["v"]) for row in told)


FIRST = (("schema", 100, 5, None, "true"), ("r", 100, 10, "a", "last"))


def test_changes_of_one_second_leave_the_last_of_them() -> None:
    told = (("u", 110, 20, "b", "false"), ("u", 120, 20, "c", "false"), ("u", 130, 20, "a", "false"))

    assert binlog_history(*FIRST, *told[:2]) == [(10, 20, "a"), (20, -1, "c")]
    assert binlog_history(*FIRST, *told) == [(10, -1, "a")]


def test_a_clock_that_runs_backwards_never_moves_a_bound_back() -> None:
    told = (("u", 110, 30, "b", "false"), ("u", 120, 20, "c", "false"), ("u", 130, 40, "d", "false"))

    assert binlog_history(*FIRST, *told) == [(10, 30, "a"), (30, 40, "c"), (40, -1, "d")]


def test_a_snapshot_that_brings_a_row_again_does_not_interrupt_it() -> None:
    again = (("schema", 900, 50, None, "true"), ("r", 900, 51, "a", "last"))
    other = (("schema", 900, 50, None, "true"), ("r", 900, 51, "b", "last"))

    assert binlog_history(*FIRST, *again) == [(10, -1, "a")]
    assert binlog_history(*FIRST, *other) == [(10, 51, "a"), (51, -1, "b")]


@pytest.mark.parametrize(
    "options",
    [GoldOptions(), GoldOptions(deletes="soft"), GoldOptions(mode="history"), GoldOptions(mode="append")],
    ids=mode_word,
)
def test_what_the_changes_lack_is_part_of_the_result_in_every_mode(options: GoldOptions) -> None:
    lacking = TiCDC().ddl(1, "CREATE TABLE t (id INT, a INT)")
    lacking.row(2, "INSERT", {"id": 1, "a": 1}, None, types={"id": "int", "a": "int"}, key=())
    lacking.row(3, "UPDATE", {"id": 1, "a": 2}, None, types={"id": "int", "a": "int"}, key=())
    changes = [
        Change(c.position, c.op, c.before, c.after, c.encoding, c.flags)
        for c in lacking.memory.changes.values()
    ]
    mode = Mode(lacking.lineage(), lacking.memory.reach, Upstream(), TSO, options)

    assert mode.rows(changes).problems == {OLD_ROW_STAYS}
    assert mode.touched(changes).problems == {OLD_ROW_STAYS}


# --- DROP and CREATE: a log goes on


def created_again(create: str = CREATE) -> TiCDC:
    """A table of two rows that is dropped at 5, created again at 7, and gets one of the rows again at 8."""
    told = feed().insert(at(2), id=1, a="x").insert(at(3), id=2, a="y")
    return told.ddl(at(5), "DROP TABLE `t`").ddl(at(7), create)


def test_a_history_goes_on_where_a_table_is_dropped_and_created_again() -> None:
    told = created_again().insert(at(8), id=1, a="x")
    assert history(told) == [(2, 5, 1, "x"), (3, 5, 2, "y"), (8, -1, 1, "x")]
    options = {("d", "t"): GoldOptions(mode="history")}
    assert [row["_to_ts"] for row in shown(told, options[("d", "t")], 4)] == [None, None]
    assert told.memory.tables((0, at(6), 2, 0, 0, 0), options, TSO) == {}


def test_a_log_goes_on_with_the_deletes_of_the_dropped_rows() -> None:
    assert log(created_again().insert(at(8), id=1, a="z")) == [
        (2, "insert", 1, "x"),
        (3, "insert", 2, "y"),
        (5, "delete", 1, "x"),
        (5, "delete", 2, "y"),
        (8, "insert", 1, "z"),
    ]


def test_rows_of_a_dropped_table_stay_deleted_where_deletes_are_soft() -> None:
    rows = shown(created_again().insert(at(8), id=1, a="z"), GoldOptions(deletes="soft"))
    assert [(row["id"], row["a"], row["_deleted"]) for row in rows] == [(1, "z", False), (2, "y", True)]


@pytest.mark.parametrize("texts", ["xy", "yx"])
def test_of_deleted_rows_with_one_key_the_same_one_stays_whatever_their_order(texts: str) -> None:
    told = feed("CREATE TABLE `t` (`id` BIGINT, `a` VARCHAR(20))")
    for text in texts:
        told.row(at(2), "INSERT", {"id": 1, "a": text}, types={"id": "bigint", "a": "varchar"}, key=())
    told.ddl(at(5), "DROP TABLE `t`").ddl(at(7), CREATE)
    rows = shown(told, GoldOptions(deletes="soft"))
    assert [(row["id"], row["a"], row["_deleted"]) for row in rows] == [(1, "y", True)]


def test_a_table_created_again_with_other_columns_shows_the_past_by_their_names() -> None:
    other = "CREATE TABLE `t` (`b` INT, `id` BIGINT PRIMARY KEY, `a` INT, UNIQUE KEY (`b`))"
    types = {"b": "int", "id": "bigint", "a": "int"}
    told = created_again(other).row(at(8), "INSERT", {"b": 3, "id": 1, "a": 7}, types=types)
    rows = shown(told, GoldOptions(mode="history"))
    assert [(row["b"], row["id"], row["a"], row.get("_raw_a")) for row in rows] == [
        (None, 1, None, "x"),
        (3, 1, 7, None),
        (None, 2, None, "y"),
    ]
    lineage = told.memory.ruled(Rules(logs=frozenset({("d", "t")}))).history().lineages[0]
    schema = lineage.steps[-1].schema
    assert [(column.id, column.name) for column in schema.columns] == [(3, "b"), (1, "id"), (2, "a")]
    assert (schema.primary_key, schema.unique_keys, schema.next_id) == ((1,), ((3,),), 4)


def test_a_table_created_again_with_another_key_keeps_its_log() -> None:
    other = "CREATE TABLE `t` (`a` VARCHAR(20) PRIMARY KEY, `n` INT)"
    told = created_again(other).row(
        at(8), "INSERT", {"a": "x", "n": 1}, types={"a": "varchar", "n": "int"}, key=("a",)
    )
    told.row(at(9), "DELETE", {"a": "x", "n": 1}, types={"a": "varchar", "n": "int"}, key=("a",))
    assert log(told) == [
        (2, "insert", "x", None),
        (3, "insert", "y", None),
        (5, "delete", "x", None),
        (5, "delete", "y", None),
        (8, "insert", "x", 1),
        (9, "delete", "x", 1),
    ]


def test_create_or_replace_ends_the_versions_and_goes_on() -> None:
    told = feed().insert(at(2), id=1, a="x").ddl(at(5), CREATE.replace("TABLE", "OR REPLACE TABLE"))
    told.insert(at(6), id=1, a="x")
    assert history(told) == [(2, 5, 1, "x"), (6, -1, 1, "x")]


def test_a_log_that_is_put_aside_does_not_go_on() -> None:
    told = created_again().insert(at(8), id=1, a="x")
    rows = shown(told, GoldOptions(mode="append", on_drop="keep"))
    assert [(row["_op"], row["id"]) for row in rows] == [("insert", 1)]
