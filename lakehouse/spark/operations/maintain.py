"""Maintenance of a lake's tables: compact small files (OPTIMIZE), and remove files that nothing needs
(VACUUM).

It breaks neither a replay nor a kept manifest. Bronze and silver lose no row by it. Of gold, every version
stays readable that the last manifest names, or one younger than `snapshots`: a version's files live at least
as long as the version after it is old. OPTIMIZE makes a new version of the same rows, so the manifest is
published again with it; where gold's next run has to see something behind that manifest, gold's files wait.
A gold table of which Delta no longer has the published version is folded again by the next run.
The ops log is pruned, and its archive forgets what is older than `snapshots`.

A source is maintained while none of its layers runs, and nothing is imported into it.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace
from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.ops.records.operators import Dismissed, Floor, Rebuild
from lakehouse.spark.bronze.claim_checks import attachments_table
from lakehouse.spark.lake import SILVER_TABLES, Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import capabilities, get_session, many_rows
from lakehouse.spark.silver.spark_batch import staging_table
from lakehouse.spark.table_versions import has_same_rows, history_of, newest_alike, why_out_of_reach

Entry = dict[str, Any]
Progress = Callable[[str], None]
HOUR = 3600
LAYERS = ("bronze", "silver", "gold", "import")
# A large gold table is many files in the order of its key, of which a MERGE opens a few: they are not put
# together to one of a gigabyte.
GOLD_FILES = {
    "spark.databricks.delta.optimize.minFileSize": str(8 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(32 << 20),
}
# what counts from the last manifest on
AWAITED = frozenset(one.kind for one in (Intent, Floor, Dismissed))
LISTING, LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism", 16


def maintain(root: str, source: str | None, snapshots: float, progress: Progress) -> list[Entry]:
    """Maintain the tables of one source, or of all; manifests younger than `snapshots` seconds stay
    readable. LakehouseError where a source could not be: the others are maintained before.
    """
    spark, lake = get_session(), Lake(root)
    known = sources(spark, lake)
    if source is not None and source not in known:
        raise LakehouseError(
            f"{source}: expected a source of {root}, which has {', '.join(sorted(known)) or 'none'}"
        )
    return maintain_each(
        spark, [(lake, name) for name in ([source] if source else known)], snapshots, progress
    )


def maintain_each(
    spark: SparkSession, chosen: Iterable[tuple[Lake, str]], snapshots: float, progress: Progress
) -> list[Entry]:
    """Maintain sources, each in its lake, and what the sources of a lake share; see `maintain`."""
    found: list[Entry] = []
    failed: list[LakehouseError] = []
    lakes: list[Lake] = []
    for lake, name in chosen:
        lakes += [lake] if lake not in lakes else []
        try:
            found.append(maintain_source(spark, lake, name, snapshots, progress=progress))
        except LakehouseError as error:
            failed.append(error)
    for lake in lakes:
        keep_in_shape(spark, lake, [("ops", "lake"), ("ops", "gold_names")], snapshots, progress=progress)
    if failed:
        raise LakehouseError("\n".join(map(str, failed)))
    return found


def maintain_source(
    spark: SparkSession, lake: Lake, source: str, snapshots: float, progress: Progress
) -> Entry:
    """One source's tables. LakehouseError where a run of the source goes on."""
    with layer_lock(spark, lake, source, LAYERS) as guarded:
        log = OpsLog(spark, guarded, source).load()
        log.prune()
        log.archive.forget(int((time.time() - snapshots) * 1000))
        keep_in_shape(spark, log.lake, own_tables(log), snapshots, progress=progress)
        manifest, manifests = log.last(Manifest), log.whole().dated(Manifest)
        lost = out_of_reach(log, manifest, progress) if manifest else frozenset()
        tables = [entry.gold for entry in (manifest.tables if manifest else ()) if entry.gold not in lost]
        published = optimize_gold(log, snapshots, progress, lost=lost)
        manifests += log.dated(Manifest)[-1:] if published else []
        kept = {table: kept_versions(manifests, table, snapshots) for table in tables}
        hours = {table: vacuum_gold(log, table, snapshots, kept[table]) for table in tables}
    return {
        "source": source,
        "gold_tables": len(tables),
        "published_again": published,
        "kept_hours": max(hours.values(), default=None),
    }


def own_tables(log: OpsLog) -> list[tuple[str, str]]:
    """The layers and names of a source's tables, gold's apart."""
    source = log.source
    bronze = [source, attachments_table(source)]
    names = ("rejected", "quality", "differences")
    ops = [log.table, log.archive.table, *(f"{source}_{name}" for name in names)]
    suffixes = ["", *(f"_g{number}" for number in range(2, log.generation + 1))]
    return [
        *(("bronze", name) for name in bronze),
        *(("silver", f"{source}_{name}") for name in SILVER_TABLES),
        *(("silver", staging_table(source, suffix)) for suffix in suffixes),
        *(("ops", name) for name in ops),
    ]


def keep_in_shape(
    spark: SparkSession, lake: Lake, tables: Iterable[tuple[str, str]], snapshots: float, progress: Progress
) -> None:
    """Put the files of tables together, and remove those that no version in reach has."""
    for layer, name in tables:
        if lake.exists(spark, layer, name):
            with lake.committing(layer, name):
                keep_history(spark, lake.ref(layer, name), snapshots)
                optimize(spark, lake.ref(layer, name))
                vacuum(spark, lake.ref(layer, name), hours_of(snapshots))
            progress(f"{layer}.{name}: optimized")


def optimize(spark: SparkSession, ref: str, settings: Mapping[str, str] = {}) -> None:
    with many_rows(spark), under(spark, settings):
        spark.sql(f"OPTIMIZE {ref}").collect()


def out_of_reach(log: OpsLog, manifest: Manifest, progress: Progress) -> frozenset[str]:
    """The gold tables of which Delta no longer has the version that was published. The next run is asked to
    fold them again; a dropped table has no rows at the source to fold.
    """
    asked = {one.lineage for one in log.all(Rebuild)[manifest.rebuilds :]}
    lost = set()
    for entry in manifest.tables:
        why = why_out_of_reach(log.spark, log.lake, entry)
        if why is None:
            continue
        lost.add(entry.gold)
        can = "can't be read" if entry.state == "retired" else "the next run folds it again"
        progress(f"warning: gold.{entry.gold}: {why}: {can}")
        if entry.state != "retired" and entry.lineage not in asked:
            log.add(Rebuild(lineage=entry.lineage, why=why))
    return frozenset(lost)


def optimize_gold(
    log: OpsLog, snapshots: float, progress: Progress, *, lost: Collection[str] = frozenset()
) -> bool:
    """OPTIMIZE each table whose newest version has the rows that its manifest names, and publish the versions
    that come of it; those that are `lost` wait for the next run.
    """
    spark, lake, manifest = log.spark, log.lake, log.last(Manifest)
    if manifest is None or is_awaited(log):
        return False
    entries = []
    for entry in manifest.tables:
        ref = lake.ref("gold", entry.gold)
        if entry.gold not in lost and has_same_rows(spark, lake, entry.gold, entry.version):
            keep_history(spark, ref, snapshots)
            optimize(
                spark, ref, {} if capabilities(spark).keys else GOLD_FILES
            )  # Databricks chooses sizes by itself
            progress(f"gold.{entry.gold}: optimized")
            # by hand somebody may have written to it meanwhile
            alike = newest_alike(spark, lake, entry.gold, entry.version)
            entry = replace(entry, version=entry.version if alike is None else alike)
        entries.append(entry)
    if tuple(entries) == manifest.tables:
        return False
    log.add(replace(manifest, tables=tuple(entries)))
    return True


def is_awaited(log: OpsLog) -> bool:
    """Whether the next run of gold looks for something behind the last manifest: tables that a run has
    written which died, a retention floor, a loss that was dismissed. A manifest behind it would hide it.
    """
    kinds = (one.kind for one in reversed(log.records))
    last = next((kind for kind in kinds if kind in AWAITED or kind == Manifest.kind), None)
    return last in AWAITED


def keep_history(spark: SparkSession, ref: str, snapshots: float) -> None:
    """Neither Delta's clean-up of its log (30 days unless said) nor a VACUUM by hand may be quicker than what
    manifests need; nor does Delta's default of a week stand in the way of less.
    """
    hours = hours_of(snapshots)
    properties = {
        "delta.logRetentionDuration": f"interval {max(30 * 24, hours + 24)} hours",
        "delta.deletedFileRetentionDuration": f"interval {hours} hours",
    }
    detail = spark.sql(f"DESCRIBE DETAIL {ref}").select("properties").first()
    held = dict(detail[0]) if detail is not None else {}
    if any(held.get(name) != value for name, value in properties.items()):
        assignments = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ({assignments})")


def vacuum_gold(log: OpsLog, table: str, snapshots: float, kept: Collection[int]) -> int:
    """Remove files that none of the kept versions needs; returns for how many hours they are kept."""
    spark, ref = log.spark, log.lake.ref("gold", table)
    ended = {row.version - 1: row.timestamp.timestamp() for row in history_of(spark, ref)}
    needed = [ended[version] for version in kept if version in ended]
    hours = max([hours_of(snapshots), *(math.ceil((time.time() - moment) / HOUR) + 1 for moment in needed)])
    vacuum(spark, ref, hours)
    return hours


def kept_versions(manifests: Sequence[tuple[int, Manifest]], table: str, snapshots: float) -> set[int]:
    """The versions of a gold table that the last of the manifests names, which are dated, or one that was in
    force less than `snapshots` seconds ago.
    """
    since = (time.time() - snapshots) * 1000
    ends = [at for at, _ in manifests[1:]] + [math.inf]
    kept = [manifest for (_, manifest), end in zip(manifests, ends, strict=True) if end >= since]
    return {entry.version for manifest in kept for entry in manifest.tables if entry.gold == table}


def hours_of(seconds: float) -> int:
    """So many hours, but one at least: a VACUUM takes what is in no version, and so are the files of a commit
    that is being made. Operators and other sources write to the tables of `ops` meanwhile.
    """
    return max(1, math.ceil(seconds / HOUR))


def vacuum(spark: SparkSession, ref: str, hours: int) -> None:
    """VACUUM lists a table's folders in as many tasks as this setting says, 10,000 by default: minutes for a
    table of ten files.
    """
    with under(spark, {LISTING: str(LISTING_TASKS)} if capabilities(spark).persist else {}):
        spark.sql(f"VACUUM {ref} RETAIN {hours} HOURS").collect()


@contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, and as it was afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)
