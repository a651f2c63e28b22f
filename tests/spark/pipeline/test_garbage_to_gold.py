"""Whatever a message holds, it is events or a dead letter, and all that is behind the decoder bears the
events: silver's Arrow, the schema history, the fold, gold's types. Nothing else is ever raised.
"""

import itertools
import json
import os
import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from lakehouse.discovery.read_input import shown_options
from lakehouse.events import MIN_POSITION, Message, Position
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import Change
from lakehouse.formats import FORMATS, order_of
from lakehouse.gold.columns import gold_columns, type_rows
from lakehouse.lineage import History, Interval, Lineage, Step
from lakehouse.schema import Column, make_schema, parse_type
from lakehouse.sources.recording import read_recording
from lakehouse.sources.storage_tree import read_tree
from lakehouse.spark.change_log.changes import parse_change
from lakehouse.spark.column_types import data_type
from lakehouse.spark.fold.deltas import decode_row, encode_row
from lakehouse.spark.silver.decode import decode_all
from lakehouse.spark.silver.dedupe import disagree
from lakehouse.spark.silver.packed import pack
from tests.support.engine import Memory
from tests.support.mutants import mutant
from tests.support.paths import DATA

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "20"))
# a few feeds of each format, small ones that hold every kind of message
FEEDS = {
    "ticdc-open": [
        "ticdc-open/newarch-202606/basictypes.default.jsonl.gz",
        "ticdc-open/classic-v6.5.0/shop.default.jsonl.gz",
    ],
    "ticdc-canal-json": [
        "ticdc-canal-json/newarch-202606/basictypes.tidb-ext.jsonl.gz",
        "ticdc-canal-json/classic-v6.5.0/shop.tidb-ext.jsonl.gz",
        "ticdc-canal-json/newarch-202606/shop.plain.jsonl.gz",
    ],
    "ticdc-debezium": [
        "ticdc-debezium/newarch-202606/basictypes.default.jsonl.gz",
        "ticdc-debezium/newarch-202606/shop.no-schema.jsonl.gz",
    ],
    "ticdc-storage": [
        "storage/csv-types-old-value-hex",
        "storage/csv-ddl-and-partitions",
        "storage/json-without-extension",
    ],
    "canal": ["canal/inventory.jsonl.gz", "canal/orders_small.jsonl.gz"],
    "canal-protobuf": ["canal-protobuf/inventory.jsonl.gz"],
    "debezium": ["debezium/inventory/withschema.jsonl.gz", "debezium/inventory/noschema.jsonl.gz"],
    "tencent-dts": ["dts/inventory/stream.jsonl.gz"],
}
CASES = [(format, feed) for format, feeds in FEEDS.items() for feed in feeds]


@cache
def feed_of(format: str, feed: str) -> tuple[list[Message], dict[str, str]]:
    path = DATA / feed
    if format != "ticdc-storage":
        return list(itertools.islice(read_recording(path), 120)), {
            "time_zone": "Asia/Shanghai"
        } if "time_zone" in FORMATS[format].options else {}
    options = shown_options(path / "data", "ticdc-storage", {"time_zone": "Asia/Shanghai"})
    return list(read_tree(path / "data", options)), options


@pytest.mark.parametrize(("format", "feed"), CASES, ids=[feed for _, feed in CASES])
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=397983)  # a statement's version that no BIGINT holds
def test_a_feed_with_wrong_messages_in_it_goes_through_to_gold(format: str, feed: str, seed: int) -> None:
    messages, options = feed_of(format, feed)
    chance = random.Random(seed)
    start = chance.randrange(len(messages))
    chosen = messages[start : start + 12]
    broken = [mutant(format, message, chance) if chance.random() < 0.4 else message for message in chosen]

    to_gold(format, broken, options)


def to_gold(format: str, messages: list[Message], options: dict[str, str]) -> None:
    """All that a batch goes through, but for Spark's own jobs."""
    silver = Memory(format, options, tidb=order_of(format, options) == "tidb").add(messages)
    through_arrow(format, messages, options)
    assert all(0 <= part < 2**63 for part in silver.watermark)
    msgspec.json.encode(silver.transactions)
    if not silver.changes and not silver.records:
        return
    history, changes = silver._lineages()
    for lineage in history.live(silver.reach).values():
        rows = finish(fold(lineage, changes.get(lineage.id, ()), silver.reach, silver.upstream))
        assert [decode_row(encode_row(row)) for row in rows] == rows
        at = silver.reach
        columns = gold_columns(
            lineage.schema_at((*at[:5], at[5] + 1)), virtual=not format.startswith("ticdc")
        )
        typed = type_rows(rows, columns)
        for column in columns:
            pa.array(typed.columns[column.name], to_arrow_type(data_type(column.spark)))
        for raw in typed.raw.values():
            pa.array(raw, pa.string())
    assert_names_can_be_written(silver.reach, history)
    json.dumps(silver.tables(silver.reach), ensure_ascii=False).encode()


def assert_names_can_be_written(at: Position, history: History) -> None:
    for lineage in history.lineages:
        json.dumps(
            [lineage.id, repr(lineage.steps[-1].schema), lineage.notes, lineage.held], ensure_ascii=False
        ).encode()


def through_arrow(format: str, messages: Iterable[Message], options: dict[str, str]) -> None:
    order = order_of(format, options)
    taken = decode_all(messages, {"format": format, "options": options, "order": order})
    packed = pack(taken, order).to_pylist()[0]
    streams = [packed[name] for name in ("changes", "others") if packed[name]]
    for event in (row for stream in streams for row in pa.ipc.open_stream(stream).read_all().to_pylist()):
        if "op" in event:
            parse_change(
                event["position"],
                event["op"],
                event["before"],
                event["after"],
                event["encoding"],
                event["flags"],
            )
            assert not disagree(event["after"], event["after"])
        for name in ("key", "types") if "op" in event else ("columns",):  # the key of a transaction is its id
            json.loads(event.get(name) or "null")


# What it has found, each for itself

ROW = {"db": "d", "table": "t", "file": "b.000001", "pos": 5, "row": 0, "ts_ms": 1, "server_id": 1}
TABLE = {
    "type": "CREATE",
    "id": '"d"."t"',
    "table": {"columns": [{"name": "id", "typeName": "INT"}], "primaryKeyColumnNames": ["id"]},
}


def debezium(value: dict[str, object], key: object = None, topic: str = "t") -> Message:
    return Message(topic, 0, 0, json.dumps(key).encode() if key else None, json.dumps(value).encode())


def ddl(change: dict[str, object], snapshot: str = "false") -> Message:
    source = {**ROW, "pos": 1, "snapshot": snapshot}
    return debezium(
        {"source": source, "databaseName": "d", "ddl": "CREATE TABLE t (id INT)", "tableChanges": [change]},
        topic="ddl",
    )


@pytest.mark.parametrize("member", [{"ts_ms": 2**63}, {"ts_ms": -(2**70)}, {"pos": 2**63}, {"row": -1}])
def test_a_number_that_no_bigint_holds_is_a_dead_letter(member: dict[str, int]) -> None:
    message = debezium({"op": "c", "source": {**ROW, **member}, "after": {"id": 1}})

    assert [letter.code for letter in Memory("debezium", tidb=False).add([message]).dead] == ["shape"]
    to_gold("debezium", [message], {})


def test_a_table_version_that_no_bigint_holds_is_a_dead_letter() -> None:
    value = json.dumps({"Table": "t", "Schema": "d", "TableVersion": 2**70, "Query": "x"}).encode()
    message = Message("s", 0, 0, None, value, path="d/t/meta/schema_1_2.json")

    assert [letter.code for letter in Memory("ticdc-storage").add([message]).dead] == ["schema"]
    to_gold("ticdc-storage", [message], {})


def test_a_schema_record_whose_key_is_none_of_its_columns_has_no_key() -> None:
    change: dict[str, object] = {
        **TABLE,
        "table": {"columns": [{"name": "a", "typeName": "INT"}], "primaryKeyColumnNames": ["id"]},
    }

    silver = Memory("debezium", tidb=False).add(
        [debezium({"op": "c", "source": ROW, "after": {"a": 1}}), ddl(change, "true")]
    )

    assert silver.tables(silver.reach) == {"d.t": [{"a": 1}]}


@pytest.mark.parametrize("raw", [{"base64": "/w=="}, [1, 2]])
def test_a_key_that_is_a_structure_names_no_row(raw: Any) -> None:
    rows = [
        Change((0, 1, 1, 1, row, 1), "insert", None, {"id": key, "v": row}, "canonical")
        for row, key in enumerate((raw, "a"))
    ]
    schema = make_schema(
        [Column(0, "id", parse_type("varchar(9)")), Column(0, "v", parse_type("int"))], ("id",)
    )
    lineage = Lineage("d.t@0", [Step(MIN_POSITION, schema)], [Interval(("d", "t"), MIN_POSITION, None)])

    folded = fold(lineage, rows, (0, 2, 0, 0, 0, 0))

    assert (finish(folded), folded.problems) == ([{1: "a", 2: 1}], {"an image without its key"})


@pytest.mark.parametrize("type_", ["BIT", "DECIMAL", "BIGINT UNSIGNED"])
def test_a_number_too_long_to_be_written_stays_as_it_came(type_: str) -> None:
    long = "A" * 3996 + "/w=="
    columns = [{"name": "id", "typeName": "INT"}, {"name": "v", "typeName": type_, "length": 30}]
    messages = [
        ddl({**TABLE, "table": {"columns": columns}}, "true"),
        debezium({"op": "c", "source": ROW, "after": {"id": 1, "v": long}}),
    ]
    silver = Memory("debezium", tidb=False).add(messages)

    assert silver.dead == []
    (row,) = silver.tables(silver.reach)["d.t"]
    assert row.get("_raw_v", row["v"]) == long
    to_gold("debezium", messages, {})


def test_digits_of_other_scripts_are_no_numbers() -> None:
    wire = {
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "es": 1,
        "pkNames": ["id"],
        "mysqlType": {"id": "int", "e": "enum('a')"},
    }
    messages = [
        Message("t", 0, n, None, json.dumps({**wire, "data": [{"id": str(n), "e": e}]}).encode())
        for n, e in enumerate(("٣", "1" * 5000))
    ]
    silver = Memory("canal", tidb=False).add(messages)

    assert [row.get("_raw_e", row["e"]) for row in silver.tables(silver.reach)["d.t"]] == ["٣", "1" * 5000]
    to_gold("canal", messages, {})


@pytest.mark.parametrize("depth", [20, 99, 400, 990, 100_000])
@pytest.mark.parametrize("place", ["value", "data", "schema"])
def test_json_nested_deeper_than_any_document_is_a_dead_letter_and_nothing_else_is_lost(
    depth: int, place: str
) -> None:
    deep = b"[" * depth + b"]" * depth
    wire: dict[str, Any] = {
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "es": 1,
        "id": 1,
        "pkNames": ["id"],
    }
    wire |= {
        "mysqlType": {"id": "int", "v": "json"},
        "data": [{"id": "1", "v": "DEEP"}] if place == "value" else "DEEP",
    }
    value = json.dumps(wire).replace('"DEEP"', "DEEP").encode().replace(b"DEEP", deep)
    format, message = "canal", Message("t", 0, 0, None, value)
    if place == "schema":
        whole = ddl(
            {
                **TABLE,
                "table": {"columns": [{"name": "id", "typeName": "INT", "defaultValueExpression": "DEEP"}]},
            },
            "true",
        )
        format, message = (
            "debezium",
            Message("ddl", 0, 0, None, (whole.value or b"").replace(b'"DEEP"', deep)),
        )

    taken = decode_all([message], {"format": format, "options": {}, "order": order_of(format, {})})

    dead = [row for row in taken.others if row[0] == "dead_letter"]
    changes = taken.changes["key"]
    assert len(changes) + len(taken.others) >= 1
    assert bool(dead) or depth <= 99 or place == "schema"  # a default that is no text is left out
    assert not changes or place == "value"
    to_gold(format, [message], {})
