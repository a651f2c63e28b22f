"""What a batch's record says is lacking or cut. Needs Spark's package, but no session."""

from functools import partial

from msgspec.structs import replace

from lakehouse.ops.progress import Counts, OffsetRange, Shortfall
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.batch_summary import Summary
from lakehouse.spark.silver.done_record import _short
from tests.support.work import lines_run

CUT, SKIPPED = (Shortfall("t", "", 0, 8, kind, 1) for kind in ("cut", "skipped"))


def plan(first: int, last: int, context: int | None = None) -> Planned:
    ranges = (OffsetRange("t", "", 0, first, last, context),)
    return Planned(batch=7, generation="g", small=True, ranges=ranges)


def test_a_record_that_is_read_again_for_its_part_of_a_message_is_cut_once() -> None:
    met = Summary({}, {}, short=[CUT])

    assert [one.batch for one in _short(plan(5, 9), None, met)] == [7]
    assert _short(plan(10, 19, context=8), None, met) == ()


def test_numbers_that_are_found_to_be_lacking_once_a_message_is_whole_count() -> None:
    met = Summary({}, {}, short=[SKIPPED])

    assert [one.kind for one in _short(plan(10, 19, context=8), None, met)] == ["skipped"]


def test_records_that_are_read_again_tell_nothing_of_the_numbers_before_them() -> None:
    again = replace(plan(5, 9), again=True)
    known = done(SKIPPED, CUT)

    assert _short(again, known, Summary({}, {})) == (SKIPPED,)
    assert _short(plan(5, 9), known, Summary({}, {})) == ()


def test_shortfalls_of_many_partitions_cost_as_much_each_as_of_few() -> None:
    def of(partitions: int) -> int:
        short = [replace(SKIPPED, partition=number) for number in range(partitions)]
        ranges = tuple(OffsetRange("t", "", number, 5, last=9) for number in range(partitions))
        return lines_run(
            partial(_short, replace(plan(5, 9), ranges=ranges), done(*short), Summary({}, {}, short=short))
        )

    assert of(400) < 5 * of(100)


def done(*short: Shortfall) -> Done:
    return Done(
        batch=6, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=(), short=short
    )
