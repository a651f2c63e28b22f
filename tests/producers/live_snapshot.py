"""`lakehouse snapshot` beside a connector: tables of before the feed, read while programs write to them."""

import threading
from collections.abc import Collection

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.read import Reading, TableGone, table_messages
from lakehouse.sources.live.servers import server_of
from lakehouse.sources.live.tables import listed

READ_ROWS = 2  # of one SELECT


class LiveSnapshot:
    """Reads the tables of some databases in a thread; those whose definition keeps changing are `left`."""

    def __init__(self, port: int, databases: Collection[str], run: str) -> None:
        self.run = run
        self.settings = DatabaseSettings("127.0.0.1", "root", port, tls="off")
        self.databases = databases
        self.messages: list[Message] = []
        self.left: list[str] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> list[Message]:
        """The records, once all tables are read."""
        self._thread.join()
        if self.error is not None:
            raise self.error
        return self.messages

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self.error = error

    def _read(self) -> None:
        with (
            connect(self.settings) as held,
            server_of(held) as server,
            connect(self.settings, (*SESSION, *server.session)) as database,
        ):
            tables = [one for one in listed(database) if one.name[0] in self.databases]
            reading = Reading(
                run=self.run,
                tables=len(tables),
                epoch=0,
                placed=lambda place: place_in("debezium", "binlog", place, "shop"),
                chunk_rows=READ_ROWS,
            )
            for table in tables:
                try:
                    self.messages += table_messages(database, server, table, reading)
                except TableGone:
                    continue
                except LakehouseError as error:
                    self.left.append(str(error))
