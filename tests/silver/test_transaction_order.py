"""Rows of a transaction at places that do not rise show a compressed binlog; a restart shows none."""

from typing import Any

import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.silver.transaction_order import SHARED_PLACE
from lakehouse.spark.silver.decode import decode_all
from tests.support.debezium_records import message, row

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:"
SETTINGS: dict[str, Any] = {"format": "debezium", "epochs": {}, "order": "binlog"}


def sent(*rows: tuple[int, int, int], **parts: Any) -> list[Message]:
    """Messages of rows: place, row, number in the transaction."""
    return [
        msgspec.structs.replace(
            message(
                row("c", None, {"id": offset}, pos=pos, row=number, **parts)
                | {"transaction": {"id": f"{GTID}1", "total_order": order}},
                {"id": offset},
            ),
            offset=offset,
        )
        for offset, (pos, number, order) in enumerate(rows)
    ]


def letters(messages: list[Message], **options: str) -> list[Any]:
    taken = decode_all(messages, {**SETTINGS, "options": options})
    assert len(taken.changes["key"]) == len(messages)
    return [(one.database, one.table, one.error_code, one.error_message) for one in taken.others]


def test_row_events_at_one_place_are_a_dead_letter_of_their_table_until_the_options_say_so() -> None:
    messages = sent((345, 0, 1), (345, 0, 2), (345, 1, 3))

    assert letters(messages) == [("d", "t", "position", SHARED_PLACE)]
    assert letters(messages, binlog_transaction_compression="true") == []


@pytest.mark.parametrize(
    "rows",
    [
        [(345, 0, 1), (345, 1, 2), (400, 0, 3)],
        [(345, 0, 11), (345, 1, 12), (345, 0, 1), (345, 1, 2), (400, 0, 3)],
        [(345, 0, 11), (345, 1, 12), (345, 1, 1), (400, 0, 2), (345, 1, 1), (400, 0, 2), (400, 1, 3)],
    ],
)
def test_rows_of_a_plain_transaction_show_none_however_often_the_connector_restarts(
    rows: list[tuple[int, int, int]],
) -> None:
    assert letters(sent(*rows)) == []


def test_records_that_are_read_out_of_order_show_none() -> None:
    messages = sent((345, 0, 11), (345, 1, 12), (345, 1, 1))

    assert letters(messages[::-1]) == []


def test_another_partition_and_another_transaction_show_none() -> None:
    [one], [two], [three] = sent((345, 0, 1)), sent((345, 0, 2)), sent((345, 0, 3))
    two = msgspec.structs.replace(two, offset=1, partition=1)
    three = msgspec.structs.replace(three, offset=2, value=(three.value or b"").replace(b":1", b":2"))

    assert letters([one, two, three]) == []
