"""What layers are to have, by commits and batches: rules without Spark."""

from itertools import pairwise
from typing import Any

import pytest

from lakehouse.formats.ticdc.storage_gaps import Held, unexplained
from lakehouse.lineage import Interval
from lakehouse.ops.progress import BronzeRows, Counts, OffsetRange, TableSize
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.backfill import RANGES
from lakehouse.spark.change_log.change_counts import ChangeCounts, change_counts
from lakehouse.spark.change_log.layer_counts import overlapping, segments
from lakehouse.spark.change_log.reconcile import SilverRows, expected_rows
from lakehouse.spark.change_log.watermark import done_at
from lakehouse.spark.gold.merge import Merged
from lakehouse.spark.table_versions import Commit
from tests.support.records import log_of

KNOWN = BronzeRows(4, 100, 90)


def append(version: int, rows: int | None) -> Commit:
    return Commit(version, "WRITE", rows, rows, takes=False)


def takes(version: int) -> Commit:
    return Commit(version, "RESTORE", None, 0, takes=True)


@pytest.mark.parametrize(
    ("known", "commits", "is_first", "expected"),
    [
        (None, [append(1, 5), append(0, 3)], True, 8),
        (None, [append(9, 5), append(8, 3)], True, None),
        (None, [append(1, 5), append(0, 3)], False, None),
        (KNOWN, [append(4, 7)], False, 100),
        (KNOWN, [takes(6), append(5, 7), append(4, 1)], False, 107),
        (KNOWN, [append(7, 7), append(6, 1)], False, None),
        (KNOWN, [append(5, None)], False, None),
        (KNOWN, [append(2, 7)], False, 100),
    ],
)
def test_bronze_is_to_have_what_its_commits_have_appended(
    known: BronzeRows | None, commits: list[Commit], is_first: bool, expected: int | None
) -> None:
    assert expected_rows(known, commits, is_first=is_first) == expected


def test_fewer_rows_than_were_handed_to_delta_are_a_loss() -> None:
    assert Merged(1).lacking(10) == frozenset()
    assert Merged(1, written=10).lacking(10) == frozenset()
    assert Merged(1, written=9).lacking(10) == {"Delta wrote 9 of 10 rows that were handed to it"}


class Lived:
    """A lineage, as far as its names go."""

    def __init__(self, *names: str) -> None:
        self.intervals = tuple(Interval(("d", name), (0, 0, 0, 0, 0, 0), None) for name in names)


def test_a_table_is_counted_under_all_of_its_names() -> None:
    counts = ChangeCounts({("d", "a"): 3, ("d", "b"): 4, ("d", "older"): None})

    assert counts.of([Lived("a", "b", "new")]) == 7  # type: ignore[list-item]
    assert counts.of([Lived("a"), Lived("a", "b")]) == 7  # type: ignore[list-item]
    assert counts.of([Lived("a", "older")]) is None  # type: ignore[list-item]
    assert ChangeCounts().of([Lived("a")]) is None  # type: ignore[list-item]


def test_changes_of_a_batch_that_is_done_while_gold_runs_are_not_counted_yet() -> None:
    no_session: Any = None
    log = log_of(done(3, 7), done(4, 12))

    counts = change_counts(done_at(log, 3), no_session, (0, 9, 0, 0, 0, 0), goes_on=True)

    assert counts.of([Lived("a")]) == 7  # type: ignore[list-item]


def done(batch: int, rows: int) -> Done:
    """A batch, after which silver has so many changes of the table d.a."""
    place = (0, 1, 0, 0, 0, 0)
    table = TableSize(("d", "a"), place, place, rows, rows=rows)
    return Done(
        batch=batch, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=(table,)
    )


def test_numbers_that_files_lack_are_found_among_what_is_held_and_what_has_landed() -> None:
    options = {"protocol": "csv", "include-commit-ts": "true"}
    path = "k/t/500/CDC00000%d.csv"
    held: Held = {"k/t/500": {None: {1: path % 1, 3: path % 3}}}

    assert [file.path for file in unexplained(held, [path % 4], options)] == [path % 2]
    assert unexplained(held, [path % 2], options) == []
    assert [file.path for file in unexplained({}, [path % 2], options)] == [path % 1]
    # whole days expire, file by file
    numbered = ((1, 2), (2, 1), (2, 3))
    days = [f"k/t/500/2024-05-0{day}/CDC00000{number}.csv" for day, number in numbered]
    assert [file.path for file in unexplained({}, days, options)] == ["k/t/500/2024-05-02/CDC000002.csv"]


def test_more_changes_than_silvers_batches_have_inserted_are_told_as_fewer_are() -> None:
    assert SilverRows(9, 9).losses == ()
    assert SilverRows(9, 7).losses[0].startswith("silver has lost 2 of 9 changes")
    assert (
        SilverRows(9, 11).losses[0].startswith("silver has 11 changes, of which its batches have inserted 9")
    )


def test_batches_that_many_landings_join_are_counted_by_their_own_ranges() -> None:
    """Taken as one for their partition, as a plan's are, they would have the records of other batches too."""

    def plan(batch: int, *bounds: tuple[str, int, int], again: bool = False) -> Planned:
        ranges = tuple(OffsetRange(topic, "", 0, first, last=last) for topic, first, last in bounds)
        return Planned(batch=batch, generation="", small=True, again=again, ranges=ranges)

    upwards = [plan(1, ("t", 1, 2), ("u", 0, 5)), plan(2, ("t", 3, 3))]
    landed = plan(3, *(("t", 2 * number, 2 * number) for number in range(1, RANGES + 1)), again=True)
    counted = segments(overlapping([*upwards, landed]))["t", "", 0]

    assert all(one[1] < other[0] for one, other in pairwise(counted))
    assert counted[:3] == [(1, 2, 1), (3, 3, 0), (4, 4, 1)]
