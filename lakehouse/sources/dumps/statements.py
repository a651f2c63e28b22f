"""The statements of a dump's SQL file, one after another, without holding a whole file.

    Comment     one line behind `--` or `#`
    Statement   any statement as text, comments that servers execute (`/*!40101 SET … */`) among them
    Insert      the head of INSERT or REPLACE; its rows have to be read (`lakehouse.sources.dumps.tuples`)
                before the next statement

What stands under another DELIMITER (triggers, routines, events) is passed over.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from lakehouse.sources.dumps.window import Window

# of a statement without rows: no server has a longer one
_LONGEST = 1 << 26
_NAME = rb"(?:`(?:[^`]|``)++`|\"(?:[^\"]|\"\")++\"|[\w$\x80-\xff]++)"
_INSERT = re.compile(
    rb"(?:INSERT|REPLACE)\s++(?:IGNORE\s++)?+INTO\s++(?:(%b)\s*+\.\s*+)?(%b)\s*+"
    rb"(?:\(\s*+(%b(?:\s*+,\s*+%b)*+)\s*+\)\s*+)?+VALUES?(?=[\s(])" % (_NAME, _NAME, _NAME, _NAME),
    re.I,
)
_BEGUN = re.compile(rb".{0,1048576}\Z", re.S)
_ONE_NAME = re.compile(_NAME)
_LINE_BEGUN = re.compile(rb"[^\n]*+\Z")
_DELIMITER = re.compile(rb"DELIMITER[ \t]++([^\n]*+)\n", re.I)
_BACK = re.compile(rb"^DELIMITER[ \t]++;[ \t]*+\r?\n", re.I | re.M)
_PLAIN_COMMENT = re.compile(rb"/\*(?!M?!(?!9{6})|T!).*?\*/[ \t]*+;?", re.S)
# in a comment that servers execute, `*/` may stand in quotes: it is read like any other text
_ANY = re.compile(
    rb"((?:[^;'\"`/]++|'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\"|`(?:[^`]++|``)*+`"
    rb"|/\*(?!!|[MT]!).*?\*/|/(?!\*(?!!|[MT]!)))*+);",
    re.S,
)
_BEGUN_ANY = re.compile(rb".{0,%d}\Z" % _LONGEST, re.S)
_SPACE = re.compile(rb"\s*+")


class Comment(NamedTuple):
    """A line of comment, without its sign."""

    text: str
    offset: int


class Statement(NamedTuple):
    """A statement without its semicolon."""

    text: bytes
    offset: int


class Insert(NamedTuple):
    """The head of an INSERT: the names as they are written."""

    database: str | None
    table: str
    columns: tuple[str, ...] | None


def statements(window: Window) -> Iterator[Comment | Statement | Insert]:
    """The statements of a file. LakehouseError where one does not end, or no statement begins."""
    while head := _head(window):
        offset = window.offset
        if head[:2] == b"--" or head[:1] == b"#":
            yield Comment(_line(window).lstrip(b"-#").decode(errors="replace").strip(), offset)
        elif head.startswith(b"/*") and _comment(window):
            continue
        elif head[:9].upper() == b"DELIMITER":
            _pass_over(window)
        elif head[:6].upper() == b"INSERT" or head[:7].upper() == b"REPLACE":
            yield _insert(window)
        elif head[:9].upper() == b"LOAD DATA":
            # mydumper's: one line, of names and separators as they are, in which quotes may not be even
            yield Statement(_line(window).rstrip(b"; \r"), offset)
        else:
            text = window.match(_ANY, _BEGUN_ANY, "a statement that ends with a semicolon")[1]
            if text.strip():
                yield Statement(text.strip(), offset)


def _head(window: Window) -> bytes:
    """The first bytes of the next statement; none at the end."""
    while True:
        found = _SPACE.match(window.buffer, window.at)
        window.at = found.end() if found else window.at
        if window.at < len(window.buffer) or not window.more():
            return window.peek(16)


def _line(window: Window) -> bytes:
    """The rest of the line; the window is then behind it."""
    while (end := window.buffer.find(b"\n", window.at)) < 0 and window.more():
        pass
    end = len(window.buffer) if end < 0 else end
    line = window.buffer[window.at : end]
    window.at = min(end + 1, len(window.buffer))
    return line


def _comment(window: Window) -> bool:
    """Move behind a comment that no server executes; False where there is none."""
    while window.buffer.find(b"*/", window.at) < 0 and window.more():
        pass
    found = _PLAIN_COMMENT.match(window.buffer, window.at)
    if found is not None:
        window.at = found.end()
    return found is not None


def _pass_over(window: Window) -> None:
    """Move behind what stands under another delimiter."""
    delimiter = window.match(_DELIMITER, _LINE_BEGUN, "a delimiter")[1].strip()
    while delimiter != b";":
        found = _BACK.search(window.buffer, window.at)
        if found is not None:
            window.at = found.end()
            return
        # a line that has begun is looked at again
        window.at = max(window.buffer.rfind(b"\n", window.at) + 1, window.at)
        if not window.more():
            window.fail("DELIMITER ;")


def _insert(window: Window) -> Insert:
    found = window.match(_INSERT, _BEGUN, "INSERT INTO a table, and VALUES")
    columns = None if found[3] is None else tuple(name_of(name) for name in _ONE_NAME.findall(found[3]))
    return Insert(None if found[1] is None else name_of(found[1]), name_of(found[2]), columns)


def name_of(text: bytes) -> str:
    """A name as it is written: its quotes undone."""
    name = text.decode(errors="replace")
    if name[:1] in ("`", '"'):
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
