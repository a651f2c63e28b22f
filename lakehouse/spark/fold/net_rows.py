"""The outcome of each key's deltas, which come in position order."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any
from zlib import crc32

import pyarrow as pa

from lakehouse.fold.row_edits import ONE_KEY, image_text
from lakehouse.fold.upcast import RowMover
from lakehouse.spark.arrow import OUT_ROWS, Metered, Worker
from lakehouse.spark.fold.deltas import CARRIED, INSERTS, Netted, Piece, decode_row, encode_row, netted_batch
from lakehouse.spark.fold.notes import NOTE, ODD, SHORT, is_problem, note

Told = tuple[str, str, str, int, str | None]


def net_worker(piece: Piece, whole: frozenset[int]) -> Worker:
    """Net the deltas of each key. A patch that has every column of `whole` needs no earlier image: it is a
    put.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.fold.upcast import RowMover
        from lakehouse.lineage import key_ids
        from lakehouse.spark.fold.deltas import decode_row
        from lakehouse.spark.fold.net_rows import count_group, net_group

        keyed, mover = bool(key_ids(piece.lineage, piece.end)), RowMover(piece.lineage, piece.upstream)
        begun, cleared = piece.begun, piece.cleared
        out, read = list[Netted](), Metered(batches)
        for key, group in groupby(_told(read), key=itemgetter(0)):
            if key == NOTE:
                found: Iterable[Netted] = {
                    (NOTE, kind, "{}")
                    for _, kind, _, step, _ in group
                    if step >= cleared or not is_problem(kind)
                }
            elif keyed:
                found = net_group(key, group, mover, piece.end, begun=begun, cleared=cleared)
            else:
                found = count_group(key, group, ordered=piece.ordered)
            for name, kind, image in found:
                settled = "put" if kind == "patch" and whole <= decode_row(image).keys() else kind
                out.append((name, settled, image))
            if len(out) >= OUT_ROWS or read.take_much():
                yield netted_batch(out)
                out = []
        yield netted_batch(out)

    return work


def _told(batches: Iterable[pa.RecordBatch]) -> Iterator[Told]:
    for batch in batches:
        names = ("key", "kind", "image", "step", "hint")
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def net_group(
    key: str,
    group: Iterable[Told],
    mover: RowMover,
    end: int,
    *,
    begun: frozenset[int],
    cleared: int,
    start: tuple[str, str] = ("", ""),
) -> Iterator[Netted]:
    """One outcome for the changes of one key, which come in position order, in the schema of the step `end`;
    and notes of what could not be decided of the row, and that a change looks odd. `begun` and `cleared` as
    in Piece; `start` is the outcome of earlier changes, kind and image, in the schema of `end`.
    """
    (kind, image), at, odd, refused, carried = start, end, False, False, False
    for told in group:
        _, following, text, step, hint = told
        if hint == CARRIED and carried:
            yield from [(NOTE, note(ONE_KEY), "{}")] if step >= cleared else []
            text = max(image, text, key=lambda row: image_text(decode_row(row)))
        carried = carried or hint == CARRIED
        # of a row that was carried over a cut nothing is known
        odd = odd or refused or is_odd(kind if at == step else "", image, told, begun)
        if following == "refuse":
            refused = True
            continue
        if kind in ("put", "patch") and at < step:
            kind, image, notes = _moved_image(mover, (kind, image), at, step=step)
            yield from notes if step >= cleared else ()
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


def count_group(key: str, group: Iterable[Told], *, ordered: bool) -> Iterator[Netted]:
    """As many equal rows as were inserted more often than deleted, one stretch after another; a note where it
    is the other way round in one: what comes behind it is another row. So it is behind each delete where
    positions are the source's own order.
    """
    left, short, image = 0, 0, ""
    for _, told in groupby(group, key=itemgetter(3)):
        refused = owed = 0
        for _, kind, text, *_ in told:
            image = text
            if kind == "refuse":
                refused += 1
            elif kind != "delete":
                left += 1
            elif refused:
                refused -= 1
            elif left:
                left -= 1
            else:
                owed += 1
        if not ordered:
            owed -= min(owed, refused)
            owed, left = max(0, owed - left), max(0, left - owed)
        short += owed
    if short:
        yield NOTE, note(SHORT), "{}"
    for _ in range(left):
        yield key, "put", image
