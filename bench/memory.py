"""What the memory of a running Spark driver consists of: live objects and native memory of the JVM, Python.

The JVM collects its heap as late as -Xmx allows, so its resident memory doesn't tell garbage from objects
that are still referenced. A class histogram of `jcmd` forces a full collection and counts what is left.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from bench.measure import own_memory, proportional, tree

NATIVE = "-XX:NativeMemoryTracking=summary"  # what `sample` asks the JVM for
_CLASS = re.compile(r"^ *\d+: +(\d+) +(\d+) +(\S+)", re.MULTILINE)
_AREA = re.compile(r"^- +([A-Za-z ]+?) \(reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)
_CLASSES, _CODE = ("Class", "Metaspace"), ("Code",)
Classes = Counter[str]


class Sample(NamedTuple):
    """Memory in MB at one moment, after a forced full collection, and the bytes of each class of the heap.

    `native` is what the JVM has committed for neither heap, classes nor code: threads, compiler, buffers.
    `driver` is what the Python driver has allocated, without the pages of libraries, 100 MB of it: they are
    divided among all processes that map them, and would grow when another one ends.
    """

    at: float
    tree: float
    jvm: float
    live: float
    metaspace: float
    code: float
    native: float
    driver: float
    workers: float
    classes: Classes

    @property
    def verdict(self) -> float:
        """What must not grow: what the heap still references, and the Python driver."""
        return self.live + self.driver


def sample(root: int, at: float) -> Sample | None:
    """The memory of a Python driver `root` and of the JVM it started; none while there is no JVM."""
    java = next((pid for (pid, _), program, _, _ in tree(root, frozenset()) if program == "java"), None)
    if java is None:
        return None
    classes = histogram_classes(_jcmd(java, "GC.class_histogram"))
    areas = native_areas(_jcmd(java, "VM.native_memory", "summary"))
    if not classes or not areas:
        return None
    every, driver, jvm = proportional(root), own_memory(root), own_memory(java)
    known = sum(areas.get(name, 0.0) for name in (*_CLASSES, *_CODE, "Java Heap"))
    return Sample(
        at,
        every / 1e6,
        jvm / 1e6,
        sum(classes.values()) / 1e6,
        sum(areas.get(name, 0.0) for name in _CLASSES),
        sum(areas.get(name, 0.0) for name in _CODE),
        sum(areas.values()) - known,
        own_memory(root, "Pss_Anon") / 1e6,
        max(0, every - driver - jvm) / 1e6,  # each was looked at in a moment of its own
        classes,
    )


def histogram_classes(text: str) -> Classes:
    """The bytes of each class in a histogram of `jcmd`."""
    found: Classes = Counter()
    for _, size, name in _CLASS.findall(text):
        found[name] += int(size)
    return found


def native_areas(text: str) -> dict[str, float]:
    """The MB that the JVM has committed for each area, of a summary of its native memory."""
    return {name: int(size) * 1024 / 1e6 for name, size in _AREA.findall(text)}


def _jcmd(pid: int, *words: str) -> str:
    """The answer, or nothing where the JVM is gone or does not answer in time. A JRE has no jcmd."""
    try:
        command = [str(Path(f"/proc/{pid}/exe").readlink().with_name("jcmd")), str(pid), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def grown(first: Classes, last: Classes, count: int) -> list[tuple[str, int, int]]:
    """The classes whose bytes grew most: name, bytes at first, bytes at last."""
    by = sorted(last, key=lambda name: first[name] - last[name])
    return [(name, first[name], last[name]) for name in by[:count] if last[name] > first[name]]
