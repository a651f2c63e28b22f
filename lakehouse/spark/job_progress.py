"""How far the Spark jobs of this process are, for people who wait for them."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from pyspark import SparkContext

from lakehouse.reporting.text.values import QUICK, duration, number
from lakehouse.spark.session import is_starting


class Stage(NamedTuple):
    """A stage that runs: its id, its tasks, and how many of them are done."""

    id: int
    tasks: int
    done: int


class JobProgress:
    """Says how far the stages are that run now: `37 of 200 tasks, about 3 min left`. One watcher may ask."""

    def __init__(self) -> None:
        self._first_seen: dict[int, tuple[float, int]] = {}

    def __call__(self) -> str:
        """Nothing where no stage runs, or one task alone, or the session speaks Connect, which tells none."""
        if is_starting():
            return "Spark starts"
        return self.text(running_stages(), time.monotonic())

    def text(self, stages: Iterable[Stage], now: float) -> str:
        """What is said of these stages; how long they take is told once they have been seen for a while."""
        running = list(stages)
        self._first_seen = {stage.id: self._first_seen.get(stage.id, (now, stage.done)) for stage in running}
        total, done = sum(stage.tasks for stage in running), sum(stage.done for stage in running)
        if total < 2:
            return ""
        text = f"{number(done)} of {number(total)} tasks"
        begun = min(since for since, _ in self._first_seen.values())
        since_then = done - sum(earlier for _, earlier in self._first_seen.values())
        if since_then <= 0 or now - begun < QUICK or done == total:
            return text
        return f"{text}, about {duration(max(1, (total - done) * (now - begun) / since_then))} left"


def running_stages() -> list[Stage]:
    """The stages of this process's Spark context that run now. Before a context has begun, and where it has
    ended, it tells nothing, though it is the active one.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return []
    try:
        tracker = context.statusTracker()
        found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    except Exception:  # whatever a half-made context, or a JVM that ends, raises: work goes on without
        return []
    return [Stage(one.stageId, one.numTasks, one.numCompletedTasks) for one in found if one is not None]
