"""`lakehouse snapshot` that dies on its way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.paths import ROOT

# the command, with many commits of few rows each
_SNAPSHOT = """
from lakehouse.spark.bronze import snapshots
from lakehouse.spark.pipeline import snapshot_tables
snapshot_tables.CHUNK_ROWS, snapshots.COMMIT_BYTES = 100, 1
from lakehouse.cli.main import main
main()
"""


def kill_snapshot(configs: Path, lake: Path, *asked: str, commits: int) -> None:
    """Run `lakehouse snapshot shop` in a process of its own, and kill it when it has landed so often."""
    log = lake / "bronze/shop/_delta_log"
    begun = len(list(log.glob("*.json")))
    words = ["snapshot", "shop", "--configs", str(configs), "--lake", str(lake), *asked]
    process = subprocess.Popen(
        [sys.executable, "-c", _SNAPSHOT, *words, "--rows-per-second", "1000", "--parallel", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    while len(list(log.glob("*.json"))) < begun + commits:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
