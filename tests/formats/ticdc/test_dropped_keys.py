"""Rows of a table whose key was dropped in a statement that the feed does not have.

Without `force-replicate` TiCDC sends no DDL of a table that has neither a primary key nor a unique one of NOT
NULL columns after it. The new architecture sends the table's rows on, without a key (ShouldDiscardDDL and the
event scanner, 8.5.4 to 8.5.7): the source may have several rows of one key by then.
"""

from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.fold.row_edits import KEY_GONE
from tests.support.encode_open import message
from tests.support.engine import Memory
from tests.support.wires import TS, dumps

PRIMARY = "CREATE TABLE `t` (`id` INT NOT NULL,`a` INT,PRIMARY KEY(`id`) NONCLUSTERED)"
UNIQUE = "CREATE TABLE `t` (`id` INT NOT NULL,`a` INT,UNIQUE `u`(`id`))"
OPTIONAL = "CREATE TABLE `t` (`id` INT,`a` INT,UNIQUE `u`(`id`))"
VIRTUAL = "CREATE TABLE `t` (`id` INT NOT NULL,`a` INT,`v` INT AS (`id`) VIRTUAL NOT NULL,UNIQUE `u`(`v`))"
DROPPED = "ALTER TABLE `t` DROP PRIMARY KEY"


def lacking(format_: str, messages: list[Message]) -> frozenset[str]:
    memory = Memory(format_).add(messages)
    assert memory.dead == []
    memory.tables(memory.reach)
    return memory.problems.get("d.t", frozenset())


def of_open(events: list[tuple[dict[str, Any], Any]]) -> list[Message]:
    coded = [
        (dumps({"ts": TS + at, "scm": "d", "tbl": "t", **key}), dumps(value))
        for at, (key, value) in enumerate(events)
    ]
    return [message([pair], "t", 0, offset) for offset, pair in enumerate(coded)]


def open_row(handle: bool, a: int, flags: int = 1) -> tuple[dict[str, Any], Any]:
    key = {"t": 3, "h": True, "f": 11, "v": 1} if handle else {"t": 3, "f": flags, "v": 1}
    return {"t": 1}, {"u": {"id": key, "a": {"t": 3, "f": 65, "v": a}}}


@pytest.mark.parametrize(
    ("created", "gone"), [(PRIMARY, {KEY_GONE}), (UNIQUE, {KEY_GONE}), (OPTIONAL, set()), (VIRTUAL, set())]
)
def test_open_protocol_tells_a_handle_key_that_a_table_has_no_more(created: str, gone: set[str]) -> None:
    create = {"t": 2}, {"q": created, "t": 3}

    assert lacking("ticdc-open", of_open([create, open_row(False, 1), open_row(False, 2)])) == gone
    if gone:
        assert not lacking("ticdc-open", of_open([create, open_row(True, 1)]))


def test_open_protocol_tells_it_though_flags_are_those_of_before() -> None:
    """The new architecture forgets a table's flags where it sends a DDL event of it, and sends none here."""
    create = {"t": 2}, {"q": PRIMARY, "t": 3}
    rows = [open_row(True, 1), open_row(False, 2, flags=11), open_row(False, 3, flags=11)]

    assert lacking("ticdc-open", of_open([create, *rows])) == {KEY_GONE}


def test_a_unique_key_of_a_virtual_column_is_none_to_ticdc_and_another_one_is() -> None:
    """IsIndexUnique leaves those out, and no row has the column."""
    created = VIRTUAL.replace("`a` INT", "`a` INT NOT NULL").replace("UNIQUE", "UNIQUE `w`(`id`,`a`),UNIQUE")
    create = {"t": 2}, {"q": created, "t": 3}
    memory = Memory("ticdc-open").add(of_open([create, open_row(True, 1), open_row(True, 2)]))

    assert memory.tables(memory.reach)["d.t"] == [{"id": 1, "a": 1}, {"id": 1, "a": 2}]
    assert not memory.problems


def test_a_key_that_a_statement_of_the_feed_drops_is_none_that_is_missing() -> None:
    events = [({"t": 2}, {"q": PRIMARY, "t": 3}), open_row(True, 1), ({"t": 2}, {"q": DROPPED, "t": 33})]

    assert not lacking("ticdc-open", of_open([*events, open_row(False, 2)]))


def canal(members: dict[str, Any], at: int) -> Message:
    told = {"database": "d", "table": "t", "es": TS >> 18, "_tidb": {"commitTs": TS + at}, **members}
    return Message("t", 0, at, None, dumps(told))


@pytest.mark.parametrize(("created", "gone"), [(PRIMARY, {KEY_GONE}), (UNIQUE, set())])
def test_canal_json_tells_the_primary_key_alone(created: str, gone: set[str]) -> None:
    row = {"type": "INSERT", "pkNames": [], "mysqlType": {"id": "int", "a": "int"}}
    ddl = canal({"type": "CREATE", "isDdl": True, "sql": created}, 0)

    assert lacking("ticdc-canal-json", [ddl, canal({**row, "data": [{"id": "1", "a": "2"}]}, 1)]) == gone


@pytest.mark.parametrize(("key", "gone"), [(b'{"payload":{}}', {KEY_GONE}), (None, set())])
def test_debezium_tells_it_in_its_record_key_which_old_releases_do_not_send(
    key: bytes | None, gone: set[str]
) -> None:
    source = {"db": "d", "table": "t"}
    ddl = {"source": {**source, "commit_ts": TS}, "ddl": PRIMARY, "tableChanges": []}
    row = {"source": {**source, "commit_ts": TS + 1}, "op": "c", "before": None, "after": {"id": 1, "a": 2}}
    messages = [
        Message("t", 0, 0, None, dumps({"payload": ddl})),
        Message("t", 0, 1, key, dumps({"payload": row})),
    ]

    assert lacking("ticdc-debezium", messages) == gone
