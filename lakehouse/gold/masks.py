"""Masks: the values that replace sensitive ones in gold.

A mask takes a canonical value, which is not None, and gives text, or None. Text that is masked already stays:
rows that are read back from gold are merged with new ones.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any

from lakehouse.fold.upcast import source_text
from lakehouse.schema import ColumnType

Mask = Callable[[Any], str | None]
SHOWN = 4


class Masked(str):
    """Text that a mask has made."""

    __slots__ = ()


def mask_of(kind: str, column_type: ColumnType) -> Mask:
    """The mask that a word of the YAML names: nullify, redact, last4 or sha256."""
    if kind == "nullify":
        return lambda value: None
    if kind == "redact":
        return lambda value: Masked("***")
    return (
        _last_four
        if kind == "last4"
        else _hash_of_bytes
        if column_type.family in ("binary", "geometry")
        else _hash
    )


def _last_four(value: Any) -> str:
    """All but the last four characters as stars; a shorter text shows none."""
    if isinstance(value, Masked):
        return value
    text = source_text(value)
    return Masked("*" * len(text) if len(text) <= SHOWN else "*" * (len(text) - SHOWN) + text[-SHOWN:])


def _hash(value: Any) -> str:
    return (
        value if isinstance(value, Masked) else _digest(source_text(value).encode("utf-8", "surrogatepass"))
    )


def _hash_of_bytes(value: Any) -> str:
    if isinstance(value, Masked):
        return value
    try:
        return _digest(base64.b64decode(source_text(value), validate=True))
    except binascii.Error:
        return _hash(value)


def _digest(data: bytes) -> Masked:
    return Masked(hashlib.sha256(data).hexdigest())
