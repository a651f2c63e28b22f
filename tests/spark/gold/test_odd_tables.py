"""Tables that Spark could trip over, in the lake as in the engine: keys beyond gold's types, columns of no
known type (T77, T90).
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lakehouse.events import Message
from lakehouse.fold.row_edits import OLD_ROW_STAYS
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.silver import Done
from lakehouse.spark.gold.entries import UNFILLED
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.show import show_all
from tests.support.engine import Memory
from tests.support.feeds import Canal, Debezium, TiCDC

Tables = dict[str, list[dict[str, Any]]]


def landed(
    messages: list[Message],
    format: str,
    folder: Path,
    first: int = 0,
    *,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Tables:
    """Gold's tables after a run over the first messages (half of them) and one over all."""
    first = first or len(messages) // 2
    path, rows = folder / "recording.jsonl", []
    for number, message in enumerate(messages, 1):
        key = message.key and base64.b64encode(message.key).decode()
        row = {
            "topic": "t",
            "partition": 0,
            "offset": number,
            "key_b64": key,
            "value_b64": base64.b64encode(message.value or b"").decode(),
        }
        rows.append(json.dumps(row) + "\n")
        if number in (first, len(messages)):
            path.write_text("".join(rows))
            try_recording(path, format, dict(options), str(folder / "lake"), "resolved", lambda _: None)
    show_all(str(folder / "lake"), folder / "shown", [])
    return {
        file.name.removesuffix(".jsonl"): [json.loads(line) for line in file.open()]
        for file in (folder / "shown").glob("*.jsonl")
    }


def test_rows_whose_keys_gold_cannot_hold_are_not_taken_for_each_other(spark: Any, tmp_path: Path) -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (d DATE PRIMARY KEY, a INT, `_raw_d` INT)")
    kinds = {"d": "date", "a": "int", "_raw_d": "int"}

    def row(at: int, kind: str, day: str, number: int) -> None:
        feed.row(at, kind, {"d": day, "a": number, "_raw_d": number}, types=kinds, key=("d",)).put(
            at, watermark(at)
        )

    for at, day in enumerate(("0000-00-00", "2024-00-00", "2024-01-00", "2024-01-01"), 2):
        row(at, "INSERT", day, at)
    row(10, "DELETE", "0000-00-00", 2)
    row(11, "INSERT", "2024-00-00", 11)
    row(12, "INSERT", "2023-00-00", 12)
    row(13, "INSERT", "2024-01-01", 13)

    tables = landed(feed.messages, feed.format, tmp_path)

    assert in_order(tables["d.t"]) == in_order(feed.table())
    assert sorted(row["a"] for row in tables["d.t"]) == [4, 11, 12, 13]


def watermark(at: int) -> dict[str, Any]:
    return {"type": "TIDB_WATERMARK", "database": "", "table": "", "_tidb": {"watermarkTs": at}}


def test_a_feed_without_types_lands_as_text(spark: Any, tmp_path: Path) -> None:
    def change(ts: int, op: str, after: dict[str, Any] | None) -> Message:
        payload = {
            "op": op,
            "before": None,
            "after": after,
            "source": {"commit_ts": ts, "db": "d", "table": "t"},
        }
        return Message("t", 0, ts, b'{"payload":{"id":1}}', json.dumps({"payload": payload}).encode())

    rows = [(1, 1.5, "x"), (2, None, "y"), (1, 2, "z")]
    messages = [
        change(ts, "c" if ts < 3 else "u", {"id": id, "f": f, "a": a})
        for ts, (id, f, a) in enumerate(rows, 1)
    ]
    messages += [change(4, "m", None)]

    tables = landed(messages, "ticdc-debezium", tmp_path)

    memory = Memory("ticdc-debezium").add(messages)
    assert tables == memory.tables(memory.watermark)
    assert in_order(tables["d.t"]) == [{"id": "1", "f": "2", "a": "z"}, {"id": "2", "f": None, "a": "y"}]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


def test_what_a_change_does_not_tell_leaves_its_table_incomplete_for_good(spark: Any, tmp_path: Path) -> None:
    feed = (
        TiCDC()
        .ddl(1, "CREATE TABLE t (id INT, a INT)")
        .ddl(1, "CREATE TABLE u (id INT PRIMARY KEY, a VARCHAR(9))", table="u")
    )
    for at, old, new in ((2, None, {"id": 1, "a": 1}), (3, {"id": 1}, {"id": 1, "a": 2})):
        feed.row(at, "UPDATE" if old else "INSERT", new, types={"id": "int", "a": "int"}, key=()).put(
            at, watermark(at)
        )
    for at in range(4, 8):
        feed.row(at, "INSERT", {"id": at, "a": "x"}, table="u").put(at, watermark(at))
    value = feed.messages[4].value or b""
    feed.messages[4] = Message("topic", 0, 4, None, value.replace(b'"old": [{"id": "1"}]', b'"old": null'))

    landed(feed.messages, feed.format, tmp_path)

    manifest = OpsLog(spark, Lake(str(tmp_path / "lake")), "recording").load().last(Manifest)
    assert manifest is not None
    states = {entry.table: (entry.state, entry.why) for entry in manifest.tables}
    why = f"{OLD_ROW_STAYS}; set output-old-value=true at the changefeed"
    assert states == {"t": ("incomplete", why), "u": ("exact", None)}


def test_what_a_restarted_canal_sends_again_has_no_second_effect(spark: Any, tmp_path: Path) -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT, a VARCHAR(9))")
    for at in range(2, 6):
        feed.row(at, "INSERT", {"id": 1, "a": "x"}, key=())
    feed.ddl(6, "ALTER TABLE t ADD COLUMN n INT").row(7, "INSERT", {"id": 2, "a": "y"}, key=())
    expected = feed.table()
    bodies = [json.loads(message.value or b"") for message in feed.messages]
    again = [*enumerate(bodies, 10), *enumerate(bodies[2:], 1)]
    messages = [
        Message("t", 0, n, None, json.dumps({**body, "id": id, "ts": 1000 * n}).encode())
        for n, (id, body) in enumerate(again)
    ]

    tables = landed(messages, "canal", tmp_path, first=9)  # in the middle of what comes again

    assert in_order(tables["d.t"]) == in_order(expected)
    done = OpsLog(spark, Lake(str(tmp_path / "lake")), "recording").load().last(Done)
    assert done is not None
    assert [(one.number, one.replaying) for one in done.sent] == [(5, False)]


def test_a_value_that_no_rule_converts_makes_its_table_incomplete_since_the_statement(
    spark: Any, tmp_path: Path
) -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))")
    feed.insert(2, id=1, a="abc", b=None).insert(2, id=2, a="[1]", b=None)
    feed.ddl(3, "ALTER TABLE t MODIFY b JSON").insert(4, id=3, a="[3]", b="[4]").put(4, watermark(4))
    feed.ddl(5, "ALTER TABLE t MODIFY a JSON").insert(6, id=4, a="[5]", b=None).put(6, watermark(6))

    tables = landed(feed.messages, feed.format, tmp_path)

    assert [row["a"] for row in in_order(tables["d.t"])] == [None, "[1]", "[3]", "[5]"]
    manifest = OpsLog(spark, Lake(str(tmp_path / "lake")), "recording").load().last(Manifest)
    assert manifest is not None
    [entry] = manifest.tables
    assert (entry.state, entry.since) == ("incomplete", (0, 5, 2, 0, 0, 0))
    assert entry.why == "column a, varchar(9) to json: text that is not JSON"


def test_gold_follows_the_server_that_is_said_and_folds_again_where_it_becomes_another(
    spark: Any, tmp_path: Path
) -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    feed.insert(2, id=1, v="1.9").ddl(3, "ALTER TABLE t MODIFY v INT").insert(4, id=2, v="7")

    unsaid = landed(feed.messages, feed.format, tmp_path)
    said = landed(feed.messages, feed.format, tmp_path, options={"server": "mariadb 11.4"})

    assert in_order(unsaid["d.t"]) == [{"id": 1, "v": 2}, {"id": 2, "v": 7}]
    assert in_order(said["d.t"]) == [{"id": 1, "v": 1}, {"id": 2, "v": 7}]


def test_a_table_of_which_no_row_has_come_says_that_the_connector_may_leave_it_out(
    spark: Any, tmp_path: Path
) -> None:
    feed = Debezium()
    for at, table in enumerate(("t", "u"), 4):
        feed.ddl(at, f"CREATE TABLE {table} (id INT PRIMARY KEY)", table)
    for at in (10, 20, 30):
        feed.change(at, "c", None, {"id": at})

    landed(feed.messages, feed.format, tmp_path, 3, options={})

    manifest = OpsLog(spark, Lake(str(tmp_path / "lake")), "recording").load().last(Manifest)
    assert manifest is not None
    assert {one.table: (one.state, one.notes) for one in manifest.tables} == {
        "t": ("exact", ()),
        "u": ("exact", (UNFILLED,)),
    }
