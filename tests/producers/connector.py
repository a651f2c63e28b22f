"""A real Debezium connector between a database and a file: what Kafka Connect would send, as messages.

DebeziumDriver.java runs the connector in Debezium's engine and writes what Connect's own converters make of
its records. Maven resolves the jars of a release; $DEBEZIUM_JARS names a folder of them instead.
"""

import base64
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from lakehouse.jvm.cache import cached_folder
from tests.producers.java_driver import Lines, start_driver, stop_driver

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>lakehouse</groupId><artifactId>producers</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>io.confluent</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    "</dependency>"
)


class Connector:
    """A connector of `kind` (mysql or mariadb) and a release, whose records go to `folder`."""

    def __init__(self, folder: Path, release: str, kind: str, settings: Mapping[str, str]) -> None:
        self.folder, self.release, self.kind = folder, release, kind
        self.settings = dict(settings)
        self.out = folder / "sent.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self._lines, self.sent = Lines(self.out), list[Message]()
        self._offsets: dict[str, int] = defaultdict(int)

    def start(self) -> None:
        """Start it, or start it again: it goes on where its offsets are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        told = self.folder / "connector.properties"
        settings = {"out": str(self.out), **self.settings}
        lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items()]
        told.write_text("".join(lines), encoding="utf-8")
        classes = class_path(self.release, self.kind)
        with (self.folder / "connector.log").open("ab") as log:
            self.process = start_driver("DebeziumDriver.java", classes, told, log)

    def stop(self, *, at_once: bool = False) -> None:
        """End it in order, or as a crash does."""
        if self.process is not None:
            stop_driver(self.process, at_once=at_once)
            self.process = None
            self.take()

    def wait(self, text: bytes, seconds: float = 120) -> None:
        """Until a record has come that holds the text."""
        deadline, seen = time.monotonic() + seconds, 0
        while True:
            self.take()
            if any(text in (message.value or b"") for message in self.sent[seen:]):
                return
            seen = len(self.sent)
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise EnvironmentError_(
                    f"{self.folder}/connector.log: expected the connector to send {text!r}, "
                    f"got {len(self.sent)} other records"
                )
            time.sleep(0.05)

    def take(self) -> None:
        """Read what has been written since."""
        for line in self._lines.new():
            topic, key, value, *headers = line.split(" ")
            named = tuple(
                ((_bytes(name) or b"").decode(), _bytes(told))
                for name, told in zip(headers[::2], headers[1::2], strict=True)
            )
            self.sent.append(Message(topic, 0, self._offsets[topic], _bytes(key), _bytes(value), named))
            self._offsets[topic] += 1


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text.removeprefix("="))


@cache
def class_path(release: str, kind: str) -> str:
    """The jars of a release, fetched once."""
    folder = os.environ.get("DEBEZIUM_JARS") or cached_folder(
        f"debezium/{kind}-{release}", lambda folder: _fetch(folder, release, kind)
    )
    return os.pathsep.join(sorted(map(str, Path(folder).glob("*.jar"))))


def _fetch(folder: Path, release: str, kind: str) -> None:
    wanted = [("io.debezium", name, release) for name in ("debezium-embedded", f"debezium-connector-{kind}")]
    wanted.append(("org.slf4j", "slf4j-simple", "1.7.36"))
    if release < "2.5":  # converters of their time don't know replace.null.with.default
        wanted.append(("org.apache.kafka", "connect-json", "3.6.1"))
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="\n".join(_DEPENDENCY.format(*one) for one in wanted)))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True)
    if done.returncode != 0:
        raise EnvironmentError_(
            f"mvn: expected the jars of Debezium {release}, got: {done.stdout.strip().splitlines()[:1]}"
        )
