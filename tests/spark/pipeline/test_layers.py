"""The three layers in Spark against the engine in plain Python, which the properties hold to the source
itself.
"""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.spark import limits
from lakehouse.spark.silver import spark_batch
from tests.support.arrivals import Feed, dispatch
from tests.support.encode_open import Wire, encode, message
from tests.support.engine import Memory
from tests.support.judging import messages, states
from tests.support.lakes import engine, run, shown, silver_rows, write_recording
from tests.support.paths import DATA
from tests.support.source_model import VALUES, History
from tests.support.source_model import cell as source_cell

SHOP = DATA / "ticdc-open/newarch-202606/shop.index-value.3p.jsonl.gz"


def test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark(
    spark: Any, tmp_path: Path
) -> None:
    told, lake = messages(SHOP), tmp_path / "lake"
    for part in (0.3, 0.7, 1.0):
        landed = told[: int(len(told) * part)]
        path = write_recording(tmp_path / "shop.jsonl", landed)

        first, second = run(path, lake), run(path, lake)

        assert tuple(first["watermark"]) == Memory("ticdc-open").add(landed).watermark
        assert (second["new_messages"], second["silver_batches"], second["gold"]) == (0, 0, "nothing new")
        live = shown(lake, tmp_path / "live")
        assert live == engine(landed)
        assert {name: [list(row) for row in rows] for name, rows in live.items()} == {
            name: [list(row) for row in rows] for name, rows in engine(landed).items()
        }
    for at in states(SHOP)[::3]:
        assert shown(lake, tmp_path / "then", at) == engine(told, (0, at, 2, 0, 0, 0))


def odd_messages() -> list[Message]:
    """Keyless rows, a replay that is cut differently, and one change told again with another value."""
    chance, history = random.Random(7), History(0, 12)
    told = (
        Feed(history.events, chance, 2, "table", Wire(row_ids=False))
        .restart(at_resolved=True)
        .arrival(chance)
    )
    partition, other = lie(history.events)
    return [*told, message([other], "t", partition, 1 + max(m.offset for m in told))]


def lie(events: list[dict[str, Any]]) -> tuple[int, tuple[bytes, bytes]]:
    """A change of a keyed row, with another value in a column outside of the key."""
    for event in events:
        shape = event.get("shape")
        if shape is None or not shape.handle_key or "after" not in event:
            continue
        for column in shape.columns:
            if column.id not in shape.handle_key:
                cell = event["after"][column.name]
                other = next(value for value in VALUES[cell["type"]] if value != cell["value"])
                lied = {**event, "after": {**event["after"], column.name: source_cell(cell["type"], other)}}
                return dispatch(event, "table", 2), encode(lied, shape)
    raise AssertionError("expected a keyed row with another column")


COMPILED = "spark.sql.codegen.wholeStage"


def test_silver_in_spark_jobs_equals_silver_on_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_recording(tmp_path / "odd.jsonl", odd_messages())

    run(path, tmp_path / "driver")
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)
    decode = spark_batch.read_books
    compiled: list[str] = []

    def noted(packed: Any) -> Any:
        compiled.append(spark.conf.get(COMPILED))
        return decode(packed)

    monkeypatch.setattr(spark_batch, "read_books", noted)
    run(path, tmp_path / "jobs")

    assert (spark.conf.get(COMPILED), compiled) == (
        "false",
        ["true"],
    )  # plans of large batches are compiled, and only those
    for name in ("changes", "schema_changes", "watermarks", "dead_letters"):
        driver, jobs = (silver_rows(spark, tmp_path / lake, "odd", name) for lake in ("driver", "jobs"))
        assert [strip(row, name) for row in driver] == [strip(row, name) for row in jobs], name
    assert [row["code"] for row in silver_rows(spark, tmp_path / "jobs", "odd", "dead_letters")] == [
        "conflict"
    ]
    assert (
        sum(row["row_id"] is not None for row in silver_rows(spark, tmp_path / "jobs", "odd", "changes")) > 10
    )
    assert shown(tmp_path / "driver", tmp_path / "a") == shown(tmp_path / "jobs", tmp_path / "b")


def strip(row: dict[str, Any], name: str) -> dict[str, Any]:
    """Without the origin where several messages say the same: any of them may be named."""
    return {key: value for key, value in row.items() if key != "origin" or name != "schema_changes"}


def garbage() -> list[tuple[bytes | None, bytes | None]]:
    framed = messages(SHOP)[8]
    assert framed.key is not None and framed.value is not None
    noise = random.Random(3).randbytes(40)
    return [
        (noise, noise),
        (None, None),
        (framed.key, None),
        (framed.key, framed.value[:-5]),
        (framed.key[:-3], framed.value),
        (b"\0\0\0\0\0\0\0\2" + framed.key[8:], framed.value),
        (framed.key, framed.value + b"tail"),
        (framed.key, b"\xff" * 8 + framed.value[8:]),
    ]


def test_garbage_becomes_dead_letters_and_the_tables_go_on_without_claiming_to_be_exact(
    spark: Any, tmp_path: Path
) -> None:
    told = messages(SHOP)[:-20]
    places = [m for m in told if m.partition == 0]
    bad = [
        Message(told[0].topic, 0, 1000 + number, key, value) for number, (key, value) in enumerate(garbage())
    ]
    mixed = [*told, *bad, msgspec.structs.replace(places[-1], offset=2000)]

    came = run(write_recording(tmp_path / "shop.jsonl", mixed), tmp_path / "lake")

    letters = silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
    assert len(letters) == len(bad)
    assert {letter["origin"]["offset"] for letter in letters} == {m.offset for m in bad}
    assert shown(tmp_path / "lake", tmp_path / "live") == engine(told)
    assert came["tables"]
    assert [table["table"] for table in came["tables"] if table["state"] == "exact"] == []
