"""What is particular to Alibaba Canal's two forms: positions, incomplete images, messages that are
no change.
"""

import json
from itertools import pairwise
from typing import Any, cast

import pytest

from lakehouse.discovery.inspect import inspect_messages
from lakehouse.events import DeadLetter, Message, RowChange, SchemaChange
from lakehouse.formats import decode_message
from lakehouse.formats.binlog import ROLLED_BACK
from lakehouse.formats.canal.flat_message import decode
from lakehouse.formats.canal.flat_message import rules_told as rules_of_flat
from lakehouse.formats.canal.protobuf import decode as decode_packet
from lakehouse.formats.canal.protobuf import rules_told as rules_of_packet
from lakehouse.formats.canal.values import document_of_latin1
from lakehouse.formats.proto import canal_pb2 as wire
from lakehouse.schema import parse_type
from lakehouse.sources.recording import read_recording
from lakehouse.values.decode_with_schema import resolve
from tests.support.engine import Memory
from tests.support.events import changes_of, letter_of
from tests.support.paths import DATA
from tests.support.recorded_truth import fold, wrong_cells
from tests.support.wires import dumps, packet


def flat(**members: Any) -> list[Any]:
    whole = {
        "database": "d",
        "table": "t",
        "isDdl": False,
        "type": "INSERT",
        "es": 1000,
        "pkNames": ["id"],
        "sql": "",
        "old": None,
        **members,
    }
    return list(decode(Message("t", 2, 9, None, dumps(whole)), {}))


@pytest.mark.parametrize("recording", ["canal/inventory", "canal/orders_small", "canal-protobuf/inventory"])
def test_a_recording_folds_to_the_tables_of_the_source(recording: str) -> None:
    format, name = recording.split("/")
    truth = json.loads((DATA / "debezium" / name / "truth.json").read_text())

    events = [
        event
        for message in read_recording(DATA / f"{recording}.jsonl.gz")
        for event in decode_message(format, message, {})
    ]

    assert not [event for event in events if isinstance(event, DeadLetter)]
    assert wrong_cells(truth, fold(event for event in events if isinstance(event, RowChange))) == []


def test_both_forms_of_one_binlog_give_the_same_changes() -> None:
    as_json = inspect_messages(read_recording(DATA / "canal/inventory.jsonl.gz"), "canal", {})
    as_protobuf = inspect_messages(
        read_recording(DATA / "canal-protobuf/inventory.jsonl.gz"), "canal-protobuf", {}
    )

    for one, other in zip(as_json, as_protobuf, strict=True):
        assert {**one, "position": None, "origin": None} == {**other, "position": None, "origin": None}


def test_positions_of_a_flat_message_are_its_offset_and_the_row_in_it() -> None:
    first, second, third = flat(
        type="UPDATE", data=[{"id": "2"}, {"id": "3"}], old=[{"id": "1"}, {"x": "0"}], mysqlType={"id": "INT"}
    )

    assert [event.position for event in (first, second, third)] == [
        (0, 9, 0, 0, 0, 0),
        (0, 9, 0, 1, 0, 0),
        (0, 9, 1, 1, 0, 0),
    ]


def test_binary_loses_no_trailing_zero_bytes() -> None:
    (event,) = flat(
        data=[{"id": "1", "b": "a", "v": "a"}], mysqlType={"id": "INT", "b": "BINARY(3)", "v": "VARBINARY(3)"}
    )

    assert event.after == {"id": 1, "b": "YQAA", "v": "YQ=="}


def test_the_json_of_mariadb_is_text_again() -> None:
    mangled = '{"a": "ж"}'.encode().decode("latin-1")

    (event,) = flat(
        data=[{"id": "1", "j": mangled}], mysqlType={"id": "INT", "j": "JSON"}, sqlType={"id": 4, "j": 2004}
    )

    assert event.after["j"] == '{"a": "ж"}'


@pytest.mark.parametrize("type", ["TEXT(1000)", "longtext COLLATE utf8mb4_bin"])
def test_a_text_that_canal_takes_for_a_blob_is_text_again(type: str) -> None:
    """LogEventConvert.isText knows the bare words TINYTEXT to LONGTEXT only."""
    (event,) = flat(
        data=[{"id": "1", "t": "ж".encode().decode("latin-1")}],
        mysqlType={"id": "INT", "t": type},
        sqlType={"id": 4, "t": 2004},
    )

    told = [
        wire.Column(index=0, name="t", value="ж".encode().decode("latin-1"), mysqlType=type, sqlType=2004)
    ]
    (packed,) = changes_of(decode_packet(rows("EVENT_INSERT", ([], told)), {}))

    assert packed.after is not None
    assert event.after["t"] == packed.after["t"] == "ж"


@pytest.mark.parametrize(("type", "code"), [("JSON", -4), ("TEXT(100)", -3), ("varchar(9) binary", -3)])
def test_a_null_in_the_last_row_hides_no_text_that_canal_takes_for_bytes(type: str, code: int) -> None:
    """The last row of a message sets its sqlType; before 1.1.7 a NULL has the code of the binlog's type."""
    spelled = '"ж"'.encode().decode("latin-1")
    rows_ = [{"id": "1", "t": spelled, "u": "ж"}, {"id": "2", "t": None, "u": None}]

    first, _ = flat(
        data=rows_,
        mysqlType={"id": "INT", "t": type, "u": "TEXT"},
        sqlType={"id": 4, "t": code, "u": -4},
    )

    assert first.after == {"id": 1, "t": '"ж"', "u": "ж"}


def test_canal_json_of_another_service_is_read_as_far_as_it_tells() -> None:
    """Tencent's DTS leaves sqlType empty, writes TIMESTAMP with its zone, and binaries in hex or as Canal
    does, by a setting that nothing tells.
    """
    types = {"id": "int", "t": "timestamp(3)", "b": "varbinary(9)", "c": "blob"}
    rows_ = [{"id": "1", "t": "2021-05-17 07:22:42.125 +00:00", "b": "6162", "c": "x\xff"}]

    none: dict[str, int] = {}
    for codes in (none, None):
        (event,) = flat(data=rows_, mysqlType=types, sqlType=codes)
        assert event.after == {
            "id": 1,
            "t": "2021-05-17 07:22:42.125Z",
            "b": {"hex or characters": "6162"},
            "c": "eP8=",
        }
    (canals,) = flat(data=rows_, mysqlType=types, sqlType={"id": 4, "t": 93, "b": 2004, "c": 2004})
    assert canals.after["b"] == "NjE2Mg=="


def test_a_key_that_may_be_hex_is_a_dead_letter() -> None:
    (letter,) = flat(data=[{"id": "6162"}], mysqlType={"id": "varbinary(9)"})

    assert letter_of(letter).code == "value"


@pytest.mark.parametrize(
    ("told", "charset", "value"),
    [
        pytest.param("caf\ufffd", "latin1", {"text": "caf\ufffd"}, id="latin1"),
        pytest.param("caf\ufffd", None, {"text": "caf\ufffd"}, id="of the database"),
        pytest.param("caf\ufffd", "utf8mb4", "caf\ufffd", id="utf8mb4 has it"),
        pytest.param("cafe", "latin1", "cafe", id="ASCII"),
        pytest.param("caf` {x}", "swe7", "café äxå", id="swe7"),
        pytest.param("\0a\0b", "ucs2", "ab", id="ucs2"),
        pytest.param("a\0b\0", "utf16le", "ab", id="utf16le"),
        pytest.param("\0\0\0a", "utf32", "a", id="utf32"),
        pytest.param("\0\ufffd", "utf16", {"text": "\0\ufffd"}, id="utf16"),
        pytest.param("\u04d0", "ucs2", {"text": "\u04d0"}, id="beyond ASCII"),
    ],
)
def test_text_that_canal_read_as_utf_8_is_what_its_charset_can_tell(
    told: str, charset: str | None, value: object
) -> None:
    """Each value is decoded by canal.instance.connectionCharset, whatever the column's charset."""
    declared = parse_type("varchar(9)" + (f" character set {charset}" if charset else ""))
    column_ = wire.Column(index=0, name="t", value=told, mysqlType="varchar(9)", sqlType=12)

    (event,) = flat(
        data=[{"id": "1", "t": told}],
        mysqlType={"id": "INT", "t": "varchar(9)"},
        sqlType={"id": 4, "t": 12},
    )
    (packed,) = changes_of(decode_packet(rows("EVENT_INSERT", ([], [column_])), {}))

    assert packed.after is not None
    assert resolve(event.after["t"], declared, event.encoding) == value
    assert resolve(packed.after["t"], declared, packed.encoding) == value


def test_a_key_whose_bytes_are_lost_is_a_dead_letter() -> None:
    """Two keys would be one."""
    key = wire.Column(index=0, name="id", isKey=True, value="caf\ufffd", mysqlType="varchar(9)", sqlType=12)

    (event,) = flat(data=[{"id": "caf\ufffd"}], mysqlType={"id": "varchar(9)"}, sqlType={"id": 12})
    (packed,) = decode_packet(rows("EVENT_INSERT", ([], [key])), {})

    assert (event.code, event.message) == ("value", "key: expected text, got bytes that are none")
    assert letter_of(packed).message == event.message


@pytest.mark.parametrize(
    ("told", "code", "value"),
    [
        pytest.param("", 12, "null", id="no bytes"),
        pytest.param('{"a": "x\ny\0"}', 12, '{"a": "x\\u000ay\\u0000"}', id="escapes that 1.1.4 leaves out"),
        pytest.param('{\n"a": 1}', 12, '{\n"a": 1}', id="another service's lines"),
        pytest.param(
            r'{"App\notes": 1}', 12, {"text": r'{"App\notes": 1}'}, id="a name's own backslash, or an escape"
        ),
        pytest.param(r'{"a": "b\n: \"c\": 1"}', 12, r'{"a": "b\n: \"c\": 1"}', id="a value's escapes"),
        pytest.param(r'{"App\notes": 1}', 2004, r'{"App\notes": 1}', id="MariaDB's own name"),
        pytest.param(
            '{"d": "2024-05-05 00:00:00.000001"}', 12, '{"d": "2024-05-05 00:00:00.000001"}', id="moment"
        ),
        pytest.param(
            '{"d": "2024-05-05 00:00:00.000000"}',
            12,
            {"text": '{"d": "2024-05-05 00:00:00.000000"}'},
            id="a date or a moment",
        ),
        pytest.param(
            '{"d": "2024-05-05 00:00:00.000000"}', 2004, '{"d": "2024-05-05 00:00:00.000000"}', id="MariaDB's"
        ),
    ],
)
def test_a_document_is_what_canal_can_tell_of_it(told: str, code: int, value: object) -> None:
    """A date in MySQL's binary JSON is printed as a DATETIME."""
    (event,) = flat(
        data=[{"id": "1", "j": told}], mysqlType={"id": "INT", "j": "JSON"}, sqlType={"id": 4, "j": code}
    )

    assert event.after["j"] == value


@pytest.mark.parametrize(
    ("type", "told", "value"),
    [("int(5) zerofill", "-1294967296", 3000000000), ("SERIAL", "-1", 2**64 - 1), ("INT", "-1", -1)],
)
def test_numbers_that_canal_takes_for_signed_are_not(type: str, told: str, value: int) -> None:
    (event,) = flat(data=[{"id": "1", "n": told}], mysqlType={"id": "INT", "n": type})

    assert event.after["n"] == value


def test_text_bytes_of_another_charset_are_read_by_the_table_s_schema() -> None:
    (event,) = flat(
        data=[{"id": "1", "t": "中".encode("gbk").decode("latin-1")}],
        mysqlType={"id": "INT", "t": "TEXT(1000)"},
        sqlType={"id": 4, "t": 2004},
    )

    assert event.after["t"] == {"base64": "1tA="}
    assert resolve(event.after["t"], parse_type("text character set gbk"), event.encoding) == "中"
    assert resolve(event.after["t"], parse_type("text"), event.encoding) == {"base64": "1tA="}


def test_the_difference_of_a_document_is_not_taken_for_the_document() -> None:
    """binlog_row_value_options=PARTIAL_JSON."""
    types = {"mysqlType": {"id": "INT", "j": "JSON"}, "sqlType": {"id": 4, "j": 12}}
    told = "JSON_REPLACE(j, '$.a', 2)"

    (event,) = flat(type="UPDATE", data=[{"id": "1", "j": told}], old=[{"j": '{"a": 1}'}], **types)

    assert (event.before, event.after) == ({"id": 1, "j": '{"a": 1}'}, {"id": 1, "j": {"difference": told}})


@pytest.mark.parametrize(
    ("type", "text"),
    [("INET4", "10.0.0.1"), ("inet6", "::ffff:10.0.0.1"), ("UUID", "123e4567-e89b-12d3-a456-426655440000")],
)
def test_types_that_mariadb_logs_as_bytes_are_text_only_where_they_are_printed(type: str, text: str) -> None:
    printed, logged = (
        flat(data=[{"id": "1", "a": told}], mysqlType={"id": "INT", "a": type})[0]
        for told in (text, "\n\ufffd\0\x01")
    )

    assert printed.after["a"] == text
    assert logged.after["a"] == {"base64": "Cu+/vQAB"}


def test_a_row_whose_key_is_bytes_without_a_print_is_a_dead_letter() -> None:
    (event,) = flat(data=[{"id": "\n\ufffd\0\x01"}], mysqlType={"id": "INET4"})

    assert (event.code, event.message) == ("value", "key: expected text, got bytes that are none")


@pytest.mark.parametrize("type", ["INET4", "inet6", "UUID"])
def test_a_packed_row_whose_key_is_bytes_without_a_print_is_a_dead_letter_too(type: str) -> None:
    def packed(value: str, x: str) -> list[wire.Column]:
        key = wire.Column(index=0, name="id", isKey=True, value=value, mysqlType=type)
        return [key, wire.Column(index=1, name="x", value=x, mysqlType="int")]

    bytes_, text = (
        "\n\ufffd\0\x01",
        {"INET4": "10.0.0.1", "inet6": "::1", "UUID": "123e4567-e89b-12d3-a456-426655440000"}[type],
    )
    letter = DeadLetter("value", "key: expected text, got bytes that are none", 0, "demo", "t")

    kept, dead, gone = (
        list(decode_packet(rows(op, pair), {}))
        for op, pair in [
            ("EVENT_INSERT", ([], packed(text, "1"))),
            ("EVENT_UPDATE", (packed(bytes_, "1"), packed(bytes_, "2"))),
            ("EVENT_DELETE", (packed(bytes_, "1"), [])),
        ]
    )

    assert [event.key for event in changes_of(kept)] == [(text,)]
    assert (dead, gone) == ([letter], [letter])


def test_decimals_and_enum_indexes_are_left_to_the_schema() -> None:
    (event,) = flat(
        data=[{"id": "1", "d": "11.0", "e": "2"}],
        mysqlType={"id": "INT", "d": "DECIMAL(10,2)", "e": "ENUM('a','b')"},
    )

    assert (event.after, event.encoding) == ({"id": 1, "d": "11.0", "e": 2}, "canal")


def test_the_mask_of_a_set_of_64_labels_is_a_signed_number() -> None:
    labels = ",".join(f"'l{number}'" for number in range(64))
    (event,) = flat(
        data=[{"id": "1", "s": str(1 - 2**63)}],
        mysqlType={"id": "INT", "s": f"SET({labels})"},
    )

    assert event.after == {"id": 1, "s": 2**63 + 1}


def test_labels_have_their_quotes_twice_and_their_backslashes_once() -> None:
    """As Canal's parser prints a type, of whatever statement (1.1.5 to 1.1.8, run)."""
    types = {"id": "INT", "e": r"ENUM('a','C:\new','it''s','\')"}

    (event,) = flat(data=[{"id": "1", "e": "2"}], mysqlType=types, sqlType={"id": 4, "e": 4})

    assert event.types is not None
    assert parse_type(event.types["e"]).members == ("a", r"C:\new", "it's", "\\")


@pytest.mark.parametrize("type", ["QUERY", "XACOMMIT", "GTID"])
def test_what_is_neither_a_change_nor_a_statement_gives_no_event(type: str) -> None:
    assert flat(type=type, data=None, database="", table="", sql="INSERT INTO t VALUES (1)") == []


def test_a_statement_format_change_is_a_dead_letter_for_its_rows_are_lost() -> None:
    (event,) = decode_message(
        "canal",
        Message("t", 0, 0, None, dumps({"type": "UPDATE", "sql": "UPDATE t SET a=1", "data": None})),
        {},
    )

    assert event == DeadLetter(
        "statement",
        "message: expected rows in data, got a statement alone: is the source's binlog_format ROW?",
        0,
    )


def test_a_rollback_of_rows_that_were_sent_is_a_dead_letter() -> None:
    """They are logged, and sent, when their XA transaction is prepared."""
    sql = "XA ROLLBACK X'31',X'',1"
    flat_message = Message("t", 0, 0, None, dumps({"type": "XAROLLBACK", "sql": sql, "data": None}))
    entry = packet(wire.RowChange(eventType="EVENT_XAROLLBACK", sql=sql))

    (of_flat,) = decode_message("canal", flat_message, {})
    (of_packet,) = decode_packet(entry, {})

    assert of_flat == of_packet == DeadLetter("rollback", ROLLED_BACK, 0)


@pytest.mark.parametrize("sql", ["ROLLBACK", " rollback", "XA ROLLBACK X'31',X'',1"])
def test_a_rollback_that_comes_as_a_statement_is_a_dead_letter_too(sql: str) -> None:
    """canal.instance.filter.druid.ddl=false: of a transaction that did what can't be undone."""
    flat_message = Message("t", 0, 0, None, dumps({"type": "QUERY", "isDdl": True, "sql": sql, "data": None}))
    entry = packet(wire.RowChange(eventType="EVENT_QUERY", isDdl=True, sql=sql))

    assert decode_message("canal", flat_message, {}) == [DeadLetter("rollback", ROLLED_BACK, 0)]
    assert list(decode_packet(entry, {})) == [DeadLetter("rollback", ROLLED_BACK, 0)]


@pytest.mark.parametrize("sql", ["ROLLBACK TO `x`", "ROLLBACK WORK TO SAVEPOINT x", "SAVEPOINT `x`"])
def test_a_savepoint_undoes_nothing_that_was_sent(sql: str) -> None:
    (event,) = flat(type="QUERY", isDdl=True, sql=sql, data=None)

    assert isinstance(event, SchemaChange)


def test_an_update_that_names_no_row_is_unresolved() -> None:
    (event,) = flat(type="UPDATE", pkNames=None, data=[{"a": "1"}], old=[{}], mysqlType={"a": "INT"})

    assert (event.code, event.message) == (
        "unresolved",
        "row: expected a key or an old image, got neither: is binlog_row_image FULL?",
    )


def test_a_row_without_all_columns_of_its_table_is_partial() -> None:
    (event,) = flat(data=[{"id": "1"}], mysqlType={"id": "INT", "blob": "BLOB"})

    assert (event.after, event.flags) == ({"id": 1}, ("partial_after",))


def test_an_unknown_type_of_message_is_a_dead_letter_without_its_text() -> None:
    (event,) = decode_message("canal", Message("t", 0, 0, None, dumps({"type": "SECRET"})), {})

    assert event == DeadLetter(
        "kind", "message: expected INSERT, UPDATE, DELETE or a DDL, got another type", 0
    )


# Protobuf


def column(index: int, name: str, value: str, *, key: bool = False) -> wire.Column:
    return wire.Column(index=index, name=name, isKey=key, value=value, mysqlType="INT")


def rows(event_type: str, *pairs: tuple[list[wire.Column], list[wire.Column]]) -> Message:
    return packet(
        wire.RowChange(
            eventType=event_type,
            rowDatas=[wire.RowData(beforeColumns=old, afterColumns=new) for old, new in pairs],
        )
    )


def test_a_position_of_protobuf_is_the_binlog_s_own() -> None:
    one, other = [column(0, "id", "1", key=True)], [column(0, "id", "2", key=True)]

    events = list(decode_packet(rows("EVENT_UPDATE", (one, other), (other, other)), {}))

    assert [event.position for event in events if isinstance(event, RowChange)] == [
        (3, 7, 4711, 1, 0, 0),
        (3, 7, 4711, 1, 0, 1),
        (3, 7, 4711, 1, 1, 1),
    ]


@pytest.mark.parametrize(("file", "offset"), [("bin.000007", 0), ("bin.000007", -4), ("bin.ibb", 4)])
def test_an_entry_without_a_place_in_the_binlog_is_a_dead_letter(file: str, offset: int) -> None:
    """A binlog begins with its magic number, so that no event is at 0."""
    change = wire.RowChange(
        eventType="EVENT_INSERT", rowDatas=[wire.RowData(afterColumns=[column(0, "id", "1")])]
    )
    entry = wire.Entry(
        header=wire.Header(logfileName=file, logfileOffset=offset, schemaName="demo", tableName="t"),
        entryType=wire.ENTRY_ROWDATA,
        storeValue=change.SerializeToString(),
    )
    body = wire.Messages(messages=[entry.SerializeToString()]).SerializeToString()
    value = wire.Packet(type=wire.PACKET_MESSAGES, body=body).SerializeToString()

    (event,) = decode_packet(Message("t", 0, 0, None, value), {})

    assert letter_of(event).code == "position"


def test_rows_of_one_event_that_was_cut_into_entries_go_on_counting() -> None:
    events = [
        event
        for message in read_recording(DATA / "canal-protobuf/inventory.3p.jsonl.gz")
        for event in decode_packet(message, {})
    ]

    by_partition: dict[tuple[Any, ...], int] = {}
    for message in read_recording(DATA / "canal-protobuf/inventory.3p.jsonl.gz"):
        for event in decode_packet(message, {}):
            if isinstance(event, RowChange):
                place = (message.partition, event.position)
                by_partition[place] = by_partition.get(place, 0) + 1
    assert len(events) == 375
    assert set(by_partition.values()) == {1}


Pair = tuple[list[wire.Column], list[wire.Column]]


def cut(event: str, partition: int, *pairs: Pair, offset: int = 500) -> Message:
    """What partitionHash sends to one partition of an event of five rows: an entry for each row."""
    header = wire.Header(
        logfileName="bin.000007",
        logfileOffset=offset,
        schemaName="d",
        tableName="t",
        props=[wire.Pair(key="rowsCount", value="5")],
    )
    changes = [
        wire.RowChange(eventType=event, rowDatas=[wire.RowData(beforeColumns=old, afterColumns=new)])
        for old, new in pairs
    ]
    entries = [
        wire.Entry(header=header, entryType=wire.ENTRY_ROWDATA, storeValue=change.SerializeToString())
        for change in changes
    ]
    body = wire.Messages(messages=[entry.SerializeToString() for entry in entries])
    told = wire.Packet(type=wire.PACKET_MESSAGES, body=body.SerializeToString())
    return Message("x", partition, offset, None, told.SerializeToString())


def test_a_key_that_one_row_of_an_event_leaves_and_one_in_another_partition_takes_is_there() -> None:
    """UPDATE t SET id = id + 1 of 1 to 5, from the last one on: rows go where their new key is."""

    def image(id: int, value: int) -> list[wire.Column]:
        return [column(0, "id", str(id), key=True), column(1, "v", str(value))]

    def moved(*ids: int) -> list[Pair]:
        return [(image(id, id), image(id + 1, id)) for id in ids]

    before = cut("EVENT_INSERT", 0, *(([], image(id, id)) for id in range(1, 6)), offset=400)
    sent = [cut("EVENT_UPDATE", 0, *moved(5, 3, 2)), cut("EVENT_UPDATE", 1, *moved(4, 1))]

    for order in (sent, sent[::-1], [*sent, *sent]):
        memory = Memory("canal-protobuf", tidb=False).add([before, *order])
        assert memory.tables(memory.reach) == {"d.t": [{"id": id + 1, "v": id} for id in range(1, 6)]}
        assert not memory.breaks


def test_a_key_that_one_row_of_an_event_takes_and_a_later_one_in_its_partition_leaves_is_gone() -> None:
    ids = [[column(0, "id", id, key=True)] for id in "123"]
    sent = [cut("EVENT_INSERT", 0, ([], ids[0]), offset=400), cut("EVENT_UPDATE", 0, *pairwise(ids))]

    memory = Memory("canal-protobuf", tidb=False).add(sent)

    assert memory.tables(memory.reach) == {"d.t": [{"id": 3}]}
    assert not memory.breaks


def test_a_whole_event_at_the_place_of_one_that_was_cut_comes_behind_it() -> None:
    """binlog_transaction_compression: all row events of a transaction have one place."""
    first = cut("EVENT_INSERT", 0, ([], [column(0, "id", "1", key=True), column(1, "v", "1")]))
    second = cut("EVENT_DELETE", 0, ([column(0, "id", "1", key=True), column(1, "v", "1")], []))
    whole = (second.value or b"").replace(b"rowsCount\x12\x015", b"rowsCount\x12\x011")
    assert whole != second.value
    entries = [wire.Packet.FromString(value or b"").body for value in (first.value, whole)]
    told = wire.Packet(type=wire.PACKET_MESSAGES, body=b"".join(entries)).SerializeToString()

    memory = Memory("canal-protobuf", tidb=False).add([Message("x", 0, 0, None, told)])

    assert memory.tables(memory.reach) == {"d.t": []}


def test_rows_without_a_key_of_one_event_in_several_partitions_have_places_of_their_own() -> None:
    rows: list[Pair] = [([column(0, "v", value)], []) for value in "123"]
    sent = [cut("EVENT_DELETE", 0, rows[0]), cut("EVENT_DELETE", 1, *rows[1:])]

    places = [change.position for message in sent for change in changes_of(decode_packet(message, {}))]

    assert len(set(places)) == len(places) == 3


def test_a_minimal_row_image_is_completed_from_the_old_one_and_flagged() -> None:
    (event,) = decode_packet(
        rows("EVENT_UPDATE", ([column(0, "id", "1", key=True)], [column(4, "qty", "5")])), {}
    )

    assert isinstance(event, RowChange)
    assert (event.key, event.before, event.after, event.flags) == (
        (1,),
        {"id": 1},
        {"id": 1, "qty": 5},
        ("partial_after",),
    )


def test_a_statement_s_database_is_the_one_its_unqualified_names_mean() -> None:
    change = wire.RowChange(
        eventType="EVENT_RENAME", isDdl=True, sql="RENAME TABLE a TO demo.t", ddlSchemaName="other"
    )

    (event,) = decode_packet(packet(change), {})

    assert isinstance(event, SchemaChange)
    assert (event.database, event.table, event.position) == ("other", None, (3, 7, 4711, 1, 0, 0))


def test_a_heartbeat_packet_gives_no_event() -> None:
    heartbeat = wire.Packet(type=wire.PACKET_HEARTBEAT).SerializeToString()

    assert list(decode_packet(Message("t", 0, 0, None, heartbeat), {})) == []


def kind(number: int) -> wire.PacketType:
    """The kind of a packet by its number, those included that our definition does not name."""
    return cast(wire.PacketType, number)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (b"{}", "protobuf", "message: expected a Canal packet, got other bytes"),
        (wire.Packet(type=kind(9)).SerializeToString(), "kind", "packet: expected type MESSAGES, got 9"),
        (
            wire.Packet(type=kind(7), compression=2).SerializeToString(),
            "compression",
            "packet: expected no compression, got 2",
        ),
        (
            wire.Packet(
                type=kind(7), body=wire.Messages(messages=[b"\xff"]).SerializeToString()
            ).SerializeToString(),
            "protobuf",
            "entry: expected a Canal entry, got other bytes",
        ),
    ],
)
def test_bytes_that_are_no_packet_are_a_dead_letter(value: bytes, code: str, text: str) -> None:
    assert decode_message("canal-protobuf", Message("t", 0, 0, None, value), {}) == [
        DeadLetter(code, text, 0)
    ]


def test_a_statement_format_entry_is_a_dead_letter_in_its_place() -> None:
    (event,) = decode_packet(packet(wire.RowChange(eventType="EVENT_UPDATE", sql="UPDATE t SET a=1")), {})

    assert event == DeadLetter(
        "statement", "entry: expected rows, got a statement alone: is the source's binlog_format ROW?", 0
    )


# The key that Alibaba gives a table without one


IMPLICIT = ["__#alibaba_rds_row_id#__", "_drds_implicit_id_"]


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_key_that_no_statement_names_is_no_column(name: str) -> None:
    row, types = {"a": "1", "b": "2", name: "7"}, {"a": "int", "b": "int", name: "bigint"}

    inserted, updated = (
        flat(type=type, data=[row], old=old, pkNames=[name], mysqlType=types)
        for type, old in (("INSERT", None), ("UPDATE", [{"b": "1"}]))
    )

    assert [(e.key_names, e.key, e.before, e.after, e.types, e.flags) for e in (*inserted, *updated)] == [
        ((), (), None, {"a": 1, "b": 2}, {"a": "int", "b": "int"}, ()),
        ((), (), {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": "int", "b": "int"}, ()),
    ]


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_key_that_no_statement_names_is_no_column_in_protobuf(name: str) -> None:
    def told(b: str) -> list[wire.Column]:
        return [
            column(0, "a", "1"),
            column(1, "b", b),
            wire.Column(index=2, name=name, isKey=True, value="7", mysqlType="bigint"),
        ]

    (updated,) = changes_of(decode_packet(rows("EVENT_UPDATE", (told("1"), told("2"))), {}))
    (deleted,) = changes_of(decode_packet(rows("EVENT_DELETE", (told("2"), [])), {}))

    assert [(e.key_names, e.key, e.before, e.after, e.types, e.flags) for e in (updated, deleted)] == [
        ((), (), {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": "INT", "b": "INT"}, ()),
        ((), (), {"a": 1, "b": 2}, None, {"a": "INT", "b": "INT"}, ()),
    ]


@pytest.mark.parametrize("name", IMPLICIT)
def test_rows_that_only_such_a_key_names_are_dead_letters(name: str) -> None:
    """binlog_row_image=MINIMAL."""
    (updated,) = flat(
        type="UPDATE",
        data=[{"b": "2", name: "7"}],
        old=[{}],
        pkNames=[name],
        mysqlType={"b": "int", name: "bigint"},
    )
    (deleted,) = flat(type="DELETE", data=[{name: "7"}], pkNames=[name], mysqlType={name: "bigint"})
    key = [wire.Column(index=2, name=name, isKey=True, value="7", mysqlType="bigint")]
    (packed,) = decode_packet(rows("EVENT_DELETE", (key, [])), {})

    codes = [letter_of(event).code for event in (updated, deleted, packed)]
    assert codes == ["unresolved", "unresolved", "shape"]


@pytest.mark.parametrize("text", ['{"a": "é"}', '{"a": "Ã©"}', '{"a": "e"}', '{"a": "格"}'])
def test_a_json_document_is_text_whether_or_not_its_bytes_are_spelled_as_characters(text: str) -> None:
    document = document_of_latin1(text)

    assert document == text.replace("Ã©", "é")


# Whose server it is


@pytest.mark.parametrize(
    ("type", "code", "server"),
    [
        ("json", 2004, "mariadb"),
        ("JSON", -4, "mariadb"),
        ("json", 12, None),
        ("json", 1111, None),
        ("inet6", 1, "mariadb"),
        ("blob", 2004, None),
    ],
)
def test_a_type_that_only_a_mariadb_has_tells_the_server(type: str, code: int, server: str | None) -> None:
    """Its JSON is a TEXT in the binlog, so that Canal takes it for bytes; MySQL's has a type of its own, of
    which a NULL has the code OTHER.
    """
    types, codes = {"id": "int", "c": type}, {"id": 4, "c": code}
    body = {"type": "INSERT", "mysqlType": types, "sqlType": codes, "gtid": ""}
    columns = [wire.Column(name="c", mysqlType=type, sqlType=code, isNull=True)]
    packed = packet(wire.RowChange(eventType="EVENT_DELETE", rowDatas=[wire.RowData(beforeColumns=columns)]))

    assert rules_of_flat(Message("t", 0, 0, None, dumps(body))) == server
    assert rules_of_packet(packed) == server
