"""TiCDC Open Protocol: many events per message, as length-prefixed JSON in the Kafka key and value.

    key    8 bytes version 1, then per event: 8 bytes length, {"ts", "scm", "tbl", "t", "rid"?, "ptn"?,
           "ohk"?, "ccl"?}
    value                          per event: 8 bytes length, a row {"u", "p"? | "d"}, a DDL {"q", "t"}, or
                                   nothing
    column {"t": MySQL type code, "h"?: handle key, "f": flags, "v": value}

Producers: all TiCDC releases; the oldest (columns without `f`) too. Specification: docs.pingcap.com, "TiCDC
Open Protocol". Order: commit_ts, then delete before upsert before DDL, positions (epoch, ts, rank). `t` 3 is
a watermark of the partition. Outcomes: framing that does not add up is a DecodeError for the whole message; a
row that can't be read, or of which only the handle key was sent (`ohk`, or `ccl` whose file was not joined),
is a DeadLetter in its place and the others go on. `u` without `p` is an upsert and given as insert. Old
images that hold only what changed are completed from `u`. ENUM and SET are index and mask: such tables' rows
are `encoding` "ticdc-open".
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DDL,
    DELETE,
    UPSERT,
    DeadLetter,
    Event,
    Image,
    Message,
    RowChange,
    SchemaChange,
    Watermark,
)
from lakehouse.formats.open_frames import frames
from lakehouse.formats.wire_json import read_json
from lakehouse.values.scalars import base64_bytes, base64_text, bit_bytes, integer, number, timestamp_utc

_BINARY, _HANDLE, _UNSIGNED = 1, 2, 128
_SPILLED = frozenset("tfvh")  # member names that the malformed `p` writes in place of a column's
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Key(msgspec.Struct, gc=False):
    ts: _Int64
    t: int
    scm: str = ""
    tbl: str = ""
    rid: int | None = None
    ptn: _Int64 | None = None
    ohk: bool = False
    ccl: str = ""


class _Column(msgspec.Struct, gc=False):
    t: int
    v: int | float | str | None
    f: int | None = None
    h: bool = False


_Columns = dict[str, _Column]


class _Row(msgspec.Struct):
    u: _Columns | None = None
    p: _Columns | None = None
    d: _Columns | None = None


class _LooseRow(msgspec.Struct):
    """A row whose `p` holds members that are no columns (a known bug of the new architecture)."""

    u: _Columns
    p: dict[str, msgspec.Raw]


class _Statement(msgspec.Struct):
    q: str


_KEY = msgspec.json.Decoder(_Key)
_ROW = msgspec.json.Decoder(_Row)
_LOOSE_ROW = msgspec.json.Decoder(_LooseRow)
_COLUMN = msgspec.json.Decoder(_Column)
_STATEMENT = msgspec.json.Decoder(_Statement)


def decode(message: Message, options: Mapping[str, str]) -> Iterator[Event]:
    """The events of one message."""
    reading = _Reading(options.get("time_zone", "UTC"))
    keys, values = frames(message.key, message.value)
    index = 0
    for key_bytes, value in zip(keys, values, strict=True):
        key = None
        try:
            key = read_json(_KEY, key_bytes, "event key")
            events = _events(key, value, message.epoch, reading)
        except DecodeError as error:
            place = (key.scm or None, key.tbl or None) if key else (None, None)
            events = [DeadLetter(error.code, str(error), 0, *place)]
        for event in events:
            event.index = index
            index += 1
            yield event


# Envelope


def _events(key: _Key, value: bytes, epoch: int, reading: "_Reading") -> Sequence[Event]:
    """What one key and value mean; `index` is the caller's to set."""
    match key.t:
        case 1:
            try:
                return _row(key, value, epoch, reading)
            except UnicodeDecodeError:
                return _row(key, value, epoch, reading._replace(is_loose=True))
        case 2:
            statement = read_json(_STATEMENT, value, "DDL").q
            return [
                SchemaChange(
                    "ddl",
                    key.scm,
                    key.tbl or None,
                    commit_ts=key.ts,
                    position=(epoch, key.ts, DDL, 0, 0, 0),
                    ddl=statement,
                    index=0,
                )
            ]
        case 3:
            return [Watermark((epoch, key.ts, DDL, 0, 0, 0), key.ts, 0)]
        case _:
            raise DecodeError("kind", f"event key: expected t 1, 2 or 3, got {key.t}")


def _row(key: _Key, value: bytes, epoch: int, reading: "_Reading") -> Sequence[Event]:
    row, intact = _read_row(value)
    if row.d is not None:
        return [_delete(key, row.d, epoch, reading)]
    if not row.u:
        raise DecodeError("shape", "row: expected columns in u or d, got none")
    if key.ohk or key.ccl:
        why = (
            "its claim-check file is missing or unreadable"
            if key.ccl
            else "the feed sends handle-key-only messages"
        )
        raise DecodeError("unresolved", f"row: expected all columns, got the handle key only: {why}")
    plan = _plan_of(row.u, reading)
    after = _image(row.u, plan)
    if row.p is None:
        return [_change(key, "insert", None, after, plan=plan, rank=UPSERT, epoch=epoch)]
    before, flags = _old_image(row.p, row.u, after, plan, intact=intact)
    return _update(key, before, after, plan, epoch=epoch, flags=flags)


def _read_row(value: bytes) -> tuple[_Row, bool]:
    """The row, and whether its `p` was well-formed; members of a malformed one that are no columns are left
    out.
    """
    try:
        return read_json(_ROW, value, "row"), True
    except DecodeError as error:
        if error.code != "shape":
            raise
        try:
            loose = read_json(_LOOSE_ROW, value, "row")
        except DecodeError:
            raise error from None
    columns = {
        name: read_json(_COLUMN, raw, "column")
        for name, raw in loose.p.items()
        if bytes(raw).startswith(b"{")
    }
    if len(columns) == len(loose.p):
        raise DecodeError("shape", "row: expected columns in p, got something else")
    return _Row(loose.u, columns), False


# Rows


def _old_image(
    columns: _Columns, new: _Columns, after: Image, plan: "_Plan", intact: bool
) -> tuple[Image, tuple[str, ...]]:
    """`p`, completed from the new image: what `p` leaves out has not changed.

    A malformed `p` has lost the names of columns that became NULL, and columns named as its spilled members:
    those stay out.
    """
    same_shape = columns.keys() == new.keys()
    sent = _image(
        columns,
        plan if same_shape or columns.keys() <= new.keys() else _plan_of(columns, plan.reading),
        new,
        after,
    )
    if same_shape:
        return sent, ()
    if intact:
        return {**after, **sent}, ()
    kept = {name: value for name, value in after.items() if value is not None and name not in _SPILLED}
    return {**kept, **sent}, ("partial_before",)


def _update(
    key: _Key, before: Image, after: Image, plan: "_Plan", epoch: int, flags: tuple[str, ...]
) -> Sequence[Event]:
    """One change, or the delete of the old key and the insert of the new one."""
    names = plan.key_names
    if not before.keys() >= set(names):
        return [
            _change(
                key,
                "update",
                before,
                after,
                plan=plan,
                rank=UPSERT,
                epoch=epoch,
                flags=(*flags, "old_key_unknown"),
            )
        ]
    if [before[name] for name in names] == [after[name] for name in names]:
        return [_change(key, "update", before, after, plan=plan, rank=UPSERT, epoch=epoch, flags=flags)]
    deleted = _change(key, "delete", before, None, plan=plan, rank=DELETE, epoch=epoch, flags=flags)
    return [deleted, _change(key, "insert", None, after, plan=plan, rank=UPSERT, epoch=epoch)]


def _delete(key: _Key, columns: _Columns, epoch: int, reading: "_Reading") -> RowChange:
    plan = _plan_of(columns, reading)
    # With delete-only-output-handle-key-columns the key is all there is; a table of key columns only looks
    # the same.
    flags: tuple[str, ...] = ("partial_before",) if len(plan.key_names) == len(columns) else ()
    if not columns:
        flags = ("old_key_unknown", "partial_before")
    return _change(
        key, "delete", _image(columns, plan), None, plan=plan, rank=DELETE, epoch=epoch, flags=flags
    )


def _change(
    key: _Key,
    op: str,
    before: Image | None,
    after: Image | None,
    plan: "_Plan",
    rank: int,
    epoch: int,
    flags: tuple[str, ...] = (),
) -> RowChange:
    image = before if after is None else after
    row_key = tuple([image[name] for name in plan.key_names]) if image else ()
    row_id = None
    if key.rid is not None:
        row_id = str(key.rid) if key.ptn is None else f"{key.ptn}/{key.rid}"
    return RowChange(
        key.scm,
        key.tbl,
        op,
        row_key,
        key_names=plan.key_names,
        commit_ts=key.ts,
        position=(epoch, key.ts, rank, 0, 0, 0),
        before=before,
        after=after,
        index=0,
        encoding=plan.encoding,
        types=plan.types,
        flags=flags,
        row_id=row_id,
        physical_table=key.ptn,
    )


# Values


class _Reading(NamedTuple):
    """The server's zone; and whether a TEXT, which comes in base64, is read though its bytes are no text."""

    zone: str
    is_loose: bool = False


class _Plan(NamedTuple):
    """How to read the values of one shape of row: everything that the values themselves do not change."""

    numbers: Callable[[Image], set[type]]
    texts: Callable[[Image], set[type]]
    converters: tuple[tuple[str, Callable[[Any], Any]], ...]
    types: dict[str, str]
    key_names: tuple[str, ...]
    encoding: str
    reading: _Reading


_KIND = attrgetter("t", "f", "h")


def _plan_of(columns: _Columns, reading: _Reading) -> _Plan:
    return _plan(tuple(columns), tuple(map(_KIND, columns.values())), reading)


@functools.lru_cache(maxsize=4096)
def _plan(
    names: tuple[str, ...], kinds: tuple[tuple[int, int | None, bool], ...], reading: _Reading
) -> _Plan:
    legacy = bool(kinds) and all(flags is None for _, flags, _ in kinds)
    families = {
        name: _family(code, flags or 0, legacy) for name, (code, flags, _) in zip(names, kinds, strict=True)
    }
    types = {
        name: _type(code, flags or 0, legacy) for name, (code, flags, _) in zip(names, kinds, strict=True)
    }
    handle = [
        name
        for name, (_, flags, marked) in zip(names, kinds, strict=True)
        if marked or (flags or 0) & _HANDLE
    ]
    if reading.is_loose:
        families = {
            name: "loose text" if family == "base64 text" and name not in handle else family
            for name, family in families.items()
        }
    converters = {
        name: _CONVERTERS[family](reading.zone) for name, family in families.items() if family in _CONVERTERS
    }
    encoding = (
        "ticdc-open" if reading.is_loose or any(code in (247, 248) for code, _, _ in kinds) else "canonical"
    )
    return _Plan(
        _types_of(name for name, family in families.items() if family == "integer"),
        _types_of(name for name, family in families.items() if family not in ("integer", "float")),
        tuple(converters.items()),
        types,
        key_names=tuple(sorted(handle)),
        encoding="ticdc-open-legacy" if legacy else encoding,
        reading=reading,
    )


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
_NONE: dict[str, Any] = {}


def _image(columns: _Columns, plan: _Plan, new: _Columns = _NONE, new_image: Image = _NONE) -> Image:
    """Canonical values. `new` and its image save the conversion of an old image's values that have not
    changed.
    """
    image: Image = {name: column.v for name, column in columns.items()}
    if not plan.numbers(image) <= _NUMBERS:
        _read_defaults(image, plan)
    if not (plan.numbers(image) <= _NUMBERS | {str} and plan.texts(image) <= _TEXTS):
        raise DecodeError(
            "value", "row: expected numbers and texts as the columns' types say, got another JSON type"
        )
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


def _read_defaults(image: Image, plan: _Plan) -> None:
    """Numbers that stand as text: before 6.5.9, 7.1.5 and 7.5.2 a column that was added after its row had
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
    "bit": bit_bytes,
}

_WORDS = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    8: "bigint",
    9: "mediumint",
    13: "year",
    16: "bit",
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
_FAMILIES = {
    **dict.fromkeys((1, 2, 3, 8, 9, 13, 16, 247, 248), "integer"),
    **dict.fromkeys((4, 5), "float"),
    7: "timestamp",
    **dict.fromkeys((249, 250, 251, 252), "base64 text"),
}


def _type(code: int, flags: int, legacy: bool) -> str:
    """The SQL type text that code and flags mean, "" where they leave it open."""
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
    if legacy and code in (15, 253):
        return "base64 text"
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
}
