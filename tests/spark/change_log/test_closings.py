"""Which dead letters and losses are closed, by the log alone. Needs Spark's package, but no session."""

import pytest
from msgspec.structs import replace

from lakehouse.ops.progress import BronzeRows, Counts, Shortfall
from lakehouse.ops.records.bronze import OffsetsLost
from lakehouse.ops.records.operators import Dismissed, Generation
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Closing, Done, Planned
from lakehouse.silver.batch_summary import Summary
from lakehouse.spark.change_log.dead_letters import closings, open_losses, open_shortfalls
from lakehouse.spark.change_log.reconcile import is_dismissed
from lakehouse.spark.gold import run
from lakehouse.spark.gold.settings import GoldSettings
from lakehouse.spark.operations.rebuild import shortfalls_given_up
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.done_record import Sent, done_record
from tests.support.lakes import quiet
from tests.support.records import log_of, manifest

LOST = OffsetsLost(topic="t", incarnation="", partition=0, first=1, last=2, missing=2, seen_at=0)
GIVEN_UP = Dismissed(code=None, batch=900, gaps=1, why="garbage")
DONE = Done(batch=900, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=())
REPEATED = replace(DONE, requeued=Closing("schema", 899, 0))
SHORT = Shortfall("t", "", 0, 7, "skipped", 1, batch=12)
SWITCHED: list[Record] = [
    replace(DONE, batch=10),
    Generation(number=2),
    replace(DONE, batch=12, short=(SHORT,)),
]


def test_what_was_given_up_of_batches_of_one_generation_closes_none_of_the_next() -> None:
    log = log_of(LOST, GIVEN_UP, REPEATED, *SWITCHED)

    assert max(one.batch for one in closings(log)) == 0
    assert open_shortfalls(log) == [SHORT]
    assert open_losses(log) == [], "a topic's loss is the same in every generation"


def test_what_is_given_up_of_the_present_generation_is_closed() -> None:
    again = replace(GIVEN_UP, batch=12)
    log = log_of(LOST, GIVEN_UP, *SWITCHED, again)

    assert max(one.batch for one in closings(log)) == 12
    assert open_shortfalls(log) == []
    assert [one.batch for one in closings(log_of(LOST, GIVEN_UP, REPEATED))] == [900, 899]


def test_what_was_given_up_as_not_sent_stays_given_up_in_the_next_generation_unless_there_is_more() -> None:
    before, batch = replace(DONE, short=(SHORT,)), replace(GIVEN_UP, code="lost", batch=12)
    same = replace(SHORT, batch=2)
    new = replace(DONE, batch=3, short=(same,))
    more = replace(new, short=(same, replace(SHORT, offset=9, batch=3)))

    (again,) = shortfalls_given_up(log_of(before, batch), new)

    assert open_shortfalls(log_of(before, batch, new, Generation(number=2), again)) == []
    assert open_shortfalls(log_of(before, batch, new, Generation(number=2))) != []
    assert shortfalls_given_up(log_of(before, batch), more) == []
    assert shortfalls_given_up(log_of(before), new) == [], "nobody has given it up"
    lost = replace(manifest(), bronze=BronzeRows(4, 9, 9, ("bronze has lost 1 of 9 records",)))
    assert shortfalls_given_up(log_of(lost, before, batch), new) == [], "which would give up this too"


def test_dead_letters_that_were_decoded_again_bring_no_record_that_was_never_sent() -> None:
    repeated = replace(DONE, batch=13, short=(SHORT,), requeued=Closing(None, 12, 0))

    assert closings(log_of(repeated)) == [Closing(None, 12, 0)]
    assert open_shortfalls(log_of(repeated)) == [SHORT]
    assert open_shortfalls(log_of(repeated, replace(GIVEN_UP, code="lost", batch=13))) == []


def test_gold_takes_a_batch_that_is_done_while_it_writes_with_the_letters_that_it_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An append of gold's brings the records of others: letters that the batch closed would be closed, and
    its changes left out.
    """
    log, taken = log_of(DONE), list[int]()

    def appended(log: OpsLog, _: float | None) -> int:
        log.records += log_of(replace(REPEATED, batch=901)).records
        return 1

    monkeypatch.setattr(run, "infer_columns", appended)
    monkeypatch.setattr(run, "publish_next", lambda _, __, done, **___: taken.append(done.batch))

    run.run_gold(GoldSettings("shop"), log, quiet)

    assert taken == [901]


@pytest.mark.parametrize(("below", "closes"), [(0, Closing(None, 900, 0)), (1, None)])
def test_a_batch_that_refuses_changes_below_a_floor_closes_no_letters(
    below: int, closes: Closing | None
) -> None:
    plan = Planned(
        batch=901, generation="g", small=True, ranges=(), again=True, requeue=Closing(None, 900, 0)
    )

    done = done_record(
        plan, DONE, Summary({}, {}), {}, counts=Counts(below=below), sent=Sent(arrival=False, states=())
    )

    assert done.requeued == closes


def test_a_loss_that_is_dismissed_while_gold_runs_is_dismissed_for_its_next_run() -> None:
    """The run, which began before, adds its manifest behind the operator's word."""
    first = replace(manifest(), dismissals=0)
    meanwhile = replace(manifest(batch=2), dismissals=0)
    heard = replace(manifest(batch=3), dismissals=1)

    assert not is_dismissed(log_of(first))
    assert is_dismissed(log_of(first, GIVEN_UP))
    assert is_dismissed(log_of(first, GIVEN_UP, meanwhile))
    assert not is_dismissed(log_of(first, GIVEN_UP, meanwhile, heard))
    assert not is_dismissed(log_of(first, replace(GIVEN_UP, code="schema"), meanwhile))
    assert not is_dismissed(log_of(manifest(), GIVEN_UP, manifest(batch=2))), "of an older lakehouse"
