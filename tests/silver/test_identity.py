"""The identity of changes of tables without a key: halves of updates, and equal rows by their number in a run
(T10, T42).
"""

import pytest

from lakehouse.events import WRITTEN_AGAIN, RowChange
from lakehouse.ops.progress import OpenRun, run_place
from lakehouse.silver.identity import (
    RunCounter,
    image_hash,
    resolved_runs,
    split_keyless,
    with_picked_rows,
)
from lakehouse.spark.silver.columns import OTHER_COLUMNS
from lakehouse.spark.silver.driver_batch import number_rows, resolved_events

TABLE, OTHER = "d\0t\0", "d\0u\0"


def change(op: str, key_names: tuple[str, ...] = ()) -> RowChange:
    """A change at commit 7 as TiCDC sends it."""
    before = None if op == "insert" else {"a": 1}
    after = None if op == "delete" else {"a": 2}
    key = (1,) if key_names else ()
    rank = 0 if op == "delete" else 1
    return RowChange(
        "d",
        "t",
        op,
        key,
        key_names=key_names,
        commit_ts=7,
        position=(3, 7, rank, 0, 0, 0),
        before=before,
        after=after,
        index=0,
    )


def numbers(counter: RunCounter, *commits: int, table: str = TABLE, half: str = "1:x") -> list[int]:
    return [counter.number(table, commit, half)[0] for commit in commits]


def test_an_update_of_a_row_without_a_key_is_its_old_image_as_a_delete_and_its_new_one_as_an_insert() -> None:
    delete, insert = split_keyless(change("update"))

    assert (delete.op, delete.before, delete.after, delete.position) == (
        "delete",
        {"a": 1},
        None,
        (3, 7, 0, 0, 0, 0),
    )
    assert (insert.op, insert.before, insert.after, insert.position) == (
        "insert",
        None,
        {"a": 2},
        (3, 7, 1, 0, 0, 0),
    )


@pytest.mark.parametrize("op", ["insert", "delete", "update"])
def test_any_other_change_stays_whole(op: str) -> None:
    keyed = change(op, ("id",))

    assert split_keyless(keyed) == [keyed]
    if op != "update":
        assert split_keyless(change(op)) == [change(op)]


def test_an_image_is_the_same_in_any_order_of_its_columns_and_another_with_any_other_value() -> None:
    assert image_hash({"a": 1, "b": None}) == image_hash({"b": None, "a": 1})
    assert len({image_hash(image) for image in ({"a": 1}, {"a": "1"}, {"a": None}, {"b": 1}, {})}) == 5


def test_equal_halves_are_counted_within_one_run_and_each_half_by_itself() -> None:
    counter = RunCounter()

    assert numbers(counter, 7, 7, 7) == [0, 1, 2]
    assert numbers(counter, 7, half="0:x") == [0]
    assert numbers(counter, 7) == [3]


def test_another_commit_of_the_table_ends_a_run_and_one_of_another_table_does_not() -> None:
    counter = RunCounter()

    assert numbers(counter, 7, 7) == [0, 1]
    assert numbers(counter, 8, table=OTHER) == [0]
    assert numbers(counter, 7) == [2]
    assert numbers(counter, 8, 7, 7) == [0, 0, 1]


def test_a_file_that_begins_with_a_runs_first_half_again_may_be_a_replay() -> None:
    """Between the files of a storage sink no resolved event comes."""
    events = [
        {"kind": "change", "topic": "x", "incarnation": "", "partition": 0, "offset": file, "index": index}
        | {"database": "d", "table": "t", "physical_table": None, "commit_ts": commit_ts, "half": half}
        | {"position": (0, commit_ts, 1, 0, 0, 0), "flags": None}
        for file, halves in enumerate([(6, "yxx"), (7, "xyx"), (7, "xyx"), (7, "yx"), (7, "zx")])
        for index, (commit_ts, half) in enumerate((halves[0], half) for half in halves[1])
    ]
    for files, flagged in [(True, [6]), (False, [])]:
        told = [dict(event) for event in events]
        runs = number_rows(told[:6], {}, files=files)
        number_rows(told[6:], runs, files=files)
        assert " ".join(str(event["row_id"]) for event in told) == (
            "y:0 x:0 x:1 x:0 y:0 x:1 x:2 y:1 x:3 y:2 x:4 z:0 x:5"
        )
        assert [number for number, event in enumerate(told) if event["flags"] == [WRITTEN_AGAIN]] == flagged


def test_a_resolved_event_ends_the_runs_at_or_below_it_alone() -> None:
    counter = RunCounter()
    assert numbers(counter, 7, 7) == [0, 1]

    counter.resolved(6)
    assert numbers(counter, 7) == [2]
    counter.resolved(7)

    assert numbers(counter, 7, 7, 7, 7) == [0, 1, 2, 3]


def test_a_run_goes_on_over_batches() -> None:
    first = RunCounter()
    assert numbers(first, 7, 7) == [0, 1]

    assert numbers(RunCounter(first.runs), 7) == [2]
    assert numbers(first, 7) == [2], "what another batch counts does not change the state that it began from"


def test_a_resolved_event_below_the_last_one_ends_all_runs() -> None:
    counter = RunCounter()
    counter.resolved(5)
    assert numbers(counter, 7, 7) == [0, 1]

    counter.resolved(5)
    assert numbers(RunCounter(counter.runs), 7) == [2], "it stands still"
    counter.resolved(4)
    assert numbers(RunCounter(counter.runs), 7) == [0], "the changefeed has begun again"


@pytest.mark.parametrize(
    ("resolved", "number"),
    [([6], 1), ([7], 0), ([9], 0), ([3, 6], 1), ([6, 3], 0), ([6, 3, 6], 0)],
    ids=lambda told: str(told),
)
def test_a_batch_without_rows_of_keyless_tables_ends_the_runs_that_its_resolved_events_end(
    resolved: list[int], number: int
) -> None:
    place, counter = run_place("x", "", 0), RunCounter()
    assert numbers(counter, 7) == [0]
    records = [
        {**dict.fromkeys(OTHER_COLUMNS), "kind": "watermark", "topic": "x", "incarnation": "", "partition": 0}
        | {"offset": offset, "index": 0, "resolved_ts": resolved_ts}
        for offset, resolved_ts in enumerate(resolved)
    ]

    runs = resolved_runs({place: counter.runs}, resolved_events(reversed(records)))

    assert numbers(RunCounter(runs[place]), 7) == [number]
    assert numbers(counter, 7) == [1], "what a batch ends does not change the state that it began from"


def test_a_run_is_ended_by_a_resolved_event_below_the_last_one_though_that_came_before_any_row() -> None:
    place = run_place("x", "", 0)

    counter = RunCounter(resolved_runs({}, [(place, 9), (place, 6)])[place])

    assert numbers(counter, 7) == [0]
    counter.resolved(6)
    assert numbers(counter, 7) == [1]
    counter.resolved(5)
    assert numbers(counter, 7) == [0]


def test_rows_that_were_picked_out_count_in_the_run_that_is_open_and_in_no_earlier_one() -> None:
    open_, ended = OpenRun(5, False, {"x": 2, "y": 1}), OpenRun(4, True, {})
    before = {"p": {"t": open_, "u": ended}, "q": {"t": open_}}

    after = {"p": {"t": OpenRun(5, False, {"x": 1, "z": 1}), "u": OpenRun(4, False, {"x": 1})}}
    assert with_picked_rows(before, after) == {
        "p": {"t": OpenRun(5, False, {"x": 2, "y": 1, "z": 1}), "u": ended},
        "q": {"t": open_},
    }
    assert with_picked_rows(before, {"p": {"t": OpenRun(3, False, {"x": 7})}}) == before


def test_rows_that_were_picked_out_of_a_commit_that_is_not_resolved_begin_its_run() -> None:
    place, picked = run_place("x", "", 0), RunCounter()
    assert numbers(picked, 7, 7) == [0, 1]
    for resolved, before, number in [(None, None, 2), (6, None, 2), (6, 6, 2), (7, None, 0), (None, 8, 0)]:
        counter = RunCounter()
        if resolved is not None:
            counter.resolved(resolved)
        if before is not None:
            counter.number(TABLE, before, "1:y")

        runs = with_picked_rows({place: counter.runs}, {place: picked.runs})

        assert numbers(RunCounter(runs[place]), 7) == [number], (resolved, before)
