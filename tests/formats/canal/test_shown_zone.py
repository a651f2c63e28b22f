"""The zone of TIMESTAMP text that Canal's rows show."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.discovery.detect_format import guess_format
from lakehouse.events import Message
from lakehouse.formats import FORMATS
from lakehouse.formats.proto import canal_pb2 as wire
from tests.support.wires import TS, dumps, packet

BEGUN = datetime(2026, 11, 21, 1, tzinfo=UTC)


def printed(number: int, seconds: float) -> str:
    """The time of a statement, as it is in a zone that many seconds behind UTC."""
    return f"{BEGUN + timedelta(seconds=number + seconds):%F %T}"


CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `at` TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3), day DATE)"


def statement(sql: str) -> Message:
    return Message(
        "t", 0, 0, None, dumps({"database": "d", "table": "t", "type": "CREATE", "isDdl": True, "sql": sql})
    )


def flat(offset: int, stamp: str | None, old: str | None = None, name: str = "updated_at") -> Message:
    row: dict[str, Any] = {"id": str(offset), name: stamp, "day": "2026-11-21 09:00:00"}
    body = {
        "database": "d",
        "table": "t",
        "type": "INSERT" if old is None else "UPDATE",
        "isDdl": False,
        "es": int(BEGUN.timestamp() + offset) * 1000,
        "id": offset + 1,
        "pkNames": ["id"],
        "mysqlType": {"id": "int", name: "timestamp(3)", "day": "datetime"},
        "sqlType": {"id": 4, name: 93, "day": 93},
        "sql": "",
        "data": [row],
        "old": None if old is None else [{name: old}],
    }
    return Message("t", 0, offset, None, dumps(body))


def packed(offset: int, seconds: float) -> Message:
    """Always of one statement's time."""
    stamp = f"{datetime.fromtimestamp((TS >> 18) // 1000 + seconds, UTC):%F %T}"
    columns = [
        wire.Column(index=0, name="id", mysqlType="int", isKey=True, value=str(offset)),
        wire.Column(index=1, name="Create_Time", mysqlType="timestamp", value=stamp),
    ]
    change = wire.RowChange(eventType="EVENT_INSERT", rowDatas=[wire.RowData(afterColumns=columns)])
    return packet(change, "d")


def shown(format: str, messages: list[Message], **said: str) -> dict[str, str]:
    function = FORMATS[format].shown_options
    assert function is not None
    return function()(messages, said)


@pytest.mark.parametrize(
    ("hours", "zone"), [(8, "+08:00"), (-3.5, "-03:30"), (5.75, "+05:45"), (0, None), (15, None), (0.1, None)]
)
def test_values_that_are_the_statement_s_time_show_the_zone(hours: float, zone: str | None) -> None:
    stamps = [printed(number, 3600 * hours) for number in range(5)]
    told = {"time_zone": zone} if zone else {}

    assert shown("canal", [flat(number, f"{stamp}.250") for number, stamp in enumerate(stamps)]) == told
    assert shown("canal-protobuf", [packed(number, 3600 * hours) for number in range(5)]) == told


def test_few_values_and_values_of_two_offsets_show_nothing() -> None:
    stamps = [flat(number, printed(number, 8 * 3600)) for number in range(4)]

    assert shown("canal", stamps) == {}
    assert shown("canal", [*stamps * 2, flat(9, printed(9, 9 * 3600))]) == {}
    assert shown(
        "canal", [*stamps * 2, flat(9, printed(9, 77)), flat(8, None), flat(7, "2026-06-31 00:00:00")]
    ) == {"time_zone": "+08:00"}


def test_a_value_that_the_change_has_not_set_counts_not() -> None:
    old = printed(9, 9 * 3600)
    stamps = [flat(number, printed(number, 8 * 3600), "2020-01-01 00:00:00") for number in range(5)]

    assert shown("canal", [*stamps, flat(9, old, old), Message("t", 0, 10, None, b"{")]) == {
        "time_zone": "+08:00"
    }


def test_a_zone_that_is_said_stands() -> None:
    stamps = [flat(number, printed(number, 8 * 3600)) for number in range(5)]

    assert shown("canal", stamps, time_zone="Asia/Tokyo") == {}
    assert guess_format(stamps).options == {"time_zone": "+08:00"}


def test_a_column_counts_that_a_statement_or_its_name_says_to_be_of_that_time() -> None:
    """One that neither says may be hours behind: `expires_at`."""
    stamps = [flat(number, printed(number, 3600), name="at") for number in range(5)]

    assert shown("canal", stamps) == {}
    assert shown("canal", [statement(CREATE.replace("CURRENT_TIMESTAMP(3)", "NULL")), *stamps]) == {}
    assert shown("canal", [statement(CREATE), *stamps]) == {"time_zone": "+01:00"}
