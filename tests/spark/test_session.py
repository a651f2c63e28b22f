"""A session of this machine is made for few rows, and compiles its plans while many are worked on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.spark.session import _LOG, _stdout_is_stderr, keeps_drivers_apart, local_settings, many_rows
from tests.support.paths import ROOT

SETTING = "spark.sql.codegen.factoryMode"


def plan(spark: Any) -> str:
    return str(
        spark.range(5)
        .selectExpr("id + 1 AS n")
        .where("n > 2")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )


def test_plans_are_compiled_while_many_rows_are_worked_on_and_only_then(spark: Any) -> None:
    assert (spark.conf.get(SETTING), "*(1)" in plan(spark)) == ("NO_CODEGEN", False)

    with pytest.raises(ZeroDivisionError), many_rows(spark):
        with many_rows(spark):
            pass
        assert (spark.conf.get(SETTING), "*(1)" in plan(spark)) == ("FALLBACK", True)
        raise ZeroDivisionError

    assert (spark.conf.get(SETTING), "*(1)" in plan(spark)) == ("NO_CODEGEN", False)


def test_a_session_that_is_not_ours_stays_as_it_is(spark: Any) -> None:
    other = spark.newSession()
    other.conf.set(SETTING, "CODEGEN_ONLY")

    with many_rows(other):
        assert other.conf.get(SETTING) == "CODEGEN_ONLY"


def test_a_window_holds_few_rows_that_can_not_be_spilled() -> None:
    """3,500 rows of 320 KB ended a driver of 1 GB with an OutOfMemoryError. Needs no session."""
    assert int(local_settings()["spark.sql.windowExec.buffer.in.memory.threshold"]) <= 64


def test_what_java_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    """`maintain --json` gave VACUUM's lines among the objects. Needs no session."""
    with _stdout_is_stderr():
        subprocess.run(["echo", "of Java"], check=True)
    subprocess.run(["echo", "result"], check=True)

    assert capfd.readouterr() == ("result\n", "of Java\n")


@pytest.mark.parametrize(
    "name", ["org.apache.spark.rpc.netty.Inbox", "org.apache.spark.scheduler.TaskSchedulerImpl"]
)
def test_what_refuses_tasks_after_the_end_is_quiet(name: str) -> None:
    """SIGTERM to the whole group gave Java traces before the command's own line. Needs no session."""
    lines = _LOG.read_text().splitlines()
    (key,) = [line.split(".")[1] for line in lines if line.endswith(f".name = {name}")]

    assert f"logger.{key}.level = off" in lines


def test_snapshots_of_tables_stay_below_a_part_of_the_memory(spark: Any, tmp_path: Path) -> None:
    """Delta kept those of 2,000 tables, 2 MB each, which filled a heap of 4 GB."""
    logs = getattr(getattr(spark._jvm.org.apache.spark.sql.delta, "DeltaLog$"), "MODULE$")
    most = int(spark.conf.get("spark.databricks.delta.delta.log.cacheSize"))
    for number in range(most + 20):
        logs.forTable(spark._jsparkSession, str(tmp_path / f"t{number}"))

    assert logs.cacheSize() <= most


@pytest.mark.parametrize(
    ("memory", "tables"), [("2g", 256), ("1500m", 187), ("1024", 128), ("4GB", 512), ("100m", 16), ("x", 128)]
)
def test_more_memory_keeps_more_snapshots(memory: str, tables: int) -> None:
    assert local_settings(memory)["spark.databricks.delta.delta.log.cacheSize"] == str(tables)


@pytest.mark.parametrize(
    ("root", "store", "apart"),
    [
        ("s3a://bucket/lake", None, False),
        ("s3a://bucket/lake", "io.delta.storage.S3SingleDriverLogStore", False),
        ("s3a://bucket/lake", "io.delta.storage.S3DynamoDBLogStore", True),
        ("gs://bucket/lake", None, True),
        ("/lake", None, True),
    ],
)
def test_on_s3_only_a_log_store_of_its_own_keeps_the_commits_of_several_drivers_apart(
    root: str, store: str | None, apart: bool
) -> None:
    told = {"spark.delta.logStore.s3a.impl": store}
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: told.get(name, default)))

    assert keeps_drivers_apart(session, root) == apart


def test_databricks_keeps_the_commits_of_several_drivers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")

    assert keeps_drivers_apart(SimpleNamespace(), "s3://bucket/lake")  # type: ignore[arg-type]


# a command that has a handler of its own while its session is made, as `run` has; then is in the middle of a
# call of Java's, and asks Spark another thing on its way out
LONG_COMMAND = """
import os, signal, time
from lakehouse.cli import main
from lakehouse.spark.pipeline.one_pass import Stop
from lakehouse.spark.session import get_session

def version():
    with Stop().installed() as stop:
        spark = get_session()
        os.kill(os.getpid(), signal.SIGINT)
        print("ready, and stopped:", stop(), flush=True)
    try:
        sums = int(os.environ["SUMS"])
        spark.range(10**15).selectExpr(*[f"sum(id % {n})" for n in range(7, 7 + sums)]).collect()
    finally:
        time.sleep(5 if sums > 1 else 0)  # until the plan is made
        print(spark.range(7).count())

main.COMMANDS["version"] = version
main.main()
"""


@pytest.mark.parametrize("sums", [1, 1000], ids=["running", "planning"])
def test_ctrl_c_in_the_middle_of_spark_work_ends_a_command_in_one_line(tmp_path: Path, sums: int) -> None:
    """PySpark's own handler took the place of any other: it called Java in the middle of that call, `internal
    error: Py4JError`, and of a run it ended the batch in hand. A job that was planned when Ctrl-C came was
    submitted behind it, and ran.
    """
    out, said = tmp_path / "out", tmp_path / "said"
    with out.open("w") as stdout, said.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", LONG_COMMAND, "version"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SUMS": str(sums)},
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 300
        while not out.read_text().endswith("\n"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(60)
    finally:  # its Java may take a while to end
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert (code, out.read_text()) == (130, "ready, and stopped: True\n7\n")
    assert said.read_text() == "interrupted; what is done stays, run it again to go on\n"
