"""Recordings of which something was left out: offsets that none has, rows of a transaction."""

from pathlib import Path
from typing import Any

from lakehouse.events import Message
from lakehouse.sources.recording import read_recording
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.status import status
from tests.support.lakes import quiet, write_recording
from tests.support.paths import DATA


def tried(path: Path, lake: Path, told: list[Message]) -> dict[str, tuple[str, str | None]]:
    """The tables' states and reasons after the messages were recorded and run."""
    write_recording(path, told, headers=True)
    try_recording(path, "debezium", {}, str(lake), "resolved", quiet)
    return {table["table"]: (table["state"], table["why"]) for table in source(lake)["tables"]}


def source(lake: Path) -> dict[str, Any]:
    found: dict[str, Any] = status(None, str(lake))[0]
    return found


def feed() -> list[Message]:
    return list(read_recording(DATA / "debezium/orders_small/noschema.jsonl.gz"))


def is_snapshot_row(message: Message) -> bool:
    return b'"op":"r"' in (message.value or b"")


def test_offsets_that_no_recording_has_are_lost_until_one_has_them(spark: Any, tmp_path: Path) -> None:
    told, lake = feed(), tmp_path / "lake"
    row = [m for m in told if is_snapshot_row(m)][3]
    lost = f"1 offsets of {row.topic}/0 from {row.offset} on are in no recording"
    without = [m for m in told if m is not row]

    assert set(tried(tmp_path / "feed.jsonl", lake, without).values()) == {("incomplete", lost)}
    assert set(tried(tmp_path / "feed.jsonl", lake, without).values()) == {("incomplete", lost)}
    assert source(lake)["gaps"] == [lost], "it is told once"

    assert set(tried(tmp_path / "feed.jsonl", lake, told).values()) == {("exact", None)}
    assert source(lake)["gaps"] == []


def test_what_is_still_lacking_stays_lost(spark: Any, tmp_path: Path) -> None:
    told, lake = feed(), tmp_path / "lake"
    rows = [m for m in told if is_snapshot_row(m)]
    one, other = rows[3], next(m for m in rows if m.topic != rows[3].topic and m.offset > 1)
    tried(tmp_path / "feed.jsonl", lake, [m for m in told if m not in (one, other)])
    assert len(source(lake)["gaps"]) == 2

    states = tried(tmp_path / "feed.jsonl", lake, [m for m in told if m is not other])

    lost = f"1 offsets of {other.topic}/0 from {other.offset} on are in no recording"
    assert source(lake)["gaps"] == [lost]
    assert set(states.values()) == {("incomplete", lost)}


def test_holes_that_were_dismissed_are_not_told_again(spark: Any, tmp_path: Path) -> None:
    told, lake = feed(), tmp_path / "lake"
    row = [m for m in told if is_snapshot_row(m)][3]
    without = [m for m in told if m is not row]
    tried(tmp_path / "feed.jsonl", lake, without)
    dismiss_dead_letters(str(lake), "feed", "lost", "a control record")

    assert {state for state, _ in tried(tmp_path / "feed.jsonl", lake, without).values()} == {"exact"}


def test_a_transaction_of_which_rows_were_left_out_is_said_to_hold_the_watermark(
    spark: Any, tmp_path: Path
) -> None:
    rows = [m for m in feed() if b'"total_order":1' in (m.value or b"") and b'"op":"u"' in (m.value or b"")]
    left_out = rows[len(rows) // 2]
    told = []
    for m in feed():
        if m.topic != left_out.topic or m.offset < left_out.offset:
            told.append(m)
        elif m.offset > left_out.offset:  # the producer has not sent it: there is no hole
            told.append(Message(m.topic, m.partition, m.offset - 1, m.key, m.value, m.headers))

    tried(tmp_path / "feed.jsonl", tmp_path / "lake", told)

    found = source(tmp_path / "lake")
    assert found["held_by"].startswith("transaction ") and "rows 0 have come" in found["held_by"]
    assert found["problems"] == [f"the watermark is held by {found['held_by']}"]
