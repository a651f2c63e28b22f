"""Values of native Debezium: the effects of its handling modes, and which values an embedded schema
determines.

    mode (option)              default                     other modes
    decimal.handling.mode      precise: base64, unscaled   string, double
    time.precision.mode        adaptive_time_microseconds  adaptive, connect, isostring, microseconds,
                                                           nanoseconds, structured
    binary.handling.mode       bytes: base64, unless it    base64, base64-url-safe, hex (text in the schema)
                               may be hex
    bigint.unsigned.handling…  long: wraps below zero      precise: a Decimal; the value itself shows which

With an embedded schema only a negative integer, a double in mode `double` or of many digits, a Decimal of
scale 0 with 20 digits or none told and text in a binary mode that is not base64 stay open, unless
`column.propagate.source.type` tells the column's own type. Encoding of a row that stays open: `debezium`, or
`debezium/MODE=…,MODE=…` for what differs from the defaults.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.formats.debezium.connect_schema import (
    Column,
    Columns,
    Field,
    Test,
    allowed,
    always,
    cached,
    embedded,
    named,
    negative,
    structured,
    type_text,
    unscaled,
    unsigned,
)
from lakehouse.formats.debezium.envelope import metadata_among
from lakehouse.values.charsets import MAY_BE_MISREAD
from lakehouse.values.decode_with_schema import CUT_UUIDS, OLD_CONNECTOR
from lakehouse.values.mysql_json import with_short_doubles
from lakehouse.values.scalars import DOUBLE_DIGITS
from lakehouse.values.told_bytes import may_be_hex


class Modes(NamedTuple):
    """The connector's settings that its messages do not tell without a schema. `is_old`: it is one before
    2.6, which reads some negative times wrong. `cuts_uuids`: a UUID may lack zero bytes. `misreads`: the
    message is not ASCII, so that a text may have characters in place of others, which its charset tells.
    """

    decimal: str
    time: str
    binary: str
    is_old: bool = False
    cuts_uuids: bool = False
    misreads: bool = False


_DEFAULTS = Modes("precise", "adaptive_time_microseconds", "bytes")
_NAMES = ("decimal.handling.mode", "time.precision.mode", "binary.handling.mode")
_SOURCE_TYPE = "__debezium.source.column."
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_JSON = "io.debezium.data.Json"
_PRECISION, _BIGINT_DIGITS = "connect.decimal.precision", "20"
_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "bytes": "longblob"}


def modes(options: Mapping[str, str]) -> Modes:
    """The modes that a source's options name, such as `decimal_handling_mode`."""
    if not options:
        return _DEFAULTS
    decimal, time, binary = (
        options.get(name.replace(".", "_"), default)
        for name, default in zip(_NAMES, _DEFAULTS[:3], strict=True)
    )
    return Modes(decimal, time, binary)


@cached
def encoding(chosen: Modes, has_schema: bool) -> str:
    """The name under which a row's open values are resolved. Where there was a schema, decimals and times are
    text by now.
    """
    told = chosen._replace(decimal="string", time=_DEFAULTS.time) if has_schema else chosen
    differing = [
        f"{name}={mode}"
        for name, mode, default in zip(_NAMES, told[:3], _DEFAULTS[:3], strict=True)
        if mode != default
    ]
    if told.is_old:
        differing.append(f"{OLD_CONNECTOR}=2.6")
    if told.cuts_uuids:
        differing.append(f"{CUT_UUIDS}=lost")
    return "debezium/" + ",".join(differing) if differing else "debezium"


@cached
def embedded_columns(schema: bytes, image: str, chosen: Modes) -> Columns | None:
    """The columns of the struct `image` in an embedded schema; those of an unwrapped row, which has none,
    stand beside what was added. A column that comes as bytes tells the mode of all.
    """
    found = embedded(schema, image, lambda field: _column(field, chosen))
    if found is not None and found.has_bytes:
        found = found._replace(tests=tuple(each for each in found.tests if each[1] is not may_be_hex))
    if found is None or image:
        return found
    types = found.types or {}
    metadata = metadata_among(types)
    return found._replace(types={name: type_ for name, type_ in types.items() if name not in metadata})


def _source_type(field: Field) -> str | None:
    """The column's own type, where `column.propagate.source.type` puts it into the schema."""
    word = field.parameters.get(_SOURCE_TYPE + "type")
    if not word:
        return None
    length, scale = (field.parameters.get(_SOURCE_TYPE + part) for part in ("length", "scale"))
    return type_text(word, int(length) if length else None, int(scale) if scale else None, allowed(field))


def _column(field: Field, chosen: Modes) -> Column:
    own = _source_type(field)
    known = named(field) or _plain(field, own or "", chosen)
    if (
        field.name == _DECIMAL
        and field.parameters.get("scale", "0") == "0"
        and field.parameters.get(_PRECISION, _BIGINT_DIGITS) == _BIGINT_DIGITS
    ):
        known = _whole_number(own or "", known)
    if chosen.is_old and known.type == "time":
        known = known._replace(open_if=functools.partial(_may_be_doubtful, test=known.open_if))
    if chosen.cuts_uuids and known.type == "uuid":
        known = known._replace(open_if=_begins_with_zeros)
    if chosen.misreads and field.type == "string" and not field.name:
        known = known._replace(open_if=functools.partial(_may_be_misread, test=known.open_if))
    if field.name == _JSON:
        known = known._replace(read=with_short_doubles)
    return known._replace(type=own or known.type)


def _begins_with_zeros(value: Any) -> bool:
    return type(value) is str and value.startswith("00")


def _may_be_misread(value: Any, test: Test | None) -> bool:
    if test is not None and test(value):
        return True
    return type(value) is str and not value.isascii() and MAY_BE_MISREAD.search(value) is not None


def _may_be_rounded(value: Any) -> bool:
    """Whether a double has more digits than every double keeps. In mode `double`, which nothing tells, it may
    have been another DECIMAL. (A long number is text by now, but for one that is written with a positive
    exponent.)
    """
    return type(value) is str or abs(value) >= 10**DOUBLE_DIGITS


def _may_be_doubtful(value: Any, test: Test | None) -> bool:
    """Whether a time is negative, or as `test` says."""
    return str(value).startswith("-") or (test is not None and test(value))


def _whole_number(own: str, known: Column) -> Column:
    """Of 20 digits and no scale, or without either, it is what `bigint.unsigned.handling.mode=precise` sends,
    or a DECIMAL(20,0), or an old connector's DECIMAL(p,0).
    """
    if own.startswith(("decimal", "numeric")):
        return known
    return Column(
        unscaled, None if own else always, "bigint unsigned" if known.type == "decimal" else known.type
    )


def _plain(field: Field, own: str, chosen: Modes) -> Column:
    match field.type:
        case "double" | "float":
            opened = own.startswith(("decimal", "numeric")) or (
                not own and field.type == "double" and chosen.decimal == "double"
            )
            rounds = _may_be_rounded if field.type == "double" and not own else None
            return Column(float, always) if opened else Column(float, rounds, field.type)
        case "int64":
            return (
                Column(unsigned)
                if own.startswith("bigint") and "unsigned" in own
                else Column(None, None if own else negative, "bigint")
            )
        case "string":
            return _text(own, chosen)
        case "int8" | "int16" | "int32":
            is_signed = own and not own.endswith(("unsigned", "zerofill"))
            return Column(None, None if is_signed else negative, _TYPES[field.type])
        case kind:
            return Column(structured if kind in ("struct", "array") else None, None, _TYPES.get(kind))


def _text(own: str, chosen: Modes) -> Column:
    """Text, unless a mode puts binaries or decimals into text too and the schema does not tell
    which this is. Where the mode of binaries is not said, the column's type tells what looks like hex.
    """
    may_be_binary = own.partition("(")[0].endswith(("binary", "blob")) or not own
    if chosen.binary in ("hex", "base64-url-safe") and may_be_binary:
        return Column(None, always)
    test = may_be_hex if chosen.binary == "bytes" and may_be_binary else None
    return Column(None, test, None if chosen.binary == "base64" or chosen.decimal == "string" else "longtext")
