"""The fold of a large table in Spark: the same functions as lakehouse/fold/current_rows.py, row by row,
partitioned by key.

    silver rows ─carry─▶ (key, position, kind, image) ─by key, in position order─▶ net ─▶ (op, image) ─type─▶
    gold's columns

Images travel as JSON by column id. Between two changes of the key the net rows are carried over as the first
images of the new key. A keyless row's key is its whole image, and netting counts. What the workers found
beside rows (names that no DDL has told) travels as notes: rows without an image, whose kind is the note.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.current_rows import rekeyings
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import GoldColumn
from lakehouse.lineage import Lineage
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, position_literal
from lakehouse.spark.column_types import columns as parse_columns
from lakehouse.spark.column_types import data_type
from lakehouse.spark.silver.columns import POSITION

DELTAS = f"key string, position {POSITION}, kind string, image string"
NETTED = "key string, kind string, image string"
ROWS_PER_PARTITION = 200_000
NOTE = "note "
_DELTAS = to_arrow_schema(parse_columns(DELTAS))
_NETTED = to_arrow_schema(parse_columns(NETTED))
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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


def fold_frame(
    changes: DataFrame,
    lineage: Lineage,
    at: Position,
    target: int,
    upstream: Upstream,
    rows: int,
    whole: frozenset[int],
    typing: Typing | None = None,
) -> DataFrame:
    """The netted rows (kind put, patch or delete; images by id) of a lineage's changes up to `at`, in the
    schema of `target`; with `typing` as gold's columns, which the same workers make of them.

    A patch is an image that lacks some column of `whole` and whose earlier image is not among the changes.
    """
    partitions = max(2, rows // ROWS_PER_PARTITION)
    changes = changes.where(F.col("position") <= position_literal(at)).select(*FOLD_COLUMNS)
    netted: DataFrame | None = None
    start = 0
    for end in [*(step - 1 for step in rekeyings(lineage, target)), target]:
        piece = Piece(lineage, start, end, upstream)
        deltas = _of_piece(changes, piece, target).mapInArrow(_carry(piece), DELTAS)
        if netted is not None:
            deltas = deltas.unionByName(netted.where("kind <> 'delete'").mapInArrow(_cross(piece), DELTAS))
        ordered = deltas.repartition(partitions, "key").sortWithinPartitions("key", "position")
        if typing is not None and end == target:
            netted = ordered.mapInArrow(_after(_net(piece, whole), typing.worker), typing.schema)
        else:
            netted = ordered.mapInArrow(_net(piece, whole), NETTED)
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
        from lakehouse.fold.current_rows import Deltas
        from lakehouse.lineage import key_ids
        from lakehouse.spark.change_log.changes import changes_of

        ids = key_ids(piece.lineage, piece.end)
        deltas = Deltas(piece.lineage, piece.end, piece.upstream, ids)
        for batch in batches:
            yield _delta_batch(deltas.of(changes_of(batch)), ids)
        yield _note_batch([NOTE + json.dumps([name, place]) for name, place in deltas.unknown.items()])

    return work


def _cross(piece: Piece) -> Worker:
    """Rows of the piece before, as first images of this one's key."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.current_rows import PUT, Delta
        from lakehouse.fold.upcast import Carrier
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import decode_row

        ids = key_ids(piece.lineage, piece.end)
        move = Carrier(piece.lineage, piece.start - 1, piece.end, "canonical", piece.upstream).move
        for batch in batches:
            kinds, images = batch.column("kind").to_pylist(), batch.column("image").to_pylist()
            yield _note_batch([kind for kind in kinds if kind.startswith(NOTE)])
            rows = (
                move(decode_row(text))
                for kind, text in zip(kinds, images, strict=True)
                if not kind.startswith(NOTE)
            )
            yield _delta_batch((Delta(MIN_POSITION, PUT, row) for row in rows if row is not None), ids)

    return work


def _delta_batch(deltas: Iterable[Any], ids: tuple[int, ...]) -> pa.RecordBatch:
    from lakehouse.fold.current_rows import image_text, row_key
    from lakehouse.spark.gold.fold_job import encode_key, encode_row

    keys, positions, kinds, images = [], [], [], []
    for delta in deltas:
        key = row_key(delta.row, ids) if ids else ()
        if key is None:
            continue
        keys.append(encode_key(key) if ids else image_text(delta.row))
        positions.append(dict(zip(("epoch", "p1", "p2", "p3", "p4", "p5"), delta.position, strict=True)))
        kinds.append(delta.kind)
        images.append(encode_row(delta.row))
    return _deltas((keys, positions, kinds, images))


def _note_batch(notes: list[str]) -> pa.RecordBatch:
    """Notes as deltas; each kind of key has a bracket, so that no row has this one."""
    return _deltas(([NOTE] * len(notes), [None] * len(notes), notes, ["{}"] * len(notes)))


def _deltas(columns: tuple[list[Any], ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(v, f.type) for v, f in zip(columns, _DELTAS, strict=True)], schema=_DELTAS
    )


def _net(piece: Piece, whole: frozenset[int]) -> Worker:
    """Net the deltas of each key. A patch that has every column of `whole` needs no earlier image: it is a
    put.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.lineage import key_ids
        from lakehouse.spark.gold.fold_job import count_group, decode_row, net_group

        net = net_group if key_ids(piece.lineage, piece.end) else count_group
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
    """As many equal rows as were inserted more often than deleted."""
    counts = {"put": 0, "patch": 0, "delete": 0, "refuse": 0}
    image = ""
    for _, kind, text in group:
        counts[kind] += 1
        image = text
    for _ in range(counts["put"] + counts["patch"] - max(0, counts["delete"] - counts["refuse"])):
        yield key, "put", image


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


def unknown_names(kinds: Iterable[str]) -> dict[str, Position]:
    """What notes among the kinds of rows tell of names that no DDL has told: each with the first place it was
    met.
    """
    found: dict[str, Position] = {}
    for name, place in (json.loads(kind.removeprefix(NOTE)) for kind in kinds if kind.startswith(NOTE)):
        found[name] = min(tuple(place), found.get(name, tuple(place)))
    return found


@dataclass(frozen=True, slots=True)
class Seen:
    """What a typed frame holds: the kinds of its rows, notes among them, and the `_raw_` companions that at
    least one row needs.
    """

    kinds: frozenset[str]
    companions: list[str]


def look_over(typed: DataFrame, columns: list[GoldColumn], op: str | None, without: str = "") -> Seen:
    """Look at a typed frame once, which computes it; rows of the kind `without` need no companions."""
    mine = F.lit(True) if op is None else F.col(op) != without
    counts = [F.count(F.when(mine, F.col(f"r{i}"))).alias(f"r{i}") for i in range(len(columns))]
    row = typed.agg(F.collect_set(op if op else F.lit(None).cast("string")).alias("kinds"), *counts).first()
    assert row is not None
    return Seen(
        frozenset(row["kinds"]), [column.companion for i, column in enumerate(columns) if row[f"r{i}"]]
    )


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
