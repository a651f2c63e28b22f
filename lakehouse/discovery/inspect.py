"""The events of messages as the JSON objects of `lakehouse inspect --json`.

Claim-check files are read here, from the folder that the option `claim_check` names; decoders do no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Message, RowChange, SchemaChange, Watermark
from lakehouse.formats import decode_message
from lakehouse.formats.assemble import ATTACHMENT, BatchContext, Unjoined, assembled, attachment_names
from lakehouse.sources.file_systems import LocalFiles

Json = dict[str, Any]
# so many bytes of a key or a value are shown
DUMPED = 256


def inspect_messages(
    messages: Iterable[Message], format: str, options: Mapping[str, str], *, dumps: bool = False
) -> Iterator[Json]:
    """One JSON object per event, in the messages' order; a message that can't be decoded is a dead letter."""
    return events_json(events_of(messages, format, options), dumps=dumps)


def events_json(events: Iterable[tuple[Message, Event]], *, dumps: bool = False) -> Iterator[Json]:
    """One JSON object per event. With `dumps`, for people, the first dead letter of a message has the
    beginning of its bytes too.
    """
    last: Message | None = None
    for message, event in events:
        shown = event_json(message, event)
        if dumps and isinstance(event, DeadLetter) and message is not last:
            last, shown["bytes"] = message, _beginnings(message)
        yield shown


def _beginnings(message: Message) -> dict[str, tuple[bytes, int]]:
    """The beginnings of a message's key and value, with the number of their bytes."""
    parts = {"key": message.key, "value": message.value}
    return {name: (part[:DUMPED], len(part)) for name, part in parts.items() if part}


def events_of(
    messages: Iterable[Message], format: str, options: Mapping[str, str]
) -> Iterator[tuple[Message, Event]]:
    """The events of messages from Kafka, a recording or a storage sink, after joining their parts."""
    if options.get("claim_check"):
        messages = (with_files(message, format, options) for message in messages)
    for result in assembled(messages, format, options, BatchContext(final=True)):
        if isinstance(result, Message):
            yield from ((result, event) for event in decode_message(format, result, options))
        elif isinstance(result, Unjoined) and result.letter is not None:
            yield result.message, result.letter


def with_files(message: Message, format: str, options: Mapping[str, str]) -> Message:
    """The message with the claim-check files that it names, from the folder of the option `claim_check`;
    links that lead out of the folder are not followed.
    """
    folder = LocalFiles(options["claim_check"])
    try:
        names = attachment_names(message, format, options)
    except DecodeError:  # assembling it says why
        return message
    files = tuple(
        (ATTACHMENT + name, folder.read(name))
        for name in names
        if (info := folder.stat(name)) and not info.is_dir
    )
    return msgspec.structs.replace(message, headers=message.headers + files) if files else message


def event_json(message: Message, event: Event) -> Json:
    """The event as a JSON object; optional members that it has no value for are left out."""
    match event:
        case RowChange():
            body = _change(event)
        case SchemaChange():
            body = _schema_change(event)
        case Watermark():
            body = {"event": "watermark", "position": list(event.position), "resolved_ts": event.resolved_ts}
        case DeadLetter():
            body = {"event": "dead_letter", "error": {"code": event.code, "message": event.message}}
    return {**body, "origin": _origin(message, event.index)}


def _change(event: RowChange) -> Json:
    body: Json = {
        "event": "change",
        "database": event.database,
        "table": event.table,
        "op": event.op,
        "key": list(event.key),
        "commit_ts": event.commit_ts,
        "position": list(event.position),
        "before": event.before,
        "after": event.after,
        "encoding": event.encoding,
    }
    if types := {name: text for name, text in (event.types or {}).items() if text}:
        body["types"] = types
    if event.flags:
        body["flags"] = list(event.flags)
    return body


def _schema_change(event: SchemaChange) -> Json:
    body: Json = {
        "event": "schema_change",
        "kind": event.kind,
        "database": event.database,
        "table": event.table,
        "commit_ts": event.commit_ts,
        "position": list(event.position),
        "ddl": event.ddl,
    }
    if event.columns is not None:
        body["columns"] = event.columns
    return body


def _origin(message: Message, index: int) -> Json:
    if message.path is not None:
        return {"path": message.path, "row": index, "index": index}
    return {"topic": message.topic, "partition": message.partition, "offset": message.offset, "index": index}
