"""JSON messages with text that is none: bytes that are no UTF-8, half a surrogate pair.

The message is read all the same, and only the values concerned are what they can be: `{"base64": the text's
bytes}`, which no column type holds, so that gold has NULL and the bytes in the raw companion. A row whose key
is such text can't be told from others, nor can a column whose name is: these stay dead letters.

Decoders know nothing of it. In a copy of the message each such text is replaced by a mark and its bytes,
which passes as text and as nothing else (a backslash that begins no escape of Go's, a character beyond
latin-1), and is taken out of the images behind.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Image, Message, RowChange
from lakehouse.formats.open_frames import framed, frames

MARK = "\uf8ff\\:base64:"
# Go's own writer of JSON escapes U+FFFD only where it stands for a byte that is no UTF-8; itself it is raw.
_LOST = re.compile(rb"(?<!\\)((?:\\\\)*)\\ufffd")
_NO_TEXT = rb"\1\\udcef\\udcbf\\udcbd"  # the bytes of U+FFFD, as bytes that are no text


def decode_again(
    decode: Callable[[Message, Mapping[str, str]], Iterable[Event]],
    message: Message,
    options: Mapping[str, str],
    format: str,
    *,
    framed: bool = False,
) -> list[Event] | None:
    """The events of a message that is JSON but for some text in it; None where that is not what is wrong with
    it. `framed`: the message holds several JSON texts in frames.
    """
    mended = _mended_frames(message) if framed else _mended(message.value or b"")
    if mended is None:
        return None
    copy = msgspec.structs.replace(message, value=mended)
    try:
        return [_unmarked(event, format) for event in decode(copy, options)]
    except DecodeError:
        return None


def with_lost_text(data: bytes) -> bytes:
    """JSON that a Go server wrote, such that text of which it lost bytes is no text."""
    return _LOST.sub(_NO_TEXT, data)


def _mended_frames(message: Message) -> bytes | None:
    keys, values = frames(message.key, message.value)
    mended = [_mended(value) for value in values]
    return (
        framed(keys, [new or old for new, old in zip(mended, values, strict=True)])[1]
        if any(mended)
        else None
    )


def _mended(data: bytes) -> bytes | None:
    """The JSON text with marks; None where it needs none, or is no JSON. Names can't be marked, so such names
    are no JSON here.
    """
    try:
        value = json.loads(data.decode("utf-8", "surrogateescape"))
        marked = _marked(value)
        return None if marked is value else json.dumps(marked, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None


def _marked(value: Any) -> Any:
    """The value itself where all its text is text."""
    match value:
        case str() if not is_text(value):
            return MARK + base64.b64encode(_bytes(value)).decode()
        case dict():
            members = {name: _marked(member) for name, member in value.items()}
            return value if all(members[name] is member for name, member in value.items()) else members
        case list():
            items = [_marked(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        case _:
            return value


def is_text(value: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bytes(value: str) -> bytes:
    """The bytes that were no UTF-8, as they were; half a pair as the three bytes that would spell it."""
    return b"".join(
        char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
        for char in value
    )


def _unmarked(event: Event, encoding: str) -> Event:
    if not isinstance(event, RowChange):
        return event
    if any(type(value) is str and value.startswith(MARK) for value in event.key):
        return DeadLetter(
            "value",
            "key: expected text, got bytes that are none",
            event.index,
            database=event.database,
            table=event.table,
        )
    before, after = _image(event.before), _image(event.after)
    if before is event.before and after is event.after:
        return event
    encoding = encoding if event.encoding == "canonical" else event.encoding
    return msgspec.structs.replace(event, before=before, after=after, encoding=encoding)


def _image(image: Image | None) -> Image | None:
    names = [name for name, value in (image or {}).items() if type(value) is str and value.startswith(MARK)]
    return (
        image
        if image is None or not names
        else {**image, **{name: {"base64": image[name].removeprefix(MARK)} for name in names}}
    )
