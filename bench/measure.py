"""What a step costs: wall time, CPU of this process and all that it started (JVM, Python workers), and their
peak memory.
"""

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
    """Seconds, CPU seconds, and the highest sum of resident memory seen, in MB (pages that processes share
    count in each).
    """

    wall: float
    cpu: float
    peak: float


def tree(root: int, excluded: Excluded) -> Iterator[tuple[tuple[int, int], str, float, int]]:
    """((pid, when it was started), program, CPU seconds, resident bytes) of each live process below `root`,
    itself included.
    """
    parents: dict[int, list[int]] = {}
    found: dict[int, tuple[tuple[int, int], str, float, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            head, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue
        fields, pid = rest.split(), int(entry.name)
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        found[pid] = ((pid, int(fields[19])), head.partition("(")[2], cpu, int(fields[21]) * PAGE)
        parents.setdefault(int(fields[1]), []).append(pid)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield found[pid]
        waiting += [child for child in parents.get(pid, []) if child not in excluded]


# what each process that was ever seen had spent when it was last looked at: Spark's Python daemon ignores the
# end of its workers, so that nobody is told what those that have ended had spent
_SEEN: dict[tuple[int, int], tuple[str, float]] = {}


def by_program(root: int, excluded: Excluded) -> dict[str, float]:
    """CPU seconds of `root` and all that was seen below it so far, by the name of the program."""
    for process, program, cpu, _ in tree(root, excluded):
        _SEEN[process] = (program, cpu)
    spent: dict[str, float] = {}
    for program, cpu in list(_SEEN.values()):  # another thread may look too
        spent[program] = spent.get(program, 0.0) + cpu
    return spent


def proportional(root: int) -> int:
    """The memory of `root` and all that it started, in bytes: pages that processes share are divided among
    them (proc(5), Pss).

    What a JVM starts has the JVM's own memory until it is another program: it is left out for that moment.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [(root, "")]
    while waiting:
        pid, above = waiting.pop()
        program, size = _program(pid), own_memory(pid)
        if program.endswith("/java") and program == above:
            continue
        total += size
        waiting += [(child, program) for child in children.get(pid, [])]
    return total


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def own_memory(pid: int, kind: str = "Pss") -> int:
    """The memory of one process, in bytes, as `proportional` counts it. `Pss_Anon` is what it has allocated
    alone: its share in the pages of programs and libraries grows when others that map them too end, on all
    of the machine.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:")), 0)


@contextmanager
def measured(keep: Callable[[Cost], None], excluded: Excluded = frozenset()) -> Iterator[None]:
    """Measure the block; `excluded` are processes (and what they started) that are not part of it, such as a
    broker.
    """
    ended, peak, me = threading.Event(), [0], os.getpid()

    def watch() -> None:
        while not ended.wait(0.2):
            by_program(me, excluded)
            peak[0] = max(peak[0], sum(resident for *_, resident in tree(me, excluded)))

    watcher = threading.Thread(target=watch, daemon=True)
    begun, before = time.monotonic(), sum(by_program(me, excluded).values())
    watcher.start()
    yield
    wall, cpu = time.monotonic() - begun, sum(by_program(me, excluded).values()) - before
    ended.set()
    watcher.join()
    keep(Cost(wall, cpu, peak[0] / 1e6))
