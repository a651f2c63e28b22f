"""Redelivery in a feed in order of arrival: which messages after a restart were sent before, by comparing
them with the earlier ones.

Such messages carry no place in a log, so nothing of theirs says that they are repeated. But a restarted feed
goes back to where its cursor was saved and sends all from there on once more, message by message, before
anything new, and there a number falls: Canal counts its batches (`id`) from 1 anew, TiCDC without its
extension has only the commit time (`es`), which falls between tables too. Where it does, messages are
compared with the run that had come before, without what differs by nature (`id`, `ts`), and without types
and key, which another Canal of a cluster has from SHOW CREATE TABLE (`int` where a statement said `INT`):
while they go on as that run did they are copies, statements too. The first that does not is new. For `es` it
takes two in a row.

A Canal that falls behind sends all that it owes as one batch. So a second restart in a row, or one within the
very first batch, shows no fall: number 1 follows number 1. The messages of a batch are made within
milliseconds (`ts`), a restart takes seconds. A number that falls within a second, and not to the first of
all, is another Canal's, which sends to the same topic and has a count of its own.

Where more than one place of the run fits, all are followed. A replay that leaves the run before its end is
*broken*: what was equal until then is a copy, what follows is new, and it is counted, for its rows may show
the past again.

`es` never falls within a table, but a replay may mix tables otherwise than before, or be recognised in its
middle alone. Where a table's last message that was taken as new has a lower `es`, its rows are back in the
past: a message of it that is equal to an earlier one is taken as new too, or they would stay there.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from lakehouse.events import Message
from lakehouse.formats import FORMATS
from lakehouse.formats.row import Redelivery

_DIFFERS = ("id", "ts", "mysqlType", "sqlType", "pkNames")
_PAUSE = 1000
# of a Canal that has begun again (MemoryClientIdentityBatch of alibaba/canal), which an instance that is
# loaded anew may do within the second
_FIRST = 1
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def rule_of(format: str, order: str) -> Redelivery | None:
    """The rule by which a feed's replays are recognised; None where positions identify changes."""
    return FORMATS[format].redelivery if order == "arrival" else None


class Sent(NamedTuple):
    """The parts of a message that are compared: its number, a hash of everything that a replay does not
    change, the time at which it was made, and its table.
    """

    number: int | None
    mark: bytes
    made: int | None = None
    table: str = ""


def sent(message: Message, rule: Redelivery) -> Sent:
    """A JSON message; bytes that are none are compared as they are, and have no number."""
    value = message.value or b""
    made, table = None, ""
    try:
        members = _decode(value)
        number = msgspec.json.decode(members[rule.number], type=int)
        made = _milliseconds(members.get(rule.made or ""))
        table = ".".join(bytes(members.get(name, b"")).decode() for name in ("database", "table"))
        value = _encode({name: raw for name, raw in members.items() if name not in _DIFFERS})
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        number = None
    return Sent(number, hashlib.blake2b(value, digest_size=12).digest(), made, table)


def _milliseconds(raw: Any) -> int | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=int)
    except msgspec.DecodeError:
        return None


def restarted(before: tuple[int | None, int | None], number: int | None, made: int | None) -> bool:
    """Whether a feed may have begun again between two messages, each told by its number and when it
    was made.
    """
    if number is None or before[0] is None or number > before[0]:
        return False
    if made is None or before[1] is None:
        return number < before[0]
    pause = made - before[1]  # below zero where another machine's clock is behind
    return pause >= _PAUSE or (number < before[0] and (pause < 0 or number == _FIRST))


def starts_of(messages: Iterable[Sent], before: tuple[int | None, int | None]) -> frozenset[bytes]:
    """The marks of the messages with which a feed may have begun again, behind a message that is told by its
    number and when it was made.
    """
    found = set()
    for message in messages:
        if restarted(before, message.number, message.made):
            found.add(message.mark)
        before = before if message.number is None else (message.number, message.made)
    return frozenset(found)


class Aligner:
    """One partition's messages in order. `broken` counts replays that left the run before its end."""

    def __init__(self, rule: Redelivery) -> None:
        self.run: list[bytes] = []
        self.last: tuple[int | None, int | None] = (None, None)
        self.broken = 0
        self._least, self._by_table = rule.least, rule.by_table
        # by table: the number of the last message that was taken as new, and the one from which it went back
        self._last_of: dict[str, int] = {}
        self._back_from: dict[str, int] = {}
        self._at: list[int] = []  # the places of the run that the next message may be a copy of

    @property
    def is_replaying(self) -> bool:
        """Whether a replay is under way that has not come to the run's end."""
        return bool(self._at) and self._at[0] < len(self.run)

    def copies(self, messages: Sequence[Sent]) -> list[bool]:
        """For each of the next messages, whether it was sent before."""
        return [
            self._is_copy(message, messages[place + 1 :][: self._least - 1])
            for place, message in enumerate(messages)
        ]

    def _is_copy(self, message: Sent, following: Sequence[Sent]) -> bool:
        begins_again = restarted(self.last, message.number, message.made)
        self.last = self.last if message.number is None else (message.number, message.made)
        before, end = self._at, len(self.run)
        self._at = [place + 1 for place in before if place < end and self.run[place] == message.mark]
        if begins_again:
            self._at = sorted({*self._at, *self._begun([message, *following])})
        if self._at and not self._is_ahead(message):
            return True
        self.broken += bool(self._at) or (bool(before) and end not in before)
        self._at = []
        self.run.append(message.mark)
        if self._by_table and message.number is not None:
            self._take(message.table, message.number)
        return False

    def _take(self, table: str, number: int) -> None:
        """Note the number of a new message. A table that went back stays so until it is above where it was:
        the messages of one transaction have one number.
        """
        last = self._last_of.get(table, number)
        high = self._back_from.pop(table, last if number < last else None)
        if high is not None and number <= high:
            self._back_from[table] = high
        self._last_of[table] = number

    def _is_ahead(self, message: Sent) -> bool:
        """Whether the rows of the message's table are back at what was before it."""
        number, last = message.number, self._last_of.get(message.table)
        if not self._by_table or number is None or last is None:
            return False
        return last < number or (last == number and message.table in self._back_from)

    def _begun(self, messages: Sequence[Sent]) -> list[int]:
        """Behind each place of the run from which on it has these messages."""
        marks = [message.mark for message in messages]
        return [
            place + 1
            for place, mark in enumerate(self.run)
            if mark == marks[0] and self.run[place : place + len(marks)] == marks
        ]
