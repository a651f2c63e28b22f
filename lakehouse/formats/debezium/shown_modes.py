"""The settings of a connector and its server that its rows show. Handling modes show in values against the
types of schema records:

    DECIMAL as text `12.34`             decimal.handling.mode=string
    VARBINARY as `deadbeef`, `-_8=`     binary.handling.mode=hex, base64-url-safe
    TIME(0) as 45296000                 time.precision.mode=adaptive: in microseconds it would have a fraction

A mode is told only where the default, which is taken for it else, can't have written the values: they are
out of range, finer than the column, or no base64. One exception is `connect`, of whose DATETIME(6) all
milliseconds can be microseconds too: it is told where most of them would be of the days around 1970-01-01.

Rows of a transaction that have one place in the binlog, as in a compressed one, show in their numbers.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lakehouse.errors import DecodeError
from lakehouse.events import Image, Message
from lakehouse.formats.debezium.envelope import schema_columns, value_of
from lakehouse.formats.debezium.records import Payload, Source, begin_of, read_record
from lakehouse.formats.debezium.unwrapped import unwrapped_row
from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.scalars import DOUBLE_DIGITS, whole_milliseconds, whole_nanoseconds

_Column = tuple[str, str, str]  # of a database's table
_VALUES, _SIZE = 1000, 64  # how many values of a column are looked at, and how much of each
_MILLI, _MICRO, _NANO = 1_000, 1_000_000, 1_000_000_000
# By mode how many units of a number make a second: of DATETIMEs with up to three decimals and with more, and
# of such TIMEs. `isostring` and `structured` are told by each value itself.
_TICKS = {
    "adaptive_time_microseconds": {"datetime": (_MILLI, _MICRO), "time": (_MICRO, _MICRO)},
    "adaptive": {"datetime": (_MILLI, _MICRO), "time": (_MILLI, _MICRO)},
    "connect": {"datetime": (_MILLI, _MILLI), "time": (_MILLI, _MILLI)},
    "microseconds": {"datetime": (_MICRO, _MICRO), "time": (_MICRO, _MICRO)},
    "nanoseconds": {"datetime": (_NANO, _NANO), "time": (_NANO, _NANO)},
}
_DEFAULT_TIME = "adaptive_time_microseconds"
_DAYS_AROUND_EPOCH = 100 * 86_400 * _MICRO
_FIRST_SECOND, _LAST_SECOND, _LONGEST = -62_167_219_200, 253_402_300_799, 3_020_399
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.A)
_HEX = re.compile(r"(?:[0-9a-f]{2})+", re.A)
_URL_SAFE = re.compile(r"[\w-]+={0,2}", re.A)
_CERTAIN = 12  # characters that base64 has all among those of hex once in some ten million times


class _Moment(NamedTuple):
    """A DATETIME or TIME as a number, with the column's decimals."""

    family: str
    digits: int
    value: int


class _Places:
    """Whether a row's place is at or below that of the row before it in its transaction and partition. A
    change of the key is two rows of one place; a connector that restarts begins with lower numbers.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[str, int, tuple[int, int], str]] = {}
        self.are_shared = False

    def note(self, message: Message, payload: Payload, source: Source) -> None:
        told, op = payload.transaction, payload.op or ""
        if told is None or told.total_order is None or begin_of(told.id) is not None:
            return
        key, place = (message.topic, message.partition), (source.pos, source.row or 0)
        last = self._last.get(key)
        self._last[key] = told.id, told.total_order, place, op
        if last is not None and last[0] == told.id and last[1] < told.total_order:
            is_half = (last[3], op) == ("d", "c") and last[2] == place
            self.are_shared = self.are_shared or (last[2] >= place and not is_half)


def shown_modes(messages: Iterable[Message], _: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings that are not the defaults, as options of the format."""
    types: dict[_Column, set[ColumnType]] = defaultdict(set)
    values: dict[_Column, set[Any]] = defaultdict(set)
    places = _Places()
    for message in messages:
        try:
            _note(message, types, values, places)
        except DecodeError:
            continue
    of_type = {column: next(iter(found)) for column, found in types.items() if len(found) == 1}
    typed = [(of_type[column], found) for column, found in values.items() if column in of_type]
    told = {
        "decimal_handling_mode": _decimal_mode(found for kind, found in typed if kind.family == "decimal"),
        "time_precision_mode": _time_mode(list(_moments(typed))),
        "binary_handling_mode": _binary_mode(
            value for kind, found in typed if kind.family == "binary" for value in found
        ),
        "binlog_transaction_compression": "true" if places.are_shared else None,
    }
    return {name: mode for name, mode in told.items() if mode is not None}


def _note(
    message: Message,
    types: dict[_Column, set[ColumnType]],
    values: dict[_Column, set[Any]],
    places: _Places,
) -> None:
    value = value_of(message)
    if record := unwrapped_row(message, value):
        _note_rows(record.source, (record.before, record.after), values, has_schema=record.schema is not None)
        return
    schema, payload = read_record(value) if value else (None, None)
    if payload is None or payload.source is None:
        return
    if payload.op is not None:
        places.note(message, payload, payload.source)
        _note_rows(payload.source, (payload.before, payload.after), values, has_schema=schema is not None)
    for column, kind in _typed_columns(payload):
        types[column].add(kind)


def _note_rows(
    source: Source, rows: tuple[Image | None, ...], values: dict[_Column, set[Any]], *, has_schema: bool
) -> None:
    """Remember values; where a schema is embedded, it tells all but what is text."""
    for row in rows:
        for name, value in (row or {}).items():
            found = values[source.db or "", source.table or "", name]
            if len(found) >= _VALUES:
                continue
            if type(value) is str:
                found.add(value[:_SIZE])
            elif type(value) in (int, float) and not has_schema:
                found.add(value)


def _typed_columns(payload: Payload) -> Iterator[tuple[_Column, ColumnType]]:
    source, changes = payload.source or Source(), payload.tableChanges or ()
    for change in changes:
        if len(changes) == 1 and source.table:
            for column in schema_columns(change) or ():
                name = (source.db or payload.databaseName or "", source.table, column["name"])
                yield name, parse_type(column["type"])


def _decimal_mode(columns: Iterable[set[Any]]) -> str | None:
    """`string` where text is no base64. A long number of JSON is text here too, so that only short text
    counts.
    """
    found = [column for column in columns if not any(type(value) is float for value in column)]
    texts = [value for column in found for value in column if type(value) is str]
    if not all(map(_NUMBER.fullmatch, texts)):
        return None
    short = (text for text in texts if len(text) <= DOUBLE_DIGITS + 1)
    return "string" if any("." in text or "-" in text or len(text) % 4 for text in short) else None


def _binary_mode(values: Iterable[Any]) -> str | None:
    texts = [value for value in values if type(value) is str and value]
    if all(map(_HEX.fullmatch, texts)) and sum(map(len, texts)) >= _CERTAIN:
        return "hex"
    is_url_safe = all(map(_URL_SAFE.fullmatch, texts)) and any("-" in text or "_" in text for text in texts)
    return "base64-url-safe" if is_url_safe else None


def _moments(typed: Iterable[tuple[ColumnType, set[Any]]]) -> Iterator[_Moment]:
    for kind, values in typed:
        if kind.family in ("datetime", "time"):
            for value in values:
                if type(value) is int and value:
                    yield _Moment(kind.family, kind.length or 0, value)


def _time_mode(moments: list[_Moment]) -> str | None:
    modes = [
        mode for mode, ticks in _TICKS.items() if all(_may_be(moment, mode, ticks) for moment in moments)
    ]
    fine = [moment for moment in moments if moment.family == "datetime" and moment.digits > 3]
    early = sum(abs(moment.value) < _DAYS_AROUND_EPOCH for moment in fine)
    if "connect" in modes and 2 * early > len(fine):
        return "connect"
    return None if not modes or modes[0] == _DEFAULT_TIME else modes[0]


def _may_be(moment: _Moment, mode: str, ticks: dict[str, tuple[int, int]]) -> bool:
    """Whether a mode can have written the number: it is a moment in its range, and no finer than the column
    is.
    """
    unit = ticks[moment.family][moment.digits > 3]
    step: int = max(unit // 10**moment.digits, 1)
    if unit == _NANO:
        try:
            return not whole_nanoseconds(moment.value) % step
        except ValueError:
            return False
    if moment.family == "datetime":
        return not moment.value % step and _FIRST_SECOND * unit <= moment.value < (_LAST_SECOND + 1) * unit
    if mode == "connect":
        return not moment.value % step and 0 <= moment.value < 86_400 * unit
    if unit == _MILLI:
        return whole_milliseconds(moment.value, moment.digits) is not None or moment.digits == 3
    return not moment.value % step and abs(moment.value) < (_LONGEST + 1) * unit
