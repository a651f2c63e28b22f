"""Rebuilds gold from silver, and silver from bronze: show the differences first, and with `yes` switch to the
new one.

A gold table is folded into a shadow, `_rebuild_<table>`, and compared with what is published. Replacing it is
a request in the ops log: gold's next run folds the table anew and overwrites it in one commit; it runs at
once unless another gold run goes on.

Silver is built as a new generation beside the old one, in tables of its own (`<source>_changes_g2`), with a
log of its own. One commit of the source's log makes it the one that counts; gold's next run then folds every
table anew.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import Position
from lakehouse.ops.file_lock import is_remote
from lakehouse.ops.pruning import added
from lakehouse.ops.records.bronze import Backfill
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.operators import Dismissed, Epoch, Generation, Rebuild, Rebuilding
from lakehouse.ops.records.runs import Summary
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.reporting.logs import say
from lakehouse.silver.read_as import differences
from lakehouse.spark.change_log.dead_letters import (
    LOST,
    dismissals,
    is_closed,
    is_open,
    open_shortfalls,
)
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.gold.plan import GoldRun
from lakehouse.spark.gold.results import MISFITS, Window, has_misfits
from lakehouse.spark.gold.run import fold_shadow, open_run, run_gold
from lakehouse.spark.lake import SILVER_TABLES, Lake, quote
from lakehouse.spark.ops.gold_names import gold_entry
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.readers.positions import check_floor, parse_position
from lakehouse.spark.session import get_session, many_rows
from lakehouse.spark.silver.columns import ORIGIN
from lakehouse.spark.silver.run import run_silver
from lakehouse.spark.silver.tables import SilverSettings, read_silver
from lakehouse.spark.source import gold_settings_of, silver_settings_of

Entry = dict[str, Any]
STILL = "given up before silver was built again"


# --- one gold table


def rebuild_table(
    root: str, table: str, at: str | None, yes: bool, why: str = "", *, progress: Progress = say
) -> Entry:
    """Fold a table anew from silver and say how it differs from what is published; with `yes`, replace it.

    With `at` T it is the state at T: compared with the manifest of that moment if there is one, else with
    the published one.
    """
    if yes and at is not None:
        raise ConfigError("rebuild: --at compares only; leave out --yes, or --at")
    spark, lake = get_session(), Lake(root)
    log, entry = gold_entry(spark, lake, table)
    source, manifest = log.source, log.last(Manifest)
    settings = sources(spark, lake)[source]
    assert manifest is not None
    watermark = manifest.watermark
    position = watermark if at is None else parse_position(log, at, watermark)
    check_floor(log, at or "now", position)
    published, compared_with = at_position(log if at is None else log.whole(), entry, position)
    run = shadow_run(log, settings, manifest, position)
    progress(f"rebuild {entry.name}: folding it again from silver, to compare with {compared_with}")
    outcome = {
        "table": table,
        "compared_with": compared_with,
        **shadow_difference(run, entry, published.gold, published.version),
    }
    asked = [Rebuild(lineage=entry.lineage, why=why)]
    return {**outcome, "replaced": request(log, settings, asked, progress=progress) if yes else False}


def at_position(log: OpsLog, entry: TableEntry, position: Position) -> tuple[TableEntry, str]:
    """The table's entry in the manifest of a moment, else in the last one."""
    for manifest in reversed(log.all(Manifest)):
        found = next((one for one in manifest.tables if one.lineage == entry.lineage), None)
        if manifest.watermark == position and found is not None:
            is_last = manifest is log.last(Manifest)
            return found, "the published table" if is_last else "the manifest of that moment"
    return entry, "the published table"


def shadow_run(log: OpsLog, settings: SourceSettings, manifest: Manifest, position: Position) -> GoldRun:
    """A gold run over what the manifest saw, up to a position, that publishes nothing."""
    feed = gold_settings_of(log.source, settings, manifest.consistency)
    done = next(record for record in reversed(log.all(Done)) if record.batch == manifest.batch)
    window = Window(manifest.batch, position, manifest.batch, position)
    history = load_history(log, done, feed.said)
    return open_run(log, feed, history, window, last=None, stops=False)


def shadow_difference(run: GoldRun, entry: TableEntry, gold: str, version: int | None) -> Entry:
    """How many rows a version of the Delta table `gold` (None: the newest) and the rebuilt table have in
    common, and not; and what the fold knows to be lacking that the published entry does not say.
    """
    shadow = f"_rebuild_{entry.gold}"
    try:
        folded = fold_shadow(run, entry.lineage, shadow)
        if folded is None:
            raise LakehouseError(f"{entry.name}: expected a table that lives at that moment")
        live = run.lake.read(run.spark, "gold", gold, version)
        with many_rows(run.spark):
            rows = difference(live, run.lake.read(run.spark, "gold", shadow))
        return {**rows, "lacking": [] if folded.entry is None else newly_lacking(entry, folded.entry)}
    finally:
        discard(run.spark, run.lake, shadow)


def newly_lacking(published: TableEntry, folded: TableEntry) -> list[str]:
    """What a fold of all changes knows to be lacking, in words, that the published entry does not say."""
    known = set() if published.lacking is UNSET else set(published.lacking)
    found = [] if folded.lacking is UNSET else sorted(folded.lacking)
    # these count the changes that do not fit: more of them are no news
    again = MISFITS if has_misfits(published) else None
    return [text for text in found if text not in known and not (again and text.startswith(again))]


def difference(live: DataFrame, rebuilt: DataFrame) -> Entry:
    """Rows of two tables by all of their columns, as multisets."""
    names = sorted({*live.columns, *rebuilt.columns})
    lines = [frame.select(as_text(frame, names).alias("line")) for frame in (live, rebuilt)]
    only_live, only_rebuilt = lines[0].exceptAll(lines[1]).count(), lines[1].exceptAll(lines[0]).count()
    columns = [name for name in names if (name in live.columns) != (name in rebuilt.columns)]
    return {
        "equal": lines[0].count() - only_live,
        "only_live": only_live,
        "only_rebuilt": only_rebuilt,
        "columns_that_differ": columns,
    }


def as_text(frame: DataFrame, names: list[str]) -> Any:
    """A row as an array of texts that are equal when its values are; columns that it lacks are null."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    return F.array(
        *[
            F.lit(None).cast("string") if name not in types else _text(frame[quote(name)], types[name])
            for name in names
        ]
    )


def _text(column: Any, data_type: T.DataType) -> Any:
    if isinstance(data_type, T.BinaryType):
        return F.base64(column)
    if isinstance(data_type, T.ArrayType) or data_type.simpleString() == "variant":
        return F.to_json(column)
    return column.cast("string")


def discard(spark: SparkSession, lake: Lake, table: str) -> None:
    """Remove a scratch table of gold; on a remote path its rows alone."""
    if not lake.exists(spark, "gold", table):
        return
    if lake.catalog is not None:
        spark.sql(f"DROP TABLE {lake.ref('gold', table)}")
    elif is_remote(lake.root):
        lake.overwrite(lake.read(spark, "gold", table).limit(0), "gold", table)
    else:
        shutil.rmtree(Path(lake.path("gold", table)))


def request(
    log: OpsLog, settings: SourceSettings, asked: Sequence[Rebuild], *, progress: Progress
) -> str | bool:
    """Ask this of gold, in one run; it is done at once where no other gold run goes on."""
    log.add_all(asked)
    try:
        with layer_lock(log.spark, log.lake, log.source, ["gold"]) as lake:
            held = OpsLog(log.spark, lake, log.source).load()
            manifest = held.last(Manifest)
            assert manifest is not None
            feed = gold_settings_of(log.source, settings, manifest.consistency)
            run_gold(feed, held, progress=progress)
            return True
    except LakehouseError as error:
        return f"requested: {error}"


# --- silver


def rebuild_silver(root: str, source: str, yes: bool, why: str = "", *, progress: Progress = say) -> Entry:
    """Decode all of bronze into a new generation and say how it differs from the present one; with `yes`,
    switch to it.
    """
    spark, lake = get_session(), Lake(root)
    settings = sources(spark, lake).get(source)
    if settings is None:
        raise LakehouseError(
            f"{source}: expected a source of {root}, found none; `lakehouse status` lists them"
        )
    log = OpsLog(spark, lake, source).load()
    check_bronze(log)
    feed = silver_settings_of(source, settings)
    number = next_generation(log, again=not yes)
    new_lake, scratch = generation(spark, lake, source, number)
    begun = scratch.last(Planned)
    if begun is not None and differences(begun.read_as, feed.read_as):  # under other options of the decoder
        number = next_generation(log, again=True)
        new_lake, scratch = generation(spark, lake, source, number)
    progress(f"rebuild {source}: decoding bronze into generation {number} of silver")
    catch_up(log, scratch, feed, progress)
    progress(f"rebuild {source}: comparing both generations")
    outcome = {"source": source, "generation": number, **silver_difference(spark, lake, new_lake, source)}
    if not yes:
        return {**outcome, "switched": False}
    with layer_lock(spark, lake, source, ["silver"]):
        log.load()
        catch_up(log, scratch, feed, progress)
        planned, done = scratch.last(Planned), scratch.last(Done)
        assert planned is not None and done is not None
        given_up = [*still_given_up(log, new_lake, done.batch), *shortfalls_given_up(log, done)]
        switch = Generation(number=number, why=why)
        log.add_all([earlier(scratch, number), planned, done, switch, *given_up])
    return {**outcome, "switched": True}


def still_given_up(log: OpsLog, new_lake: Lake, batch: int) -> list[Dismissed]:
    """What an operator had given up, said of the new generation's batches: of each code of dead letters of
    which it has none that was not given up before.
    """
    where = ["code", *(f"origin.{name}" for name in ORIGIN)]
    old, new = (
        read_silver(log.spark, one, log.source, "dead_letters").where(F.col("code") != LOST)
        for one in (log.lake, new_lake)
    )
    given_up = old.where(is_closed(dismissals(log))).select(*where)
    again = old.where(is_open(log)).select(*where)
    known = given_up.subtract(again)
    codes = {row.code for row in new.select("code").distinct().collect()}
    unlike = {row.code for row in new.select(*where).subtract(known).select("code").distinct().collect()}
    return [Dismissed(code=code, batch=batch, gaps=0, why=STILL) for code in sorted(codes - unlike)]


def shortfalls_given_up(log: OpsLog, new: Done) -> list[Dismissed]:
    """That an operator had given up what the new generation's batches find lacking or cut, of which nothing
    is new. Where bronze has lost records meanwhile it is left to the operator: one word gives up both.
    """
    done, manifest = log.last(Done), log.last(Manifest)
    lost = manifest is not None and manifest.bronze is not UNSET and manifest.bronze.losses
    if done is None or done.short is UNSET or new.short is UNSET or lost:
        return []
    known = {replace(one, batch=0) for one in done.short} - {
        replace(one, batch=0) for one in open_shortfalls(log)
    }
    is_known = known.issuperset(replace(one, batch=0) for one in new.short)
    return [Dismissed(code=LOST, batch=new.batch, gaps=0, why=STILL)] if is_known else []


def earlier(scratch: OpsLog, number: int) -> Summary:
    """What the batches of a new generation said before the last one."""
    plans = {one.batch: one for one in scratch.all(Planned)[:-1]}
    done = {one.batch: one for one in scratch.all(Done)[:-1]}
    return added(Summary(seq=0, generation=number), plans, done, floor=0)


def check_bronze(log: OpsLog) -> None:
    """Bronze must still hold the first record that silver ever read of each partition."""
    first: dict[tuple[str, str, int], int] = {}
    for one in (*log.summary.ranges, *(each for plan in log.all(Planned) for each in plan.ranges)):
        first[one.place] = min(first.get(one.place, one.first), one.first)
    held = (
        log.lake.read(log.spark, "bronze", log.source)
        .groupBy("topic", "incarnation", "partition")
        .agg(F.min("offset").alias("low"))
        .collect()
    )
    low = {(row.topic, row.incarnation, row.partition): row.low for row in held}
    lost = [
        f"{topic}/{number}"
        for (topic, mark, number), offset in first.items()
        if low.get((topic, mark, number), offset + 1) > offset
    ]
    if lost:
        raise LakehouseError(
            f"{log.source}: bronze no longer holds the beginning of {', '.join(sorted(lost))}: silver can't "
            "be built from it"
        )


def next_generation(log: OpsLog, *, again: bool) -> int:
    """The generation to build: the one that is begun and not in use yet, unless it is to begin `again`."""
    begun = max((record.number for record in log.all(Rebuilding)), default=log.generation)
    if begun > log.generation and not again:
        return begun
    log.add(Rebuilding(number=begun + 1))
    return begun + 1


def generation(spark: SparkSession, lake: Lake, source: str, number: int) -> tuple[Lake, OpsLog]:
    """The lake as it is when that generation of a source's silver counts, and the log in which it
    is built.
    """
    new_lake = Lake(lake.root, lake.catalog, lake.schemas)
    new_lake.use_generation(source, number)
    return new_lake, OpsLog(spark, new_lake, source, suffix=f"_g{number}").load()


def catch_up(log: OpsLog, scratch: OpsLog, feed: SilverSettings, progress: Progress) -> None:
    """Decode what bronze has and the new generation has not; epochs, and what landed below, are the source's
    own.
    """
    for record in log.all(Epoch)[len(scratch.all(Epoch)) :]:
        scratch.add(record)
    for landed in log.all(Backfill)[len(scratch.all(Backfill)) :]:
        scratch.add(landed)
    run_silver(RunContext(scratch, progress), feed, landed=log)


def silver_difference(spark: SparkSession, old: Lake, new: Lake, source: str) -> Entry:
    """How the change logs and the dead letters of two generations differ."""
    columns = ["database", "table", "key", "op", "position", "before", "after", "row_id"]
    frames = [read_silver(spark, lake, source, "changes").select(*columns) for lake in (old, new)]
    letters = [read_silver(spark, lake, source, "dead_letters").count() for lake in (old, new)]
    with many_rows(spark):
        only_old, only_new = frames[0].exceptAll(frames[1]).count(), frames[1].exceptAll(frames[0]).count()
    return {
        "equal": frames[0].count() - only_old,
        "only_old": only_old,
        "only_new": only_new,
        "dead_letters_old": letters[0],
        "dead_letters_new": letters[1],
        "tables": [new.path("silver", f"{source}_{name}") for name in SILVER_TABLES],
    }
