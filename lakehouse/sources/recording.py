"""Recordings: Kafka messages as JSON lines, one message a line.

    {"topic"?, "partition", "offset", "timestamp"?, "key_b64", "value_b64",
     "headers"?: [[name, value_b64 | null], …]}

Other members are ignored. Without `topic` it is the file's name without its suffix. A null value is a
tombstone. A file that ends in .gz is decompressed.
"""

import binascii
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from lakehouse.errors import DecodeError, EnvironmentError_
from lakehouse.events import Message
from lakehouse.formats.wire_json import read_json
from lakehouse.ops.progress import OffsetRange, Place, ranges_with

_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Line(msgspec.Struct):
    partition: _Int64
    offset: _Int64
    key_b64: str | None = None
    value_b64: str | None = None
    topic: str | None = None
    timestamp: int | None = None
    headers: list[tuple[str, str | None]] | None = None


_LINE = msgspec.json.Decoder(_Line)


def read_recording(path: Path) -> Iterator[Message]:
    """The messages of a recording, in the file's order. Errors name file and line."""
    topic = Path(path.stem).stem if path.suffix == ".gz" else path.stem
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _message(line, topic, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise EnvironmentError_(f"{path}: expected a recording that can be read, got: {why}") from error


def noted(messages: Iterable[Message], seen: dict[Place, list[tuple[int, int]]]) -> Iterator[Message]:
    """The messages; what offsets they have is added to `seen`, as ranges. They may be read more than once."""
    for message in messages:
        ranges = seen.setdefault((message.topic, message.incarnation, message.partition), [])
        if ranges and ranges[-1][1] + 1 == message.offset:
            ranges[-1] = ranges[-1][0], message.offset
        else:
            ranges.append((message.offset, message.offset))
        yield message


def holes(
    seen: Mapping[Place, list[tuple[int, int]]], told: Mapping[Place, list[tuple[int, int]]]
) -> Iterator[OffsetRange]:
    """For each partition one range, from the first to the last offset that lies between others, is not among
    them, and in none of the ranges that were `told` before.
    """
    for place, ranges in seen.items():
        ordered = ranges_with(tuple(ranges), set())
        between = [(low[1] + 1, high[0] - 1) for low, high in pairwise(ordered)]
        known = told.get(place, ())
        new = [
            (first, last)
            for first, last in between
            if not any(low <= first and last <= high for low, high in known)
        ]
        if new:
            yield OffsetRange(*place, first=new[0][0], last=new[-1][1])


def write_recording(messages: Iterable[Message], path: Path) -> int:
    """Write messages as a new recording; returns how many. EnvironmentError_ where it exists or can't be
    written.
    """
    number = 0
    encoder = msgspec.json.Encoder()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "xb") if path.suffix == ".gz" else path.open("xb") as lines:
            for message in messages:
                lines.write(encoder.encode(_line(message)) + b"\n")
                number += 1
    except OSError as error:
        raise EnvironmentError_(
            f"{path}: expected a new file that can be written, got: {error.strerror}"
        ) from error
    return number


def _line(message: Message) -> dict[str, object]:
    line: dict[str, object] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
    }
    if message.timestamp is not None:
        line["timestamp"] = message.timestamp
    line |= {"key_b64": _base64(message.key), "value_b64": _base64(message.value)}
    return (
        line | {"headers": [[name, _base64(value)] for name, value in message.headers]}
        if message.headers
        else line
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else binascii.b2a_base64(data, newline=False).decode()


def _message(text: bytes, topic: str, where: str) -> Message:
    line = read_json(_LINE, text, where)
    headers = tuple((name, _bytes(value, where)) for name, value in line.headers or ())
    key, value = _bytes(line.key_b64, where), _bytes(line.value_b64, where)
    return Message(
        topic if line.topic is None else line.topic,
        line.partition,
        line.offset,
        key=key,
        value=value,
        headers=headers,
        timestamp=line.timestamp,
    )


def _bytes(text: str | None, where: str) -> bytes | None:
    try:
        return None if text is None else binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise DecodeError(
            "recording", f"{where}: expected base64 in key_b64, value_b64 and headers, got other text"
        ) from None
