"""Tencent DTS before decode: the Envelopes of one Entries joined, still as bytes.

    records of a partition, in offset order ──join──▶ Message (one whole Entries) | Note (any other record)

One Entries is cut into `total` Envelopes, index 0 to total-1, which one producer writes in a row to one
partition. The header `ps` counts the records of a partition (and of a `ShardId`, where the source has shards)
from 1 and in steps of 1; a restarted task counts anew and sends again. So parts belong together when their
indexes follow each other and, where `ps` is sent, their `ps` do too. A record is dropped as a duplicate only
if its `ps` *and* its bytes came before, and its `ps` is not the one that is due: the same changes under a new
`ps`, or in the course of a restarted task, are for silver's identities to tell.

Pure and without state: an Entries whose last parts are still to come is a note `waiting`, and the next call
must begin with the first of its messages. (A call that begins right behind a whole Entries is better given
that one too: a part of it that the producer repeats there would be taken for an orphan.) Every record given
is in exactly one of the outcomes, except that a note `gap` repeats one.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
from google.protobuf.message import DecodeError as ProtobufError

from lakehouse.errors import DecodeError
from lakehouse.events import Message
from lakehouse.formats.binlog import file_number
from lakehouse.formats.proto import subscribe_pb2 as pb
from lakehouse.formats.proto.subscribe_pb2 import Envelope
from lakehouse.formats.row import Note

_REMEMBERED = 1024
# version 1, total 1, and its data: most envelopes are whole, and are told without being read
_WHOLE = b"\x08\x01\x10\x01\x22"
# kinds of entries that are sent in the binlog's order
_EVENTS = frozenset({pb.BEGIN, pb.COMMIT, pb.DML, pb.DDL, pb.ROLLBACK})


@dataclass(slots=True)
class _Stream:
    """One partition's sequence (of one shard): what came, and the parts of the Entries under way."""

    ps: int | None = None
    seen: OrderedDict[int, int] = field(default_factory=OrderedDict)
    parts: list[Message] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    total: int = 0


def join(messages: Iterable[Message]) -> Iterator[Message | Note]:
    """Whole Entries in the order in which they are complete; a joined message has the offset of its first
    part.

    Messages of several partitions may be mixed; those of one partition come in the order of their offsets.
    """
    streams: dict[tuple[str, str, int, bytes], _Stream] = {}
    for message in messages:
        if message.value is None:
            yield message
            continue
        shard, number = _numbered(message)
        place = (message.topic, message.incarnation, message.partition, shard)
        stream = streams.get(place)
        if stream is None:
            stream = streams[place] = _Stream()
        yield from _next(stream, message, number)
    for stream in streams.values():
        if stream.parts:
            yield Note(
                "waiting", tuple(stream.parts), f"{len(stream.parts)} of {stream.total} parts are there"
            )


def _next(stream: _Stream, message: Message, number: int | None) -> list[Message | Note]:
    """What a record, whose `ps` is `number`, completes or breaks off."""
    if _is_repeated(stream, message, number):
        return [Note("duplicate", (message,), "the same bytes came before under the same sequence number")]
    found: list[Message | Note] = []
    missing = number - stream.ps - 1 if number is not None and stream.ps is not None else 0
    if missing > 0:
        expected = stream.ps and stream.ps + 1
        text = f"header ps: expected {expected}, got {number}: {missing} records are missing"
        found.append(Note("gap", (message,), text, missing))
    stream.ps = number
    if not stream.parts and message.value is not None and message.value.startswith(_WHOLE):
        return [*found, message]
    envelope = _envelope(message)
    if envelope is None:
        text = "record: expected an Envelope of version 1 with index below total, got something else"
        found += [*_abandon(stream), Note("dead", (message,), text)]
    elif (
        stream.parts
        and missing == 0
        and (envelope.total, envelope.index) == (stream.total, len(stream.parts))
    ):
        found += _add(stream, message, envelope)
    else:
        if stream.parts:
            found += _abandon(stream, message)
        found += [message] if envelope.total <= 1 else _begin(stream, message, envelope)
    return found


def _begin(stream: _Stream, message: Message, envelope: Envelope) -> Iterator[Message | Note]:
    if envelope.index:
        yield Note(
            "dead",
            (message,),
            f"part {envelope.index + 1} of {envelope.total}: the part before it is missing",
        )
    else:
        stream.total = envelope.total
        yield from _add(stream, message, envelope)


def _add(stream: _Stream, message: Message, envelope: Envelope) -> Iterator[Message]:
    stream.parts.append(message)
    stream.data.append(envelope.data)
    if len(stream.parts) == stream.total:
        yield msgspec.structs.replace(stream.parts[0], value=b"".join(stream.data))
        _clear(stream)


def _abandon(stream: _Stream, message: Message | None = None) -> Iterator[Note]:
    """The parts under way can't be completed by what comes; they are no loss where all that they tell is sent
    again from `message` on.
    """
    if stream.parts:
        if message is not None and _goes_back(message, stream.parts[0]):
            yield Note("duplicate", tuple(stream.parts), "what they tell is sent again from its beginning")
        else:
            yield Note(
                "dead",
                tuple(stream.parts),
                f"{len(stream.parts)} of {stream.total} parts: the next part is missing",
            )
        _clear(stream)


def _goes_back(message: Message, first: Message) -> bool:
    """Whether a record begins the Entries whose `first` part this is once more, or one that stands before it
    in the same server's binlog: a restarted task, which cuts Entries and parts anew. A CHECKPOINT proves
    nothing, and neither do rows at the same place: more than one event may have it.
    """
    if message.value == first.value:
        return True
    again, before = _first_header(message), _first_header(first)
    if again is None or before is None or _server(again) != _server(before):
        return False
    place, was = ((file_number(each.fileName), each.position) for each in (again, before))
    return place < was or (place == was and again.messageType != pb.DML)


def _server(header: pb.Header) -> tuple[int, str]:
    return header.serverId, header.fileName.rpartition(".")[0]


def _first_header(message: Message) -> pb.Header | None:
    """The header of the first entry of an Entries whose first part this is, where it has an event's place."""
    envelope = _envelope(message)
    if envelope is None or envelope.index:
        return None
    try:
        header = pb.Header.FromString(_first_field(_first_field(envelope.data)))
        file_number(header.fileName)
    except (ProtobufError, DecodeError):
        return None
    return header if header.position and header.messageType in _EVENTS else None


def _first_field(data: bytes) -> bytes:
    """The bytes of a message's field 1, which stands first; its end may be cut off."""
    size = 0
    for place, byte in enumerate(data[1:6] if data.startswith(b"\x0a") else b""):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            return data[place + 2 : place + 2 + size]
    return b""


def _clear(stream: _Stream) -> None:
    stream.parts, stream.data, stream.total = [], [], 0


def _is_repeated(stream: _Stream, message: Message, number: int | None) -> bool:
    """Remembers the record, too. Without `ps` only a part that comes twice in a row can be told."""
    if number is None:
        return bool(stream.parts) and message.value == stream.parts[-1].value
    digest = hash(
        message.value
    )  # 64 bits, seeded anew in each process: nobody can make two records alike that share a number
    if stream.seen.get(number) == digest and (stream.ps is None or number != stream.ps + 1):
        return True
    stream.seen[number] = digest
    if len(stream.seen) > _REMEMBERED:
        stream.seen.popitem(last=False)
    return False


def _envelope(message: Message) -> Envelope | None:
    try:
        envelope = Envelope.FromString(message.value or b"")
    except ProtobufError:
        return None
    return envelope if envelope.version == 1 and envelope.index < max(envelope.total, 1) else None


def _numbered(message: Message) -> tuple[bytes, int | None]:
    """The record's shard, and its sequence number."""
    shard, text = b"", b""
    for name, value in reversed(message.headers):  # of several headers the first one counts
        if name == "ps":
            text = value or b""
        elif name == "ShardId":
            shard = value or b""
    return shard, int(text) if text.isdigit() and len(text) < 20 else None


_RULES = {pb.MYSQL: "mysql", pb.MARIADB: "mariadb"}


def rules_told(message: Message) -> str | None:
    """Whose server it is, by the source type of its entries; None for a part of them."""
    envelope = _envelope(message)
    if envelope is None or envelope.total > 1:
        return None
    try:
        entries = pb.Entries.FromString(envelope.data).items
    except ProtobufError:
        return None
    return next((_RULES.get(entry.header.sourceType) for entry in entries), None)
