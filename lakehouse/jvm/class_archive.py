"""Class archives of the JVM (CDS): Spark starts with a third of the CPU time when the loaded classes of an
earlier JVM are mapped.

The first session writes an archive as its JVM ends; the next one adopts it and all later ones map it. An
archive can't stop a start: the JVM ignores a stale one, one that lost its end (which a JVM dies of) is
removed here, and a cache that can't be written only costs the time.

    base-KEY/base.jsa   the JVM's own classes, for Java images that come without such an archive
    KEY.SIZE.jsa        what is used; KEY names the Java and the class path, with their files' sizes and times
    KEY.PID.part        what the JVM of process PID writes while it ends
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cache_folder, cached_folder

# A session that did next to nothing leaves an archive that would speed up next to nothing; one that worked
# leaves over 150 MB.
WORTH = 120 << 20
_KEPT = 3
_ABANDONED = 3600
# The JVM writes the header last, so this number at the beginning says that the file is complete.
_DYNAMIC_ARCHIVE = (0xF00BABA8).to_bytes(4, "little")
_QUIET = ("-Xshare:auto", "-Xlog:disable")


def archive_options(home: Path, class_path: Iterable[Path]) -> list[str]:
    """The JVM options that use the archive of this class path, or write it where there is none."""
    folder = cache_folder() / "classes"
    key = _key(home, class_path)
    try:
        base = _base(home)
        archive = _found(folder, key) or _adopted(folder, key)
        if archive:
            _use(archive, key)
            return [f"-XX:SharedArchiveFile={':'.join((*base, str(archive)))}", *_QUIET]
        _tidy(folder)
    except (OSError, EnvironmentError_, subprocess.SubprocessError):
        return []
    written = [f"-XX:ArchiveClassesAtExit={folder / f'{key}.{os.getpid()}.part'}", *_QUIET]
    return [f"-XX:SharedArchiveFile={base[0]}", *written] if base else written


def _key(home: Path, class_path: Iterable[Path]) -> str:
    known = hashlib.sha256(str(home).encode())
    for file in (home / "lib" / "server" / "libjvm.so", *class_path):
        state = file.stat()
        known.update(f"{file}:{state.st_size}:{state.st_mtime_ns}\n".encode())
    return known.hexdigest()[:16]


def _base(home: Path) -> list[str]:
    """The archive that ours is based on; nothing where the Java image has its own."""
    if (home / "lib" / "server" / "classes.jsa").exists():
        return []
    return [
        str(
            cached_folder(f"classes/base-{_key(home, ())}", partial(_dump_base, home / "bin" / "java"))
            / "base.jsa"
        )
    ]


def _dump_base(java: Path, folder: Path) -> None:
    command = [str(java), "-Xshare:dump", f"-XX:SharedArchiveFile={folder / 'base.jsa'}", "-Xlog:disable"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def _found(folder: Path, key: str) -> Path | None:
    for archive in folder.glob(f"{key}.*.jsa"):
        if archive.name == f"{key}.{archive.stat().st_size}.jsa":
            return archive
        archive.unlink(missing_ok=True)
    return None


def _use(archive: Path, key: str) -> None:
    """Mark the archive as used today, and remove the leftovers of sessions that ran at the same time as the
    first.
    """
    os.utime(archive)
    for part in archive.parent.glob(f"{key}.*.part"):
        if _is_complete(part):
            part.unlink(missing_ok=True)


def _adopted(folder: Path, key: str) -> Path | None:
    """The largest complete archive that an ended session left, renamed for use; incomplete ones are
    removed.
    """
    complete: list[tuple[int, Path]] = []
    for part in folder.glob(f"{key}.*.part"):
        state = part.stat()
        if not _is_complete(part):
            if state.st_mtime < time.time() - _ABANDONED:
                part.unlink(missing_ok=True)
        elif state.st_size < WORTH:
            part.unlink(missing_ok=True)
        else:
            complete.append((state.st_size, part))
    if not complete:
        return None
    size, part = max(complete)
    return part.rename(folder / f"{key}.{size}.jsa")


def _is_complete(part: Path) -> bool:
    with part.open("rb") as file:
        return file.read(4) == _DYNAMIC_ARCHIVE


def _tidy(folder: Path) -> None:
    """Remove old archives: only the last few of other Pythons, Javas and jars stay. A JVM keeps what it has
    mapped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(
        (*folder.glob("*.jsa"), *folder.glob("*.part")), key=lambda file: file.stat().st_mtime, reverse=True
    )
    for old in files[_KEPT:]:
        old.unlink(missing_ok=True)
