"""A real Canal server between a database and files: what it would send to Kafka, as messages.

CanalDriver.java is Canal's own embedded server with a producer that writes to a file; the jars that it needs
are in jars_canal.txt.
"""

import base64
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from lakehouse.jvm.jars import locked_jars
from tests.producers.java_driver import Lines, start_driver, stop_driver

Place = tuple[int, int]  # number of the binlog's file, offset


class Sent(NamedTuple):
    """A message, and the place in the binlog of the last event in it."""

    message: Message
    place: Place


class Canal:
    """A running Canal, whose messages go to `folder`. `settings` are its properties, and those of the
    outputs: names of `outputs`, with NAME.flat, NAME.partitionsNum, … as CanalDriver.java has them.
    """

    def __init__(self, folder: Path, port: int, settings: Mapping[str, str], zone: str) -> None:
        self.folder, self.port, self.settings, self.zone = folder, port, dict(settings), zone
        self.out = folder / "sent.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self._lines, self._logged = Lines(self.out), 0
        self.last: Place = (0, 0)
        self._sent: dict[str, list[Sent]] = defaultdict(list)
        self._offsets: dict[tuple[str, str, int], int] = defaultdict(int)

    def start(self) -> None:
        """Start it, or start it again: it goes on where its own cursor is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "port": str(self.port),
            "out": str(self.out),
            "canal.file.data.dir": str(self.folder),
            **self.settings,
        }
        told = self.folder / "canal.properties"
        lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items()]
        told.write_text("".join(lines), encoding="utf-8")
        with (self.folder / "canal.log").open("ab") as log:
            self._logged, zone = log.tell(), f"-Duser.timezone={self.zone}"
            self.process = start_driver("CanalDriver.java", class_path(), told, log, zone)

    def stop(self, *, at_once: bool = False) -> None:
        """End it in order, or as a crash does."""
        if self.process is not None:
            stop_driver(self.process, at_once=at_once)
            self.process = None

    def wait(self, place: Place, seconds: float = 180, *, behind: bool = True) -> bool:
        """Until something at a place of the binlog has been sent, or `behind` it; False where Canal retries
        in vain: it has met a row that fits no table it knows.
        """
        deadline = time.monotonic() + seconds
        while self.last < place if behind else (self.last[0], self.last[1] + 2**14) < place:
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise EnvironmentError_(
                    f"{self.folder}/canal.log: expected Canal to reach {place}, got to {self.last}"
                )
            if self.retries() > 1:
                return False
            time.sleep(0.02)
            self._take()
        return True

    def retries(self) -> int:
        """How often it has begun anew since it was started."""
        with (self.folder / "canal.log").open("rb") as log:
            log.seek(self._logged)
            return log.read().count(b"has an error, retrying")

    def start_at(self, place: Place) -> None:
        """Start it at a place of the binlog, without its cursor."""
        shutil.rmtree(self.folder / "example", ignore_errors=True)
        name, _ = self.settings["canal.instance.master.journal.name"].rsplit(".", 1)
        self.settings["canal.instance.master.journal.name"] = f"{name}.{place[0]:06}"
        self.settings["canal.instance.master.position"] = str(place[1])
        self.start()

    def sent(self, output: str) -> list[Sent]:
        self._take()
        return self._sent[output]

    def _take(self) -> None:
        for line in self._lines.new():
            output, topic, number, value, name = line.split("\t")
            file_name, _, offset = name.rpartition(":")
            place = (int(file_name.rpartition(".")[2] or 0), int(offset))
            where = (output, topic, int(number))
            body = b"" if value == "-" else base64.b64decode(value)
            self._sent[output].append(
                Sent(Message(topic, int(number), self._offsets[where], None, body), place)
            )
            self._offsets[where] += 1
            self.last = max(self.last, place)


def class_path() -> str:
    """The jars; $CANAL_CLASSES is a class path of another release that stands in their place."""
    if other := os.environ.get("CANAL_CLASSES"):
        return other
    jars = locked_jars(Path(__file__).with_name("jars_canal.txt"), "Canal's server")
    return os.pathsep.join(map(str, jars))


@contextmanager
def start_canal(folder: Path, port: int, settings: Mapping[str, str], zone: str) -> Iterator[Canal]:
    """A Canal that reads the server at `port`, and lives as long as the block."""
    canal = Canal(folder, port, settings, zone)
    canal.start()
    try:
        yield canal
    finally:
        canal.stop()
