"""Continuous runs: pass after pass over several sources until they are stopped."""

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError, LeaseLost
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.ops.run_record import RunRecord, error_text
from lakehouse.spark.pipeline.one_pass import LAYERS, Stop, derive, land_all, outcome, read_by
from lakehouse.spark.source import Source

# a continuous run reads what others have added to the ops log after so many passes
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
        lakes = [
            held.enter_context(layer_lock(spark, source.lake, source.name, layers)) for source in sources
        ]
        for source in sources:
            register(spark, source.lake, source.name, source.settings)
        rounds = [
            Round(
                source,
                RunContext(OpsLog(spark, lake, source.name), progress),
                RunRecord(layers, read_by(source)),
                alone=len(sources) == 1,
            )
            for source, lake in zip(sources, lakes, strict=True)
        ]
        while not stop():
            begun = time.monotonic()
            for source_round in rounds:
                try_round(source_round, layers, stop)
            # Arrow keeps what threads that have ended had of it, and gives it back when it is told to
            pa.default_memory_pool().release_unused()
            if rounds[0].passes == 1 and not stop():
                progress("up to date; going on until SIGTERM or Ctrl-C")
            stop.event.wait(max(0.0, 1.0 - (time.monotonic() - begun)))
        for source_round in rounds:
            source_round.record.flush(source_round.context.log, now=True)
    progress("stopped after the batch in hand")
    return [outcome(source_round.context.log, *source_round.record.totals, None) for source_round in rounds]


def try_round(source_round: Round, layers: tuple[str, ...], stop: Stop) -> None:
    """One pass over one source. One that fails is tried again after a pause that grows, and the other sources
    go on; its run record says what it failed with. The run ends where its session is what failed, where
    another run has taken its lease, or where its only source fails at the start.
    """
    log, progress = source_round.context.log, source_round.context.progress
    if time.monotonic() < source_round.retry_at:
        return
    try:
        if source_round.failures:
            log.load()  # what the failed pass wrote
        go_round(source_round, layers, stop)
    except LeaseLost:
        raise
    except Exception as error:
        if (source_round.passes == 0 and source_round.alone) or not answers(log.spark):
            raise
        with suppress(Exception):  # the lake may be what failed; the error itself is what must be said
            source_round.record.write(log, error)
        source_round.record = RunRecord(
            source_round.record.layers, source_round.record.read, earlier=source_round.record.totals
        )
        source_round.failures += 1
        pause = min(LONGEST_PAUSE, 2.0**source_round.failures)
        source_round.retry_at = time.monotonic() + pause
        progress(f"warning: {source_round.source.name}: {error_text(error)}; trying again in {pause:.0f} s")
        return
    if source_round.failures:
        progress(f"{source_round.source.name}: going on after {source_round.failures} failed passes")
    source_round.failures = 0


def answers(spark: SparkSession) -> bool:
    """Whether the session still works."""
    try:
        return bool(spark.sql("SELECT 1").collect())
    except Exception:
        return False


def go_round(source_round: Round, layers: tuple[str, ...], stop: Stop) -> None:
    """One pass over one source of a continuous run."""
    log = source_round.context.log
    if set(layers) != set(LAYERS) or source_round.passes % LOOKS == 0:
        log.refresh()  # another process runs the other layers, or an operator has said something
    began = log.seq
    with log.gathering():
        if "bronze" in layers:
            with source_round.record.timed("bronze"):
                source_round.record.landed += _land_or_wait(source_round, stop)
        looked = "bronze" in layers and not source_round.trouble
        record, context = source_round.record, source_round.context
        derive(context, source_round.source, layers, record, stop=stop, looked=looked, patient=True)
        source_round.record = source_round.record.flush(log)
    log.tidy(began)
    source_round.passes += 1


def _land_or_wait(source_round: Round, stop: Stop) -> int:
    """Land what is there. A broker that is away for a while ends no run that has begun; that is said once,
    and its return too.
    """
    progress = source_round.context.progress
    try:
        landed = land_all(
            source_round.context,
            source_round.source,
            stop,
            first=source_round.passes == 0 or bool(source_round.trouble),
        )
    except LeaseLost:
        raise
    except LakehouseError as error:
        if source_round.passes == 0 and source_round.alone:
            raise
        if not source_round.trouble:
            progress(f"warning: {error}; trying again")
        source_round.trouble = str(error)
        return 0
    if source_round.trouble:
        progress(f"bronze  {source_round.source.name}: going on")
    source_round.trouble = ""
    return landed
