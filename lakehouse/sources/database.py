"""Connections to a source's database: a TiDB, MySQL or MariaDB, over MySQL's protocol, to read only.

What a connection gives is the server's own text, as bytes: nothing is converted on the way. Its session
prints TIMESTAMP in UTC and text in utf8mb4, and has no sql_mode that changes what is printed.
"""

import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.errors import EnvironmentError_

if TYPE_CHECKING:
    from pymysql.connections import Connection as Socket

Tls = Literal["verified", "unverified", "off"]
Cells = tuple[bytes | None, ...]
# seconds: for the connection, and for a server's next packet
CONNECT_TIMEOUT, READ_TIMEOUT = 10, 600
# rows that a stream has in memory at once: the first ones, and at most; of long rows about so many bytes
FIRST, FETCHED, FETCHED_BYTES = 20, 1000, 4 << 20
# TiDB's errors of a TSO below what garbage collection has kept: where a session asks for it, where it reads
_TOO_OLD, _COLLECTED = 8055, 9006
# Not in sql_mode: PAD_CHAR_TO_FULL_LENGTH, ANSI_QUOTES and others that change what SELECT and SHOW CREATE
# TABLE print. ALLOW_INVALID_DATES lets a date such as 2024-02-30 that the server holds be compared with. A
# server's own sql_select_limit would leave out rows in silence.
SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', sql_quote_show_create = 1, "
    f"sql_select_limit = {2**64 - 1}, net_write_timeout = {READ_TIMEOUT}",
)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where a source's database is, and who reads it. Its text does not show the password. `tls`: verified
    (by the system's certificate authorities or those of the file `ca`, with the host's name), unverified
    (encrypted only), or off.
    """

    host: str
    user: str
    port: int = 3306
    password: str = field(default="", repr=False)
    tls: Tls = "verified"
    ca: str | None = None

    @property
    def address(self) -> str:
        """Host and port, as errors show them."""
        return f"{self.host}:{self.port}"


class DatabaseError(EnvironmentError_):
    """A statement that the server refused; `code` is its error number, 0 where there was no answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Database:
    """An open connection. Errors name the server and its error code, never a statement, which may hold
    values.
    """

    def __init__(self, socket: "Socket[Any]", settings: DatabaseSettings) -> None:
        self._socket, self.settings = socket, settings

    def execute(self, sql: str, values: Sequence[object] = ()) -> None:
        """Execute a statement whose result is not needed."""
        self.ask(sql, values)

    def begin(self, sql: str) -> None:
        """Execute a statement that a session begins with. It has no values of rows: an error has the server's
        own words.
        """
        with self._errors(sql), self._socket.cursor() as cursor:
            cursor.execute(sql)

    def ask(self, sql: str, values: Sequence[object] = ()) -> list[Cells]:
        """A statement's rows; `values` stand where it has %s, quoted for the server."""
        with self._errors(), self._socket.cursor() as cursor:
            cursor.execute(sql, tuple(values) or None)
            return list(cursor.fetchall())

    def stream(self, sql: str, values: Sequence[object] = ()) -> Iterator[Sequence[Cells]]:
        """A statement's rows as the server sends them, some at a time. Nothing else can be asked until the
        last one has been taken; who stops before closes the connection by that.
        """
        from pymysql.cursors import SSCursor

        cursor = self._socket.cursor(SSCursor)
        try:
            with self._errors():
                cursor.execute(sql, tuple(values) or None)
            size = FIRST
            while rows := self._fetched(cursor, size):
                yield rows
                size = next_size(rows)
        finally:
            self._end(cursor)

    def _fetched(self, cursor: Any, size: int) -> Sequence[Cells]:
        with self._errors():
            rows: Sequence[Cells] = cursor.fetchmany(size)
            return rows

    def _end(self, cursor: Any) -> None:
        """Let go of a stream. PyMySQL would read an unfinished one to its end, whatever its size."""
        result = cursor._result
        if result is not None and result.unbuffered_active:
            result.unbuffered_active, result.connection, cursor.connection = False, None, None
            self.close()

    def close(self) -> None:
        """Close it without waiting for what the server still sends."""
        self._socket._force_close()

    @contextmanager
    def _errors(self, told: str | None = None) -> Iterator[None]:
        """Errors of a statement as DatabaseErrors; of one that may be `told` with the server's own words."""
        from pymysql.err import Error

        try:
            yield
        except (Error, OSError) as error:
            number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
            wanted, text = "an answer", _name_of(number) or type(error).__name__
            if told is not None:
                wanted, text = f"a session that begins with {told}", _reason(error)
            raise DatabaseError(
                f"database {self.settings.address}: expected {wanted}, got {text}{_garbage_advice(error)}",
                number,
            ) from None


def next_size(rows: Sequence[Cells]) -> int:
    """How many rows to fetch next, by the length of some of these."""
    some = rows[:: max(1, len(rows) // FIRST)]
    length = sum(len(cell) for row in some for cell in row if cell is not None)
    return max(1, min(FETCHED, FETCHED_BYTES * len(some) // max(1, length)))


@contextmanager
def connect(settings: DatabaseSettings, session: Iterable[str] = SESSION) -> Iterator[Database]:
    """A connection for as long as the block lasts, in autocommit, after the statements of `session`.
    EnvironmentError_ where there is none to be had, with what to do; it never shows the password.
    """
    database = Database(_socket(settings), settings)
    try:
        for statement in session:
            database.begin(statement)
        yield database
    finally:
        database.close()


def _socket(settings: DatabaseSettings) -> "Socket[Any]":
    try:
        import pymysql
    except ModuleNotFoundError:
        raise EnvironmentError_(
            "pymysql: expected it to be installed, found none; pip install 'lakehouse-cdc[database]'"
        ) from None
    # PyMySQL writes values by the types of Python among the converters, and reads by the numbers among them
    written = {
        kind: convert for kind, convert in pymysql.converters.conversions.items() if type(kind) is not int
    }
    try:
        return pymysql.connect(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            password=settings.password.encode(),
            charset="utf8mb4",
            use_unicode=False,
            conv=written,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            ssl=_tls(settings),
            ssl_disabled=settings.tls == "off",
            program_name="lakehouse",
        )
    except (pymysql.err.Error, OSError, RuntimeError) as error:
        text, advice = _reason(error), _advice(error)
        raise EnvironmentError_(
            f"database {settings.address}: expected a connection as {settings.user}, got: {text}{advice}"
        ) from None


def _tls(settings: DatabaseSettings) -> ssl.SSLContext | None:
    if settings.tls == "off":
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except OSError as error:
        raise EnvironmentError_(
            f"{settings.ca}: expected a file of PEM certificates, got {error.strerror or 'another'}"
        ) from None
    if settings.tls == "unverified":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _reason(error: Exception) -> str:
    """What the server or the network says of a connection. The server's own text has no password."""
    if isinstance(error, RuntimeError):
        return "a login that needs the server's RSA key"
    parts = [str(part) for part in error.args]
    return f"{' '.join(parts[1:])} ({parts[0]})" if len(parts) > 1 else "".join(parts) or "no answer"


def _advice(error: Exception) -> str:
    text = " ".join(map(str, error.args))
    if isinstance(error, RuntimeError) or "SSL" in text or "certificate" in text:
        return (
            "; choose database.tls: verified (database.ca names the file of its authority), unverified or off"
        )
    if "1045" in text or "Access denied" in text:
        return "; check database.user and database.password, and GRANT SELECT, REPLICATION CLIENT"
    return "; check database.host and database.port" if "connect" in text.lower() else ""


def _garbage_advice(error: Exception) -> str:
    """What to do where TiDB no longer has the state at a TSO, or can't tell whether it has."""
    if error.args and error.args[0] in (_TOO_OLD, _COLLECTED):
        return "; TiDB keeps no state that is older than tidb_gc_life_time: set it above what a run takes"
    if "tikv_gc_safe_point" in str(error.args):
        return "; a TiDB that is new tells none until its first garbage collection (tidb_gc_run_interval)"
    return ""


def _name_of(number: int) -> str:
    """An error's number and name in MySQL's terms; its text may hold values."""
    from pymysql.constants import CR, ER

    names = (name for known in (ER, CR) for name, value in vars(known).items() if value == number)
    name = next((name for name in names if name.isupper()), None)
    return "" if not number else f"error {number} ({name})" if name else f"error {number}"
