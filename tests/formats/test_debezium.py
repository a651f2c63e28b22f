"""Native Debezium: recordings of a MariaDB connector against the tables they came from, and every handling mode."""

import base64
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from garbage import mutations
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_truth import DATA, fold, recorded, wrong_cells

from lakehouse.errors import DecodeError
from lakehouse.events import Event, Message, RowChange, SchemaChange
from lakehouse.formats.debezium import TransactionEnd, decode, transaction_end
from lakehouse.resolve import resolve
from lakehouse.schema import parse_type

SOURCE = {"db": "d", "table": "t", "file": "mysql-bin.000012", "pos": 345, "row": 2, "server_id": 7, "gtid": "g:1", "ts_ms": 9000}
HEADER = "__debezium."


def message(value: Any, key: Any = None, *headers: str) -> Message:
    packed = None if value is None else json.dumps(value).encode()
    told = tuple((HEADER + name, b"{}") for name in headers)
    return Message("p.d.t", 0, 0, None if key is None else json.dumps(key).encode(), packed, told, epoch=1)


def row(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": SOURCE | source, "transaction": None}


def one(told: Message, **options: str) -> Any:
    (event,) = decode(told, options)
    return event


def events(recording: str) -> list[Event]:
    return [event for told, _ in recorded(DATA / "debezium" / recording) for event in decode(told, {})]


# Recordings


@pytest.mark.parametrize("recording", ["inventory/noschema", "inventory/withschema", "orders_small/noschema"])
def test_rows_folded_by_position_are_the_source_tables(recording: str) -> None:
    truth = json.loads((DATA / "debezium" / recording.partition("/")[0] / "truth.json").read_text())
    changes = [event for event in events(recording + ".jsonl.gz") if isinstance(event, RowChange)]
    assert len(changes) > 100
    assert wrong_cells(truth, fold(changes)) == []


def test_with_schemas_every_value_is_canonical_and_without_them_none_claims_to_be() -> None:
    with_schema = {event.encoding for event in events("inventory/withschema.jsonl.gz") if isinstance(event, RowChange)}
    without = {event.encoding for event in events("inventory/noschema.jsonl.gz") if isinstance(event, RowChange)}
    assert (with_schema, without) == ({"canonical"}, {"debezium"})


def test_schema_records_of_a_snapshot_are_no_ddl() -> None:
    told = [event for event in events("inventory/noschema.jsonl.gz") if isinstance(event, SchemaChange)]
    snapshot, streamed = ([event for event in told if event.kind == kind] for kind in ("snapshot", "ddl"))
    assert any((event.ddl or "").startswith("DROP DATABASE") for event in snapshot)
    assert {event.position[3] for event in snapshot} == {0}
    orders = next(event for event in snapshot if event.table == "orders" and event.columns)
    types = {column["name"]: column["type"] for column in orders.columns or ()}
    assert (types["status"], types["total"]) == ("enum('new','paid','shipped','cancelled')", "decimal(12,2)")
    assert orders.primary_key == ("id",)
    assert [(event.table, event.position[3:], bool(event.columns)) for event in streamed] == [
        ("customers", (1, 0, 0), True),
        ("products", (1, 0, 0), True),
    ]


def test_a_snapshot_tells_its_first_and_last_row() -> None:
    flags = [event.flags for event in events("inventory/noschema.jsonl.gz") if isinstance(event, RowChange) and event.op == "snapshot"]
    assert flags.count(("snapshot", "snapshot=first")) == 1
    assert flags.count(("snapshot", "snapshot=last")) == 1
    assert ("snapshot",) in flags
    assert all(told[0] == "snapshot" for told in flags)


def test_every_transaction_end_counts_the_rows_that_name_it() -> None:
    told = [told for told, _ in recorded(DATA / "debezium/inventory/noschema.jsonl.gz")]
    ends = [end for end in map(transaction_end, told) if end is not None]
    flags = [flag for event in events("inventory/noschema.jsonl.gz") if isinstance(event, RowChange) for flag in event.flags]
    assert len(ends) == 117
    assert all(sum(flag.startswith(f"tx={end.id};") for flag in flags) == end.event_count == sum(end.counts.values()) for end in ends)


def test_heartbeats_tombstones_and_transaction_markers_give_no_event() -> None:
    begin = {"status": "BEGIN", "id": "g:1", "event_count": None, "data_collections": None, "ts_ms": 1}
    assert [list(decode(message(value, {"id": 1}), {})) for value in (None, {"ts_ms": 1}, begin)] == [[], [], []]
    assert transaction_end(message(begin)) is None


# Events


def test_a_row_has_its_place_in_the_binlog() -> None:
    read, created = (one(message(row(op, None, {"id": 1}), {"id": 1})) for op in "rc")
    assert (read.position, created.position) == ((1, 12, 345, 0, 2, 1), (1, 12, 345, 1, 2, 1))
    assert (created.database, created.table, created.key, created.key_names, created.commit_ts) == ("d", "t", (1,), ("id",), 9000)


def test_both_records_of_a_key_change_have_their_own_half() -> None:
    old = one(message(row("d", {"id": 1}, None), {"id": 1}, "newkey"))
    new = one(message(row("c", None, {"id": 2}), {"id": 2}, "oldkey"))
    plain = one(message(row("d", {"id": 1}, None), {"id": 1}))
    assert [event.position[5] for event in (old, new, plain)] == [0, 1, 1]
    assert old.position < new.position


def test_an_update_that_the_connector_did_not_split_is_split_here() -> None:
    halves = list(decode(message(row("u", {"b": 1, "a": 2}, {"b": 1, "a": 3}), {"b": 1, "a": 3}), {}))
    assert [(half.op, half.key, half.position[5]) for half in halves] == [("delete", (2, 1), 0), ("insert", (3, 1), 1)]


def test_a_table_without_key_keeps_both_images_in_one_event() -> None:
    event = one(message(row("u", {"a": 1}, {"a": 2})))
    assert (event.op, event.key, event.before, event.after) == ("update", (), {"a": 1}, {"a": 2})


def test_a_delete_without_old_image_has_its_key() -> None:
    event = one(message(row("d", None, None), {"id": 1}))
    assert (event.key, event.before, event.flags) == ((1,), {"id": 1}, ("partial_before",))


def test_a_truncate_is_the_statement_it_means() -> None:
    event = one(message(row("t", None, None, table="odd`name")))
    assert (event.kind, event.ddl, event.position) == ("ddl", "TRUNCATE TABLE `d`.`odd``name`", (1, 12, 345, 1, 0, 0))


def test_a_rename_of_several_tables_names_no_table() -> None:
    change = {"type": "ALTER", "id": '"d"."b"', "table": {"columns": []}}
    value = {"source": SOURCE | {"table": "x,a,b"}, "databaseName": "d", "ddl": "RENAME TABLE a TO b", "tableChanges": [change]}
    assert one(message(value)).table is None
    comma = value | {"source": SOURCE | {"table": "x,y"}, "tableChanges": [change | {"id": '"d"."x,y"'}]}
    assert one(message(comma)).table == "x,y"


def test_the_server_of_a_streamed_record_is_told() -> None:
    assert one(message(row("c", None, {"id": 1}))).server == one(message(row("t", None, None))).server == (7, "mysql-bin")
    assert one(message(row("r", None, {"id": 1}))).server is None


def test_the_end_of_a_transaction_has_counts() -> None:
    counts = [{"data_collection": "d.t", "event_count": 2}]
    end = {"status": "END", "id": "g:1", "event_count": 2, "data_collections": counts, "ts_ms": 1}
    assert transaction_end(message(end)) == TransactionEnd("g:1", 2, {"d.t": 2})
    assert transaction_end(message({"schema": {}, "payload": end})) == TransactionEnd("g:1", 2, {"d.t": 2})
    assert transaction_end(message(row("c", None, {"status": "END", "id": 1}))) is None


def test_an_unwrapped_row_may_have_columns_named_as_an_envelope() -> None:
    told = {"__op": "c", "__source_file": "b.000012", "__source_pos": 345, "__source_db": "d", "__source_table": "t"}
    assert one(message({"op": "u", "source": "s", "ddl": "x"} | told)).after == {"op": "u", "source": "s", "ddl": "x"}
    assert one(message(row("c", None, {"__op": "d", "id": 1}), {"id": 1})).after == {"__op": "d", "id": 1}


def test_unwrapped_rows_are_read_as_far_as_they_tell() -> None:
    told = {"__op": "u", "__deleted": "false", "__source_file": "b.000012", "__source_pos": 345, "__source_row": 2}
    names = {"__source_db": "d", "__table": "t", "__source_ts_ms": 9000}
    kept = one(message({"id": 1, "__mine": 5} | told | names, {"id": 1}))
    gone = one(message({"id": 1} | told | names | {"__deleted": "true", "__op": "d"}, {"id": 1}))
    assert (kept.op, kept.before, kept.after, kept.position) == ("update", None, {"id": 1, "__mine": 5}, (1, 12, 345, 1, 2, 1))
    assert (gone.op, gone.key, gone.before, gone.after) == ("delete", (1,), {"id": 1}, None)


def test_an_unwrapped_row_s_transaction_is_told_and_no_column() -> None:
    told = {"__op": "u", "__source_db": "d", "__source_table": "t", "__source_file": "b.000012", "__source_pos": 345, "__source_new": 1}

    event = one(message({"id": 1, "__transaction_id": "g:1", "__transaction_total_order": 2} | told, {"id": 1}))

    assert (event.after, event.flags) == ({"id": 1}, ("tx=g:1;2",))


@pytest.mark.parametrize("written", [str, json.dumps, lambda content: json.dumps({"schema": {"type": "string"}, "payload": content})])
def test_what_add_headers_puts_beside_an_unwrapped_row_is_read(written: Callable[[Any], str]) -> None:
    told = {"__op": "d", "__source_db": "d", "__source_table": "t", "__source_file": "b.000012", "__source_pos": 345, "__source_row": 2}
    headers = tuple((name, written(content).encode()) for name, content in told.items())

    event = one(msgspec.structs.replace(message({"id": 1}, {"id": 1}), headers=headers))

    assert (event.op, event.key, event.before, event.position) == ("delete", (1,), {"id": 1}, (1, 12, 345, 1, 2, 1))


def test_an_unwrapped_row_may_begin_with_a_column_named_as_the_frame() -> None:
    told = {"__op": "c", "__source_file": "b.000012", "__source_pos": 345, "__source_db": "d", "__source_table": "t"}

    assert one(message({"payload": "x", "id": 1} | told)).after == {"payload": "x", "id": 1}


@pytest.mark.parametrize("write", [bytes, base64.b64encode, lambda text: text.hex().encode()])
def test_what_a_row_image_without_blobs_left_out_is_absent(write: Callable[[bytes], bytes]) -> None:
    """Under binlog_row_image=NOBLOB the connectors send unavailable.value.placeholder for it."""
    written = write(b"__debezium_unavailable_value").decode()

    event = one(message(row("u", {"id": 1, "a": 1, "b": written}, {"id": 1, "a": 2, "b": written}), {"id": 1}))

    assert (event.before, event.after, event.flags) == ({"id": 1, "a": 1}, {"id": 1, "a": 2}, ("partial_before", "partial_after"))


def test_the_router_s_own_member_of_a_key_is_no_column() -> None:
    event = one(message(row("c", None, {"id": 1}), {"id": 1, "__dbz__physicalTableIdentifier": "s.d.t"}))

    assert (event.key_names, event.key) == (("id",), (1,))


def test_a_notification_gives_no_event() -> None:
    told = {"id": "6d8", "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {}, "timestamp": 1}

    assert list(decode(message(told), {})) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, "value: expected a row, schema change, transaction, heartbeat or notification record, got none of them"),
        (row("x", None, {"id": 1}), "op: expected c, u, d, r or t, got another"),
        (row("c", None, None), "a row of op insert: expected its image, got null"),
        (row("c", None, {"id": 1}, table=None), "source: expected the names of database and table, got none"),
        (row("c", None, {"id": 1}, file="binlog"), "binlog file: expected a name that ends in a number, got another"),
        (row("c", None, {"id": 1}, pos=-1), "value: Expected `int` >= 0 - at `$.source.pos`"),
        (row("c", None, {"g": {"wkb": 1}}), "column g: expected a geometry or a vector, got another structure"),
        (
            {"id": 1, "__op": "c"},
            "unwrapped row: expected __source_file and __source_pos (add.fields), got none: it has no place in the order",
        ),
    ],
)
def test_what_is_no_message_of_the_format_says_what_was_expected(value: Any, text: str) -> None:
    with pytest.raises(DecodeError) as error:
        list(decode(message(value), {}))
    assert str(error.value) == text


def test_garbage_gives_events_or_a_decode_error() -> None:
    whole = [told for told, _ in recorded(DATA / "debezium/inventory/withschema.jsonl.gz") if told.value]
    flat = [told for told, _ in recorded(DATA / "debezium/orders_small/noschema.jsonl.gz") if told.value]
    assert mutations(decode, [whole[1], whole[8], whole[-300], flat[1], flat[40]], 500) > 200


# Every handling mode, with the schema and without: a value of a type, as the connector would send it, comes back.

Wire = tuple[Any, dict[str, Any]]
MODES = {
    "decimal_handling_mode": ("precise", "string", "double"),
    "time_precision_mode": ("adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds"),
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
    parameters = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    return unscaled(int(value.scaleb(scale))), {"type": "bytes", "name": CONNECT + "Decimal", "parameters": parameters}


def ticks_wire(micros: int, digits: int, mode: str, word: str) -> Wire:
    fine = mode in ("microseconds", "nanoseconds") or (mode.startswith("adaptive") and digits > 3)
    if mode == "adaptive_time_microseconds" and word == "Time":
        fine = True
    name = {"Time": ("Time", "MicroTime", "NanoTime"), "Timestamp": ("Timestamp", "MicroTimestamp", "NanoTimestamp")}[word]
    if mode == "nanoseconds":
        return micros * 1000, {"type": "int64", "name": TIME + name[2]}
    if fine:
        return micros, {"type": "int64", "name": TIME + name[1]}
    return micros // 1000, {"type": "int64", "name": (CONNECT if mode == "connect" else TIME) + name[0]}


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
        st.sampled_from(["decimal", "date", "datetime", "time", "timestamp", "bit", "bit1", "biguint", "binary", "enum", "int", "double"])
    ):
        case "decimal":
            precision, scale = draw(st.sampled_from([(4, 0), (10, 2), (15, 15), (38, 10)]))
            if modes["decimal_handling_mode"] == "double":
                precision, scale = 10, 2
            number = draw(st.integers(1 - 10**precision, 10**precision - 1))
            value = Decimal(number).scaleb(-scale)
            return f"decimal({precision},{scale})", f"{value:f}", decimal_wire(value, scale, precision, modes["decimal_handling_mode"])
        case "date":
            day = draw(st.dates(date(1000, 1, 1)))
            if time == "isostring":
                return "date", day.isoformat(), (day.isoformat() + "Z", {"type": "string", "name": TIME + "IsoDate"})
            name = (CONNECT if time == "connect" else TIME) + "Date"
            return "date", day.isoformat(), ((day - date(1970, 1, 1)).days, {"type": "int32", "name": name})
        case "datetime":
            digits = 3 if time == "connect" else draw(st.sampled_from([0, 3, 6]))
            moment = draw(st.datetimes(datetime(1000, 1, 1)))
            micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=10 ** (6 - digits)) * 10 ** (6 - digits)
            moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)
            wire = ticks_wire(micros, digits, time, "Timestamp")
            if time == "isostring":
                wire = moment.isoformat("T") + "Z", {"type": "string", "name": TIME + "IsoTimestamp"}
            return f"datetime({digits})", str(moment), wire
        case "time":
            digits = 3 if time in ("adaptive", "connect") else 6
            seconds = draw(st.integers(0, 86399) if time in ("connect", "isostring") else st.integers(-3020399, 3020399))
            clock = f"{'-' if seconds < 0 else ''}{abs(seconds) // 3600:02}:{abs(seconds) // 60 % 60:02}:{abs(seconds) % 60:02}"
            wire = ticks_wire(seconds * 1_000_000, digits, time, "Time")
            return f"time({digits})", clock, (clock + "Z", {"type": "string", "name": TIME + "IsoTime"}) if time == "isostring" else wire
        case "timestamp":
            moment = draw(st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 1)))
            text = moment.isoformat("T") + "Z"
            return "timestamp(6)", text.replace("T", " "), (text, {"type": "string", "name": TIME + "ZonedTimestamp"})
        case "bit":
            bits = draw(st.integers(0, 2**20 - 1))
            wire = base64.b64encode(bits.to_bytes(3, "little")).decode()
            return "bit(20)", bits, (wire, {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "20"}})
        case "bit1":
            flag = draw(st.booleans())
            return "bit(1)", int(flag), (flag, {"type": "boolean"})
        case "biguint":
            number = draw(st.integers(0, 2**64 - 1))
            if modes["unsigned"] == "precise":
                return "bigint unsigned", number, decimal_wire(Decimal(number), 0, None, "precise")
            return "bigint unsigned", number, (number - 2**64 if number >= 2**63 else number, {"type": "int64"})
        case "binary":
            data = draw(st.binary(max_size=12))
            return "varbinary(12)", base64.b64encode(data).decode(), binary_wire(data, modes["binary_handling_mode"])
        case "enum":
            return (
                "enum('a,b','c')",
                "a,b",
                ("a\\,b", {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "a\\,b,c"}}),
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
            assert told.after[name] == resolve(told.after[name], column_type, "canonical") or column_type.family in (
                "datetime",
                "time",
                "timestamp",
            )


def test_a_propagated_source_type_settles_what_the_schema_alone_leaves_open() -> None:
    def field(name: str, kind: str, type_: str, **parts: str) -> dict[str, Any]:
        return {
            "field": name,
            "type": kind,
            "parameters": {f"__debezium.source.column.{part}": text for part, text in {"type": type_, **parts}.items()},
        }

    fields = [
        field("n", "int64", "BIGINT UNSIGNED", length="20"),
        field("x", "double", "DOUBLE"),
        field("b", "string", "VARBINARY", length="3"),
    ]
    event = one(message(with_schema({"n": -1, "x": 1, "b": "AAEC"}, fields)), binary_handling_mode="base64", decimal_handling_mode="double")
    assert (event.after, event.encoding) == ({"n": 2**64 - 1, "x": 1.0, "b": "AAEC"}, "canonical")
    assert event.types == {"n": "bigint(20) unsigned", "x": "double", "b": "varbinary(3)"}


def test_geometries_and_vectors_need_no_schema() -> None:
    wkb = base64.b64encode(b"\x01" * 21).decode()
    event = one(message(row("c", None, {"p": {"x": 1.0, "y": 2.0, "wkb": wkb, "srid": 4326}, "v": [1.0, 2.5]})))
    assert base64.b64decode(event.after["p"]) == (4326).to_bytes(4, "little") + b"\x01" * 21
    assert event.after["v"] == "[1,2.5]"
