r"""The rows of CSV files, as the server's own bytes.

    Dumpling    a comma between fields; text, dates and binary values in double quotes; a line of names
                first, unless `--no-header`. Lines end with LF or CRLF
    mydumper    as the LOAD DATA beside the file says (`lakehouse.sources.dumps.load_data`): `--csv` has
                commas, and double quotes around all but integers; `--load-data` has tabs and no quotes

Both escape by a backslash (Dumpling's `--escape-backslash`, its default), and write NULL as `\N`, bare.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from lakehouse.schema import Column
from lakehouse.sources.dumps.tuples import DUMPLING_CSV, Row, fail_without_escapes, unescaped
from lakehouse.sources.dumps.window import Window

_QUOTED, _BARE, _END = 1, 2, 3
# families of which Dumpling never has a bare value
_FAMILIES = frozenset({"text", "enum", "set", "json", "binary"})
_ANY, _NONE = re.compile(rb".++", re.S), re.compile(rb"(?!)")
_INTEGER, _HEX = re.compile(rb"-?+\d++"), re.compile(rb"(?:[0-9A-Fa-f]{2})*+")


class Field(NamedTuple):
    """A column of a file: what its values may be without quotes, and whether they are hexadecimal."""

    name: str
    bare: re.Pattern[bytes]
    is_hex: bool = False


class Dialect(NamedTuple):
    """How a file's rows are written. `field` matches a field and what ends it, `unfinished` what may become
    one with more bytes, and `text` what the dumper may write of text. `header`: whether the first line has
    the names (None: it has where it is equal to them).
    """

    field: re.Pattern[bytes]
    unfinished: re.Pattern[bytes]
    text: re.Pattern[bytes]
    separator: bytes
    header: bool | None


def _patterns(separator: bytes, quote: bytes, line: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """A field with what ends it, and what may become one; `line` is a pattern. No quote: all is bare."""
    first, ends = re.escape(separator[:1]), (re.escape(separator), line)
    quoted = rb"Q([^\\Q]*+(?:(?:\\.|QQ)[^\\Q]*+)*+)Q" if quote else rb"(?!)()"
    bare = rb"(?:[^\\%bQ\r\n]++|\\.)*+" % first
    begun = rb"Q[^\\Q]*+(?:(?:\\.|QQ)[^\\Q]*+)*+(?:\\|Q(?:BEGUN)?+)?+|" if quote else b""
    prefixes = [re.escape(separator[:size]) for size in range(len(separator) - 1, 0, -1)]
    field = rb"(?:%b|(%b))(%b|%b)" % (quoted, bare, *ends)
    unfinished = rb"(?:%b%b(?:\\|BEGUN)?+)\Z" % (begun, bare)
    unfinished = unfinished.replace(b"BEGUN", b"|".join([*prefixes, rb"\r"]))
    written = (text.replace(b"Q", quote) for text in (field, unfinished))
    whole, part = (re.compile(text, re.S) for text in written)
    return whole, part


DUMPLING = Dialect(*_patterns(b",", b'"', rb"\r?\n"), DUMPLING_CSV, b",", None)


def loaded(separator: bytes, quote: bytes, line: bytes, *, header: bool) -> Dialect:
    """The dialect of a LOAD DATA's file: mydumper escapes what mysql_real_escape_string does, and the first
    byte of the separator.
    """
    text = re.compile(
        rb"(?:[^\\\0\n\r\x1a\"']++|\\[0nrZ\\'\"%b])*+" % re.escape(separator[:1]),
    )
    return Dialect(*_patterns(separator, quote, re.escape(line)), text, separator, header)


def fields_of_dumpling(columns: Sequence[Column]) -> list[Field]:
    """The columns of Dumpling's file."""
    return [Field(one.name, _NONE if one.type.family in _FAMILIES else _ANY) for one in columns]


def field_of_mydumper(name: str, dialect: Dialect, quote: bytes, *, is_hex: bool) -> Field:
    """A column of mydumper's file, in which integers alone have no quotes, where there are any."""
    return Field(name, _HEX if is_hex else _INTEGER if quote else dialect.text, is_hex)


def csv_rows(window: Window, dialect: Dialect, fields: Sequence[Field]) -> Iterator[Row]:
    """The rows of a file, without its line of names. LakehouseError for what is no row, for text that is not
    escaped by backslashes, and for a bare value that the dumper does not write so.
    """
    first = True
    while window.peek(1):
        row, bare = _row(window, dialect)
        if not (first and _is_header(row, dialect, fields)):
            for place in bare:
                if place < len(fields):
                    row[place] = _meant(row[place] or b"", fields[place], window)
            yield row
        first = False


def _row(window: Window, dialect: Dialect) -> tuple[Row, list[int]]:
    """The next row, and the places of what has no quotes and is not NULL."""
    row, bare = list[bytes | None](), list[int]()
    while True:
        found = window.match(dialect.field, dialect.unfinished, "a field, and what ends it")
        text, value = found[_QUOTED], found[_BARE]
        if text is not None:
            if not dialect.text.fullmatch(text):
                _fail_without_escapes(window, dialect)
            row.append(unescaped(text, b'"', escapes=True))
        elif value == b"\\N":
            row.append(None)
        else:
            bare.append(len(row))
            row.append(value)
        if found[_END] != dialect.separator:
            return row, bare


def _is_header(row: Row, dialect: Dialect, fields: Sequence[Field]) -> bool:
    if dialect.header is None:
        return row == [field.name.encode() for field in fields]
    return dialect.header


def _meant(value: bytes, field: Field, window: Window) -> bytes:
    """What a value without quotes means."""
    if not field.bare.fullmatch(value):
        window.fail(
            "text in quotes, with escapes, and NULL as \\N, as the dumper writes it", got="a bare value"
        )
    if field.is_hex:
        return bytes.fromhex(value.decode())
    return unescaped(value, b'"', escapes=True) if b"\\" in value else value


def _fail_without_escapes(window: Window, dialect: Dialect) -> NoReturn:
    if dialect is DUMPLING:
        fail_without_escapes(window)
    window.fail("text with the escapes of mydumper", got="text without")
