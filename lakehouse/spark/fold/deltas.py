"""Changes as deltas by key: what each puts, patches or deletes, its image as JSON by column id."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import MIN_POSITION, position_struct
from lakehouse.fold.continuity import begun_at
from lakehouse.fold.row_edits import NO_KEY, Change, RowEdit
from lakehouse.fold.steps import clears, cuts
from lakehouse.fold.upcast import RowMover, Upstream
from lakehouse.lineage import Lineage, StepIndex, key_ids
from lakehouse.spark.arrow import OUT_BYTES, OUT_ROWS, Worker, rows_batch
from lakehouse.spark.column_types import columns as parse_columns
from lakehouse.spark.fold.notes import NOTE, SHORT, note
from lakehouse.spark.silver.columns import POSITION

DELTAS = f"key string, position {POSITION}, kind string, image string, step int, hint string"
NETTED = "key string, kind string, image string"
INSERTS, CARRIED = "insert", "carried"
_encode, _decode_row = msgspec.json.Encoder().encode, msgspec.json.Decoder(dict[int, Any]).decode
_DELTAS = to_arrow_schema(parse_columns(DELTAS))
_NETTED = to_arrow_schema(parse_columns(NETTED))
Netted = tuple[str, str, str]


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
    def ordered(self) -> bool:
        """Whether positions are the order in which the source made its changes, and no change is lacking."""
        return self.whole and self.upstream.continuity.rows

    @property
    def stretches(self) -> list[int]:
        """The last steps of its stretches, within which DDL is applied to images."""
        found = cuts(self.lineage, self.end, self.upstream)
        return [*(step - 1 for step in found if step > self.start), self.end]

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        """The first and the last step of each stretch."""
        return list(zip([self.start, *(end + 1 for end in self.stretches)], self.stretches, strict=False))

    @property
    def begun(self) -> frozenset[int]:
        """The last steps of the stretches before which the table is known to have been empty."""
        return frozenset(
            end
            for start, end in self._bounds
            if begun_at(self.lineage, start, end, whole=self.whole) is not None
        )

    @property
    def cleared(self) -> int:
        """The last step of the last stretch that empties the table, which mends what it lacked in those
        before; -1 where none does.
        """
        return max((end for start, end in self._bounds if clears(self.lineage, start, end)), default=-1)


def carry_worker(piece: Piece) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.row_edits import ChangeReader
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.change_log.changes import changes_of
        from lakehouse.spark.fold.deltas import by_stretch, deltas_of

        ids = key_ids(piece.lineage, piece.end)
        readers = {end: ChangeReader(piece.lineage, end, piece.upstream, ids) for end in piece.stretches}
        mover = RowMover(piece.lineage, piece.upstream)
        for batch in batches:
            for end, changes in by_stretch(piece, changes_of(batch)).items():
                found = readers[end].read(changes)
                yield _delta_batch(deltas_of(piece, mover, found.edits, end), ids)
                notes = [note(name, place) for name, place in found.unknown.items()]
                yield _note_batch([*notes, *map(note, sorted(found.problems))], end)

    return work


class Delta(NamedTuple):
    """An edit, and the last step of its stretch, whose schema its row has, but for a row without a key: that
    has the schema of the piece's end. `short`: what it means, only all rows tell.
    """

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


def deltas_of(piece: Piece, mover: RowMover, edits: Iterable[RowEdit], end: int) -> Iterator[Delta]:
    """The deltas of edits in the schema of a stretch's `end`. Those of rows without a key are taken on to the
    piece's end: there an image that is whole is its row.
    """
    if end == piece.end or key_ids(piece.lineage, piece.end):
        yield from (Delta(edit, end) for edit in edits)
        return
    for edit in edits:
        moved = mover.move(dict(edit.row), end, piece.end)
        if moved.row is not None:
            yield Delta(edit._replace(row=moved.row), end, bool(moved.lost))


def cross_worker(piece: Piece) -> Worker:
    """Rows of the piece before, as first images of this one's key."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.row_edits import PUT, RowEdit
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.fold.deltas import decode_row, deltas_of

        ids, end = key_ids(piece.lineage, piece.end), piece.stretches[0]
        mover = RowMover(piece.lineage, piece.upstream)
        for batch in batches:
            kinds, images = batch.column("kind").to_pylist(), batch.column("image").to_pylist()
            moved = [
                mover.move(decode_row(text), piece.start - 1, end)
                for kind, text in zip(kinds, images, strict=True)
                if not kind.startswith(NOTE)
            ]
            yield _note_batch(sorted({kind for kind in kinds if kind.startswith(NOTE)}), piece.start - 1)
            yield _note_batch(sorted({note(text) for each in moved for text in each.lost}), end)
            rows = (each.row for each in moved if each.row is not None)
            edits = (RowEdit(MIN_POSITION, PUT, row, CARRIED) for row in rows)
            yield _delta_batch(deltas_of(piece, mover, edits, end), ids)

    return work


def _delta_batch(deltas: Iterable[Delta], ids: tuple[int, ...]) -> pa.RecordBatch:
    from lakehouse.fold.row_edits import image_text, row_key
    from lakehouse.spark.fold.deltas import encode_key, encode_row, hint_of

    found: list[tuple[Any, ...]] = []
    for edit, step, short in deltas:
        key = row_key(edit.row, ids) if ids else ()
        if key is None or short or edit.old is not None:
            found.append((NOTE, None, note(NO_KEY if key is None else SHORT), "{}", step, None))
            continue
        text = encode_key(key) if ids else image_text(edit.row)
        position = position_struct(edit.position)
        found.append((text, position, edit.kind, encode_row(edit.row), step, hint_of(edit)))
    return rows_batch(found, _DELTAS)


def hint_of(edit: RowEdit) -> str | None:
    """What an edit says of the row before it, beside its kind: that there was none, or a checksum of it; or
    that it is no change, but a row of before.
    """
    if edit.before is not None:
        return str(crc32(_encode(edit.before)))
    return edit.op if edit.op in (INSERTS, CARRIED) else None


def _note_batch(notes: list[str], step: int) -> pa.RecordBatch:
    """Notes of a stretch, which ends at a step, as deltas; each kind of key has a bracket, so that no row has
    this one.
    """
    return rows_batch([(NOTE, None, kind, "{}", step, None) for kind in notes], _DELTAS)


def netted_batch(rows: list[Netted]) -> pa.RecordBatch:
    """Rows as a batch of NETTED."""
    return rows_batch(rows, _NETTED)


def chunked(rows: Iterable[Netted]) -> Iterator[list[Netted]]:
    """Lists of OUT_ROWS, or of fewer whose images have OUT_BYTES; an empty one at the end where none is
    left.
    """
    chunk, size = list[Netted](), 0
    for row in rows:
        chunk.append(row)
        size += len(row[2])
        if len(chunk) == OUT_ROWS or size >= OUT_BYTES:
            yield chunk
            chunk, size = [], 0
    yield chunk


def encode_row(row: dict[int, Any]) -> str:
    return _encode(row).decode()


def decode_row(text: str) -> dict[int, Any]:
    return _decode_row(text)


def encode_key(key: tuple[Any, ...]) -> str:
    return _encode(key).decode()
