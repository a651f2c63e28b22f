"""Native Debezium: values in every handling mode, with and without an embedded schema."""

import base64
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.formats.debezium.connector import decode
from lakehouse.schema import parse_type
from lakehouse.values.decode_with_schema import resolve
from tests.support.debezium_records import message, one, row
from tests.support.events import letter_of

# Every handling mode, with the schema and without: a value of a type, as the connector would send it, comes
# back.

Wire = tuple[Any, dict[str, Any]]
MODES = {
    "decimal_handling_mode": ("precise", "string", "double"),
    "time_precision_mode": (
        "adaptive_time_microseconds",
        "adaptive",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
    ),
    "binary_handling_mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "unsigned": ("long", "precise"),
}
TIME, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def decimal_wire(value: Decimal, scale: int, precision: int | None, mode: str) -> Wire:
    if mode == "string":
        return f"{value:f}", {"type": "string"}
    if mode == "double":
        return float(value), {"type": "double"}
    parameters = {"scale": str(scale)} | (
        {} if precision is None else {"connect.decimal.precision": str(precision)}
    )
    return unscaled(int(value.scaleb(scale, Context(prec=65)))), {
        "type": "bytes",
        "name": CONNECT + "Decimal",
        "parameters": parameters,
    }


def ticks_wire(micros: int, digits: int, mode: str, word: str) -> Wire:
    fine = mode in ("microseconds", "nanoseconds") or (mode.startswith("adaptive") and digits > 3)
    if mode == "adaptive_time_microseconds" and word == "Time":
        fine = True
    name = {
        "Time": ("Time", "MicroTime", "NanoTime"),
        "Timestamp": ("Timestamp", "MicroTimestamp", "NanoTimestamp"),
    }[word]
    if mode == "nanoseconds":  # 64 bits, in which connectors before 3.6 let moments wrap
        nanos = (micros * 1000 + (1 << 63)) % (1 << 64) - (1 << 63)
        return nanos, {"type": "int64", "name": TIME + name[2]}
    if fine:
        return micros, {"type": "int64", "name": TIME + name[1]}
    millis = micros // 1000
    if word == "Time":  # 32 bits, in which long times wrap
        millis = (millis + (1 << 31)) % (1 << 32) - (1 << 31)
    return millis, {"type": "int64", "name": (CONNECT if mode == "connect" else TIME) + name[0]}


def binary_wire(data: bytes, mode: str) -> Wire:
    if mode == "hex":
        return data.hex(), {"type": "string"}
    text = base64.b64encode(data).decode()
    if mode == "base64-url-safe":
        return text.replace("+", "-").replace("/", "_"), {"type": "string"}
    return text, {"type": "bytes" if mode == "bytes" else "string"}


@st.composite
def typed_values(draw: st.DrawFn, modes: dict[str, str]) -> tuple[str, Any, Wire]:
    """SQL type, canonical value, and what the connector sends."""
    time = modes["time_precision_mode"]
    match draw(
        st.sampled_from(
            [
                "decimal",
                "date",
                "datetime",
                "time",
                "timestamp",
                "bit",
                "bit1",
                "biguint",
                "binary",
                "enum",
                "int",
                "double",
            ]
        )
    ):
        case "decimal":
            precision, scale = draw(st.sampled_from([(4, 0), (20, 0), (10, 2), (15, 15), (38, 10)]))
            if modes["decimal_handling_mode"] == "double":
                precision, scale = 10, 2
            number = draw(st.integers(1 - 10**precision, 10**precision - 1))
            value = Decimal(number).scaleb(-scale, Context(prec=65))
            return (
                f"decimal({precision},{scale})",
                f"{value:f}",
                decimal_wire(value, scale, precision, modes["decimal_handling_mode"]),
            )
        case "date":
            day = draw(st.dates(date(1000, 1, 1)))
            if time == "isostring":
                return (
                    "date",
                    day.isoformat(),
                    (day.isoformat() + "Z", {"type": "string", "name": TIME + "IsoDate"}),
                )
            name = (CONNECT if time == "connect" else TIME) + "Date"
            return "date", day.isoformat(), ((day - date(1970, 1, 1)).days, {"type": "int32", "name": name})
        case "datetime":
            digits = 3 if time == "connect" else draw(st.sampled_from([0, 3, 6]))
            moment = draw(st.datetimes(datetime(1000, 1, 1)))
            micros = (
                (moment - datetime(1970, 1, 1))
                // timedelta(microseconds=10 ** (6 - digits))
                * 10 ** (6 - digits)
            )
            moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)
            wire = ticks_wire(micros, digits, time, "Timestamp")
            if time == "isostring":
                wire = moment.isoformat("T") + "Z", {"type": "string", "name": TIME + "IsoTimestamp"}
            return f"datetime({digits})", str(moment), wire
        case "time":
            digits = {"adaptive": 2, "connect": 3}.get(time, 6)
            seconds = draw(
                st.integers(0, 86399) if time in ("connect", "isostring") else st.integers(-3020399, 3020399)
            )
            size, sign = abs(seconds), "-" if seconds < 0 else ""
            clock = f"{sign}{size // 3600:02}:{size // 60 % 60:02}:{size % 60:02}"
            wire = ticks_wire(seconds * 1_000_000, digits, time, "Time")
            return (
                f"time({digits})",
                clock,
                (clock + "Z", {"type": "string", "name": TIME + "IsoTime"}) if time == "isostring" else wire,
            )
        case "timestamp":
            moment = draw(st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 1)))
            text = moment.isoformat("T") + "Z"
            return (
                "timestamp(6)",
                text.replace("T", " "),
                (text, {"type": "string", "name": TIME + "ZonedTimestamp"}),
            )
        case "bit":
            bits = draw(st.integers(0, 2**20 - 1))
            sent = base64.b64encode(bits.to_bytes(3, "little")).decode()
            return (
                "bit(20)",
                bits,
                (sent, {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "20"}}),
            )
        case "bit1":
            flag = draw(st.booleans())
            return "bit(1)", int(flag), (flag, {"type": "boolean"})
        case "biguint":
            number = draw(st.integers(0, 2**64 - 1))
            if modes["unsigned"] == "precise":
                precision_sent = draw(st.sampled_from([None, 20]))
                return "bigint unsigned", number, decimal_wire(Decimal(number), 0, precision_sent, "precise")
            return (
                "bigint unsigned",
                number,
                (number - 2**64 if number >= 2**63 else number, {"type": "int64"}),
            )
        case "binary":
            data = draw(st.binary(max_size=12))
            return (
                "varbinary(12)",
                base64.b64encode(data).decode(),
                binary_wire(data, modes["binary_handling_mode"]),
            )
        case "enum":
            return (
                "enum('a,b','c')",
                "a,b",
                (
                    "a\\,b",
                    {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "a\\,b,c"}},
                ),
            )
        case "int":
            number = draw(st.integers(-(2**31), 2**31 - 1))
            return "int", number, (number, {"type": "int32"})
        case _:
            real = draw(st.floats(allow_nan=False, allow_infinity=False))
            return "double", real, (real, {"type": "double"})


def with_schema(image: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]},
        "payload": row("c", None, image),
    }


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_type_comes_back_in_every_mode_with_and_without_its_schema(data: st.DataObject) -> None:
    modes = {name: data.draw(st.sampled_from(choices), label=name) for name, choices in MODES.items()}
    cells = data.draw(st.lists(typed_values(modes), min_size=1, max_size=5))
    image = {f"c{number}": wire[0] for number, (_, _, wire) in enumerate(cells)}
    fields = [{"field": f"c{number}"} | wire[1] for number, (_, _, wire) in enumerate(cells)]
    options = {name: mode for name, mode in modes.items() if name != "unsigned"}

    bare = one(message(row("c", None, image)), **options)
    told = one(message(with_schema(image, fields)), **options)

    for number, (type_, value, wire) in enumerate(cells):
        column_type, name = parse_type(type_), f"c{number}"
        true = resolve(value, column_type, "canonical")
        assert resolve(told.after[name], column_type, told.encoding) == true, (type_, wire, told.encoding)
        assert resolve(bare.after[name], column_type, bare.encoding) == true, (type_, wire, bare.encoding)
        if told.encoding == "canonical" and modes["decimal_handling_mode"] != "double":
            assert told.after[name] == resolve(
                told.after[name], column_type, "canonical"
            ) or column_type.family in (
                "datetime",
                "time",
                "timestamp",
            )


def test_a_propagated_source_type_settles_what_the_schema_alone_leaves_open() -> None:
    def field(name: str, kind: str, type_: str, **parts: str) -> dict[str, Any]:
        return {
            "field": name,
            "type": kind,
            "parameters": {
                f"__debezium.source.column.{part}": text for part, text in {"type": type_, **parts}.items()
            },
        }

    fields = [
        field("n", "int64", "BIGINT UNSIGNED", length="20"),
        field("x", "double", "DOUBLE"),
        field("b", "string", "VARBINARY", length="3"),
    ]
    event = one(
        message(with_schema({"n": -1, "x": 1, "b": "AAEC"}, fields)),
        binary_handling_mode="base64",
        decimal_handling_mode="double",
    )
    assert (event.after, event.encoding) == ({"n": 2**64 - 1, "x": 1.0, "b": "AAEC"}, "canonical")
    assert event.types == {"n": "bigint(20) unsigned", "x": "double", "b": "varbinary(3)"}


@pytest.mark.parametrize(
    ("precision", "scale", "number", "text"),
    [
        (10, 2, 12.5, "12.50"),
        (10, 2, -3, "-3.00"),
        (4, 0, 7, "7"),
        (20, 0, 2**64 - 1, "18446744073709551615"),
        (38, 2, 10**36 - 1, "9" * 36 + ".00"),
    ],
)
def test_a_decimal_may_be_a_number(precision: int, scale: int, number: float, text: str) -> None:
    """decimal.format=NUMERIC of the JSON converter."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    fields = [{"field": "c", "type": "bytes", "name": CONNECT + "Decimal", "parameters": parameters}]

    bare, told = one(message(row("c", None, {"c": number}))), one(message(with_schema({"c": number}, fields)))

    type_ = parse_type(f"decimal({precision},{scale})")
    assert [resolve(event.after["c"], type_, event.encoding) for event in (bare, told)] == [text, text]


@pytest.mark.parametrize("text", ["10000000000000000.01", "-0.12345678901234567890", "99999999.999999999999"])
def test_a_number_keeps_the_digits_that_no_double_has(text: str) -> None:
    """decimal.format=NUMERIC; without the precision in the schema, as connectors before 1.1 send it."""
    fields = [{"field": "c", "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "20"}}]
    bare, told = (
        one(msgspec.structs.replace(sent, value=(sent.value or b"").replace(b"9.5", text.encode())))
        for sent in (message(row("c", None, {"c": 9.5})), message(with_schema({"c": 9.5}, fields)))
    )

    type_ = parse_type(f"decimal(60,{len(text.partition('.')[2])})")
    assert [resolve(event.after["c"], type_, event.encoding) for event in (bare, told)] == [text, text]
    assert resolve(bare.after["c"], parse_type("double"), bare.encoding) == float(text)


@pytest.mark.parametrize("number", [0.1 + 0.2, 1234567890123456.7, 1.7976931348623157e308, -5e-324])
def test_a_double_of_any_length_is_the_same_double(number: float) -> None:
    fields = [{"field": "c", "type": "double"}]

    bare, told = one(message(row("c", None, {"c": number}))), one(message(with_schema({"c": number}, fields)))

    assert [resolve(event.after["c"], parse_type("double"), event.encoding) for event in (bare, told)] == [
        number,
        number,
    ]


def test_a_decimal_that_was_a_double_is_rounded_however_long_it_is() -> None:
    event = one(message(row("c", None, {"c": 0.1 + 0.2})), decimal_handling_mode="double")

    assert resolve(event.after["c"], parse_type("decimal(10,2)"), event.encoding) == "0.30"


@pytest.mark.parametrize("number", [1e17, 0.1 + 0.2])
def test_a_double_of_more_digits_than_doubles_keep_is_no_decimal(number: float) -> None:
    """decimal.handling.mode=double, which nothing tells: 100000000000000000.01 is 1e17 by then."""
    type_, fields = parse_type("decimal(36,18)"), [{"field": "c", "type": "double"}]
    bare = one(message(row("c", None, {"c": number})))
    unsaid = one(message(with_schema({"c": number}, fields)))
    told = one(message(with_schema({"c": number}, fields)), decimal_handling_mode="double")

    assert [resolve(event.after["c"], type_, event.encoding) for event in (bare, unsaid, told)] == [
        {"double": number}
    ] * 3


def test_a_scale_that_no_server_has_fills_no_memory() -> None:
    [event] = decode(message(row("c", None, {"c": {"scale": 10**9, "value": "AQ=="}})), {})

    assert letter_of(event).code == "value"


DAY = {"year": 2024, "month": 2, "day": 29}
CLOCK = {"hour": 23, "minute": 5, "second": 7, "nanos": 120_000_000, "precision": 2}


@pytest.mark.parametrize(
    ("type_", "name", "parts", "value"),
    [
        ("date", "StructuredDate", DAY, "2024-02-29"),
        ("date", "StructuredDate", {"year": 2024, "month": 0, "day": 0}, "2024-00-00"),
        ("datetime(2)", "StructuredTimestamp", DAY | CLOCK, "2024-02-29 23:05:07.12"),
        ("datetime", "StructuredTimestamp", DAY | CLOCK | {"nanos": 0}, "2024-02-29 23:05:07"),
        (
            "timestamp(2)",
            "StructuredZonedTimestamp",
            DAY | CLOCK | {"offsetSeconds": 0, "zoneId": "Z"},
            "2024-02-29 23:05:07.12Z",
        ),
        (
            "timestamp(2)",
            "StructuredZonedTimestamp",
            DAY | CLOCK | {"offsetSeconds": -5400, "zoneId": None},
            "2024-03-01 00:35:07.12Z",
        ),
        (
            "time(1)",
            "StructuredDuration",
            {"hours": -838, "minutes": -59, "seconds": -1, "nanos": -500_000_000},
            "-838:59:01.5",
        ),
    ],
)
def test_a_date_or_time_in_parts_is_read_with_and_without_its_schema(
    type_: str, name: str, parts: dict[str, Any], value: str
) -> None:
    """time.precision.mode=structured of Debezium 3.7; parts that say nothing are null."""
    parts = parts | {"specialValue": None}
    fields = [{"field": "c", "type": "struct", "name": TIME + name}]

    bare, told = one(message(row("c", None, {"c": parts}))), one(message(with_schema({"c": parts}, fields)))

    assert (told.encoding, told.types) == ("canonical", {"c": type_.partition("(")[0]})
    assert [resolve(event.after["c"], parse_type(type_), event.encoding) for event in (bare, told)] == [
        value,
        value,
    ]


def test_the_year_0_is_one_as_another() -> None:
    """enable.time.adjuster=false; the server takes it, and gold keeps its text."""
    fields = [
        {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "t", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "u", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    ]
    first, last = -719528, -719528 * 86_400_000 + 366 * 86_400_000 - 1
    event = one(message(with_schema({"d": first, "t": last, "u": first * 86_400_000_000}, fields)))

    assert event.after == {
        "d": "0000-01-01",
        "t": "0000-12-31 23:59:59.999",
        "u": "0000-01-01 00:00:00",
    }


def test_geometries_and_vectors_need_no_schema() -> None:
    wkb = base64.b64encode(b"\x01" * 21).decode()
    event = one(
        message(row("c", None, {"p": {"x": 1.0, "y": 2.0, "wkb": wkb, "srid": 4326}, "v": [1.0, 2.5, 1e-05]}))
    )
    assert base64.b64decode(event.after["p"]) == (4326).to_bytes(4, "little") + b"\x01" * 21
    assert event.after["v"] == "[1,2.5,0.00001]"


LONG_TIME = 3_020_399_000 - 2**32  # 838:59:59 in 32 bits of milliseconds
OLD = {"version": "2.5.4.Final"}
NAMES = {"Time": "adaptive", "MicroTime": "adaptive_time_microseconds", "NanoTimestamp": "nanoseconds"}


@pytest.mark.parametrize(
    ("type", "name", "wire", "source", "value"),
    [
        pytest.param("time", "Time", LONG_TIME, {}, "838:59:59", id="wrapped"),
        pytest.param("time", "Time", -LONG_TIME, {}, "-838:59:59", id="wrapped below midnight"),
        pytest.param("time(2)", "Time", LONG_TIME + 10, {}, "838:59:59.01", id="wrapped with a fraction"),
        pytest.param("time", "Time", -1_440_000_000, {}, "-400:00:00", id="long and not wrapped"),
        pytest.param("time(3)", "Time", LONG_TIME, {}, {"milliseconds": LONG_TIME}, id="either"),
        pytest.param(
            "datetime",
            "NanoTimestamp",
            253402300799 * 10**9 - 14 * 2**64,
            {},
            "9999-12-31 23:59:59",
            id="year 9999",
        ),
        pytest.param("time", "MicroTime", -43_443_000_000, OLD, {"text": "-12:04:03"}, id="old: -12:00:00"),
        pytest.param("time", "MicroTime", -45_003_000_000, OLD, {"text": "-12:30:03"}, id="old: -12:30:00"),
        pytest.param(
            "time(2)", "MicroTime", -45_011_147_483, OLD, {"text": "-12:30:11.147483"}, id="old: -12:30:10.00"
        ),
        pytest.param("time", "MicroTime", -45_004_000_000, OLD, "-12:30:04", id="old, and right"),
        pytest.param("time", "MicroTime", 45_003_000_000, OLD, "12:30:03", id="old, and positive"),
        pytest.param("time", "MicroTime", -45_003_000_000, {"version": "2.6.0.Final"}, "-12:30:03", id="new"),
    ],
)
def test_times_that_a_connector_could_not_write_are_those_it_read_or_none(
    type: str, name: str, wire: int, source: dict[str, str], value: Any
) -> None:
    body = row("c", None, {"id": 1, "v": wire}, **source)
    columns = [{"field": "id", "type": "int32"}, {"field": "v", "type": "int64", "name": TIME + name}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}

    bare = one(message(body, {"id": 1}), time_precision_mode=NAMES[name])
    framed = one(message({"schema": schema, "payload": body}, {"id": 1}))

    for event in (bare, framed):
        assert resolve(event.after["v"], parse_type(type), event.encoding) == value


def test_a_snapshot_of_an_old_connector_has_the_times_of_the_server() -> None:
    event = one(message(row("r", None, {"id": 1, "v": -45_003_000_000}, snapshot="true", **OLD), {"id": 1}))

    assert resolve(event.after["v"], parse_type("time"), event.encoding) == "-12:30:03"


EITHER = "00224411-2233-4a45-8a8a-8a8b8c8d8e8f"


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        pytest.param("123e4567-e89b-12d3-a456-426655440011", None, id="whole"),
        pytest.param("003e4567-e89b-12d3-a456-426655440011", None, id="whole, and it begins so"),
        pytest.param("00000000-0000-0000-0000-000000000000", None, id="nil"),
        pytest.param(
            "00123e45-67e8-9b12-d3a4-564266554411", "123e4567-e89b-12d3-a456-426655441100", id="one byte"
        ),
        pytest.param(
            "0000123e-4567-e89b-12d3-a45642665544", "123e4567-e89b-12d3-a456-426655440000", id="two bytes"
        ),
        pytest.param(EITHER, {"text": EITHER}, id="either"),
    ],
)
def test_a_uuid_of_mariadb_has_the_zero_bytes_that_its_binlog_leaves_out(wire: str, value: Any) -> None:
    """The connector takes fewer bytes for a smaller number; a snapshot's rows are the server's."""
    uuid = {"field": "v", "type": "string", "name": "io.debezium.data.Uuid"}
    after = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int32"}, uuid]}
    for op, true in (("c", value or wire), ("r", wire)):
        body = row(op, None, {"id": 1, "v": wire}, connector="mariadb")
        for told in (body, {"schema": {"type": "struct", "fields": [after]}, "payload": body}):
            event = one(message(told, {"id": 1}))
            assert resolve(event.after["v"], parse_type("uuid"), event.encoding) == true
            assert resolve(wire, parse_type("varchar(36)"), event.encoding) == wire


@pytest.mark.parametrize(
    ("name", "type", "wire", "value"),
    [
        ("ZonedTimestamp", "string", "1970-01-01T00:00:00Z", "0000-00-00 00:00:00"),
        ("ZonedTimestamp", "string", "1970-01-01T00:00:01Z", "1970-01-01 00:00:01Z"),
        ("Year", "int32", 1900, 0),
        ("Year", "int32", 2155, 2155),
    ],
)
def test_what_no_column_holds_is_the_zero_that_it_stands_for(
    name: str, type: str, wire: Any, value: Any
) -> None:
    """A connector has no zero timestamp for a column that is NOT NULL, and takes YEAR 0000 for 1900."""
    columns = [{"field": "id", "type": "int32"}, {"field": "v", "type": type, "name": TIME + name}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}
    body = {"schema": schema, "payload": row("c", None, {"id": 1, "v": wire})}

    event = one(message(body, {"id": 1}))

    assert (event.after["v"], event.encoding) == (value, "canonical")


@pytest.mark.parametrize(
    ("kind", "name", "millis", "value"),
    [
        ("datetime(3)", "Timestamp", 1_700_000_000_123, "2023-11-14 22:13:20.123"),
        ("datetime(6)", "Timestamp", 1_700_000_000_123, {"text": "2023-11-14 22:13:20.123"}),
        ("time(2)", "Time", 3_600_120, "01:00:00.12"),
        ("time(5)", "Time", 3_600_120, {"text": "01:00:00.120000"}),
    ],
)
def test_what_mode_connect_cuts_to_milliseconds_is_no_value_of_a_finer_column(
    kind: str, name: str, millis: int, value: Any
) -> None:
    """A DATETIME(6) of .123456 comes as .123."""
    field = {"field": "v", "type": "int64", "name": CONNECT + name}
    told = one(message(with_schema({"v": millis}, [field])))
    bare = one(message(row("c", None, {"v": millis})), time_precision_mode="connect")
    for event in (told, bare):
        assert resolve(event.after["v"], parse_type(kind), event.encoding) == value


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("varbinary(9)", "abcd", {"text": "abcd"}),
        ("longblob", "0123456789ab", {"text": "0123456789ab"}),
        ("varbinary(9)", "abcdef", base64.b64encode(b"\xab\xcd\xef").decode()),
        ("varbinary(2)", "abcd", base64.b64encode(b"\xab\xcd").decode()),
        ("binary(4)", "0a000001", base64.b64encode(b"\x0a\0\0\x01").decode()),
        ("binary(3)", "abcd", "abcd"),
        ("varbinary(9)", "ABCD", "ABCD"),
        ("varbinary(9)", "q80=", "q80="),
        ("varchar(9)", "abcd", "abcd"),
        ("decimal(4,0)", "1234", "1234"),
    ],
)
def test_text_that_may_be_hex_or_base64_is_no_value_where_the_mode_is_not_said(
    kind: str, sent: str, value: Any
) -> None:
    told = one(message(with_schema({"v": sent, "n": -1}, [{"field": "v", "type": "string"}])))
    assert resolve(told.after["v"], parse_type(kind), told.encoding) == value
    if not kind.startswith("decimal"):
        bare = one(message(row("c", None, {"v": sent})))
        assert resolve(bare.after["v"], parse_type(kind), bare.encoding) == value
    said = one(message(row("c", None, {"v": sent})), binary_handling_mode="base64")
    assert said.encoding == "debezium/binary.handling.mode=base64"
    assert resolve("abcd", parse_type("varbinary(9)"), said.encoding) == "abcd"


def test_bytes_of_an_embedded_schema_are_base64_whatever_else_the_row_leaves_open() -> None:
    fields = [
        {"field": "b", "type": "bytes"},
        {"field": "n", "type": "int32"},
        {"field": "s", "type": "string"},
    ]
    event = one(message(with_schema({"b": "abcd", "n": -1, "s": "abcd"}, fields)))
    assert resolve(event.after["b"], parse_type("blob"), event.encoding) == "abcd"
    assert one(message(with_schema({"b": "abcd", "s": "abcd"}, fields))).encoding == "canonical"


def test_a_float_of_more_than_24_digits_is_a_double() -> None:
    """FLOAT(53), as the type is propagated from a statement; the server itself spells it DOUBLE."""
    own = {"__debezium.source.column.type": "FLOAT", "__debezium.source.column.length": "53"}
    fields = [{"field": "f", "type": "double", "parameters": own}]
    event = one(message(with_schema({"f": 1.123456789012}, fields)))
    assert parse_type(event.types["f"]).family == "double"
    assert resolve(event.after["f"], parse_type(event.types["f"]), event.encoding) == 1.123456789012
