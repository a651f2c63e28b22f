"""A package of a jar under another name, as shading gives it: what class files say of it is renamed.

A class file names classes in the texts of its constant pool alone (JVM specification, 4.4), with slashes, or
with points where they are looked up by name. All else refers to these texts by number, so that their lengths
may change.
"""

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"\xca\xfe\xba\xbe"
_UTF8 = 1
# the bytes behind the tag of each other kind of constant
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2}
_TWO_PLACES = (5, 6)  # a long and a double count twice


class Renaming:
    """From one package to another, each with slashes: `org/apache/kafka` to `shaded/org/apache/kafka`."""

    def __init__(self, old: str, new: str) -> None:
        self._pairs = [
            (re.compile(rb"(?<![/.])" + re.escape(one.encode())), other.encode())
            for one, other in (
                (f"{old}/", f"{new}/"),
                (f"{old}/".replace("/", "."), f"{new}/".replace("/", ".")),
            )
        ]

    def __call__(self, text: bytes) -> bytes:
        for pattern, new in self._pairs:
            text = pattern.sub(new, text)
        return text


def relocated_class(data: bytes, renamed: Renaming) -> bytes:
    """A class file whose texts are renamed."""
    if data[:4] != _MAGIC:
        return data
    constants, rest = _constants(data)
    count = data[8:10]
    return data[:8] + count + b"".join(_renamed(one, renamed) for one in constants) + rest


def _constants(data: bytes) -> tuple[list[bytes], bytes]:
    """The constants with their tags, and what lies behind the pool."""
    (count,) = struct.unpack_from(">H", data, 8)
    found, place, number = [], 10, 1
    while number < count:
        tag = data[place]
        size = 2 + struct.unpack_from(">H", data, place + 1)[0] if tag == _UTF8 else _SIZES[tag]
        found.append(data[place : place + 1 + size])
        place += 1 + size
        number += 2 if tag in _TWO_PLACES else 1
    return found, data[place:]


def _renamed(constant: bytes, renamed: Renaming) -> bytes:
    if constant[0] != _UTF8:
        return constant
    text = renamed(constant[3:])
    return struct.pack(">BH", _UTF8, len(text)) + text


def relocate(jar: Path, target: Path, renamed: Renaming) -> None:
    """A copy of a jar with the package renamed, in its files' names too."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in _files(old):
            new.writestr(
                renamed(name.encode()).decode(),
                relocated_class(data, renamed) if name.endswith(".class") else data,
            )


def _files(jar: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for name in jar.namelist():
        # a signature would not fit what was renamed
        if not name.endswith(("/", ".SF", ".RSA", ".DSA")):
            yield name, jar.read(name)
