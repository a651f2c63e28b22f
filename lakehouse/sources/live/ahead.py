"""Chunks of a table that are read while an earlier one is, each on a connection of its own.

A chunk is held in memory until those before it have been taken. One that becomes too large for that is cut:
who takes it reads the rest. So no connection waits for another one, and memory does not depend on the rows.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NamedTuple

from lakehouse.sources.database import Cells, Database
from lakehouse.sources.live.servers import Moment, Server

# bytes of cells that a chunk holds
HELD_BYTES = 16 << 20
Connect = Callable[[], AbstractContextManager[Database]]


class Chunk(NamedTuple):
    """The rows of a statement, and the moment that they are of. `is_whole`: it has no more."""

    moment: Moment
    rows: list[Sequence[Cells]]
    is_whole: bool


class Connections:
    """So many connections as a run may have at once. A table takes one, and a chunk that is read ahead."""

    def __init__(self, number: int, connect: Connect) -> None:
        self._free, self.connect = threading.Semaphore(number), connect
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let chunks end that are being read."""
        self._stopped.set()

    def take(self) -> bool:
        """Take a connection, where one is free."""
        return self._free.acquire(blocking=False)

    def give(self) -> None:
        """Give one back."""
        self._free.release()

    def read(self, server: Server, session: Sequence[str], statement: str) -> Future[Chunk]:
        """Read a statement's rows on a connection that was taken, behind those that its session begins with;
        it is given back at the end.
        """
        found = Future[Chunk]()

        def work() -> None:
            try:
                found.set_result(self._read(server, session, statement))
            except BaseException as error:
                found.set_exception(error)
            finally:
                self.give()

        threading.Thread(target=work, daemon=True).start()
        return found

    def _read(self, server: Server, session: Sequence[str], statement: str) -> Chunk:
        rows, held = list[Sequence[Cells]](), 0
        with self.connect() as database:
            for one in session:
                database.execute(one)
            with server.moment(database, first=False) as moment:
                for some in database.stream(statement):
                    rows.append(some)
                    held += sum(len(cell) for row in some for cell in row if cell is not None)
                    if held >= HELD_BYTES or self._stopped.is_set():
                        return Chunk(moment, rows, is_whole=False)
        return Chunk(moment, rows, is_whole=True)


def rows_held(size: int, rows: int, most: int) -> int:
    """How many rows a chunk of a table of about so many bytes and rows may have, to be held whole."""
    return most if size < HELD_BYTES else max(1, min(most, HELD_BYTES * rows // size))
