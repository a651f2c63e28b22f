"""The common values of a Tencent DTS row, straight from the bytes of a `Data` message to members of an
image's JSON text.

A reader gives what the column's cells give (values.py), which it asks for rare forms and all that is
wrong. The two common forms are told by their first bytes, with lengths below 128: dataType and sv (numbers,
of less than 80 characters); dataType, charset and bv (text, times). Such values are not kept: rows whose
values are mostly their own cost less so.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.schema import ColumnType

Read = Callable[[bytes], Any]
_SHORT = range(1, 80)
_json_of = msgspec.json.Encoder().encode
_float_of = msgspec.json.Decoder(float).decode  # four times as quick as float()


def _heads(*kinds: int) -> dict[bytes, int]:
    """The first four bytes of a value in `sv`, and how long the value is with them."""
    return {bytes((0x08, kind, 0x1A, size)): size + 4 for kind in kinds for size in _SHORT}


def _text_heads(*charsets: bytes) -> dict[bytes, int]:
    """All that stands before a text's bytes in `bv`, and how long the value is with it."""
    heads = [bytes((0x08, pb.STRING, 0x12, len(name))) + name + b"\x22" for name in charsets]
    return {head + bytes((size,)): len(head) + 1 + size for head in heads for size in range(1, 128)}


_INTEGERS, _DECIMALS, _FLOATS = (
    _heads(*range(pb.INT8, pb.UINT64 + 1)),
    _heads(pb.DECIMAL),
    _heads(pb.FLOAT32, pb.FLOAT64),
)
# a charset that is UTF-8, of seven letters or four
_SEVEN, _FOUR = _text_heads(b"utf8mb4", b"utf8mb3"), _text_heads(b"utf8")


def quick_reader(column_type: ColumnType, member: bytes, slow: Read) -> Read:
    """How a column's values are read; `member` is what stands before them in an image, `slow` reads all."""
    match column_type.family:
        case "integer" | "year":
            return _integers(member, slow)
        case "decimal":
            return _decimals(member, slow, column_type.scale or 0)
        case "float" | "double":
            return _floats(member, slow)
        case "text":
            return _texts(member, slow, "utf-8")
        case "date" | "datetime" | "time":
            return _texts(member, slow, "ascii")
        case _:
            return slow


def _integers(member: bytes, slow: Read) -> Read:
    length_of = _INTEGERS.get

    def read(data: bytes) -> Any:
        if length_of(data[:4]) == len(data):
            text = data[4:]
            if text.isdigit() and (text[0] != 48 or len(text) == 1):
                return member + text
        return slow(data)

    return read


def _decimals(member: bytes, slow: Read, scale: int) -> Read:
    length_of, opened, after_point = _DECIMALS.get, member + b'"', scale + 1

    def read(data: bytes) -> Any:
        if length_of(data[:4]) == len(data):
            text = data[4:]
            digits = text[1:] if text[0] == 45 else text
            if not scale:
                if digits.isdigit():
                    return opened + text + b'"'
            elif (
                0 < digits.find(b".") == len(digits) - after_point and digits.replace(b".", b"", 1).isdigit()
            ):
                return opened + text + b'"'
        return slow(data)

    return read


def _floats(member: bytes, slow: Read) -> Read:
    length_of = _FLOATS.get

    def read(data: bytes) -> Any:
        if length_of(data[:4]) == len(data):
            text = data[4:]
            try:
                value = _float_of(text)
            except msgspec.DecodeError:
                return slow(data)
            if value or b"-" not in text:  # -0 is an integer in JSON
                return member + _json_of(value)
        return slow(data)

    return read


def _texts(member: bytes, slow: Read, encoding: str) -> Read:
    seven, four = _SEVEN.get, _FOUR.get

    def read(data: bytes) -> Any:
        size = len(data)
        start = 13 if seven(data[:13]) == size else 10 if four(data[:10]) == size else 0
        if start:
            try:
                return member + _json_of(data[start:].decode(encoding))
            except UnicodeDecodeError:
                return slow(data)
        return slow(data)

    return read
