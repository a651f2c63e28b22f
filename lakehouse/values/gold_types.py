"""Gold's type for a MySQL type, and the conversion of values to it and back.

    canonical value ──to_python──▶ the Python value that Arrow writes (ValueError: gold's type can't hold it)
    canonical value ◀─to_canonical── the Python value that Spark or Arrow reads

Going there and back gives the canonical value in its normal form (lakehouse/values/decode_with_schema.py), so
a gold table prints as the source's rows. On ValueError the caller writes NULL and keeps the source's text in
the raw companion: zero and partial dates, an ENUM index without labels, text where a number belongs, a number
out of the type's range. The error never holds the value.

No Spark and no Arrow here: types are Spark's DDL text and Arrow's own names.
"""

import binascii
import functools
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, DecimalException
from types import MappingProxyType
from typing import Any

import msgspec

from lakehouse.schema import ColumnType
from lakehouse.values.normal_form import duration_text, normal_form, single, vector_text
from lakehouse.values.scalars import base64_text

Rule = Callable[[Any], Any]

_NO_POLICIES: Mapping[str, str] = MappingProxyType({})
_RANGES = {"TINYINT": 1 << 7, "SMALLINT": 1 << 15, "INT": 1 << 31, "BIGINT": 1 << 63}
_SIGNED = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT"}
_UNSIGNED = {
    "tinyint": "SMALLINT",
    "smallint": "INT",
    "mediumint": "INT",
    "int": "BIGINT",
    "bigint": "DECIMAL(20,0)",
}
_NUMBERS = ("integer", "bit", "float", "double", "year")
_PLAIN = {
    "float": "FLOAT",
    "double": "DOUBLE",
    "binary": "BINARY",
    "geometry": "BINARY",
    "date": "DATE",
    "datetime": "TIMESTAMP_NTZ",
    "timestamp": "TIMESTAMP",
    "year": "INT",
    "vector": "ARRAY<FLOAT>",
}


def spark_type(column_type: ColumnType, policies: Mapping[str, str] = _NO_POLICIES) -> str:
    """Gold's type as Spark DDL text; STRING for what has no type of its own, such as an unknown word or a
    DECIMAL above 38 digits.
    """
    match column_type.family:
        case "integer":
            return (_UNSIGNED if column_type.unsigned else _SIGNED)[column_type.base]
        case "bit":
            return _bit_type(column_type.length, policies)
        case "decimal":
            return _decimal_type(column_type, policies)
        case "time":
            return "BIGINT" if policies.get("time") == "microseconds" else "STRING"
        case "vector" if policies.get("vector") == "string":
            return "STRING"
        case family:
            return _PLAIN.get(family, "STRING")


def _decimal_type(column_type: ColumnType, policies: Mapping[str, str]) -> str:
    precision, scale = column_type.length, column_type.scale or 0
    if (
        precision is None
        or not 0 < precision <= 38
        or not 0 <= scale <= precision
        or policies.get("decimal") == "string"
    ):
        return "STRING"
    return f"DECIMAL({precision},{scale})"


def _bit_type(length: int | None, policies: Mapping[str, str]) -> str:
    if length == 1:
        return "BOOLEAN" if policies.get("bit1") == "boolean" else "BIGINT"
    return "DECIMAL(20,0)" if length == 64 else "BIGINT"


# --- canonical -> Python


@functools.lru_cache(maxsize=16384)
def to_python(column_type: ColumnType, spark: str) -> Rule:
    """The rule that makes a canonical value, which is not None, the Python value of a Spark type. It raises
    ValueError, and nothing else, for a value that the type can't hold.
    """
    family = column_type.family
    if spark.startswith("DECIMAL("):
        precision, scale = spark[8:-1].split(",")
        return _decimal(int(precision), int(scale), int if family != "decimal" else str)
    if family == "time" and spark != "STRING":
        return _micros
    if spark in _RANGES:
        return _integer(_RANGES[spark])
    if family == "enum":
        return _label
    if spark == "STRING" and family in _NUMBERS:
        return _number_text
    return _any_text if family == "unknown" else _WRITERS[spark]


def _integer(bound: int) -> Rule:
    def integer(value: Any) -> int:
        if type(value) is not int or not -bound <= value < bound:
            raise ValueError("not an integer of this range")
        return value

    return integer


def _decimal(precision: int, scale: int, kind: type) -> Rule:
    point = slice(-scale - 1, -scale)

    def decimal(value: Any) -> Decimal:
        wrong = type(value) is not kind
        if wrong:
            raise ValueError("not a decimal")
        try:
            number = Decimal(value)
        except DecimalException:
            raise ValueError("not a decimal") from None
        if scale and kind is str and value[point] == "." and len(value) <= precision + 1:
            return number
        return _fitting(number, precision, scale)

    return decimal


def _fitting(number: Decimal, precision: int, scale: int) -> Decimal:
    """The number, if it has no more digits than the type, left and right of the point."""
    exponent = number.as_tuple().exponent
    if type(exponent) is not int or exponent < -scale or (number and number.adjusted() >= precision - scale):
        raise ValueError("a decimal of more digits")
    return number


def _boolean(value: Any) -> bool:
    if type(value) is not int or value not in (0, 1):
        raise ValueError("neither 0 nor 1")
    return bool(value)


def _double(value: Any) -> float:
    if type(value) not in (float, int) or not math.isfinite(value):
        raise ValueError("not a number")
    return float(value)


def _float(value: Any) -> float:
    number = _double(value)
    if not -_MAX_SINGLE < number < _MAX_SINGLE:
        raise ValueError("beyond a 32-bit float")
    return number


_MAX_SINGLE = 3.4028235677973366e38


def _string(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("text with half a surrogate pair") from None
    return value


def _number_text(value: Any) -> str:
    """A number as text, where the column is text for other tables' sake; what is no number as it is."""
    return _string(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _label(value: Any) -> str:
    """An ENUM's label; its error value prints as ''."""
    return "" if type(value) is int and value == 0 else _string(value)


def _any_text(value: Any) -> str:
    """An unknown type's value: text as it is, anything else as JSON."""
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _binary(value: Any) -> bytes:
    if type(value) is not str:
        raise ValueError("not base64")
    return binascii.a2b_base64(value, strict_mode=True)


def _date(value: Any) -> date:
    if type(value) is not str or len(value) != 10 or value[7] != "-":
        raise ValueError("not a date")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError("no day of the calendar") from None


def _datetime(value: Any) -> datetime:
    if type(value) is not str or value[10:11] != " " or value[-1] == "Z":
        raise ValueError("not a date and time")
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError("a date and time with a zone")
    return moment


def _timestamp(value: Any) -> datetime:
    if type(value) is not str or value[10:11] != " " or value[-1] != "Z":
        raise ValueError("not an instant")
    return _moment(value)


def _moment(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("no moment of the calendar") from None


def _micros(value: Any) -> int:
    if type(value) is not str:
        raise ValueError("not a time")
    head, _, decimals = value.partition(".")
    hours, minutes, seconds = head.removeprefix("-").split(":")
    if (
        not (hours + minutes + seconds + decimals + "0").isdecimal()
        or len(decimals) > 6
        or minutes > "59"
        or seconds > "59"
    ):
        raise ValueError("not a time")
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int(f"{decimals:0<6}")
    return -micros if value[0] == "-" else micros


def _vector(value: Any) -> list[float]:
    numbers = json.loads(_string(value))
    if type(numbers) is not list:
        raise ValueError("not a vector")
    return [_float(number) for number in numbers]


_WRITERS: dict[str, Rule] = {
    "STRING": _string,
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _double,
    "BINARY": _binary,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_NTZ": _datetime,
    "ARRAY<FLOAT>": _vector,
}

# --- Python -> canonical


@functools.lru_cache(maxsize=16384)
def to_canonical(column_type: ColumnType) -> Rule:
    """The rule that prints what gold holds as the canonical value, whichever policy its type was chosen by;
    None stays None.

    An instant without a zone is taken as UTC, in which every session runs.
    """
    reader = _READERS.get(column_type.family)
    if reader is None:
        return lambda value: value
    form = normal_form(column_type) or (lambda value: value)
    return lambda value: None if value is None else form(reader(value))


def _from_number(value: Any) -> int:
    return int(value)


def _from_decimal(value: Any) -> str:
    return f"{value:f}" if type(value) is Decimal else str(value)


def _from_datetime(value: Any) -> str:
    return str(value)


def _from_timestamp(value: Any) -> str:
    return f"{value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value}Z"


def _from_time(value: Any) -> str:
    return duration_text(value) if type(value) is int else value


def _from_vector(value: Any) -> str:
    return value if type(value) is str else vector_text(list(value))


_READERS: dict[str, Rule] = {
    "integer": _from_number,
    "bit": _from_number,
    "decimal": _from_decimal,
    "float": single,
    "binary": base64_text,
    "geometry": base64_text,
    "date": _from_datetime,
    "datetime": _from_datetime,
    "timestamp": _from_timestamp,
    "time": _from_time,
    "vector": _from_vector,
}
