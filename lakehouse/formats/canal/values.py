"""Values of the Canal family: text or null on the wire, told apart by `mysqlType`.

TiCDC's canal-json and Alibaba Canal print alike: integers, BIT, the ENUM index and the SET mask as decimal
text, binary as the characters U+0000 to U+00FF, everything else as MySQL prints it. Where they differ
(Canal's decimals without their scale, MariaDB's JSON) the format's own module says so.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Image
from lakehouse.formats.binlog import COMMENTS
from lakehouse.formats.invalid_text import MARK
from lakehouse.schema import INTEGER_BITS, parse_type
from lakehouse.values.normal_form import PRINTED, normal_form
from lakehouse.values.scalars import (
    ZONED,
    base64_text,
    bit_bytes,
    integer,
    latin1_base64,
    number,
    timestamp_utc,
)

# the java.sql.Types codes of bytes: BLOB, and before 1.1.7, whose NULLs have the code of the binlog's own
# type, BINARY to LONGVARBINARY
_BYTES = frozenset({2004, -2, -3, -4})
# the first words of a statement that Canal could not read, which is no text of a row event
_SET = r"SET\s+STATEMENT\s(?:[^'\"]|'[^']*'|\"[^\"]*\")*?\sFOR\s+"  # of MariaDB, for one statement
_DDL = re.compile(
    rf"{COMMENTS}(?:{_SET})?(?:ALTER|DROP|RENAME|TRUNCATE|CREATE(?!.*\bSELECT\b))\b", re.I | re.S
)
# what LogEventConvert.isText knows, and decodes
_TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
Convert = Callable[[str], Any]
Converters = list[tuple[str, Convert]]
WireRow = Mapping[str, str | None]
# the key that Alibaba's RDS and PolarDB-X give a table without one: no statement names it, yet its values are
# in the binlog
IMPLICIT_KEYS = frozenset({"#alibaba_rds_row_id#", "__#alibaba_rds_row_id#__", "_drds_implicit_id_"})
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+", re.A)
# what Java puts in place of bytes that are none of a charset, as it is and as JSON may escape it; and how a
# date in a document of MySQL's ends
_DOUBTFUL = (b"\xef\xbf\xbd", b"ufffd", b"uFFFD", b" 00:00:00.000000")
_DATE_OR_DATETIME = re.compile(r'"\d{4}-\d\d-\d\d 00:00:00\.000000"', re.A)
_CONTROLS = re.compile("[\0-\x1f]")
# a string of a document; what says that it is a member's name; an escape of anything but a quote
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?', re.S)
_OWN_BACKSLASH = re.compile(r'(?:[^\\]|\\")*\\[^"]', re.S)
_STRING_OR_NULL = re.compile(r'"(?:[^"\\]|\\.)*"|NULL', re.S)
_syntax = msgspec.json.Decoder(msgspec.Raw).decode
_DIFFERENCES = ("JSON_REPLACE(", "JSON_INSERT(", "JSON_ARRAY_INSERT(", "JSON_REMOVE(")


class Reading(NamedTuple):
    """How the rows of one shape are read: everything that their values do not change."""

    converters: Converters
    types: dict[str, str]
    indexed: bool
    typed: bool


def is_statement(kind: str, sql: str, database: str, table: str) -> bool:
    """Whether a message that does not say so has a statement. Before 1.1.5 Canal says it of no QUERY, as
    which it sends CREATE and DROP DATABASE and what it can't read. The text of row events, which is a QUERY
    too, has no database.
    """
    return kind == "QUERY" and (bool(database and sql) or (not table and _DDL.match(sql) is not None))


def is_spelled(type_text: str, code: int | None) -> bool:
    """Whether Canal spells a column's bytes as characters though they are text, by its `mysqlType` and
    `sqlType`: MariaDB's JSON, a TEXT with a length. Of a message the last row has set the code, which may be
    a NULL's.
    """
    return (
        code in _BYTES
        and type_text.lower() not in _TEXTS
        and parse_type(type_text).family in ("json", "text")
    )


@functools.lru_cache(maxsize=4096)
def is_of_mariadb(type_text: str, code: int | None) -> bool:
    """Whether only a MariaDB has a column of this `mysqlType` and `sqlType`: one of its own types, or JSON
    that is a TEXT in the binlog.
    """
    kind = parse_type(type_text)
    return kind.base in PRINTED or (kind.family == "json" and code in _BYTES)


def is_doubtful(data: bytes) -> bool:
    """Whether a message may hold values that Canal has changed: text in another charset than UTF-8, dates in
    JSON.
    """
    return any(mark in data for mark in _DOUBTFUL)


@functools.lru_cache(maxsize=4096)
def reading(
    names: tuple[str, ...],
    texts: tuple[str | None, ...],
    zone: str,
    spelled: tuple[str, ...] = (),
    *,
    coded: bool = True,
    doubtful: bool | None = None,
) -> Reading:
    """For columns and their `mysqlType` texts: what converts them, and whether some may hold an index,
    whether all are typed.

    `spelled` names the JSON and text columns whose UTF-8 bytes are spelled as characters. Not `coded`: the
    message has no `sqlType`, so it is not Canal's own. `doubtful`: whether Canal may have changed text or
    documents; None for TiCDC's messages.
    """
    types = {name: text for name, text in zip(names, texts, strict=True) if text is not None}
    if coded and doubtful is not None:  # Canal's parser prints a label's quotes twice, its backslashes once
        types = {name: text.replace("\\", "\\\\") for name, text in types.items()}
    found = [
        (name, convert)
        for name, text in types.items()
        if name not in spelled and (convert := converter(text, zone)) is not None
    ]
    if not coded:
        found = [
            (name, functools.partial(_characters_or_hex, read=convert) if is_bytes(types[name]) else convert)
            for name, convert in found
        ]
    if doubtful is not None:
        found += [
            (name, check)
            for name in types
            if name not in spelled
            for check in _checks(_unprinted(types[name]), doubtful=doubtful)
        ]
    indexed = any(parse_type(text).family in ("enum", "set") for text in types.values())
    found += [(name, document_of_latin1 if _is_json(types[name]) else utf8_of_latin1) for name in spelled]
    all_types = {**dict.fromkeys(names, ""), **types}
    return Reading(found, all_types, indexed, len(types) == len(names))


def is_bytes(type_text: str) -> bool:
    return parse_type(type_text).family in ("binary", "geometry")


def _unprinted(type_text: str) -> str:
    """The type's family, where its values come as they are."""
    kind = parse_type(type_text)
    return "" if kind.base in PRINTED else kind.family


def _is_json(type_text: str) -> bool:
    return parse_type(type_text).family == "json"


@functools.lru_cache(maxsize=4096)
def converter(type_text: str, zone: str) -> Convert | None:
    """The function for one type, None where the wire's text is canonical."""
    kind = parse_type(type_text)
    match kind.family:
        case "integer" if kind.unsigned:
            return functools.partial(_unsigned, bits=INTEGER_BITS[kind.base])
        case "integer" | "year":
            return integer
        case "bit":
            return functools.partial(_bit, length=kind.length or 1)
        case "float" | "double":
            return number
        case "enum" | "set":
            of_set = functools.partial(_mask_or_labels, labels=len(kind.members))
            return _index_or_label if kind.family == "enum" else of_set
        case "timestamp":
            return functools.partial(_instant, zone=zone)
        case "binary" if kind.base == "binary":
            return functools.partial(_padded, length=kind.length or 0)
        case "binary" | "geometry":
            return latin1_base64
        case "json":
            return _document
        case "text":
            return normal_form(kind)  # of INET4, INET6 and UUID
        case _:
            return None


def image(row: WireRow, columns: Iterable[tuple[str, Convert]]) -> Image:
    """A row's canonical values."""
    values: Image = dict(row)
    name = ""
    try:
        for name, convert in columns:
            value = values.get(name)
            if value is not None:
                values[name] = convert(value)
    except ValueError:
        raise DecodeError(
            "value", f"column {name}: expected a value of the type that the message names, got something else"
        ) from None
    return values


def _padded(text: str, length: int) -> str:
    """BINARY(n): Canal drops the zero bytes at its end."""
    return base64_text(text.encode("latin-1").ljust(length, b"\0"))


def _instant(text: str, zone: str) -> str:
    """Text in Canal's zone, or with its own (Tencent's DTS)."""
    found = ZONED.fullmatch(text) if text[-3:-2] == ":" and text[-6:-5] in ("+", "-") else None
    return timestamp_utc(found[1], found[2]) if found else timestamp_utc(text, zone)


def _characters_or_hex(text: str, read: Convert) -> Any:
    """Bytes as Canal spells them, or in hex, as Tencent's DTS may write them: what can be either stays
    open.
    """
    return {"hex or characters": text} if _HEX.fullmatch(text) else read(text)


def _unsigned(text: str, bits: int) -> int:
    """ZEROFILL and SERIAL, whose text has no `unsigned`, are signed to Canal."""
    value = integer(text)
    return value + (1 << bits) if value < 0 else value


def _bit(text: str, length: int) -> int | dict[str, str]:
    """TiCDC before 6.5.9, 7.1.5 and 7.5.2 prints the bytes of a default that it fills in itself: text that is
    no number. Canal before 1.1.1 takes a single byte for a signed one.
    """
    try:
        bits = integer(text)
    except ValueError:
        return bit_bytes(text)
    return bits + 256 if bits < 0 and length <= 8 else bits


def _document(text: str) -> str | dict[str, str]:
    """With binlog_row_value_options=PARTIAL_JSON MySQL logs what an update changed in a document, and Canal
    prints that as a call of functions (`JSON_REPLACE(j, '$.a', 1)`): no column holds it.
    """
    return {"difference": text} if text.startswith(_DIFFERENCES) else text


def _printed_document(text: Any) -> Any:
    """A document of no bytes, which ADD COLUMN … NOT NULL and INSERT IGNORE leave, is null to MySQL. Before
    1.1.5 Canal escapes no control characters in strings, and prints none elsewhere; before 1.1.4 it prints
    null as NULL. What is no document then has a name with a quote, which it escapes from 1.1.8 on.
    """
    if type(text) is not str or _is_document(text or "null") or text.startswith(MARK):
        return text or "null"
    escaped = _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)
    mended = _STRING_OR_NULL.sub(lambda found: "null" if found[0] == "NULL" else found[0], escaped)
    return mended if _is_document(mended) else {"text": text}


def _is_document(text: str) -> bool:
    try:
        _syntax(text)
    except RecursionError:
        return True
    except msgspec.DecodeError:
        return False
    return True


def _index_or_label(text: str) -> int | str:
    try:
        return integer(text)
    except ValueError:
        return text


def _mask_or_labels(text: str, labels: int) -> int | str:
    """The mask of 64 labels is a signed number to Canal, before 1.1.1 that of eight too."""
    value = _index_or_label(text)
    bits = 8 if 0 < labels <= 8 else 64
    return value + (1 << bits) if isinstance(value, int) and value < 0 else value


def document_of_latin1(text: str) -> str:
    """A JSON document, whose bytes are UTF-8 always: what is none, spelled as characters, is text already."""
    found = utf8_of_latin1(text)
    return found if isinstance(found, str) else text


def utf8_of_latin1(text: str) -> str | dict[str, str]:
    """Text whose bytes Canal printed as one character each, UTF-8 but for what only the column's charset can
    read; text that is not of that kind stays.
    """
    try:
        data = text.encode("latin-1")
    except UnicodeError:
        return text
    try:
        return data.decode()
    except UnicodeError:
        return {"base64": base64_text(data)}


def _whole_text(text: str) -> str | dict[str, str]:
    """Text of a charset that is not UTF-8 comes with U+FFFD in place of its bytes, which are lost: no column
    holds it, but one whose charset has that character.
    """
    return {"text": text} if "\ufffd" in text else text


def _told_dates(text: Any) -> Any:
    """A date in a document of MySQL's comes as a DATETIME at midnight, which others are."""
    return {"text": text} if type(text) is str and _DATE_OR_DATETIME.search(text) else text


def _told_names(text: Any) -> Any:
    """Before 1.1.8 Canal escapes nothing in the names of members: a backslash there may be the name's own."""
    if type(text) is not str or "\\" not in text:
        return text
    names = (found[1] for found in _STRING.finditer(text) if found[2])
    return {"text": text} if any(map(_OWN_BACKSLASH.match, names)) else text


def _checks(family: str, *, doubtful: bool) -> list[Convert]:
    """What Canal's values of a type go through, besides their converter."""
    if family == "json":
        return [_printed_document, _told_names, *([_told_dates] if doubtful else [])]
    return [_whole_text] if doubtful and family == "text" else []
