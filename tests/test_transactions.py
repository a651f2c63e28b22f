"""The watermark of a Debezium feed: never past a row that is missing, and at the end once nothing is."""

import json

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Position
from lakehouse.transactions import Told, advance

# A transaction is how many rows it has; its rows lie in topics of their own, its END in one that all share.
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def position(transaction: int, row: int) -> Position:
    return (0, 1, 100 * (transaction + 1) + row, 1, 0, 1)


@given(sizes, st.data())
def test_whatever_order_topics_arrive_in_the_watermark_stands_right_below_the_first_gap(rows: list[int], data: st.DataObject) -> None:
    records = [(f"t{number}", row, position(number, row)) for number, count in enumerate(rows) for row in range(1, count + 1)]
    arriving = data.draw(st.permutations(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arriving)), min_size=2, max_size=4)))
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=len(cuts), max_size=len(cuts))))
    state, seen, shown = None, set(), 0

    for low, high, ended in zip([0, *cuts], [*cuts, len(arriving)], [*ends, len(rows)], strict=True):
        told = Told()
        for id_, row, place in arriving[data.draw(st.integers(0, low)) : high]:  # some come again
            told.row((f"tx={id_};{row}",), place)
            seen.add((id_, row))
        told.ends = [(f"t{number}", rows[number]) for number in range(data.draw(st.integers(0, shown)), ended)]
        shown = ended
        state = json.loads(json.dumps(advance(state, told)))

        whole = next((n for n in range(len(rows)) if n >= shown or any((f"t{n}", r) not in seen for r in range(1, rows[n] + 1))), len(rows))
        assert state["whole"] == (list(position(whole - 1, rows[whole - 1])) if whole else None)

    assert state["whole"] == list(max(place for _, _, place in records))
    assert (state["open"], state["ends"]) == ({}, [])


def test_a_ddl_counts_from_the_next_batch_on_and_only_while_nothing_is_open() -> None:
    ddl = (0, 1, 500, 1, 0, 0)
    first = advance(None, Told(ddls={ddl}))
    assert first["whole"] is None
    assert advance(first, Told())["whole"] == list(ddl)
    assert advance(None, Told(ddls={ddl}), settled=True)["whole"] == list(ddl)

    opened = advance(first, Told(rows={"t": ({1}, position(0, 1))}))
    assert opened["whole"] is None
    assert advance(opened, Told(ends=[("t", 1)]))["whole"] == list(ddl)


def test_a_snapshot_is_whole_with_its_last_row() -> None:
    told = Told()
    told.row(("snapshot", "snapshot=first"), (0, 1, 300, 0, 0, 1))
    assert advance(None, told)["whole"] is None

    told.row(("snapshot", "snapshot=last"), (0, 1, 300, 0, 0, 1))

    state = advance(None, told)
    assert state["snapshots"] == [[0, 1, 300, 0, 0, 0]]
    assert (0, 1, 300, 0, 0, 1) < tuple(state["whole"]) < (0, 1, 300, 1, 0, 0)


def test_an_end_that_comes_twice_holds_nothing() -> None:
    told = Told(rows={"a": ({1}, position(0, 1)), "b": ({1}, position(1, 1))}, ends=[("a", 1), ("a", 1), ("b", 1)])

    state = advance(advance(None, told), Told(ends=[("b", 1)]))

    assert (state["whole"], state["ends"]) == (list(position(1, 1)), [])
