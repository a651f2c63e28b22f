"""Rows of the Open Protocol that are like one before: their changes as silver stores them, cut out of the
row's JSON by a pattern.

    row       {"u":{"id":{"t":3,"h":true,"f":11,"v":1},"name":{"t":15,"f":64,"v":"a"}}}
    pattern   all of it but the values, as the row before had it
    image     {"id":1,"name":"a"}

What the rows of a table have in common (names, types, flags, their order) is learnt of a row that the decoder
has read. A row that differs in anything but plain values, whose text has an escape, whose key changes or that
the decoder would give flags, is left to the decoder.
"""

import functools
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from lakehouse.events import DELETE, UPSERT, JsonChange, Message, RowChange
from lakehouse.formats.open_frames import is_one_frame

_EVENT_KEY = re.compile(
    rb'\{"ts":([1-9]\d{0,17}),"scm":"([^"\\\x00-\x1f]+)","tbl":"([^"\\\x00-\x1f]+)"'
    rb'(,"rid":(?:0|-?[1-9]\d{0,17}))?,"t":1\}'
).fullmatch
INTEGER = rb"(null|0|-?[1-9]\d{0,17})"
# no -0.0: where it was 0.0, or becomes it, the decoder gives both as the new one
FLOAT = rb"(null|0|-?[1-9]\d{0,14}|(?!-0\.0++\})-?(?:0|[1-9]\d{0,14})\.\d{1,20})"
TEXT = rb'(null|"[^"\\\x00-\x1f]*+")'
_MOST = 10_000

_json_of = msgspec.json.Encoder().encode
_text_of = msgspec.json.Decoder(str).decode
_float_of = msgspec.json.Decoder(float).decode

Place = tuple[bytes, bytes, bool, bytes]
Cells = tuple[bytes, ...]


class Sample(NamedTuple):
    """A row's columns: their names, the text before each value and the pattern of the value, what makes an
    image's value of one, the names of the key, and its change's encoding.
    """

    names: list[str]
    heads: list[bytes]
    values: list[bytes]
    convert: dict[str, Callable[[Any], Any]]
    key_names: tuple[str, ...]
    encoding: str


class Template(NamedTuple):
    """How rows of a table look: `pattern` finds the values of `size` columns, and of as many old ones in an
    update; `image` takes them, and `key` those that `key_of` picks.
    """

    pattern: Callable[[bytes, int], re.Match[bytes] | None]
    size: int
    image: bytes
    key_of: Callable[[Cells], bytes | Cells]
    key: bytes
    convert: tuple[tuple[int, Callable[[bytes], bytes]], ...]
    database: str
    table: str
    key_names: tuple[str, ...]
    types: bytes
    encoding: str


class Templates:
    """The templates of one feed's tables: of each the one that rows have now, and all that were learnt, since
    rows from before and behind a DDL may take turns.
    """

    def __init__(self) -> None:
        self._now: dict[Place, Template] = {}
        # with the types that each was learnt of, which have to live as long as their id is used
        self._learnt: dict[tuple[Place, int], tuple[object, Template | None]] = {}

    def only_change(self, message: Message) -> JsonChange | None:
        """The change of a message of one event; None where the decoder has to read it."""
        key, value = message.key, message.value
        if key is None or value is None or not is_one_frame(key, value):
            return None
        return self.change(key, value, message.epoch, 0, starts=(16, 8))

    def change(
        self, key: bytes, value: bytes, epoch: int, index: int, starts: tuple[int, int] = (0, 0)
    ) -> JsonChange | None:
        """The change of an event's key and value, which begin at `starts`; None where the decoder has to
        read it.
        """
        told = _EVENT_KEY(key, starts[0])
        if told is None:
            return None
        ts, database, table, row_id = told.groups()
        kind = value[starts[1] + 2 : starts[1] + 3]
        template = self._now.get((database, table, row_id is None, kind))
        cells = None if template is None else _cells(template, value, starts[1])
        if template is None or cells is None:
            return None
        now, old = cells
        is_delete, commit_ts, image = kind == b"d", int(ts), template.image % now
        return JsonChange(
            database=template.database,
            table=template.table,
            op="delete" if is_delete else "insert" if old is None else "update",
            key=template.key % template.key_of(now),
            key_names=template.key_names,
            commit_ts=commit_ts,
            position=(epoch, commit_ts, DELETE if is_delete else UPSERT, 0, 0, 0),
            before=image if is_delete else None if old is None else template.image % old,
            after=None if is_delete else image,
            index=index,
            types=template.types,
            server=None,
            encoding=template.encoding,
        )

    def learn(self, key: bytes, value: bytes, change: RowChange, sample: Callable[[], Sample | None]) -> None:
        """Take the template of a row that the decoder has read; `sample` gives what it has in common with
        others, None where the decoder says more of such rows.
        """
        told = _EVENT_KEY(key)
        if told is None:
            return
        place = (told[2], told[3], told[4] is None, value[2:3])
        if (place, id(change.types)) not in self._learnt:
            if len(self._learnt) >= _MOST:
                self._now.clear()
                self._learnt.clear()
            read = sample()
            template = None if read is None else _template(change, read)
            self._learnt[place, id(change.types)] = change.types, template
        template = self._learnt[place, id(change.types)][1]
        if template is not None:
            self._now[place] = template


def _cells(template: Template, value: bytes, start: int) -> tuple[Cells, Cells | None] | None:
    """The values of a row, and the old ones of an update; None where the row is not like the template's."""
    found = template.pattern(value, start)
    if found is None or not (value.isascii() or _is_utf8(value[start:])):
        return None
    now, size = found.groups(), template.size
    old = None
    if len(now) > size:
        if now[size] is not None:
            old = now[size:]
        now = now[:size]
    if old is not None and template.key_of(old) != template.key_of(now):
        return None
    if template.convert:
        try:
            now, old = _converted(now, template), None if old is None else _converted(old, template)
        except (ValueError, TypeError, OverflowError):
            return None
    return now, old


def _template(change: RowChange, sample: Sample) -> Template:
    pairs = zip(sample.heads, sample.values, strict=True)
    cells = b",".join([re.escape(head) + value + rb"\}" for head, value in pairs])
    old = rb'(?:,"p":\{%b\})?' % cells
    text = rb'\{"d":\{%b\}\}' % cells if change.op == "delete" else rb'\{"u":\{%b\}%b\}' % (cells, old)
    members = [_json_of(name).replace(b"%", b"%%") + b":%b" for name in sample.names]
    return Template(
        pattern=_pattern(text),
        size=len(sample.names),
        image=b"{" + b",".join(members) + b"}",
        key_of=itemgetter(*[sample.names.index(name) for name in sample.key_names]),
        key=b"[" + b",".join([b"%b" for _ in sample.key_names]) + b"]",
        convert=tuple(
            (number, _in_json(sample.convert[name], is_float=sample.values[number] == FLOAT))
            for number, name in enumerate(sample.names)
            if name in sample.convert
        ),
        database=change.database,
        table=change.table,
        key_names=sample.key_names,
        types=_json_of(change.types),
        encoding=sample.encoding,
    )


@functools.lru_cache(maxsize=_MOST)
def _pattern(text: bytes) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """A pattern, which takes as long to compile as a hundred rows to decode: tables of the same columns share
    it, and rows find it again whose types were computed again, of which fewer are kept.
    """
    return re.compile(text).fullmatch


def _in_json(convert: Callable[[Any], Any], *, is_float: bool) -> Callable[[bytes], bytes]:
    if is_float:
        return lambda cell: _json_of(_float_of(cell))
    return lambda cell: _json_of(convert(_text_of(cell)))


def _converted(cells: Cells, template: Template) -> Cells:
    found = list(cells)
    for number, convert in template.convert:
        if found[number] != b"null":
            found[number] = convert(found[number])
    return tuple(found)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@functools.cache
def templates_of(zone: str, old_values: bool) -> Templates:
    """The templates of a worker's feeds with these options."""
    return Templates()
