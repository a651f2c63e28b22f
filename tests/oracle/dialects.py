"""What a server has of what programs use, by its version, and whose rules of conversion hold there."""

import re
from dataclasses import dataclass

_MARIADB = "mariadb 11.4"


@dataclass(frozen=True)
class Dialect:
    """`rules` is the option `server` of a source. The others say whether the server has JSON columns,
    generated columns, DEFAULT (expression), RENAME COLUMN, conditions in ALTER (IF EXISTS), columns that
    exchange names in one ALTER, CREATE TABLE AS SELECT, and MariaDB's own settings.
    """

    rules: str = _MARIADB
    documents: bool = True
    generated: bool = True
    expressions: bool = True
    renames: bool = True
    conditions: bool = True
    exchanges: bool = True
    selects: bool = True

    @property
    def is_tidb(self) -> bool:
        return self.rules == "tidb"

    @property
    def is_mariadb(self) -> bool:
        return self.rules.startswith("mariadb")


MARIADB = Dialect()
TIDB = Dialect("tidb", expressions=False, exchanges=False, selects=False)


def dialect_of(version: str) -> Dialect:
    """By what `SELECT VERSION()` says: `11.4.5-MariaDB-log`, `5.6.24-log`, `8.0.11-TiDB-v8.5.3`. Each of
    MySQL's features came with a version.
    """
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if "mariadb" in version.lower():
        return Dialect(f"mariadb {numbers[0]}.{numbers[1]}")
    if "tidb" in version.lower():
        return TIDB
    return Dialect(
        f"mysql {numbers[0]}.{numbers[1]}",
        documents=numbers >= (5, 7, 8),
        generated=numbers >= (5, 7, 6),
        expressions=numbers >= (8, 0, 13),
        renames=numbers >= (8, 0, 3),
        conditions=False,
    )
