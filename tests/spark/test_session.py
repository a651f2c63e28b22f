"""A session of this machine is made for few rows, and compiles its plans while many are worked on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.spark.session import keeps_drivers_apart, local_settings, many_rows

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
