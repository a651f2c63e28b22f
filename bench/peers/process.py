"""A process and all that it starts: what it costs, from its start to the end of the last of them."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.measure import Cost, tree

_LOOKS, _ENDING = 0.1, 30.0  # seconds
Key = tuple[int, int]


class Failed(Exception):
    """A peer that has not done what it was asked."""


def measured_run(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    done: Callable[[], bool] | None = None,
    timeout: float = 900.0,
) -> Cost:
    """Run it to its end, or end it as soon as it is `done`. What a process spends in the tenth of a second
    before its end is missed, but for the first one's.
    """
    begun = time.monotonic()
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=dict(environment), stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    spent: dict[Key, float] = {}
    peak, ended = 0, False
    try:
        while not ended:
            # looks at how it ended before the last look at what it has spent: until it is waited for, that
            # can be read
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            ended = os.waitid(os.P_PID, process.pid, options) is not None
            peak = max(peak, _look(process.pid, spent))
            if not ended and done is not None and done():
                break
            if time.monotonic() - begun > timeout:
                raise Failed(
                    f"expected it to end within {timeout:.0f} s; see its last words:\n{_end_of(log)}"
                )
            time.sleep(0 if ended else _LOOKS)
        wall = time.monotonic() - begun
    finally:
        if not ended:
            process.terminate()
        status = _wait(process)
    _rest(spent)
    if ended and status != 0:
        raise Failed(f"expected it to end well, got exit code {status}:\n{_end_of(log)}")
    return Cost(wall, sum(spent.values()), peak / 1e6)


def _look(root: int, spent: dict[Key, float]) -> int:
    """Keep what each process has spent so far; returns their memory."""
    memory = 0
    for key, _, cpu, resident in tree(root, frozenset()):
        spent[key] = cpu
        memory += resident
    return memory


def _wait(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _rest(spent: dict[Key, float]) -> None:
    """Wait for those that the first process has left behind: a JVM ends after the Python that started it."""
    deadline = time.monotonic() + _ENDING
    while time.monotonic() < deadline:
        left = [key for key in spent if _alive(key)]
        if not left:
            return
        for key in left:
            for found, _, cpu, _ in _trees(key[0]):
                if found in spent:
                    spent[found] = cpu
        time.sleep(_LOOKS)


def _trees(pid: int) -> list[tuple[Key, str, float, int]]:
    try:
        return list(tree(pid, frozenset()))
    except KeyError:  # it has ended
        return []


def _alive(key: Key) -> bool:
    try:
        fields = Path(f"/proc/{key[0]}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == key[1] and fields[0] != "Z"


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
