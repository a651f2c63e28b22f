"""Compression undone and claim-check payloads joined, still as bytes."""

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.events import Message
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import attachment_names
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.ticdc.large_messages import decompressed, file_name

COMPRESS: dict[str, Callable[[bytes], Any]] = {
    "lz4": cramjam.lz4.compress,
    "snappy": cramjam.snappy.compress_raw,
}
JSON = b'{"a":1}'
codec = pytest.mark.parametrize("compression", COMPRESS)


def prepare(
    message: Message, format: str, options: Mapping[str, str], attachments: Mapping[str, bytes] | None = None
) -> Message:
    large = FORMATS[format].large
    assert large is not None
    return large().prepare(message, options, attachments or {})


def squeezed(compression: str, data: bytes) -> bytes:
    return bytes(COMPRESS[compression](data))


def open_message(keys: list[bytes], values: list[bytes]) -> Message:
    return Message("t", 0, 0, *framed(keys, values))


def payload(key: bytes | None, value: bytes) -> bytes:
    return json.dumps(
        {"key": key and base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}
    ).encode()


@codec
@given(data=st.binary(min_size=1))
def test_what_was_compressed_comes_back(compression: str, data: bytes) -> None:
    assert decompressed(squeezed(compression, data), compression) == data


@codec
def test_open_protocol_compresses_each_value_but_neither_keys_nor_the_empty_one(compression: str) -> None:
    message = open_message([b"{}", b"{}"], [squeezed(compression, JSON), b""])

    plain = prepare(message, "ticdc-open", {"compression": compression})

    assert frames(plain.key, plain.value) == ([b"{}", b"{}"], [JSON, b""])


@codec
def test_debezium_compresses_key_and_value_and_canal_json_the_value(compression: str) -> None:
    packed = squeezed(compression, JSON)
    options = {"compression": compression}

    debezium = prepare(Message("t", 0, 0, packed, packed), "ticdc-debezium", options)
    canal = prepare(Message("t", 0, 0, None, packed), "ticdc-canal-json", options)

    assert (debezium.key, debezium.value, canal.key, canal.value) == (JSON, JSON, None, JSON)


@codec
def test_a_message_that_is_not_compressed_yet_is_let_through(compression: str) -> None:
    message = Message("t", 0, 0, None, JSON)

    assert prepare(message, "ticdc-canal-json", {"compression": compression}).value == JSON


def test_without_compression_the_message_is_the_same_object() -> None:
    message = Message("t", 0, 0, None, JSON)

    assert prepare(message, "ticdc-canal-json", {}) is message


@codec
@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x0f", b"nothing of the kind", b"\x04\x22\x4d\x18"])
def test_other_bytes_are_refused_by_the_name_of_the_setting(compression: str, data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decompressed(data, compression)

    assert (
        str(caught.value)
        == f"message: expected {compression} as the source's `compression` says, got other bytes"
    )


def test_a_message_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.formats.ticdc.large_messages._LARGEST", 1024 * 1024)
    fits, does_not = (bytes(cramjam.lz4.compress(b"a" * (1024 * 1024 + more))) for more in (0, 1))

    assert decompressed(fits, "lz4") == b"a" * 1024 * 1024
    with pytest.raises(DecodeError, match=r"^message: expected lz4 of at most 1 MiB, got more "):
        decompressed(does_not, "lz4")


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"^compression: expected none, lz4 or snappy, got 'zip'$"):
        prepare(Message("t", 0, 0, None, b""), "ticdc-canal-json", {"compression": "zip"})


@pytest.mark.parametrize(
    "location", ["file:///a/b/u.json", "s3://bucket/p/u.json", "C:\\x\\u.json", "u.json"]
)
def test_a_location_is_its_file_s_name(location: str) -> None:
    assert file_name(location) == "u.json"


@given(location=st.text() | st.lists(st.sampled_from(["..", ".", "/", "\\", "a", ":", "\0"])).map("".join))
def test_no_location_leads_out_of_the_folder_it_is_looked_up_in(location: str) -> None:
    try:
        name = file_name(location)
    except DecodeError as error:
        assert str(error) == "claim-check location: expected one that ends in a file name, got another"
    else:
        assert (Path("/root-of-all") / name).resolve(strict=False).parent == Path("/root-of-all")


@codec
def test_a_claim_check_event_gets_the_payload_s_key_and_value_and_its_neighbours_stay(
    compression: str,
) -> None:
    options = {"compression": compression}
    located = [b'{"ccl":"file:///x/1.json"}', b'{"ccl":"file:///x/2.json"}']
    message = open_message([b'{"ts":1}', *located], [squeezed(compression, JSON)] * 3)
    whole = payload(*framed([b'{"ts":2}'], [squeezed(compression, b'{"u":{}}')]))

    names = attachment_names(message, "ticdc-open", options)
    joined = prepare(message, "ticdc-open", options, {"1.json": whole})

    assert names == ("1.json", "2.json")
    assert frames(joined.key, joined.value) == (
        [b'{"ts":1}', b'{"ts":2}', located[1]],
        [JSON, b'{"u":{}}', JSON],
    )


@pytest.mark.parametrize("file", [b"", b"{}", b"[]", payload(b"\0", b""), payload(None, JSON)])
def test_an_unreadable_payload_leaves_its_event_as_it_came(file: bytes) -> None:
    message = open_message([b'{"ccl":"x/1.json"}'], [JSON])

    assert prepare(message, "ticdc-open", {}, {"1.json": file}) == message


ROW = b'{"id":0,"database":"d","mysqlType":{"id":"int"},"data":[{"id":"1"}]}'


@codec
@pytest.mark.parametrize("is_raw", [False, True])
def test_a_claim_check_message_of_canal_json_becomes_the_payload_s_value_wrapped_or_raw(
    is_raw: bool, compression: str
) -> None:
    value = b'{"a": "claimCheckLocation", "_tidb": {"claimCheckLocation": "file:///x/1.json"}}'
    message = Message("t", 0, 0, None, value)
    stored = squeezed(compression, ROW)

    names = attachment_names(message, "ticdc-canal-json", {"compression": compression})
    joined = prepare(
        message,
        "ticdc-canal-json",
        {"compression": compression},
        {"1.json": stored if is_raw else payload(None, stored)},
    )

    assert (names, joined.value) == (("1.json",), ROW)


@pytest.mark.parametrize("file", [b"", b"{}", b"[]", b'{"value": "no base64"}', b"\x04\x22\x4d\x18"])
def test_an_unreadable_payload_leaves_a_canal_json_message_as_it_came(file: bytes) -> None:
    message = Message("t", 0, 0, None, b'{"_tidb": {"claimCheckLocation": "x/1.json"}}')

    assert prepare(message, "ticdc-canal-json", {}, {"1.json": file}) == message


def test_a_format_without_claim_check_needs_no_files() -> None:
    assert attachment_names(Message("t", 0, 0, None, b'"claimCheckLocation"'), "debezium", {}) == ()
