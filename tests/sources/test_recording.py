"""Recordings: JSON lines to messages, and errors that name the line."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError, EnvironmentError_
from lakehouse.events import Message
from lakehouse.ops.progress import OffsetRange, Place
from lakehouse.sources.recording import holes, noted, read_recording, write_recording


def b64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


BYTES = st.none() | st.binary(max_size=20)
MESSAGES = st.builds(
    Message,
    topic=st.text(max_size=5),
    partition=st.integers(0, 2**31),
    offset=st.integers(0, 2**63 - 1),
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple),
    timestamp=st.none() | st.integers(-1, 2**62),
)


def line(message: Message) -> dict[str, Any]:
    headers = [[name, b64(value)] for name, value in message.headers]
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "note": [1],
        "key_b64": b64(message.key),
        "value_b64": b64(message.value),
        "headers": headers,
    }


@given(messages=st.lists(MESSAGES, max_size=5), zipped=st.booleans())
def test_messages_come_back_as_they_were_recorded(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], zipped: bool
) -> None:
    text = "\n\n".join(json.dumps(line(message)) for message in messages).encode()
    path = tmp_path_factory.mktemp("recording") / ("r.jsonl.gz" if zipped else "r.jsonl")
    path.write_bytes(gzip.compress(text) if zipped else text)

    assert list(read_recording(path)) == messages


@pytest.mark.parametrize("name", ["shop.batch1.jsonl", "shop.batch1.jsonl.gz"])
def test_without_a_topic_it_is_the_file_s_name(tmp_path: Path, name: str) -> None:
    text = b'{"partition": 0, "offset": 1, "key_b64": null, "value_b64": null}'
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    (message,) = read_recording(tmp_path / name)

    assert message == Message("shop.batch1", 0, 1, None, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", ":2: expected JSON, got Input data was truncated"),
        ('{"offset": 1}', ":2: Object missing required field `partition`"),
        ('{"partition": -1, "offset": 1}', ":2: Expected `int` >= 0 - at `$.partition`"),
        (
            '{"partition": 0, "offset": 1, "value_b64": "%"}',
            ":2: expected base64 in key_b64, value_b64 and headers, got other text",
        ),
    ],
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"partition": 0, "offset": 0}\n' + text)

    with pytest.raises(DecodeError) as caught:
        list(read_recording(path))

    assert str(caught.value) == f"{path}{error}"


@pytest.mark.parametrize("content", [None, b"no gzip", gzip.compress(b"{}" * 99, mtime=0)[:-9]])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "r.jsonl.gz"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(EnvironmentError_, match=r"r.jsonl.gz: expected a recording that can be read, got: "):
        list(read_recording(path))


@given(messages=st.lists(MESSAGES, max_size=5), zipped=st.booleans())
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], zipped: bool
) -> None:
    path = tmp_path_factory.mktemp("r") / ("x.jsonl.gz" if zipped else "x.jsonl")

    assert write_recording(messages, path) == len(messages)

    assert list(read_recording(path)) == messages


def test_offsets_between_others_are_holes_once_in_whatever_order_and_however_often_they_are_read() -> None:
    seen: dict[Place, list[tuple[int, int]]] = {}
    told = [Message("t", 0, offset, None, None) for offset in (7, 8, 3, 4, 12)]
    told += [Message("t", 1, offset, None, None) for offset in (5, 6)]

    for _ in range(2):
        assert list(noted(told, seen)) == told

    assert list(holes(seen, {})) == [OffsetRange("t", "", 0, 5, 11)]
    assert list(holes(seen, {("t", "", 0): [(5, 6)]})) == [OffsetRange("t", "", 0, 9, 11)]
    assert list(holes(seen, {("t", "", 0): [(5, 11)]})) == []
