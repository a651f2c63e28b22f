"""What is particular to Open Protocol: its framing, its flags, its two encodings of bytes, its producers'
bugs.
"""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Message, RowChange
from lakehouse.fold.row_edits import OLD_ROW_STAYS
from lakehouse.formats import decode_message
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.ticdc.open_protocol import decode
from lakehouse.formats.ticdc.open_values import go_unquote
from tests.support.encode_open import go_quote
from tests.support.engine import Memory
from tests.support.wires import TS, dumps

ID = {"t": 3, "h": True, "f": 11, "v": 1}


def message(value: Any, **key: Any) -> Message:
    return Message(
        "t",
        0,
        0,
        *framed(
            [dumps({"ts": TS, "scm": "d", "tbl": "t", "t": 1, **key})],
            [value if isinstance(value, bytes) else dumps(value)],
        ),
    )


def row(value: Any, **key: Any) -> RowChange:
    (event,) = decode(message(value, **key), {})
    assert isinstance(event, RowChange)
    return event


def letter(value: Any, **key: Any) -> DeadLetter:
    (event,) = decode(message(value, **key), {})
    assert isinstance(event, DeadLetter)
    return event


@given(data=st.binary() | st.text().map(str.encode))
def test_bytes_quoted_as_go_does_come_back(data: bytes) -> None:
    assert go_unquote(go_quote(data)) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"\a\b\f\n\r\t\v\\\"", b'\a\b\f\n\r\t\v\\"'),
        (r"\x00\xff\x80", b"\x00\xff\x80"),
        (r"\u00a0\U0001f381", "\u00a0🎁".encode()),
        ("ж\ufffd", "ж\ufffd".encode()),
    ],
)
def test_every_go_escape_is_one_of_the_bytes_it_means(text: str, data: bytes) -> None:
    assert go_unquote(text) == data


@pytest.mark.parametrize("text", ["\\", r"\x0", r"\u12", r"\q", r"\U00110000", r"\ud800"])
def test_what_is_no_go_escape_is_a_dead_letter_that_names_the_column(text: str) -> None:
    event = letter({"u": {"id": ID, "bin": {"t": 15, "f": 65, "v": text}}})

    assert (event.code, event.message) == ("value", "column bin: expected a varbinary, got something else")


def test_old_values_of_only_updated_columns_are_completed_from_the_new_ones() -> None:
    new = {"id": ID, "a": {"t": 3, "f": 65, "v": 5}, "b": {"t": 3, "f": 65, "v": None}}

    event = row({"u": new, "p": {"a": {"t": 3, "f": 65, "v": 4}}})

    assert (event.op, event.before, event.after, event.flags) == (
        "update",
        {"id": 1, "a": 4, "b": None},
        {"id": 1, "a": 5, "b": None},
        (),
    )


def test_an_empty_old_image_is_an_update_that_changed_nothing() -> None:
    event = row({"u": {"id": ID}, "p": {}})

    assert (event.op, event.before) == ("update", {"id": 1})


def test_new_values_without_old_ones_are_an_upsert() -> None:
    event = row({"u": {"id": ID}})

    assert (event.op, event.before, event.position[2]) == ("insert", None, 1)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ({"t": 3, "f": 1, "v": "7"}, 7),
        ({"t": 8, "f": 129, "v": "18446744073709551615"}, 18446744073709551615),
        ({"t": 13, "f": 129, "v": "2024"}, 2024),
        ({"t": 5, "f": 1, "v": "-1.5"}, -1.5),
        ({"t": 247, "f": 0, "v": "new"}, "new"),
        ({"t": 248, "f": 0, "v": "a,b"}, "a,b"),
        ({"t": 16, "f": 129, "v": "\u0001\u0005"}, 261),
        ({"t": 16, "f": 129, "v": "A"}, 65),
        ({"t": 16, "f": 129, "v": "\ufffd"}, {"text": "\ufffd"}),
    ],
)
def test_a_default_that_an_old_release_fills_in_is_read_from_its_text(
    column: dict[str, Any], value: Any
) -> None:
    """getDefaultOrZeroValue of TiCDC before 6.5.9, 7.1.5 and 7.5.2 gives the old row's added column as the
    DDL's text.
    """
    new = {"id": ID, "c": {**column, "v": 1}}

    update = row({"u": new, "p": {"id": ID, "c": column}})
    delete = row({"d": {"id": ID, "c": column}})

    assert (update.before, delete.before) == ({"id": 1, "c": value}, {"id": 1, "c": value})
    assert update.after == {"id": 1, "c": 1}


def test_a_default_of_a_bit_that_lost_bytes_on_its_way_is_none() -> None:
    new, old = ({"id": ID, "c": {"t": 16, "f": 129, "v": value}} for value in (1, "PLACE"))

    update = row(dumps({"u": new, "p": old}).replace(b"PLACE", rb"\ufffd"))

    assert (update.before, update.after) == ({"id": 1, "c": {"base64": "77+9"}}, {"id": 1, "c": 1})


def test_an_old_value_that_is_null_or_empty_and_not_told_which_is_not_made_up() -> None:
    """only-output-updated-columns of the new architecture 8.5.4 and 8.5.5: null for '' and zeros, and the
    flags that TiDB has.
    """
    text, amount = {"t": 15, "f": 64}, {"t": 246, "f": 65}
    new = {"id": ID, "v": {**text, "v": "x"}, "w": {**text, "v": "y"}, "d": {**amount, "v": "5.00"}}
    old = {"v": {"t": 15, "f": 0, "v": None}, "d": {"t": 246, "f": 128, "v": None}}
    later = {"v": {**text, "v": None}}

    unclear, clear = row({"u": new, "p": old}), row({"u": new, "p": later})

    assert (unclear.before, unclear.flags) == ({"id": 1, "w": "y"}, ("partial_before",))
    assert (clear.before, clear.flags) == ({"id": 1, "v": None, "w": "y", "d": "5.00"}, ())


def test_an_old_row_that_changed_in_every_column_has_no_values_made_up_either() -> None:
    new, old = ({"v": {"t": 15, "f": flags, "v": value}} for flags, value in ((64, "x"), (0, None)))

    event = row({"u": new, "p": old})

    assert (event.before, event.flags) == ({}, ("partial_before", "no_handle"))


def test_an_old_bit_that_may_not_have_been_sent_is_not_made_up() -> None:
    """writeColumnFieldValueIfUpdated of the same releases compares a BIT with itself."""
    number = {"t": 3, "f": 65}
    new = {"id": ID, "a": {**number, "v": 2}, "b": {"t": 16, "f": 193, "v": 1}}
    flags_of_tidb, flags = {"a": {"t": 3, "f": 128, "v": 1}}, {"a": {**number, "v": 1}}

    lost, nothing, kept = (row({"u": new, "p": old}) for old in (flags_of_tidb, {}, flags))

    assert (lost.before, lost.flags) == ({"id": 1, "a": 1}, ("partial_before",))
    assert (nothing.before, nothing.flags) == ({"id": 1, "a": 2}, ("partial_before",))
    assert (kept.before, kept.flags) == ({"id": 1, "a": 1, "b": 1}, ())


def test_a_time_whose_fraction_was_cut_off_is_no_value() -> None:
    """The new architecture 8.5.4 and 8.5.5; other releases write all digits of the column."""
    ddl = message({"q": "CREATE TABLE t (id INT PRIMARY KEY, a TIME(3), b TIME)", "t": 3}, t=2)
    whole, cut = ({"t": 11, "f": 65, "v": text} for text in ("12:34:56.000", "12:34:56"))
    told = [
        message({"u": {"id": {**ID, "v": number}, "a": a, "b": cut}}, ts=TS + number)
        for number, a in enumerate((whole, cut), 1)
    ]

    silver = Memory("ticdc-open").add([ddl, *told])

    assert silver.tables(silver.reach)["d.t"] == [
        {"id": 1, "a": "12:34:56.000", "b": "12:34:56"},
        {"id": 2, "a": None, "b": "12:34:56", "_raw_a": '{"seconds":"12:34:56"}'},
    ]


def test_a_column_that_was_added_to_a_partitioned_table_is_read_by_its_schema() -> None:
    """fetchColumnFlags of the new architecture has no flags of it: a DDL empties the cache of one partition
    at most. After a restart it has.
    """
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, v VARBINARY(9), b BLOB, c CHAR(9), t TEXT) PARTITION BY KEY (id)"
    )
    odd = [(15, go_quote(b"\\x00\xff")), (252, "/w=="), (254, "a\\b"), (252, "YQ==")]
    plain = [(15, "abcd"), (252, "YWJjZA=="), (254, "abcd"), (252, "YQ==")]

    def told(number: int, values: list[tuple[int, str]], flags: tuple[int, ...]) -> dict[str, Any]:
        columns = zip("vbct", values, flags, strict=True)
        cells = {name: {"t": code, "f": flag, "v": value} for name, (code, value), flag in columns}
        return {"u": {"id": {**ID, "v": number}, **cells}}

    before, after = (
        [told(number, values, flags) for number, values in enumerate((odd, plain), 1)]
        for flags in ((0, 0, 0, 0), (65, 65, 64, 64))
    )
    statement = message({"q": ddl, "t": 3}, t=2, ts=TS - 1)
    silver = Memory("ticdc-open").add([statement, *[message(one, ptn=81) for one in before]])

    assert silver.tables(silver.reach)["d.t"] == [
        {"id": 1, "v": "XHgwMP8=", "b": "/w==", "c": "a\\b", "t": "a"},
        {"id": 2, "v": "YWJjZA==", "b": "YWJjZA==", "c": "abcd", "t": "a"},
    ]
    assert [row(one, ptn=81).after for one in before] == [row(one, ptn=81).after for one in after]


def test_columns_whose_flags_a_feed_beside_this_one_took_away_are_read_by_the_schema() -> None:
    """Changefeeds of one process share columnFlagsCache: one that is behind a DDL fills it with flags that
    lack the new columns, for the others too.
    """
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARBINARY(9), b BLOB, c CHAR(9) NOT NULL)"
    cells = [(3, 7), (15, "\\\\x00"), (252, "YWJjZA=="), (254, "a\\b")]

    def told(number: int, flags: tuple[int, ...]) -> dict[str, Any]:
        columns = zip("nvbc", cells, flags, strict=True)
        return {
            "u": {"id": {**ID, "v": number}}
            | {name: {"t": code, "f": flag, "v": value} for name, (code, value), flag in columns}
        }

    messages = [message(told(1, (0, 0, 0, 0))), message(told(2, (65, 65, 65, 0)))]
    silver = Memory("ticdc-open").add([message({"q": ddl, "t": 3}, t=2, ts=TS - 1), *messages])

    assert silver.dead == []
    row = {"n": 7, "v": "XHgwMA==", "b": "YWJjZA==", "c": "a\\b"}
    assert silver.tables(silver.reach)["d.t"] == [{"id": 1, **row}, {"id": 2, **row}]


@pytest.mark.parametrize("partition", [{}, {"ptn": 81}])
@pytest.mark.parametrize("key", [ID, {"t": 254, "h": True, "f": 11, "v": "\\x00abc"}])
def test_new_strings_alone_whose_flags_are_lost_are_read_by_the_schema(
    key: dict[str, Any], partition: dict[str, Any]
) -> None:
    id_type, id = ("INT", 1) if key is ID else ("BINARY(4)", "AGFiYw==")
    create = f"CREATE TABLE t (id {id_type} PRIMARY KEY, o VARBINARY(9))"
    added = "ALTER TABLE t ADD COLUMN (v VARBINARY(9), b BLOB, c CHAR(9), t TEXT)"
    rows = [[(15, "abcd"), (252, "YWJj"), (254, "a\\b"), (252, "YQ==")]]
    rows += [[(15, "\\x00\\\\"), (252, "/w=="), (254, "a\\q"), (252, "XA==")]]

    def told(cells: list[tuple[int, str]], o: str) -> dict[str, Any]:
        columns = {name: {"t": t, "f": 0, "v": v} for name, (t, v) in zip("vbct", cells, strict=True)}
        return {"u": {"id": key, "o": {"t": 15, "f": 65, "v": o}, **columns}}

    def read(row: dict[str, Any]) -> Any:
        statements = [message({"q": q, "t": 3}, t=2, ts=TS - at) for at, q in ((2, create), (1, added))]
        silver = Memory("ticdc-open").add([*statements, message(row, **partition)])
        assert silver.dead == []
        return silver.tables(silver.reach)["d.t"]

    plain = {"id": id, "o": "YWJjZA==", "v": "YWJjZA==", "b": "YWJj", "c": "a\\b", "t": "a"}
    odd = {"id": id, "o": "/w==", "v": "AFw=", "b": "/w==", "c": "a\\q", "t": "\\"}
    assert [read(told(rows[0], "abcd")), read(told(rows[1], "\\xff"))] == [[plain], [odd]]


def test_a_row_id_says_that_flags_are_right() -> None:
    """The classic architecture has the flags of each row's own table."""
    columns = {"id": ID, "c": {"t": 15, "f": 0, "v": "a"}}

    assert [row({"u": columns}, rid=7).encoding, row({"u": columns}).encoding] == [
        "canonical",
        "ticdc-open-unflagged",
    ]


def test_columns_that_a_malformed_old_image_lost_are_not_made_up() -> None:
    """A column that became NULL is written without its name, and spills its members into `p`."""
    new = {
        "id": ID,
        "kept": {"t": 3, "f": 65, "v": 7},
        "gone": {"t": 3, "f": 65, "v": None},
        "t": {"t": 3, "f": 65, "v": 9},
    }
    malformed = json.dumps({"u": new})[:-1] + (
        ', "p": {"t": {"t": 3, "f": 65, "v": 8}, "t": 3, "f": 65, "v": -5, "other": {"t": 3, "f": '
        '65, "v": 2}}}'
    )

    event = row(malformed.encode())

    assert (event.op, event.before, event.flags) == (
        "update",
        {"id": 1, "kept": 7, "other": 2},
        ("partial_before",),
    )
    assert event.after == {"id": 1, "kept": 7, "gone": None, "t": 9}


def test_the_last_of_two_equal_members_counts() -> None:
    key = f'{{"ts":{TS},"scm":"d","tbl":"t","t":1,"ohk":true,"ohk":false,"ccl":"file:///x/u.json"}}'.encode()

    (event,) = decode(Message("t", 0, 0, *framed([key], [dumps({"u": {"id": ID}})])), {})

    assert isinstance(event, DeadLetter)
    assert (
        event.message
        == "row: expected all columns, got the handle key only: its claim-check file is missing or unreadable"
    )


def test_a_row_sent_as_its_key_alone_is_unresolved_unless_it_is_deleted() -> None:
    unresolved = letter({"u": {"id": ID}}, ohk=True)
    deleted = row({"d": {"id": ID}}, ohk=True)

    assert (unresolved.code, unresolved.database, unresolved.table) == ("unresolved", "d", "t")
    assert (
        unresolved.message
        == "row: expected all columns, got the handle key only: the feed sends handle-key-only messages"
    )
    assert (deleted.op, deleted.key, deleted.flags) == ("delete", (1,), ("partial_before",))


@pytest.mark.parametrize("told", [{"ohk": True}, {"ohk": False, "ccl": "s3://b/a.json"}])
def test_a_row_sent_as_its_key_alone_that_has_none_is_unresolved(told: dict[str, Any]) -> None:
    """rowChangeToMsg of 6.5.12 and 7.1.6: an insert or update of a table without a key is as empty as a
    delete.
    """
    assert letter(b"{}", **told).code == "unresolved"


def test_a_delete_without_any_column_names_no_row_and_says_so() -> None:
    for value in (b'{"d":{}}', b"{}"):  # rowChangeToMsg of 6.5 and 7.1 leaves `d` out where it is empty
        found = row(value)
        assert (found.op, found.flags) == ("delete", ("old_key_unknown", "partial_before", "no_handle"))


def test_columns_without_flags_are_the_oldest_form_where_varchar_is_base64() -> None:
    event = row(
        {
            "u": {
                "id": {"t": 3, "h": True, "v": 1},
                "val": {"t": 15, "v": "YWE="},
                "blob": {"t": 252, "v": "AP8="},
            }
        }
    )

    assert (event.after, event.encoding) == ({"id": 1, "val": "aa", "blob": "AP8="}, "ticdc-open-legacy")
    assert event.types == {"id": "int", "val": "varchar", "blob": ""}


def test_texts_without_flags_are_those_of_the_releases_that_sent_them() -> None:
    """4.0.0 to 4.0.4 send them as they are, what came before as base64: what may be either is none. Where one
    of the two is nothing that people write, it is the other.
    """
    create = "CREATE TABLE t (id INT KEY, c CHAR(9), v VARCHAR(9), b BINARY(2), w VARBINARY(9), e BLOB)"

    def told(number: int, text: str, *binary: str) -> Message:
        values = ((254, text), (15, text), *zip((254, 15), binary, strict=True), (252, "YWI="))
        columns = {name: {"t": t, "v": v} for name, (t, v) in zip("cvbwe", values, strict=True)}
        return message({"u": {"id": {"t": 3, "h": True, "v": number}, **columns}}, ts=TS + number)

    texts = ("test", "ž€", "", "YWE=", "YWFh", "AAAA")
    statement = message({"q": create, "t": 3}, t=2, ts=TS - 1)
    rows_of_texts = [told(n, text, "a\0", "abc") for n, text in enumerate(texts)]
    rows_of_bytes = [told(6, "x", "", "abcd"), told(7, "x", "3q0=", "3q2+7w==")]
    silver = Memory("ticdc-open").add([statement, *rows_of_texts, *rows_of_bytes])

    rows = silver.tables(silver.reach)["d.t"]
    read = ["test", "ž€", "", "aa", "aaa", None, "x", "x"]
    assert [row["c"] for row in rows] == [row["v"] for row in rows] == read
    assert [(row["b"], row["w"], row["e"]) for row in rows] == [("YQA=", "YWJj", "YWI=")] * 6 + [
        ("AAA=", None, "YWI="),
        ("3q0=", "3q2+7w==", "YWI="),
    ]


def test_a_key_without_flags_that_may_be_text_or_base64_names_no_row() -> None:
    plain, either = ({"k": {"t": 15, "h": True, "v": text}} for text in ("test", "AAAA"))

    assert row({"d": plain}).key == ("test",)
    assert letter({"d": either}).message == "column k: expected a varchar, got something else"


def test_equal_rows_of_a_table_without_a_key_are_told_apart_by_their_handle() -> None:
    column = {"a": {"t": 3, "f": 65, "v": 1}}

    plain, partitioned, without = (
        row({"u": column}, rid=-5),
        row({"u": column}, rid=7, ptn=120),
        row({"u": column}),
    )

    assert [event.row_id for event in (plain, partitioned, without)] == ["-5", "120/7", None]
    assert [event.physical_table for event in (plain, partitioned, without)] == [None, 120, None]
    assert plain.key == plain.key_names == ()


def test_an_update_of_a_row_without_a_key_stays_one_event() -> None:
    event = row({"u": {"a": {"t": 3, "f": 65, "v": 2}}, "p": {"a": {"t": 3, "f": 65, "v": 1}}})

    assert (event.op, event.before, event.after) == ("update", {"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    ("code", "flags", "value", "type", "canonical"),
    [
        (1, 65, -128, "tinyint", -128),
        (8, 193, 2**64 - 1, "bigint unsigned", 2**64 - 1),
        (9, 65, 8388607, "mediumint", 8388607),
        (13, 193, 2155, "year", 2155),
        (16, 193, 2**64 - 1, "bit", 2**64 - 1),
        (4, 65, 3.4028235e38, "float", 3.4028235e38),
        (5, 65, 10**20, "double", 1e20),
        (246, 193, "0.50", "decimal unsigned", "0.50"),
        (14, 65, "2024-05-06", "date", "2024-05-06"),
        (7, 65, "0000-00-00 00:00:00", "timestamp", "0000-00-00 00:00:00"),
        (253, 64, "a\\x", "varchar", "a\\x"),
        (254, 65, "a\\x00", "binary", base64.b64encode(b"a\0").decode()),
        (250, 64, base64.b64encode("ж".encode()).decode(), "mediumtext", "ж"),
        (249, 65, "AQL/", "tinyblob", "AQL/"),
        (247, 64, 0, "enum", 0),
        (248, 64, 2**63, "set", 2**63),
        (245, 65, '{"a": 1}', "json", '{"a": 1}'),
        (225, 65, "[1,2,3]", "vector", "[1,2,3]"),
        (6, 65, None, "", None),
    ],
)
def test_every_type_code_has_its_type_text_and_its_value(
    code: int, flags: int, value: Any, type: str, canonical: Any
) -> None:
    event = row({"u": {"id": ID, "c": {"t": code, "f": flags, "v": value}}})

    assert event.after is not None and event.types is not None
    assert (event.types.get("c"), event.after["c"]) == (type, canonical)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"t": 99, "f": 0, "v": 1}, "column: expected a known type code, got 99"),
        ({"t": 3, "f": 65, "v": "x"}, "column c: expected a int, got something else"),
        ({"t": 16, "f": 193, "v": "123456789"}, "column c: expected a bit, got something else"),
        (
            {"t": 3, "f": 65, "v": 1.5},
            "row: expected numbers and texts as the columns' types say, got another JSON type",
        ),
        (
            {"t": 15, "f": 64, "v": 7},
            "row: expected numbers and texts as the columns' types say, got another JSON type",
        ),
        ({"t": 5, "f": 65, "v": "nan"}, "column c: expected a double, got something else"),
        ({"t": 252, "f": 64, "v": "%"}, "column c: expected a text, got something else"),
        ({"t": 3, "f": 65}, "row: Object missing required field `v` - at `$.u[...]`"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_a_dead_letter(column: dict[str, Any], text: str) -> None:
    assert letter({"u": {"id": ID, "c": column}}).message == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"\0\0\0\0\0\0\0\2", b"", "message key: expected Open Protocol version 1, got another start"),
        (b"\0\0\0\0\0\0\0\1", b"", "message: expected as many values as keys, got 0 keys and 0 values"),
        (framed([b"{}"], [])[0], b"", "message: expected as many values as keys, got 1 keys and 0 values"),
        (
            framed([b"{}"], [])[0] + b"\0",
            b"",
            "message key: expected a length and as many bytes at byte 18 of 19, got fewer",
        ),
        (
            framed([b"{}"], [])[0],
            b"\xff" * 9,
            "message value: expected a length and as many bytes at byte 0 of 9, got fewer",
        ),
    ],
)
def test_framing_that_does_not_add_up_refuses_the_whole_message(key: bytes, value: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        list(decode(Message("t", 0, 0, key, value), {}))

    assert (caught.value.code, str(caught.value)) == ("frame", text)
    assert decode_message("ticdc-open", Message("t", 0, 0, key, value), {}) == [DeadLetter("frame", text, 0)]


@given(events=st.lists(st.tuples(st.binary(), st.binary()), min_size=1))
def test_frames_come_apart_as_they_were_put_together(events: list[tuple[bytes, bytes]]) -> None:
    keys, values = [key for key, _ in events], [value for _, value in events]

    assert frames(*framed(keys, values)) == (keys, values)


def test_a_compressed_value_that_nobody_announced_is_told_as_such() -> None:
    event = letter(b"\x04\x22\x4d\x18\x64\x70\xb9")

    assert event.message == "row: expected JSON, got an LZ4 frame (does the source's `compression` say so?)"


def test_rows_of_one_shape_share_their_types() -> None:
    first, second = row({"u": {"id": ID}}), row({"u": {"id": ID}})

    assert first.types is second.types


@pytest.mark.parametrize(("old_value", "lacking"), [("true", set()), ("false", {OLD_ROW_STAYS})])
def test_without_old_values_an_update_of_a_row_without_a_key_is_not_taken_for_an_insert_in_silence(
    old_value: str, lacking: set[str]
) -> None:
    value = {"t": 3, "f": 65, "v": 1}
    sent = [message({"u": {"a": value}}), message({"u": {"a": {**value, "v": 2}}}, ts=TS + 1)]
    memory = Memory("ticdc-open", {"output-old-value": old_value}).add(sent)

    assert memory.tables(memory.reach) == {"d.t": [{"a": 1}, {"a": 2}]}
    assert memory.problems.get("d.t", frozenset()) == lacking


def test_without_old_values_a_row_with_a_key_is_an_upsert() -> None:
    (event,) = decode(message({"u": {"id": ID}}), {"output-old-value": "false"})

    assert isinstance(event, RowChange) and event.op == "insert"
