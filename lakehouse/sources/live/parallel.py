"""Tables read side by side, each worker with a connection of its own, into one stream of records. Connections
that no table needs read chunks of the others ahead.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Any

from lakehouse.events import Message
from lakehouse.sources.database import Database
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.read import TableGone
from lakehouse.sources.live.tables import Listed

# records that wait to be landed
WAITING = 16
# seconds in which a worker that is told to stop does so, but for one that waits for the server
ENDS_WITHIN = 5.0


@dataclass(slots=True)
class Progress:
    """What has been read so far."""

    rows: int = 0
    done: int = 0
    gone: list[str] = field(default_factory=list)


class Pace:
    """At most so many rows a second, of all workers together; None: as fast as it goes."""

    def __init__(self, rows_per_second: int | None, progress: Progress) -> None:
        self.rows_per_second, self.progress = rows_per_second, progress
        self._lock, self._free_at = threading.Lock(), time.monotonic()

    def __call__(self, rows: int) -> None:
        """Count rows, and wait until they may have come."""
        with self._lock:
            self.progress.rows += rows
            if self.rows_per_second is None:
                return
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + rows / self.rows_per_second
            wait = self._free_at - now
        time.sleep(wait)


Read = Callable[[Database, Listed], Iterator[Message]]


class Workers:
    """Threads that read tables. What they find is taken by `messages`; leaving it ends them. `free` are the
    run's connections.
    """

    def __init__(self, tables: list[Listed], free: Connections, read: Read, progress: Progress) -> None:
        self.free, self.read, self.progress = free, read, progress
        self.tables: Queue[Listed] = Queue()
        for table in tables:
            self.tables.put(table)
        self.found: Queue[Any] = Queue(WAITING)
        self.stopped = threading.Event()

    def messages(self) -> Iterator[Message]:
        """The records of all tables; of one table in their order. A worker's error is raised here."""
        threads = list[threading.Thread]()
        while len(threads) < self.tables.qsize() and self.free.take():
            threads.append(threading.Thread(target=self._work, daemon=True))
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                found = self.found.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    running -= 1
                else:
                    yield found
        finally:
            self.stopped.set()
            self.free.stop()
            for thread in threads:
                thread.join(ENDS_WITHIN)

    def _work(self) -> None:
        try:
            with self.free.connect() as database:
                while not self.stopped.is_set():
                    try:
                        table = self.tables.get_nowait()
                    except Empty:
                        break
                    self._table(database, table)
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            self.free.give()

    def _table(self, database: Database, table: Listed) -> None:
        try:
            for message in self.read(database, table):
                if not self._put(message):
                    return
            self.progress.done += 1
        except TableGone as gone:
            self.progress.gone.append(str(gone))

    def _put(self, found: object) -> bool:
        while not self.stopped.is_set():
            try:
                self.found.put(found, timeout=0.2)
                return True
            except Full:
                continue
        return False
