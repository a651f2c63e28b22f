"""Messages that a restarted Canal sends again are told from new ones (T10, T11, T51)."""

import json
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.formats.row import Redelivery
from lakehouse.silver.redelivery import Aligner, Sent, rule_of, sent
from tests.support.feeds import Canal


def rule(format: str) -> Redelivery:
    found = rule_of(format, "arrival")
    assert found is not None
    return found


CANAL, TICDC = rule("canal"), rule("ticdc-canal-json")
CREATE = "CREATE TABLE t (id INT, a VARCHAR(9))"


def copies(numbers_and_marks: list[tuple[int, str]]) -> list[bool]:
    return Aligner(CANAL).copies([Sent(number, mark.encode()) for number, mark in numbers_and_marks])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(2, 12)), max_size=6))
def test_however_often_and_far_back_a_feed_restarts_each_message_is_new_once(
    runs: list[tuple[int, int]],
) -> None:
    """Each run goes back so many messages and then sends so many, fewer than it went back too; two show that
    the count fell.
    """
    arrived: list[tuple[int, str]] = []
    at = furthest = 0
    for back, count in [(0, 12), *runs]:
        at = max(at - back, 0)
        arrived += [(number, f"message {place}") for number, place in enumerate(range(at, at + count), 1)]
        at += count
        furthest = max(furthest, at)

    found = [mark for (_, mark), copy in zip(arrived, copies(arrived), strict=True) if not copy]

    assert found == [f"message {place}" for place in range(furthest)]


def test_a_restart_that_sends_nothing_again_costs_nothing() -> None:
    assert copies([(1, "a"), (2, "b"), (1, "c"), (2, "a")]) == [False, False, False, False]


def test_one_batch_number_covers_many_messages() -> None:
    assert copies([(1, "a"), (1, "b"), (2, "c"), (1, "b"), (1, "c"), (1, "d")]) == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_replay_that_leaves_the_run_is_counted_and_goes_on_as_new() -> None:
    aligner = Aligner(CANAL)
    told = aligner.copies(
        [Sent(n, m) for n, m in [(5, b"a"), (6, b"b"), (7, b"c"), (1, b"a"), (2, b"x"), (3, b"c")]]
    )

    assert told == [False, False, False, True, False, False]
    assert (aligner.broken, aligner.is_replaying) == (1, False)


def test_all_places_of_the_run_that_fit_are_followed() -> None:
    assert copies([(1, "a"), (2, "a"), (3, "b"), (1, "a"), (2, "b"), (3, "c")]) == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert copies([(1, "a"), (2, "a"), (3, "b"), (1, "a"), (2, "a"), (3, "b")]) == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


def test_what_differs_by_nature_is_not_compared_and_all_else_is() -> None:
    def of(**members: Any) -> Sent:
        return sent(
            Message(
                "t",
                0,
                0,
                None,
                json.dumps({"id": 1, "ts": 5, "es": 7, "data": [{"id": "1"}], **members}).encode(),
            ),
            CANAL,
        )

    assert of().number == 1
    assert of().mark == of(id=9, ts=8).mark
    # a Canal that takes over reads its tables from the database, not from the statements that made them
    assert (
        of(mysqlType={"id": "INT"}, pkNames=None).mark == of(mysqlType={"id": "int(11)"}, pkNames=["id"]).mark
    )
    assert of(sqlType={"id": 4}).mark == of(sqlType={"id": -5}).mark
    assert len({of().mark, of(es=8).mark, of(data=[{"id": "2"}]).mark, of(sql="x").mark}) == 4
    assert sent(Message("t", 0, 0, None, b"no json"), CANAL).number is None


def test_a_commit_time_that_falls_is_a_replay_only_where_two_messages_in_a_row_came_before() -> None:
    told = [
        (10, b"a"),
        (30, b"b"),
        (20, b"c"),
        (10, b"a"),
        (20, b"d"),
        (10, b"a"),
        (30, b"b"),
        (20, b"c"),
        (40, b"e"),
    ]
    messages = [of_table(number, mark, mark.decode()) for number, mark in told]

    assert Aligner(TICDC).copies(messages) == [False] * 5 + [True, True, True, False]
    assert Aligner(TICDC).copies(messages[:3] * 2) == [False] * 3 + [True] * 3
    assert rule_of("ticdc-canal-json", "arrival") == TICDC
    assert rule_of("ticdc-canal-json", "tidb") is None


@pytest.mark.parametrize("rule", [CANAL, TICDC], ids=["canal", "ticdc"])
def test_batches_cut_anywhere_give_the_same(rule: Redelivery) -> None:
    told = [
        Sent(number, mark)
        for number, mark in [(1, b"a"), (2, b"b"), (3, b"c"), (1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]
    ]
    for cut in range(len(told) + 1):
        aligner = Aligner(rule)

        assert aligner.copies(told[:cut]) + aligner.copies(told[cut:]) == [False] * 3 + [True] * 3 + [False]


def of_table(number: int, mark: bytes, table: str) -> Sent:
    return Sent(number, mark, None, table)


class Update(NamedTuple):
    """An update in a feed of tables whose messages are in order of commit time in each table alone."""

    es: int
    table: int
    key: int

    @property
    def sent(self) -> Sent:
        return of_table(self.es, repr(self).encode(), f"t{self.table}")


def mixed(chance: random.Random, updates: Iterable[Update]) -> list[Update]:
    """The updates, each table's in order, the tables mixed anyhow."""
    left: dict[int, list[Update]] = {}
    for one in updates:
        left.setdefault(one.table, []).append(one)
    order = [one.table for mine in left.values() for one in mine]
    chance.shuffle(order)
    return [left[table].pop(0) for table in order]


@pytest.mark.parametrize("again", ["as it was", "mixed otherwise"])
def test_rows_end_as_the_sources_however_a_replay_mixes_tables_and_wherever_batches_end(again: str) -> None:
    """A transaction has one `es`, and two of one row never have. Of a row that is back in the past the later
    messages are no copies, though they came before.
    """
    for seed in range(3000):
        chance = random.Random(seed)
        drawn = {Update(10 + n // 3, chance.randrange(2), chance.randrange(3)) for n in range(12)}
        first = mixed(chance, sorted(drawn))
        begin = chance.randrange(len(first))
        later = first[begin:] if again == "as it was" else [u for u in first if u.es >= first[begin].es]
        told = first + (later if again == "as it was" else mixed(chance, sorted(later)))
        cut = chance.randrange(len(told))
        aligner, rows = Aligner(TICDC), dict[Any, Update]()

        copies = [
            copy for part in (told[:cut], told[cut:]) for copy in aligner.copies([u.sent for u in part])
        ]

        for update in (update for update, copy in zip(told, copies, strict=True) if not copy):
            rows[update.table, update.key] = update
        assert rows == {(update.table, update.key): update for update in sorted(drawn)}, seed


def test_restarts_in_a_row_that_each_owe_one_batch_are_told_by_their_pause() -> None:
    """The backlog of each restart is batch 1; the second of them goes further back, and begins while the
    first is under way.
    """
    told = [
        (5, b"a", 100),
        (6, b"b", 200),
        (7, b"c", 300),
        (1, b"b", 9000),
        (1, b"a", 19000),
        (1, b"b", 19002),
        (1, b"c", 19003),
    ]
    told += [(1, b"a", 29000), (1, b"b", 29001), (1, b"c", 29002), (1, b"d", 29003)]

    assert Aligner(CANAL).copies([Sent(*each) for each in told]) == [False] * 3 + [True] * 7 + [False]


def test_a_restart_within_the_first_batch_is_one_and_equal_rows_of_a_batch_are_not() -> None:
    told = [
        (1, b"a", 100),
        (1, b"a", 102),
        (1, b"b", 140),
        (1, b"a", 9000),
        (1, b"a", 9001),
        (1, b"b", 9003),
        (1, b"c", 9004),
    ]

    assert Aligner(CANAL).copies([Sent(*each) for each in told]) == [False] * 3 + [True] * 3 + [False]


def test_a_number_that_falls_within_a_second_is_another_canal_s() -> None:
    """Two of them send to one topic; the second one's row goes there and back within a second."""
    told = [(90, b"x", 100), (5, b"a", 103), (91, b"y", 110), (6, b"b", 150), (92, b"z", 151), (6, b"a", 152)]

    assert Aligner(CANAL).copies([Sent(*each) for each in told]) == [False] * 6


@pytest.mark.parametrize("made", [310, 1300, -60_000])
def test_a_canal_that_begins_again_at_once_or_later_or_by_another_clock_is_restarted(made: int) -> None:
    told = [(90, b"a", 100), (91, b"b", 300), (1, b"a", made), (2, b"b", made + 1), (3, b"c", made + 2)]

    assert Aligner(CANAL).copies([Sent(*each) for each in told]) == [False] * 2 + [True] * 2 + [False]


def test_a_restart_that_goes_back_to_a_message_like_the_next_one_of_a_replay_under_way_is_followed() -> None:
    told = [
        (5, b"x"),
        (6, b"a"),
        (7, b"b"),
        (8, b"x"),
        (9, b"c"),
        (1, b"a"),
        (2, b"b"),
        (1, b"x"),
        (2, b"a"),
        (3, b"b"),
        (4, b"x"),
        (5, b"c"),
    ]

    assert Aligner(CANAL).copies([Sent(*each) for each in told]) == [False] * 5 + [True] * 7


def replayed(feed: Canal, back: int, numbers: list[int]) -> Canal:
    """The feed whose last messages come again behind it, and which goes on."""
    bodies = [json.loads(message.value or b"") for message in feed.messages]
    bodies += bodies[len(bodies) - back :]
    feed.messages = [
        Message("topic", 0, place, None, json.dumps({**body, "id": number, "ts": 1000 * place}).encode())
        for place, (body, number) in enumerate(zip(bodies, numbers, strict=True))
    ]
    return feed


def history() -> Canal:
    feed = Canal().ddl(1, CREATE)
    feed.row(2, "INSERT", {"id": 1, "a": "x"}, key=()).row(3, "INSERT", {"id": 1, "a": "x"}, key=())
    return (
        feed.ddl(4, "ALTER TABLE t ADD COLUMN n INT")
        .row(5, "INSERT", {"id": 2, "a": "y"}, key=())
        .ddl(6, "ALTER TABLE t DROP COLUMN n")
    )


def test_rows_of_a_keyless_table_and_statements_that_come_again_have_no_second_effect() -> None:
    expected = history().table()
    for back in range(7):
        feed = replayed(history(), back, [*range(10, 16), *range(1, back + 1)])

        assert feed.table() == expected
        assert feed.lineage().held is None
