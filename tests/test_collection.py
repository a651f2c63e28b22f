"""Every process collects the same tests: `./run test` hands them to two, which refuse to run what differs."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def collecting(hash_seed: str) -> "subprocess.Popen[str]":
    """A process that lists all tests, and runs none."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**environment, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_names_of_tests_depend_on_neither_hash_nor_time() -> None:
    first = collecting("1")
    time.sleep(2)  # a name that holds the present second differs between the two
    second = collecting("2")
    names, others = (
        [line for line in p.communicate()[0].splitlines() if "<" in line] for p in (first, second)
    )
    assert len(names) > 1000
    assert names == others
