"""The look at a batch's numbers, which most batches cost no more than, and how far back a run is read
(lakehouse/spark/silver/redelivery.py).
"""

import json
import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.ops.progress import OffsetRange
from lakehouse.silver.redelivery import Aligner, Sent, sent
from lakehouse.spark.silver import redelivery
from lakehouse.spark.silver.redelivery import _marks, _numbers_in
from tests.silver.test_redelivery import rule

CANAL = rule("canal")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**50),
            st.dictionaries(st.sampled_from(["id", "es", "a"]), st.none() | st.text()),
            st.text(),
        ),
        max_size=5,
    )
)
def test_the_number_that_a_look_finds_is_the_messages_own(
    told: list[tuple[int, dict[str, str | None], str]],
) -> None:
    bodies = [
        {
            "data": [row],
            "sql": sql,
            "id": number,
            "old": [{**row, "id": '{"id":7}'}],
            "es": 3,
            "sqlType": {"ts": 93},
            "ts": number + 5,
        }
        for number, row, sql in told
    ]
    values = [json.dumps(body, separators=(",", ":")).encode() for body in bodies]
    rows = [
        {"topic": "t", "incarnation": "", "partition": 0, "offset": place, "value": value}
        for place, value in enumerate([*values, b"none", None])
    ]
    types = {
        "topic": pa.string(),
        "incarnation": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "value": pa.binary(),
    }
    table = pa.Table.from_pylist(rows, pa.schema(list(types.items())))

    found = _numbers_in(table, CANAL)

    own = [sent(Message("t", 0, 0, None, value), CANAL).number for value in values]
    assert found == (
        {
            ("t", "", 0): [
                (place, number, number + 5) for place, number in enumerate(own) if number is not None
            ]
        }
        if own
        else {}
    )
    assert own == [number for number, _, _ in told]
    marked = pa.Table.from_batches(
        _marks(CANAL)(iter(table.select(["offset", "value"]).to_batches()))
    ).to_pylist()
    assert [tuple(row[name] for name in Sent._fields) for row in marked[: len(values)]] == [
        sent(Message("t", 0, 0, None, v), CANAL) for v in values
    ]


BRONZE = "topic string, incarnation string, partition int, offset bigint, value binary"


def arrived(runs: list[tuple[int, int]]) -> list[Sent]:
    """What a feed sends that begins again after each run: so many messages back, then so many."""
    told: list[Sent] = []
    at = 0
    for back, count in runs:
        at = max(at - back, 0)
        told += [Sent(number, b"m%d" % (at + number), None) for number in range(1, count + 1)]
        at += count
    return told


def batches_of(
    frame: Any, messages: list[Sent], cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> tuple[frozenset[int], list[int]]:
    """The copies that are found batch by batch, and the offsets of earlier batches that the driver looked
    at.
    """
    looked: list[int] = []
    sent_of = redelivery._sent

    def counted(bronze: Any, rule: Any, place: Any, offsets: tuple[int, int]) -> Any:
        looked.extend(range(offsets[0], min(offsets[1], start - 1) + 1))
        return sent_of(bronze, rule, place, offsets)

    monkeypatch.setattr(redelivery, "_sent", counted)
    found: frozenset[int] = frozenset()
    done: Any = None
    for start, end in pairwise([*cuts, len(messages)]):
        mine = frame.where(f"offset between {start} and {end - 1}").toArrow()
        seen = redelivery.find_replays(frame, CANAL, [OffsetRange("t", "", 0, start, end - 1)], done, mine)
        found |= seen.copies.get(("t", "", 0), frozenset())
        done = SimpleNamespace(sent=seen.state)
    monkeypatch.setattr(redelivery, "_sent", sent_of)
    return found, looked


def test_batch_by_batch_the_same_is_found_as_in_the_whole_run(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(11)
    for _ in range(4):
        runs = [(0, 30), *((drawn.randrange(0, 20), drawn.randrange(1, 25)) for _ in range(3))]
        messages = arrived(runs)
        cuts = sorted({0, *drawn.sample(range(1, len(messages)), 4)})
        found, _ = batches_of(bronze_of(spark, messages), messages, cuts, monkeypatch)
        copies = Aligner(CANAL).copies(messages)
        assert found == {offset for offset, is_copy in enumerate(copies) if is_copy}


def test_the_driver_looks_no_further_back_than_what_is_sent_again(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_again = arrived([(0, 40), (0, 5)])
    assert batches_of(bronze_of(spark, nothing_again), nothing_again, [0, 40], monkeypatch) == (
        frozenset(),
        [],
    )

    three_again = arrived([(0, 40), (3, 9)])
    found, looked = batches_of(bronze_of(spark, three_again), three_again, [0, 40, 42], monkeypatch)
    assert found == {40, 41, 42}
    assert looked == [37, 38, 39, 37, 38, 39, 40, 41]


def bronze_of(spark: Any, messages: list[Sent]) -> Any:
    values = [json.dumps({"id": one.number, "data": one.mark.decode()}).encode() for one in messages]
    rows = [("t", "", 0, offset, value) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, BRONZE)
