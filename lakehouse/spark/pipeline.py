"""The three layers of one source, one after another: what `try`, `run` and `demo` call."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import ConfigError
from lakehouse.formats import FORMATS
from lakehouse.recording import read_recording
from lakehouse.spark.bronze import land_messages
from lakehouse.spark.gold import GoldFeed, run_gold
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.registry import register
from lakehouse.spark.silver import Feed, run_silver

Progress = Callable[[str], None]


def feeds(name: str, format_: str, options: Mapping[str, str], consistency: str) -> tuple[Feed, GoldFeed]:
    """How silver and gold read a source of this format with these decoder options."""
    form = FORMATS[format_]
    order = order_of(format_, options)
    silver = Feed(name, format_, order, dict(options))
    gold = GoldFeed(name, options.get("time_zone", "UTC"), consistency if form.has_watermarks else "eventual", virtual=order != "tidb")
    return silver, gold


def order_of(format_: str, options: Mapping[str, str]) -> str:
    """The family of positions; what a format's own settings make of it."""
    return FORMATS[format_].order


def settings_of(silver: Feed, gold: GoldFeed) -> dict[str, Any]:
    """What a reader of the lake must know of the source."""
    return {"format": silver.format, "order": silver.order, "options": silver.options, "zone": gold.zone, "virtual": gold.virtual}


def try_recording(
    spark: SparkSession, path: Path, format_: str, options: Mapping[str, str], lake: Lake, consistency: str, progress: Progress
) -> dict[str, Any]:
    """A recording through all three layers, with no YAML. Returns what came out; a second call adds nothing."""
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_}: expected one of {', '.join(FORMATS)}")
    name = source_name(path)
    silver, gold = feeds(name, format_, options, consistency)
    register(spark, lake, name, settings_of(silver, gold))
    log = OpsLog(spark, lake, name).load()
    landed = land_messages(spark, lake, name, read_recording(path), progress)
    batches = run_silver(spark, lake, silver, log, progress)
    manifest = run_gold(spark, lake, gold, log, progress)
    return {"source": name, "landed": landed, "batches": batches, "published": manifest is not None, "manifest": manifest or log.last("manifest"),
            "done": log.last("done")}  # fmt: skip


def source_name(path: Path) -> str:
    """A source's name from a file's: letters, digits and underscores."""
    return re.sub(r"\W+", "_", path.stem).strip("_").lower() or "recording"
