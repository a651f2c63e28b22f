"""One run per source and layer: a lock file that the kernel frees when its holder dies.

It guards one machine (or one shared folder). On a catalog or object store the scheduler keeps runs apart
(`max_concurrent_runs: 1`), and Delta's transaction versions keep a second writer from doubling anything.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import LakehouseError


@contextmanager
def run_lock(root: str, source: str, layer: str) -> Iterator[None]:
    """Hold the lock of (source, layer) of a lake; LakehouseError names who holds it. A remote root is not locked."""
    if "://" in root:
        yield
        return
    folder = Path(root) / "_locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{source}.{layer}").open("a+")
    except OSError as error:
        raise LakehouseError(f"{root}: expected a folder that can be written, got: {error.strerror}; choose another with --lake") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LakehouseError(f"{source}: a {layer} run is going on already ({_holder(handle.name)}); wait for it or stop it") from error
        handle.truncate(0)
        handle.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}))
        handle.flush()
        yield


def _holder(path: str) -> str:
    try:
        known = json.loads(Path(path).read_text())
        return f"pid {known['pid']} on {known['host']} since {known['since']}"
    except (ValueError, KeyError):
        return "holder unknown"
