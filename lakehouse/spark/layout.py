"""What a gold table is beside its rows: computed columns, partitioning or clustering. And what of its YAML does not fit its schema."""

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from lakehouse.gold_options import GoldOptions
from lakehouse.schema import TableSchema
from lakehouse.spark.lake import Lake, quote
from lakehouse.spark.type_text import data_type
from lakehouse.typed import RAW, GoldColumn


def with_computed(frame: DataFrame, computed: Mapping[str, str], last: str | None = None) -> DataFrame:
    """The frame with its computed columns, before companions and the column `last`."""
    if not computed:
        return frame
    behind = [name for name in frame.columns if name.startswith(RAW) or name == last]
    before = [name for name in frame.columns if name not in behind]
    made = [F.expr(expression).alias(name) for name, expression in computed.items()]
    return frame.select(*[F.col(quote(name)) for name in before], *made, *[F.col(quote(name)) for name in behind])


def cluster(spark: SparkSession, lake: Lake, table: str, columns: tuple[str, ...]) -> None:
    """Make the table's clustering these columns, where it is another one. A path's writer takes none, so it is said afterwards."""
    row = spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', table)}").select("clusteringColumns").first()
    held = tuple(row[0] or ()) if row is not None else ()
    if held != columns:
        words = f"({', '.join(map(quote, columns))})" if columns else "NONE"
        spark.sql(f"ALTER TABLE {lake.ref('gold', table)} CLUSTER BY {words}")


def uncluster(spark: SparkSession, lake: Lake, table: str, known: Mapping[str, Any] | None, options: GoldOptions) -> None:
    """Take back the clustering that a table's manifest entry tells of, where its YAML asks for none any more."""
    if known is not None and known.get("options", {}).get("cluster_by") and not options.cluster_by:
        cluster(spark, lake, table, ())


def misfit(spark: SparkSession, options: GoldOptions, schema: TableSchema, columns: list[GoldColumn], ids: tuple[int, ...]) -> str | None:
    """Why gold can't build the table as its YAML says, given the schema that the source's DDL tells; None where it can."""
    return _hidden_key(options, schema, ids) or _bad_layout(options, columns) or _bad_computed(spark, options, columns)


def unknown_columns(options: GoldOptions, schema: TableSchema) -> list[str]:
    """Columns that the YAML speaks of and the table has not."""
    return [name for name, said in options.columns.items() if said.computed is None and schema.column(name) is None]


def _hidden_key(options: GoldOptions, schema: TableSchema, ids: tuple[int, ...]) -> str | None:
    if options.mode == "append":
        return None
    for column in (schema.by_id(key) for key in ids):
        said = options.column(column.name) if column is not None else None
        if column is not None and said is not None and (said.exclude or said.mask):
            word = "exclude" if said.exclude else f"mask: {said.mask}"
            return f"columns.{column.name}: {word} hides a column of the key, which tells rows apart; use hash: sha256, or mode: append"
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
