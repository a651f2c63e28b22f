"""The same code elsewhere: over Spark Connect, as serverless compute speaks, and on a cluster of processes
that get the wheel.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse.demo.run import RECORDING
from tests.servers.spark import CALL, cluster, confs, spark_class, spark_environment
from tests.support.paths import ROOT

# decodes and folds on the executors, however few the rows are, and says where they took the code from
PROBE = """
import json, sys
from lakehouse.spark import limits
limits.SILVER_BATCH_RECORDS = limits.GOLD_TABLE_CHANGES = limits.GOLD_WINDOW_CHANGES = 0
from pipelines import run_layers
run_layers(("bronze", "silver", "gold"), sys.argv[1:])
from lakehouse.spark.session import get_session

def where(batches):
    import lakehouse, os, pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"code": [lakehouse.__file__], "pid": [os.getpid()]})
spark = get_session()
row = spark.range(1).mapInArrow(where, "code string, pid long").first()
print(json.dumps({"code": row.code, "master": spark.sparkContext.master}))
spark.stop()
"""


def configs(folder: Path, source: str = "") -> Path:
    (folder / "configs/sources").mkdir(parents=True)
    text = source or f"format: ticdc-open\nrecording: [{RECORDING}]\ntime_zone: UTC\n"
    (folder / "configs/sources/shop.yml").write_text(text + f"tables: auto\nlake: {folder / 'lake'}\n")
    (folder / "configs/tables").mkdir()
    checks = "- {expect: expect_column_values_to_not_be_null, column: id, action: reject}\n"
    (folder / "configs/tables/shop.orders.yml").write_text(f"source: shop\nquality:\n{checks}")
    return folder / "configs"


def over_connect(remote: str, code: Path, entry: str, *arguments: str) -> list[dict[str, Any]]:
    """A task's command line in a process of its own that has the wheel and no Spark but the server's."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("LAKEHOUSE_")},
        "SPARK_REMOTE": remote,
        "PYTHONPATH": str(code),
    }
    done = subprocess.run(
        [sys.executable, "-c", CALL, entry, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def states(outcome: dict[str, Any]) -> dict[str, str]:
    return {table["table"]: table["state"] for table in outcome["tables"]}


EXACT = {"shop.clients": "exact", "shop.orders": "exact"}


@pytest.mark.long  # the bundle's jobs run over Connect too, and again
def test_the_pipeline_runs_over_spark_connect_and_a_second_run_adds_nothing(
    connect: str, installed: Path, tmp_path: Path
) -> None:
    folder = configs(tmp_path)

    first = over_connect(connect, installed, "lakehouse-layers", "--once", "--configs", str(folder))[0]
    second = over_connect(connect, installed, "lakehouse-layers", "--once", "--configs", str(folder))[0]

    assert (states(first), states(second), second["gold"]) == (EXACT, EXACT, "nothing new")
    shown = over_connect(
        connect, installed, "lakehouse", "show", "shop.orders", "--json", "--lake", str(tmp_path / "lake")
    )
    assert [row["id"] for row in shown] == [2001]


def test_a_kafka_topic_lands_over_spark_connect(
    connect: str, installed: Path, broker: Any, topic: str, tmp_path: Path
) -> None:
    from lakehouse.sources.kafka_produce import produce

    produce(RECORDING, broker.bootstrap, topic)
    folder = configs(
        tmp_path,
        (
            f"format: ticdc-open\nkafka: {{bootstrap_servers: '{broker.bootstrap}', topics: "
            f"[{topic}]}}\ntime_zone: UTC\n"
        ),
    )

    told = over_connect(connect, installed, "lakehouse-layers", "--once", "--configs", str(folder))[0]

    assert (told["new_messages"], states(told)) == (len(RECORDING.read_text().splitlines()), EXACT)


def test_a_storage_sink_without_a_file_yet_is_waited_for_over_spark_connect(
    connect: str, installed: Path, tmp_path: Path
) -> None:
    """There a reader tells what it does not find when it is used, not when it is made."""
    sink = f"storage: {{path: 'file://{tmp_path}/sink'}}\noptions: {{protocol: csv}}\n"
    folder = configs(tmp_path, f"format: ticdc-storage\n{sink}time_zone: UTC\n")

    told = over_connect(connect, installed, "lakehouse-bronze", "--once", "--configs", str(folder))[0]

    assert (told["new_messages"], told["tables"]) == (0, [])


def test_the_pipeline_runs_on_a_cluster_whose_executors_get_the_wheel(wheel: Path, tmp_path: Path) -> None:
    from lakehouse.spark.session import local_settings

    folder = configs(tmp_path)
    (tmp_path / "probe.py").write_text(PROBE)
    settings = {
        **local_settings("700m"),
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    }
    del settings["spark.python.daemon.module"]  # an executor starts its workers before it has the wheel
    settings["spark.executor.extraClassPath"] = settings["spark.driver.extraClassPath"]
    code = shutil.copy(wheel, tmp_path / "lakehouse.zip")  # Spark puts no .whl on an executor's path
    with cluster(tmp_path, tmp_path) as master:
        command = [
            spark_class(),
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            master,
            *confs(settings),
            "--py-files",
            str(code),
            str(tmp_path / "probe.py"),
            "--configs",
            str(folder),
        ]
        done = subprocess.run(
            command,
            env=spark_environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
        )

    assert done.returncode == 0, done.stderr[-3000:]
    outcome, probe = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert states(outcome) == EXACT
    assert probe["master"] == master
    assert "lakehouse.zip/lakehouse/" in probe["code"]
    assert str(ROOT) not in probe["code"]
