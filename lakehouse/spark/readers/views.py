"""Tables of a lake as temp views for SQL: every table by its name, and the changes of each source table with
typed columns.

    views = open_views(spark, lake)      a dict of DataFrames, each also a temp view of the same name
    silver_<db>__<table>                 one row per change of the table that counts, `before` and `after` as
                                         structs of the newest schema
    gold_<db>__<table>                   the table as published
    changes, schema_changes,             silver's tables, of all sources
    watermarks, dead_letters
    manifests                            what gold has published, and when
    rejected, quality                    rows that expectations kept out of gold, and each check's results
    bronze                               the messages as they came

Values are resolved by the functions that gold uses. A renamed column is followed under its newest name, a
retyped one is converted; a column that came later is null in older rows, not its default: this is the log,
not the table. What a type can't hold is null here; silver's own text has it. What the table's YAML excludes
or masks is excluded or masked in silver_<db>__<table> too; `changes`, `rejected` and `bronze` hold it whole.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.ddl_effects import Drop, Retype
from lakehouse.errors import LakehouseError
from lakehouse.events import Position
from lakehouse.fold.upcast import Carrier
from lakehouse.formats import FORMATS
from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.shards import options_of
from lakehouse.gold.upstream import upstream_of
from lakehouse.lineage import Lineage, key_ids
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.silver import Done
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.schema import TableSchema
from lakehouse.spark.arrow import Worker
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.change_log.changes import counted_changes, of_lineage
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.column_types import data_type
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.gates import REJECTED_ROWS, RESULTS
from lakehouse.spark.readers.positions import parse_position
from lakehouse.spark.silver.tables import SCHEMAS, read_silver, silver_schema
from lakehouse.spark.source import options_in, said_in
from lakehouse.spark.table_versions import read_published, read_version

LOG = ["source", "op", "commit_ts", "committed_at", "key", "position", "flags", "origin", "batch"]
OPENED_AT_ONCE = 8
READ = [*LOG, "before", "after", "encoding"]
# one frame for all sources, where the table does not name its source: view, layer, the table's ending, schema
OF_SOURCES = (
    ("rejected", "ops", "_rejected", REJECTED_ROWS),
    ("quality", "ops", "_quality", RESULTS),
    ("bronze", "bronze", "", BRONZE_SCHEMA),
)
_MANIFEST = T.StructType(
    [
        T.StructField("source", T.StringType()),
        T.StructField("published_at", T.LongType()),
        T.StructField("watermark", T.ArrayType(T.LongType())),
    ]
)


def open_views(spark: SparkSession, lake: Lake, at: str | None = None) -> dict[str, DataFrame]:
    """Every table of a lake, registered as temp views.

    All gold tables of a source are as of one manifest: the last, or the newest of `at`, which is a TSO or a
    position, or an instant at which it was published, such as 2026-11-21T10:00:00, in UTC where it names no
    zone.
    """
    known = sources(spark, lake)
    for source in known:
        OpsLog(spark, lake, source).load()  # it says which generation of silver counts
    frames = {name: _of_all(spark, lake, list(known), name) for name in SCHEMAS}
    frames["manifests"] = _manifests(spark, lake, list(known))
    for name, layer, suffix, schema in OF_SOURCES:
        frames[name] = _with_source(spark, lake, list(known), layer, suffix=suffix, schema=schema)
    for source, settings in known.items():
        frames.update(_gold(spark, lake, source, frames, at=at))
        frames.update(_silver(spark, lake, source, settings, taken=frames))
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def _of_all(spark: SparkSession, lake: Lake, names: list[str], table: str) -> DataFrame:
    """A silver table of all sources together."""
    rows = _empty(spark, silver_schema(table))
    for source in names:
        rows = rows.unionByName(read_silver(spark, lake, source, table))
    return rows


def _with_source(
    spark: SparkSession, lake: Lake, names: list[str], layer: str, suffix: str, schema: T.StructType
) -> DataFrame:
    """A table of all sources together, with the source's name."""
    found = _empty(spark, schema).select(F.lit("").alias("source"), "*")
    for source in names:
        rows = lake.read_or_empty(spark, layer, f"{source}{suffix}", schema).select(*schema.names)
        found = found.unionByName(rows.select(F.lit(source).alias("source"), "*"))
    return found


def _manifests(spark: SparkSession, lake: Lake, names: list[str]) -> DataFrame:
    logs = ((source, OpsLog(spark, lake, source).load().whole()) for source in names)
    rows = [(source, at, list(one.watermark)) for source, log in logs for at, one in log.dated(Manifest)]
    frame = spark.createDataFrame(rows, _MANIFEST) if rows else _empty(spark, _MANIFEST)
    return frame.withColumn("published_at", F.timestamp_millis("published_at"))


def manifest_of(log: OpsLog, at: str | None) -> Manifest | None:
    """The last manifest, or the last one at a moment."""
    if at is None:
        return log.last(Manifest)
    manifests = log.whole().dated(Manifest)
    if manifests:
        upto = _upto(log, at, manifests[-1][1].watermark)
        manifests = [(when, one) for when, one in manifests if upto(when, one.watermark)]
        if not manifests:
            raise LakehouseError(
                f"{log.source}: expected a manifest at or before {at}, the first one is later"
            )
    return manifests[-1][1] if manifests else None


def _upto(log: OpsLog, at: str, watermark: Position) -> Callable[[int, Position], bool]:
    """Whether a manifest, by when it was published and its watermark, is not after the moment."""
    try:
        instant = datetime.fromisoformat(at) if "-" in at else None
    except ValueError as error:
        raise LakehouseError(
            f"{at}: expected a TSO, a position, or an instant such as 2026-11-21T10:00:00Z"
        ) from error
    if instant is not None:
        published = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000
        return lambda when, _: when <= published
    position = parse_position(log, at, watermark)
    return lambda _, mark: mark <= position


def _gold(
    spark: SparkSession, lake: Lake, source: str, taken: Mapping[str, DataFrame], at: str | None
) -> dict[str, DataFrame]:
    manifest = manifest_of(OpsLog(spark, lake, source).load(), at)
    entries: dict[str, TableEntry] = {}
    for entry in manifest.tables if manifest else ():
        entries[free_name(f"gold_{entry.gold}", {**taken, **entries})] = entry

    def opened(entry: TableEntry) -> DataFrame:
        if at is None:
            return read_published(spark, lake, entry)
        return read_version(spark, lake, entry)

    # a table takes a look or two at its log, which waits for a catalog and a store
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        return dict(zip(entries, pool.map(opened, entries.values()), strict=True))


def _silver(
    spark: SparkSession, lake: Lake, source: str, settings: SourceSettings, taken: Mapping[str, DataFrame]
) -> dict[str, DataFrame]:
    """The typed changes of each table: the live ones have the first claim on a name, the newest of the
    dropped ones the next.
    """
    log = OpsLog(spark, lake, source).load()
    done = log.last(Done)
    if done is None:
        return {}
    lineages = load_history(log, done, said_in(settings)).lineages
    changes = counted_changes(log, done.batch)
    tables: dict[str, DataFrame] = {}
    for lineage in sorted(
        lineages, key=lambda one: (one.end is not None, tuple(-part for part in one.start))
    ):
        name = free_name("silver_" + "__".join(lineage.intervals[-1].name), {**taken, **tables})
        options = options_of(lineage, options_in(settings))
        tables[name] = typed_changes(changes, lineage, settings, options=options)
    return tables


def free_name(wanted: str, taken: Mapping[str, Any]) -> str:
    """A view's name: letters, digits and underscores, and no other view's in any case of letters."""
    plain = "".join(char if char.isalnum() or char == "_" else "_" for char in wanted)
    used = {name.casefold() for name in taken}
    numbers = (plain if number == 1 else f"{plain}_{number}" for number in range(1, len(used) + 2))
    return next(name for name in numbers if name.casefold() not in used)


def typed_changes(
    changes: DataFrame, lineage: Lineage, settings: SourceSettings, options: GoldOptions
) -> DataFrame:
    """The changes of one table's life, with `before` and `after` as structs of its newest schema. Columns are
    renamed, masked and left out as the options say, in the `key` too.
    """
    columns = gold_columns(lineage.steps[-1].schema, virtual=settings.virtual, options=options)
    image = T.StructType([T.StructField(column.name, data_type(column.spark)) for column in columns])
    rows = (
        changes.where(of_lineage(lineage))
        .withColumn("committed_at", F.timestamp_millis(commit_millis_of(settings)))
        .select(*READ)
    )
    kept = [field for field in rows.schema.fields if field.name in LOG]
    schema = T.StructType([*kept, T.StructField("before", image), T.StructField("after", image)])
    images = (as_log(lineage), settings, options)
    return rows.mapInArrow(_worker(images, to_arrow_schema(schema)), schema)


def commit_millis_of(settings: SourceSettings) -> Column:
    """The commit time of silver's rows in milliseconds: the upper bits of a TSO."""
    return F.shiftright("commit_ts", 18) if FORMATS[settings.format].producer.tso else F.col("commit_ts")


def as_log(lineage: Lineage) -> Lineage:
    """The lineage with those effects alone that say how a value reads today, not which rows there are."""
    steps = [
        replace(step, effects=tuple(effect for effect in step.effects if isinstance(effect, Drop | Retype)))
        for step in lineage.steps
    ]
    return Lineage(lineage.id, steps, lineage.intervals, lineage.key_names)


def _worker(given: tuple[Lineage, SourceSettings, GoldOptions], schema: pa.Schema) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.readers.views import Images

        images = Images(*given)
        for batch in batches:
            rows = images.typed(batch)
            values = {name: pa.array(rows[name], schema.field(name).type) for name in ("before", "after")}
            values |= {
                name: batch.column(name).cast(schema.field(name).type) for name in LOG if name != "key"
            }
            values["key"] = pa.array(images.keys(batch, rows), pa.string())
            yield pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)

    return work


class Images:
    """Reads images of one table under its newest schema; what is compiled for an encoding and a
    step is kept.
    """

    def __init__(self, lineage: Lineage, settings: SourceSettings, options: GoldOptions = PLAIN) -> None:
        self.lineage, self.upstream = lineage, upstream_of(settings.format, settings.options)
        schema = lineage.steps[-1].schema
        self.columns = gold_columns(schema, virtual=settings.virtual, options=options)
        self.carriers: dict[tuple[int, str], Carrier] = {}
        shown = {column.column.id: column for column in self.columns}
        ids = sorted(key_ids(lineage, -1), key=lambda one: column_name(schema, one))
        self.key = [shown.get(one) for one in ids]
        # an older key's text would show its columns too
        every = {one for step in range(len(lineage.steps)) for one in key_ids(lineage, step)}
        self.hides_key = any(one not in shown or shown[one].mask is not None for one in every)

    def keys(
        self, batch: pa.RecordBatch, images: Mapping[str, list[dict[str, Any] | None]]
    ) -> list[str | None]:
        """The rows' keys: silver's own text, or made of what gold shows where it masks a column of the
        key.
        """
        if not self.hides_key:
            return list(batch.column("key").to_pylist())
        rows = [
            after or before or {} for before, after in zip(images["before"], images["after"], strict=True)
        ]
        return [
            json.dumps([column and row.get(column.name) for column in self.key], default=str) for row in rows
        ]

    def typed(self, batch: pa.RecordBatch) -> dict[str, list[dict[str, Any] | None]]:
        """The images of a batch, as dicts of Python values by column."""
        read = [
            self.carrier(tuple(row["position"].values()), row["encoding"])
            for row in batch.select(["position", "encoding"]).to_pylist()
        ]
        return {
            name: [
                None if text is None else self.image(carry, text)
                for carry, text in zip(read, batch.column(name).to_pylist(), strict=True)
            ]
            for name in ("before", "after")
        }

    def carrier(self, position: Any, encoding: str) -> Carrier:
        place = (self.lineage.step_at(position), encoding)
        if place not in self.carriers:
            self.carriers[place] = Carrier(
                self.lineage, place[0], len(self.lineage.steps) - 1, encoding, upstream=self.upstream
            )
        return self.carriers[place]

    def image(self, carry: Carrier, text: str) -> dict[str, Any]:
        row = carry(msgspec.json.decode(text)) or {}
        return {column.name: held(column, row.get(column.column.id)) for column in self.columns}


def column_name(schema: TableSchema, column_id: int) -> str:
    """A column's name; "" where the schema has no such column."""
    column = schema.by_id(column_id)
    return column.name if column is not None else ""


def held(column: GoldColumn, value: Any) -> Any:
    """The value in its column's type; None where the type can't hold it."""
    try:
        return None if value is None else column.to_python(value)
    except ValueError:
        return None


def _empty(spark: SparkSession, schema: T.StructType) -> DataFrame:
    return spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
