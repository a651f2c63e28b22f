"""Debezium's snapshots: a complete one stands for all that was before it, any other for its own rows only."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.ddl_effects import VERSIONED, Forget
from lakehouse.events import TABLE_SNAPSHOT, Message, just_below
from lakehouse.fold.compaction import compacted
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import LATER_ROWS, SENT_AGAIN, SENT_TWICE
from lakehouse.gold.modes import Clock
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage
from lakehouse.schema_history.build import NOT_READ
from lakehouse.schema_history.schema_records import Record
from lakehouse.schema_history.table_lives import NO_ROWS
from tests.support.engine import Memory
from tests.support.feeds import TiCDC

COLUMNS = [
    {"name": "id", "typeName": "INT", "optional": False},
    {"name": "v", "typeName": "INT", "optional": True},
]
Json = dict[str, Any]


class Feed:
    """Writes a connector's records, one partition each topic, in the order that they are told."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.server, self.file = 1, "b.000001"

    def row(
        self,
        table: str,
        op: str,
        position: int,
        key: int,
        value: int | None,
        snapshot: str = "false",
        *,
        keyed: bool = True,
    ) -> "Feed":
        source = {
            "db": "d",
            "table": table,
            "file": self.file,
            "pos": position,
            "row": 0,
            "ts_ms": 1,
            "snapshot": snapshot,
            "server_id": self.server,
        }
        image = {"id": key, "v": value}
        before, after = (image, None) if op == "d" else (None, image)
        body = {"op": op, "source": source, "before": before, "after": after}
        return self._add(table, body, {"id": key} if keyed else None)

    def table(
        self,
        table: str,
        position: int,
        columns: list[Json] = COLUMNS,
        snapshot: str = "true",
        key: Sequence[str] = ("id",),
    ) -> "Feed":
        source = {
            "db": "d",
            "table": table,
            "file": self.file,
            "pos": position,
            "ts_ms": 1,
            "snapshot": snapshot,
        }
        change = {
            "type": "CREATE",
            "id": f'"d"."{table}"',
            "table": {"columns": columns, "primaryKeyColumnNames": key},
        }
        return self._add(
            "schema",
            {"source": source, "databaseName": "d", "ddl": f"CREATE TABLE {table}", "tableChanges": [change]},
            None,
        )

    def drop(self, what: str, position: int, table: str | None = None) -> "Feed":
        """A statement of a snapshot, which a connector writes before it tells what tables there are."""
        source = {
            "db": "d",
            "table": table,
            "file": self.file,
            "pos": position,
            "ts_ms": 1,
            "snapshot": "true",
        }
        ddl = f"DROP {what} IF EXISTS `d`" + (f".`{table}`" if table else "")
        return self._add("schema", {"source": source, "databaseName": "d", "ddl": ddl}, None)

    def _add(self, topic: str, value: Json, key: Json | None) -> "Feed":
        offset = sum(message.topic == topic for message in self.messages)
        self.messages.append(
            Message(
                topic,
                0,
                offset,
                json.dumps(key).encode() if key else None,
                json.dumps(value).encode(),
            )
        )
        return self

    def tables(self) -> dict[str, list[Json]]:
        silver = Memory("debezium", tidb=False).add(self.messages)
        assert silver.dead == []
        return silver.tables(silver.reach)

    def created(self, table: str, position: int, columns: str) -> "Feed":
        """The record of a table in a snapshot of a connector before 1.5, which sends its statement alone."""
        source = {"db": "d", "table": table, "file": self.file, "pos": position, "snapshot": "true"}
        ddl = f"CREATE TABLE `{table}` ({columns})"
        return self._add("schema", {"source": source, "databaseName": "d", "ddl": ddl}, None)


def lineages(feed: Feed) -> list[Lineage]:
    return Memory("debezium", tidb=False).add(feed.messages).history().lineages


def first_snapshot() -> Feed:
    feed = Feed().table("a", 100).table("b", 100)
    return (
        feed.row("a", "r", 100, 1, 10, "first")
        .row("a", "r", 100, 2, 20, "true")
        .row("b", "r", 100, 1, 1, "last")
    )


def test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it() -> None:
    feed = first_snapshot().row("a", "u", 150, 1, 11)
    feed.table("a", 900).table("b", 900).row("a", "r", 900, 1, 12, "first").row("b", "r", 900, 1, 1, "last")
    feed.row("a", "c", 900, 3, 30)

    assert feed.tables() == {"d.a": [{"id": 1, "v": 12}, {"id": 3, "v": 30}], "d.b": [{"id": 1, "v": 1}]}


def test_a_table_that_is_empty_in_the_snapshot_is_cleared_and_one_without_a_record_is_retired() -> None:
    feed = first_snapshot().table("a", 900).row("a", "r", 900, 5, 5, "last")
    emptied = first_snapshot().table("a", 900).table("b", 900).row("a", "r", 900, 5, 5, "last")

    assert feed.tables() == {"d.a": [{"id": 5, "v": 5}]}
    assert emptied.tables() == {"d.a": [{"id": 5, "v": 5}], "d.b": []}


def test_an_aborted_snapshot_clears_nothing() -> None:
    feed = first_snapshot().table("a", 900).table("b", 900).row("a", "r", 900, 1, 12, "first")

    assert feed.tables() == {"d.a": [{"id": 1, "v": 12}, {"id": 2, "v": 20}], "d.b": [{"id": 1, "v": 1}]}


def test_a_table_of_whose_rows_no_snapshot_is_whole_may_have_others_from_before_it() -> None:
    """`snapshot.mode=no_data` tells schemas alone."""
    feed = Feed().table("a", 100).table("b", 100).row("a", "c", 150, 1, 10)
    told = [lineage.notes for lineage in lineages(feed)]

    feed.table("a", 900).table("b", 900).row("a", "r", 900, 1, 12, "last")

    assert told == [[NO_ROWS], [NO_ROWS]]
    assert NO_ROWS.endswith("until `lakehouse snapshot` or `lakehouse import` reads them")
    assert [lineage.notes for lineage in lineages(feed)] == [[], []]
    assert [lineage.notes for lineage in lineages(first_snapshot())] == [[], []]


@pytest.mark.parametrize("rows", [[], ["first", "true"]])
def test_a_later_snapshot_without_its_last_row_leaves_open_what_came_before_it(rows: list[str]) -> None:
    """The connector begins anew with `snapshot.mode=no_data`, or without a row in any table, or dies: what
    was changed until then is in no message.
    """
    feed = first_snapshot().drop("DATABASE", 900).table("a", 900).table("b", 900).table("c", 900)
    for key, marker in enumerate(rows):
        feed.row("a", "r", 900, key, 1, marker)
    begun = {one.name_at((0, 1, 950, 0, 0, 0)): one.incomplete for one in lineages(feed)}
    feed.drop("DATABASE", 990).table("a", 990).table("b", 990).row("a", "r", 990, 5, 50, "last")
    memory = Memory("debezium", tidb=False).add(feed.messages)
    mended = memory.lineages().live(memory.reach)

    since = [((0, 1, 900, 0, 0, 0), NOT_READ)]
    assert begun == {("d", "a"): since, ("d", "b"): since, ("d", "c"): []}
    assert {one.incomplete_at(memory.reach) for one in mended.values()} == {None}


def test_a_first_snapshot_of_schemas_alone_leaves_nothing_open() -> None:
    feed = Feed().drop("DATABASE", 100).table("a", 100).row("a", "c", 150, 1, 10)
    assert [one.incomplete for one in lineages(feed)] == [[]]


def test_an_aborted_snapshot_is_void_once_another_has_begun_and_its_complete_one_stands() -> None:
    feed = (
        first_snapshot()
        .table("a", 900)
        .row("a", "r", 900, 1, 12, "first")
        .row("a", "r", 900, 9, 90, "true")
        .row("a", "u", 950, 2, 21)
    )
    begun = feed.table("a", 990).row("a", "r", 990, 5, 50, "first").tables()
    complete = feed.row("a", "r", 990, 6, 60, "last").tables()

    assert begun["d.a"] == [{"id": 1, "v": 10}, {"id": 2, "v": 21}, {"id": 5, "v": 50}]
    assert complete == {"d.a": [{"id": 5, "v": 50}, {"id": 6, "v": 60}]}


def test_rows_of_an_incremental_snapshot_rank_below_the_stream_and_clear_nothing() -> None:
    feed = (
        first_snapshot()
        .row("a", "u", 200, 1, 99)
        .row("a", "r", 200, 1, 10, "incremental")
        .row("a", "r", 200, 7, 70, "incremental")
    )

    assert feed.tables()["d.a"] == [{"id": 1, "v": 99}, {"id": 2, "v": 20}, {"id": 7, "v": 70}]


def test_a_snapshot_brings_the_columns_that_the_gap_changed() -> None:
    columns = [COLUMNS[0], {"name": "w", "typeName": "VARCHAR", "length": 9, "optional": True}, COLUMNS[1]]
    feed = first_snapshot().table("a", 900, columns).table("b", 900).row("a", "r", 900, 1, 12, "last")
    silver = Memory("debezium", tidb=False).add(feed.messages)

    before, after = silver.history().live(silver.reach)["d", "a"].steps

    assert [(column.id, column.name) for column in before.schema.columns] == [(1, "id"), (2, "v")]
    assert [(column.id, column.name) for column in after.schema.columns] == [(1, "id"), (3, "w"), (2, "v")]
    assert silver.tables(silver.reach)["d.a"] == [{"id": 1, "w": None, "v": 12}]


def test_a_complete_snapshot_mends_an_incomplete_table() -> None:
    feed = first_snapshot().table("b", 900).table("a", 900).row("a", "r", 900, 1, 12, "last")
    silver = Memory("debezium", tidb=False).add(feed.messages)
    lineage = silver.history().live(silver.reach)["d", "a"]

    lineage.incomplete.append(((0, 1, 500, 1, 0, 0), "rows were lost"))

    assert lineage.incomplete_at((0, 1, 899, 1, 0, 0)) == ((0, 1, 500, 1, 0, 0), "rows were lost")
    assert lineage.incomplete_at((0, 1, 900, 1, 0, 0)) is None


def test_a_snapshot_that_a_signal_asked_for_clears_nothing_and_leaves_other_tables_alone() -> None:
    """Of type `blocking`: it has its own tables' records only, and their rows as far as its conditions let
    them through.
    """
    feed = first_snapshot().row("a", "u", 150, 1, 11)
    feed.drop("TABLE", 150, "a").table("a", 150).row("a", "r", 150, 2, 20, "last").row("a", "d", 160, 2, 20)

    assert feed.tables() == {"d.a": [{"id": 1, "v": 11}], "d.b": [{"id": 1, "v": 1}]}


def shown(feed: Feed, table: str, position: int, key: Sequence[str] = ("id",)) -> Feed:
    """Records of a blocking snapshot as a connector writes those of a table that it has not shown before: as
    if they had been streamed.
    """
    at = {
        "db": "d",
        "table": table,
        "file": feed.file,
        "pos": position,
        "ts_ms": 1795646727131,
        "snapshot": None,
    }
    change = {"type": "CREATE", "id": table, "table": {"columns": COLUMNS, "primaryKeyColumnNames": key}}
    text = f"CREATE TABLE `{table}` (\n  `id` int(11) NOT NULL,\n  `v` int(11) DEFAULT NULL\n)"
    for ddl, changes in ((f"DROP TABLE IF EXISTS `d`.`{table}`", []), (text, [change])):
        body = {"source": at, "databaseName": "d", "ddl": ddl, "tableChanges": changes}
        feed._add("schema", body, None)
    return feed


def test_records_of_a_blocking_snapshot_that_look_streamed_drop_no_table() -> None:
    """Their place is that of the stream, where rows of the snapshot are too. What these show may come later:
    the insert behind them is no second one.
    """
    feed = shown(first_snapshot(), "a", 150).row("a", "r", 150, 1, 10).row("a", "r", 150, 2, 20, "last")
    memory = Memory("debezium", tidb=False).add(feed.row("a", "c", 160, 2, 20).messages)

    assert memory.tables(memory.reach) == {
        "d.a": [{"id": 1, "v": 10}, {"id": 2, "v": 20}],
        "d.b": [{"id": 1, "v": 1}],
    }
    assert memory.problems == {"d.a": {LATER_ROWS}}
    assert not memory.breaks


@pytest.mark.parametrize("ddl", ["CREATE TABLE `a` (\n  `id` int NOT NULL\n)", "CREATE TABLE a (id INT)"])
def test_a_table_that_is_created_again_is_empty(ddl: str) -> None:
    """A statement of the binlog has a time of whole seconds, or a user's own text."""
    feed, change = first_snapshot(), {"columns": COLUMNS, "primaryKeyColumnNames": ["id"]}
    at = {"db": "d", "table": "a", "file": feed.file, "pos": 150, "ts_ms": 1795646727000 + ("`" not in ddl)}
    told = [{"type": "CREATE", "id": "a", "table": change}]
    feed._add("schema", {"source": at, "databaseName": "d", "ddl": ddl, "tableChanges": told}, None)

    assert feed.tables()["d.a"] == []


def test_a_blocking_snapshot_without_records_of_its_own_repeats_rows_that_no_key_tells() -> None:
    """A connector that has shown the tables before shows them again as it did then, at their own places."""
    feed = Feed().drop("TABLE", 100, "n").drop("DATABASE", 100).table("n", 100, key=())
    feed.row("n", "r", 100, 1, 1, "last", keyed=False).row("n", "r", 150, 1, 1, "last", keyed=False)
    memory = Memory("debezium", tidb=False).add(feed.messages)

    assert memory.tables(memory.reach) == {"d.n": [{"id": 1, "v": 1}] * 2}
    assert memory.problems == {"d.n": {LATER_ROWS, SENT_AGAIN}}


@pytest.mark.parametrize(("places", "problems"), [((100, 100), {"d.n": {SENT_TWICE}}), ((100, 150), {})])
def test_a_snapshot_that_is_begun_again_at_its_place_repeats_rows_that_no_key_tells(
    places: tuple[int, int], problems: object
) -> None:
    feed = Feed()
    for place in places:
        feed.drop("TABLE", place, "n").drop("DATABASE", place).table("n", place, key=())
        feed.row("n", "r", place, 1, 1, "first", keyed=False)
        feed.row("n", "r", place, 1, 1, "last", keyed=False)
    memory = Memory("debezium", tidb=False).add(feed.messages)

    assert memory.tables(memory.reach) == {"d.n": [{"id": 1, "v": 1}] * (4 if problems else 2)}
    assert memory.problems == problems


def test_what_is_streamed_with_the_marker_of_a_snapshot_before_it_is_streamed() -> None:
    """A connector of 3.2 leaves the marker of a blocking snapshot on what it streams behind it."""
    feed = first_snapshot()
    told = (
        "ALTER TABLE `d`.`a` ADD w INT",
        "CREATE TABLE `d`.`x` (i int)",
        "RENAME TABLE `d`.`b` TO `d`.`c`",
    )
    at = {"db": "d", "table": "a", "file": feed.file, "snapshot": "true", "version": "3.2.0.Final"}
    for place, ddl in enumerate(told, 150):
        body = {"source": {**at, "pos": place}, "databaseName": "d", "ddl": ddl, "tableChanges": []}
        feed._add("schema", body, None)
    for row, (op, image) in enumerate((("c", {"id": 2, "v": 3, "w": 4}), ("d", {"id": 2, "v": 3, "w": 4}))):
        before, after = (image, None) if op == "d" else (None, image)
        feed._add(
            "a",
            {"op": op, "source": at | {"pos": 160, "row": row}, "before": before, "after": after},
            {"id": 2},
        )

    assert feed.tables() == {"d.a": [{"id": 1, "v": 10, "w": None}], "d.c": [{"id": 1, "v": 1}], "d.x": []}


@pytest.mark.parametrize("phase", [0, 1])
def test_rows_of_a_retention_floor_are_not_those_of_a_blocking_snapshot(phase: int) -> None:
    """Also where a moment was given as a file and an offset alone."""
    feed = first_snapshot().row("a", "c", 160, 2, 20).row("a", "c", 170, 3, 30)
    memory = Memory("debezium", tidb=False).add(feed.messages)
    lineage = memory.lineages().live(memory.reach)["d", "a"]
    changes, floor = memory._lineages()[1][lineage.id], just_below((0, 1, 170, phase, 0, 0))
    below = compacted(
        lineage, [one for one in changes if one.position <= floor], floor, upstream=memory.upstream
    )

    told = fold(lineage, [*below, *(one for one in changes if one.position > floor)], memory.reach)

    assert [row[1] for row in finish(told)] == [1, 2, 3]
    assert not told.problems


def test_a_full_snapshot_drops_databases_and_is_known_by_it() -> None:
    feed = (
        first_snapshot()
        .drop("TABLE", 900, "a")
        .drop("DATABASE", 900)
        .table("a", 900)
        .row("a", "r", 900, 5, 5, "last")
    )

    assert feed.tables() == {"d.a": [{"id": 5, "v": 5}]}


def test_a_full_snapshot_retires_the_tables_of_a_database_that_has_none_left() -> None:
    """Its records name the database all the same: DROP DATABASE IF EXISTS, CREATE DATABASE."""
    feed = first_snapshot()
    for sql in ("DROP DATABASE IF EXISTS `d`", "CREATE DATABASE `d`"):
        source = {"db": "d", "file": feed.file, "pos": 900, "snapshot": "true"}
        feed._add("schema", {"source": source, "databaseName": "d", "ddl": sql}, None)
    source = {"db": "other", "table": "t", "file": feed.file, "pos": 900, "snapshot": "last", "row": 0}
    feed._add("t", {"op": "r", "source": source, "after": {"id": 1}}, {"id": 1})

    assert list(feed.tables()) == ["other.t"]


def test_a_table_of_whose_database_a_full_snapshot_has_nothing_is_incomplete() -> None:
    """It may be gone, or not be captured any more: old connectors have no record of an empty database."""
    feed = first_snapshot()
    source = {"db": "other", "file": feed.file, "pos": 900, "snapshot": "true"}
    feed._add("schema", {"source": source, "databaseName": "other", "ddl": "CREATE DATABASE `other`"}, None)
    source = {"db": "other", "table": "t", "file": feed.file, "pos": 900, "snapshot": "last", "row": 0}
    feed._add("t", {"op": "r", "source": source, "after": {"id": 1}}, {"id": 1})

    memory = Memory("debezium", tidb=False).add(feed.messages)

    live = memory.history().live(memory.reach)
    assert {name: one.incomplete_at(memory.reach) is None for name, one in live.items()} == {
        ("d", "a"): False,
        ("d", "b"): False,
        ("other", "t"): True,
    }


def test_a_table_that_a_later_snapshot_finds_with_a_key_had_none_before() -> None:
    feed = Feed().table("n", 100, key=())
    feed.row("n", "r", 100, 1, 10, "true", keyed=False).row("n", "r", 100, 1, 11, "last", keyed=False)
    feed.table("n", 900, key=()).row("n", "r", 900, 1, 12, "last")

    memory = Memory("debezium", tidb=False).add(feed.messages)

    before = (0, 1, 500, 0, 0, 0)
    assert memory.tables(before) == {"d.n": [{"id": 1, "v": 10}, {"id": 1, "v": 11}]}


def test_what_a_snapshot_drops_first_is_there_until_it_is_complete() -> None:
    feed = first_snapshot().drop("TABLE", 900, "a").drop("TABLE", 900, "b").drop("DATABASE", 900)
    begun = feed.table("a", 900).row("a", "r", 900, 5, 5, "first").tables()

    assert begun == {
        "d.a": [{"id": 1, "v": 10}, {"id": 2, "v": 20}, {"id": 5, "v": 5}],
        "d.b": [{"id": 1, "v": 1}],
    }
    assert feed.row("a", "r", 900, 6, 6, "last").tables() == {"d.a": [{"id": 5, "v": 5}, {"id": 6, "v": 6}]}


def test_rows_without_a_key_that_a_signal_snapshots_again_leave_their_table_incomplete() -> None:
    feed = (
        Feed()
        .row("a", "c", 90, 1, 1)
        .drop("TABLE", 100, "a")
        .table("a", 100, key=[])
        .row("a", "r", 100, 1, 1, "last")
    )
    silver = Memory("debezium", tidb=False).add(
        [msgspec.structs.replace(told, key=None) for told in feed.messages]
    )

    (lineage,) = silver.history().live(silver.reach).values()

    assert (lineage.incomplete_at(silver.reach) or ("", ""))[1].startswith(
        "a snapshot was taken of it while changes were streamed"
    )
    assert silver.tables(silver.reach) == {"d.a": [{"id": 1, "v": 1}, {"id": 1, "v": 1}]}


def test_an_aborted_snapshot_of_several_threads_is_void_too() -> None:
    """They mark no row as the first of all, only of each table."""
    feed = first_snapshot().table("a", 900).row("a", "r", 900, 9, 90, "first_in_data_collection")
    feed.table("a", 990).table("b", 990).row("a", "r", 990, 5, 50, "first_in_data_collection").row(
        "b", "r", 990, 1, 1, "true"
    )

    assert feed.tables()["d.a"] == [{"id": 1, "v": 10}, {"id": 2, "v": 20}, {"id": 5, "v": 50}]


def test_a_snapshot_that_a_signal_asked_for_makes_no_earlier_one_void() -> None:
    """The last row of the first one is in a topic that is not subscribed."""
    feed = Feed().drop("TABLE", 100, "a").drop("TABLE", 100, "b").drop("DATABASE", 100)
    feed.table("a", 100).table("b", 100).row("a", "r", 100, 1, 10, "first").row("b", "r", 100, 1, 1, "true")
    feed.drop("TABLE", 150, "a").table("a", 150).row("a", "r", 150, 2, 20, "first")
    begun = feed.tables()
    complete = feed.row("a", "r", 150, 3, 30, "last").tables()

    assert begun == {"d.a": [{"id": 1, "v": 10}, {"id": 2, "v": 20}], "d.b": [{"id": 1, "v": 1}]}
    assert complete == {
        "d.a": [{"id": 1, "v": 10}, {"id": 2, "v": 20}, {"id": 3, "v": 30}],
        "d.b": [{"id": 1, "v": 1}],
    }


def test_the_statement_of_a_table_tells_its_columns_where_its_record_has_none() -> None:
    feed = first_snapshot().drop("TABLE", 900, "a").drop("DATABASE", 900)
    feed.created("a", 900, "`id` INT PRIMARY KEY, `v` DECIMAL(5,2)")
    feed.row("a", "r", 900, 1, 7, "last").row("a", "c", 950, 2, None)

    assert feed.tables() == {"d.a": [{"id": 1, "v": "7.00"}, {"id": 2, "v": None}]}


@pytest.mark.parametrize("more", ["", ", x INT"])
def test_the_statement_of_a_table_tells_the_labels_that_its_record_lacks(more: str) -> None:
    """Before 2.0; an ENUM's label comes with its comma escaped. The record may leave columns out."""
    columns = [*COLUMNS, {"name": "e", "typeName": "ENUM", "length": 1, "optional": True}]
    feed = Feed().drop("DATABASE", 100).table("a", 100, columns)
    ddl = f"CREATE TABLE `a` (`id` INT PRIMARY KEY, `v` INT, `e` ENUM('x','y,z'){more})"
    feed.messages[-1] = msgspec.structs.replace(
        feed.messages[-1], value=(feed.messages[-1].value or b"").replace(b"CREATE TABLE a", ddl.encode())
    )
    feed.row("a", "r", 100, 1, 7, "last")
    row = (feed.messages[-1].value or b"").replace(b'"v": 7', b'"v": 7, "e": "y\\\\,z"')
    feed.messages[-1] = msgspec.structs.replace(feed.messages[-1], value=row)

    assert feed.tables() == {"d.a": [{"id": 1, "v": 7, "e": "y,z"}]}


def test_the_statement_of_a_table_tells_that_it_keeps_its_history() -> None:
    """An UPDATE that stands for a DELETE can't be told from another one."""
    feed = Feed().drop("DATABASE", 100).table("a", 100)
    ddl = b"CREATE TABLE a (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING"
    feed.messages[-1] = msgspec.structs.replace(
        feed.messages[-1], value=(feed.messages[-1].value or b"").replace(b"CREATE TABLE a", ddl)
    )
    feed.row("a", "r", 100, 1, 7, "last")
    silver = Memory("debezium", tidb=False).add(feed.messages)
    (lineage,) = silver.history().live(silver.reach).values()

    found = lineage.incomplete_at(silver.reach)

    assert silver.tables(silver.reach) == {"d.a": [{"id": 1, "v": 7}]}
    assert found is not None
    assert found[1] == VERSIONED


# --- what a snapshot tells of a table's schema

CREATED = "CREATE TABLE a (id INT NOT NULL, v INT {null}, PRIMARY KEY ({key})) {rest}"
PARTS = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN ({bound}), PARTITION p1 VALUES LESS THAN (99))"
)


def told_again(then: str, now: str) -> Lineage:
    """A table as the feed's statement has made it, then as a complete snapshot shows it."""
    columns = [COLUMNS[0], {**COLUMNS[1], "optional": "v INT NULL" in now}]
    feed = Feed().created("a", 50, "id INT").row("a", "c", 60, 9, 9)
    feed.messages[0] = statement(feed.messages[0], then, "false")
    feed.drop("DATABASE", 100).table("a", 100, columns, key=["id"] if "KEY (id)" in now else ["id", "v"])
    feed.messages[-1] = statement(feed.messages[-1], now, "true")
    silver = Memory("debezium", tidb=False).add(feed.row("a", "r", 100, 1, 10, "last").messages)
    return silver.history().live(silver.reach)["d", "a"]


def statement(message: Message, ddl: str, snapshot: str) -> Message:
    value = json.loads(message.value or b"")
    value["ddl"], value["source"]["snapshot"] = ddl, snapshot
    return msgspec.structs.replace(message, value=json.dumps(value).encode())


def test_a_snapshot_tells_a_key_that_the_gap_has_changed() -> None:
    then = CREATED.format(null="NOT NULL", key="id", rest="")
    lineage = told_again(then, CREATED.format(null="NOT NULL", key="id, v", rest=""))

    assert [step.schema.primary_key for step in lineage.steps] == [(1,), (1, 2)]


def test_a_snapshot_tells_columns_that_may_be_null_since_the_gap() -> None:
    then = CREATED.format(null="NOT NULL", key="id", rest="")
    lineage = told_again(then, CREATED.format(null="NULL", key="id", rest=""))

    assert [step.schema.columns[1].not_null for step in lineage.steps] == [True, False]


def test_a_snapshot_tells_partitions_that_the_gap_has_changed_and_those_of_a_first_one() -> None:
    """Without them a DROP PARTITION would remove other rows, or leave the table incomplete."""
    then, now = (
        CREATED.format(null="NULL", key="id", rest=PARTS.format(bound=bound)) for bound in ("10", "20")
    )
    lineage = told_again(then, now)
    first = told_again("CREATE TABLE b (id INT)", now)

    rules = [step.schema.partition for step in (*lineage.steps, first.steps[-1])]
    assert [rule and rule.partitions[0] for rule in rules] == [
        ("p0", ("10",)),
        ("p0", ("20",)),
        ("p0", ("20",)),
    ]


def test_a_snapshot_that_tells_nothing_new_leaves_what_was_known() -> None:
    create = CREATED.format(null="DEFAULT 5", key="id", rest="COMMENT 'x'")
    lineage = told_again(create, create)

    assert lineage.steps[0].schema == lineage.steps[1].schema


def test_a_generated_column_of_a_snapshot_is_known_as_one() -> None:
    """A statement that changes what it is computed from makes the source compute it again."""
    create = "CREATE TABLE a (id INT PRIMARY KEY, v INT AS (id + 1) STORED)"
    feed = Feed().drop("DATABASE", 100).table("a", 100)
    feed.messages[-1] = statement(feed.messages[-1], create, "true")
    feed.row("a", "r", 100, 1, 2, "last")
    feed.created("a", 150, "x")
    feed.messages[-1] = statement(feed.messages[-1], "ALTER TABLE a MODIFY id TINYINT", "false")
    silver = Memory("debezium", tidb=False).add(feed.messages)

    effects = silver.history().live(silver.reach)["d", "a"].steps[-1].effects

    assert Forget(2) in effects


def test_a_table_snapshot_tells_what_a_gap_has_changed_and_gold_keeps_what_it_hides() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v INT)").ddl(2, "ALTER TABLE t ADD w INT")
    memory = feed.memory.ruled(Rules({("d", "t"): {"add_column": "ignore"}}))
    create = "CREATE TABLE t (id INT, v INT NOT NULL, w INT, x INT, PRIMARY KEY (id, v))"
    memory.records["snapshot"] = Record(TABLE_SNAPSHOT, "d", "t", (0, 5, 3, 0, 0, 0), create)
    schema = memory.history().lineages[0].steps[-1].schema

    assert (schema.primary_key, schema.columns[1].not_null) == ((1, 2), True)
    assert schema.keeps.hidden == (3,)


def test_a_log_has_its_rows_in_the_type_that_a_snapshot_shows() -> None:
    columns = [COLUMNS[0], {**COLUMNS[1], "typeName": "VARCHAR", "length": 10}]
    feed = (
        first_snapshot().row("a", "u", 150, 1, 11).table("a", 900, columns).row("a", "r", 900, 7, 8, "last")
    )
    silver = Memory("debezium", tidb=False).add(feed.messages)

    options, clock = {("d", "a"): GoldOptions(mode="append")}, Clock(by_commit=False, tso=False)
    log = silver.tables(silver.reach, options, clock)["d.a"]

    assert [row["v"] for row in log if row["id"] == 1 and row["_op"] != "delete"] == ["10", "11"]


def test_tables_that_exchange_their_names_keep_their_own_keys() -> None:
    """A snapshot's record tells no other key than the primary key, so messages are asked: of these rows."""
    feed = Feed().table("k", 100).table("n", 100, key=()).row("k", "r", 100, 1, 10, "first")
    feed.row("n", "r", 100, 1, 10, "true", keyed=False).row("n", "r", 100, 1, 11, "last", keyed=False)
    sql = "RENAME TABLE k TO x, n TO k, x TO n"
    source = {"db": "d", "table": "k", "file": feed.file, "pos": 200, "server_id": 1}
    feed._add("schema", {"source": source, "databaseName": "d", "ddl": sql}, None)

    memory = Memory("debezium", tidb=False).add(feed.messages)

    assert memory.tables(memory.reach) == {
        "d.k": [{"id": 1, "v": 10}, {"id": 1, "v": 11}],
        "d.n": [{"id": 1, "v": 10}],
    }
    assert not memory.breaks
