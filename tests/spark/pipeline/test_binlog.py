"""Binlog feeds in Spark: large batches as small ones, and Debezium's snapshots from their first row to their
last.
"""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.sources.recording import read_recording
from lakehouse.spark import limits
from lakehouse.spark.operations.epochs import raise_epoch
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.status import status
from tests.fold.test_properties import OPTIONS, ZONE
from tests.formats.debezium.test_transactions import end, record, streamed
from tests.formats.debezium.test_transactions import number as numbered
from tests.schema_history.test_snapshots import first_snapshot
from tests.support.encode_binlog import binlog, feed
from tests.support.engine import Memory
from tests.support.lakes import in_order, quiet, shown, silver_rows, write_recording
from tests.support.paths import DATA
from tests.support.source_model import MORE_TYPES, History

GENERATED = History(23, 16, raw_updates=True, types=MORE_TYPES)


def generated(format: str) -> list[Message]:
    return feed(format, binlog(GENERATED.events, random.Random(5)), random.Random(5), ZONE)


def recorded(format: str) -> list[Message]:
    return list(
        read_recording(
            DATA
            / {
                "debezium": "debezium/inventory/noschema.jsonl.gz",
                "tencent-dts": "dts/inventory/stream.jsonl.gz",
            }[format]
        )
    )


def with_dead_rows(format: str) -> list[Message]:
    """Some rows of transactions are of no known op, and of one nothing can be read."""
    told = recorded(format)
    rows = [number for number, message in enumerate(told) if b'"total_order"' in (message.value or b"")]
    for number in rows[10::40]:
        told[number] = msgspec.structs.replace(
            told[number], value=(told[number].value or b"").replace(b'"op":"', b'"op":"?')
        )
    told[rows[20]] = msgspec.structs.replace(told[rows[20]], value=b"\x00")
    return told


@pytest.mark.parametrize(
    ("format", "told"), [("debezium", recorded), ("debezium", with_dead_rows), ("tencent-dts", generated)]
)
def test_a_large_batch_is_what_a_small_one_is(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, told: Any
) -> None:
    path = write_recording(tmp_path / "feed.jsonl", told(format), headers=True)
    options = {} if format == "debezium" else {"time_zone": OPTIONS["time_zone"]}
    spark.catalog.clearCache()  # of what another test has left
    try_recording(path, format, options, str(tmp_path / "driver"), "resolved", quiet)
    for name in ("SILVER_BATCH_RECORDS", "SILVER_BATCH_BYTES", "GOLD_TABLE_CHANGES", "GOLD_WINDOW_CHANGES"):
        monkeypatch.setattr(limits, name, 0)

    try_recording(path, format, options, str(tmp_path / "jobs"), "resolved", quiet)

    for name in ("changes", "schema_changes", "watermarks", "dead_letters"):
        driver, jobs = (silver_rows(spark, tmp_path / lake, "feed", name) for lake in ("driver", "jobs"))
        assert driver == jobs, name
    silver = Memory(format, options, tidb=False).add(read_recording(path))
    gold = shown(tmp_path / "driver", tmp_path / "a")
    assert gold == shown(tmp_path / "jobs", tmp_path / "b") == in_order(silver.tables(silver.watermark))
    assert gold
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty(), "what was kept for a batch is let go"


@pytest.mark.long  # minutes
def test_a_second_snapshot_clears_when_its_last_row_is_there_and_an_aborted_one_never(
    spark: Any, tmp_path: Path
) -> None:
    """One pass after another over a recording that grows; what each shows is what the plain engine shows."""
    story = first_snapshot().row("a", "u", 150, 1, 11)
    lengths = [len(story.messages)]
    story.table("a", 500).table("b", 500).row("a", "r", 500, 9, 9, "first")  # broken off
    lengths.append(len(story.messages))
    story.row("a", "r", 600, 2, 20, "incremental").row("a", "r", 600, 7, 70, "incremental").row(
        "a", "u", 700, 7, 71
    )
    lengths.append(len(story.messages))
    story.table("a", 900).row("a", "r", 900, 1, 12, "first")
    lengths.append(len(story.messages))
    story.row("a", "r", 900, 4, 40, "last").row("a", "c", 950, 3, 30)
    lengths.append(len(story.messages))
    seen = []
    for length in lengths:
        path = write_recording(tmp_path / "feed.jsonl", story.messages[:length])
        try_recording(path, "debezium", {}, str(tmp_path / "lake"), "eventual", quiet)
        silver = Memory("debezium", tidb=False).add(story.messages[:length])
        seen.append(shown(tmp_path / "lake", tmp_path / "a"))
        assert seen[-1] == in_order(silver.tables(silver.reach)), length

    first, aborted, incremental, begun, complete = seen
    assert first == {"d.a": [{"id": 1, "v": 11}, {"id": 2, "v": 20}], "d.b": [{"id": 1, "v": 1}]}
    assert aborted["d.a"][:2] == first["d.a"] and aborted["d.b"] == first["d.b"]
    assert incremental["d.a"] == [*first["d.a"], {"id": 7, "v": 71}, {"id": 9, "v": 9}]
    assert begun["d.b"] == first["d.b"] and {"id": 9, "v": 9} not in begun["d.a"], (
        "what was broken off is void"
    )
    assert complete == {"d.a": [{"id": 1, "v": 12}, {"id": 3, "v": 30}, {"id": 4, "v": 40}]}


def test_t19_after_a_failover_every_table_is_incomplete_until_an_epoch_and_its_snapshot(
    spark: Any, tmp_path: Path
) -> None:
    story, lake = first_snapshot().row("a", "u", 150, 1, 11), str(tmp_path / "lake")

    def run() -> dict[str, Any]:
        path = write_recording(tmp_path / "feed.jsonl", story.messages)
        return try_recording(path, "debezium", {}, lake, "eventual", quiet)

    assert [(table["state"], table["why"]) for table in run()["tables"]] == [("exact", None)] * 2
    story.server = 2
    story.row("a", "u", 120, 1, 12)
    failed_over = run()

    (told,) = failed_over["problems"]
    assert (
        "changed servers at a/0 offset 3 (server id 1 → 2, file b 1)" in told
        and "`lakehouse epoch raise feed --why …`" in told
    )
    assert [(table["state"], table["why"]) for table in failed_over["tables"]] == [("incomplete", told)] * 2
    assert status(None, lake)[0]["problems"] == [told]
    raise_epoch(lake, "feed", "failover", None)
    story.table("a", 130).table("b", 130).row("a", "r", 130, 1, 12, "first").row("b", "r", 130, 1, 1, "last")
    story.row("a", "u", 140, 1, 13)
    after = run()
    assert after["problems"] == []
    assert [(table["state"], table["why"]) for table in after["tables"]] == [("exact", None)] * 2
    assert shown(tmp_path / "lake", tmp_path / "a") == {
        "d.a": [{"id": 1, "v": 13}],
        "d.b": [{"id": 1, "v": 1}],
    }


@pytest.mark.parametrize(
    ("id_", "why", "states"),
    (
        ("0-1-2", "the upstream's binlog began anew (changes below those that were known: 1,", "incomplete"),
        ("0-1-9", "changes came after a watermark that had passed them (1,", "exact"),
    ),
)
def test_a_binlog_that_began_anew_is_told_by_its_transactions_until_an_epoch(
    spark: Any, tmp_path: Path, id_: str, why: str, states: str
) -> None:
    """RESET MASTER: the server goes on under its own id and file, with GTIDs that it has given before."""
    told, lake = [*transaction("0-1-1", 300, 1), *transaction("0-1-2", 400, 2)], str(tmp_path / "lake")

    def run() -> tuple[str, str]:
        offsets = dict.fromkeys(("p.d.t", "p.transaction"), -1)
        for at, message in enumerate(told):
            offsets[message.topic] += 1
            told[at] = msgspec.structs.replace(message, offset=offsets[message.topic])
        path = write_recording(tmp_path / "feed.jsonl", told)
        [table] = try_recording(path, "debezium", {}, lake, "resolved", quiet)["tables"]
        return table["state"], table["why"] or ""

    assert run() == ("exact", "")
    told += transaction(id_, 150, 3)
    state, reason = run()
    assert (state, reason[: len(why)]) == ("incomplete", why)
    told += transaction("0-1-10", 900, 4)
    assert run()[0] == states
    assert shown(tmp_path / "lake", tmp_path / "a")["d.t"] == [{"id": each} for each in "1234"]


def transaction(id_: str, place: int, key: int) -> list[Message]:
    """A transaction that inserts one row."""
    return [
        record("p.d.t", 0, streamed("t", key, place, numbered(id_, 1))),
        record("p.transaction", 0, end(id_, 1)),
    ]
