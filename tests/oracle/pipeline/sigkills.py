"""Processes that run a lake's layers and are killed at any moment, as `python -m tests.oracle --sigkills N`
asks: some alone, some two at a time, of which the second takes the lease of the first, stopped meanwhile, so
that both write.

As a script (`sigkills.py FOLDER LIMITS SERVER`) it is such a process: it says `ready` when its session has
started, runs the layers again and again once it is told to, and takes leases instead of locks, for a second
each.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lakehouse.config.load import load
from lakehouse.errors import LakehouseError
from lakehouse.spark.ops import lease
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run as run_layers
from lakehouse.spark.session import get_session
from tests.support.paths import ROOT

# the share of kills at which two processes are there, and for how long the first one is stopped then
OVERLAPS = 0.35
STOPPED = 4.0
# a process's first run is slower than those of a session that is warm
COLD = 1.5


def killed(folder: Path, words: tuple[str, str], chance: random.Random, took: float) -> str:
    """Let one process run, or two at once, and kill them within about the time that a run takes; returns what
    was done. `words`: the limits and the server's rules.
    """
    last = chance.uniform(0, COLD * took)
    if chance.random() >= OVERLAPS:
        with _process(folder, words) as one:
            _begin(one)
            time.sleep(last)
        return f"SIGKILL after {last:.1f} s"
    stop = chance.uniform(0, COLD * took)
    with _process(folder, words) as one, _process(folder, words) as other:
        _begin(one)
        time.sleep(stop)
        os.killpg(one.pid, signal.SIGSTOP)
        _begin(other)
        time.sleep(STOPPED)
        os.killpg(one.pid, signal.SIGCONT)
        time.sleep(last)
    return f"SIGSTOP after {stop:.1f} s, another run for {STOPPED:.0f} s, SIGKILL of both after {last:.1f} s"


@contextmanager
def _process(folder: Path, words: tuple[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose session has started, which is killed at the end."""
    command = [sys.executable, "-m", "tests.oracle.pipeline.sigkills", str(folder), *words]
    with (folder / "killed.log").open("ab") as told, ExitStack() as stack:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
        )
        stack.callback(process.wait)
        stack.callback(os.killpg, process.pid, signal.SIGKILL)
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise AssertionError(f"expected a process that runs, got none: {folder / 'killed.log'}")
        yield process


def _begin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"run\n")
    process.stdin.flush()


def main() -> None:
    from tests.oracle.pipeline.play import server_is, sizes

    folder, limits, rules = Path(sys.argv[1]), *sys.argv[2:]
    lease.LEASE = 1.0
    vars(lease)["has_flock"] = lambda root: False
    with sizes(limits), server_is(rules):
        config = load(folder / "configs")
        get_session().range(1).count()
        print("ready", flush=True)
        sys.stdin.readline()
        while True:
            try:
                run_layers(config, LAYERS, True, (), str(folder / "lake"), print)
            except LakehouseError as error:  # another process holds the lease, or has written meanwhile
                print(error, file=sys.stderr, flush=True)
                time.sleep(0.2)


if __name__ == "__main__":
    main()
