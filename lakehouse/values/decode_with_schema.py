"""Canonical values of wire values that only the table's schema can read.

A decoder knows the message alone. What it could not make canonical it left as the wire has it, and named the
format as the row's encoding; here the column's type settles it: ENUM indexes and SET masks become labels,
Debezium's numbers and base64 become decimals, dates and times. Then the value is brought into its type's one
normal form (lakehouse/values/normal_form.py).

Outcomes: the canonical value, or the value unchanged where the type can't read it (gold then writes NULL and
keeps the text). Never an exception, and None stays None. `resolver` gives the compiled form, None where
nothing is to be done.

The encoding is "canonical" or a format's name. What a Debezium connector was set to is on no wire without a
schema, so the name may carry it:
`debezium/decimal.handling.mode=string,time.precision.mode=connect,binary.handling.mode=hex` (the producer's
own names and words).
"""

import functools
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lakehouse.schema import INTEGER_BITS, ColumnType
from lakehouse.values.normal_form import (
    PRINTED,
    Rule,
    bytes_of,
    duration_text,
    normal_form,
    vector_text,
    whole_uuid,
)
from lakehouse.values.scalars import (
    ZONED,
    base64_text,
    decimal_of_double,
    instant,
    is_rounded,
    timestamp_utc,
    whole_milliseconds,
    whole_nanoseconds,
    year,
)
from lakehouse.values.told_bytes import (
    integer_text,
    read_canal_text,
    read_debezium_binary,
    read_json_of_debezium,
    read_legacy_binary,
    read_legacy_text,
    read_text_of_driver,
    read_told_binary,
    read_told_bits,
    read_told_json,
    read_told_text,
    read_told_vector,
    told_bytes,
)

Modes = Mapping[str, str]
# settings of Debezium's encoding: a connector before 2.6, and UUIDs of MariaDB's that may lack zero bytes
OLD_CONNECTOR, CUT_UUIDS = "connector.before", "uuid.zeros"
_OLD_NEGATIVE_TIME = re.compile(r"-\d{2,3}:\d\d:(?:03|\d\d\.(?:147483|147000|048576))", re.A)
_LONG_NUMBER = re.compile(r"-?\d{1,65}\.(\d{1,130})", re.A)

# what a number of any type of the server stays far below, and JSON and Python can write
_MAX_BYTES = _MAX_SCALE = 400
_EPOCH = datetime(1970, 1, 1)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def resolve(value: Any, column_type: ColumnType, encoding: str) -> Any:
    """The canonical value of a value of that encoding, or the value itself where the type can't read it."""
    rule = resolver(column_type, encoding)
    return value if rule is None else rule(value)


@functools.lru_cache(maxsize=16384)
def resolver(column_type: ColumnType, encoding: str) -> Rule | None:
    """`resolve` compiled for one column; None where every value is already as it should be."""
    name, _, settings = encoding.partition("/")
    modes = dict(item.split("=", 1) for item in settings.split(",") if "=" in item)
    reader = READERS.get(name, {}).get(column_type.family)
    return _chain(reader(column_type, modes) if reader else None, normal_form(column_type))


def _chain(first: Rule | None, second: Rule | None) -> Rule | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


# --- Canal and DTS: numbers as text


def _read_label(column_type: ColumnType, _: Modes) -> Rule:
    """An index or mask that came as text; text that is a label stays one."""
    members = frozenset(column_type.members)
    return lambda value: value if type(value) is str and value in members else integer_text(value)


def _read_cut_time(column_type: ColumnType, _: Modes) -> Rule | None:
    """TiCDC writes all digits of a TIME(n), but for 8.5.4 and 8.5.5 of the new architecture, whose Open
    Protocol has whole seconds: no column holds that.
    """
    if not column_type.length:
        return None
    return lambda value: {"seconds": value} if type(value) is str and "." not in value else value


def _read_unflagged_text(_: ColumnType, __: Modes) -> Rule:
    return lambda value: value["text"] if type(value) is dict and "text" in value else value


def _read_unflagged_binary(_: ColumnType, modes: Modes) -> Rule:
    """Text that Open Protocol did not say to be bytes; beside a binary key it is told in both readings."""

    def binary(value: Any) -> Any:
        if type(value) is str:
            return value if "key" in modes else base64_text(value.encode())
        return value if told_bytes(value) is None else value["base64"]

    return binary


# --- DTS


def _read_zoned(_: ColumnType, __: Modes) -> Rule:
    def instant(value: Any) -> Any:
        found = ZONED.fullmatch(value) if type(value) is str else None
        return timestamp_utc(found[1], found[2]) if found else value

    return instant


# --- Debezium: what its schema would have told


def _read_integer(column_type: ColumnType, _: Modes) -> Rule:
    """BIGINT UNSIGNED above 2^63 is negative in mode `long`, base64 of a decimal in mode `precise`. Other
    unsigned ones with their first bit set are negative where a connector takes them for signed: INTEGER
    UNSIGNED before 3.7, INT ZEROFILL.
    """
    beyond = 1 << INTEGER_BITS[column_type.base] if column_type.unsigned else 0
    precise = column_type.base == "bigint" and column_type.unsigned

    def integer(value: Any) -> Any:
        if type(value) is bool:
            return int(value)
        if precise and type(value) is str and (data := bytes_of(value)) and len(data) <= _MAX_BYTES:
            value = int.from_bytes(data, "big", signed=True)
        return value + beyond if beyond and type(value) is int and -beyond <= 2 * value < 0 else value

    return integer


def _read_decimal(column_type: ColumnType, modes: Modes) -> Rule:
    """Base64 of the unscaled number in mode `precise`. Text is told by its point or sign; where a
    DECIMAL(p,0) leaves it open (`1234` is both), the mode decides.
    """
    scale, precise = column_type.scale or 0, modes.get("decimal.handling.mode", "precise") == "precise"

    def decimal(value: Any) -> Any:
        if type(value) is dict:
            return _scaled(value.get("value"), value.get("scale"))
        if not precise or type(value) is not str or "." in value or value.startswith("-"):
            return value
        return _scaled(value, scale)

    return decimal


def _read_native_decimal(column_type: ColumnType, modes: Modes) -> Rule:
    """The same of a connector, whose doubles are DECIMALs in mode `double`. Elsewhere decimal.format=NUMERIC
    has written them in full, long ones as text: with other decimals than the column's it was a double.
    """
    read, mode = _read_decimal(column_type, modes), modes.get("decimal.handling.mode")
    scale = column_type.scale or 0

    def decimal(value: Any) -> Any:
        if type(value) is str and (found := _LONG_NUMBER.fullmatch(value)) is not None:
            if mode == "double":
                return float(value)
            if mode is None and len(found[1]) != scale and column_type.length is not None:
                return {"double": float(value)}
        if type(value) is float and mode != "double":
            return decimal_of_double(value, scale)
        return read(value)

    return decimal


def _read_tidb_decimal(column_type: ColumnType, modes: Modes) -> Rule:
    """The same of TiCDC, which sends doubles: of long numbers they may not tell all digits."""
    read, digits, scale = _read_decimal(column_type, modes), column_type.length, column_type.scale or 0
    return lambda value: {"double": value} if is_rounded(value, digits, scale) else read(value)


def _scaled(value: Any, scale: Any) -> Any:
    data = bytes_of(value) if type(value) is str and type(scale) is int and 0 <= scale <= _MAX_SCALE else None
    if not data or len(data) > _MAX_BYTES:
        return value
    number = int.from_bytes(data, "big", signed=True)
    digits = f"{abs(number):0{scale + 1}}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _read_bit(_: ColumnType, __: Modes) -> Rule:
    def bits(value: Any) -> Any:
        data = bytes_of(value) if type(value) is str else None
        return value if data is None or len(data) > _MAX_BYTES else int.from_bytes(data, "little")

    return bits


def _read_date(_: ColumnType, __: Modes) -> Rule:
    def day(value: Any) -> Any:
        if type(value) is not int:
            return value.removesuffix("Z") if type(value) is str else value
        try:
            return date.fromordinal(_EPOCH_ORDINAL + value).isoformat()
        except (ValueError, OverflowError):
            return value

    return day


def _ticks(column_type: ColumnType, modes: Modes, adaptive: str) -> int:
    """How many units of the wire's number make a second."""
    mode = modes.get("time.precision.mode", "adaptive_time_microseconds")
    if mode == adaptive or mode == "adaptive":
        return 1_000 if (column_type.length or 0) <= 3 else 1_000_000
    return {"connect": 1_000, "nanoseconds": 1_000_000_000}.get(mode, 1_000_000)


def _read_datetime(column_type: ColumnType, modes: Modes) -> Rule:
    """Milliseconds to DATETIME(3), microseconds above, as if UTC; ISO text in mode `isostring`. Mode
    `connect` cuts more than three decimals: no column holds that.
    """
    ticks = _ticks(column_type, modes, "adaptive_time_microseconds")
    digits = {3: "milliseconds", 6: "microseconds"}.get(column_type.length or 0, "auto")
    is_cut = (column_type.length or 0) > 3

    def moment(value: Any) -> Any:
        if type(value) is str:
            return value.replace("T", " ").removesuffix("Z")
        unit, count = ticks, value
        if type(value) is dict:
            unit, count = 1_000, value.get("milliseconds")
        if type(count) is not int:
            return value
        try:
            seconds, rest = divmod(whole_nanoseconds(count) if unit == 1_000_000_000 else count, unit)
            told = _EPOCH + timedelta(0, seconds, rest * 1_000_000 // unit)
        except (OverflowError, ValueError):
            return value
        if unit == 1_000 and is_cut:
            return {"text": told.isoformat(" ", "milliseconds")}
        return told.isoformat(" ", digits)

    return moment


def _read_timestamp(_: ColumnType, __: Modes) -> Rule:
    def moment(value: Any) -> Any:
        if type(value) is not str or value[10:11] != "T":
            return value
        if value.endswith("Z"):
            return instant(value[:-1].replace("T", " "))
        try:
            return f"{datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)}Z"
        except (ValueError, OverflowError):
            return value

    return moment


def _read_time(column_type: ColumnType, modes: Modes) -> Rule:
    ticks, digits = _ticks(column_type, modes, "adaptive"), column_type.length or 0
    told: Rule = _doubtful_text if OLD_CONNECTOR in modes else lambda text: text.removesuffix("Z")

    def duration(value: Any) -> Any:
        if type(value) is str:
            return told(value)
        millis = value.get("milliseconds") if type(value) is dict else value if ticks == 1_000 else None
        if type(millis) is int:
            if digits > 3:
                return {"text": duration_text(millis * 1_000)}
            whole = whole_milliseconds(millis, digits)
            return {"milliseconds": millis} if whole is None else told(duration_text(whole * 1_000))
        if type(value) is not int:
            return value
        micros = abs(value) * 1_000_000 // ticks
        return told(duration_text(-micros if value < 0 else micros))

    return duration


def _doubtful_text(text: str) -> Any:
    """Connectors before 2.6 read -12:30:00 as -12:30:03 in the stream, -12:00:00 as -12:04:03, and a negative
    TIME(n) without a fraction with 1.147483 seconds more, or 0.048576 where it has six decimals.
    """
    return {"text": text} if _OLD_NEGATIVE_TIME.fullmatch(text) else text.removesuffix("Z")


def _read_native_text(column_type: ColumnType, modes: Modes) -> Rule | None:
    if column_type.base != "uuid" or CUT_UUIDS not in modes:
        return read_text_of_driver(column_type, modes)

    def uuid(value: Any) -> Any:
        is_uuid = type(value) is str and PRINTED["uuid"].fullmatch(value)
        return (whole_uuid(value) or {"text": value}) if is_uuid else value

    return uuid


def _read_geometry(_: ColumnType, __: Modes) -> Rule:
    """`{"wkb": base64, "srid": n}` -> the SRID in four bytes, then the WKB, as the server stores it."""

    def geometry(value: Any) -> Any:
        wkb = bytes_of(value["wkb"]) if type(value) is dict and type(value.get("wkb")) is str else None
        srid = value.get("srid") or 0 if wkb else None
        return (
            base64_text(struct.pack("<I", srid) + wkb)
            if wkb and type(srid) is int and 0 <= srid < 1 << 32
            else value
        )

    return geometry


def _read_vector(_: ColumnType, __: Modes) -> Rule:
    """MySQL 9 sends a VECTOR as a list of numbers."""
    return lambda value: (
        vector_text(value)
        if type(value) is list and all(type(item) in (int, float) for item in value)
        else value
    )


_NUMBERS = dict.fromkeys(("integer", "year", "bit"), lambda _, __: integer_text)
_TEXTS = _NUMBERS | dict.fromkeys(("enum", "set"), _read_label)
_DEBEZIUM: dict[str, Callable[[ColumnType, Modes], Rule | None]] = {
    "integer": _read_integer,
    "decimal": _read_decimal,
    "bit": _read_bit,
    "date": _read_date,
    "datetime": _read_datetime,
    "timestamp": _read_timestamp,
    "time": _read_time,
    "year": lambda _, __: year,
    "binary": read_debezium_binary,
    "geometry": _read_geometry,
    "vector": _read_vector,
}
# How values of an encoding are read, by the family of the column's type. Silver stores the encodings; a row
# of FORMATS names those that its decoder writes (`schema_encodings`). Values of an encoding without an entry
# need nothing but their type's normal form.
READERS: dict[str, Mapping[str, Callable[[ColumnType, Modes], Rule | None]]] = {
    "ticdc-open": {"time": _read_cut_time},
    "ticdc-open-legacy": {"text": read_legacy_text, "binary": read_legacy_binary},
    "ticdc-open-unflagged": {
        "time": _read_cut_time,
        "text": _read_unflagged_text,
        "binary": _read_unflagged_binary,
    },
    "canal": _TEXTS | {"text": read_canal_text},
    "canal-protobuf": _TEXTS | {"text": read_canal_text},
    "tencent-dts": _TEXTS
    | dict.fromkeys(("binary", "geometry", "unknown"), read_told_binary)
    | {
        "text": read_told_text,
        "json": read_told_json,
        "bit": read_told_bits,
        "vector": read_told_vector,
        "timestamp": _read_zoned,
    },
    "ticdc-debezium": _DEBEZIUM | {"decimal": _read_tidb_decimal, "binary": lambda _, __: None},
    "debezium": _DEBEZIUM
    | {"decimal": _read_native_decimal, "text": _read_native_text, "json": read_json_of_debezium},
}
