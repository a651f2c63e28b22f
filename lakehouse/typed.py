"""Folded rows to gold's columns: names, Spark types, and a text companion for each value that gold's type can't hold."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lakehouse.carry import Row
from lakehouse.gold_types import spark_type, to_canonical, to_python
from lakehouse.schema import Column, GoldKeeps, TableSchema

RAW = "_raw_"


@dataclass(frozen=True, slots=True)
class GoldColumn:
    """One column of a gold table: the source's column, what holds it, and the name of the text beside values that can't be held."""

    column: Column
    spark: str
    to_python: Callable[[Any], Any]
    to_canonical: Callable[[Any], Any]
    companion: str

    @property
    def name(self) -> str:
        return self.column.name


def gold_columns(schema: TableSchema, policies: Mapping[str, str], *, virtual: bool) -> list[GoldColumn]:
    """The columns that gold has: all of the source's, but VIRTUAL generated ones where no message carries them; in the shape that
    ignored DDLs left, dropped columns that gold keeps last."""
    keeps = schema.keeps
    shown = [column for column in schema.columns if (virtual or column.generated != "virtual") and column.id not in keeps.hidden]
    if keeps != GoldKeeps():
        shown = _kept(shown, keeps)
    companions = companion_names([column.name for column in shown])
    return [gold_column(column, spark_type(column.type, policies), companions[column.name]) for column in shown]


def _kept(columns: list[Column], keeps: GoldKeeps) -> list[Column]:
    """Columns under the names and types that gold keeps. Where two would have one name, the later one gets a number."""
    names, types = dict(keeps.names), dict(keeps.types)
    taken: set[str] = set()
    found = []
    for column in (*columns, *keeps.dropped):
        name = free = names.get(column.id, column.name)
        number = 2
        while free.casefold() in taken:
            free, number = f"{name}_{number}", number + 1
        taken.add(free.casefold())
        found.append(replace(column, name=free, type=types.get(column.id, column.type)))
    return found


def gold_column(column: Column, spark: str, companion: str) -> GoldColumn:
    return GoldColumn(column, spark, to_python(column.type, spark), to_canonical(column.type), companion)


def companion_names(names: Iterable[str]) -> dict[str, str]:
    """`_raw_<column>` for each; where the source has a column of that name, with as many underscores behind it as are needed."""
    names = list(names)
    taken = {name.casefold() for name in names}
    found = {}
    for name in names:
        companion = RAW + name
        while companion.casefold() in taken:
            companion += "_"
        taken.add(companion.casefold())
        found[name] = companion
    return found


@dataclass(slots=True)
class Typed:
    """Rows column by column; `raw` holds the companions that some row needed."""

    columns: dict[str, list[Any]]
    raw: dict[str, list[str | None]]
    count: int


def type_rows(rows: Iterable[Row], columns: list[GoldColumn]) -> Typed:
    """Convert folded rows. A value that its column can't hold becomes null, with its text in `_raw_<column>`."""
    rows = list(rows)
    typed = Typed({}, {}, len(rows))
    for column in columns:
        values, raw = _type_column(rows, column)
        typed.columns[column.name] = values
        if raw is not None:
            typed.raw[column.companion] = raw
    return typed


def _type_column(rows: list[Row], column: GoldColumn) -> tuple[list[Any], list[str | None] | None]:
    convert, column_id = column.to_python, column.column.id
    values: list[Any] = []
    raw: list[str | None] | None = None
    for index, row in enumerate(rows):
        value = row.get(column_id)
        if value is None:
            values.append(None)
            continue
        try:
            values.append(convert(value))
        except ValueError:
            values.append(None)
            raw = raw or [None] * len(rows)
            raw[index] = source_text(value)
    return values, raw


def source_text(value: Any) -> str:
    """The source's text of a canonical value; bytes that are no text of their charset as base64."""
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return str(value["base64"])
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
