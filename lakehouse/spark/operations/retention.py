"""The retention floor of a source: below it silver keeps one snapshot row per live row instead of the log.

It is said first (a record of the ops log: from then on rows and statements that arrive below it are refused
and told), and done then, in one commit of silver's changes. Said again it is done again. Schema changes stay
whole; so do the logs of tables that need theirs.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, SNAPSHOT_TOPIC, Position, just_below
from lakehouse.fold.compaction import compacted, folded_under, named_image, needs_log, with_namesakes
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.options import from_plain
from lakehouse.gold.shards import options_of
from lakehouse.gold.upstream import upstream_of
from lakehouse.lineage import Lineage, Name, key_ids
from lakehouse.ops.progress import TableSnapshot
from lakehouse.ops.records.bronze import MissingFile
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.operators import Epoch, Floor
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark import limits
from lakehouse.spark.arrow import Worker, rows_frame
from lakehouse.spark.bronze.offsets import unread as unread_records
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.change_log.changes import (
    between,
    collect_changes,
    counted_changes,
    of_any,
    of_lineage,
    position_literal,
    position_sql,
    unfinished_snapshots,
)
from lakehouse.spark.change_log.dead_letters import missing_files, open_counts
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.column_types import columns
from lakehouse.spark.fold.deltas import decode_row
from lakehouse.spark.fold.fold_job import FoldTask, netted_rows, partitions_for
from lakehouse.spark.lake import Lake, literal
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.positions import epoch_at, parse_position
from lakehouse.spark.session import get_session, keeping, many_rows
from lakehouse.spark.silver.tables import silver_schema
from lakehouse.spark.source import options_in, said_in, suites_in

Entry = dict[str, Any]
IMAGE = "after string"
_SHOWS_MORE = "gold shows more of it than its live rows"


def raise_floor(
    root: str, source: str, at: str | None, older_than: float | None, yes: bool, why: str
) -> Entry:
    """Fold the log below a moment together; without `yes` only say what would go."""
    spark, lake = get_session(), Lake(root)
    settings = sources(spark, lake).get(source)
    if settings is None:
        raise LakehouseError(
            f"{source}: expected a source of {root}, found none; `lakehouse status` lists them"
        )
    # the rows of a snapshot that is being read would come below the floor
    with layer_lock(spark, lake, source, ["silver", "gold", "import"]) as lake:
        log = OpsLog(spark, lake, source).load()
        done, manifest = taken_by_gold(log)
        refuse_unread_snapshot(log, done)
        told = moment(log, settings, at, older_than, watermark=manifest.watermark)
        # a DDL may stand at the watermark itself
        place = just_below(not_void_at(told, log.all(Epoch)))
        lineages = [one for one in load_history(log, done, said_in(settings)).lineages if one.start < place]
        awaited = Awaited(open_counts(log), tuple(missing_files(log)))
        kept = kept_logs(lineages, place, settings, done=done, manifest=manifest, awaited=awaited)
        folded = [one for one in lineages if one.id not in kept]
        changes = counted_changes(log, done.batch)
        outcome = {
            "source": source,
            "floor": list(place),
            "keeps_its_log": dict(sorted(kept.items())),
            "changes_below": changes.where(of_any(folded) & between(None, place)).count() if folded else 0,
        }
        if not yes or not folded:
            return {**outcome, "done": False}
        names = sorted({i.name for one in folded for i in one.intervals if i.low < place})
        upstream = upstream_of(settings.format, settings.options)
        under = {one.id: folded_under(one, place, upstream) for one in folded}
        floor = Floor(generation=log.generation, place=place, names=tuple(names), why=why, batch=done.batch)
        log.add(msgspec.structs.replace(floor, folded=under))
        with many_rows(spark), keeping():
            rows = snapshot_rows(log, changes, folded, place, settings=settings, batch=done.batch)
            lake.replace_where(rows, "silver", f"{source}_changes", predicate(folded, place))
        return {**outcome, "done": True}


def taken_by_gold(log: OpsLog) -> tuple[Done, Manifest]:
    """Silver's last batch, and gold's manifest of it; LakehouseError where gold is not as far as silver, or a
    batch is not done: late changes that it has written would go with the log, and be refused when it is done
    again.
    """
    done, manifest, planned = log.last(Done), log.last(Manifest), log.last(Planned)
    if planned is not None and (done is None or done.batch < planned.batch):
        raise LakehouseError(f"{log.source}: a silver batch is not done yet; `lakehouse run` first")
    if done is None or manifest is None or manifest.batch != done.batch:
        raise LakehouseError(
            f"{log.source}: gold has not taken all that silver has; `lakehouse run gold` first"
        )
    return done, manifest


def refuse_unread_snapshot(log: OpsLog, done: Done) -> None:
    """LakehouseError where rows of a table's snapshot have landed that silver has not read: they stand where
    their table was read, which may be below the floor, and would be refused.
    """
    bronze = log.lake.read_or_empty(log.spark, "bronze", log.source, BRONZE_SCHEMA)
    read = [one for one in done.next if one.topic == SNAPSHOT_TOPIC]
    if unread_records(bronze.where(F.col("topic") == SNAPSHOT_TOPIC), read).limit(1).count():
        raise LakehouseError(
            f"{log.source}: rows of a table's snapshot or import have landed that silver has not read, and "
            "that would be refused below a floor; `lakehouse run` first"
        )


class Awaited(NamedTuple):
    """What may still bring changes from below a floor, where they would be refused: open dead letters by
    table (None: of no known table), and files that a storage sink lacks.
    """

    letters: Mapping[Name | None, int] = {}
    files: tuple[MissingFile, ...] = ()


def kept_logs(
    lineages: list[Lineage],
    place: Position,
    settings: SourceSettings,
    *,
    done: Done,
    manifest: Manifest,
    awaited: Awaited,
) -> dict[str, str]:
    """Why tables keep their logs, by lineage; those that may be folded are not in it."""
    entries = {lineage: entry for entry in manifest.tables for lineage in entry.lineages}
    reasons = {
        one.id: reason(one, place, settings)
        or unread(one, place, entries.get(one.id))
        or unfinished(one, place, unfinished_snapshots(done))
        or incoming(one, awaited)
        or unpromised(one, place, done, None if manifest.consistency != "eventual" else settings.order)
        for one in lineages
    }
    told = {lineage: why for lineage, why in reasons.items() if why is not None}
    return with_namesakes(told, lineages, place)


def moment(
    log: OpsLog, settings: SourceSettings, at: str | None, older_than: float | None, *, watermark: Position
) -> Position:
    if at is not None:
        return parse_position(log, at, watermark)
    if older_than is None or settings.order != "tidb":
        raise LakehouseError(
            "floor raise: expected --at T, or --older-than on a feed whose positions are TSOs"
        )
    tso = min(watermark[1], int((time.time() - older_than) * 1000) << 18)
    return (epoch_at(log, tso, watermark), tso, *watermark[2:])


def not_void_at(place: Position, epochs: Iterable[Epoch]) -> Position:
    """The place, or the one below it that a restore of the upstream went back to: what is between them is
    void, and so would be the rows of a floor there.
    """
    restores = (one.restored_to for one in epochs if one.restored_to is not None and place[0] < one.epoch)
    return (place[0], min([place[1], *restores]), *place[2:])


def reason(lineage: Lineage, place: Position, settings: SourceSettings) -> str | None:
    """Why a table keeps its log: its mode shows more than the newest rows, or its fold needs it."""
    options = options_of(lineage, options_in(settings))
    if options.merged or not options.plain:
        return _SHOWS_MORE
    names = {interval.name for interval in lineage.intervals}
    if any(suite.digest for name, suite in suites_in(settings).items() if name in names):
        return "its expectations keep rows out: gold shows what those were before"
    return needs_log(lineage, place)


def unread(lineage: Lineage, place: Position, entry: TableEntry | None) -> str | None:
    """Why a table keeps its log though it needs it no more: what its changes lack is known only once gold has
    folded them, and rows at a floor do not tell it.
    """
    if lineage.name_at(place) is None:
        return None
    if entry is None:
        return "gold does not have it, so that nothing has looked at what its changes lack"
    if entry.state == "behind" and entry.since is not None and entry.since < place:
        return "gold is behind the floor"
    if entry.options and not from_plain(entry.options).plain:
        # its YAML may be that of a name which a RENAME above the floor has ended
        return _SHOWS_MORE
    return None


def unfinished(lineage: Lineage, place: Position, begun: Iterable[TableSnapshot]) -> str | None:
    """Why a table keeps its log though gold has folded it: rows of a snapshot that has not all arrived count
    for nothing yet, and the rest of it would be refused below a floor.
    """
    names = {interval.name for interval in lineage.intervals}
    waits = any((one.database, one.table) in names and one.position <= place for one in begun)
    return "a snapshot of it from below the floor has not arrived as a whole" if waits else None


def incoming(lineage: Lineage, awaited: Awaited) -> str | None:
    """Why a table keeps its log though gold has folded it: changes of it may come from below the floor that
    are no copies.
    """
    names: set[Name | None] = {None, *(interval.name for interval in lineage.intervals)}
    if not names.isdisjoint(awaited.letters):
        return "it has open dead letters, or the source has of no known table: requeue or dismiss them first"
    if any(file.table in names for file in awaited.files):
        return "the storage sink lacks a file that may be of it: put it back, or dismiss it first"
    return None


def unpromised(lineage: Lineage, place: Position, done: Done, order: str | None) -> str | None:
    """Why a table keeps its log though gold has folded it: where no watermark says that all below the floor
    has come, other changes of it may, which would be refused. In one partition none does once that has told
    of something at or above the floor; of the table itself, where the tables of a partition are in no one
    order. `order`: of the feed's positions; None: there is a watermark.
    """
    if order is None:
        return None
    names = {interval.name for interval in lineage.intervals}
    topics = {one.name: set(() if one.topics is UNSET else one.topics) for one in done.tables}
    mine = {topic for name in names for topic in topics.get(name, ())} - {SNAPSHOT_TOPIC}
    partitions = {(one.topic, one.partition) for one in done.next if one.topic in mine}
    as_one = order in ("binlog", "arrival")
    told = [one.high for one in done.tables if topics[one.name] == mine and (as_one or one.name in names)]
    if len(partitions) == 1 and max(told, default=MIN_POSITION) >= place:
        return None
    return "no watermark tells that all of its changes from below the floor have come"


def predicate(lineages: Iterable[Lineage], place: Position) -> str:
    """The rows of the lineages at or below the floor, as SQL."""
    names = [
        (
            f"(`database` = {literal(i.name[0])} AND `table` = {literal(i.name[1])} AND position > "
            f"{position_sql(i.low)}"
        )
        + (f" AND position < {position_sql(i.high)})" if i.high is not None else ")")
        for lineage in lineages
        for i in lineage.intervals
        if i.low < place
    ]
    return f"position <= {position_sql(place)} AND ({' OR '.join(names)})"


def snapshot_rows(
    log: OpsLog,
    changes: DataFrame,
    lineages: list[Lineage],
    place: Position,
    *,
    settings: SourceSettings,
    batch: int,
) -> DataFrame:
    """Silver rows for what lives at the floor."""
    upstream = upstream_of(settings.format, settings.options)
    schema, time_ = silver_schema("changes"), time_at(changes, place, settings.order)
    rows = rows_frame(log.spark, [], schema)
    for lineage in lineages:
        name = lineage.name_at(place)
        if name is not None:
            table_changes = changes.where(of_lineage(lineage) & between(None, place))
            rows = rows.unionByName(
                silver_rows(
                    images(log.spark, table_changes, lineage, place, upstream=upstream),
                    lineage,
                    name,
                    place,
                    source=log.source,
                    batch=batch,
                    commit_ts=time_,
                )
            )
    return rows


def time_at(changes: DataFrame, place: Position, order: str) -> int | None:
    """The commit time of a floor's rows: of a feed whose positions are no times, the newest of the changes at
    or below it.
    """
    if order == "tidb":
        return place[1]
    row = changes.where(between(None, place)).agg(F.max("commit_ts")).first()
    return None if row is None else row[0]


def images(
    spark: SparkSession, mine: DataFrame, lineage: Lineage, place: Position, upstream: Upstream
) -> DataFrame:
    """The images of the rows that live at the floor, as JSON text by column name."""
    count = mine.count()
    if count <= limits.GOLD_TABLE_CHANGES:
        below = compacted(lineage, (change for _, change, _ in collect_changes(mine)), place, upstream)
        texts = [json.dumps(change.after, ensure_ascii=False) for change in below]
        return spark.createDataFrame(
            pa.table({"after": pa.array(texts, pa.string())}), columns(IMAGE)
        ).coalesce(1)
    netted = netted_rows(
        mine, FoldTask(lineage, place, lineage.step_at(place), upstream), partitions_for(count)
    )
    return netted.where("kind in ('put', 'patch')").mapInArrow(_named(lineage, place), IMAGE)


def _named(lineage: Lineage, place: Position) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = lineage.schema_at(place)
        for batch in batches:
            rows = [named_image(decode_row(text), schema) for text in batch.column("image").to_pylist()]
            texts = [json.dumps(row, ensure_ascii=False) for row in rows]
            yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["after"])

    return work


def silver_rows(
    images: DataFrame,
    lineage: Lineage,
    name: Name,
    place: Position,
    source: str,
    batch: int,
    commit_ts: int | None,
) -> DataFrame:
    schema = lineage.schema_at(place)
    names = sorted(
        column.name
        for key in key_ids(lineage, lineage.step_at(place))
        if (column := schema.by_id(key)) is not None
    )
    columns = {
        "source": F.lit(source),
        "database": F.lit(name[0]),
        "table": F.lit(name[1]),
        "key": F.lit("[]"),
        "op": F.lit("snapshot"),
        "commit_ts": F.lit(commit_ts),
        "encoding": F.lit("canonical"),
        "flags": F.array(F.lit("snapshot")),
        "batch": F.lit(batch),
        "position": position_literal(place),
        "key_names": F.array(*[F.lit(one) for one in names]).cast("array<string>"),
        "after": F.col("after"),
    }
    fields = silver_schema("changes").fields
    return images.select(*[columns.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields])
