"""Watermarks that later changes prove wrong: what a partition had promised, and until when it is told."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Position
from lakehouse.ops.progress import Disproved, NextOffset
from lakehouse.ops.records.gold import Manifest
from lakehouse.silver.disproved_watermarks import anew, disproved_text, promised, standing
from lakehouse.spark.change_log.late_changes import disproved
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog


def at(ts: int) -> Position:
    return (0, ts, 0, 0, 0, 0)


def late(table: str, ts: int, *, n: int = 1, until: int = 9) -> Disproved:
    return Disproved(("d", table), n, at(ts), NextOffset("t", "", 0, ts), until=at(until))


def test_a_partition_has_promised_its_own_watermark_and_no_more_than_was_published() -> None:
    marks = {("t", 0): at(5), ("t", 1): at(9)}

    assert promised(marks, at(7)) == {("t", 0): at(5), ("t", 1): at(7)}


def test_a_table_is_told_of_until_a_later_watermark() -> None:
    found = standing([], [late("a", 3)], at(9))

    assert found == (late("a", 3),)
    assert standing(found, [], at(9)) == found
    assert standing(found, [], at(10)) == ()


def test_silver_that_was_built_again_settles_nothing_at_the_same_watermark() -> None:
    last = Manifest(
        batch=3,
        watermark=at(9),
        held_by=None,
        consistency="resolved",
        auto=True,
        tables=(),
        applied=0,
        disproved=(late("a", 3),),
    )
    log = OpsLog(None, Lake(""), "shop")  # type: ignore[arg-type]

    assert disproved(log, last, at(9), print, goes_on=False) == (late("a", 3),)
    assert disproved(log, last, at(10), print, goes_on=False) == ()
    assert disproved(log, None, at(9), print, goes_on=False) == ()


def test_what_is_found_again_is_counted_together() -> None:
    again = standing([late("a", 3, n=2)], [late("a", 1), late("b", 5)], at(9))

    assert again == (late("a", 1, n=3), late("b", 5))


def test_it_is_told_with_its_place() -> None:
    assert disproved_text(late("a", 3, n=2)) == (
        "changes came after a watermark that had passed them (2, the first in t/0 at offset 3): a topic must "
        "have one changefeed; the next watermark settles it"
    )


def test_a_binlog_that_began_anew_is_told_of_until_an_epoch() -> None:
    one = Disproved(("d", "a"), 2, at(3), NextOffset("t", "", 0, 3), until=anew(0))

    assert disproved_text(one) == (
        "the upstream's binlog began anew (changes below those that were known: 2, the first in t/0 at "
        "offset 3): rows since may be out of order; `lakehouse epoch raise`, then a snapshot"
    )
    assert standing([one], [], (0, 2**40, 9, 1, 0, 0)) == (one,)
    assert standing([one], [], (1, 1, 4, 1, 0, 0)) == ()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 20)), max_size=6))
def test_no_table_is_told_of_twice_and_none_is_forgotten_before_its_time(
    found: list[tuple[str, int, int]],
) -> None:
    told = standing([], [late(table, ts, until=until) for table, ts, until in found], at(0))

    assert sorted(one.name[1] for one in told) == sorted({table for table, _, _ in found})
    assert sum(one.n for one in told) == len(found)
    for moment in range(22):
        left = {one.name[1] for one in standing(told, [], at(moment))}
        assert left == {table for table, _, until in found if until >= moment}
