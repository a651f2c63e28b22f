"""Where the messages of the feed come from: our encoder, a real Debezium connector, or a real Canal."""

import threading
from contextlib import suppress
from pathlib import Path

from lakehouse.errors import EnvironmentError_
from lakehouse.events import Message
from tests.producers.canal_server import Canal, Place
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

    format, topics, options = "debezium", r"s\..*", "{}"

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

    def close(self) -> None:
        """There is nothing to end."""


class Streamed:
    """What a connector reads from the binlog. It knows of no rows from before it was started first."""

    format, topics = "debezium", r"shop(\..*)?"
    options = "{server: mariadb, binlog_transaction_compression: true}"

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

    def close(self) -> None:
        """End the connector."""
        self._connector.stop()

    def _wait(self, seconds: float) -> None:
        """Until the end of a transaction of one's own has come."""
        self._marks += 1
        self._busy.run(f"INSERT INTO mark VALUES ({self._marks}, 'mark')")
        self._connector.wait(b'"shop.mark"', seconds)


class Captured:
    """What a Canal makes of the binlog of a MySQL, in protobuf. It begins where the binlog ends."""

    format, topics, options = "canal-protobuf", "example", "{server: mysql 5.6}"

    def __init__(self, busy: BusyServer, folder: Path, port: int) -> None:
        self._busy, self._marks, self._lock = busy, 0, threading.Lock()
        busy.run("CREATE TABLE mark (id int NOT NULL PRIMARY KEY, v varchar(20))")
        file, offset = busy.place()
        settings = {
            "canal.instance.master.journal.name": file,
            "canal.instance.master.position": str(offset),
            "outputs": "protobuf",
            "protobuf.flat": "false",
        }
        self._canal = Canal(folder, port, settings, "UTC")
        self._canal.start()

    def told(self) -> list[Message]:
        """Messages that have not been forgotten."""
        self._busy.messages.clear()
        with self._lock:
            return [one.message for one in self._canal.sent("protobuf")]

    def forget(self, count: int) -> None:
        """The first ones are in the broker."""
        with self._lock:
            del self._canal.sent("protobuf")[:count]

    def catch_up(self) -> None:
        """Wait until Canal has sent all that has been committed: what stands behind it has come."""
        file, offset = self._busy.place()
        self._marks += 1
        self._busy.run(f"INSERT INTO mark VALUES ({self._marks}, 'mark')")
        place: Place = (int(file.rpartition(".")[2]), offset)
        with self._lock:
            if not self._canal.wait(place):
                raise EnvironmentError_(f"expected Canal to reach {place}, got one that retries in vain")

    def kill(self) -> bool:
        """SIGKILL Canal, and start it again: it goes on where its cursor was written last."""
        with self._lock:
            self._canal.stop(at_once=True)
            self._canal.start()
        return True

    def close(self) -> None:
        """End Canal."""
        self._canal.stop()
