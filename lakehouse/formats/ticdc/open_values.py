"""Values of the Open Protocol: a row's columns on the wire, their SQL types, and the canonical image of a
row.

    column  {"t": MySQL type code, "h"?: handle key, "f": flags, "v": value}

What depends on the columns' types alone is computed once for rows of the same columns, an `ImagePlan`. The
oldest producers, to 4.0.4, send no `f`: whether a text is binary is then left to the table's schema.
"""

import functools
import re
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Image
from lakehouse.formats.invalid_text import MARK
from lakehouse.values.scalars import base64_bytes, base64_text, bit_bytes, integer, number, timestamp_utc

_BINARY, _UNSIGNED = 1, 128
BIT = 16
# ENUM and SET, which are index and mask, and TIME, whose fraction some releases cut off
_OPEN = (247, 248, 11)


class Column(msgspec.Struct, gc=False):
    t: int
    v: int | float | str | None
    f: int | None = None
    h: bool = False


Columns = dict[str, Column]
COLUMN = msgspec.json.Decoder(Column)


class Reading(NamedTuple):
    """How a message's values are read: the server's time zone, whether TEXT that is not valid UTF-8 is
    accepted (and kept as base64), whether the feed sends old values, whether columns lack their flags
    (`_texts`), and whether they may, which they do not where rows have an id.
    """

    zone: str
    is_loose: bool = False
    old_values: bool = True
    is_unflagged: bool = False
    has_row_id: bool = False


class ImagePlan(NamedTuple):
    """How to read the values of rows with the same columns: everything that depends on the columns alone."""

    numbers: Callable[[Image], set[type]]
    texts: Callable[[Image], set[type]]
    converters: tuple[tuple[str, Callable[[Any], Any]], ...]
    types: dict[str, str]
    key_names: tuple[str, ...]
    encoding: str
    reading: Reading
    # the columns, and which types of their values are known to be right
    names: tuple[str, ...]
    fitting: set[tuple[type, ...]]


_KIND = attrgetter("t", "f", "h")


def plan_of(columns: Columns, reading: Reading) -> ImagePlan:
    """The plan for rows with these columns, cached by the columns' names, type codes and flags."""
    return _plan(tuple(columns), tuple(map(_KIND, columns.values())), reading)


@functools.lru_cache(maxsize=4096)
def _plan(
    names: tuple[str, ...], kinds: tuple[tuple[int, int | None, bool], ...], reading: Reading
) -> ImagePlan:
    legacy = bool(kinds) and all(flags is None for _, flags, _ in kinds)
    families = {
        name: _family(code, flags or 0, legacy) for name, (code, flags, _) in zip(names, kinds, strict=True)
    }
    types = {
        name: _type(code, flags or 0, legacy) for name, (code, flags, _) in zip(names, kinds, strict=True)
    }
    # not by their flags: the new architecture keeps those of before a statement that it does not send
    handle = [name for name, (_, _, marked) in zip(names, kinds, strict=True) if marked]
    if legacy:
        families |= {name: "legacy key" for name in handle if families[name] == "legacy text"}
    if reading.is_loose:
        families = {
            name: "loose text" if family == "base64 text" and name not in handle else family
            for name, family in families.items()
        }
    encoding = "ticdc-open" if reading.is_loose or any(code in _OPEN for code, _, _ in kinds) else "canonical"
    texts, is_of_bytes = _texts(names, kinds, handle)
    is_stale = not reading.has_row_id and _are_stale(kinds)
    if texts and (is_stale or (reading.is_unflagged and not is_of_bytes)):
        families |= {name: (_TOLD if is_of_bytes else _UNFLAGGED)[code] for name, code in texts.items()}
        encoding = "ticdc-open-unflagged/key=binary" if is_of_bytes else "ticdc-open-unflagged"
    converters = {
        name: _CONVERTERS[family](reading.zone) for name, family in families.items() if family in _CONVERTERS
    }
    return ImagePlan(
        _types_of(name for name, family in families.items() if family == "integer"),
        _types_of(name for name, family in families.items() if family not in ("integer", "float")),
        tuple(converters.items()),
        types,
        key_names=tuple(sorted(handle)),
        encoding="ticdc-open-legacy" if legacy else encoding,
        reading=reading,
        names=names,
        fitting=set(),
    )


def _texts(
    names: tuple[str, ...], kinds: tuple[tuple[int, int | None, bool], ...], handle: list[str]
) -> tuple[dict[str, int], bool]:
    """The type codes of the columns whose flags alone would say whether they are text or bytes, and whether
    one of the key is bytes.

    The new architecture keeps the flags of each partition until a DDL event has its id, which it has of one
    partition at most: in the others a column that was added or renamed has none, until a restart. So nothing
    is read from such flags, and values are what they are in both readings, or told in both. A key can't be:
    its flags are believed, and where it is bytes, all others are told in both.
    """
    texts = {
        name: (code, (flags or 0) & _BINARY)
        for name, (code, flags, _) in zip(names, kinds, strict=True)
        if code in _BINARY_WORDS and flags is not None
    }
    is_of_bytes = any(texts.get(name, (0, 0))[1] for name in handle)
    return {name: code for name, (code, _) in texts.items() if name not in handle}, is_of_bytes


def _are_stale(kinds: tuple[tuple[int, int | None, bool], ...]) -> bool:
    """Whether a column that is no key has no flags, as those have that are newer than the flags.

    In the new architecture the changefeeds of one process keep the flags together, and each process its own.
    A changefeed that is behind a DDL takes those of a new column away from the others, of any table; of a
    table that several processes send, one has the DDL event. A NOT NULL text has no flags either: both
    readings are the same to it.
    """
    return any(flags == 0 and not marked for _, flags, marked in kinds)


def _types_of(names: Iterator[str]) -> Callable[[Image], set[type]]:
    """The Python types that an image's values of some columns have; columns that are absent do not count."""
    chosen = tuple(names)
    pick = itemgetter(*chosen) if len(chosen) > 1 else None

    def types_of(image: Image) -> set[type]:
        try:
            return set(map(type, pick(image))) if pick else {type(image[name]) for name in chosen}
        except KeyError:
            return {type(image[name]) for name in chosen if name in image}

    return types_of


_NUMBERS = {int, type(None)}
_TEXTS = {str, type(None)}
_READ_NUMBERS = _NUMBERS | _TEXTS | {dict}  # a default that was text may be text still, or lost
_NONE: dict[str, Any] = {}
# of a plan: which values are NULL may differ in each row
_MOST_FITTING = 1000


def read_image(columns: Columns, plan: ImagePlan, new: Columns = _NONE, new_image: Image = _NONE) -> Image:
    """The canonical image of a row's columns. For an old image, `new` and its image save converting the
    values that have not changed.
    """
    image: Image = {name: column.v for name, column in columns.items()}
    kinds = tuple(map(type, image.values()))
    if kinds not in plan.fitting or tuple(image) != plan.names:
        _check_kinds(image, kinds, plan)
    name = ""
    try:
        for name, convert in plan.converters:
            value = image.get(name)
            if value is not None:
                same = new.get(name)
                image[name] = new_image[name] if same is not None and same.v == value else convert(value)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, UnicodeDecodeError) and not plan.reading.is_loose:
            raise  # the row is read again
        raise DecodeError(
            "value", f"column {name}: expected a {plan.types.get(name) or 'value'}, got something else"
        ) from None
    return image


def _check_kinds(image: Image, kinds: tuple[type, ...], plan: ImagePlan) -> None:
    """Convert numbers that are text; DecodeError where a value is not of the types that its column has."""
    is_read = plan.numbers(image) <= _NUMBERS
    if not is_read:
        _read_defaults(image, plan)
    if not (plan.numbers(image) <= _READ_NUMBERS and plan.texts(image) <= _TEXTS):
        raise DecodeError(
            "value", "row: expected numbers and texts as the columns' types say, got another JSON type"
        )
    if is_read and tuple(image) == plan.names and len(plan.fitting) < _MOST_FITTING:
        plan.fitting.add(kinds)


def _read_defaults(image: Image, plan: ImagePlan) -> None:
    """Convert numbers that are text: before 6.5.9, 7.1.5 and 7.5.2 a column that was added after its row had
    been written has the text of its default, which is a label for an ENUM or SET and the bytes themselves for
    a BIT.
    """
    for name, value in image.items():
        read = _DEFAULTS.get(plan.types[name].partition(" ")[0]) if type(value) is str else None
        if read:
            try:
                image[name] = read(value)
            except ValueError:
                raise DecodeError(
                    "value", f"column {name}: expected a {plan.types[name]}, got something else"
                ) from None


_DEFAULTS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), integer),
    "bit": lambda text: text if text.startswith(MARK) else bit_bytes(text),
}
_WORDS = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    8: "bigint",
    9: "mediumint",
    13: "year",
    BIT: "bit",
    4: "float",
    5: "double",
    246: "decimal",
    10: "date",
    14: "date",
    12: "datetime",
    7: "timestamp",
    11: "time",
    247: "enum",
    248: "set",
    245: "json",
    225: "vector",
    255: "geometry",
    6: "",
    15: "varchar",
    253: "varchar",
    254: "char",
    249: "tinytext",
    250: "mediumtext",
    251: "longtext",
    252: "text",
}
_BINARY_WORDS = {
    15: "varbinary",
    253: "varbinary",
    254: "binary",
    249: "tinyblob",
    250: "mediumblob",
    251: "longblob",
    252: "blob",
}
INTEGERS, FLOATS = (1, 2, 3, 8, 9, 13, BIT, 247, 248), (4, 5)
_FAMILIES = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(FLOATS, "float"),
    7: "timestamp",
    **dict.fromkeys((249, 250, 251, 252), "base64 text"),
}


def _type(code: int, flags: int, legacy: bool) -> str:
    """The SQL type of a type code and flags as text; "" where they don't determine it."""
    if code not in _WORDS:
        raise DecodeError("type", f"column: expected a known type code, got {code}")
    if legacy and code in _BINARY_WORDS and code not in (15, 253, 254):
        return ""
    if flags & _BINARY and code in _BINARY_WORDS:
        return _BINARY_WORDS[code]
    return _WORDS[code] + (" unsigned" if flags & _UNSIGNED and code in (1, 2, 3, 8, 9, 4, 5, 246) else "")


def _family(code: int, flags: int, legacy: bool) -> str:
    if code in (15, 253, 254) and flags & _BINARY:
        return "quoted"
    if legacy and code in (15, 253, 254):
        return "legacy text"
    if code in (249, 250, 251, 252) and (legacy or flags & _BINARY):
        return "base64"
    return _FAMILIES.get(code, "text")


_ESCAPE = re.compile(
    rb"""\\(?:([abfnrtv\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))""", re.S
)
_NAMED = dict(zip(b"abfnrtv\\\"'", b"\a\b\f\n\r\t\v\\\"'", strict=True))


def go_unquote(text: str) -> bytes:
    """The bytes that Go's strconv.Quote wrote, without its outer quotes."""
    data = text.encode()
    return _ESCAPE.sub(_unescape, data) if b"\\" in data else data


def _unescape(found: re.Match[bytes]) -> bytes:
    named, byte, short, long, other = found.groups()
    if named:
        return bytes([_NAMED[named[0]]])
    if byte:
        return bytes.fromhex(byte.decode())
    if other is not None:
        raise ValueError("no Go escape")
    return chr(int(short or long, 16)).encode()


def _checked_base64(text: str) -> str:
    base64_bytes(text)
    return text


def _loose_text(text: str) -> str | dict[str, str]:
    try:
        return base64_bytes(text).decode()
    except UnicodeDecodeError:
        return {"base64": text}


def _legacy_text(text: str) -> str | dict[str, str]:
    """4.0.0 to 4.0.4 send a text as it is, what came before them as base64, which the specification's log
    has. What is no base64 of text is itself; of one without an end of base64, in which nobody writes (there
    are control characters), nothing tells which it is.
    """
    try:
        read = base64_bytes(text).decode()
    except ValueError:
        return text
    is_told = text.endswith("=") or _CONTROL.search(read) is None
    return read if is_told else {"text": text, "base64": text}


_CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")


def _legacy_key(text: str) -> str:
    read = _legacy_text(text)
    if isinstance(read, dict):
        raise ValueError("a key that may be either")
    return read


def _unflagged_text(text: str) -> str | dict[str, str]:
    """A CHAR or, in Go's quotes, a BINARY: the same text but for a backslash in it."""
    try:
        return {"text": text, "base64": base64_text(go_unquote(text))} if "\\" in text else text
    except ValueError:
        return text


def _told_text(text: str) -> str | dict[str, str]:
    """Both readings, where it has two."""
    try:
        return {"text": text, "base64": base64_text(go_unquote(text))}
    except ValueError:
        return text if text.startswith(MARK) else {"text": text}


def _told_base64(text: str) -> dict[str, str]:
    read = _loose_text(text)
    return read if isinstance(read, dict) else {"text": read, "base64": text}


_CHARS, _BLOBS = (15, 253, 254), (249, 250, 251, 252)
_UNFLAGGED = dict.fromkeys(_CHARS, "unflagged text") | dict.fromkeys(_BLOBS, "loose text")
_TOLD = dict.fromkeys(_CHARS, "told text") | dict.fromkeys(_BLOBS, "told base64")


def _float(value: Any) -> float:
    return number(value) if type(value) is str else float(value)


# Each takes the server's zone, which only TIMESTAMP needs, and gives the function for one value.
_CONVERTERS: dict[str, Callable[[str], Callable[[Any], Any]]] = {
    "float": lambda _: _float,
    "timestamp": lambda zone: functools.partial(timestamp_utc, zone=zone),
    "quoted": lambda _: lambda text: base64_text(go_unquote(text)),
    "base64": lambda _: _checked_base64,
    "base64 text": lambda _: lambda text: base64_bytes(text).decode(),
    "loose text": lambda _: _loose_text,
    "legacy text": lambda _: _legacy_text,
    "legacy key": lambda _: _legacy_key,
    "unflagged text": lambda _: _unflagged_text,
    "told text": lambda _: _told_text,
    "told base64": lambda _: _told_base64,
}
