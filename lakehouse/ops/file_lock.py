"""One run per source and layer: a lock file that the kernel frees when its holder dies.

It guards one machine, or one shared folder whose file system knows flock. Where there is none (object stores,
volumes, some network mounts), `has_flock` says so, and lakehouse/spark/ops/lease.py guards by a table of the
lake instead.
"""

import errno
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lakehouse.errors import LakehouseError

LOG = logging.getLogger(__name__)
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def is_remote(root: str) -> bool:
    """Whether a root is outside this machine's own file systems."""
    return "://" in root or root.startswith(("dbfs:", "/Volumes/"))


def has_flock(root: str) -> bool:
    """Whether files below `root` can be locked; LakehouseError where the folder can't be written."""
    if is_remote(root):
        return False
    with _opened(root, "probe") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in _HELD
    return True


@contextmanager
def run_lock(root: str, source: str, layer: str) -> Iterator[None]:
    """Hold the lock of (source, layer) of a lake; LakehouseError names who holds it."""
    with _opened(root, f"{source}.{layer}") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                raise LakehouseError(
                    f"{root}: expected a file system that can lock files, got: {error.strerror}"
                ) from error
            raise LakehouseError(
                f"{source}: a {layer} run is going on already ({_holder(handle.name)}); wait for it or stop "
                "it"
            ) from error
        handle.truncate(0)
        handle.write(json.dumps(whoami()))
        handle.flush()
        yield


@contextmanager
def commit_lock(root: str, table: str) -> Iterator[None]:
    """Hold while a table is committed to that several processes write to; waits for whoever holds it. On a
    file system of its own a machine has nothing else: Delta looks whether its next version is there and then
    renames a file to it, and of two that do so at once the second replaces what the first has written.
    """
    if is_remote(root):
        yield
        return
    with _opened(root, f"commit.{table}") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            # a network mount that can't lock
            LOG.debug("%s: %s", handle.name, error)
        yield


def whoami() -> dict[str, object]:
    """The identity of this process as a holder."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}


def holder_text(holder: dict[str, object]) -> str:
    """A holder as text for messages."""
    return f"pid {holder['pid']} on {holder['host']} since {holder['since']}"


@contextmanager
def _opened(root: str, name: str) -> Iterator[IO[str]]:
    folder = Path(root) / "_locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / name).open("a+")
    except OSError as error:
        raise LakehouseError(
            f"{root}: expected a folder that can be written, got: {error.strerror}; choose another with "
            "--lake"
        ) from error
    with handle:
        yield handle


def _holder(path: str) -> str:
    try:
        return holder_text(json.loads(Path(path).read_text()))
    except (ValueError, KeyError):
        return "holder unknown"
