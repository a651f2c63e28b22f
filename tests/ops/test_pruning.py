"""What a log may lose: whatever is asked of it afterwards has the answer that it had before."""

import random
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

from lakehouse.ops.gist import Gist, decode_gist
from lakehouse.ops.progress import Counts, NextOffset, OffsetRange
from lakehouse.ops.pruning import RUNS, closed_by_code, floor_batch, known_summary, newest, pruned, total
from lakehouse.ops.records.bronze import Read, Scan
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.ops.records.kinds import encode
from lakehouse.ops.records.operators import Epoch, Floor, Generation, Retired
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Run, Summary
from lakehouse.ops.records.silver import Closing, Done, Planned

ROUNDS = 150


@dataclass(frozen=True)
class Line:
    seq: int
    kind: str
    text: str
    record: Record | None

    @property
    def size(self) -> int:
        return len(self.text)

    @property
    def gist(self) -> Gist:
        return decode_gist(self.kind, self.text)


class Log:
    """A log that is written as runs write it, and remembers all that it ever had."""

    def __init__(self, seed: int, retires: float = 0.0) -> None:
        self.chance, self.retires = random.Random(seed), retires
        self.every: list[Line] = []
        self.lines: list[Line] = []
        self.batch = self.published = self.number = 0
        self.offsets = dict.fromkeys(range(3), 0)

    def add(self, record: Record) -> None:
        line = Line(len(self.every) + 1, record.kind, encode(record), record)
        self.every.append(line)
        self.lines.append(line)

    def goes_on(self) -> None:
        {
            0: self.plans_and_does,
            1: self.plans_and_does,
            2: self.publishes,
            3: lambda: self.add(Scan(checkpoint=len(self.every))),
            4: self.says,
        }[self.chance.randrange(5)]()

    def plans_and_does(self) -> None:
        self.batch += 1
        again = self.batch > 3 and self.chance.random() < 0.15
        ranges = []
        for number in self.chance.sample(range(3), self.chance.randint(1, 3)):
            first = self.offsets[number] + self.chance.randint(0, 1)
            size = self.chance.randint(1, 4)
            first = self.chance.randint(0, max(0, self.offsets[number] - 1)) if again else first
            ranges.append(OffsetRange("t", "", number, first, last=first + size - 1))
            self.offsets[number] = max(self.offsets[number], first + size)
        closing = Closing(
            self.chance.choice([None, "lost", "schema"]), self.batch - 1, self.chance.randrange(3)
        )
        kind = self.chance.random() if again else 1.0
        # of the batches that an operator asks for the last one closes dead letters
        requeue = closing if kind < 0.5 else None
        small = self.chance.random() < 0.6
        self.add(
            Planned(
                batch=self.batch,
                generation="g",
                small=small,
                ranges=tuple(ranges),
                again=again,
                requeue=requeue,
                backfills=int(again and kind >= 0.7),
                whole=small and not again,
            )
        )
        if self.chance.random() < self.retires:
            self.add(Retired(topic="t", partitions=(1,), why="gone"))
        self.add(done(self.batch, self.chance, self.offsets, requeue))

    def publishes(self) -> None:
        if self.batch:
            self.add(Intent(batch=self.batch, watermark=(0, 0, 0, 0, 0, 0), tables=("t",)))
            if self.chance.random() < 0.8:
                self.published = self.chance.randint(self.published or 1, self.batch)
                self.add(manifest(self.published))

    def says(self) -> None:
        words: list[Record] = [
            Epoch(epoch=1, places=(), why="because"),
            Floor(generation=1, place=(0,) * 6, names=(), why="", batch=self.batch),
            Read(stream=1, topics=(), ids={}, incarnations={}, next=()),
        ]
        self.add(self.chance.choice(words))

    def is_pruned(self, runs: int, size: int = 10**9) -> bool:
        found = pruned(self.lines, runs=runs, size=size)
        if found is not None:
            self.add(found.summary)
            self.lines = [one for one in self.lines if not found.takes(one)]
        return found is not None


def done(batch: int, chance: random.Random, offsets: dict[int, int], requeue: Closing | None = None) -> Done:
    return Done(
        batch=batch,
        counts=Counts(
            messages=chance.randint(0, 9), inserted=chance.randint(0, 9), dead=chance.randint(0, 2)
        ),
        top=None,
        reach=None,
        next=tuple(NextOffset("t", "", number, offset) for number, offset in offsets.items()),
        marks=(),
        dead=(),
        tables=(),
        requeued=requeue,
    )


def manifest(batch: int, generation: int = 1) -> Manifest:
    return Manifest(
        batch=batch,
        watermark=(0, batch, 0, 0, 0, 0),
        consistency="resolved",
        tables=(),
        generation=generation,
    )


def of(lines: list[Line], kind: type[Record]) -> list[Any]:
    return [one.record for one in lines if one.kind == kind.kind]


def counted(lines: list[Line], kind: type[Record]) -> list[Any]:
    first = known_summary(lines).seq
    return [one.record for one in lines if one.kind == kind.kind and one.seq >= first]


def answers(lines: list[Line]) -> dict[str, Any]:
    """What runs, readers and operators ask of a log."""
    summary, last = known_summary(lines), (of(lines, Manifest) or [None])[-1]
    plans, finished = counted(lines, Planned), counted(lines, Done)
    floor = floor_batch(of(lines, Floor), 1)
    since = last.batch if last is not None else 0
    messages = {one.batch: one.counts.messages for one in finished}
    read: dict[Any, tuple[int, int]] = {}
    for one in (*summary.ranges, *(each for plan in plans if not plan.is_repeat for each in plan.ranges)):
        low, high = read.get(one.place, (one.first, one.last))
        read[one.place] = min(low, one.first), max(high, one.last)
    closed = closed_by_code([*summary.closed, *(one.requeued for one in finished if one.requeued)])
    met = enumerate(lines)
    before_retired = [
        [
            next((one.record for one in reversed(lines[:n]) if one.kind == kind), None)
            for kind in ("done", "read")
        ]
        for n, line in met
        if line.kind == "retired"
    ]
    rows = sum(one.counts.inserted for one in finished if one.batch > floor)
    return {
        "last": {one.kind: one.record for one in lines if one.kind not in ("summary", "run")},
        "kept": [one for one in lines if one.kind in ("epoch", "floor", "retired")],
        "total": total([summary.counts, *(one.counts for one in finished)]),
        "read": read,
        "messages": summary.messages + sum(messages.get(p.batch, 0) for p in plans if not p.is_repeat),
        "inserted": rows + (summary.inserted if floor <= summary.above else 0),
        "closed": sorted(closed, key=repr),
        "whole": sorted({*summary.whole, *(one.batch for one in plans if one.whole)})[-2:],
        "new": [one for one in of(lines, Done) if one.batch > since],
        "new plans": [one for one in of(lines, Planned) if one.batch > since],
        "done at": next((one for one in reversed(of(lines, Done)) if one.batch <= since), None),
        "intents": [one for one in of(lines, Intent) if last is None or one.batch > since],
        "before retired": before_retired,
    }


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_is_asked_of_a_pruned_log_has_the_answer_that_it_had(seed: int) -> None:
    log, taken = Log(seed, retires=0.3), 0
    for _ in range(120):
        log.goes_on()
        if log.chance.random() < 0.08:
            taken += log.is_pruned(log.chance.randint(1, 5), log.chance.choice([10**9, 2_000]))

    assert answers(log.lines) == answers([one for one in log.every if one.kind != "summary"])
    assert taken or not of(log.every, Manifest)


def test_a_pruned_log_is_as_short_as_it_is_to_be() -> None:
    log = Log(0)
    for _ in range(2_000):
        log.plans_and_does()
        log.publishes()
        log.is_pruned(10)

    assert 10 <= len(of(log.lines, Manifest)) < 15
    assert len(of(log.lines, Summary)) == 2
    assert len([one for one in log.lines if one.kind in ("planned", "done", "intent")]) < 120


def test_the_size_of_what_stays_has_a_limit_and_the_last_manifest_stays_whatever_its_size() -> None:
    log = Log(0)
    for _ in range(100):
        log.plans_and_does()
        log.publishes()

    log.is_pruned(1_000, 20_000)
    assert sum(len(one.text) for one in log.lines if one.kind not in ("retired", "summary")) < 24_000
    log.is_pruned(1_000, 1)
    assert len(of(log.lines, Manifest)) == 1


def test_a_summary_that_a_slower_run_wrote_later_does_not_count() -> None:
    assert newest([Summary(seq=9, batch=4), Summary(seq=5, batch=2)]) == Summary(seq=9, batch=4)


def test_a_run_that_dies_between_its_summary_and_what_it_takes_out_counts_nothing_twice() -> None:
    log = Log(3)
    for _ in range(60):
        log.goes_on()
    before = answers(log.every)
    found = pruned(log.lines, runs=2, size=10**9)
    assert found is not None
    log.add(found.summary)

    assert answers(log.lines) == before
    log.is_pruned(2)
    assert answers(log.lines) == before
    assert len(log.lines) < len(log.every)


@pytest.mark.parametrize("seed", range(20))
def test_what_leaves_the_table_is_what_leaves_the_log_that_a_run_holds(seed: int) -> None:
    log = Log(seed, retires=0.3)
    for _ in range(4):
        for _ in range(40):
            log.goes_on()
        table = sqlite3.connect(":memory:")
        table.execute("CREATE TABLE log (seq INTEGER, kind TEXT)")
        table.executemany("INSERT INTO log VALUES (?, ?)", [(one.seq, one.kind) for one in log.lines])
        found = pruned(log.lines, runs=1, size=10**9)
        assert found is not None

        leave = {seq for (seq,) in table.execute(f"SELECT seq FROM log WHERE {found.condition}")}

        assert leave == {one.seq for one in log.lines if found.takes(one)} != set()
        assert log.is_pruned(1)


def test_a_run_that_prunes_what_another_has_pruned_meanwhile_takes_no_summary_that_counts() -> None:
    log = Log(3)
    for _ in range(5):
        log.is_pruned(2)
        for _ in range(30):
            log.goes_on()
    slow = pruned(log.lines, runs=2, size=10**9)
    for _ in range(30):
        log.goes_on()
    assert slow is not None and log.is_pruned(1)
    before, counts = answers(log.lines), known_summary(log.lines)

    log.add(slow.summary)
    log.lines = [one for one in log.lines if not slow.takes(one)]

    assert (answers(log.lines), known_summary(log.lines)) == (before, counts)
    assert before == answers([one for one in log.every if one.kind != "summary"])
    for _ in range(30):
        log.goes_on()
    assert log.is_pruned(1)
    assert answers(log.lines) == answers([one for one in log.every if one.kind != "summary"])


def test_a_new_generation_counts_its_own_batches() -> None:
    log = Log(5)
    for _ in range(40):
        log.plans_and_does()
        log.publishes()
    chance, offsets = random.Random(1), {0: 5}
    earlier = Summary(seq=0, generation=2, batch=2, messages=7, ranges=(OffsetRange("t", "", 0, 0, 3),))
    plan = Planned(batch=3, generation="h", small=True, ranges=(OffsetRange("t", "", 0, 4, 4),))
    third = done(3, chance, offsets)
    new: list[Record] = [earlier, plan, third, Generation(number=2)]
    for record in new:
        log.add(record)

    assert counted(log.lines, Planned) == [plan]
    assert (known_summary(log.lines).messages, known_summary(log.lines).batch) == (7, 2)
    assert not log.is_pruned(1), "gold has published nothing of it"

    fourth = Planned(batch=4, generation="h", small=True, ranges=(OffsetRange("t", "", 0, 5, 9),))
    more: list[Record] = [manifest(3, 2), fourth, done(4, chance, offsets), manifest(4, 2)]
    for record in more:
        log.add(record)
    assert log.is_pruned(1)
    summary = known_summary(log.lines)
    assert (summary.batch, summary.messages) == (3, 7 + third.counts.messages)
    assert summary.ranges == (OffsetRange("t", "", 0, 0, 4),)
    assert counted(log.lines, Planned) == [fourth]


def test_a_generation_whose_switch_said_nothing_of_its_batches_does_not_count_those_of_the_one_before() -> (
    None
):
    log = Log(5)
    for _ in range(40):
        log.plans_and_does()
        log.publishes()
    plan = Planned(batch=3, generation="h", small=True, ranges=(OffsetRange("t", "", 0, 4, 4),))
    third = done(3, random.Random(1), {0: 5})
    switch: list[Record] = [plan, third, Generation(number=2)]
    for record in switch:
        log.add(record)

    assert (counted(log.lines, Planned), counted(log.lines, Done)) == ([plan], [third])
    log.batch, log.published = 3, 3
    log.add(manifest(3, 2))
    log.plans_and_does()
    log.add(manifest(4, 2))
    assert log.is_pruned(1)
    assert known_summary(log.lines).counts == third.counts


def test_of_runs_the_last_ones_stay() -> None:
    log = Log(0)
    for number in range(RUNS + 3):
        log.add(
            Run(
                layers=(),
                begun=number,
                ended=number,
                landed=0,
                batches=0,
                published=0,
                seconds={},
                error=None,
            )
        )

    log.is_pruned(5)

    assert [one.begun for one in of(log.lines, Run)] == list(range(3, RUNS + 3))
