"""Detects rows of a transaction whose positions do not rise with their numbers in it: several row events then
share one place of the binlog, which no setting of the source has said.

Both a row's number in its transaction and its position rise from row to row. A restarted connector goes back,
in both. So a greater number at an equal or lower position shows a compressed transaction, or one of a
MariaDB that writes no places into row events (binlog_legacy_event_pos=OFF): its row events have
one place and count their rows from 0 each: rows may have been taken for one, or be out of order.
"""

from collections.abc import Sequence

from lakehouse.events import DeadLetter, Message, Position, RowChange, Stored

_FLAG = "tx="
SHARED_PLACE = (
    "row: expected a place above that of the row before it in its transaction, got one that is not: where "
    "the source compresses its binlog, or is a MariaDB with binlog_legacy_event_pos=OFF, say so in the "
    "source's options (binlog_transaction_compression)"
)


class TransactionOrder:
    """The last row of each partition that names its transaction, in the order of the partition's records."""

    def __init__(self) -> None:
        # the record's offset, the flag without the row's number, that number, the position
        self._last: dict[tuple[str, int], tuple[int, str, int, Position]] = {}

    def checked(self, message: Message, events: Sequence[Stored]) -> Sequence[Stored]:
        """A record's events, and a dead letter of its table where its row shows a shared place."""
        for event in events:
            if type(event) is not RowChange or event.op == "snapshot":
                continue
            for flag in event.flags:
                if flag.startswith(_FLAG) and self._shares(message, flag, event.position):
                    place = {"database": event.database, "table": event.table}
                    return [*events, DeadLetter("position", SHARED_PLACE, len(events), **place)]
        return events

    def _shares(self, message: Message, flag: str, position: Position) -> bool:
        """Whether a row is not above the one before it, whose number in their transaction is lower."""
        transaction, _, text = flag.rpartition(";")
        offset, number, key = message.offset, int(text), (message.topic, message.partition)
        last, self._last[key] = self._last.get(key), (offset, transaction, number, position)
        return (
            last is not None
            and last[1] == transaction
            and last[0] < offset
            and last[2] < number
            and last[3] >= position
        )
