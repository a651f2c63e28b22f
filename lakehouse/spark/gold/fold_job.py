"""The fold of a large table in Spark: the same functions as lakehouse/fold/current_rows.py, row by row,
partitioned by key.

    silver rows ─carry─▶ (key, position, kind, image) ─by key, in position order─▶ net ─▶ (op, image) ─type─▶
    gold's columns

Images travel as JSON by column id. Between two changes of the key the net rows are carried over as the first
images of the new key. A keyless row's key is its whole image, and netting counts. What the workers found
beside rows (columns that no DDL has declared, what the changes lack) travels as notes: rows without an image,
whose kind is the note.

A delete of a keyless image of which fewer rows are there than deletes may mean a row of which some cells are
not known. Which one, only a look at all rows tells: the table is folded again in one partition then, by the
function that folds a small one.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.current_rows import rekeyings
from lakehouse.fold.row_edits import NO_KEY
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import GoldColumn
from lakehouse.lineage import Lineage
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, position_literal
from lakehouse.spark.column_types import columns as parse_columns
from lakehouse.spark.column_types import data_type
from lakehouse.spark.gold.merge import OP
from lakehouse.spark.session import kept
from lakehouse.spark.silver.columns import POSITION

DELTAS = f"key string, position {POSITION}, kind string, image string"
NETTED = "key string, kind string, image string"
ROWS_PER_PARTITION = 200_000
ONE = 1
NOTE = "note "
# of a keyless table: more deletes of an image than rows
SHORT = "a delete of an image that is not there as it is"
_DELTAS = to_arrow_schema(parse_columns(DELTAS))
_NETTED = to_arrow_schema(parse_columns(NETTED))
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class LargeFold:
    """A folded table as a frame of gold's columns (c0 …), a companion for each (r0 …), and the kind of each
    row in the column OP; the kinds that there are, the companions that at least one row needs, and what the
    fold found: columns that no DDL has declared, what the changes lack.
    """

    frame: DataFrame
    kinds: frozenset[str]
    companions: list[str]
    unknown: dict[str, Position]
    problems: frozenset[str]


@dataclass(frozen=True, slots=True)
class Typing:
    """What makes gold's columns of netted rows, and their schema."""

    worker: Worker
    schema: StructType


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of steps without a change of key, and what the workers need to fold it."""

    lineage: Lineage
    start: int
    end: int
    upstream: Upstream


def fold_large(
    changes: DataFrame,
    lineage: Lineage,
    at: Position,
    columns: list[GoldColumn],
    *,
    target: int,
    upstream: Upstream,
    rows: int,
    without: str = "",
) -> LargeFold:
    """A lineage's changes up to `at`, folded and typed in Spark jobs. `target` is the step in force there,
    `rows` about how many changes there are; rows of the kind `without` need no companions.
    """
    whole = frozenset(column.column.id for column in columns if column.column.id > 0)

    def fold(partitions: int) -> LargeFold:
        frame = fold_frame(
            changes,
            lineage,
            at,
            target=target,
            upstream=upstream,
            partitions=partitions,
            whole=whole,
            typing=typing_of(columns, OP),
        )
        return looked_over(kept(frame), columns, without)

    folded = fold(partitions_for(rows))
    return fold(ONE) if SHORT in folded.problems else folded


def partitions_for(rows: int) -> int:
    """In how many partitions so many changes are folded."""
    return max(2, rows // ROWS_PER_PARTITION)


def fold_frame(
    changes: DataFrame,
    lineage: Lineage,
    at: Position,
    *,
    target: int,
    upstream: Upstream,
    partitions: int,
    whole: frozenset[int],
    typing: Typing | None,
) -> DataFrame:
    """The netted rows (kind put, patch or delete, or a note; images by id) of a lineage's changes up to `at`,
    in the schema of `target`; with `typing` as gold's columns, which the same workers make of them.

    A patch is an image that lacks some column of `whole` and whose earlier image is not among the changes.
    In ONE partition a keyless table's deletes take rows of which some cells are not known, too.
    """
    changes = changes.where(F.col("position") <= position_literal(at)).select(*FOLD_COLUMNS)
    netted: DataFrame | None = None
    start = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream)
        deltas = _of_piece(changes, piece, target).mapInArrow(_carry(piece), DELTAS)
        if netted is not None:
            deltas = deltas.unionByName(netted.where("kind <> 'delete'").mapInArrow(_cross(piece), DELTAS))
        ordered = deltas.repartition(partitions, "key").sortWithinPartitions("key", "position")
        net = _net(piece, whole, alone=partitions == ONE)
        if typing is not None and end == target:
            netted = ordered.mapInArrow(_after(net, typing.worker), typing.schema)
        else:
            netted = ordered.mapInArrow(net, NETTED)
        start = end + 1
    assert netted is not None
    return netted


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
        from lakehouse.lineage import key_ids
        from lakehouse.spark.change_log.changes import changes_of

        ids = key_ids(piece.lineage, piece.end)
        reader = ChangeReader(piece.lineage, piece.end, piece.upstream, ids)
        for batch in batches:
            found = reader.read(changes_of(batch))
            yield _delta_batch(found.edits, ids)
            notes = [note(name, place) for name, place in found.unknown.items()]
            yield _note_batch([*notes, *map(note, sorted(found.problems))])

    return work


def _cross(piece: Piece) -> Worker:
    """Rows of the piece before, as first images of this one's key."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.row_edits import PUT, RowEdit
        from lakehouse.fold.upcast import Carrier
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import decode_row

        ids = key_ids(piece.lineage, piece.end)
        move = Carrier(piece.lineage, piece.start - 1, piece.end, "canonical", upstream=piece.upstream).move
        for batch in batches:
            kinds, images = batch.column("kind").to_pylist(), batch.column("image").to_pylist()
            yield _note_batch([kind for kind in kinds if kind.startswith(NOTE)])
            rows = (
                move(decode_row(text))
                for kind, text in zip(kinds, images, strict=True)
                if not kind.startswith(NOTE)
            )
            yield _delta_batch((RowEdit(MIN_POSITION, PUT, row) for row in rows if row is not None), ids)

    return work


def _delta_batch(deltas: Iterable[Any], ids: tuple[int, ...]) -> pa.RecordBatch:
    from lakehouse.fold.row_edits import image_text, row_key
    from lakehouse.spark.gold.fold_job import encode_key, encode_row

    keys: list[str] = []
    positions: list[dict[str, int] | None] = []
    kinds: list[str] = []
    images: list[str] = []
    for delta in deltas:
        key = row_key(delta.row, ids) if ids else ()
        if key is None:
            keys.append(NOTE)
            positions.append(None)
            kinds.append(note(NO_KEY))
            images.append("{}")
            continue
        keys.append(encode_key(key) if ids else image_text(delta.row))
        positions.append(dict(zip(("epoch", "p1", "p2", "p3", "p4", "p5"), delta.position, strict=True)))
        kinds.append(delta.kind)
        images.append(encode_row(delta.row))
    return _deltas((keys, positions, kinds, images))


def note(text: str, place: Position | None = None) -> str:
    """What a worker found, as the kind of a row: a column that no DDL has declared, with the position of a
    row that has it; without a position, something that the changes lack.
    """
    return NOTE + json.dumps([text, place])


def _note_batch(notes: list[str]) -> pa.RecordBatch:
    """Notes as deltas; each kind of key has a bracket, so that no row has this one."""
    return _deltas(([NOTE] * len(notes), [None] * len(notes), notes, ["{}"] * len(notes)))


def _deltas(columns: tuple[list[Any], ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(v, f.type) for v, f in zip(columns, _DELTAS, strict=True)], schema=_DELTAS
    )


def _net(piece: Piece, whole: frozenset[int], *, alone: bool = False) -> Worker:
    """Net the deltas of each key. A patch that has every column of `whole` needs no earlier image: it is a
    put. `alone`: the worker has all deltas of the table.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import count_all, count_group, decode_row, net_group

        keyed = bool(key_ids(piece.lineage, piece.end))
        if alone and not keyed:
            yield from map(_netted_batch, chunked(count_all(_triples(batches)), 8192))
            return
        net = net_group if keyed else count_group
        out: list[tuple[str, str, str]] = []
        for key, group in groupby(_triples(batches), key=lambda triple: triple[0]):
            for _, kind, image in set(group) if key == NOTE else net(key, group):
                settled = "put" if kind == "patch" and whole <= decode_row(image).keys() else kind
                out.append((key, settled, image))
            if len(out) >= 8192:
                yield _netted_batch(out)
                out = []
        yield _netted_batch(out)

    return work


def _triples(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, str]]:
    for batch in batches:
        yield from zip(
            batch.column("key").to_pylist(),
            batch.column("kind").to_pylist(),
            batch.column("image").to_pylist(),
            strict=True,
        )


def _netted_batch(rows: list[tuple[str, str, str]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_NETTED)


def net_group(key: str, group: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """One outcome for the changes of one key, which come in position order."""
    kind, image = "", ""
    for _, following, text in group:
        if following == "refuse":
            continue
        if following == "patch" and kind in ("put", "patch"):
            image = encode_row({**decode_row(image), **decode_row(text)})
        else:
            kind, image = ("put" if following == "patch" and kind == "delete" else following), text
    if kind:
        yield key, kind, image


def count_group(key: str, group: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """As many equal rows as were inserted more often than deleted; a note where it is the other way round."""
    counts = {"put": 0, "patch": 0, "delete": 0, "refuse": 0}
    image = ""
    for _, kind, text in group:
        counts[kind] += 1
        image = text
    left = counts["put"] + counts["patch"] - max(0, counts["delete"] - counts["refuse"])
    if left < 0:
        yield NOTE, note(SHORT), "{}"
    for _ in range(left):
        yield key, "put", image


def count_all(triples: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """The rows of a keyless table from all of its edits, by the fold of a small one."""
    from lakehouse.fold.current_rows import count_keyless
    from lakehouse.fold.row_edits import Edits, RowEdit, image_text

    notes: set[str] = set()
    edits: list[RowEdit] = []
    for key, kind, image in triples:
        if key == NOTE:
            notes.add(kind)
        else:
            edits.append(RowEdit(MIN_POSITION, kind, decode_row(image)))
    folded = count_keyless([], [Edits(edits, {}, frozenset(), 0, cleared=0)])
    for row in folded.keyless:
        yield image_text(row), "put", encode_row(row)
    for kind in sorted({*notes, *map(note, folded.problems)}):
        yield NOTE, kind, "{}"


def chunked(rows: Iterable[tuple[str, str, str]], size: int) -> Iterator[list[tuple[str, str, str]]]:
    """Lists of `size` rows; one empty list where there are none."""
    iterator = iter(rows)
    chunk = list(islice(iterator, size))
    yield chunk
    while chunk := list(islice(iterator, size)):
        yield chunk


def encode_row(row: dict[int, Any]) -> str:
    import msgspec

    return msgspec.json.encode(row).decode()


def decode_row(text: str) -> dict[int, Any]:
    import msgspec

    return msgspec.json.decode(text, type=dict[int, Any])


def encode_key(key: tuple[Any, ...]) -> str:
    import msgspec

    return msgspec.json.encode(key).decode()


def typing_of(columns: list[GoldColumn], op: str) -> Typing:
    """Gold's columns, a companion for each, and the kind as column `op`; names are positional until the
    caller renames them.
    """
    fields = [StructField(f"c{i}", data_type(column.spark)) for i, column in enumerate(columns)]
    fields += [StructField(f"r{i}", StringType()) for i in range(len(columns))]
    schema = StructType([*fields, StructField(op, StringType())])
    told = [(column.column, column.spark, column.companion, column.mask) for column in columns]
    return Typing(_type(told, schema), schema)


def _type(told: list[tuple[Any, str, str, str | None]], schema: StructType) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from lakehouse.gold.columns import gold_column, type_rows
        from lakehouse.spark.gold.fold_job import decode_row

        columns = [gold_column(*each) for each in told]
        arrow = to_arrow_schema(schema)
        for batch in batches:
            typed = type_rows([decode_row(text) for text in batch.column("image").to_pylist()], columns)
            nothing = [None] * typed.count
            values = [typed.columns[column.name] for column in columns] + [
                typed.raw.get(column.companion, nothing) for column in columns
            ]
            values.append(batch.column("kind").to_pylist())
            yield pa.RecordBatch.from_arrays(
                [pa.array(v, f.type) for v, f in zip(values, arrow, strict=True)], schema=arrow
            )

    return work


def found_in(kinds: Iterable[str]) -> tuple[dict[str, Position], frozenset[str]]:
    """What the notes among the kinds of rows say: columns that no DDL has declared, each with the first
    position where a row has it; and what the changes lack.
    """
    unknown: dict[str, Position] = {}
    problems: set[str] = set()
    for text, place in (json.loads(kind.removeprefix(NOTE)) for kind in kinds if kind.startswith(NOTE)):
        if place is None:
            problems.add(text)
        else:
            unknown[text] = min(tuple(place), unknown.get(text, tuple(place)))
    return unknown, frozenset(problems)


def looked_over(typed: DataFrame, columns: list[GoldColumn], without: str = "") -> LargeFold:
    """A typed frame after one look at all of it, which computes it: its rows without the notes, and what
    there is to know of them. Rows of the kind `without` need no companions.
    """
    needed = F.col(OP) != without
    counts = [F.count(F.when(needed, F.col(f"r{i}"))).alias(f"r{i}") for i in range(len(columns))]
    row = typed.agg(F.collect_set(OP).alias("kinds"), *counts).first()
    assert row is not None
    unknown, problems = found_in(row["kinds"])
    kinds = frozenset(kind for kind in row["kinds"] if not kind.startswith(NOTE))
    companions = [column.companion for i, column in enumerate(columns) if row[f"r{i}"]]
    rows = typed if len(kinds) == len(row["kinds"]) else typed.where(~F.col(OP).startswith(NOTE))
    return LargeFold(rows, kinds, companions, unknown, problems=problems)


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
