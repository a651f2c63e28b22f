"""Which partitions hold a source's watermark, through retirement, growth and topics that are created anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ddl.policy import Rules
from lakehouse.events import MIN_POSITION, Position
from lakehouse.lineage import Interval
from lakehouse.ops.progress import NextOffset
from lakehouse.silver.partition_lives import (
    Counting,
    Listing,
    Retirement,
    counting,
    is_passed,
    lives_at_source,
    smallest,
    topic_ends,
    with_new_names,
)
from tests.support.feeds import TiCDC


def listed(*partitions: int, incarnation: str = "a") -> Listing:
    return Listing({("t", number) for number in partitions}, {"t": incarnation})


def read(*offsets: int, incarnation: str = "a") -> list[NextOffset]:
    return [NextOffset("t", incarnation, number, offset) for number, offset in enumerate(offsets)]


def test_partitions_count_that_are_listed_or_were_met() -> None:
    assert counting(listed(0, 1), read(5), []).partitions == [("t", 0), ("t", 1)]
    assert counting(Listing(), read(5, 3, incarnation=""), []).partitions == [("t", 0), ("t", 1)]


def test_a_partition_that_was_retired_counts_again_as_soon_as_something_arrives_in_it() -> None:
    retired = [Retirement(("t", 1), {"a": 7})]

    assert counting(listed(0, 1), read(5, 7), retired) == Counting([("t", 0)], [])
    assert counting(listed(0, 1), read(5, 8), retired) == Counting([("t", 0), ("t", 1)], [("t", 1)])


def test_a_partition_that_came_back_can_be_retired_again() -> None:
    retired = [Retirement(("t", 1), {"a": 7}), Retirement(("t", 1), {"a": 9})]

    assert counting(listed(0, 1), read(5, 9), retired).partitions == [("t", 0)]
    assert counting(listed(0, 1), read(5, 10), retired).again == [("t", 1)]


def test_a_partition_that_was_retired_counts_again_when_its_topic_is_created_anew_with_it() -> None:
    retired = [Retirement(("t", 1), {"a": 7})]

    assert counting(listed(0, 1, incarnation="b"), read(5, 7), retired).again == [("t", 1)]


def test_partitions_that_a_topic_created_anew_no_longer_has_do_not_count() -> None:
    assert counting(listed(0, incarnation="b"), read(5, 7), []).partitions == [("t", 0)]
    more = [*read(5, 7), NextOffset("t", "b", 1, 2)]
    assert counting(listed(0, incarnation="b"), more, []).partitions == [("t", 0), ("t", 1)]


def test_partitions_of_a_topic_that_is_away_count_on() -> None:
    away = Listing({("u", 0)}, {"t": "a", "u": "c"})

    assert counting(away, read(5, 7), []).partitions == [("t", 0), ("t", 1), ("u", 0)]


OFFSETS = st.dictionaries(st.integers(0, 4), st.integers(0, 9))


@given(st.sets(st.integers(0, 4)), OFFSETS, OFFSETS)
def test_nothing_that_holds_unread_or_newly_read_records_is_left_out(
    partitions: set[int], offsets: dict[int, int], more: dict[int, int]
) -> None:
    """A retirement leaves out what has not moved since, and nothing else."""
    then = [NextOffset("t", "a", number, offset) for number, offset in offsets.items()]
    now = {number: offsets.get(number, 0) + more.get(number, 0) for number in {*offsets, *more}}
    retired = [Retirement(("t", number), {"a": offset}) for number, offset in offsets.items()]

    was = counting(listed(*partitions), then, retired)
    found = counting(
        listed(*partitions), [NextOffset("t", "a", number, at) for number, at in now.items()], retired
    )

    moved = {("t", number) for number in now if number not in offsets or now[number] > offsets[number]}
    assert was.partitions == sorted(("t", number) for number in partitions - offsets.keys())
    assert set(found.partitions) == moved | {("t", number) for number in partitions - offsets.keys()}


# --- topics whose last table is gone ---


def at(ts: int) -> Position:
    return (0, ts, 2, 0, 0, 0)


def tables(*lives: tuple[str, int | None]) -> list[Interval]:
    """Tables of database d: the name, and where it was dropped."""
    return [Interval(("d", name), at(0), None if end is None else at(end)) for name, end in lives]


A, B = {"t": [("d", "a")]}, {"t": [("d", "a"), ("d", "b")]}


def test_a_topic_ends_with_its_last_table() -> None:
    assert topic_ends(A, tables(("a", 5)), {}) == {"t": at(5)}
    assert topic_ends(B, tables(("a", 5), ("b", None)), {}) == {}
    assert topic_ends(B, tables(("a", 5), ("b", 7)), {("t", 0): at(6)}) == {"t": at(7)}
    assert topic_ends({"t": [("D", "A")]}, tables(("a", 5)), {}) == {"t": at(5)}


def test_a_topic_goes_on_when_its_table_is_there_again_or_a_watermark_comes() -> None:
    assert topic_ends(A, tables(("a", 5), ("a", None)), {}) == {}
    assert topic_ends(A, tables(("a", 5)), {("t", 0): at(4), ("t", 1): at(6)}) == {}


CREATE = "CREATE TABLE orders (id INT PRIMARY KEY)"


def ends_of(topic: str, feed: TiCDC, **policy: str) -> dict[str, Position]:
    """Where a topic ends that had rows of the table d.orders alone."""
    lineages = feed.memory.ruled(Rules({("d", "orders"): policy})).history().lineages
    lives = [interval for lineage in lineages for interval in lives_at_source(lineage)]
    return topic_ends(with_new_names({topic: [("d", "orders")]}, lineages), lives, {})


@pytest.mark.parametrize("policy", [{}, {"rename_table": "ignore"}, {"rename_table": "hold"}])
@pytest.mark.parametrize(
    ("topic", "new", "ends"),
    [
        ("changes", "d.sold", False),
        ("d", "d.sold", False),
        ("d_orders", "d.sold", True),
        ("d", "e.orders", True),
        ("changes", "e.sold", False),
    ],
)
def test_a_renamed_table_stays_in_a_topic_that_is_not_called_after_it(
    topic: str, new: str, ends: bool, policy: dict[str, str]
) -> None:
    """The topic sends on its rows: a watermark that leaves it out would pass rows that are on their way."""
    feed = TiCDC().ddl(1, CREATE, table="orders").ddl(3, f"RENAME TABLE d.orders TO {new}", table="orders")

    assert ends_of(topic, feed, **policy) == ({topic: at(3)} if ends else {})


@pytest.mark.parametrize("policy", [{}, {"drop_table": "ignore"}, {"drop_table": "hold"}])
def test_a_topic_ends_with_its_last_table_whatever_gold_keeps_of_it(policy: dict[str, str]) -> None:
    feed = TiCDC().ddl(1, CREATE, table="orders").ddl(3, "DROP TABLE orders", table="orders")

    assert ends_of("d_orders", feed, **policy) == {"d_orders": at(3)}
    assert ends_of("d_orders", feed.ddl(5, CREATE, table="orders"), **policy) == {}


def test_a_topic_with_a_table_that_no_statement_tells_of_does_not_end() -> None:
    assert topic_ends(B, tables(("a", 5)), {}) == {}


def test_a_topics_end_counts_once_two_batches_have_taken_all_that_bronze_had() -> None:
    assert not is_passed({3}, 3, 3)
    assert is_passed({3, 4}, 3, 4)
    assert not is_passed({3, 4}, 3, 3)
    assert not is_passed({2, 4}, 3, 5)
    assert not is_passed({3, 4}, None, 4)


def test_topics_at_their_end_hold_nothing_and_alone_they_are_complete() -> None:
    marks = {("t", 0): at(4), ("u", 0): at(9), ("u", 1): at(8)}

    assert smallest(marks, list(marks), {}) == (at(4), ("t", 0))
    assert smallest(marks, list(marks), {"t": at(5)}) == (at(8), ("u", 1))
    assert smallest(marks, [*marks, ("v", 0)], {"t": at(5)}) == (MIN_POSITION, ("v", 0))
    assert smallest(marks, list(marks), {"t": at(5), "u": at(9)}) == (at(9), None)
    assert smallest({}, [], {}) == (MIN_POSITION, None)


def test_a_watermark_of_an_earlier_epoch_is_below_every_one_of_a_later() -> None:
    marks = {("t", 0): (1, 5, 2, 0, 0, 0), ("t", 1): (0, 900, 2, 0, 0, 0)}

    assert smallest(marks, list(marks), {}) == ((0, 900, 2, 0, 0, 0), ("t", 1))


TOPICS = st.dictionaries(st.sampled_from("tuv"), st.tuples(st.integers(1, 9), st.none() | st.integers(1, 9)))


@given(TOPICS)
def test_the_watermark_never_passes_a_topic_that_has_a_table(
    topics: dict[str, tuple[int, int | None]],
) -> None:
    """A topic has one table, named as it is, and one partition: its watermark, and where the table ended."""
    names = {topic: [("d", topic)] for topic in topics}
    marks = {(topic, 0): at(mark) for topic, (mark, _) in topics.items()}
    ends = topic_ends(names, tables(*((topic, end) for topic, (_, end) in topics.items())), marks)

    found, _ = smallest(marks, list(marks), ends)

    live = [mark for mark, end in topics.values() if end is None or mark > end]
    dropped = [end for _, end in topics.values() if end is not None]
    assert found == (at(min(live)) if live else at(max(dropped)) if dropped else MIN_POSITION)
