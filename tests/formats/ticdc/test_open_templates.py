"""Rows that are cut out by a template are what the decoder reads, byte by byte."""

import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import JsonChange, Message, Stored
from lakehouse.formats import decode_message, decode_stored
from lakehouse.formats.open_frames import framed
from lakehouse.silver.event_rows import EventWriter, WriterSettings
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA
from tests.support.truth import options

OPEN = "ticdc-open"
RECORDINGS = sorted((DATA / OPEN).rglob("*.jsonl.gz"))
SETTINGS = ({"time_zone": "Asia/Shanghai"}, {"output-old-value": "false"})
CHAR, TEXT = 15, 252
COLUMN = {"id": {"t": 3, "h": True, "f": 11}, "name": {"t": CHAR, "f": 64}, "at": {"t": 7, "f": 64}}


def rows_of(message: Message, events: Iterable[Stored]) -> tuple[list[Any], list[Any]]:
    changes: list[Any] = []
    others: list[Any] = []
    EventWriter(WriterSettings(tidb=True)).write(message, list(events), changes, others)
    return changes, others


def check(message: Message, settings: dict[str, str]) -> list[Stored]:
    """The events as silver stores them, which give the decoder's rows."""
    events = list(decode_stored(OPEN, message, settings))
    assert rows_of(message, events) == rows_of(message, decode_message(OPEN, message, settings))
    return events


def message(*rows: bytes, table: str = "t", **told: Any) -> Message:
    key = {"ts": 5, "scm": "shop", "tbl": table, **told, "t": 1}
    keys = [json.dumps(key, separators=(",", ":")).encode() for _ in rows]
    return Message("t", 0, 0, *framed(keys, list(rows)))


def written(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def cells(**values: Any) -> dict[str, Any]:
    return {name: {**COLUMN[name], "v": value} for name, value in values.items()}


def damaged(message: Message) -> Iterator[Message]:
    chance = random.Random(len(message.value or b""))
    for part in ("key", "value"):
        data = getattr(message, part) or b""
        for _ in range(60 if data else 0):
            flipped = bytearray(data)
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            yield msgspec.structs.replace(message, **{part: bytes(flipped)})


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_recording_gives_the_rows_that_the_decoder_gives(recording: Path) -> None:
    settings = options(recording)
    recorded = list(itertools.islice(read_recording(recording), 400))

    for told in [*recorded, *recorded]:  # the second time each row is like one before
        check(told, settings)
    for told in recorded[:40]:
        for broken in damaged(told):
            check(broken, settings)


def test_plain_inserts_updates_and_deletes_are_cut_out_once_their_table_is_known() -> None:
    first, other = cells(id=1, name="a", at="2024-01-02 03:04:05"), cells(id=2, name="ä", at=None)
    later = cells(id=2, name="b", at="2024-07-02 03:04:05.5")
    rows = [{"u": first}, {"u": other}, {"u": later, "p": other}, {"d": first}, {"d": later}]

    found = [check(message(written(row), table="plain"), SETTINGS[0]) for row in rows]

    assert [type(event) is JsonChange for (event,) in found] == [False, True, True, False, True]
    together = check(message(*map(written, rows[1:]), table="plain"), SETTINGS[0])
    assert [type(event) for event in together] == [JsonChange] * 4
    assert [event.index for event in together] == [0, 1, 2, 3]


DIFFERENT = {
    "an escape": {"u": cells(id=2, name='"', at=None)},
    "a control character": b'{"u":{"id":{"t":3,"h":true,"f":11,"v":2},"name":{"t":15,"f":64,"v":"\x01"},'
    b'"at":{"t":7,"f":64,"v":null}}}',
    "bytes that are no UTF-8": b'{"u":{"id":{"t":3,"h":true,"f":11,"v":2},"name":{"t":15,"f":64,"v":"\xff"},'
    b'"at":{"t":7,"f":64,"v":null}}}',
    "half a surrogate pair": {"u": cells(id=2, name="\ud800", at=None)},
    "a number with a zero before it": b'{"u":{"id":{"t":3,"h":true,"f":11,"v":02},"name":{"t":15,"f":64,'
    b'"v":"a"},"at":{"t":7,"f":64,"v":null}}}',
    "a zero below zero": b'{"u":{"id":{"t":3,"h":true,"f":11,"v":-0},"name":{"t":15,"f":64,"v":"a"},'
    b'"at":{"t":7,"f":64,"v":null}}}',
    "more digits than 64 bits have": {"u": cells(id=10**30, name="a", at=None)},
    "another order": {"u": cells(name="a", id=2, at=None)},
    "a column less": {"u": cells(id=2, name="a")},
    "a column twice": b'{"u":{"id":{"t":3,"h":true,"f":11,"v":2},"name":{"t":15,"f":64,"v":"a"},'
    b'"at":{"t":7,"f":64,"v":null},"name":{"t":15,"f":64,"v":"b"}}}',
    "text in a number": {"u": cells(id="2", name="a", at=None)},
    "a number in text": {"u": cells(id=2, name=5, at=None)},
    "no time": {"u": cells(id=2, name="a", at="never")},
    "another key before": {"u": cells(id=2, name="a", at=None), "p": cells(id=1, name="a", at=None)},
    "some old values": {"u": cells(id=2, name="a", at=None), "p": cells(name="b")},
    "no old values": {"u": cells(id=2, name="a", at=None), "p": {}},
    "other flags before": {
        "u": cells(id=2, name="a", at=None),
        "p": cells(id=2, name="a", at=None) | {"at": {"t": 7, "f": 65, "v": None}},
    },
    "no flags": {"u": {name: {"t": c["t"], "v": None} for name, c in COLUMN.items()}},
    "a key alone": {"d": cells(id=2)},
    "a member beside": {"u": cells(id=2, name="a", at=None), "x": 1},
    "spaces": json.dumps({"u": cells(id=2, name="a", at=None)}).encode(),
    "nothing": b"",
    "no columns": b"{}",
}


@pytest.mark.parametrize("row", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_a_row_that_is_not_like_those_before_is_left_to_the_decoder(row: Any) -> None:
    plain = cells(id=1, name="a", at=None)
    for known in ({"u": plain}, {"u": plain, "p": plain}, {"d": plain}):
        check(message(written(known), table="other"), SETTINGS[0])

    for settings in SETTINGS:
        check(message(row if isinstance(row, bytes) else written(row), table="other"), settings)


@pytest.mark.parametrize("told", [{"rid": 7}, {"rid": 7, "ptn": 3}, {"ptn": 3}, {"ohk": True}, {"ccl": "f"}])
def test_rows_whose_event_key_says_more_are_what_the_decoder_reads(told: dict[str, Any]) -> None:
    for number in (1, 2, 3):
        check(message(written({"u": cells(id=number, name="a", at=None)}), table="told", **told), {})
        check(message(written({"u": cells(id=number, name="a", at=None)}), table="told"), {})


def test_rows_from_before_and_behind_a_ddl_may_take_turns() -> None:
    for number in range(6):
        check(message(written({"u": cells(id=number, name="a")}), table="turns"), {})
        check(message(written({"u": cells(id=number, name="a", at=None)}), table="turns"), {})


@pytest.mark.parametrize("now", [b"0", b"0.0", b"-0.0", b"-0.00", b"-0"])
@pytest.mark.parametrize("old", [b"0", b"0.0", b"-0.0", b"-0.00", b"-0"])
def test_zeros_of_either_sign_are_what_the_decoder_reads(now: bytes, old: bytes) -> None:
    def row(now: bytes, old: bytes) -> bytes:
        image = b'{"id":{"t":3,"h":true,"f":11,"v":1},"x":{"t":5,"f":64,"v":%b}}'
        return b'{"u":%b,"p":%b}' % (image % now, image % old)

    check(message(row(b"1.5", b"2.5"), table="zeros"), {})

    check(message(row(now, old), table="zeros"), {})


def test_rows_of_more_shapes_than_are_kept_have_their_pattern_compiled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unlike(number: int) -> Message:
        """A row with an escape, which is left to the decoder each time."""
        column = {f"shape {number}": {"t": CHAR, "f": 64, "v": '"'}}
        return message(written({"u": cells(id=number) | column}), table=f"shape {number}")

    compiling = Mock(wraps=re.compile)
    monkeypatch.setattr("re.compile", compiling)
    for _ in range(3):
        check(unlike(0), {})
        for number in range(1, 4200):
            decode_message(OPEN, unlike(number), {})

    assert compiling.call_count == 1


TYPES = st.sampled_from([1, 3, 8, 4, 5, 246, 10, 12, 7, 11, CHAR, TEXT, 254, 247, 248, 16, 245])
FLAGS = st.sampled_from([0, 64, 65, 11, 128, 1 | 64, 128 | 65])
NUMBERS = (
    st.integers()
    | st.integers(-300, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 0.0, -0.0])
)
TEXTS = st.text(max_size=6) | st.sampled_from(
    ["", "aGk=", "2024-01-02 03:04:05", "12:00:00.5", "1.50", "\\x00", "\ufffd", "\x7f", "%b"]
)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of one table, most of them alike, with old values or without."""
    names = draw(st.lists(st.sampled_from(["id", "%s", "b,c", "ä", '"', "x"]), min_size=1, unique=True))
    kinds = {name: {"t": draw(TYPES), "f": draw(FLAGS)} for name in names}
    for name in draw(st.sets(st.sampled_from(names))):
        kinds[name] = {"t": kinds[name]["t"], "h": True, "f": kinds[name]["f"]}
    is_number = {name: kind["t"] in (1, 3, 8, 4, 5, 247, 248, 16) for name, kind in kinds.items()}

    def image() -> dict[str, Any]:
        return {
            name: {**kind, "v": draw(st.none() | (NUMBERS if is_number[name] else TEXTS))}
            for name, kind in kinds.items()
        }

    rows = []
    for _ in range(draw(st.integers(2, 5))):
        now = image()
        key = {name: cell for name, cell in now.items() if cell.get("h")}
        rows.append(draw(st.sampled_from([{"u": now}, {"u": now, "p": {**image(), **key}}, {"d": now}])))
    return rows


@given(history=histories(), settings=st.sampled_from(SETTINGS), row_id=st.sampled_from([{}, {"rid": 1}]))
def test_any_rows_are_what_the_decoder_reads(
    history: list[dict[str, Any]], settings: dict[str, str], row_id: dict[str, Any]
) -> None:
    rows = [written(row) for row in history]
    for row in rows:
        check(message(row, **row_id), settings)
    check(message(*rows, **row_id), settings)
