"""From what a source did to what a consumer sees: dispatched to partitions, batched, replayed, interleaved.

    plan = Feed(history.events, random, partitions, dispatcher)   messages per partition, resolved events
                                                                  and DDL on all of them
    plan.restart(…)                                               a replay from a checkpoint, cut differently
    plan.arrival(random)                                          an order in which a consumer may read them

Order within a partition is kept always: it is what Kafka promises, and all that it promises.
"""

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.events import Message
from tests.support.encode_open import Wire, encode, message

Event = dict[str, Any]
Messages = list[list[Event]]
DISPATCHERS = ("table", "index-value", "ts")


def dispatch(event: Event, dispatcher: str, partitions: int) -> int:
    """The partition of a row."""
    place = f"{event['schema']}.{event['table']}"
    if dispatcher == "ts":
        return int(event["commit_ts"] % partitions)
    if dispatcher == "index-value":
        shape, image = event["shape"], event.get("after") or event["before"]
        names = [column.name for column in shape.columns if column.id in shape.handle_key]
        place += "".join(f"{name}={image[name]['value']}" for name in names)
    return zlib.crc32(place.encode()) % partitions


def partitioned(
    events: Sequence[Event], chance: random.Random, partitions: int, dispatcher: str, after: int = 0
) -> list[Messages]:
    """The messages of each partition for the events above `after`; resolved events come now and then, and at
    the end.
    """
    out: list[Messages] = [[] for _ in range(partitions)]
    open_rows: list[list[Event]] = [[] for _ in range(partitions)]
    size = chance.choice((1, 3, 16))

    def flush() -> None:
        for messages, rows in zip(out, open_rows, strict=True):
            while rows:
                count = chance.randint(1, size)
                messages.append(rows[:count])
                del rows[:count]

    def broadcast(event: Event) -> None:
        flush()
        for messages in out:
            messages.append([event])

    last = None
    for event in events:
        if (
            last is not None
            and event["commit_ts"] > last["commit_ts"]
            and last["commit_ts"] >= after
            and chance.random() < 0.3
        ):
            broadcast({"kind": "resolved", "commit_ts": last["commit_ts"]})
        if event["commit_ts"] > after and event["kind"] == "ddl":
            broadcast(event)
        elif event["commit_ts"] > after:
            open_rows[dispatch(event, dispatcher, partitions)].append(event)
        last = event
    if last is not None:
        broadcast({"kind": "resolved", "commit_ts": last["commit_ts"]})
    return out


class Feed:
    """The sequences of the partitions, as Kafka holds them in the end."""

    def __init__(
        self,
        events: Sequence[Event],
        chance: random.Random,
        partitions: int,
        dispatcher: str,
        wire: Wire = Wire(),
    ) -> None:
        self.events, self.chance, self.partitions, self.dispatcher, self.wire = (
            events,
            chance,
            partitions,
            dispatcher,
            wire,
        )
        self.sequences = self._sent(0)

    def _sent(self, after: int) -> list[Messages]:
        return partitioned(self.events, self.chance, self.partitions, self.dispatcher, after)

    def restart(self, *, at_resolved: bool, losing: bool = False) -> "Feed":
        """The changefeed crashed somewhere and began again from a checkpoint: what it sent before stands,
        then comes a replay.

        `at_resolved` crashes each partition right after a resolved event. `losing` leaves some messages above
        the checkpoint undelivered before the crash, so that what follows them comes before and after them (B
        A B); a producer that waits for them has promised nothing above the checkpoint.
        """
        checkpoint = self.chance.choice([0, *sorted({event["commit_ts"] for event in self.events})])
        replay = self._sent(checkpoint)
        for index, sequence in enumerate(self.sequences):
            kept = sequence[: self._cut(sequence, checkpoint, at_resolved=at_resolved)]
            if losing:
                kept = [
                    events
                    for events in kept
                    if _low(events) <= checkpoint
                    or (events[0]["kind"] != "resolved" and self.chance.random() < 0.6)
                ]
            self.sequences[index] = kept + replay[index]
        return self

    def _cut(self, sequence: Messages, checkpoint: int, *, at_resolved: bool) -> int:
        """How much of a partition was sent before the crash: at least all that the checkpoint vouches for."""
        least = max(
            (number + 1 for number, events in enumerate(sequence) if _low(events) <= checkpoint), default=0
        )
        places = [
            n
            for n in range(least, len(sequence) + 1)
            if not at_resolved or n == 0 or sequence[n - 1][0]["kind"] == "resolved"
        ]
        return self.chance.choice(places)

    def repeat(self) -> "Feed":
        """Some messages are there twice in a row, as a retrying producer writes them."""
        self.sequences = [
            [m for m in sequence for _ in range(self.chance.choice((1, 1, 1, 2)))]
            for sequence in self.sequences
        ]
        return self

    def arrival(self, chance: random.Random, topic: str = "t") -> list[Message]:
        """All messages in one order that keeps the order within each partition."""
        left = [list(enumerate(sequence)) for sequence in self.sequences]
        out = []
        while any(left):
            partition = chance.choice([number for number, sequence in enumerate(left) if sequence])
            for _ in range(min(chance.choice((1, 2, 8)), len(left[partition]))):
                offset, events = left[partition].pop(0)
                out.append(
                    message(
                        [encode(event, event.get("shape"), self.wire) for event in events],
                        topic,
                        partition,
                        offset,
                    )
                )
        return out

    def arrival_of(
        self, chance: random.Random, write: Callable[[Event], tuple[bytes | None, bytes]], *, one_ddl: bool
    ) -> list[Message]:
        """The same for a protocol with one event a message; `one_ddl` says that statements go to partition 0
        alone.
        """
        left = [
            [
                event
                for events in sequence
                for event in events
                if event["kind"] != "ddl" or not one_ddl or partition == 0
            ]
            for partition, sequence in enumerate(self.sequences)
        ]
        offsets = [0] * len(left)
        out = []
        while any(left):
            partition = chance.choice([number for number, sequence in enumerate(left) if sequence])
            for event in left[partition][: (count := chance.choice((1, 2, 8)))]:
                out.append(Message("t", partition, offsets[partition], *write(event)))
                offsets[partition] += 1
            del left[partition][:count]
        return out


def _low(events: list[Event]) -> int:
    return min(event["commit_ts"] for event in events)
