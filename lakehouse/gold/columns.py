"""Folded rows to gold's columns: names, Spark types, and a text companion for each value that gold's type
can't hold.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.fold.upcast import Row, source_text
from lakehouse.gold.masks import mask_of
from lakehouse.gold.options import PLAIN, TYPES, ColumnOptions, GoldOptions
from lakehouse.schema import Column, GoldKeeps, TableSchema
from lakehouse.values.gold_types import spark_type, to_canonical, to_python

RAW = "_raw_"


@dataclass(frozen=True, slots=True)
class GoldColumn:
    """One column of a gold table: the source's column under gold's name, what holds it, the name of the text
    beside values that can't be held, and what is shown instead of its values.
    """

    column: Column
    spark: str
    to_python: Callable[[Any], Any]
    to_canonical: Callable[[Any], Any]
    companion: str
    mask: str | None = None

    @property
    def name(self) -> str:
        return self.column.name


def gold_columns(schema: TableSchema, *, virtual: bool, options: GoldOptions = PLAIN) -> list[GoldColumn]:
    """The columns that gold has: all of the source's, but VIRTUAL generated ones where no message carries
    them, and those that the YAML excludes; in the shape that ignored DDLs left, dropped columns that gold
    keeps last; under the names that the YAML gives.
    """
    kept = kept_columns(schema, virtual=virtual)
    columns = [(column, options.column(column.name)) for column in kept]
    columns = [(column, option) for column, option in columns if not option.exclude]
    names = gold_names([(column.name, option.rename) for column, option in columns])
    companions = companion_names(names)
    return [
        _optional_column(replace(column, name=name), option, companions[name])
        for (column, option), name in zip(columns, names, strict=True)
    ]


def kept_columns(schema: TableSchema, *, virtual: bool) -> list[Column]:
    """The columns that gold has where no YAML leaves them out, under the names that a YAML means: those of
    `gold_columns`.
    """
    shown = [
        column
        for column in schema.columns
        if (virtual or column.generated != "virtual") and column.id not in schema.keeps.hidden
    ]
    return shown if schema.keeps == GoldKeeps() else _kept(shown, schema.keeps)


def needed_cells(schema: TableSchema, options: GoldOptions, *, virtual: bool) -> dict[int, str]:
    """The columns, with their names, of which every row has to have a cell, so that gold is what the source
    is: those that gold shows, but VIRTUAL ones where no message carries them.
    """
    dropped = {column.id for column in schema.keeps.dropped}
    return {
        column.id: column.name
        for column in kept_columns(schema, virtual=virtual)
        if column.id not in dropped and not options.column(column.name).exclude
    }


def lacking_cells(rows: Iterable[Row], needed: Mapping[int, str]) -> frozenset[str]:
    """What rows lack: in gold a cell that no message has told is NULL, which is another thing."""
    missing: set[int] = set()
    for row in rows:
        if not needed.keys() <= row.keys():
            missing |= needed.keys() - row.keys()
    return frozenset(
        f"column {needed[column]}: no message tells its value in some rows" for column in missing
    )


def _kept(columns: list[Column], keeps: GoldKeeps) -> list[Column]:
    """Columns under the names and types that gold keeps. Where two would have one name, the later one gets a
    number.
    """
    names, types = dict(keeps.names), dict(keeps.types)
    taken: set[str] = set()
    found = []
    for column in (*columns, *keeps.dropped):
        name = free_name(names.get(column.id, column.name), taken)
        taken.add(name.lower())
        found.append(replace(column, name=name, type=types.get(column.id, column.type)))
    return found


def gold_names(wanted: list[tuple[str, str | None]]) -> list[str]:
    """Gold's names for (source's name, rename): a rename has the first claim, and who finds a name taken gets
    a number behind it.
    """
    taken: set[str] = set()
    chosen: dict[int, str] = {}
    for index, (name, renamed) in sorted(enumerate(wanted), key=lambda item: item[1][1] is None):
        chosen[index] = free_name(renamed or name, taken)
        taken.add(chosen[index].lower())
    return [chosen[index] for index in range(len(wanted))]


def free_name(wanted: str, taken: set[str]) -> str:
    numbered = (wanted if number == 1 else f"{wanted}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name.lower() not in taken)


def _optional_column(column: Column, option: ColumnOptions, companion: str) -> GoldColumn:
    """The column as the YAML wants it; one whose values are masked is text, or null."""
    mask = "sha256" if option.hash else option.mask
    spark = spark_type(column.type, TYPES.get(option.type or "", {}))
    return gold_column(column, spark if mask in (None, "nullify") else "STRING", companion, mask)


def gold_column(column: Column, spark: str, companion: str, mask: str | None = None) -> GoldColumn:
    """A column of a Spark type: from what is plain data, so that workers can make it."""
    if mask is None:
        return GoldColumn(
            column, spark, to_python(column.type, spark), to_canonical(column.type), companion=companion
        )
    return GoldColumn(
        column, spark, mask_of(mask, column.type), lambda value: value, companion=companion, mask=mask
    )


def companion_names(names: Iterable[str]) -> dict[str, str]:
    """`_raw_<column>` for each; where the source has a column of that name, with as many underscores behind
    it as are needed.
    """
    names = list(names)
    taken = {name.lower() for name in names}
    found = {}
    for name in names:
        companion = RAW + name
        while companion.lower() in taken:
            companion += "_"
        taken.add(companion.lower())
        found[name] = companion
    return found


@dataclass(slots=True)
class Typed:
    """Rows column by column; `raw` holds the companions that some row needed."""

    columns: dict[str, list[Any]]
    raw: dict[str, list[str | None]]
    count: int

    @property
    def values(self) -> list[list[Any]]:
        """The columns' values, those of companions last."""
        return [*self.columns.values(), *self.raw.values()]


def type_rows(rows: Iterable[Row], columns: list[GoldColumn]) -> Typed:
    """Convert folded rows. A value that its column can't hold becomes null, with its text in
    `_raw_<column>`.
    """
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
