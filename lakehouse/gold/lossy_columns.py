"""Columns of a gold table that can't hold every value of the source's type, and the companion columns that
hold the rest.
"""

from collections.abc import Iterable

from lakehouse.gold.columns import GoldColumn
from lakehouse.schema import Column, TableSchema

_BY_FAMILY = {
    "date": "zero and partial dates",
    "datetime": "zero and partial dates",
    "timestamp": "zero timestamps",
    "text": "bytes that are no text of its charset, as base64",
}
LABELS = ("enum", "set")


def beyond(column: GoldColumn, schema: TableSchema) -> str | None:
    """What of the column is NULL in gold, with the source's text in its companion; None where gold
    holds all.
    """
    kind = column.column.type
    if kind.family in LABELS and not kind.members:
        return "numbers whose labels no schema has told"
    if column.column.id in dict(schema.keeps.types):
        return "values of the source's newer type that the kept one can't hold"
    if kind.family == "time" and column.spark not in ("STRING", "BIGINT"):
        return "times beyond an interval"
    return _BY_FAMILY.get(kind.family)


def left_out(schema: TableSchema, shown: Iterable[GoldColumn]) -> dict[str, str]:
    """Columns of the source that gold does not show, and why."""
    ids = {column.column.id for column in shown}
    missing = [column for column in schema.columns if column.id not in ids]
    return {c.name: _why(c, schema) for c in missing}


def _why(column: Column, schema: TableSchema) -> str:
    if column.id in schema.keeps.hidden:
        return "on_ddl ignored its ADD"
    return "VIRTUAL: no message carries it" if column.generated == "virtual" else "its YAML excludes it"


def as_text(column: GoldColumn) -> str | None:
    """Why a column that is no text at the source is text in gold; None where it is not."""
    kind = column.column.type
    if column.spark != "STRING" or kind.family in ("text", *LABELS):
        return None
    if kind.family == "decimal":
        return (
            "no message tells its precision"
            if kind.length is None
            else "more digits than a Delta decimal has"
        )
    if kind.family == "unknown":
        return "no message tells its type" if not kind.base else "a type that is not known"
    return "its own text form"
