"""The rows of `INSERT … VALUES (…),(…);`, cell by cell, as the server's own bytes.

    NULL                            None
    12, -1.5e10                     the text as it stands
    '…', "…", _binary '…', N'…'     what the quotes mean: backslash escapes (not in NO_BACKSLASH_ESCAPES) and
                                    doubled quotes undone
    0xC3A9, x'C3A9', b'101'         the bytes; of bits, the least whole number of bytes
    CONVERT('…' USING utf8mb4)      what the quotes mean: so mydumper writes MySQL's JSON

A charset introducer does not change bytes, so it is passed over. Other expressions are refused.
"""

import functools
import re
from collections.abc import Iterator
from typing import NoReturn

from lakehouse.sources.dumps.window import Window

Cell = bytes | None
Row = list[Cell]

_ESCAPED = {
    b"0": b"\0",
    b"b": b"\b",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"Z": b"\x1a",
    b"%": b"\\%",
    b"_": b"\\_",
}
# what Dumpling writes with escapes, its default; other text shows that it was told to write none
_DUMPLING_SQL = re.compile(rb"(?:[^\\\0\n\r\x1a\"']++|\\[0nr\\'\"Z])*+")
DUMPLING_CSV = re.compile(rb"(?:[^\\\0\n\r\"]++|\\[0nr\\\"])*+")
_INSIDE = re.compile(rb"\\(.)|''|\"\"", re.S)
_INTRODUCER = rb"(?:_[0-9A-Za-z]++\s*+|[nN](?='))?+"
_OPENING, _BETWEEN = re.compile(rb"\s*+\("), re.compile(rb"\s*+([,;])")
_BLANK = re.compile(rb"\s*+\Z")
# the groups of a cell's pattern, of which one has matched
_NULL, _NUMBER, _SINGLE, _, _HEX, _BITS, _SINGLE_CONVERTED, _ = range(1, 9)


def _quoted(quote: bytes, escapes: bool) -> bytes:
    """A quoted text without its quotes."""
    if escapes:
        return rb"[^\\Q]*+(?:(?:\\.|QQ)[^\\Q]*+)*+".replace(b"Q", quote)
    return rb"[^Q]*+(?:QQ[^Q]*+)*+".replace(b"Q", quote)


@functools.cache
def _patterns(escapes: bool) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """A cell with the comma or bracket behind it; and what may become one with more bytes."""
    single, double = _quoted(b"'", escapes), _quoted(b'"', escapes)
    cell = (
        rb"\s*+(?:(NULL)|([+-]?[0-9][0-9.eE+-]*+|[+-]?\.[0-9][0-9eE+-]*+)(?![xX0-9A-Za-z])|"
        + _INTRODUCER
        + rb"(?:'(%b)'|\"(%b)\"|(?:0[xX]|[xX]')([0-9A-Fa-f]*+)'?+|(?:0b|[bB]')([01]*+)'?+)"
        rb"|(?i:CONVERT)\(\s*+(?:'(%b)'|\"(%b)\")\s*+(?i:USING\s++utf8mb4)\s*+\))\s*+[,)]"
        % (single, double, single, double)
    )
    open_ = (
        rb"\s*+(?:(?i:CONVERT)\(\s*+)?+"
        + _INTRODUCER
        + rb"(?:'(?:%b)(?:\\|'[\s\w]*+\)?+\s*+)?+|\"(?:%b)(?:\\|\"[\s\w]*+\)?+\s*+)?+|"
        rb"[xXbB]'[0-9A-Fa-f]*+'?+\s*+|[\w.+-]*+\s*+)\Z" % (single, double)
    )
    return re.compile(cell, re.S), re.compile(open_, re.S)


def rows(window: Window, *, escapes: bool = True, dumpling: bool = False) -> Iterator[Row]:
    """The rows behind VALUES, up to the semicolon; the window is then behind it. LakehouseError for what is
    no row of literals, and in a file of Dumpling for text that shows `--escape-backslash=false`.
    """
    cell, unfinished = _patterns(escapes)
    while True:
        window.match(_OPENING, _BLANK, "a row in brackets")
        row: Row = []
        while True:
            found = window.match(cell, unfinished, "a literal and a comma or bracket")
            if dumpling and found.lastindex == _SINGLE and not _DUMPLING_SQL.fullmatch(found[_SINGLE]):
                fail_without_escapes(window)
            row.append(_value(found, escapes))
            if found[0].endswith(b")"):
                break
        yield row
        if window.match(_BETWEEN, _BLANK, "a comma or semicolon behind a row")[1] == b";":
            return


def fail_without_escapes(window: Window) -> NoReturn:
    """LakehouseError: a file of Dumpling has text that it does not write so with backslash escapes."""
    window.fail("text with backslash escapes, Dumpling's default", got="text of --escape-backslash=false")


def _value(found: re.Match[bytes], escapes: bool) -> Cell:
    kind = found.lastindex or _NULL
    data = found[kind]
    if kind == _NULL:
        return None
    if kind == _NUMBER:
        return data
    if kind == _HEX:
        return bytes.fromhex(("0" if len(data) % 2 else "") + data.decode())
    if kind == _BITS:
        return int(data or b"0", 2).to_bytes((len(data) + 7) // 8, "big")
    return unescaped(data, b"'" if kind in (_SINGLE, _SINGLE_CONVERTED) else b'"', escapes=escapes)


def unescaped(data: bytes, quote: bytes, *, escapes: bool) -> bytes:
    """What a quoted text means."""
    if not escapes:
        return data.replace(quote * 2, quote) if quote in data else data
    if b"\\" not in data and quote not in data:
        return data
    other = b'""' if quote == b"'" else b"''"

    def meaning(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return other if found[0] == other else quote
        return _ESCAPED.get(found[1], found[1])

    return _INSIDE.sub(meaning, data)
