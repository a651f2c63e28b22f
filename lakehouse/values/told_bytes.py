"""Values that came as bytes in base64, `{"base64": …}`, whose kind or charset the message does not tell, and
bytes as text that may be of hex: the column's type tells them. Each rule returns the value itself where it
can't read it.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from lakehouse.schema import ColumnType
from lakehouse.values.charsets import LOST, decode_text, read_by_driver
from lakehouse.values.mysql_json import json_text, with_short_doubles
from lakehouse.values.normal_form import Rule, bytes_of, bytes_vector, vector_text
from lakehouse.values.scalars import base64_text

Modes = Mapping[str, str]
_BYTES_IN_HEX = re.compile(r"(?:[0-9a-f]{2})+", re.A)
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
# its letters stand where ASCII has characters that it lacks
_SWE7 = str.maketrans("@[\\]^`{|}~", "ÉÄÖÅÜéäöåü")


def integer_text(value: Any) -> Any:
    """The integer that a text is, or the value itself."""
    if (
        type(value) is not str
        or len(value) > 100
        or not (value.isascii() and value.removeprefix("-").isdecimal())
    ):
        return value
    return int(value)


def told_bytes(value: Any) -> bytes | None:
    """The bytes of a value that came as such; None of any other value."""
    return bytes_of(value["base64"]) if type(value) is dict and type(value.get("base64")) is str else None


def read_legacy_text(column_type: ColumnType, _: Modes) -> Rule | None:
    """The oldest Open Protocol has TEXT in base64, as it has BLOB, and does not tell which it is; VARCHAR is
    text by then.
    """
    return _text_of_base64 if column_type.base in ("tinytext", "text", "mediumtext", "longtext") else None


def _text_of_base64(value: Any) -> Any:
    data = bytes_of(value) if type(value) is str else None
    try:
        return value if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": value}


def read_legacy_binary(column_type: ColumnType, _: Modes) -> Rule | None:
    """There BINARY and VARBINARY are text, whose bytes they are, and base64 before 4.0.0. What may be base64
    and has not the end of one may be either.
    """
    return _binary_of_text if column_type.base in ("binary", "varbinary") else None


def _binary_of_text(value: Any) -> Any:
    if type(value) is not str or not value:
        return value
    if bytes_of(value) is None:
        return base64_text(value.encode())
    return value if value.endswith("=") else {"text": value, "base64": value}


def read_told_text(column_type: ColumnType, _: Modes) -> Rule:
    """Text in the column's charset."""
    charset = column_type.charset or "utf8mb4"

    def text(value: Any) -> Any:
        data = told_bytes(value)
        decoded = None if data is None else decode_text(data, charset)
        return value if decoded is None else decoded

    return text


def read_canal_text(column_type: ColumnType, modes: Modes) -> Rule | None:
    """The same where bytes have been read as UTF-8 already, whatever the charset: bytes that are none have
    become U+FFFD, which only a column in UTF-8 can hold, and of a charset of two or four bytes each ASCII
    character stands behind its zero bytes.
    """
    charset = column_type.charset
    if charset is None:
        return None
    if charset.startswith("utf8"):
        return lambda value: value["text"] if type(value) is dict and "text" in value else value
    told = read_told_text(column_type, modes)
    if charset == "swe7":
        return lambda value: value.translate(_SWE7) if type(value) is str else told(value)
    if charset not in _WIDE:
        return told

    def text(value: Any) -> Any:
        if type(value) is not str:
            return told(value)
        decoded = decode_text(value.encode(), charset) if value.isascii() else None
        return {"text": value} if decoded is None else decoded

    return text


def read_text_of_driver(column_type: ColumnType, _: Modes) -> Rule | None:
    """Text that Debezium has read from the binlog by Java's charsets: in place of what they can't read is
    U+FFFD, and some characters are others than the server's.
    """
    others = read_by_driver(column_type.charset)
    if others is None:
        return None

    def text(value: Any) -> Any:
        if type(value) is not str or value.isascii():
            return value
        return {"text": value} if LOST in value else value.translate(others)

    return text


def read_json_of_debezium(_: ColumnType, __: Modes) -> Rule:
    return lambda value: with_short_doubles(value) if type(value) is str else value


def read_told_json(_: ColumnType, __: Modes) -> Rule:
    """JSON text, or the server's binary form, which has NUL bytes or a control character first."""

    def text(value: Any) -> Any:
        data = told_bytes(value)
        if data is None:
            return value
        decoded = None if b"\0" in data else decode_text(data, "utf8mb4")
        if decoded and decoded.lstrip(" \t\r\n")[:1] >= " ":
            return decoded
        try:
            return json_text(data)
        except ValueError:
            return value

    return text


def read_told_bits(_: ColumnType, __: Modes) -> Rule:
    """The number of a BIT."""

    def bits(value: Any) -> Any:
        data = told_bytes(value)
        return integer_text(value) if data is None or len(data) > 8 else int.from_bytes(data, "big")

    return bits


def read_told_binary(_: ColumnType, __: Modes) -> Rule:
    """Bytes as base64, as silver has them."""
    return lambda value: value if told_bytes(value) is None else value["base64"]


def read_told_vector(_: ColumnType, __: Modes) -> Rule:
    """A vector as the server prints it."""

    def vector(value: Any) -> Any:
        data = told_bytes(value)
        return value if data is None or len(data) % 4 else vector_text(bytes_vector(data))

    return vector


def read_debezium_binary(column_type: ColumnType, modes: Modes) -> Rule | None:
    mode = modes.get("binary.handling.mode")
    if mode == "hex":
        return _from_hex
    if mode == "base64-url-safe":
        return lambda value: value.replace("-", "+").replace("_", "/") if type(value) is str else value
    return None if mode == "base64" else functools.partial(_hex_or_base64, column_type)


def may_be_hex(value: Any) -> bool:
    return type(value) is str and _BYTES_IN_HEX.fullmatch(value) is not None


def _hex_or_base64(column_type: ColumnType, value: Any) -> Any:
    """Bytes where the mode is not said: base64, unless only hex has that many bytes. What may be either is no
    value of the column.
    """
    if not may_be_hex(value):
        return value
    longest = column_type.length if column_type.base in ("binary", "varbinary") else None
    as_hex, as_base64 = len(value) // 2, len(value) // 4 * 3
    if len(value) % 4 or (longest is not None and as_base64 > longest):
        return _from_hex(value)
    is_too_short = column_type.base == "binary" and as_hex < (longest or 0)  # BINARY(n) has n bytes
    return value if is_too_short or (longest is not None and as_hex > longest) else {"text": value}


def _from_hex(value: Any) -> Any:
    try:
        return base64_text(bytes.fromhex(value)) if type(value) is str else value
    except ValueError:
        return value
