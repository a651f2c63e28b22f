"""Order, duplicates and replay: what stands last is what the source has (T01 to T24)."""

import itertools
import random

from lakehouse.events import Message
from lakehouse.formats.assemble import place_of
from lakehouse.spark.bronze.epochs import epoch_of
from tests.support.feeds import Canal, Debezium, TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
X, Y, Z = ({"id": 1, "a": text} for text in "xyz")


def offsets(messages: list[Message]) -> list[Message]:
    """The messages under the offsets of the order in which they stand."""
    return [Message("topic", 0, number, m.key, m.value, m.headers) for number, m in enumerate(messages)]


def test_t01_a_delete_and_an_insert_of_one_key_at_one_commit_leave_the_row_in_either_order() -> None:
    for first, second in (("DELETE", "INSERT"), ("INSERT", "DELETE")):
        feed = TiCDC().ddl(1, CREATE).insert(2, **X)
        for kind in (first, second):
            feed.row(3, kind, Y if kind == "INSERT" else X)

        assert feed.table() == [Y]


def test_t02_a_row_inserted_and_deleted_in_one_binlog_transaction_is_gone() -> None:
    canal = Canal().ddl(1, CREATE).row(2, "INSERT", X).row(2, "DELETE", X)
    debezium = Debezium().ddl(1, CREATE).change(10, "c", None, X).change(20, "d", X, None)

    assert (canal.table(), debezium.table()) == ([], [])


def test_t03_of_many_changes_of_one_key_the_last_one_stands() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, **X).row(3, "DELETE", X).insert(4, **Y).row(5, "UPDATE", Z, Y)

    assert feed.table() == [Z]


def test_t04_two_keys_that_one_transaction_swaps_are_swapped_however_they_arrive() -> None:
    one, two = {"id": 1, "a": "x"}, {"id": 2, "a": "y"}
    swap = [
        ("DELETE", one),
        ("DELETE", two),
        ("INSERT", {"id": 2, "a": "x"}),
        ("INSERT", {"id": 1, "a": "y"}),
    ]
    for order in itertools.permutations(swap):
        feed = TiCDC().ddl(1, CREATE).insert(2, **one).insert(2, **two)
        for kind, row in order:
            feed.row(3, kind, row)

        assert feed.table() == [{"id": 1, "a": "y"}, {"id": 2, "a": "x"}]


def test_t05_a_chain_of_key_changes_keeps_every_row_in_either_order() -> None:
    changes = [({"id": 3, "a": "y"}, {"id": 2, "a": "y"}), ({"id": 2, "a": "x"}, {"id": 1, "a": "x"})]
    for order in itertools.permutations(changes):
        feed = TiCDC().ddl(1, CREATE).insert(2, **X).insert(2, id=2, a="y")
        for new, old in order:
            feed.row(3, "UPDATE", new, old)

        assert feed.table() == [{"id": 2, "a": "x"}, {"id": 3, "a": "y"}]


def test_t06_a_key_change_removes_the_old_key_though_it_is_sent_to_the_new_ones_partition() -> None:
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", X).row(3, "UPDATE", {"id": 9, "a": "x"}, {"id": 1})
    last = feed.messages[-1]
    feed.messages[-1] = Message("topic", 1, 7, None, last.value)

    assert feed.table() == [{"id": 9, "a": "x"}]


def test_t07_changes_of_one_second_stand_in_their_position() -> None:
    feed = Canal().ddl(1, CREATE)
    for values, old in ((X, None), (Y, X), (Z, Y)):
        feed.row(5, "UPDATE" if old else "INSERT", values, old)

    assert feed.table() == [Z]


def test_t08_rows_of_one_event_stand_in_their_order() -> None:
    feed = Debezium().ddl(1, CREATE)
    arrived = [("c", None, X, 0), ("u", X, Y, 1), ("u", Y, Z, 2)]
    for op, before, after, row in reversed(arrived):
        feed.change(10, op, before, after, row=row)

    assert feed.table() == [Z]


def test_t09_positions_are_numbers_and_not_text() -> None:
    feed = (
        Debezium()
        .ddl(1, CREATE)
        .change(99, "c", None, X)
        .change(100, "u", X, Y)
        .change(5, "u", Y, Z, file=10)
    )

    assert feed.table() == [Z]
    assert Debezium().ddl(1, CREATE).change(5, "u", Y, Z, file=10).change(
        7, "c", None, X, file=9
    ).table() == [Z]


def history() -> TiCDC:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, **X)
        .row(3, "UPDATE", Y, X)
        .row(4, "DELETE", Y)
        .insert(5, id=2, a="b")
    )
    return feed.ddl(6, "ALTER TABLE t ADD COLUMN n INT DEFAULT 7").row(
        7, "INSERT", {"id": 3, "a": "c", "n": 8}
    )


def test_t10_t11_t24_what_is_delivered_again_changes_nothing() -> None:
    feed = history()
    expected = feed.table()
    messages = feed.messages
    for start, end in itertools.combinations(range(len(messages) + 1), 2):
        feed.messages = offsets([*messages[:end], *messages[start:]])

        assert feed.table() == expected


def test_t12_t13_an_older_change_behind_a_delete_brings_no_row_back() -> None:
    feed = TiCDC().ddl(1, CREATE).row(9, "DELETE", X).insert(2, **X).row(5, "UPDATE", Y, X)

    assert feed.table() == []


def test_t14_a_watermark_never_goes_back() -> None:
    def mark(at: int) -> dict[str, object]:
        return {"type": "TIDB_WATERMARK", "database": "", "table": "", "_tidb": {"watermarkTs": at}}

    feed = TiCDC().ddl(1, CREATE).put(9, mark(9)).put(4, mark(4))

    assert feed.memory.watermark[1] == 9


def test_t15_t17_the_slowest_partition_holds_the_watermark_and_no_row_below_it_is_dropped() -> None:
    feed = TiCDC().ddl(1, CREATE)
    for partition, at in ((0, 90), (1, 40)):
        feed.put(at, {"type": "TIDB_WATERMARK", "database": "", "table": "", "_tidb": {"watermarkTs": at}})
        feed.messages[-1] = Message("topic", partition, at, None, feed.messages[-1].value)
    feed.insert(50, **X)

    memory = feed.memory
    assert memory.watermark[1] == 40
    assert memory.tables((0, 50, 2, 0, 0, 0)) == {"d.t": [X]}


def test_t16_rows_of_a_key_spread_over_partitions_stand_by_their_commit_time() -> None:
    feed = history()
    expected = feed.table()
    rng = random.Random(16)
    for _ in range(20):
        messages = [
            Message("topic", rng.randrange(4), number, m.key, m.value)
            for number, m in enumerate(history().messages)
        ]
        rng.shuffle(messages)
        feed.messages = messages

        assert feed.table() == expected


def test_t18_t19_a_later_epoch_stands_above_all_of_an_earlier_one() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(50, **X).row(7, "UPDATE", Y, X)
    last = feed.messages[-1]
    feed.messages[-1] = Message("topic", 0, 3, None, last.value, epoch=1)

    assert feed.table() == [Y]


def test_t21_the_connectors_clock_orders_nothing() -> None:
    feed = Debezium().ddl(1, CREATE).change(10, "c", None, X, ts_ms=900).change(20, "u", X, Y, ts_ms=100)

    assert feed.table() == [Y]


def test_t20_a_topic_created_anew_begins_again_and_its_records_are_no_copies() -> None:
    old, new = (
        Message("topic", 0, 5, None, b"{}", incarnation=incarnation) for incarnation in ("one", "two")
    )

    assert place_of(old) != place_of(new)
    epochs = [(1, {place_of(old): 6, place_of(new): 0})]
    assert [epoch_of(epochs, place_of(message), message.offset) for message in (old, new)] == [0, 1]
