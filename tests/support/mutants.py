"""Messages gone wrong in one place: what a decoder, and all behind it, must bear.

    mutant(format, message, chance)    the message with one member, field or byte of it replaced, dropped,
                                       doubled or cut

JSON is changed as a tree and written again with what JSON writers refuse (NaN, doubled members, half
surrogate pairs); protobuf field by field, at any depth; anything else byte by byte.
"""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import Message as Proto

from lakehouse.errors import DecodeError
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.proto import canal_pb2, subscribe_pb2


class Raw(str):
    """JSON text that is written as it stands."""


TEXTS = [
    "",
    " ",
    "\0",
    "a\nb",
    "'",
    "`",
    "NaN",
    "-0",
    "1e999",
    "1" * 400,
    "0x",
    "--",
    "٣",
    "\ud800",
    "\udfff x",
    "💥" * 3,
    "0000-00-00",
    "9999-99-99 99:99:99",
    "838:59:59",
    "24:00:00Z",
    "2024-01-01T00:00:00+99:00",
    "10000-01-01",
    "-1",
    "1.5.5",
    "[1,",
    '{"a":',
    "true",
    "=",
    "AAA",
    base64.b64encode(bytes(40)).decode(),
    "mysql-bin.000001",
    "x.99999999999999999999",
    "int unsigned unsigned(",
    "enum('",
    "decimal(99,77)",
    "varchar(-3)",
    "DROP TABLE",
    "ALTER TABLE `",
    "CREATE TABLE t (",
    "/*" * 50,
    "(" * 300,
    "a" * 3000,
]
NUMBERS = [
    "0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "65536",
    "-2147483649",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1" + "0" * 60,
    "1e400",
    "-1e-400",
    "1.5",
    "0.1e1",
    "1" * 5000,
    "NaN",
    "Infinity",
    "-Infinity",
    "-0",
    "-0.0",
]
JSONS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [None],
    {"": None},
    [[]],
    {"a": {"b": [1, {}]}},
    ["x", 1],
    {"scale": 3, "value": "AA=="},
    {"scale": -(2**40), "value": "AA=="},
    {"srid": 2**40, "wkb": "AA=="},
    {"wkb": "", "srid": None},
    [1e308, None],
]
SQL = [
    "",
    ";",
    "DROP DATABASE x",
    "DROP TABLE `nope`",
    "TRUNCATE TABLE t",
    "ALTER TABLE `t` DROP COLUMN `id`",
    "ALTER TABLE x ADD COLUMN",
    "CREATE TABLE t (id int, id int)",
    "CREATE TABLE `a``b` (`x\ty` int primary key)",
    "RENAME TABLE a TO a",
    "RENAME TABLE a TO b, b TO a",
    "ALTER TABLE t MODIFY id decimal(900,-1)",
    "CREATE TABLE t (id int) PARTITION BY RANGE (nope) (PARTITION p VALUES LESS THAN (1))",
    "ALTER TABLE t ADD COLUMN z int DEFAULT (((",
    "SELECT 1",
    "\ud800",
    "CREATE TABLE t LIKE t",
    "ALTER TABLE t RENAME TO `\ud800`",
    "ALTER TABLE t ADD PRIMARY KEY (nope)",
    "CREATE TABLE t (`a` timestamp DEFAULT '0000-00-00', e enum())",
    "ALTER TABLE t PARTITION BY HASH(id) PARTITIONS 99999999999999999999",
    "CREATE VIEW v AS SELECT 1",
    "ALTER DATABASE CHARACTER SET x",
    "CREATE TABLE t (" + "(" * 2000,
    "CREATE TABLE t (id int DEFAULT " + "-" * 3000 + "1)",
    "ALTER TABLE t ADD c int DEFAULT 1e999999999",
]


def mutant(format: str, message: Message, chance: random.Random) -> Message:
    """The message, wrong in one to three places."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        message = _once(format, message, chance)
    return message


def _once(format: str, message: Message, chance: random.Random) -> Message:
    if chance.random() < 0.05:
        return msgspec.structs.replace(
            message, **{chance.choice(("key", "value")): chance.choice((None, b"", b"\0", b"null", b"{}"))}
        )
    if chance.random() < 0.15:
        return _bytes_of(message, chance)
    return _TREES.get(format, _json_of)(message, chance)


def _bytes_of(message: Message, chance: random.Random) -> Message:
    part = "key" if message.key and chance.random() < 0.3 else "value"
    return msgspec.structs.replace(message, **{part: _broken(getattr(message, part) or b"\0", chance)})


def _broken(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    match chance.choice(("cut", "flip", "insert", "repeat", "drop")):
        case "cut":
            return data[:place]
        case "flip":
            return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        case "insert":
            return (
                data[:place]
                + chance.choice(
                    (b"\xff", b"\0", b"\xed\xa0\x80", b'"', b"{", b"[", b"\x80", b",", b"\n", b"9" * 30)
                )
                + data[place:]
            )
        case "repeat":
            return data[:place] + data[max(0, place - 9) :]
        case _:
            return data[:place] + data[place + chance.randint(1, 8) :]


# JSON


def _json_of(message: Message, chance: random.Random) -> Message:
    part = "key" if message.key and chance.random() < 0.2 else "value"
    return msgspec.structs.replace(message, **{part: broken_json(getattr(message, part) or b"null", chance)})


def _open_of(message: Message, chance: random.Random) -> Message:
    try:
        keys, values = frames(message.key, message.value)
    except DecodeError:
        return _bytes_of(message, chance)
    side = keys if chance.random() < 0.3 else values
    place = chance.randrange(len(side)) if side else 0
    if side:
        side[place] = broken_json(side[place] or b"null", chance)
    key, value = framed([bytes(part) for part in keys], [bytes(part) for part in values])
    return msgspec.structs.replace(message, key=key, value=value)


def broken_json(data: bytes, chance: random.Random) -> bytes:
    """JSON lines, or one JSON text, with one value of the tree gone wrong."""
    lines = bytes(data).splitlines() or [b""]
    place = chance.randrange(len(lines))
    try:
        tree = json.loads(lines[place], parse_float=Raw, parse_int=Raw)
    except (ValueError, RecursionError):
        return _broken(bytes(data) or b"\0", chance)
    lines[place] = _text(_wrong(tree, chance)).encode(
        "utf-8", "surrogatepass" if chance.random() < 0.5 else "replace"
    )
    return b"\r\n".join(lines)


def _wrong(tree: Any, chance: random.Random) -> Any:
    places = list(_places(tree))
    if not places:
        return _value(tree, chance)
    # a place of a seldom depth is as likely as one of a common depth
    depth = chance.choice(sorted({depth for _, _, depth in places}))
    holder, name, _ = chance.choice([place for place in places if place[2] == depth])
    what = chance.random()
    if what < 0.1:
        del holder[name]
    elif what < 0.15 and isinstance(holder, dict):
        holder[chance.choice([*TEXTS, *holder])] = holder.pop(name)
    elif what < 0.2 and isinstance(holder, dict):
        holder[Doubled(name)] = _value(holder[name], chance)
    else:
        holder[name] = _value(holder[name], chance)
    return tree


class Doubled(str):
    """The name of a member that is there twice."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _places(tree: Any, depth: int = 0) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in items:
        yield tree, name, depth
        yield from _places(value, depth + 1)


def _value(value: Any, chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(TEXTS)
    if kind < 0.55:
        return Raw(chance.choice(NUMBERS))
    if kind < 0.65:
        return chance.choice(SQL)
    if kind < 0.7:
        return Raw("[" * 3000 + "]" * 3000)
    if kind < 0.75:
        return Raw('"' + chance.choice((r"\ud800", r"\udc00\ud800", r"\u0000", r"\ud83d", r"\x41")) + '"')
    if kind < 0.85 and isinstance(value, str):
        return value[: len(value) // 2] if chance.random() < 0.5 else value + chance.choice(TEXTS)
    return json.loads(json.dumps(chance.choice(JSONS)))


def _text(tree: Any) -> str:
    """JSON text; members may be there twice, numbers stand as they were."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json.dumps(str(name))}:{_text(value)}" for name, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(_text, tree)) + "]"
    return json.dumps(tree, ensure_ascii=False)


# Protobuf


def _canal_of(message: Message, chance: random.Random) -> Message:
    try:
        packet = canal_pb2.Packet.FromString(message.value or b"")
        body = canal_pb2.Messages.FromString(packet.body)
    except ProtobufError:
        return _bytes_of(message, chance)
    if body.messages and chance.random() < 0.9:
        _canal_entry(body, chance)
        packet.body = body.SerializeToString()
    else:
        wrong_field(packet, chance)
    return msgspec.structs.replace(message, value=packet.SerializeToString())


def _canal_entry(body: canal_pb2.Messages, chance: random.Random) -> None:
    place = chance.randrange(len(body.messages))
    try:
        entry = canal_pb2.Entry.FromString(body.messages[place])
        change = canal_pb2.RowChange.FromString(entry.storeValue)
    except ProtobufError:
        return
    wrong_field(change if chance.random() < 0.7 else entry, chance)
    if chance.random() < 0.9:
        entry.storeValue = change.SerializeToString()
    body.messages[place] = entry.SerializeToString()


def _dts_of(message: Message, chance: random.Random) -> Message:
    try:
        envelope = subscribe_pb2.Envelope.FromString(message.value or b"")
        entries = subscribe_pb2.Entries.FromString(envelope.data)
    except ProtobufError:
        return _bytes_of(message, chance)
    if chance.random() < 0.9:
        wrong_field(entries, chance)
        envelope.data = entries.SerializeToString()
    else:
        wrong_field(envelope, chance)
    return msgspec.structs.replace(message, value=envelope.SerializeToString())


def wrong_field(message: Proto, chance: random.Random) -> None:
    """Set, clear or repeat one field, somewhere inside."""
    messages = list(_inside(message))
    depth = chance.choice(sorted({depth for _, depth in messages}))
    chosen = chance.choice([found for found, level in messages if level == depth])
    field = chance.choice(chosen.DESCRIPTOR.fields)
    if field.is_repeated:
        _wrong_list(getattr(chosen, field.name), field, chance)
    elif chance.random() < 0.2 or field.message_type is not None:
        chosen.ClearField(field.name)
    else:
        setattr(chosen, field.name, _scalar(field, chance))


def _wrong_list(items: Any, field: Any, chance: random.Random) -> None:
    if items and chance.random() < 0.5:
        del items[chance.randrange(len(items))]
    elif field.message_type is not None:
        items.add() if not items or chance.random() < 0.3 else items.append(chance.choice(items))
    else:
        items.append(_scalar(field, chance))


def _inside(message: Proto, depth: int = 0) -> Any:
    yield message, depth
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else (value,):
                yield from _inside(each, depth + 1)


def _scalar(field: Any, chance: random.Random) -> Any:
    kinds: dict[int, Callable[[], Any]] = {
        field.CPPTYPE_STRING: lambda: (
            _some_bytes(chance)
            if field.type == field.TYPE_BYTES
            else chance.choice([*TEXTS, *SQL]).encode("utf-8", "replace").decode()
        ),
        field.CPPTYPE_INT32: lambda: chance.choice((0, 1, -1, 7, 2**31 - 1, -(2**31))),
        field.CPPTYPE_INT64: lambda: chance.choice((0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))),
        field.CPPTYPE_UINT32: lambda: chance.choice((0, 1, 7, 2**31, 2**32 - 1)),
        field.CPPTYPE_UINT64: lambda: chance.choice((0, 1, 2**53 + 1, 2**63, 2**64 - 1)),
        field.CPPTYPE_BOOL: lambda: chance.random() < 0.5,
        field.CPPTYPE_ENUM: lambda: chance.choice((0, 1, 2, 3, 4, 9, 2**31 - 1, -1)),
    }
    return kinds[field.cpp_type]()


def _some_bytes(chance: random.Random) -> bytes:
    return chance.choice(
        (b"", b"\xff\xfe", b"\xed\xa0\x80", bytes(9), chance.choice(TEXTS).encode("utf-8", "surrogatepass"))
    )


# Files


def _file_of(message: Message, chance: random.Random) -> Message:
    if message.headers and chance.random() < 0.3:
        place = chance.randrange(len(message.headers))
        name, data = message.headers[place]
        headers = (
            *message.headers[:place],
            (name, broken_json(data or b"null", chance)),
            *message.headers[place + 1 :],
        )
        return msgspec.structs.replace(message, headers=headers)
    if (message.path or "").endswith(".csv"):
        return msgspec.structs.replace(message, value=_broken_csv(message.value or b"", chance))
    if chance.random() < 0.03:
        return msgspec.structs.replace(
            message,
            path=chance.choice(
                [*filter(str.isprintable, TEXTS), "a/b/1/CDC1.csv", "a/b/99999999999999999999/CDC000001.json"]
            ),
        )
    return _json_of(message, chance)


def _broken_csv(data: bytes, chance: random.Random) -> bytes:
    cells = data.split(b",")
    place = chance.randrange(len(cells))
    wrong = chance.choice([*TEXTS, *NUMBERS]).encode("utf-8", "surrogatepass")
    cells[place] = chance.choice((b'"' + wrong + b'"', wrong, b'"' + wrong, b"", b'"\r\n"', b'"' * 3))
    return b",".join(cells)


_TREES: dict[str, Callable[[Message, random.Random], Message]] = {
    "ticdc-open": _open_of,
    "canal-protobuf": _canal_of,
    "tencent-dts": _dts_of,
    "ticdc-storage": _file_of,
}
