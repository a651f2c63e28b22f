"""The fold of a large table in Spark: the same functions as lakehouse/fold/current_rows.py, row by row,
partitioned by key.

    silver rows ──carry──▶ (key, position, kind, image) ──by key, in position order──▶ net
                ──▶ (op, image) ──type──▶ gold's columns

So is folded what can't be grouped by silver's key (by_key.py), which takes one pass through Python instead.

Images travel as JSON by column id, each with the step whose schema it has: where a DDL is applied to rows and
not to images, it is applied to the net row of each key. Between two changes of the key the net rows are
carried over as the first images of the new key. A keyless row's key is its whole image, and netting counts.
What the workers found beside rows (columns that no DDL has declared, what the changes lack) travels as notes:
rows without an image, whose kind is the note.

A delete of a keyless image of which fewer rows are there than deletes may mean a row of which some cells are
not known, and a keyless change whose old image lacks columns means the row that has them. Which one, only a
look at all rows tells: the table is folded again by one worker then, by the function that folds a small one.
So is one whose snapshot was begun again (snapshot_ends.py).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.events import Position
from lakehouse.fold.continuity import Breaks
from lakehouse.fold.steps import rekeyings
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import GoldColumn
from lakehouse.lineage import Lineage
from lakehouse.spark.arrow import Worker
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, position_literal
from lakehouse.spark.fold.by_key import OTHER_KEY, can_group, grouped, key_worker
from lakehouse.spark.fold.deltas import (
    DELTAS,
    NETTED,
    Piece,
    carry_worker,
    chunked,
    cross_worker,
    encode_row,
    netted_batch,
)
from lakehouse.spark.fold.net_rows import net_worker
from lakehouse.spark.fold.notes import NOTE, ODD, SHORT, break_notes, found_in, note
from lakehouse.spark.fold.row_files import TOLD, RowFiles, into_files
from lakehouse.spark.fold.silver_files import ChangeFiles
from lakehouse.spark.fold.snapshot_ends import begun_again
from lakehouse.spark.fold.typed_rows import LargeFold, Typing, looked_over, typing_of
from lakehouse.spark.plain.files import Added
from lakehouse.spark.quality.continuity import breaks_in
from lakehouse.spark.session import kept

ROWS_PER_PARTITION = 200_000


def fold_large(
    changes: DataFrame, task: "FoldTask", columns: list[GoldColumn], *, needed: Mapping[int, str], rows: int
) -> LargeFold:
    """A lineage's changes, about so many `rows`, folded and typed in Spark jobs. `needed` are the columns of
    which every row has to have a cell.
    """
    typing, partitions, every = typing_of(columns, needed), partitions_for(rows), _ids_of(columns)
    worker = _grouping(changes, task, every, typing)
    without = "delete" if task.all_changes else ""  # deleted rows are not written
    folded = None
    if worker is not None:
        frame = _of_groups(changes, task, partitions, worker=worker, schema=typing.schema)
        folded = looked_over(kept(frame), columns, without)
    if folded is None or OTHER_KEY in folded.problems:
        frame = fold_frame(changes, task, partitions=partitions, whole=every, typing=typing)
        folded = looked_over(kept(frame), columns, without)
    if SHORT in folded.problems or begun_again(changes, task.lineage, task.target):
        folded = looked_over(kept(fold_alone(changes, task, typing)), columns, without)
        return replace(folded, guessed=True)
    if ODD not in folded.problems:
        return folded
    return replace(folded, problems=folded.problems - {ODD}, breaks=_breaks(changes, task, partitions))


class FoldedFiles(NamedTuple):
    """A folded table as files that no commit has added yet, with what a commit says of them, and the columns
    that it has; and what the fold found, as in LargeFold.
    """

    files: RowFiles
    added: list[Added]
    fields: list[StructField]
    unknown: dict[str, Position]
    problems: frozenset[str]
    breaks: Breaks
    taken: int | None


def fold_into_files(
    changes: DataFrame,
    task: "FoldTask",
    columns: list[GoldColumn],
    *,
    needed: Mapping[int, str],
    rows: int,
    files: RowFiles,
) -> FoldedFiles | None:
    """What `fold_large` gives of all of a table's changes, as files that its workers have written. None where
    they can't be grouped by silver's key.
    """
    typing, partitions = typing_of(columns, needed), partitions_for(rows)
    worker = _grouping(changes, task, _ids_of(columns), typing)
    if worker is None:
        return None
    writer = into_files(worker, files)
    told = _of_groups(changes, task, partitions, worker=writer, schema=TOLD).collect()
    added = [one for row in told for one in json.loads(row.files)]
    notes = found_in(kind for row in told for kind in row.kinds)
    if notes.problems & {OTHER_KEY, SHORT}:
        files.discard(added)
        return None
    fields = files.used({place for row in told for place in row.companions})
    breaks = _breaks(changes, task, partitions) if ODD in notes.problems else notes.breaks
    return FoldedFiles(
        files,
        added,
        fields,
        notes.unknown,
        problems=notes.problems - {ODD},
        breaks=breaks,
        taken=notes.taken,
    )


def _ids_of(columns: list[GoldColumn]) -> frozenset[int]:
    return frozenset(column.column.id for column in columns if column.column.id > 0)


def _breaks(changes: DataFrame, task: "FoldTask", partitions: int) -> Breaks:
    """The changes that do not fit those before them."""
    return breaks_in(
        changes, task.lineage, task.at, task.upstream, whole=task.all_changes, partitions=partitions
    )


def _grouping(changes: DataFrame, task: "FoldTask", whole: frozenset[int], typing: Typing) -> Worker | None:
    """Makes of groups of changes what `fold_frame` gives with `typing`, in one pass through Python, or a note
    that says OTHER_KEY. None where changes can't be grouped by silver's key.
    """
    if not can_group(changes, task.lineage, task.target):
        return None
    return key_worker(_piece(task), whole, typing)


def _of_groups(
    changes: DataFrame, task: "FoldTask", partitions: int, *, worker: Worker, schema: StructType | str
) -> DataFrame:
    """What a worker makes of the changes in groups."""
    if task.read is not None:
        return task.read.frame(changes.sparkSession, _piece(task), worker, shares=partitions, schema=schema)
    changes = changes.where(F.col("position") <= position_literal(task.at))
    return grouped(changes, _piece(task), partitions).mapInArrow(worker, schema)


def _piece(task: "FoldTask") -> Piece:
    return Piece(task.lineage, 0, task.target, task.upstream, whole=task.all_changes)


def partitions_for(rows: int) -> int:
    """In how many partitions so many changes are folded."""
    return max(2, rows // ROWS_PER_PARTITION)


class FoldTask(NamedTuple):
    """What is folded: a lineage's changes up to `at`, in the schema of `target`, the step in force there;
    `read` are files that have the same changes.
    """

    lineage: Lineage
    at: Position
    target: int
    upstream: Upstream
    all_changes: bool = True
    read: ChangeFiles | None = None


def fold_frame(
    changes: DataFrame, task: FoldTask, *, partitions: int, whole: frozenset[int], typing: Typing | None
) -> DataFrame:
    """The netted rows (kind put, patch or delete, or a note; images by id) of a lineage's changes; with
    `typing` as gold's columns, which the same workers make of them. Where a note says SHORT, they are not
    the table's rows: `fold_alone` gives those.

    A patch is an image that lacks some column of `whole` and whose earlier image is not among the changes.
    """
    lineage, at, target, upstream, all_changes, _ = task
    changes = changes.where(F.col("position") <= position_literal(at)).select(*FOLD_COLUMNS)
    netted: DataFrame | None = None
    start = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream, whole=all_changes)
        deltas = _of_piece(changes, piece, target).mapInArrow(carry_worker(piece), DELTAS)
        if netted is not None:
            deltas = deltas.unionByName(
                netted.where("kind <> 'delete'").mapInArrow(cross_worker(piece), DELTAS)
            )
        # of an update that changes nothing, in a table without a key, the delete comes first
        ordered = deltas.repartition(partitions, "key").sortWithinPartitions("key", "position", "kind")
        net = net_worker(piece, whole)
        if typing is not None and end == target:
            netted = ordered.mapInArrow(_after(net, typing.worker), typing.schema)
        else:
            netted = ordered.mapInArrow(net, NETTED)
        start = end + 1
    assert netted is not None
    return netted


def fold_alone(changes: DataFrame, task: FoldTask, typing: Typing | None) -> DataFrame:
    """The same by one worker, which folds all of the changes as a small table's are folded."""
    mine = changes.where(F.col("position") <= position_literal(task.at)).select(*FOLD_COLUMNS).repartition(1)
    if typing is None:
        return mine.mapInArrow(_fold_all(task), NETTED)
    return mine.mapInArrow(_after(_fold_all(task), typing.worker), typing.schema)


def netted_rows(changes: DataFrame, task: FoldTask, partitions: int) -> DataFrame:
    """The rows and notes of a lineage's changes, by whichever of the two ways gives them."""
    netted = kept(fold_frame(changes, task, partitions=partitions, whole=frozenset(), typing=None))
    short = netted.where(F.col("kind") == note(SHORT)).limit(1).count()
    return fold_alone(changes, task, None) if short else netted


def _fold_all(task: FoldTask) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.current_rows import finish, fold
        from lakehouse.fold.row_edits import image_text
        from lakehouse.spark.change_log.changes import changes_of

        changes = (change for batch in batches for change in changes_of(batch))
        folded = fold(task.lineage, changes, task.at, task.upstream, whole=task.all_changes)
        notes = [note(name, place) for name, place in folded.unknown.items()]
        notes += [*map(note, sorted(folded.problems)), *break_notes(folded.breaks)]
        rows = ((image_text(row), "put", encode_row(row)) for row in finish(folded))
        yield from map(netted_batch, chunked(rows))
        yield netted_batch([(NOTE, kind, "{}") for kind in notes])

    return work


def _after(first: Worker, second: Worker) -> Worker:
    """Two steps in one worker: what lies between them never leaves Python."""
    return lambda batches: second(first(batches))


def _of_piece(changes: DataFrame, piece: Piece, target: int) -> DataFrame:
    """The rows whose position lies in the piece's steps."""
    if piece.start > 0:
        changes = changes.where(
            F.col("position") > position_literal(piece.lineage.steps[piece.start].position)
        )
    if piece.end < target:
        changes = changes.where(
            F.col("position") < position_literal(piece.lineage.steps[piece.end + 1].position)
        )
    return changes
