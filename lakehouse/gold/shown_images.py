"""What of a change's images a reader of gold may see: excluded columns are left out, masked ones masked.

An image is in the schema of its time, where a column may have had another name than the YAML uses, so that a
column is hidden where the YAML names it by any name that it ever had. What is compared of a row of gold's own
schema (`shown_by`) goes by the names there.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from lakehouse.fold import tracks
from lakehouse.fold.row_history import plain
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import kept_columns
from lakehouse.gold.masks import Mask, mask_of
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.lineage import Lineage
from lakehouse.schema import TableSchema

Shown = Callable[[TableSchema, Row], dict[str, Any]]


def shown_image(lineage: Lineage, options: GoldOptions) -> Shown:
    """The function that gives a row, by the columns' ids, as values by the names of its schema."""
    names: dict[int, set[str]] = defaultdict(set)
    for step in lineage.steps:
        for column in step.schema.columns:
            names[column.id].add(column.name)
    said = {column_id: [options.column(name) for name in sorted(known)] for column_id, known in names.items()}

    def shown(schema: TableSchema, row: Row) -> dict[str, Any]:
        image = {}
        for column in schema.columns:
            of_column = said[column.id]
            if column.id not in row or any(option.exclude for option in of_column):
                continue
            value, word = row[column.id], _mask(of_column)
            image[column.name] = value if value is None or word is None else mask_of(word, column.type)(value)
        return image

    return shown


def _mask(said: list[ColumnOptions]) -> str | None:
    words = ("sha256" if option.hash else option.mask for option in said)
    return next((word for word in words if word), None)


def shown_by(schema: TableSchema, options: GoldOptions, *, virtual: bool) -> tracks.Shown:
    """The function that gives the part of a row that is compared: gold's columns."""
    kept = kept_columns(schema, virtual=virtual)
    chosen = {column.id: (options.column(column.name), column.type) for column in kept}
    hidden = {column_id for column_id, (option, _) in chosen.items() if option.exclude}
    hidden |= set(schema.keeps.hidden)
    masks: dict[int, Mask] = {}
    for column_id, (option, column_type) in chosen.items():
        if word := "sha256" if option.hash else option.mask:
            masks[column_id] = mask_of(word, column_type)
    if not hidden and not masks:
        return plain

    def shown(row: Row) -> Any:
        seen = {
            name: masks[name](value) if name in masks else value
            for name, value in plain(row).items()
            if name not in hidden
        }
        return plain(seen)

    return shown
