"""What of a change's images a reader of gold may see: excluded columns are left out, masked ones masked.

An image is in the schema of its time, where a column may have had another name than the YAML uses, so that a
column is hidden where the YAML names it by any name that it ever had.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from lakehouse.fold.upcast import Row
from lakehouse.gold.masks import mask_of
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
