"""One list of behaviours for every decoder. A format that can't express one says so, with the reason, in its
Wire.
"""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, RowChange, SchemaChange, Watermark
from lakehouse.formats import FORMATS, decode_message
from lakehouse.schema import parse_type
from lakehouse.values.scalars import base64_text
from tests.support.wires import COLUMNS, KEY, TS, WIRES, ZONE, Wire

every_format = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)

ROW: Image = {
    "id": 18446744073709551615,
    "code": "ж'\"\\",
    "qty": -2147483648,
    "price": "12345678901234567890.10",
    "note": "two\nlines 🎁",
    "bin": "AAEC/1wi",
    "blob": "/wA=",
    "ratio": 1.5e300,
    "bits": 18446744073709551615,
    "at": "2024-05-05 23:08:09.123Z",
    "dt": "0000-00-00 00:00:00",
    "day": "2024-05-00",
    "t": "-838:59:59",
    "y": 0,
    "doc": '{"k": [1, 2]}',
}


def decoded(wire: Wire, message: Message) -> list[Event]:
    return decode_message(wire.format, message, {"time_zone": ZONE})


def change(wire: Wire, op: str, before: Image | None, after: Image | None) -> RowChange:
    (event,) = decoded(wire, wire.rows(op, [(before, after)]))
    assert isinstance(event, RowChange)
    return event


@every_format
def test_an_insert_has_the_new_image_and_no_old_one(wire: Wire) -> None:
    event = change(wire, "insert", None, ROW)

    assert (event.database, event.table, event.op, event.before, event.after) == (
        "demo",
        "t",
        "insert",
        None,
        ROW,
    )


@every_format
def test_an_update_has_both_images(wire: Wire) -> None:
    event = change(wire, "update", {**ROW, "qty": 1}, ROW)

    assert (event.op, event.before, event.after, event.flags) == ("update", {**ROW, "qty": 1}, ROW, ())


@every_format
def test_an_update_whose_old_image_holds_only_what_changed_has_it_completed(wire: Wire) -> None:
    if "changed columns" in wire.cannot:
        pytest.skip(wire.cannot["changed columns"])

    event = change(wire, "update", {"qty": 1, "note": None}, ROW)

    assert (event.before, event.after) == ({**ROW, "qty": 1, "note": None}, ROW)


@every_format
def test_a_delete_has_the_old_image_alone(wire: Wire) -> None:
    event = change(wire, "delete", ROW, None)

    assert (event.op, event.before, event.after, event.flags) == ("delete", ROW, None, ())


@every_format
def test_a_delete_of_which_only_the_key_was_sent_says_so(wire: Wire) -> None:
    if "key-only delete" in wire.cannot:
        pytest.skip(wire.cannot["key-only delete"])

    event = change(wire, "delete", {name: ROW[name] for name in ("id", "code")}, None)

    assert event.flags == ("partial_before",)


@every_format
def test_an_update_of_the_key_is_a_delete_and_then_an_insert(wire: Wire) -> None:
    old, new = {**ROW, "id": 1}, {**ROW, "id": 2}

    first, second = decoded(wire, wire.rows("update", [(old, new)]))

    assert isinstance(first, RowChange) and isinstance(second, RowChange)
    assert (first.op, first.before, first.after, first.index) == ("delete", old, None, 0)
    assert (second.op, second.before, second.after, second.index) == ("insert", None, new, 1)
    assert first.position < second.position
    assert (first.key, second.key) == ((ROW["code"], 1), (ROW["code"], 2))


@every_format
def test_null_is_a_value_and_an_unsent_column_is_absent(wire: Wire) -> None:
    row = {name: ROW[name] if name in KEY else None for name in ("id", "code", "qty", "note", "bin")}

    event = change(wire, "insert", None, row)

    assert event.after == row


@every_format
def test_the_key_is_in_name_order_whatever_the_order_of_columns(wire: Wire) -> None:
    event = change(wire, "insert", None, dict(reversed(ROW.items())))

    assert (event.key_names, event.key) == (KEY, (ROW["code"], ROW["id"]))


@every_format
def test_types_name_what_the_message_says_of_each_column(wire: Wire) -> None:
    event = change(wire, "insert", None, ROW)

    assert event.types is not None
    assert {name: parse_type(text).family for name, text in event.types.items()} == {
        name: parse_type(text).family for name, text in COLUMNS.items()
    }


@every_format
def test_rows_of_one_message_are_counted_from_0_and_stand_in_their_order(wire: Wire) -> None:
    events = decoded(wire, wire.rows("insert", [(None, {**ROW, "id": number}) for number in range(5)]))

    assert [event.index for event in events] == [0, 1, 2, 3, 4]
    assert [event.key[1] for event in events if isinstance(event, RowChange)] == [0, 1, 2, 3, 4]
    if FORMATS[wire.format].order != "tidb":
        positions = [event.position for event in events if isinstance(event, RowChange)]
        assert positions == sorted(set(positions))


@every_format
def test_a_row_that_cannot_be_read_leaves_its_neighbours(wire: Wire) -> None:
    broken = {**ROW, "qty": "no number"}

    events = decoded(wire, wire.rows("insert", [(None, ROW), (None, broken), (None, ROW)]))

    assert [type(event) for event in events] == [RowChange, DeadLetter, RowChange]
    assert [event.index for event in events] == [0, 1, 2]
    letter = events[1]
    assert isinstance(letter, DeadLetter)
    assert (letter.code, letter.database, letter.table) == ("value", "demo", "t")
    assert "no number" not in letter.message


@every_format
def test_a_statement_is_given_as_received(wire: Wire) -> None:
    text = "ALTER TABLE `t` ADD COLUMN `名` VARCHAR(8) DEFAULT 'a\\'b'"

    (event,) = decoded(wire, wire.ddl(text))

    assert isinstance(event, SchemaChange)
    assert (event.kind, event.database, event.table, event.ddl, event.index) == ("ddl", "demo", "t", text, 0)


@every_format
def test_a_watermark_is_the_resolved_time_above_all_that_it_covers(wire: Wire) -> None:
    assert (wire.watermark is not None) == FORMATS[wire.format].has_watermarks
    if wire.watermark is None:
        return

    (event,) = decoded(wire, wire.watermark(TS))

    assert isinstance(event, Watermark)
    assert event.resolved_ts == TS
    assert event.position > change(wire, "insert", None, ROW).position


@every_format
def test_the_epoch_of_the_message_stands_first_in_every_position(wire: Wire) -> None:
    messages = [
        wire.rows("insert", [(None, ROW)]),
        wire.rows("update", [({**ROW, "id": 1}, ROW)]),
        wire.ddl("DROP TABLE t"),
    ]

    events = [event for message in messages for event in decoded(wire, message)]

    assert all(
        not isinstance(event, DeadLetter) and event.position[0] == 3 and len(event.position) == 6
        for event in events
    )


@every_format
def test_a_message_without_a_value_is_refused(wire: Wire) -> None:
    with pytest.raises(DecodeError, match=r"^message: expected .* got none$"):
        list(FORMATS[wire.format].decode(Message("topic", 0, 0, None, None), {}))


@every_format
def test_a_server_zone_that_is_none_is_refused_by_name(wire: Wire) -> None:
    (event,) = decode_message(wire.format, wire.rows("insert", [(None, ROW)]), {"time_zone": "Mars/Phobos"})

    assert isinstance(event, DeadLetter)
    assert (event.code, event.message) == (
        "option",
        "time_zone: expected an IANA name or an offset such as +08:00, got 'Mars/Phobos'",
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BINARY = st.binary(max_size=20).map(base64_text)
FRACTION = st.sampled_from(["", ".0", ".123", ".000001", ".123456"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint unsigned": st.integers(0, 2**64 - 1),
    "varchar": TEXT,
    "int": st.integers(-(2**31), 2**31 - 1),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=10).map(
        lambda number: format(number, "f")
    ),
    "text": TEXT,
    "varbinary": BINARY,
    "blob": BINARY,
    "double": st.floats(allow_nan=False, allow_infinity=False).map(
        lambda number: number + 0.0 if number else 0.0
    ),
    "bit": st.integers(0, 2**64 - 1),
    "timestamp": st.tuples(st.datetimes(datetime(1992, 1, 1), datetime(2037, 12, 30)), FRACTION).map(
        lambda pair: f"{pair[0]:%F %T}{pair[1]}Z"
    ),
    "datetime": st.sampled_from(["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0000-00-00 00:00:00"]),
    "date": st.dates().map(str),
    "time": st.sampled_from(["00:00:00", "838:59:59", "-838:59:59.000000", "-00:00:00.1"]),
    "year": st.integers(1901, 2155) | st.just(0),
    "json": st.sampled_from(["null", '{"a": 1.0}', "[]"]),
}
IMAGES = st.fixed_dictionaries(
    {name: VALUES[kind] if name in KEY else st.none() | VALUES[kind] for name, kind in COLUMNS.items()}
)


@every_format
@given(image=IMAGES)
def test_every_value_arrives_as_it_was_sent(wire: Wire, image: Image) -> None:
    event = change(wire, "insert", None, image)

    assert event.after == image
    assert all(type(event.after[name]) is type(value) for name, value in image.items())
    assert event.key == tuple(image[name] for name in KEY)


@every_format
@given(before=IMAGES, after=IMAGES)
def test_the_images_of_any_update_are_those_of_its_one_or_two_events(
    wire: Wire, before: Image, after: Image
) -> None:
    events = decoded(wire, wire.rows("update", [(before, after)]))

    assert len(events) == (1 if all(before[name] == after[name] for name in KEY) else 2)
    assert isinstance(events[0], RowChange) and events[0].before == before
    assert isinstance(events[-1], RowChange) and events[-1].after == after
