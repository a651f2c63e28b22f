"""Where the messages of the feed come from: our encoder, or a real Debezium connector."""

import threading
from contextlib import suppress
from pathlib import Path

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from tests.producers.connector import Connector
from tests.producers.debezium_settings import required
from tests.support.busy_server import BusyServer

# the last one with a connector for MariaDB on Maven Central
_RELEASE = "3.5.0.Final"
_SETTINGS = {
    "snapshot.mode": "no_data",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}


class Encoded:
    """What Debezium would send of the writer's changes."""

    topics, options = r"s\..*", "{}"

    def __init__(self, busy: BusyServer) -> None:
        self._busy = busy

    def told(self) -> list[Message]:
        """Messages that have not been forgotten."""
        return list(self._busy.messages)

    def forget(self, count: int) -> None:
        """The first ones are in the broker."""
        del self._busy.messages[:count]

    def catch_up(self) -> None:
        """Messages are there as soon as their changes are."""

    def kill(self) -> bool:
        """There is nothing to kill."""
        return False


class Streamed:
    """What a connector reads from the binlog. It knows of no rows from before it was started first."""

    topics, options = r"shop(\..*)?", "{server: mariadb, binlog_transaction_compression: true}"

    def __init__(self, busy: BusyServer, folder: Path, port: int) -> None:
        self._busy, self._marks, self._lock = busy, 0, threading.Lock()
        busy.run("CREATE TABLE mark (id int NOT NULL PRIMARY KEY, v varchar(20))")
        settings = {**required(folder, port, "mariadb", _RELEASE), **_SETTINGS}
        self._connector = Connector(folder, _RELEASE, "mariadb", settings)
        self._connector.start()
        for _ in range(30):
            with suppress(EnvironmentError_):
                self._wait(5)
                return
        self._wait(5)

    def told(self) -> list[Message]:
        """Messages that have not been forgotten."""
        self._busy.messages.clear()
        with self._lock:
            self._connector.take()
            return list(self._connector.sent)

    def forget(self, count: int) -> None:
        """The first ones are in the broker."""
        with self._lock:
            del self._connector.sent[:count]

    def catch_up(self) -> None:
        """Wait until the connector has sent all that has been committed."""
        self._wait(120)

    def kill(self) -> bool:
        """SIGKILL the connector, and start it again: it sends again what it does not know to be sent."""
        with self._lock:
            self._connector.stop(at_once=True)
            self._connector.start()
        return True

    def _wait(self, seconds: float) -> None:
        """Until the end of a transaction of one's own has come."""
        self._marks += 1
        self._busy.run(f"INSERT INTO mark VALUES ({self._marks}, 'mark')")
        self._connector.wait(b'"shop.mark"', seconds)
