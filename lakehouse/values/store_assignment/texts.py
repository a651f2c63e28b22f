"""Cells stored into columns of text, bytes, addresses and JSON."""

import codecs
from decimal import Decimal

from lakehouse.schema import ColumnType
from lakehouse.values.charsets import bytes_codec
from lakehouse.values.mysql_json import double_text, stored, stored_at_tidb
from lakehouse.values.normal_form import (
    ADDRESS_SIZES,
    address_bytes,
    address_text,
    duration_text,
    fraction,
)
from lakehouse.values.scalars import base64_text
from lakehouse.values.server_value import (
    Address,
    Bits,
    Cell,
    Dated,
    Document,
    Label,
    NoRule,
    Span,
    as_text,
    is_json,
)
from lakehouse.values.store_assignment.target import Target
from lakehouse.values.temporal import day_text, moment_text

_TIERS = {"tiny": 255, "": 65535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}


def store_text(cell: Cell, target: Target) -> str:
    """Cut at the column's length; CHAR drops its last spaces; a character that the charset lacks
    becomes `?`.
    """
    column = target.type
    codec = bytes_codec(column.charset, target.server)
    if codec is None:
        raise NoRule(f"charset {column.charset}")
    text = _decoded(cell, target, codec)
    if not text.isascii() and codec != "utf-8":
        text = text.encode(codec, "replace").decode(codec)
    if column.charset in ("utf8", "utf8mb3", "ucs2"):
        text = "".join(char if char <= "\uffff" else "?" for char in text)
    if column.base in ("char", "varchar"):
        text = text[: column.size]
        return text.rstrip(" ") if column.base == "char" else text
    return (
        text
        if len(text) * 4 <= capacity(column)
        else text.encode(codec)[: capacity(column)].decode(codec, "ignore")
    )


def _decoded(cell: Cell, target: Target, codec: str) -> str:
    if isinstance(cell, Bits):
        if target.server == "tidb" or target.type.base in ("char", "varchar"):
            return as_text(cell, target.server)
        cell = _bit_bytes(cell)
    if not isinstance(cell, bytes):
        return as_text(cell, target.server)
    try:
        return cell.decode(codec, "lakehouse.question" if target.server == "mariadb" else "strict")
    except UnicodeDecodeError:
        raise NoRule("bytes that are no text of the column's charset") from None


def _question(error: UnicodeError) -> tuple[str, int]:
    """MariaDB puts a question mark for each byte that is no text."""
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


codecs.register_error("lakehouse.question", _question)


def store_binary(cell: Cell, target: Target) -> str:
    """The bytes of the old column's text, cut at the length; BINARY(n) is filled with zero bytes."""
    column = target.type
    data = _encoded(cell, target)
    if column.base in ("binary", "varbinary"):
        data = data[: column.size]
        return base64_text(data.ljust(column.size, b"\0") if column.base == "binary" else data)
    return base64_text(data[: capacity(column)])


def _encoded(cell: Cell, target: Target) -> bytes:
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, Address):
        return cell.data
    if isinstance(cell, Document):
        return as_text(cell, target.server).encode()
    if isinstance(cell, Bits) and target.server != "tidb" and target.type.base.endswith("blob"):
        return _bit_bytes(cell)
    text = as_text(cell, target.server)
    if target.codec is None and not text.isascii():
        raise NoRule("the old column's charset")
    return text.encode(target.codec or "ascii", "replace")


def _bit_bytes(cell: Bits) -> bytes:
    return cell.value.to_bytes((cell.width + 7) // 8, "big")


def capacity(column: ColumnType) -> int:
    """The bytes that a TEXT or BLOB holds; TEXT(n) and BLOB(n) are the smallest of them that hold n."""
    family = "text" if column.base.endswith("text") else "blob"
    if column.length is None or column.base not in ("text", "blob"):
        return _TIERS[column.base.removesuffix(family)]
    needed = column.length * (4 if family == "text" else 1)
    return next((size for size in _TIERS.values() if size >= needed), _TIERS["long"])


def store_address(cell: Cell, target: Target) -> str | None:
    """INET4, INET6 or UUID (MariaDB's): text that prints one, or as many bytes as it has; NULL for any
    other.
    """
    base = target.type.base
    match cell:
        case Address("inet4", data) if base == "inet6":
            return address_text(base, bytes(10) + b"\xff\xff" + data)
        case bytes():
            return address_text(base, cell) if len(cell) == ADDRESS_SIZES[base] else None
        case str() | Label():
            read = address_bytes(base, as_text(cell, target.server))
            return None if read is None else address_text(base, read)
        case _:
            raise NoRule(f"no rule into {base}")


def store_json(cell: Cell, target: Target) -> str:
    """Text that is JSON stays as it is at MariaDB; MySQL and TiDB print it in their own ways. A number is its
    own text, a double at TiDB where it is none of the integers. Anything else the server refuses.
    """
    if isinstance(cell, Document):
        return cell.text
    if target.server == "tidb" and (told := _tidb_json(cell)) is not None:
        return told
    if isinstance(cell, Dated | Span | Bits | bytes | Address):
        raise NoRule("no rule into JSON")
    text = as_text(cell, target.server)
    if not is_json(text):
        raise NoRule("text that is not JSON")
    return text if target.server == "mariadb" else _json_stored(text, target.server)


def _tidb_json(cell: Cell) -> str | None:
    match cell:
        case float() | Decimal():
            return double_text(float(cell))
        case Dated(moment, digits):
            return f'"{day_text(moment) if digits is None else moment_text(moment, 6)}"'
        case Span(micros, _):
            return f'"{fraction(duration_text(micros), 6)}"'
        case _:
            return None


def _json_stored(text: str, server: str) -> str:
    try:
        return stored(text) if server == "mysql" else stored_at_tidb(text)
    except (ValueError, OverflowError):
        raise NoRule("JSON with a member twice, or a number beyond a double") from None
