"""A snapshot whose last row has come is whole once all is read that landed with it, whatever part of each
topic a batch takes.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.ops.progress import TopicOffset
from lakehouse.ops.records.bronze import Read
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark import limits
from lakehouse.spark.bronze import recordings
from lakehouse.spark.bronze.recordings import land_messages, land_recordings
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import generation
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.silver.run import run_silver
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.debezium_records import row
from tests.support.lakes import quiet

FEED = SilverSettings("feed", "debezium", "binlog", max_records=2)


def snapshot_row(topic: str, offset: int, marker: str) -> Message:
    value = row("r", None, {"id": offset}, table=topic, snapshot=marker)
    return Message(topic, 0, offset, json.dumps({"id": offset}).encode(), json.dumps(value).encode())


LARGE = [snapshot_row("large", offset, "first" if offset == 0 else "true") for offset in range(5)]
LAST = snapshot_row("small", 0, "last")


def read(large: int, small: int) -> Read:
    following = TopicOffset("large", 0, large), TopicOffset("small", 0, small)
    return Read(stream=0, topics=("large", "small"), ids={}, incarnations={}, next=following)


@pytest.fixture
def context(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunContext:
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)
    return RunContext(OpsLog(spark, Lake(str(tmp_path / "lake")), "feed").load(), quiet)


def batches(context: RunContext, number: int, feed: SilverSettings = FEED) -> Done:
    """Silver after at most so many more batches."""
    left = iter(range(number))
    run_silver(context, feed, lambda: next(left, None) is None)
    done = context.log.last(Done)
    assert done is not None
    return done


@pytest.mark.parametrize("settled", [False, True])
def test_a_snapshot_of_which_a_batch_takes_a_part_is_not_whole_with_its_last_row(
    context: RunContext, settled: bool
) -> None:
    land_messages(context, [*LARGE, LAST])
    feed = replace(FEED, settled=settled)

    part = batches(context, 1, feed)
    assert part.transactions is not None
    assert [one.offset for one in part.next] == [1, 1]
    assert (part.marks, part.transactions.snapshots) == ((), ())

    whole = batches(context, 9, feed)
    assert whole.transactions is not None
    assert len(whole.marks) == len(whole.transactions.snapshots) == 1


def test_a_snapshot_waits_for_the_end_of_the_pass_that_lands_it(context: RunContext) -> None:
    log = context.log
    log.add(read(0, 0))
    land_messages(context, [*LARGE[:3], LAST])
    assert batches(context, 9).marks == ()

    land_messages(context, LARGE[3:])
    log.add(read(5, 1))
    part = batches(context, 1)
    assert ([one.offset for one in part.next], len(part.marks)) == ([5, 1], 1)


def test_what_waits_for_the_end_of_a_pass_needs_no_new_record(context: RunContext) -> None:
    log = context.log
    log.add(read(0, 0))
    land_messages(context, [*LARGE, LAST])
    waits = batches(context, 9)
    assert waits.marks == ()
    assert batches(context, 9).batch == waits.batch, "nothing is new"

    log.add(read(5, 1))
    assert len(batches(context, 9).marks) == 1
    last = log.last(Planned)
    assert last is not None
    assert (last.batch, last.ranges) == (waits.batch + 1, ())
    assert batches(context, 9).batch == last.batch


def test_a_snapshot_waits_for_the_end_of_its_recording(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "CHUNK", 3)
    told = [LAST, *LARGE]

    def dies() -> Iterator[Message]:
        yield from told[:3]
        raise RuntimeError

    reads = iter([lambda: told, lambda: told, dies])  # twice for the list of its partitions
    with pytest.raises(RuntimeError):
        land_recordings(context, [lambda: next(reads)()])
    context.log.load()
    feed = replace(FEED, settled=True)
    assert batches(context, 9, feed).marks == ()

    land_recordings(context, [lambda: told])
    assert len(batches(context, 9, feed).marks) == 1
    known = context.log.all(Read)
    land_recordings(context, [lambda: told])
    assert context.log.all(Read) == known, "nothing is new"


def test_a_generation_that_is_built_beside_waits_for_the_end_of_the_pass_too(context: RunContext) -> None:
    context.log.add(read(0, 0))
    land_messages(context, [*LARGE[:3], LAST])
    _, scratch = generation(context.spark, context.lake, "feed", 2)

    run_silver(RunContext(scratch, quiet), FEED, landed=context.log)

    done = scratch.last(Done)
    assert done is not None and done.transactions is not None
    assert (done.marks, done.transactions.snapshots) == ((), ())
