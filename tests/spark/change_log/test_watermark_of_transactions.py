"""The watermark of a Debezium feed while bronze, silver and gold run beside each other and die: it passes no
row, statement or snapshot that silver has not read, and comes to the end. No session: the log is in memory.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lakehouse.events import MIN_POSITION, Position
from lakehouse.ops.progress import Counts, Mark, NextOffset
from lakehouse.ops.records.bronze import Partitions, Read
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.transaction_watermark import TransactionEvents, advance, waits
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_offsets import (
    advanced,
    backlog,
    begun,
    counted_partitions,
    first_offsets,
    has_more,
    joined,
    reading_of,
)
from lakehouse.spark.change_log.watermark import source_watermark
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.done_record import WHOLE_SOURCE

TOPICS = ("a", "b", "schema", "transactions")


class Sent(NamedTuple):
    """A record: `kind` is ddl, row, end, or how a row of a snapshot is marked; `n` a row's number, or how
    many rows an END counts.
    """

    kind: str
    position: Position
    id: str = ""
    n: int = 0


class Feed:
    """What a connector has sent, and what layers have of it."""

    def __init__(self, seed: int) -> None:
        self.chance, self.number = random.Random(seed), 0
        self.sent: dict[str, list[Sent]] = {topic: [] for topic in TOPICS}
        self.landed = dict.fromkeys(TOPICS, 0)
        self.log = OpsLog(None, None, "s")  # type: ignore[arg-type]  # neither is asked

    def add(self, *records: Record) -> None:
        for one in records:
            self.log.records.append(self.log._logged(one, len(self.log.records) + 1))

    def send(self) -> None:
        """A statement, a snapshot of a few rows, or a transaction."""
        self.number += 1
        what, place = self.chance.random(), 10 * self.number
        topics = self.chance.choices("ab", k=self.chance.randint(2, 5))
        if what < 0.2:
            self.sent["schema"].append(Sent("ddl", (0, 1, place, 1, 0, 0)))
        elif what < 0.3:
            marks = ["first", *["true"] * (len(topics) - 2), "last"]
            for n, (topic, mark) in enumerate(zip(topics, marks, strict=True)):
                self.sent[topic].append(Sent(mark, (0, 1, place, 0, 0, n)))
        else:
            for n, topic in enumerate(topics, 1):
                self.sent[topic].append(Sent("row", (0, 1, place, 1, n, 1), f"u:{self.number}", n))
            end = Sent("end", (0, 2**63 - 1, 0, 1, 0, 0), f"u:{self.number}", len(topics))
            self.sent["transactions"].append(end)

    def bronze(self) -> Iterator[None]:
        """A pass over the topics, as lakehouse/spark/bronze/kafka.py makes it; it may die at each step."""
        topics = [Topic(name, name, {0: (0, len(sent))}) for name, sent in self.sent.items()]
        yield
        known = reading_of(self.log.last(Read))
        first = first_offsets("earliest", topics)
        reading = begun(None, topics, {}, first) if known is None else joined(known, topics)
        if known is None:
            self.add(Partitions(listed=counted_partitions(topics, None)), reading.record())
        yield
        if backlog(reading, topics):
            ends = {topic: len(sent) for topic, sent in self.sent.items()}
            while any(self.landed[topic] < end for topic, end in ends.items()):
                for topic, end in ends.items():
                    self.landed[topic] = min(end, self.landed[topic] + self.chance.randint(0, 4))
                yield
            self.add(advanced(reading, {(topic, 0): end for topic, end in ends.items()}, 1).record())

    def silver(self, most: int | None = None) -> bool:
        """A batch of at most so many records of all that bronze has, the same share of each topic; whether
        there was one.
        """
        done, most = self.log.last(Done), most or self.chance.choice((2, 5, 100))
        before = {one.topic: one.offset for one in (done.next if done else ())}
        left = {topic: end - before.get(topic, 0) for topic, end in self.landed.items()}
        share = min(1.0, most / max(sum(left.values()), 1))
        taken = {topic: math.ceil(number * share) for topic, number in left.items() if number}
        ends = {**before, **{topic: before.get(topic, 0) + number for topic, number in taken.items()}}
        following = tuple(NextOffset(topic, topic, 0, end) for topic, end in sorted(ends.items()))
        reading, known = reading_of(self.log.last(Read)), done.transactions if done else None
        whole = share == 1.0 and (reading is None or not has_more(following, reading))
        if not taken and not (whole and waits(known, looked=False)):
            return False
        batch = self.sent[TOPICS[0]][:0]
        for topic, end in ends.items():
            batch += self.sent[topic][before.get(topic, 0) : end]
        state, number = advance(known, told(batch), complete=whole), done.batch + 1 if done else 1
        self.add(Planned(batch=number, generation="g", small=True, ranges=(), whole=whole))
        self.add(
            Done(
                batch=number,
                counts=Counts(),
                top=None,
                reach=None,
                next=following,
                marks=(Mark("", WHOLE_SOURCE, state.whole),) if state.whole else (),
                dead=(),
                tables=(),
                transactions=state,
            )
        )
        return True

    def gold(self) -> Position:
        """The published watermark; AssertionError where silver has not read all that lies below it."""
        done, last = self.log.last(Done), self.log.last(Manifest)
        if done is None:
            return MIN_POSITION
        before = MIN_POSITION if last is None else last.watermark
        watermark = max(before, source_watermark(done, self.log)[0])
        read = {one.topic: one.offset for one in done.next}
        for topic, sent in self.sent.items():
            for one in sent[read.get(topic, 0) :]:
                assert one.position > watermark, (topic, one)
        self.add(Manifest(batch=done.batch, watermark=watermark, consistency="resolved", tables=()))
        return watermark


def told(batch: list[Sent]) -> TransactionEvents:
    found = TransactionEvents()
    for kind, position, id_, n in batch:
        if kind == "ddl":
            found.ddls.add(position)
        elif kind == "row":
            found.row((f"tx={id_};{n}",), position)
        elif kind == "end":
            found.end(id_, n, position)
        else:
            found.row((f"snapshot={kind}",), position)
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_watermark_passes_nothing_that_is_not_read_whatever_runs_beside_and_dies(seed: int) -> None:
    feed = Feed(seed)
    for _ in range(feed.chance.randint(2, 5)):
        for _ in feed.bronze():
            if feed.chance.random() < 0.05:
                break
            for _ in range(feed.chance.randint(0, 4)):
                feed.chance.choice((feed.send, feed.silver, feed.gold))()

    for _ in range(3):
        feed.sent["transactions"].append(Sent("end", (0, 2**63 - 1, 0, 1, 0, 0), "u:0"))
        for _ in feed.bronze():
            pass
        while feed.silver(most=1_000):
            pass
    positions = [one.position for sent in feed.sent.values() for one in sent if one.kind != "end"]
    assert feed.gold() >= max(positions, default=MIN_POSITION)
