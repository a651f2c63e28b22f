"""A continuous run of several sources: one that fails stops no other, and is tried again; passes hold no more
of the log the more of them there were.
"""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.demo.run import RECORDING
from lakehouse.errors import LeaseLost
from lakehouse.events import Message
from lakehouse.formats.open_frames import framed
from lakehouse.ops.pruning import OLD
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.runs import Run
from lakehouse.sources.recording import read_recording
from lakehouse.sources.recording import write_recording as write
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.ops.run_record import RunRecord
from lakehouse.spark.pipeline import continuous
from lakehouse.spark.pipeline.continuous import Round, try_round
from lakehouse.spark.pipeline.one_pass import LAYERS, Stop, read_by
from lakehouse.spark.source import selected_sources
from tests.spark.pipeline.test_several_sources import FEEDS, configured


def test_a_source_that_fails_is_tried_again_and_stops_no_other(spark: Any, tmp_path: Path) -> None:
    for name in FEEDS:
        write(list(read_recording(RECORDING)), tmp_path / f"{name}.jsonl")
    said: list[str] = []
    rounds = {
        source.name: Round(
            source,
            RunContext(OpsLog(spark, source.lake, source.name), said.append),
            RunRecord(LAYERS, read_by(source)),
            alone=False,
        )
        for source in selected_sources(configured(tmp_path), (), str(tmp_path / "lake"))
    }
    # what can happen to a lake: something else lies where the table's log should be
    damaged = tmp_path / "lake/silver/one_changes"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("no table")

    for one in rounds.values():
        try_round(one, LAYERS, Stop())

    assert rounds["two"].context.log.last(Manifest) is not None
    assert (rounds["one"].failures, rounds["one"].context.log.last(Manifest)) == (1, None)
    assert [line for line in said if line.startswith("warning: one: ") and "trying again in 2 s" in line]
    log = OpsLog(spark, rounds["one"].source.lake, "one").load()
    failed = log.last(Run)
    assert failed is not None and failed.error

    damaged.unlink()
    rounds["one"].retry_at = time.monotonic() + 60
    try_round(rounds["one"], LAYERS, Stop())
    assert rounds["one"].failures == 1, "not before the pause is over"
    rounds["one"].retry_at = 0.0
    try_round(rounds["one"], LAYERS, Stop())
    assert (rounds["one"].failures, said[-1]) == (0, "one: going on after 1 failed passes")
    manifest = rounds["one"].context.log.last(Manifest)
    assert manifest is not None
    assert {entry.state for entry in manifest.tables} <= {"exact", "retired"}


def test_a_run_ends_whose_lease_another_has_taken(spark: Any, tmp_path: Path) -> None:
    """It would go on for ever and write nothing: whoever starts it again has a run that does."""

    def lost() -> None:
        raise LeaseLost("one: this run's lease lapsed")

    write(changes(1), tmp_path / "one.jsonl")
    (source,) = selected_sources(configured(tmp_path), ("one",), str(tmp_path / "lake"))
    log = OpsLog(spark, replace(source.lake, before_write=lost), "one")
    goes_on = Round(source, RunContext(log, print), RunRecord(LAYERS, read_by(source)), alone=False, passes=1)

    with pytest.raises(LeaseLost):
        try_round(goes_on, LAYERS, Stop())


def test_a_pass_reads_of_its_log_as_much_as_the_pass_before(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a run that goes on holds all of its log, as objects of several times the text's size."""
    held: list[tuple[int, int]] = []  # records that are objects at the end of a pass, and texts after it
    tidy = OpsLog.tidy

    def counted(log: OpsLog, began: int) -> None:
        read = sum(one.is_read for one in log.records if one.kind in OLD)
        tidy(log, began)
        held.append((read, sum(one.held == one.size > 512 for one in log.records if one.kind in OLD)))

    monkeypatch.setattr(OpsLog, "tidy", counted)
    monkeypatch.setattr(continuous, "LOOKS", 2)
    (source,) = selected_sources(configured(tmp_path), ("one",), str(tmp_path / "lake"))
    log = OpsLog(spark, source.lake, source.name)
    goes_on = Round(source, RunContext(log, print), RunRecord(LAYERS, read_by(source)), alone=True)
    for number in range(1, 6):
        (tmp_path / "one.jsonl").unlink(missing_ok=True)
        write(changes(number), tmp_path / "one.jsonl")
        try_round(goes_on, LAYERS, Stop())

    manifest = log.last(Manifest)
    assert manifest is not None and manifest.batch == 5
    assert [entry.state for entry in manifest.tables] == ["exact"]
    # the first pass has no manifest before it
    assert held[2:] == [held[1]] * 3


def changes(batches: int) -> list[Message]:
    """A table, and a row of it in each batch with what lets it count."""
    key = {"scm": "d", "tbl": "t"}
    created = {"q": "CREATE TABLE t (id INT PRIMARY KEY)", "t": 3}
    events: list[tuple[dict[str, Any], dict[str, Any]]] = [({**key, "ts": 10, "t": 2}, created)]
    for number in range(1, batches + 1):
        image = {"u": {"id": {"t": 3, "h": True, "f": 11, "v": number}}}
        events += [({**key, "ts": 20 * number, "t": 1}, image), ({"ts": 20 * number + 1, "t": 3}, {})]
    told = [(json.dumps(key).encode(), json.dumps(value).encode() if value else b"") for key, value in events]
    return [Message("t", 0, number, *framed([key], [value])) for number, (key, value) in enumerate(told)]
