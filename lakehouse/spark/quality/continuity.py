"""Which changes of a large table do not fit those before them, in a Spark job of its own.

    silver rows ──claims──▶ (stretch, key, position, claim) ──by key, in position order──▶ breaks, counted

The workers that fold a large table see, as those on the driver do, only that some changes look odd
(lakehouse/spark/fold/fold_job.py). Then all of them are looked at here, by the functions that decide it for a
small table. A stretch is a piece of the fold: steps without a cut, across which nothing is known.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import Position
from lakehouse.fold.continuity import (
    NO_BREAKS,
    Breaks,
    Claim,
    absent_at,
    all_of,
    begun_at,
    breaks_of,
    key_text,
)
from lakehouse.fold.row_edits import ChangeReader, row_key
from lakehouse.fold.steps import clears, cuts, target_step
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Lineage, StepIndex, key_ids
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, changes_of, position_literal
from lakehouse.spark.column_types import columns
from lakehouse.spark.silver.columns import POSITION
from lakehouse.spark.workers import Worker

CLAIMS = f"stretch int, key string, position {POSITION}, claim string"
FOUND = "breaks string"
_PARTS = ("epoch", "p1", "p2", "p3", "p4", "p5")
_CLAIMS, _FOUND = to_arrow_schema(columns(CLAIMS)), to_arrow_schema(columns(FOUND))


def breaks_in(
    changes: DataFrame, lineage: Lineage, at: Position, upstream: Upstream, *, whole: bool, partitions: int
) -> Breaks:
    """The breaks among a lineage's changes up to `at`. Not `whole`: they are not all."""
    if not upstream.continuity.rows or lineage.overruled:
        return NO_BREAKS
    mine = changes.where(F.col("position") <= position_literal(at)).select(*FOLD_COLUMNS)
    stretches = stretches_of(lineage, at, upstream, whole=whole)
    claims = mine.mapInArrow(claim_worker(lineage, upstream, stretches), CLAIMS)
    ordered = claims.repartition(partitions, "stretch", "key").sortWithinPartitions(
        "stretch", "key", "position"
    )
    told = ordered.mapInArrow(break_worker(stretches, by_commit=upstream.continuity.by_commit), FOUND)
    return added_up(told.toArrow().column("breaks").to_pylist())


class Stretch(NamedTuple):
    """The steps of a stretch, and what is known of every row before its changes."""

    start: int
    end: int
    known: Claim | None


def stretches_of(lineage: Lineage, at: Position, upstream: Upstream, *, whole: bool) -> list[Stretch]:
    """The stretches up to a position, without those that a later one empties: what their changes lack is
    mended.
    """
    target = target_step(lineage, at)
    found: list[Stretch] = []
    start = 0
    for end in [*(step - 1 for step in cuts(lineage, target, upstream)), target]:
        known = absent_at(begun_at(lineage, start, end, whole=whole))
        found = [*([] if clears(lineage, start, end) else found), Stretch(start, end, known)]
        start = end + 1
    return found


def claim_worker(lineage: Lineage, upstream: Upstream, stretches: list[Stretch]) -> Worker:
    """The claims of changes, each with the last step of its stretch and its key."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step_at, ends = StepIndex(lineage), [one.end for one in stretches]
        ids = {end: key_ids(lineage, end) for end in ends}
        readers = {end: ChangeReader(lineage, end, upstream, ids[end], claims=True) for end in ends}
        for batch in batches:
            found: list[tuple[Any, ...]] = []
            for change in changes_of(batch):
                step = step_at(change.position)
                if step < stretches[0].start:
                    continue
                end = ends[bisect_left(ends, step)]
                for edit in readers[end].read((change,)).edits:
                    key = row_key(edit.row, ids[end])
                    if key is not None and edit.claim is not None:
                        found.append((end, key_text(key), position_of(edit.position), encoded(edit.claim)))
            yield batch_of(found, _CLAIMS)

    return work


def break_worker(stretches: list[Stretch], *, by_commit: bool) -> Worker:
    """The breaks of the keys of a partition, counted: one row."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names, known = ("stretch", "key", "claim"), {one.end: one.known for one in stretches}
        rows = (
            row
            for batch in batches
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        )
        total = NO_BREAKS
        for (stretch, key), group in groupby(rows, key=itemgetter(0, 1)):
            said = (msgspec.json.decode(text, type=Claim) for _, _, text in group)
            total = total.plus(all_of(breaks_of(key, said, known[stretch], by_commit=by_commit)))
        yield batch_of([(encoded(total),)], _FOUND)

    return work


def added_up(texts: Iterable[str]) -> Breaks:
    """The sum of breaks that workers have found."""
    total = NO_BREAKS
    for text in texts:
        total = total.plus(msgspec.json.decode(text, type=Breaks))
    return total


def encoded(value: Any) -> str:
    """A record as JSON."""
    return msgspec.json.encode(value).decode()


def position_of(position: Position) -> dict[str, int]:
    """A position as Arrow takes it."""
    return dict(zip(_PARTS, position, strict=True))


def batch_of(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch of that schema."""
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
