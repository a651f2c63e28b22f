"""What a server says of its tables: shapes out of information_schema, rows as cells ({"type", "value",
"num"?}: the server's text).
"""

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from lakehouse import schema
from lakehouse.schema import Index, TableSchema, parse_type
from lakehouse.values.normal_form import single
from tests.oracle.dialects import MARIADB, dialect_of
from tests.oracle.program import CHARSET, OFFSET, STRICT

Name = tuple[str, str]
Cells = dict[str, dict[str, Any]]
_JSON = re.compile(r"json_valid\(`((?:[^`]|``)*)`\)", re.I)


@dataclass(frozen=True)
class Column:
    """A column as the server describes it. `generated` is None, "stored" or "virtual"."""

    name: str
    type: str
    not_null: bool
    charset: str | None
    generated: str | None

    @property
    def base(self) -> str:
        return re.split(r"\W", self.type)[0]


@dataclass(frozen=True)
class Table:
    """A table's state. `indexes` are (name, columns, unique), the primary key left out; `unknown` and `maybe`
    as in a program's step. `computed`: a DDL may have given virtual columns other values, which a feed that
    carries them does not tell.
    """

    columns: tuple[Column, ...]
    primary: tuple[str, ...]
    indexes: tuple[tuple[str, tuple[str, ...], bool], ...]
    rows: tuple[Cells, ...] = ()
    unknown: frozenset[str] = frozenset()
    maybe: bool = False
    computed: bool = False

    def sent(self) -> tuple[Column, ...]:
        """The columns that a feed carries."""
        return tuple(column for column in self.columns if column.generated != "virtual")

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def handle(self) -> tuple[str, ...]:
        """TiCDC's handle key: the primary key, else the shortest unique index whose columns are all NOT NULL,
        the oldest of those.
        """
        if self.primary:
            return self.primary
        strict = {column.name for column in self.columns if column.not_null}
        fit = [names for _, names, unique in self.indexes if unique and set(names) <= strict]
        return min(fit, key=len, default=())

    def shape(self) -> TableSchema:
        """The schema that a feed's messages are written under."""
        ids = {column.name: number for number, column in enumerate(self.columns, 1)}
        columns = tuple(
            schema.Column(ids[c.name], c.name, parse_type(c.type), c.not_null, generated=c.generated)
            for c in self.columns
        )
        keys = {names: tuple(ids[name] for name in names) for _, names, unique in self.indexes if unique}
        handle = self.handle()
        unique = tuple(sorted(keys.values(), key=lambda key: key != keys.get(handle)))
        indexes = tuple(
            Index(name, tuple(ids[text] for text in names), unique) for name, names, unique in self.indexes
        )
        return TableSchema(columns, tuple(ids[name] for name in self.primary), unique, indexes=indexes)


class Database:
    """One connection to a MariaDB, MySQL or TiDB. Two databases are emptied for each program."""

    def __init__(self, port: int, host: str = "127.0.0.1", user: str = "root", *, password: str = "") -> None:
        self.connection: Any = pymysql.connect(
            host=host, port=port, user=user, password=password, charset="utf8mb4", autocommit=True, conv={}
        )
        self.cursor = self.connection.cursor()
        told = str(self.ask("SELECT VERSION()")[0][0])
        # a MariaDB that tests let pass for a TiDB says another version
        passes = "mariadb" not in told.lower() and bool(self.ask("SHOW VARIABLES LIKE 'alter_algorithm'"))
        self.dialect = MARIADB if passes else dialect_of(told)

    def begin(self, database: str, strict: bool) -> None:
        self.names = (database, f"{database}_2")
        for name in self.names:
            self.cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")
            self.cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET {CHARSET} COLLATE utf8mb4_bin")
        self.resume(self.names, strict)

    def resume(self, names: tuple[str, str], strict: bool) -> None:
        """The session that programs have in these databases."""
        self.names = names
        self.cursor.execute(f"USE `{names[0]}`")
        mode = STRICT if strict else ""
        # in place, a lax MariaDB turns NULL into the column's former default where a copy gives the type's
        # zero
        if self.dialect.is_tidb:
            copies = "tidb_opt_fix_control=''"
        elif self.dialect.is_mariadb:
            copies = f"alter_algorithm='{'DEFAULT' if strict else 'COPY'}'"
        else:
            copies = f"old_alter_table={int(not strict)}"
        self.cursor.execute(
            f"SET {copies}, sql_mode='{mode}', time_zone='{OFFSET}', "
            "foreign_key_checks=0, timestamp=1700000000"
        )

    def run(self, sql: str) -> str | None:
        """Execute a statement; the server's refusal, or None."""
        try:
            self.cursor.execute(sql)
        except pymysql.err.MySQLError as error:
            return str(error)
        return None

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(sql)
        return list(self.cursor.fetchall())

    def shapes(self) -> dict[Name, Table]:
        """Every table of the two databases, without its rows."""
        mine = ",".join(f"'{name}'" for name in self.names)
        columns, keys = defaultdict(list), defaultdict(lambda: defaultdict(list))  # type: ignore[var-annotated]
        documents = self._documents(mine)
        for db, table, name, type_, nullable, charset, extra in self.ask(
            "SELECT c.table_schema, c.table_name, column_name, column_type, is_nullable, "
            "character_set_name, extra "
            "FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, "
            "table_name) "
            f"WHERE c.table_schema IN ({mine}) AND table_type = 'BASE TABLE' ORDER BY 1, 2, ordinal_position"
        ):
            generated = "virtual" if "VIRTUAL" in extra else "stored" if "STORED" in extra else None
            told = "json" if (db, table, name) in documents else type_
            # MySQL before 8.0.29 calls it so
            charset = "utf8mb3" if charset == "utf8" else charset
            columns[db, table].append(Column(name, told, nullable == "NO", charset, generated))
        for db, table, index, loose, name in self.ask(self._indexes(mine)):
            keys[db, table][index, int(loose)].append(name)
        return {name: _table(found, keys[name]) for name, found in columns.items()}

    def _indexes(self, mine: str) -> str:
        """TiDB's own list tells their age, by which TiCDC chooses."""
        if self.dialect.is_tidb:
            told, name, order = "tidb_indexes", "key_name", "index_id, seq_in_index"
            mine += ") AND (expression IS NULL OR expression = 'NULL'"
        else:
            told, name, order = "statistics", "index_name", "1, 2, seq_in_index"
        return (
            f"SELECT table_schema, table_name, {name}, non_unique, column_name "
            f"FROM information_schema.{told} WHERE table_schema IN ({mine}) ORDER BY {order}"
        )

    def last_job(self) -> int:
        """The number of the last DDL job of TiDB's in the two databases."""
        return max((number for number, _, _ in self.jobs(0)), default=0)

    def jobs(self, above: int) -> list[tuple[int, str, str]]:
        """TiDB's DDL jobs in the two databases that were done above a number: (number, database, table in
        lower case), in their order. What makes no job, no change feed tells.
        """
        found = self.ask("ADMIN SHOW DDL JOBS 30")
        done = {
            int(number): (int(number), str(db), str(table).lower())
            for number, db, table, *_, state, _ in found
            if state == "synced" and int(number) > above and str(db) in self.names
        }
        return [done[number] for number in sorted(done)]

    def _documents(self, mine: str) -> set[tuple[str, str, str]]:
        """JSON columns: to MariaDB they are text with a check."""
        if not self.dialect.is_mariadb:
            return set()
        found = self.ask(
            "SELECT constraint_schema, table_name, check_clause FROM information_schema.check_constraints "
            f"WHERE constraint_schema IN ({mine})"
        )
        return {(db, table, match[1]) for db, table, clause in found if (match := _JSON.fullmatch(clause))}

    def rows(self, name: Name, table: Table) -> tuple[Cells, ...]:
        """All rows, in an order of the server's own."""
        parts = [part for column in table.columns for part in _expressions(column)]
        found = self.ask(f"SELECT {', '.join(parts)} FROM {quoted(name)}")
        return tuple(_cells(table.columns, iter(row)) for row in found)

    def full(self, name: Name, table: Table) -> Table:
        return replace(table, rows=self.rows(name, table))


def quoted(name: Name) -> str:
    return f"`{name[0]}`.{word(name[1])}"


def word(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _table(columns: list[Column], keys: dict[tuple[str, int], list[str]]) -> Table:
    indexes = tuple(
        (name, tuple(names), not loose) for (name, loose), names in keys.items() if name != "PRIMARY"
    )
    return Table(tuple(columns), tuple(keys.get(("PRIMARY", 0), ())), indexes)


def _expressions(column: Column) -> list[str]:
    name = word(column.name)
    match column.base:
        case "bit":
            return [f"{name}+0"]
        case "float":
            return [f"{name}+0e0"]  # a double has all digits that tell floats apart
        case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return [f"HEX({name})"]
        case "enum" | "set":
            return [name, f"{name}+0"]
        case _:
            return [name]


def _cells(columns: tuple[Column, ...], values: Any) -> Cells:
    return {column.name: _cell(column, values) for column in columns}


def _cell(column: Column, values: Any) -> dict[str, Any]:
    value = next(values)
    cell = {"type": column.type, "value": value}
    if column.base in ("enum", "set"):
        cell["num"] = next(values)
    elif value is not None and column.base == "float":
        cell["value"] = repr(single(float(value)))
    elif value is not None and column.base in (
        "binary",
        "varbinary",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
    ):
        cell["value"] = "0x" + value.lower()
    return cell
