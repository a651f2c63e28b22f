"""What is particular to TiCDC's canal-json: the extension, keys that are not named, rows that were not sent
whole.
"""

from typing import Any

import pytest

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Message, RowChange
from lakehouse.formats import decode_message
from lakehouse.formats.ticdc.canal_json import decode
from tests.support.engine import Memory
from tests.support.wires import TS, dumps

ROW = {
    "type": "INSERT",
    "database": "d",
    "table": "t",
    "es": TS >> 18,
    "pkNames": ["id"],
    "mysqlType": {"id": "int", "a": "int"},
}


def event(options: dict[str, str] | None = None, **members: Any) -> Any:
    (found,) = decode(
        Message("t", 0, 5, None, dumps({**ROW, "data": [{"id": "1", "a": "2"}], **members})), options or {}
    )
    return found


def test_with_the_extension_order_is_tidb_s() -> None:
    found = event(_tidb={"commitTs": TS})

    assert (found.commit_ts, found.position) == (TS, (0, TS, 1, 0, 0, 0))


def test_without_the_extension_order_is_arrival_and_the_commit_time_is_rounded_to_milliseconds() -> None:
    found = event()

    assert (found.commit_ts, found.position) == (TS >> 18 << 18, (0, 5, 0, 1, 0, 0))


def test_a_feed_that_must_have_the_extension_refuses_a_message_without_it() -> None:
    with pytest.raises(
        DecodeError,
        match=r"^message: expected _tidb.commitTs, got none; where .* say enable-tidb-extension: false$",
    ):
        event({"tidb_extension": "true"})


def test_a_feed_said_to_be_without_the_extension_is_in_arrival_order() -> None:
    assert event({"tidb_extension": "false"}, _tidb={"commitTs": TS}).position == (0, 5, 0, 1, 0, 0)


def test_a_table_whose_handle_is_a_unique_key_has_no_key_on_the_wire() -> None:
    found = event(pkNames=[], _tidb={"commitTs": TS, "rowkey": "dIA="})

    assert (found.key, found.key_names, found.row_id) == ((), (), "dIA=")


def test_full_type_texts_of_content_compatible_mode_are_read_alike() -> None:
    types = {"id": "int(11) unsigned zerofill", "a": "varbinary(16)", "e": "enum('blob','b')", "b": "bit(8)"}

    found = event(
        mysqlType=types,
        data=[{"id": "4294967295", "a": "\x00ÿ", "e": "2", "b": "255"}],
        _tidb={"commitTs": TS},
    )

    assert (found.after, found.encoding) == (
        {"id": 4294967295, "a": "AP8=", "e": 2, "b": 255},
        "ticdc-canal-json",
    )


def test_the_bytes_of_a_bit_default_and_the_label_of_an_enum_default_are_read() -> None:
    """TiCDC before 6.5.9, 7.1.5 and 7.5.2 fills an added column of an older row with its DDL's own
    default.
    """
    found = event(
        mysqlType={"id": "int", "b": "bit", "e": "enum"},
        data=[{"id": "1", "b": "\x01\x05", "e": "new"}],
        _tidb={"commitTs": TS},
    )

    assert found.after == {"id": 1, "b": 261, "e": "new"}


def test_bytes_that_a_release_before_5_4_sends_as_text_are_those_of_the_text() -> None:
    """buildColumn of TiCDC 4.0 to 5.3 prints BINARY and VARBINARY as UTF-8, and names them CHAR and VARCHAR
    in `sqlType`; what is no UTF-8 is lost.
    """
    types = {"id": "int", "v": "varbinary", "b": "binary", "blob": "blob", "lost": "varbinary"}
    told = {"id": -5, "v": 12, "b": 1, "blob": 2004, "lost": 12}
    data = {"id": "1", "v": "é", "b": "ж", "blob": "é", "lost": "\ufffd"}

    old, new = (event(mysqlType=types, sqlType=sql, data=[data]) for sql in (told, {"v": 2004}))

    assert old.after == {"id": 1, "v": "w6k=", "b": "0LY=", "blob": "6Q==", "lost": {"text": "\ufffd"}}
    assert new.after == {**old.after, "v": "6Q=="}


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("bit", "A", 65),
        ("bit", "\ufffd", {"text": "\ufffd"}),
        ("varbinary", "中文", "5Lit5paH"),
        ("binary", "ж", "0LY="),
        ("varbinary", "a\ufffd", {"text": "a\ufffd"}),
    ],
)
def test_a_default_of_an_old_release_in_an_old_image_costs_no_update(
    type_: str, text: str, value: Any
) -> None:
    """formatValue of TiCDC before 6.5.9, 7.1.5 and 7.5.2 prints the bytes of a filled in default as text."""
    types, new = {"id": "int", "c": type_}, {"id": "1", "c": "1"}

    found = event(type="UPDATE", mysqlType=types, data=[new], old=[{"id": "1", "c": text}])

    assert (found.op, found.before) == ("update", {"id": 1, "c": value})


@pytest.mark.parametrize("type_", ["bit", "varbinary", "binary(4)"])
def test_lost_bytes_of_a_binary_column_are_no_lost_text(type_: str) -> None:
    wire = b'{"database":"d","table":"t","pkNames":["id"],"type":"INSERT","mysqlType":{"id":"int","c":"%s"},'
    value = wire % type_.encode() + rb'"data":[{"id":"1","c":"\ufffd"}]}'

    (found,) = decode_message("ticdc-canal-json", Message("t", 0, 0, None, value), {})

    assert isinstance(found, RowChange)
    assert found.after == {"id": 1, "c": {"text": "\ufffd"}}


def test_a_key_whose_bytes_are_lost_names_no_row() -> None:
    found = event(mysqlType={"id": "binary"}, sqlType={"id": 1}, data=[{"id": "\ufffd"}])

    assert found == DeadLetter(
        "value", "key: expected bytes that are UTF-8, as TiCDC before 5.4 sends them, got others", 0, "d", "t"
    )


def test_an_old_image_has_no_columns_that_the_new_one_has_not() -> None:
    """fillUpdateColumns of the new architecture 8.5.4 knows no column selectors."""
    update = event(type="UPDATE", old=[{"id": "1", "a": "1", "left_out": ""}])

    assert update.before == {"id": 1, "a": 1}


@pytest.mark.parametrize(
    ("extension", "why"),
    [
        ({"onlyHandleKey": True}, "the feed sends handle-key-only messages"),
        ({"claimCheckLocation": "s3://b/u.json"}, "its claim-check file is missing or unreadable"),
    ],
)
def test_a_row_sent_as_its_key_alone_is_unresolved_unless_it_is_deleted(
    extension: dict[str, Any], why: str
) -> None:
    sent: dict[str, Any] = {"data": [{"id": "1"}], "_tidb": {"commitTs": TS, **extension}}

    unresolved, deleted = event(**sent), event(**sent, type="DELETE")

    assert unresolved == DeadLetter(
        "unresolved", f"row: expected all columns, got the handle key only: {why}", 0, "d", "t"
    )
    assert (deleted.op, deleted.key, deleted.flags) == ("delete", (1,), ("partial_before",))


def test_a_row_that_is_sent_whole_later_is_no_duplicate_of_its_key_alone() -> None:
    cut = {**ROW, "data": [{"id": "1"}], "_tidb": {"commitTs": TS, "onlyHandleKey": True}}
    whole = {**ROW, "data": [{"id": "1", "a": "2"}], "_tidb": {"commitTs": TS}}

    memory = Memory("ticdc-canal-json").add(
        Message("t", 0, offset, None, dumps(body)) for offset, body in enumerate((cut, whole))
    )

    assert [letter.code for letter in memory.dead] == ["unresolved"]
    assert [change.after for change in memory.changes.values()] == [{"id": 1, "a": 2}]


def test_a_delete_without_any_column_names_no_row_and_says_so() -> None:
    found = event(type="DELETE", pkNames=[], data=[{}], mysqlType=None, _tidb={"commitTs": TS})

    assert isinstance(found, RowChange)
    assert (found.before, found.flags) == ({}, ("old_key_unknown", "partial_before", "no_primary_key"))


def test_a_delete_without_any_column_whose_file_is_missing_waits_for_the_file() -> None:
    extension = {"commitTs": TS, "claimCheckLocation": "s3://b/u.json"}

    assert event(type="DELETE", pkNames=[], data=[{}], mysqlType=None, _tidb=extension).code == "unresolved"


def test_an_update_without_an_old_image_has_none() -> None:
    found = event(type="UPDATE", old=None, _tidb={"commitTs": TS})

    assert (found.op, found.before, found.after) == ("update", None, {"id": 1, "a": 2})


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        (
            {"type": "OTHER"},
            "kind",
            "message: expected type INSERT, UPDATE, DELETE, TIDB_WATERMARK or a DDL, got another",
        ),
        ({"type": "TIDB_WATERMARK"}, "shape", "watermark: expected _tidb.watermarkTs, got none"),
        ({"data": None}, "shape", "row message: expected rows in data, got none"),
        ({"data": [{"id": 1}]}, "shape", "message: Expected `str | null`, got `int` - at `$.data[0][...]`"),
    ],
)
def test_a_message_of_another_shape_is_a_dead_letter(members: dict[str, Any], code: str, text: str) -> None:
    message = Message("t", 0, 0, None, dumps({**ROW, "data": [{"id": "1"}], **members}))

    assert decode_message("ticdc-canal-json", message, {}) == [DeadLetter(code, text, 0)]


def test_a_row_without_its_key_s_columns_is_a_dead_letter() -> None:
    assert (
        event(data=[{"a": "1"}]).message
        == "row: expected the columns that pkNames names, got a row without one"
    )
