"""A feed of what is run on a real TiDB, at the TSOs of its own clock: what the server has at a TSO and what
the feed has told can be compared.

The server is one that runs: LAKEHOUSE_TEST_TIDB=127.0.0.1:4000 names it, for root without a password. Nothing
on npm or Maven Central brings one.
"""

import os

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.sources.database import SESSION, Database, DatabaseSettings, connect
from tests.oracle.database import Database as Asked
from tests.oracle.program import Program, Step
from tests.oracle.runner import Runner
from tests.support.encode_open import encode, message
from tests.support.live_feed import LiveFeed

VARIABLE = "LAKEHOUSE_TEST_TIDB"
# each process of a run has its own
DATABASE = f"lakehouse_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
# A TiDB without TiKV collects no garbage, and tells no place up to which it has: its sessions read at no TSO
_TELL_COLLECTED = (
    "INSERT IGNORE INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20240101-00:00:00 +0000', 'by a test')"
)


def tidb_settings() -> DatabaseSettings:
    """The TiDB that tests are to use; without one the test is skipped."""
    host, _, port = os.environ.get(VARIABLE, "").partition(":")
    if not host:
        pytest.skip(f"{VARIABLE} names no TiDB (127.0.0.1:4000, say), and the project can't install one")
    settings = DatabaseSettings(host, "root", port=int(port or 4000), tls="off")
    with connect(settings) as server:
        server.execute(_TELL_COLLECTED)
    return settings


def tso_of(database: Asked) -> int:
    """The server's clock, now."""
    database.run("BEGIN")
    ((told,),) = database.ask("SELECT @@tidb_current_ts")
    database.run("COMMIT")
    return int(told)


class TidbRunner(Runner):
    """Runs programs at the server's own times; nobody else writes to its tables."""

    def _tick(self) -> None:
        self.ts = tso_of(self.database)


class TidbFeed(LiveFeed):
    """What has been run so far, as Open Protocol tells it."""

    def __init__(self, settings: DatabaseSettings, name: str = DATABASE) -> None:
        self.settings, self.database, self.format = (
            settings,
            Asked(settings.port, settings.host),
            "ticdc-open",
        )
        self.runner = TidbRunner(self.database, Program(7, strict=False, database=name))
        self.skipped: set[int] = set()
        self._sent: list[Message] = []
        self._told = 0

    def step(self, step: Step) -> "TidbFeed":
        if "ddl" in step:  # or it might have the time of the last row, and a snapshot may lie in between
            self.runner.events.append({"kind": "resolved", "commit_ts": self.runner.ts})
        assert self.runner.step(step), self.runner.why
        return self

    def messages(self) -> list[Message]:
        """In one partition, each event a message, and a resolved one behind what has come since the last
        call. What was sent stays as it was.
        """
        new = [event for event in self.runner.events[self._told :] if event["commit_ts"] not in self.skipped]
        self._told = len(self.runner.events)
        for event in [*new, {"kind": "resolved", "commit_ts": self.runner.ts}]:
            self._sent.append(message([encode(event, event.get("shape"))], "t", 0, len(self._sent)))
        return list(self._sent)

    def unsaid(self, *statements: str) -> "TidbFeed":
        """Run statements that the feed does not tell."""
        with connect(self.settings, (*SESSION, f"USE `{self.database.names[0]}`")) as server:
            for statement in statements:
                run(server, statement)
        self.runner.tables = {
            name: self.database.full(name, shape) for name, shape in self.database.shapes().items()
        }
        return self


def run(server: Database, statement: str) -> None:
    """Execute a statement of a test; its error has the server's own words."""
    try:
        server.begin(statement)
    except LakehouseError as error:
        raise AssertionError(f"{statement}: {error}") from None
