"""Native Debezium: recordings of a MariaDB connector against the tables they came from, and each kind of
record.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, RowChange, SchemaChange
from lakehouse.fold.row_edits import NO_DELETES, ROUNDED_KEY, SENT_AGAIN
from lakehouse.formats import decode_message
from lakehouse.formats.debezium.connector import decode
from lakehouse.formats.debezium.records import transaction_end
from lakehouse.formats.debezium.transactions import TRANSACTIONS, transaction_row
from lakehouse.formats.row import TransactionEnd, TransactionRow
from lakehouse.schema import parse_type
from tests.support.debezium_records import SOURCE, message, one, row
from tests.support.engine import Memory
from tests.support.events import changes_of, letter_of
from tests.support.garbage import mutations
from tests.support.paths import DATA
from tests.support.recorded_truth import fold, recorded, wrong_cells


def events(recording: str) -> list[Event]:
    return [event for told, _ in recorded(DATA / "debezium" / recording) for event in decode(told, {})]


# Recordings


@pytest.mark.parametrize("recording", ["inventory/noschema", "inventory/withschema", "orders_small/noschema"])
def test_rows_folded_by_position_are_the_source_tables(recording: str) -> None:
    truth = json.loads((DATA / "debezium" / recording.partition("/")[0] / "truth.json").read_text())
    changes = [event for event in events(recording + ".jsonl.gz") if isinstance(event, RowChange)]
    assert len(changes) > 100
    assert wrong_cells(truth, fold(changes)) == []


def test_with_schemas_every_value_is_canonical_and_without_them_none_claims_to_be() -> None:
    with_schema = {
        event.encoding for event in events("inventory/withschema.jsonl.gz") if isinstance(event, RowChange)
    }
    without = {
        event.encoding for event in events("inventory/noschema.jsonl.gz") if isinstance(event, RowChange)
    }
    assert (with_schema, without) == ({"canonical"}, {"debezium"})


def test_schema_records_of_a_snapshot_are_no_ddl() -> None:
    told = [event for event in events("inventory/noschema.jsonl.gz") if isinstance(event, SchemaChange)]
    snapshot, streamed = ([event for event in told if event.kind == kind] for kind in ("snapshot", "ddl"))
    assert any((event.ddl or "").startswith("DROP DATABASE") for event in snapshot)
    assert {event.position[3] for event in snapshot} == {0}
    orders = next(event for event in snapshot if event.table == "orders" and event.columns)
    types = {column["name"]: column["type"] for column in orders.columns or ()}
    labels = "enum('new','paid','shipped','cancelled') character set utf8mb4"
    assert (types["status"], types["total"]) == (labels, "decimal(12,2)")
    assert orders.primary_key == ("id",)
    assert [(event.table, event.position[3:], bool(event.columns)) for event in streamed] == [
        ("customers", (1, 0, 0), True),
        ("products", (1, 0, 0), True),
    ]


@pytest.mark.parametrize(("sql", "is_lost"), [("ROLLBACK", True), ("ROLLBACK TO `x`", False)])
def test_a_rollback_of_rows_that_were_sent_is_a_dead_letter(sql: str, is_lost: bool) -> None:
    """Without binlog.buffer.size a connector sends rows as it reads them. The ROLLBACK behind them is in its
    topic of schema changes.
    """
    body = {"source": SOURCE, "databaseName": "d", "ddl": sql, "tableChanges": []}

    (event,) = decode_message("debezium", message(body, {"databaseName": "d"}), {})

    assert isinstance(event, DeadLetter if is_lost else SchemaChange)
    assert not is_lost or letter_of(event).code == "rollback"


def test_a_snapshot_tells_its_first_and_last_row() -> None:
    flags = [
        event.flags
        for event in events("inventory/noschema.jsonl.gz")
        if isinstance(event, RowChange) and event.op == "snapshot"
    ]
    assert flags.count(("snapshot", "snapshot=first")) == 1
    assert flags.count(("snapshot", "snapshot=last")) == 1
    assert ("snapshot",) in flags
    assert all(told[0] == "snapshot" for told in flags)


def test_every_transaction_end_counts_the_rows_that_name_it() -> None:
    told = [told for told, _ in recorded(DATA / "debezium/inventory/noschema.jsonl.gz")]
    ends = [end for end in map(transaction_end, told) if end is not None]
    flags = [
        flag
        for event in events("inventory/noschema.jsonl.gz")
        if isinstance(event, RowChange)
        for flag in event.flags
    ]
    assert len(ends) == 117
    assert all(
        sum(flag.startswith(f"tx={end.id};") for flag in flags) == end.event_count == sum(end.counts.values())
        for end in ends
    )


def test_heartbeats_tombstones_and_transaction_markers_give_no_event() -> None:
    begin = {"status": "BEGIN", "id": "g:1", "event_count": None, "data_collections": None, "ts_ms": 1}
    assert [list(decode(message(value, {"id": 1}), {})) for value in (None, {"ts_ms": 1}, begin)] == [
        [],
        [],
        [],
    ]
    assert transaction_end(message(begin)) is None


# Events


def test_a_row_has_its_place_in_the_binlog() -> None:
    read, created = (one(message(row(op, None, {"id": 1}), {"id": 1})) for op in "rc")
    assert (read.position, created.position) == ((1, 12, 345, 0, 2, 1), (1, 12, 345, 1, 2, 1))
    assert (created.database, created.table, created.key, created.key_names, created.commit_ts) == (
        "d",
        "t",
        (1,),
        ("id",),
        9000,
    )


def test_both_records_of_a_key_change_have_their_own_half() -> None:
    old = one(message(row("d", {"id": 1}, None), {"id": 1}, "newkey"))
    new = one(message(row("c", None, {"id": 2}), {"id": 2}, "oldkey"))
    plain = one(message(row("d", {"id": 1}, None), {"id": 1}))
    assert [event.position[5] for event in (old, new, plain)] == [0, 1, 1]
    assert old.position < new.position


def test_an_update_that_the_connector_did_not_split_is_split_here() -> None:
    halves = changes_of(decode(message(row("u", {"b": 1, "a": 2}, {"b": 1, "a": 3}), {"b": 1, "a": 3}), {}))
    assert [(half.op, half.key, half.position[5]) for half in halves] == [
        ("delete", (2, 1), 0),
        ("insert", (3, 1), 1),
    ]


def test_a_table_without_key_keeps_both_images_in_one_event() -> None:
    event = one(message(row("u", {"a": 1}, {"a": 2})))
    assert (event.op, event.key, event.before, event.after) == ("update", (), {"a": 1}, {"a": 2})


def test_a_delete_without_old_image_has_its_key() -> None:
    event = one(message(row("d", None, None), {"id": 1}))
    assert (event.key, event.before, event.flags) == ((1,), {"id": 1}, ("partial_before",))


def test_a_truncate_is_the_statement_it_means() -> None:
    event = one(message(row("t", None, None, table="odd`name")))
    assert (event.kind, event.ddl, event.position) == (
        "ddl",
        "TRUNCATE TABLE `d`.`odd``name`",
        (1, 12, 345, 1, 0, 0),
    )


def test_a_rename_of_several_tables_names_no_table() -> None:
    change = {"type": "ALTER", "id": '"d"."b"', "table": {"columns": []}}
    value = {
        "source": SOURCE | {"table": "x,a,b"},
        "databaseName": "d",
        "ddl": "RENAME TABLE a TO b",
        "tableChanges": [change],
    }
    assert one(message(value)).table is None
    comma = value | {"source": SOURCE | {"table": "x,y"}, "tableChanges": [change | {"id": '"d"."x,y"'}]}
    assert one(message(comma)).table == "x,y"


@pytest.mark.parametrize(
    ("database", "table", "statement", "parts"),
    [
        ("d", "tmp,a,b", "RENAME TABLE a TO tmp", 3),
        ("d", "a,b", "DROP TABLE IF EXISTS `d`.`a`", 2),
        ("d", "a", "DROP TABLE `d`.`a`", 1),
        ("d", "b", "RENAME TABLE a TO b", 1),
        ("d", "b", "rename table `d`.`a` to `d` . `b`", 1),
        ("d", "b", "RENAME TABLE `d`.a TO b", 1),
        ("e", "b", "RENAME TABLE `d`.`a` TO `e`.`b`", 0),
        ("d", "b", "RENAME TABLE `d`.`a` TO `e`.`b`", 0),
        ("e", "b", "RENAME TABLE a TO e.b", 0),
        ("d", "b", "RENAME TABLE e.a TO b", 0),
        ("d", "x,y", "RENAME TABLE a TO `x,y`", 1),
        ("d", "a,b", "DROP TABLE a, b", 1),
        ("e", "b", "ALTER TABLE d.a RENAME TO e.b", 1),
    ],
)
def test_a_statement_tells_into_how_many_its_own_was_divided(
    database: str, table: str, statement: str, parts: int
) -> None:
    """As the parsers of Debezium 3.6 group them: `source.table` has the tables of one database in a row."""
    value = {
        "source": SOURCE | {"db": database, "table": table},
        "databaseName": database,
        "ddl": statement,
        "tableChanges": [],
    }
    assert one(message(value)).parts == parts


def test_a_binary_column_is_one_whatever_the_connector_calls_it() -> None:
    """MySQL's connector 3.6.0 writes BINARY twice, any of them a collation's BINARY behind text."""
    kinds = {"b": ("BINARY BINARY", 4), "c": ("CHAR BINARY", 4), "v": ("VARBINARY", 4)}
    columns = [
        {"name": name, "typeName": kind, "length": length, "optional": True}
        for name, (kind, length) in kinds.items()
    ]
    change = {"type": "CREATE", "id": '"d"."t"', "table": {"columns": columns}}
    value = {
        "source": SOURCE | {"snapshot": "true"},
        "ddl": "CREATE TABLE t (…)",
        "databaseName": "d",
        "tableChanges": [change],
    }

    told = [column["type"] for column in one(message(value)).columns]

    assert told == ["binary(4)", "char(4)", "varbinary(4)"]
    assert [parse_type(text).family for text in told] == ["binary", "text", "binary"]


@pytest.mark.parametrize("kind", ["", "int32"])
def test_unsigned_numbers_that_the_connector_takes_for_signed_are_unsigned(kind: str) -> None:
    """INTEGER UNSIGNED before 3.7, ZEROFILL without UNSIGNED."""
    ddl = "CREATE TABLE t (id INTEGER UNSIGNED PRIMARY KEY, z MEDIUMINT ZEROFILL, s INT)"
    created = {"source": SOURCE | {"pos": 4}, "ddl": ddl, "databaseName": "d", "tableChanges": []}
    told = row("c", None, {"id": -1, "z": -2, "s": -3})
    fields = [{"field": name, "type": kind} for name in ("id", "z", "s")]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    record = {"schema": schema, "payload": told} if kind else told

    silver = Memory("debezium", tidb=False).add([message(created), message(record, {"id": -1})])

    assert silver.tables(silver.reach) == {"d.t": [{"id": 4294967295, "z": 16777214, "s": -3}]}


def test_the_server_of_a_streamed_record_is_told() -> None:
    assert (
        one(message(row("c", None, {"id": 1}))).server
        == one(message(row("t", None, None))).server
        == (7, "mysql-bin")
    )
    assert one(message(row("r", None, {"id": 1}))).server is None


def test_a_full_snapshot_is_a_server_of_its_own() -> None:
    read, again, other = (one(message(row("r", None, {"id": 1}, server_id=0, pos=pos))) for pos in (5, 5, 6))
    assert read.server == again.server == (read.server[0], "mysql-bin")
    assert read.server[0] < 0
    assert other.server != read.server
    told = row("r", None, {"id": 1}, server_id=0, snapshot="incremental")
    assert one(message(told)).server is None


def test_the_end_of_a_transaction_has_counts() -> None:
    counts = [{"data_collection": "d.t", "event_count": 2}]
    end = {"status": "END", "id": "g:1", "event_count": 2, "data_collections": counts, "ts_ms": 1}
    assert transaction_end(message(end)) == TransactionEnd("g:1", 2, {"d.t": 2})
    assert transaction_end(message({"schema": {}, "payload": end})) == TransactionEnd("g:1", 2, {"d.t": 2})
    assert transaction_end(message(row("c", None, {"status": "END", "id": 1}))) is None


def test_an_unwrapped_row_may_have_columns_named_as_an_envelope() -> None:
    told = {
        "__op": "c",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_db": "d",
        "__source_table": "t",
    }
    assert one(message({"op": "u", "source": "s", "ddl": "x"} | told, {"op": "u"})).after == {
        "op": "u",
        "source": "s",
        "ddl": "x",
    }
    assert one(message(row("c", None, {"__op": "d", "id": 1}), {"id": 1})).after == {"__op": "d", "id": 1}


def test_unwrapped_rows_are_read_as_far_as_they_tell() -> None:
    told = {
        "__op": "u",
        "__deleted": "false",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_row": 2,
    }
    names = {"__source_db": "d", "__table": "t", "__source_ts_ms": 9000}
    kept = one(message({"id": 1, "__mine": 5} | told | names, {"id": 1}))
    gone = one(message({"id": 1} | told | names | {"__deleted": "true", "__op": "d"}, {"id": 1}))
    assert (kept.op, kept.before, kept.after, kept.position) == (
        "update",
        None,
        {"id": 1, "__mine": 5},
        (1, 12, 345, 1, 2, 1),
    )
    assert (gone.op, gone.key, gone.before, gone.after) == ("delete", (1,), {"id": 1}, None)


def test_unwrapped_rows_without_rewritten_deletes_leave_their_table_incomplete() -> None:
    """No delete tells its place but as a row with `__deleted`, or by headers."""
    place = {"__source_file": "b.000012", "__source_pos": 345, "__source_db": "d", "__source_table": "t"}
    headers = tuple((name, str(content).encode()) for name, content in place.items())

    def lacking(members: dict[str, Any], **changed: Any) -> object:
        told = msgspec.structs.replace(message({"id": 1, "__op": "c", **members}, {"id": 1}), **changed)
        memory = Memory("debezium", tidb=False).add([told])
        assert memory.tables(memory.reach) == {"d.t": [{"id": "1"}]}
        return memory.problems

    assert lacking(place) == {"d.t": {NO_DELETES}}
    assert lacking(place | {"__deleted": "false"}) == lacking({}, headers=headers) == {}


@pytest.mark.parametrize(("key", "problems"), [("", {"d.t": {SENT_AGAIN}}), (" PRIMARY KEY", {})])
def test_rows_of_an_incremental_snapshot_may_be_there_where_no_key_tells(key: str, problems: object) -> None:
    """The signal names a `surrogate-key`, which no record has."""
    ddl = f"CREATE TABLE t (id INT{key})"
    created = {"source": SOURCE | {"pos": 4}, "ddl": ddl, "databaseName": "d", "tableChanges": []}
    told = {"id": 1} if key else None
    sent = [
        message(created),
        message(row("c", None, {"id": 1}), told),
        message(row("r", None, {"id": 1}, snapshot="incremental"), told),
    ]

    memory = Memory("debezium", tidb=False).add(sent)

    assert memory.tables(memory.reach) == {"d.t": [{"id": 1}] * (1 if key else 2)}
    assert memory.problems == problems


@pytest.mark.parametrize(("short", "whole", "problems"), [(1.1, 1.1000001, {ROUNDED_KEY}), (0.0, 0.0, None)])
def test_a_float_in_the_key_may_be_another_in_the_stream_than_in_the_snapshot(
    short: float, whole: float, problems: object
) -> None:
    shown = [("k", "FLOAT"), ("a", "INT")]
    columns = [{"name": name, "typeName": word, "optional": name == "a"} for name, word in shown]
    table = {"columns": columns, "primaryKeyColumnNames": ["k"]}
    place = {"pos": 100, "row": 0, "snapshot": "last", "server_id": 0}
    change = {"type": "CREATE", "id": '"d"."t"', "table": table}
    ddl = "CREATE TABLE t (k FLOAT PRIMARY KEY, a INT)"
    sent = [
        message({"source": SOURCE | place, "databaseName": "d", "ddl": ddl, "tableChanges": [change]}),
        message(row("r", None, {"k": short, "a": 1}, **place), {"k": short}),
        message(row("u", {"k": whole, "a": 1}, {"k": whole, "a": 2}), {"k": whole}),
    ]

    memory = Memory("debezium", tidb=False).add(sent)

    assert len(memory.tables(memory.reach)["d.t"]) == (2 if problems else 1)
    assert memory.problems.get("d.t") == problems


def test_an_unwrapped_row_s_transaction_is_told_and_no_column() -> None:
    told = {
        "__op": "u",
        "__source_db": "d",
        "__source_table": "t",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_new": 1,
        "__deleted": "false",
    }

    event = one(
        message({"id": 1, "__transaction_id": "g:1", "__transaction_total_order": 2} | told, {"id": 1})
    )

    assert (event.after, event.flags, event.position) == ({"id": 1}, ("tx=g:1;2",), (1, 12, 345, 1, 2, 1))


@pytest.mark.parametrize(
    "written",
    [str, json.dumps, lambda content: json.dumps({"schema": {"type": "string"}, "payload": content})],
)
def test_what_add_headers_puts_beside_an_unwrapped_row_is_read(written: Callable[[Any], str]) -> None:
    told = {
        "__op": "d",
        "__source_db": "d",
        "__source_table": "t",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_row": 2,
    }
    headers = tuple((name, written(content).encode()) for name, content in told.items())

    event = one(msgspec.structs.replace(message({"id": 1}, {"id": 1}), headers=headers))

    assert (event.op, event.key, event.before, event.position) == (
        "delete",
        (1,),
        {"id": 1},
        (1, 12, 345, 1, 2, 1),
    )


@pytest.mark.parametrize("value", [None, b"null"])
def test_an_unwrapped_delete_may_be_a_key_and_headers_alone(value: bytes | None) -> None:
    """delete.tombstone.handling.mode=tombstone, its default, whose null a converter without schemas writes as
    text; the connector's own tombstone behind it says nothing but `d`.
    """
    told = {
        "__op": "d",
        "__source_db": "d",
        "__source_table": "t",
        "__source_file": "b.000012",
        "__source_pos": "345",
        "__source_row": "2",
    }
    headers = tuple((name, content.encode()) for name, content in told.items())

    event = one(msgspec.structs.replace(message(None, {"id": 1}), value=value, headers=headers))

    assert (event.op, event.key, event.before, event.flags) == (
        "delete",
        (1,),
        {"id": 1},
        ("partial_before",),
    )
    assert event.position == (1, 12, 345, 1, 2, 1)
    for value in (None, b"null"):
        told_nothing = msgspec.structs.replace(message(None, {"id": 1}), value=value, headers=headers[:1])
        assert list(decode(told_nothing, {})) == []


@pytest.mark.parametrize(
    "row", [{"payload": "x", "id": 1}, {"payload": None, "id": 1}, {"schema": None, "id": 1}]
)
def test_an_unwrapped_row_may_begin_with_a_column_named_as_the_frame(row: dict[str, Any]) -> None:
    told = {
        "__op": "c",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_db": "d",
        "__source_table": "t",
    }

    assert one(message(row | told, {"id": 1})).after == row


@pytest.mark.parametrize("key", [{"payload": "x"}, {"schema": "y", "payload": "x"}])
def test_a_key_may_have_columns_named_as_the_frame(key: dict[str, str]) -> None:
    event = one(message(row("c", None, key | {"v": 1}), key))

    assert event.key_names == tuple(sorted(key))


@pytest.mark.parametrize("write", [bytes, base64.b64encode, lambda text: text.hex().encode()])
def test_what_a_row_image_without_blobs_left_out_is_absent(write: Callable[[bytes], bytes]) -> None:
    """Under binlog_row_image=NOBLOB the connectors send unavailable.value.placeholder for it."""
    written = write(b"__debezium_unavailable_value").decode()

    event = one(
        message(row("u", {"id": 1, "a": 1, "b": written}, {"id": 1, "a": 2, "b": written}), {"id": 1})
    )

    assert (event.before, event.after, event.flags) == (
        {"id": 1, "a": 1},
        {"id": 1, "a": 2},
        ("partial_before", "partial_after"),
    )


@pytest.mark.parametrize("member", ["__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"])
def test_the_router_s_own_member_of_a_key_is_no_column(member: str) -> None:
    event = one(message(row("c", None, {"id": 1}), {"id": 1, member: "s.d.t"}))

    assert (event.key_names, event.key) == (("id",), (1,))


@pytest.mark.parametrize(
    "key",
    [
        b"Struct{id=1}",
        b"\x00\x00\x00\x00\x01\x02",
        b"1",
        b"null",
        b'{"schema": {"type": "int32"}, "payload": 1}',
    ],
)
def test_a_key_that_is_no_object_leaves_its_row_readable(key: bytes) -> None:
    """What StringConverter, an Avro converter or ExtractField$Key make of it."""
    event = one(msgspec.structs.replace(message(row("u", {"id": 1, "v": 1}, {"id": 1, "v": 2})), key=key))

    assert (event.op, event.key, event.key_names, event.before, event.after) == (
        "update",
        (),
        (),
        {"id": 1, "v": 1},
        {"id": 1, "v": 2},
    )


def test_rows_of_a_snapshot_that_have_no_key_differ_by_their_place_in_the_topic() -> None:
    """All have the same file, position and row, and may be equal."""
    read = message(row("r", None, {"a": 1}))
    places = {
        one(msgspec.structs.replace(read, offset=offset, partition=part)).position
        for offset, part in ((0, 0), (0, 1), (1, 0), (1, 0))
    }

    assert len(places) == 3
    assert {place[:4] for place in places} == {(1, 12, 345, 0)}


def test_an_unwrapped_row_that_neither_key_nor_number_tells_from_others_is_a_dead_letter() -> None:
    """`INSERT INTO t VALUES (1), (1)` is one row event, with one position."""
    told = {"a": 1, "__op": "c"} | {
        f"__source_{name}": value for name, value in SOURCE.items() if name != "row"
    }

    assert letter_of(one(message(told))).code == "position"
    assert one(message(told, {"a": 1})).position == (1, 12, 345, 1, 0, 1)
    assert one(message(told | {"__transaction_id": "u:1", "__transaction_total_order": 3})).position[4] == 3


@pytest.mark.parametrize(("marker", "flags"), [("true", ()), ("last", ("snapshot=last",))])
def test_a_row_that_an_old_connector_read_in_a_snapshot_is_no_insert(
    marker: str, flags: tuple[str, ...]
) -> None:
    """The MySQL connector before 1.4 writes them as `c`; several without a key may be equal."""
    told = message(row("c", None, {"a": 1}, snapshot=marker, server_id=0))
    flat = message(
        {"a": 1, "__op": "c", "__deleted": "false"}
        | {f"__source_{name}": value for name, value in SOURCE.items()}
        | {"__source_snapshot": marker}
    )

    for read in (told, flat):
        places = {one(msgspec.structs.replace(read, offset=offset)).position for offset in (0, 1)}
        assert (one(read).op, one(read).flags) == ("snapshot", ("snapshot", *flags))
        assert {place[:4] for place in places} == {(1, 12, 345, 0)}
        assert len(places) == 2
    assert one(message(row("c", None, {"a": 1}, snapshot="false"))).op == "insert"


@pytest.mark.parametrize(
    ("marker", "server", "op"),
    [("first", 0, "snapshot"), ("incremental", 7, "snapshot"), ("true", 7, "insert"), ("false", 7, "insert")],
)
def test_a_row_of_a_snapshot_that_a_transform_made_an_insert_is_none(
    marker: str, server: int, op: str
) -> None:
    """ReadToInsertEvent. A blocking snapshot's marker may stay on streamed rows, which have a server id."""
    source = {"version": "3.2.0.Final", "snapshot": marker, "server_id": server}
    told = message(row("c", None, {"a": 1}, **source))
    assert one(told).op == op
    if server == 0:
        found = transaction_row(told)
        assert found is not None
        assert found.flags == ("snapshot", "snapshot=first")


MYSQL_GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"


@pytest.mark.parametrize("id_", [MYSQL_GTID, "0-7-43"])
def test_rows_of_a_compressed_transaction_are_ordered_by_their_number_in_it(id_: str) -> None:
    """Its row events have one place, and `row` begins anew in each: so do those of a MariaDB with
    binlog_legacy_event_pos=OFF.
    """
    silver = Memory("debezium", {"binlog_transaction_compression": "true"}, tidb=False)

    silver.add(
        message(
            row(op, before, after, row=0)
            | {"transaction": {"id": id_, "total_order": number, "data_collection_order": number}},
            {"id": 1},
        )
        for number, (op, before, after) in enumerate(
            [
                ("c", None, {"id": 1, "v": "a"}),
                ("d", {"id": 1, "v": "a"}, None),
                ("c", None, {"id": 1, "v": "b"}),
            ],
            1,
        )
    )

    assert [change.position[4] for change in silver.changes.values()] == [1, 2, 3]
    assert silver.tables(silver.reach) == {"d.t": [{"id": "1", "v": "b"}]}


@pytest.mark.parametrize("id_", ["0-4001-17", "file=mysql-bin.000012,pos=40", MYSQL_GTID])
def test_a_row_that_is_sent_again_with_another_number_in_its_transaction_is_the_same_row(id_: str) -> None:
    """Connectors before 3.6.1 that restart within a transaction count its rows from 1 again (DBZ-5127)."""
    silver = Memory("debezium", tidb=False)
    first = [(345, 0, 1, "a"), (345, 1, 2, "a"), (400, 0, 3, "b")]
    again = [(345, 1, 1, "a"), (400, 0, 2, "b")]

    silver.add(
        message(
            row("c", None, {"v": value}, pos=pos, row=number)
            | {"transaction": {"id": id_, "total_order": order, "data_collection_order": order}}
        )
        for pos, number, order, value in [*first, *again]
    )

    assert silver.tables(silver.reach) == {"d.t": [{"v": "a"}, {"v": "a"}, {"v": "b"}]}


def test_rows_of_one_event_stay_in_order_where_a_restart_falls_between_them() -> None:
    """The second row was not sent before the connector died, and is number 1 after it."""
    silver = Memory("debezium", tidb=False)
    sent = [
        (0, 11, {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        (1, 1, {"id": 1, "v": "b"}, {"id": 1, "v": "c"}),
    ]

    silver.add(
        message(
            row("u", before, after, row=place) | {"transaction": {"id": MYSQL_GTID, "total_order": order}},
            {"id": 1},
        )
        for place, order, before, after in sent
    )

    assert silver.tables(silver.reach) == {"d.t": [{"id": "1", "v": "c"}]}
    assert not silver.breaks


def test_a_compressed_transaction_without_gtid_is_told_by_the_place_of_its_begin() -> None:
    numbers = [
        one(
            message(
                row("c", None, {"id": 1}, row=0)
                | {"transaction": {"id": "file=mysql-bin.000012,pos=345", "total_order": order}},
                {"id": 1},
            )
        ).position[4]
        for order in (1, 2)
    ]

    assert numbers == [1, 2]


@pytest.mark.parametrize("embedded", [True, False])
def test_what_add_fields_adds_by_short_names_is_no_column(embedded: bool) -> None:
    """`add.fields=op,db,table,file,pos,row,id,total_order,data_collection_order`."""
    source = {"__op": "c", "__db": "d", "__table": "t", "__file": "b.000012", "__pos": 345, "__row": 0}
    told = source | {"__id": "g:1", "__total_order": 2, "__data_collection_order": 1, "__deleted": "false"}
    value = {"id": 1, "v": "a"} | told
    fields = [
        {"field": name, "type": "int32" if type(member) is int else "string"}
        for name, member in value.items()
    ]
    framed = {"schema": {"type": "struct", "fields": fields}, "payload": value} if embedded else value

    event = one(message(framed, {"id": 1}))

    assert (event.after, event.flags) == ({"id": 1, "v": "a"}, ("tx=g:1;2",))
    assert event.types == ({"id": "int", "v": "longtext"} if embedded else None)
    broken = message(value | {"__op": "?"}, {"id": 1})
    assert TRANSACTIONS.row(broken) == TransactionRow("g:1", 2, (1, 12, 345, 1, 2, 1))
    alone = one(message({name: value[name] for name in value if "order" not in name}, {"id": 1}))
    assert (alone.after, alone.flags) == ({"id": 1, "v": "a", "__id": "g:1"}, ())


def test_the_schema_of_an_unwrapped_row_tells_the_types_of_its_columns_alone() -> None:
    told = {
        "__op": "c",
        "__deleted": "false",
        "__source_file": "b.000012",
        "__source_pos": 345,
        "__source_db": "d",
        "__source_table": "t",
    }
    fields = [
        {"field": name, "type": "string" if name.startswith("_") else "int32"} for name in ("id", *told)
    ]

    event = one(
        message({"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1} | told}, {"id": 1})
    )

    assert (event.after, event.types, event.encoding) == ({"id": 1}, {"id": "int"}, "canonical")


def test_a_notification_gives_no_event() -> None:
    told = {
        "id": "6d8",
        "aggregate_type": "Initial Snapshot",
        "type": "STARTED",
        "additional_data": {},
        "timestamp": 1,
    }

    assert list(decode(message(told), {})) == []


def test_a_signal_gives_no_event() -> None:
    """signal.kafka.topic, which lies beside the tables' topics; a table may have such columns."""
    told = {"type": "execute-snapshot", "data": {"data-collections": ["d.t"], "type": "incremental"}}

    assert list(decode(message(told, "p"), {})) == []
    with pytest.raises(DecodeError):
        list(decode(message(told | {"type": "x"}, {"id": 1}), {}))


def test_a_table_that_a_signal_asked_for_is_shown_without_a_statement() -> None:
    """The signal schema-changes."""
    column = {"name": "id", "typeName": "INT", "optional": False}
    table = {"columns": [column], "primaryKeyColumnNames": ["id"]}
    changes = [{"type": "ALTER", "id": '"d"."t"', "table": table}]
    told = {"source": SOURCE, "databaseName": "d", "ddl": None, "tableChanges": changes}

    event = one(message(told, {"databaseName": "d"}))

    assert (event.kind, event.table, event.ddl, event.primary_key) == ("schema", "t", None, ("id",))
    assert event.columns == [{"name": "id", "type": "int", "not_null": True}]


NO_RECORD = (
    "value: expected a row, schema change, transaction, heartbeat, notification or signal record, got none "
    "of them: a row that a transform has unwrapped needs source.file and source.pos in its add.fields"
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, NO_RECORD),
        ({"id": 1}, NO_RECORD),  # which a transaction marker has as text
        ({"schema": {"type": "struct"}, "payload": {"id": 1, "op": 2}}, NO_RECORD),
        (row("c", None, {"id": 1}, table=None), "source: expected the names of database and table, got none"),
        (
            {"source": SOURCE | {"row": -1}, "op": "c", "after": {"id": 1}},
            "value: Expected `int` >= 0 - at `$.source.row`",
        ),
        (
            {"id": 1, "__op": "c"},
            (
                "unwrapped row: expected __source_file and __source_pos (add.fields, prefix __), got none: "
                "it has no place in the order"
            ),
        ),
    ],
)
def test_what_is_no_message_of_the_format_says_what_was_expected(value: Any, text: str) -> None:
    with pytest.raises(DecodeError) as error:
        list(decode(message(value), {}))
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (b"Struct{after=Struct{id=1},source=Struct{},op=r}", "JSON, got a text of StringConv"),
        (b'{"id":"x","source":"/debezium","specversion":"1.0","data":{"op":"r"}}', "got a CloudEvent "),
    ],
)
def test_what_another_converter_wrote_is_refused_by_its_name(value: bytes, got: str) -> None:
    with pytest.raises(DecodeError, match=r"let value\.converter be JsonConverter") as error:
        list(decode(msgspec.structs.replace(message(None), value=value), {}))
    assert got in str(error.value)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (row("x", None, {"id": 1}), "op", "op: expected c, u, d, r or t, got another"),
        (row("c", None, None), "image", "a row of op insert: expected its image, got null"),
        (
            row("c", None, {"id": 1}, file="binlog"),
            "position",
            "binlog file: expected a name that ends in a number, got another",
        ),
        (
            row("d", {"id": 1}, None, pos=0),
            "position",
            "source.pos: expected the event's offset in the binlog, got none",
        ),
        (
            row("c", None, {"id": 1}, pos=-46),
            "position",
            "source.pos: expected the event's offset in the binlog, got a negative number: set "
            "binlog_legacy_event_pos=ON at the MariaDB",
        ),
        (
            row("c", None, {"g": {"wkb": 1}}),
            "value",
            "column g: expected a geometry, a vector, or a date or time in parts, got another structure",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_a_dead_letter_of_its_table(value: Any, code: str, text: str) -> None:
    assert one(message(value)) == DeadLetter(code, text, 0, "d", "t")


def test_garbage_gives_events_or_a_decode_error() -> None:
    whole = [told for told, _ in recorded(DATA / "debezium/inventory/withschema.jsonl.gz") if told.value]
    flat = [told for told, _ in recorded(DATA / "debezium/orders_small/noschema.jsonl.gz") if told.value]
    assert mutations(decode, [whole[1], whole[8], whole[-300], flat[1], flat[40]], 500) > 200


def statement(ddl: str, *columns: tuple[str, str | None]) -> list[Any]:
    """The events of a schema change that leaves d.t with columns of these types and character sets."""
    told = [{"name": f"c{n}", "typeName": type, "charsetName": set} for n, (type, set) in enumerate(columns)]
    change = {"type": "ALTER", "id": '"d"."t"', "table": {"columns": told}}
    return list(decode(message({"source": SOURCE, "ddl": ddl, "tableChanges": [change]}), {}))


@pytest.mark.parametrize("type", ["TEXT", "longtext", "VARCHAR", "CHAR", "CHARACTER VARYING"])
def test_bytes_that_come_as_characters_are_a_dead_letter_of_their_table(type: str) -> None:
    ddl, letter = statement("ALTER TABLE t …", ("INT", None), (type, "binary"))

    assert isinstance(ddl, SchemaChange) and isinstance(letter, DeadLetter)
    assert (letter.code, letter.database, letter.table, letter.index) == ("type", "d", "t", 1)


def test_bytes_that_come_as_bytes_and_text_in_a_charset_are_none() -> None:
    columns = [("BLOB", "binary"), ("BINARY", None), ("VARBINARY", "binary"), ("TEXT BINARY", "utf8mb4")]

    [event] = statement("ALTER TABLE t …", *columns, ("VARCHAR", None))

    assert isinstance(event, SchemaChange)


@pytest.mark.parametrize(
    ("sql", "table", "changes", "letters"),
    [
        ("CREATE OR REPLACE TABLE `d`.`t` (k INT, id INT PRIMARY KEY)", "", [], [("d", "t")]),
        ("create or replace table t (k INT)", None, [], [("d", "t")]),
        ("/* My app: x */\n-- of it\nCREATE OR REPLACE TABLE t (k INT)", "", [], [("d", "t")]),
        ("CREATE OR REPLACE TABLE t (k INT)", "t", [{"type": "CREATE", "id": '"d"."t"'}], []),
        ("CREATE OR REPLACE TABLE t (k INT)", "", None, []),
        ("CREATE OR REPLACE VIEW t AS SELECT 1", "", [], []),
    ],
)
def test_a_create_or_replace_that_the_connector_does_not_follow_is_a_dead_letter_of_its_table(
    sql: str, table: str | None, changes: Any, letters: list[tuple[str, str]]
) -> None:
    """Debezium 2.5 and 3.6 read the new rows by the old columns; the first table of a name they know."""
    source = SOURCE | {"row": 0, "table": table}
    told = {"source": source, "databaseName": "d", "ddl": sql, "tableChanges": changes}
    events = list(decode(message(told), {}))
    assert [(one.database, one.table) for one in events if isinstance(one, DeadLetter)] == letters
