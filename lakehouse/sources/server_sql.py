"""SQL for a source's database: names, literals, what it is, and where its binlog ends."""

from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.lineage import Name
from lakehouse.sources.database import Cells
from lakehouse.sources.dumps.records import BinlogPlace

# In the names of MariaDB's NO PAD collations. A CHAR of one is sorted with the spaces that fill it up, and
# compared without them: 'a' comes behind 'a<tab>', and is less.
NO_PAD = "_nopad_"
# seconds for which a connection stays open that nothing is asked on
STAYS_OPEN = 7 * 86_400


class Asks(Protocol):
    """A connection that answers statements with the server's own text (lakehouse/sources/database.py)."""

    def ask(self, sql: str) -> list[Cells]:
        """A statement's rows."""


def word(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def table_name(name: Name) -> str:
    """A table's name with its database."""
    return f"{word(name[0])}.{word(name[1])}"


def literal(text: str) -> str:
    """A string, in which no character has a meaning of its own."""
    return f"_utf8mb4 x'{text.encode().hex()}'" if text else "''"


def printed(name: str, family: str) -> str:
    """A column's value as the server prints it with all digits: of a FLOAT it prints six, of a DOUBLE all."""
    return f"{word(name)} * 1e0" if family == "float" else word(name)


def text(cell: bytes | None) -> str:
    """A cell that is text; NULL as an empty one."""
    return "" if cell is None else cell.decode()


def version_of(database: Asks) -> str:
    """The server's version, as it says it."""
    return text(database.ask("SELECT VERSION()")[0][0])


def variables(database: Asks, names: Collection[str]) -> dict[str, str]:
    """The server's own values of those variables that it has."""
    listed = ", ".join(literal(name) for name in sorted(names))
    rows = database.ask(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})") if names else []
    return {text(name): text(value) for name, value in rows}


def is_tidb(version: str) -> bool:
    """Whether the version is a TiDB's."""
    return "tidb" in version.lower()


def at_tso(tso: int) -> tuple[str, ...]:
    """The statements with which a TiDB's session reads the state at a TSO: of the rows as TiKV stores them,
    for TiFlash computes text in ways of its own, and however long it takes.
    """
    return (
        "SET SESSION tidb_isolation_read_engines = 'tikv,tidb', max_execution_time = 0",
        f"SET SESSION tidb_snapshot = '{int(tso)}'",
    )


def now_kept(database: Asks) -> int:
    """The TSO of a transaction that this begins. While it is open, TiDB keeps what is older from garbage
    collection (for `tidb_gc_max_wait_time`, a day).
    """
    _stay_open(database)
    database.ask("BEGIN")
    return int(text(database.ask("SELECT @@tidb_current_ts")[0][0]))


def keep_tso(database: Asks, tso: int) -> None:
    """Begin a transaction that keeps the state at an earlier TSO, as `now_kept` keeps the present one."""
    _stay_open(database)
    database.ask(f"START TRANSACTION READ ONLY AS OF TIMESTAMP TIDB_PARSE_TSO({int(tso)})")


def _stay_open(database: Asks) -> None:
    database.ask(f"SET SESSION wait_timeout = {STAYS_OPEN}")
    with suppress(LakehouseError):  # releases before 7.6 have no such timeout
        database.ask("SET SESSION tidb_idle_transaction_timeout = 0")


def server_time(database: Asks) -> int:
    """The server's clock, in milliseconds."""
    seconds, _, part = text(database.ask("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]).partition(".")
    return int(seconds) * 1000 + int(part[:3].ljust(3, "0"))


def end_of_binlog(database: Asks) -> BinlogPlace:
    """The place behind all that the server has written to its binlog. EnvironmentError_ where it has none, or
    does not tell the account.
    """
    try:
        rows = database.ask("SHOW BINARY LOG STATUS")  # since MySQL 8.2; 8.4 knows no other
    except LakehouseError:
        rows = database.ask("SHOW MASTER STATUS")
    return binlog_place(*map(text, rows[0][:2])) if rows else binlog_place("", "")


def binlog_place(file: str, offset: str) -> BinlogPlace:
    """A place of the binlog from its texts; EnvironmentError_ where it is none."""
    if not file or not offset.isdigit():
        raise EnvironmentError_(
            "database: expected a server that writes a binlog, and an account that may see its place (GRANT "
            "REPLICATION CLIENT, at MariaDB BINLOG MONITOR), got no place"
        )
    return BinlogPlace(file, int(offset))
