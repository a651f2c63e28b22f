"""What a lake keeps besides changes, as frames of all sources: sources, DDL, dead letters, results of
checks.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION
from lakehouse.lineage import Lineage
from lakehouse.reporting.text.values import place
from lakehouse.spark.api.moments import time_of
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.change_log.changes import any_of, not_void, position_literal
from lakehouse.spark.change_log.dead_letters import is_open
from lakehouse.spark.quality.gates import RESULTS
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.views import commit_millis_of
from lakehouse.spark.silver.tables import read_silver


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several frames of the same columns; LakehouseError where there is none."""
    if not frames:
        raise LakehouseError(
            "expected a source with a finished batch of silver; `lakehouse run silver` makes one"
        )
    return functools.reduce(DataFrame.unionByName, frames)


def sources_frame(found: Sequence[tuple[Reader, Mapping[str, Any]]]) -> pd.DataFrame:
    """The sources with their progress, from what `lakehouse status` knows of each."""
    return pd.DataFrame([_source_row(reader, status) for reader, status in found])


def _source_row(reader: Reader, status: Mapping[str, Any]) -> dict[str, Any]:
    order = reader.settings.order
    silver, gold = status.get("watermark"), status.get("gold_watermark")
    time = time_of(tuple(gold)) if gold else None
    return {
        "source": reader.source,
        "format": reader.settings.format,
        "last_run": status.get("last_run"),
        "silver_upto": place(silver, order) if silver else None,
        "gold_upto": place(gold, order) if gold else None,
        "gold_upto_time": pd.Timestamp(time) if time is not None else pd.NaT,
        "held_by": status.get("held_by"),
        "dead_letters": status.get("dead_letters", 0),
        "problems": [*status.get("gaps", ()), *status.get("problems", ())],
    }


def statements(reader: Reader, lineage: Lineage | None = None) -> DataFrame:
    """The DDL statements of a source, or of one table's life."""
    rows = read_silver(reader.spark, reader.lake, reader.source, "schema_changes")
    rows = rows.where((F.col("kind") == "ddl") & not_void(reader.log))
    rows = rows if lineage is None else rows.where(_of_life(lineage))
    return rows.select(
        "source",
        F.timestamp_millis(commit_millis_of(reader.settings)).alias("committed_at"),
        F.concat_ws(".", "database", "table").alias("table"),
        "ddl",
        "position",
    )


def _of_life(lineage: Lineage) -> Column:
    """Whether a statement changed a table's schema, rows or name; it may name several tables."""
    places = {step.position for step in lineage.steps} | {one.low for one in lineage.intervals}
    every = sorted({*places, lineage.end or MIN_POSITION})
    return any_of([F.col("position") == position_literal(each) for each in every])


def dead_letters(reader: Reader, with_bytes: int) -> DataFrame:
    """The dead letters of a source, with the first bytes of their messages where so many are asked for."""
    rows = read_silver(reader.spark, reader.lake, reader.source, "dead_letters")
    letters = rows.select(
        "source",
        "code",
        "message",
        F.concat_ws(".", "database", "table").alias("table"),
        "origin.topic",
        "origin.incarnation",
        "origin.partition",
        "origin.offset",
        "origin.path",
        is_open(reader.log).alias("open"),
        "batch",
    )
    return letters if with_bytes <= 0 else _with_bytes(reader, letters, with_bytes)


def _with_bytes(reader: Reader, letters: DataFrame, most: int) -> DataFrame:
    place = ["topic", "incarnation", "partition", "offset"]
    bronze = reader.lake.read_or_empty(reader.spark, "bronze", reader.source, BRONZE_SCHEMA)
    found = bronze.select(
        *place, F.length("value").alias("bytes"), F.substring("value", 1, most).alias("begins_with")
    )
    return letters.join(found, place, "left")


def quality(reader: Reader) -> DataFrame:
    """The results of a source's expectations."""
    rows = reader.lake.read_or_empty(reader.spark, "ops", f"{reader.source}_quality", RESULTS)
    return rows.select(
        F.lit(reader.source).alias("source"),
        F.concat_ws(".", "database", "table").alias("table"),
        "expectation",
        "action",
        F.timestamp_millis("at").alias("at"),
        "checked",
        "failed",
    )
