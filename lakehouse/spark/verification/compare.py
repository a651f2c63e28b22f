"""One table of gold against the server: how it is compared, which buckets differ, and which rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.fold.row_edits import ChangeReader
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn
from lakehouse.gold.modes import Mode
from lakehouse.lineage import Name
from lakehouse.ops.records.gold import Intent, Manifest, TableEntry
from lakehouse.schema import name_key
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import (
    FOLD_COLUMNS,
    between,
    changes_of,
    counted_changes,
    of_lineage,
)
from lakehouse.spark.operations.audit import why_left_out
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.table_versions import has_same_rows, read_published, version_of
from lakehouse.spark.verification.sides import differing_rows, gold_frame
from lakehouse.verification.cells import Cell, ServerColumn
from lakehouse.verification.rows import Comparison, key_hash
from lakehouse.verification.verdict import Found, kind_of

ANY_ROW = "*"
_CHANGED = "key STRING"
_CHANGED_ARROW = pa.schema([("key", pa.string())])


class Held(NamedTuple):
    """A gold table as a manifest publishes it, in the version that readers of the Delta table see."""

    reader: Reader
    entry: TableEntry
    mode: Mode
    columns: tuple[GoldColumn, ...]
    version: int

    @property
    def name(self) -> Name:
        return self.entry.database, self.entry.table

    @property
    def at(self) -> Position:
        """Up to where the feed is in it."""
        return self.reader.manifest_or_error().position_of(self.entry)

    def frame(self) -> DataFrame:
        """The Delta table."""
        spark, lake = self.reader.spark, self.reader.lake
        if self.version == self.entry.version:
            return read_published(spark, lake, self.entry)
        return lake.read(spark, "gold", self.entry.gold, self.version)


def held(reader: Reader, name: Name) -> Held | None:
    """The table of a name; None where the manifest has none that can be compared."""
    entry = reader.entries().get(name)
    if entry is None or why_not(entry) is not None:
        return None
    mode, columns = reader.modes(entry)[0], tuple(reader.columns(name))
    return Held(reader, entry, mode, columns, version=_seen_version(reader, entry))


def _seen_version(reader: Reader, entry: TableEntry) -> int:
    """The version that the manifest names, but where somebody else has written to the table since: a newer
    one that is no run's is what its readers see.
    """
    spark, lake = reader.spark, reader.lake
    newest = version_of(spark, lake, entry.gold)
    if newest == entry.version:
        return newest
    log = OpsLog(spark, lake, reader.source).load()
    last = next(
        (one.record for one in reversed(log.records) if isinstance(one.record, Intent | Manifest)), None
    )
    is_a_runs = last != reader.manifest or has_same_rows(spark, lake, entry.gold, entry.version)
    return entry.version if is_a_runs else newest


def why_not(entry: TableEntry) -> str | None:
    """Why a table can't be compared with its source's; None where it can."""
    mode = (entry.options or {}).get("mode")
    return "it is a log, not the source's rows" if mode == "append" else why_left_out(entry)


class Shape(NamedTuple):
    """How a table is compared, and what of it can't be: columns that only one side has, and columns that gold
    holds on purpose in another form.
    """

    comparison: Comparison
    one_sided: tuple[str, ...]
    left_out: tuple[str, ...]


class Asked(NamedTuple):
    """What is asked of a comparison: `values`: keep texts of cells that differ; `sample`: a share of the
    rows, 1 for all; `turn`: decides which share.
    """

    values: bool = False
    sample: float = 1.0
    turn: int = 0


def shape_of(table: Held, columns: Sequence[ServerColumn], asked: Asked, rows: int) -> Shape:
    """How a table of about `rows` rows is compared."""
    mode = table.mode
    schema = mode.lineage.steps[mode.target].schema
    own = {column.column.id: column for column in table.columns}
    kept = {column_id for column_id, _ in schema.keeps.types} | {one.id for one in schema.keeps.dropped}
    there = {name_key(column.name): column for column in columns}
    cells: list[tuple[int, Cell]] = []
    one_sided, left_out = [], []
    for column in schema.columns:
        server, gold = there.pop(name_key(column.name), None), own.get(column.id)
        if gold is None or gold.mask is not None or column.id in kept:
            if server is not None and not server.virtual:
                left_out.append(column.name)
        elif server is None:
            one_sided.append(column.name)
        else:
            cells.append((column.id, Cell(server.name, gold.column, gold.companion, server)))
    one_sided += [column.name for column in there.values() if not column.virtual]
    places = {column_id: place for place, (column_id, _) in enumerate(cells)}
    keys = tuple(places[one] for one in mode.ids) if mode.ids and set(mode.ids) <= places.keys() else ()
    comparison = Comparison(
        *table.name, cells=tuple(cell for _, cell in cells), keys=keys, values=asked.values
    )
    return Shape(_dealt(comparison, asked, rows), tuple(one_sided), tuple(left_out))


def _dealt(comparison: Comparison, asked: Asked, rows: int) -> Comparison:
    """With as many buckets as the rows and the sample want."""
    if not comparison.dealt:
        return comparison
    buckets = min(max(1, rows // limits.VERIFY_BUCKET_ROWS), limits.VERIFY_BUCKETS)
    if asked.sample >= 1:
        return replace(comparison, buckets=buckets)
    buckets = max(buckets, round(1 / asked.sample))
    number = max(1, round(buckets * asked.sample))
    return replace(comparison, buckets=buckets, sample=(asked.turn % (buckets - number + 1), number))


def gold_side(table: Held, comparison: Comparison) -> DataFrame:
    """The cells of gold's live rows."""
    return gold_frame(table.frame(), comparison.cells, table.columns)


# --- rows that differ


class Window(NamedTuple):
    """What the feed told between the server's place before it was read and the watermark that gold is at."""

    table: Held
    low: Position

    @property
    def has_statement(self) -> bool:
        """Whether a statement has changed the table in between."""
        steps = self.table.mode.lineage.steps
        return any(self.low < step.position <= self.table.at for step in steps)

    def changes(self) -> DataFrame:
        """Silver's changes of the table in between."""
        table, reader = self.table, self.table.reader
        batch = reader.manifest_or_error().batch
        mine = of_lineage(table.mode.lineage) & between(self.low, table.at)
        return counted_changes(reader.log, batch).where(mine).select(*FOLD_COLUMNS)


def changed_keys(window: Window, comparison: Comparison) -> DataFrame:
    """The hashes of the keys of rows that the feed has changed in between; ANY_ROW where it can't be told
    which.
    """
    mode = window.table.mode
    lineage, target, upstream, ids = mode.lineage, mode.target, mode.upstream, mode.ids
    rules = [comparison.cells[place].compared for place in comparison.keys]

    def hashed(row: Row | None) -> str | None:
        if row is None:
            return None
        if not rules or any(column_id not in row for column_id in ids):
            return ANY_ROW
        texts = [None if row[one] is None else rule(row[one]) for one, rule in zip(ids, rules, strict=True)]
        return key_hash(texts)

    def keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ChangeReader(lineage, target, upstream, ids)
        for batch in batches:
            edits = reader.read(changes_of(batch))
            found = {hashed(row) for edit in edits.edits for row in (edit.row, edit.before, edit.old)}
            found |= {ANY_ROW} if edits.problems else set()
            told = sorted(key for key in found if key is not None)
            yield pa.RecordBatch.from_arrays([pa.array(told, pa.string())], schema=_CHANGED_ARROW)

    return window.changes().mapInArrow(keys, _CHANGED).distinct()


def found_rows(
    comparison: Comparison, gold: DataFrame, source: DataFrame, changed: DataFrame | None
) -> tuple[list[Found], int]:
    """The rows that differ, of very many the first ones, and how many they are. `changed`: the hashes of keys
    that the feed has changed meanwhile, None for all.
    """
    frame = differing_rows(gold, source)
    if changed is None:
        frame = frame.withColumn("changed", F.lit(True))
    else:
        told = changed.withColumn("changed", F.lit(True))
        any_row = F.lit(bool(changed.where(F.col("key") == ANY_ROW).take(1)))
        frame = frame.join(told, "key", "left").withColumn(
            "changed", F.coalesce("changed", F.lit(False)) | any_row
        )
    most = limits.VERIFY_NAMED_ROWS
    rows = frame.orderBy("key").limit(most + 1).collect()
    number = len(rows) if len(rows) <= most else frame.count()
    names = [cell.name for cell in comparison.cells]
    return [_found(names, row, values=comparison.values) for row in rows[:most]], number


def _found(names: list[str], row: Any, *, values: bool) -> Found:
    found = kind_of(names, row.gold, row.source)
    found = found._replace(key=row.key, bucket=row.bucket, changed=row.changed)
    return found if values else found._replace(gold=(), source=())
