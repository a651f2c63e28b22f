"""Batches of no record, which say that nothing is unread. Needs Spark's package, but no session."""

from typing import Any

import pytest

from lakehouse.ops.progress import Counts, Mark, NextOffset, TopicOffset, Transactions
from lakehouse.ops.records.bronze import Read
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark.change_log.watermark import source_watermark
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver import run
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from lakehouse.spark.silver.run import Following, next_plan
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.records import log_of

FEED = SilverSettings("shop", "debezium", "binlog", {})


def batch(number: int, offset: int, *, whole: bool) -> tuple[Record, Record]:
    """A batch up to an offset, at whose end all transactions are whole."""
    place = (0, 1, offset, 1, 0, 0)
    done = Done(
        batch=number,
        counts=Counts(),
        top=None,
        reach=None,
        next=(NextOffset("t", "a", 0, offset),),
        marks=(Mark("", WHOLE_SOURCE, place),),
        dead=(),
        tables=(),
        transactions=Transactions(whole=place),
    )
    return Planned(batch=number, generation="g", small=True, ranges=(), whole=whole), done


def read(end: int) -> Read:
    return Read(stream=0, topics=("t",), ids={}, incarnations={"t": "a"}, next=(TopicOffset("t", 0, end),))


@pytest.fixture
def nothing_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bronze has no record that silver has not read."""

    def add(log: OpsLog, record: Record) -> None:
        log.records.append(log._logged(record, len(log.records) + 1))

    monkeypatch.setattr(run, "following_records", lambda *_: Following((), small=True, is_all=True))
    monkeypatch.setattr(run, "refuse_other_reading", lambda *_: None)
    monkeypatch.setattr(run, "next_txn", lambda _: "txn")
    monkeypatch.setattr(OpsLog, "add", add)


@pytest.mark.parametrize(
    ("end", "is_planned"),
    (
        (9, False),  # the batch has read what landed since: it is not known what else has
        (10, False),  # the topic ends behind its last record: all is read
        (11, True),  # a marker of a transaction is behind it
    ),
)
def test_a_marker_behind_the_last_record_does_not_hold_the_watermark(
    nothing_landed: Any, end: int, is_planned: bool
) -> None:
    """Silver, which ran beside bronze, had read the last record before the pass that landed it had ended."""
    log = log_of(*batch(1, 5, whole=True), *batch(2, 10, whole=False), read(end))

    last = log.last(Done)
    assert last is not None
    assert source_watermark(last, log)[0][2] == (10 if end == 10 else 5)

    plan = next_plan(log, FEED)

    assert (plan is not None) == is_planned
    if plan is not None:
        assert (plan.batch, plan.ranges, plan.whole) == (3, (), True)
        done = batch(3, 10, whole=True)[1]
        assert isinstance(done, Done)
        assert source_watermark(done, log)[0] == (0, 1, 10, 1, 0, 0)
        log.add(done)
        assert next_plan(log, FEED) is None, "it is said once"
