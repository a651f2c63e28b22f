"""A Kafka broker for demos and tests: one KRaft node on 127.0.0.1 from the official jars, in a folder of its
own.

It ends with the process that started it, however that ends, and its data stays in the folder: a later start
goes on there.
"""

import base64
import fcntl
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.jars import broker_jars
from lakehouse.jvm.java import java
from lakehouse.sources.kafka_client import client_config

HOST = "127.0.0.1"
# Retention is off: a recording keeps its timestamps, and a broker that counts days would delete it while it
# is read.
_CONFIG = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
log.retention.ms=-1
log.retention.check.interval.ms=1000
log.message.timestamp.after.max.ms=9223372036854775807
message.max.bytes=10485760
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
replica.fetch.max.bytes=10485760
"""
# How long the broker of a process that was killed may take to end.
_ENDING = 5.0
# no system gives one of these to an outgoing connection
_PORTS = range(20_000, 32_000)
# The compiler's second stage costs more than it gives in minutes of life.
_JVM = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# The shell ends with the broker, and ends it when its own input closes, which the kernel sees to even when
# the parent is killed.
_TIED = """exec 3<&0
"$@" 3<&- </dev/null & broker=$!
{ read -r _; kill $broker; } <&3 &
wait $broker
status=$?
kill $!
exit $status"""


class Broker:
    """A running broker. `bootstrap` stays the same after `restart`.

    `settings` are further lines of its configuration, and `options` the `kafka.*` options that a client of it
    needs then.
    """

    def __init__(
        self, folder: Path, port: int, settings: Mapping[str, str] = {}, options: Mapping[str, str] = {}
    ) -> None:
        self.folder, self.settings, self.options = folder, settings, options
        self.port = port
        self._shell: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def start(self, timeout: float = 60.0) -> None:
        """Start it on the data of the folder and wait until it answers."""
        path = os.pathsep.join(str(jar) for jar in broker_jars())
        with _locked(self.log) as log:
            _check_free(self.port)
            config = _prepared(self.folder, self.port, self.settings)
            command = [
                "/bin/sh",
                "-c",
                _TIED,
                "broker",
                str(java()),
                *_JVM,
                "-cp",
                path,
                "kafka.Kafka",
                str(config),
            ]
            self._shell = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait(time.monotonic() + timeout)
        except BaseException:
            self.stop(grace=0)
            raise

    def stop(self, grace: float = 15.0) -> None:
        """Stop it gracefully, and by force after `grace` seconds. Nothing happens when it has ended
        already.
        """
        shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None:
            return
        shell.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            shell.wait(grace)
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()

    def restart(self) -> None:
        """Stop it and start it again on the same folder and port."""
        self.stop()
        self.start()

    def _wait(self, deadline: float) -> None:
        admin = AdminClient(client_config(self.bootstrap, self.options))
        while time.monotonic() < deadline:
            if self._shell is None or self._shell.poll() is not None:
                raise EnvironmentError_(
                    f"{self.folder}: expected a Kafka broker to start, got: {_last_words(self.log)}; see "
                    f"{self.log}"
                )
            if _is_open(self.port):
                with suppress(KafkaException):
                    if admin.list_topics(timeout=5).brokers:
                        return
            time.sleep(0.05)
        raise EnvironmentError_(
            f"{self.folder}: expected a Kafka broker on {self.bootstrap} in time, got no answer; see "
            f"{self.log}"
        )


@contextmanager
def start_broker(
    folder: Path, port: int = 0, settings: Mapping[str, str] = {}, options: Mapping[str, str] = {}
) -> Iterator[Broker]:
    """A broker on 127.0.0.1 that runs until the block ends; its data stays in `folder`. Port 0 chooses a free
    port.

    EnvironmentError_ says in one sentence what is missing: a free port, a folder that can be written, Java,
    the jars.
    """
    broker = Broker(folder, port or free_port(), settings, options)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The log file, locked and empty. The broker inherits the lock, which is free once the last broker of
    this folder has ended.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = path.open("ab")
    except OSError as error:
        raise EnvironmentError_(
            f"{folder}: expected a folder that can be written, got: {error.strerror}; choose another folder"
        ) from error
    with log:
        deadline = time.monotonic() + _ENDING
        while not _take(log):
            if time.monotonic() > deadline:
                raise EnvironmentError_(
                    f"{folder}: expected no other broker on this folder, got a running one; end it or choose "
                    "another folder"
                )
            time.sleep(0.1)
        log.truncate(0)
        yield log


def _take(log: IO[bytes]) -> bool:
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _prepared(folder: Path, port: int, settings: Mapping[str, str]) -> Path:
    """The broker's configuration file; a new folder gets the cluster id that Kafka's own formatting would
    give it.
    """
    data, config = folder.absolute() / "data", folder.absolute() / "server.properties"
    data.mkdir(exist_ok=True)
    if not (data / "meta.properties").exists():
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id={_kafka_id()}\nnode.id=1\ndirectory.id={_kafka_id()}\n"
        )
    more = "".join(f"{name}={value}\n" for name, value in settings.items())
    config.write_text(_CONFIG.format(host=HOST, port=port, controller=free_port(), data=data) + more)
    return config


def _kafka_id() -> str:
    """A random id in Kafka's form, which must not start with a dash."""
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _kafka_id() if text.startswith("-") else text


def free_port() -> int:
    """A free port below those that the system gives to outgoing connections: one of these may be connected to
    from itself while nothing listens, which takes it from the broker that is about to.
    """
    ports = random.sample(_PORTS, 100)
    return next((port for port in ports if _refusal(port) is None), ports[0])


def _check_free(port: int) -> None:
    if (refusal := _refusal(port)) is not None:
        raise EnvironmentError_(
            f"{HOST}:{port}: expected a free port, got: {refusal.strerror}; choose another one, or 0 for any"
        ) from refusal


def _refusal(port: int) -> OSError | None:
    """Why a port can't be listened at; None where it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _last_words(log: Path) -> str:
    lines = [
        line.strip()
        for line in log.read_text(errors="replace").splitlines()
        if line.strip() and not line.startswith("\tat ")
    ]
    return lines[-1] if lines else "no word"
