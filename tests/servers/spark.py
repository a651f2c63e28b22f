"""Servers on 127.0.0.1 for tests: Spark Connect, a standalone cluster, and the project's own wheel. Each is
ended by its process id.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from lakehouse import DISTRIBUTION
from lakehouse.demo.kafka_broker import free_port
from tests.support.paths import ROOT

_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
# as Databricks starts a python_wheel_task: by its entry point, in the metadata of the package that it names
CALL = (
    "import sys; from importlib.metadata import distribution; "
    f"found = distribution('{DISTRIBUTION}').entry_points.select(name=sys.argv.pop(1)); "
    "sys.exit([*found][0].load()())"
)


def build_wheel(folder: Path) -> Path:
    """The project's wheel, as `uv build --wheel` makes it."""
    source = folder / "source"
    for name in ("lakehouse", "pipelines", "resources", "notebooks", "configs/databricks"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "databricks.yml"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next((folder / "dist").glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> Path:
    """The wheel's files with its metadata, as an installation has them."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


@contextmanager
def process(
    command: list[str], log: Path, environment: dict[str, str], ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is up, or an error with the end of its log."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while not ready():
            if server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"expected a server, got:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)
        yield server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spark_class() -> str:
    found = find_spec("pyspark")
    assert found is not None and found.origin
    return str(Path(found.origin).parent / "bin/spark-class")


def confs(settings: dict[str, str]) -> list[str]:
    """Settings as spark-submit takes them."""
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def spark_environment(code: Path) -> dict[str, str]:
    """The environment of a server whose Python workers import the project from `code`."""
    from lakehouse.jvm.java import java_home

    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "LAKEHOUSE_LAKE"))
    }
    own = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(code),
    }
    return {**kept, **own}


@contextmanager
def connect_server(folder: Path, code: Path) -> Iterator[str]:
    """A Spark Connect server; yields its address."""
    from lakehouse.spark.session import local_settings

    port = free_port()
    settings = {
        **local_settings("1500m"),
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [
        spark_class(),
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        "local[2]",
        "--class",
        _CONNECT,
        *options,
        "spark-internal",
    ]
    with process(command, folder / "connect.log", spark_environment(code), lambda: listens(port)):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def cluster(folder: Path, code: Path) -> Iterator[str]:
    """A standalone master with one worker, in processes of their own; yields the master's address."""
    port, pages = free_port(), [free_port(), free_port()]
    environment = {
        **spark_environment(code),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    here = ["--host", "127.0.0.1", "--webui-port"]
    master = [
        spark_class(),
        "org.apache.spark.deploy.master.Master",
        *here,
        str(pages[0]),
        "--port",
        str(port),
    ]
    address = f"spark://127.0.0.1:{port}"
    own = ["--cores", "2", "--memory", "1g", address]
    worker = [spark_class(), "org.apache.spark.deploy.worker.Worker", *here, str(pages[1]), *own]
    with ExitStack() as held:
        held.enter_context(process(master, folder / "master.log", environment, lambda: listens(port)))
        log = folder / "worker.log"
        held.enter_context(
            process(
                worker, log, environment, lambda: "Successfully registered with master" in log.read_text()
            )
        )
        yield address
