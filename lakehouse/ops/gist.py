"""What runs ask of every batch that the log has, of its plan or of its done record: a record of hundreds of
partitions and tables is not read for it.
"""

import msgspec

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Closing, Done, Planned


class Gist(msgspec.Struct, frozen=True, kw_only=True):
    """`again` and `whole` are of a plan, `requeued` is of a done record."""

    batch: int
    again: bool = False
    whole: bool = False
    requeued: Closing | None = None


def decode_gist(kind: str, text: str) -> Gist:
    """The gist of a plan or a done record that is stored as `text`; LakehouseError where it is none."""
    try:
        return msgspec.json.decode(text, type=Gist)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LakehouseError(f"ops log: expected a record of kind {kind}, got: {error}") from error


def gist_of(record: Record) -> Gist:
    """The gist of a plan or a done record."""
    if isinstance(record, Planned):
        return Gist(batch=record.batch, again=record.again, whole=record.whole)
    assert isinstance(record, Done)
    return Gist(batch=record.batch, requeued=record.requeued)
