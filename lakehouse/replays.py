"""What a feed in order of arrival sends again after a restart: told by laying it beside what it had sent before.

Such messages carry no place in a log, so nothing of theirs says that they are repeated. But a restarted Canal counts its batches from 1
anew, goes back to where its cursor was saved, and sends all from there on once more, message by message, before anything new. So where
the count falls, messages are compared with the run that had come before, without what differs by nature (`id`, `ts`): while they go on
as that run did they are copies, statements too. The first that does not is new.

Where more than one place of the run fits, all are followed. A replay that leaves the run before its end is *broken*: what was equal until
then is a copy, what follows is new, and it is counted, for its rows may show the past again.
"""

import hashlib
from typing import NamedTuple

import msgspec

from lakehouse.events import Message

_DIFFERS = ("id", "ts")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


class Sent(NamedTuple):
    """What of a message is compared: its batch number, and a hash of all that a replay does not change."""

    number: int | None
    mark: bytes


def sent(message: Message) -> Sent:
    """Canal's FlatMessage; bytes that are none are compared as they are, and count nothing."""
    value = message.value or b""
    try:
        members = _decode(value)
        number = msgspec.json.decode(members["id"], type=int)
        value = _encode({name: raw for name, raw in members.items() if name not in _DIFFERS})
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        number = None
    return Sent(number, hashlib.blake2b(value, digest_size=12).digest())


def replays_itself(format: str) -> bool:
    """Whether a feed sends again after a restart without a place by which silver could tell."""
    return format == "canal"


class Aligner:
    """One partition's messages in order. `broken` counts replays that left the run before its end."""

    def __init__(self) -> None:
        self.run: list[bytes] = []
        self.last: int | None = None
        self.broken = 0
        self._at: list[int] = []  # the places of the run that the next message may be a copy of

    @property
    def is_replaying(self) -> bool:
        """Whether a replay is under way that has not come to the run's end."""
        return bool(self._at) and self._at[0] < len(self.run)

    def is_copy(self, message: Sent) -> bool:
        """Whether the next message was sent before."""
        fell = message.number is not None and self.last is not None and message.number < self.last
        self.last = self.last if message.number is None else message.number
        if fell:
            self._at = list(range(len(self.run)))
        elif not self._at:
            self.run.append(message.mark)
            return False
        following = [place + 1 for place in self._at if place < len(self.run) and self.run[place] == message.mark]
        self.broken += not following and not fell and len(self.run) not in self._at
        self._at = following
        if not following:
            self.run.append(message.mark)
        return bool(following)
