"""Tables that were read while they changed, across the lives of a topic."""

import pytest

from lakehouse.events import SNAPSHOT_TOPIC, Position
from lakehouse.lineage import READ_WHILE, History, Interval, Lineage, Step
from lakehouse.ops.progress import NextOffset
from lakehouse.ops.records.operators import Epoch
from lakehouse.schema_history.readings import leave_unsettled
from lakehouse.schema_history.table_lives import EMPTY

BEGUN: Position = (0, 100, -1, 0, 0, 0)
SETTLED: Position = (0, 200, -1, 0, 0, 0)
NEXT: Position = (1, 5, 0, 0, 0, 0)


def table(begun: Position = BEGUN, settled: Position = SETTLED) -> Lineage:
    steps, intervals = [Step((0, 1, 0, 0, 0, 0), EMPTY)], [Interval(("d", "t"), (0, 1, 0, 0, 0, 0), None)]
    return Lineage("d.t@0.1", steps, intervals, unsettled={begun: settled})


def epoch(number: int, *ends: tuple[str, int], goes_on: bool = True) -> Epoch:
    places = tuple(NextOffset("canal", life, 0, offset) for life, offset in ends)
    snapshot = NextOffset(SNAPSHOT_TOPIC, "abc", 0, 1000)
    return Epoch(epoch=number, places=(*places, snapshot), why="created anew", goes_on=goes_on)


@pytest.mark.parametrize(("read", "exact"), ((150, False), (199, False), (200, True), (250, True)))
def test_what_a_former_topic_was_to_settle_its_end_settles_only_where_it_was_read_so_far(
    read: int, exact: bool
) -> None:
    lineage = table()

    leave_unsettled(History([lineage]), [epoch(1, ("one", read))])

    assert lineage.incomplete_at(NEXT) == (None if exact else (BEGUN, READ_WHILE))
    assert lineage.is_unsettled_at(NEXT) is not exact


def test_each_life_of_a_topic_settles_its_own() -> None:
    first, second = table(), table((1, 10, -1, 0, 0, 0), (1, 60, -1, 0, 0, 0))
    epochs = [epoch(2, ("one", 250), ("two", 40)), epoch(1, ("one", 250))]

    leave_unsettled(History([first, second]), epochs)

    assert first.incomplete_at((2, 1, 0, 0, 0, 0)) is None
    assert second.incomplete_at((2, 1, 0, 0, 0, 0)) == ((1, 10, -1, 0, 0, 0), READ_WHILE)


def test_an_epoch_of_another_server_is_judged_elsewhere() -> None:
    lineage = table()

    leave_unsettled(History([lineage]), [epoch(1, ("one", 150), goes_on=False)])

    assert lineage.incomplete_at(NEXT) is None
