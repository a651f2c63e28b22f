"""Any bytes are events or the one error: DecodeError for the message, or a DeadLetter in a row's place."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.discovery.inspect import event_json, events_of, inspect_messages
from lakehouse.events import DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA
from tests.support.wires import KEY, WIRES, Wire

RECORDINGS = [path for format in WIRES for path in sorted((DATA / format).rglob("*.jsonl.gz"))]
# Nothing, the magic of LZ4, its header, a length of 4 GiB as snappy writes it.
HEADS = [
    b"",
    b"\x04\x22\x4d\x18",
    b"\x04\x22\x4d\x18\x64\x70\xb9",
    b"\xff\xff\xff\xff\x0f",
]
OPTIONS = {"time_zone": "Asia/Shanghai"}
every_recording = pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda path: str(path.relative_to(DATA))
)


def check(format: str, message: Message, options: dict[str, str] = OPTIONS) -> None:
    """No exception, and what comes is what silver can hold."""
    for index, event in enumerate(event for _, event in events_of([message], format, options)):
        assert event.index == index
        json.dumps(event_json(message, event)).encode()
        if isinstance(event, DeadLetter):
            assert event.code and event.message
        else:
            assert all(0 <= part < 2**63 for part in event.position)


def first_messages(recording: Path) -> list[Message]:
    """A few messages, the short ones first among those of every kind."""
    messages = sorted(
        itertools.islice(read_recording(recording), 40), key=lambda message: len(message.value or b"")
    )
    return messages[:: max(1, len(messages) // 4)][:4]


def damaged(message: Message, part: str) -> Iterator[Message]:
    """The message with one part truncated at every byte (every few, of a long one), and with bits flipped."""
    data = getattr(message, part) or b""
    for end in range(0, len(data), 1 + len(data) // 300):
        yield msgspec.structs.replace(message, **{part: data[:end]})
    chance = random.Random(len(data))
    for _ in range(150 if data else 0):
        flipped = bytearray(data)
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        yield msgspec.structs.replace(message, **{part: bytes(flipped)})


@every_recording
def test_a_damaged_message_is_events_or_dead_letters(recording: Path) -> None:
    format = recording.relative_to(DATA).parts[0]
    settings = {**OPTIONS, "compression": "lz4"} if "lz4" in recording.name else OPTIONS

    for message in first_messages(recording):
        for part in ("key", "value"):
            for broken in damaged(message, part):
                check(format, broken, settings)


@every_recording
def test_messages_decode_alike_in_any_order_and_any_company(recording: Path) -> None:
    format = recording.relative_to(DATA).parts[0]
    messages = list(itertools.islice(read_recording(recording), 60))

    together = list(inspect_messages(messages, format, OPTIONS))
    alone = [
        event
        for message in reversed(messages)
        for event in reversed(list(inspect_messages([message], format, OPTIONS)))
    ]

    assert together == alone[::-1]


@pytest.mark.parametrize("format", FORMATS)
@given(key=st.none() | st.binary(max_size=60), value=st.none() | st.binary(max_size=200))
def test_random_bytes_are_events_or_dead_letters(format: str, key: bytes | None, value: bytes | None) -> None:
    check(format, Message("topic", 0, 0, key, value))


@pytest.mark.parametrize("compression", ["lz4", "snappy"])
@pytest.mark.parametrize("format", ["ticdc-open", "ticdc-canal-json", "ticdc-debezium"])
@given(
    value=st.binary(max_size=200),
    head=st.sampled_from(
        [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x64\x70\xb9", b"\xff\xff\xff\xff\x0f"]
    ),
)
def test_random_bytes_are_no_compressed_message(
    format: str, compression: str, value: bytes, head: bytes
) -> None:
    key = b"\0\0\0\0\0\0\0\1" + (2).to_bytes(8) + b"{}" if format == "ticdc-open" else head + value
    framed = len(head + value).to_bytes(8) + head + value if format == "ticdc-open" else head + value

    check(format, Message("topic", 0, 0, key, framed), {"compression": compression})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["t", "f", "v", "h", "id", "code", ""]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "wire", [WIRES["ticdc-open"], WIRES["ticdc-canal-json"], WIRES["canal"]], ids=lambda wire: wire.format
)
@given(data=st.data())
def test_json_of_any_other_shape_is_events_or_dead_letters(wire: Wire, data: st.DataObject) -> None:
    row = {"id": 1, "code": "c", "qty": 2}
    assert set(KEY) <= row.keys()
    sent = wire.rows("update", [(row, row)])
    text = sent.value or b""
    start = text.index(b"{")
    tree = json.loads(text[start:])
    place = data.draw(st.sampled_from(sorted(tree)))
    tree[place] = data.draw(JSON)
    body = json.dumps(tree).encode()
    value = len(body).to_bytes(8) + body if wire.format == "ticdc-open" else body

    check(wire.format, msgspec.structs.replace(sent, value=value))
