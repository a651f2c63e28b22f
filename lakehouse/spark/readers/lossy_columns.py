"""The fidelity report of a lake: which columns of each gold table can't hold every value, and how often a
companion was needed.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import just_above
from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.gold.lossy_columns import as_text, beyond, left_out
from lakehouse.gold.shards import options_of
from lakehouse.lineage import Lineage
from lakehouse.ops.records.gold import TableEntry
from lakehouse.spark.lake import Lake, quote
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session
from lakehouse.spark.source import options_in
from lakehouse.spark.table_versions import read_published

Entry = dict[str, Any]


def fidelity(root: str, table: str | None) -> list[Entry]:
    """One entry per live gold table, or the one of a name."""
    spark, lake = get_session(), Lake(root)
    tables = []
    for source, settings in sources(spark, lake).items():
        reader = Reader(spark, lake, source, settings)
        lineages = {lineage.id: lineage for lineage in reader.history.lineages} if reader.manifest else {}
        tables += [
            report(reader, entry, lineages[entry.lineage])
            for name, entry in sorted(reader.entries().items())
            if table in (None, ".".join(name)) and entry.lineage in lineages
        ]
    if table is not None and not tables:
        raise LakehouseError(
            f"{table}: expected a gold table of {root}, found none; `lakehouse status` lists them"
        )
    return tables


def report(reader: Reader, entry: TableEntry, lineage: Lineage) -> Entry:
    assert reader.manifest is not None
    at = reader.manifest.position_of(entry)
    schema = lineage.schema_at(just_above(at))
    options = options_of(lineage, options_in(reader.settings))
    columns = gold_columns(schema, virtual=reader.settings.virtual, options=options)
    used = companions(read_published(reader.spark, reader.lake, entry), columns)
    return {
        "table": entry.name,
        "state": entry.state,
        "schema": "inferred" if schema.inferred else "told by DDL",
        "columns": [
            {
                "column": column.name,
                "source": str(column.column.type),
                "gold": column.spark,
                "null_instead_of": beyond(column, schema),
                "text_because": as_text(column),
                "companion": column.companion if column.name in used else None,
                "rows_in_companion": used.get(column.name),
            }
            for column in columns
        ],
        "left_out": [f"{name}: {why}" for name, why in left_out(schema, columns).items()],
        "notes": list(entry.notes),
    }


def companions(frame: DataFrame, columns: list[GoldColumn]) -> dict[str, int]:
    """In how many rows each companion that the table has says something."""
    held = [column for column in columns if column.companion in frame.columns]
    if not held:
        return {}
    (row,) = frame.agg(
        *[F.count(quote(column.companion)).alias(f"c{n}") for n, column in enumerate(held)]
    ).collect()
    return {column.name: row[f"c{n}"] for n, column in enumerate(held)}
