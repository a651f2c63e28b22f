"""Native Debezium: the handling modes that a connector's rows show."""

import base64
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.formats.debezium.shown_modes import shown_modes
from tests.formats.debezium.test_modes import binary_wire, decimal_wire, ticks_wire
from tests.support.debezium_records import SOURCE, message, row

DAY, SECOND = 86_400_000_000, 1_000_000
MOMENTS = (1_700_000_000 * SECOND, -11_644_473_600 * SECOND, 1_700_000_000 * SECOND + 123_456)
CLOCKS = (45_296 * SECOND, 3_661 * SECOND)
COLUMNS = {
    "n": ("DECIMAL", 10, 2),
    "b": ("VARBINARY", 20, None),
    "d0": ("DATETIME", None, None),
    "d6": ("DATETIME", 6, None),
    "t0": ("TIME", None, None),
    "t6": ("TIME", 6, None),
    "v": ("VARCHAR", 20, None),
}


def schema_record(**columns: tuple[str, int | None, int | None]) -> Message:
    told = [
        {"name": name, "typeName": word, "length": length, "scale": scale, "optional": True}
        for name, (word, length, scale) in columns.items()
    ]
    change = {"type": "CREATE", "id": '"d"."t"', "table": {"columns": told, "primaryKeyColumnNames": ["id"]}}
    source = SOURCE | {"snapshot": "true"}
    body = {"source": source, "databaseName": "d", "ddl": "CREATE TABLE t", "tableChanges": [change]}
    return message(body, {"databaseName": "d"})


def feed(image: dict[str, Any], *more: dict[str, Any]) -> list[Message]:
    rows = [message(row("c", None, each)) for each in (image, *more)]
    return [
        *rows,
        schema_record(**COLUMNS),
        message({"ts_ms": 1}),
        message(None),
        message({"other": "shape"}),
    ]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("adaptive_time_microseconds", None),
        ("adaptive", "adaptive"),
        ("connect", "connect"),
        ("microseconds", "microseconds"),
        ("nanoseconds", "nanoseconds"),
    ],
)
def test_the_mode_of_times_is_told_by_what_the_default_can_t_have_written(
    mode: str, told: str | None
) -> None:
    images = [
        {name: ticks_wire(micros // 10 ** (6 - digits) * 10 ** (6 - digits), digits, mode, "Timestamp")[0]}
        for name, digits in (("d0", 0), ("d6", 6))
        for micros in (*MOMENTS, 253_402_300_799 * SECOND if mode == "nanoseconds" else MOMENTS[0])
    ]
    images += [
        {name: ticks_wire(micros, digits, mode, "Time")[0]}
        for name, digits in (("t0", 0), ("t6", 6))
        for micros in CLOCKS
    ]

    assert shown_modes(feed({"d0": 0}, *images)) == ({"time_precision_mode": told} if told else {})


def test_milliseconds_of_a_datetime_6_alone_are_told_by_the_days_that_they_would_be_of() -> None:
    """As microseconds most would be of January 1970; 9999-12-31 would be of 1978."""
    sent = ({"d6": 1_700_000_000_123}, {"d6": 1_700_000_000_124}, {"d6": 0}, {"d6": 253_402_214_400_000})
    assert shown_modes(feed(*sent)) == {"time_precision_mode": "connect"}
    assert shown_modes(feed({"d6": 1_700_000_000_123}, {"d6": MOMENTS[2]})) == {}
    assert shown_modes(feed({"d6": 0})) == {}


def test_times_that_no_mode_can_have_written_show_none() -> None:
    assert shown_modes(feed({"d0": 1_700_000_000_000}, {"d0": 1_700_000_000_000_000_001})) == {}


@pytest.mark.parametrize(("mode", "told"), [("precise", {}), ("string", {"decimal_handling_mode": "string"})])
def test_a_decimal_that_is_no_base64_is_text(mode: str, told: dict[str, str]) -> None:
    numbers = [decimal_wire(Decimal(text), 2, 10, mode)[0] for text in ("12.34", "-0.05", "99999999.99")]

    assert shown_modes(feed(*({"n": number} for number in numbers))) == told


@pytest.mark.parametrize("numbers", [["1234"], [12.5, "123456789012345678.91"], ["12.34", "AQ=="]])
def test_a_decimal_that_may_be_of_any_mode_shows_none(numbers: list[Any]) -> None:
    """Digits are base64 too; the long number of JSON is one of decimal.format=NUMERIC."""
    assert shown_modes(feed(*({"n": number} for number in numbers))) == {}


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("mode", ["bytes", "base64", "base64-url-safe", "hex"])
def test_binaries_show_how_they_are_spelled(mode: str, has_schema: bool) -> None:
    cells = [binary_wire(data, mode)[0] for data in (b"\xfb\xff\xfe", b"", b"seven bytes", b"\0\1")]
    rows: list[Any] = [row("c", None, {"b": cell}) for cell in cells]
    if has_schema:
        rows = [{"schema": {"type": "struct", "fields": []}, "payload": each} for each in rows]

    told = shown_modes([schema_record(**COLUMNS), *map(message, rows)])

    assert told == ({"binary_handling_mode": mode} if mode in ("hex", "base64-url-safe") else {})


def test_text_that_is_all_hex_in_few_characters_shows_nothing() -> None:
    cells = [base64.b64encode(bytes.fromhex(data)).decode() for data in ("69b71d", "69b71d79f7df")]
    assert all(set(cell) <= set("0123456789abcdef") for cell in cells[:1])

    assert shown_modes(feed({"b": cells[0]}, {"v": "deadbeefdeadbeef"})) == {}


def test_a_column_of_two_types_shows_nothing() -> None:
    columns = COLUMNS | {"d0": ("DATETIME", 6, None)}

    assert shown_modes([*feed({"d0": MOMENTS[2]}), schema_record(**columns)]) == {}


def test_unwrapped_rows_show_their_modes() -> None:
    flat = {"n": "12.34", "__op": "c", "__source_db": "d", "__source_table": "t"}
    place = {"__source_file": "mysql-bin.000012", "__source_pos": 345}

    assert shown_modes([message(flat | place), schema_record(**COLUMNS)]) == {
        "decimal_handling_mode": "string"
    }


@pytest.mark.parametrize(
    ("transaction", "rows", "shared"),
    [
        ("0-1-5", [("c", 100, 0), ("u", 100, 0)], True),
        ("0-1-5", [("c", 100, 0), ("c", 100, 1), ("u", 100, 0)], True),
        ("0-1-5", [("c", 100, 0), ("c", 100, 1), ("u", 140, 0)], False),
        ("0-1-5", [("d", 100, 0), ("c", 100, 0)], False),  # a change of the key
        ("0-1-5", [("c", 100, 0)], False),
        (
            "file=b.000001,pos=100",
            [("c", 100, 0), ("u", 100, 0)],
            False,
        ),  # tells itself that it is compressed
    ],
)
def test_rows_of_a_transaction_that_have_one_place_show_it(
    transaction: str, rows: list[tuple[str, int, int]], shared: bool
) -> None:
    told = [
        message(
            {
                **row(op, None, {"id": 1}, pos=pos, row=place),
                "transaction": {"id": transaction, "total_order": n},
            }
        )
        for n, (op, pos, place) in enumerate(rows, 1)
    ]

    assert shown_modes(told) == ({"binlog_transaction_compression": "true"} if shared else {})
