"""What a newcomer's machine is like: no Java, and no network once the jars are there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.demo.kafka_broker import Broker
from lakehouse.events import Message
from lakehouse.jvm.jars import spark_jars
from lakehouse.sources.kafka_produce import produce

PROGRAM = """
import sys
from lakehouse.spark.session import capabilities, get_session
bootstrap, topic, table = sys.argv[1:]
spark = get_session()
read = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
    "subscribe", topic
).load()
read.selectExpr("CAST(value AS STRING) value").write.format("delta").save(table)
merge = "MERGE INTO delta.`{0}` t USING (SELECT 'b' value) s ON t.value = s.value"
spark.sql((merge + " WHEN NOT MATCHED THEN INSERT *").format(table))
again = get_session()
held = again.read.format("delta").load(table).mapInArrow(lambda batches: batches, "value string")
rows = sorted(row.value for row in held.collect())
print(rows, again is spark, spark.conf.get("spark.sql.session.timeZone"),
spark.conf.get("spark.sql.ansi.enabled"), capabilities(spark))
"""


def test_a_session_starts_offline_without_java_and_says_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce([Message(topic, 0, 0, None, b"a")], broker.bootstrap)
    spark_jars()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA_HOME", "SPARK_", "PYSPARK_"))
    }
    environment |= {"PATH": path_without_java(tmp_path), "LAKEHOUSE_MAVEN": "http://127.0.0.1:9/"}

    command = [sys.executable, "-c", PROGRAM, broker.bootstrap, topic, str(tmp_path / "table")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert done.stderr == ""
    assert (
        done.stdout
        == "['a', 'b'] True UTC true Capabilities(persist=True, continuous=True, connect=False, keys=False)\n"
    )


def path_without_java(folder: Path) -> str:
    """A folder with links to all programs of this machine but Java."""
    programs = folder / "programs"
    programs.mkdir()
    for place in os.defpath.split(os.pathsep):
        for program in Path(place).iterdir():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    assert shutil.which("java", path=str(programs)) is None
    return str(programs)


@pytest.mark.parametrize(
    ("variable", "value", "persist"),
    [
        ("IS_SERVERLESS", "TRUE", False),
        ("DATABRICKS_RUNTIME_VERSION", "client.4.9", False),
        ("DATABRICKS_SERVERLESS_COMPUTE_ID", "auto", False),
        ("DATABRICKS_RUNTIME_VERSION", "17.3", True),
    ],
)
def test_only_serverless_compute_can_neither_persist_nor_run_for_ever(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, persist: bool
) -> None:
    from lakehouse.spark.session import Capabilities, capabilities

    monkeypatch.setenv(variable, value)

    assert capabilities(None) == Capabilities(persist=persist, continuous=persist, connect=False, keys=True)  # type: ignore[arg-type]
