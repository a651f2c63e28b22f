"""What binlogs tell: a file's number, whose binlog a change was read from, whose server it is, rollbacks."""

import functools
import re

from lakehouse.errors import DecodeError

# an XA transaction's rows are logged when it is prepared, those of one that did what no rollback undoes at
# its end: a rollback behind them undoes what was sent
ROLLED_BACK = "a transaction was rolled back after its rows had been sent, and nothing tells which they are"
# a server id, and the base name of its binlog's files
Server = tuple[int, str]
_MARIADB_GTID = re.compile(r"\d+-\d+-\d+", re.A)
# what may stand before a statement: blanks, and comments that no server executes
COMMENTS = r"(?:\s|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|(?:--|#)[^\n]*\n)*"
_UNDOES = re.compile(r"\s*(?:XA\s+)?ROLLBACK\b(?!\s+(?:WORK\s+)?TO\b)", re.I)
_MYSQL_GTID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:", re.I | re.A)


@functools.lru_cache(maxsize=4096)
def server_of(server_id: int | None, file: str) -> Server | None:
    """Who wrote a streamed event; None where the id says nothing. DecodeError for one that no server has."""
    if server_id is not None and not 0 <= server_id < 1 << 63:
        raise DecodeError("position", "server id: expected a number of up to 63 bits, got another one")
    return (server_id, file.rpartition(".")[0]) if server_id else None


@functools.lru_cache(maxsize=4096)
def server_of_snapshot(file: str, offset: int) -> Server:
    """What stands for the server of a full snapshot, whose rows name none: a negative id of its own place. No
    connector takes one below what it has sent, unless the binlog began anew or is another one.
    """
    return -1 - ((file_number(file) << 33) + offset) % (1 << 62), file.rpartition(".")[0]


def file_number(file: str) -> int:
    """The running number of a binlog file: `mysql-bin.000012` is 12. DecodeError for another name."""
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise DecodeError("position", "binlog file: expected a name that ends in a number, got another")
    return int(digits)


def rules_of_gtid(gtid: str | None) -> str | None:
    """Whose the server is: a GTID is domain-server-sequence at MariaDB, UUID:number at MySQL."""
    if not gtid:
        return None
    return "mariadb" if _MARIADB_GTID.match(gtid) else "mysql" if _MYSQL_GTID.match(gtid) else None


def undoes(statement: str) -> bool:
    """Whether a statement rolls back a transaction, and not only what came after a savepoint."""
    return _UNDOES.match(statement) is not None
