"""Before decode, still as bytes: undo the changefeed's compression and join claim-check payloads.

    message ── names ──▶ file names ──(the caller reads them)──▶ prepare ──▶ message that a decoder reads

Pure: the caller does the I/O, in whatever place its layer keeps the files. Nothing in a message says that it
is compressed; the option `compression` does. Plain JSON is let through, so a feed may change its setting
while it runs. A payload that is missing or unreadable leaves its row as it came, with the handle key only,
and the decoder makes a dead letter `unresolved` of it.
"""

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cramjam
import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.wire_json import read_json

_SNAPPY_RATIO = 22  # the most that one byte of a snappy block can stand for
# one byte of an LZ4 block can stand for 255. A row of TiDB has at most 120 MiB (txn-entry-size-limit), and a
# message with its old and its new image about twice that
_LZ4_RATIO, _LARGEST = 255, 256 * 1024 * 1024
_NO_FILES: Mapping[str, bytes] = {}


class _OpenKey(msgspec.Struct):
    ccl: str = ""


class _Extension(msgspec.Struct):
    claimCheckLocation: str = ""


class _CanalJson(msgspec.Struct):
    extension: _Extension | None = msgspec.field(default=None, name="_tidb")


class _Payload(msgspec.Struct):
    value: str
    key: str | None = None


_OPEN_KEY = msgspec.json.Decoder(_OpenKey)
_CANAL_JSON = msgspec.json.Decoder(_CanalJson)
_PAYLOAD = msgspec.json.Decoder(_Payload)


def file_name(location: str) -> str:
    """The last part of a location, refused if it could lead out of the folder that it is looked up in."""
    name = location.replace("\\", "/").rpartition("/")[2]
    if name in ("", ".", "..") or "\0" in name or ":" in name:
        raise DecodeError(
            "claim_check", "claim-check location: expected one that ends in a file name, got another"
        )
    return name


# Compression


def decompressed(data: bytes, compression: str) -> bytes:
    """`data` as it was before the changefeed compressed it; what begins as a JSON object is so already.
    DecodeError where it is not compressed so, or would take more than 256 MiB.
    """
    if not data or data.startswith(b'{"'):
        return data
    try:
        return _DECOMPRESS[compression](data)
    except (cramjam.DecompressionError, ValueError, MemoryError):
        raise DecodeError(
            "compression",
            f"message: expected {compression} as the source's `compression` says, got other bytes",
        ) from None


def _lz4(data: bytes) -> bytes:
    if len(data) * _LZ4_RATIO <= _LARGEST:
        return bytes(cramjam.lz4.decompress(data))
    buffer = bytearray(_LARGEST)  # pages that nothing is written to take no memory
    try:
        return bytes(memoryview(buffer)[: cramjam.lz4.decompress_into(data, buffer)])
    except cramjam.DecompressionError:
        most = _LARGEST // (1024 * 1024)
        text = f"message: expected lz4 of at most {most} MiB, got more or other bytes"
        raise DecodeError("compression", text) from None


def _snappy(data: bytes) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > _SNAPPY_RATIO * len(data):
        raise ValueError("a length that snappy can't reach")
    return bytes(cramjam.snappy.decompress_raw(data))


def _plain_open(message: Message, compression: str) -> Message:
    keys, values = frames(message.key, message.value)
    key, value = framed(keys, [decompressed(value, compression) for value in values])
    return msgspec.structs.replace(message, key=key, value=value)


def _plain_value(message: Message, compression: str) -> Message:
    return msgspec.structs.replace(message, value=message.value and decompressed(message.value, compression))


def _plain_both(message: Message, compression: str) -> Message:
    key = message.key and decompressed(message.key, compression)
    return msgspec.structs.replace(_plain_value(message, compression), key=key)


# Claim check


def _open_locations(message: Message) -> list[str]:
    if not message.key or b'"ccl"' not in message.key:
        return []
    keys, _ = frames(message.key, message.value)
    return [location for key in keys if (location := read_json(_OPEN_KEY, key, "event key").ccl)]


def _canal_locations(message: Message) -> list[str]:
    if not message.value or b'"claimCheckLocation"' not in message.value:
        return []
    extension = read_json(_CANAL_JSON, message.value, "message").extension
    return [extension.claimCheckLocation] if extension and extension.claimCheckLocation else []


def _join_open(message: Message, options: Mapping[str, str], attachments: Mapping[str, bytes]) -> Message:
    keys, values = frames(message.key, message.value)
    for index, key in enumerate(keys):
        location = read_json(_OPEN_KEY, key, "event key").ccl if b'"ccl"' in key else ""
        attachment = attachments.get(file_name(location)) if location else None
        if attachment is not None:
            keys[index], values[index] = _open_payload(attachment, options) or (key, values[index])
    key, value = framed(keys, values)
    return msgspec.structs.replace(message, key=key, value=value)


def _open_payload(attachment: bytes, options: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    """The one event of a payload, which is a whole Kafka message; None where the file holds
    something else.
    """
    try:
        payload = read_json(_PAYLOAD, attachment, "claim-check file")
        keys, values = frames(binascii.a2b_base64(payload.key or ""), binascii.a2b_base64(payload.value))
        return (
            (keys[0], decompressed(values[0], options.get("compression", "none"))) if len(keys) == 1 else None
        )
    except (DecodeError, ValueError, KeyError):
        return None


def _join_canal(message: Message, options: Mapping[str, str], attachments: Mapping[str, bytes]) -> Message:
    locations = _canal_locations(message)
    attachment = attachments.get(file_name(locations[0])) if locations else None
    value = None if attachment is None else _canal_payload(attachment, options)
    return message if value is None else msgspec.structs.replace(message, value=value)


def _canal_payload(attachment: bytes, options: Mapping[str, str]) -> bytes | None:
    """The message that a file holds: wrapped as a key and a value or, with claim-check-raw-value, as it is.
    The file itself tells which.
    """
    compression = options.get("compression", "none")
    try:
        value = decompressed(attachment, compression)
        try:
            wrapped = read_json(_PAYLOAD, value, "claim-check file").value
        except DecodeError:
            return value if b'"mysqlType"' in value else None
        return decompressed(binascii.a2b_base64(wrapped), compression)
    except (DecodeError, ValueError, KeyError):
        return None


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {"lz4": _lz4, "snappy": _snappy}


@dataclass(frozen=True, slots=True)
class _LargeMessages:
    """One protocol's large messages: how its compression is undone, where claim-check files are named, and
    how they are joined. A protocol without claim check names none.
    """

    decompress: Callable[[Message, str], Message]
    locations: Callable[[Message], list[str]] | None = None
    join: Callable[[Message, Mapping[str, str], Mapping[str, bytes]], Message] | None = None

    def names(self, message: Message, options: Mapping[str, str]) -> tuple[str, ...]:
        """The names of the claim-check files that this message needs: names of files, never paths."""
        if self.locations is None:
            return ()
        return tuple(file_name(location) for location in self.locations(self._plain(message, options)))

    def prepare(
        self, message: Message, options: Mapping[str, str], attachments: Mapping[str, bytes] = _NO_FILES
    ) -> Message:
        """The message as the decoder wants it; `attachments` holds the files that `names` gave, by name."""
        plain = self._plain(message, options)
        if not attachments or self.join is None:
            return plain
        return self.join(plain, options, attachments)

    def _plain(self, message: Message, options: Mapping[str, str]) -> Message:
        """The message with its compression undone."""
        compression = options.get("compression", "none")
        if compression == "none":
            return message
        if compression not in _DECOMPRESS:
            raise DecodeError("option", f"compression: expected none, lz4 or snappy, got {compression!r}")
        return self.decompress(message, compression)


OPEN_PROTOCOL = _LargeMessages(_plain_open, _open_locations, _join_open)
CANAL_JSON = _LargeMessages(_plain_value, _canal_locations, _join_canal)
DEBEZIUM = _LargeMessages(_plain_both)
