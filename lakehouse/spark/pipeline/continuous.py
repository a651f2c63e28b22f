"""Continuous runs: pass after pass over several sources until they are stopped."""

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.ops.run_record import RunRecord, error_text
from lakehouse.spark.pipeline.one_pass import LAYERS, Stop, derive, land_all, outcome, read_by
from lakehouse.spark.source import Source

# a continuous run reads the ops log again after so many passes
LOOKS = 10
# seconds between two tries of a source that fails, at most
LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class Round:
    """A source in a continuous run: its context, the record of what the run has done, and what bronze last
    failed with. One that is `alone` must work at the start; among several one waits for its broker. After
    `failures` passes in a row that failed, the next one is not before `retry_at` (time.monotonic).
    """

    source: Source
    context: RunContext
    record: RunRecord
    alone: bool
    passes: int = 0
    trouble: str = ""
    failures: int = 0
    retry_at: float = 0.0


def run_continuously(
    spark: SparkSession, sources: list[Source], layers: tuple[str, ...], stop: Stop, *, progress: Progress
) -> list[dict[str, Any]]:
    """Layers of the sources in turn, again and again, until a signal."""
    with ExitStack() as held:
        for source in sources:
            held.enter_context(layer_lock(spark, source.lake, source.name, layers))
            register(spark, source.lake, source.name, source.settings)
        rounds = [
            Round(
                source,
                RunContext(OpsLog(spark, source.lake, source.name), progress),
                RunRecord(layers, read_by(source)),
                alone=len(sources) == 1,
            )
            for source in sources
        ]
        while not stop():
            begun = time.monotonic()
            for one in rounds:
                try_round(one, layers, stop)
            if rounds[0].passes == 1 and not stop():
                progress("up to date; going on until SIGTERM or Ctrl-C")
            stop.event.wait(max(0.0, 1.0 - (time.monotonic() - begun)))
        for one in rounds:
            one.record.flush(one.context.log, now=True)
    progress("stopped after the batch in hand")
    return [outcome(one.context.log, *one.record.totals, None) for one in rounds]


def try_round(one: Round, layers: tuple[str, ...], stop: Stop) -> None:
    """One pass over one source. One that fails is tried again after a pause that grows, and the other sources
    go on; its run record says what it failed with. The run ends where its session is what failed, or where
    its only source fails at the start.
    """
    log, progress = one.context.log, one.context.progress
    if time.monotonic() < one.retry_at:
        return
    try:
        if one.failures:
            log.load()  # what the failed pass wrote
        go_round(one, layers, stop)
    except Exception as error:
        if (one.passes == 0 and one.alone) or not answers(log.spark):
            raise
        with suppress(Exception):  # the lake may be what failed; the error itself is what must be said
            one.record.write(log, error)
        one.record = RunRecord(one.record.layers, one.record.read, earlier=one.record.totals)
        one.failures += 1
        pause = min(LONGEST_PAUSE, 2.0**one.failures)
        one.retry_at = time.monotonic() + pause
        progress(f"warning: {one.source.name}: {error_text(error)}; trying again in {pause:.0f} s")
        return
    if one.failures:
        progress(f"{one.source.name}: going on after {one.failures} failed passes")
    one.failures = 0


def answers(spark: SparkSession) -> bool:
    """Whether the session still works."""
    try:
        return bool(spark.sql("SELECT 1").collect())
    except Exception:
        return False


def go_round(one: Round, layers: tuple[str, ...], stop: Stop) -> None:
    """One pass over one source of a continuous run."""
    log = one.context.log
    if set(layers) != set(LAYERS) or one.passes % LOOKS == 0:
        log.load()  # another process runs the other layers, or an operator has said something
    began = log.seq
    if "bronze" in layers:
        with one.record.timed("bronze"):
            one.record.landed += _land_or_wait(one, stop)
    derive(one.context, one.source, layers, one.record, stop=stop)
    one.record = one.record.flush(log)
    log.tidy(began)
    one.passes += 1


def _land_or_wait(one: Round, stop: Stop) -> int:
    """Land what is there. A broker that is away for a while ends no run that has begun; that is said once,
    and its return too.
    """
    progress = one.context.progress
    try:
        landed = land_all(one.context, one.source, stop, first=one.passes == 0 or bool(one.trouble))
    except LakehouseError as error:
        if one.passes == 0 and one.alone:
            raise
        if not one.trouble:
            progress(f"warning: {error}; trying again")
        one.trouble = str(error)
        return 0
    if one.trouble:
        progress(f"bronze  {one.source.name}: going on")
    one.trouble = ""
    return landed
