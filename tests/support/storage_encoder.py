"""What the storage sink's CSV encoder writes, in every setting: the other direction of
lakehouse/formats/ticdc/storage_csv.py.
"""

from lakehouse.formats.ticdc.storage_csv import Dialect

Value = str | int | float | bool | None


def encode_record(values: list[Value], dialect: Dialect) -> bytes:
    """One record: texts are quoted or escaped, everything else is bare."""
    return dialect.delimiter.join(encode_value(value, dialect) for value in values) + dialect.terminator


def encode_value(value: Value, dialect: Dialect) -> bytes:
    if value is None:
        return dialect.null
    if not isinstance(value, str):
        return str(value).lower().encode()
    data = value.encode()
    if dialect.quote:
        return dialect.quote + data.replace(dialect.quote, dialect.quote * 2) + dialect.quote
    return _escape(data, dialect.delimiter)


def _escape(data: bytes, delimiter: bytes) -> bytes:
    """Each byte of a delimiter gets a backslash, and is written as the character of that number (the
    producer's own way).
    """
    escaped, position = bytearray(), 0
    while position < len(data):
        if data.startswith(delimiter, position):
            escaped += b"".join(b"\\" + chr(byte).encode() for byte in delimiter)
            position += len(delimiter)
            continue
        byte = data[position : position + 1]
        escaped += {b"\r": b"\\r", b"\n": b"\\n", b"\\": b"\\\\"}.get(byte, byte)
        position += 1
    return bytes(escaped)
