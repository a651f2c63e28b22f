"""Text that is none, in every format: the value is kept as its bytes, the row and its neighbours are read
(T97, T99).
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import DeadLetter, Event, Image, Message, RowChange, SchemaChange
from lakehouse.formats import decode_message
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.values.scalars import base64_text
from tests.support.engine import Memory
from tests.support.events import change_of, letter_of
from tests.support.feeds import TiCDC
from tests.support.wires import TS, WIRES, Wire, dumps

JSON = [WIRES[name] for name in ("ticdc-open", "ticdc-canal-json", "canal")]
every_json_format = pytest.mark.parametrize("wire", JSON, ids=[wire.format for wire in JSON])
LETTERS = "placeholder"


def replaced(wire: Wire, message: Message, old: bytes, new: bytes) -> Message:
    """The message with other bytes in place of some, its framing kept."""
    if wire.format != "ticdc-open":
        value = (message.value or b"").replace(old, new)
    else:
        keys, values = frames(message.key, message.value)
        value = framed(keys, [part.replace(old, new) for part in values])[1]
    return Message(message.topic, message.partition, message.offset, message.key, value)


def with_text(wire: Wire, raw: bytes, column: str = "code") -> list[Event]:
    """Two inserts, in the first of which the text stands in place of a varchar's."""
    rows: list[Image] = [{"id": 1, "code": "a", "doc": LETTERS}, {"id": 2, "code": "b", "doc": "{}"}]
    if column == "code":
        rows[0] = {"id": 1, "code": LETTERS, "doc": "{}"}
    if column == "bin":
        rows[0] = {"id": 1, "code": "a", "bin": base64_text(LETTERS.encode())}
    message = wire.rows("insert", [(None, row) for row in rows])
    return decode_message(wire.format, replaced(wire, message, LETTERS.encode(), raw), {})


def test_text_that_is_none_is_no_quoted_binary_either() -> None:
    (event,) = with_text(WIRES["ticdc-open"], rb"\\xff" + b"\xff", "bin")[:1]

    assert letter_of(event).message == "column bin: expected a varbinary, got something else"


@every_json_format
@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"a\xffb", b"a\xffb"),
        (b"a\\ud800b", b"a\xed\xa0\x80b"),
        (b"\\udc00\\u0000\xc3", b"\xed\xb0\x80\0\xc3"),
    ],
    ids=["no UTF-8", "half a pair", "both"],
)
def test_text_that_is_none_is_kept_as_its_bytes_and_leaves_its_row_open(
    wire: Wire, raw: bytes, kept: bytes
) -> None:
    first, second = with_text(wire, raw, "doc")

    assert isinstance(first, RowChange) and isinstance(second, RowChange)
    assert first.after == {"id": 1, "code": "a", "doc": {"base64": base64_text(kept)}}
    assert first.encoding == wire.format
    assert second.after == {"id": 2, "code": "b", "doc": "{}"}


@every_json_format
def test_a_key_that_is_no_text_is_a_dead_letter_of_its_row(wire: Wire) -> None:
    first, second = with_text(wire, b"\xff")

    assert isinstance(first, DeadLetter) and isinstance(second, RowChange)
    assert (first.code, first.message, first.index) == (
        "value",
        "key: expected text, got bytes that are none",
        0,
    )
    assert (first.database, first.table) == ("demo", "t")


@every_json_format
@given(
    raw=st.binary(min_size=1, max_size=12).filter(
        lambda data: not set(data) & {0x22, 0x5C} and min(data, default=32) >= 32
    )
)
def test_any_bytes_in_a_text_are_text_or_themselves(wire: Wire, raw: bytes) -> None:
    first, _ = with_text(wire, raw, "doc")

    assert isinstance(first, RowChange) and first.after is not None
    try:
        # Canal may have printed a document badly: what is none is unknown
        assert first.after["doc"] in (raw.decode(), {"text": raw.decode()})
    except UnicodeDecodeError:
        assert first.after["doc"] == {"base64": base64_text(raw)}


def test_bytes_that_are_no_json_stay_a_dead_letter() -> None:
    (letter,) = decode_message("canal", Message("t", 0, 0, None, b'{"type": "INSERT\xff'), {})

    assert isinstance(letter, DeadLetter)
    assert letter.code == "json"


def test_debezium_text_that_is_none_is_kept_too() -> None:
    place = b'{"file":"bin.000001","pos":4,"db":"d","table":"t"}'
    value = b'{"op":"c","before":null,"after":{"id":1,"a":"x\xff"},"source":' + place + b"}"

    (event,) = decode_message("debezium", Message("t", 0, 0, b'{"id":1}', value), {})

    assert isinstance(event, RowChange)
    assert (event.after, event.encoding) == ({"id": 1, "a": {"base64": base64_text(b"x\xff")}}, "debezium")


SCHEMA = {
    "Table": "t",
    "Schema": "d",
    "TableVersion": 400,
    "Query": "",
    "TableColumns": [
        {"ColumnName": "id", "ColumnType": "VARCHAR", "ColumnIsPk": "true"},
        {"ColumnName": "a", "ColumnType": "VARCHAR"},
    ],
}


def csv_events(data: bytes) -> list[Event]:
    message = Message(
        "s", 0, 0, None, data, (("schema", json.dumps(SCHEMA).encode()),), path="d/t/400/CDC000001.csv"
    )
    return decode_message("ticdc-storage", message, {"protocol": "csv", "terminator": "\n"})


def test_csv_text_that_is_none_is_kept_too_but_in_a_key() -> None:
    event, letter = csv_events(b'"I","t","d","k","x\xff"\n"I","t","d","\xff","x"\n')

    assert isinstance(event, RowChange)
    assert (event.after, event.encoding) == (
        {"id": "k", "a": {"base64": base64_text(b"x\xff")}},
        "ticdc-storage",
    )
    assert isinstance(letter, DeadLetter)
    assert (letter.code, letter.index) == ("value", 1)
    assert letter.message == "column id: expected a value of type varchar, got something else"


def test_a_line_of_a_storage_file_too() -> None:
    row = b'"mysqlType":{"id":"int","a":"text"},"data":[{"id":"1","a":"\xff"}]'
    line = b'{"database":"d","table":"t","pkNames":["id"],"type":"INSERT","es":1,%s}' % row
    message = Message(
        "s",
        0,
        0,
        None,
        line + b"\r\n",
        (("schema", json.dumps(SCHEMA).encode()),),
        path="d/t/400/CDC000001.json",
    )

    (event,) = decode_message("ticdc-storage", message, {})

    assert isinstance(event, RowChange)
    assert event.after == {"id": 1, "a": {"base64": "/w=="}}


def test_a_dts_key_that_its_charset_cannot_read_is_a_dead_letter() -> None:
    told = [
        pb.Data(dataType=pb.STRING, charset="utf8", bv=raw).SerializeToString() for raw in (b"\xff", b"ok")
    ]
    column = pb.Column(name="k", originalType="varchar(9)", isKey=True).SerializeToString()
    change = pb.DMLEvent(columns=[column], rows=[pb.RowChange(newColumns=[value]) for value in told])
    header = pb.Header(
        sourceType=pb.MYSQL,
        messageType=pb.DML,
        fileName="bin.000001",
        position=9,
        schemaName="d",
        tableName="t",
    )
    entries = pb.Entries(items=[pb.Entry(header=header, event=pb.Event(dmlEvent=change))]).SerializeToString()

    letter, event = decode_message("tencent-dts", Message("t", 0, 0, None, entries), {})

    assert isinstance(letter, DeadLetter) and isinstance(event, RowChange)
    assert letter.message == "key: expected text, got bytes that are none in its charset"
    assert event.key == ("ok",)


def test_a_text_of_open_protocol_is_told_in_base64_and_need_be_none() -> None:
    new: dict[str, dict[str, Any]] = {
        "id": {"t": 3, "h": True, "f": 11, "v": 1},
        "a": {"t": 252, "f": 64, "v": "/w=="},
    }
    key = {"ts": TS, "scm": "d", "tbl": "t", "t": 1}
    ddl = {**key, "ts": TS - 1, "t": 2}, {"q": "CREATE TABLE t (id INT PRIMARY KEY, a TEXT)", "t": 3}
    update = key, {"u": {**new, "a": {**new["a"], "v": "eA=="}}, "p": {"a": new["a"]}}
    in_key = key, {"u": {**new, "a": {**new["a"], "h": True}}}
    messages = [
        Message("t", 0, at, *framed([dumps(k)], [dumps(v)]))
        for at, (k, v) in enumerate((ddl, (key, {"u": new}), update, in_key))
    ]

    _, *events = [decode_message("ticdc-open", message, {})[0] for message in messages]
    insert, update_, letter = change_of(events[0]), change_of(events[1]), letter_of(events[2])

    assert (insert.after, insert.encoding) == ({"id": 1, "a": {"base64": "/w=="}}, "ticdc-open")
    assert (update_.before, update_.after) == ({"id": 1, "a": {"base64": "/w=="}}, {"id": 1, "a": "x"})
    assert (letter.code, letter.message) == ("value", "column a: expected a text, got something else")
    assert Memory("ticdc-open").add(messages[:2]).tables((0, TS, 2, 0, 0, 0)) == {
        "d.t": [{"id": 1, "a": None, "_raw_a": "/w=="}]
    }


def test_gold_has_null_and_the_bytes_beside_it() -> None:
    feed = (
        TiCDC()
        .ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))")
        .insert(2, id=1, a=LETTERS)
        .insert(3, id=2, a="\0")
    )
    last = feed.messages[-2]
    feed.messages[-2] = Message(
        "topic", 0, last.offset, None, (last.value or b"").replace(LETTERS.encode(), b"\xff")
    )

    assert feed.table() == [{"id": 1, "a": None, "_raw_a": "/w=="}, {"id": 2, "a": "\0"}]


def test_a_handle_that_is_no_text_names_no_row_and_stops_nothing() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (k VARCHAR(9) NOT NULL UNIQUE, a INT)")
    for at, text in ((2, LETTERS), (3, "ok")):
        feed.row(at, "INSERT", {"k": text, "a": at}, types={"k": "varchar", "a": "int"}, key=())
    first = feed.messages[1]
    feed.messages[1] = Message("topic", 0, 1, None, (first.value or b"").replace(LETTERS.encode(), b"\xff"))

    assert feed.table() == [{"k": "ok", "a": 3}]


CANAL_JSON = WIRES["ticdc-canal-json"]
by_ticdc = pytest.mark.parametrize("wire", JSON[:2], ids=[wire.format for wire in JSON[:2]])


@by_ticdc
def test_text_of_which_ticdc_has_replaced_bytes_is_none(wire: Wire) -> None:
    """As TiCDC's encoder writes the latin1 text E9 41 80 of a TiDB, which keeps any bytes there: in Open
    Protocol that of the classic architecture.
    """
    first, second = with_text(wire, rb"\ufffdA\ufffd", "doc")

    assert isinstance(first, RowChange) and isinstance(second, RowChange)
    assert first.after == {"id": 1, "code": "a", "doc": {"base64": base64_text("\ufffdA\ufffd".encode())}}
    assert first.encoding == wire.format
    assert second.after == {"id": 2, "code": "b", "doc": "{}"}


@by_ticdc
@pytest.mark.parametrize(
    ("sent", "text"), [("\ufffd".encode(), "\ufffd"), (rb"\\ufffd", r"\ufffd"), (rb"\\\\ufffd", r"\\ufffd")]
)
def test_the_character_u_fffd_and_its_escape_as_text_are_text_of_ticdc(
    wire: Wire, sent: bytes, text: str
) -> None:
    assert change_of(with_text(wire, sent, "doc")[0]).after == {"id": 1, "code": "a", "doc": text}


@by_ticdc
def test_a_key_of_which_bytes_were_replaced_is_a_dead_letter_of_its_row(wire: Wire) -> None:
    first, second = with_text(wire, rb"\ufffd")

    assert letter_of(first).message == "key: expected text, got bytes that are none"
    assert isinstance(second, RowChange)


def test_a_statement_with_the_escape_is_read_as_it_is() -> None:
    value = dumps({"type": "QUERY", "database": "d", "table": "t", "isDdl": True, "es": 1, "sql": "x"})

    value = value.replace(b'"x"', rb'"\ufffd"')
    (event,) = decode_message("ticdc-canal-json", Message("t", 0, 0, None, value), {})

    assert isinstance(event, SchemaChange) and event.ddl == "\ufffd"


def test_a_statement_of_open_protocol_with_the_escape_is_read_as_it_is() -> None:
    key, value = framed([dumps({"ts": TS, "scm": "d", "tbl": "t", "t": 2})], [rb'{"q":"\ufffd","t":3}'])

    (event,) = decode_message("ticdc-open", Message("t", 0, 0, key, value), {})

    assert isinstance(event, SchemaChange) and event.ddl == "\ufffd"


def test_text_that_is_none_beside_a_binary_key_is_none_in_either_reading() -> None:
    """A NOT NULL text has no flags, as columns whose flags are lost: beside such a key both readings are
    told, of which this has neither.
    """
    id, text = {"t": 254, "h": True, "f": 11, "v": "k"}, {"t": 254, "f": 0, "v": LETTERS}
    key = dumps({"ts": TS, "scm": "d", "tbl": "t", "t": 1})
    value = dumps({"u": {"id": id, "c": text}}).replace(LETTERS.encode(), b"\xff")

    (event,) = decode_message("ticdc-open", Message("t", 0, 0, *framed([key], [value])), {})

    assert change_of(event).after == {"id": "aw==", "c": {"base64": "/w=="}}
