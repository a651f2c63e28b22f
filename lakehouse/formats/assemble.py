"""Complete messages from bronze records: everything that is joined or undone before decoding.

    bronze records ──assembled──▶ Message     complete
                                | Unjoined    a record that no decoder sees
                                | Resume      the offset that the next batch starts at
                                | Skipped     records that the producer has counted and that are not there

What a record needs from elsewhere lies in `BatchContext`, read from the lake before: schema files of a
storage sink, and where each partition's own records begin. Claim-check payloads come as headers of the
record, under ATTACHMENT and their file's name. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import SNAPSHOT_TOPIC, DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.row import Join, LargeMessages, Note
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, Schemas, classify

ATTACHMENT = "lakehouse.attachment:"
# of the dead letters that notes become: a part that is no message, records that never arrived
_CODES = {"dead": "envelope", "waiting": "envelope", "gap": "lost"}
Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What a batch's records need from outside the batch.

    `starts`: the first record of each partition that is the batch's own; those before it are there for their
    parts only. `schemas`: the schema files that have landed. `dispatchers`: how many had written into a
    file's folder when it landed, by the file's number; 1 where it is not there. `copies`: the records that a
    feed in order of arrival sent before (lakehouse.silver.redelivery). `final`: nothing comes behind, so
    parts that wait are dead. `apart`: the records were picked out, so that numbers between them are not
    missing.
    """

    starts: Mapping[Place, int] = field(default_factory=dict)
    schemas: Schemas | None = None
    dispatchers: Mapping[int, int] = field(default_factory=dict)
    copies: Mapping[Place, frozenset[int]] = field(default_factory=dict)
    final: bool = False
    apart: bool = False


NOTHING = BatchContext()


class Unjoined(NamedTuple):
    """A record that reaches no decoder; `letter` is None where nothing is lost: a copy, or a part that waits
    for the others.
    """

    message: Message
    letter: DeadLetter | None


class Resume(NamedTuple):
    """The next batch has to read this partition from `offset` on, to have its last whole message and all of
    an unfinished one.
    """

    place: Place
    offset: int


class Skipped(NamedTuple):
    """So many numbers of the producer's sequence have no record, before the one at `offset`."""

    place: Place
    offset: int
    n: int


def place_of(message: Message) -> Place:
    return (message.topic, message.incarnation, message.partition)


def assembled(
    messages: Iterable[Message], format: str, options: Mapping[str, str], context: BatchContext = NOTHING
) -> Iterator[Message | Unjoined | Resume | Skipped]:
    """Complete messages, in order. Records of one partition must come in the order of their offsets where
    parts are joined. Those of table snapshots are whole as they are.
    """
    for own, group in groupby(messages, key=_is_of_snapshot):
        records: Iterator[Message] = group
        yield from records if own else _assembled(records, format, options, context)


def _is_of_snapshot(message: Message) -> bool:
    return message.topic == SNAPSHOT_TOPIC


def _assembled(
    messages: Iterable[Message], format: str, options: Mapping[str, str], context: BatchContext
) -> Iterator[Message | Unjoined | Resume | Skipped]:
    row = FORMATS[format]
    if row.parts is not None:
        yield from _joined(messages, row.parts(), context)
        return
    complete = _completing(format, options, context)
    if context.copies:
        for message in messages:
            if message.offset in context.copies.get(place_of(message), ()):
                yield Unjoined(message, None)
            else:
                yield message if complete is None else complete(message)
    elif complete is None:
        yield from messages
    else:
        yield from map(complete, messages)


def _completing(
    format: str, options: Mapping[str, str], context: BatchContext
) -> Callable[[Message], Message | Unjoined] | None:
    """What makes each record a complete message; None where every record is one."""
    row = FORMATS[format]
    if row.reads_files:
        return lambda message: _with_schema(message, options, context)
    if row.large is not None and (options.get("compression", "none") != "none" or options.get("claim_check")):
        large = row.large()
        return lambda message: _prepared(message, large, options)
    return None


def attachment_names(message: Message, format: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the claim-check files that this message needs: names of files, never paths."""
    large = FORMATS[format].large
    return () if large is None else large().names(message, options)


def _prepared(message: Message, large: LargeMessages, options: Mapping[str, str]) -> Message | Unjoined:
    attachments = {
        name.removeprefix(ATTACHMENT): data
        for name, data in message.headers
        if name.startswith(ATTACHMENT) and data is not None
    }
    if attachments:
        own = tuple((name, data) for name, data in message.headers if not name.startswith(ATTACHMENT))
        message = msgspec.structs.replace(message, headers=own)
    try:
        return large.prepare(message, options, attachments)
    except DecodeError as error:
        return Unjoined(message, DeadLetter(error.code, str(error), 0))


def _with_schema(message: Message, options: Mapping[str, str], context: BatchContext) -> Message:
    """A file with what all schema files tell of it; a data file that has none goes on as it is, for the
    decoder to refuse.
    """
    file = classify(message.path or "", options)
    if message.headers or context.schemas is None or not isinstance(file, DataFile | SchemaFile):
        return message
    headers = context.schemas.headers(file, context.dispatchers.get(message.offset, 1))
    return message if headers is None else msgspec.structs.replace(message, headers=headers)


class _Tape:
    """Passes messages on and knows the last one: what comes out of a join was caused by it."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = messages
        self.current: Message | None = None

    def __iter__(self) -> Iterator[Message]:
        for message in self.messages:
            self.current = message
            yield message
        self.current = None


def _joined(
    messages: Iterable[Message], join: Join, context: BatchContext
) -> Iterator[Message | Unjoined | Resume | Skipped]:
    """Parts joined. What the batch before has given already, out of records before `starts`, is not given
    again.
    """
    tape = _Tape(messages)
    resume: dict[Place, int] = {}
    for found in join(tape):
        cause = tape.current
        first = found if isinstance(found, Message) else found.messages[0]
        place = place_of(first)
        if isinstance(found, Message):
            resume[place] = found.offset
        elif found.kind == "waiting":
            resume[place] = min(resume.get(place, first.offset), first.offset)
        if not (context.final if cause is None else cause.offset >= context.starts.get(place, 0)):
            continue
        if isinstance(found, Message):
            yield found
        elif not (found.n and context.apart):
            yield from _noted(found, place)
    yield from (Resume(place, offset) for place, offset in resume.items())


def end_of_parts(messages: Iterable[Message], format: str, last: int) -> int:
    """The offset of the last part of the messages that begin at or before `last`, where it is among these
    records: of one partition, in order, the first of them no part of a message that begins before.
    """
    parts = FORMATS[format].parts
    if parts is None:
        return last
    end, tape = last, _Tape(messages)
    for found in parts()(tape):
        if (found if isinstance(found, Message) else found.messages[0]).offset > last:
            break
        if tape.current is not None:
            end = max(end, tape.current.offset)
    return end


def _noted(note: Note, place: Place) -> Iterator[Unjoined | Skipped]:
    if note.n:
        yield Skipped(place, note.messages[0].offset, note.n)
    code = _CODES.get(note.kind)
    letter = None if code is None else DeadLetter(code, note.text, 0)
    yield from (Unjoined(message, letter) for message in note.messages)
