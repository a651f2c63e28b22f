"""Values that came as bytes in base64, `{"base64": …}`, whose kind or charset the message does not tell: the
column's type does. Each rule returns the value itself where it can't read it.
"""

from collections.abc import Mapping
from typing import Any

from lakehouse.schema import ColumnType
from lakehouse.values.charsets import decode_text
from lakehouse.values.mysql_json import json_text
from lakehouse.values.normal_form import Rule, bytes_of, bytes_vector, vector_text

Modes = Mapping[str, str]
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})


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
    if charset not in _WIDE:
        return told

    def text(value: Any) -> Any:
        if type(value) is not str:
            return told(value)
        decoded = decode_text(value.encode(), charset) if value.isascii() else None
        return {"text": value} if decoded is None else decoded

    return text


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
