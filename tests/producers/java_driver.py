"""A producer's driver, a Java source of this folder, as a process. It ends when its standard input does."""

import subprocess
from pathlib import Path
from typing import BinaryIO

from lakehouse.jvm.java import java
from tests.servers.mariadb import tie_to_parent

_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")


def start_driver(
    source: str, classes: str, told: Path, log: BinaryIO, *options: str
) -> "subprocess.Popen[bytes]":
    """Start it with its settings, the file `told`."""
    driver = Path(__file__).with_name(source)
    return subprocess.Popen(
        [str(java()), *_OPTIONS, *options, "-cp", classes, str(driver), str(told)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        preexec_fn=tie_to_parent,
    )


def stop_driver(process: "subprocess.Popen[bytes]", *, at_once: bool) -> None:
    """End it in order, or as a crash does."""
    if at_once:
        process.kill()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Lines:
    """The lines that a driver writes to a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> list[str]:
        """Those that have been written since, as far as they are whole."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode().split("\n")[:-1]
