"""A continuous run of several sources: one that fails stops no other, and is tried again."""

import time
from pathlib import Path
from typing import Any

from lakehouse.demo.run import RECORDING
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.runs import Run
from lakehouse.sources.recording import read_recording
from lakehouse.sources.recording import write_recording as write
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.ops.run_record import RunRecord
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
