"""Locks between processes of one machine."""

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

TIMES = 200
# looks, then writes: what another writes in between is lost, as with a version of a Delta table
COUNTS = f"""
import pathlib, sys, time
from lakehouse.ops.file_lock import commit_lock
root = pathlib.Path(sys.argv[1])
for _ in range({TIMES}):
    with commit_lock(str(root), "shop_log"):
        seen = int((root / "version").read_text())
        time.sleep(0.0005)
        (root / "version").write_text(str(seen + 1))
"""


def test_of_processes_that_commit_at_once_none_writes_over_what_another_has_written(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", COUNTS, str(tmp_path)], cwd=ROOT) for _ in range(3)]

    assert [one.wait(timeout=60) for one in running] == [0, 0, 0]
    assert (tmp_path / "version").read_text() == str(3 * TIMES)
