"""The record of a run in the ops log: when, which layers, how much, how long, and how it ended.

A run that found nothing to do leaves none, unless the one before it failed: it shows that the layers run
again. A run that fails leaves one with its error: the one sentence of an error of ours, the type alone of any
other, whose text may quote what was read.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.runs import Run, RunInput, standing_failures
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.openlineage import emit_run

# A continuous run tells what it did this often, in seconds.
EVERY = 60.0
NOTHING = RunInput()


@dataclass(slots=True)
class RunRecord:
    """Counts and seconds of one run so far; `read` names the topics or paths that bronze reads.

    `earlier` is what a continuous run landed and batched before this record of it began.
    """

    layers: tuple[str, ...]
    read: RunInput = NOTHING
    begun: float = field(default_factory=time.time)
    landed: int = 0
    batches: int = 0
    published: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    earlier: tuple[int, int] = (0, 0)

    @contextmanager
    def timed(self, layer: str) -> Iterator[None]:
        """The time of the block belongs to this layer."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[layer] = self.seconds.get(layer, 0.0) + time.monotonic() - started

    @property
    def did_something(self) -> bool:
        return bool(self.landed or self.batches or self.published)

    def is_told(self, log: OpsLog) -> bool:
        """Whether the log should have it: it did something, or layers run again that had failed."""
        failed = standing_failures(log.newest_first(Run), self.layers)
        return self.did_something or next(failed, None) is not None

    @property
    def totals(self) -> tuple[int, int]:
        """Records landed and batches done since the run began."""
        return self.earlier[0] + self.landed, self.earlier[1] + self.batches

    def write(self, log: OpsLog, error: Exception | None = None) -> None:
        """Append it to the log, and tell the lineage of what it wrote to whoever listens."""
        run = Run(
            layers=self.layers,
            read=self.read,
            begun=int(self.begun * 1000),
            ended=int(time.time() * 1000),
            landed=self.landed,
            batches=self.batches,
            published=self.published,
            seconds={layer: round(taken, 3) for layer, taken in self.seconds.items()},
            error=None if error is None else error_text(error),
        )
        log.add(run)
        emit_run(log, run)

    def flush(self, log: OpsLog, *, now: bool = False) -> "RunRecord":
        """Of a continuous run: written and begun anew once it is old enough, or `now`."""
        is_due = now or not self.did_something or time.time() - self.begun >= EVERY
        if not is_due or not self.is_told(log):
            return self
        self.write(log)
        return RunRecord(self.layers, self.read, earlier=self.totals)


@contextmanager
def recorded(log: OpsLog, layers: tuple[str, ...], read: RunInput) -> Iterator[RunRecord]:
    """One run; its record is written at its end, and at its failure too."""
    record = RunRecord(layers, read)
    try:
        yield record
    except Exception as error:
        with suppress(Exception):  # the lake may be what failed; the error itself is what must be told
            record.write(log, error)
        raise
    if record.is_told(log):
        record.write(log)


def error_text(error: Exception) -> str:
    """An error for a log: ours are one sentence without values, of any other only the type is told."""
    return str(error) if isinstance(error, LakehouseError) else type(error).__name__
