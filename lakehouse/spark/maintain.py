"""Upkeep of a lake's tables: small files put together, and files removed that no recent version needs.

Gold's tables are compacted under the gold lock, and a manifest that names the new versions is published: the one before it
names versions whose files go when their time is over.
"""

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config import Config
from lakehouse.errors import ConfigError
from lakehouse.spark.lake import Lake
from lakehouse.spark.lease import layer_lock
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.pipeline import LAYERS, Progress
from lakehouse.spark.session import get_session
from lakehouse.spark.silver import SCHEMAS
from lakehouse.spark.sources import Source, selected_sources
from lakehouse.spark.write_gold import version_of

SMALL_FILES = 4
LEAST_DAYS = 7


def maintain(config: Config, select: tuple[str, ...], lake: str | None, retain_days: int, progress: Progress) -> list[dict[str, Any]]:
    """Compact and clean every table of the selected sources; one entry per source. No layer of a source runs meanwhile."""
    if retain_days < LEAST_DAYS:
        raise ConfigError(
            f"--retain-days {retain_days}: expected at least {LEAST_DAYS}: readers and `show --at` need the versions of a week"
        )
    spark = get_session()
    return [maintain_source(spark, source, retain_days, progress) for source in selected_sources(config, select, lake)]


def maintain_source(spark: SparkSession, source: Source, retain_days: int, progress: Progress) -> dict[str, Any]:
    """One source, with all its layers held."""
    with layer_lock(spark, source.lake, source.name, LAYERS):
        log = OpsLog(spark, source.lake, source.name).load()
        plain = [("bronze", source.name), *(("silver", f"{source.name}_{name}") for name in SCHEMAS)]
        plain += [("ops", f"{source.name}_{name}") for name in ("log", "rejected", "quality")]
        compacted = [name for layer, name in plain if tidy(spark, source.lake, layer, name, retain_days)]
        compacted += tidy_gold(spark, source.lake, log, retain_days)
    progress(f"maintain {source.name}: {len(compacted)} tables compacted")
    return {"source": source.name, "compacted": compacted}


def tidy_gold(spark: SparkSession, lake: Lake, log: OpsLog, retain_days: int) -> list[str]:
    """Gold's tables, and where one has a new version for it, a manifest that names it."""
    manifest = log.last("manifest")
    entries = manifest["tables"] if manifest else []
    moved = {
        entry["gold"]: version_of(spark, lake, entry["gold"])
        for entry in entries
        # a table that was written and not yet published belongs to the next run
        if entry["state"] != "retired"
        and version_of(spark, lake, entry["gold"]) == entry["version"]
        and tidy(spark, lake, "gold", entry["gold"], retain_days)
    }
    if moved and manifest:
        log.add("manifest", {**manifest, "tables": [{**entry, "version": moved.get(entry["gold"], entry["version"])} for entry in entries]})
    return sorted(moved)


def tidy(spark: SparkSession, lake: Lake, layer: str, name: str, retain_days: int) -> bool:
    """Compact a table that has several small files, and remove files of old versions; tells whether it was compacted."""
    if not lake.exists(spark, layer, name):
        return False
    table = lake.ref(layer, name)
    detail = spark.sql(f"DESCRIBE DETAIL {table}").select("numFiles").first()
    before = version_of_table(spark, table)
    if detail is not None and detail.numFiles >= SMALL_FILES:
        spark.sql(f"OPTIMIZE {table}").collect()
    changed = version_of_table(spark, table) != before
    spark.sql(f"VACUUM {table} RETAIN {retain_days * 24} HOURS").collect()
    return changed


def version_of_table(spark: SparkSession, table: str) -> int:
    row = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").first()
    return int(row[0]) if row is not None else -1
