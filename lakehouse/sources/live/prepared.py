"""XA transactions that are prepared and not yet committed.

Their rows are in the binlog from XA PREPARE on, and no SELECT sees them before XA COMMIT, which logs none. Of
a place between the two, a snapshot would have them neither among its rows nor in the feed behind it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.sources.database import Cells
from lakehouse.sources.server_sql import Asks, text

# seconds after which one that stays prepared says that something is wrong
GIVES_UP_AFTER = 60.0
_COUNTS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_xa_prepare', 'Com_xa_commit', 'Com_xa_rollback')"


@dataclass(frozen=True, slots=True)
class XaState:
    """How often the server was asked to prepare, commit and roll back, and the transactions that are
    prepared. Two equal states without any: none was prepared in between, but by a statement that had begun
    before.
    """

    counts: tuple[tuple[str, int], ...]
    prepared: frozenset[Cells]

    @property
    def was_used(self) -> bool:
        """Whether there have been such transactions since the server began."""
        return bool(self.prepared) or any(count for _, count in self.counts)


def xa_state(database: Asks) -> XaState:
    """The state of a server now. EnvironmentError_ where it has such transactions and does not list them."""
    counts = tuple(sorted((text(name), int(text(count))) for name, count in database.ask(_COUNTS)))
    try:
        return XaState(counts, frozenset(database.ask("XA RECOVER")))
    except LakehouseError as error:
        state = XaState(counts, frozenset())
        if not state.was_used:
            return state
        raise EnvironmentError_(
            "database: expected to be told which XA transactions are prepared, for their rows are in the "
            f"binlog and seen by no SELECT, got none (GRANT XA_RECOVER_ADMIN): {error}"
        ) from None


def wait_for_prepared(database: Asks, sleep: Callable[[float], None]) -> None:
    """Wait until those that are prepared now have been committed or rolled back. EnvironmentError_ where one
    stays.
    """
    waited, left = 0.0, xa_state(database).prepared
    while left:
        if waited > GIVES_UP_AFTER:
            raise EnvironmentError_(
                "database: expected XA transactions to be committed or rolled back within a minute, got some "
                "that stay prepared (XA RECOVER lists them): their rows are in the binlog, and no SELECT "
                "sees them; commit them or roll them back first"
            )
        sleep(0.05)
        waited += 0.05
        left &= xa_state(database).prepared
