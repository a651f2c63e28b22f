"""The watermark of a TiCDC feed while topics come up, and bronze, silver and gold run beside each other and
die: it passes no row that silver lacks, and comes to the end. No session: the log is in memory.
"""

import random
from collections.abc import Iterator

import pytest

from lakehouse.events import MIN_POSITION, Position
from lakehouse.ops.progress import Counts, Mark, NextOffset, Partition
from lakehouse.ops.records.bronze import Partitions, Read
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Retired
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_offsets import (
    advanced,
    backlog,
    begun,
    counted_partitions,
    first_offsets,
    joined,
    reading_of,
)
from lakehouse.spark.change_log.watermark import left_open, source_watermark
from lakehouse.spark.ops.log import OpsLog


def at(ts: int) -> Position:
    return (0, ts, 2, 0, 0, 0)


class Feed:
    """Topics with rows (True) and watermarks (False) at growing times, and what layers have of them."""

    def __init__(self, seed: int) -> None:
        self.chance, self.time = random.Random(seed), 0
        self.sent: dict[Partition, list[tuple[bool, int]]] = {}
        self.landed: dict[Partition, int] = {}
        self.log = OpsLog(None, None, "s")  # type: ignore[arg-type]  # neither is asked
        self.new_topic()

    def add(self, *records: Record) -> None:
        for one in records:
            self.log.records.append(self.log._logged(one, len(self.log.records) + 1))

    def new_topic(self) -> None:
        name = f"t{len({topic for topic, _ in self.sent})}"
        self.sent |= {(name, number): [] for number in range(self.chance.randint(1, 3))}

    def send(self) -> None:
        self.time += 1
        what = self.chance.random()
        if what < 0.05 and len(self.sent) < 12:
            self.new_topic()
        elif what < 0.6:
            self.sent[self.chance.choice(list(self.sent))].append((True, self.time))
        else:
            self.resolve()

    def resolve(self) -> None:
        for sent in self.sent.values():
            sent.append((False, self.time))

    def listed(self) -> list[Topic]:
        topics: dict[str, dict[int, tuple[int, int]]] = {}
        for (name, number), sent in self.sent.items():
            topics.setdefault(name, {})[number] = (0, len(sent))
        return [Topic(name, name, offsets) for name, offsets in topics.items()]

    def bronze(self) -> Iterator[None]:
        """A pass over the topics, as lakehouse/spark/bronze/kafka.py makes it; it may die at each step."""
        topics = self.listed()
        yield
        known = reading_of(self.log.last(Read))
        first = first_offsets("earliest", topics)
        reading = begun(None, topics, {}, first) if known is None else joined(known, topics)
        if known is None or reading.topics != known.topics:
            self.add(Partitions(listed=counted_partitions(topics, None)), reading.record())
        yield
        after, news = topics, list[Record]()
        if backlog(reading, topics):
            self.add(Partitions(listed=counted_partitions(topics, None)))
            yield
            ends = {place: len(self.sent[place]) for place in counted_partitions(topics, None)}
            while any(self.landed.get(place, 0) < end for place, end in ends.items()):
                for place, end in ends.items():
                    self.landed[place] = min(end, self.landed.get(place, 0) + self.chance.randint(0, 3))
                yield
            after = self.listed()
            yield
            news.append(advanced(reading, ends, 1).record())
        self.add(Partitions(listed=counted_partitions(after, None)), *news)

    def silver(self, *, whole: bool = False) -> None:
        """A batch of all that bronze has, or of a part."""
        done = self.log.last(Done)
        following = {(one.topic, one.partition): one.offset for one in (done.next if done else ())}
        marks = {(one.topic, one.partition): one.position for one in (done.marks if done else ())}
        whole = whole or self.chance.random() < 0.7
        for place, landed in self.landed.items():
            low = following.get(place, 0)
            following[place] = landed if whole else self.chance.randint(low, landed)
            for is_row, ts in self.sent[place][low : following[place]]:
                marks = marks if is_row else {**marks, place: at(ts)}
        self.add(
            Done(
                batch=done.batch + 1 if done else 1,
                counts=Counts(),
                top=None,
                reach=None,
                next=tuple(NextOffset(topic, topic, n, end) for (topic, n), end in following.items() if end),
                marks=tuple(Mark(*place, position) for place, position in marks.items()),
                dead=(),
                tables=(),
            )
        )

    def gold(self) -> Position:
        """The published watermark; AssertionError where silver lacks a row below it."""
        done, last = self.log.last(Done), self.log.last(Manifest)
        if done is None:
            return MIN_POSITION
        before = MIN_POSITION if last is None else last.watermark
        watermark = max(before, source_watermark(done, self.log)[0])
        following = {(one.topic, one.partition): one.offset for one in done.next}
        for place, sent in self.sent.items():
            late = [ts for is_row, ts in sent[following.get(place, 0) :] if is_row]
            assert all(at(ts) > watermark for ts in late), place
        self.add(Manifest(batch=done.batch, watermark=watermark, consistency="resolved", tables=()))
        return watermark

    def others(self) -> None:
        """What happens while bronze does nothing."""
        for _ in range(self.chance.randint(0, 4)):
            what = self.chance.choice((self.send, self.silver, self.gold))
            for _ in range(self.chance.randint(0, 4) if what == self.send else 1):
                what()


@pytest.mark.parametrize("seed", range(300))
def test_a_watermark_passes_no_row_whatever_runs_beside_and_dies(seed: int) -> None:
    feed = Feed(seed)
    for _ in range(feed.chance.randint(3, 12)):
        for _ in feed.bronze():
            feed.others()
            if feed.chance.random() < 0.04:
                break

    feed.time += 1
    feed.resolve()
    for _ in range(2):
        assert all(step is None for step in feed.bronze())
    feed.silver(whole=True)

    assert feed.gold() == at(feed.time)


def test_a_partition_that_was_retired_and_comes_back_leaves_open_what_lies_below_the_watermark() -> None:
    """Its rows from below may still be on their way, whatever was published without it."""

    def done(offset: int, mark: int) -> Done:
        read = (NextOffset("t", "", 0, 9), NextOffset("t", "", 1, offset))
        marks = (Mark("t", 0, at(9)), Mark("t", 1, at(mark)))
        return Done(
            batch=1, counts=Counts(), top=None, reach=None, next=read, marks=marks, dead=(), tables=()
        )

    log = Feed(0).log
    log.records.append(log._logged(Retired(topic="t", partitions=(1,), why="gone", read=done(2, 1).next), 1))
    told = ("t/1 was left out of the watermark, and counts now: more may come in it from below",)

    assert left_open(log, done(2, 1), at(9), {}) == (), "nothing has come in it"
    assert left_open(log, done(3, 1), at(9), {}) == left_open(log, done(4, 8), at(9), {}) == told
    assert left_open(log, done(5, 9), at(9), {}) == (), "all from below has come"
    assert left_open(log, done(3, 1), at(9), {"t": at(2)}) == (), "its topic is at its end"
    log = Feed(0).log
    log.records.append(log._logged(Partitions(listed=(("t", 0),)), 1))
    assert left_open(log, done(3, 1), at(9), {}) == told, "it is behind `kafka.partitions`"
    log.records.append(log._logged(Partitions(listed=(("t", 0), ("t", 1))), 2))
    assert left_open(log, done(3, 1), at(9), {}) == (), "one that is new has nothing from below"
