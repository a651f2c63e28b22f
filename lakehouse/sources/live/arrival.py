"""Snapshots joined to a feed that tells no places of the server's binlog, only its messages in their order:
where a table's rows stand among them, and from where on they are what the feed says.

    end of the topic, server's clock      the table's place: rows stand below the messages from there on
    SELECT, chunk by chunk
    a message of a statement that began   the table is exact from it on: the feed has told all that any
    after the last SELECT                 SELECT saw

The feed is behind the server, so messages from the place on may tell what the rows show already, or what
they show more of. That is no harm to a row that is told whole, by its key: the last message that tells of it
decides, and of a row that none tells of, nothing changed. It is harm to a statement, which would be executed
on a definition that has it already: such a table is read again.

That the feed has come past a SELECT is seen by the time at which its statements began, which is told by the
clock of the server that wrote them. A statement that began after the SELECT has a later place in the binlog
than all that the SELECT saw, however long others took. Clocks may differ by `CLOCKS_WITHIN`; a message that
shows that they differ by more is an error.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.formats.binlog import file_number
from lakehouse.formats.row import Logged
from lakehouse.lineage import Name
from lakehouse.sources.dumps.records import BinlogPlace, TopicPlace
from lakehouse.sources.live.prepared import GIVES_UP_AFTER
from lakehouse.sources.live.servers import Asks, MariaDbServer, Moment, MySqlServer
from lakehouse.sources.server_sql import end_of_binlog, server_time

# milliseconds by which the clock that the feed's statements began by may differ from the server's
CLOCKS_WITHIN = 10_000
# seconds in which a feed that is sent at all tells something
QUIET_FOR = 120.0
_PAUSE = 0.5


class Feed(Protocol):
    """The one partition of a topic that a feed comes in."""

    def end(self) -> TopicPlace:
        """The offset behind its last message. LakehouseError where the topic is no longer the same."""

    def read(self, first: int, end: int) -> Iterator[tuple[int, Logged]]:
        """What its messages of offsets [first, end) tell of the binlog, with their offsets."""


class CaughtUp(NamedTuple):
    """Where a feed has come past a moment: at the message of this offset. `statements` are the DDLs below."""

    offset: int
    statements: tuple[tuple[int, Logged], ...]


class ArrivalServer:
    """A MySQL or MariaDB whose moments are told by the end of its feed's topic. All that the topic has at the
    first moment of a table is visible to it.
    """

    def __init__(
        self,
        server: MariaDbServer | MySqlServer,
        end: Callable[[], TopicPlace],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name, self.session = server.name, server.session
        self._server, self._end, self._sleep = server, end, sleep

    @contextmanager
    def moment(self, database: Asks, *, first: bool) -> Iterator[Moment]:
        # the clock is read last: it is later than the table's definition, and than all in the topic
        place = self._end()
        if not first:
            yield Moment(place, exact=False)
            return
        place = place._replace(time=server_time(database))
        written, waited = end_of_binlog(database), 0.0
        while True:
            with self._server.moment(database, first=True) as found:
                if not found.exact or _is_past(found.place, written):
                    yield Moment(place, exact=False)
                    return
            if waited > GIVES_UP_AFTER:
                raise EnvironmentError_(
                    "database: expected transactions in its binlog to be committed within a minute, got some "
                    "that are not"
                )
            self._sleep(0.05)
            waited += 0.05


def _is_past(place: object, written: BinlogPlace) -> bool:
    assert isinstance(place, BinlogPlace)
    return (file_number(place.file), place.offset) >= (file_number(written.file), written.offset)


def caught_up(
    feed: Feed,
    first: int,
    clock: Callable[[], int],
    told: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> CaughtUp:
    """Wait until the feed has come past now; its messages are read from the offset `first` on. LakehouseError
    where it tells nothing more, or its clock is not the server's.
    """
    statements, newest, quiet, since = list[tuple[int, Logged]](), 0, 0.0, 0
    while True:
        end, now = feed.end().offset, clock()
        since = since or now
        found, heard = None, False
        for offset, logged in feed.read(first, end):
            heard = True
            newest = max(newest, logged.time)
            # the messages of the first look were sent before `since`: none of them is found here
            if found is None and logged.time > since + CLOCKS_WITHIN:
                found = offset
            if found is None and logged.ddl is not None:
                statements.append((offset, logged))
        _refuse_other_clock(newest, now)
        if found is not None:
            return CaughtUp(found, tuple(statements))
        quiet = 0.0 if heard else quiet + _PAUSE
        if quiet > QUIET_FOR:
            raise _quiet(newest, since)
        first = max(first, end)
        told(_behind(newest, since))
        sleep(_PAUSE)


def _refuse_other_clock(newest: int, now: int) -> None:
    if newest > now + CLOCKS_WITHIN:
        raise LakehouseError(
            f"database: expected the server whose clock the feed's statements are of, got one that is at "
            f"{_clock(now)} where the feed tells of {_clock(newest)}: nothing tells when the feed has come "
            "past a SELECT; let `database:` name the server whose binlog the feed reads, and set its clock "
            "by its primary's"
        )


def _quiet(newest: int, since: int) -> LakehouseError:
    return LakehouseError(
        f"database: expected the feed to tell of a statement that began after the tables were read, at "
        f"{_clock(since)}, got nothing for two minutes ({_behind(newest, since)}): without one it is not "
        "known whether it has told all that they show; run the command again, which goes on, when something "
        "has been written that the feed carries"
    )


def _behind(newest: int, since: int) -> str:
    if not newest:
        return "the feed has told nothing since the tables were begun"
    return f"the feed has come to {_clock(newest)}, the tables are of {_clock(since)}"


def _clock(millis: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(millis / 1000))


def is_overtaken(name: Name, first: int, read_at: int, told: CaughtUp) -> bool:
    """Whether a statement on the table comes behind its place, at the offset `first`, and may have been
    executed by the time `read_at`, when all of its rows and its definition had been read: the rows may be of
    before it, or the definition of after it.
    """
    return any(
        offset >= first and logged.time <= read_at + CLOCKS_WITHIN and _may_name(logged.ddl or "", name)
        for offset, logged in told.statements
    )


def _may_name(ddl: str, name: Name) -> bool:
    """Whether a statement may be one on the table: it has the table's name in it, or is on a whole database,
    or its text is not told.
    """
    words, wanted = (text.replace("`", "").casefold() for text in (ddl, name[1]))
    return (
        not words
        or re.search(rf"(?<![\w$]){re.escape(wanted)}(?![\w$])|\bdatabase|\bschema", words) is not None
    )
