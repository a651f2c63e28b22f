"""The framing of Open Protocol: a version and length-prefixed keys in the Kafka key, length-prefixed values
in the value.

`frames` takes a message apart, `framed` puts one together. A resolved event's value has length 0.
"""

from lakehouse.errors import DecodeError

_VERSION = b"\0\0\0\0\0\0\0\1"


def frames(key: bytes | None, value: bytes | None) -> tuple[list[bytes], list[bytes]]:
    """The keys and the values of a message's events, as many of one as of the other and at least one."""
    if key is None or value is None:
        raise DecodeError("frame", "message: expected a key and a value, got none")
    if key[:8] != _VERSION:
        raise DecodeError("frame", "message key: expected Open Protocol version 1, got another start")
    keys, values = _parts(key, 8, "key"), _parts(value, 0, "value")
    if not keys or len(keys) != len(values):
        raise DecodeError(
            "frame",
            f"message: expected as many values as keys, got {len(keys)} keys and {len(values)} values",
        )
    return keys, values


def is_one_frame(key: bytes, value: bytes) -> bool:
    """Whether a message has one event, whose key begins at byte 16 and its value at byte 8."""
    return (
        key.startswith(_VERSION)
        and int.from_bytes(key[8:16]) == len(key) - 16
        and int.from_bytes(value[:8]) == len(value) - 8
    )


def _parts(data: bytes, start: int, what: str) -> list[bytes]:
    parts, size = [], len(data)
    if size - start >= 8 and int.from_bytes(data[start : start + 8]) == size - start - 8:
        return [data[start + 8 :]]  # most have one
    while start < size:
        begin = start + 8
        end = begin + int.from_bytes(data[start:begin])
        if end > size or begin > size:
            raise DecodeError(
                "frame",
                f"message {what}: expected a length and as many bytes at byte {start} of {size}, got fewer",
            )
        parts.append(data[begin:end])
        start = end
    return parts


def framed(keys: list[bytes], values: list[bytes]) -> tuple[bytes, bytes]:
    """The Kafka key and value of a message with these events."""
    return _VERSION + _joined(keys), _joined(values)


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8) + part for part in parts)
