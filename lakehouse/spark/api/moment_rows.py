"""A table's rows at any moment, folded from silver as a run of gold folds them, and what differs between
two.
"""

import functools
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import Position
from lakehouse.gold.shards import aligned, living_shards
from lakehouse.lineage import Lineage
from lakehouse.reporting.text.values import place
from lakehouse.spark.api.states import NotExact
from lakehouse.spark.gold.layout import with_computed
from lakehouse.spark.gold.results import NOTHING_FOUND, Found
from lakehouse.spark.gold.shards import shard
from lakehouse.spark.gold.table import GoldTable, open_table, whole_table
from lakehouse.spark.lake import quote
from lakehouse.spark.operations.rebuild import as_text, shadow_run
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import keeping
from lakehouse.spark.source import options_in


class Rows(NamedTuple):
    """A table's rows at a moment, and the names of the columns that tell its rows apart (none: all do)."""

    frame: DataFrame
    keys: tuple[str, ...]


def rows_at(reader: Reader, table: str, lineages: Sequence[Lineage], position: Position) -> Rows:
    """The rows that lineages have together right after a position; LakehouseError where none lived then."""
    living = living_shards(
        ((one, reader.stands_at(one, position)) for one in lineages), options_in(reader.settings)
    )
    if not living:
        raise LakehouseError(
            f"{table}: expected a table that existed at {place(position, reader.settings.order)}, found none"
        )
    tables = _opened(reader, living, position)
    with keeping():
        wholes = [whole_table(one) for one in tables]
    found = functools.reduce(lambda one, other: one.plus(other.found), wholes, NOTHING_FOUND)
    _warn(table, found)
    frame = functools.reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [whole.frame(one) for one, whole in zip(tables, wholes, strict=True)],
    )
    keys = tuple(column.name for column in tables[0].keys)
    return Rows(with_computed(frame, tables[0].options.computed), keys)


def _opened(reader: Reader, lineages: list[Lineage], position: Position) -> list[GoldTable]:
    manifest = reader.manifest_or_error()
    run = shadow_run(reader.log, reader.settings, manifest, position)
    tables = []
    for lineage in lineages:
        at = reader.stands_at(lineage, position)
        options, gate = reader.options(lineage), run.gates.fit(lineage)
        tables.append(open_table(run, lineage, at, "", options=options, gate=gate))
    if not tables[0].options.merged:
        return tables
    columns, _ = aligned({shard(one): one.columns for one in tables})
    return [one.with_columns(columns[shard(one)]) for one in tables]


def _warn(table: str, found: Found) -> None:
    lacking = [
        *sorted(found.problems),
        *(f"rows have a column {name} that no DDL has added" for name in found.unknown),
    ]
    if lacking:
        warnings.warn(f"{table}: {'; '.join(lacking)}", NotExact, stacklevel=4)


# --- the difference


def difference(older: Rows, newer: Rows) -> DataFrame:
    """What turns one state of a table into another, one row per row of the table that differs."""
    one, other = older.frame, newer.frame
    keys = [name for name in newer.keys if name in older.keys]
    if not keys or set(newer.keys) != set(older.keys):
        keys, one, other = [_TEXT, _NUMBER], _numbered(one, other), _numbered(other, one)
    retyped = {key for key in keys if one.schema[key].dataType != other.schema[key].dataType}
    before, after = _side(one, "before", keys, retyped), _side(other, "after", keys, retyped)
    same = [before[f"before_{i}"].eqNullSafe(after[f"after_{i}"]) for i in range(len(keys))]
    is_new, is_gone, changed = F.col("before").isNull(), F.col("after").isNull(), _changed(one, other)
    joined = before.join(after, same, "full_outer").where(is_new | is_gone | (F.size(changed) > 0))
    shown = [
        F.coalesce(F.col(f"after_{i}"), F.col(f"before_{i}")).alias(name)
        for i, name in enumerate(keys)
        if name not in (_TEXT, _NUMBER)
    ]
    return joined.select(
        F.when(is_new, "added").when(is_gone, "removed").otherwise("changed").alias("change"),
        *shown,
        F.when(~is_new & ~is_gone, changed).alias("columns"),
        "before",
        "after",
    )


_TEXT, _NUMBER = "_lakehouse_text", "_lakehouse_number"


def _numbered(frame: DataFrame, other: DataFrame) -> DataFrame:
    """Rows without a key, told apart by all of their values, and equal ones by a number."""
    text = as_text(frame, sorted({*frame.columns, *other.columns})).alias(_TEXT)
    held = frame.select("*", text)
    number = F.row_number().over(Window.partitionBy(_TEXT).orderBy(_TEXT))
    return held.select("*", number.alias(_NUMBER))


def _side(frame: DataFrame, name: str, keys: list[str], retyped: set[str]) -> DataFrame:
    """The keys, as text where the other side has another type, and the whole row of one side."""
    values = [F.col(quote(column)) for column in frame.columns if column not in (_TEXT, _NUMBER)]
    held = [F.col(quote(key)).cast("string") if key in retyped else F.col(quote(key)) for key in keys]
    found = [key.alias(f"{name}_{i}") for i, key in enumerate(held)]
    return frame.select(*found, F.struct(*values).alias(name))


def _changed(one: DataFrame, other: DataFrame) -> Column:
    """The names of the columns whose values differ, of those that both sides have."""
    differ = [F.lit(None).cast("string")]
    for name in other.columns:
        if name in one.columns and name not in (_TEXT, _NUMBER):
            before, after = (F.col(side).getField(name).cast("string") for side in ("before", "after"))
            differ.append(F.when(~before.eqNullSafe(after), F.lit(name)))
    return F.array_compact(F.array(*differ))
