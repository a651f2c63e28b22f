"""Rows that became dead letters, in feeds with transaction metadata: the END counts them, the watermark goes
on.
"""

import json
from typing import Any

import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.spark.silver.columns import OTHER_COLUMNS
from lakehouse.spark.silver.decode import decode_all
from lakehouse.spark.silver.driver_batch import transaction_events_of_rows
from tests.support.debezium_records import message, row
from tests.support.engine import Memory


def record(topic: str, offset: int, value: dict[str, Any] | bytes) -> Message:
    told = message(None)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return msgspec.structs.replace(told, topic=topic, offset=offset, value=data, epoch=0)


def streamed(table: str, id_: Any, pos: int, transaction: Any) -> dict[str, Any]:
    return row("c", None, {"id": id_}, table=table, pos=pos) | {"transaction": transaction}


def end(id_: str, count: int) -> dict[str, Any]:
    return {"status": "END", "id": id_, "event_count": count, "data_collections": None, "ts_ms": 1}


def number(id_: str, n: int) -> dict[str, Any]:
    return {"id": id_, "total_order": n, "data_collection_order": 1}


GARBAGE = b"\x00 no JSON"
DEAD: dict[str, Any] = {
    "a row of an unknown op": streamed("b", 7, 20, number("x", 2)) | {"op": "?"},
    "a row without its image": streamed("b", 7, 20, number("x", 2)) | {"after": None},
    "a row without the names of its table": streamed("", 7, 20, number("x", 2)),
    "a row whose place is none": streamed("b", 7, 20, number("x", 2)) | {"source": 5},
    "an image that is none": streamed("b", 7, 20, number("x", 2)) | {"after": 5},
    "an unwrapped row without its place": {
        "id": 7,
        "__op": "c",
        "__transaction_id": "x",
        "__transaction_total_order": 2,
    },
    "a schema around it": {"schema": None, "payload": streamed("b", 7, 20, number("x", 2)) | {"op": "?"}},
    "bytes that are no text": json.dumps(streamed("b", "Q", 20, number("x", 2)) | {"op": "?"})
    .encode()
    .replace(b"Q", b"\xff"),
    "a record of which nothing can be read": GARBAGE,
}


@pytest.mark.parametrize("dead", DEAD.values(), ids=DEAD)
def test_a_dead_row_holds_no_transaction(dead: Any) -> None:
    told = [
        record("p.a", 0, streamed("a", 1, 10, number("x", 1))),
        record("p.b", 0, dead),
        record("p.transaction", 0, end("x", 2)),
        record("p.a", 1, streamed("a", 2, 30, number("y", 1))),
        record("p.transaction", 1, end("y", 1)),
    ]

    silver = Memory("debezium", tidb=False).add(told)

    assert (len(silver.dead), silver.watermark) == (1, (0, 12, 30, 1, 2, 1))
    assert silver.transactions is not None
    assert (silver.transactions.open, silver.transactions.ends) == ({}, ())


def test_a_row_that_is_dead_and_nothing_else_of_its_transaction_raises_the_watermark_to_its_place() -> None:
    told = [
        record("p.b", 0, streamed("b", 7, 20, number("x", 1)) | {"op": "?"}),
        record("p.transaction", 0, end("x", 1)),
    ]
    assert Memory("debezium", tidb=False).add(told).watermark == (0, 12, 20, 1, 1, 1)


def test_dead_records_of_no_transaction_are_no_rows_of_one() -> None:
    told = [
        record("p.b", 0, row("r", None, None, table="b", snapshot="true")),
        record("p.c", 0, {"what": "ever"}),
    ]
    told.append(record("p.d", 0, row("c", None, None, table="d")))

    silver = Memory("debezium", tidb=False).add(told)

    assert len(silver.dead) == 3 and silver.transactions is not None
    assert (silver.transactions.lost.unknown, silver.transactions.open) == (0, {})


@pytest.mark.parametrize("whole", [True, False], ids=["an envelope", "an unwrapped row"])
def test_a_snapshot_whose_first_and_last_rows_are_dead_is_whole_all_the_same(whole: bool) -> None:
    def dead(table: str, marker: str) -> dict[str, Any]:
        if whole:
            return row("r", None, None, table=table, pos=10, snapshot=marker)
        place = {"__source_file": "b.000012", "__source_pos": 10, "__source_db": "d"}
        return {"id": 1, "__op": "r", "__source_snapshot": marker, **place}

    told = [
        record("p.a", 0, dead("a", "first")),
        record("p.b", 0, row("r", None, {"id": 1}, table="b", pos=10, snapshot="true")),
        record("p.b", 1, dead("b", "last")),
    ]

    silver = Memory("debezium", tidb=False).add(told)

    assert len(silver.dead) == 2 and silver.transactions is not None
    place = (0, 12, 10, 0, 0, 0)
    assert (silver.transactions.begun, silver.transactions.snapshots) == ((place,), (place,))
    settings = {"format": "debezium", "options": {}, "order": "binlog", "epochs": ()}
    taken = decode_all(told, settings)
    others = [dict(zip(OTHER_COLUMNS, values, strict=True)) for values in taken.others]
    events = [{**other, "topic": "p", "partition": 0, "offset": 0} for other in others]
    assert transaction_events_of_rows(events).snapshots == {place}


def test_silver_tells_of_each_row_that_no_change_was_made_of() -> None:
    floors = {("d", "a"): (0, 12, 15, 0, 0, 0)}
    settings = {"format": "debezium", "options": {}, "order": "binlog", "epochs": (), "floors": floors}
    below, dead = streamed("a", 1, 10, number("x", 1)), streamed("b", 7, 20, number("x", 2)) | {"op": "?"}
    told: list[dict[str, Any] | bytes] = [
        below,
        dead,
        streamed("t", 1, 25, number("x", 3)) | {"op": "t"},
        streamed("a", 2, 30, number("y", 1)),
        GARBAGE,
        end("x", 3),
    ]

    taken = decode_all((record("p", offset, value) for offset, value in enumerate(told)), settings)
    found = [dict(zip(OTHER_COLUMNS, values, strict=True)) for values in taken.others]

    assert [
        (each["key"], each["physical_table"], each["position"])
        for each in found
        if each["kind"] == "transaction_row"
    ] == [
        ("x", 1, (0, 12, 10, 1, 1, 1)),
        ("x", 2, (0, 12, 20, 1, 2, 1)),
        ("x", 3, (0, 12, 25, 1, 3, 1)),
        (None, 0, (0, 0, 0, 0, 0, 0)),
    ]
    assert [each["key"] for each in found if each["kind"] == "transaction"] == ["x"]
    told_rows = transaction_events_of_rows(found)
    assert (told_rows.rows, told_rows.ends, told_rows.lost) == (
        {"x": ({1, 2, 3}, (0, 12, 25, 1, 3, 1))},
        [("x", 3)],
        1,
    )
