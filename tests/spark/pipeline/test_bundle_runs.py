"""Every job of the bundle on a Spark of this machine: each task's real command line, from the built wheel, in
the tasks' order.

Spark Connect stands for serverless compute, Spark's own catalog for Unity Catalog, a folder for the volumes.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.spark import CALL
from tests.support.bundle_files import Bundle, read_bundle, resolved
from tests.support.bundle_lint import inputs_of, ordered, task_arguments
from tests.support.paths import ROOT

EXACT = {"shop.clients": "exact", "shop.orders": "exact"}
SCHEMAS = """
import sys
from pyspark.sql import SparkSession

for name in sys.argv[1:]:
    SparkSession.builder.getOrCreate().sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
"""


class Workspace:
    """What stands for a workspace: a Spark, folders for volumes and files, and the wheel."""

    def __init__(self, remote: str, code: Path, folder: Path) -> None:
        self.code, self.folder = code, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        self.environment = {
            **kept,
            "SPARK_REMOTE": remote,
            "PYTHONPATH": str(code),
            "GX_ANALYTICS_ENABLED": "false",
        }

    def deploy(self, bundle: Bundle) -> None:
        names = [schema["name"] for schema in bundle["resources"]["schemas"].values()]
        subprocess.run(
            [sys.executable, "-c", SCHEMAS, *names],
            env=self.environment,
            check=True,
            capture_output=True,
            timeout=120,
        )

    def local(self, text: str, bundle: Bundle) -> str:
        """A parameter with this machine's folders and catalog in the places of the workspace's."""
        files = (
            f"{bundle['workspace']['root_path']}/files"
            if "workspace" in bundle
            else "/Workspace/Users/ada@example.com/.bundle/lakehouse/dev/files"
        )
        text = text.replace(files, str(ROOT)).replace("/Volumes/main", str(self.folder))
        return text.replace("LAKEHOUSE_CATALOG=main", "LAKEHOUSE_CATALOG=spark_catalog")

    def run(self, job: Bundle, bundle: Bundle) -> dict[str, list[list[dict[str, Any]]]]:
        """The outcomes of each task, one list per input of a for-each."""
        found: dict[str, list[list[dict[str, Any]]]] = {}
        for task in ordered(job):
            inside = task["for_each_task"]["task"] if "for_each_task" in task else task
            for each in inputs_of(task) or [] if "for_each_task" in task else [None]:
                found.setdefault(task["task_key"], []).append(
                    self.task(inside["python_wheel_task"], job, bundle, each)
                )
        return found

    def task(self, wheel_task: Bundle, job: Bundle, bundle: Bundle, each: str | None) -> list[dict[str, Any]]:
        arguments = [self.local(text, bundle) for text in task_arguments(wheel_task["parameters"], job, each)]
        command = [sys.executable, "-c", CALL, wheel_task["entry_point"], *arguments]
        running = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        told: list[str] = []
        if "--continuous" in arguments:
            assert running.stderr is not None
            for line in running.stderr:
                told.append(line)
                if "up to date" in line:
                    running.send_signal(signal.SIGTERM)
                    break
        out, error = running.communicate(timeout=300)
        assert running.returncode == 0, "".join([*told, error])[-3000:]
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def workspace(connect: str, installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(connect, installed, tmp_path_factory.mktemp("workspace"))


def variant(folder: str) -> Bundle:
    bundle = read_bundle(ROOT, f"resources/{folder}/*.yml")
    del bundle["resources"]["jobs"]["lakehouse"]
    return resolved(bundle, "dev")


def states(outcome: dict[str, Any]) -> dict[str, str]:
    return {table["table"]: table["state"] for table in outcome["tables"]}


def test_every_jobs_tasks_run_from_the_wheel_in_their_order_and_a_second_run_changes_nothing(
    workspace: Workspace,
) -> None:
    bundle = resolved(read_bundle(ROOT), "dev")
    jobs = bundle["resources"]["jobs"]
    workspace.deploy(bundle)

    first = workspace.run(jobs["lakehouse"], bundle)
    quality = workspace.run(jobs["quality"], bundle)["check"][0]
    upkeep = workspace.run(jobs["maintenance"], bundle)["maintain"][0]
    second = workspace.run(jobs["lakehouse"], bundle)

    assert list(first) == ["bronze", "silver", "gold"]
    assert states(first["gold"][0][0]) == EXACT
    assert Path(quality[0]["page"]).is_file()
    assert [(entry["table"], entry["success"], entry["problem"]) for entry in quality[1:]] == [
        ("shop.orders", True, None)
    ] * 2
    assert upkeep[0]["source"] == "sample"
    assert [second[name][0][0]["new_messages"] for name in second] == [0, 0, 0]
    assert (second["silver"][0][0]["silver_batches"], second["gold"][0][0]["gold"]) == (0, "nothing new")
    assert states(second["gold"][0][0]) == EXACT

    each = variant("for_each")
    told = workspace.run(each["resources"]["jobs"]["lakehouse_for_each"], each)["sources"]
    assert [(outcome["source"], outcome["gold"], states(outcome)) for (outcome,) in told] == [
        ("sample", "nothing new", EXACT)
    ]

    continuous = variant("continuous")
    told = workspace.run(continuous["resources"]["jobs"]["lakehouse_continuous"], continuous)["layers"]
    assert [(outcome["new_messages"], states(outcome)) for (outcome,) in told] == [(0, EXACT)]
