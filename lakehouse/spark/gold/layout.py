"""A gold table's physical properties: computed columns, clustering, change data feed, declared key. Also DDL
in place, and the checks that a table's YAML fits its schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from lakehouse.gold.columns import RAW, GoldColumn, kept_columns
from lakehouse.gold.converted_cells import Conversion
from lakehouse.gold.ddl_in_place import InPlace
from lakehouse.gold.options import PLAIN, GoldOptions, from_plain
from lakehouse.ops.records.gold import TableEntry
from lakehouse.schema import TableSchema
from lakehouse.spark.arrow import Worker
from lakehouse.spark.column_types import data_type
from lakehouse.spark.lake import Lake, literal, quote
from lakehouse.spark.plain.create import mapped_fields
from lakehouse.spark.session import capabilities

CHANGE_FEED = "delta.enableChangeDataFeed"
DELETION_VECTORS = "delta.enableDeletionVectors"
# set at creation: none of them can be added later without an upgrade of the table
PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    DELETION_VECTORS: "false",
    "delta.feature.timestampNtz": "supported",
}
# types that can hold every value of a key; a zero date would be NULL in a DATE
NEVER_NULL = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20,0)", "STRING", "BINARY")


def with_computed(frame: DataFrame, computed: Mapping[str, str], last: str | None = None) -> DataFrame:
    """The frame with its computed columns, before companions and the column `last`."""
    if not computed:
        return frame
    behind = [name for name in frame.columns if name.startswith(RAW) or name == last]
    before = [name for name in frame.columns if name not in behind]
    made = [F.expr(expression).alias(name) for name, expression in computed.items()]
    return frame.select(
        *[F.col(quote(name)) for name in before], *made, *[F.col(quote(name)) for name in behind]
    )


def metadata_of(column: GoldColumn) -> dict[str, str]:
    """The metadata of a column of a frame: its comment, where it has one."""
    return {"comment": column.column.comment} if column.column.comment else {}


def named(typed: DataFrame, columns: list[GoldColumn], companions: list[str], op: str | None) -> DataFrame:
    """The typed frame under gold's own names."""
    chosen = [
        F.col(f"c{i}").alias(column.name, metadata=metadata_of(column)) for i, column in enumerate(columns)
    ]
    chosen += [
        F.col(f"r{i}").alias(column.companion)
        for i, column in enumerate(columns)
        if column.companion in companions
    ]
    return typed.select(*chosen, *([F.col(op)] if op else []))


def new_fields(columns: list[GoldColumn]) -> list[StructField] | None:
    """The columns of a new table and a companion for each, with their ids and names in files; None where
    Delta has to make it.
    """
    schema = StructType([StructField(c.name, data_type(c.spark), metadata=metadata_of(c)) for c in columns])
    for column in columns:
        schema.add(column.companion, data_type("STRING"))
    return mapped_fields(schema, PROPERTIES)


def set_clustering(spark: SparkSession, lake: Lake, table: str, columns: tuple[str, ...]) -> None:
    """Cluster the table by these columns, unless it is so already. The writer of a path table takes no
    clustering, so it is set after the write.
    """
    row = spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', table)}").select("clusteringColumns").first()
    held = tuple(row[0] or ()) if row is not None else ()
    if held != columns:
        words = f"({', '.join(map(quote, columns))})" if columns else "NONE"
        spark.sql(f"ALTER TABLE {lake.ref('gold', table)} CLUSTER BY {words}")


def set_property(spark: SparkSession, lake: Lake, table: str, name: str, *, wanted: bool) -> None:
    """Make a property of the table true or false. CHANGE_FEED: readers get what is written from then on.
    DELETION_VECTORS: rows that are marked already stay so until OPTIMIZE rewrites their files.
    """
    row = spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', table)}").select("properties").first()
    held = dict(row[0] or {}) if row is not None else {}
    if (held.get(name) == "true") != wanted:
        lake.before_write()
        put_property(spark, lake, table, {name: str(wanted).lower()})


def put_property(spark: SparkSession, lake: Lake, table: str, property: dict[str, str]) -> None:
    """Write a property of the table, in a commit of its own, whatever it was."""
    [(name, value)] = property.items()
    spark.sql(f"ALTER TABLE {lake.ref('gold', table)} SET TBLPROPERTIES ('{name}' = '{value}')")


def drop_key(spark: SparkSession, lake: Lake, table: str) -> None:
    """Drop the declared key: a table that has one can't have its schema replaced. (Databricks SQL, ALTER
    TABLE … DROP PRIMARY KEY.)
    """
    spark.sql(f"ALTER TABLE {lake.ref('gold', table)} DROP PRIMARY KEY IF EXISTS")


def declare_key(spark: SparkSession, lake: Lake, table: str, key: Sequence[str]) -> None:
    """Declare the key, which Unity Catalog shows and does not enforce. (Databricks SQL, ALTER TABLE … ADD
    CONSTRAINT.)
    """
    for name in key:
        spark.sql(f"ALTER TABLE {lake.ref('gold', table)} ALTER COLUMN {quote(name)} SET NOT NULL")
    names = ", ".join(map(quote, key))
    spark.sql(
        f"ALTER TABLE {lake.ref('gold', table)} ADD CONSTRAINT {quote(table + '_pk')} PRIMARY KEY ({names})"
    )


def remove_properties(
    spark: SparkSession, lake: Lake, table: str, known: TableEntry | None, options: GoldOptions
) -> None:
    """Remove the physical properties that the table's last manifest entry has and its YAML no longer asks
    for: clustering, the change data feed, the declared key.
    """
    before = from_plain(known.options) if known is not None and known.options else PLAIN
    if before.cluster_by and not options.cluster_by:
        set_clustering(spark, lake, table, ())
    if before.change_data_feed and not options.change_data_feed:
        set_property(spark, lake, table, CHANGE_FEED, wanted=False)
    if before.primary_key and not options.primary_key:
        drop_key(spark, lake, table)


# --- DDL in place


def can_alter(change: InPlace, held: Sequence[str]) -> bool:
    """Whether no column that gets another type has a companion among the columns that gold has (`held`): its
    texts are values that the former type could not hold, and the new one may.
    """
    return not {column.companion for column in change.retyped} & set(held)


def altered(
    spark: SparkSession, lake: Lake, table: str, change: InPlace, *, held: Sequence[str]
) -> DataFrame | None:
    """Make the table's columns those of a later schema: by metadata alone (None), or, where a constant fills
    a new column or cells are converted, as a frame that is to replace the table. `held` are the columns that
    gold has.
    """
    if change.rewrites:
        return _projected(lake.read(spark, "gold", table), change, held)
    for clause in alter_clauses(change, held):
        lake.before_write()
        spark.sql(f"ALTER TABLE {lake.ref('gold', table)} {clause}")
    return None


def alter_clauses(change: InPlace, held: Sequence[str]) -> list[str]:
    """The clauses of ALTER TABLE, in the order in which they are to run."""
    dropped = [name for column in change.dropped for name in (column.name, column.companion) if name in held]
    renamed = _renamed(change, held)
    order = [renamed.get(name, name) for name in held if name not in dropped]
    clauses = [f"DROP COLUMN {quote(name)}" for name in dropped]
    clauses += [f"RENAME COLUMN {quote(old)} TO {quote(new)}" for old, new in renamed.items()]
    clauses += [f"ALTER COLUMN {quote(column.name)} TYPE {column.spark}" for column in change.widened]
    clauses += [
        f"ALTER COLUMN {quote(column.name)} COMMENT {literal(column.column.comment or '')}"
        for column in change.described
    ]
    for one in change.added:
        said = f" COMMENT {literal(one.column.column.comment)}" if one.column.column.comment else ""
        clauses.append(f"ADD COLUMNS ({quote(one.column.name)} {one.column.spark}{said})")
        order.append(one.column.name)
    for place, name in enumerate(change.order):
        if order[place] != name:
            where = f"AFTER {quote(order[place - 1])}" if place else "FIRST"
            clauses.append(f"ALTER COLUMN {quote(name)} {where}")
            order.remove(name)
            order.insert(place, name)
    return clauses


def _renamed(change: InPlace, held: Sequence[str]) -> dict[str, str]:
    pairs = [pair for old, new in change.renamed for pair in _names_of(old, new)]
    return {old: new for old, new in pairs if old in held}


def _names_of(old: GoldColumn, new: GoldColumn) -> tuple[tuple[str, str], tuple[str, str]]:
    return (old.name, new.name), (old.companion, new.companion)


def constant(value: Any) -> Any:
    """A value as `lit` takes it in every session. Dates and times are text: as Python's own objects they go
    through java.sql.Timestamp, in the machine's time zone, and before 1582 in the Julian calendar.
    """
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


def _projected(rows: DataFrame, change: InPlace, held: Sequence[str]) -> DataFrame:
    """The table's rows with the columns of the later schema, companions last."""
    former = {new: old for old, new in _renamed(change, held).items()}
    fills = {one.column.name: one for one in change.added}
    converted = {one.new[0].name: one for one in change.converted}
    by_sql = {name: one.sql(quote(former.get(name, name))) for name, one in converted.items()}
    in_python = {name for name, expression in by_sql.items() if expression is None}
    places = {at: converted[c.name] for at, c in enumerate(change.columns) if c.name in in_python}
    cells, fields = [], []
    for column in change.columns:
        name, type_ = column.name, data_type(column.spark)
        told = by_sql.get(name) or quote(former.get(name, name))
        cell = F.lit(constant(fills[name].value)) if name in fills else F.expr(told)
        cells.append(cell if name in in_python else cell.cast(type_))
        fields.append(StructField(name, type_, True, metadata_of(column)))
    for old, new in kept_companions(change, held):
        cells.append(F.col(quote(old)))
        fields.append(StructField(new, data_type("STRING"), True, {}))
    # columns get their own names last: these may contain anything, dots and quotes included
    plain = StructType([StructField(f"c{at}", field.dataType) for at, field in enumerate(fields)])
    frame = rows.select(*[cell.alias(name) for cell, name in zip(cells, plain.names, strict=True)])
    if places:
        frame = frame.mapInArrow(_converting(places, to_arrow_schema(plain)), plain)
    chosen = zip(plain.names, fields, strict=True)
    return frame.select(*[F.col(name).alias(field.name, metadata=field.metadata) for name, field in chosen])


def _converting(places: Mapping[int, Conversion], schema: pa.Schema) -> Worker:
    """Converts the cells of some columns, by their places, in a worker."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = {place: conversion.rule() for place, conversion in places.items()}
        for batch in batches:
            arrays = batch.columns
            for place, rule in rules.items():
                arrays[place] = pa.array(list(map(rule, arrays[place].to_pylist())), schema.field(place).type)
            yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    return work


def kept_companions(change: InPlace, held: Sequence[str]) -> list[tuple[str, str]]:
    """The names of the companions that stay, before and after. That of a dropped column goes, whatever
    other column has its name then.
    """
    former = {new: old for old, new in _renamed(change, held).items()}
    dropped = {column.companion for column in change.dropped}
    pairs = [(former.get(column.companion, column.companion), column.companion) for column in change.columns]
    return [(old, new) for old, new in pairs if old in held and old not in dropped]


def misfit(
    spark: SparkSession,
    options: GoldOptions,
    schema: TableSchema,
    columns: list[GoldColumn],
    ids: tuple[int, ...],
) -> str | None:
    """Why the table's YAML does not fit the schema that the source's DDL gives it; None if it does."""
    return (
        _hidden_key(options, schema, ids)
        or _bad_layout(options, columns)
        or _bad_key(spark, options, columns, ids)
        or _bad_computed(spark, options, columns)
    )


def unknown_columns(options: GoldOptions, schema: TableSchema) -> list[str]:
    """Columns that the YAML names and the table lacks."""
    kept = {column.name.lower() for column in kept_columns(schema, virtual=True)}
    return [
        name
        for name, said in options.columns.items()
        if said.computed is None and schema.column(name) is None and name.lower() not in kept
    ]


def _hidden_key(options: GoldOptions, schema: TableSchema, ids: tuple[int, ...]) -> str | None:
    if options.mode == "append":
        return None
    kept = {column.id: column for column in kept_columns(schema, virtual=True)}
    for key in ids:
        if key in schema.keeps.hidden:
            name = next(column.name for column in schema.columns if column.id == key)
            return f"on_ddl: add_column: ignore hides {name}, a column of the key, which tells rows apart"
        column = kept.get(key)
        said = options.column(column.name) if column is not None else None
        if column is not None and said is not None and (said.exclude or said.mask):
            word = "exclude" if said.exclude else f"mask: {said.mask}"
            return (
                f"columns.{column.name}: {word} hides a column of the key, which tells rows apart; use "
                "hash: sha256, or mode: append"
            )
    return None


def _bad_layout(options: GoldOptions, columns: list[GoldColumn]) -> str | None:
    known = {column.name for column in columns} | options.computed.keys()
    for word, said in (("cluster_by", options.cluster_by), ("partition_by", options.partition_by)):
        for name in said:
            if name not in known:
                return f"gold.{word}: the gold table has no column {name}"
    if options.partition_by and set(options.partition_by) >= known:
        return "gold.partition_by: names all of the table's columns"
    return None


def key_names(columns: list[GoldColumn], ids: tuple[int, ...]) -> list[str]:
    """The key's columns by gold's names, in the key's order."""
    names = {column.column.id: column.name for column in columns}
    return [names[key] for key in ids if key in names]


def _bad_key(
    spark: SparkSession, options: GoldOptions, columns: list[GoldColumn], ids: tuple[int, ...]
) -> str | None:
    if not options.primary_key:
        return None
    if not capabilities(spark).keys:
        return "gold.primary_key: needs Unity Catalog on Databricks; elsewhere remove it"
    if not ids:
        return "gold.primary_key: the table has no key"
    key = set(key_names(columns, ids))
    loose = [column for column in columns if column.name in key and column.spark not in NEVER_NULL]
    return (
        f"gold.primary_key: {loose[0].name} is {loose[0].spark}, which can't hold each of the source's keys"
        if loose
        else None
    )


def _bad_computed(spark: SparkSession, options: GoldOptions, columns: list[GoldColumn]) -> str | None:
    names = {column.name.casefold() for column in columns}
    schema = StructType([StructField(column.name, data_type(column.spark)) for column in columns])
    for name, expression in options.computed.items():
        if name.casefold() in names:
            return f"columns.{name}.computed: the table has a column of that name; give it another"
        try:
            frame = spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
            _ = frame.select(F.expr(expression)).schema
        except AnalysisException as error:
            return f"columns.{name}.computed: {error.getCondition() or 'it can not be read'}"
    return None
