r"""CSV records of the TiCDC storage sink, in every dialect its settings allow, and these settings.

    "I","orders","shop",470607110537740288,1001,"25.5000",\N     with a quote character: texts are quoted,
                                                                 quotes in them doubled, line breaks raw
    I|orders|shop|470607110537740288|1001|25.5000|a\|b\n         without: a backslash before \, CR, LF and
                                                                 the delimiter

A record is as many fields as the table's columns say, each of a *kind* (text, integer, number or boolean);
one compiled expression per dialect and kinds reads a whole record at once. A record that it does not fit is
read field by field, so that the reader can say what is wrong with it. The null word is NULL only where it
stands without quotes. A record without its terminator was cut off.

With a quote, what follows a broken quotation can't be framed: its Broken is the last item. Everything else
costs its own record only. Not decidable, and read from the left: without a quote, a text that begins or ends
with a part of a delimiter of several characters; with any dialect, a null word that equals a value.
"""

import binascii
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.formats.ticdc.storage_layout import DataFile, setting, switch
from lakehouse.values.scalars import base64_text, number, timestamp_utc

TEXT, INTEGER, NUMBER, BOOLEAN, BITS = "text", "integer", "number", "boolean", "bits"
_KINDS = {
    INTEGER: rb"-?[0-9]{1,20}",
    BITS: rb"[0-9]{1,20}",
    NUMBER: rb"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?",
    BOOLEAN: rb"true|false",
}
_CHECKS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}
# TiCDC before 6.5.9, 7.1.5 and 7.5.2 writes a default that it fills in itself as text: of a BIT its bytes
_CHECKS[BITS] = re.compile(rb"[0-9]{1,20}|.{1,8}", re.S)
_NO_TEXT = re.compile(b"|".join(b"(?:%s)" % pattern for pattern in _KINDS.values()))
# A producer escapes a non-ASCII delimiter byte by byte, and writes each byte as the character of that number.
_ESCAPE = re.compile(rb"\\(?:([\xc2\xc3][\x80-\xbf])|(.))", re.S)

Row = tuple[bytes | None, ...]


class Dialect(NamedTuple):
    """The sink's settings, as bytes. An empty quote means backslash escapes."""

    delimiter: bytes = b","
    quote: bytes = b'"'
    null: bytes = b"\\N"
    terminator: bytes = b"\r\n"

    @property
    def null_may_be_text(self) -> bool:
        """Whether a text can be written as the null word is: nothing quotes or escapes it."""
        return not self.quote and not re.search(rb"[\\\r\n]", self.null) and self.delimiter not in self.null


class Broken(NamedTuple):
    """A record that is none: `code` is columns, value, framing or truncated."""

    code: str
    text: str


class Settings(NamedTuple):
    """How the sink writes: its dialect, the meta fields of a record, the encoding of binary values, and the
    zone of timestamps.
    """

    dialect: Dialect
    meta: tuple[str, ...]
    binary: str
    zone: str


META = {
    "operation": TEXT,
    "table": TEXT,
    "schema": TEXT,
    "commit-ts": INTEGER,
    "is-update": BOOLEAN,
    "handle-key": TEXT,
}
_SWITCHES = {
    "commit-ts": "include-commit-ts",
    "is-update": "output-old-value",
    "handle-key": "output-handle-key",
}
META_PREFIX = b"ticdc-meta$"  # of their names in a header


def read_settings(options: Mapping[str, str]) -> Settings:
    """How the sink writes CSV."""
    meta = tuple(name for name in META if name not in _SWITCHES or switch(options, _SWITCHES[name]))
    delimiter, quote, null, terminator = (
        setting(options, name).encode() for name in ("delimiter", "quote", "null", "terminator")
    )
    if not delimiter or len(quote) > 1 or (quote and quote in delimiter):
        raise DecodeError(
            "option",
            (
                "delimiter, quote: expected a delimiter, and a quote of one byte that is not in it, got "
                "something else"
            ),
        )
    return Settings(
        Dialect(delimiter, quote, null, terminator or b"\r\n"),
        meta,
        setting(options, "binary-encoding-method"),
        setting(options, "time_zone"),
    )


def rows(
    data: bytes, start: int, dialect: Dialect, kinds: tuple[str, ...], *, of_key: tuple[str, ...] = ()
) -> Iterator[Row | Broken]:
    """The records from `start` on, one item each, unescaped; values that are not text fit their kind.
    `of_key` are the kinds of a delete that has the key alone.
    """
    match = _record(dialect, kinds).match
    unescape = _unescaper(dialect, kinds)
    # Without this in it a record needs no unescaping, and has no NULL that its groups do not tell.
    mark = dialect.quote * 2 if dialect.quote else b"\\" if dialect.null.startswith(b"\\") else b""
    position = start
    while position < len(data):
        found = match(data, position)
        if found:
            end = found.end()
            yield unescape(found.groups()) if data.find(mark, position, end) >= 0 else found.groups()
            position = end
            continue
        fields, behind = split(data, position, dialect)
        is_short = len(fields) == len(of_key) and fields[0] == b"D"
        yield fields if isinstance(fields, Broken) else _checked(fields, of_key if is_short else kinds)
        if behind is None:
            return
        position = behind


def split(data: bytes, position: int, dialect: Dialect) -> tuple[Row | Broken, int | None]:
    """One record of any number of fields, unescaped, and where the next one begins: None where that can't be
    told.
    """
    field, fields, is_odd = _field(dialect), [], False
    while True:
        found = field.match(data, position)
        end = found.end() if found else position
        fields.append(_value(found[1], found[2], dialect) if found else None)
        is_odd = is_odd or (
            found is not None and is_bare_word(found[2], dialect) and found[2] != dialect.null
        )
        if data.startswith(dialect.delimiter, end):
            position = end + len(dialect.delimiter)
        elif data.startswith(dialect.terminator, end):
            row = (
                Broken(
                    "value",
                    "row: expected quotes around text, got a word without: is `null` as its feed has it?",
                )
                if is_odd
                else tuple(fields)
            )
            return row, end + len(dialect.terminator)
        else:
            return _unframed(data, end, dialect), None


def first_rows(data: bytes, start: int, dialect: Dialect) -> list[Row]:
    """The first 16 records that can be read."""
    found: list[Row] = []
    position: int | None = start
    while position is not None and position < len(data) and len(found) < 16:
        fields, position = split(data, position, dialect)
        if not isinstance(fields, Broken):
            found.append(fields)
    return found


def is_bare_word(value: bytes | None, dialect: Dialect) -> bool:
    """Whether a field without quotes, where texts have them, can only be the null word."""
    return bool(dialect.quote) and value is not None and not _NO_TEXT.fullmatch(value)


def bare_words(data: bytes, dialect: Dialect) -> set[bytes]:
    """The words without quotes in a file's records that are neither numbers nor booleans: the null word."""
    field, position, words = _field(dialect), 0, set()
    while position < len(data) and (found := field.match(data, position)):
        if found[2] is not None and is_bare_word(found[2], dialect):
            words.add(found[2])
        separator = next(
            (each for each in (dialect.delimiter, dialect.terminator) if data.startswith(each, found.end())),
            None,
        )
        if separator is None:
            break
        position = found.end() + len(separator)
    return words


def _unframed(data: bytes, end: int, dialect: Dialect) -> Broken:
    if end >= len(data) or not dialect.quote or data.startswith(dialect.quote, end):
        return Broken("truncated", "row: expected the terminator at its end, got the end of the file")
    return Broken("framing", "row: expected a delimiter or the terminator behind a value, got something else")


def _checked(fields: Row, kinds: tuple[str, ...]) -> Row | Broken:
    if len(fields) != len(kinds):
        return Broken("columns", f"row: expected {len(kinds)} fields, got {len(fields)}")
    for place, (value, kind) in enumerate(zip(fields, kinds, strict=True), 1):
        if value is not None and kind != TEXT and not _CHECKS[kind].fullmatch(value):
            return Broken("value", f"row: expected field {place} to be of kind {kind}, got something else")
    return fields


# The expressions


@functools.lru_cache(maxsize=512)
def _record(dialect: Dialect, kinds: tuple[str, ...]) -> re.Pattern[bytes]:
    """One whole record, a group per field; a NULL's group is unmatched (without a quote: holds the null word,
    for texts).
    """
    null = re.escape(dialect.null)
    text = rb"(?:%s|%s)" % (_quoted(dialect.quote), null) if dialect.quote else b"(%s)" % _escaped(dialect)
    fields = [text if kind == TEXT else b"(?:%s|(%s))" % (null, _KINDS[kind]) for kind in kinds]
    return re.compile(re.escape(dialect.delimiter).join(fields) + re.escape(dialect.terminator), re.S)


@functools.lru_cache(maxsize=64)
def _field(dialect: Dialect) -> re.Pattern[bytes]:
    """One field: the inside of a quotation, or what stands up to the next delimiter or terminator."""
    if not dialect.quote:
        return re.compile(rb"(?P<quoted>(?!))?(%s)" % _escaped(dialect), re.S)
    ends = b"|".join(map(re.escape, (dialect.delimiter, dialect.terminator)))
    return re.compile(
        rb"%s|((?:(?!%s)[^%s])*+)" % (_quoted(dialect.quote), ends, re.escape(dialect.quote)), re.S
    )


def _quoted(quote: bytes) -> bytes:
    mark = re.escape(quote)
    return rb"%s([^%s]*+(?:%s%s[^%s]*+)*+)%s" % (mark, mark, mark, mark, mark, mark)


def _escaped(dialect: Dialect) -> bytes:
    """The null word, which nothing escapes, or bytes up to an unescaped delimiter or terminator."""
    firsts = re.escape(bytes(sorted({dialect.delimiter[0], dialect.terminator[0]})))
    ends = b"|".join(map(re.escape, (dialect.delimiter, dialect.terminator)))
    return rb"%s(?=%s)|(?:[^\\%s]++|\\.|(?!%s)[%s])*+" % (re.escape(dialect.null), ends, firsts, ends, firsts)


# Unescaping


def _unescaper(dialect: Dialect, kinds: tuple[str, ...]) -> Callable[[Row], Row]:
    texts = tuple(kind == TEXT for kind in kinds)
    if dialect.quote:
        double, quote = dialect.quote * 2, dialect.quote
        return lambda row: tuple([v.replace(double, quote) if v and double in v else v for v in row])
    return lambda row: tuple(
        [_value(None, v, dialect) if is_text else v for v, is_text in zip(row, texts, strict=True)]
    )


def _value(quoted: bytes | None, bare: bytes | None, dialect: Dialect) -> bytes | None:
    """One field's bytes, or None for NULL."""
    if quoted is not None:
        return quoted.replace(dialect.quote * 2, dialect.quote)
    if bare is None or bare == dialect.null:
        return None
    return _ESCAPE.sub(_unescape, bare) if not dialect.quote and b"\\" in bare else bare


def _unescape(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return found[1].decode().encode("latin-1")
    return {b"n": b"\n", b"r": b"\r"}.get(found[2], found[2])


def sent_order(file: DataFile, first: int | None, orders: bytes) -> tuple[str, ...]:
    """The order of a file's columns: its rows are of one schema, which is not the folder's where they are
    older or newer. `first` is the commit ts of the first one.
    """
    told = msgspec.json.decode(orders, type=list[tuple[int, tuple[str, ...]]])
    before = file.version if first is None else max(first - 1, 0)
    if first is None and told[-1][0] > file.version:
        text = "data file: expected one order of its columns, got several, which only commit ts tells apart"
        raise DecodeError("columns", text)
    names = [names for version, names in told if version <= before][-1]
    if not names:
        text = "data file: expected a schema file of before its rows, older than its folder, got none"
        raise DecodeError("columns", text)
    return names


# Values


TEXT_CONVERTER: Callable[[bytes], Any] = bytes.decode
KINDS_OF = {"integer": INTEGER, "bit": BITS, "year": INTEGER, "float": NUMBER, "double": NUMBER}
_DECIMAL = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")


def converter(family: str, settings: Settings) -> Callable[[bytes], Any]:
    """The function from a field's bytes to its canonical value; it raises ValueError for what is no value of
    the family.
    """
    if family in ("binary", "geometry"):
        return _from_hex if settings.binary == "hex" else _from_base64
    if family == "timestamp":
        return lambda data: timestamp_utc(data.decode(), settings.zone)
    return _CONVERTERS.get(KINDS_OF.get(family, family), TEXT_CONVERTER)


def _from_hex(data: bytes) -> str:
    return base64_text(binascii.unhexlify(data))


def _from_base64(data: bytes) -> str:
    return base64_text(binascii.a2b_base64(data, strict_mode=True))


def _bits(data: bytes) -> int:
    return int(data) if data.isdigit() else int.from_bytes(data, "big")


def _decimal(data: bytes) -> str:
    if not _DECIMAL.fullmatch(data):
        raise ValueError("no decimal")
    return data.decode()


_CONVERTERS: dict[str, Callable[[bytes], Any]] = {
    INTEGER: int,
    BITS: _bits,
    NUMBER: lambda data: number(data.decode()),
    "decimal": _decimal,
}
