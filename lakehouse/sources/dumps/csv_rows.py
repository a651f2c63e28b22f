"""The rows of Dumpling's CSV files, as the server's own bytes.

Fields are separated by commas; text, dates and binary values are in double quotes, with backslash escapes
(`--escape-backslash`, the default); numbers are bare; NULL is `\\N`, bare. Lines end with
CRLF or LF. The first line has the columns' names, unless `--no-header`.
"""

import re
from collections.abc import Iterator, Sequence

from lakehouse.sources.dumps.tuples import DUMPLING_CSV, Row, fail_without_escapes, unescaped
from lakehouse.sources.dumps.window import Window

_QUOTED, _BARE, _END = 1, 2, 3
_FIELD = re.compile(rb"(?:\"([^\\\"]*+(?:(?:\\.|\"\")[^\\\"]*+)*+)\"|([^,\r\n\"]*+))(,|\r?\n)", re.S)
_UNFINISHED = re.compile(rb"(?:\"[^\\\"]*+(?:(?:\\.|\"\")[^\\\"]*+)*+(?:\\|\"\r?)?+|[^,\r\n\"]*+\r?)\Z", re.S)


def csv_rows(window: Window, names: Sequence[str], quoted: Sequence[bool] = ()) -> Iterator[Row]:
    """The rows of a file, without its line of names. LakehouseError for what is no row, for text that shows
    `--escape-backslash=false`, and for a bare value that is none of Dumpling's defaults: an empty one, or one
    in a column whose values are `quoted`.
    """
    first = True
    while window.peek(1):
        row, bare = list[bytes | None](), list[int]()
        while True:
            found = window.match(_FIELD, _UNFINISHED, "a field, and a comma or the end of the line")
            text, value = found[_QUOTED], found[_BARE]
            if text is not None:
                if not DUMPLING_CSV.fullmatch(text):
                    fail_without_escapes(window)
                value = unescaped(text, b'"', escapes=True)
            elif value != b"\\N":
                bare.append(len(row))
            row.append(None if text is None and value == b"\\N" else value)
            if found[_END] != b",":
                break
        if not (first and _is_header(row, names)):
            if any(not row[place] or (place < len(quoted) and quoted[place]) for place in bare):
                window.fail("text in double quotes and NULL as \\N, Dumpling's defaults", got="a bare value")
            yield row
        first = False


def _is_header(row: Row, names: Sequence[str]) -> bool:
    return row == [name.encode() for name in names]
