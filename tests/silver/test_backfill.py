"""Records that land in any order: every one is read, by going upwards or as one that landed below."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ops.progress import NextOffset, OffsetRange
from lakehouse.silver.backfill import RANGES, is_half_told, landed_below, merged, unread

OFFSETS = st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30)), max_size=8), max_size=8)


def ranges(*bounds: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange("t", "", 0, first, last=last) for first, last in bounds]


def test_neighbours_and_ranges_that_overlap_are_one() -> None:
    assert merged(ranges((5, 7), (1, 2), (3, 3), (6, 9))) == tuple(ranges((1, 3), (5, 9)))


def test_too_many_ranges_are_one_for_each_partition() -> None:
    apart = ranges(*[(2 * number, 2 * number) for number in range(RANGES + 1)])

    assert merged(apart) == tuple(ranges((0, 2 * RANGES)))
    assert len(merged(apart[1:])) == RANGES


def test_what_lies_above_is_left_to_reading_upwards() -> None:
    read = [NextOffset("t", "", 0, 6)]

    assert unread(ranges((2, 3), (5, 9), (12, 13)), read) == tuple(ranges((2, 3), (5, 5)))
    assert unread(ranges((2, 3)), []) == ()


def test_what_is_told_once_is_half_told() -> None:
    one, other = tuple(ranges((1, 2))), tuple(ranges((4, 4)))

    assert not is_half_told([])
    assert is_half_told([one])
    assert not is_half_told([one, one])
    assert is_half_told([one, one, other])
    assert is_half_told([other, one, one, one])
    assert not is_half_told([one, one, one, one])


@given(OFFSETS, st.sets(st.integers(0, 7)))
def test_every_record_is_read_whatever_lands_when_and_whenever_silver_looks(
    landings: list[list[tuple[int, int]]], looks: set[int]
) -> None:
    """The steps of land_messages and next_plan, over sets."""
    bronze, told, done = set[tuple[int, int]](), list[OffsetRange](), set[tuple[int, int]]()
    ends, following, considered = dict[tuple[str, str, int], int](), dict[int, int](), 0
    for number, landed in enumerate([*landings, []]):
        told += landed_below([("t", "", *record) for record in landed], ends)
        bronze |= set(landed)
        ends |= {
            ("t", "", place): max(offset for one, offset in bronze if one == place) + 1 for place, _ in bronze
        }
        if number in looks or number == len(landings):
            read = [NextOffset("t", "", place, offset) for place, offset in following.items()]
            late = unread(told[considered:], read)
            considered = len(told)
            done |= {
                one
                for one in bronze
                for part in late
                if (part.partition, True) == (one[0], part.first <= one[1] <= part.last)
            }
            done |= {one for one in bronze if one[1] >= following.get(one[0], 0)}
            following |= {place: ends["t", "", place] for place, _ in bronze}

    assert done == bronze
