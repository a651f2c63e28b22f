"""How far Spark's jobs are: of stages that are told, and of a job that runs."""

import threading
import time
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakehouse.spark import session
from lakehouse.spark.job_progress import JobProgress, Stage, running_stages


def test_the_rest_is_told_once_tasks_have_been_seen_to_end() -> None:
    asked = JobProgress()

    assert asked.text([], 0) == ""
    assert asked.text([Stage(1, 1, 0)], 0) == ""  # one task tells nothing
    assert asked.text([Stage(2, 200, 20)], 100) == "20 of 200 tasks"
    assert asked.text([Stage(2, 200, 30)], 105) == "30 of 200 tasks"  # too early
    assert asked.text([Stage(2, 200, 60)], 120) == "60 of 200 tasks, about 70 s left"
    assert asked.text([Stage(2, 200, 200)], 160) == "200 of 200 tasks"
    # another stage's time counts from when it was first seen
    assert asked.text([Stage(3, 1000, 0)], 161) == "0 of 1,000 tasks"
    assert asked.text([Stage(3, 1000, 10)], 181) == "10 of 1,000 tasks, about 33 min left"


def test_a_job_that_runs_is_seen(spark: Any) -> None:
    def wait(rows: Any) -> Any:
        time.sleep(1)
        return rows

    job = threading.Thread(target=lambda: spark.range(0, 6, 1, 6).rdd.mapPartitions(wait).count())
    asked, found = JobProgress(), set()
    job.start()
    while job.is_alive():
        found.add(asked())
        time.sleep(0.1)
    job.join()

    # how many of them have ended when it is asked is up to the machine
    assert {f"{done} of 6 tasks" for done in range(1, 6)} & found
    assert asked() == ""


def test_a_context_that_has_not_begun_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs no session: Spark names a context the active one before it has a JVM."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", SparkContext.__new__(SparkContext))

    assert running_stages() == []


def test_while_a_session_is_made_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs no session: the seconds of its start were silent."""
    asked, told = JobProgress(), list[str]()

    def no_session() -> None:
        raise PySparkRuntimeError("none is active")

    monkeypatch.setattr(SparkSession, "active", no_session)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(session, "_provided", lambda: False)
    monkeypatch.setattr(session, "_local", lambda app: told.append(asked()))
    session.get_session()

    assert told == ["Spark starts"]
    assert asked() == ""
