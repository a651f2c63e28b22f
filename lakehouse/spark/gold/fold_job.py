"""The fold of a large table in Spark: the same functions as lakehouse/fold/current_rows.py, row by row,
partitioned by key.

    silver rows ──carry──▶ (key, position, kind, image) ──by key, in position order──▶ net
                ──▶ (op, image) ──type──▶ gold's columns

Images travel as JSON by column id, each with the step whose schema it has: where a DDL is applied to rows and
not to images, it is applied to the net row of each key. Between two changes of the key the net rows are
carried over as the first images of the new key. A keyless row's key is its whole image, and netting counts.
What the workers found beside rows (columns that no DDL has declared, what the changes lack) travels as notes:
rows without an image, whose kind is the note.

A delete of a keyless image of which fewer rows are there than deletes may mean a row of which some cells are
not known, and a keyless change whose old image lacks columns means the row that has them. Which one, only a
look at all rows tells: the table is folded again by one worker then, by the function that folds a small one.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.continuity import NO_BREAKS, Breaks, begun_at
from lakehouse.fold.current_rows import cuts, rekeyings
from lakehouse.fold.row_edits import NO_KEY, Change, RowEdit
from lakehouse.fold.upcast import RowMover, Upstream
from lakehouse.gold.columns import GoldColumn
from lakehouse.lineage import Lineage, StepIndex
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, position_literal
from lakehouse.spark.column_types import columns as parse_columns
from lakehouse.spark.column_types import data_type
from lakehouse.spark.gold.merge import OP
from lakehouse.spark.quality.continuity import added_up, breaks_in, encoded
from lakehouse.spark.session import kept
from lakehouse.spark.silver.columns import POSITION

DELTAS = f"key string, position {POSITION}, kind string, image string, step int, hint string"
NETTED = "key string, kind string, image string"
ROWS_PER_PARTITION = 200_000
NOTE = "note "
# of a keyless table: more deletes of an image than rows, or a change whose old image lacks columns
SHORT = "a delete of an image that is not there as it is"
# of a keyed one: changes that may not fit those before them (lakehouse/spark/quality/continuity.py)
ODD = "a change looks as if it did not fit the one before it"
INSERTS = "insert"
_encode, _decode_row = msgspec.json.Encoder().encode, msgspec.json.Decoder(dict[int, Any]).decode
_DELTAS = to_arrow_schema(parse_columns(DELTAS))
_NETTED = to_arrow_schema(parse_columns(NETTED))
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Told = tuple[str, str, str, int, str | None]
Netted = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class LargeFold:
    """A folded table as a frame of gold's columns (c0 …), a companion for each (r0 …), and the kind of each
    row in the column OP; the kinds that there are, the companions that at least one row needs, and what the
    fold found: columns that no DDL has declared, what the changes lack, and which do not fit those before
    them.
    """

    frame: DataFrame
    kinds: frozenset[str]
    companions: list[str]
    unknown: dict[str, Position]
    problems: frozenset[str]
    breaks: Breaks


@dataclass(frozen=True, slots=True)
class Typing:
    """What makes gold's columns of netted rows, and their schema."""

    worker: Worker
    schema: StructType


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps without a change of the key, and what the workers need to fold it. Not `whole`: its changes are
    not all.
    """

    lineage: Lineage
    start: int
    end: int
    upstream: Upstream
    whole: bool = True

    @property
    def stretches(self) -> list[int]:
        """The last steps of its stretches, within which DDL is applied to images."""
        found = cuts(self.lineage, self.end, self.upstream)
        return [*(step - 1 for step in found if step > self.start), self.end]

    @property
    def begun(self) -> frozenset[int]:
        """The last steps of the stretches before which the table is known to have been empty."""
        starts = [self.start, *(end + 1 for end in self.stretches)]
        return frozenset(
            end
            for start, end in zip(starts, self.stretches, strict=False)
            if begun_at(self.lineage, start, end, whole=self.whole) is not None
        )


def fold_large(
    changes: DataFrame,
    lineage: Lineage,
    at: Position,
    columns: list[GoldColumn],
    *,
    needed: Mapping[int, str],
    target: int,
    upstream: Upstream,
    rows: int,
    whole: bool,
    without: str = "",
) -> LargeFold:
    """A lineage's changes up to `at`, folded and typed in Spark jobs. `target` is the step in force there,
    `rows` about how many changes there are, `whole`: they are all; rows of the kind `without` need no
    companions. `needed` are the columns of which every row has to have a cell.
    """
    task = FoldTask(lineage, at, target, upstream, all_changes=whole)
    typing = typing_of(columns, OP, needed)
    every = frozenset(column.column.id for column in columns if column.column.id > 0)
    frame = fold_frame(changes, task, partitions=partitions_for(rows), whole=every, typing=typing)
    folded = looked_over(kept(frame), columns, without)
    if SHORT in folded.problems:
        return looked_over(kept(fold_alone(changes, task, typing)), columns, without)
    if ODD not in folded.problems:
        return folded
    breaks = breaks_in(changes, lineage, at, upstream, whole=whole, partitions=partitions_for(rows))
    return replace(folded, problems=folded.problems - {ODD}, breaks=breaks)


def partitions_for(rows: int) -> int:
    """In how many partitions so many changes are folded."""
    return max(2, rows // ROWS_PER_PARTITION)


class FoldTask(NamedTuple):
    """What is folded: a lineage's changes up to `at`, in the schema of `target`, the step in force there."""

    lineage: Lineage
    at: Position
    target: int
    upstream: Upstream
    all_changes: bool = True


def fold_frame(
    changes: DataFrame, task: FoldTask, *, partitions: int, whole: frozenset[int], typing: Typing | None
) -> DataFrame:
    """The netted rows (kind put, patch or delete, or a note; images by id) of a lineage's changes; with
    `typing` as gold's columns, which the same workers make of them. Where a note says SHORT, they are not
    the table's rows: `fold_alone` gives those.

    A patch is an image that lacks some column of `whole` and whose earlier image is not among the changes.
    """
    lineage, at, target, upstream, all_changes = task
    changes = changes.where(F.col("position") <= position_literal(at)).select(*FOLD_COLUMNS)
    netted: DataFrame | None = None
    start = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream, whole=all_changes)
        deltas = _of_piece(changes, piece, target).mapInArrow(_carry(piece), DELTAS)
        if netted is not None:
            deltas = deltas.unionByName(netted.where("kind <> 'delete'").mapInArrow(_cross(piece), DELTAS))
        ordered = deltas.repartition(partitions, "key").sortWithinPartitions("key", "position")
        net = _net(piece, whole)
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
        yield from map(_netted_batch, chunked(rows, 8192))
        yield _netted_batch([(NOTE, kind, "{}") for kind in notes])

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


def _carry(piece: Piece) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.row_edits import ChangeReader
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.change_log.changes import changes_of
        from lakehouse.spark.gold.fold_job import Delta, by_stretch, whole_images

        ids = key_ids(piece.lineage, piece.end)
        readers = {end: ChangeReader(piece.lineage, end, piece.upstream, ids) for end in piece.stretches}
        mover = RowMover(piece.lineage, piece.upstream)
        for batch in batches:
            for end, changes in by_stretch(piece, changes_of(batch)).items():
                found = readers[end].read(changes)
                whole = not ids and end < piece.end
                deltas = (
                    whole_images(mover, found.edits, end, piece.end)
                    if whole
                    else (Delta(edit, end) for edit in found.edits)
                )
                yield _delta_batch(deltas, ids)
                notes = [note(name, place) for name, place in found.unknown.items()]
                yield _note_batch([*notes, *map(note, sorted(found.problems))])

    return work


class Delta(NamedTuple):
    """An edit, and the step whose schema its row has. `short`: what it means, only all rows tell."""

    edit: RowEdit
    step: int
    short: bool = False


def by_stretch(piece: Piece, changes: Iterable[Change]) -> dict[int, list[Change]]:
    """Changes by the stretch that they are in."""
    step_at, ends = StepIndex(piece.lineage), piece.stretches
    if len(ends) == 1:
        return {piece.end: list(changes)}
    found: dict[int, list[Change]] = {}
    for change in changes:
        end = ends[bisect_left(ends, step_at(change.position))]
        found.setdefault(end, []).append(change)
    return found


def whole_images(mover: RowMover, edits: Iterable[RowEdit], source: int, target: int) -> Iterator[Delta]:
    """Edits of rows without a key at a later step: there an image that is whole is its row."""
    for edit in edits:
        moved = mover.move(dict(edit.row), source, target)
        if moved.row is not None:
            yield Delta(edit._replace(row=moved.row), target, bool(moved.lost))


def _cross(piece: Piece) -> Worker:
    """Rows of the piece before, as first images of this one's key."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.current_rows import clears
        from lakehouse.fold.row_edits import PUT, RowEdit
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import Delta, decode_row, is_problem

        ids, mended = key_ids(piece.lineage, piece.end), clears(piece.lineage, piece.start, piece.end)
        mover, end = RowMover(piece.lineage, piece.upstream), piece.stretches[0]
        for batch in batches:
            kinds, images = batch.column("kind").to_pylist(), batch.column("image").to_pylist()
            moved = [
                mover.move(decode_row(text), piece.start - 1, end)
                for kind, text in zip(kinds, images, strict=True)
                if not kind.startswith(NOTE)
            ]
            notes = {kind for kind in kinds if kind.startswith(NOTE)}
            notes.update(note(text) for each in moved for text in each.lost)
            yield _note_batch([kind for kind in sorted(notes) if not (mended and is_problem(kind))])
            rows = (each.row for each in moved if each.row is not None)
            yield _delta_batch((Delta(RowEdit(MIN_POSITION, PUT, row), end) for row in rows), ids)

    return work


def _delta_batch(deltas: Iterable[Delta], ids: tuple[int, ...]) -> pa.RecordBatch:
    from lakehouse.fold.row_edits import image_text, row_key
    from lakehouse.spark.gold.fold_job import encode_key, encode_row, hint_of

    found: list[tuple[Any, ...]] = []
    for edit, step, short in deltas:
        key = row_key(edit.row, ids) if ids else ()
        if key is None or short or edit.old is not None:
            found.append((NOTE, None, note(NO_KEY if key is None else SHORT), "{}", step, None))
            continue
        text = encode_key(key) if ids else image_text(edit.row)
        position = dict(zip(("epoch", "p1", "p2", "p3", "p4", "p5"), edit.position, strict=True))
        found.append((text, position, edit.kind, encode_row(edit.row), step, hint_of(edit)))
    return _deltas(found)


def hint_of(edit: RowEdit) -> str | None:
    """What an edit says of the row before it, beside its kind: that there was none, or a checksum of it."""
    if edit.before is not None:
        return str(crc32(_encode(edit.before)))
    return INSERTS if edit.op == "insert" else None


def note(text: str, place: Position | None = None) -> str:
    """What a worker found, as the kind of a row: a column that no DDL has declared, with the position of a
    row that has it; without a position, something that the changes lack.
    """
    return NOTE + json.dumps([text, place])


def is_problem(kind: str) -> bool:
    """Whether a note says what the changes lack, or which do not fit."""
    text, place = json.loads(kind.removeprefix(NOTE))
    return (place is None or text is None) and kind != note(SHORT)


def break_notes(breaks: Breaks) -> list[str]:
    """The changes that do not fit those before them, as one note."""
    return [NOTE + json.dumps([None, encoded(breaks)])] if breaks.total else []


def _note_batch(notes: list[str]) -> pa.RecordBatch:
    """Notes as deltas; each kind of key has a bracket, so that no row has this one."""
    return _deltas([(NOTE, None, kind, "{}", 0, None) for kind in notes])


def _deltas(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(_DELTAS)
    return pa.RecordBatch.from_arrays(
        [pa.array(v, f.type) for v, f in zip(columns, _DELTAS, strict=True)], schema=_DELTAS
    )


def _net(piece: Piece, whole: frozenset[int]) -> Worker:
    """Net the deltas of each key. A patch that has every column of `whole` needs no earlier image: it is a
    put.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import count_group, decode_row, net_group

        keyed, mover = bool(key_ids(piece.lineage, piece.end)), RowMover(piece.lineage, piece.upstream)
        begun = piece.begun
        out: list[Netted] = []
        for key, group in groupby(_told(batches), key=itemgetter(0)):
            if key == NOTE:
                found: Iterable[Netted] = {(NOTE, told[1], "{}") for told in group}
            elif keyed:
                found = net_group(key, group, mover, piece.end, begun=begun)
            else:
                found = count_group(key, group)
            for name, kind, image in found:
                settled = "put" if kind == "patch" and whole <= decode_row(image).keys() else kind
                out.append((name, settled, image))
            if len(out) >= 8192:
                yield _netted_batch(out)
                out = []
        yield _netted_batch(out)

    return work


def _told(batches: Iterator[pa.RecordBatch]) -> Iterator[Told]:
    for batch in batches:
        names = ("key", "kind", "image", "step", "hint")
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _netted_batch(rows: list[Netted]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_NETTED)


def net_group(
    key: str, group: Iterable[Told], mover: RowMover, end: int, *, begun: frozenset[int] = frozenset()
) -> Iterator[Netted]:
    """One outcome for the changes of one key, which come in position order, in the schema of the step `end`;
    and notes of what could not be decided of the row, and that a change looks odd. `begun` as in Piece.
    """
    kind, image, at, odd, refused = "", "", end, False, False
    for told in group:
        _, following, text, step, _ = told
        # of a row that was carried over a cut nothing is known
        odd = odd or refused or is_odd(kind if at == step else "", image, told, begun)
        if following == "refuse":
            refused = True
            continue
        if kind in ("put", "patch") and at < step:
            kind, image, notes = _moved_image(mover, (kind, image), at, step=step)
            yield from notes
        if following == "patch" and kind in ("put", "patch"):
            image = encode_row({**decode_row(image), **decode_row(text)})
        else:
            kind, image = ("put" if following == "patch" and kind == "delete" else following), text
        at = step
    if kind in ("put", "patch") and at < end:
        kind, image, notes = _moved_image(mover, (kind, image), at, step=end)
        yield from notes
    if kind:
        yield key, kind, image
    if odd:
        yield NOTE, note(ODD), "{}"


def is_odd(kind: str, image: str, told: Told, begun: frozenset[int]) -> bool:
    """Whether a change looks as if it did not fit what it meets: a row ("put", "patch") and its image, one
    that is gone ("delete"), or none that is known of ("").
    """
    _, following, text, step, hint = told
    if following == "refuse":
        return kind != "" or (hint not in (None, INSERTS) and step in begun)
    if kind in ("put", "patch"):
        if following == "delete":
            return text != image and _differs(decode_row(image), decode_row(text))
        return hint is not None and (following == "put" or str(crc32(image.encode())) != hint)
    is_of_row = following == "delete" or (following == "patch" and hint is not None)
    return is_of_row and (kind == "delete" or step in begun)


def _differs(row: dict[int, Any], image: dict[int, Any]) -> bool:
    return {**row, **image} != row


def _moved_image(mover: RowMover, row: tuple[str, str], at: int, step: int) -> tuple[str, str, list[Netted]]:
    """Kind and image of a row at a later step, no kind where it is gone; and notes."""
    kind, image = row
    moved = mover.move(decode_row(image), at, step)
    notes = [(NOTE, note(text), "{}") for text in sorted(moved.lost)]
    return (kind, encode_row(moved.row), notes) if moved.row is not None else ("", "", notes)


def count_group(key: str, group: Iterable[Told]) -> Iterator[Netted]:
    """As many equal rows as were inserted more often than deleted; a note where it is the other way round."""
    counts = {"put": 0, "patch": 0, "delete": 0, "refuse": 0}
    image = ""
    for _, kind, text, *_ in group:
        counts[kind] += 1
        image = text
    left = counts["put"] + counts["patch"] - max(0, counts["delete"] - counts["refuse"])
    if left < 0:
        yield NOTE, note(SHORT), "{}"
    for _ in range(left):
        yield key, "put", image


def chunked(rows: Iterable[Netted], size: int) -> Iterator[list[Netted]]:
    """Lists of `size` rows; one empty list where there are none."""
    iterator = iter(rows)
    chunk = list(islice(iterator, size))
    yield chunk
    while chunk := list(islice(iterator, size)):
        yield chunk


def encode_row(row: dict[int, Any]) -> str:
    return _encode(row).decode()


def decode_row(text: str) -> dict[int, Any]:
    return _decode_row(text)


def encode_key(key: tuple[Any, ...]) -> str:
    return _encode(key).decode()


def typing_of(columns: list[GoldColumn], op: str, needed: Mapping[int, str]) -> Typing:
    """Gold's columns, a companion for each, and the kind as column `op`; names are positional until the
    caller renames them. Notes say which of the `needed` columns some row lacks.
    """
    fields = [StructField(f"c{i}", data_type(column.spark)) for i, column in enumerate(columns)]
    fields += [StructField(f"r{i}", StringType()) for i in range(len(columns))]
    schema = StructType([*fields, StructField(op, StringType())])
    told = [(column.column, column.spark, column.companion, column.mask) for column in columns]
    return Typing(_type(told, schema, dict(needed)), schema)


def _type(told: list[tuple[Any, str, str, str | None]], schema: StructType, needed: dict[int, str]) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from lakehouse.gold.columns import gold_column, lacking_cells, type_rows
        from lakehouse.spark.gold.fold_job import decode_row

        columns = [gold_column(*each) for each in told]
        arrow = to_arrow_schema(schema)
        for batch in batches:
            kinds = batch.column("kind").to_pylist()
            rows = [decode_row(text) for text in batch.column("image").to_pylist()]
            there = (row for row, kind in zip(rows, kinds, strict=True) if kind in ("put", "patch"))
            notes = list(map(note, sorted(lacking_cells(there, needed))))
            typed = type_rows([*rows, *({} for _ in notes)], columns)
            nothing = [None] * typed.count
            values = [typed.columns[column.name] for column in columns] + [
                typed.raw.get(column.companion, nothing) for column in columns
            ]
            values.append([*kinds, *notes])
            yield pa.RecordBatch.from_arrays(
                [pa.array(v, f.type) for v, f in zip(values, arrow, strict=True)], schema=arrow
            )

    return work


class Notes(NamedTuple):
    """What workers found beside rows: columns that no DDL has declared, each with the first position where a
    row has it, what the changes lack, and which do not fit those before them.
    """

    unknown: dict[str, Position]
    problems: frozenset[str]
    breaks: Breaks


def found_in(kinds: Iterable[str]) -> Notes:
    """What the notes among the kinds of rows say."""
    unknown: dict[str, Position] = {}
    problems: set[str] = set()
    breaks = NO_BREAKS
    for text, place in (json.loads(kind.removeprefix(NOTE)) for kind in kinds if kind.startswith(NOTE)):
        if place is None:
            problems.add(text)
        elif text is None:
            breaks = breaks.plus(added_up([place]))
        else:
            unknown[text] = min(tuple(place), unknown.get(text, tuple(place)))
    return Notes(unknown, frozenset(problems), breaks)


def looked_over(typed: DataFrame, columns: list[GoldColumn], without: str = "") -> LargeFold:
    """A typed frame after one look at all of it, which computes it: its rows without the notes, and what
    there is to know of them. Rows of the kind `without` need no companions.
    """
    needed = F.col(OP) != without
    counts = [F.count(F.when(needed, F.col(f"r{i}"))).alias(f"r{i}") for i in range(len(columns))]
    row = typed.agg(F.collect_set(OP).alias("kinds"), *counts).first()
    assert row is not None
    notes = found_in(row["kinds"])
    kinds = frozenset(kind for kind in row["kinds"] if not kind.startswith(NOTE))
    companions = [column.companion for i, column in enumerate(columns) if row[f"r{i}"]]
    rows = typed if len(kinds) == len(row["kinds"]) else typed.where(~F.col(OP).startswith(NOTE))
    return LargeFold(rows, kinds, companions, notes.unknown, problems=notes.problems, breaks=notes.breaks)


def named(typed: DataFrame, columns: list[GoldColumn], companions: list[str], op: str | None) -> DataFrame:
    """The typed frame under gold's own names."""
    from lakehouse.spark.gold.merge import comment_of

    chosen = [
        F.col(f"c{i}").alias(column.name, metadata=comment_of(column) or {})
        for i, column in enumerate(columns)
    ]
    chosen += [
        F.col(f"r{i}").alias(column.companion)
        for i, column in enumerate(columns)
        if column.companion in companions
    ]
    return typed.select(*chosen, *([F.col(op)] if op else []))
