"""The cache of this machine: jars, a Java launcher, a trust store, each made or downloaded once.

The cache is $LAKEHOUSE_CACHE, else lakehouse/ in the user's cache folder. An entry is a folder that appears
whole: it is filled under another name and then renamed, behind a lock, so no process ever sees half of one or
makes it twice.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import EnvironmentError_


def cache_folder() -> Path:
    """The folder of the cache; it need not exist yet."""
    if own := os.environ.get("LAKEHOUSE_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "lakehouse"


def cached_folder(entry: str, fill: Callable[[Path], None]) -> Path:
    """The folder of `entry`, filled by `fill` unless a process has done so before. Errors of `fill` are
    passed on.
    """
    folder = cache_folder() / entry
    if not folder.is_dir():
        with _writable(folder), (folder.parent / f".{folder.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _make(folder, fill)
    return folder


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        fill(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise EnvironmentError_(
            f"{folder.parent}: expected a cache folder that can be written, got: {error.strerror or error}; "
            "set LAKEHOUSE_CACHE to another folder"
        ) from error
