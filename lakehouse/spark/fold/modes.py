"""The rows of a large table in modes other than plain upsert, computed in Spark jobs.

Rows of different keys have nothing to do with each other, so the changes are distributed by key, and each
part is computed by the functions that compute a small table (lakehouse/gold/modes.py). Where a DDL changes
the key there is one part. What a worker finds beside rows travels as notes (fold_job.py).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from lakehouse.ddl_effects import Clear, RemoveRows
from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.row_ddl import untimed, with_times
from lakehouse.fold.row_edits import DELETE, Change, ChangeReader, image_text, row_key
from lakehouse.fold.steps import rekeyings
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, type_rows
from lakehouse.gold.modes import Mode
from lakehouse.gold.own_columns import remade
from lakehouse.lineage import Lineage
from lakehouse.spark.arrow import Worker
from lakehouse.spark.change_log.changes import (
    FOLD_COLUMNS,
    between,
    collect_changes,
    parse_change,
    position_literal,
)
from lakehouse.spark.fold.notes import SHORT
from lakehouse.spark.fold.snapshot_ends import begun_again
from lakehouse.spark.fold.typed_rows import LargeFold, looked_over, typing_of
from lakehouse.spark.session import kept

ROWS_PER_PART = 100_000
BUCKET = "_bucket"


def commits(frame: DataFrame, by_commit: bool, most: int) -> Iterator[list[Change]]:
    """The changes in position order, at most so many at a time, no commit cut in two; an empty list where one
    commit is more.
    """
    last: Position | None = None
    while True:
        ordered = frame.where(between(last, None)).orderBy("position").limit(most)
        changes = [change for _, change, _ in collect_changes(ordered)]
        changes.sort(key=lambda change: change.position)
        full = len(changes) == most
        if full:
            parts = 2 if by_commit else len(POSITION_PARTS)
            changes = [
                change for change in changes if change.position[:parts] != changes[-1].position[:parts]
            ]
        if changes or full:
            yield changes
        if not full:
            return
        last = changes[-1].position


def mode_large(changes: DataFrame, mode: Mode, columns: list[GoldColumn], rows: int) -> LargeFold:
    """All rows of the table, from about `rows` changes. In one part, where a change may be about a row of any
    part, or only all of them tell that a snapshot was begun again.
    """
    parts = 1 if begun_again(changes, mode.lineage, mode.target) else parts_of(mode, rows)
    mode = mode if parts == 1 else timed(changes, mode)
    found = _in_parts(changes, mode, columns, parts)
    return _in_parts(changes, mode, columns, 1) if SHORT in found.problems else found


def timed(changes: DataFrame, mode: Mode) -> Mode:
    """The mode, to fold some keys alone: statements that have no time get that of the last of the table's
    changes before them, which need not be of these keys.
    """
    places = untimed(mode.lineage, mode.at)
    if not places:
        return mode
    has_time = F.col("commit_ts").isNotNull()
    last = [
        F.max_by(
            F.struct("position", "commit_ts"),
            F.when(has_time & (F.col("position") < position_literal(place)), F.col("position")),
        ).alias(f"before_{number}")
        for number, place in enumerate(places)
    ]
    row = changes.agg(*last).first()
    assert row is not None
    found = {
        place: (tuple(one["position"]), one["commit_ts"])
        for place, one in zip(places, row, strict=True)
        if one is not None
    }
    return replace(mode, lineage=with_times(mode.lineage, found))


def _in_parts(changes: DataFrame, mode: Mode, columns: list[GoldColumn], parts: int) -> LargeFold:
    """All rows of the table, computed in so many parts. SHORT is among the problems where they are not."""
    typing = typing_of(columns, {})
    chosen = changes.select(*FOLD_COLUMNS)
    dealt = StructType([*chosen.schema.fields, StructField(BUCKET, IntegerType())])
    by_key = chosen.mapInArrow(_deal(mode, parts, to_arrow_schema(dealt)), dealt).repartition(parts, BUCKET)
    worker = _rows_of_part(mode_parts(mode), typing.told, parts, to_arrow_schema(typing.schema))
    typed = by_key.mapInArrow(worker, typing.schema)
    return looked_over(kept(typed), columns)


def parts_of(mode: Mode, rows: int) -> int:
    """In how many parts so many changes are distributed by key. In one where a DDL changes the key; and where
    deleted rows stay in a table without a key: a row that comes back may have another image, by a later
    column's default, than the deleted one.
    """
    if rekeyings(mode.lineage, mode.target) or (mode.word == "soft" and not mode.ids):
        return 1
    return max(2, rows // ROWS_PER_PART)


def mode_parts(mode: Mode) -> tuple[Any, ...]:
    """What makes a Mode, for workers."""
    return mode.lineage, mode.at, mode.upstream, mode.clock, mode.options, mode.virtual


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
        from lakehouse.spark.fold.modes import Dealer

        dealer = Dealer(ChangeReader(lineage, target, upstream, ids), ids, parts)
        for batch in batches:
            rows = [dealt for row in batch.to_pylist() for dealt in dealer.deal(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return work


class Dealer:
    """Which part of a large table a change belongs to. A change whose old image lacks columns, in a table
    without a key, may be about a row of any part: it is dealt to none, and says so by its number.
    """

    def __init__(self, reader: ChangeReader, ids: tuple[int, ...], parts: int) -> None:
        self.reader, self.ids, self.parts = reader, ids, parts

    def deal(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        if self.parts == 1:
            return [{**row, BUCKET: 0}]
        edits = self.reader.read((change_of(row),)).edits
        if any(edit.old is not None for edit in edits):
            return [{**row, BUCKET: self.parts}]
        found = [(edit.kind, self._part(edit.row)) for edit in edits]
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
        encoding=row["encoding"],
        flags=row["flags"],
        commit_ts=row["commit_ts"],
    )


def _rows_of_part(
    mode: tuple[Any, ...], plain: list[tuple[Any, str, str, str | None]], parts: int, schema: pa.Schema
) -> Worker:
    """All rows of a part, typed, and notes of what was found: its changes are held in memory together."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.gold.modes import Mode
        from lakehouse.spark.fold.modes import change_of
        from lakehouse.spark.fold.notes import break_notes, note

        rows = [row for batch in batches for row in batch.to_pylist()]
        changes = [change_of(row) for row in rows if row[BUCKET] < parts]
        columns, found = [remade(*column) for column in plain], Mode(*mode).rows(changes)
        typed = type_rows(found.rows, columns)
        nothing = [None] * typed.count
        values = [typed.columns[column.name] for column in columns] + [
            typed.raw.get(column.companion, nothing) for column in columns
        ]
        values.append(["put"] * typed.count)
        yield _batch(values, schema)
        notes = [note(name, place) for name, place in found.unknown.items()]
        notes += [*map(note, sorted(found.problems)), *break_notes(found.breaks)]
        notes += [note(SHORT)] if len(changes) < len(rows) else []
        yield _batch([*([None] * len(notes) for _ in schema.names[1:]), notes], schema)

    return work


def _batch(values: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
