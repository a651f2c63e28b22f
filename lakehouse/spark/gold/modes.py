"""The modes of a gold table in Spark: gold's rows of some keys, the log's new rows, and a large table's rows
in jobs.

A large table is told anew in parts: rows of different keys have nothing to do with each other, so the changes
are dealt out by key and each part is told by the functions that tell a small table (lakehouse/gold/modes.py).
Where a DDL changes the key there is one part.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from lakehouse.ddl_effects import Clear, RemoveRows
from lakehouse.events import Position
from lakehouse.fold.current_rows import DELETE, Change, Deltas, image_text, rekeyings, row_key
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, type_rows
from lakehouse.gold.modes import PARTS, POSITION, Mode, canonical_rows, remade
from lakehouse.lineage import Lineage
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, between, collect_changes, parse_change
from lakehouse.spark.column_types import data_type
from lakehouse.spark.gold.layout import with_computed
from lakehouse.spark.gold.merge import frame_of, version_of
from lakehouse.spark.lake import quote

if TYPE_CHECKING:
    from lakehouse.spark.gold.table import GoldTable

ROWS_PER_PART = 100_000
BUCKET = "_bucket"
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def known_rows(table: "GoldTable", keys: set[Any], version: int) -> tuple[list[Row], bool]:
    """Gold's rows of some keys (of a log the last one each), and whether they are all there is to know: no
    value is in a companion.
    """
    mode, columns, gold = table.mode, table.columns, table.lake.read(table.spark, "gold", table.gold, version)
    tags = {column.name: mode.tag[column.column.id] for column in columns if column.column.id in mode.tag}
    key_columns = [column for key in mode.ids for column in columns if column.column.id == key]
    typed = type_rows([dict(zip(mode.ids, key, strict=True)) for key in keys], key_columns)
    wanted = frame_of(table.spark, typed, key_columns)
    renamed = wanted.select(
        *[F.col(quote(column.name)).alias(f"k{i}") for i, column in enumerate(key_columns)]
    )
    same = [gold[quote(column.name)].eqNullSafe(renamed[f"k{i}"]) for i, column in enumerate(key_columns)]
    found = gold.join(F.broadcast(renamed), same, "left_semi")
    for name, tag in tags.items():
        found = found.where(F.col(quote(name)) == tag)
    raws = [column.companion for column in columns if column.companion in gold.columns]
    held = [*[column.name for column in columns], *raws]
    told = _last_of(found, held, columns, key_columns) if mode.word == "append" else _positional(found, held)
    rows = told.toArrow()
    values = {name: rows.column(i).to_pylist() for i, name in enumerate(held)}
    exact = not typed.raw and all(value is None for name in raws for value in values[name])
    return canonical_rows(columns, values, rows.num_rows), exact


def _positional(frame: DataFrame, names: list[str]) -> DataFrame:
    return frame.select(*[F.col(quote(name)).alias(f"c{i}") for i, name in enumerate(names)])


def _last_of(
    log: DataFrame, names: list[str], columns: list[GoldColumn], keys: list[GoldColumn]
) -> DataFrame:
    """The last row of each key, by position."""
    position = next(column.name for column in columns if column.column.id == POSITION)
    row = F.struct(*[F.col(quote(name)).alias(f"c{i}") for i, name in enumerate(names)])
    last = F.max_by(row, F.col(quote(position))).alias("last")
    return log.groupBy(*[F.col(quote(column.name)) for column in keys]).agg(last).select("last.*")


def extend_log(table: "GoldTable", frame: DataFrame, position_before: Position) -> int:
    """The log with these rows above a place, whatever stood there: a run that died half-way is written over.
    Returns the version.
    """
    position = next(column.name for column in table.columns if column.column.id == POSITION)
    parts = ", ".join(f"'{part}', {value}L" for part, value in zip(PARTS, position_before, strict=True))
    table.lake.replace_where(
        with_computed(frame, table.options.computed),
        "gold",
        table.gold,
        f"{quote(position)} > named_struct({parts})",
    )
    return version_of(table.spark, table.lake, table.gold)


def stretches(mine: DataFrame, by_commit: bool, most: int) -> Iterator[list[Change]]:
    """The changes in position order, at most so many at a time, no commit cut in two; an empty stretch where
    one commit is more.
    """
    last: Position | None = None
    while True:
        ordered = mine.where(between(last, None)).orderBy("position").limit(most)
        changes = [change for _, change, _ in collect_changes(ordered)]
        changes.sort(key=lambda change: change.position)
        full = len(changes) == most
        if full:
            parts = 2 if by_commit else len(PARTS)
            changes = [
                change for change in changes if change.position[:parts] != changes[-1].position[:parts]
            ]
        if changes or full:
            yield changes
        if not full:
            return
        last = changes[-1].position


def mode_frame(changes: DataFrame, mode: Mode, columns: list[GoldColumn], rows: int) -> DataFrame:
    """The table's rows in jobs: columns c0… and their companions r0…, as `named` takes them."""
    parts = 1 if rekeyings(mode.lineage, mode.target) else max(2, rows // ROWS_PER_PART)
    schema = StructType(
        [StructField(f"c{i}", data_type(column.spark)) for i, column in enumerate(columns)]
        + [StructField(f"r{i}", StringType()) for i in range(len(columns))]
    )
    chosen = changes.select(*FOLD_COLUMNS)
    dealt = StructType([*chosen.schema.fields, StructField(BUCKET, IntegerType())])
    by_key = chosen.mapInArrow(_deal(mode, parts, to_arrow_schema(dealt)), dealt).repartition(parts, BUCKET)
    plain = [(column.column, column.spark, column.companion, column.mask) for column in columns]
    return by_key.mapInArrow(_tell(mode_parts(mode), plain, to_arrow_schema(schema)), schema)


def mode_parts(mode: Mode) -> tuple[Any, ...]:
    """What makes a Mode, for workers."""
    return mode.lineage, mode.at, mode.upstream, mode.clock, mode.options


def valued(lineage: Lineage) -> Lineage:
    """The lineage without the effects that take rows away: what key a row has today, were it still there."""
    steps = [
        replace(
            step,
            effects=tuple(effect for effect in step.effects if not isinstance(effect, Clear | RemoveRows)),
        )
        for step in lineage.steps
    ]
    return Lineage(lineage.id, steps, lineage.intervals, lineage.key_names)


def _deal(mode: Mode, parts: int, schema: pa.Schema) -> Worker:
    """Each change with the number of its key's part. An update whose two images have different keys is dealt
    out as two changes.
    """
    lineage, target, upstream, ids = valued(mode.lineage), mode.target, mode.upstream, mode.ids

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.gold.modes import Dealer

        dealer = Dealer(Deltas(lineage, target, upstream, ids), ids, parts)
        for batch in batches:
            rows = [dealt for row in batch.to_pylist() for dealt in dealer.deal(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return work


class Dealer:
    """Which part of a large table a change belongs to."""

    def __init__(self, deltas: Deltas, ids: tuple[int, ...], parts: int) -> None:
        self.deltas, self.ids, self.parts = deltas, ids, parts

    def deal(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        if self.parts == 1:
            return [{**row, BUCKET: 0}]
        found = [(delta.kind, self._part(delta.row)) for delta in self.deltas.of((change_of(row),))]
        parts = {part for _, part in found}
        if len(parts) < 2:
            return [{**row, BUCKET: parts.pop() if parts else 0}]
        return [
            {**row, "op": "delete", "after": None, BUCKET: part}
            if kind == DELETE
            else {**row, **_arrival(row), BUCKET: part}
            for kind, part in found
        ]

    def _part(self, row: Row) -> int:
        key = row_key(row, self.ids) if self.ids else image_text(row)
        return crc32(repr(key).encode("utf-8", "surrogatepass")) % self.parts


def _arrival(row: dict[str, Any]) -> dict[str, Any]:
    """The second half of an update that moves a row: it comes to its new key with all that both
    images tell.
    """
    import msgspec

    whole = {**msgspec.json.decode(row["before"]), **msgspec.json.decode(row["after"])}
    return {"op": "insert", "before": None, "after": msgspec.json.encode(whole).decode()}


def change_of(row: dict[str, Any]) -> Change:
    return parse_change(
        row["position"],
        row["op"],
        row["before"],
        row["after"],
        row["encoding"],
        row["flags"],
        row["commit_ts"],
    )


def _tell(parts: tuple[Any, ...], plain: list[tuple[Any, str, str, str | None]], schema: pa.Schema) -> Worker:
    """All rows of a part, typed: its changes are held in memory together."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.gold.modes import Mode
        from lakehouse.spark.gold.modes import change_of

        changes = [change_of(row) for batch in batches for row in batch.to_pylist()]
        columns = [remade(*said) for said in plain]
        typed = type_rows(Mode(*parts).rows(changes), columns)
        nothing = [None] * typed.count
        values = [typed.columns[column.name] for column in columns] + [
            typed.raw.get(column.companion, nothing) for column in columns
        ]
        arrays = [pa.array(v, f.type) for v, f in zip(values, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return work
