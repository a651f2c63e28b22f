"""Deletion vectors: which rows of a file are gone, by their numbers in it. Format: PROTOCOL.md of
delta-io/delta, "Deletion Vectors", "Deletion Vector Format" and "Derived Fields"; the bitmaps are those of
the Roaring Bitmap format specification.

    file        1 byte: version 1; per vector: 4 bytes length, the vector, 4 bytes CRC-32 of it (big-endian)
    vector      4 bytes magic, 8 bytes number of bitmaps, per bitmap: 4 bytes key, the bitmap (little-endian)
"""

import base64
import struct
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from pyroaring import BitMap

_MAGIC, _VERSION = 1681511377, b"\1"
_LENGTH = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
_HEAD = struct.Struct("<iqi")  # with the key of the first bitmap, of rows below 2^32
# a text of 16 bytes, by the alphabet of ZeroMQ's Z85 in place of Python's
_PYTHON = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_PYTHON, _Z85), bytes.maketrans(_Z85, _PYTHON)
_UUID_LENGTH = 20
# where the bins begin of a checksum file's histogram of how many rows files have lost
_BINS = (0, *(10**digits for digits in range(8)), 2**31 - 1)

# what a commit says of a vector
Told = dict[str, Any]


def read_vector(table: Path, told: Told | None) -> BitMap:
    """The rows that a vector marks, none where there is none. A ValueError where it is not as told, or kept
    elsewhere than in the table's folder.
    """
    if told is None:
        return BitMap()
    if told["storageType"] != "u":
        raise ValueError("a deletion vector: expected one in a file of the table, got another")
    prefix, name = told["pathOrInlineDv"][:-_UUID_LENGTH], told["pathOrInlineDv"][-_UUID_LENGTH:]
    id_ = uuid.UUID(bytes=base64.b85decode(name.encode().translate(_FROM_Z85)))
    if prefix and not prefix.isalnum():
        raise ValueError("a deletion vector: expected a folder of letters and digits, got another")
    with (table / prefix / f"deletion_vector_{id_}.bin").open("rb") as file:
        file.seek(told.get("offset") or 1)
        length = int.from_bytes(file.read(_LENGTH.size))
        data, checksum = file.read(told["sizeInBytes"]), int.from_bytes(file.read(_CHECKSUM.size))
    if not _HEAD.size <= length == told["sizeInBytes"] == len(data) or crc32(data) != checksum:
        raise ValueError(f"deletion_vector_{id_}.bin: expected what its length and checksum say, got another")
    found = _bitmap(data)
    if len(found) != told["cardinality"]:
        raise ValueError(f"deletion_vector_{id_}.bin: expected {told['cardinality']} rows, got {len(found)}")
    return found


def _bitmap(data: bytes) -> BitMap:
    magic, number, key = _HEAD.unpack_from(data)
    if (magic, number, key) != (_MAGIC, 1, 0):
        raise ValueError("a deletion vector: expected one bitmap of rows below 2^32, got another form")
    return BitMap.deserialize(data[_HEAD.size :])


def write_vectors(table: Path, marks: Mapping[str, BitMap]) -> tuple[str, dict[str, Told]]:
    """Write the vectors of some files of a table as one file; returns its name, and what a commit says of
    each vector.
    """
    id_, told, parts, offset = uuid.uuid4(), {}, [_VERSION], len(_VERSION)
    name = base64.b85encode(id_.bytes).translate(_TO_Z85).decode()
    for file, rows in marks.items():
        data = _HEAD.pack(_MAGIC, 1, 0) + rows.serialize()
        told[file] = {
            "storageType": "u",
            "pathOrInlineDv": name,
            "offset": offset,
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }
        parts += [_LENGTH.pack(len(data)), data, _CHECKSUM.pack(crc32(data))]
        offset += _LENGTH.size + len(data) + _CHECKSUM.size
    path = table / f"deletion_vector_{id_}.bin"
    path.write_bytes(b"".join(parts))
    return path.name, told


def counts_of(files: Iterable[Told]) -> dict[str, Any]:
    """What a checksum file says of the vectors of all of a table's files."""
    rows = [(one.get("deletionVector") or {}).get("cardinality", 0) for one in files]
    bins = [0] * len(_BINS)
    for number in rows:
        bins[bisect_right(_BINS, number) - 1] += 1
    return {
        "numDeletedRecordsOpt": sum(rows),
        "numDeletionVectorsOpt": sum(number > 0 for number in rows),
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": bins},
    }
