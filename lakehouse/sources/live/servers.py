"""What a server can say of the moment that a SELECT sees.

    MariaDB   a consistent snapshot tells the binlog's place that it is of, and so are the rows read in it
    TiDB      all of a run is read at one TSO, which an open transaction keeps from garbage collection
    MySQL     a place before a SELECT, and one after it: what is read may show what was committed in between

No lock is taken that a writer would wait for.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.sources.dumps.records import Place, Tso
from lakehouse.sources.live.prepared import GIVES_UP_AFTER, wait_for_prepared, xa_state
from lakehouse.sources.server_sql import Asks as Answers
from lakehouse.sources.server_sql import (
    at_tso,
    binlog_place,
    end_of_binlog,
    is_tidb,
    now_kept,
    text,
    version_of,
)

# seconds in which a transaction that is in MySQL's binlog has also become visible, where no GTIDs tell
COMMITS_WITHIN = 3.0
# what a SELECT sees has been committed, whatever the server's own level is
_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GTID = re.compile(rf"({_UUID}(?::[A-Za-z_]\w*)?)?:(\d+)#", re.A)
# a sort compares values to their ends: by a key that has a prefix alone, rows are sorted to be read in order
_WHOLE_SORT = "SET SESSION max_sort_length = 8388608"


class Asks(Answers, Protocol):
    """A connection, as far as this module needs it."""

    def execute(self, sql: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the server. `exact`: what is read in it is of that place, and shows nothing later."""

    place: Place
    exact: bool


class Server(Protocol):
    """One kind of server. `session` are the statements that a connection which reads begins with."""

    name: str
    session: tuple[str, ...]

    def moment(self, database: Asks, *, first: bool) -> AbstractContextManager[Moment]:
        """A moment for as long as the block lasts; what the block reads is of it, or later. `first`: rows
        will stand at its place, below what was changed from there on.
        """


class MariaDbServer:
    """MariaDB's START TRANSACTION WITH CONSISTENT SNAPSHOT, whose place SHOW STATUS tells."""

    name = "MariaDB"
    session: tuple[str, ...] = (_COMMITTED, _WHOLE_SORT)

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    @contextmanager
    def moment(self, database: Asks, *, first: bool) -> Iterator[Moment]:
        before = xa_state(database) if first else None
        if before is not None and before.was_used:
            self._sleep(COMMITS_WITHIN)  # until an XA PREPARE that had begun is in its state
        database.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            if before is None or (not before.prepared and xa_state(database) == before):
                told = {text(name).lower(): text(value) for name, value in database.ask(_SNAPSHOT_PLACE)}
                file, offset = told.get("binlog_snapshot_file", ""), told.get("binlog_snapshot_position", "")
                yield Moment(binlog_place(file, offset), exact=True)
                return
        finally:
            _rolled_back(database)
        # its rows would lack those of XA transactions that are prepared: they are of later, as at MySQL
        place = end_of_binlog(database)
        self._sleep(COMMITS_WITHIN)
        wait_for_prepared(database, self._sleep)
        yield Moment(place, exact=False)


class TiDbServer:
    """One TSO for all. `tso` is that of a transaction that stays open: while it is, TiDB keeps what is older
    (for `tidb_gc_max_wait_time`, a day).
    """

    name = "TiDB"

    def __init__(self, tso: int) -> None:
        self.tso = tso
        self.session: tuple[str, ...] = at_tso(tso)

    @contextmanager
    def moment(self, database: Asks, *, first: bool) -> Iterator[Moment]:
        yield Moment(Tso(self.tso), exact=True)


class MySqlServer:
    """MySQL tells the end of its binlog. A transaction is in it before others see its rows: the place counts
    once all that was there has become visible. Each table has a place of its own, taken once its definition
    is known: below an earlier one there may be a statement on it that its rows already follow.
    """

    name = "MySQL"
    session: tuple[str, ...] = (_COMMITTED, _WHOLE_SORT)

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    @contextmanager
    def moment(self, database: Asks, *, first: bool) -> Iterator[Moment]:
        place = end_of_binlog(database)
        if first:
            self._settle(database)
            wait_for_prepared(database, self._sleep)
        yield Moment(place, exact=False)

    def _settle(self, database: Asks) -> None:
        """Wait for the transactions that were in the binlog and not committed."""
        owned = self._owned(database)
        if owned is None:
            seconds = max(COMMITS_WITHIN, _semisync_seconds(database))
            if seconds > GIVES_UP_AFTER:
                raise EnvironmentError_(
                    "database: expected transactions in its binlog to be committed within a minute, got a "
                    f"timeout of semi-synchronous replication of {seconds:.0f} s; with GTIDs the server "
                    "tells which are"
                )
            self._sleep(seconds)
            return
        waited = 0.0
        while owned and owned & (self._owned(database) or set()):
            if waited > GIVES_UP_AFTER:
                raise EnvironmentError_(
                    "database: expected transactions in its binlog to be committed within a minute, got some "
                    "that are not (gtid_owned): is a replica of semi-synchronous replication away?"
                )
            self._sleep(0.05)
            waited += 0.05

    def _owned(self, database: Asks) -> set[tuple[str, str]] | None:
        """The GTIDs of transactions that are being committed; None where the server gives none."""
        rows = database.ask("SHOW GLOBAL VARIABLES LIKE 'gtid\\_mode'")
        if not rows or text(rows[0][1]).upper() != "ON":
            return None
        # SHOW cuts a long list off
        return _gtids(text(database.ask("SELECT @@GLOBAL.gtid_owned")[0][0]))


def _gtids(owned: str) -> set[tuple[str, str]]:
    """The GTIDs of gtid_owned, `uuid:1#7:2#8uuid:1#9`: each UUID stands before the first of its numbers
    alone.
    """
    found, source = set[tuple[str, str]](), ""
    for named, number in _GTID.findall(owned):
        source = named or source
        found.add((source, number))
    return found


def identity_of(database: Asks, name: str) -> tuple[str, ...]:
    """What tells the server behind a connection from another one; nothing at TiDB, whose servers show one
    state.
    """
    if name == TiDbServer.name:
        return ()
    return tuple(map(text, database.ask("SELECT @@hostname, @@port, @@server_id")[0]))


def refuse_another(known: tuple[str, ...], database: Asks, name: str) -> None:
    """LakehouseError where a connection leads to another server than the one that is `known`: its rows are of
    no place in that one's binlog.
    """
    found = identity_of(database, name)
    if found != known:
        raise LakehouseError(
            f"database: expected one server behind its name, got {' '.join(known)} and {' '.join(found)} "
            "(host, port, server id): places in their binlogs can't be compared; let `database:` name the "
            "server whose binlog the feed reads"
        )


_SNAPSHOT_PLACE = "SHOW STATUS WHERE Variable_name IN ('Binlog_snapshot_file', 'Binlog_snapshot_position')"


@contextmanager
def server_of(database: Asks) -> Iterator[Server]:
    """The server behind a connection, which must stay open and unused for as long as the block lasts: at TiDB
    it holds the moment of all that is read.
    """
    version = version_of(database)
    if is_tidb(version):
        tso = now_kept(database)
        if tso <= 0:
            raise EnvironmentError_("database: expected the TSO of a transaction, got none")
        yield TiDbServer(tso)
    elif "mariadb" in version.lower():
        yield MariaDbServer()
    else:
        yield MySqlServer()


def _semisync_seconds(database: Asks) -> float:
    """How long a transaction in the binlog may wait for a replica before others see it."""
    rows = database.ask("SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'rpl\\_semi\\_sync\\_%\\_timeout'")
    return max((int(text(value)) / 1000 + 1 for _, value in rows), default=0.0)


def _rolled_back(database: Asks) -> None:
    """End a transaction; one whose connection is gone has ended."""
    with suppress(LakehouseError):
        database.execute("ROLLBACK")
