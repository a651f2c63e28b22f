"""The lake's own record, `ops.lake`: which lakehouse version wrote it, and how each of its sources is read."""

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse import __version__
from lakehouse.errors import LakehouseError
from lakehouse.spark.lake import Lake

LAYOUT = 1
SCHEMA = StructType([StructField("seq", LongType()), StructField("layout", LongType()), StructField("version", StringType()),
                     StructField("source", StringType()), StructField("settings", StringType())])  # fmt: skip


def sources(spark: SparkSession, lake: Lake) -> dict[str, dict[str, Any]]:
    """The settings of every source that ever wrote here, newest first wins. Refuses a lake of a newer layout."""
    if not lake.exists(spark, "ops", "lake"):
        return {}
    rows = lake.read(spark, "ops", "lake").orderBy("seq").collect()
    newest = max((row.layout for row in rows), default=LAYOUT)
    if newest > LAYOUT:
        raise LakehouseError(
            f"{lake.root}: this lake was written by lakehouse {rows[-1].version}, newer than {__version__}: upgrade lakehouse"
        )
    return {row.source: json.loads(row.settings) for row in rows}


def register(spark: SparkSession, lake: Lake, source: str, settings: dict[str, Any]) -> None:
    """Record how a source is read, where that is new."""
    known = sources(spark, lake)
    if known.get(source) == settings:
        return
    row = {"seq": len(known) + 1, "layout": LAYOUT, "version": __version__, "source": source, "settings": json.dumps(settings)}
    frame = spark.createDataFrame(pa.Table.from_pylist([row]), SCHEMA)
    lake.append(frame.coalesce(1), "ops", "lake")
