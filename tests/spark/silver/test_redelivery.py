"""The look at a batch's numbers, which most batches cost no more than
(lakehouse/spark/silver/redelivery.py).
"""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.silver.redelivery import sent
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
    assert [(row["number"], row["mark"], row["made"]) for row in marked[: len(values)]] == [
        sent(Message("t", 0, 0, None, v), CANAL) for v in values
    ]
