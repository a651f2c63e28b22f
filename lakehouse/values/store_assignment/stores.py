"""The function that stores into a column, by the family of its type."""

from collections.abc import Callable, Mapping
from typing import Any

from lakehouse.schema import ColumnType
from lakehouse.values.normal_form import ADDRESS_SIZES
from lakehouse.values.server_value import Cell
from lakehouse.values.store_assignment.labels import store_enum, store_set
from lakehouse.values.store_assignment.numbers import (
    store_bit,
    store_decimal,
    store_integer,
    store_real,
    store_year,
)
from lakehouse.values.store_assignment.target import Target
from lakehouse.values.store_assignment.texts import store_address, store_binary, store_json, store_text
from lakehouse.values.store_assignment.times import store_date, store_datetime, store_time, store_timestamp


def store_of(column_type: ColumnType) -> Callable[[Cell, Target], Any] | None:
    """The function that stores into a column of this type, None where no rule does."""
    return store_address if column_type.base in ADDRESS_SIZES else STORES.get(column_type.family)


STORES: Mapping[str, Callable[[Cell, Target], Any]] = {
    "integer": store_integer,
    "bit": store_bit,
    "decimal": store_decimal,
    "float": store_real,
    "double": store_real,
    "year": store_year,
    "text": store_text,
    "binary": store_binary,
    "date": store_date,
    "datetime": store_datetime,
    "timestamp": store_timestamp,
    "time": store_time,
    "enum": store_enum,
    "set": store_set,
    "json": store_json,
}
