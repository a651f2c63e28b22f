"""The common values of a Tencent DTS row, straight from the bytes of a `Data` message to members of an image's JSON text.

A reader gives what the column's cells give (dts_values.py), which it asks for rare forms and all that is wrong. The two common forms are
told by their first bytes, with lengths below 128: dataType and sv (numbers, of less than 80 characters); dataType, charset and bv (text,
times). Such values are not kept: rows whose values are mostly their own cost less so (7 % with five columns, 30 % with forty).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from lakehouse.formats.mysql_values import number
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.schema import ColumnType

Read = Callable[[bytes], Any]
_SHORT = range(1, 80)
_json_of = msgspec.json.Encoder().encode


def _heads(*kinds: int) -> dict[bytes, int]:
    """The first four bytes of a value in `sv`, and how long it is with them."""
    return {bytes((0x08, kind, 0x1A, size)): size + 4 for kind in kinds for size in _SHORT}


_INTEGERS, _DECIMALS, _FLOATS = _heads(*range(pb.INT8, pb.UINT64 + 1)), _heads(pb.DECIMAL), _heads(pb.FLOAT32, pb.FLOAT64)
# dataType STRING, a charset that is UTF-8 (of seven letters or four), and the tag of `bv`
_FOUR, *_REST = (bytes((0x08, pb.STRING, 0x12, len(name))) + name + b"\x22" for name in (b"utf8", b"utf8mb4", b"utf8mb3"))
_SEVEN = tuple(_REST)


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
    def read(data: bytes) -> Any:
        if _INTEGERS.get(data[:4]) == len(data):
            text = data[4:]
            if text.isdigit() and (len(text) == 1 or not text.startswith(b"0")):
                return member + text
        return slow(data)

    return read


def _decimals(member: bytes, slow: Read, scale: int) -> Read:
    def read(data: bytes) -> Any:
        if _DECIMALS.get(data[:4]) == len(data):
            whole, point, fraction = data[4:].partition(b".")
            if point and len(fraction) >= scale and fraction.isdigit() and (whole.isdigit() or whole.removeprefix(b"-").isdigit()):
                return b'%b"%b.%b"' % (member, whole, fraction)
        return slow(data)

    return read


def _floats(member: bytes, slow: Read) -> Read:
    def read(data: bytes) -> Any:
        if _FLOATS.get(data[:4]) == len(data):
            try:
                return member + _json_of(number(data[4:].decode("ascii")))
            except ValueError:
                return slow(data)
        return slow(data)

    return read


def _texts(member: bytes, slow: Read, encoding: str) -> Read:
    def read(data: bytes) -> Any:
        if data.startswith(_SEVEN):
            start = 13
        elif data.startswith(_FOUR):
            start = 10
        else:
            return slow(data)
        if start < len(data) < start + 128 and data[start - 1] == len(data) - start:
            try:
                return member + _json_of(data[start:].decode(encoding))
            except UnicodeDecodeError:
                return slow(data)
        return slow(data)

    return read
