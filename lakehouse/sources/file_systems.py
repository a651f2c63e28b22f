"""A folder of files: what a file system must be able to do (list, stat, read), and the local one."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol


class FileInfo(NamedTuple):
    """A file or folder; `path` is relative to the root, with slashes; `mtime` in ms."""

    path: str
    size: int
    mtime: int
    is_dir: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FileSystem(Protocol):
    """The file operations that a scan needs. The root is ""; a missing path has no children, no stat and no
    bytes. `is_listed`: the whole tree is known already; to list a folder costs less than to read a file.
    """

    is_listed: bool

    def list_dir(self, path: str) -> list[FileInfo]: ...

    def stat(self, path: str) -> FileInfo | None: ...

    def read(self, path: str, start: int = 0) -> bytes: ...


class LocalFiles:
    """A local folder. Paths that lead out of it, by their parts or by a link, count as missing."""

    is_listed = False

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()

    def list_dir(self, path: str) -> list[FileInfo]:
        """Raises OSError for what is there and can't be looked at: a scan that leaves it out would be taken
        for whole.
        """
        folder = self._inside(path)
        try:
            children = [] if folder is None else list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = (self._child(f"{path}/{child.name}" if path else child.name, child) for child in children)
        return sorted(info for info in found if info)

    def _child(self, path: str, child: os.DirEntry[str]) -> FileInfo | None:
        if child.is_symlink():
            return self.stat(path)
        try:
            return _info(path, child.stat(follow_symlinks=False))
        except FileNotFoundError:  # removed since
            return None

    def stat(self, path: str) -> FileInfo | None:
        place = self._inside(path)
        try:
            return _info(path, place.stat()) if place else None
        except OSError:
            return None

    def read(self, path: str, start: int = 0) -> bytes:
        place = self._inside(path)
        try:
            if place is None:
                return b""
            with place.open("rb") as file:
                file.seek(start)
                return file.read()
        except OSError:
            return b""

    def open(self, path: str) -> BinaryIO | None:
        """The file for reading a part at a time; None for what is not there."""
        place = self._inside(path)
        try:
            return None if place is None else place.open("rb")
        except OSError:
            return None

    def _inside(self, path: str) -> Path | None:
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            return None
        place = Path(os.path.realpath(self.root / path))
        return place if place.is_relative_to(self.root) else None


def _info(path: str, status: os.stat_result) -> FileInfo | None:
    """The status of a file or folder; None for other kinds."""
    is_dir = stat.S_ISDIR(status.st_mode)
    if not (is_dir or stat.S_ISREG(status.st_mode)):
        return None
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000, is_dir)


def all_files(files: FileSystem, path: str) -> Iterable[FileInfo]:
    """All files below `path`, recursively."""
    for info in files.list_dir(path):
        if info.is_dir:
            yield from all_files(files, info.path)
        else:
            yield info
