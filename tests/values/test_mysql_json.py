"""MySQL's binary JSON, laid out by hand as its source describes it."""

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.values.mysql_json import as_printed, json_text

OBJECT, ARRAY, LITERAL, STRING, OPAQUE = 0, 2, 4, 12, 15
INTEGERS = [(5, "<h", 15), (6, "<H", 16), (7, "<i", 31), (8, "<I", 32), (9, "<q", 63), (10, "<Q", 64)]


def length(size: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    return bytes([size]) if size < 128 else bytes([size & 127 | 128]) + length(size >> 7)


def written(value: Any, large: bool = False) -> tuple[int, bytes]:
    """A value's type, and its bytes."""
    if value is None or isinstance(value, bool):
        return LITERAL, bytes([[None, True, False].index(value)])
    if isinstance(value, int):
        kind, form, _ = next(each for each in INTEGERS if fits(value, *each))
        return kind, struct.pack(form, value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return STRING, length(len(value.encode())) + value.encode()
    return container(value, large)


def fits(value: int, kind: int, _: str, bits: int) -> bool:
    return 0 <= value < 1 << bits if kind % 2 == 0 else -(1 << bits) <= value < 1 << bits


def container(value: dict[str, Any] | list[Any], large: bool) -> tuple[int, bytes]:
    """Header, entries of keys, entries of values, keys, values."""
    unit, width = ("<I", 4) if large else ("<H", 2)
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    parts = [written(part, large) for part in (value.values() if isinstance(value, dict) else value)]
    offset = 2 * width + len(keys) * (width + 2) + len(parts) * (width + 1)
    head = b""
    for key in keys:
        head += struct.pack(unit, offset) + struct.pack("<H", len(key))
        offset += len(key)
    tail = b"".join(keys)
    for kind, data in parts:
        if kind in (LITERAL, 5, 6) or (large and kind in (7, 8)):
            head += bytes([kind]) + data.ljust(width, b"\0" if kind != 5 or data[-1] < 128 else b"\xff")
        else:
            head += bytes([kind]) + struct.pack(unit, offset)
            tail, offset = tail + data, offset + len(data)
    kind = (OBJECT if isinstance(value, dict) else ARRAY) + large
    return kind, struct.pack(unit, len(parts)) + struct.pack(unit, offset) + head + tail


def document(value: Any, large: bool = False) -> bytes:
    kind, data = written(value, large)
    return bytes([kind]) + data


def opaque(kind: int, data: bytes) -> bytes:
    return bytes([OPAQUE, kind]) + length(len(data)) + data


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200)
)


@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    ),
    st.booleans(),
)
def test_a_document_comes_back(value: Any, large: bool) -> None:
    assert json.loads(json_text(document(value, large))) == value


def test_the_text_is_as_the_server_prints_it() -> None:
    value = {"a": [1, -2.5, True, None], "ж": {"q": '"\\\n'}}

    assert json_text(document(value)) == '{"a": [1, -2.5, true, null], "ж": {"q": "\\"\\\\\\n"}}'
    assert (json_text(b""), json_text(document(1e22))) == ("null", "1e22")


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("0402 8c22", "12.34"),  # 12 and 34 in a byte each, the first bit set
        ("0402 73dd", "-12.34"),
        ("0a01 8bebc1fc 07", "199999996.7"),
        ("0b00 8c 3ade68b1", "12987654321"),
        ("0909 80000007", "0.000000007"),
        ("0100 80", "0"),
    ],
)
def test_a_decimal_keeps_its_digits(digits: str, text: str) -> None:
    assert json_text(opaque(246, bytes.fromhex(digits))) == text


def packed(days: int, seconds: int, micros: int) -> bytes:
    return struct.pack("<q", ((days << 17 | seconds) << 24) + micros)


DAY, CLOCK = (2024 * 13 + 2) * 32 + 29, 23 << 12 | 59 << 6 | 7


def test_dates_and_times_are_text() -> None:
    assert json_text(opaque(10, packed(DAY, 0, 0))) == '"2024-02-29"'
    assert (
        json_text(opaque(12, packed(DAY, CLOCK, 5)))
        == json_text(opaque(7, packed(DAY, CLOCK, 5)))
        == '"2024-02-29 23:59:07.000005"'
    )
    assert json_text(opaque(11, packed(0, 838 << 12 | 59 << 6 | 59, 0))) == '"838:59:59.000000"'
    assert json_text(opaque(11, struct.pack("<q", -((CLOCK << 24) + 250_000)))) == '"-23:59:07.250000"'


def test_other_opaque_values_are_base64_in_lines_of_76_characters() -> None:
    assert json_text(opaque(252, b"\0\xff")) == '"base64:type252:AP8="'
    assert json_text(opaque(15, b"a" * 60)) == f'"base64:type15:{"YWFh" * 19}\\nYWFh"'


@pytest.mark.parametrize(
    "data",
    [
        b"\x0d\0",  # no such type
        bytes([STRING, 5]) + b"ab",
        bytes([ARRAY]) + struct.pack("<HHBH", 1, 7, ARRAY, 0),  # itself
        bytes([OBJECT]) + b"\xff\xff\x04\0",
        b"\x0b" + struct.pack("<d", float("nan")),
        opaque(12, b"\0" * 4),
        opaque(246, b"\x01"),
        opaque(246, b"\x42\0" + b"\x80" * 40),
        bytes([LITERAL, 9]),
        bytes([STRING, 1, 0xFF]),
    ],
)
def test_what_is_no_document_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no binary JSON|can't decode"):
        json_text(data)


@given(st.binary(max_size=60) | st.lists(st.integers(0, 15), max_size=60).map(bytes))
def test_garbage_is_text_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        json.loads(json_text(data))


def test_a_document_whose_offsets_meet_in_one_place_ends() -> None:
    """Two entries of each array are the next one: read as they are laid, they double a hundred times."""
    levels = b"".join(struct.pack("<HHBHBH", 2, 9, ARRAY, 10, ARRAY, 10) for _ in range(100))

    with pytest.raises(ValueError, match="no binary JSON"):
        json_text(bytes([ARRAY]) + levels)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"bb":1,"a":[1.50,"\\u00e9"]}', '{"a": [1.50, "é"], "bb": 1}'),
        ('"\\ud800"', '"\\ud800"'),
        ("[1e400]", "[1e400]"),
        ("no document", "no document"),
        (None, None),
        ({"base64": "AA=="}, {"base64": "AA=="}),
    ],
)
def test_a_document_is_printed_and_anything_else_stays(value: Any, text: Any) -> None:
    assert as_printed(value) == text
