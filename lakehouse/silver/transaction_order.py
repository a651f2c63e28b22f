"""Detects rows of a transaction whose positions do not rise with their numbers in it: several row events then
share one place of the binlog, which no setting of the source has said.

Both a row's number in its transaction and its position rise from row to row. A restarted connector goes back,
in both. So a greater number at an equal or lower position shows a compressed transaction, whose row events
have one place and count their rows from 0 each: rows may have been taken for one, or be out of order.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lakehouse.events import DeadLetter, Message, Position, RowChange, Stored

_FLAG = "tx="
SHARED_PLACE = (
    "row: expected a place above that of the row before it in its transaction, got one that is not: where "
    "the source compresses its binlog, say so in the source's options"
)


class _Last(NamedTuple):
    offset: int
    transaction: str
    number: int
    position: Position


class TransactionOrder:
    """The last row of each table of a partition, in the order of the partition's records."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, ...], _Last] = {}

    def checked(self, message: Message, events: Sequence[Stored]) -> Sequence[Stored]:
        """A record's events, and a dead letter of its table where its row shows a shared place."""
        letters: list[Stored] = []
        for event in events:
            if type(event) is not RowChange or event.op == "snapshot":
                continue
            flag = next((flag for flag in event.flags if flag.startswith(_FLAG)), None)
            if flag is None:
                continue
            transaction, _, number = flag.rpartition(";")
            now = _Last(message.offset, transaction, int(number), event.position)
            key = (message.topic, message.incarnation, message.partition, event.database, event.table)
            last, self._last[key] = self._last.get(key), now
            if last is not None and _shares(last, now):
                place = {"database": event.database, "table": event.table}
                letters.append(DeadLetter("position", SHARED_PLACE, len(events), **place))
        return [*events, *letters[:1]] if letters else events


def _shares(last: _Last, now: _Last) -> bool:
    return (
        now.offset > last.offset
        and now.transaction == last.transaction
        and now.number > last.number
        and now.position <= last.position
    )
