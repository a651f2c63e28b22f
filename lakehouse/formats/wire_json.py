"""JSON on the wire: msgspec with its several exceptions as the one DecodeError, and without a value in its
text.
"""

import math
import re
from decimal import Decimal
from typing import TypeVar

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.values.mysql_json import MAX_DEPTH
from lakehouse.values.scalars import DOUBLE_DIGITS

T = TypeVar("T")
_MOST_DIGITS = 65  # of a DECIMAL
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


def number_or_text(text: str) -> float | str:
    """A JSON number with a point or an exponent: a double, or its text where it has more digits than every
    double keeps, for it may be a DECIMAL. A `float_hook` of msgspec's decoders.
    """
    value = float(text)
    if math.isinf(value):
        raise ValueError("number out of range")
    if len(text) <= DOUBLE_DIGITS + 1:
        return value
    mantissa, _, exponent = text.lower().partition("e")
    digits = len(mantissa.replace(".", "").lstrip("-0"))
    if not DOUBLE_DIGITS < digits <= _MOST_DIGITS or not -_MOST_DIGITS <= int(exponent or 0) <= 0:
        return value
    return f"{Decimal(text):f}"


def read_json(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, what: str) -> T:
    """`data` as the decoder's type. msgspec's texts name types, paths and byte offsets, never values."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise DecodeError("shape", f"{what}: {error}") from None
    except msgspec.DecodeError as error:
        raise DecodeError("json", f"{what}: expected JSON, got {_likely(bytes(data)[:7]) or error}") from None
    except UnicodeDecodeError:
        raise DecodeError("json", f"{what}: expected JSON in UTF-8, got other bytes") from None
    except RecursionError:
        raise DecodeError("json", f"{what}: expected JSON, got one nested too deep") from None


def _likely(head: bytes) -> str:
    if head.startswith(b"\x04\x22\x4d\x18"):
        return "an LZ4 frame (does the source's `compression` say so?)"
    if head[:1] == b"\0":
        return "a schema registry's frame (let the producer write JSON without a registry)"
    if head == b"Struct{":
        return "a text of StringConverter (let value.converter be JsonConverter)"
    return ""


def nests_too_deep(data: bytes) -> bool:
    """Whether JSON nests deeper than MAX_DEPTH."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _BRACKETS.finditer(data):
        bracket = token[0]
        depth += (bracket in (b"[", b"{")) - (bracket in (b"]", b"}"))
        if depth > MAX_DEPTH:
            return True
    return False
