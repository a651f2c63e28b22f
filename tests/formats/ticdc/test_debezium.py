"""TiCDC's Debezium protocol against recordings whose truth came from the upstream's own SELECTs."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import DecodeError
from lakehouse.events import Event, Message, RowChange, SchemaChange, Watermark
from lakehouse.formats.ticdc.debezium import decode
from lakehouse.schema import parse_type
from lakehouse.values.decode_with_schema import resolve
from tests.support.engine import Memory
from tests.support.events import changes_of
from tests.support.garbage import mutations
from tests.support.paths import DATA
from tests.support.recorded_truth import recorded, true_value

RECORDINGS = sorted((DATA / "ticdc-debezium").glob("*.jsonl.gz"))
ZONES = {"timezone.tidb-ext.jsonl.gz": "Asia/Shanghai"}


def message(
    payload: dict[str, Any], key: dict[str, Any] | None = None, schema: dict[str, Any] | None = None
) -> Message:
    def frame(content: Any, its_schema: Any) -> bytes:
        return json.dumps({"payload": content, **({"schema": its_schema} if its_schema else {})}).encode()

    return Message("t", 0, 0, None if key is None else frame(key, None), frame(payload, schema), epoch=3)


def row(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"db": "d", "table": "t", "commit_ts": 100}}


def one(told: Message) -> Any:
    (event,) = decode(told, {})
    return event


def same(cell: dict[str, Any], value: Any, encoding: str, zone: str) -> bool:
    column_type = parse_type(cell["type"])
    truth = true_value(cell["value"], column_type, zone)
    if column_type.family == "decimal" and isinstance(value, int | float):
        return truth is not None and float(truth) == float(value)
    return resolve(value, column_type, encoding) == truth


def differences(expected: dict[str, Any], event: Event, zone: str) -> list[str]:
    """What is wrong in one decoded event; columns that the truth lists as lossy may differ."""
    match event, expected["kind"]:
        case Watermark(), "resolved":
            return [] if event.resolved_ts == expected["commit_ts"] else ["resolved_ts"]
        case SchemaChange(), "ddl":
            told = (event.database, event.table, event.ddl, event.commit_ts)
            return (
                []
                if told
                == (
                    expected["schema"],
                    expected.get("table") or None,
                    expected["query"],
                    expected["commit_ts"],
                )
                else ["ddl"]
            )
        case RowChange(), "row":
            return list(row_differences(expected, event, zone))
        case _:
            return [f"{expected['kind']}: {type(event).__name__}"]


def row_differences(expected: dict[str, Any], event: RowChange, zone: str) -> list[str]:
    told = (event.database, event.table, event.op, event.commit_ts, event.key_names)
    true = (
        expected["schema"],
        expected["table"],
        expected["op"],
        expected["commit_ts"],
        tuple(sorted(expected.get("handle_key", ()))),
    )
    wrong = [] if told == true else [f"{told} instead of {true}"]
    for name in ("before", "after"):
        image, truth = getattr(event, name), expected.get(name)
        if image is not None and (truth is None or image.keys() != truth.keys()):
            wrong.append(f"columns of {name}")
        lossy = expected.get("lossy", {}).get(name, {})
        wrong += [
            f"{name}.{column}: {value!r}"
            for column, value in (image or {}).items()
            if truth and column not in lossy and not same(truth[column], value, event.encoding, zone)
        ]
    image = expected["before" if event.op == "delete" else "after"]
    wrong += [
        f"key {name}"
        for name, value in zip(event.key_names, event.key, strict=True)
        if not same(image[name], value, event.encoding, zone)
    ]
    return wrong


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_event_of_a_recording_is_what_the_upstream_says(path: Path) -> None:
    wrong, count = [], 0
    for told, expected in recorded(path):
        events = list(decode(told, {}))
        assert len(events) == len(expected)
        for true, event in zip(expected, events, strict=True):
            count += 1
            wrong += differences(true, event, ZONES.get(path.name, "UTC"))
    assert wrong == []
    assert count > 5


def test_an_update_without_old_values_has_no_old_image() -> None:
    told = [
        event
        for message, _ in recorded(DATA / "ticdc-debezium/shop.no-old-value.jsonl.gz")
        for event in decode(message, {})
    ]
    updates = [event for event in told if isinstance(event, RowChange) and event.op == "update"]
    assert updates
    assert all(event.before is None and event.after for event in updates)


def test_schemas_with_tidb_types_settle_every_value_but_decimals() -> None:
    keyed = [
        event
        for message, _ in recorded(DATA / "ticdc-debezium/keys.tidb-ext.jsonl.gz")
        for event in decode(message, {})
    ]
    typed = [
        event
        for message, _ in recorded(DATA / "ticdc-debezium/basictypes.tidb-ext.jsonl.gz")
        for event in decode(message, {})
    ]
    bare = [
        event
        for message, _ in recorded(DATA / "ticdc-debezium/basictypes.no-schema.jsonl.gz")
        for event in decode(message, {})
    ]
    assert {event.encoding for event in keyed if isinstance(event, RowChange)} == {"canonical"}
    with_decimal = [
        event
        for event in typed
        if isinstance(event, RowChange) and (event.after or event.before or {})["dc"] is not None
    ]
    assert {event.encoding for event in with_decimal} == {"ticdc-debezium"}
    assert {event.encoding for event in bare if isinstance(event, RowChange)} == {"ticdc-debezium"}


def test_positions_are_commit_ts_and_rank() -> None:
    events = [one(message(row(op, {"id": 1}, {"id": 1}), {"id": 1})) for op in "cud"]
    watermark = one(message({"op": "m", "source": {"db": "", "table": "", "commit_ts": 100}}, {}))
    assert [event.position for event in events] == [
        (3, 100, 1, 0, 0, 0),
        (3, 100, 1, 0, 0, 0),
        (3, 100, 0, 0, 0, 0),
    ]
    assert watermark.position == (3, 100, 2, 0, 0, 0)


def test_an_update_of_the_key_becomes_a_delete_and_an_insert() -> None:
    halves = changes_of(
        decode(
            message(row("u", {"b": 1, "a": "x", "v": 1}, {"b": 1, "a": "y", "v": 2}), {"b": 1, "a": "y"}), {}
        )
    )
    assert [(half.op, half.key, half.index) for half in halves] == [
        ("delete", ("x", 1), 0),
        ("insert", ("y", 1), 1),
    ]
    assert [half.position[2] for half in halves] == [0, 1]
    assert [(half.before is None, half.after is None) for half in halves] == [(False, True), (True, False)]


def test_an_update_of_a_table_without_key_stays_one_event() -> None:
    event = one(message(row("u", {"a": 1}, {"a": 2}), {}))
    assert (event.op, event.key, event.key_names, event.before, event.after) == (
        "update",
        (),
        (),
        {"a": 1},
        {"a": 2},
    )


def test_columns_of_a_schema_change_carry_lengths_and_labels() -> None:
    created = [
        event
        for message, _ in recorded(DATA / "ticdc-debezium/basictypes.tidb-ext.jsonl.gz")
        for event in decode(message, {})
        if isinstance(event, SchemaChange) and event.columns
    ]
    types = {column["name"]: column["type"] for column in created[0].columns or ()}
    assert (types["dc"], types["biu"], types["dtm6"], types["e"]) == (
        "decimal(10,3)",
        "bigint unsigned",
        "datetime(6)",
        "enum('red','green','blue') character set utf8mb4",
    )
    assert created[0].primary_key == ("id",)


@pytest.mark.parametrize(
    ("tidb_type", "encoding"),
    [("float", "canonical"), ("double unsigned", "canonical"), ("decimal", "ticdc-debezium")],
)
def test_a_double_is_open_only_where_it_may_be_a_decimal(tidb_type: str, encoding: str) -> None:
    """A FLOAT with digits, such as FLOAT(7,3), has the schema type double too."""
    fields = [{"type": "double", "field": "f", "tidb_type": tidb_type}]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}

    event = one(message(row("c", None, {"f": 1.5}), schema=schema))

    assert (event.after, event.encoding, event.types) == ({"f": 1.5}, encoding, {"f": tidb_type})


def test_the_column_of_an_expression_index_is_no_column() -> None:
    fields = [{"type": "int32", "field": "id"}, {"type": "string", "field": "_V$_by_name_0"}]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}

    assert one(message(row("c", None, {"id": 1}), schema=schema)).types == {"id": "int"}


@pytest.mark.parametrize("op", ["c", "u", "d"])
@pytest.mark.parametrize("names", [["id", "v", "a", "v"], ["id", "a", "v"]], ids=["new", "classic"])
def test_a_virtual_column_that_the_schema_lists_is_no_column(names: list[str], op: str) -> None:
    """Where no DDL is sent, which 8.5 does not, its table would lack a value of it in all rows."""
    fields = [{"type": "int32", "field": name} for name in names]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    image = {"id": 1, "a": 2}

    sent = row(op, None if op == "c" else image, None if op == "d" else image)

    assert one(message(sent, schema=schema)).types == {"id": "int", "a": "int"}


@pytest.mark.parametrize(
    ("fields", "types"), [([], None), ([{"type": "int32", "field": "id"}], {"id": "int", "a": ""})]
)
def test_types_name_every_column_of_the_row_or_are_not_told(
    fields: list[dict[str, str]], types: dict[str, str] | None
) -> None:
    """Where they are told, rows are not looked into for others."""
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}

    assert one(message(row("c", None, {"id": 1, "a": 2}), schema=schema)).types == types


def test_an_enum_s_label_is_as_it_is_and_only_the_list_of_labels_has_commas_escaped() -> None:
    field = {
        "type": "string",
        "name": "io.debezium.data.Enum",
        "parameters": {"allowed": "a\\,b,a\\\\,b"},
        "field": "e",
    }
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": [field], "field": "after"}]}

    assert one(message(row("c", None, {"e": "a\\,b"}), schema=schema)).after == {"e": "a\\,b"}


def test_a_negative_bigint_without_its_type_is_left_to_the_schema() -> None:
    schema = {
        "type": "struct",
        "fields": [{"field": "after", "type": "struct", "fields": [{"field": "n", "type": "int64"}]}],
    }
    negative, positive = (one(message(row("c", None, {"n": n}), {}, schema)) for n in (-1, 1))
    assert (negative.encoding, negative.after) == ("ticdc-debezium", {"n": -1})
    assert resolve(-1, parse_type("bigint unsigned"), negative.encoding) == 2**64 - 1
    assert (positive.encoding, positive.after) == ("canonical", {"n": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"[]", "value: Expected `object`, got `array`"),
        (b'{"payload":{"op":"c"}}', "value: Object missing required field `source` - at `$.payload`"),
        (
            b'{"payload":{"op":"x","source":{"commit_ts":1}}}',
            "payload.op: expected c, u, d or m, or a payload with ddl, got another",
        ),
        (
            b'{"payload":{"op":"c","source":{"commit_ts":1}}}',
            "a row of op insert: expected its image, got null",
        ),
        (b"{", "value: expected JSON, got Input data was truncated"),
    ],
)
def test_what_is_no_message_of_the_format_says_what_was_expected(value: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as error:
        list(decode(Message("t", 0, 0, None, value), {}))
    assert str(error.value) == text


def test_garbage_gives_events_or_a_decode_error() -> None:
    whole = [told for told, _ in recorded(DATA / "ticdc-debezium/basictypes.tidb-ext.jsonl.gz")][1:4]
    assert mutations(decode, whole, 700) > 200


@pytest.mark.parametrize("name", ["Timestamp", "MicroTimestamp"])
@pytest.mark.parametrize(
    ("members", "value", "shown"),
    [
        ({"optional": True, "default": 0}, 0, None),
        ({"optional": True, "default": 0}, 60_000_000, "1970-01-01 "),
        ({"optional": True, "default": 60_000_000}, 0, "1970-01-01 00:00:00"),
        ({"optional": True}, 0, "1970-01-01 00:00:00"),
        ({"optional": False, "default": 0}, 0, "1970-01-01 00:00:00"),
    ],
)
def test_a_null_that_comes_as_the_time_of_current_timestamp_is_no_time(
    name: str, members: dict[str, Any], value: int, shown: str | None
) -> None:
    """writeDebeziumFieldValue of 8.5 and later: a NULL DATETIME with DEFAULT CURRENT_TIMESTAMP is 0."""
    source = {"db": "d", "table": "t"}
    ddl = {"source": {**source, "commit_ts": 1}, "ddl": "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME)"}
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int64", "name": f"io.debezium.time.{name}", "field": "at", **members},
    ]
    payload = {**row("c", None, {"id": 1, "at": value}), "source": {**source, "commit_ts": 2}}
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    memory = Memory("ticdc-debezium").add(
        Message("t", 0, at, b'{"payload":{"id":1}}', json.dumps(body).encode())
        for at, body in enumerate(({"payload": ddl}, {"payload": payload, "schema": schema}))
    )

    [found] = memory.tables(memory.reach)["d.t"]

    assert (found["at"] or "").startswith(shown or "") and found.get("_raw_at") == (
        '{"default":0}' if shown is None else None
    )
