"""Writes rows into gold's Delta tables: created or replaced in one commit, or merged by key."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.events import Position
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import RAW, GoldColumn, Typed, type_rows
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.own_columns import POSITION, canonical_rows
from lakehouse.spark import limits
from lakehouse.spark.arrow import arrow_rows, columns_frame
from lakehouse.spark.change_log.changes import position_sql
from lakehouse.spark.column_types import data_type
from lakehouse.spark.fold.key_bounds import key_bounds
from lakehouse.spark.fold.typed_rows import OP
from lakehouse.spark.gold.layout import (
    CHANGE_FEED,
    DELETION_VECTORS,
    PROPERTIES,
    metadata_of,
    put_property,
    set_clustering,
    set_property,
    with_computed,
)
from lakehouse.spark.lake import Lake, quote
from lakehouse.spark.plain import find, mark
from lakehouse.spark.plain.merge import Wanted
from lakehouse.spark.table_versions import NEWEST, commits_above, version_of

# A table of more rows than this is written in the order of its key, and a MERGE says which keys it is about:
# Delta then opens the files of these keys alone, and marks the rows that it replaces there (docs/growth.md).
ORDERED_ROWS, ROWS_PER_FILE = 400_000, 200_000
# so many columns of a key
_MOST_BOUNDED = 8
_SIGNED_ZEROS = ("FLOAT", "DOUBLE", "ARRAY<FLOAT>")


def typed_frame(
    spark: SparkSession, typed: Typed, columns: list[GoldColumn], ops: list[str] | None = None
) -> DataFrame:
    """Typed rows as a DataFrame in gold's column order, companions last."""
    schema, values = _schema_of(typed, columns), typed.values
    if ops is not None:
        schema, values = schema.add(OP, data_type("STRING")), [*values, ops]
    return columns_frame(spark, schema, values)


def _schema_of(typed: Typed, columns: list[GoldColumn]) -> StructType:
    schema = StructType()
    for column in columns:
        schema.add(column.name, data_type(column.spark), metadata=metadata_of(column))
    for name in typed.raw:
        schema.add(name, data_type("STRING"))
    return schema


class Merged(NamedTuple):
    """The version that was written, how many of the merged rows gold had before, and how many rows Delta says
    it has written (None: not known).
    """

    version: int
    matched: int | None = None
    written: int | None = None

    def lacking(self, rows: int) -> frozenset[str]:
        """That Delta has written fewer than so many rows, in words."""
        if self.written is None or self.written >= rows:
            return frozenset()
        return frozenset({f"Delta wrote {self.written} of {rows} rows that were handed to it"})


def replace_frame(
    spark: SparkSession,
    lake: Lake,
    table: str,
    frame: DataFrame,
    *,
    create: bool,
    options: GoldOptions = PLAIN,
    keys: Sequence[GoldColumn] = (),
    rows: int = 0,
) -> Merged:
    """Write the table anew in one commit; with `rows` of about so many, in the order of its `keys`."""
    if rows > ORDERED_ROWS and keys and not (options.partition_by or options.cluster_by):
        names = [F.col(quote(key.name)) for key in keys]
        frame = frame.repartitionByRange(max(1, rows // ROWS_PER_FILE), *names).sortWithinPartitions(*names)
    frame = with_computed(frame, options.computed)
    lake.overwrite(frame, "gold", table, PROPERTIES if create else {}, partition_by=options.partition_by)
    if options.cluster_by:
        set_clustering(spark, lake, table, options.cluster_by)
    if options.change_data_feed:
        set_property(spark, lake, table, CHANGE_FEED, wanted=True)
    commit = commits_above(spark, lake, ("gold", table), NEWEST, few=1)[0]
    return Merged(commit.version, written=commit.written)


def create_here(
    spark: SparkSession, lake: Lake, table: str, typed: Typed, *, columns: list[GoldColumn]
) -> Merged | None:
    """What `replace_frame` does of the driver's typed rows and a table that does not exist yet, on this
    machine's own disk, without Spark; None where nothing was done, and that has to do it.
    """
    schema = _schema_of(typed, columns)
    rows = arrow_rows(schema, typed.values)
    is_made = lake.create_rows(spark, table, rows, schema=schema, properties=PROPERTIES)
    return Merged(0, written=rows.num_rows) if is_made else None


def merge_here(
    spark: SparkSession,
    lake: Lake,
    table: str,
    typed: Typed,
    *,
    deleted: list[bool],
    columns: list[GoldColumn],
    keys: list[GoldColumn],
    options: GoldOptions = PLAIN,
    keyless: bool = False,
    known: find.Hits | None = None,
) -> Merged | None:
    """What `merge_frame` does, of the driver's typed rows, of which some are to be deleted, into a table on
    this machine's own disk, without Spark; None where nothing was done, and that has to do it. `known`: the
    rows without a key that `equal_rows` has found.
    """
    wanted = _wanted(arrow_rows(_schema_of(typed, columns), typed.values), deleted, keys)
    marks = options.deletion_vectors and _may_mark(spark, lake, table)
    return _merge_rows(spark, lake, table, wanted._replace(marks=marks, keyless=keyless), known=known)


def _wanted(rows: pa.Table, deleted: list[bool], keys: list[GoldColumn]) -> Wanted:
    names = [name for key in keys for name in (key.name, key.companion)]
    return Wanted(rows, deleted, names, limits.GOLD_MERGE_BYTES)


def _may_mark(spark: SparkSession, lake: Lake, table: str) -> bool:
    """Whether the driver may merge rows by marking those that it replaces. Where Delta is to make the next
    version, with a checkpoint, it makes one of no rows: its MERGE would read all files.
    """
    folder = lake.folder(spark, "gold", table)
    newest = None if folder is None else mark.marked_version(folder)
    if newest is not None and newest.is_due:
        lake.before_write()
        put_property(spark, lake, table, {DELETION_VECTORS: "true"})
    return newest is not None


def _merge_rows(
    spark: SparkSession, lake: Lake, table: str, wanted: Wanted, known: find.Hits | None = None
) -> Merged | None:
    done = lake.merge_rows(spark, table, wanted, known=known)
    return None if done is None else Merged(done.version, done.matched, done.written)


def merge_frame(
    spark: SparkSession,
    lake: Lake,
    table: str,
    source: DataFrame,
    *,
    keys: list[GoldColumn],
    options: GoldOptions,
    rows: int,
    keyless: bool = False,
    here: bool = False,
) -> Merged:
    """MERGE a frame whose column OP says put or delete, into a table of about so many `rows`; companions that
    it lacks are added first. `keyless`: the rows to put are new ones, and one to delete stands for all that
    are equal to it in `keys`, which are all columns. `here`: the driver may hold the frame.
    """
    source = with_computed(source, options.computed, OP)
    held = with_companions(spark, lake, table, source)
    here = here and limits.GOLD_MERGE_BYTES > 0 and not (keyless or options.computed)
    may_mark = here and options.deletion_vectors and _may_mark(spark, lake, table)
    if may_mark and (merged := _marked(spark, lake, table, source, keys=keys)) is not None:
        return merged
    view = f"lakehouse_{uuid.uuid4().hex}"
    source.createOrReplaceTempView(view)
    try:
        bounds = [f"s.{quote(OP)} = 'delete'"] if keyless else []
        if rows > ORDERED_ROWS:
            meeting = source.where(F.col(OP) == "delete") if keyless else source
            bounds += key_bounds(meeting, keys[:_MOST_BOUNDED])
            set_property(spark, lake, table, DELETION_VECTORS, wanted=options.deletion_vectors)
        lake.before_write()
        target = lake.ref("gold", table)
        sql = merge_sql(target, view, held, source.columns, keys=keys, bounds=bounds, exactly=keyless)
        counts = spark.sql(sql).first()
    finally:
        spark.catalog.dropTempView(view)
    matched = None if counts is None else counts["num_updated_rows"] + counts["num_deleted_rows"]
    written = None if counts is None else counts["num_updated_rows"] + counts["num_inserted_rows"]
    return Merged(version_of(spark, lake, table), matched, written)


def _marked(
    spark: SparkSession, lake: Lake, table: str, source: DataFrame, *, keys: list[GoldColumn]
) -> Merged | None:
    """The same, of a frame that the driver holds, into a table that marks the rows that it loses."""
    rows = source.toArrow()
    deleted = [op == "delete" for op in rows.column(OP).to_pylist()]
    return _merge_rows(spark, lake, table, _wanted(rows.drop_columns([OP]), deleted, keys))


def append_rows(
    spark: SparkSession, lake: Lake, table: str, frame: DataFrame, *, options: GoldOptions
) -> Merged:
    """Add rows to a table, in one commit; companions that it lacks are added first."""
    frame = with_computed(frame, options.computed)
    with_companions(spark, lake, table, frame)
    lake.append(frame, "gold", table)
    commit = commits_above(spark, lake, ("gold", table), NEWEST, few=1)[0]
    return Merged(commit.version, 0, commit.written)


def with_companions(spark: SparkSession, lake: Lake, table: str, source: DataFrame) -> list[str]:
    """The columns of a table, behind the companions that a frame has and it lacked, which are added."""
    held = lake.read(spark, "gold", table).columns
    missing = [name for name in source.columns if name.startswith(RAW) and name not in held]
    if missing:
        added = ", ".join(f"{quote(name)} STRING" for name in missing)
        spark.sql(f"ALTER TABLE {lake.ref('gold', table)} ADD COLUMNS ({added})")
    return [*held, *missing]


def merge_sql(
    target: str,
    view: str,
    held: list[str],
    given: list[str],
    keys: list[GoldColumn],
    bounds: Sequence[str] = (),
    exactly: bool = False,
) -> str:
    """The MERGE; columns of gold that the batch does not give (companions) become null. `bounds` are
    conditions that all matches meet, `exactly` as in `same_cells`.

    A key that gold's type can't hold (a zero date) is NULL there: its companion, where the table has one,
    tells such rows apart.
    """
    values = {name: f"s.{quote(name)}" if name in given else "NULL" for name in held}
    condition = " AND ".join([*same_cells(keys, values, exactly=exactly), *bounds])
    update = ", ".join(f"t.{quote(name)} = {value}" for name, value in values.items())
    names = ", ".join(quote(name) for name in values)
    return (
        f"MERGE INTO {target} t USING {quote(view)} s ON {condition}"
        f" WHEN MATCHED AND s.{quote(OP)} = 'delete' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {update}"
        f" WHEN NOT MATCHED AND s.{quote(OP)} = 'put'"
        f" THEN INSERT ({names}) VALUES ({', '.join(values.values())})"
    )


def same_cells(columns: Sequence[GoldColumn], values: Mapping[str, str], *, exactly: bool) -> list[str]:
    """Conditions that the row t of gold has the cells of s in these columns; `values` are those of s, as SQL,
    by the columns that gold has. `exactly`: to Spark 0.0 and -0.0 are equal, which as texts they are not.
    """
    found = []
    for column in columns:
        sides = [f"t.{quote(column.name)}", values[column.name]]
        if exactly and column.spark in _SIGNED_ZEROS:
            sides = [f"CAST({side} AS STRING)" for side in sides]
        found.append(" <=> ".join(sides))
        if column.companion in values:
            found.append(f"t.{quote(column.companion)} <=> {values[column.companion]}")
    return found


class Equal(NamedTuple):
    """How many rows gold has that are equal to each of some; and which, where the driver has looked."""

    counts: list[int]
    hits: find.Hits | None = None


def equal_rows(
    spark: SparkSession, lake: Lake, table: str, version: int, *, columns: list[GoldColumn], rows: list[Row]
) -> Equal | None:
    """The rows that gold has at a version that are equal to each of `rows`. None where it lacks a companion
    that one of them needs.
    """
    typed = type_rows(rows, columns)
    arrow = arrow_rows(_schema_of(typed, columns), typed.values)
    wanted = _wanted(arrow, [True] * len(rows), columns)._replace(keyless=True)
    folder = lake.folder(spark, "gold", table) if limits.GOLD_MERGE_BYTES else None
    hits = None if folder is None else find.equal_rows(folder, wanted, version)
    if hits is not None:
        return Equal([hits.met[image] for image in hits.asked], hits)
    gold = lake.read(spark, "gold", table, version)
    if not set(typed.raw) <= set(gold.columns):
        return None
    frame = typed_frame(spark, typed, columns, list(map(str, range(len(rows)))))
    values = {name: f"s.{quote(name)}" if name in frame.columns else "NULL" for name in gold.columns}
    same = F.expr(" AND ".join(same_cells(columns, values, exactly=True)))
    found = gold.alias("t").join(F.broadcast(frame.alias("s")), same)
    counts = {row[0]: row[1] for row in found.groupBy(F.col(f"s.{OP}")).count().collect()}
    return Equal([counts.get(str(number), 0) for number in range(len(rows))])


class Known(NamedTuple):
    """Gold's rows of some keys; whether no value is in a companion; and where the driver has found them."""

    rows: list[Row]
    exact: bool
    hits: find.Hits | None = None


def known_rows(
    spark: SparkSession,
    lake: Lake,
    table: str,
    version: int,
    *,
    mode: Mode,
    columns: list[GoldColumn],
    keys: Collection[Any],
) -> Known:
    """Gold's rows of some keys at a version; of a log the last one each."""
    key_columns = [column for key in mode.ids for column in columns if column.column.id == key]
    typed = type_rows([dict(zip(mode.ids, key, strict=True)) for key in keys], key_columns)
    tags = {column.name: mode.tag[column.column.id] for column in columns if column.column.id in mode.tag}
    names = [column.name for column in columns]
    found: tuple[pa.Table, find.Hits | None] | None = None
    held = [*names, *(column.companion for column in columns if column.companion)]
    is_here = limits.GOLD_MERGE_BYTES and mode.word != "append" and not typed.raw
    folder = lake.folder(spark, "gold", table) if is_here else None
    if folder is not None:
        asked = arrow_rows(_schema_of(typed, key_columns), typed.values)
        wanted = Wanted(asked, [False] * typed.count, [key.name for key in key_columns], 0)
        found = find.rows_of_keys(folder, wanted, version, held)
    if found is None or not {*names} <= {*found[0].column_names}:
        gold = lake.read(spark, "gold", table, version)
        held = [name for name in held if name in names or name in gold.columns]
        frame, is_log = typed_frame(spark, typed, key_columns), mode.word == "append"
        mine = _of_keys(gold, frame, key_columns, tags)
        chosen = _last_rows(mine, held, columns, key_columns) if is_log else _positional(mine, held)
        found = chosen.toArrow().rename_columns(held), None
    rows, hits = found
    for name, tag in tags.items():
        rows = rows.filter(pc.field(name) == tag)
    values = {name: rows.column(name).to_pylist() for name in rows.column_names}
    texts = (value for name in values.keys() - set(names) for value in values[name])
    exact = not typed.raw and all(value is None for value in texts)
    return Known(canonical_rows(columns, values, rows.num_rows), exact, hits)


def _of_keys(
    gold: DataFrame, wanted: DataFrame, keys: list[GoldColumn], tags: Mapping[str, Any]
) -> DataFrame:
    """Gold's rows of some keys that have these values."""
    renamed = wanted.select(*[F.col(quote(column.name)).alias(f"k{i}") for i, column in enumerate(keys)])
    same = [gold[quote(column.name)].eqNullSafe(renamed[f"k{i}"]) for i, column in enumerate(keys)]
    found = gold.join(F.broadcast(renamed), same, "left_semi")
    for name, tag in tags.items():
        found = found.where(F.col(quote(name)) == tag)
    return found


def _positional(frame: DataFrame, names: list[str]) -> DataFrame:
    return frame.select(*[F.col(quote(name)).alias(f"c{i}") for i, name in enumerate(names)])


def _last_rows(
    log: DataFrame, names: list[str], columns: list[GoldColumn], keys: list[GoldColumn]
) -> DataFrame:
    """The last row of each key, by position."""
    position = next(column.name for column in columns if column.column.id == POSITION)
    row = F.struct(*[F.col(quote(name)).alias(f"c{i}") for i, name in enumerate(names)])
    last = F.max_by(row, F.col(quote(position))).alias("last")
    return log.groupBy(*[F.col(quote(column.name)) for column in keys]).agg(last).select("last.*")


def extend_log(
    spark: SparkSession,
    lake: Lake,
    table: str,
    frame: DataFrame,
    *,
    columns: list[GoldColumn],
    options: GoldOptions,
    above: Position,
) -> int:
    """Make these rows the log's rows above a position, whatever was there: a run that died half-way is
    written over. Returns the version.
    """
    position = next(column.name for column in columns if column.column.id == POSITION)
    condition = f"{quote(position)} > {position_sql(above)}"
    lake.replace_where(with_computed(frame, options.computed), "gold", table, condition)
    return version_of(spark, lake, table)
