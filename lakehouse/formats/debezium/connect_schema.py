"""The schema that a Connect JSON converter embeds, as functions from wire value to canonical value.

    {"schema": {"type": "struct", "fields": [{"field": "before", "fields": [COLUMN, …]}, …]}, "payload": …}
    COLUMN = {"field", "type", "name"?: the meaning of the number or text, "parameters"?, "tidb_type"?}

Specification: Kafka Connect's JsonConverter, Debezium's "Data type mappings" (MySQL, MariaDB), TiCDC's
Debezium encoder. A column's reader is built once per schema, never per row. What the schema leaves open (a
decimal sent as a double, a negative BIGINT that may be an unsigned one) stays as the wire has it and makes
its row *open*: its encoding is the wire family's name, and the table's own schema resolves it. No open wire
value looks like a canonical value of its type.
"""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from operator import index
from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Image
from lakehouse.formats.wire_json import read_json
from lakehouse.values.normal_form import vector_text
from lakehouse.values.scalars import (
    LONGEST_TIME,
    base64_bytes,
    base64_text,
    bit_number,
    decimal_of_double,
    instant,
    timestamp_utc,
    whole_nanoseconds,
    year,
)

Read = Callable[[Any], Any]
Test = Callable[[Any], bool]
_EPOCH = datetime(1970, 1, 1)
_DAY_ZERO, _DAYS_OF_400_YEARS = date(1970, 1, 1).toordinal(), 146_097
_DAY = 86_400_000_000  # microseconds
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.A)
_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."


class Field(msgspec.Struct):
    """One field of a Connect schema, as far as values need it."""

    field: str = ""
    type: str = ""
    name: str | None = None
    parameters: dict[str, str] = {}
    fields: list["Field"] = []
    tidb_type: str | None = None


class Column(NamedTuple):
    """How to read a column: `read` makes the value canonical (None: it is), `open_if` tells values that the
    schema leaves open.
    """

    read: Read | None = None
    open_if: Test | None = None
    type: str | None = None


class Columns(NamedTuple):
    """The columns of an image that need work, and the SQL types of all: "" where the schema does
    not tell it. `has_bytes`: a column comes as bytes, which are base64 in JSON.
    """

    reads: tuple[tuple[str, Read], ...]
    tests: tuple[tuple[str, Test], ...]
    types: dict[str, str] | None
    has_bytes: bool = False

    def canonical(self, row: Image | None) -> Image | None:
        """The row with every value read; nulls and columns that the schema does not name stay as they are."""
        if row is None:
            return None
        for name, read in self.reads:
            value = row.get(name)
            if value is not None:
                try:
                    row[name] = read(value)
                except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
                    raise DecodeError(
                        "value", f"column {name}: expected a value as its embedded schema says, got another"
                    ) from None
        return row

    def leave_open(self, *rows: Image | None) -> bool:
        """Whether a value of these rows, as the wire has it, needs the table's own schema."""
        return any(
            row is not None and row.get(name) is not None and test(row[name])
            for name, test in self.tests
            for row in rows
        )


_FIELD = msgspec.json.Decoder(Field)


def embedded(schema: bytes, path: str, column: Callable[[Field], Column]) -> Columns | None:
    """The columns of the struct `path` inside an embedded schema (of the schema itself where `path` is
    empty).
    """
    root = read_json(_FIELD, schema, "schema")
    struct = next((field for field in root.fields if field.field == path), None) if path else root
    return None if struct is None or not struct.fields else columns(struct.fields, column)


def columns(fields: list[Field], column: Callable[[Field], Column]) -> Columns:
    """Fields by name; of two fields of one name the last counts (TiCDC lists VIRTUAL columns twice)."""
    try:
        found = {field.field: column(field) for field in fields}
    except (ValueError, TypeError):
        raise DecodeError(
            "schema", "embedded schema: expected parameters as its types have them, got others"
        ) from None
    types = {name: each.type or "" for name, each in found.items()}
    return Columns(
        tuple((name, each.read) for name, each in found.items() if each.read),
        tuple((name, each.open_if) for name, each in found.items() if each.open_if),
        types or None,
        any(field.type == "bytes" and not field.name for field in fields),
    )


def always(_: Any) -> bool:
    return True


def negative(value: Any) -> bool:
    return type(value) is int and value < 0


def type_text(
    word: str, length: int | None, scale: int | None = None, members: list[str] | None = None
) -> str:
    """A type word with its arguments in MySQL's spelling: ("INT UNSIGNED", 10) is `int(10) unsigned`. BINARY
    as a second word is of the collation; the MySQL connector 3.6.0 writes it behind BINARY itself too.
    """
    plain = word.lower().removesuffix(" binary")
    base, space, modifiers = re.sub(r" +(?=(?:un)?signed|zerofill)", "\n", plain).partition("\n")
    if members:
        arguments = (
            "("
            + ",".join("'" + member.replace("\\", "\\\\").replace("'", "''") + "'" for member in members)
            + ")"
        )
    elif length is None or length < 0 or base in ("enum", "set"):
        arguments = ""
    else:
        arguments = f"({length})" if scale is None else f"({length},{scale})"
    return f"{base}{arguments}{' ' if space else ''}{modifiers}".replace("\n", " ")


def allowed(field: Field) -> list[str] | None:
    """The labels of an ENUM or SET; a comma inside a label is sent as `\\,`."""
    text = field.parameters.get("allowed")
    return None if text is None else [label.replace("\\,", ",") for label in re.split(r"(?<!\\),", text)]


# Values


def day(value: int) -> str:
    """Days since 1970-01-01, in the year 0 too (enable.time.adjuster=false), which Python does not have."""
    ordinal = _DAY_ZERO + index(value)
    if -366 < ordinal < 1:
        return "0000" + date.fromordinal(ordinal + _DAYS_OF_400_YEARS).isoformat()[4:]
    return date.fromordinal(ordinal).isoformat()


def milliseconds(value: int) -> str:
    """DATETIME from milliseconds since 1970, as if in UTC."""
    return _moment(index(value) * 1000, "milliseconds")


def microseconds(value: int) -> str:
    return _moment(index(value), "microseconds")


def nanoseconds(value: int) -> str:
    return _moment(whole_nanoseconds(index(value)) // 1000, "microseconds")


def _moment(micros: int, precision: str) -> str:
    days = micros // _DAY
    if days <= -_DAY_ZERO:
        return day(days) + _moment(micros - days * _DAY, precision)[10:]
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(" ", precision if moment.microsecond else "seconds")


def duration(micros: int) -> str:
    """TIME from signed microseconds; hours have two or three digits."""
    seconds, fraction = divmod(abs(index(micros)), 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{'-' if micros < 0 else ''}{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}" if fraction else text


def time_of_milliseconds(value: int) -> Any:
    """TIME in 32 bits; the column's decimals tell whether a long one has wrapped."""
    return {"milliseconds": value} if may_have_wrapped(value) else duration(index(value) * 1000)


def cut_to_milliseconds(value: int) -> dict[str, int]:
    """DATETIME or TIME of time.precision.mode=connect, which cuts one of more than three decimals: the
    column's type tells whether this one was.
    """
    return {"milliseconds": index(value)}


def may_have_wrapped(value: Any) -> bool:
    return type(value) is int and (1 << 32) - LONGEST_TIME <= abs(value) <= 1 << 31


def zoned(text: str) -> str:
    """TIMESTAMP from ISO 8601 with Z or an offset, as UTC text with Z."""
    clock, zone = _iso(text)
    if zone in ("Z", ""):
        return instant(clock)
    moved = datetime.fromisoformat(clock[:19] + zone).astimezone(UTC).replace(tzinfo=None)
    return f"{moved}{clock[19:]}Z"


def local(text: str) -> str:
    """DATETIME from ISO 8601, whose Z (`isostring` writes one) says nothing."""
    return _iso(text)[0]


def _iso(text: str) -> tuple[str, str]:
    found = _ISO.fullmatch(text)
    if not found:
        raise ValueError("no ISO 8601 timestamp")
    return f"{found[1]} {found[2]}{found[3] or ':00'}{found[4] or ''}", found[5] or ""


def without_z(text: str) -> str:
    """DATE and TIME of `isostring`."""
    return text.removesuffix("Z")


def bits(value: Any) -> int:
    """BIT(1) is a boolean, a longer one little-endian bytes."""
    if isinstance(value, bool):
        return int(value)
    return bit_number(base64_bytes(value), "little")


def unscaled(value: Any) -> int:
    """The integer in Connect's Decimal: big-endian two's complement; one of scale 0 that
    decimal.format=NUMERIC wrote is a number.
    """
    return value if type(value) is int else int.from_bytes(base64_bytes(value), "big", signed=True)


def decimal_text(number: int, scale: int) -> str:
    """`number` × 10^-scale with all its fraction digits; ValueError for a scale that no server has."""
    if not 0 <= scale <= 65:
        raise ValueError("no scale")
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{whole}" if number < 0 else whole


def unsigned(value: int) -> int:
    """BIGINT UNSIGNED that was squeezed into 64 signed bits."""
    return index(value) + (1 << 64 if value < 0 else 0)


def label(text: str) -> str:
    """An ENUM's label; Debezium escapes a comma in it."""
    return text.replace("\\,", ",")


def geometry(value: Mapping[str, Any]) -> str:
    """MySQL's own form: SRID in four little-endian bytes, then WKB."""
    return base64_text((value.get("srid") or 0).to_bytes(4, "little") + base64_bytes(value["wkb"]))


def vector(value: list[float]) -> str:
    """Its 32-bit numbers as MySQL prints them."""
    if not all(type(item) in (int, float) for item in value):
        raise TypeError("no vector")
    return vector_text(value)


def temporal(value: Mapping[str, Any]) -> str:
    """A date or time in parts, as time.precision.mode=structured writes it, zero dates too. A TIME has
    `hours`, and its sign in each.
    """
    nanos = index(value.get("nanos") or 0)
    if "hours" in value:
        return duration(
            (((value["hours"] * 60 + value["minutes"]) * 60 + value["seconds"]) * 1_000_000_000 + nanos)
            // 1000
        )
    day = f"{value['year']:04}-{value['month']:02}-{value['day']:02}" if "year" in value else ""
    if "hour" not in value:
        return day
    fraction = f".{nanos // 1000:06}" if nanos else ""
    clock = f"{value['hour']:02}:{value['minute']:02}:{value['second']:02}{fraction}"
    text = f"{day} {clock}" if day else clock
    return timestamp_utc(text, _offset(value["offsetSeconds"])) if "offsetSeconds" in value else text


def _offset(seconds: int) -> str:
    return f"{'-' if seconds < 0 else '+'}{abs(seconds) // 3600:02}:{abs(seconds) // 60 % 60:02}"


def structured(value: Any) -> Any:
    """An object or array in canonical form, recognised by its members; other values are unchanged."""
    if not isinstance(value, dict):
        return vector(value) if isinstance(value, list) else value
    if "scale" in value:
        return decimal_text(unscaled(value["value"]), index(value["scale"]))
    return temporal(value) if value.keys() & {"year", "hour", "hours"} else geometry(value)


def _scaled(field: Field) -> Read:
    scale = int(field.parameters["scale"]) if "scale" in field.parameters else 0
    if not 0 <= scale <= 65:
        raise ValueError("no scale")

    def read(value: Any) -> Any:
        """Base64, or the number that decimal.format=NUMERIC makes of it, of which a long one is text."""
        if type(value) is float:
            return decimal_of_double(value, scale)
        if type(value) is str and "." in value:
            return value
        return decimal_text(value * 10**scale if type(value) is int else unscaled(value), scale)

    return read


def named(field: Field) -> Column | None:
    """A column whose schema has a name that settles its value; None for any other."""
    name = field.name or ""
    if name == _CONNECT + "Decimal":
        precision = field.parameters.get("connect.decimal.precision")
        return Column(
            _scaled(field),
            None,
            type_text("decimal", int(precision), _scale(field)) if precision else "decimal",
        )
    if name in (_DATA + "Enum", _DATA + "EnumSet"):
        return Column(
            label if name == _DATA + "Enum" else None,
            None,
            type_text(_LABELS[name], None, None, allowed(field)),
        )
    if name == _DATA + "Bits":
        return Column(bits, None, type_text("bit", int(field.parameters.get("length", 64))))
    if name.startswith(_DATA + "geometry."):
        return Column(structured, None, name.rpartition(".")[2].lower())
    if name.startswith(_TIME) and name not in _NAMED:
        return Column(None, always)
    return _NAMED.get(name) or (Column(bits, None, "bit(1)") if field.type == "boolean" else None)


def _scale(field: Field) -> int:
    return int(field.parameters.get("scale", 0))


_LABELS = {_DATA + "Enum": "enum", _DATA + "EnumSet": "set"}
_NAMED = {
    _TIME + "Date": Column(day, None, "date"),
    _CONNECT + "Date": Column(day, None, "date"),
    _TIME + "Timestamp": Column(milliseconds, None, "datetime"),
    _CONNECT + "Timestamp": Column(cut_to_milliseconds, always, "datetime"),
    _TIME + "MicroTimestamp": Column(microseconds, None, "datetime"),
    _TIME + "NanoTimestamp": Column(nanoseconds, None, "datetime"),
    _TIME + "Time": Column(time_of_milliseconds, may_have_wrapped, "time"),
    _CONNECT + "Time": Column(cut_to_milliseconds, always, "time"),
    _TIME + "MicroTime": Column(duration, None, "time"),
    _TIME + "NanoTime": Column(lambda value: duration(index(value) // 1000), None, "time"),
    _TIME + "ZonedTimestamp": Column(zoned, None, "timestamp"),
    _TIME + "IsoDate": Column(without_z, None, "date"),
    _TIME + "IsoTime": Column(without_z, None, "time"),
    _TIME + "ZonedTime": Column(without_z, None, "time"),
    _TIME + "IsoTimestamp": Column(local, None, "datetime"),
    _TIME + "Year": Column(year, None, "year"),
    _TIME + "StructuredDate": Column(structured, None, "date"),
    _TIME + "StructuredTime": Column(structured, None, "time"),
    _TIME + "StructuredDuration": Column(structured, None, "time"),
    _TIME + "StructuredTimestamp": Column(structured, None, "datetime"),
    _TIME + "StructuredZonedTimestamp": Column(structured, None, "timestamp"),
    _DATA + "Json": Column(None, None, "json"),
    _DATA + "Uuid": Column(None, None, "uuid"),
    _DATA + "VariableScaleDecimal": Column(structured),
    _DATA + "FloatVector": Column(structured, None, "vector"),
    _DATA + "DoubleVector": Column(structured, None, "vector"),
}
cached = functools.lru_cache(maxsize=512)
