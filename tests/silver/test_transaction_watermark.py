"""The watermark of a Debezium feed: never past a row that is missing, and at the end once nothing is."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from lakehouse.events import Position
from lakehouse.ops.progress import LostRows, OpenTransaction, Transactions
from lakehouse.silver import transaction_watermark
from lakehouse.silver.transaction_watermark import TransactionEvents, aborted, advance, waits

# A transaction is how many rows it has; its rows lie in topics of their own, its END in one that all share.
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def position(transaction: int, row: int) -> Position:
    return (0, 1, 100 * (transaction + 1) + row, 1, 0, 1)


def stored(state: Transactions) -> Transactions:
    """The state as the next run reads it."""
    return msgspec.json.decode(msgspec.json.encode(state), type=Transactions)


@given(sizes, st.data())
def test_whatever_order_topics_arrive_in_the_watermark_stands_right_below_the_first_gap(
    rows: list[int], data: st.DataObject
) -> None:
    records = [
        (f"t{number}", row, position(number, row))
        for number, count in enumerate(rows)
        for row in range(1, count + 1)
    ]
    arriving = data.draw(st.permutations(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arriving)), min_size=2, max_size=4)))
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=len(cuts), max_size=len(cuts))))
    state, seen, shown = None, set(), 0

    for low, high, ended in zip([0, *cuts], [*cuts, len(arriving)], [*ends, len(rows)], strict=True):
        told = TransactionEvents()
        for id_, row, place in arriving[data.draw(st.integers(0, low)) : high]:  # some come again
            told.row((f"tx={id_};{row}",), place)
            seen.add((id_, row))
        told.ends = [
            (f"t{number}", rows[number]) for number in range(data.draw(st.integers(0, shown)), ended)
        ]
        shown = ended
        state = stored(advance(state, told))

        whole = next(
            (
                n
                for n in range(len(rows))
                if n >= shown or any((f"t{n}", r) not in seen for r in range(1, rows[n] + 1))
            ),
            len(rows),
        )
        assert state.whole == (position(whole - 1, rows[whole - 1]) if whole else None)

    assert state is not None
    assert state.whole == max(place for _, _, place in records)
    assert (state.open, state.ends) == ({}, ())


def test_a_ddl_counts_from_the_next_batch_on_and_only_while_nothing_is_open() -> None:
    ddl = (0, 1, 500, 1, 0, 0)
    first = advance(None, TransactionEvents(ddls={ddl}))
    assert first.whole is None
    assert advance(first, TransactionEvents()).whole == ddl
    assert advance(None, TransactionEvents(ddls={ddl}), settled=True).whole == ddl

    opened = advance(first, TransactionEvents(rows={"t": ({1}, position(0, 1))}))
    assert opened.whole is None
    assert advance(opened, TransactionEvents(ends=[("t", 1)])).whole == ddl


def test_a_statement_that_comes_in_parts_counts_with_the_last_of_them_or_with_what_follows() -> None:
    place, behind = (0, 1, 500, 1, 0, 0), (0, 1, 600, 1, 0, 0)

    def told(*parts: tuple[str, int]) -> TransactionEvents:
        events = TransactionEvents()
        for statement, count in parts:
            events.ddl(place, statement, count)
        return events

    # the first one comes twice: the connector died behind it
    first = stored(advance(None, told(("a TO x", 2), ("a TO x", 2)), settled=True))
    assert first.whole is None
    assert (waits(first, looked=True), advance(first, told(("a TO x", 2)), settled=True).whole) == (
        False,
        None,
    )
    both = advance(first, told(("b TO a", 2)))
    assert (both.whole, both.divided) == (place, UNSET)
    assert advance(first, TransactionEvents(ddls={behind}), settled=True).whole == behind
    assert advance(None, told(("a TO x", 2), ("b TO a", 2)), settled=True).whole == place

    # of these nothing tells how many there are
    unknown = advance(None, told(("a TO d.x", 0), ("d.x TO a", 0)), settled=True)
    assert (unknown.whole, advance(unknown, TransactionEvents(ddls={behind}), settled=True).whole) == (
        None,
        behind,
    )


def test_a_snapshot_is_whole_with_its_last_row() -> None:
    told = TransactionEvents()
    told.row(("snapshot", "snapshot=first"), (0, 1, 300, 0, 0, 1))
    assert advance(None, told).whole is None

    told.row(("snapshot", "snapshot=last"), (0, 1, 300, 0, 0, 1))

    state = advance(None, told)
    assert state.snapshots == ((0, 1, 300, 0, 0, 0),)
    assert state.whole is not None and (0, 1, 300, 0, 0, 1) < state.whole < (0, 1, 300, 1, 0, 0)


def test_snapshots_and_ddls_count_with_a_batch_that_leaves_nothing_unread() -> None:
    ddl, first, second = (0, 1, 500, 1, 0, 0), (0, 1, 300, 0, 0, 0), (0, 1, 600, 0, 0, 0)
    told = TransactionEvents(snapshots={first}, begun={first}, ddls={ddl})
    part = stored(advance(None, told, complete=False))
    assert (part.whole, part.snapshots, part.waiting, part.ddls) == (None, (), (first,), (ddl,))

    another = advance(part, TransactionEvents(begun={second}), complete=False)
    assert (another.whole, aborted(another)) == (None, []), "its last row has come: it was not broken off"

    rest = advance(part, TransactionEvents())
    assert (rest.whole, rest.snapshots, rest.waiting, rest.ddls) == (ddl, (first,), UNSET, ())


def test_a_transaction_above_a_snapshot_of_which_rows_are_unread_does_not_count_yet() -> None:
    snapshot, below = (0, 1, 300, 0, 0, 0), position(1, 1)
    above = (0, 1, 800, 1, 0, 1)
    ends = TransactionEvents(
        rows={"a": ({1}, below), "b": ({1}, above)}, ends=[("a", 1), ("b", 1)], begun={snapshot}
    )
    part = stored(advance(None, ends, complete=False))
    assert (part.whole, part.held, part.ends) == (below, above, ())

    still = stored(advance(part, TransactionEvents(snapshots={snapshot}), complete=False))
    assert (still.whole, still.held, still.waiting) == (below, above, (snapshot,))
    rest = advance(still, TransactionEvents())
    assert (rest.whole, rest.held, rest.waiting) == (above, UNSET, UNSET)

    assert advance(part, TransactionEvents()).whole == above, "a connector may never mark the last row"


def test_rows_that_are_not_read_yet_are_not_those_that_were_lost() -> None:
    told = TransactionEvents(rows={"a": ({1}, position(0, 1))}, ends=[("a", 2)], lost=1)
    part = advance(advance(None, told, complete=False), TransactionEvents(), complete=False)
    assert (part.whole, part.ends) == (None, (("a", 2),))
    assert advance(part, TransactionEvents()).whole == position(0, 1)


def test_an_end_that_comes_twice_holds_nothing() -> None:
    told = TransactionEvents(
        rows={"a": ({1}, position(0, 1)), "b": ({1}, position(1, 1))}, ends=[("a", 1), ("a", 1), ("b", 1)]
    )

    state = advance(advance(None, told), TransactionEvents(ends=[("b", 1)]))

    assert (state.whole, state.ends) == (position(1, 1), ())


def test_a_whole_snapshot_ends_the_wait_for_rows_that_were_lost_before_it() -> None:
    lost = TransactionEvents(rows={"a": ({1}, position(0, 1))}, ends=[("a", 2), ("b", 1)])
    snapshot = TransactionEvents(snapshots={(0, 1, 700, 0, 0, 0)})
    after, at = (
        TransactionEvents(rows={"c": ({1}, (0, 1, 800, 1, 0, 1))}, ends=[("c", 1)]),
        (0, 1, 800, 1, 0, 1),
    )

    held, freed = advance(advance(None, lost), after), advance(advance(advance(None, lost), snapshot), after)

    assert (held.whole, held.ends) == (None, (("a", 2), ("b", 1), ("c", 1)))
    assert (freed.whole, freed.ends) == (at, ())


def test_a_transaction_that_was_never_ended_holds_no_ddl_above_a_later_snapshot() -> None:
    ddl = (0, 1, 900, 1, 0, 0)
    opened = advance(None, TransactionEvents(rows={"x": ({1}, position(0, 1))}))

    assert advance(opened, TransactionEvents(ddls={ddl}), settled=True).whole is None
    assert (
        advance(opened, TransactionEvents(ddls={ddl}, snapshots={(0, 1, 700, 0, 0, 0)}), settled=True).whole
        == ddl
    )


def test_what_can_t_be_read_stands_for_a_row_of_an_end_that_has_waited() -> None:
    lost = TransactionEvents(rows={"a": ({1}, position(0, 1))}, ends=[("a", 2)], lost=1)
    later = TransactionEvents(rows={"b": ({1}, position(1, 1))}, ends=[("b", 2)])

    arriving = advance(None, lost)
    waited = advance(stored(arriving), later)

    assert (arriving.whole, arriving.ends) == (None, (("a", 2),))
    assert (waited.whole, waited.ends, waited.lost.unknown) == (
        position(0, 1),
        (("b", 2),),
        0,
    )
    assert advance(waited, TransactionEvents()).ends == (("b", 2),), "it stood for one row, and no more"


def test_a_complete_snapshot_has_what_could_not_be_read() -> None:
    state = advance(
        advance(None, TransactionEvents(lost=3)), TransactionEvents(snapshots={(0, 1, 700, 0, 0, 0)})
    )
    assert state.lost == LostRows()


def test_a_transaction_that_is_whole_with_a_lost_row_is_not_opened_by_its_late_rows() -> None:
    state = advance(None, TransactionEvents(ends=[("a", 1)], lost=1), settled=True)
    assert (state.whole, state.ends) == (None, ())
    assert advance(state, TransactionEvents(rows={"a": ({1}, position(0, 1))})).open == {}


def test_an_end_that_a_lost_record_was_taken_for_gives_it_back_when_its_row_comes() -> None:
    state = advance(advance(None, TransactionEvents(ends=[("a", 1), ("b", 1)], lost=1)), TransactionEvents())
    assert (state.ends, state.lost.unknown) == ((("b", 1),), 0)

    state = advance(stored(state), TransactionEvents(rows={"a": ({1}, position(0, 1))}))

    assert (state.ends, state.open, state.lost.unknown) == ((), {}, 0)


def test_records_that_are_decoded_again_are_lost_once() -> None:
    state = advance(None, TransactionEvents(ends=[("a", 1)], lost=1), settled=True)
    assert advance(state, TransactionEvents(lost=1), again=True).lost.unknown == 0
    assert advance(state, TransactionEvents(rows={"a": ({1}, position(0, 1))}), again=True).lost.unknown == 0


@given(sizes, st.data())
def test_whatever_can_t_be_read_nothing_waits_for_ever(rows: list[int], data: st.DataObject) -> None:
    records = [
        (f"t{number}", row, position(number, row))
        for number, count in enumerate(rows)
        for row in range(1, count + 1)
    ]
    arriving = data.draw(st.permutations(records))
    dead = data.draw(st.lists(st.booleans(), min_size=len(arriving), max_size=len(arriving)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arriving)), min_size=2, max_size=4)))
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=len(cuts), max_size=len(cuts))))
    state, shown = None, 0

    for low, high, ended in zip([0, *cuts], [*cuts, len(arriving)], [*ends, len(rows)], strict=True):
        told = TransactionEvents(
            lost=sum(dead[low:high]), ends=[(f"t{number}", rows[number]) for number in range(shown, ended)]
        )
        for (id_, number, place), is_dead in zip(arriving[low:high], dead[low:high], strict=True):
            if not is_dead:
                told.row((f"tx={id_};{number}",), place)
        state, shown = stored(advance(state, told)), ended
    state = advance(state, TransactionEvents())

    assert (state.ends, state.open, state.lost.unknown) == ((), {}, 0)


def many(count: int, id_: str = "u:{}") -> TransactionEvents:
    """So many transactions of one row, all of them whole."""
    told = TransactionEvents()
    for number in range(count):
        told.row((f"tx={id_.format(number)};1",), position(number, 1))
        told.ends.append((id_.format(number), 1))
    return told


def test_an_end_that_is_sent_again_after_many_transactions_holds_nothing() -> None:
    state = stored(advance(None, many(3000)))
    assert sum(map(len, (state.passed or {}).values())) == 1

    alone = stored(advance(state, TransactionEvents(ends=[("u:7", 1)])))
    beside = advance(
        alone, TransactionEvents(rows={"u:3000": ({1}, position(3000, 1))}, ends=[("u:3000", 1)])
    )

    assert (alone.ends, beside.ends) == ((), ())
    assert beside.whole == position(3000, 1)


def test_transactions_without_rows_leave_no_holes_in_what_is_remembered() -> None:
    told = many(3000)
    told.ends = [(id_, 0 if number % 2 else 1) for number, (id_, _) in enumerate(told.ends)]
    told.rows = {id_: told.rows[id_] for id_, count in told.ends if count}
    assert advance(None, told).passed == {"u:": ((0, 2999),)}


def test_ids_that_are_not_the_same_are_never_taken_for_one() -> None:
    ids = ["u:7", "u:07", "u:007", "u:70", "u:0", "u:00", "u:", "u", "7", "07", "9" * 30, "8" + "9" * 29, ""]
    for one in ids:
        state = stored(advance(None, TransactionEvents(rows={one: ({1}, position(1, 1))}, ends=[(one, 1)])))
        told = TransactionEvents(ends=[(id_, 1) for id_ in ids if id_ != one])
        assert [id_ for id_, _ in advance(state, told).ends] == [id_ for id_ in ids if id_ != one]


def test_a_transaction_that_is_sent_again_from_its_middle_on_holds_nothing() -> None:
    state = stored(advance(None, many(3000, "{}:u")))
    again = TransactionEvents(rows={"7:u": ({4, 5}, position(7, 5))}, ends=[("7:u", 5)])

    state = advance(state, again)

    assert (state.ends, state.open, state.whole) == ((), {}, position(2999, 1))


def test_what_is_sent_again_of_transactions_that_are_held_holds_nothing() -> None:
    told = many(3000, "file=b.000001,pos={}0")
    told.begun.add((0, 1, 4, 0, 0, 0))
    state = stored(advance(None, told, complete=False))
    again = TransactionEvents()
    again.end("file=b.000001,pos=70", 1, (0, 1, 70, 1, 0, 0))
    again.row(("tx=file=b.000001,pos=90;5",), position(9, 5))
    again.end("file=b.000001,pos=90", 5, (0, 1, 290_000_000, 1, 0, 0))

    assert (state.whole, state.held) == (None, position(2999, 1))
    assert advance(state, again, complete=False).ends == ()


def test_a_row_without_a_place_does_not_tell_that_its_transaction_is_whole() -> None:
    state = advance(None, many(1))
    part = TransactionEvents(rows={"x": ({1}, (0, 0, 0, 0, 0, 0))}, ends=[("x", 2)])
    assert advance(state, part).ends == (("x", 2),)


def test_an_end_whose_begin_lies_below_the_watermark_holds_nothing() -> None:
    state = advance(None, many(3000, "file=b.000001,pos={}0"))
    told = TransactionEvents()
    told.end("file=b.000001,pos=70", 1, (0, 1, 70, 1, 0, 0))
    told.end("file=b.000001,pos=999999", 1, (0, 1, 999999, 1, 0, 0))

    assert advance(stored(state), told).ends == (("file=b.000001,pos=999999", 1),)


def test_ids_begin_again_with_an_epoch() -> None:
    state = stored(advance(None, many(10)))
    told = TransactionEvents()
    told.end("u:5", 2, (1, 2**63 - 1, 0, 1, 0, 0))
    told.row(("tx=u:5;1",), (1, 1, 100, 1, 0, 1))

    part = stored(advance(state, told))
    rest = TransactionEvents()
    rest.row(("tx=u:5;2",), (1, 1, 101, 1, 0, 1))

    assert (part.whole, len(part.ends)) == (position(9, 1), 1)
    assert advance(part, rest).whole == (1, 1, 101, 1, 0, 1)


def test_a_state_of_an_older_lakehouse_goes_on_in_a_later_epoch() -> None:
    begun = Transactions(
        open={"u:5": OpenTransaction(((1, 1),), (1, 1, 100, 1, 0, 1))},
        ends=(("u:5", 2),),
        closed=("u:4",),
        whole=(1, 1, 90, 1, 0, 1),
    )
    told = TransactionEvents()
    told.row(("tx=u:5;2",), (1, 1, 101, 1, 0, 1))
    told.end("u:4", 9, (1, 2**63 - 1, 0, 1, 0, 0))

    state = advance(begun, told)

    assert (state.whole, state.ends, state.open) == ((1, 1, 101, 1, 0, 1), (), {})


def test_a_snapshot_has_what_ended_before_it_in_its_own_batch_too() -> None:
    lost = TransactionEvents(
        rows={"b": ({1}, position(1, 1)), "c": ({1}, (0, 1, 800, 1, 0, 1))},
        ends=[("a", 2), ("b", 1), ("c", 1), ("d", 1)],
        snapshots={(0, 1, 700, 0, 0, 0)},
    )

    state = advance(None, lost)

    assert (state.whole, state.ends) == ((0, 1, 800, 1, 0, 1), (("d", 1),))


def test_a_transaction_below_the_watermark_that_was_never_ended_holds_no_ddl() -> None:
    ddl = (0, 1, 500_000, 1, 0, 0)
    state = advance(advance(None, many(3000)), TransactionEvents(rows={"x": ({1}, position(5, 1))}))
    waits = advance(state, TransactionEvents(ddls={ddl}))
    assert advance(waits, TransactionEvents()).whole == ddl


def test_a_later_epoch_ends_the_wait_for_rows_that_were_lost_before_it() -> None:
    lost = TransactionEvents(rows={"b": ({1}, position(1, 1))}, ends=[("a", 2), ("b", 1)])
    after = TransactionEvents()
    for number, id_ in enumerate(("a", "b"), 1):
        after.row((f"tx={id_};1",), (1, 1, number, 1, 0, 1))
        after.end(id_, number, (1, 2**63 - 1, 0, 1, 0, 0))

    state = stored(advance(stored(advance(None, lost)), after))

    assert (state.whole, state.ends) == ((1, 1, 1, 1, 0, 1), (("1/b", 2),))
    assert advance(None, lost).whole is None


def cut(*, behind: int) -> Transactions:
    """A transaction of three rows of which two came before an epoch, which has the rest and its END; then
    `behind` others, one in each batch.
    """
    first = TransactionEvents(rows={"b": ({1, 2}, position(1, 2))})
    rest = TransactionEvents()
    rest.row(("tx=b;3",), (1, 1, 203, 1, 0, 1))
    rest.end("b", 3, (1, 2**63 - 1, 0, 1, 0, 0))
    state = stored(advance(stored(advance(None, first)), rest))
    for number in range(behind):
        told = TransactionEvents()
        told.row((f"tx=c{number};1",), (1, 1, 300 + number, 1, 0, 1))
        told.end(f"c{number}", 1, (1, 2**63 - 1, 0, 1, 0, 0))
        state = stored(advance(state, told))
    return state


def test_an_epoch_that_begins_within_a_transaction_holds_nothing() -> None:
    assert (cut(behind=0).whole, cut(behind=0).ends) == (None, (("1/b", 3),)), "rows may be on their way"
    assert (cut(behind=2).whole, cut(behind=2).ends) == ((1, 1, 301, 1, 0, 1), ())


def test_an_epoch_that_begins_behind_a_transaction_does_not_wait_for_what_a_connector_sends_again() -> None:
    again, behind = TransactionEvents(), TransactionEvents()
    again.row(("tx=u:2;2",), (1, 1, 302, 1, 0, 1))
    again.end("u:2", 3, (1, 2**63 - 1, 0, 1, 0, 0))
    behind.row(("tx=u:3;1",), (1, 1, 400, 1, 0, 1))
    behind.end("u:3", 1, (1, 2**63 - 1, 0, 1, 0, 0))

    state = stored(advance(stored(advance(None, many(3))), again))

    assert (state.whole, state.ends) == (position(2, 1), (("1/u:2", 3),))
    assert advance(state, behind).whole == (1, 1, 400, 1, 0, 1)


def test_rows_from_before_an_epoch_are_none_of_a_transaction_behind_others_of_the_epoch() -> None:
    """Another server may give the id of a transaction that was cut off again."""
    lacks = TransactionEvents()
    lacks.end("b", 2, (1, 2**63 - 1, 0, 1, 0, 0))
    state = advance(None, TransactionEvents(rows={"b": ({1, 2}, position(1, 2))}))
    whole = TransactionEvents()
    whole.row(("tx=a;1",), (1, 1, 300, 1, 0, 1))
    whole.end("a", 1, (1, 2**63 - 1, 0, 1, 0, 0))

    state = advance(stored(advance(stored(advance(state, whole)), lacks)), TransactionEvents())

    assert state.ends == (("1/b", 2),)


def test_an_epoch_drops_no_transaction_that_is_whole() -> None:
    told = many(3)
    told.end("u:0", 2, (1, 2**63 - 1, 0, 1, 0, 0))
    assert advance(None, told).whole == position(2, 1)


def test_a_ddl_behind_which_nothing_comes_counts_once_topics_have_been_looked_into_again() -> None:
    ddl = (0, 1, 500, 1, 0, 0)
    state = advance(None, TransactionEvents(ddls={ddl}))
    opened = advance(state, TransactionEvents(rows={"t": ({1}, position(8, 1))}))

    assert not waits(None, looked=True)
    assert (waits(state, looked=False), waits(state, looked=True)) == (False, True)
    assert not waits(advance(state, TransactionEvents()), looked=True)
    assert not waits(advance(None, TransactionEvents(ends=[("a", 1)], ddls={ddl})), looked=True)
    assert opened.whole is None and not waits(opened, looked=True), "a row has come, and its END has not"


def test_what_only_the_end_of_a_pass_makes_count_waits_for_no_look() -> None:
    snapshot = (0, 1, 300, 0, 0, 0)
    part = advance(None, TransactionEvents(snapshots={snapshot}, begun={snapshot}), complete=False)
    assert waits(part, looked=False)
    assert not waits(advance(part, TransactionEvents()), looked=True)


def test_a_snapshot_that_a_signal_asked_for_does_not_end_the_wait_for_rows_that_were_lost() -> None:
    place = (0, 1, 700, 0, 0, 0)
    lost = TransactionEvents(rows={"a": ({1}, position(0, 1))}, ends=[("a", 2)], lost=0)
    begun, last = TransactionEvents(begun={place}), TransactionEvents(snapshots={place})
    begun.snapshot_statement(place, "DROP TABLE IF EXISTS `d`.`t`")

    some = stored(advance(stored(advance(stored(advance(None, lost)), begun)), last))
    begun.snapshot_statement(place, "DROP DATABASE IF EXISTS `d`")
    full = stored(advance(stored(advance(stored(advance(None, lost)), begun)), last))

    assert (some.whole, some.ends, some.snapshots) == (None, (("a", 2),), (place,))
    assert full.whole is not None and full.ends == ()
    come = advance(some, TransactionEvents(rows={"a": ({2}, position(0, 2))}))
    assert (come.whole, come.ends) == (full.whole, ())


def test_a_snapshot_without_statements_is_one_of_some_tables_where_others_have_them() -> None:
    """Its tables' statements came again at the places where they had come before."""
    lost = TransactionEvents(rows={"a": ({1}, position(1, 1))}, ends=[("a", 2)])
    before = TransactionEvents(snapshots={(0, 1, 10, 0, 0, 0)})
    place = (0, 1, 700, 0, 0, 0)
    unshown = advance(advance(advance(None, before), lost), TransactionEvents(snapshots={place}))
    before.snapshot_statement((0, 1, 10, 0, 0, 0), "DROP DATABASE IF EXISTS `d`")
    shown = advance(advance(advance(None, before), lost), TransactionEvents(snapshots={place}))

    assert (unshown.ends, shown.ends) == ((), (("a", 2),))


def test_a_snapshot_that_a_signal_asked_for_counts_where_nothing_is_awaited() -> None:
    place = (0, 1, 700, 0, 0, 0)
    told = TransactionEvents(begun={place}, snapshots={place})
    told.snapshot_statement(place, "DROP TABLE IF EXISTS `d`.`t`")
    assert advance(None, told).whole == (0, 1, 700, 0, 2**63 - 1, 1)


NOWHERE = (0, 2**63 - 1, 0, 1, 0, 0)
# topic, kind, transaction, number of the row or of rows
Sent = tuple[str, str, int, int]


def connector(chance: random.Random, sizes: list[int]) -> list[Sent]:
    """What a connector sends that dies now and then, and begins again some records before."""
    records: list[Sent] = []
    for number, count in enumerate(sizes):
        records += [(chance.choice("abc"), "row", number, row) for row in range(1, count + 1)]
        records.append(("transaction", "end", number, count))
        records += [("schema", "ddl", number, 0)] if chance.random() < 0.2 else []
    sent, at = [], 0
    while at < len(records):
        sent.append(records[at])
        at = at + 1 if chance.random() > 0.15 else chance.randint(max(0, at - 11), at + 1)
    return sent


def told_of(records: list[Sent], id_: str) -> TransactionEvents:
    told = TransactionEvents()
    for _, kind, number, count in records:
        begin = (0, 1, 100 * (number + 1), 1, 0, 0)
        if kind == "row":
            told.row((f"tx={id_.format(begin[2])};{count}",), position(number, count))
        elif kind == "end":
            told.end(id_.format(begin[2]), count, begin if id_.startswith("file") else NOWHERE)
        else:
            told.ddls.add((0, 1, begin[2] + 50, 1, 0, 0))
    return told


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("id_", ["u:{}", "file=b.000001,pos={}"])
def test_however_often_a_connector_dies_the_watermark_passes_no_row_and_comes_to_the_end(
    seed: int, id_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_watermark, "_REMEMBERED", 20 if id_ == "u:{}" else 3)
    chance = random.Random(seed)
    sizes = [chance.choice((0, 1, 1, 1, 2, 5)) for _ in range(chance.randint(3, 14))]
    sent = connector(chance, sizes)
    unseen = {(number, row) for number, count in enumerate(sizes) for row in range(1, count + 1)}
    state, landed, waiting = None, 0, list[Sent]()

    while landed < len(sent) or waiting:
        end = min(len(sent), landed + chance.randint(0, 8))
        waiting, landed = waiting + sent[landed:end], end
        complete = chance.random() < 0.5
        topics = {topic: sum(one[0] == topic for one in waiting) for topic, *_ in waiting}
        left = topics if complete else {topic: chance.randint(0, number) for topic, number in topics.items()}
        batch, rest = list[Sent](), list[Sent]()
        for one in waiting:
            left[one[0]] -= 1
            (batch if left[one[0]] >= 0 else rest).append(one)
        waiting = rest
        state = stored(advance(state, told_of(batch, id_), complete=complete))
        unseen -= {(number, count) for _, kind, number, count in batch if kind == "row"}
        lowest = min((position(*one) for one in unseen), default=None)
        assert state.whole is None or lowest is None or state.whole < lowest

    for _ in range(3):
        state = advance(state, TransactionEvents())
    assert state is not None
    told = told_of(sent, id_)
    assert state.ends == ()
    assert state.whole == max((*told.ddls, *(last for _, last in told.rows.values())), default=None)
