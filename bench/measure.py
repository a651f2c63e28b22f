"""What a step costs: wall time, CPU of this process and all that it started (JVM, Python workers), and their peak memory."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
Excluded = frozenset[int]


class Cost(NamedTuple):
    """Seconds, CPU seconds, and the highest sum of resident memory seen, in MB (pages that processes share count in each)."""

    wall: float
    cpu: float
    peak: float


def tree(root: int, excluded: Excluded) -> Iterator[tuple[float, int]]:
    """(CPU seconds, with those of ended children; resident bytes) of each live process below `root`, itself included."""
    parents: dict[int, list[tuple[int, float, int]]] = {}
    own: tuple[float, int] = (0.0, 0)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        cpu, resident = sum(map(int, fields[11:15])) / TICKS, int(fields[21]) * PAGE
        parents.setdefault(int(fields[1]), []).append((int(entry.name), cpu, resident))
        if int(entry.name) == root:
            own = (cpu, resident)
    yield own
    waiting = [root]
    while waiting:
        for pid, cpu, resident in parents.get(waiting.pop(), []):
            if pid not in excluded:
                yield cpu, resident
                waiting.append(pid)


@contextmanager
def measured(keep: Callable[[Cost], None], excluded: Excluded = frozenset()) -> Iterator[None]:
    """Measure the block; `excluded` are processes (and what they started) that are not part of it, such as a broker."""
    ended, peak, me = threading.Event(), [0], os.getpid()

    def watch() -> None:
        while not ended.wait(0.2):
            peak[0] = max(peak[0], sum(resident for _, resident in tree(me, excluded)))

    watcher = threading.Thread(target=watch, daemon=True)
    begun, before = time.monotonic(), sum(cpu for cpu, _ in tree(me, excluded))
    watcher.start()
    yield
    wall, cpu = time.monotonic() - begun, sum(cpu for cpu, _ in tree(me, excluded)) - before
    ended.set()
    watcher.join()
    keep(Cost(wall, cpu, peak[0] / 1e6))
