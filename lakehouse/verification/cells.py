"""A cell as text, so that equal values have equal texts, whether they were read from gold or from the server.

    checksum text   what the server computes by SQL (`checksum_sql`) and this side in Python
                    (`Cell.checksum`): numbers, dates and times as the server prints them, MD5 of text (as
                    UTF-8) and of bytes
    compared text   of any type, from canonical values: what decides whether two cells are equal

A checksum is only taken where the server's type and gold's print alike. FLOAT and DOUBLE, of which a server
prints too few digits or in a form of its own, JSON, whose text every feed writes in its own way, geometry,
VECTOR, INET4, INET6 and UUID have none: their values are read and compared on this side. JSON is compared as
a value, numbers by their value.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, NamedTuple

from lakehouse.fold.upcast import source_text
from lakehouse.formats.snapshot.decode import converter
from lakehouse.formats.snapshot.records import TextColumn
from lakehouse.schema import Column, ColumnType, parse_type
from lakehouse.sources.server_sql import printed, word
from lakehouse.values.gold_types import to_canonical
from lakehouse.values.normal_form import (
    ADDRESS_SIZES,
    address_bytes,
    address_text,
    bytes_of,
    normal_form,
)

Text = Callable[[Any], str]
NULL = "N"
# of Decimal's own context a number keeps 28 digits
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_TEMPORAL = ("date", "datetime", "timestamp", "time")


class ServerColumn(NamedTuple):
    """A column as the server's information_schema describes it; `virtual`: it is computed when it is read;
    `no_pad`: of one of MariaDB's NO PAD collations.
    """

    name: str
    type: str
    virtual: bool = False
    in_key: bool = False
    no_pad: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """How one column is compared: its name in the source, the column as gold has it (under gold's name), the
    raw companion beside it, and what the server says of it.
    """

    name: str
    gold: Column
    companion: str
    server: ServerColumn

    @property
    def checksum(self) -> Text | None:
        """The checksum text of a canonical value that is not None; None where the types have none."""
        kind = _kind(self.gold.type)
        return (
            _CHECKSUMS[kind[0]] if kind is not None and kind == _kind(parse_type(self.server.type)) else None
        )

    @property
    def compared(self) -> Text:
        """The compared text of a canonical value of gold, or of its raw companion."""
        return compared_text(self.gold.type)

    def from_gold(self) -> Callable[[Any, str | None], Any]:
        """The canonical value of gold's cell and its raw companion."""
        read = to_canonical(self.gold.type)
        return lambda value, raw: raw if value is None else read(value)

    def from_server(self) -> Callable[[bytes | None], Any]:
        """The canonical value of what `read_sql` reads, as gold has it; ValueError for what is none."""
        read = converter(TextColumn(self.name, self.server.type), "utf8mb4", "UTC")
        form = normal_form(self.gold.type) or (lambda value: value)
        return lambda cell: None if cell is None else form(read(cell))


# --- on the server


def checksum_sql(cell: Cell) -> str:
    """The SQL of the checksum text; NULL has a text of its own."""
    name, family = word(cell.name), parse_type(cell.server.type).family
    match family:
        case "integer" | "bit" | "year":
            text = f"CAST({name} + 0 AS CHAR)"
        case "text" | "enum" | "set":
            text = f"MD5(CONVERT({name} USING utf8mb4))"
        case "binary":
            text = f"MD5({name})"
        case _:
            text = f"CAST({name} AS CHAR)"
    return f"IFNULL({text}, '{NULL}')"


def read_sql(cell: Cell) -> str:
    """The SQL of the value itself."""
    return printed(cell.name, parse_type(cell.server.type).family)


# --- on this side


def _kind(column_type: ColumnType) -> tuple[str, int] | None:
    """What the checksum text of a type depends on; None where it has none."""
    family = column_type.family
    match family:
        case "integer" | "bit" | "year" | "enum" | "set":
            return family, 0
        case "decimal" if column_type.length is not None and not column_type.zerofill:
            return family, column_type.scale or 0
        case "text" if column_type.base not in ADDRESS_SIZES:
            return family, 0
        case "binary":
            # BINARY(n) is compared with its length: gold fills it up to that
            return family, (column_type.length or 0) if column_type.base == "binary" else -1
        case _ if family in _TEMPORAL:
            return family, column_type.length or 0
    return None


def digest(data: bytes) -> str:
    """A digest as MD5() prints it. It finds errors, it keeps nothing secret."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest_of_text(value: Any) -> str:
    return digest(_utf8(source_text(value)))


def _digest_of_bytes(value: Any) -> str:
    data = bytes_of(value) if isinstance(value, str) else None
    return _digest_of_text(value) if data is None else digest(data)


_CHECKSUMS: dict[str, Text] = {
    **dict.fromkeys(("integer", "bit", "year", "decimal", *_TEMPORAL), str),
    **dict.fromkeys(("text", "enum", "set"), _digest_of_text),
    "binary": _digest_of_bytes,
    "timestamp": lambda value: str(value).removesuffix("Z"),
}


def compared_text(column_type: ColumnType) -> Text:
    """The rule that makes a canonical value, or a raw companion's text, the text that is compared."""
    if column_type.family == "json":
        return _json_text
    if column_type.base in ADDRESS_SIZES:
        return lambda value: _address(column_type.base, source_text(value))
    if column_type.family in ("float", "double"):
        return lambda value: (
            repr(float(value) + 0.0) if isinstance(value, float | int) else source_text(value)
        )
    return source_text


def _json_text(value: Any) -> str:
    text = source_text(value)
    try:
        found = json.loads(text, parse_int=Decimal, parse_float=Decimal, object_pairs_hook=_members)
        return json.dumps(found, sort_keys=True, ensure_ascii=False, default=_number_text)
    except (ValueError, ArithmeticError, RecursionError):
        return text


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; MariaDB keeps members whose names are there twice."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else {"\0": pairs}


def _number_text(number: Decimal) -> str:
    """All of its digits, marked, so that hardly a string is equal to it."""
    return f"\0{(number or Decimal()).normalize(_EXACT)}"


def _address(base: str, text: str) -> str:
    """As MariaDB prints it. Feeds may have its bytes instead, which gold keeps as base64."""
    data = address_bytes(base, text) or bytes_of(text)
    return address_text(base, data) if data is not None and len(data) == ADDRESS_SIZES[base] else text
