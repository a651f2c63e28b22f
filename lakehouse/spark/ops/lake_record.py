"""The lake's own record, `ops.lake`: the lakehouse version that wrote it, and how each of its sources is
read.
"""

import json
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse import __version__
from lakehouse.errors import LakehouseError
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session

LAYOUT = 1
SCHEMA = StructType(
    [
        StructField("seq", LongType()),
        StructField("layout", LongType()),
        StructField("version", StringType()),
        StructField("source", StringType()),
        StructField("settings", StringType()),
    ]
)


def sources(spark: SparkSession, lake: Lake) -> dict[str, SourceSettings]:
    """The settings of every source that ever wrote here, the newest wins. Refuses a lake of a newer
    layout.
    """
    return {row["source"]: _settings(row) for row in _records(spark, lake)}


def register(spark: SparkSession, lake: Lake, source: str, settings: SourceSettings) -> None:
    """Record how a source is read, where that is new."""
    records = _records(spark, lake)
    known = next((_settings(row) for row in reversed(records) if row["source"] == source), None)
    if known == settings:
        return
    seq = records[-1]["seq"] + 1 if records else 1
    row = {
        "seq": seq,
        "layout": LAYOUT,
        "version": __version__,
        "source": source,
        "settings": json.dumps(msgspec.to_builtins(settings)),
    }
    frame = spark.createDataFrame(pa.Table.from_pylist([row]), SCHEMA)
    lake.append_shared(frame.coalesce(1), "lake")


def _settings(row: dict[str, Any]) -> SourceSettings:
    return msgspec.json.decode(row["settings"], type=SourceSettings)


def _records(spark: SparkSession, lake: Lake) -> list[dict[str, Any]]:
    """Every record, oldest first."""
    table = lake.rows(spark, "ops", "lake", SCHEMA.names)
    rows = [] if table is None else sorted(table.to_pylist(), key=lambda row: row["seq"])
    if rows and max(row["layout"] for row in rows) > LAYOUT:
        raise LakehouseError(
            f"{lake.root}: this lake was written by lakehouse {rows[-1]['version']}, newer than "
            f"{__version__}: upgrade lakehouse"
        )
    return rows


def opened(root: str, source: str) -> tuple[OpsLog, SourceSettings]:
    """A source's log and settings; LakehouseError where the lake has no such source."""
    spark, lake = get_session(), Lake(root)
    known = sources(spark, lake)
    if source not in known:
        raise LakehouseError(
            f"{source}: expected a source of {root}, which has {', '.join(sorted(known)) or 'none'}"
        )
    return OpsLog(spark, lake, source).load(), known[source]
