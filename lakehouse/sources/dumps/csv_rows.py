"""The rows of Dumpling's CSV files, as the server's own bytes.

Fields are separated by commas; text, dates and binary values are in double quotes, with backslash escapes
(`--escape-backslash`, the default) and doubled quotes; numbers are bare; NULL is `\\N`, bare. Lines end with
CRLF or LF. The first line has the columns' names, unless `--no-header`.
"""

import re
from collections.abc import Iterator, Sequence

from lakehouse.sources.dumps.tuples import Row, unescaped
from lakehouse.sources.dumps.window import Window

_QUOTED, _BARE, _END = 1, 2, 3
_FIELD = re.compile(rb"(?:\"([^\\\"]*+(?:(?:\\.|\"\")[^\\\"]*+)*+)\"|([^,\r\n\"]*+))(,|\r?\n)", re.S)
_UNFINISHED = re.compile(rb"(?:\"[^\\\"]*+(?:(?:\\.|\"\")[^\\\"]*+)*+(?:\\|\"\r?)?+|[^,\r\n\"]*+\r?)\Z", re.S)


def csv_rows(window: Window, names: Sequence[str]) -> Iterator[Row]:
    """The rows of a file, without its line of names. LakehouseError for what is no row."""
    first = True
    while window.peek(1):
        row: Row = []
        while True:
            found = window.match(_FIELD, _UNFINISHED, "a field, and a comma or the end of the line")
            quoted, bare = found[_QUOTED], found[_BARE]
            row.append(
                unescaped(quoted, b'"', escapes=True)
                if quoted is not None
                else None
                if bare == b"\\N"
                else bare
            )
            if found[_END] != b",":
                break
        if not (first and _is_header(row, names)):
            yield row
        first = False


def _is_header(row: Row, names: Sequence[str]) -> bool:
    return row == [name.encode() for name in names]
