"""The values of a Tencent DTS row: bytes of a `Data` message to the member of an image's JSON text, by the
column's type.

    Data   {dataType, charset, sv, bv}: numbers and times as text in `sv`, text and binary in `bv`

A value is one of silver's, which has such text, or `Open` (only the table's schema can read it), or ABSENT
(the row leaves the column out).
"""

import functools
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.formats.dts.fast_values import Read, quick_reader
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.schema import INTEGER_BITS, ColumnType, parse_type
from lakehouse.values.charsets import decode_text
from lakehouse.values.normal_form import bytes_vector, vector_text
from lakehouse.values.scalars import ZONED, base64_text, bit_number, integer, number, timestamp_utc

# what a column keeps of the values that fast_values.py leaves to it: an update repeats most of the old image,
# and labels are few
_KEPT, _KEPT_BYTES = 64, 256
_NIL, _NA, _STRING, _BYTES = pb.NIL, pb.NA, pb.STRING, pb.BYTES


class Open(NamedTuple):
    """A value that the table's schema has yet to read."""

    value: Any


class _Absent:
    """The type of ABSENT."""


ABSENT = _Absent()
Special = Open | _Absent


class Value(NamedTuple):
    """A Data message: its type, the charset of its bytes, and what it holds as text or as bytes."""

    kind: int
    charset: str
    sv: str
    bv: bytes

    @property
    def bytes(self) -> bytes:
        return self.bv or self.sv.encode()

    @property
    def text(self) -> str:
        return self.sv or self.bv.decode("ascii")


_Read = Callable[[Value, str], Any]
_json_of = msgspec.json.Encoder().encode


class Cells(dict[bytes, bytes | Special]):
    """A column's values by their bytes, each as `"name":value` in JSON; asked for one, it reads it.

    DecodeError for what is no value of the column's type."""

    __slots__ = ("column_type", "member", "name", "read", "zone")

    def __init__(self, name: str, original_type: str, zone: str, is_key: bool = False) -> None:
        super().__init__()
        self.column_type = parse_type(original_type) if original_type else ColumnType("")
        self.name, self.zone, self.read = name, zone, _reader(self.column_type, is_key)
        self.member = _json_of(name) + b":"

    def __missing__(self, data: bytes) -> bytes | Special:
        try:
            value = pb.Data.FromString(data)
            told = Value(value.dataType, value.charset, value.sv, value.bv)
            if told.kind > _NA:  # of a later protocol: its value may stand in a field that is not known here
                raise ValueError("no dataType of this protocol")
            read = None if told.kind == _NIL else ABSENT if told.kind == _NA else self.read(told, self.zone)
            found = read if isinstance(read, Special) else self.member + _json_of(read)
        except (ValueError, InvalidOperation, ProtobufError):
            raise DecodeError(
                "value", f"column {self.name}: expected a value of its type, got another"
            ) from None
        if len(data) <= _KEPT_BYTES:
            if len(self) >= _KEPT:
                self.clear()
            self[data] = found
        return found

    def quick(self) -> Read:
        """How to read the column at its quickest; the cells are asked for what is rare."""
        return quick_reader(self.column_type, self.member, self.__getitem__)

    def value(self, data: bytes) -> Any:
        """The value itself, or `Open` or ABSENT."""
        found = self[data]
        return msgspec.json.decode(found[len(self.member) :]) if isinstance(found, bytes) else found


def _reader(column_type: ColumnType, is_key: bool) -> _Read:
    """How to read a column; the value's own dataType decides where the column's type is not known."""
    family = column_type.family
    if family in ("text", "enum", "set"):
        return functools.partial(_label_or_text, column_type, opens=family == "text" and not is_key)
    if family == "decimal":
        return functools.partial(_decimal, column_type.scale or 0)
    if family == "integer" and column_type.unsigned:
        return functools.partial(_unsigned, INTEGER_BITS[column_type.base])
    return _READS.get(family, _by_data_type if is_key else _by_data_type_or_schema)


def _plain_text(value: Value, _: str) -> str:
    return value.text


def _label_or_text(column_type: ColumnType, value: Value, _: str, *, opens: bool) -> Any:
    """Text, or an ENUM's or SET's labels; an index or mask, or what is no label, is for the schema
    to read. So are bytes of text whose charset nothing tells (`opens`; of a key they are UTF-8): those of GBK
    can be UTF-8 too.
    """
    if value.kind not in (_STRING, _BYTES):
        return Open(integer(value.sv))
    charset = value.charset or column_type.charset or ""
    if opens and value.kind == _BYTES and charset in ("", "binary") and not _is_plain(value.bv):
        return Open({"base64": base64_text(value.bv)})
    text = value.sv or _text(value.bv, charset)
    if column_type.family == "text" or isinstance(text, Open):
        return text
    known = column_type.members
    labels = text.split(",") if column_type.family == "set" and text else [text]
    is_label = all(label in known or label == "" for label in labels) if known else not text.isdigit()
    return text if is_label else Open(text)


def _is_plain(data: bytes) -> bool:
    """Whether bytes are the same text in all charsets but those that have two or four bytes for a letter."""
    return data.isascii() and b"\0" not in data


def _text(data: bytes, charset: str) -> Any:
    text = decode_text(data, charset)
    return Open({"base64": base64_text(data)}) if text is None else text


def _json(value: Value, _: str) -> Any:
    """JSON text; the server's binary form is not read."""
    raw = value.bytes
    text = decode_text(raw, "utf8mb4")
    is_json = text and text.lstrip(" \t\r\n")[:1] in _JSON_STARTS and "\0" not in text
    return text if is_json else Open({"base64": base64_text(raw)})


def _binary(value: Value, _: str) -> str:
    if value.kind not in (_STRING, _BYTES):
        raise ValueError("no bytes")
    return base64_text(value.bytes)


def _integer(value: Value, _: str) -> int:
    return integer(value.text)


def _unsigned(bits: int, value: Value, _: str) -> int:
    """A number of the binlog's signed type (INT64 of a BIGINT UNSIGNED) is negative with its first
    bit set.
    """
    found = integer(value.text)
    return found + (1 << bits) if -(1 << (bits - 1)) <= found < 0 else found


def _float(value: Value, _: str) -> float:
    return number(value.text)


def _bit(value: Value, _: str) -> int:
    """A number, of which BIT(64) as INT64 is negative with its first bit set; or the bytes."""
    if value.kind == _BYTES:
        return bit_number(value.bv, "big")
    bits = integer(value.text)
    return bits + (1 << 64) if bits < 0 else bits


def _vector(value: Value, _: str) -> str:
    """The server's form, or text."""
    return vector_text(bytes_vector(value.bv)) if value.kind == _BYTES else value.text


def _decimal(scale: int, value: Value, _: str) -> str:
    """All fraction digits of the column, also where the wire leaves out zeros at the end."""
    text = value.text
    if not _FIXED.fullmatch(text):
        text = f"{_bounded(Decimal(text)):f}"
    missing = scale - len(text.partition(".")[2])
    return text if missing <= 0 else f"{text}{'' if '.' in text else '.'}{'0' * missing}"


def _bounded(value: Decimal) -> Decimal:
    if not value.is_finite() or abs(value.adjusted()) > 100:
        raise ValueError("no DECIMAL")
    return value


def _timestamp(value: Value, zone: str) -> str:
    """The text carries its zone ("2021-05-17 07:22:42 +00:00"); where it does not, it is in the source's."""
    text = value.text
    found = ZONED.fullmatch(text)
    return timestamp_utc(found[1], found[2]) if found else timestamp_utc(text, zone)


def _by_data_type(value: Value, zone: str) -> Any:
    """A column of unknown type, read as the wire types it."""
    if value.kind in (pb.FLOAT32, pb.FLOAT64):
        return _float(value, zone)
    if value.kind == pb.DECIMAL:
        return _decimal(0, value, zone)
    if value.kind == _STRING and value.charset.lower() != "binary":
        return value.sv or _text(value.bv, value.charset)
    if value.kind in (_STRING, _BYTES):
        return _binary(value, zone)
    return _integer(value, zone)


def _by_data_type_or_schema(value: Value, zone: str) -> Any:
    """The same, but for what only the schema tells: whether bytes are text, JSON, BIT or binary, and text
    with a zone a TIMESTAMP.
    """
    read = _by_data_type(value, zone)
    if value.kind == _BYTES or (value.kind == _STRING and value.charset.lower() == "binary"):
        return Open({"base64": read})
    return Open(read) if value.kind == _STRING and type(read) is str and ZONED.fullmatch(read) else read


_FIXED = re.compile(r"-?\d{1,81}(?:\.\d{1,81})?", re.A)
_JSON_STARTS = frozenset('{["tfn-0123456789')
_READS: dict[str, _Read] = {
    **dict.fromkeys(("integer", "year"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    **dict.fromkeys(("binary", "geometry"), _binary),
    **dict.fromkeys(("date", "datetime", "time"), _plain_text),
    "bit": _bit,
    "json": _json,
    "timestamp": _timestamp,
    "vector": _vector,
}
