"""Death at a write: every commit of a run is counted, and the n-th kills, before or after it.

In a test it raises `Killed`, which nothing catches, and no write after it happens: as the lake sees it, the process is dead.
As a script (`killable.py RECORDING FORMAT LAKE`) it runs the three layers, and LAKEHOUSE_KILL_AT=<n> with
LAKEHOUSE_KILL_AFTER=0|1 kills the process itself. The product knows nothing of this.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakehouse.spark.lake import Lake

COMMITS = ("MERGE", "ALTER", "CREATE", "DELETE", "UPDATE", "INSERT")


class Killed(BaseException):
    """The process has died here."""


class Writes:
    """The commits of a run, in order, as (layer, table) or (sql, statement's verb)."""

    def __init__(self, kill_at: int | None, after: bool, die: Callable[[], None]) -> None:
        self.kill_at, self.after, self.die = kill_at, after, die
        self.seen: list[tuple[str, str]] = []
        self.dead = False
        self.lock = threading.Lock()

    def around(self, what: tuple[str, str], write: Callable[[], Any]) -> Any:
        with self.lock:
            mine = not self.dead and self.kill_at == len(self.seen)
            if self.dead or (mine and not self.after):
                self._kill()
            self.seen.append(what)
            result = write()
            if mine:
                self._kill()
            return result

    def _kill(self) -> None:
        self.dead = True
        self.die()
        raise Killed


@contextmanager
def killing(
    session: type[Any], kill_at: int | None = None, after: bool = False, die: Callable[[], None] = lambda: None
) -> Iterator[Writes]:
    """Count the commits made within, and die at one of them. `session` is the class whose `sql` runs statements."""
    writes = Writes(kill_at, after, die)
    save, sql = Lake._save, session.sql

    def counted_save(self: Lake, writer: Any, layer: str, name: str) -> None:
        writes.around((layer, name), lambda: save(self, writer, layer, name))

    def counted_sql(self: Any, query: str, *arguments: Any, **named: Any) -> Any:
        verb = query.split(maxsplit=1)[0].upper()
        if verb not in COMMITS:
            return sql(self, query, *arguments, **named)
        return writes.around(("sql", verb), lambda: sql(self, query, *arguments, **named))

    Lake._save, session.sql = counted_save, counted_sql  # type: ignore[method-assign]
    try:
        yield writes
    finally:
        Lake._save, session.sql = save, sql  # type: ignore[method-assign]


def main() -> None:
    from pyspark.sql import SparkSession

    from lakehouse.spark.pipeline import try_recording

    recording, format_, lake = sys.argv[1:]
    kill_at = os.environ.get("LAKEHOUSE_KILL_AT")
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    with killing(SparkSession, int(kill_at) if kill_at else None, os.environ.get("LAKEHOUSE_KILL_AFTER") == "1", die):
        try_recording(Path(recording), format_, {}, lake, "resolved", print)


if __name__ == "__main__":
    main()
