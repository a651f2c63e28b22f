"""Silver beside bronze, or after a pass that has died: messages wait until the payloads that they name are
copied.
"""

from pathlib import Path
from typing import Any

from lakehouse.ops.records.silver import Done
from lakehouse.spark.bronze.claim_checks import land_attachments
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.pipeline import one_pass
from lakehouse.spark.pipeline.one_pass import Stop
from lakehouse.spark.pipeline.try_recording import source_of_path
from lakehouse.spark.silver.run import run_silver
from tests.support.lakes import quiet
from tests.support.paths import ROOT

RECORDED = ROOT / "tests/data/ticdc-open/classic-v9.0.0-beta.1"
FILES = RECORDED / "claim-check-files/big.claim-check.none"


def test_a_message_whose_payload_is_not_copied_yet_waits_and_is_no_dead_letter(
    spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    path, options = RECORDED / "big.claim-check.none.jsonl.gz", {"claim_check": str(FILES)}
    lake = Lake(str(tmp_path / "lake"))
    source = source_of_path(path, "ticdc-open", options, lake, consistency="resolved")
    context = RunContext(OpsLog(spark, lake, source.name), quiet)
    with monkeypatch.context() as patch:
        patch.setattr(one_pass, "land_attachments", lambda *_: 0)
        assert one_pass.land_all(context, source, Stop()) > 0
    beside = RunContext(OpsLog(spark, lake, source.name).load(), quiet)
    assert run_silver(beside, source.silver) == 0, "the pass has landed, and copies no payload yet"

    assert land_attachments(context, source.silver.format, source.silver.options) > 0
    context.log.flush()
    beside.log.load()
    assert run_silver(beside, source.silver) == 1
    done = beside.log.last(Done)
    assert done is not None
    assert (done.dead, done.counts.dead) == ((), 0) and done.bronze, "all is read, and nothing waits"
